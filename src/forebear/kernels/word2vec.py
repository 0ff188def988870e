"""word2vec kernels: windows, scores, updates, loss, and hashed character n-grams.

Hogwild: a few windows are scored, then applied, before the next few. Threads work on different parts and update the
same tables without locks. Deterministic: a group of windows is scored against frozen tables, then all of it is
applied. Threads share the windows when scoring and the columns when applying, and each column changes in the order of
the windows, so the result is bit-equal for any number of threads.

With subwords, a vector for each word of a span of text is built first, trained like any other, and its change added to
each of its rows: rows are read once per span, not once per window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from forebear.kernels.jit import compile_kernel, inline_kernel
from forebear.kernels.simd import (
    add_to_rows,
    average_rows,
    prefetch_row,
    repeat_signs,
    score_rows,
    sigmoid_gradients,
    update_rows,
)
from forebear.kernels.vector_tables import CACHE_LINE

# --- Windows: their sizes and targets ---


class TokenRuns(NamedTuple):
    """Token ids to learn from, as concatenated rows split into parts."""

    tokens: np.ndarray  # (n,) int32
    ends: np.ndarray  # (rows,) int64
    states: np.ndarray  # (parts,) uint64, the random state of each part
    starts: np.ndarray  # (parts + 1,) int64, where each part begins, and the last ends


class OutputTargets(NamedTuple):
    """Output targets of a word: a table of negative samples, or paths in a Huffman tree; the other one is empty."""

    stream: np.ndarray  # int32
    negatives: int
    indptr: np.ndarray  # (V + 1,) int64
    nodes: np.ndarray  # int32
    codes: np.ndarray  # uint8


class WindowBatch(NamedTuple):
    """Windows and their targets, in blocks of equal length padded with targets of sign 0."""

    context_starts: np.ndarray  # (n,) int64
    context_ends: np.ndarray  # (n,) int64
    blocks: np.ndarray  # (n,) int64; 0 where there is nothing to learn
    targets: np.ndarray  # (n · slots,) int32
    signs: np.ndarray  # (n · slots,) float32 and padding: 1 for true targets, -1 for false ones, 0 for padding


@inline_kernel
def draw_windows(text, source, window, part, windows, index, targets_per_window, target_block):
    """Sample the sizes and targets of all windows of a part, written from index `index` on."""
    tokens, ends, stream, state = text.tokens, text.ends, source.stream, text.states[part]
    first, last = text.starts[part], text.starts[part + 1]
    row = np.searchsorted(ends, first, side="right")
    stream_position = np.int64(state % np.uint64(max(len(stream), 1)))
    for position in range(first, last):
        while ends[row] <= position:
            row += 1
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        reach = 1 + np.int64((state >> np.uint64(32)) * np.uint64(window) >> np.uint64(32))
        left, right = max(ends[row - 1] if row else 0, position - reach), min(ends[row], position + reach + 1)
        target_start, word, num_targets = index * targets_per_window, tokens[position], 0
        if right - left > 1 and len(stream):
            windows.targets[target_start], windows.signs[target_start], num_targets = word, 1, 1 + source.negatives
            for slot in range(target_start + 1, target_start + num_targets):
                windows.targets[slot] = stream[stream_position]
                # The word itself is no negative sample.
                windows.signs[slot] = 0 if stream[stream_position] == word else -1
                stream_position = stream_position + 1 if stream_position + 1 < len(stream) else 0
        elif right - left > 1:
            begin, num_targets = source.indptr[word], source.indptr[word + 1] - source.indptr[word]
            for i in range(num_targets):
                windows.targets[target_start + i] = source.nodes[begin + i]
                windows.signs[target_start + i] = 1 - 2 * np.int64(source.codes[begin + i])
        blocks = -(-num_targets // len(target_block))
        for slot in range(target_start + num_targets, target_start + blocks * len(target_block)):
            windows.targets[slot], windows.signs[slot] = 0, 0
        windows.context_starts[index], windows.context_ends[index], windows.blocks[index] = left, right, blocks
        index += 1


# --- One window: scores of its targets, and updates ---
# The reference implementation is word2vec_reference.py.


class ContextGradients(NamedTuple):
    """Buffers for the scores of windows, which become their gradients."""

    gradients: np.ndarray  # float32, with padding
    signs: np.ndarray  # float32, the sign of each
    row_ids: np.ndarray  # (n,) int32, 0, 1, …: row ids in `means`
    means: np.ndarray  # (n, width), the means of the context words
    sums: np.ndarray  # (n, width), the gradient of each context word


class SGNSWorkspace(NamedTuple):
    """Output table, windows and buffers of one thread."""

    outputs: np.ndarray  # (rows, width)
    windows: WindowBatch
    buffers: ContextGradients
    target_block: tuple[int, ...]  # as long as a block of targets
    targets_per_window: int  # targets of a window, whole blocks
    window: int  # maximum distance of a context word
    max_contexts: int  # maximum context words scored at once
    rate: np.float32
    loss_sums: np.ndarray  # (parts, 2) float64: summed losses, and the number of predictions
    report_mask: int  # a window reports its loss if its position & report_mask is 0


class VectorRows(NamedTuple):
    """Vectors of the words of a text: the word at position p has row row_ids[p - shift] of the table."""

    table: np.ndarray  # (rows, width)
    row_ids: np.ndarray  # (n,) int32
    shift: int


class Window(NamedTuple):
    """A word of the text and its context words, which are `num_contexts` words from position `left` on without it."""

    position: int
    batch_index: int
    left: int
    num_contexts: int  # 0 if there is nothing to learn


@inline_kernel
def window_at(workspace, position, index):
    left, windows = workspace.windows.context_starts[index], workspace.windows
    return Window(position, index, left, windows.context_ends[index] - left - 1 if windows.blocks[index] else 0)


@inline_kernel
def score_window(workspace, mean, rows, window, start, mean_row):
    """Score the context words of a window, or their mean; returns the number of scores.

    `mean` is None or True; `mean_row` is the row of the buffer for the mean.
    """
    windows, buffers, target_block = workspace.windows, workspace.buffers, workspace.target_block
    block_size, num_rows = len(target_block), window.num_contexts
    begin, skip = window.left - rows.shift, window.position - window.left
    if mean is not None:
        num_rows, width = 1, rows.table.shape[1]
        average_rows(rows.table, rows.row_ids, begin, skip, window.num_contexts, buffers.means, mean_row, 0, width)
    for block in range(windows.blocks[window.batch_index]):
        target = window.batch_index * workspace.targets_per_window + block * block_size
        gradient_start = start + block * num_rows * block_size
        repeat_signs(buffers.signs, gradient_start, windows.signs, target, num_rows, target_block)
        if mean is not None:
            score_rows(
                buffers.means, buffers.row_ids, mean_row, 1, 1, workspace.outputs, windows.targets, target,
                buffers.gradients, gradient_start, target_block,
            )  # fmt: skip
        else:
            score_rows(
                rows.table, rows.row_ids, begin, skip, num_rows, workspace.outputs, windows.targets, target,
                buffers.gradients, gradient_start, target_block,
            )  # fmt: skip
    return windows.blocks[window.batch_index] * num_rows * block_size


@inline_kernel
def apply_gradients(workspace, mean, rows, window, start, mean_row, first, last):
    """Apply the gradients of a window in columns first to last; returns how many there were."""
    windows, buffers, target_block = workspace.windows, workspace.buffers, workspace.target_block
    block_size, num_rows = len(target_block), window.num_contexts
    begin, skip = window.left - rows.shift, window.position - window.left
    if mean is not None:
        num_rows = 1
    for block in range(windows.blocks[window.batch_index]):
        target = window.batch_index * workspace.targets_per_window + block * block_size
        gradient_start = start + block * num_rows * block_size
        if mean is not None:
            update_rows(
                buffers.means, buffers.row_ids, mean_row, 1, 1, workspace.outputs, windows.targets, target,
                buffers.gradients, gradient_start, target_block, buffers.sums, block == 0, first, last,
            )  # fmt: skip
        else:
            update_rows(
                rows.table, rows.row_ids, begin, skip, num_rows, workspace.outputs, windows.targets, target,
                buffers.gradients, gradient_start, target_block, rows.table, False, first, last,
            )  # fmt: skip
    if mean is not None:
        add_to_rows(rows.table, rows.row_ids, begin, skip, window.num_contexts, buffers.sums, mean_row, first, last)
    return windows.blocks[window.batch_index] * num_rows * block_size


@inline_kernel
def report_loss(workspace, mean, window, start, num_scored, part):
    """Add the loss of a window, if it is one of those sampled for the report."""
    buffers, loss_sums = workspace.buffers, workspace.loss_sums
    if window.position & workspace.report_mask:
        return
    for i in range(start, start + num_scored):
        if buffers.signs[i] != 0:
            score = np.float64(buffers.signs[i] * buffers.gradients[i])
            loss_sums[part, 0] += max(-score, 0.0) + np.log1p(np.exp(-abs(score)))
    loss_sums[part, 1] += 1 if mean is not None else window.num_contexts


# --- Barrier between threads inside compiled loops ---

intrinsic: Any = extending.intrinsic
GATE_OPEN = 1 << 62  # releases every waiting thread
MAX_SPINS = 2000  # then yield the processor: with more threads than cores, others need it


@intrinsic
def _enter_gate(typing: Any, gate: Any) -> Any:
    """Atomically gate[0] += 1; makes earlier writes visible to others."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", data, one, "seq_cst")

    return types.int64(gate), build


