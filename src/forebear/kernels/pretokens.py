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
    """Pretokens by id, and a hash table with linear probing to look them up."""

    slots: np.ndarray  # (a power of two, 2) uint64: the hash of a pretoken, and its id + 1; 0: free
    ends: np.ndarray  # (capacity + 1,) int64, where the characters of each pretoken end
    codes: np.ndarray  # uint32 characters, or uint8 bytes of words
    many: np.ndarray  # (1,) int64, the number of pretokens


def empty_pretoken_table(
    capacity: int = INITIAL_CAPACITY, characters: int = INITIAL_CAPACITY * INITIAL_LENGTH, kind: Any = np.uint32
) -> PretokenTable:
    """An empty table; its capacity is a power of two."""
    slots, ends = np.zeros((2 * capacity, 2), np.uint64), np.zeros(capacity + 1, np.int64)
    return PretokenTable(slots, ends, np.zeros(characters, kind), np.zeros(1, np.int64))


def grow_pretoken_table(table: PretokenTable, characters: int) -> PretokenTable:
    """A copy with twice the capacity, and space for at least so many more characters."""
    count = int(table.many[0])
    used = int(table.ends[count])
    larger = empty_pretoken_table(len(table.slots), max(2 * len(table.codes), used + characters), table.codes.dtype)
    larger.ends[: count + 1] = table.ends[: count + 1]
    larger.codes[:used] = table.codes[:used]
    larger.many[0] = count
    compile_kernel(rehash_kernel)(table.slots, larger.slots)
    return larger


def rehash_kernel(slots, larger):
    """Insert all entries of one table into another."""
    for slot in range(len(slots)):
        if slots[slot, 1]:
            at = np.int64(slots[slot, 0] & np.uint64(len(larger) - 1))
            while larger[at, 1]:
                at = at + 1 if at + 1 < len(larger) else 0
            larger[at] = slots[slot]


def number_pretokens(
    table: PretokenTable,
    codes: np.ndarray,
    classes: np.ndarray,
    gaps: np.ndarray,
    cuts: np.ndarray,
    cut_flags: np.ndarray,
) -> tuple[PretokenTable, np.ndarray, np.ndarray]:
    """Where each pretoken of a text begins, and its id; new pretokens are added to the table.

    codes      (n,) uint32 code points; the last one is a gap
    classes    (0x110000,) int32 class of each code point (CLASS_…); the ids of CLASS_SINGLE are written into it
    gaps       rising positions that are gaps, whatever the character
    cuts       rising positions before which a pretoken ends
    cut_flags  (n,) bool, the same; empty: none
    """
    starts, ids = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
    loop, at, count = compile_kernel(number_pretokens_kernel), 0, 0
    while True:
        at, count = loop(codes, classes, gaps, cuts, cut_flags, table, starts, ids, at, count)
        if at == len(codes):
            return table, starts[:count].copy(), ids[:count].copy()
        table = grow_pretoken_table(table, len(codes) - at)


