"""Stretches in which no word is learned from too often."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.kernels.word2vec_threads import split_at_bursts, split_at_bursts_kernel

SIZE = 6


def weight_of(tokens: list[int], place: int, near: int) -> float:
    """2 where the same word stands so near before it, else 1."""
    return 2.0 if tokens[place] in tokens[max(0, place - near) : place] else 1.0


@settings(max_examples=200, deadline=None)
@given(
    tokens=st.lists(st.integers(0, SIZE - 1), max_size=60),
    longest=st.integers(1, 12),
    near=st.integers(1, 6),
    most=st.integers(1, 9),
)
def test_stretches_are_as_long_as_they_may_be(tokens: list[int], longest: int, near: int, most: int):
    how = {
        "max_words": longest,
        "word_weight": 1.0,
        "repeat_weight": 2.0,
        "max_distance": near,
        "max_weight": float(most),
    }
    borders = split_at_bursts(np.array(tokens, np.int32), SIZE, **how).tolist()
    assert borders[-1] == len(tokens)
    assert borders == sorted(set(borders))
    assert (borders[0] == 0) == (len(tokens) > 0 or borders == [0])

    def weights(begin: int, end: int) -> list[float]:
        return [
            sum(weight_of(tokens, place, near) for place in range(begin, end) if tokens[place] == word)
            for word in range(SIZE)
        ]

    for begin, end in pairwise(borders):
        assert end - begin <= longest
        assert end - begin == 1 or max(weights(begin, end)) <= max(most, weight_of(tokens, begin, near))
        if end < len(tokens) and end - begin < longest:
            assert max(weights(begin, end + 1)) > most


def test_loops_are_plain_python_too():
    tokens = np.array([0, 1, 0, 0, 2, 0], np.int32)
    borders = np.empty(7, np.int64)
    many = split_at_bursts_kernel(tokens, 10, 1.0, 3.0, 1, 3.0, np.full(3, -1), np.zeros(3), borders)
    assert borders[:many].tolist() == [0, 3, 5, 6]
