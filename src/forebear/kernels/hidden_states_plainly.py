"""Chains of hidden states as they are defined, in numpy: what the compiled loops of hidden_states.py must agree with.

S states · tokens of all rows (T,), `ends` (B,) where each row is over
moves (S, S) from, to · emissions (V, S) P(token given state)
"""

from __future__ import annotations

import math

import numpy as np


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
