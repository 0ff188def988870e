"""Chains of hidden states, by compiled loops: forwards, backwards, expected counts and the best chain of each row.

The same as it is defined, in numpy, is in hidden_states_plainly.py.

The states of a chain are K, and behind them one more, the border, in which every row begins and which alone says `end`.
So what begins and what ends a row are moves like any other, rows laid end to end are one long chain, and after an end
nothing is known but that it was one.

Probabilities are scaled at every token, so that no row is too long for them. What is expected is added up in whole
numbers, units of 2^-32, so that sums are the same in whatever order and in however many parts a text is gone through.

S = K + 1 states · tokens of all rows (T,), `ends` (B,) where each row is over
moves (S, S) from, to · emissions (V, S) P(token given state)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forebear.kernels.jit import compile_kernel

UNIT = float(1 << 32)  # so many units are one
LEAST = 1e-300  # of what is rarer than this the inverse would be no number: it is not counted
BLOCK = 4096  # tokens whose chances are kept; of longer rows they are found again, block by block
FREELY = frozenset({"contract"})  # products and sums may be rounded once
ANY_ORDER = FREELY | {"reassoc"}  # and a row of numbers added up in another order: always in the same one
FOUR = 4  # lines of a table that are added together, so that sums are fetched and put back less often


def forward_filter(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log P of each token given those before it, and (B, S) P of each state at the end of each row.

    `first` (B, S) are those before the first token. What is impossible in every state tells nothing of the state.
    """
    logs, last = np.zeros(len(tokens)), first.copy()
    compile_kernel(_filtered_in_loops, FREELY)(tokens, ends, moves, emissions, logs, last)
    return logs, last


def state_posteriors(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T, S) P of each state at each token given the whole row."""
    found, behind = np.zeros((len(tokens), len(moves))), np.ascontiguousarray(moves.T)
    compile_kernel(_posteriors_in_loops, FREELY)(tokens, ends, first, moves, behind, emissions, found)
    return found


def hmm_viterbi(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T,) the most probable chain of each row, all of whose arrays are logarithms here (Viterbi)."""
    found = np.zeros(len(tokens), np.int64)
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    kind = np.int16 if len(moves) < 1 << 15 else np.int32
    came_from = np.zeros((longest, len(moves)), kind)
    compile_kernel(_best_in_loops)(tokens, ends, first, np.ascontiguousarray(moves), emissions, came_from, found)
    return found


