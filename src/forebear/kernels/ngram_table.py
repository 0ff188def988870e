"""N-grams in a table that is asked by hash, and texts scored by it: compiled loops.

The readable twin is `statistics.backoff`, which looks n-grams up by halving. Here the n-gram of a text that ends at a
token is known by 64 bits, made of those of the one that ends a token earlier: so where all of a token's n-grams would
stand is known a dozen tokens before they are looked at, and memory is asked for them then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from forebear.kernels.compiling import inlined
from forebear.kernels.memory import as_float, wanted

FIRST, SECOND = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFF_FFFF)
SPARE = 512  # slots behind all others, for n-grams whose own are taken
AHEAD, RING = 12, 16  # tokens that are looked ahead, and a power of two above that
LONGEST = 16  # tokens of an n-gram, and more than any has


def _asked_of_memory(typing: Any, array: Any, number: Any) -> Any:
    """Asks memory for what stands at this number of an array, without waiting for it."""

    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, given[0])
        byte = ir.IntType(8).as_pointer()
        place, small = builder.bitcast(builder.gep(where.data, [given[1]]), byte), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, small, small, small])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(ask, [place, small(0), small(3), small(1)])
        return context.get_dummy_value()

    return types.void(array, number), told


def _taken_as_float(typing: Any, bits: Any) -> Any:
    def told(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.FloatType())

    return types.float32(types.uint32), told


_wanted: Any = intrinsic(_asked_of_memory)
_as_float: Any = intrinsic(_taken_as_float)


@inlined
def _joined(before, token):
    """The 64 bits of an n-gram, from those of all its tokens but the last."""
    hashed = (before ^ (np.uint64(token) + np.uint64(1)) * SECOND) * FIRST
    hashed ^= hashed >> np.uint64(31)
    return hashed if hashed else np.uint64(1)


@inlined
def _home(hashed, slots):
    """Where the search for it begins among so many slots: the larger a hash, the farther on; never among the spare."""
    return np.int64(((hashed >> HALF) * np.uint64(slots - SPARE)) >> HALF)


def of_tokens_in_loops(tokens, salt):
    made = np.empty(len(tokens), np.uint64)
    for number in range(len(tokens)):
        made[number] = _joined(salt, tokens[number])
    return made


def of_level_in_loops(before, continuations, words):
    """The 64 bits of each n-gram, from those of the n-grams that are one shorter."""
    made, at = np.empty(len(words), np.uint64), 0
    for context in range(len(continuations)):
        for number in range(at, at + continuations[context]):
            made[number] = _joined(before[context], words[number])
        at += continuations[context]
    return made


def filled_in_loops(slots, hashes, logs, backoffs):
    """Enters n-grams into slots [hash, log | back-off], in the order of their hashes: who comes later moves the larger.

    How far from home any of them stands; -1: two are alike, or there is no room.
    """
    size, longest = len(slots), 0
    flat = slots.reshape(-1)
    for number in range(len(hashes)):
        if number + AHEAD < len(hashes):
            _wanted(flat, 2 * _home(hashes[number + AHEAD], size))
        hashed, rest = hashes[number], np.uint64(logs[number]) | np.uint64(backoffs[number]) << HALF
        slot = _home(hashed, size)
        while slots[slot, 0]:
            if slots[slot, 0] == hashed:
                return -1
            if slots[slot, 0] > hashed:
                slots[slot, 0], hashed = hashed, slots[slot, 0]
                slots[slot, 1], rest = rest, slots[slot, 1]
                longest = max(longest, slot - _home(slots[slot, 0], size))
            slot += 1
            if slot == size:
                return -1
        slots[slot, 0], slots[slot, 1] = hashed, rest
        longest = max(longest, slot - _home(hashed, size))
    return longest


def filled_with_longest_in_loops(slots, hashes, logs):
    """The same with slots [hash's low half, high half, log], of n-grams that nothing continues."""
    size, longest = len(slots), 0
    flat = slots.reshape(-1)
    for number in range(len(hashes)):
        if number + AHEAD < len(hashes):
            _wanted(flat, 3 * _home(hashes[number + AHEAD], size))
        hashed, rest = hashes[number], logs[number]
        slot = _home(hashed, size)
        while True:
            other = np.uint64(slots[slot, 0]) | np.uint64(slots[slot, 1]) << HALF
            if other == 0:
                break
            if other == hashed:
                return -1
            if other > hashed:
                slots[slot, 0], slots[slot, 1] = np.uint32(hashed & LOW), np.uint32(hashed >> HALF)
                slots[slot, 2], rest = rest, slots[slot, 2]
                longest = max(longest, slot - _home(hashed, size))
                hashed = other
            slot += 1
            if slot == size:
                return -1
        slots[slot, 0], slots[slot, 1], slots[slot, 2] = np.uint32(hashed & LOW), np.uint32(hashed >> HALF), rest
        longest = max(longest, slot - _home(hashed, size))
    return longest


@inlined
def _found(slots, begin, size, hashed, most):
    """The slot of an n-gram among so many from `begin` on; -1: there is none."""
    slot = begin + _home(hashed, size)
    last = min(slot + most + 1, begin + size)
    while slot < last:
        other = slots[2 * slot]
        if other >= hashed or other == 0:  # they rise, so whoever is not there is missed soon
            return slot if other == hashed else np.int64(-1)
        slot += 1
    return np.int64(-1)


@inlined
def _found_longest(slots, hashed, most):
    slot, size = _home(hashed, len(slots) // 3), len(slots) // 3
    last = min(slot + most + 1, size)
    while slot < last:
        other = np.uint64(slots[3 * slot]) | np.uint64(slots[3 * slot + 1]) << HALF
        if other >= hashed or other == 0:
            return slot if other == hashed else np.int64(-1)
        slot += 1
    return np.int64(-1)


@inlined
def _hashed(place, reach, token, end, order, salt, hashes, middle, begins, longest):
    """The hashes of all n-grams that end at a token, from those of the token before; memory is asked for them.

    hashes  (RING, LONGEST) by place: [is it an end, of one token, of two, …], and 0 where a row has none so long
    """
    mine, before = place & (RING - 1), (place - 1) & (RING - 1)
    hashes[mine, 0] = np.uint64(token == end)
    hashes[mine, 1] = _joined(salt, token)
    for n in range(2, order + 1):
        shorter = hashes[before, n - 1]
        if n > reach or shorter == 0:
            hashes[mine, n] = 0
            continue
        hashed = _joined(shorter, token)
        hashes[mine, n] = hashed
        if n < order:
            _wanted(middle, 2 * (begins[n] + _home(hashed, begins[n + 1] - begins[n])))
        else:
            _wanted(longest, 3 * _home(hashed, len(longest) // 3))


def scored_in_loops(
    tokens, lengths, end, order, salt, single, middle, begins, longest, far, even, hashes, weights, told, matches
):
    """log P of each token of rows that stand one after the other, after those before it in its row.

    The first token of a row is only seen; what stands before an end is not looked at behind it.

    middle   (2 · slots,), and begins (order + 1,): where the slots of n-grams of n tokens begin in it
    longest  (3 · slots,)
    far      (order + 1,) how far from home n-grams of n tokens stand
    even     (V,) or none: a token that a context lacks falls back to it instead of to the shorter context
    hashes   and weights, (2, LONGEST) float64: room to compute in
    told     (tokens,) to be filled; and `matches`, or none: tokens of the longest n-gram that is there and ends at each
    """
    ahead, ahead_row, ahead_left, place = 0, -1, 0, 0
    for row in range(len(lengths)):
        known = 0
        weights[0, :] = 0.0
        for _ in range(lengths[row]):
            while ahead < len(tokens) and ahead <= place + AHEAD:
                reach = 1 if ahead_left == 0 else 2 if hashes[(ahead - 1) & (RING - 1), 0] else order
                while ahead_left == 0:
                    ahead_row += 1
                    ahead_left = lengths[ahead_row]
                _hashed(ahead, reach, tokens[ahead], end, order, salt, hashes, middle, begins, longest)
                ahead_left, ahead = ahead_left - 1, ahead + 1
            token, mine = tokens[place], place & (RING - 1)
            log, matched, weights[1, 1] = np.float64(single[token, 0]), 1, single[token, 1]
            for n in range(2, min(order, known + 1) + 1):
                hashed = hashes[mine, n]
                if hashed == 0:
                    break
                if n < order:
                    slot = _found(middle, begins[n], begins[n + 1] - begins[n], hashed, far[n])
                    if slot < 0:
                        break
                    bits = middle[2 * slot + 1]
                    log = np.float64(_as_float(np.uint32(bits & LOW)))
                    weights[1, n] = np.float64(_as_float(np.uint32(bits >> HALF)))
                else:
                    slot = _found_longest(longest, hashed, far[n])
                    if slot < 0:
                        break
                    log = np.float64(_as_float(longest[3 * slot + 2]))
                matched = n
            if len(even) and matched <= known:
                log = np.float64(even[token]) + weights[0, known]
            elif not len(even):
                for n in range(1, order):  # always as many rounds, and no jump that would be guessed wrong
                    log += weights[0, n] if n >= matched else 0.0
            told[place] = log
            if len(matches):
                matches[place] = matched
            known = min(1 if token == end else matched, order - 1)
            for n in range(1, order):
                weights[0, n] = weights[1, n] if n <= known else 0.0
            place += 1


def asked_in_loops(before, tokens, n, order, middle, begins, longest, far, told):
    """log P of these tokens after one context of n - 1 tokens, which they were all seen after."""
    for number in range(len(tokens)):
        hashed = _joined(before, tokens[number])
        told[number] = np.nan
        if n == order:
            slot = _found_longest(longest, hashed, far[n])
            if slot >= 0:
                told[number] = _as_float(longest[3 * slot + 2])
        else:
            slot = _found(middle, begins[n], begins[n + 1] - begins[n], hashed, far[n])
            if slot >= 0:
                told[number] = _as_float(np.uint32(middle[2 * slot + 1] & LOW))


def context_in_loops(tokens, salt):
    """The 64 bits of one n-gram."""
    hashed = _joined(salt, tokens[0])
    for number in range(1, len(tokens)):
        hashed = _joined(hashed, tokens[number])
    return hashed


def weight_in_loops(hashed, n, middle, begins, far):
    """The back-off weight of one n-gram of n tokens; no number where it is not there."""
    slot = _found(middle, begins[n], begins[n + 1] - begins[n], hashed, far[n])
    return _as_float(np.uint32(middle[2 * slot + 1] >> HALF)) if slot >= 0 else np.float32(np.nan)
