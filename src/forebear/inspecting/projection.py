"""Words as points of a plane: the two directions in which their vectors differ most (principal components)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.using.lexicon import EQUALLY_FAR, Found, Lexicon, notes_of, scaled

if TYPE_CHECKING:
    from forebear.using.run import Run

TOP = 100  # words, where nobody says which
LEAST, MOST = 3, 5000  # points that a plane can show


@dataclass(frozen=True, eq=False)
class Projection:
    """Words and their places.

    points   (n, 2)
    shares   of the variance of all vectors, what either direction shows
    groups   for each word the number of the one that was asked for and that it belongs to, as a neighbour or as itself
    asked    which of the words were asked for; all, where those are the most frequent
    notes    how words were found that are not in the vocabulary as they are written
    """

    words: tuple[str, ...]
    points: np.ndarray
    shares: tuple[float, float]
    counts: tuple[int | None, ...]
    groups: tuple[int, ...]
    asked: tuple[bool, ...]
    notes: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"explained_variance": [round(share, 6) for share in self.shares]}
        rows = zip(self.words, self.points.tolist(), self.counts, self.groups, self.asked, strict=True)
        told["words"] = [
            {"word": word, "x": round(x, 6), "y": round(y, 6), "count": count, "group": group, "asked": asked}
            for word, (x, y), count, group, asked in rows
        ]
        return told | {"notes": list(self.notes)}


def projection(run: Run, words: Sequence[str] = (), *, top: int | None = None, near: int = 0) -> Projection:
    """Those words, with the `near` nearest of each, or the `top` most frequent ones.

    Vectors have length 1: how long they are tells how frequent a word is more than what it means.
    """
    if words and top is not None:
        raise BadInput("--top is for when no words are given", remedy="leave it out, or add neighbours: --near 10")
    if near and not words:
        raise BadInput("--near adds the neighbours of words that are given", remedy="name some words, or use --top")
    if near < 0:
        raise BadInput(f"--near is {near}", remedy="give a number of neighbours, or 0 for none")
    run.ready_for("neighbours")
    return projected(run.lexicon, words, TOP if top is None else top, near)


def projected(lexicon: Lexicon, words: Sequence[str], top: int, near: int) -> Projection:
    found, groups, asked = _asked(lexicon, words, near) if words else _frequent(lexicon, top)
    if not LEAST <= len(found) <= MOST:
        what = f"{len(found):,} words do not make a picture"
        raise BadInput(what, remedy=f"choose from {LEAST} to {MOST:,} words, or add neighbours with --near")
    points, shares = plane(scaled(np.stack([one.vector for one in found])))
    counts = lexicon.table.counts
    often = (None if counts is None or not one.rows else int(counts[list(one.rows)].min()) for one in found)
    notes = notes_of(found)
    if lexicon.equally_far:
        notes += (f"where a word lies here means nothing; {EQUALLY_FAR}",)
    return Projection(tuple(one.text for one in found), points, shares, tuple(often), groups, asked, notes)


def plane(vectors: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """(n, 2) the first two principal components of (n, D), and what share of the variance each shows.

    A direction has no sign of its own: the largest number is made positive, so that a picture is the same every time.
    """
    away = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    left, lengths, _ = np.linalg.svd(away, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    for number in range(min(2, len(lengths))):
        line = left[:, number] * lengths[number]
        points[:, number] = line * (1 if line[np.abs(line).argmax()] >= 0 else -1)
    whole = float((lengths**2).sum()) or 1.0
    first, second = (*(lengths[:2] ** 2 / whole).tolist(), 0.0)[:2]
    return points, (first, second)


def _frequent(lexicon: Lexicon, top: int) -> tuple[list[Found], tuple[int, ...], tuple[bool, ...]]:
    counts, words = lexicon.table.counts, lexicon.table.words
    rows = (
        np.arange(min(max(top, 0), len(words))) if counts is None else np.argsort(-counts, kind="stable")[: max(top, 0)]
    )
    found = [lexicon.find(words[row]) for row in rows.tolist()[: MOST + 1]]
    return found, (0,) * len(found), (True,) * len(found)


def _asked(lexicon: Lexicon, words: Sequence[str], near: int) -> tuple[list[Found], tuple[int, ...], tuple[bool, ...]]:
    """The words and their neighbours, none of them twice; one that is near several belongs to the first."""
    made: dict[str, tuple[Found, int, bool]] = {}
    for number, one in enumerate(lexicon.find_all(list(dict.fromkeys(words)))):
        made[one.text] = one, number, True
    if near:
        for number, answer in enumerate(lexicon.neighbours(list(made), near)):
            for other in answer.nearest:
                made.setdefault(other.word, (lexicon.find(other.word), number, False))
    found, groups, asked = zip(*made.values(), strict=True)
    return list(found), groups, asked
