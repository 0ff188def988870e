"""A binary tree over words in which frequent words have short paths: the softmax of many small decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.kernels.compiling import compiled


@dataclass(frozen=True, eq=False)
class Tree:
    """Each word's way from the root: word w passes the nodes nodes[indptr[w]:indptr[w + 1]] and turns by `turns` there.

    indptr  (V + 1,) int64; words outside the tree have an empty path
    nodes   int32 numbers of inner nodes, the root first
    turns   uint8, 0 or 1
    """

    indptr: np.ndarray
    nodes: np.ndarray
    turns: np.ndarray


def huffman(counts: np.ndarray, allowed: np.ndarray) -> Tree:
    """Huffman's tree over the allowed ids; what was never counted is held to be seen once."""
    leaves = np.flatnonzero(allowed)
    weights = np.maximum(counts[leaves], 1).astype(np.int64)
    order = np.argsort(weights, kind="stable")
    parents, turns = compiled(joined_in_loops)(weights[order])
    depths, paths = compiled(paths_in_loops)(parents, turns, len(leaves))
    lengths = np.zeros(len(counts), np.int64)
    lengths[leaves[order]] = depths
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    place = np.repeat(np.cumsum(depths) - depths, depths)  # where each step of a path lies, in the order of leaves …
    wanted = np.repeat(indptr[leaves[order]], depths) + np.arange(len(place)) - place  # … and in the order of ids
    nodes, turned = np.empty(len(place), np.int32), np.empty(len(place), np.uint8)
    nodes[wanted], turned[wanted] = paths[0], paths[1]
    return Tree(indptr, nodes, turned)


def joined_in_loops(weights):
    """Joins the two lightest, again and again; of 2n - 1 nodes (leaves first) the parent, and the turn to it."""
    leaves = len(weights)
    heavy = np.empty(max(2 * leaves - 1, 1), np.int64)
    heavy[:leaves] = weights
    parents, turns = np.full(len(heavy), -1, np.int64), np.zeros(len(heavy), np.uint8)
    leaf, inner = 0, leaves  # both queues are sorted: what is joined never gets lighter
    for made in range(leaves, 2 * leaves - 1):
        heavy[made] = 0
        for turn in range(2):
            if leaf < leaves and (inner >= made or heavy[leaf] <= heavy[inner]):
                taken = leaf
                leaf += 1
            else:
                taken = inner
                inner += 1
            parents[taken], turns[taken] = made, 1 - turn
            heavy[made] += heavy[taken]
    return parents, turns


def paths_in_loops(parents, turns, leaves):
    """How deep each leaf is, and all paths one after the other: inner nodes counted from the root, and turns there."""
    depths = np.zeros(leaves, np.int64)
    for leaf in range(leaves):
        node = leaf
        while parents[node] >= 0:
            depths[leaf] += 1
            node = parents[node]
    paths = np.empty((2, depths.sum()), np.int32)
    end, root = 0, 2 * leaves - 2
    for leaf in range(leaves):
        end += depths[leaf]
        node, at = leaf, end
        while parents[node] >= 0:
            at -= 1
            paths[0, at], paths[1, at] = root - parents[node], turns[node]
            node = parents[node]
    return depths, paths
