"""The distinct stretches of a text, numbered as they turn up: one compiled loop over its characters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from forebear.kernels.compiling import compiled

RUN, GAP, ALONE = -1, -2, -3  # what a character is: part of a stretch, between stretches, or a stretch of its own
FIRST_ROOM = 1 << 14  # stretches
LONG = 8  # characters of a stretch for which there is room at first
SEED, FACTOR = 0x51_7C_C1_B7_27_22_0A_95, 0x9E37_79B9_7F4A_7C15


class Numbers(NamedTuple):
    """Stretches by number, and a table of slots by which they are found: linear probing from where the hash points."""

    slots: np.ndarray  # (a power of two,) int32, the number of a stretch + 1; 0: none
    hashes: np.ndarray  # (room,) uint64
    ends: np.ndarray  # (room + 1,) int64, where the characters of each stretch end
    codes: np.ndarray  # uint32, their characters
    many: np.ndarray  # (1,) int64


def no_numbers(room: int = FIRST_ROOM, characters: int = FIRST_ROOM * LONG) -> Numbers:
    """A table without stretches, and room for some."""
    slots, many = np.zeros(4 * room, np.int32), np.zeros(1, np.int64)
    return Numbers(
        slots, np.zeros(room, np.uint64), np.zeros(room + 1, np.int64), np.zeros(characters, np.uint32), many
    )


def grown(numbers: Numbers, characters: int) -> Numbers:
    """The same stretches with room for twice as many, and for so many more characters at least."""
    many = int(numbers.many[0])
    used = int(numbers.ends[many])
    larger = no_numbers(2 * len(numbers.hashes), max(2 * len(numbers.codes), used + characters))
    larger.hashes[:many] = numbers.hashes[:many]
    larger.ends[: many + 1] = numbers.ends[: many + 1]
    larger.codes[:used] = numbers.codes[:used]
    larger.many[0] = many
    compiled(filled_in_loops)(larger.slots, larger.hashes, many)
    return larger


def filled_in_loops(slots, hashes, many):
    for number in range(many):
        at = np.int64(hashes[number] & np.uint64(len(slots) - 1))
        while slots[at]:
            at = at + 1 if at + 1 < len(slots) else 0
        slots[at] = number + 1


def numbered(
    numbers: Numbers, codes: np.ndarray, kinds: np.ndarray, gaps: np.ndarray, cuts: np.ndarray, places: np.ndarray
) -> tuple[Numbers, np.ndarray, np.ndarray]:
    """Where each stretch of a text begins, and its number; new ones are entered.

    codes   (n,) uint32, the characters; the last of them is a gap
    kinds   (0x110000,) int32, RUN, GAP or ALONE by character; for one that stands alone its number, once it has one,
            which is written here
    gaps    rising places that are gaps whatever stands there
    cuts    rising places before which a stretch ends
    places  (n,) bool, the same; empty: nowhere
    """
    begins, found = np.empty(len(codes), np.int64), np.empty(len(codes), np.int32)
    loop, at, many = compiled(numbered_in_loops), 0, 0
    while True:
        at, many = loop(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many)
        if at == len(codes):
            return numbers, begins[:many].copy(), found[:many].copy()
        numbers = grown(numbers, len(codes) - at)


def numbered_in_loops(codes, kinds, gaps, cuts, places, numbers, begins, found, at, many):
    """Up to the end, or to where there is no more room: the place to go on from, and how many stretches there were."""
    slots, hashes, ends, here = numbers.slots, numbers.hashes, numbers.ends, at
    gap, cut = np.searchsorted(gaps, at), np.searchsorted(cuts, at)
    while here < len(codes):
        kind = kinds[codes[here]]
        if gap < len(gaps) and gaps[gap] == here:
            gap, kind = gap + 1, np.int32(GAP)
        if kind == GAP:
            here += 1
            continue
        stop, number = here + 1, np.int64(kind)
        if kind < 0:
            hashed = (np.uint64(SEED) ^ np.uint64(codes[here])) * np.uint64(FACTOR)
            while cut < len(cuts) and cuts[cut] <= here:
                cut += 1
            limit = len(codes) if kind == RUN else stop  # where it ends at the latest
            limit = min(limit, gaps[gap]) if gap < len(gaps) else limit
            limit = min(limit, cuts[cut]) if cut < len(cuts) else limit
            while stop < limit and kinds[codes[stop]] == RUN:
                if len(places) and places[stop]:
                    break
                hashed = (hashed ^ np.uint64(codes[stop])) * np.uint64(FACTOR)
                stop += 1
            hashed ^= hashed >> np.uint64(32)  # the lowest bits of a product know little of its highest
            slot, number = np.int64(hashed & np.uint64(len(slots) - 1)), np.int64(-1)
            while slots[slot] and number < 0:
                other = np.int64(slots[slot] - 1)
                same = hashes[other] == hashed and ends[other + 1] - ends[other] == stop - here
                for place in range(stop - here if same else 0):
                    same = same and numbers.codes[ends[other] + place] == codes[here + place]
                if same:
                    number = other
                else:
                    slot = slot + 1 if slot + 1 < len(slots) else 0
            if number < 0:
                number = numbers.many[0]
                if number == len(hashes) or ends[number] + stop - here > len(numbers.codes):
                    return here, many
                numbers.codes[ends[number] : ends[number] + stop - here] = codes[here:stop]
                slots[slot], hashes[number], ends[number + 1] = number + 1, hashed, ends[number] + stop - here
                numbers.many[0] = number + 1
            if kind == ALONE:
                kinds[codes[here]] = number
        begins[many], found[many] = here, number
        here, many = stop, many + 1
    return len(codes), many