def baum_welch(
    tokens: np.ndarray,
    ends: np.ndarray,
    moves: np.ndarray,
    emissions: np.ndarray,
    told_moves: np.ndarray,
    told_words: np.ndarray,
) -> np.ndarray:
    """(B,) -log P of each row, which begins at the border; adds to what is expected of it, in units.

    told_moves  (S, S) int64: how often each move is made
    told_words  (V, S) int64: how often each state says each token
    """
    losses = np.zeros(len(ends))
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    room = np.zeros((min(longest, BLOCK), len(moves)))
    marks = np.zeros((-(-longest // BLOCK), len(moves)))
    back = np.ascontiguousarray(moves.T)
    compile_kernel(_expected_in_loops, FREELY)(
        tokens, ends, moves, back, emissions, room, marks, told_moves, told_words, losses
    )
    return losses


# Parts of the loops below.


def _part(loops: Callable[..., Any]) -> Callable[..., Any]:
    return compile_kernel(loops, FREELY)


def _summing_part(loops: Callable[..., Any]) -> Callable[..., Any]:
    return compile_kernel(loops, ANY_ORDER)


@_part
def _moved(state, table, ahead):
    """ahead = state @ table."""
    many = len(state)
    fours = many - many % FOUR
    ahead[:] = 0.0
    for one in range(0, fours, FOUR):
        a, b, c, d = state[one], state[one + 1], state[one + 2], state[one + 3]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for other in range(many):
                left = a * table[one, other] + b * table[one + 1, other]
                ahead[other] += left + (c * table[one + 2, other] + d * table[one + 3, other])
    for one in range(fours, many):
        for other in range(many):
            ahead[other] += state[one] * table[one, other]


@_summing_part
def _heard(state, ahead, said):
    """P of what was said, where `ahead` tells of the states before that, and `state` of them after it.

    What is impossible in every state tells nothing of the state.
    """
    for one in range(len(state)):
        state[one] = ahead[one] * said[one]
    chance = 0.0
    for one in range(len(state)):  # by itself: a loop that writes too adds in an order that depends on where arrays lie
        chance += state[one]
    if chance > LEAST:
        part = 1.0 / chance
        for one in range(len(state)):
            state[one] *= part
    else:
        for one in range(len(state)):
            state[one] = state[one] / chance if chance > 0.0 else ahead[one]
    return chance


@_summing_part
def _weighed(here, said, behind, weighed):
    """What of all that comes is expected of each state; Σ of what is known from both sides, and if it was possible."""
    spoken, total = 0.0, 0.0
    for one in range(len(here)):
        spoken += here[one] * said[one]
        total += here[one] * behind[one]
    for one in range(len(here)):
        weighed[one] = said[one] * behind[one] if spoken > 0.0 else behind[one]
    return total, spoken > 0.0


@_summing_part
def _level(behind):
    """Makes them sum to 1: only what they are to each other matters."""
    total = 0.0
    for one in range(len(behind)):
        total += behind[one]
    part = 1.0 / total if total > LEAST else 0.0
    for one in range(len(behind)):
        behind[one] = behind[one] * part if part else 1.0


@_summing_part
def _product(one_side, other_side):
    total = 0.0
    for one in range(len(one_side)):
        total += one_side[one] * other_side[one]
    return total


@_part
def _add_products(sums, lefts, rights):
    """sums += lefts.T @ rights, of four lines each."""
    many = len(sums)
    for one in range(many):
        a, b, c, d = lefts[0, one], lefts[1, one], lefts[2, one], lefts[3, one]
        if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
            for other in range(many):
                left = a * rights[0, other] + b * rights[1, other]
                sums[one, other] += left + (c * rights[2, other] + d * rights[3, other])
    lefts[:] = 0.0


@_part
def _read_block(tokens, moves, emissions, state, ahead, room):
    """What is known from before, of each token into `room`; -log P of all of them."""
    loss = 0.0
    for place in range(len(tokens)):
        _moved(state, moves, ahead)
        chance = _heard(state, ahead, emissions[tokens[place]])
        room[place] = state
        loss -= math.log(chance) if chance > 0.0 else -np.inf
    return loss


@_part
def _told_word(told, here, behind, total):
    """Counts one token in the states that said it."""
    part = UNIT / total
    for one in range(len(told)):
        told[one] += np.int64(here[one] * behind[one] * part + 0.5)


@_part
def _count_block(tokens, mark, room, back, emissions, behind, sums, told_words):
    """From the last token of a block to the first: adds to what is expected of moves, and of words."""
    many = len(behind)
    weighed, lefts, rights = np.zeros(many), np.zeros((FOUR, many)), np.zeros((FOUR, many))
    for place in range(len(tokens) - 1, -1, -1):
        here, before, line = room[place], room[place - 1] if place else mark, place % FOUR
        total, possible = _weighed(here, emissions[tokens[place]], behind, weighed)
        if possible and total > LEAST:
            _told_word(told_words[tokens[place]], here, behind, total)
        _moved(weighed, back, behind)
        total = _product(before, behind)
        if total > LEAST:
            part = 1.0 / total
            for one in range(many):
                lefts[line, one] = before[one] * part
                rights[line, one] = weighed[one]
        if not line:
            _add_products(sums, lefts, rights)
        _level(behind)


def _filtered_in_loops(tokens, ends, moves, emissions, logs, last):
    ahead, begin = np.zeros(len(moves)), 0
    for row in range(len(ends)):
        for place in range(begin, ends[row]):
            _moved(last[row], moves, ahead)
            chance = _heard(last[row], ahead, emissions[tokens[place]])
            logs[place] = math.log(chance) if chance > 0.0 else -np.inf
        begin = ends[row]


def _posteriors_in_loops(tokens, ends, first, moves, back, emissions, found):
    """`found` holds what is known from before, then what is known from both sides."""
    many, begin = len(moves), 0
    state, ahead, behind, weighed = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        state[:] = first[row]
        _read_block(tokens[begin : ends[row]], moves, emissions, state, ahead, found[begin : ends[row]])
        behind[:] = 1.0
        for place in range(ends[row] - 1, begin - 1, -1):
            here = found[place]
            total, _ = _weighed(here, emissions[tokens[place]], behind, weighed)
            for one in range(many):
                here[one] = here[one] * behind[one] / total if total > 0.0 else here[one]
            _moved(weighed, back, behind)
            _level(behind)
        begin = ends[row]


def _best_in_loops(tokens, ends, first, moves, emissions, came_from, found):
    many, begin = len(moves), 0
    scores, ahead = np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        scores[:] = first[row]
        for place in range(begin, ends[row]):
            pointers, said = came_from[place - begin], emissions[tokens[place]]
            ahead[:] = scores[0] + moves[0]
            pointers[:] = 0
            for one in range(1, many):
                if scores[one] > -np.inf:
                    for other in range(many):
                        through = scores[one] + moves[one, other]
                        pointers[other] = one if through > ahead[other] else pointers[other]
                        ahead[other] = max(through, ahead[other])
            for one in range(many):
                scores[one] = ahead[one] + said[one]
        state = np.argmax(scores)
        for place in range(ends[row] - 1, begin - 1, -1):
            found[place] = state
            state = came_from[place - begin, state]
        begin = ends[row]


def _expected_in_loops(tokens, ends, moves, back, emissions, room, marks, told_moves, told_words, losses):
    """room   (block, S) what is known from before, of the tokens of a block
    marks  (blocks, S) the same before the first token of each block
    """
    many, block, begin = len(moves), max(1, len(room)), 0
    state, ahead, behind, sums = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros((many, many))
    for row in range(len(ends)):
        row_tokens = tokens[begin : ends[row]]
        blocks = (len(row_tokens) + block - 1) // block
        state[:] = 0.0
        state[many - 1] = 1.0
        sums[:] = 0.0
        behind[:] = 1.0
        for number in range(blocks):
            marks[number] = state
            here = row_tokens[number * block : (number + 1) * block]
            losses[row] += _read_block(here, moves, emissions, state, ahead, room)
        for number in range(blocks - 1, -1, -1):
            here = row_tokens[number * block : (number + 1) * block]
            if number < blocks - 1:  # that of the last block is still there
                state[:] = marks[number]
                _read_block(here, moves, emissions, state, ahead, room)
            _count_block(here, marks[number], room, back, emissions, behind, sums, told_words)
        for one in range(many):
            for other in range(many):
                told_moves[one, other] += np.int64(sums[one, other] * moves[one, other] * UNIT + 0.5)
        begin = ends[row]


# Chains of hidden states as they are defined, in numpy: what the compiled loops of hidden_states.py must agree with.
#
# S states · tokens of all rows (T,), `ends` (B,) where each row is over
# moves (S, S) from, to · emissions (V, S) P(token given state)


def filtered_in_numpy(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T,) log P of each token given those before it, and (B, S) P of each state at the end of each row.

    `first` (B, S) are those before the first token. What is impossible in every state tells nothing of the state.
    """
    logs, last, begin = np.zeros(len(tokens)), first.copy(), 0
    for row, end in enumerate(ends.tolist()):
        for place in range(begin, end):
            before = last[row] @ moves
            both = before * emissions[tokens[place]]
            chance = both.sum()
            logs[place] = math.log(chance) if chance > 0 else -math.inf
            last[row] = both / chance if chance > 0 else before
        begin = end
    return logs, last


def posteriors_in_numpy(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(T, S) P of each state at each token given the whole row, and (S, S) how often each move is expected."""
    found, moved, begin = np.zeros((len(tokens), len(moves))), np.zeros(moves.shape), 0
    for row, end in enumerate(ends.tolist()):
        here = slice(begin, end)
        before, seen = [first[row]], [emissions[token] for token in tokens[here]]
        for place, said in enumerate(seen):
            if not (before[-1] @ moves @ said):
                seen[place] = said = np.ones(len(moves))
            both = (before[-1] @ moves) * said
            before.append(both / both.sum())
        behind = np.ones(len(moves))
        for place in range(end - begin - 1, -1, -1):
            both = before[place + 1] * behind
            found[begin + place] = both / both.sum()
            pairs = before[place][:, None] * moves * (seen[place] * behind)
            moved += pairs / pairs.sum()
            behind = moves @ (seen[place] * behind)
            behind /= behind.sum()
        begin = end
    return found, moved


def best_in_numpy(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """(T,) the most probable chain of each row, all of whose arrays are logarithms here (Viterbi)."""
    found, begin = np.zeros(len(tokens), np.int64), 0
    for row, end in enumerate(ends.tolist()):
        scores, came_from = first[row], []
        for token in tokens[begin:end]:
            through = scores[:, None] + moves
            came_from.append(through.argmax(0))
            scores = through.max(0) + emissions[token]
        state = int(scores.argmax())
        for place in range(end - begin - 1, -1, -1):
            found[begin + place] = state
            state = int(came_from[place][state])
        begin = end
    return found