@intrinsic
def _gate_count(typing: Any, gate: Any) -> Any:
    """Atomically read gate[0]."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.load_atomic(data, "seq_cst", 8)

    return types.int64(gate), build


@intrinsic
def _yield_processor(typing: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), build


@inline_kernel
def wait_at_gate(gate, threads, num_waits):
    """Barrier: returns when all threads were here `num_waits` times. `gate` is an int64 array that starts at 0."""
    _enter_gate(gate)
    spins = 0
    while _gate_count(gate) < threads * num_waits:
        spins += 1
        if spins > MAX_SPINS:
            _yield_processor()


WINDOWS_AHEAD = 3  # windows whose rows are prefetched in advance


class SubwordRows(NamedTuple):
    """The rows whose mean is a word's vector, and buffers for one span of text."""

    indptr: np.ndarray  # (V + 1,) int64
    rows: np.ndarray  # int32
    span_ids: np.ndarray  # (V,) int32, the span id of each word while ids are assigned; otherwise -1
    words: np.ndarray  # (n,) int32, the distinct words of the span
    span_positions: np.ndarray  # (n,) int32, the span id of the word at each position
    num_words: np.ndarray  # (1,) int64, the number of distinct words
    vectors: np.ndarray  # (n, width)
    previous_vectors: np.ndarray  # (n, width), the vectors before training


