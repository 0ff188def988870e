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

from typing import NamedTuple

import numpy as np

from forebear.kernels.around import apply, measure, tell
from forebear.kernels.compiling import inlined
from forebear.kernels.lanes import WIDE
from forebear.kernels.rows import added, averaged, fetched, weighed
from forebear.kernels.tables import LINE
from forebear.kernels.waiting import wait
from forebear.kernels.windows import draw

AHEAD = 2  # windows that rows are asked for in advance


class Spelling(NamedTuple):
    """The rows whose mean is a word's vector, and where a stretch of text is spelled."""

    indptr: np.ndarray  # (V + 1,) int64
    rows: np.ndarray  # int32
    numbers: np.ndarray  # (V,) int32, -1: the number of each word while they are being numbered
    words: np.ndarray  # (n,) int32, the words of the stretch
    places: np.ndarray  # (n,) int32, the number of each of its words, in turn
    many: np.ndarray  # (1,) int64, how many different ones there are
    vectors: np.ndarray  # (n, width)
    before: np.ndarray  # (n, width), as they were made


@inlined
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


@inlined
def spell(spelling, which, inputs):
    """Makes the vector of one word of the stretch."""
    word, width = spelling.words[which], inputs.shape[1]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    averaged(inputs, spelling.rows, begin, many, many, spelling.vectors, which, 0, width)
    for column in range(width):
        spelling.before[which, column] = spelling.vectors[which, column]


@inlined
def unspell(spelling, which, inputs, first, last):
    """Adds its change to each of its rows, between two columns."""
    word = spelling.words[which]
    begin, many = spelling.indptr[word], spelling.indptr[word + 1] - spelling.indptr[word]
    for column in range(first, last):
        spelling.before[which, column] = spelling.vectors[which, column] - spelling.before[which, column]
    added(inputs, spelling.rows, begin, many, many, spelling.before, which, first, last)


@inlined
def ask_for(here, first, last, places, shift, end, window, windows, slots, kinds, inputs, outputs):
    """Fetches what the next window will need: its targets, and the word that comes into sight."""
    at = here - first
    if here < last:
        for slot in range(at * slots, at * slots + windows.blocks[at] * len(kinds)):
            fetched(outputs, np.int64(windows.targets[slot]))
        if here + window < end:
            fetched(inputs, np.int64(places[here + window - shift]))


@inlined
def learn_part(
    places, shift, first, last, end, window, few, windows, slots, inputs, outputs, kinds, rate, work, mean, told, part,
    every,
):  # fmt: skip
    """The windows of a part, a few at a time."""
    for start in range(first, last, few):
        stop, used = min(start + few, last), 0
        for here in range(start, stop):
            at = here - first
            ask_for(here + AHEAD, first, last, places, shift, end, window, windows, slots, kinds, inputs, outputs)
            if windows.blocks[at]:
                many = measure(
                    places, shift, here, windows, at, slots, inputs, outputs, kinds, work, used, mean, here - start
                )
                if here & every == 0:
                    tell(work, used, many, told, part)
                    told[part, 1] += 1 if mean is not None else windows.rights[at] - windows.lefts[at] - 1
                used += many
        weighed(work.pulls, 0, work.signs, 0, used, rate)
        used = 0
        for here in range(start, stop):
            if windows.blocks[here - first]:
                used += apply(
                    places, shift, here, windows, here - first, slots, inputs, outputs, kinds, work, used, mean,
                    here - start, 0, inputs.shape[1],
                )  # fmt: skip


