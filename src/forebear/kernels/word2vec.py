"""word2vec's compiled loops over a text: freely, or in step.

Freely, a few windows are measured, then applied, before the next few are looked at; several threads work on parts of
their own and write into the same tables as they please. In step, a group of windows is measured against tables that
stand still, then all of it is applied: windows are shared out to measure, columns of the tables to apply. A column
changes in the order of the windows, whoever owns it, so the tables end with the same bits for any number of threads.

Where words are spelled (a vector is the mean of several rows), a vector for each word of a stretch of text is made
first, learned like any other, and its change added to each of its rows: rows are fetched once a stretch, not once a
window.
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


# --- One window: scores of its targets, and updates ---
# The readable twin is word2vec_reference.py.


class ContextGradients(NamedTuple):
    """How far the words around pull at targets, window after window: first scores, then pulls."""

    pulls: np.ndarray  # float32, and room for some more behind them
    signs: np.ndarray  # float32, the sign of each
    alone: np.ndarray  # (n,) int32, 0, 1, …: the rows of the next
    means: np.ndarray  # (n, width), the means of the words around
    sums: np.ndarray  # (n, width), what all words around are pulled by


class SGNSWorkspace(NamedTuple):
    """What is learned, and where there is room to work."""

    outputs: np.ndarray  # (rows, width)
    windows: WindowBatch
    work: ContextGradients
    kinds: tuple[int, ...]  # as long as a block of targets
    slots: int  # targets of a window, whole blocks
    window: int  # the furthest word that is looked at
    few: int  # words around that are measured at once, where all of them would be too many
    rate: np.float32
    told: np.ndarray  # (parts, 2) float64, losses and how many
    every: int  # a window tells its loss if its place & every is 0


@inline_kernel
def score_window(lesson, mean, inputs, places, shift, here, at, left, around, start, which):
    """Scores of so many words around one word, from place `left` on (or of their mean), written from place `start` on;
    how many there are.

    The row of the word at a place is places[place - shift]; `mean` is None or True; `which` is the row for the mean.
    """
    windows, work, kinds = lesson.windows, lesson.work, lesson.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
        average_rows(inputs, places, left - shift, here - left, around, work.means, which, 0, inputs.shape[1])
    for block in range(windows.blocks[at]):
        target, mine = at * lesson.slots + block * count, start + block * many * count
        repeat_signs(work.signs, mine, windows.signs, target, many, kinds)
        if mean is not None:
            score_rows(
                work.means, work.alone, which, 1, 1, lesson.outputs, windows.targets, target, work.pulls, mine, kinds
            )  # fmt: skip
        else:
            score_rows(
                inputs, places, left - shift, here - left, many, lesson.outputs, windows.targets, target, work.pulls,
                mine, kinds,
            )  # fmt: skip
    return windows.blocks[at] * many * count


@inline_kernel
def apply_gradients(lesson, mean, inputs, places, shift, here, at, left, around, start, which, first, last):
    """Pulls, between two columns; how many there were."""
    windows, work, kinds = lesson.windows, lesson.work, lesson.kinds
    count, many = len(kinds), around
    if mean is not None:
        many = 1
    for block in range(windows.blocks[at]):
        target, mine = at * lesson.slots + block * count, start + block * many * count
        if mean is not None:
            update_rows(
                work.means, work.alone, which, 1, 1, lesson.outputs, windows.targets, target, work.pulls, mine, kinds,
                work.sums, block == 0, first, last,
            )  # fmt: skip
        else:
            update_rows(
                inputs, places, left - shift, here - left, many, lesson.outputs, windows.targets, target, work.pulls,
                mine, kinds, inputs, False, first, last,
            )  # fmt: skip
    if mean is not None:
        add_to_rows(inputs, places, left - shift, here - left, around, work.sums, which, first, last)
    return windows.blocks[at] * many * count


@inline_kernel
def report_loss(lesson, mean, here, around, start, many, part):
    """Adds the losses of a window whose turn it is: the negative logarithm of how likely each truth seems."""
    work, told = lesson.work, lesson.told
    if here & lesson.every:
        return
    for place in range(start, start + many):
        if work.signs[place] != 0:
            score = np.float64(work.signs[place] * work.pulls[place])
            told[part, 0] += max(-score, 0.0) + np.log1p(np.exp(-abs(score)))
    told[part, 1] += 1 if mean is not None else around


# Threads inside compiled loops that wait for each other, without going back to Python in between.


intrinsic: Any = extending.intrinsic
GATE_OPEN = 1 << 62  # a gate at which nobody waits
PATIENCE = 2000  # looks before the processor is left to others: with more threads than cores they would wait for us


@intrinsic
def _arrive(typing: Any, gate: Any) -> Any:
    """gate[0] += 1, whoever else does the same; what was written before is seen by all who look later."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", data, one, "seq_cst")

    return types.int64(gate), build


