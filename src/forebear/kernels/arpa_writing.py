"""N-grams as lines of an ARPA file: numbers of nine digits and words laid into one buffer, no Python object a line.

The readable twin is `lines_of` in interop/arpa.py, and gives the same bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.compiling import compiled, inlined

DIGITS, SMALLEST = 9, -4  # as %.9g: so many digits, and powers of ten below or beyond are written as such
TENS = np.array([float(f"1e{power}") for power in range(23)])  # all that float64 holds exactly
DOUBT = 1e-6  # how near to the middle between two decimals a number is left to Python: far more than rounding is off
LONGEST = 24  # bytes of a number, with what stands around it
SPACE, TAB, END, POINT, MINUS, ZERO, SMALL_E = (ord(letter) for letter in " \t\n.-0e")


class Names(NamedTuple):
    """The words by their number: their bytes, and where each ends."""

    pool: np.ndarray  # uint8
    ends: np.ndarray  # (V + 1,) int64, the first of them 0


class Decimals(NamedTuple):
    """Numbers as ±d.dddddddd · 10^power."""

    minus: np.ndarray  # bool
    digits: np.ndarray  # int64, all nine of them; 0 of the number 0
    powers: np.ndarray  # int64


def names_of(words: list[str]) -> Names:
    pool = [word.encode() for word in words]
    ends = np.concatenate(([0], np.cumsum([len(word) for word in pool])))
    return Names(np.frombuffer(b"".join(pool) + b"\0", np.uint8), ends.astype(np.int64))


def lines(names: Names, rows: np.ndarray, logs: np.ndarray, backoffs: np.ndarray | None) -> memoryview:
    """The lines of n-grams (size, n): finite numbers, words in a row, and weights where they are given."""
    lengths = np.diff(names.ends)
    room = int(sum(lengths[column].sum() for column in rows.T)) + len(rows) * (rows.shape[1] + 2 * LONGEST)
    text, first = np.empty(room, np.uint8), decimals(logs)
    run = compiled(lines_in_loops, bare=True)
    used = run(text, names, rows, first, first if backoffs is None else decimals(backoffs), backoffs is not None)
    return text[:used].data


def decimals(values: np.ndarray) -> Decimals:
    """The nine digits of each, as Python rounds them."""
    sizes = np.abs(values)
    with np.errstate(divide="ignore"):
        guess = np.floor(np.log10(sizes))
    near = (guess > DIGITS - 1 - len(TENS)) & (guess < DIGITS)
    powers = np.where(near, guess, 0).astype(np.int64)
    scaled = sizes * TENS[DIGITS - 1 - powers]
    digits = np.rint(scaled)
    up, down = digits >= 10**DIGITS, scaled < 10 ** (DIGITS - 1)  # the logarithm, or rounding, came to the next power
    doubt = np.abs(scaled - np.floor(scaled) - 0.5) < DOUBT
    told = Decimals(np.signbit(values), np.where(near & (sizes > 0), digits, 0).astype(np.int64), powers)
    for row in np.flatnonzero((doubt | up | down | ~near) & (sizes > 0)).tolist():
        text, power = f"{sizes[row]:.{DIGITS - 1}e}".split("e")
        told.digits[row], told.powers[row] = int(text.replace(".", "")), int(power)
    return told


@inlined
def digit_written(text, at, number):
    text[at] = ZERO + number
    return at + 1


@inlined
def number_written(text, at, minus, digits, power):
    """Writes a number as %.9g does; where it ends."""
    if minus:
        text[at] = MINUS
        at += 1
    if digits == 0:
        return digit_written(text, at, 0)
    count = DIGITS  # of digits that are told: no zeros behind the point
    while digits % 10 == 0:
        digits //= 10
        count -= 1
    plain = SMALLEST <= power < DIGITS
    whole = power + 1 if plain else 1  # digits before the point
    if whole <= 0:
        text[at], text[at + 1] = ZERO, POINT
        at += 2
        for _ in range(-whole):
            at = digit_written(text, at, 0)
    gap = 1 if 0 < whole < count else 0  # the point among the digits
    for place in range(count - 1, -1, -1):
        text[at + place + (gap if place >= whole else 0)] = ZERO + digits % 10
        digits //= 10
    if gap:
        text[at + whole] = POINT
    at += count + gap
    for _ in range(whole - count):
        at = digit_written(text, at, 0)
    if not plain:
        text[at], text[at + 1] = SMALL_E, MINUS if power < 0 else MINUS - 2  # the plus sign
        at, power = at + 2, abs(power)
        if power >= 100:
            at = digit_written(text, at, power // 100)
        at = digit_written(text, at, power // 10 % 10)
        at = digit_written(text, at, power % 10)
    return at


def lines_in_loops(text, names, rows, logs, backoffs, weighted):
    at = np.int64(0)
    for row in range(len(rows)):
        at = number_written(text, at, logs.minus[row], logs.digits[row], logs.powers[row])
        for column in range(rows.shape[1]):
            text[at] = SPACE if column else TAB
            at += 1
            word = rows[row, column]
            for letter in range(names.ends[word], names.ends[word + 1]):
                text[at] = names.pool[letter]
                at += 1
        if weighted:
            text[at] = TAB
            at = number_written(text, at + 1, backoffs.minus[row], backoffs.digits[row], backoffs.powers[row])
        text[at] = END
        at += 1
    return at
