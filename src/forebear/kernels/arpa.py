"""ARPA files: parsing, formatting and checking lines of n-grams without a Python object per line.

Lines of the usual form are parsed here. All others are left to the reference implementation, `Lines` in
interop/arpa.py, which accepts every valid line and reports the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels import float_text
from forebear.kernels.float_text import (
    DOT,
    MINUS,
    NEWLINE,
    PLUS,
    POWERS_OF_TEN,
    SMALL_E,
    SPACE,
    ZERO,
    parse_number,
)  # fmt: skip
from forebear.kernels.jit import compile_kernel, inline_kernel

TAB, CARRIAGE_RETURN = (ord(letter) for letter in "\t\r")
# hashes: FNV-1a's numbers
FNV_BASIS = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
SHIFT_32 = np.uint64(32)
BOS_ID, EOS_ID = -1, 1  # ids of <s>, which is only the first word of an n-gram, and of </s>, only the last
MAX_UNPARSED = 1 << 12  # lines left to the reference implementation at once


class WordHashTable(NamedTuple):
    """A vocabulary looked up by bytes: open addressing, with a full comparison of every word."""

    pool: np.ndarray  # uint8, newline-terminated words
    ends: np.ndarray  # (n,) int64, where in the pool each ends
    ids: np.ndarray  # (n,) int32
    hashes: np.ndarray  # (n,) uint64
    slots: np.ndarray  # int32, a power of two of them: which word, or -1


def build_word_table(pool: bytes, ids: np.ndarray) -> tuple[WordHashTable, int]:
    """The table of newline-terminated words, and the index of the first duplicate (-1: none)."""
    pool_bytes = np.frombuffer(pool, np.uint8)
    ends = np.flatnonzero(pool_bytes == NEWLINE)
    slots = np.full(1 << max(4, (2 * len(ids)).bit_length()), -1, np.int32)
    words = WordHashTable(pool_bytes, ends, ids.astype(np.int32), np.empty(len(ends), np.uint64), slots)
    return words, int(compile_kernel(insert_words_kernel, allocates=False)(words))


def parse_unigram_lines(
    text: np.ndarray, offset: int, logs: np.ndarray, backoffs: np.ndarray | None
) -> tuple[int, int, bytes, np.ndarray]:
    """Parse unigram lines from an offset on until the text or the arrays end.

    Without `backoffs`, only a back-off of 0 is parsed here. Words of unparsed lines are empty.

    Returns:
        The number of lines, the offset of the next line, the newline-terminated words, and (n, 2) the numbers and
        offsets of unparsed lines.
    """
    pool = np.empty(len(text) - offset, np.uint8)
    unparsed = np.empty((MAX_UNPARSED, 2), np.int64)
    is_highest_order = backoffs is None
    kernel = compile_kernel(parse_unigrams_kernel, allocates=False, inlined_modules=(float_text,))
    count, offset, pool_size, num_unparsed = kernel(
        text, offset, logs, logs if is_highest_order else backoffs, is_highest_order, pool, unparsed, POWERS_OF_TEN
    )
    return count, offset, pool[:pool_size].tobytes(), unparsed[:num_unparsed]


def parse_ngram_lines(
    text: np.ndarray, offset: int, words: WordHashTable, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None
) -> tuple[int, int, np.ndarray]:
    """Parse lines of n words into rows (size, n), as `parse_unigram_lines` does."""
    unparsed, is_highest_order = np.empty((MAX_UNPARSED, 2), np.int64), backoffs is None
    kernel = compile_kernel(parse_ngrams_kernel, allocates=False, inlined_modules=(float_text,))
    weights = logs if is_highest_order else backoffs
    count, offset, num_unparsed = kernel(
        text, offset, words, rows, logs, weights, is_highest_order, unparsed, POWERS_OF_TEN
    )
    return count, offset, unparsed[:num_unparsed]


# -- parts of a line


@inline_kernel
def _skip_spaces(text, offset):
    """Offset of the next field."""
    while text[offset] == SPACE or text[offset] == TAB:
        offset += 1
    return offset


@inline_kernel
def _is_line_end(text, offset):
    """Whether the line ends here, with \\n or \\r\\n."""
    return text[offset] == NEWLINE or (text[offset] == CARRIAGE_RETURN and text[offset + 1] == NEWLINE)


@inline_kernel
def _parse_backoff(text, offset, powers_of_ten):
    """The back-off weight at the end of a line (0 if absent), the offset of the line's end, and whether it is valid."""
    offset = _skip_spaces(text, offset)
    if _is_line_end(text, offset):
        return 0.0, offset, True
    value, offset, is_valid, _ = parse_number(text, offset, powers_of_ten)
    offset = _skip_spaces(text, offset)
    return value, offset, is_valid and _is_line_end(text, offset)


