"""ARPA files: parsing, formatting and checking lines of n-grams without a Python object per line.

Lines of the usual form are parsed here. All others are left to the readable twin, `Lines` in interop/arpa.py, which
accepts every valid line and reports the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.jit import compile_kernel, inline_kernel

TENS = np.array([float(f"1e{power}") for power in range(61)])
MAX_MANTISSA = 10**17  # digits beyond are not looked at
SPACE, TAB, RETURN, END, POINT, PLUS, MINUS, ZERO, SMALL_E = (ord(letter) for letter in " \t\r\n.+-0e")
BASIS, PRIME, HALF = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3), np.uint64(32)  # hashes: FNV-1a's numbers
BEGINS, ENDS = -1, 1  # ids of <s>, which is only the first word of an n-gram, and of </s>, only the last
MAX_UNUSUAL = 1 << 12  # lines left to the twin at once


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
    ends = np.flatnonzero(pool_bytes == END)
    slots = np.full(1 << max(4, (2 * len(ids)).bit_length()), -1, np.int32)
    words = WordHashTable(pool_bytes, ends, ids.astype(np.int32), np.empty(len(ends), np.uint64), slots)
    return words, int(compile_kernel(insert_words_kernel, bare=True)(words))


def parse_unigram_lines(
    text: np.ndarray, at: int, logs: np.ndarray, backoffs: np.ndarray | None
) -> tuple[int, int, bytes, np.ndarray]:
    """Parse unigram lines from an offset on until the text or the arrays end.

    Without `backoffs`, only a back-off of 0 is usual. Words of unusual lines are empty.

    Returns:
        The number of lines, the offset of the next line, the newline-terminated words, and (n, 2) the numbers and
        offsets of unusual lines.
    """
    pool, unusual, longest = np.empty(len(text) - at, np.uint8), np.empty((MAX_UNUSUAL, 2), np.int64), backoffs is None
    run = compile_kernel(parse_unigrams_kernel, bare=True)
    count, at, used, left = run(text, at, logs, logs if longest else backoffs, longest, pool, unusual, TENS)
    return count, at, pool[:used].tobytes(), unusual[:left]


def parse_ngram_lines(
    text: np.ndarray, at: int, words: WordHashTable, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None
) -> tuple[int, int, np.ndarray]:
    """Parse lines of n words into rows (size, n), as `parse_unigram_lines` does."""
    unusual, longest = np.empty((MAX_UNUSUAL, 2), np.int64), backoffs is None
    run = compile_kernel(parse_ngrams_kernel, bare=True)
    count, at, left = run(text, at, words, rows, logs, logs if longest else backoffs, longest, unusual, TENS)
    return count, at, unusual[:left]


# -- parts of a line


@inline_kernel
def _parse_number(text, at, tens):
    """The number at an offset, the offset of its end, and whether it has the usual form."""
    minus = text[at] == MINUS
    at += 1 if minus or text[at] == PLUS else 0
    whole, digits, power, point = np.int64(0), 0, 0, 0
    while True:
        digit = np.int64(text[at]) - ZERO
        if 0 <= digit <= 9:
            digits += 1
            if whole < MAX_MANTISSA:
                whole = whole * 10 + digit
                power -= point
            else:
                power += 1 - point
        elif text[at] == POINT and point == 0:
            point = 1
        else:
            break
        at += 1
    if digits > 0 and (text[at] | 32) == SMALL_E:
        at += 1
        down = text[at] == MINUS
        at += 1 if down or text[at] == PLUS else 0
        digits, exponent = 0, 0  # of the power
        while 0 <= np.int64(text[at]) - ZERO <= 9:
            exponent = min(exponent * 10 + np.int64(text[at]) - ZERO, 9999)
            digits += 1
            at += 1
        power += -exponent if down else exponent
    if digits == 0 or abs(power) >= len(tens):
        return 0.0, at, False
    value = whole * tens[power] if power >= 0 else whole / tens[-power]
    return -value if minus else value, at, True


@inline_kernel
def _skip_spaces(text, at):
    """Offset of the next field."""
    while text[at] == SPACE or text[at] == TAB:
        at += 1
    return at


@inline_kernel
def _is_line_end(text, at):
    """Whether the line ends here, with \\n or \\r\\n."""
    return text[at] == END or (text[at] == RETURN and text[at + 1] == END)


@inline_kernel
def _parse_backoff(text, at, tens):
    """The back-off weight at the end of a line (0 if absent), the offset of the line's end, and whether it is valid."""
    at = _skip_spaces(text, at)
    if _is_line_end(text, at):
        return 0.0, at, True
    value, at, is_valid = _parse_number(text, at, tens)
    at = _skip_spaces(text, at)
    return value, at, is_valid and _is_line_end(text, at)