@intrinsic
def _arrived(typing: Any, gate: Any) -> Any:
    """gate[0] as it is now."""

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.load_atomic(data, "seq_cst", 8)

    return types.int64(gate), build


@intrinsic
def _let_others(typing: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), build


@inline_kernel
def wait_at_gate(gate, threads, times):
    """Returns when all threads came here so many times; gate is an int64 array that begins with 0."""
    _arrive(gate)
    looks = 0
    while _arrived(gate) < threads * times:
        looks += 1
        if looks > PATIENCE:
            _let_others()


AHEAD = 3  # windows that rows are asked for in advance


class SubwordRows(NamedTuple):
    """The rows whose mean is a word's vector, and where a stretch of text is spelled."""

    indptr: np.ndarray  # (V + 1,) int64
    rows: np.ndarray  # int32
    numbers: np.ndarray  # (V,) int32, -1: the number of each word while they are being numbered
    words: np.ndarray  # (n,) int32, the words of the stretch
    places: np.ndarray  # (n,) int32, the number of each of its words, in turn
    many: np.ndarray  # (1,) int64, how many different ones there are
    vectors: np.ndarray  # (n, width)
    before: np.ndarray  # (n, width), as they were made


@inline_kernel
def number_words(tokens, first, last, spelling):
    """Numbers the different words of a stretch of text, in the order in which they turn up."""
    many = 0
    for at in range(first, last):
        word = tokens[at]
        if spelling.numbers[word] < 0:
            spelling.numbers[word] = many
            spelling.words[many] = word
            many += 1
        spelling.places[at - first] = spelling.numbers[word]
    for which in range(many):
        spelling.numbers[spelling.words[which]] = -1
    spelling.many[0] = many


@inline_kernel
def spell(spelling, which, inputs):
    """Makes the vector of one word of the stretch."""
    word, width = spelling.words[which], inputs.shape[1]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    average_rows(inputs, spelling.rows, begin, many, many, spelling.vectors, which, 0, width)
    for column in range(width):
        spelling.before[which, column] = spelling.vectors[which, column]


@inline_kernel
def unspell(spelling, which, inputs, first, last):
    """Adds its change to each of its rows, between two columns."""
    word = spelling.words[which]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    for column in range(first, last):
        spelling.before[which, column] = spelling.vectors[which, column] - spelling.before[which, column]
    add_to_rows(inputs, spelling.rows, begin, many, many, spelling.before, which, first, last)


@inline_kernel
def ask_for(lesson, inputs, places, at, many, place, end, first, last):
    """Fetches what window `at` of so many will need: its targets, and the word that comes into sight at a place."""
    windows = lesson.windows
    if at < many:
        begin = at * lesson.slots
        for slot in range(begin, begin + windows.blocks[at] * len(lesson.kinds)):
            prefetch_row(lesson.outputs, np.int64(windows.targets[slot]), first, last)
        if place < end:
            prefetch_row(inputs, np.int64(places[place]), first, last)


@inline_kernel
def reach(lesson, at):
    """Where a window begins, and how many words it has around its word; none where there is nothing to learn."""
    left = lesson.windows.lefts[at]
    return left, lesson.windows.rights[at] - left - 1 if lesson.windows.blocks[at] else 0


@inline_kernel
def learn_part(lesson, mean, inputs, places, shift, first, last, end, few, part):
    """The windows around the words from first to last, a few at a time; words are known up to `end`."""
    work, width = lesson.work, inputs.shape[1]
    for start in range(first, last, few):
        stop, used = min(start + few, last), 0
        for here in range(start, stop):
            at, soon = here - first, here + AHEAD + lesson.window - shift
            ask_for(lesson, inputs, places, at + AHEAD, last - first, soon, end - shift, 0, width)
            left, around = reach(lesson, at)
            if mean is None and around > lesson.few:
                learn_wide(lesson, inputs, places, shift, here, at, left, around, part)
            elif around:
                many = score_window(lesson, mean, inputs, places, shift, here, at, left, around, used, here - start)
                report_loss(lesson, mean, here, around, used, many, part)
                used += many
        sigmoid_gradients(work.pulls, 0, work.signs, 0, used, lesson.rate)
        used = 0
        for here in range(start, stop):
            left, around = reach(lesson, here - first)
            if around and (mean is not None or around <= lesson.few):
                which = here - start
                used += apply_gradients(
                    lesson, mean, inputs, places, shift, here, here - first, left, around, used, which, 0, width
                )


