"""Train, dev and test splits shared by all rows of a comparison, and baselines of a task."""

from dataclasses import replace
from pathlib import Path

import pytest

from forebear.data.labeled.examples import AnswerSpan, ChoiceExample, LabeledExample, QuestionExample
from forebear.data.labeled.labeled_source import labeled_source
from forebear.data.labeled.split import split_leakage
from forebear.errors import InputError
from forebear.experiments.comparison.participants import read_splits, task_from_train, with_test_split
from forebear.tasks.baselines import task_baseline
from forebear.tasks.classification import Classification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.question_answering import QuestionAnswering
from forebear.tasks.tagging import SequenceTagging
from review_files import write_reviews


def source(train: Path, share: float = 0.25, **options):
    return with_test_split(labeled_source(str(train), **options)[0], share)


def test_test_split_is_held_out_by_content_without_leakage(tmp_path: Path):
    splits = read_splits(source(write_reviews(tmp_path / "train.tsv", 200)))
    assert len(splits.train) + len(splits.dev) + len(splits.test) == 200
    assert 30 < len(splits.test) < 70
    assert split_leakage(splits.train, splits.test).num_normalized == 0
    assert splits.metadata["test"]["count"] == len(splits.test)
    assert splits.metadata["test"]["leaks"]["folded"] == 0
    assert any(note.startswith(f"{len(splits.train)} examples") for note in splits.notes)
    assert [note.split(" examples")[0] for note in splits.notes if " is in the training data too" in note] == [
        f"dev: no text of {len(splits.dev)}",
        f"test: no text of {len(splits.test)}",
    ]
    longer_splits = read_splits(
        source(write_reviews(tmp_path / "longer.tsv", 220))
    )  # more examples move none between splits
    assert {example.texts for example in splits.test} <= {example.texts for example in longer_splits.test}


def test_given_dev_file_is_used_whole(tmp_path: Path):
    dev = write_reviews(tmp_path / "dev.tsv", 20, seed=1)
    splits = read_splits(source(write_reviews(tmp_path / "train.tsv", 200), dev=str(dev)))
    assert (len(splits.dev), len(splits.train) + len(splits.test)) == (20, 200)


def test_given_test_file_is_used_whole_and_its_leakage_counted(tmp_path: Path):
    train = write_reviews(tmp_path / "train.tsv", 60)
    test = write_reviews(tmp_path / "test.tsv", 20, seed=1)
    test.write_text(test.read_text() + train.read_text().splitlines()[-1] + "\n")
    examples_source = source(train, test=str(test))
    assert examples_source.test_share == 0.0
    splits = read_splits(examples_source)
    assert len(splits.test) == 21
    assert len(splits.train) + len(splits.dev) == 60
    assert splits.metadata["test"]["leaks"]["folded"] in (0, 1)  # the last example may be in dev instead of train


def test_test_file_without_labels_is_refused(tmp_path: Path):
    train, test = write_reviews(tmp_path / "train.tsv", 60), tmp_path / "test.tsv"
    test.write_text("text\nThe garden was fine.\n")
    with pytest.raises(InputError, match="no test example has a label"):
        read_splits(source(train, test=str(test)))


def test_too_few_examples_and_invalid_test_share_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="too few"):
        read_splits(source(write_reviews(tmp_path / "train.tsv", 2)))
    with pytest.raises(InputError, match=r"--test-share is 1\.5"):
        source(write_reviews(tmp_path / "train.tsv", 2), share=1.5)


def test_majority_baseline_matches_worked_example():
    train = [LabeledExample(("a",), "x"), LabeledExample(("b",), "x"), LabeledExample(("c",), "y")]
    test = [
        LabeledExample(("d",), "x"),
        LabeledExample(("e",), "y"),
        LabeledExample(("f",), "y"),
        LabeledExample(("g",), "z"),
    ]
    baseline = task_baseline(Classification(("x", "y")), train, test)
    assert (baseline.name, baseline.score) == ("majority", 0.25)
    assert "'x'" in baseline.meaning


def test_baselines_of_other_tasks_match_worked_examples():
    multi_label = [LabeledExample(("a",), ("x", "y")), LabeledExample(("b",), ("x",)), LabeledExample(("c",), ())]
    baseline = task_baseline(Classification(("x", "y"), kind="several"), multi_label, multi_label)
    assert baseline.score == pytest.approx(2 * 2 / (3 + 3))  # x predicted three times, twice correctly; gold x, y, x
    baseline = task_baseline(Classification(kind="number"), [], [])
    assert baseline.score == 0
    choices = [ChoiceExample("a", ("b", "c"), 0), ChoiceExample("a", ("b", "c", "d", "e"), 0)]
    baseline = task_baseline(MultipleChoice(), choices, choices)
    assert baseline.score == pytest.approx((1 / 2 + 1 / 4) / 2)
    baseline = task_baseline(SequenceTagging(("O",)), [], [])
    assert baseline.score == 0


def test_sliding_window_baseline_matches_worked_example():
    """Without the question's words only "red" is left; the second answer has one of two characters."""
    test = [
        QuestionExample("What colour?", "colour red", (AnswerSpan(7, "red"),)),
        QuestionExample("颜色", "颜色红", (AnswerSpan(2, "红布"),)),
    ]
    baseline = task_baseline(QuestionAnswering(), [], test[:1])
    assert (baseline.name, baseline.score) == ("sliding window", 1.0)
    baseline = task_baseline(QuestionAnswering(), [], test[1:])
    assert baseline.score == pytest.approx(2 / 3)


def test_task_is_built_from_the_training_examples(tmp_path: Path):
    example_source = source(write_reviews(tmp_path / "train.tsv", 60))
    splits = read_splits(example_source)
    assert task_from_train(example_source, splits).labels == ("bad", "good")
    changed_splits = replace(splits, train=[QuestionExample("?", "p", ())])
    assert changed_splits.test == splits.test
