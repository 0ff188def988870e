"""One sweep of GloVe's AdaGrad over entries of a table of counts: compiled loops, beside numpy's way.

How a word's numbers lie in a row of `words` and `contexts` is told in glove_table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from forebear.kernels.jit import without_interrupts
from forebear.kernels.simd import prefetch_row

ROW_GROUPS = 16  # of rows, and of columns: no two blocks of the same turn share either
FAR = 400  # numbers of vectors ahead of which rows are fetched
SAMPLED = 16  # one entry in so many says how rows and columns are to be grouped
# Sums in any order, products and sums rounded once, quotients and roots as estimates; but what is no number stays none.
FREELY = {"reassoc", "contract", "arcp", "afn", "nsz"}


# -- numpy's way


def sweep_in_numpy(
    order: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    width: int,
    rate: float,
) -> float:
    """Learns from one entry after the other, in place; the sum of their losses, each before it was learned from.

    The loss of an entry is ½ f (w·c + b + b' - log x)², and its gradient by w is f (…) c. AdaGrad divides a step by the
    root of all squared steps before it, and of the 1 it began with.
    """
    total = 0.0
    vector, squares, bias = slice(0, width), slice(width, 2 * width), 2 * width
    for entry in order.tolist():
        word, context = words[rows[entry]], contexts[columns[entry]]
        error = word[vector] @ context[vector] + word[bias] + context[bias] - logs[entry]
        total += float(0.5 * weights[entry] * error * error)
        step = rate * weights[entry] * error
        steps = step * context[vector], step * word[vector]
        for mine, taken in zip((word, context), steps, strict=True):
            mine[vector] -= taken / np.sqrt(mine[squares])
            mine[squares] += taken * taken
            mine[bias] -= step / np.sqrt(mine[bias + 1])
            mine[bias + 1] += step * step
    return total


def moments_in_numpy(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    width: int,
) -> tuple[float, ...]:
    """Σ f, Σ f p, Σ f l, Σ f p², Σ f p l and Σ f l² of what is predicted, p, and the logs l; nothing is learned."""
    mine, others = words[rows].astype(np.float64), contexts[columns].astype(np.float64)
    told = (mine[:, :width] * others[:, :width]).sum(axis=1) + mine[:, 2 * width] + others[:, 2 * width]
    return tuple(float((weights * each).sum()) for each in (1, told, logs, told * told, told * logs, logs * logs))


def blocks_in_numpy(rows: np.ndarray, columns: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the entries in another order, and (GROUPS² + 1,) where its blocks begin; inside, they keep their order.

    Words are cut into groups that lie side by side and have about as many entries, as rows and again as columns. Block
    t · GROUPS + g has those entries whose row is in group g and whose column is t groups further. Blocks of the same
    turn t share no word, and can be learned from at the same time.
    """
    group, other = _groups(rows, words)[rows].astype(int), _groups(columns, words)[columns]
    keys = (other - group) % ROW_GROUPS * ROW_GROUPS + group
    return np.argsort(keys, kind="stable"), np.searchsorted(np.sort(keys), np.arange(ROW_GROUPS**2 + 1))


def _groups(ids: np.ndarray, words: int) -> np.ndarray:
    """(words,) uint8: the group of each word, cut where a sample of these ids says."""
    before = np.cumsum(np.bincount(ids[::SAMPLED], minlength=words))
    return np.minimum(before * ROW_GROUPS // (before[-1] + 1), ROW_GROUPS - 1).astype(np.uint8)


# -- compiled


def _freely(loops: Callable[..., Any]) -> Callable[..., Any]:
    """Machine code that other threads can run beside; a division by zero is infinite and no error."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FREELY}
    try:
        return without_interrupts(numba.njit(loops, cache=True, **options))
    except RuntimeError:  # no folder to keep it in
        return without_interrupts(numba.njit(loops, **options))


def group_blocks(rows: np.ndarray, columns: np.ndarray, words: int) -> tuple[np.ndarray, np.ndarray]:
    """As `blocks_in_numpy`."""
    return _sorted(rows, columns, _groups(rows, words), _groups(columns, words))


@_freely
def _sorted(rows, columns, row_groups, column_groups):
    keys, starts = np.empty(len(rows), np.uint8), np.zeros(ROW_GROUPS * ROW_GROUPS + 1, np.int64)
    for entry in range(len(rows)):
        group, other = np.int64(row_groups[rows[entry]]), np.int64(column_groups[columns[entry]])
        key = ((other - group) & (ROW_GROUPS - 1)) * ROW_GROUPS + group  # GROUPS is a power of two
        keys[entry] = key
        starts[key + 1] += 1
    for key in range(ROW_GROUPS * ROW_GROUPS):
        starts[key + 1] += starts[key]
    order, free = np.empty(len(rows), np.int32), starts.copy()
    for entry in range(len(rows)):
        order[free[keys[entry]]] = entry
        free[keys[entry]] += 1
    return order, starts


@_freely
def batch_moments(rows, columns, logs, weights, words, contexts, width):
    """As `moments_in_numpy`."""
    whole, first, other, squared, both, other_squared = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for entry in range(len(rows)):
        word, context = words[rows[entry]], contexts[columns[entry]]
        weight, log = np.float64(weights[entry]), np.float64(logs[entry])
        told = np.float64(word[2 * width]) + context[2 * width]
        for place in range(width):
            told += np.float64(word[place]) * context[place]
        whole += weight
        first += weight * told
        other += weight * log
        squared += weight * told * told
        both += weight * told * log
        other_squared += weight * log * log
    return whole, first, other, squared, both, other_squared


@cache
def glove_sweeper(width: int) -> Callable[..., None]:
    """`sweep_in_numpy` as machine code for vectors of this width, which it does not have to be told."""
    ahead = max(1, FAR // width)  # entries after this one whose rows are fetched already

    @_freely
    def sweep(order, starts, chosen, rows, columns, logs, weights, words, contexts, rate, told):
        """Learns from the chosen blocks in turn; told (GROUPS²,) becomes the sum of the losses of each."""
        pace, one, half = np.float32(rate), np.float32(1), np.float32(0.5)
        for block in chosen:
            total = 0.0
            for at in range(starts[block], starts[block + 1]):
                if at + ahead < len(order):
                    coming = order[at + ahead]
                    prefetch_row(words, np.int64(rows[coming]), 0, 2 * width + 2)
                    prefetch_row(contexts, np.int64(columns[coming]), 0, 2 * width + 2)
                entry = order[at]
                word, context = words[rows[entry]], contexts[columns[entry]]
                error = np.float32(0)
                for place in range(width):
                    error += word[place] * context[place]
                error += word[2 * width] + context[2 * width] - logs[entry]
                total += half * weights[entry] * error * error
                step = pace * weights[entry] * error
                for place in range(width):
                    mine, other = word[place], context[place]
                    my_square, other_square = word[width + place], context[width + place]
                    my_step, other_step = step * other, step * mine
                    word[place] = mine - my_step * (one / np.sqrt(my_square))
                    context[place] = other - other_step * (one / np.sqrt(other_square))
                    word[width + place] = my_square + my_step * my_step
                    context[width + place] = other_square + other_step * other_step
                for side in (word, context):
                    side[2 * width] -= step / np.sqrt(side[2 * width + 1])
                    side[2 * width + 1] += step * step
            told[block] = total

    return sweep