def number_pretokens_kernel(codes, classes, gaps, cuts, cut_flags, table, starts, ids, at, count):
    """Number pretokens until the text ends or the table is full; returns the position and the number of pretokens.

    Positions are unsigned, so that no negative index has to be handled.
    """
    slots, ends, known = table.slots, table.ends, table.codes
    position, text_length, last = np.uint64(at), np.uint64(len(codes)), np.uint64(len(slots) - 1)
    gap, cut, has_cut_flags = np.searchsorted(gaps, at), np.searchsorted(cuts, at), len(cut_flags) > 0
    while position < text_length:
        char_class = classes[codes[position]]
        if gap < len(gaps) and np.uint64(gaps[gap]) == position:
            gap, char_class = gap + 1, np.int32(CLASS_GAP)
        if char_class == CLASS_GAP:
            position += ONE
            continue
        stop, number = position + ONE, np.int64(char_class)
        if char_class < 0:
            hashed = (CHAR_HASH_SEED ^ np.uint64(codes[position])) * CHAR_HASH_FACTOR
            while cut < len(cuts) and np.uint64(cuts[cut]) <= position:
                cut += 1
            limit = text_length if char_class == CLASS_RUN else stop  # where it ends at the latest
            limit = min(limit, np.uint64(gaps[gap])) if gap < len(gaps) else limit
            limit = min(limit, np.uint64(cuts[cut])) if cut < len(cuts) else limit
            while stop < limit:
                code = codes[stop]
                if classes[code] != CLASS_RUN or (has_cut_flags and cut_flags[stop]):
                    break
                hashed = (hashed ^ np.uint64(code)) * CHAR_HASH_FACTOR
                stop += ONE
            hashed ^= hashed >> HALF  # the lowest bits of a product do not depend on the highest of its factors
            slot, number, length = hashed & last, np.int64(-1), stop - position
            while slots[slot, 1] and number < 0:
                other = slots[slot, 1] - ONE
                if slots[slot, 0] == hashed and np.uint64(ends[other + ONE] - ends[other]) == length:
                    first, same = np.uint64(ends[other]), np.uint64(0)
                    while same < length and known[first + same] == codes[position + same]:
                        same += ONE
                    if same == length:
                        number = np.int64(other)
                slot = (slot + ONE) & last if number < 0 else slot
            if number < 0:
                number = table.many[0]
                if number == len(ends) - 1 or ends[number] + np.int64(length) > len(known):
                    return np.int64(position), count
                known[ends[number] : ends[number] + np.int64(length)] = codes[np.int64(position) : np.int64(stop)]
                slots[slot, 0], slots[slot, 1] = hashed, np.uint64(number) + ONE
                ends[number + 1] = ends[number] + np.int64(length)
                table.many[0] = number + 1
            if char_class == CLASS_SINGLE:
                classes[codes[position]] = number
        starts[count], ids[count] = np.int64(position), number
        position, count = stop, count + 1
    return len(codes), count


# --- Words by bytes ---
# A word of up to seven bytes is its own key: the bytes and their number fit in 64 bits and are mixed reversibly, so
# equal keys mean equal words. The key of a longer word is a hash, and its bytes are compared as well.


def empty_word_table() -> PretokenTable:
    """A table of words; each word is followed by a space."""
    return empty_pretoken_table(kind=np.uint8)


def number_words(
    table: PretokenTable, data: np.ndarray, gaps: np.ndarray, ends: np.ndarray, *, with_starts: bool = False
) -> tuple[PretokenTable, np.ndarray, np.ndarray, np.ndarray]:
    """The id of each word of several texts, the number of words up to each text's end, and optionally the word starts.

    data  (n,) uint8; the last PADDING_BYTES are gaps
    gaps  (256,) bool, the bytes that separate words; all are below 33, so none occurs within a UTF-8 character
    ends  (texts,) int64, where each text ends; never within a word
    """
    max_words = len(data) // 2 + 1
    starts, ids = np.empty(max_words if with_starts else 0, np.int64), np.empty(max_words, np.int32)
    word_ends = np.empty_like(ends)
    buffers = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64), np.empty(BLOCK, np.uint64)
    kernel, progress = compile_kernel(number_words_kernel), (0, 0, 0)
    while True:
        progress = kernel(data, gaps, table, starts, ids, ends, word_ends, *progress, *buffers)
        position, count, num_done = progress
        if position == len(data) - PADDING_BYTES:
            word_ends[num_done:] = count
            return table, ids[:count], word_ends, starts[:count]
        table = grow_pretoken_table(table, len(data) - position)


@inline_kernel
def _find_word_end(data, start, gaps):
    """Position of the next gap."""
    stop = start
    while True:
        block = load_eight_bytes(data, stop)
        low = (block - LOW_BYTES) & ~block & HIGH_BITS  # the lowest bit that is set is that of a byte below 33
        if low == 0:
            stop += 8
            continue
        stop += np.int64(count_trailing_zeros(low) >> THREE)
        if gaps[data[stop]]:
            return stop
        stop += 1  # a control character that does not separate words


