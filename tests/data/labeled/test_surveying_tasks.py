"""A survey counts what there is, and warns of what spoils training: one class, few examples, contradictions, length."""

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
from forebear.data.labeled.source import detect_format, read_examples


def made(*pairs):
    return [
        LabeledExample((text,), label, ExampleLocation("f.tsv", line)) for line, (text, label) in enumerate(pairs, 1)
    ]


def facts(found):
    return json.loads(json.dumps(found.to_dict(), ensure_ascii=False, allow_nan=False))


def test_balance_lengths_and_majority():
    given = made(*((f"{'字' * n}", "甲" if n % 3 else "乙") for n in range(1, 101)), ("never labelled", None))
    told = facts(summarize_dataset(iter(given)))
    assert told["count"] == 101
    assert told["unlabelled"] == 1
    assert told["balance"] == {"甲": 67, "乙": 33}
    assert list(told["balance"]) == ["甲", "乙"]
    assert told["majority"] == 0.67
    lengths = [len(one.texts[0]) for one in given]
    assert told["characters"]["median"] == statistics.median(lengths)
    assert told["characters"]["percentile_95"] == np.percentile(lengths, 95)
    assert told["characters"]["longest"] == 100
    assert summarize_dataset(given).notes()[0].startswith("101 examples, 1 of them without a label")
    assert "labels: 甲 67, 乙 33" in summarize_dataset(given).notes()
    assert summarize_dataset(given).warnings() == []


def test_duplicates_and_contradictions_are_placed():
    found = summarize_dataset(
        made(("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("b", None), ("c", None), ("c", "x"))
    )
    assert (found.duplicates, found.contradictions) == (4, 1)
    assert found.contradiction_locations == ((ExampleLocation("f.tsv", 1), ExampleLocation("f.tsv", 3)),)
    assert facts(found)["contradicting"] == [[{"file": "f.tsv", "line": 1}, {"file": "f.tsv", "line": 3}]]
    assert any("contradict" in note and "f.tsv:3 and f.tsv:1" in note for note in found.warnings())
    nowhere = [LabeledExample(("a",), -1.0), LabeledExample(("a",), -2.0), LabeledExample(("a",), -1.0)]
    assert (summarize_dataset(nowhere).duplicates, summarize_dataset(nowhere).contradictions) == (2, 1)


def test_order_of_several_labels_is_no_contradiction():
    found = summarize_dataset(
        [LabeledExample(("a",), ("x", "y")), LabeledExample(("a",), ("y", "x")), LabeledExample(("a",), ("x",))]
    )
    assert (found.contradictions, found.balance) == (1, {"x": 3, "y": 2})
    assert found.majority == 1.0


def test_what_spoils_training_is_said():
    assert any("all are 'x'" in note for note in summarize_dataset(made(("a", "x"), ("b", "x"))).warnings())
    rare = summarize_dataset(made(*((str(n), "x" if n > 3 else "y") for n in range(20))))
    assert rare.warnings() == ["fewer than 5 examples of 'y'"]
    long = summarize_dataset(
        made(("a" * (LONG_TEXT + 1), "x"), ("b" * LONG_TEXT, "y"), *((str(n), "xy"[n % 2]) for n in range(20)))
    )
    (warning,) = long.warnings()
    assert warning.startswith("1 texts have more than 2,000 characters, the longest at f.tsv:1")
    names = [
        LabeledExample((str(n),), "x" if n % 2 else "y", ExampleLocation("f", None, str(n // 2))) for n in range(20)
    ]
    assert any("10 names" in note for note in summarize_dataset(names).warnings())


def test_numbers_tags_choices_and_answers():
    numbers = facts(summarize_dataset(made(("a", 1.0), ("b", 2.5), ("c", -0.5))))
    assert numbers["numbers"]["mean"] == 1.0
    assert numbers["numbers"]["deviation"] == pytest.approx(statistics.pstdev([1.0, 2.5, -0.5]))
    assert (numbers["majority"], numbers["balance"]) == (None, {})
    tagged = summarize_dataset([TaggedExample(("a", "b", "c"), ("B-PER", "I-PER", "O")), TaggedExample(("d",), None)])
    assert (tagged.balance, tagged.num_unlabeled, tagged.majority) == ({"PER": 2, "O": 1}, 1, 2 / 3)
    choices = summarize_dataset(
        [ChoiceExample("t", ("a", "b"), 0), ChoiceExample("u", ("a", "b"), 0), ChoiceExample("v", ("a", "b"))]
    )
    assert (choices.balance, choices.num_unlabeled) == ({"1": 2}, 1)
    assert "choice number 1 always is the right one" in choices.warnings()[0]
    asked = [
        QuestionExample("q", "the passage", (AnswerSpan(0, "the"), AnswerSpan(4, "passage"))),
        QuestionExample("q", "the passage", (AnswerSpan(4, "passage"),)),  # another person's words
        QuestionExample("q", "the passage", (AnswerSpan(1, "he"),)),
        QuestionExample("r", "the passage", ()),
        QuestionExample("s", "the passage", None),
    ]
    found = summarize_dataset(asked)
    assert (found.contradictions, found.duplicates, found.num_unlabeled) == (1, 2, 1)
    told = facts(found)
    assert (told["without_answer"], told["answers"]["longest"], told["majority"]) == (0.25, 7, None)
    assert told["characters"]["longest"] == 12


def test_nothing_is_surveyed_as_nothing():
    told = facts(summarize_dataset([]))
    assert (told["count"], told["balance"], told["majority"]) == (0, {}, None)
    assert summarize_dataset([]).notes()


def test_real_data_contradicts_itself(data):
    """Counted by the lines of the file itself."""
    path = data / "tasks/chnsenticorp/train.tsv"
    task, form, _ = detect_format(path)
    found = summarize_dataset(read_examples(path, task, form))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    first: dict[str, str] = {}
    for label, text in rows:
        first.setdefault(text, label)
    assert found.duplicates == len(rows) - len(first)
    assert found.contradictions == sum(first[text] != label for label, text in rows) > 0
    assert found.balance == {"0": 4801, "1": 4799}
