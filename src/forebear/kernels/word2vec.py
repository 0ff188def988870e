"""word2vec kernels: windows, scores, updates, loss, and hashed character n-grams.

Hogwild: a few windows are scored, then applied, before the next few; threads work on parts of their own and write to
the same tables without locks. Deterministic: a group of windows is scored against frozen tables, then all of it is
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
from forebear.kernels.layout import CACHE_LINE
from forebear.kernels.simd import (
    add_to_rows,
    average_rows,
    prefetch_row,
    repeat_signs,
    score_rows,
    sigmoid_gradients,
    update_rows,
)

# --- Windows: their sizes and targets ---


class TokenRuns(NamedTuple):
    """Token ids to learn from, as concatenated rows split into parts."""

    tokens: np.ndarray  # (n,) int32
    ends: np.ndarray  # (rows,) int64
    states: np.ndarray  # (parts,) uint64, the random state of each part
    starts: np.ndarray  # (parts + 1,) int64, where each part begins, and the last ends


class OutputTargets(NamedTuple):
    """What predicts a word: a stream of negative samples, or its path in a Huffman tree; the other one is empty."""

    stream: np.ndarray  # int32
    negatives: int
    indptr: np.ndarray  # (V + 1,) int64
    nodes: np.ndarray  # int32
    turns: np.ndarray  # uint8


class WindowBatch(NamedTuple):
    """Windows and their targets, in blocks of equal length padded with targets of sign 0."""

    lefts: np.ndarray  # (n,) int64
    rights: np.ndarray  # (n,) int64
    blocks: np.ndarray  # (n,) int64; 0 where there is nothing to learn
    targets: np.ndarray  # (n · slots,) int32
    signs: np.ndarray  # (n · slots,) float32 and padding: 1 for true targets, -1 for false ones, 0 for padding


@inline_kernel
def draw_windows(text, supply, window, number, windows, at, slots, kinds):
    """Sample the sizes and targets of all windows of a part, written from index `at` on."""
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
                windows.signs[slot] = 0 if stream[drawn] == word else -1  # the word itself is no negative sample
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


# --- One window: scores of its targets, and updates ---
# The readable twin is word2vec_reference.py.


class ContextGradients(NamedTuple):
    """Buffers for the scores of windows, which become their gradients."""

    pulls: np.ndarray  # float32, with padding
    signs: np.ndarray  # float32, the sign of each
    alone: np.ndarray  # (n,) int32, 0, 1, …: row numbers of `means`
    means: np.ndarray  # (n, width), the means of the context words
    sums: np.ndarray  # (n, width), the gradient of each context word


class SGNSWorkspace(NamedTuple):
    """Output table, windows and buffers of one thread."""

    outputs: np.ndarray  # (rows, width)
    windows: WindowBatch
    work: ContextGradients
    kinds: tuple[int, ...]  # as long as a block of targets
    slots: int  # targets of a window, whole blocks
    window: int  # maximum distance of a context word
    few: int  # maximum context words scored at once
    rate: np.float32
    loss_sums: np.ndarray  # (parts, 2) float64: summed losses, and the number of predictions
    every: int  # a window reports its loss if its position & every is 0


@inline_kernel
def score_window(workspace, mean, inputs, places, shift, here, at, left, around, start, which):
    """Score the context words from position `left` on, or their mean; returns the number of scores.

    The row of the word at position p is places[p - shift]; `mean` is None or True; `which` is the row for the mean.
    """
    windows, work, kinds = workspace.windows, workspace.work, workspace.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
        average_rows(inputs, places, left - shift, here - left, around, work.means, which, 0, inputs.shape[1])
    for block in range(windows.blocks[at]):
        target, mine = at * workspace.slots + block * count, start + block * many * count
        repeat_signs(work.signs, mine, windows.signs, target, many, kinds)
        if mean is not None:
            score_rows(
                work.means, work.alone, which, 1, 1, workspace.outputs, windows.targets, target, work.pulls, mine, kinds
            )  # fmt: skip
        else:
            score_rows(
                inputs, places, left - shift, here - left, many, workspace.outputs, windows.targets, target, work.pulls,
                mine, kinds,
            )  # fmt: skip
    return windows.blocks[at] * many * count


@inline_kernel
def apply_gradients(workspace, mean, inputs, places, shift, here, at, left, around, start, which, first, last):
    """Apply the gradients of a window in columns first to last; returns how many there were."""
    windows, work, kinds = workspace.windows, workspace.work, workspace.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
    for block in range(windows.blocks[at]):
        target, mine = at * workspace.slots + block * count, start + block * many * count
        if mean is not None:
            update_rows(
                work.means, work.alone, which, 1, 1, workspace.outputs, windows.targets, target, work.pulls, mine,
                kinds, work.sums, block == 0, first, last,
            )  # fmt: skip
        else:
            update_rows(
                inputs, places, left - shift, here - left, many, workspace.outputs, windows.targets, target, work.pulls,
                mine, kinds, inputs, False, first, last,
            )  # fmt: skip
    if mean is not None:
        add_to_rows(inputs, places, left - shift, here - left, around, work.sums, which, first, last)
    return windows.blocks[at] * many * count


@inline_kernel
def report_loss(workspace, mean, here, around, start, many, part):
    """Add the loss of a window, if it is one of those sampled for the report."""
    work, loss_sums = workspace.work, workspace.loss_sums
    if here & workspace.every:
        return
    for place in range(start, start + many):
        if work.signs[place] != 0:
            score = np.float64(work.signs[place] * work.pulls[place])
            loss_sums[part, 0] += max(-score, 0.0) + np.log1p(np.exp(-abs(score)))
    loss_sums[part, 1] += 1 if mean is not None else around


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
def wait_at_gate(gate, threads, times):
    """Barrier: returns when all threads were here `times` times. `gate` is an int64 array that starts at 0."""
    _enter_gate(gate)
    spins = 0
    while _gate_count(gate) < threads * times:
        spins += 1
        if spins > MAX_SPINS:
            _yield_processor()


WINDOWS_AHEAD = 3  # windows whose rows are prefetched in advance


class SubwordRows(NamedTuple):
    """The rows whose mean is a word's vector, and buffers for one span of text."""

    indptr: np.ndarray  # (V + 1,) int64
    rows: np.ndarray  # int32
    numbers: np.ndarray  # (V,) int32, -1: the number of each word while they are being numbered
    words: np.ndarray  # (n,) int32, the distinct words of the span
    places: np.ndarray  # (n,) int32, the number of each word of the span
    many: np.ndarray  # (1,) int64, how many distinct words there are
    vectors: np.ndarray  # (n, width)
    before: np.ndarray  # (n, width), the vectors before training


