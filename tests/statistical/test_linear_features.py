"""Features of linear models: equal to scikit-learn's vectorizer, and cases by hand."""

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
from forebear.statistical.passage_features import DENSE_FEATURES, PassageFeatures

NONE = np.zeros(0, np.int64)


def token_rows(*rows: Sequence[int], segments: Sequence[Sequence[int]] | None = None) -> TokenRows:
    inputs = {"tokens": np.concatenate([NONE, *map(np.array, rows)]).astype(np.int32)}
    inputs["lengths"] = np.array([len(row) for row in rows])
    if segments is not None:
        inputs["segments"] = np.concatenate([NONE, *map(np.array, segments)])
    return TokenRows.from_rows(inputs, vocab_size=100, is_segmented=segments is not None)


def random_rows(count: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [(rng.zipf(1.4, rng.integers(0, 12)) % 30).tolist() for _ in range(count)]


def dense_matrix(matrix: SparseMatrix) -> np.ndarray:
    dense = np.zeros(matrix.shape)
    for row in range(len(dense)):
        columns, values = matrix.get_row(row)
        np.add.at(dense[row], columns, values)
    return dense


def fit_text_features(
    rows: TokenRows, order: int = 2, pairs: bool = False, skipped: Sequence[int] = (), min_count: int | None = 1
):
    return TextFeatures.fit(
        rows, vocab_size=100, order=order, is_pair=pairs, special_ids=np.array(skipped, np.int64), min_count=min_count
    )


@pytest.mark.parametrize(("order", "min_count"), [(1, 1), (2, 1), (3, 2)])
def test_text_features_equal_scikit_learns_tfidf(monkeypatch, order: int, min_count: int):
    vectoriser = pytest.importorskip("sklearn.feature_extraction.text").TfidfVectorizer
    train, test = random_rows(60, 0), random_rows(20, 1)
    counts: dict[tuple[int, ...], int] = {}

    def ngrams(row: list[int]) -> list[tuple[int, ...]]:
        return [tuple(row[start : start + n]) for n in range(1, order + 1) for start in range(len(row) - n + 1)]

    for row in train:
        for ngram in ngrams(row):
            counts[ngram] = counts.get(ngram, 0) + 1
    vectorizer = vectoriser(analyzer=lambda row: [x for x in ngrams(row) if counts.get(x, 0) >= min_count], binary=True)
    expected_train, expected_test = vectorizer.fit_transform(train).toarray(), vectorizer.transform(test).toarray()
    monkeypatch.setattr(linear_features, "CHUNK_TOKENS", 7)  # a few rows at a time, which has no effect
    features = fit_text_features(token_rows(*train), order, min_count=min_count)
    names = {features.feature(column).tokens: column for column in range(features.width)}
    columns = [names[ngram] for ngram in sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)]
    for rows, expected in ((train, expected_train), (test, expected_test)):
        computed = dense_matrix(features.transform(token_rows(*rows)))
        assert np.allclose(computed[:, columns], expected, atol=1e-6)
        assert np.count_nonzero(computed) == np.count_nonzero(expected)


def test_skipped_ids_have_no_effect_on_text_features():
    plain, marked = token_rows([5, 6], [6, 7]), token_rows([1, 5, 6, 2], [1, 6, 7, 2])
    assert np.array_equal(
        dense_matrix(fit_text_features(marked, skipped=[1, 2]).transform(marked)),
        dense_matrix(fit_text_features(plain).transform(plain)),
    )


def test_large_text_drops_ngrams_that_occur_once(monkeypatch):
    rows = token_rows([5, 6], [5, 6], [5, 7])
    assert (fit_text_features(rows, min_count=None).weights > 0).sum() == 5  # 5, 6, 7, 5 6, 5 7
    monkeypatch.setattr("forebear.statistical.linear_features.LARGE_TEXT_TOKENS", 3)
    assert (fit_text_features(rows, min_count=None).weights > 0).sum() == 3  # 5, 6, 5 6


