"""How long word vectors are, and what of that is frequency: bands of words from rare to frequent, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.embeddings.knn import nearest_rows, row_blocks
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon, LexiconMatch, lexicon_notes, unit_rows
from forebear.errors import InputError
from forebear.numerics import is_constant, spearman

if TYPE_CHECKING:
    from forebear.inference.run import Run

STEPS = (1, 3)  # a band begins at these times a power of ten
PROBED, NEAR = 200, 10  # words whose neighbours are looked at, and how many of those
NAMED = 8  # words with the longest and the shortest vectors


@dataclass(frozen=True)
class FrequencyBand:
    """Words that were seen so often.

    least, most        times they were seen
    shortest, longest  nine of ten vectors are longer than the one, and shorter than the other
    alike              the mean cosine of two of them; None of a single word
    """

    min_count: int
    max_count: int
    words: int
    median: float
    shortest: float
    longest: float
    cosine: float | None

    def to_dict(self) -> dict[str, Any]:
        figures = {"median": self.median, "tenth": self.shortest, "nine_tenths": self.longest, "alike": self.cosine}
        told: dict[str, Any] = {"least": self.min_count, "most": self.max_count, "words": self.words}
        return told | {name: None if value is None else round(value, 6) for name, value in figures.items()}


@dataclass(frozen=True, eq=False)
class VectorNorms:
    """Lengths of all vectors beside how often their words were seen.

    spearman    of lengths and counts: 0 where frequency tells nothing of length, None where all of either are equal
    neighbours  of a word's count and the mean of its neighbours' (in logarithms): above 0, words are near to others
                that are as frequent, whatever they mean; None where all are equal, or no word is nearer than another
    alike       the mean cosine of any two words: above 0, all vectors point somewhat the same way
    """

    words: tuple[str, ...]
    lengths: np.ndarray
    counts: np.ndarray
    spearman: float | None
    neighbors: float | None
    cosine: float | None
    bands: tuple[FrequencyBand, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_varying(self) -> bool:
        """Whether some vectors are longer than others."""
        return bool(self.lengths.max(initial=0) > self.lengths.min(initial=np.inf))

    @property
    def correlations(self) -> tuple[str, str]:
        """`spearman` and `neighbours` for people: a figure, or why there is none."""
        seen = "all words were seen equally often" if is_constant(self.counts) else ""
        whys = seen or "all lengths are equal", seen or "no word's neighbours are more frequent than another's"
        told = zip((self.spearman, self.neighbors), whys, strict=True)
        first, second = (f"none: {why}" if value is None else f"{value:+.3f}" for value, why in told)
        return first, second

    @property
    def extremes(self) -> tuple[list[int], list[int]]:
        """The words with the longest and with the shortest vectors."""
        order = np.argsort(self.lengths, kind="stable").tolist()
        return order[::-1][:NAMED], order[:NAMED]

    def to_dict(self) -> dict[str, Any]:
        figures = {"spearman": self.spearman, "neighbours_spearman": self.neighbors, "alike": self.cosine}
        told: dict[str, Any] = {"words": len(self.words)}
        told |= {name: None if value is None else round(value, 6) for name, value in figures.items()}
        told["bands"] = [band.to_dict() for band in self.bands]
        for name, rows in zip(("longest", "shortest"), self.extremes, strict=True):
            told[name] = [self._word(row) for row in rows]
        return told | {"notes": list(self.notes)}

    def _word(self, row: int) -> dict[str, Any]:
        length, count = round(float(self.lengths[row]), 6), int(self.counts[row])
        return {"word": self.words[row], "length": length, "count": count}


def vector_norms(run: Run) -> VectorNorms:
    """Of a run's words; an error where nobody counted them."""
    run.require("neighbours")
    if run.word_table.counts is None:
        hint = "look at a run of word vectors that was trained here (word2vec, glove, …)"
        raise InputError("nobody counted how often its words were seen", file=run.folder.path, hint=hint)
    return norms_of(run.lexicon)


def norms_of(lexicon: Lexicon) -> VectorNorms:
    table, lengths = lexicon.table, lexicon.norms
    assert table.counts is not None
    counts = np.asarray(table.counts, np.int64)
    edges, owners = _bands(counts)
    sums = _sums(lexicon, owners, len(edges))
    often = np.bincount(owners, minlength=len(edges))
    made = []
    for number, (least, most) in enumerate(edges):
        if often[number]:
            low, middle, high = np.quantile(lengths[owners == number], (0.1, 0.5, 0.9)).tolist()
            made.append(
                FrequencyBand(least, most, int(often[number]), middle, low, high, _alike(sums[number], often[number]))
            )
    whole = _alike(sums.sum(0), len(counts))
    told = _correlation(counts, lengths), None if lexicon.is_onehot else _near_as_frequent(lexicon, counts)
    notes = (f"all vectors have the length 1; {ONEHOT_NOTE}",) if lexicon.is_onehot else ()
    return VectorNorms(tuple(table.words), lengths, counts, *told, whole, tuple(made), notes)


