"""GloVe's AdaGrad updates over a co-occurrence table: compiled kernels and their numpy references.

The layout of the rows of `words` and `contexts` is described in vector_tables.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from forebear.kernels.jit import without_interrupts
from forebear.kernels.simd import prefetch_row

ROW_GROUPS = 16  # groups of rows, and of columns; blocks of the same turn share neither
PREFETCH_VALUES = 400  # how far ahead rows are prefetched, in values of the vectors before them
SAMPLE_EVERY = 16  # one entry in so many is counted to balance the groups
# Sums in any order, fused multiply-add, approximate quotients and roots; NaN stays NaN.
FAST_MATH = {"reassoc", "contract", "arcp", "afn", "nsz"}


# -- numpy reference


def adagrad_pass_reference(
    order: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    log_counts: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    width: int,
    learning_rate: float,
) -> float:
    """Update in place, entry by entry; returns the sum of the losses, each measured before its update.

    The loss of an entry is ½ f (w·c + b + b' - log x)². Its gradient with respect to w is f (…) c. AdaGrad divides a
    step by the root of the sum of all earlier squared steps, which starts at 1.
    """
    total = 0.0
    vector, squares, bias = slice(0, width), slice(width, 2 * width), 2 * width
    for entry in order.tolist():
        word, context = words[rows[entry]], contexts[columns[entry]]
        error = word[vector] @ context[vector] + word[bias] + context[bias] - log_counts[entry]
        total += float(0.5 * weights[entry] * error * error)
        step = learning_rate * weights[entry] * error
        steps = step * context[vector], step * word[vector]
        for row, row_step in zip((word, context), steps, strict=True):
            row[vector] -= row_step / np.sqrt(row[squares])
            row[squares] += row_step * row_step
            row[bias] -= step / np.sqrt(row[bias + 1])
            row[bias + 1] += step * step
    return total


def batch_moments_reference(
    rows: np.ndarray,
    columns: np.ndarray,
    log_counts: np.ndarray,
    weights: np.ndarray,
    words: np.ndarray,
    contexts: np.ndarray,
    width: int,
) -> tuple[float, ...]:
    """Σ f, Σ f p, Σ f l, Σ f p², Σ f p l and Σ f l² of the predictions p and the log counts l, without updates."""
    word_rows, context_rows = words[rows].astype(np.float64), contexts[columns].astype(np.float64)
    biases = word_rows[:, 2 * width] + context_rows[:, 2 * width]
    predictions = (word_rows[:, :width] * context_rows[:, :width]).sum(axis=1) + biases
    return tuple(
        float((weights * values).sum())
        for values in (
            1,
            predictions,
            log_counts,
            predictions * predictions,
            predictions * log_counts,
            log_counts * log_counts,
        )
    )


def group_blocks_reference(rows: np.ndarray, columns: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """A blocked order of the entries (n,), stable within each block, and the block boundaries (ROW_GROUPS² + 1,).

    The vocabulary is split into contiguous groups with about equally many entries, by row and again by column. Block
    t · ROW_GROUPS + g has the entries whose row is in group g and whose column is in group g + t. Blocks of the same
    turn t share no word, so they can be trained on in parallel.
    """
    row_group = _word_groups(rows, vocab_size)[rows].astype(int)
    column_group = _word_groups(columns, vocab_size)[columns]
    keys = (column_group - row_group) % ROW_GROUPS * ROW_GROUPS + row_group
    return np.argsort(keys, kind="stable"), np.searchsorted(np.sort(keys), np.arange(ROW_GROUPS**2 + 1))


def _word_groups(ids: np.ndarray, vocab_size: int) -> np.ndarray:
    """(vocab_size,) uint8: the group of each word, balanced on a sample of the ids."""
    cumulative = np.cumsum(np.bincount(ids[::SAMPLE_EVERY], minlength=vocab_size))
    return np.minimum(cumulative * ROW_GROUPS // (cumulative[-1] + 1), ROW_GROUPS - 1).astype(np.uint8)


# -- compiled


def _fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with fast math and without the GIL; a division by zero gives infinity."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST_MATH}
    try:
        return without_interrupts(numba.njit(function, cache=True, **options))
    except RuntimeError:  # no writable cache folder
        return without_interrupts(numba.njit(function, **options))


def group_blocks(rows: np.ndarray, columns: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Compiled version of `group_blocks_reference`."""
    return _sort_into_blocks(rows, columns, _word_groups(rows, vocab_size), _word_groups(columns, vocab_size))


@_fast_kernel
def _sort_into_blocks(rows, columns, row_groups, column_groups):
    keys, starts = np.empty(len(rows), np.uint8), np.zeros(ROW_GROUPS * ROW_GROUPS + 1, np.int64)
    for entry in range(len(rows)):
        row_group, column_group = np.int64(row_groups[rows[entry]]), np.int64(column_groups[columns[entry]])
        key = ((column_group - row_group) & (ROW_GROUPS - 1)) * ROW_GROUPS + row_group  # ROW_GROUPS is a power of two
        keys[entry] = key
        starts[key + 1] += 1
    for key in range(ROW_GROUPS * ROW_GROUPS):
        starts[key + 1] += starts[key]
    order, next_slots = np.empty(len(rows), np.int32), starts.copy()
    for entry in range(len(rows)):
        order[next_slots[keys[entry]]] = entry
        next_slots[keys[entry]] += 1
    return order, starts


@_fast_kernel
def batch_moments(rows, columns, log_counts, weights, words, contexts, width):
    """Compiled version of `batch_moments_reference`."""
    weight_sum = 0.0
    prediction_sum = 0.0
    log_sum = 0.0
    squared_prediction_sum = 0.0
    product_sum = 0.0
    squared_log_sum = 0.0
    for entry in range(len(rows)):
        word, context = words[rows[entry]], contexts[columns[entry]]
        weight, log = np.float64(weights[entry]), np.float64(log_counts[entry])
        prediction = np.float64(word[2 * width]) + context[2 * width]
        for column in range(width):
            prediction += np.float64(word[column]) * context[column]
        weight_sum += weight
        prediction_sum += weight * prediction
        log_sum += weight * log
        squared_prediction_sum += weight * prediction * prediction
        product_sum += weight * prediction * log
        squared_log_sum += weight * log * log
    return weight_sum, prediction_sum, log_sum, squared_prediction_sum, product_sum, squared_log_sum


@cache
def compile_adagrad_pass(width: int) -> Callable[..., None]:
    """Compile `adagrad_pass_reference` for vectors of this width, which becomes a compile-time constant."""
    lookahead = max(1, PREFETCH_VALUES // width)  # how many entries ahead rows are prefetched

    @_fast_kernel
    def adagrad_pass(order, starts, blocks, rows, columns, log_counts, weights, words, contexts, learning_rate, losses):
        """Train on these blocks in turn and write the summed loss of each into `losses` (ROW_GROUPS²,)."""
        rate, one, half = np.float32(learning_rate), np.float32(1), np.float32(0.5)
        for block in blocks:
            total = 0.0
            for position in range(starts[block], starts[block + 1]):
                if position + lookahead < len(order):
                    upcoming = order[position + lookahead]
                    prefetch_row(words, np.int64(rows[upcoming]), 0, 2 * width + 2)
                    prefetch_row(contexts, np.int64(columns[upcoming]), 0, 2 * width + 2)
                entry = order[position]
                word, context = words[rows[entry]], contexts[columns[entry]]
                error = np.float32(0)
                for column in range(width):
                    error += word[column] * context[column]
                error += word[2 * width] + context[2 * width] - log_counts[entry]
                total += half * weights[entry] * error * error
                step = rate * weights[entry] * error
                for column in range(width):
                    value, other_value = word[column], context[column]
                    square, other_square = word[width + column], context[width + column]
                    step_value, other_step = step * other_value, step * value
                    word[column] = value - step_value * (one / np.sqrt(square))
                    context[column] = other_value - other_step * (one / np.sqrt(other_square))
                    word[width + column] = square + step_value * step_value
                    context[width + column] = other_square + other_step * other_step
                for row in (word, context):
                    row[2 * width] -= step / np.sqrt(row[2 * width + 1])
                    row[2 * width + 1] += step * step
            losses[block] = total

    return adagrad_pass