def test_pair_features_are_ngrams_by_side_and_shared_fractions():
    # 我 很 喜欢 你 / 我 很 中意 你
    rows = token_rows([10, 11, 12, 13, 10, 11, 14, 13], segments=[[0, 0, 0, 0, 1, 1, 1, 1]])
    features = fit_text_features(rows, pairs=True)
    columns, values = features.transform(rows).get_row(0)
    values_by_feature = {
        features.feature(column): value for column, value in zip(columns.tolist(), values.tolist(), strict=True)
    }
    field_by_ngram = {feature.tokens: feature.field for feature in values_by_feature if feature.tokens}
    assert field_by_ngram == {
        (10,): "both", (11,): "both", (13,): "both", (12,): "first", (14,): "second", (10, 11): "both",
        (11, 12): "first", (12, 13): "first", (11, 14): "second", (14, 13): "second",
    }  # fmt: skip
    figures = {feature.field: value for feature, value in values_by_feature.items() if not feature.tokens}
    assert figures == pytest.approx(
        {
            "shared of all 1-grams": 3 / 5, "shared of the first's 1-grams": 3 / 4,
            "shared of the second's 1-grams": 3 / 4, "shared of all 2-grams": 1 / 5,
            "shared of the first's 2-grams": 1 / 3, "shared of the second's 2-grams": 1 / 3,
            "length of the shorter by the longer": 1.0,
        }
    )  # fmt: skip


def test_shared_fractions_count_words_unseen_in_training():
    train_rows = token_rows([10, 11, 10, 12], segments=[[0, 0, 1, 1]])
    features = fit_text_features(train_rows, order=1, pairs=True)
    test_rows = token_rows([50, 51, 50, 51, 51], segments=[[0, 0, 1, 1, 1]])
    columns, values = features.transform(test_rows).get_row(0)
    figures = dict(zip((features.feature(column).field for column in columns.tolist()), values.tolist(), strict=True))
    assert figures["shared of all 1-grams"] == 1
    assert figures["length of the shorter by the longer"] == pytest.approx(2 / 3)


def test_ngrams_do_not_cross_texts_or_rows():
    rows = token_rows([10, 11], [12, 13], segments=[[0, 1], [0, 1]])
    assert fit_text_features(rows, pairs=True).ngrams.num_ngrams(2) == 0


def test_features_of_rows_of_one_example_are_averaged():
    rows = token_rows([10, 11], [10], [12])
    matrix = fit_text_features(rows).transform(rows)
    averaged, single_rows = dense_matrix(matrix.average_groups(np.array([0, 0, 1]))), dense_matrix(matrix)
    assert np.allclose(averaged, [(single_rows[0] + single_rows[1]) / 2, single_rows[2]])


