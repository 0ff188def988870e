"""Conclusions of a task comparison in words, against worked examples."""

from dataclasses import replace

import numpy as np
from task_comparisons import ALL_MODELS, BEST, BROKEN, LINEAR, MAJORITY, SMALL, comparison, row, trial

from forebear.experiments.comparison.report import table_cells, table_columns
from forebear.experiments.comparison.verdict import (
    comparison_notes,
    score_versus_reference,
    task_conclusions,
    task_headline,
)


def first_correct(count: int, total: int = 500) -> np.ndarray:
    return (np.arange(total) < count).astype(float)


EXAMPLE_SCORES = {
    "ngram": [first_correct(400)],
    "gpt": [first_correct(445)],
    "bert": [first_correct(450), first_correct(449)],
}


def test_task_conclusions_name_best_smallest_and_fastest():
    assert task_headline(ALL_MODELS) == "Bert does best, with accuracy 89.9"
    assert task_conclusions(ALL_MODELS) == [
        "Bert is best: accuracy 89.9 ± 0.1 over 2 seeds on 500 examples.",
        "The smallest that is within 1 point of the best is Gpt: 2 MB on disk, 89.1.",
        "The fastest that is within 1 point of the best is Bert: 11 ms for one, the best itself.",
    ]


def test_task_conclusions_without_results():
    assert task_headline(comparison(BROKEN)) == "Nothing has come to a result"
    assert task_conclusions(comparison(BROKEN)) == ["Nothing to compare yet: no model has answered the test."]
    (files_note,) = comparison_notes(comparison(BROKEN), {})
    assert files_note.startswith("train: 900 examples (d/train.tsv)")


def test_comparison_notes_state_noise_seeds_and_files():
    noise, alike, seeds, files = comparison_notes(ALL_MODELS, EXAMPLE_SCORES)
    assert "lies between 87.9 and 91.9" in noise
    # 5 of 500 more: within the noise; 50 of 500 more than the linear model: not.
    assert alike == "Gpt cannot be told from Bert: the difference is within the noise of this test."
    assert "One seed each" in seeds
    assert files.endswith("test: 500 examples (held out of d/train.tsv, 20%).")


def test_comparison_notes_name_rows_below_the_baselines():
    weak = row("gpt", 2018, trial(0.55, 10, 1.0))
    notes = comparison_notes(comparison(LINEAR, weak, BEST, baselines=(MAJORITY,)), EXAMPLE_SCORES)
    assert any(text.startswith("No better than majority (55.0, always 'good'): Gpt.") for text in notes)
    assert "No better than the linear model (80.0): Gpt." in notes
    assert not any(
        "No better" in text
        for text in comparison_notes(comparison(LINEAR, BEST, baselines=(MAJORITY,)), EXAMPLE_SCORES)
    )


def test_comparison_notes_state_leakage_and_files():
    metadata = {**ALL_MODELS.facts, "leaks": {"folded": 7, "count": 500, "of": "passage"}}
    metadata["files"] = {"train": "a.tsv", "dev": "b.tsv", "test": "c.tsv"}
    *_, files_note, leakage_note = comparison_notes(replace(ALL_MODELS, facts=metadata), EXAMPLE_SCORES)
    assert files_note == "train: 900 examples (a.tsv); dev: 100 examples (b.tsv); test: 500 examples (c.tsv)."
    assert leakage_note.startswith("7 of 500 test examples have a passage that is in the training examples too")


def ablation_comparison():
    full = row("bert", 2018, trial(0.9, 100, 1.0), title="BERT as it is")
    left_to_right = row(
        "left-to-right", 2018, trial(0.8, 100, 1.0), title="left to right", differs="sees the past", papers="P"
    )
    without_nsp = row("without-nsp", 2018, trial(0.902, 100, 1.0), title="without next sentence")
    comparison_without_differences = comparison(full, without_nsp, left_to_right, whole="bert")
    example_scores = {
        "bert": [first_correct(450)],
        "left-to-right": [first_correct(400)],
        "without-nsp": [first_correct(451)],
    }
    return replace(
        comparison_without_differences,
        rows=tuple(
            replace(
                ablation_row,
                versus=score_versus_reference(comparison_without_differences, ablation_row, example_scores),
            )
            for ablation_row in comparison_without_differences.rows
        ),
    )


def test_ablation_conclusions_state_difference_and_noise():
    ablations = ablation_comparison()
    assert task_headline(ablations) == "What BERT's parts are worth for classification"
    assert ablations.rows[0].versus is None
    nsp_text, left_to_right_text = task_conclusions(ablations)
    assert nsp_text == (
        "BERT without next sentence: 0.2 points more than the whole, within the noise of ± 0.7:"
        " this budget and test say nothing about it."
    )
    assert left_to_right_text.startswith("BERT left to right: 10.0 points less than the whole (noise ± ")
    assert table_columns(ablations)[:2] == ["accuracy", "to the whole"]
    assert [str(table_cells(ablation_row, ablations)[1]) for ablation_row in ablations.rows] == [
        "—",
        "+0.2 ± 0.7",
        "−10.0 ± 2.8",
    ]


def test_ablation_with_equal_score_is_within_noise():
    ablations = ablation_comparison()
    equal_row = replace(ablations.rows[1], versus=(0.0, 0.004))
    (conclusion,) = task_conclusions(replace(ablations, rows=(ablations.rows[0], equal_row)))
    assert conclusion.startswith("BERT without next sentence: as many points as the whole, within the noise of ± 0.4:")


def test_task_table_marks_the_pareto_front():
    names = table_columns(ALL_MODELS)
    linear, small, best, failed = (
        dict(zip(names, map(str, table_cells(table_row, ALL_MODELS)), strict=True)) for table_row in ALL_MODELS.rows
    )
    assert best["accuracy"] == "89.9 ± 0.1"
    assert linear["on disk"] == "100 kB ◆"
    assert (small["on disk"], small["one takes"]) == ("2 MB ◆", "20 ms")
    assert best["one takes"] == "11 ms ◆"
    assert set(failed.values()) == {"—"}
    assert SMALL in ALL_MODELS.scored_rows