@inline_kernel
def _find_word_end(text, at):
    """Offset of the end of a word. A lone carriage return ends it too and makes the line unusual."""
    while text[at] != SPACE and text[at] != TAB and text[at] != END and text[at] != RETURN:
        at += 1
    return at


@inline_kernel
def _find_word(words, text, begin, end, value):
    """The index of the word with these bytes, or -2 - slot, where slot is the free slot for it."""
    mask = len(words.slots) - 1
    slot = np.int64(value ^ (value >> HALF)) & mask
    while words.slots[slot] >= 0:
        which = words.slots[slot]
        if words.hashes[which] == value:
            start = words.ends[which - 1] + 1 if which else 0
            if words.ends[which] - start == end - begin:
                same = 0
                while same < end - begin and words.pool[start + same] == text[begin + same]:
                    same += 1
                if same == end - begin:
                    return np.int64(which)
        slot = (slot + 1) & mask
    return -2 - slot


@inline_kernel
def _hash_bytes(text, begin, end):
    """64-bit FNV-1a hash of a range of bytes."""
    value = BASIS
    for at in range(begin, end):
        value = (value ^ np.uint64(text[at])) * PRIME
    return value


# -- lines


def insert_words_kernel(words):
    """Insert every word; returns the index of the first duplicate, or -1."""
    begin, duplicate = np.int64(0), np.int64(-1)
    for which in range(len(words.ends)):
        value = _hash_bytes(words.pool, begin, words.ends[which])
        slot = _find_word(words, words.pool, begin, words.ends[which], value)
        words.hashes[which] = value
        if slot >= 0:
            duplicate = which if duplicate < 0 else duplicate
        else:
            words.slots[-2 - slot] = which
        begin = words.ends[which] + 1
    return duplicate


def parse_unigrams_kernel(text, at, logs, backoffs, longest, pool, unusual, tens):
    count, used, left = 0, 0, 0
    while count < len(logs) and at < len(text) and left < len(unusual):
        begin = at
        value, at, is_valid = _parse_number(text, _skip_spaces(text, at), tens)
        first = _skip_spaces(text, at)
        at = _find_word_end(text, first)
        weight, over, whole = _parse_backoff(text, at, tens)
        logs[count] = value
        if not longest:
            backoffs[count] = weight
        is_valid = is_valid and text[first - 1] <= SPACE and at > first and value <= 0
        if is_valid and whole and not (longest and weight != 0):
            for letter in range(first, at):
                pool[used] = text[letter]
                used += 1
        else:
            unusual[left, 0], unusual[left, 1] = count, begin
            left += 1
        pool[used] = END
        used += 1
        at = over
        while text[at] != END:
            at += 1
        at += 1
        count += 1
    return count, at, used, left


def parse_ngrams_kernel(text, at, words, rows, logs, backoffs, longest, unusual, tens):
    count, left, width = 0, 0, rows.shape[1]
    while count < len(rows) and at < len(text) and left < len(unusual):
        begin = at
        value, at, is_valid = _parse_number(text, _skip_spaces(text, at), tens)
        is_valid = is_valid and value <= 0
        column = 0
        while is_valid and column < width:
            first = _skip_spaces(text, at)
            hash_of, at = BASIS, first
            letter = text[at]
            while letter != SPACE and letter != TAB and letter != END and letter != RETURN:
                hash_of = (hash_of ^ np.uint64(letter)) * PRIME
                at += 1
                letter = text[at]
            which = _find_word(words, text, first, at, hash_of)
            is_valid = at > first and text[first - 1] <= SPACE and which >= 0
            if is_valid:
                word = words.ids[which]
                is_valid = (word != BEGINS or column == 0) and (word != ENDS or column == width - 1)
                rows[count, column] = ENDS if word == BEGINS else word
            column += 1
        weight, over, whole = _parse_backoff(text, at, tens)
        logs[count] = value
        if not longest:
            backoffs[count] = weight
        if not is_valid or not whole or (longest and weight != 0):
            unusual[left, 0], unusual[left, 1] = count, begin
            left += 1
        at = over
        while text[at] != END:
            at += 1
        at += 1
        count += 1
    return count, at, left


# --- Formatting lines; the readable twin is `lines_of` in interop/arpa.py and gives the same bytes ---