def test_word_shapes_by_hand():
    shapes = {"The": "Capital", "ran": "small", "USA": "CAPITALS", "iPhone": "mIXED", "##son": "within a word"}
    shapes |= {
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
    shape_ids = word_shapes(shapes)
    assert [SHAPES[shape_id] for shape_id in shape_ids] == [*shapes.values(), "outside"]


def test_word_features_include_shapes_of_the_context():
    """Ids 0 to 2 are lowercase, 3 has a capital; nothing precedes the first."""
    rows = token_rows([3, 0])
    shapes = word_shapes(["a", "b", "c", "D"])
    features = WordFeatures.fit(rows, np.arange(2), vocab_size=4, special_ids=np.array([]), min_count=1, shapes=shapes)
    matrix = features.transform(rows, np.array([0]))
    features_of_word = [features.feature(column) for column in matrix.get_row(0)[0].tolist()]
    shape_fields = [feature.field for feature in features_of_word if not feature.tokens]
    assert shape_fields[:3] == ["written outside, at -1", "written Capital, at +0", "written small, at +1"]
    assert shape_fields[3:] == ["written outside, Capital, small, around it"]
    assert matrix.shape[1] == features.width
    last = features.feature(features.width - 1)
    assert last.field == f"written {', '.join([SHAPES[-1]] * 3)}, around it"


def test_word_features_are_ngrams_of_the_context_with_position():
    rows = token_rows([1, 20, 21, 22], [23])
    features = WordFeatures.fit(rows, np.array([1, 2, 3]), vocab_size=100, special_ids=np.array([1]), min_count=1)
    matrix = features.transform(rows, np.array([1, 4]))
    assert matrix.shape == (2, features.width)
    first = {features.feature(column) for column in matrix.get_row(0)[0].tolist()}
    assert first == {
        FeatureName((OUTSIDE,), "-2"), FeatureName((OUTSIDE,), "-1"), FeatureName((20,), "+0"),
        FeatureName((21,), "+1"), FeatureName((22,), "+2"), FeatureName((OUTSIDE, OUTSIDE), "-1"),
        FeatureName((OUTSIDE, 20), "+0"), FeatureName((20, 21), "+1"), FeatureName((21, 22), "+2"),
    }  # fmt: skip
    second = {features.feature(column) for column in matrix.get_row(1)[0].tolist()}
    assert FeatureName((23,), "+0") in second  # a row ends where the next begins
    assert {feature.tokens for feature in second} == {
        (OUTSIDE,),
        (23,),
        (OUTSIDE, OUTSIDE),
    }  # its bigrams were not in the training rows


def test_passage_features_of_positions_by_hand():
    # 2 [CLS], 3 [SEP]; question 10 11, passage 20 10 11 21, then a row whose passage follows at once
    rows = token_rows([2, 10, 11, 3, 20, 10, 11, 21, 3], [30, 31, 30], segments=[[0] * 4 + [1] * 5, [0, 1, 1]])
    features = PassageFeatures.fit(rows, vocab_size=100, special_ids=np.array([2, 3]), shapes=np.zeros(101, np.int64))
    values = features.transform(rows).parts[1].values
    columns = {name: values[:, column].tolist() for column, name in enumerate(DENSE_FEATURES)}
    assert columns["outside the passage"] == [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0]
    assert columns["the row's first token"] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert columns["the passage's first token"] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]
    assert columns["the passage's last token"] == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert columns["how far on in the passage"] == [0, 0, 0, 0, 0, 0.25, 0.5, 0.75, 0, 0, 0, 0.5]
    assert columns["in the question"] == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]
    assert columns["the one before is in the question"] == [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]
    assert columns["the one behind is in the question"] == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0]
    assert columns["a pair with the one before is in the question"] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert columns["a pair with the one behind is in the question"] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    nearness = columns["nearness of the question's words before"]
    assert nearness == pytest.approx([0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0])
    nearness = columns["nearness of the question's words behind"]
    assert nearness == pytest.approx([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0])
    assert columns["share of the question in 3 tokens before"] == pytest.approx([0] * 6 + [0.5, 1] + [0] * 4)
    assert columns["share of the question in 3 tokens behind"] == pytest.approx([0] * 4 + [1, 0.5] + [0] * 4 + [1, 0])
    assert columns["pairs of the question in 10 tokens before"] == pytest.approx([0] * 6 + [0.5, 1] + [0] * 4)


def passage_with_question() -> tuple[TokenRows, PassageFeatures]:
    """Question 10 11; passage: 20 10 , 21 22 . 11 10 23 ! 24; punctuation is 30 (,) 31 (.) and 32 (!)."""
    rows = token_rows([10, 11, 20, 10, 30, 21, 22, 31, 11, 10, 23, 32, 24], segments=[[0] * 2 + [1] * 11])
    tokens = ["a"] * 30 + [",", ".", "!"] + ["a"] * 67
    return rows, PassageFeatures.fit(rows, vocab_size=100, special_ids=np.array([2]), shapes=word_shapes(tokens))