@inline_kernel
def number_span_words(tokens, first, last, subwords):
    """Assign ids to the distinct words of a span of text, in order of first occurrence."""
    num_words = 0
    for position in range(first, last):
        word = tokens[position]
        if subwords.span_ids[word] < 0:
            subwords.span_ids[word] = num_words
            subwords.words[num_words] = word
            num_words += 1
        subwords.span_positions[position - first] = subwords.span_ids[word]
    for index in range(num_words):
        subwords.span_ids[subwords.words[index]] = -1
    subwords.num_words[0] = num_words


@inline_kernel
def build_subword_vector(subwords, index, inputs):
    """Compute the vector of one word of the span."""
    word, width = subwords.words[index], inputs.shape[1]
    begin, num_subwords = subwords.indptr[word], subwords.indptr[word + 1] - subwords.indptr[word]
    average_rows(inputs, subwords.rows, begin, num_subwords, num_subwords, subwords.vectors, index, 0, width)
    for column in range(width):
        subwords.previous_vectors[index, column] = subwords.vectors[index, column]


@inline_kernel
def apply_subword_update(subwords, index, inputs, first, last):
    """Add the change of a word's vector to each of its rows, in columns first to last."""
    word = subwords.words[index]
    begin, num_subwords = subwords.indptr[word], subwords.indptr[word + 1] - subwords.indptr[word]
    for column in range(first, last):
        subwords.previous_vectors[index, column] = (
            subwords.vectors[index, column] - subwords.previous_vectors[index, column]
        )
    add_to_rows(inputs, subwords.rows, begin, num_subwords, num_subwords, subwords.previous_vectors, index, first, last)


