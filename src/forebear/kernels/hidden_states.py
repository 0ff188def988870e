"""Chains of hidden states: forwards, backwards, expected counts and the best chain, row by row; beside numpy's way.

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

import numpy as np

from forebear.kernels.compiling import compiled

UNIT = float(1 << 32)  # so many units are one
LEAST = 1e-300  # what is rarer than this is not counted: its inverse would be no number
BLOCK = 4096  # tokens whose chances are kept; of longer rows they are found again, block by block
FREELY = frozenset({"contract"})  # products and sums may be rounded once


# -- numpy's way


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


# -- loops, compiled


def filtered(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `filtered_in_numpy`."""
    logs, last = np.zeros(len(tokens)), first.copy()
    compiled(_filtered_in_loops, FREELY)(tokens, ends, moves, emissions, logs, last)
    return logs, last


def posteriors(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """The first of what `posteriors_in_numpy` gives."""
    found, behind = np.zeros((len(tokens), len(moves))), np.ascontiguousarray(moves.T)
    compiled(_posteriors_in_loops, FREELY)(tokens, ends, first, moves, behind, emissions, found)
    return found


def best(
    tokens: np.ndarray, ends: np.ndarray, first: np.ndarray, moves: np.ndarray, emissions: np.ndarray
) -> np.ndarray:
    """As `best_in_numpy`."""
    found = np.zeros(len(tokens), np.int64)
    longest = int(np.diff(ends, prepend=0).max(initial=0))
    kind = np.int16 if len(moves) < 1 << 15 else np.int32
    came_from = np.zeros((longest, len(moves)), kind)
    compiled(_best_in_loops)(tokens, ends, first, np.ascontiguousarray(moves), emissions, came_from, found)
    return found


def expected(
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
    compiled(_expected_in_loops, FREELY)(
        tokens, ends, moves, back, emissions, room, marks, told_moves, told_words, losses
    )
    return losses


def _filtered_in_loops(tokens, ends, moves, emissions, logs, last):
    many, begin = moves.shape[0], 0
    ahead = np.zeros(many)
    for row in range(len(ends)):
        state = last[row]
        for place in range(begin, ends[row]):
            ahead[:] = 0.0
            for one in range(many):
                share = state[one]
                if share != 0.0:
                    for other in range(many):
                        ahead[other] += share * moves[one, other]
            said, chance = emissions[tokens[place]], 0.0
            for one in range(many):
                state[one] = ahead[one] * said[one]
                chance += state[one]
            if chance > 0.0:
                logs[place] = math.log(chance)
                for one in range(many):
                    state[one] /= chance
            else:
                logs[place] = -np.inf
                state[:] = ahead
        begin = ends[row]


def _posteriors_in_loops(tokens, ends, first, moves, back, emissions, found):
    """`found` holds what is known from before, then what is known from both sides."""
    many, begin = moves.shape[0], 0
    state, ahead, behind, weighed = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        state[:] = first[row]
        for place in range(begin, ends[row]):
            ahead[:] = 0.0
            for one in range(many):
                share = state[one]
                if share != 0.0:
                    for other in range(many):
                        ahead[other] += share * moves[one, other]
            said, chance = emissions[tokens[place]], 0.0
            for one in range(many):
                state[one] = ahead[one] * said[one]
                chance += state[one]
            for one in range(many):
                state[one] = state[one] / chance if chance > 0.0 else ahead[one]
            found[place] = state
        behind[:] = 1.0
        for place in range(ends[row] - 1, begin - 1, -1):
            said, spoken, total = emissions[tokens[place]], 0.0, 0.0
            for one in range(many):
                spoken += found[place, one] * said[one]
                total += found[place, one] * behind[one]
            for one in range(many):
                # what is impossible in every state says nothing of any: then its state is what it was before
                weighed[one] = said[one] * behind[one] if spoken > 0.0 else behind[one]
                found[place, one] = found[place, one] * behind[one] / total if total > 0.0 else found[place, one]
            behind[:] = 0.0
            for other in range(many):
                share = weighed[other]
                if share != 0.0:
                    for one in range(many):
                        behind[one] += share * back[other, one]
            total = 0.0
            for one in range(many):
                total += behind[one]
            for one in range(many):
                behind[one] = behind[one] / total if total > 0.0 else 1.0
        begin = ends[row]


def _best_in_loops(tokens, ends, first, moves, emissions, came_from, found):
    many, begin = moves.shape[0], 0
    scores, ahead = np.zeros(many), np.zeros(many)
    for row in range(len(ends)):
        scores[:] = first[row]
        for place in range(begin, ends[row]):
            pointers = came_from[place - begin]
            for other in range(many):
                ahead[other] = scores[0] + moves[0, other]
                pointers[other] = 0
            for one in range(1, many):
                score = scores[one]
                if score > -np.inf:
                    for other in range(many):
                        through = score + moves[one, other]
                        better = through > ahead[other]
                        ahead[other] = through if better else ahead[other]
                        pointers[other] = one if better else pointers[other]
            said = emissions[tokens[place]]
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
    many, block, begin = moves.shape[0], len(room), 0
    state, ahead, behind, weighed = np.zeros(many), np.zeros(many), np.zeros(many), np.zeros(many)
    sums = np.zeros((many, many))
    for row in range(len(ends)):
        count = ends[row] - begin
        blocks = (count + block - 1) // block if count else 0
        state[:] = 0.0
        state[many - 1] = 1.0
        sums[:] = 0.0
        behind[:] = 1.0
        for turn in range(2 * blocks - 1):  # there, and back; the last block is not left in between
            number = turn if turn < blocks else 2 * blocks - 2 - turn
            first, last = begin + number * block, min(begin + (number + 1) * block, ends[row])
            if turn < blocks:
                marks[number] = state
            else:
                state[:] = marks[number]
            for place in range(first, last):
                ahead[:] = 0.0
                for one in range(many):
                    share = state[one]
                    if share != 0.0:
                        for other in range(many):
                            ahead[other] += share * moves[one, other]
                said, chance = emissions[tokens[place]], 0.0
                for one in range(many):
                    state[one] = ahead[one] * said[one]
                    chance += state[one]
                for one in range(many):
                    state[one] = state[one] / chance if chance > 0.0 else ahead[one]
                room[place - first] = state
                if turn < blocks:
                    losses[row] -= math.log(chance) if chance > 0.0 else -np.inf
            if turn < blocks - 1:
                continue
            for place in range(last - 1, first - 1, -1):
                here = room[place - first]
                before = room[place - first - 1] if place > first else marks[number]
                said, spoken, total = emissions[tokens[place]], 0.0, 0.0
                for one in range(many):
                    spoken += here[one] * said[one]
                    total += here[one] * behind[one]
                for one in range(many):
                    weighed[one] = said[one] * behind[one] if spoken > 0.0 else behind[one]
                if spoken > 0.0 and total > LEAST:
                    told, part = told_words[tokens[place]], UNIT / total
                    for one in range(many):
                        told[one] += np.int64(here[one] * behind[one] * part + 0.5)
                behind[:] = 0.0
                for other in range(many):
                    share = weighed[other]
                    if share != 0.0:
                        for one in range(many):
                            behind[one] += share * back[other, one]
                total, level = 0.0, 0.0
                for one in range(many):
                    total += before[one] * behind[one]
                    level += behind[one]
                if total > LEAST:
                    part = 1.0 / total
                    for one in range(many):
                        share = before[one] * part
                        if share != 0.0:
                            for other in range(many):
                                sums[one, other] += share * weighed[other]
                for one in range(many):
                    behind[one] = behind[one] / level if level > 0.0 else 1.0
        for one in range(many):
            for other in range(many):
                told_moves[one, other] += np.int64(sums[one, other] * moves[one, other] * UNIT + 0.5)
        begin = ends[row]
