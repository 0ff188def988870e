"""Huffman tree: unique paths, minimal expected length, probabilities that sum to 1."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.embeddings.word2vec import HuffmanTree, huffman_tree


def paths(tree: HuffmanTree) -> list[list[tuple[int, int]]]:
    steps = list(zip(tree.path_nodes.tolist(), tree.path_codes.tolist(), strict=True))
    return [steps[start:end] for start, end in zip(tree.indptr[:-1], tree.indptr[1:], strict=True)]


def optimal_cost(weights: list[int]) -> int:
    """The smallest sum of weight · depth over all binary trees."""
    heap, total = sorted(weights), 0
    while len(heap) > 1:
        merged = heapq.heappop(heap) + heapq.heappop(heap)
        total += merged
        heapq.heappush(heap, merged)
    return total


@given(st.lists(st.tuples(st.integers(0, 10**12), st.booleans()), min_size=1, max_size=40))
@settings(deadline=None)
def test_huffman_tree_is_optimal_with_unique_paths_and_normalized_probabilities(word_tokenizer: list[tuple[int, bool]]):
    counts, allowed = (
        np.array([count for count, _ in word_tokenizer]),
        np.array([is_allowed for _, is_allowed in word_tokenizer]),
    )
    tree = huffman_tree(counts, allowed)
    tree_paths = paths(tree)
    allowed_paths = [path for path, is_allowed in zip(tree_paths, allowed, strict=True) if is_allowed]
    assert all(not path for path, is_allowed in zip(tree_paths, allowed, strict=True) if not is_allowed)
    weights = [max(int(count), 1) for count, is_allowed in word_tokenizer if is_allowed]
    assert sum(weight * len(path) for weight, path in zip(weights, allowed_paths, strict=True)) == optimal_cost(weights)
    assert len({tuple(path) for path in allowed_paths}) == len(allowed_paths)
    nodes = {node for path in allowed_paths for node, _ in path}
    assert nodes == set(range(max(len(allowed_paths) - 1, 0)))  # one per row of the output matrix
    assert all(path[0][0] == 0 for path in allowed_paths if path)  # the root
    rng = np.random.default_rng(0)
    left_probs = 1 / (1 + np.exp(-rng.normal(size=len(word_tokenizer)) * 3))
    probabilities = [
        np.prod([left_probs[node] if turn == 0 else 1 - left_probs[node] for node, turn in path])
        for path in allowed_paths
    ]
    assert sum(probabilities) == pytest.approx(1 if allowed_paths else 0)


def test_huffman_paths_of_zipfian_counts_are_close_to_the_entropy():
    counts = (1e7 / np.arange(1, 100_001)).astype(np.int64)
    lengths = np.diff(huffman_tree(counts, np.ones(len(counts), bool)).indptr)
    frequencies = counts / counts.sum()
    entropy = -(frequencies * np.log2(frequencies)).sum()
    assert entropy <= (frequencies * lengths).sum() < entropy + 0.1
    assert (np.diff(lengths)[np.diff(counts) < 0] >= 0).all()


def test_huffman_tree_of_fibonacci_counts_has_maximal_depth():
    counts = [1, 1]
    while len(counts) < 80:
        counts.append(counts[-1] + counts[-2])
    assert np.diff(huffman_tree(np.array(counts), np.ones(80, bool)).indptr).max() == 79