@inline_kernel
def _find_word_end(text, offset):
    """Offset of the end of a word. A lone carriage return ends it too and leaves the line unparsed."""
    while text[offset] != SPACE and text[offset] != TAB and text[offset] != NEWLINE and text[offset] != CARRIAGE_RETURN:
        offset += 1
    return offset


@inline_kernel
def _find_word(words, text, begin, end, word_hash):
    """The index of the word with these bytes, or -2 - slot, where slot is the free slot for it."""
    mask = len(words.slots) - 1
    slot = np.int64(word_hash ^ (word_hash >> SHIFT_32)) & mask
    while words.slots[slot] >= 0:
        index = words.slots[slot]
        if words.hashes[index] == word_hash:
            start = words.ends[index - 1] + 1 if index else 0
            if words.ends[index] - start == end - begin:
                num_equal = 0
                while num_equal < end - begin and words.pool[start + num_equal] == text[begin + num_equal]:
                    num_equal += 1
                if num_equal == end - begin:
                    return np.int64(index)
        slot = (slot + 1) & mask
    return -2 - slot


@inline_kernel
def _hash_bytes(text, begin, end):
    """64-bit FNV-1a hash of a range of bytes."""
    value = FNV_BASIS
    for offset in range(begin, end):
        value = (value ^ np.uint64(text[offset])) * FNV_PRIME
    return value


# -- lines


def insert_words_kernel(words):
    """Insert every word; returns the index of the first duplicate, or -1."""
    begin, duplicate = np.int64(0), np.int64(-1)
    for index in range(len(words.ends)):
        word_hash = _hash_bytes(words.pool, begin, words.ends[index])
        slot = _find_word(words, words.pool, begin, words.ends[index], word_hash)
        words.hashes[index] = word_hash
        if slot >= 0:
            duplicate = index if duplicate < 0 else duplicate
        else:
            words.slots[-2 - slot] = index
        begin = words.ends[index] + 1
    return duplicate


def parse_unigrams_kernel(text, offset, logs, backoffs, is_highest_order, pool, unparsed, powers_of_ten):
    count, pool_size, num_unparsed = 0, 0, 0
    while count < len(logs) and offset < len(text) and num_unparsed < len(unparsed):
        line_start = offset
        log_prob, offset, is_valid, _ = parse_number(text, _skip_spaces(text, offset), powers_of_ten)
        word_start = _skip_spaces(text, offset)
        offset = _find_word_end(text, word_start)
        backoff, line_end, is_backoff_valid = _parse_backoff(text, offset, powers_of_ten)
        logs[count] = log_prob
        if not is_highest_order:
            backoffs[count] = backoff
        is_valid = is_valid and text[word_start - 1] <= SPACE and offset > word_start and log_prob <= 0
        if is_valid and is_backoff_valid and not (is_highest_order and backoff != 0):
            for byte in range(word_start, offset):
                pool[pool_size] = text[byte]
                pool_size += 1
        else:
            unparsed[num_unparsed, 0], unparsed[num_unparsed, 1] = count, line_start
            num_unparsed += 1
        pool[pool_size] = NEWLINE
        pool_size += 1
        offset = line_end
        while text[offset] != NEWLINE:
            offset += 1
        offset += 1
        count += 1
    return count, offset, pool_size, num_unparsed