def _bands(counts: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The least and most of each band, and the band of each word; none is wider than what was seen."""
    powers = 10 ** np.arange(len(str(int(counts.max(initial=1)))) + 1)
    starts = np.sort(np.concatenate([powers * step for step in STEPS]))
    owners = np.maximum(np.searchsorted(starts, counts, side="right") - 1, 0)
    least = np.maximum(starts, counts.min(initial=starts[-1])).tolist()
    most = np.minimum(np.append(starts[1:] - 1, starts[-1]), counts.max(initial=1)).tolist()
    return list(zip([min(least[0], int(counts.min(initial=1))), *least[1:]], most, strict=True)), owners


def _sums(lexicon: Lexicon, owners: np.ndarray, count: int) -> np.ndarray:
    """(bands, D) of the vectors with length 1."""
    matrix = lexicon.table.matrix
    sums = np.zeros((count, matrix.shape[1]))
    for part in row_blocks(matrix):
        units = np.asarray(matrix[part], np.float32) / lexicon.norms[part, None]
        sums += (owners[part] == np.arange(count)[:, None]).astype(np.float32) @ units
    return sums


def _alike(total: np.ndarray, count: int) -> float | None:
    """The mean cosine of two different ones of so many vectors of length 1, which follows from their sum."""
    return float(((total**2).sum() - count) / (count * (count - 1))) if count > 1 else None


def _correlation(counts: np.ndarray, others: np.ndarray) -> float | None:
    return None if is_constant(counts) or is_constant(others) else spearman(counts, others)


def _near_as_frequent(lexicon: Lexicon, counts: np.ndarray) -> float | None:
    """Of words taken evenly from all ranks."""
    order = np.argsort(-counts, kind="stable")
    probed = order[:: max(1, len(order) // PROBED)][:PROBED]
    found = nearest_rows(np.asarray(lexicon.table.matrix[probed]), lexicon.table.matrix, NEAR + 1, lexicon.norms)
    logs = np.log(np.maximum(counts, 1))
    own = found.rows == probed[:, None]
    others = np.where(own, 0, logs[found.rows]).sum(1) / np.maximum((~own).sum(1), 1)
    return _correlation(logs[probed], others)


# Words as points of a plane: the two directions in which their vectors differ most (principal components).


TOP = 100  # words, where nobody says which
LEAST, MOST = 3, 5000  # points that a plane can show


@dataclass(frozen=True, eq=False)
class WordProjection:
    """Words and their places.

    points   (n, 2)
    shares   of the variance of all vectors, what either direction shows
    groups   for each word the number of the one that was asked for and that it belongs to, as a neighbour or as itself
    asked    which of the words were asked for; all, where those are the most frequent
    notes    how words were found that are not in the vocabulary as they are written
    """

    words: tuple[str, ...]
    points: np.ndarray
    explained_variance: tuple[float, float]
    counts: tuple[int | None, ...]
    groups: tuple[int, ...]
    query_words: tuple[bool, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"explained_variance": [round(share, 6) for share in self.explained_variance]}
        rows = zip(self.words, self.points.tolist(), self.counts, self.groups, self.query_words, strict=True)
        told["words"] = [
            {"word": word, "x": round(x, 6), "y": round(y, 6), "count": count, "group": group, "asked": asked}
            for word, (x, y), count, group, asked in rows
        ]
        return told | {"notes": list(self.notes)}


def project_words(run: Run, words: Sequence[str] = (), *, top: int | None = None, near: int = 0) -> WordProjection:
    """Those words, with the `near` nearest of each, or the `top` most frequent ones.

    Vectors have length 1: how long they are tells how frequent a word is more than what it means.
    """
    if words and top is not None:
        raise InputError("--top is for when no words are given", hint="leave it out, or add neighbours: --near 10")
    if near and not words:
        raise InputError("--near adds the neighbours of words that are given", hint="name some words, or use --top")
    if near < 0:
        raise InputError(f"--near is {near}", hint="give a number of neighbours, or 0 for none")
    run.require("neighbours")
    return projected(run.lexicon, words, TOP if top is None else top, near)


def projected(lexicon: Lexicon, words: Sequence[str], top: int, near: int) -> WordProjection:
    found, groups, asked = _asked(lexicon, words, near) if words else _frequent(lexicon, top)
    if not LEAST <= len(found) <= MOST:
        what = f"{len(found):,} words do not make a picture"
        raise InputError(what, hint=f"choose from {LEAST} to {MOST:,} words, or add neighbours with --near")
    points, shares = pca_plane(unit_rows(np.stack([one.vector for one in found])))
    counts = lexicon.table.counts
    often = (None if counts is None or not one.rows else int(counts[list(one.rows)].min()) for one in found)
    notes = lexicon_notes(found)
    if lexicon.is_onehot:
        notes += (f"where a word lies here means nothing; {ONEHOT_NOTE}",)
    return WordProjection(tuple(one.text for one in found), points, shares, tuple(often), groups, asked, notes)


def pca_plane(vectors: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
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


def _frequent(lexicon: Lexicon, top: int) -> tuple[list[LexiconMatch], tuple[int, ...], tuple[bool, ...]]:
    counts, words = lexicon.table.counts, lexicon.table.words
    rows = (
        np.arange(min(max(top, 0), len(words))) if counts is None else np.argsort(-counts, kind="stable")[: max(top, 0)]
    )
    found = [lexicon.find(words[row]) for row in rows.tolist()[: MOST + 1]]
    return found, (0,) * len(found), (True,) * len(found)


def _asked(
    lexicon: Lexicon, words: Sequence[str], near: int
) -> tuple[list[LexiconMatch], tuple[int, ...], tuple[bool, ...]]:
    """The words and their neighbours, none of them twice; one that is near several belongs to the first."""
    made: dict[str, tuple[LexiconMatch, int, bool]] = {}
    for number, one in enumerate(lexicon.find_all(list(dict.fromkeys(words)))):
        made[one.text] = one, number, True
    if near:
        for number, answer in enumerate(lexicon.neighbors(list(made), near)):
            for other in answer.nearest:
                made.setdefault(other.word, (lexicon.find(other.word), number, False))
    found, groups, asked = zip(*made.values(), strict=True)
    return list(found), groups, asked
