"""Splits of labeled data: equal texts stay together, proportions are met, train has every label, leakage is counted."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.labeled.examples import (
    ChoiceExample,
    ExampleLocation,
    LabeledExample,
    QuestionExample,
    TaggedExample,
)
from forebear.data.labeled.load import detect_format, read_examples
from forebear.data.labeled.split import split_examples, split_leakage
from forebear.errors import InputError


def numbered_examples(count, labels=2, file="train.tsv"):
    return [LabeledExample((f"第{n}句 text",), str(n % labels), ExampleLocation(file, n + 1)) for n in range(count)]


def test_proportions_are_met_and_order_is_kept():
    examples = numbered_examples(20_000)
    split = split_examples(examples, dev=0.1, test=0.2)
    assert len(split.dev) == pytest.approx(2000, abs=130)  # three standard deviations
    assert len(split.test) == pytest.approx(4000, abs=170)
    assert sorted([*split.train, *split.dev, *split.test], key=lambda example: example.location.line) == examples
    for side in (split.train, split.dev, split.test):
        assert [example.location.line for example in side] == sorted(example.location.line for example in side)
    assert split.notes == []


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    split, repeated, other = (split_examples(numbered_examples(1000), dev=0.5, seed=seed) for seed in (3, 3, 4))
    assert split == repeated
    assert len({example.texts for example in split.dev} & {example.texts for example in other.dev}) == pytest.approx(
        250, abs=50
    )


def test_split_is_the_same_in_every_version():
    """A hash that changes with the version or the process would move training examples into the test set."""
    assert [example.location.line for example in split_examples(numbered_examples(40), dev=0.2).dev] == [
        11,
        15,
        16,
        20,
        21,
        23,
        26,
        28,
        37,
    ]


def test_added_rows_do_not_move_others():
    few, many = numbered_examples(500), numbered_examples(700)
    before, after = split_examples(few, dev=0.2, test=0.2), split_examples([*reversed(many)], dev=0.2, test=0.2)
    for side in ("train", "dev", "test"):
        assert set(getattr(before, side)) <= set(getattr(after, side))


def example_labels(example):
    label = getattr(example, "label", None)
    return label if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


WORDS = st.sampled_from(["a", "A", "b", " a", "a ", "中", "B  b", "b B"])
EXAMPLES = st.one_of(
    st.builds(LabeledExample, st.tuples(WORDS), st.sampled_from(["x", "y", None, ("x", "z"), 1.5])),
    st.builds(LabeledExample, st.tuples(WORDS, WORDS), st.sampled_from(["x", "y"])),
    st.builds(
        TaggedExample, st.lists(WORDS, min_size=1, max_size=1).map(tuple), st.sampled_from([("B-X",), ("O",), None])
    ),
    st.builds(QuestionExample, WORDS, WORDS, st.just(())),
    st.builds(ChoiceExample, WORDS, st.tuples(WORDS, WORDS), st.sampled_from([0, 1])),
)


@settings(max_examples=60)
@given(
    st.lists(EXAMPLES, max_size=30), st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([0.0, 0.3]), st.integers(0, 9)
)
def test_split_loses_nothing_and_leaks_nothing(examples, dev, test, seed):
    split = split_examples(examples, dev=dev, test=test, seed=seed)
    assert sorted(map(repr, [*split.train, *split.dev, *split.test])) == sorted(map(repr, examples))
    assert split_leakage(split.train, split.dev).num_normalized == 0
    assert split_leakage([*split.train, *split.dev], split.test).num_normalized == 0
    if examples:
        assert split.train
    if not dev:
        assert not split.dev
    if not test:
        assert not split.test
    train_labels, all_labels = (
        {label for example in side for label in example_labels(example)} for side in (split.train, examples)
    )
    assert train_labels == all_labels


def test_questions_about_one_passage_stay_together():
    questions = [QuestionExample(f"q{n}", f"passage {n % 20}", ()) for n in range(200)]
    split = split_examples(questions, dev=0.3)
    assert {question.passage for question in split.train}.isdisjoint(question.passage for question in split.dev)
    assert len(split.dev) % 10 == 0
    assert split.dev


def test_swapped_pairs_stay_together():
    pairs = [LabeledExample((f"a{n}", f"b{n}"), "x") for n in range(50)]
    swapped = [LabeledExample((pair.texts[1].upper(), f" {pair.texts[0]}"), "x") for pair in pairs]
    split = split_examples([*pairs, *swapped], dev=0.5)
    assert len(split.dev) == 2 * len({frozenset(text.strip().casefold() for text in pair.texts) for pair in split.dev})


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_few_texts_leave_no_split_empty(count):
    for seed in range(20):
        split = split_examples(numbered_examples(count, labels=1), dev=0.1, test=0.1 if count > 2 else 0.0, seed=seed)
        assert split.train
        assert split.dev
        assert bool(split.test) == (count > 2)
    split = split_examples(numbered_examples(2, labels=1), dev=0.1, test=0.1)
    assert (len(split.train), len(split.dev), len(split.test)) == (1, 1, 0)
    assert "nothing is left for test" in split.notes[-1]


def test_single_text_goes_to_train():
    split = split_examples([LabeledExample(("a",), "x"), LabeledExample(("A ",), "y")], dev=0.9)
    assert len(split.train) == 2
    assert "nothing is left for dev" in split.notes[0]
    assert split_examples([], dev=0.5).train == []


def test_train_has_every_label():
    rare = [LabeledExample((f"rare {n}",), f"rare{n}") for n in range(30)]
    split = split_examples([*numbered_examples(100), *rare], dev=0.3, test=0.3)
    assert {example.label for example in split.train} >= {f"rare{n}" for n in range(30)}
    assert any("the label 'rare" in note and "moved to train" in note for note in split.notes)
    assert split.dev
    assert split.test
    multi_label = [LabeledExample((f"t{n}",), ("often", f"only{n}")) for n in range(20)]
    assert {label for example in split_examples(multi_label, dev=0.5).train for label in example.label} >= {
        f"only{n}" for n in range(20)
    }
    tagged = [TaggedExample((f"w{n}",), (f"B-K{n}",)) for n in range(20)]
    assert len(split_examples([*tagged, TaggedExample(("o",), ("O",))], dev=0.5).train) >= 20


def test_split_that_gave_away_its_only_example_gets_another():
    for seed in range(30):
        split = split_examples([*numbered_examples(6, labels=1), LabeledExample(("rare",), "rare")], dev=0.1, seed=seed)
        assert "rare" in {example.label for example in split.train}
        assert len(split.dev) >= 1


@pytest.mark.parametrize(("dev", "test"), [(1.0, 0.0), (-0.1, 0.0), (0.6, 0.4), (float("nan"), 0.0)])
def test_proportions_that_leave_nothing_to_train_on_are_refused(dev, test):
    with pytest.raises(InputError, match="the shares are"):
        split_examples(numbered_examples(3), dev=dev, test=test)


def test_leakage_is_counted_and_located():
    train = numbered_examples(100)
    test = [
        replace(train[3], location=ExampleLocation("test.tsv", 1)),
        LabeledExample(("第4句   TEXT",), "0", ExampleLocation("test.tsv", 2)),
        LabeledExample(("new",), "0", ExampleLocation("test.tsv", 3)),
    ]
    leakage = split_leakage(train, test)
    assert (leakage.count, leakage.num_exact, leakage.num_normalized) == (3, 1, 2)
    assert leakage.locations == (
        (ExampleLocation("test.tsv", 1), ExampleLocation("train.tsv", 4)),
        (ExampleLocation("test.tsv", 2), ExampleLocation("train.tsv", 5)),
    )
    assert json.loads(json.dumps(leakage.to_dict()))["places"][0]["train"] == {"file": "train.tsv", "line": 4}
    assert str(leakage).startswith(
        "2 of 3 examples (66.7%) have a text that is in the training data too, 1 letter by letter"
    )
    assert "test.tsv:1" in str(leakage)
    assert str(split_leakage(train, test[2:])) == "no text of 1 example is in the training data too"
    assert "passage" in str(split_leakage([QuestionExample("q", "p")], [QuestionExample("other", "p")]))
    assert split_leakage(train, train).num_exact == 100


def test_leakage_of_chnsenticorp_is_found(data):
    """ChnSentiCorp has reviews that occur in both files; counted by the lines of the files."""
    folder = data / "tasks/chnsenticorp"
    task, form, _ = detect_format(folder / "train.tsv")
    leakage = split_leakage(*(read_examples(folder / name, task, form) for name in ("train.tsv", "test.tsv")))
    lines = {name: (folder / name).read_text(encoding="utf-8").split("\n")[1:-1] for name in ("train.tsv", "test.tsv")}
    train_texts = {line.split("\t")[1] for line in lines["train.tsv"]}
    assert leakage.num_exact == sum(line.split("\t")[1] in train_texts for line in lines["test.tsv"]) == 331
