"""What a comparison on a task comes to, in words; worked by hand."""

from dataclasses import replace

import numpy as np
from task_comparisons import ALL, BEST, BROKEN, LINEAR, MAJORITY, SMALL, comparison, row, trial

from forebear.experiments.comparison.report import table_cells, table_columns
from forebear.experiments.comparison.verdict import (
    comparison_notes,
    score_versus_reference,
    task_conclusions,
    task_headline,
)


def right(count: int, of: int = 500) -> np.ndarray:
    return (np.arange(of) < count).astype(float)


PARTS = {"ngram": [right(400)], "gpt": [right(445)], "bert": [right(450), right(449)]}


def test_the_words():
    assert task_headline(ALL) == "Bert does best, with accuracy 89.9"
    assert task_conclusions(ALL) == [
        "Bert is best: accuracy 89.9 ± 0.1 over 2 seeds on 500 examples.",
        "The smallest that is within 1 point of the best is Gpt: 2 MB on disk, 89.1.",
        "The fastest that is within 1 point of the best is Bert: 11 ms for one, the best itself.",
    ]


def test_the_words_where_nothing_came_out():
    assert task_headline(comparison(BROKEN)) == "Nothing has come to a result"
    assert task_conclusions(comparison(BROKEN)) == ["Nothing to compare yet: no model has answered the test."]
    (files,) = comparison_notes(comparison(BROKEN), {})
    assert files.startswith("train: 900 examples (d/train.tsv)")


def test_honest_remarks():
    noise, alike, seeds, files = comparison_notes(ALL, PARTS)
    assert "lies between 87.9 and 91.9" in noise
    # 5 of 500 more: within the noise; 50 of 500 more than the linear model: not.
    assert alike == "Gpt cannot be told from Bert: the difference is within the noise of this test."
    assert "One seed each" in seeds
    assert files.endswith("test: 500 examples (held out of d/train.tsv, 20%).")


def test_below_what_needs_no_learning():
    poor = row("gpt", 2018, trial(0.55, 10, 1.0))
    told = comparison_notes(comparison(LINEAR, poor, BEST, baselines=(MAJORITY,)), PARTS)
    assert any(text.startswith("No better than majority (55.0, always 'good'): Gpt.") for text in told)
    assert "No better than the linear model (80.0): Gpt." in told
    assert not any(
        "No better" in text for text in comparison_notes(comparison(LINEAR, BEST, baselines=(MAJORITY,)), PARTS)
    )


def test_leaks_and_files_are_told():
    facts = {**ALL.facts, "leaks": {"folded": 7, "count": 500, "of": "passage"}}
    facts["files"] = {"train": "a.tsv", "dev": "b.tsv", "test": "c.tsv"}
    *_, files, leaks = comparison_notes(replace(ALL, facts=facts), PARTS)
    assert files == "train: 900 examples (a.tsv); dev: 100 examples (b.tsv); test: 500 examples (c.tsv)."
    assert leaks.startswith("7 of 500 test examples have a passage that is in the training examples too")


def ablated():
    whole = row("bert", 2018, trial(0.9, 100, 1.0), title="BERT as it is")
    less = row("left-to-right", 2018, trial(0.8, 100, 1.0), title="left to right", differs="sees the past", papers="P")
    alike = row("without-nsp", 2018, trial(0.902, 100, 1.0), title="without next sentence")
    made = comparison(whole, alike, less, whole="bert")
    parts = {"bert": [right(450)], "left-to-right": [right(400)], "without-nsp": [right(451)]}
    return replace(made, rows=tuple(replace(one, versus=score_versus_reference(made, one, parts)) for one in made.rows))


def test_variants_against_the_whole():
    made = ablated()
    assert task_headline(made) == "What BERT's parts are worth for classification"
    assert made.rows[0].versus is None
    same, less = task_conclusions(made)
    assert same == (
        "BERT without next sentence: 0.2 points more than the whole, within the noise of ± 0.7:"
        " this budget and test say nothing about it."
    )
    assert less.startswith("BERT left to right: 10.0 points less than the whole (noise ± ")
    assert table_columns(made)[:2] == ["accuracy", "to the whole"]
    assert [str(table_cells(one, made)[1]) for one in made.rows] == ["—", "+0.2 ± 0.7", "−10.0 ± 2.8"]


def test_a_variant_that_is_the_same():
    made = ablated()
    same = replace(made.rows[1], versus=(0.0, 0.004))
    (told,) = task_conclusions(replace(made, rows=(made.rows[0], same)))
    assert told.startswith("BERT without next sentence: as many points as the whole, within the noise of ± 0.4:")


def test_the_table():
    names = table_columns(ALL)
    linear, small, best, broken = (dict(zip(names, map(str, table_cells(one, ALL)), strict=True)) for one in ALL.rows)
    assert best["accuracy"] == "89.9 ± 0.1"
    assert linear["on disk"] == "100 kB ◆"
    assert (small["on disk"], small["one takes"]) == ("2 MB ◆", "20 ms")
    assert best["one takes"] == "11 ms ◆"
    assert set(broken.values()) == {"—"}
    assert SMALL in ALL.scored_rows
