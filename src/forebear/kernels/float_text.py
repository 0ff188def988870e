"""Parsing lines of a word-vector file (a word and its numbers) into float32 rows.

The reference implementation is `parsed` in interop/word_vectors_text.py and gives the same bits.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel, inline_kernel

POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(61)])
MAX_EXACT_POWER = 22  # up to here float64 holds them exactly
MAX_EXACT_INTEGER = 1 << 53  # up to here, so does it whole numbers
MAX_MANTISSA = 10**17  # digits beyond are not looked at
RELATIVE_ERROR = 1e-15  # how far from the truth a number of so many digits may be, as a share of it
SPACE, NEWLINE, DOT, PLUS, MINUS, ZERO, SMALL_E = (ord(letter) for letter in " \n.+-0e")


def parse_decimals(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows (n, width) of complete lines, and the offset where each word ends (-1: a line left to Python)."""
    text = np.frombuffer(block, np.uint8)
    rows = np.empty((np.count_nonzero(text == NEWLINE), width), np.float32)
    return rows, compile_kernel(parse_decimals_kernel)(text, rows, POWERS_OF_TEN)


def parse_decimals_kernel(text: np.ndarray, rows: np.ndarray, powers_of_ten: np.ndarray) -> np.ndarray:
    """Fill the rows of lines that consist of a word, D spaces and D numbers; returns the word ends, -1 for other lines.

    An integer below 2⁵³ times or divided by an exact power of ten is rounded once, as in Python's float. Other numbers
    may be slightly off: where that could change the float32, and for powers outside the table, the line is left to
    Python.
    """
    ends = np.full(len(rows), -1, np.int64)
    offset = 0
    for row in range(len(rows)):
        line_start = offset
        while text[offset] != SPACE and text[offset] != NEWLINE:
            offset += 1
        word_end, is_valid, column = offset, offset > line_start, 0
        while is_valid and column < rows.shape[1] and text[offset] == SPACE:
            value, offset, is_valid, is_exact = parse_number(text, offset + 1, powers_of_ten)
            rows[row, column] = value
            if is_valid and not is_exact:
                is_valid = np.float32(value * (1 - RELATIVE_ERROR)) == np.float32(value * (1 + RELATIVE_ERROR))
            column += 1
        if is_valid and column == rows.shape[1] and text[offset] == NEWLINE:
            ends[row] = word_end
        while text[offset] != NEWLINE:
            offset += 1
        offset += 1
    return ends


@inline_kernel
def parse_number(text, offset, powers_of_ten):
    """The number at an offset, the offset of its end, whether it has the usual form, and whether it is rounded once."""
    is_negative = text[offset] == MINUS
    offset += 1 if is_negative or text[offset] == PLUS else 0
    mantissa, num_digits, power, has_point = np.int64(0), 0, 0, 0
    while True:
        digit = np.int64(text[offset]) - ZERO
        if 0 <= digit <= 9:
            num_digits += 1
            if mantissa < MAX_MANTISSA:
                mantissa = mantissa * 10 + digit
                power -= has_point
            else:
                power += 1 - has_point
        elif text[offset] == DOT and has_point == 0:
            has_point = 1
        else:
            break
        offset += 1
    if num_digits > 0 and (text[offset] | 32) == SMALL_E:
        offset += 1
        is_negative_exponent = text[offset] == MINUS
        offset += 1 if is_negative_exponent or text[offset] == PLUS else 0
        num_digits, exponent = 0, 0  # of the power
        while 0 <= np.int64(text[offset]) - ZERO <= 9:
            exponent = min(exponent * 10 + np.int64(text[offset]) - ZERO, 9999)
            num_digits += 1
            offset += 1
        power += -exponent if is_negative_exponent else exponent
    if num_digits == 0 or abs(power) >= len(powers_of_ten):
        return 0.0, offset, False, False
    value = mantissa * powers_of_ten[power] if power >= 0 else mantissa / powers_of_ten[-power]
    is_exact = mantissa < MAX_EXACT_INTEGER and abs(power) <= MAX_EXACT_POWER
    return -value if is_negative else value, offset, True, is_exact