@inline_kernel
def number_span_words(tokens, first, last, spelling):
    """Number the distinct words of a span of text in order of first occurrence."""
    num_words = 0
    for at in range(first, last):
        word = tokens[at]
        if spelling.numbers[word] < 0:
            spelling.numbers[word] = num_words
            spelling.words[num_words] = word
            num_words += 1
        spelling.places[at - first] = spelling.numbers[word]
    for which in range(num_words):
        spelling.numbers[spelling.words[which]] = -1
    spelling.many[0] = num_words


@inline_kernel
def build_subword_vector(spelling, which, inputs):
    """Compute the vector of one word of the span."""
    word, width = spelling.words[which], inputs.shape[1]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    average_rows(inputs, spelling.rows, begin, many, many, spelling.vectors, which, 0, width)
    for column in range(width):
        spelling.before[which, column] = spelling.vectors[which, column]


@inline_kernel
def apply_subword_update(spelling, which, inputs, first, last):
    """Add the change of a word's vector to each of its rows, in columns first to last."""
    word = spelling.words[which]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    for column in range(first, last):
        spelling.before[which, column] = spelling.vectors[which, column] - spelling.before[which, column]
    add_to_rows(inputs, spelling.rows, begin, many, many, spelling.before, which, first, last)


@inline_kernel
def prefetch_window(workspace, inputs, places, at, many, next_position, end, first, last):
    """Prefetch the target rows of window `at` and the next context word."""
    windows = workspace.windows
    if at < many:
        begin = at * workspace.slots
        for slot in range(begin, begin + windows.blocks[at] * len(workspace.kinds)):
            prefetch_row(workspace.outputs, np.int64(windows.targets[slot]), first, last)
        if next_position < end:
            prefetch_row(inputs, np.int64(places[next_position]), first, last)


