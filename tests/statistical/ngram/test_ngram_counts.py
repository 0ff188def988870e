"""N-gram counts: equal to a Counter's, independent of the batches, saved and loaded strictly."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngram_models import END, PADDING, VOCABULARY, count, counted_model, skewed_texts, text_lists

from forebear.errors import ForebearError, InputError
from forebear.statistical.ngram.index import NgramIndex
from forebear.statistical.ngram.language_model import NgramModel


def counter_of_ngrams(texts: list[list[int]], n: int) -> Counter[tuple[int, ...]]:
    rows = [(END, *text, END) for text in texts]
    return Counter(row[end - n : end] for row in rows for end in range(max(n, 2), len(row) + 1))


@given(text_lists, st.integers(1, 5))
def test_ngram_counts_equal_a_counters(given_texts: list[list[int]], order: int):
    counts = counted_model(given_texts, order).counts
    for n in range(1, order + 1):
        rows = map(tuple, counts.ngrams.to_rows(n).tolist())
        counts_of_order = {
            row: ngram_count
            for row, ngram_count in zip(rows, counts.counts[n - 1].tolist(), strict=True)
            if ngram_count
        }
        assert counts_of_order == dict(counter_of_ngrams(given_texts, n))


@given(text_lists, st.lists(st.integers(0, 12)), st.randoms(use_true_random=False), st.integers(1, 4))
def test_ngram_counts_do_not_depend_on_batches_and_their_order(
    given_texts: list[list[int]], cuts: list[int], rng, order: int
):
    expected = counted_model(given_texts, order).arrays()
    shuffled = given_texts.copy()
    rng.shuffle(shuffled)
    model = NgramModel(order=order, vocab_size=VOCABULARY, eos_id=END)
    borders = [0, *sorted(min(cut, len(shuffled)) for cut in cuts), len(shuffled)]
    for first, last in pairwise(borders):
        count(model, shuffled[first:last])
        if last % 3 == 0:
            model.arrays()  # a checkpoint on the way
    arrays = model.arrays()
    assert {name: (array.dtype, array.tobytes()) for name, array in arrays.items()} == {
        name: (array.dtype, array.tobytes()) for name, array in expected.items()
    }


def test_saved_ngram_counts_load_with_equal_scores():
    model = counted_model(skewed_texts(1), 3)
    loaded = counted_model([], 3)
    loaded.load(model.arrays())
    row = [np.array([END, 3, 4, 8, 0, 4, 3, END])]
    assert np.array_equal(model.score(row)[0], loaded.score(row)[0])
    count(model, skewed_texts(2))
    count(loaded, skewed_texts(2))
    assert all(np.array_equal(array, loaded.arrays()[name]) for name, array in model.arrays().items())


def test_further_counts_change_the_scores():
    model = counted_model(skewed_texts(1), 2)
    before = model.score([np.array([END, 3, END])])[0]
    count(model, [[3]] * 50)
    assert (model.score([np.array([END, 3, END])])[0] > before).all()


@pytest.mark.parametrize(
    ("change", "message"),
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
def test_damaged_ngram_counts_are_refused_by_name(change, message: str):
    arrays = counted_model(skewed_texts(1), 3).arrays()
    change(arrays)
    with pytest.raises(ForebearError, match=message):
        counted_model([], 3).load(arrays)


@pytest.mark.parametrize(
    ("tokens", "lengths", "targets"),
    [
        ([3, 4], [2], [4, END]),  # does not begin with the end token
        ([END, 3], [2], [3, 4]),  # does not end with it
        ([END, 3, 4], [3], [3, 5, END]),  # a target that is not the next token
        ([END, END, 3], [3], [END, 3, END]),  # an end token inside
        ([END, 3], [2], [3, -1]),  # a masked target
    ],
)
def test_rows_without_both_ends_are_refused(tokens: list[int], lengths: list[int], targets: list[int]):
    with pytest.raises(ForebearError, match="whole rows"):
        counted_model([], 2).add_batch(*map(np.array, (tokens, lengths, targets)))


@pytest.mark.parametrize("token", [PADDING, VOCABULARY])
def test_ids_that_are_never_predicted_are_refused(token: int):
    with pytest.raises(InputError, match=f"the id {token}"):
        counted_model([[3, token]], 2)


@given(text_lists, st.integers(2, 4))
def test_ngram_index_is_rebuilt_from_its_rows(given_texts: list[list[int]], order: int):
    ngrams = counted_model(given_texts, order).counts.ngrams
    rows = [np.random.default_rng(n).permutation(ngrams.to_rows(n)) for n in range(2, order + 1)]
    rebuilt, row_numbers = NgramIndex.from_rows(rows, VOCABULARY)
    for n in range(2, order + 1):
        assert np.array_equal(rebuilt.sorted_keys(n), ngrams.sorted_keys(n))
        assert np.array_equal(rebuilt.to_rows(n)[row_numbers[n - 2]], rows[n - 2])
