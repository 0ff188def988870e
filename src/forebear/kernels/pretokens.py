"""The distinct words of a text that gaps part, numbered as they turn up: a compiled loop over bytes, eight at once.

A word of up to seven bytes is known by these bytes and their number, which fit in 64 bits and are mixed by steps that
can all be undone: equal numbers, equal words. Of a longer one 64 bits are a hash, and its bytes are compared as well.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.intrinsics import count_trailing_zeros, load_eight_bytes, prefetch
from forebear.kernels.jit import compile_kernel, inline_kernel
from forebear.kernels.stretches import PretokenTable, empty_pretoken_table, grow_pretoken_table

PADDING_BYTES = 8  # bytes behind a text, all of them gaps: words are looked at eight bytes at a time
BLOCK = 256  # words whose slots are asked of memory before the first of them is looked up
SHORT = np.uint64(7)  # bytes of a word that is its own key
ONE, THREE, EIGHT = np.uint64(1), np.uint64(3), np.uint64(8)
LENGTHS, LONG = np.uint64(56), np.uint64(1 << 63)  # where a key has its length; and what marks a slot of a long word
FIRST, SECOND, HALF = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9), np.uint64(32)
LOWEST, HIGHEST = np.uint64(0x2121_2121_2121_2121), np.uint64(0x8080_8080_8080_8080)  # above any gap; a byte's last bit


def empty_word_table() -> PretokenTable:
    """A table without words; behind the bytes of each stands a space."""
    return empty_pretoken_table(kind=np.uint8)


def number_words(
    numbers: PretokenTable, data: np.ndarray, gaps: np.ndarray, ends: np.ndarray, *, places: bool = False
) -> tuple[PretokenTable, np.ndarray, np.ndarray, np.ndarray]:
    """The number of each word of several texts, how many words there are up to the end of each text, and, if asked for,
    the places where they begin; new ones are entered.

    data  (n,) uint8, the last BEHIND of which are gaps
    gaps  (256,) bool, which bytes part words; all of them are below 33, so that nothing within a character is one
    ends  (texts,) int64, where each text ends, which is no place within a word
    """
    most = len(data) // 2 + 1
    begins, found, upto = np.empty(most if places else 0, np.int64), np.empty(most, np.int32), np.empty_like(ends)
    rooms = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.uint64)
    loop, at, many, done = compile_kernel(numbered_words_in_loops), 0, 0, 0
    while True:
        at, many, done = loop(data, gaps, numbers, begins, found, ends, upto, at, many, done, *rooms)
        if at == len(data) - PADDING_BYTES:
            upto[done:] = many
            return numbers, found[:many], upto, begins[:many]
        numbers = grow_pretoken_table(numbers, len(data) - at)


@inline_kernel
def _end_of_word(data, here, gaps):
    """Where the next gap is."""
    stop = here
    while True:
        eight = load_eight_bytes(data, stop)
        low = (eight - LOWEST) & ~eight & HIGHEST  # the lowest bit that is set is that of a byte below 33
        if low == 0:
            stop += 8
            continue
        stop += np.int64(count_trailing_zeros(low) >> THREE)
        if gaps[data[stop]]:
            return stop
        stop += 1  # a sign that nobody sees, and that parts nothing


@inline_kernel
def _hash_of_word(data, here, stop):
    """64 bits: of a short word, its own bytes, mixed by steps that can be undone."""
    hashed, size = load_eight_bytes(data, here), np.uint64(stop - here)
    if size <= SHORT:
        hashed = (hashed & ((ONE << (size * EIGHT)) - ONE)) | size << LENGTHS
    else:
        for further in range(here + 8, stop, 8):
            eight, left = load_eight_bytes(data, further), np.uint64(stop - further)
            if left < EIGHT:
                eight &= (ONE << (left * EIGHT)) - ONE
            hashed = (hashed ^ (hashed >> HALF) ^ eight) * FIRST
    hashed = (hashed ^ (hashed >> HALF)) * FIRST
    hashed = (hashed ^ (hashed >> HALF)) * SECOND
    return hashed ^ (hashed >> HALF)


@inline_kernel
def _are_same(data, begin, length, known, first, last):
    """Whether so many bytes of a text, eight at least, are those that a word of the table has; eight at once."""
    if last - first != length:
        return False
    for byte in range(0, length - 8, 8):
        if load_eight_bytes(known, first + byte) != load_eight_bytes(data, begin + byte):
            return False
    return load_eight_bytes(known, last - 8) == load_eight_bytes(data, begin + length - 8)


def numbered_words_in_loops(
    data, gaps, numbers, begins, found, ends_of_texts, upto, at, many, done, places, lengths, hashes
):
    """Up to the end, or to where there is no more room: the place to go on from, and how many words there were, and
    texts that ended before them.
    """
    slots, ends, known = numbers.slots, numbers.ends, numbers.codes
    here, size, last = at, len(data) - PADDING_BYTES, np.uint64(len(slots) - 1)
    while here < size:
        block = 0
        while block < BLOCK and here < size:
            stop = _end_of_word(data, here, gaps)
            if stop > here:
                hashed = _hash_of_word(data, here, stop)
                prefetch(slots, np.int64(hashed & last) * 2)
                places[block], lengths[block], hashes[block] = here, stop - here, hashed
                block += 1
            here = stop + 1
        for turn in range(block):
            begin, length, hashed = places[turn], lengths[turn], hashes[turn]
            while done < len(ends_of_texts) and ends_of_texts[done] <= begin:
                upto[done] = many
                done += 1
            mark = LONG if length > np.int64(SHORT) else np.uint64(0)
            slot, number = hashed & last, np.int64(-1)
            while slots[slot, 1] and number < 0:
                if slots[slot, 0] == hashed and slots[slot, 1] & LONG == mark:
                    other = np.int64(slots[slot, 1] & ~LONG) - 1
                    if mark == 0 or _are_same(data, begin, length, known, ends[other], ends[other + 1] - 1):
                        number = other
                slot = (slot + ONE) & last if number < 0 else slot
            if number < 0:
                number = numbers.many[0]
                end = ends[number] + length
                if number == len(ends) - 1 or end + 1 > len(known):
                    return begin, many, done
                known[ends[number] : end] = data[begin : begin + length]
                known[end] = 32
                slots[slot, 0], slots[slot, 1] = hashed, np.uint64(number + 1) | mark
                ends[number + 1] = end + 1
                numbers.many[0] = number + 1
            if len(begins):
                begins[many] = begin
            found[many] = number
            many += 1
    return size, many, done


def word_prefixes_kernel(codes, ends, first, second):
    """The first eight bytes of each word, and the eight behind them, as numbers: as these are ordered, so are words."""
    for number in range(len(first)):
        begin, size = ends[number], ends[number + 1] - 1 - ends[number]  # behind each word stands a space
        one, two = np.uint64(0), np.uint64(0)
        for byte in range(min(size, 8)):
            one |= np.uint64(codes[begin + byte]) << np.uint64(56 - 8 * byte)
        for byte in range(8, min(size, 16)):
            two |= np.uint64(codes[begin + byte]) << np.uint64(120 - 8 * byte)
        first[number], second[number] = one, two


def gather_words_kernel(codes, ends, numbers, told):
    """The bytes of these words, one after the other, with the space behind each."""
    to = 0
    for number in numbers:
        for place in range(ends[number], ends[number + 1]):
            told[to] = codes[place]
            to += 1
