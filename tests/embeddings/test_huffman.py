"""Huffman's tree: paths that tell words apart, no shorter tree, probabilities that sum to 1."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.embeddings.word2vec import HuffmanTree, huffman_tree


def paths(tree: HuffmanTree) -> list[list[tuple[int, int]]]:
    both = list(zip(tree.path_nodes.tolist(), tree.path_turns.tolist(), strict=True))
    return [both[begin:end] for begin, end in zip(tree.indptr[:-1], tree.indptr[1:], strict=True)]


def shortest(weights: list[int]) -> int:
    """The least sum of weight · depth that any binary tree has."""
    heap, total = sorted(weights), 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        total += joined
        heapq.heappush(heap, joined)
    return total


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_every_tree(words: list[tuple[int, bool]]):
    counts, allowed = np.array([count for count, _ in words]), np.array([able for _, able in words])
    tree = huffman_tree(counts, allowed)
    found = paths(tree)
    inside = [path for path, able in zip(found, allowed, strict=True) if able]
    assert all(not path for path, able in zip(found, allowed, strict=True) if not able)
    weights = [max(int(count), 1) for count, able in words if able]
    assert sum(weight * len(path) for weight, path in zip(weights, inside, strict=True)) == shortest(weights)
    assert len({tuple(path) for path in inside}) == len(inside)
    nodes = {node for path in inside for node, _ in path}
    assert nodes == set(range(max(len(inside) - 1, 0)))  # as many as outputs have rows
    assert all(path[0][0] == 0 for path in inside if path)  # the root
    rng = np.random.default_rng(0)
    likely = 1 / (1 + np.exp(-rng.normal(size=len(words)) * 3))
    chances = [np.prod([likely[node] if turn == 0 else 1 - likely[node] for node, turn in path]) for path in inside]
    assert sum(chances) == pytest.approx(1 if inside else 0)


def test_many_words():
    counts = (1e7 / np.arange(1, 100_001)).astype(np.int64)
    lengths = np.diff(huffman_tree(counts, np.ones(len(counts), bool)).indptr)
    shares = counts / counts.sum()
    entropy = -(shares * np.log2(shares)).sum()
    assert entropy <= (shares * lengths).sum() < entropy + 0.1
    assert (np.diff(lengths)[np.diff(counts) < 0] >= 0).all()


def test_counts_that_make_the_deepest_tree():
    counts = [1, 1]
    while len(counts) < 80:
        counts.append(counts[-1] + counts[-2])
    assert np.diff(huffman_tree(np.array(counts), np.ones(80, bool)).indptr).max() == 79
