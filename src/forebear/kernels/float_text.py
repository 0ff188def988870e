"""Lines of a word and its numbers as rows: each character looked at once, instead of a Python object a number.

The readable twin is `parsed` in interop/word_vectors_text.py, and gives the same to the bit.
"""

from __future__ import annotations

import numpy as np

from forebear.kernels.jit import compile_kernel

TENS = np.array([float(f"1e{power}") for power in range(61)])
POWERS = 22  # up to here float64 holds them exactly
EXACT = 1 << 53  # up to here, so does it whole numbers
ENOUGH = 10**17  # digits beyond are not looked at
DOUBT = 1e-15  # how far from the truth a number of so many digits may be, as a share of it
SPACE, END, POINT, PLUS, MINUS, ZERO, SMALL_E = (ord(letter) for letter in " \n.+-0e")


def parse_decimals(block: bytes, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows (n, width) of whole lines, and where each word ends; -1 for a line that wants a closer look."""
    text = np.frombuffer(block, np.uint8)
    rows = np.empty((np.count_nonzero(text == END), width), np.float32)
    return rows, compile_kernel(parsed_in_loops)(text, rows, TENS)


def parsed_in_loops(text: np.ndarray, rows: np.ndarray, tens: np.ndarray) -> np.ndarray:
    """Fills the rows of lines that are a word, D spaces and D numbers; tells where their words end, and -1 of others.

    A whole number below 2⁵³ times or by an exact power of ten is rounded once, as Python's float is. Others may be a
    little off: where that could change the float32, and for powers beyond all that it has, the line is left to Python.
    """
    ends = np.full(len(rows), -1, np.int64)
    at = 0
    for row in range(len(rows)):
        begin = at
        while text[at] != SPACE and text[at] != END:
            at += 1
        end, plain, column = at, at > begin, 0
        while plain and column < rows.shape[1] and text[at] == SPACE:
            at += 1
            sign = -1.0 if text[at] == MINUS else 1.0
            at += 1 if text[at] == MINUS or text[at] == PLUS else 0
            whole, digits, power, point = 0, 0, 0, False
            while True:
                digit = np.int64(text[at]) - ZERO
                if 0 <= digit <= 9:
                    digits += 1
                    kept = whole < ENOUGH
                    whole = whole * 10 + digit if kept else whole
                    power += int(not kept) - int(point)
                elif text[at] == POINT and not point:
                    point = True
                else:
                    break
                at += 1
            if digits and (text[at] | 32) == SMALL_E:
                at += 1
                down = text[at] == MINUS
                at += 1 if down or text[at] == PLUS else 0
                digits, told = 0, 0  # of the power
                while 0 <= np.int64(text[at]) - ZERO <= 9:
                    told = min(told * 10 + np.int64(text[at]) - ZERO, 9999)
                    digits += 1
                    at += 1
                power += -told if down else told
            plain = digits > 0 and abs(power) < len(tens)
            if plain:
                value = sign * (whole * tens[power] if power >= 0 else whole / tens[-power])
                rows[row, column] = value
                if whole >= EXACT or abs(power) > POWERS:
                    plain = np.float32(value * (1 - DOUBT)) == np.float32(value * (1 + DOUBT))
                column += 1
        if plain and column == rows.shape[1] and text[at] == END:
            ends[row] = end
        while text[at] != END:
            at += 1
        at += 1
    return ends