@inline_kernel
def prefetch_window(workspace, rows, position, index, num_windows, end, first, last):
    """Prefetch the target rows of a window that comes soon after this one, and the next context word."""
    windows, index, position = workspace.windows, index + WINDOWS_AHEAD, position + WINDOWS_AHEAD + workspace.window
    if index < num_windows:
        begin = index * workspace.targets_per_window
        for slot in range(begin, begin + windows.blocks[index] * len(workspace.target_block)):
            prefetch_row(workspace.outputs, np.int64(windows.targets[slot]), first, last)
        if position < end:
            prefetch_row(rows.table, np.int64(rows.row_ids[position - rows.shift]), first, last)


@inline_kernel
def train_part(workspace, mean, rows, first, last, end, group, part):
    """Train on the windows around the words first to last, a few at a time; words are known up to `end`."""
    buffers, width = workspace.buffers, rows.table.shape[1]
    for start in range(first, last, group):
        stop, num_scored = min(start + group, last), 0
        for position in range(start, stop):
            prefetch_window(workspace, rows, position, position - first, last - first, end, 0, width)
            window = window_at(workspace, position, position - first)
            if mean is None and window.num_contexts > workspace.max_contexts:
                train_wide_window(workspace, rows, window, part)
            elif window.num_contexts:
                num_scores = score_window(workspace, mean, rows, window, num_scored, position - start)
                report_loss(workspace, mean, window, num_scored, num_scores, part)
                num_scored += num_scores
        sigmoid_gradients(buffers.gradients, 0, buffers.signs, 0, num_scored, workspace.rate)
        num_scored = 0
        for position in range(start, stop):
            window = window_at(workspace, position, position - first)
            if window.num_contexts and (mean is not None or window.num_contexts <= workspace.max_contexts):
                num_scored += apply_gradients(workspace, mean, rows, window, num_scored, position - start, 0, width)


@inline_kernel
def train_wide_window(workspace, rows, window, part):
    """Train on one wide window, a few context words at a time: all at once would update the targets too much."""
    buffers, width = workspace.buffers, rows.table.shape[1]
    for num_done in range(0, window.num_contexts, workspace.max_contexts):
        num_contexts = min(workspace.max_contexts, window.num_contexts - num_done)
        piece = Window(window.position, window.batch_index, window.left + num_done, num_contexts)
        num_scores = score_window(workspace, None, rows, piece, 0, 0)
        report_loss(workspace, None, piece, 0, num_scores, part)
        sigmoid_gradients(buffers.gradients, 0, buffers.signs, 0, num_scores, workspace.rate)
        apply_gradients(workspace, None, rows, piece, 0, 0, 0, width)


def train_hogwild(text, source, subwords, workspace, mean, inputs, first_part, last_part, group):
    """Train on some parts of a text. `subwords` may be None; `mean` is None or True."""
    size, targets_per_window = len(text.tokens), workspace.targets_per_window
    for part in range(first_part, last_part):
        first, last = text.starts[part], text.starts[part + 1]
        draw_windows(
            text, source, workspace.window, part, workspace.windows, 0, targets_per_window, workspace.target_block
        )
        if subwords is None:
            train_part(workspace, mean, VectorRows(inputs, text.tokens, 0), first, last, size, group, part)
        else:
            begin, end = max(first - workspace.window, 0), min(last + workspace.window, size)
            number_span_words(text.tokens, begin, end, subwords)
            for index in range(subwords.num_words[0]):
                build_subword_vector(subwords, index, inputs)
            rows = VectorRows(subwords.vectors, subwords.span_positions, begin)
            train_part(workspace, mean, rows, first, last, end, group, part)
            for index in range(subwords.num_words[0]):
                apply_subword_update(subwords, index, inputs, 0, inputs.shape[1])


@inline_kernel
def measure_part(workspace, mean, rows, first, last, end, first_window, start, part):
    """Score windows against frozen tables; windows begin at index `first_window`, their gradients at `start`."""
    buffers, num_scored, num_windows = workspace.buffers, start, first_window + last - first
    for position in range(first, last):
        index = first_window + position - first
        prefetch_window(workspace, rows, position, index, num_windows, end, 0, rows.table.shape[1])
        window = window_at(workspace, position, index)
        if window.num_contexts:
            num_scores = score_window(workspace, mean, rows, window, num_scored, index)
            report_loss(workspace, mean, window, num_scored, num_scores, part)
            num_scored += num_scores
    sigmoid_gradients(buffers.gradients, start, buffers.signs, start, num_scored - start, workspace.rate)