def parse_ngrams_kernel(text, offset, words, rows, logs, backoffs, is_highest_order, unparsed, powers_of_ten):
    count, num_unparsed, width = 0, 0, rows.shape[1]
    while count < len(rows) and offset < len(text) and num_unparsed < len(unparsed):
        line_start = offset
        log_prob, offset, is_valid, _ = parse_number(text, _skip_spaces(text, offset), powers_of_ten)
        is_valid = is_valid and log_prob <= 0
        column = 0
        while is_valid and column < width:
            word_start = _skip_spaces(text, offset)
            word_hash, offset = FNV_BASIS, word_start
            byte = text[offset]
            while byte != SPACE and byte != TAB and byte != NEWLINE and byte != CARRIAGE_RETURN:
                word_hash = (word_hash ^ np.uint64(byte)) * FNV_PRIME
                offset += 1
                byte = text[offset]
            index = _find_word(words, text, word_start, offset, word_hash)
            is_valid = offset > word_start and text[word_start - 1] <= SPACE and index >= 0
            if is_valid:
                word = words.ids[index]
                is_valid = (word != BOS_ID or column == 0) and (word != EOS_ID or column == width - 1)
                rows[count, column] = EOS_ID if word == BOS_ID else word
            column += 1
        backoff, line_end, is_backoff_valid = _parse_backoff(text, offset, powers_of_ten)
        logs[count] = log_prob
        if not is_highest_order:
            backoffs[count] = backoff
        if not is_valid or not is_backoff_valid or (is_highest_order and backoff != 0):
            unparsed[num_unparsed, 0], unparsed[num_unparsed, 1] = count, line_start
            num_unparsed += 1
        offset = line_end
        while text[offset] != NEWLINE:
            offset += 1
        offset += 1
        count += 1
    return count, offset, num_unparsed


# --- Formatting lines; the reference is `lines_of` in interop/arpa.py and gives the same bytes ---

# as %.9g: so many digits, and powers of ten below or beyond are written as such
SIGNIFICANT_DIGITS = 9
MIN_FIXED_POINT_POWER = -4
EXACT_POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(23)])  # all that float64 holds exactly
TIE_TOLERANCE = 1e-6  # numbers this near to a tie are left to Python: far more than the rounding error
MAX_NUMBER_BYTES = 24  # bytes of a number and its separators


class WordBytes(NamedTuple):
    """The UTF-8 bytes of the vocabulary by word id."""

    pool: np.ndarray  # uint8
    ends: np.ndarray  # (V + 1,) int64, the first of them 0


class ScientificDecimals(NamedTuple):
    """Numbers as ±d.dddddddd · 10^power."""

    is_negative: np.ndarray  # bool
    digits: np.ndarray  # int64, all nine of them; 0 of the number 0
    powers: np.ndarray  # int64


def word_bytes(words: list[str]) -> WordBytes:
    pool = [word.encode() for word in words]
    ends = np.concatenate(([0], np.cumsum([len(word) for word in pool])))
    return WordBytes(np.frombuffer(b"".join(pool) + b"\0", np.uint8), ends.astype(np.int64))


def format_ngram_lines(
    word_table: WordBytes, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None
) -> memoryview:
    """Format n-grams (size, n) with finite log-probabilities, and with back-off weights if given."""
    lengths = np.diff(word_table.ends)
    capacity = int(sum(lengths[column].sum() for column in rows.T)) + len(rows) * (rows.shape[1] + 2 * MAX_NUMBER_BYTES)
    text, log_decimals = np.empty(capacity, np.uint8), decimals(logs)
    kernel = compile_kernel(format_lines_kernel, allocates=False)
    num_bytes = kernel(
        text,
        word_table,
        rows,
        log_decimals,
        log_decimals if backoffs is None else decimals(backoffs),
        backoffs is not None,
    )
    return text[:num_bytes].data


