"""Distinct pretokens and whitespace-separated words of a text, numbered in order of first occurrence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.char_classes import CLASS_GAP, CLASS_RUN, CLASS_SINGLE
from forebear.kernels.intrinsics import count_trailing_zeros, load_eight_bytes, prefetch
from forebear.kernels.jit import compile_kernel, inline_kernel

INITIAL_CAPACITY = 1 << 14  # pretokens
INITIAL_LENGTH = 8  # characters reserved per pretoken at first
CHAR_HASH_SEED, CHAR_HASH_FACTOR = np.uint64(0x51_7C_C1_B7_27_22_0A_95), np.uint64(0x9E37_79B9_7F4A_7C15)
ONE, THREE, EIGHT, SHIFT_32 = np.uint64(1), np.uint64(3), np.uint64(8), np.uint64(32)

PADDING_BYTES = 8  # gap bytes after a text: words are read eight bytes at a time
WORDS_PER_BLOCK = 256  # words whose slots are prefetched before the first is looked up
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
    num_pretokens: np.ndarray  # (1,) int64


def empty_pretoken_table(
    capacity: int = INITIAL_CAPACITY, characters: int = INITIAL_CAPACITY * INITIAL_LENGTH, dtype: Any = np.uint32
) -> PretokenTable:
    """An empty table; its capacity is a power of two."""
    slots, ends = np.zeros((2 * capacity, 2), np.uint64), np.zeros(capacity + 1, np.int64)
    return PretokenTable(slots, ends, np.zeros(characters, dtype), np.zeros(1, np.int64))


def grow_pretoken_table(table: PretokenTable, characters: int) -> PretokenTable:
    """A copy with twice the capacity, and space for at least so many more characters."""
    count = int(table.num_pretokens[0])
    used = int(table.ends[count])
    larger = empty_pretoken_table(len(table.slots), max(2 * len(table.codes), used + characters), table.codes.dtype)
    larger.ends[: count + 1] = table.ends[: count + 1]
    larger.codes[:used] = table.codes[:used]
    larger.num_pretokens[0] = count
    compile_kernel(rehash_kernel)(table.slots, larger.slots)
    return larger


def rehash_kernel(slots, larger):
    """Insert all entries of one table into another."""
    for slot in range(len(slots)):
        if slots[slot, 1]:
            target = np.int64(slots[slot, 0] & np.uint64(len(larger) - 1))
            while larger[target, 1]:
                target = target + 1 if target + 1 < len(larger) else 0
            larger[target] = slots[slot]


def number_pretokens(
    table: PretokenTable,
    codes: np.ndarray,
    classes: np.ndarray,
    separators: np.ndarray,
    boundaries: np.ndarray,
    boundary_flags: np.ndarray,
) -> tuple[PretokenTable, np.ndarray, np.ndarray]:
    """The start and the id of each pretoken of a text; new pretokens are added to the table.

    codes           (n,) uint32 code points; the last one is a gap
    classes         (0x110000,) int32 class of each code point (CLASS_…); the ids of CLASS_SINGLE are written into it
    separators      ascending positions that are gaps, regardless of the character
    boundaries      ascending positions before which a pretoken ends
    boundary_flags  (n,) bool, the same as flags; empty: none
    """
    starts, ids = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
    kernel, position, count = compile_kernel(number_pretokens_kernel), 0, 0
    while True:
        position, count = kernel(
            codes, classes, separators, boundaries, boundary_flags, table, starts, ids, position, count
        )
        if position == len(codes):
            return table, starts[:count].copy(), ids[:count].copy()
        table = grow_pretoken_table(table, len(codes) - position)


def number_pretokens_kernel(codes, classes, separators, boundaries, boundary_flags, table, starts, ids, start, count):
    """Number pretokens until the text ends or the table is full; returns the position and the number of pretokens.

    Positions are unsigned, so that no negative index has to be handled.
    """
    slots, ends, known_codes = table.slots, table.ends, table.codes
    position, text_length, slot_mask = np.uint64(start), np.uint64(len(codes)), np.uint64(len(slots) - 1)
    next_separator = np.searchsorted(separators, start)
    next_boundary = np.searchsorted(boundaries, start)
    has_boundary_flags = len(boundary_flags) > 0
    while position < text_length:
        char_class = classes[codes[position]]
        if next_separator < len(separators) and np.uint64(separators[next_separator]) == position:
            next_separator, char_class = next_separator + 1, np.int32(CLASS_GAP)
        if char_class == CLASS_GAP:
            position += ONE
            continue
        stop, pretoken_id = position + ONE, np.int64(char_class)
        if char_class < 0:
            pretoken_hash = (CHAR_HASH_SEED ^ np.uint64(codes[position])) * CHAR_HASH_FACTOR
            while next_boundary < len(boundaries) and np.uint64(boundaries[next_boundary]) <= position:
                next_boundary += 1
            limit = text_length if char_class == CLASS_RUN else stop  # maximum end
            limit = min(limit, np.uint64(separators[next_separator])) if next_separator < len(separators) else limit
            limit = min(limit, np.uint64(boundaries[next_boundary])) if next_boundary < len(boundaries) else limit
            while stop < limit:
                code = codes[stop]
                if classes[code] != CLASS_RUN or (has_boundary_flags and boundary_flags[stop]):
                    break
                pretoken_hash = (pretoken_hash ^ np.uint64(code)) * CHAR_HASH_FACTOR
                stop += ONE
            # The lowest bits of a product do not depend on the highest of its factors.
            pretoken_hash ^= pretoken_hash >> SHIFT_32
            slot, pretoken_id, length = pretoken_hash & slot_mask, np.int64(-1), stop - position
            while slots[slot, 1] and pretoken_id < 0:
                other = slots[slot, 1] - ONE
                if slots[slot, 0] == pretoken_hash and np.uint64(ends[other + ONE] - ends[other]) == length:
                    first, num_equal = np.uint64(ends[other]), np.uint64(0)
                    while num_equal < length and known_codes[first + num_equal] == codes[position + num_equal]:
                        num_equal += ONE
                    if num_equal == length:
                        pretoken_id = np.int64(other)
                slot = (slot + ONE) & slot_mask if pretoken_id < 0 else slot
            if pretoken_id < 0:
                pretoken_id = table.num_pretokens[0]
                if pretoken_id == len(ends) - 1 or ends[pretoken_id] + np.int64(length) > len(known_codes):
                    return np.int64(position), count
                known_codes[ends[pretoken_id] : ends[pretoken_id] + np.int64(length)] = codes[
                    np.int64(position) : np.int64(stop)
                ]
                slots[slot, 0], slots[slot, 1] = pretoken_hash, np.uint64(pretoken_id) + ONE
                ends[pretoken_id + 1] = ends[pretoken_id] + np.int64(length)
                table.num_pretokens[0] = pretoken_id + 1
            if char_class == CLASS_SINGLE:
                classes[codes[position]] = pretoken_id
        starts[count], ids[count] = np.int64(position), pretoken_id
        position, count = stop, count + 1
    return len(codes), count


# --- Words by bytes ---
# A word of up to seven bytes is its own key: the bytes and their number fit in 64 bits and are mixed reversibly, so
# equal keys mean equal words. The key of a longer word is a hash, and its bytes are compared as well.


def empty_word_table() -> PretokenTable:
    """A table of words; each word is followed by a space."""
    return empty_pretoken_table(dtype=np.uint8)


def number_words(
    table: PretokenTable, data: np.ndarray, is_separator: np.ndarray, ends: np.ndarray, *, with_starts: bool = False
) -> tuple[PretokenTable, np.ndarray, np.ndarray, np.ndarray]:
    """The id of each word of several texts, the number of words up to each text's end, and optionally the word starts.

    data          (n,) uint8; the last PADDING_BYTES are gaps
    is_separator  (256,) bool, the bytes that separate words; all are below 33, so none occurs within a UTF-8 character
    ends          (texts,) int64, where each text ends; never within a word
    """
    max_words = len(data) // 2 + 1
    starts, ids = np.empty(max_words if with_starts else 0, np.int64), np.empty(max_words, np.int32)
    word_ends = np.empty_like(ends)
    buffers = [np.empty(WORDS_PER_BLOCK, dtype) for dtype in (np.int64, np.int64, np.uint64)]
    kernel, progress = compile_kernel(number_words_kernel), (0, 0, 0)
    while True:
        progress = kernel(data, is_separator, table, starts, ids, ends, word_ends, *progress, *buffers)
        position, count, num_done = progress
        if position == len(data) - PADDING_BYTES:
            word_ends[num_done:] = count
            return table, ids[:count], word_ends, starts[:count]
        table = grow_pretoken_table(table, len(data) - position)


@inline_kernel
def _find_word_end(data, start, is_separator):
    """Position of the next gap."""
    stop = start
    while True:
        block = load_eight_bytes(data, stop)
        low = (block - LOW_BYTES) & ~block & HIGH_BITS  # the lowest bit that is set is that of a byte below 33
        if low == 0:
            stop += 8
            continue
        stop += np.int64(count_trailing_zeros(low) >> THREE)
        if is_separator[data[stop]]:
            return stop
        stop += 1  # a control character that does not separate words


@inline_kernel
def _hash_word(data, start, stop):
    """64-bit key: for a short word its own bytes and length, mixed reversibly; for a longer one a hash."""
    key, size = load_eight_bytes(data, start), np.uint64(stop - start)
    if size <= MAX_SHORT_WORD:
        key = (key & ((ONE << (size * EIGHT)) - ONE)) | size << LENGTH_SHIFT
    else:
        for offset in range(start + 8, stop, 8):
            block, remaining = load_eight_bytes(data, offset), np.uint64(stop - offset)
            if remaining < EIGHT:
                block &= (ONE << (remaining * EIGHT)) - ONE
            key = (key ^ (key >> SHIFT_32) ^ block) * MIX_FIRST
    key = (key ^ (key >> SHIFT_32)) * MIX_FIRST
    key = (key ^ (key >> SHIFT_32)) * MIX_SECOND
    return key ^ (key >> SHIFT_32)


@inline_kernel
def _bytes_equal(data, begin, length, known_bytes, first, last):
    """Whether a long word of the text equals a word of the table."""
    if last - first != length:
        return False
    for byte in range(0, length - 8, 8):
        if load_eight_bytes(known_bytes, first + byte) != load_eight_bytes(data, begin + byte):
            return False
    return load_eight_bytes(known_bytes, last - 8) == load_eight_bytes(data, begin + length - 8)


def number_words_kernel(
    data,
    is_separator,
    table,
    starts,
    ids,
    text_ends,
    word_ends,
    text_start,
    count,
    num_done,
    positions,
    lengths,
    hashes,
):
    """Number words until the text ends or the table is full; returns the position, and how many words and texts end."""
    slots, ends, known_bytes = table.slots, table.ends, table.codes
    position, size, slot_mask = text_start, len(data) - PADDING_BYTES, np.uint64(len(slots) - 1)
    while position < size:
        block = 0
        while block < WORDS_PER_BLOCK and position < size:
            stop = _find_word_end(data, position, is_separator)
            if stop > position:
                key = _hash_word(data, position, stop)
                prefetch(slots, np.int64(key & slot_mask) * 2)
                positions[block], lengths[block], hashes[block] = position, stop - position, key
                block += 1
            position = stop + 1
        for index in range(block):
            start, length, key = positions[index], lengths[index], hashes[index]
            while num_done < len(text_ends) and text_ends[num_done] <= start:
                word_ends[num_done] = count
                num_done += 1
            long_flag = LONG_WORD if length > np.int64(MAX_SHORT_WORD) else np.uint64(0)
            slot, word_id = key & slot_mask, np.int64(-1)
            while slots[slot, 1] and word_id < 0:
                if slots[slot, 0] == key and slots[slot, 1] & LONG_WORD == long_flag:
                    other = np.int64(slots[slot, 1] & ~LONG_WORD) - 1
                    if long_flag == 0 or _bytes_equal(
                        data, start, length, known_bytes, ends[other], ends[other + 1] - 1
                    ):
                        word_id = other
                slot = (slot + ONE) & slot_mask if word_id < 0 else slot
            if word_id < 0:
                word_id = table.num_pretokens[0]
                end = ends[word_id] + length
                if word_id == len(ends) - 1 or end + 1 > len(known_bytes):
                    return start, count, num_done
                known_bytes[ends[word_id] : end] = data[start : start + length]
                known_bytes[end] = 32
                slots[slot, 0], slots[slot, 1] = key, np.uint64(word_id + 1) | long_flag
                ends[word_id + 1] = end + 1
                table.num_pretokens[0] = word_id + 1
            if len(starts):
                starts[count] = start
            ids[count] = word_id
            count += 1
    return size, count, num_done


def word_prefixes_kernel(codes, ends, first, second):
    """The first and the second eight bytes of each word as big-endian integers, for sorting."""
    for word in range(len(first)):
        begin, size = ends[word], ends[word + 1] - 1 - ends[word]  # each word is followed by a space
        first_prefix, second_prefix = np.uint64(0), np.uint64(0)
        for byte in range(min(size, 8)):
            first_prefix |= np.uint64(codes[begin + byte]) << np.uint64(56 - 8 * byte)
        for byte in range(8, min(size, 16)):
            second_prefix |= np.uint64(codes[begin + byte]) << np.uint64(120 - 8 * byte)
        first[word], second[word] = first_prefix, second_prefix


def gather_words_kernel(codes, ends, word_ids, output):
    """Concatenate the bytes of these words, each with its trailing space."""
    end = 0
    for word in word_ids:
        for position in range(ends[word], ends[word + 1]):
            output[end] = codes[position]
            end += 1
