"""Parsing lines of a word-vector file (a word and its numbers) into float32 rows.

The readable twin is `parsed` in interop/word_vectors_text.py and gives the same bits.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel

TENS = np.array([float(f"1e{power}") for power in range(61)])
EXACT_POWERS = 22  # up to here float64 holds them exactly
EXACT_INTEGERS = 1 << 53  # up to here, so does it whole numbers
MAX_MANTISSA = 10**17  # digits beyond are not looked at
RELATIVE_ERROR = 1e-15  # how far from the truth a number of so many digits may be, as a share of it
SPACE, END, POINT, PLUS, MINUS, ZERO, SMALL_E = (ord(letter) for letter in " \n.+-0e")


def parse_decimals(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows (n, width) of complete lines, and the offset where each word ends (-1: a line left to Python)."""
    text = np.frombuffer(block, np.uint8)
    rows = np.empty((np.count_nonzero(text == END), width), np.float32)
    return rows, compile_kernel(parse_decimals_kernel)(text, rows, TENS)


def parse_decimals_kernel(text: np.ndarray, rows: np.ndarray, tens: np.ndarray) -> np.ndarray:
    """Fill the rows of lines that consist of a word, D spaces and D numbers; returns the word ends, -1 for other lines.

    An integer below 2⁵³ times or divided by an exact power of ten is rounded once, as in Python's float. Other numbers
    may be slightly off: where that could change the float32, and for powers outside the table, the line is left to
    Python.
    """
    ends = np.full(len(rows), -1, np.int64)
    at = 0
    for row in range(len(rows)):
        begin = at
        while text[at] != SPACE and text[at] != END:
            at += 1
        end, is_valid, column = at, at > begin, 0
        while is_valid and column < rows.shape[1] and text[at] == SPACE:
            at += 1
            sign = -1.0 if text[at] == MINUS else 1.0
            at += 1 if text[at] == MINUS or text[at] == PLUS else 0
            whole, digits, power, point = 0, 0, 0, False
            while True:
                digit = np.int64(text[at]) - ZERO
                if 0 <= digit <= 9:
                    digits += 1
                    has_room = whole < MAX_MANTISSA
                    whole = whole * 10 + digit if has_room else whole
                    power += int(not has_room) - int(point)
                elif text[at] == POINT and not point:
                    point = True
                else:
                    break
                at += 1
            if digits and (text[at] | 32) == SMALL_E:
                at += 1
                down = text[at] == MINUS
                at += 1 if down or text[at] == PLUS else 0
                digits, exponent = 0, 0  # of the power
                while 0 <= np.int64(text[at]) - ZERO <= 9:
                    exponent = min(exponent * 10 + np.int64(text[at]) - ZERO, 9999)
                    digits += 1
                    at += 1
                power += -exponent if down else exponent
            is_valid = digits > 0 and abs(power) < len(tens)
            if is_valid:
                value = sign * (whole * tens[power] if power >= 0 else whole / tens[-power])
                rows[row, column] = value
                if whole >= EXACT_INTEGERS or abs(power) > EXACT_POWERS:
                    is_valid = np.float32(value * (1 - RELATIVE_ERROR)) == np.float32(value * (1 + RELATIVE_ERROR))
                column += 1
        if is_valid and column == rows.shape[1] and text[at] == END:
            ends[row] = end
        while text[at] != END:
            at += 1
        at += 1
    return ends