DIGITS, SMALLEST = 9, -4  # as %.9g: so many digits, and powers of ten below or beyond are written as such
ARPA_WRITING_TENS = np.array([float(f"1e{power}") for power in range(23)])  # all that float64 holds exactly
ROUNDING_DOUBT = 1e-6  # numbers this near to a tie are left to Python: far more than the rounding error
MAX_NUMBER_BYTES = 24  # bytes of a number and its separators


class WordBytes(NamedTuple):
    """The UTF-8 bytes of the vocabulary by word id."""

    pool: np.ndarray  # uint8
    ends: np.ndarray  # (V + 1,) int64, the first of them 0


class ScientificDecimals(NamedTuple):
    """Numbers as ±d.dddddddd · 10^power."""

    minus: np.ndarray  # bool
    digits: np.ndarray  # int64, all nine of them; 0 of the number 0
    powers: np.ndarray  # int64


def word_bytes(words: list[str]) -> WordBytes:
    pool = [word.encode() for word in words]
    ends = np.concatenate(([0], np.cumsum([len(word) for word in pool])))
    return WordBytes(np.frombuffer(b"".join(pool) + b"\0", np.uint8), ends.astype(np.int64))


def format_ngram_lines(names: WordBytes, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> memoryview:
    """Format n-grams (size, n) with finite log-probabilities, and with back-off weights if given."""
    lengths = np.diff(names.ends)
    room = int(sum(lengths[column].sum() for column in rows.T)) + len(rows) * (rows.shape[1] + 2 * MAX_NUMBER_BYTES)
    text, first = np.empty(room, np.uint8), decimals(logs)
    run = compile_kernel(format_lines_kernel, bare=True)
    used = run(text, names, rows, first, first if backoffs is None else decimals(backoffs), backoffs is not None)
    return text[:used].data


def decimals(values: np.ndarray) -> ScientificDecimals:
    """The nine significant digits of each value, rounded as Python does."""
    sizes = np.abs(values)
    with np.errstate(divide="ignore"):
        guess = np.floor(np.log10(sizes))
    near = (guess > DIGITS - 1 - len(ARPA_WRITING_TENS)) & (guess < DIGITS)
    powers = np.where(near, guess, 0).astype(np.int64)
    scaled = sizes * ARPA_WRITING_TENS[DIGITS - 1 - powers]
    digits = np.rint(scaled)
    up, down = digits >= 10**DIGITS, scaled < 10 ** (DIGITS - 1)  # the logarithm, or rounding, came to the next power
    doubt = np.abs(scaled - np.floor(scaled) - 0.5) < ROUNDING_DOUBT
    result = ScientificDecimals(np.signbit(values), np.where(near & (sizes > 0), digits, 0).astype(np.int64), powers)
    for row in np.flatnonzero((doubt | up | down | ~near) & (sizes > 0)).tolist():
        text, power = f"{sizes[row]:.{DIGITS - 1}e}".split("e")
        result.digits[row], result.powers[row] = int(text.replace(".", "")), int(power)
    return result


@inline_kernel
def _write_digit(text, at, digit):
    text[at] = ZERO + digit
    return at + 1


@inline_kernel
def _write_number(text, at, minus, digits, power):
    """Write a number as %.9g does; returns the offset of its end."""
    if minus:
        text[at] = MINUS
        at += 1
    if digits == 0:
        return _write_digit(text, at, 0)
    count = DIGITS  # without trailing zeros
    while digits % 10 == 0:
        digits //= 10
        count -= 1
    fixed_point = SMALLEST <= power < DIGITS
    whole = power + 1 if fixed_point else 1  # digits before the point
    if whole <= 0:
        text[at], text[at + 1] = ZERO, POINT
        at += 2
        for _ in range(-whole):
            at = _write_digit(text, at, 0)
    gap = 1 if 0 < whole < count else 0  # the point among the digits
    for digit_index in range(count - 1, -1, -1):
        text[at + digit_index + (gap if digit_index >= whole else 0)] = ZERO + digits % 10
        digits //= 10
    if gap:
        text[at + whole] = POINT
    at += count + gap
    for _ in range(whole - count):
        at = _write_digit(text, at, 0)
    if not fixed_point:
        text[at], text[at + 1] = SMALL_E, MINUS if power < 0 else PLUS
        at, power = at + 2, abs(power)
        if power >= 100:
            at = _write_digit(text, at, power // 100)
        at = _write_digit(text, at, power // 10 % 10)
        at = _write_digit(text, at, power % 10)
    return at


def format_lines_kernel(text, names, rows, logs, backoffs, weighted):
    at = np.int64(0)
    for row in range(len(rows)):
        at = _write_number(text, at, logs.minus[row], logs.digits[row], logs.powers[row])
        for column in range(rows.shape[1]):
            text[at] = SPACE if column else TAB
            at += 1
            word = rows[row, column]
            for letter in range(names.ends[word], names.ends[word + 1]):
                text[at] = names.pool[letter]
                at += 1
        if weighted:
            text[at] = TAB
            at = _write_number(text, at + 1, backoffs.minus[row], backoffs.digits[row], backoffs.powers[row])
        text[at] = END
        at += 1
    return at


# --- Checking that every n-gram occurs once and that its prefix exists ---
# Hash tables of row numbers instead of sorted keys. The readable twin is `checked` in interop/arpa.py.

ROW_HASH_SEED, ROW_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # random-looking bits
LOW_BITS, NO_ROW = np.uint64((1 << 32) - 1), -1
ROW_MASK = (1 << 40) - 1  # the bits of a slot that hold a row's number; the bits above it are of the row's hash
HASH_MASK = ~ROW_MASK & ((1 << 63) - 1)
ROWS_AHEAD = 32  # rows whose slots are fetched together


def check_ngram_prefixes(known: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> tuple[int, int]:
    """Check that the first n - 1 words of each n-gram (size, n) are an n-gram, and that no n-gram occurs twice.

    Args:
        known: State between calls with rising n: the (n-1)-grams and their hash table.
        rows: The n-grams.

    Returns:
        The first n-gram without its prefix and the first duplicate, -1 if there is none.
    """
    work = np.empty(ROWS_AHEAD, np.uint64), np.empty(ROWS_AHEAD, np.int64)
    orphan = int(compile_kernel(find_orphan_kernel, bare=True)(*known[0], rows, work)) if known else -1
    known.clear()  # before the next table is made, so that there is only one at a time
    if orphan >= 0:
        return orphan, -1
    slots = np.full(len(rows) * 4 // 3 + 1, NO_ROW, np.int64)
    known.append((rows, slots))
    return -1, int(compile_kernel(insert_rows_kernel, bare=True)(rows, slots, work))


@inline_kernel
def _hash_row(rows, row, width):
    value = ROW_HASH_SEED
    for column in range(width):
        value = (value ^ np.uint64(rows[row, column])) * ROW_HASH_FACTOR
        value ^= value >> HALF
    return value


@inline_kernel
def _first_slot(slots, value):
    """The first slot to probe: evenly distributed over any number of slots, not only powers of two."""
    return np.int64(((value & LOW_BITS) * np.uint64(len(slots))) >> HALF)


@inline_kernel
def _find_row_slot(rows, slots, queries, row, width, value):
    """The slot of the row with these words, or a free slot."""
    slot = _first_slot(slots, value)
    while slots[slot] != NO_ROW:
        if slots[slot] & HASH_MASK == np.int64(value) & HASH_MASK:
            other, same = slots[slot] & ROW_MASK, 0
            while same < width and rows[other, same] == queries[row, same]:
                same += 1
            if same == width:
                break
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return slot


@inline_kernel
def _prefetch_slots(slots, rows, begin, end, width, work):
    """Hash a few rows and load their slots together, which takes hardly longer than loading one."""
    hashes, near = work
    for row in range(begin, end):
        hashes[row - begin] = _hash_row(rows, row, width)
        near[row - begin] = slots[_first_slot(slots, hashes[row - begin])]


def find_orphan_kernel(shorter, slots, rows, work):
    width = shorter.shape[1]
    for begin in range(0, len(rows), ROWS_AHEAD):
        end = min(begin + ROWS_AHEAD, len(rows))
        _prefetch_slots(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            if slots[_find_row_slot(shorter, slots, rows, row, width, work[0][row - begin])] == NO_ROW:
                return row
    return -1


def insert_rows_kernel(rows, slots, work):
    width = rows.shape[1]
    for begin in range(0, len(rows), ROWS_AHEAD):
        end = min(begin + ROWS_AHEAD, len(rows))
        _prefetch_slots(slots, rows, begin, end, width, work)
        for row in range(begin, end):
            value = work[0][row - begin]
            slot = _find_row_slot(rows, slots, rows, row, width, value)
            if slots[slot] != NO_ROW:
                return row
            slots[slot] = (np.int64(value) & HASH_MASK) | row
    return -1