def decimals(values: np.ndarray) -> ScientificDecimals:
    """The nine significant digits of each value, rounded as Python does."""
    magnitudes = np.abs(values)
    with np.errstate(divide="ignore"):
        guess = np.floor(np.log10(magnitudes))
    is_exact = (guess > SIGNIFICANT_DIGITS - 1 - len(EXACT_POWERS_OF_TEN)) & (guess < SIGNIFICANT_DIGITS)
    powers = np.where(is_exact, guess, 0).astype(np.int64)
    scaled = magnitudes * EXACT_POWERS_OF_TEN[SIGNIFICANT_DIGITS - 1 - powers]
    digits = np.rint(scaled)
    # the logarithm, or rounding, came to the next power
    rounds_up = digits >= 10**SIGNIFICANT_DIGITS
    rounds_down = scaled < 10 ** (SIGNIFICANT_DIGITS - 1)
    is_near_tie = np.abs(scaled - np.floor(scaled) - 0.5) < TIE_TOLERANCE
    result = ScientificDecimals(
        np.signbit(values), np.where(is_exact & (magnitudes > 0), digits, 0).astype(np.int64), powers
    )
    for row in np.flatnonzero((is_near_tie | rounds_up | rounds_down | ~is_exact) & (magnitudes > 0)).tolist():
        text, power = f"{magnitudes[row]:.{SIGNIFICANT_DIGITS - 1}e}".split("e")
        result.digits[row], result.powers[row] = int(text.replace(".", "")), int(power)
    return result


@inline_kernel
def _write_digit(text, offset, digit):
    text[offset] = ZERO + digit
    return offset + 1