def learn_freely(
    text, window, supply, spelling, kinds, slots, inputs, outputs, rate, first_part, last_part, few, windows, work,
    mean, told, every,
):  # fmt: skip
    """Some parts of a text. spelling may be None; mean is None or True; each window whose place & every is 0 tells."""
    size = len(text.tokens)
    for part in range(first_part, last_part):
        first = part * text.part
        last = min(first + text.part, size)
        draw(text, supply, window, part, windows, 0, slots, kinds)
        if spelling is None:
            learn_part(
                text.tokens, 0, first, last, size, window, few, windows, slots, inputs, outputs, kinds, rate, work,
                mean, told, part, every,
            )  # fmt: skip
        else:
            begin, end = max(first - window, 0), min(last + window, size)
            number_words(text.tokens, begin, end, spelling)
            for which in range(spelling.many[0]):
                spell(spelling, which, inputs)
            learn_part(
                spelling.places, begin, first, last, end, window, few, windows, slots, spelling.vectors, outputs,
                kinds, rate, work, mean, told, part, every,
            )  # fmt: skip
            for which in range(spelling.many[0]):
                unspell(spelling, which, inputs, 0, inputs.shape[1])


@inlined
def measure_part(
    places,
    shift,
    first,
    last,
    windows,
    begin,
    slots,
    inputs,
    outputs,
    kinds,
    rate,
    work,
    start,
    mean,
    told,
    part,
    every,
):
    """The windows of a part, from place `begin` on, against tables that stand still."""
    used = start
    for here in range(first, last):
        at = begin + here - first
        if windows.blocks[at]:
            many = measure(places, shift, here, windows, at, slots, inputs, outputs, kinds, work, used, mean, at)
            if here & every == 0:
                tell(work, used, many, told, part)
                told[part, 1] += 1 if mean is not None else windows.rights[at] - windows.lefts[at] - 1
            used += many
    weighed(work.pulls, start, work.signs, start, used - start, rate)


@inlined
def apply_part(
    places, shift, first, last, windows, begin, slots, inputs, outputs, kinds, work, used, mean, left, right
):
    """The same windows, between two columns."""
    for here in range(first, last):
        at = begin + here - first
        if windows.blocks[at]:
            used += apply(
                places, shift, here, windows, at, slots, inputs, outputs, kinds, work, used, mean, at, left, right
            )


def learn_in_step(
    thread, threads, gate, text, window, supply, spelling, kinds, slots, inputs, outputs, rate, group, windows, work,
    room, mean, told, every,
):  # fmt: skip
    """The whole text in groups of so many parts; `room` is what the pulls of a window take at most."""
    size, parts, times = len(text.tokens), len(text.states), 0
    lines = inputs.shape[1] // LINE
    left, right = lines * thread // threads * LINE, lines * (thread + 1) // threads * LINE
    rows, places, shift = inputs, text.tokens, 0
    for begin in range(0, parts, group):
        end = min(begin + group, parts)
        if spelling is not None:
            shift = max(begin * text.part - window, 0)
            if thread == 0:
                number_words(text.tokens, shift, min(end * text.part + window, size), spelling)
            wait(gate, threads, times + 1)
            for which in range(thread, spelling.many[0], threads):
                spell(spelling, which, inputs)
            wait(gate, threads, times + 2)
            rows, places, times = spelling.vectors, spelling.places, times + 2
        for part in range(begin + thread, end, threads):
            first, last, at = part * text.part, min((part + 1) * text.part, size), (part - begin) * text.part
            start = at * room + (part - begin) * WIDE  # vectors may reach beyond the last pull of a part
            draw(text, supply, window, part, windows, at, slots, kinds)
            measure_part(
                places, shift, first, last, windows, at, slots, rows, outputs, kinds, rate, work, start, mean, told,
                part, every,
            )  # fmt: skip
        wait(gate, threads, times + 1)
        for part in range(begin, end):
            first, last, at = part * text.part, min((part + 1) * text.part, size), (part - begin) * text.part
            start = at * room + (part - begin) * WIDE
            apply_part(
                places, shift, first, last, windows, at, slots, rows, outputs, kinds, work, start, mean, left, right
            )
        if spelling is not None:
            for which in range(spelling.many[0]):
                unspell(spelling, which, inputs, left, right)
        wait(gate, threads, times + 2)
        times += 2
