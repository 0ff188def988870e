"""One sweep of GloVe's AdaGrad over entries of a table of counts: loops that are compiled, beside numpy's way.

A table has a row for each word: its vector, the sums of squares that AdaGrad keeps for each number of it, the bias, and
the bias's own sum. `width` numbers of vector and sums are followed by nothing else, so that a word is one stretch of
memory.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

ALLOWED = {"nsz", "arcp", "contract", "afn", "reassoc"}  # sums in any order, roots and quotients as estimates


def columns_of(width: int) -> int:
    """How long a row of a table is."""
    return 2 * width + 2


def sweep(*given: Any) -> float:
    """As `sweep_in_loops`, compiled."""
    return _compiled(sweep_in_loops)(*given)


def losses(*given: Any) -> float:
    """As `losses_in_loops`, compiled."""
    return _compiled(losses_in_loops)(*given)


@cache
def _compiled(loops: Any) -> Any:
    """Machine code that other threads can run beside; a division by zero is infinite and no error."""
    import numba

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": ALLOWED}
    try:
        return numba.njit(loops, cache=True, **options)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(loops, **options)


def sweep_in_numpy(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    rate: float,
) -> float:
    """Learns from one entry after the other, in place; the sum of their losses, each before it was learned from.

    The loss of an entry is ½ f (w·c + b + b' - log x)², and its gradient by w is f (…) c. AdaGrad divides a step by the
    root of all squared steps before it, and of the 1 it began with.
    """
    total, width = 0.0, (words.shape[1] - 2) // 2
    vector, squares, bias = slice(0, width), slice(width, 2 * width), 2 * width
    for row, column, log, weight in zip(rows.tolist(), columns.tolist(), logs, weights, strict=True):
        word, context = words[row], contexts[column]
        error = word[vector] @ context[vector] + word[bias] + context[bias] - log
        total += float(0.5 * weight * error * error)
        step = rate * weight * error
        steps = step * context[vector], step * word[vector]
        for mine, taken in zip((word, context), steps, strict=True):
            mine[vector] -= taken / np.sqrt(mine[squares])
            mine[squares] += taken * taken
            mine[bias] -= step / np.sqrt(mine[bias + 1])
            mine[bias + 1] += step * step
    return total


def sweep_in_loops(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    rate: float,
) -> float:
    total, width, one = 0.0, (words.shape[1] - 2) // 2, np.float32(1)
    pace = np.float32(rate)
    for at in range(len(rows)):
        word, context = words[rows[at]], contexts[columns[at]]
        error = word[2 * width] + context[2 * width] - logs[at]
        product = np.float32(0)
        for place in range(width):
            product += word[place] * context[place]
        error += product
        total += np.float32(0.5) * weights[at] * error * error
        step = pace * weights[at] * error
        for place in range(width):
            mine, other = word[place], context[place]
            my_square, other_square = word[width + place], context[width + place]
            my_step, other_step = step * other, step * mine
            word[place] = mine - my_step * (one / np.sqrt(my_square))
            context[place] = other - other_step * (one / np.sqrt(other_square))
            word[width + place] = my_square + my_step * my_step
            context[width + place] = other_square + other_step * other_step
        word[2 * width] -= step / np.sqrt(word[2 * width + 1])
        context[2 * width] -= step / np.sqrt(context[2 * width + 1])
        word[2 * width + 1] += step * step
        context[2 * width + 1] += step * step
    return total


def losses_in_numpy(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
) -> float:
    """The sum of the losses of these entries; nothing is learned."""
    width = (words.shape[1] - 2) // 2
    mine, others = words[rows].astype(np.float64), contexts[columns].astype(np.float64)
    errors = (mine[:, :width] * others[:, :width]).sum(axis=1) + mine[:, 2 * width] + others[:, 2 * width] - logs
    return float((0.5 * weights * errors * errors).sum())


def losses_in_loops(
    rows: np.ndarray,
    columns: np.ndarray,
    logs: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
) -> float:
    total, width = 0.0, (words.shape[1] - 2) // 2
    for at in range(len(rows)):
        word, context = words[rows[at]], contexts[columns[at]]
        error = np.float64(word[2 * width]) + context[2 * width] - logs[at]
        for place in range(width):
            error += np.float64(word[place]) * context[place]
        total += 0.5 * weights[at] * error * error
    return total
