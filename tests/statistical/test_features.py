"""Features of rows: those of scikit-learn's vectoriser, and cases worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from forebear.data.unicode import SHAPES, word_shapes
from forebear.errors import ForebearError, InputError
from forebear.statistical import linear_features
from forebear.statistical.feature_matrix import SparseMatrix
from forebear.statistical.linear_features import OUTSIDE, FeatureName, TextFeatures, TokenRows, WordFeatures
from forebear.statistical.passage_features import FIGURES, PassageFeatures

NONE = np.zeros(0, np.int64)


def rows_of(*rows: Sequence[int], segments: Sequence[Sequence[int]] | None = None) -> TokenRows:
    inputs = {"tokens": np.concatenate([NONE, *map(np.array, rows)]).astype(np.int32)}
    inputs["lengths"] = np.array([len(row) for row in rows])
    if segments is not None:
        inputs["segments"] = np.concatenate([NONE, *map(np.array, segments)])
    return TokenRows.from_rows(inputs, vocabulary=100, segmented=segments is not None)


def chance_rows(count: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [(rng.zipf(1.4, rng.integers(0, 12)) % 30).tolist() for _ in range(count)]


def table(matrix: SparseMatrix) -> np.ndarray:
    told = np.zeros(matrix.shape)
    for number in range(len(told)):
        columns, values = matrix.get_row(number)
        np.add.at(told[number], columns, values)
    return told


def learned(rows: TokenRows, order: int = 2, pairs: bool = False, skipped: Sequence[int] = (), least: int | None = 1):
    return TextFeatures.fit(
        rows, vocabulary=100, order=order, pairs=pairs, skipped=np.array(skipped, np.int64), min_count=least
    )


@pytest.mark.parametrize(("order", "least"), [(1, 1), (2, 1), (3, 2)])
def test_texts_are_as_scikit_learn_sees_them(monkeypatch, order: int, least: int):
    vectoriser = pytest.importorskip("sklearn.feature_extraction.text").TfidfVectorizer
    train, test = chance_rows(60, 0), chance_rows(20, 1)
    often: dict[tuple[int, ...], int] = {}

    def ngrams(row: list[int]) -> list[tuple[int, ...]]:
        return [tuple(row[at : at + n]) for n in range(1, order + 1) for at in range(len(row) - n + 1)]

    for row in train:
        for ngram in ngrams(row):
            often[ngram] = often.get(ngram, 0) + 1
    there = vectoriser(analyzer=lambda row: [x for x in ngrams(row) if often.get(x, 0) >= least], binary=True)
    expected_train, expected = there.fit_transform(train).toarray(), there.transform(test).toarray()
    monkeypatch.setattr(linear_features, "CHUNK", 7)  # rows are looked at a few at a time, and that changes nothing
    features = learned(rows_of(*train), order, least=least)
    names = {features.feature(column).tokens: column for column in range(features.width)}
    columns = [names[ngram] for ngram in sorted(there.vocabulary_, key=there.vocabulary_.__getitem__)]
    for rows, wanted in ((train, expected_train), (test, expected)):
        mine = table(features.transform(rows_of(*rows)))
        assert np.allclose(mine[:, columns], wanted, atol=1e-6)
        assert np.count_nonzero(mine) == np.count_nonzero(wanted)


def test_ids_that_mean_nothing_are_not_there():
    plain, marked = rows_of([5, 6], [6, 7]), rows_of([1, 5, 6, 2], [1, 6, 7, 2])
    assert np.array_equal(
        table(learned(marked, skipped=[1, 2]).transform(marked)),
        table(learned(plain).transform(plain)),
    )


def test_much_text_leaves_out_what_occurs_once(monkeypatch):
    rows = rows_of([5, 6], [5, 6], [5, 7])
    assert (learned(rows, least=None).weights > 0).sum() == 5  # 5, 6, 7, 5 6, 5 7
    monkeypatch.setattr("forebear.statistical.linear_features.LARGE_TEXT_TOKENS", 3)
    assert (learned(rows, least=None).weights > 0).sum() == 3  # 5, 6, 5 6


def test_a_pair_is_three_spaces_and_what_they_share():
    # 我 很 喜欢 你 / 我 很 中意 你
    rows = rows_of([10, 11, 12, 13, 10, 11, 14, 13], segments=[[0, 0, 0, 0, 1, 1, 1, 1]])
    features = learned(rows, pairs=True)
    columns, values = features.transform(rows).get_row(0)
    told = {features.feature(column): value for column, value in zip(columns.tolist(), values.tolist(), strict=True)}
    where = {feature.tokens: feature.field for feature in told if feature.tokens}
    assert where == {
        (10,): "both", (11,): "both", (13,): "both", (12,): "first", (14,): "second", (10, 11): "both",
        (11, 12): "first", (12, 13): "first", (11, 14): "second", (14, 13): "second",
    }  # fmt: skip
    figures = {feature.field: value for feature, value in told.items() if not feature.tokens}
    assert figures == pytest.approx(
        {
            "shared of all 1-grams": 3 / 5, "shared of the first's 1-grams": 3 / 4,
            "shared of the second's 1-grams": 3 / 4, "shared of all 2-grams": 1 / 5,
            "shared of the first's 2-grams": 1 / 3, "shared of the second's 2-grams": 1 / 3,
            "length of the shorter by the longer": 1.0,
        }
    )  # fmt: skip


def test_words_nobody_taught_are_shared_too():
    teach = rows_of([10, 11, 10, 12], segments=[[0, 0, 1, 1]])
    features = learned(teach, order=1, pairs=True)
    same = rows_of([50, 51, 50, 51, 51], segments=[[0, 0, 1, 1, 1]])
    columns, values = features.transform(same).get_row(0)
    figures = dict(zip((features.feature(column).field for column in columns.tolist()), values.tolist(), strict=True))
    assert figures["shared of all 1-grams"] == 1
    assert figures["length of the shorter by the longer"] == pytest.approx(2 / 3)


def test_ngrams_do_not_reach_into_the_other_text_or_row():
    rows = rows_of([10, 11], [12, 13], segments=[[0, 1], [0, 1]])
    assert learned(rows, pairs=True).ngrams.count(2) == 0


def test_rows_of_one_example_are_averaged():
    rows = rows_of([10, 11], [10], [12])
    matrix = learned(rows).transform(rows)
    averaged, alone = table(matrix.average_groups(np.array([0, 0, 1]))), table(matrix)
    assert np.allclose(averaged, [(alone[0] + alone[1]) / 2, alone[2]])


def test_how_tokens_are_written_by_hand():
    written = {"The": "Capital", "ran": "small", "USA": "CAPITALS", "iPhone": "mIXED", "##son": "within a word"}
    written |= {
        "2024": "digits",
        "B2B": "l3tt3rs",
        "!": "stop",
        "……": "stop",
        "，": "mark",
        "\u0120": "mark",
        "@": "mark",
        "##": "mark",
        "中": "other",
        "I": "Capital",
    }
    numbers = word_shapes(written)
    assert [SHAPES[number] for number in numbers] == [*written.values(), "outside"]


def test_shapes_around_a_word_are_features():
    """Ids 0 to 2 are small, 3 has a capital; nothing stands before the first."""
    rows = rows_of([3, 0])
    shapes = word_shapes(["a", "b", "c", "D"])
    features = WordFeatures.fit(rows, np.arange(2), vocabulary=4, skipped=np.array([]), min_count=1, shapes=shapes)
    matrix = features.transform(rows, np.array([0]))
    named = [features.feature(column) for column in matrix.get_row(0)[0].tolist()]
    told = [feature.field for feature in named if not feature.tokens]
    assert told[:3] == ["written outside, at -1", "written Capital, at +0", "written small, at +1"]
    assert told[3:] == ["written outside, Capital, small, around it"]
    assert matrix.shape[1] == features.width
    last = features.feature(features.width - 1)
    assert last.field == f"written {', '.join([SHAPES[-1]] * 3)}, around it"


def test_a_word_and_what_stands_beside_it():
    rows = rows_of([1, 20, 21, 22], [23])
    features = WordFeatures.fit(rows, np.array([1, 2, 3]), vocabulary=100, skipped=np.array([1]), min_count=1)
    matrix = features.transform(rows, np.array([1, 4]))
    assert matrix.shape == (2, features.width)
    first = {features.feature(column) for column in matrix.get_row(0)[0].tolist()}
    assert first == {
        FeatureName((OUTSIDE,), "-2"), FeatureName((OUTSIDE,), "-1"), FeatureName((20,), "+0"),
        FeatureName((21,), "+1"), FeatureName((22,), "+2"), FeatureName((OUTSIDE, OUTSIDE), "-1"),
        FeatureName((OUTSIDE, 20), "+0"), FeatureName((20, 21), "+1"), FeatureName((21, 22), "+2"),
    }  # fmt: skip
    alone = {features.feature(column) for column in matrix.get_row(1)[0].tolist()}
    assert FeatureName((23,), "+0") in alone  # a row ends where the next begins
    assert {feature.tokens for feature in alone} == {
        (OUTSIDE,),
        (23,),
        (OUTSIDE, OUTSIDE),
    }  # its pairs were not learned


def test_places_of_a_passage():
    # 2 [CLS], 3 [SEP]; question 10 11, passage 20 10 11 21, then a row whose passage follows at once
    rows = rows_of([2, 10, 11, 3, 20, 10, 11, 21, 3], [30, 31, 30], segments=[[0] * 4 + [1] * 5, [0, 1, 1]])
    features = PassageFeatures.fit(rows, vocabulary=100, skipped=np.array([2, 3]), shapes=np.zeros(101, np.int64))
    figures = features.transform(rows).parts[1].values
    told = {name: figures[:, number].tolist() for number, name in enumerate(FIGURES)}
    assert told["outside the passage"] == [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    assert told["the row's first token"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert told["the passage's first token"] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert told["the passage's last token"] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert told["how far on in the passage"] == [0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 0, 0, 0, 0.5]
    assert told["in the question"] == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]
    assert told["the one before is in the question"] == [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert told["the one behind is in the question"] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0]
    assert told["a pair with the one before is in the question"] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert told["a pair with the one behind is in the question"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    near = told["nearness of the question's words before"]
    assert near == pytest.approx([0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0])
    near = told["nearness of the question's words behind"]
    assert near == pytest.approx([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0])
    assert told["share of the question in 3 tokens before"] == pytest.approx([0] * 6 + [0.5, 1] + [0] * 4)
    assert told["share of the question in 3 tokens behind"] == pytest.approx([0] * 4 + [1, 0.5] + [0] * 4 + [1, 0])
    assert told["pairs of the question in 10 tokens before"] == pytest.approx([0] * 6 + [0.5, 1] + [0] * 4)


def asked_about_a_passage() -> tuple[TokenRows, PassageFeatures]:
    """Question 10 11; passage: 20 10 , 21 22 . 11 10 23 ! 24, marks being 30 (,) 31 (.) and 32 (!)."""
    rows = rows_of([10, 11, 20, 10, 30, 21, 22, 31, 11, 10, 23, 32, 24], segments=[[0] * 2 + [1] * 11])
    written = ["a"] * 30 + [",", ".", "!"] + ["a"] * 67
    return rows, PassageFeatures.fit(rows, vocabulary=100, skipped=np.array([2]), shapes=word_shapes(written))


def test_sentences_and_clauses_by_hand():
    rows, features = asked_about_a_passage()
    features = replace(features, weights=np.where(np.isin(np.arange(100), (10, 11)), 1, 0).astype(np.float32))
    figures = features.transform(rows).parts[1].values[2:]
    told = {name: figures[:, number].tolist() for number, name in enumerate(FIGURES)}
    assert told["share of the question in or around the sentence"] == [0.5] * 6 + [1] * 4 + [0]
    assert told["the same, compared with the best clause"] == [0.5] * 3 + [0] * 3 + [1] * 4 + [0]
    assert told["the question has most in common with the sentence"] == [0] * 6 + [1] * 4 + [0]
    assert told["share of the question before the clause"] == [0] * 3 + [0.5] * 3 + [0] * 4 + [1]
    assert told["share of the question behind the sentence"] == [1] * 6 + [0] * 5
    assert told["begins the clause"] == [1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert told["ends the clause"] == [0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1]  # its last word does, and so does its mark
    assert told["ends the sentence"] == [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1]
    assert told["begins the best sentence"] == [0] * 6 + [1] + [0] * 4
    stretch = "stretch without words of the question"
    assert told[f"begins the {stretch}"] == [1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1]
    assert told[f"share of the question in or around the {stretch}"] == [1.5, 0, 0, 1.5, 1.5, 0, 0, 0, 1.5, 0, 1.5]


def test_what_is_asked_beside_how_a_token_looks():
    rows, features = asked_about_a_passage()
    assert features.question_words.tolist() == [10, 11]
    matrix = features.transform(rows)
    told = [features.feature(column) for column in matrix.get_row(2)[0].tolist()]  # token 20
    look = "asked, of a token written small, which begins a clause"
    assert told[-2:] == [FeatureName((10,), look), FeatureName((11,), look)]
    told = [features.feature(column) for column in matrix.get_row(7)[0].tolist()]  # the full stop
    assert told[-1] == FeatureName((11,), "asked, of a token written stop, which ends a clause")
    assert features.feature(features.width - 1).field == "asked, of a token written stop, which is a clause"


def test_chunks_change_nothing_about_passages(monkeypatch):
    rng = np.random.default_rng(5)
    rows = [rng.integers(4, 20, 12).tolist() for _ in range(9)]
    laid = rows_of(*rows, segments=[[0] * 4 + [1] * 8] * 9)
    shapes = word_shapes(["a", ",", ".", "1"] * 25)
    features = PassageFeatures.fit(laid, vocabulary=100, skipped=np.array([4]), shapes=shapes)
    whole = features.transform(laid)
    monkeypatch.setattr(linear_features, "CHUNK", 30)
    parts = features.transform(laid)
    for number in range(9 * 12):
        for one, other in zip(whole.get_row(number), parts.get_row(number), strict=True):
            assert np.allclose(one, other)
    assert features.feature(whole.get_row(0)[0][0]) == FeatureName((OUTSIDE,), "-1")


def test_other_rows_before_it_change_nothing_about_a_passage():
    """A row is learned among thousands and asked by itself."""
    rng = np.random.default_rng(6)
    rows = [rng.integers(4, 40, 60).tolist() for _ in range(200)]
    segments = [[0] * 8 + [1] * 52] * 200
    laid = rows_of(*rows, segments=segments)
    features = PassageFeatures.fit(
        laid, vocabulary=100, skipped=np.array([4]), shapes=word_shapes(["a", "b", ",", "."] * 25)
    )
    together = features.transform(laid).parts[1].values.reshape(200, 60, -1)
    for number, row in enumerate(rows):
        alone = features.transform(rows_of(row, segments=segments[:1])).parts[1].values
        assert np.allclose(together[number], alone, atol=1e-6)


def test_rows_of_no_tokens_are_no_trouble():
    rows, features = asked_about_a_passage()
    empty = TokenRows(rows.tokens[:0], np.array([0, 0]), rows.segments[:0])
    assert features.transform(empty).shape == (0, features.width)


def test_what_is_no_row_is_refused():
    tokens, lengths = np.array([1, 2, 3]), np.array([2, 1])
    with pytest.raises(ForebearError, match="3 tokens in all, but there are 2"):
        TokenRows.from_rows({"tokens": tokens[:2], "lengths": lengths}, vocabulary=9, segmented=False)
    with pytest.raises(InputError, match="outside 0 to 2"):
        TokenRows.from_rows({"tokens": tokens, "lengths": lengths}, vocabulary=3, segmented=False)
    with pytest.raises(ForebearError, match="of the first"):
        TokenRows.from_rows({"tokens": tokens, "lengths": lengths}, vocabulary=9, segmented=True)


def test_rows_without_anything():
    rows = rows_of([], [10], [])
    matrix = learned(rows).transform(rows_of([], []))
    assert matrix.shape == (2, learned(rows).width)
    assert not len(matrix.indices)
    assert learned(rows).transform(rows_of()).shape[0] == 0