@inline_kernel
def window_extent(workspace, at):
    """Start of a window and its number of context words; 0 if there is nothing to learn."""
    left = workspace.windows.lefts[at]
    return left, workspace.windows.rights[at] - left - 1 if workspace.windows.blocks[at] else 0


@inline_kernel
def train_part(workspace, mean, inputs, places, shift, first, last, end, few, part):
    """Train on the windows around the words first to last, a few at a time; words are known up to `end`."""
    work, width = workspace.work, inputs.shape[1]
    for start in range(first, last, few):
        stop, used = min(start + few, last), 0
        for here in range(start, stop):
            at, soon = here - first, here + WINDOWS_AHEAD + workspace.window - shift
            prefetch_window(workspace, inputs, places, at + WINDOWS_AHEAD, last - first, soon, end - shift, 0, width)
            left, around = window_extent(workspace, at)
            if mean is None and around > workspace.few:
                train_wide_window(workspace, inputs, places, shift, here, at, left, around, part)
            elif around:
                many = score_window(workspace, mean, inputs, places, shift, here, at, left, around, used, here - start)
                report_loss(workspace, mean, here, around, used, many, part)
                used += many
        sigmoid_gradients(work.pulls, 0, work.signs, 0, used, workspace.rate)
        used = 0
        for here in range(start, stop):
            left, around = window_extent(workspace, here - first)
            if around and (mean is not None or around <= workspace.few):
                which = here - start
                used += apply_gradients(
                    workspace, mean, inputs, places, shift, here, here - first, left, around, used, which, 0, width
                )


@inline_kernel
def train_wide_window(workspace, inputs, places, shift, here, at, left, around, part):
    """Train on one wide window, a few context words at a time: all at once would update the targets too much."""
    for done in range(0, around, workspace.few):
        some = min(workspace.few, around - done)
        many = score_window(workspace, None, inputs, places, shift, here, at, left + done, some, 0, 0)
        report_loss(workspace, None, here, some, 0, many, part)
        sigmoid_gradients(workspace.work.pulls, 0, workspace.work.signs, 0, many, workspace.rate)
        apply_gradients(workspace, None, inputs, places, shift, here, at, left + done, some, 0, 0, 0, inputs.shape[1])


def train_hogwild(text, supply, spelling, workspace, mean, inputs, first_part, last_part, few):
    """Train on some parts of a text. `spelling` may be None; `mean` is None or True."""
    size = len(text.tokens)
    for part in range(first_part, last_part):
        first, last = text.starts[part], text.starts[part + 1]
        draw_windows(text, supply, workspace.window, part, workspace.windows, 0, workspace.slots, workspace.kinds)
        if spelling is None:
            train_part(workspace, mean, inputs, text.tokens, 0, first, last, size, few, part)
        else:
            begin, end = max(first - workspace.window, 0), min(last + workspace.window, size)
            number_span_words(text.tokens, begin, end, spelling)
            for which in range(spelling.many[0]):
                build_subword_vector(spelling, which, inputs)
            train_part(workspace, mean, spelling.vectors, spelling.places, begin, first, last, end, few, part)
            for which in range(spelling.many[0]):
                apply_subword_update(spelling, which, inputs, 0, inputs.shape[1])


