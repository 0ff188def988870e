"""The distinct stretches of a text, numbered as they turn up: one compiled loop over its characters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.jit import compile_kernel

CLASS_RUN, CLASS_GAP, CLASS_SINGLE = (
    -1,
    -2,
    -3,
)  # what a character is: part of a stretch, between stretches, or a stretch of its own
FIRST_ROOM = 1 << 14  # stretches
LONG = 8  # characters of a stretch for which there is room at first
SEED, FACTOR = np.uint64(0x51_7C_C1_B7_27_22_0A_95), np.uint64(0x9E37_79B9_7F4A_7C15)
ONE, HALF = np.uint64(1), np.uint64(32)


class PretokenTable(NamedTuple):
    """Stretches by number, and a table of slots by which they are found: linear probing from where the hash points."""

    slots: np.ndarray  # (a power of two, 2) uint64: the hash of a stretch, and its number + 1; 0: none
    ends: np.ndarray  # (room + 1,) int64, where the characters of each stretch end
    codes: np.ndarray  # uint32, their characters; or uint8, their bytes, for who looks at bytes
    many: np.ndarray  # (1,) int64


def empty_pretoken_table(
    room: int = FIRST_ROOM, characters: int = FIRST_ROOM * LONG, kind: Any = np.uint32
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
    compile_kernel(moved_in_loops)(numbers.slots, larger.slots)
    return larger


def moved_in_loops(slots, larger):
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
    loop, at, many = compile_kernel(numbered_in_loops), 0, 0
    while True:
        at, many = loop(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many)
        if at == len(codes):
            return numbers, begins[:many].copy(), found[:many].copy()
        numbers = grow_pretoken_table(numbers, len(codes) - at)


def numbered_in_loops(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many):
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
            hashed = (SEED ^ np.uint64(codes[here])) * FACTOR
            while cut < len(cuts) and np.uint64(cuts[cut]) <= here:
                cut += 1
            limit = size if kind == CLASS_RUN else stop  # where it ends at the latest
            limit = min(limit, np.uint64(gaps[gap])) if gap < len(gaps) else limit
            limit = min(limit, np.uint64(cuts[cut])) if cut < len(cuts) else limit
            while stop < limit:
                code = codes[stop]
                if kinds[code] != CLASS_RUN or (everywhere and places[stop]):
                    break
                hashed = (hashed ^ np.uint64(code)) * FACTOR
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