@inline_kernel
def _hash_word(data, start, stop):
    """64-bit key: for a short word its own bytes and length, mixed reversibly; for a longer one a hash."""
    hashed, size = load_eight_bytes(data, start), np.uint64(stop - start)
    if size <= MAX_SHORT_WORD:
        hashed = (hashed & ((ONE << (size * EIGHT)) - ONE)) | size << LENGTH_SHIFT
    else:
        for offset in range(start + 8, stop, 8):
            block, remaining = load_eight_bytes(data, offset), np.uint64(stop - offset)
            if remaining < EIGHT:
                block &= (ONE << (remaining * EIGHT)) - ONE
            hashed = (hashed ^ (hashed >> HALF) ^ block) * MIX_FIRST
    hashed = (hashed ^ (hashed >> HALF)) * MIX_FIRST
    hashed = (hashed ^ (hashed >> HALF)) * MIX_SECOND
    return hashed ^ (hashed >> HALF)


@inline_kernel
def _bytes_equal(data, begin, length, known, first, last):
    """Whether a long word of the text equals a word of the table."""
    if last - first != length:
        return False
    for byte in range(0, length - 8, 8):
        if load_eight_bytes(known, first + byte) != load_eight_bytes(data, begin + byte):
            return False
    return load_eight_bytes(known, last - 8) == load_eight_bytes(data, begin + length - 8)


def number_words_kernel(
    data, gaps, table, starts, ids, ends_of_texts, word_ends, at, count, num_done, positions, lengths, hashes
):
    """Number words until the text ends or the table is full; returns the position, and how many words and texts end."""
    slots, ends, known = table.slots, table.ends, table.codes
    position, size, last = at, len(data) - PADDING_BYTES, np.uint64(len(slots) - 1)
    while position < size:
        block = 0
        while block < BLOCK and position < size:
            stop = _find_word_end(data, position, gaps)
            if stop > position:
                hashed = _hash_word(data, position, stop)
                prefetch(slots, np.int64(hashed & last) * 2)
                positions[block], lengths[block], hashes[block] = position, stop - position, hashed
                block += 1
            position = stop + 1
        for turn in range(block):
            start, length, hashed = positions[turn], lengths[turn], hashes[turn]
            while num_done < len(ends_of_texts) and ends_of_texts[num_done] <= start:
                word_ends[num_done] = count
                num_done += 1
            mark = LONG_WORD if length > np.int64(MAX_SHORT_WORD) else np.uint64(0)
            slot, number = hashed & last, np.int64(-1)
            while slots[slot, 1] and number < 0:
                if slots[slot, 0] == hashed and slots[slot, 1] & LONG_WORD == mark:
                    other = np.int64(slots[slot, 1] & ~LONG_WORD) - 1
                    if mark == 0 or _bytes_equal(data, start, length, known, ends[other], ends[other + 1] - 1):
                        number = other
                slot = (slot + ONE) & last if number < 0 else slot
            if number < 0:
                number = table.many[0]
                end = ends[number] + length
                if number == len(ends) - 1 or end + 1 > len(known):
                    return start, count, num_done
                known[ends[number] : end] = data[start : start + length]
                known[end] = 32
                slots[slot, 0], slots[slot, 1] = hashed, np.uint64(number + 1) | mark
                ends[number + 1] = end + 1
                table.many[0] = number + 1
            if len(starts):
                starts[count] = start
            ids[count] = number
            count += 1
    return size, count, num_done


def word_prefixes_kernel(codes, ends, first, second):
    """The first and the second eight bytes of each word as big-endian integers, for sorting."""
    for number in range(len(first)):
        begin, size = ends[number], ends[number + 1] - 1 - ends[number]  # each word is followed by a space
        first_prefix, second_prefix = np.uint64(0), np.uint64(0)
        for byte in range(min(size, 8)):
            first_prefix |= np.uint64(codes[begin + byte]) << np.uint64(56 - 8 * byte)
        for byte in range(8, min(size, 16)):
            second_prefix |= np.uint64(codes[begin + byte]) << np.uint64(120 - 8 * byte)
        first[number], second[number] = first_prefix, second_prefix


def gather_words_kernel(codes, ends, numbers, output):
    """Concatenate the bytes of these words, each with its trailing space."""
    end = 0
    for number in numbers:
        for position in range(ends[number], ends[number + 1]):
            output[end] = codes[position]
            end += 1
