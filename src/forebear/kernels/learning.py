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
from forebear.kernels.rows import added, averaged, fetched, weighed
from forebear.kernels.tables import LINE
from forebear.kernels.waiting import wait
from forebear.kernels.windows import draw

AHEAD = 3  # windows that rows are asked for in advance


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
def ask_for(lesson, inputs, places, at, many, place, end, first, last):
    """Fetches what window `at` of so many will need: its targets, and the word that comes into sight at a place."""
    windows = lesson.windows
    if at < many:
        begin = at * lesson.slots
        for slot in range(begin, begin + windows.blocks[at] * len(lesson.kinds)):
            fetched(lesson.outputs, np.int64(windows.targets[slot]), first, last)
        if place < end:
            fetched(inputs, np.int64(places[place]), first, last)


@inlined
def reach(lesson, at):
    """Where a window begins, and how many words it has around its word; none where there is nothing to learn."""
    left = lesson.windows.lefts[at]
    return left, lesson.windows.rights[at] - left - 1 if lesson.windows.blocks[at] else 0


@inlined
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
                many = measure(lesson, mean, inputs, places, shift, here, at, left, around, used, here - start)
                tell(lesson, mean, here, around, used, many, part)
                used += many
        weighed(work.pulls, 0, work.signs, 0, used, lesson.rate)
        used = 0
        for here in range(start, stop):
            left, around = reach(lesson, here - first)
            if around and (mean is not None or around <= lesson.few):
                which = here - start
                used += apply(
                    lesson, mean, inputs, places, shift, here, here - first, left, around, used, which, 0, width
                )


@inlined
def learn_wide(lesson, inputs, places, shift, here, at, left, around, part):
    """A window that is alone, and so wide that its targets would be pulled too often at once: a few words at a time."""
    for done in range(0, around, lesson.few):
        some = min(lesson.few, around - done)
        many = measure(lesson, None, inputs, places, shift, here, at, left + done, some, 0, 0)
        tell(lesson, None, here, some, 0, many, part)
        weighed(lesson.work.pulls, 0, lesson.work.signs, 0, many, lesson.rate)
        apply(lesson, None, inputs, places, shift, here, at, left + done, some, 0, 0, 0, inputs.shape[1])


def learn_freely(text, supply, spelling, lesson, mean, inputs, first_part, last_part, few):
    """Some parts of a text. `spelling` may be None; `mean` is None or True."""
    size = len(text.tokens)
    for part in range(first_part, last_part):
        first, last = text.starts[part], text.starts[part + 1]
        draw(text, supply, lesson.window, part, lesson.windows, 0, lesson.slots, lesson.kinds)
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


@inlined
def measure_part(lesson, mean, inputs, places, shift, first, last, end, begin, start, part):
    """Windows that lie from place `begin` on and whose pulls go to `start`, against tables that stand still."""
    work, used = lesson.work, start
    for here in range(first, last):
        at, soon = begin + here - first, here + AHEAD + lesson.window - shift
        ask_for(lesson, inputs, places, at + AHEAD, begin + last - first, soon, end - shift, 0, inputs.shape[1])
        left, around = reach(lesson, at)
        if around:
            many = measure(lesson, mean, inputs, places, shift, here, at, left, around, used, at)
            tell(lesson, mean, here, around, used, many, part)
            used += many
    weighed(work.pulls, start, work.signs, start, used - start, lesson.rate)


@inlined
def apply_part(lesson, mean, inputs, places, shift, first, last, end, begin, start, column, upto):
    """The same windows, between two columns."""
    used = start
    for here in range(first, last):
        at, soon = begin + here - first, here + AHEAD + lesson.window - shift
        ask_for(lesson, inputs, places, at + AHEAD, begin + last - first, soon, end - shift, column, upto)
        left, around = reach(lesson, at)
        if around:
            used += apply(lesson, mean, inputs, places, shift, here, at, left, around, used, at, column, upto)


def learn_in_step(thread, threads, gate, text, supply, spelling, lesson, mean, inputs, group, room):
    """The whole text in groups of so many parts; `room` is what the pulls of a part take at most."""
    size, parts, times = len(text.tokens), len(text.states), 0
    lines = inputs.shape[1] // LINE
    left, right = lines * thread // threads * LINE, lines * (thread + 1) // threads * LINE
    rows, places, shift = inputs, text.tokens, 0
    for begin in range(0, parts, group):
        end = min(begin + group, parts)
        opening = text.starts[begin]
        seen = min(text.starts[end] + lesson.window, size)
        if spelling is not None:
            shift = max(opening - lesson.window, 0)
            if thread == 0:
                number_words(text.tokens, shift, seen, spelling)
            wait(gate, threads, times + 1)
            for which in range(thread, spelling.many[0], threads):
                spell(spelling, which, inputs)
            wait(gate, threads, times + 2)
            rows, places, times = spelling.vectors, spelling.places, times + 2
        for part in range(begin + thread, end, threads):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            draw(text, supply, lesson.window, part, lesson.windows, first - opening, lesson.slots, lesson.kinds)
            measure_part(lesson, mean, rows, places, shift, first, last, seen, first - opening, mine, part)
        wait(gate, threads, times + 1)
        for part in range(begin, end):
            first, last, mine = text.starts[part], text.starts[part + 1], (part - begin) * room
            apply_part(lesson, mean, rows, places, shift, first, last, seen, first - opening, mine, left, right)
        if spelling is not None:
            for which in range(spelling.many[0]):
                unspell(spelling, which, inputs, left, right)
        wait(gate, threads, times + 2)
        times += 2