@inline_kernel
def measure_part(workspace, mean, inputs, places, shift, first, last, end, begin, start, part):
    """Score windows against frozen tables; windows begin at index `begin`, their gradients at index `start`."""
    work, used = workspace.work, start
    for here in range(first, last):
        at, soon = begin + here - first, here + WINDOWS_AHEAD + workspace.window - shift
        prefetch_window(
            workspace, inputs, places, at + WINDOWS_AHEAD, begin + last - first, soon, end - shift, 0, inputs.shape[1]
        )
        left, around = window_extent(workspace, at)
        if around:
            many = score_window(workspace, mean, inputs, places, shift, here, at, left, around, used, at)
            report_loss(workspace, mean, here, around, used, many, part)
            used += many
    sigmoid_gradients(work.pulls, start, work.signs, start, used - start, workspace.rate)


@inline_kernel
def apply_part(workspace, mean, inputs, places, shift, first, last, end, begin, start, column, upto):
    """Apply the gradients of the same windows in columns `column` to `upto`."""
    used = start
    for here in range(first, last):
        at, soon = begin + here - first, here + WINDOWS_AHEAD + workspace.window - shift
        prefetch_window(
            workspace, inputs, places, at + WINDOWS_AHEAD, begin + last - first, soon, end - shift, column, upto
        )
        left, around = window_extent(workspace, at)
        if around:
            used += apply_gradients(
                workspace, mean, inputs, places, shift, here, at, left, around, used, at, column, upto
            )


def train_deterministic(thread, threads, gate, text, supply, spelling, workspace, mean, inputs, group, room):
    """Train on the whole text in groups of parts; `room` is the maximum number of gradients of a part."""
    size, parts, times = len(text.tokens), len(text.states), 0
    lines = inputs.shape[1] // CACHE_LINE
    left, right = lines * thread // threads * CACHE_LINE, lines * (thread + 1) // threads * CACHE_LINE
    rows, places, shift = inputs, text.tokens, 0
    windows, slots, kinds = workspace.windows, workspace.slots, workspace.kinds
    for begin in range(0, parts, group):
        end = min(begin + group, parts)
        opening = text.starts[begin]
        seen = min(text.starts[end] + workspace.window, size)
        if spelling is not None:
            shift = max(opening - workspace.window, 0)
            if thread == 0:
                number_span_words(text.tokens, shift, seen, spelling)
            wait_at_gate(gate, threads, times + 1)
            for which in range(thread, spelling.many[0], threads):
                build_subword_vector(spelling, which, inputs)
            wait_at_gate(gate, threads, times + 2)
            rows, places, times = spelling.vectors, spelling.places, times + 2
        for part in range(begin + thread, end, threads):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            draw_windows(text, supply, workspace.window, part, windows, first - opening, slots, kinds)
            measure_part(workspace, mean, rows, places, shift, first, last, seen, first - opening, mine, part)
        wait_at_gate(gate, threads, times + 1)
        for part in range(begin, end):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            apply_part(workspace, mean, rows, places, shift, first, last, seen, first - opening, mine, left, right)
        if spelling is not None:
            for which in range(spelling.many[0]):
                apply_subword_update(spelling, which, inputs, left, right)
        wait_at_gate(gate, threads, times + 2)
        times += 2


# --- Evaluation: losses in float64 over complete windows ---

FAST_MATH = frozenset({"reassoc", "contract"})  # sums may be taken several at a time


def evaluate_sgns(
    tokens: np.ndarray,
    ends: np.ndarray,
    inputs: np.ndarray,
    outputs: np.ndarray,
    supply: OutputTargets,
    window: int,
    mean: bool,
    state: int,
) -> tuple[float, int]:
    """Summed loss of rows of words, and the number of predictions (pairs, or words where the mean predicts).

    Rows of `outputs` may be longer than those of `inputs`; the padding is ignored.
    """
    totals = np.zeros(2)
    compile_kernel(evaluate_sgns_kernel, FAST_MATH)(
        tokens, ends, inputs, outputs, supply, window, mean, np.uint64(state), totals
    )
    return float(totals[0]), int(totals[1])