@inline_kernel
def learn_wide(lesson, inputs, places, shift, here, at, left, around, part):
    """A window that is alone, and so wide that its targets would be pulled too often at once: a few words at a time."""
    for done in range(0, around, lesson.few):
        some = min(lesson.few, around - done)
        many = score_window(lesson, None, inputs, places, shift, here, at, left + done, some, 0, 0)
        report_loss(lesson, None, here, some, 0, many, part)
        sigmoid_gradients(lesson.work.pulls, 0, lesson.work.signs, 0, many, lesson.rate)
        apply_gradients(lesson, None, inputs, places, shift, here, at, left + done, some, 0, 0, 0, inputs.shape[1])


def train_hogwild(text, supply, spelling, lesson, mean, inputs, first_part, last_part, few):
    """Some parts of a text. `spelling` may be None; `mean` is None or True."""
    size = len(text.tokens)
    for part in range(first_part, last_part):
        first, last = text.starts[part], text.starts[part + 1]
        draw_windows(text, supply, lesson.window, part, lesson.windows, 0, lesson.slots, lesson.kinds)
        if spelling is None:
            learn_part(lesson, mean, inputs, text.tokens, 0, first, last, size, few, part)
        else:
            begin, end = max(first - lesson.window, 0), min(last + lesson.window, size)
            number_words(text.tokens, begin, end, spelling)
            for which in range(spelling.many[0]):
                spell(spelling, which, inputs)
            learn_part(lesson, mean, spelling.vectors, spelling.places, begin, first, last, end, few, part)
            for which in range(spelling.many[0]):
                unspell(spelling, which, inputs, 0, inputs.shape[1])


@inline_kernel
def measure_part(lesson, mean, inputs, places, shift, first, last, end, begin, start, part):
    """Windows that lie from place `begin` on and whose pulls go to `start`, against tables that stand still."""
    work, used = lesson.work, start
    for here in range(first, last):
        at, soon = begin + here - first, here + AHEAD + lesson.window - shift
        ask_for(lesson, inputs, places, at + AHEAD, begin + last - first, soon, end - shift, 0, inputs.shape[1])
        left, around = reach(lesson, at)
        if around:
            many = score_window(lesson, mean, inputs, places, shift, here, at, left, around, used, at)
            report_loss(lesson, mean, here, around, used, many, part)
            used += many
    sigmoid_gradients(work.pulls, start, work.signs, start, used - start, lesson.rate)


@inline_kernel
def apply_part(lesson, mean, inputs, places, shift, first, last, end, begin, start, column, upto):
    """The same windows, between two columns."""
    used = start
    for here in range(first, last):
        at, soon = begin + here - first, here + AHEAD + lesson.window - shift
        ask_for(lesson, inputs, places, at + AHEAD, begin + last - first, soon, end - shift, column, upto)
        left, around = reach(lesson, at)
        if around:
            used += apply_gradients(lesson, mean, inputs, places, shift, here, at, left, around, used, at, column, upto)


def train_deterministic(thread, threads, gate, text, supply, spelling, lesson, mean, inputs, group, room):
    """The whole text in groups of so many parts; `room` is what the pulls of a part take at most."""
    size, parts, times = len(text.tokens), len(text.states), 0
    lines = inputs.shape[1] // CACHE_LINE
    left, right = lines * thread // threads * CACHE_LINE, lines * (thread + 1) // threads * CACHE_LINE
    rows, places, shift = inputs, text.tokens, 0
    for begin in range(0, parts, group):
        end = min(begin + group, parts)
        opening = text.starts[begin]
        seen = min(text.starts[end] + lesson.window, size)
        if spelling is not None:
            shift = max(opening - lesson.window, 0)
            if thread == 0:
                number_words(text.tokens, shift, seen, spelling)
            wait_at_gate(gate, threads, times + 1)
            for which in range(thread, spelling.many[0], threads):
                spell(spelling, which, inputs)
            wait_at_gate(gate, threads, times + 2)
            rows, places, times = spelling.vectors, spelling.places, times + 2
        for part in range(begin + thread, end, threads):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            draw_windows(text, supply, lesson.window, part, lesson.windows, first - opening, lesson.slots, lesson.kinds)
            measure_part(lesson, mean, rows, places, shift, first, last, seen, first - opening, mine, part)
        wait_at_gate(gate, threads, times + 1)
        for part in range(begin, end):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            apply_part(lesson, mean, rows, places, shift, first, last, seen, first - opening, mine, left, right)
        if spelling is not None:
            for which in range(spelling.many[0]):
                unspell(spelling, which, inputs, left, right)
        wait_at_gate(gate, threads, times + 2)
        times += 2


# How well vectors predict the words around them: losses in double precision over whole windows, nothing learned.