def test_passage_features_of_sentences_and_clauses_by_hand():
    rows, features = passage_with_question()
    features = replace(features, weights=np.where(np.isin(np.arange(100), (10, 11)), 1, 0).astype(np.float32))
    values = features.transform(rows).parts[1].values[2:]
    columns = {name: values[:, column].tolist() for column, name in enumerate(DENSE_FEATURES)}
    assert columns["share of the question in or around the sentence"] == [0.5] * 6 + [1] * 4 + [0]
    assert columns["the same, compared with the best clause"] == [0.5] * 3 + [0] * 3 + [1] * 4 + [0]
    assert columns["the question has most in common with the sentence"] == [0] * 6 + [1] * 4 + [0]
    assert columns["share of the question before the clause"] == [0] * 3 + [0.5] * 3 + [0] * 4 + [1]
    assert columns["share of the question behind the sentence"] == [1] * 6 + [0] * 5
    assert columns["begins the clause"] == [1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert columns["ends the clause"] == [
        0,
        1,
        1,
        0,
        1,
        1,
        0,
        0,
        1,
        1,
        1,
    ]  # its last word does, and so does its punctuation mark
    assert columns["ends the sentence"] == [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1]
    assert columns["begins the best sentence"] == [0] * 6 + [1] + [0] * 4
    span_name = "stretch without words of the question"
    assert columns[f"begins the {span_name}"] == [1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1]
    assert columns[f"share of the question in or around the {span_name}"] == [1.5, 0, 0, 1.5, 1.5, 0, 0, 0, 1.5, 0, 1.5]


def test_question_words_are_crossed_with_token_shapes():
    rows, features = passage_with_question()
    assert features.question_words.tolist() == [10, 11]
    matrix = features.transform(rows)
    names = [features.feature(column) for column in matrix.get_row(2)[0].tolist()]  # token 20
    field = "asked, of a token written small, which begins a clause"
    assert names[-2:] == [FeatureName((10,), field), FeatureName((11,), field)]
    names = [features.feature(column) for column in matrix.get_row(7)[0].tolist()]  # the full stop
    assert names[-1] == FeatureName((11,), "asked, of a token written stop, which ends a clause")
    assert features.feature(features.width - 1).field == "asked, of a token written stop, which is a clause"


def test_passage_features_do_not_depend_on_the_chunk_size(monkeypatch):
    rng = np.random.default_rng(5)
    rows = [rng.integers(4, 20, 12).tolist() for _ in range(9)]
    passage_rows = token_rows(*rows, segments=[[0] * 4 + [1] * 8] * 9)
    shapes = word_shapes(["a", ",", ".", "1"] * 25)
    features = PassageFeatures.fit(passage_rows, vocab_size=100, special_ids=np.array([4]), shapes=shapes)
    unchunked = features.transform(passage_rows)
    monkeypatch.setattr(linear_features, "CHUNK_TOKENS", 30)
    chunked = features.transform(passage_rows)
    for token in range(9 * 12):
        for expected, computed in zip(unchunked.get_row(token), chunked.get_row(token), strict=True):
            assert np.allclose(expected, computed)
    assert features.feature(unchunked.get_row(0)[0][0]) == FeatureName((OUTSIDE,), "-1")


def test_passage_features_do_not_depend_on_other_rows():
    """The features of a row in a large batch equal those of the row alone."""
    rng = np.random.default_rng(6)
    rows = [rng.integers(4, 40, 60).tolist() for _ in range(200)]
    segments = [[0] * 8 + [1] * 52] * 200
    passage_rows = token_rows(*rows, segments=segments)
    features = PassageFeatures.fit(
        passage_rows, vocab_size=100, special_ids=np.array([4]), shapes=word_shapes(["a", "b", ",", "."] * 25)
    )
    batched = features.transform(passage_rows).parts[1].values.reshape(200, 60, -1)
    for index, row in enumerate(rows):
        alone = features.transform(token_rows(row, segments=segments[:1])).parts[1].values
        assert np.allclose(batched[index], alone, atol=1e-6)


def test_passage_features_of_no_tokens_are_empty():
    rows, features = passage_with_question()
    empty = TokenRows(rows.tokens[:0], np.array([0, 0]), rows.segments[:0])
    assert features.transform(empty).shape == (0, features.width)


def test_inconsistent_token_rows_are_refused():
    tokens, lengths = np.array([1, 2, 3]), np.array([2, 1])
    with pytest.raises(ForebearError, match="3 tokens in all, but there are 2"):
        TokenRows.from_rows({"tokens": tokens[:2], "lengths": lengths}, vocab_size=9, is_segmented=False)
    with pytest.raises(InputError, match="outside 0 to 2"):
        TokenRows.from_rows({"tokens": tokens, "lengths": lengths}, vocab_size=3, is_segmented=False)
    with pytest.raises(ForebearError, match="of the first"):
        TokenRows.from_rows({"tokens": tokens, "lengths": lengths}, vocab_size=9, is_segmented=True)


def test_text_features_of_empty_rows_are_empty():
    rows = token_rows([], [10], [])
    matrix = fit_text_features(rows).transform(token_rows([], []))
    assert matrix.shape == (2, fit_text_features(rows).width)
    assert not len(matrix.indices)
    assert fit_text_features(rows).transform(token_rows()).shape[0] == 0
