"""Text is split for word2vec so that no word is updated too often within a part."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.kernels.word2vec_training import split_at_bursts, split_at_bursts_kernel

VOCABULARY = 6


def word_weight(tokens: list[int], position: int, max_distance: int) -> float:
    """2 where the same word occurs within this distance before it, else 1."""
    return 2.0 if tokens[position] in tokens[max(0, position - max_distance) : position] else 1.0


@settings(max_examples=200, deadline=None)
@given(
    tokens=st.lists(st.integers(0, VOCABULARY - 1), max_size=60),
    max_words=st.integers(1, 12),
    max_distance=st.integers(1, 6),
    max_weight=st.integers(1, 9),
)
def test_split_at_bursts_makes_parts_as_long_as_the_weight_limit_allows(
    tokens: list[int], max_words: int, max_distance: int, max_weight: int
):
    options = {
        "max_words": max_words,
        "word_weight": 1.0,
        "repeat_weight": 2.0,
        "max_distance": max_distance,
        "max_weight": float(max_weight),
    }
    borders = split_at_bursts(np.array(tokens, np.int32), VOCABULARY, **options).tolist()
    assert borders[-1] == len(tokens)
    assert borders == sorted(set(borders))
    assert (borders[0] == 0) == (len(tokens) > 0 or borders == [0])

    def weights(begin: int, end: int) -> list[float]:
        return [
            sum(
                word_weight(tokens, position, max_distance)
                for position in range(begin, end)
                if tokens[position] == word
            )
            for word in range(VOCABULARY)
        ]

    for begin, end in pairwise(borders):
        assert end - begin <= max_words
        assert end - begin == 1 or max(weights(begin, end)) <= max(max_weight, word_weight(tokens, begin, max_distance))
        if end < len(tokens) and end - begin < max_words:
            assert max(weights(begin, end + 1)) > max_weight


def test_split_at_bursts_kernel_runs_as_plain_python():
    tokens = np.array([0, 1, 0, 0, 2, 0], np.int32)
    borders = np.empty(7, np.int64)
    num_borders = split_at_bursts_kernel(tokens, 10, 1.0, 3.0, 1, 3.0, np.full(3, -1), np.zeros(3), borders)
    assert borders[:num_borders].tolist() == [0, 3, 5, 6]