FREELY = frozenset({"reassoc", "contract"})  # sums may be taken several at a time


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
    """The summed loss of rows of words, and of how many pairs of words, or where the mean answers of how many words.

    Rows of `outputs` may be longer than those of `inputs`, by numbers that do not count.
    """
    told = np.zeros(2)
    compile_kernel(examined_in_loops, FREELY)(
        tokens, ends, inputs, outputs, supply, window, mean, np.uint64(state), told
    )
    return float(told[0]), int(told[1])


def examined_in_loops(tokens, ends, inputs, outputs, supply, window, mean, state, told):
    drawn = np.int64(state % np.uint64(max(len(supply.stream), 1)))
    hidden = np.empty(inputs.shape[1])
    most = max(1 + supply.negatives, np.diff(supply.indptr).max() if len(supply.indptr) > 1 else 0)
    targets, signs = np.empty(most, np.int64), np.empty(most)
    loss, factors, asked, row = 0.0, 1.0, 0, 0
    for here in range(len(tokens)):
        while ends[row] <= here:
            row += 1
        left, right = max(ends[row - 1] if row else 0, here - window), min(ends[row], here + window + 1)
        if right - left < 2:
            continue
        many = told_from(tokens[here], supply, drawn, targets, signs)
        for place in range(left, left + 1 if mean else right):
            if mean:
                hidden[:] = -inputs[tokens[here]]
                for other in range(left, right):
                    hidden += inputs[tokens[other]]
                hidden /= right - left - 1
            elif place != here:
                hidden[:] = inputs[tokens[place]]
            else:
                continue
            for target in range(many):
                score = 0.0
                for column in range(len(hidden)):
                    score += hidden[column] * outputs[targets[target], column]
                loss += max(-signs[target] * score, 0.0)
                factors *= 1 + np.exp(-abs(score))  # one logarithm for many: that of a product is the sum of theirs
                if factors > 1e300:
                    loss += np.log(factors)
                    factors = 1.0
            asked += 1
        drawn += supply.negatives
    told[0], told[1] = loss + np.log(factors), asked


@inline_kernel
def told_from(word, supply, drawn, targets, signs):
    """The rows of what a word is told from, 1 where it is true and -1 where it is not; how many there are."""
    if not len(supply.stream):
        begin, many = supply.indptr[word], supply.indptr[word + 1] - supply.indptr[word]
        for step in range(many):
            targets[step] = supply.nodes[begin + step]
            signs[step] = 1 - 2 * np.int64(supply.turns[begin + step])
        return many
    targets[0], signs[0], many = word, 1, 1
    for number in range(1, 1 + supply.negatives):
        other = supply.stream[(drawn + number) % len(supply.stream)]
        if other != word:  # the truth is no counterexample
            targets[many], signs[many] = other, -1
            many += 1
    return many


# Character n-grams of many words, hashed: compiled loops over bytes; the readable twin is Subwords.plain_rows.


def hash_char_ngrams(
    letters: np.ndarray, ends: np.ndarray, starts: np.ndarray, han: np.ndarray, lengths: tuple[int, int], buckets: int
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, rows): the buckets of word after word.

    letters  (n,) uint8, all words in UTF-8, each between its marks, one after the other
    starts   (characters + 1,) int64, where each character begins, and the end
    ends     (words + 1,) int64, the number of the character at which each word begins, and the end
    han      (characters,) bool, where it is Chinese: those count alone and in pairs too
    lengths  the shortest and the longest n-gram
    """
    loops: Any = compile_kernel(hashed_in_loops)
    indptr = np.zeros(len(ends), np.int64)
    loops(letters, ends, starts, han, *lengths, buckets, indptr, np.zeros(0, np.int32))
    rows = np.empty(indptr[-1], np.int32)
    loops(letters, ends, starts, han, *lengths, buckets, indptr, rows)
    return indptr, rows


def hashed_in_loops(letters, ends, starts, han, shortest, longest, buckets, indptr, rows):
    """Counts n-grams into indptr; where there is room for rows, fills them instead."""
    many = 0
    for word in range(len(ends) - 1):
        first, last = ends[word], ends[word + 1]
        for begin in range(first, last):
            value = np.uint32(2166136261)
            chinese = True
            for end in range(begin, min(begin + max(longest, 2), last)):
                for at in range(starts[end], starts[end + 1]):
                    value = np.uint32((value ^ np.uint32(np.int8(letters[at]))) * np.uint64(16777619))
                length = end + 1 - begin
                chinese = chinese and han[end]
                alone = length == 1 and (begin == first or begin == last - 1)
                if (shortest <= length <= longest and not alone) or (length <= 2 and chinese):
                    if len(rows):
                        rows[many] = value % np.uint32(buckets)
                    many += 1
        if not len(rows):
            indptr[word + 1] = many
