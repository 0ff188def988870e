"""Dataset statistics count classes, lengths and duplicates, and warn of rare labels, conflicts and long texts."""

import json
import statistics

import numpy as np
import pytest

from forebear.data.labeled.dataset_stats import LONG_TEXT, summarize_dataset
from forebear.data.labeled.examples import (
    AnswerSpan,
    ChoiceExample,
    ExampleLocation,
    LabeledExample,
    QuestionExample,
    TaggedExample,
)
from forebear.data.labeled.load import detect_format, read_examples


def labeled_examples(*pairs):
    return [
        LabeledExample((text,), label, ExampleLocation("f.tsv", line)) for line, (text, label) in enumerate(pairs, 1)
    ]


def stats_json(stats):
    return json.loads(json.dumps(stats.to_dict(), ensure_ascii=False, allow_nan=False))


def test_class_counts_lengths_and_majority_are_exact():
    examples = labeled_examples(
        *((f"{'字' * n}", "甲" if n % 3 else "乙") for n in range(1, 101)), ("never labelled", None)
    )
    stats = stats_json(summarize_dataset(iter(examples)))
    assert stats["count"] == 101
    assert stats["unlabelled"] == 1
    assert stats["balance"] == {"甲": 67, "乙": 33}
    assert list(stats["balance"]) == ["甲", "乙"]
    assert stats["majority"] == 0.67
    lengths = [len(example.texts[0]) for example in examples]
    assert stats["characters"]["median"] == statistics.median(lengths)
    assert stats["characters"]["percentile_95"] == np.percentile(lengths, 95)
    assert stats["characters"]["longest"] == 100
    assert summarize_dataset(examples).notes()[0].startswith("101 examples, 1 of them without a label")
    assert "labels: 甲 67, 乙 33" in summarize_dataset(examples).notes()
    assert summarize_dataset(examples).warnings() == []


def test_duplicates_and_label_conflicts_are_located():
    stats = summarize_dataset(
        labeled_examples(("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("b", None), ("c", None), ("c", "x"))
    )
    assert (stats.duplicates, stats.label_conflicts) == (4, 1)
    assert stats.conflict_locations == ((ExampleLocation("f.tsv", 1), ExampleLocation("f.tsv", 3)),)
    assert stats_json(stats)["contradicting"] == [[{"file": "f.tsv", "line": 1}, {"file": "f.tsv", "line": 3}]]
    assert any("contradict" in note and "f.tsv:3 and f.tsv:1" in note for note in stats.warnings())
    unlocated = [LabeledExample(("a",), -1.0), LabeledExample(("a",), -2.0), LabeledExample(("a",), -1.0)]
    assert (summarize_dataset(unlocated).duplicates, summarize_dataset(unlocated).label_conflicts) == (2, 1)


def test_order_of_multiple_labels_is_no_conflict():
    stats = summarize_dataset(
        [LabeledExample(("a",), ("x", "y")), LabeledExample(("a",), ("y", "x")), LabeledExample(("a",), ("x",))]
    )
    assert (stats.label_conflicts, stats.label_counts) == (1, {"x": 3, "y": 2})
    assert stats.majority_accuracy == 1.0


def test_warnings_name_single_class_rare_labels_and_long_texts():
    assert any("all are 'x'" in note for note in summarize_dataset(labeled_examples(("a", "x"), ("b", "x"))).warnings())
    rare = summarize_dataset(labeled_examples(*((str(n), "x" if n > 3 else "y") for n in range(20))))
    assert rare.warnings() == ["fewer than 5 examples of 'y'"]
    long = summarize_dataset(
        labeled_examples(
            ("a" * (LONG_TEXT + 1), "x"), ("b" * LONG_TEXT, "y"), *((str(n), "xy"[n % 2]) for n in range(20))
        )
    )
    (warning,) = long.warnings()
    assert warning.startswith("1 texts have more than 2,000 characters, the longest at f.tsv:1")
    names = [
        LabeledExample((str(n),), "x" if n % 2 else "y", ExampleLocation("f", None, str(n // 2))) for n in range(20)
    ]
    assert any("10 names" in note for note in summarize_dataset(names).warnings())


def test_stats_of_numbers_tags_choices_and_answers():
    numbers = stats_json(summarize_dataset(labeled_examples(("a", 1.0), ("b", 2.5), ("c", -0.5))))
    assert numbers["numbers"]["mean"] == 1.0
    assert numbers["numbers"]["deviation"] == pytest.approx(statistics.pstdev([1.0, 2.5, -0.5]))
    assert (numbers["majority"], numbers["balance"]) == (None, {})
    tagged = summarize_dataset([TaggedExample(("a", "b", "c"), ("B-PER", "I-PER", "O")), TaggedExample(("d",), None)])
    assert (tagged.label_counts, tagged.num_unlabeled, tagged.majority_accuracy) == ({"PER": 2, "O": 1}, 1, 2 / 3)
    choices = summarize_dataset(
        [ChoiceExample("t", ("a", "b"), 0), ChoiceExample("u", ("a", "b"), 0), ChoiceExample("v", ("a", "b"))]
    )
    assert (choices.label_counts, choices.num_unlabeled) == ({"1": 2}, 1)
    assert "choice number 1 always is the right one" in choices.warnings()[0]
    questions = [
        QuestionExample("q", "the passage", (AnswerSpan(0, "the"), AnswerSpan(4, "passage"))),
        QuestionExample("q", "the passage", (AnswerSpan(4, "passage"),)),  # another person's words
        QuestionExample("q", "the passage", (AnswerSpan(1, "he"),)),
        QuestionExample("r", "the passage", ()),
        QuestionExample("s", "the passage", None),
    ]
    stats = summarize_dataset(questions)
    assert (stats.label_conflicts, stats.duplicates, stats.num_unlabeled) == (1, 2, 1)
    answer_stats = stats_json(stats)
    assert (answer_stats["without_answer"], answer_stats["answers"]["longest"], answer_stats["majority"]) == (
        0.25,
        7,
        None,
    )
    assert answer_stats["characters"]["longest"] == 12


def test_stats_of_no_examples_are_empty():
    stats = stats_json(summarize_dataset([]))
    assert (stats["count"], stats["balance"], stats["majority"]) == (0, {}, None)
    assert summarize_dataset([]).notes()


def test_duplicates_and_conflicts_of_chnsenticorp_match_its_lines(data):
    """Compared with counts from the lines of the file."""
    path = data / "tasks/chnsenticorp/train.tsv"
    task, form, _ = detect_format(path)
    stats = summarize_dataset(read_examples(path, task, form))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    first: dict[str, str] = {}
    for label, text in rows:
        first.setdefault(text, label)
    assert stats.duplicates == len(rows) - len(first)
    assert stats.label_conflicts == sum(first[text] != label for label, text in rows) > 0
    assert stats.label_counts == {"0": 4801, "1": 4799}