@inline_kernel
def apply_part(workspace, mean, rows, first, last, end, first_window, start, first_column, end_column):
    """Apply the gradients of the same windows in columns `first_column` to `end_column`."""
    num_scored, num_windows = start, first_window + last - first
    for position in range(first, last):
        index = first_window + position - first
        prefetch_window(workspace, rows, position, index, num_windows, end, first_column, end_column)
        window = window_at(workspace, position, index)
        if window.num_contexts:
            num_scored += apply_gradients(workspace, mean, rows, window, num_scored, index, first_column, end_column)


def train_deterministic(
    thread, threads, gate, text, source, subwords, workspace, mean, inputs, group, gradients_per_part
):
    """Train on the whole text in groups of parts; `gradients_per_part` is a maximum."""
    size, parts, num_waits = len(text.tokens), len(text.states), 0
    num_cache_lines = inputs.shape[1] // CACHE_LINE
    first_column = num_cache_lines * thread // threads * CACHE_LINE
    end_column = num_cache_lines * (thread + 1) // threads * CACHE_LINE
    table, row_ids, shift = inputs, text.tokens, 0
    windows, targets_per_window, target_block = workspace.windows, workspace.targets_per_window, workspace.target_block
    for begin in range(0, parts, group):
        end = min(begin + group, parts)
        group_start = text.starts[begin]
        known_end = min(text.starts[end] + workspace.window, size)
        if subwords is not None:
            shift = max(group_start - workspace.window, 0)
            if thread == 0:
                number_span_words(text.tokens, shift, known_end, subwords)
            wait_at_gate(gate, threads, num_waits + 1)
            for index in range(thread, subwords.num_words[0], threads):
                build_subword_vector(subwords, index, inputs)
            wait_at_gate(gate, threads, num_waits + 2)
            table, row_ids, num_waits = subwords.vectors, subwords.span_positions, num_waits + 2
        rows = VectorRows(table, row_ids, shift)
        for part in range(begin + thread, end, threads):
            first, last, gradient_start = text.starts[part], text.starts[part + 1], (part - begin) * gradients_per_part
            first_window = first - group_start
            draw_windows(text, source, workspace.window, part, windows, first_window, targets_per_window, target_block)
            measure_part(workspace, mean, rows, first, last, known_end, first_window, gradient_start, part)
        wait_at_gate(gate, threads, num_waits + 1)
        for part in range(begin, end):
            first, last, gradient_start = text.starts[part], text.starts[part + 1], (part - begin) * gradients_per_part
            first_window = first - group_start
            apply_part(
                workspace, mean, rows, first, last, known_end, first_window, gradient_start, first_column, end_column
            )
        if subwords is not None:
            for index in range(subwords.num_words[0]):
                apply_subword_update(subwords, index, inputs, first_column, end_column)
        wait_at_gate(gate, threads, num_waits + 2)
        num_waits += 2


# --- Evaluation: losses in float64 over complete windows ---

FAST_MATH = frozenset({"reassoc", "contract"})  # sums may be taken several at a time


def evaluate_sgns(
    tokens: np.ndarray,
    ends: np.ndarray,
    inputs: np.ndarray,
    outputs: np.ndarray,
    source: OutputTargets,
    window: int,
    mean: bool,
    state: int,
) -> tuple[float, int]:
    """Summed loss of rows of words, and the number of predictions (pairs, or words where the mean predicts).

    Rows of `outputs` may be longer than those of `inputs`; the padding is ignored.
    """
    totals = np.zeros(2)
    compile_kernel(evaluate_sgns_kernel, FAST_MATH)(
        tokens, ends, inputs, outputs, source, window, mean, np.uint64(state), totals
    )
    return float(totals[0]), int(totals[1])


