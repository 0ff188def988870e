"""Counts: equal to a dictionary's, the same whatever the batches, saved and loaded strictly."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import END, PADDING, VOCABULARY, count, made, many, texts

from forebear.errors import ForebearError, InputError
from forebear.statistical.ngram.counts import NgramIndex
from forebear.statistical.ngram.language_model import NgramModel


def tally(given: list[list[int]], n: int) -> Counter[tuple[int, ...]]:
    rows = [(END, *text, END) for text in given]
    return Counter(row[end - n : end] for row in rows for end in range(max(n, 2), len(row) + 1))


@given(texts, st.integers(1, 5))
def test_counts_are_those_of_a_dictionary(given_texts: list[list[int]], order: int):
    counts = made(given_texts, order).counts
    for n in range(1, order + 1):
        rows = map(tuple, counts.ngrams.to_rows(n).tolist())
        told = {row: times for row, times in zip(rows, counts.counts[n - 1].tolist(), strict=True) if times}
        assert told == dict(tally(given_texts, n))


@given(texts, st.lists(st.integers(0, 12)), st.randoms(use_true_random=False), st.integers(1, 4))
def test_batches_and_their_order_change_nothing(given_texts: list[list[int]], cuts: list[int], chance, order: int):
    whole = made(given_texts, order).arrays()
    shuffled = given_texts.copy()
    chance.shuffle(shuffled)
    model = NgramModel(order=order, vocabulary=VOCABULARY, end=END)
    borders = [0, *sorted(min(cut, len(shuffled)) for cut in cuts), len(shuffled)]
    for first, last in pairwise(borders):
        count(model, shuffled[first:last])
        if last % 3 == 0:
            model.arrays()  # a checkpoint on the way
    parts = model.arrays()
    assert {name: (array.dtype, array.tobytes()) for name, array in parts.items()} == {
        name: (array.dtype, array.tobytes()) for name, array in whole.items()
    }


def test_a_state_answers_alike():
    model = made(many(1), 3)
    again = made([], 3)
    again.load(model.arrays())
    row = [np.array([END, 3, 4, 8, 0, 4, 3, END])]
    assert np.array_equal(model.score(row)[0], again.score(row)[0])
    count(model, many(2))
    count(again, many(2))
    assert all(np.array_equal(array, again.arrays()[name]) for name, array in model.arrays().items())


def test_more_counts_change_the_answers():
    model = made(many(1), 2)
    before = model.score([np.array([END, 3, END])])[0]
    count(model, [[3]] * 50)
    assert (model.score([np.array([END, 3, END])])[0] > before).all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda arrays: arrays.pop("words.3"), r"lacks \['words.3'\]"),
        (lambda arrays: arrays.update(extra=np.zeros(1)), r"should not, \['extra'\]"),
        (lambda arrays: arrays.update({"counts.2": arrays["counts.2"][:-1]}), "'counts.2'.*instead of"),
        (lambda arrays: arrays.update({"counts.1": arrays["counts.1"].astype(float)}), "'counts.1'.*float64"),
        (lambda arrays: arrays.update({"continuations.1": arrays["continuations.1"] + np.uint8(1)}), "'words.2'"),
        (lambda arrays: arrays.update({"words.2": arrays["words.2"][::-1]}), "'words.2'.*sorted"),
        (lambda arrays: arrays.update({"words.3": arrays["words.3"] + np.uint8(VOCABULARY)}), "'words.3'.*lacks"),
        (lambda arrays: arrays.update({"counts.3": arrays["counts.3"] * np.uint8(0)}), "'counts.3'.*not at all"),
    ],
)
def test_a_damaged_state_is_refused_by_name(change, told: str):
    arrays = made(many(1), 3).arrays()
    change(arrays)
    with pytest.raises(ForebearError, match=told):
        made([], 3).load(arrays)


@pytest.mark.parametrize(
    ("tokens", "lengths", "targets"),
    [
        ([3, 4], [2], [4, END]),  # does not begin with the end
        ([END, 3], [2], [3, 4]),  # does not end with it
        ([END, 3, 4], [3], [3, 5, END]),  # asks for something else
        ([END, END, 3], [3], [END, 3, END]),  # an end inside
        ([END, 3], [2], [3, -1]),  # not all is asked for
    ],
)
def test_rows_that_are_not_whole_are_refused(tokens: list[int], lengths: list[int], targets: list[int]):
    with pytest.raises(ForebearError, match="whole rows"):
        made([], 2).add_batch(*map(np.array, (tokens, lengths, targets)))


@pytest.mark.parametrize("token", [PADDING, VOCABULARY])
def test_what_is_never_predicted_is_not_counted(token: int):
    with pytest.raises(InputError, match=f"the id {token}"):
        made([[3, token]], 2)


@given(texts, st.integers(2, 4))
def test_ngrams_written_out_are_found_again(given_texts: list[list[int]], order: int):
    ngrams = made(given_texts, order).counts.ngrams
    rows = [np.random.default_rng(n).permutation(ngrams.to_rows(n)) for n in range(2, order + 1)]
    again, numbers = NgramIndex.from_rows(rows, VOCABULARY)
    for n in range(2, order + 1):
        assert np.array_equal(again.sorted_keys(n), ngrams.sorted_keys(n))
        assert np.array_equal(again.to_rows(n)[numbers[n - 2]], rows[n - 2])
