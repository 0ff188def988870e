"""Examples divided alike for everyone, and what needs no learning to answer them."""

from dataclasses import replace
from pathlib import Path

import pytest

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample
from forebear.data.labeled.source import labeled_source
from forebear.data.labeled.split import split_leakage
from forebear.errors import InputError
from forebear.experiments.comparison.contenders import read_splits, task_from_train, with_test_split
from forebear.tasks.baselines import task_baseline
from forebear.tasks.classification import Classification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from labels import write


def source(train: Path, share: float = 0.25, **more):
    return with_test_split(labeled_source(str(train), **more)[0], share)


def test_a_share_is_held_out_by_what_examples_say(tmp_path: Path):
    made = read_splits(source(write(tmp_path / "train.tsv", 200)))
    assert len(made.train) + len(made.dev) + len(made.test) == 200
    assert 30 < len(made.test) < 70
    assert split_leakage(made.train, made.test).num_normalized == 0
    assert made.metadata["test"]["count"] == len(made.test)
    assert made.metadata["test"]["leaks"]["folded"] == 0
    assert any(note.startswith(f"{len(made.train)} examples") for note in made.notes)
    assert [note.split(" examples")[0] for note in made.notes if " is in the training data too" in note] == [
        f"dev: no text of {len(made.dev)}",
        f"test: no text of {len(made.test)}",
    ]
    again = read_splits(source(write(tmp_path / "longer.tsv", 220)))  # more rows move nobody
    assert {one.texts for one in made.test} <= {one.texts for one in again.test}


def test_with_a_dev_of_its_own_all_of_that_stays(tmp_path: Path):
    dev = write(tmp_path / "dev.tsv", 20, seed=1)
    made = read_splits(source(write(tmp_path / "train.tsv", 200), dev=str(dev)))
    assert (len(made.dev), len(made.train) + len(made.test)) == (20, 200)


def test_a_test_file_is_taken_whole_and_its_leaks_are_counted(tmp_path: Path):
    train = write(tmp_path / "train.tsv", 60)
    test = write(tmp_path / "test.tsv", 20, seed=1)
    test.write_text(test.read_text() + train.read_text().splitlines()[-1] + "\n")
    found = source(train, test=str(test))
    assert found.test_share == 0.0
    made = read_splits(found)
    assert len(made.test) == 21
    assert len(made.train) + len(made.dev) == 60
    assert made.metadata["test"]["leaks"]["folded"] in (0, 1)  # the last may choose weights instead of teaching


def test_test_examples_without_labels_do_not_count(tmp_path: Path):
    train, test = write(tmp_path / "train.tsv", 60), tmp_path / "test.tsv"
    test.write_text("text\nThe garden was fine.\n")
    with pytest.raises(InputError, match="no test example has a label"):
        read_splits(source(train, test=str(test)))


def test_nothing_to_hold_out(tmp_path: Path):
    with pytest.raises(InputError, match="too few"):
        read_splits(source(write(tmp_path / "train.tsv", 2)))
    with pytest.raises(InputError, match=r"--test-share is 1\.5"):
        source(write(tmp_path / "train.tsv", 2), share=1.5)


def test_the_majority_by_hand():
    train = [LabeledExample(("a",), "x"), LabeledExample(("b",), "x"), LabeledExample(("c",), "y")]
    test = [
        LabeledExample(("d",), "x"),
        LabeledExample(("e",), "y"),
        LabeledExample(("f",), "y"),
        LabeledExample(("g",), "z"),
    ]
    found = task_baseline(Classification(("x", "y")), train, test)
    assert (found.name, found.score) == ("majority", 0.25)
    assert "'x'" in found.meaning


def test_other_baselines_by_hand():
    several = [LabeledExample(("a",), ("x", "y")), LabeledExample(("b",), ("x",)), LabeledExample(("c",), ())]
    found = task_baseline(Classification(("x", "y"), kind="several"), several, several)
    assert found.score == pytest.approx(2 * 2 / (3 + 3))  # x said three times, twice rightly; meant x, y, x
    found = task_baseline(Classification(kind="number"), [], [])
    assert found.score == 0
    pair = [ChoiceExample("a", ("b", "c"), 0), ChoiceExample("a", ("b", "c", "d", "e"), 0)]
    found = task_baseline(MultipleChoice(), pair, pair)
    assert found.score == pytest.approx((1 / 2 + 1 / 4) / 2)
    found = task_baseline(SequenceTagging(("O",)), [], [])
    assert found.score == 0


def test_the_sliding_window_answers_without_learning():
    """Of what is not asked only one stretch is left: red; the second answer has one word of two."""
    test = [
        QuestionExample("What colour?", "colour red", (AnswerSpan(7, "red"),)),
        QuestionExample("颜色", "颜色红", (AnswerSpan(2, "红布"),)),
    ]
    found = task_baseline(QuestionAnswering(), [], test[:1])
    assert (found.name, found.score) == ("sliding window", 1.0)
    found = task_baseline(QuestionAnswering(), [], test[1:])
    assert found.score == pytest.approx(2 / 3)


def test_the_task_is_that_of_what_teaches(tmp_path: Path):
    found = source(write(tmp_path / "train.tsv", 60))
    made = read_splits(found)
    assert task_from_train(found, made).labels == ("bad", "good")
    only = replace(made, train=[QuestionExample("?", "p", ())])
    assert only.test == made.test