def evaluate_sgns_kernel(tokens, ends, inputs, outputs, source, window, mean, state, totals):
    stream_position = np.int64(state % np.uint64(max(len(source.stream), 1)))
    hidden = np.empty(inputs.shape[1])
    max_targets = max(1 + source.negatives, np.diff(source.indptr).max() if len(source.indptr) > 1 else 0)
    targets, signs = np.empty(max_targets, np.int64), np.empty(max_targets)
    loss, factors, num_predictions, row = 0.0, 1.0, 0, 0
    for center in range(len(tokens)):
        while ends[row] <= center:
            row += 1
        left, right = max(ends[row - 1] if row else 0, center - window), min(ends[row], center + window + 1)
        if right - left < 2:
            continue
        num_targets = output_targets(tokens[center], source, stream_position, targets, signs)
        for context in range(left, left + 1 if mean else right):
            if mean:
                hidden[:] = -inputs[tokens[center]]
                for other in range(left, right):
                    hidden += inputs[tokens[other]]
                hidden /= right - left - 1
            elif context != center:
                hidden[:] = inputs[tokens[context]]
            else:
                continue
            for target in range(num_targets):
                score = 0.0
                for column in range(len(hidden)):
                    score += hidden[column] * outputs[targets[target], column]
                loss += max(-signs[target] * score, 0.0)
                factors *= 1 + np.exp(-abs(score))  # the logarithm of the product replaces many logarithms
                if factors > 1e300:
                    loss += np.log(factors)
                    factors = 1.0
            num_predictions += 1
        stream_position += source.negatives
    totals[0], totals[1] = loss + np.log(factors), num_predictions


@inline_kernel
def output_targets(word, source, stream_position, targets, signs):
    """The target rows of a word with signs 1 (true) and -1 (false); returns how many there are."""
    if not len(source.stream):
        begin, num_targets = source.indptr[word], source.indptr[word + 1] - source.indptr[word]
        for i in range(num_targets):
            targets[i] = source.nodes[begin + i]
            signs[i] = 1 - 2 * np.int64(source.codes[begin + i])
        return num_targets
    targets[0], signs[0], num_targets = word, 1, 1
    for i in range(1, 1 + source.negatives):
        other = source.stream[(stream_position + i) % len(source.stream)]
        if other != word:  # the word itself is no negative sample
            targets[num_targets], signs[num_targets] = other, -1
            num_targets += 1
    return num_targets


# --- Hashed character n-grams; the reference is Subwords.bucket_rows_reference ---


def hash_char_ngrams(
    data: np.ndarray, ends: np.ndarray, starts: np.ndarray, is_han: np.ndarray, lengths: tuple[int, int], buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, rows): the buckets of the character n-grams of each word.

    data     (n,) uint8, all words in UTF-8, each with its boundary marks, concatenated
    starts   (characters + 1,) int64, byte offset of each character, and the end
    ends     (words + 1,) int64, index of the first character of each word, and the end
    is_han   (characters,) bool, whether it is Han: those also count alone and in pairs
    lengths  the shortest and the longest n-gram
    """
    kernel: Any = compile_kernel(hash_char_ngrams_kernel)
    indptr = np.zeros(len(ends), np.int64)
    kernel(data, ends, starts, is_han, *lengths, buckets, indptr, np.zeros(0, np.int32))
    rows = np.empty(indptr[-1], np.int32)
    kernel(data, ends, starts, is_han, *lengths, buckets, indptr, rows)
    return indptr, rows


def hash_char_ngrams_kernel(data, ends, starts, is_han, min_length, max_length, buckets, indptr, rows):
    """Count the n-grams into indptr, or fill `rows` if it is not empty."""
    num_ngrams = 0
    for word in range(len(ends) - 1):
        first, last = ends[word], ends[word + 1]
        for begin in range(first, last):
            ngram_hash = np.uint32(2166136261)
            is_chinese = True
            for end in range(begin, min(begin + max(max_length, 2), last)):
                for byte in range(starts[end], starts[end + 1]):
                    ngram_hash = np.uint32((ngram_hash ^ np.uint32(np.int8(data[byte]))) * np.uint64(16777619))
                length = end + 1 - begin
                is_chinese = is_chinese and is_han[end]
                is_border = length == 1 and (begin == first or begin == last - 1)
                if (min_length <= length <= max_length and not is_border) or (length <= 2 and is_chinese):
                    if len(rows):
                        rows[num_ngrams] = ngram_hash % np.uint32(buckets)
                    num_ngrams += 1
        if not len(rows):
            indptr[word + 1] = num_ngrams
