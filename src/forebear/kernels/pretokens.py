"""Distinct pretokens and whitespace-separated words of a text, numbered in order of first occurrence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.intrinsics import count_trailing_zeros, load_eight_bytes, prefetch
from forebear.kernels.jit import compile_kernel, inline_kernel
from forebear.kernels.layout import CLASS_GAP, CLASS_RUN, CLASS_SINGLE

INITIAL_CAPACITY = 1 << 14  # pretokens
INITIAL_LENGTH = 8  # characters reserved per pretoken at first
CHAR_HASH_SEED, CHAR_HASH_FACTOR = np.uint64(0x51_7C_C1_B7_27_22_0A_95), np.uint64(0x9E37_79B9_7F4A_7C15)
ONE, THREE, EIGHT, HALF = np.uint64(1), np.uint64(3), np.uint64(8), np.uint64(32)

PADDING_BYTES = 8  # gap bytes after a text: words are read eight bytes at a time
BLOCK = 256  # words whose slots are prefetched before the first of them is looked up
MAX_SHORT_WORD = np.uint64(7)  # bytes of a word that is its own key
LENGTH_SHIFT, LONG_WORD = np.uint64(56), np.uint64(1 << 63)  # where a key has its length; flag of a slot of a long word
MIX_FIRST, MIX_SECOND = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
LOW_BYTES, HIGH_BITS = np.uint64(0x2121_2121_2121_2121), np.uint64(0x8080_8080_8080_8080)  # above any gap; top bits


# --- Pretokens by characters ---


class PretokenTable(NamedTuple):
    """Stretches by number, and a table of slots by which they are found: linear probing from where the hash points."""

    slots: np.ndarray  # (a power of two, 2) uint64: the hash of a stretch, and its number + 1; 0: none
    ends: np.ndarray  # (room + 1,) int64, where the characters of each stretch end
    codes: np.ndarray  # uint32, their characters; or uint8, their bytes, for who looks at bytes
    many: np.ndarray  # (1,) int64


def empty_pretoken_table(
    room: int = INITIAL_CAPACITY, characters: int = INITIAL_CAPACITY * INITIAL_LENGTH, kind: Any = np.uint32
) -> PretokenTable:
    """A table without stretches, and room for some, which is a power of two."""
    slots, ends = np.zeros((2 * room, 2), np.uint64), np.zeros(room + 1, np.int64)
    return PretokenTable(slots, ends, np.zeros(characters, kind), np.zeros(1, np.int64))


def grow_pretoken_table(numbers: PretokenTable, characters: int) -> PretokenTable:
    """The same stretches with room for twice as many, and for so many more characters at least."""
    many = int(numbers.many[0])
    used = int(numbers.ends[many])
    larger = empty_pretoken_table(
        len(numbers.slots), max(2 * len(numbers.codes), used + characters), numbers.codes.dtype
    )
    larger.ends[: many + 1] = numbers.ends[: many + 1]
    larger.codes[:used] = numbers.codes[:used]
    larger.many[0] = many
    compile_kernel(rehash_kernel)(numbers.slots, larger.slots)
    return larger


def rehash_kernel(slots, larger):
    """Enters all stretches of one table into another."""
    for slot in range(len(slots)):
        if slots[slot, 1]:
            at = np.int64(slots[slot, 0] & np.uint64(len(larger) - 1))
            while larger[at, 1]:
                at = at + 1 if at + 1 < len(larger) else 0
            larger[at] = slots[slot]


def number_pretokens(
    numbers: PretokenTable, codes: np.ndarray, kinds: np.ndarray, gaps: np.ndarray, cuts: np.ndarray, places: np.ndarray
) -> tuple[PretokenTable, np.ndarray, np.ndarray]:
    """Where each stretch of a text begins, and its number; new ones are entered.

    codes   (n,) uint32, the characters; the last of them is a gap
    kinds   (0x110000,) int32, RUN, GAP or ALONE by character; for one that stands alone its number, once it has one,
            which is written here
    gaps    rising places that are gaps whatever stands there
    cuts    rising places before which a stretch ends
    places  (n,) bool, the same; empty: nowhere
    """
    begins, found = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
    loop, at, many = compile_kernel(number_pretokens_kernel), 0, 0
    while True:
        at, many = loop(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many)
        if at == len(codes):
            return numbers, begins[:many].copy(), found[:many].copy()
        numbers = grow_pretoken_table(numbers, len(codes) - at)


def number_pretokens_kernel(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many):
    """Up to the end, or to where there is no more room: the place to go on from, and how many stretches there were.

    Places are numbers without a sign, which need no look whether they count from the end.
    """
    slots, ends, known = numbers.slots, numbers.ends, numbers.codes
    here, size, last = np.uint64(at), np.uint64(len(codes)), np.uint64(len(slots) - 1)
    gap, cut, everywhere = np.searchsorted(gaps, at), np.searchsorted(cuts, at), len(places) > 0
    while here < size:
        kind = kinds[codes[here]]
        if gap < len(gaps) and np.uint64(gaps[gap]) == here:
            gap, kind = gap + 1, np.int32(CLASS_GAP)
        if kind == CLASS_GAP:
            here += ONE
            continue
        stop, number = here + ONE, np.int64(kind)
        if kind < 0:
            hashed = (CHAR_HASH_SEED ^ np.uint64(codes[here])) * CHAR_HASH_FACTOR
            while cut < len(cuts) and np.uint64(cuts[cut]) <= here:
                cut += 1
            limit = size if kind == CLASS_RUN else stop  # where it ends at the latest
            limit = min(limit, np.uint64(gaps[gap])) if gap < len(gaps) else limit
            limit = min(limit, np.uint64(cuts[cut])) if cut < len(cuts) else limit
            while stop < limit:
                code = codes[stop]
                if kinds[code] != CLASS_RUN or (everywhere and places[stop]):
                    break
                hashed = (hashed ^ np.uint64(code)) * CHAR_HASH_FACTOR
                stop += ONE
            hashed ^= hashed >> HALF  # the lowest bits of a product know little of its highest
            slot, number, length = hashed & last, np.int64(-1), stop - here
            while slots[slot, 1] and number < 0:
                other = slots[slot, 1] - ONE
                if slots[slot, 0] == hashed and np.uint64(ends[other + ONE] - ends[other]) == length:
                    first, same = np.uint64(ends[other]), np.uint64(0)
                    while same < length and known[first + same] == codes[here + same]:
                        same += ONE
                    if same == length:
                        number = np.int64(other)
                slot = (slot + ONE) & last if number < 0 else slot
            if number < 0:
                number = numbers.many[0]
                if number == len(ends) - 1 or ends[number] + np.int64(length) > len(known):
                    return np.int64(here), many
                known[ends[number] : ends[number] + np.int64(length)] = codes[np.int64(here) : np.int64(stop)]
                slots[slot, 0], slots[slot, 1] = hashed, np.uint64(number) + ONE
                ends[number + 1] = ends[number] + np.int64(length)
                numbers.many[0] = number + 1
            if kind == CLASS_SINGLE:
                kinds[codes[here]] = number
        begins[many], found[many] = np.int64(here), number
        here, many = stop, many + 1
    return len(codes), many


# --- Words by bytes ---
# A word of up to seven bytes is its own key: the bytes and their number fit in 64 bits and are mixed reversibly, so equal
# keys mean equal words. The key of a longer word is a hash, and its bytes are compared as well.


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
    loop, at, many, done = compile_kernel(number_words_kernel), 0, 0, 0
    while True:
        at, many, done = loop(data, gaps, numbers, begins, found, ends, upto, at, many, done, *rooms)
        if at == len(data) - PADDING_BYTES:
            upto[done:] = many
            return numbers, found[:many], upto, begins[:many]
        numbers = grow_pretoken_table(numbers, len(data) - at)


@inline_kernel
def _find_word_end(data, here, gaps):
    """Where the next gap is."""
    stop = here
    while True:
        eight = load_eight_bytes(data, stop)
        low = (eight - LOW_BYTES) & ~eight & HIGH_BITS  # the lowest bit that is set is that of a byte below 33
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
    if size <= MAX_SHORT_WORD:
        hashed = (hashed & ((ONE << (size * EIGHT)) - ONE)) | size << LENGTH_SHIFT
    else:
        for further in range(here + 8, stop, 8):
            eight, left = load_eight_bytes(data, further), np.uint64(stop - further)
            if left < EIGHT:
                eight &= (ONE << (left * EIGHT)) - ONE
            hashed = (hashed ^ (hashed >> HALF) ^ eight) * MIX_FIRST
    hashed = (hashed ^ (hashed >> HALF)) * MIX_FIRST
    hashed = (hashed ^ (hashed >> HALF)) * MIX_SECOND
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


def number_words_kernel(
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
            stop = _find_word_end(data, here, gaps)
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
            mark = LONG_WORD if length > np.int64(MAX_SHORT_WORD) else np.uint64(0)
            slot, number = hashed & last, np.int64(-1)
            while slots[slot, 1] and number < 0:
                if slots[slot, 0] == hashed and slots[slot, 1] & LONG_WORD == mark:
                    other = np.int64(slots[slot, 1] & ~LONG_WORD) - 1
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
