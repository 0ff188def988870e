"""What chance decides about each word of a text: how far its window reaches, and what it is told from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.jit import inline_kernel


class TokenRuns(NamedTuple):
    """Words to learn from, rows one after the other, and where rows end; part after part."""

    tokens: np.ndarray  # (n,) int32
    ends: np.ndarray  # (rows,) int64
    states: np.ndarray  # (parts,) uint64, the chance of each part
    starts: np.ndarray  # (parts + 1,) int64, where each part begins, and the last ends


class OutputTargets(NamedTuple):
    """What a word is told from: words drawn in turn, or the turns of its path. One of the two is empty."""

    stream: np.ndarray  # int32
    negatives: int
    indptr: np.ndarray  # (V + 1,) int64
    nodes: np.ndarray  # int32
    turns: np.ndarray  # uint8


class WindowBatch(NamedTuple):
    """Some windows. What a word is told from, its targets, comes in blocks of equal length, filled up with nothing."""

    lefts: np.ndarray  # (n,) int64
    rights: np.ndarray  # (n,) int64
    blocks: np.ndarray  # (n,) int64; 0 where there is nothing to learn
    targets: np.ndarray  # (n · slots,) int32
    signs: np.ndarray  # (n · slots,) float32 and some more: 1 for what is true, -1 for what is not, 0 for nothing


@inline_kernel
def draw_windows(text, supply, window, number, windows, at, slots, kinds):
    """Decides about all windows of a part, from place `at` on."""
    tokens, ends, stream, state = text.tokens, text.ends, supply.stream, text.states[number]
    first, last = text.starts[number], text.starts[number + 1]
    row = np.searchsorted(ends, first, side="right")
    drawn = np.int64(state % np.uint64(max(len(stream), 1)))
    for here in range(first, last):
        while ends[row] <= here:
            row += 1
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        reach = 1 + np.int64((state >> np.uint64(32)) * np.uint64(window) >> np.uint64(32))
        left, right = max(ends[row - 1] if row else 0, here - reach), min(ends[row], here + reach + 1)
        place, word, many = at * slots, tokens[here], 0
        if right - left > 1 and len(stream):
            windows.targets[place], windows.signs[place], many = word, 1, 1 + supply.negatives
            for slot in range(place + 1, place + many):
                windows.targets[slot] = stream[drawn]
                windows.signs[slot] = 0 if stream[drawn] == word else -1  # the truth is no counterexample
                drawn = drawn + 1 if drawn + 1 < len(stream) else 0
        elif right - left > 1:
            begin, many = supply.indptr[word], supply.indptr[word + 1] - supply.indptr[word]
            for step in range(many):
                windows.targets[place + step] = supply.nodes[begin + step]
                windows.signs[place + step] = 1 - 2 * np.int64(supply.turns[begin + step])
        blocks = -(-many // len(kinds))
        for slot in range(place + many, place + blocks * len(kinds)):
            windows.targets[slot], windows.signs[slot] = 0, 0
        windows.lefts[at], windows.rights[at], windows.blocks[at] = left, right, blocks
        at += 1