@inline_kernel
def _write_number(text, offset, is_negative, digits, power):
    """Write a number as %.9g does; returns the offset of its end."""
    if is_negative:
        text[offset] = MINUS
        offset += 1
    if digits == 0:
        return _write_digit(text, offset, 0)
    count = SIGNIFICANT_DIGITS  # without trailing zeros
    while digits % 10 == 0:
        digits //= 10
        count -= 1
    is_fixed_point = MIN_FIXED_POINT_POWER <= power < SIGNIFICANT_DIGITS
    num_integer_digits = power + 1 if is_fixed_point else 1  # digits before the point
    if num_integer_digits <= 0:
        text[offset], text[offset + 1] = ZERO, DOT
        offset += 2
        for _ in range(-num_integer_digits):
            offset = _write_digit(text, offset, 0)
    has_point = 1 if 0 < num_integer_digits < count else 0  # the point among the digits
    for digit_index in range(count - 1, -1, -1):
        text[offset + digit_index + (has_point if digit_index >= num_integer_digits else 0)] = ZERO + digits % 10
        digits //= 10
    if has_point:
        text[offset + num_integer_digits] = DOT
    offset += count + has_point
    for _ in range(num_integer_digits - count):
        offset = _write_digit(text, offset, 0)
    if not is_fixed_point:
        text[offset], text[offset + 1] = SMALL_E, MINUS if power < 0 else PLUS
        offset, power = offset + 2, abs(power)
        if power >= 100:
            offset = _write_digit(text, offset, power // 100)
        offset = _write_digit(text, offset, power // 10 % 10)
        offset = _write_digit(text, offset, power % 10)
    return offset


def format_lines_kernel(text, word_table, rows, logs, backoffs, has_backoffs):
    offset = np.int64(0)
    for row in range(len(rows)):
        offset = _write_number(text, offset, logs.is_negative[row], logs.digits[row], logs.powers[row])
        for column in range(rows.shape[1]):
            text[offset] = SPACE if column else TAB
            offset += 1
            word = rows[row, column]
            for byte in range(word_table.ends[word], word_table.ends[word + 1]):
                text[offset] = word_table.pool[byte]
                offset += 1
        if has_backoffs:
            text[offset] = TAB
            offset = _write_number(
                text, offset + 1, backoffs.is_negative[row], backoffs.digits[row], backoffs.powers[row]
            )
        text[offset] = NEWLINE
        offset += 1
    return offset


# --- Checking that every n-gram occurs once and that its prefix exists ---
# Hash tables of row numbers instead of sorted keys. The reference is `checked` in interop/arpa.py.

ROW_HASH_SEED, ROW_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # random-looking bits
LOW_BITS, NO_ROW = np.uint64((1 << 32) - 1), -1
ROW_MASK = (1 << 40) - 1  # the bits of a slot that hold a row's number; the bits above it are of the row's hash
HASH_MASK = ~ROW_MASK & ((1 << 63) - 1)
ROWS_PER_BATCH = 32  # rows whose slots are fetched together


def check_ngram_prefixes(known: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> tuple[int, int]:
    """Check that the first n - 1 words of each n-gram (size, n) are an n-gram, and that no n-gram occurs twice.

    Args:
        known: State between calls with rising n: the (n-1)-grams and their hash table.
        rows: The n-grams.

    Returns:
        The first n-gram without its prefix and the first duplicate, -1 if there is none.
    """
    work = np.empty(ROWS_PER_BATCH, np.uint64), np.empty(ROWS_PER_BATCH, np.int64)
    orphan = int(compile_kernel(find_orphan_kernel, allocates=False)(*known[0], rows, work)) if known else -1
    known.clear()  # before the next table is made, so that there is only one at a time
    if orphan >= 0:
        return orphan, -1
    slots = np.full(len(rows) * 4 // 3 + 1, NO_ROW, np.int64)
    known.append((rows, slots))
    return -1, int(compile_kernel(insert_rows_kernel, allocates=False)(rows, slots, work))


@inline_kernel
def _hash_row(rows, row, width):
    row_hash = ROW_HASH_SEED
    for column in range(width):
        row_hash = (row_hash ^ np.uint64(rows[row, column])) * ROW_HASH_FACTOR
        row_hash ^= row_hash >> SHIFT_32
    return row_hash


@inline_kernel
def _first_slot(slots, row_hash):
    """The first slot to probe: evenly distributed over any number of slots, not only powers of two."""
    return np.int64(((row_hash & LOW_BITS) * np.uint64(len(slots))) >> SHIFT_32)


@inline_kernel
def _find_row_slot(rows, slots, queries, row, width, row_hash):
    """The slot of the row with these words, or a free slot."""
    slot = _first_slot(slots, row_hash)
    while slots[slot] != NO_ROW:
        if slots[slot] & HASH_MASK == np.int64(row_hash) & HASH_MASK:
            other, num_equal = slots[slot] & ROW_MASK, 0
            while num_equal < width and rows[other, num_equal] == queries[row, num_equal]:
                num_equal += 1
            if num_equal == width:
                break
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return slot


@inline_kernel
def _prefetch_slots(slots, rows, begin, end, width, work):
    """Hash a few rows and load their slots together, which takes hardly longer than loading one."""
    hashes, first_entries = work
    for row in range(begin, end):
        hashes[row - begin] = _hash_row(rows, row, width)
        first_entries[row - begin] = slots[_first_slot(slots, hashes[row - begin])]


def find_orphan_kernel(shorter, slots, rows, work):
    width = shorter.shape[1]
    for begin in range(0, len(rows), ROWS_PER_BATCH):
        end = min(begin + ROWS_PER_BATCH, len(rows))
        _prefetch_slots(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            if slots[_find_row_slot(shorter, slots, rows, row, width, work[0][row - begin])] == NO_ROW:
                return row
    return -1


def insert_rows_kernel(rows, slots, work):
    width = rows.shape[1]
    for begin in range(0, len(rows), ROWS_PER_BATCH):
        end = min(begin + ROWS_PER_BATCH, len(rows))
        _prefetch_slots(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            row_hash = work[0][row - begin]
            slot = _find_row_slot(rows, slots, rows, row, width, row_hash)
            if slots[slot] != NO_ROW:
                return row
            slots[slot] = (np.int64(row_hash) & HASH_MASK) | row
    return -1
