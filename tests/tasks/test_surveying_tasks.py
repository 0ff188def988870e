"""A survey counts what there is, and warns of what spoils training: one class, few examples, contradictions, length."""

import json
import statistics

import numpy as np
import pytest

from forebear.tasks.examples import Asked, Choices, Labelled, Place, Span, Tagged
from forebear.tasks.files.reading import examples, guess
from forebear.tasks.files.surveying import LONG, survey


def made(*pairs):
    return [Labelled((text,), label, Place("f.tsv", line)) for line, (text, label) in enumerate(pairs, 1)]


def facts(found):
    return json.loads(json.dumps(found.facts(), ensure_ascii=False, allow_nan=False))


def test_balance_lengths_and_majority():
    given = made(*((f"{'字' * n}", "甲" if n % 3 else "乙") for n in range(1, 101)), ("never labelled", None))
    told = facts(survey(iter(given)))
    assert told["count"] == 101
    assert told["unlabelled"] == 1
    assert told["balance"] == {"甲": 67, "乙": 33}
    assert list(told["balance"]) == ["甲", "乙"]
    assert told["majority"] == 0.67
    lengths = [len(one.texts[0]) for one in given]
    assert told["characters"]["median"] == statistics.median(lengths)
    assert told["characters"]["percentile_95"] == np.percentile(lengths, 95)
    assert told["characters"]["longest"] == 100
    assert survey(given).notes()[0].startswith("101 examples, 1 of them without a label")
    assert "labels: 甲 67, 乙 33" in survey(given).notes()
    assert survey(given).warnings() == []


def test_duplicates_and_contradictions_are_placed():
    found = survey(made(("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("b", None), ("c", None), ("c", "x")))
    assert (found.duplicates, found.contradictions) == (4, 1)
    assert found.contradicting == ((Place("f.tsv", 1), Place("f.tsv", 3)),)
    assert facts(found)["contradicting"] == [[{"file": "f.tsv", "line": 1}, {"file": "f.tsv", "line": 3}]]
    assert any("contradict" in note and "f.tsv:3 and f.tsv:1" in note for note in found.warnings())
    nowhere = [Labelled(("a",), -1.0), Labelled(("a",), -2.0), Labelled(("a",), -1.0)]
    assert (survey(nowhere).duplicates, survey(nowhere).contradictions) == (2, 1)


def test_order_of_several_labels_is_no_contradiction():
    found = survey([Labelled(("a",), ("x", "y")), Labelled(("a",), ("y", "x")), Labelled(("a",), ("x",))])
    assert (found.contradictions, found.balance) == (1, {"x": 3, "y": 2})
    assert found.majority == 1.0


def test_what_spoils_training_is_said():
    assert any("all are 'x'" in note for note in survey(made(("a", "x"), ("b", "x"))).warnings())
    rare = survey(made(*((str(n), "x" if n > 3 else "y") for n in range(20))))
    assert rare.warnings() == ["fewer than 5 examples of 'y'"]
    long = survey(made(("a" * (LONG + 1), "x"), ("b" * LONG, "y"), *((str(n), "xy"[n % 2]) for n in range(20))))
    (warning,) = long.warnings()
    assert warning.startswith("1 texts have more than 2,000 characters, the longest at f.tsv:1")
    names = [Labelled((str(n),), "x" if n % 2 else "y", Place("f", None, str(n // 2))) for n in range(20)]
    assert any("10 names" in note for note in survey(names).warnings())


def test_numbers_tags_choices_and_answers():
    numbers = facts(survey(made(("a", 1.0), ("b", 2.5), ("c", -0.5))))
    assert numbers["numbers"]["mean"] == 1.0
    assert numbers["numbers"]["deviation"] == pytest.approx(statistics.pstdev([1.0, 2.5, -0.5]))
    assert (numbers["majority"], numbers["balance"]) == (None, {})
    tagged = survey([Tagged(("a", "b", "c"), ("B-PER", "I-PER", "O")), Tagged(("d",), None)])
    assert (tagged.balance, tagged.unlabelled, tagged.majority) == ({"PER": 2, "O": 1}, 1, 2 / 3)
    choices = survey([Choices("t", ("a", "b"), 0), Choices("u", ("a", "b"), 0), Choices("v", ("a", "b"))])
    assert (choices.balance, choices.unlabelled) == ({"1": 2}, 1)
    assert "choice number 1 always is the right one" in choices.warnings()[0]
    asked = [
        Asked("q", "the passage", (Span(0, "the"), Span(4, "passage"))),
        Asked("q", "the passage", (Span(4, "passage"),)),  # another person's words
        Asked("q", "the passage", (Span(1, "he"),)),
        Asked("r", "the passage", ()),
        Asked("s", "the passage", None),
    ]
    found = survey(asked)
    assert (found.contradictions, found.duplicates, found.unlabelled) == (1, 2, 1)
    told = facts(found)
    assert (told["without_answer"], told["answers"]["longest"], told["majority"]) == (0.25, 7, None)
    assert told["characters"]["longest"] == 12


def test_nothing_is_surveyed_as_nothing():
    told = facts(survey([]))
    assert (told["count"], told["balance"], told["majority"]) == (0, {}, None)
    assert survey([]).notes()


def test_real_data_contradicts_itself(data):
    """Counted by the lines of the file itself."""
    path = data / "tasks/chnsenticorp/train.tsv"
    task, form, _ = guess(path)
    found = survey(examples(path, task, form))
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    first: dict[str, str] = {}
    for label, text in rows:
        first.setdefault(text, label)
    assert found.duplicates == len(rows) - len(first)
    assert found.contradictions == sum(first[text] != label for label, text in rows) > 0
    assert found.balance == {"0": 4801, "1": 4799}