def evaluate_sgns_kernel(tokens, ends, inputs, outputs, supply, window, mean, state, totals):
    drawn = np.int64(state % np.uint64(max(len(supply.stream), 1)))
    hidden = np.empty(inputs.shape[1])
    max_targets = max(1 + supply.negatives, np.diff(supply.indptr).max() if len(supply.indptr) > 1 else 0)
    targets, signs = np.empty(max_targets, np.int64), np.empty(max_targets)
    loss, factors, num_predictions, row = 0.0, 1.0, 0, 0
    for here in range(len(tokens)):
        while ends[row] <= here:
            row += 1
        left, right = max(ends[row - 1] if row else 0, here - window), min(ends[row], here + window + 1)
        if right - left < 2:
            continue
        num_targets = output_targets(tokens[here], supply, drawn, targets, signs)
        for position in range(left, left + 1 if mean else right):
            if mean:
                hidden[:] = -inputs[tokens[here]]
                for other in range(left, right):
                    hidden += inputs[tokens[other]]
                hidden /= right - left - 1
            elif position != here:
                hidden[:] = inputs[tokens[position]]
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
        drawn += supply.negatives
    totals[0], totals[1] = loss + np.log(factors), num_predictions


@inline_kernel
def output_targets(word, supply, drawn, targets, signs):
    """The target rows of a word with signs 1 (true) and -1 (false); returns how many there are."""
    if not len(supply.stream):
        begin, many = supply.indptr[word], supply.indptr[word + 1] - supply.indptr[word]
        for step in range(many):
            targets[step] = supply.nodes[begin + step]
            signs[step] = 1 - 2 * np.int64(supply.turns[begin + step])
        return many
    targets[0], signs[0], many = word, 1, 1
    for number in range(1, 1 + supply.negatives):
        other = supply.stream[(drawn + number) % len(supply.stream)]
        if other != word:  # the word itself is no negative sample
            targets[many], signs[many] = other, -1
            many += 1
    return many


# --- Hashed character n-grams; the readable twin is Subwords.plain_rows ---


def hash_char_ngrams(
    letters: np.ndarray, ends: np.ndarray, starts: np.ndarray, han: np.ndarray, lengths: tuple[int, int], buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, rows): the buckets of the character n-grams of each word.

    letters  (n,) uint8, all words in UTF-8, each with its boundary marks, concatenated
    starts   (characters + 1,) int64, byte offset of each character, and the end
    ends     (words + 1,) int64, index of the first character of each word, and the end
    han      (characters,) bool, whether it is Han: those also count alone and in pairs
    lengths  the shortest and the longest n-gram
    """
    kernel: Any = compile_kernel(hash_char_ngrams_kernel)
    indptr = np.zeros(len(ends), np.int64)
    kernel(letters, ends, starts, han, *lengths, buckets, indptr, np.zeros(0, np.int32))
    rows = np.empty(indptr[-1], np.int32)
    kernel(letters, ends, starts, han, *lengths, buckets, indptr, rows)
    return indptr, rows


def hash_char_ngrams_kernel(letters, ends, starts, han, shortest, longest, buckets, indptr, rows):
    """Count the n-grams into indptr, or fill `rows` if it is not empty."""
    num_ngrams = 0
    for word in range(len(ends) - 1):
        first, last = ends[word], ends[word + 1]
        for begin in range(first, last):
            value = np.uint32(2166136261)
            is_chinese = True
            for end in range(begin, min(begin + max(longest, 2), last)):
                for at in range(starts[end], starts[end + 1]):
                    value = np.uint32((value ^ np.uint32(np.int8(letters[at]))) * np.uint64(16777619))
                length = end + 1 - begin
                is_chinese = is_chinese and han[end]
                is_border = length == 1 and (begin == first or begin == last - 1)
                if (shortest <= length <= longest and not is_border) or (length <= 2 and is_chinese):
                    if len(rows):
                        rows[num_ngrams] = value % np.uint32(buckets)
                    num_ngrams += 1
        if not len(rows):
            indptr[word + 1] = num_ngrams
