"""Sentences, clauses and shorter stretches of passages, and how much of its question stands in or around each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forebear.data.unicode import SHAPES

STOP, MARK = SHAPES.index("stop"), SHAPES.index("mark")
BEFORE, BEHIND = 15, 10  # tokens around a stretch in which words of the question are looked for
ALIKE = 1e-9  # sums over other rows before it differ in their last bits
KINDS = ("sentence", "clause", "stretch without words of the question")
OF_EACH = (
    "share of the question in or around the", "the same, compared with the best",
    "the question has most in common with the",
    "share of the question before the", "share of the question behind the",
    "begins the", "begins the best", "begins, compared with the best, the",
    "ends the", "ends the best", "ends, compared with the best, the",
)  # fmt: skip
FIGURES = tuple(f"{what} {kind}" for kind in KINDS for what in OF_EACH)


def figures_of_parts(
    tokens: np.ndarray, owners: np.ndarray, shapes: np.ndarray, inside: np.ndarray, weights: np.ndarray
) -> list[np.ndarray]:
    """FIGURES, (T,) each, of the tokens of rows (`owners`).

    inside   (T,) which of them are of a passage
    weights  (T,) what they are of their question: 0 where they do not stand in it
    """
    stops = (shapes == STOP) | ~inside
    marks = (shapes == MARK) | stops
    told: list[np.ndarray] = []
    for bounds in (stops, marks):
        part = Parts.closed_by(bounds, owners)
        told += part.figures(part.having(tokens, weights), part.begins, part.ends | _behind(bounds))
    bounds = marks | (weights > 0)
    part = Parts.closed_by(bounds | _behind(bounds), owners)
    around = np.where(bounds[part.begins], 0.0, part.around(weights))
    return told + part.figures(around, part.begins & ~bounds, part.ends & ~bounds)


@dataclass(frozen=True, eq=False)
class Parts:
    """Tokens that follow each other, cut into parts: `number` (T,) of each token's part, rising from 0; `rows` (P,)."""

    number: np.ndarray
    rows: np.ndarray

    @classmethod
    def closed_by(cls, bounds: np.ndarray, owners: np.ndarray) -> Parts:
        """A part ends with a token that is a bound, and with its row."""
        begins = np.ones(len(owners), bool)
        begins[1:] = bounds[:-1] | (owners[1:] != owners[:-1])
        return cls(np.cumsum(begins) - 1, owners[begins])

    @property
    def begins(self) -> np.ndarray:
        """(T,) whether a token is the first of its part."""
        return np.diff(self.number, prepend=-1) != 0

    @property
    def ends(self) -> np.ndarray:
        """(T,) whether a token is the last of its part."""
        return _behind(self.begins)

    def having(self, tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(P,) what the tokens in each part weigh, those that are alike counted once."""
        some = np.flatnonzero(weights)
        _, first = np.unique(self.number[some] * (int(tokens.max(initial=0)) + 1) + tokens[some], return_index=True)
        return np.bincount(self.number[some][first], weights[some][first], len(self.rows))

    def around(self, weights: np.ndarray) -> np.ndarray:
        """(P,) what the tokens near each part weigh, in its row."""
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        first, last = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        begins, ends = np.searchsorted(self.rows, self.rows), np.searchsorted(self.rows, self.rows, side="right") - 1
        return sums[np.minimum(last + BEHIND, last[ends]) + 1] - sums[np.maximum(first - BEFORE, first[begins])]

    def figures(self, scores: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
        """OF_EACH, from the scores of parts, and with which tokens (T,) a part may be said to begin and to end."""
        firsts = np.flatnonzero(np.diff(self.rows, prepend=-1))
        best = np.repeat(np.maximum.reduceat(scores, firsts) if len(firsts) else scores, self._counts(firsts))
        compared = np.divide(scores, best, out=np.zeros(len(scores)), where=best > 0)
        of = self.number
        most = (compared > 1 - ALIKE)[of]
        same = self.rows[1:] == self.rows[:-1]
        before, behind = np.zeros(len(scores)), np.zeros(len(scores))
        before[1:], behind[:-1] = np.where(same, scores[:-1], 0), np.where(same, scores[1:], 0)
        compared = compared[of]
        return [
            scores[of], compared, most, before[of], behind[of],
            begins, begins & most, begins * compared, ends, ends & most, ends * compared,
        ]  # fmt: skip

    def _counts(self, firsts: np.ndarray) -> np.ndarray:
        """How many parts the rows have that begin with the parts `firsts`."""
        return np.diff(np.append(firsts, len(self.rows)))


def _behind(flags: np.ndarray) -> np.ndarray:
    """(T,) the flag of the token behind each; behind the last everything ends."""
    return np.append(flags[1:], True)[: len(flags)]
