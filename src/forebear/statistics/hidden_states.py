"""A chain of states that nobody sees and the words that they say: how probable a text is, and which states said it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.kernels import hidden_states as kernels
from forebear.text.workers import cores

EACH = 1 << 16  # products of moves that are worth a thread of their own


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The tables of a hidden Markov model: probabilities, each row of which sums to 1.

    moves      (S, S) P(the next state given this one); the last state is the border, in which every text begins and
               ends, and which says `end` and nothing else
    emissions  (V, S) P(this token given that state): a row for each token
    end        the id that begins and ends every text
    """

    moves: np.ndarray
    emissions: np.ndarray
    end: int

    @property
    def vocabulary(self) -> int:
        return len(self.emissions)

    @property
    def border(self) -> int:
        return len(self.moves) - 1

    @cached_property
    def usual(self) -> np.ndarray:
        """(S,) how much of all text is said in each state: what is known of a text from the middle of another."""
        many = len(self.moves)
        balance = np.vstack((self.moves.T - np.eye(many), np.ones(many)))
        found = np.linalg.lstsq(balance, np.append(np.zeros(many), 1.0), rcond=None)[0].clip(0)
        return found / found.sum()

    # -- rows of tokens, of which the first is given

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        tokens, lengths, first = self._laid(rows)
        logs = _together(kernels.filtered, tokens, lengths, first, self.moves, self.emissions, at=0)
        return np.split(logs, np.cumsum(lengths)[:-1]) if len(rows) else []

    def after(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, S) P of the state in which each row's last token was said, given the row."""
        tokens, lengths, first = self._laid(rows)
        return _together(kernels.filtered, tokens, lengths, first, self.moves, self.emissions, at=1)

    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.told(self.after(rows))

    def told(self, states: np.ndarray) -> np.ndarray:
        """(B, V) log P of the next token where P of the states before it is (B, S)."""
        told = np.empty((len(states), self.vocabulary))
        with np.errstate(divide="ignore"):
            for line, state in zip(told, states, strict=True):  # one by one: a batch changes no bit
                np.log(self.emissions @ (state @ self.moves), out=line)
        return told

    def read(self, rows: Sequence[np.ndarray], room: int) -> Reading:
        return Reading(self, self.after(rows))

    def posteriors(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, P of each state at each token but the first, given all of the row: (n - 1, S)."""
        tokens, lengths, first = self._laid(rows)
        found = _together(kernels.posteriors, tokens, lengths, first, self.moves, self.emissions)
        return np.split(found, np.cumsum(lengths)[:-1]) if len(rows) else []

    def best(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, the states of its most probable chain, for each token but the first (Viterbi)."""
        tokens, lengths, first = self._laid(rows)
        with np.errstate(divide="ignore"):
            logs = [np.log(one) for one in (first, self.moves, self.emissions)]
        found = _together(kernels.best, tokens, lengths, *logs)
        return np.split(found, np.cumsum(lengths)[:-1]) if len(rows) else []

    def _laid(self, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All tokens but the first of each row, how many each has, and (B, S) what is known before them."""
        lengths = np.array([max(0, len(row) - 1) for row in rows], np.int64)
        tokens = np.concatenate([np.zeros(0, np.int64), *(np.asarray(row)[1:] for row in rows)]).astype(np.int64)
        heads = np.array([row[0] if len(row) else -1 for row in rows], np.int64)
        for ids, least in ((tokens, 0), (heads, -1)):
            if len(ids) and not least <= ids.min() <= ids.max() < self.vocabulary:
                raise BadInput(f"a row holds ids outside 0 to {self.vocabulary - 1}")
        seen = np.where((heads >= 0)[:, None], self.emissions[np.maximum(heads, 0)], 1.0)
        first = self.usual * seen
        total = first.sum(axis=1, keepdims=True)
        first = np.where(total > 0, first / np.where(total > 0, total, 1.0), self.usual)
        first[heads == self.end] = np.arange(len(self.moves)) == self.border
        return tokens, lengths, first

    # -- drawing by chance

    def drawn(self, count: int, seed: int, longest: int = 1 << 20) -> list[tuple[np.ndarray, np.ndarray]]:
        """So many texts, each as its tokens and the states that said them; what is longer is cut."""
        rng, state = np.random.default_rng(seed), np.full(count, self.border)
        moves, emissions = (_cumulative(table) for table in (self.moves, self.emissions.T))
        tokens, states, alive = [], [], np.arange(count)
        for _ in range(longest):
            state = _chosen(moves, state, rng)
            going = state != self.border
            alive, state = alive[going], state[going]
            if not len(alive):
                break
            tokens.append((alive, _chosen(emissions, state, rng)))
            states.append(state)
        if not tokens:
            return [(np.zeros(0, np.int64), np.zeros(0, np.int64)) for _ in range(count)]
        whose, said, by = (np.concatenate(one) for one in (*zip(*tokens, strict=True), states))
        order = np.argsort(whose, kind="stable")
        cuts = np.searchsorted(whose[order], np.arange(1, count))
        return list(zip(np.split(said[order], cuts), np.split(by[order], cuts), strict=True))


class Reading:
    """Rows that are being continued: what is known of the state of each is all that matters of it."""

    def __init__(self, states: HiddenStates, known: np.ndarray) -> None:
        self.states, self.known = states, known

    def next(self) -> np.ndarray:
        return self.states.told(self.known).astype(np.float32)

    def take(self, ids: np.ndarray) -> None:
        ends, tables = np.arange(1, len(ids) + 1), self.states
        _, self.known = kernels.filtered(np.asarray(ids, np.int64), ends, self.known, tables.moves, tables.emissions)

    def keep(self, rows: np.ndarray) -> None:
        self.known = self.known[rows]


def in_parts(lengths: np.ndarray, work: int) -> list[slice]:
    """Rows in as many parts as there are processors, about equally long; in one, where there is little `work`."""
    parts = max(1, min(cores(), len(lengths), work // EACH))
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(1, parts) * (ends[-1] / parts)) + 1 if parts > 1 else []
    borders = np.concatenate(([0], cuts, [len(lengths)])).astype(np.int64)
    return [slice(*pair) for pair in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)]


def _together(
    kernel: Callable[..., Any], tokens: np.ndarray, lengths: np.ndarray, first: np.ndarray, *tables: np.ndarray, at=None
) -> np.ndarray:
    """What a kernel finds, rows shared out among threads; each is gone through by itself, so that no bit changes."""
    ends = np.cumsum(lengths)

    def found(part: slice) -> np.ndarray:
        begin, end = (int(ends[row - 1]) if row else 0 for row in (part.start, part.stop))
        told = kernel(tokens[begin:end], ends[part] - begin, np.ascontiguousarray(first[part]), *tables)
        return told if at is None else told[at]

    parts = in_parts(lengths, len(tokens) * len(tables[0]))
    if len(parts) == 1:
        return found(parts[0])
    with ThreadPoolExecutor(len(parts)) as threads:
        return np.concatenate(list(threads.map(found, parts)))


def _cumulative(shares: np.ndarray) -> np.ndarray:
    """Of each line the running sums, those of line n from n to n + 1: all of them rise, from the first to the last."""
    sums = np.cumsum(shares, axis=1)
    return (sums / sums[:, -1:] + np.arange(len(shares))[:, None]).ravel()


def _chosen(sums: np.ndarray, lines: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column for each of these lines, by chance."""
    width = len(sums) // (int(sums[-1].round()))
    return np.searchsorted(sums, lines + rng.random(len(lines)), side="right") % width
