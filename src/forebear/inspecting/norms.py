"""How long word vectors are, and what of that is frequency: bands of words from rare to frequent, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.tasks.figures.metrics import spearman, unchanging
from forebear.using.lexicon import EQUALLY_FAR, Lexicon
from forebear.using.nearest import blocks, nearest

if TYPE_CHECKING:
    from forebear.using.run import Run

STEPS = (1, 3)  # a band begins at these times a power of ten
PROBED, NEAR = 200, 10  # words whose neighbours are looked at, and how many of those
NAMED = 8  # words with the longest and the shortest vectors


@dataclass(frozen=True)
class Band:
    """Words that were seen so often.

    least, most        times they were seen
    shortest, longest  nine of ten vectors are longer than the one, and shorter than the other
    alike              the mean cosine of two of them; None of a single word
    """

    least: int
    most: int
    words: int
    median: float
    shortest: float
    longest: float
    alike: float | None

    def facts(self) -> dict[str, Any]:
        figures = {"median": self.median, "tenth": self.shortest, "nine_tenths": self.longest, "alike": self.alike}
        told: dict[str, Any] = {"least": self.least, "most": self.most, "words": self.words}
        return told | {name: None if value is None else round(value, 6) for name, value in figures.items()}


@dataclass(frozen=True, eq=False)
class Norms:
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
    neighbours: float | None
    alike: float | None
    bands: tuple[Band, ...]
    notes: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether some vectors are longer than others."""
        return bool(self.lengths.max(initial=0) > self.lengths.min(initial=np.inf))

    @property
    def correlations(self) -> tuple[str, str]:
        """`spearman` and `neighbours` for people: a figure, or why there is none."""
        seen = "all words were seen equally often" if unchanging(self.counts) else ""
        whys = seen or "all lengths are equal", seen or "no word's neighbours are more frequent than another's"
        told = zip((self.spearman, self.neighbours), whys, strict=True)
        first, second = (f"none: {why}" if value is None else f"{value:+.3f}" for value, why in told)
        return first, second

    @property
    def extremes(self) -> tuple[list[int], list[int]]:
        """The words with the longest and with the shortest vectors."""
        order = np.argsort(self.lengths, kind="stable").tolist()
        return order[::-1][:NAMED], order[:NAMED]

    def facts(self) -> dict[str, Any]:
        figures = {"spearman": self.spearman, "neighbours_spearman": self.neighbours, "alike": self.alike}
        told: dict[str, Any] = {"words": len(self.words)}
        told |= {name: None if value is None else round(value, 6) for name, value in figures.items()}
        told["bands"] = [band.facts() for band in self.bands]
        for name, rows in zip(("longest", "shortest"), self.extremes, strict=True):
            told[name] = [self._word(row) for row in rows]
        return told | {"notes": list(self.notes)}

    def _word(self, row: int) -> dict[str, Any]:
        length, count = round(float(self.lengths[row]), 6), int(self.counts[row])
        return {"word": self.words[row], "length": length, "count": count}


def norms(run: Run) -> Norms:
    """Of a run's words; an error where nobody counted them."""
    run.ready_for("neighbours")
    if run.words.counts is None:
        remedy = "look at a run of word vectors that was trained here (word2vec, glove, …)"
        raise BadInput("nobody counted how often its words were seen", file=run.folder.path, remedy=remedy)
    return norms_of(run.lexicon)


def norms_of(lexicon: Lexicon) -> Norms:
    table, lengths = lexicon.table, lexicon.lengths
    assert table.counts is not None
    counts = np.asarray(table.counts, np.int64)
    edges, owners = _bands(counts)
    sums = _sums(lexicon, owners, len(edges))
    often = np.bincount(owners, minlength=len(edges))
    made = []
    for number, (least, most) in enumerate(edges):
        if often[number]:
            low, middle, high = np.quantile(lengths[owners == number], (0.1, 0.5, 0.9)).tolist()
            made.append(Band(least, most, int(often[number]), middle, low, high, _alike(sums[number], often[number])))
    whole = _alike(sums.sum(0), len(counts))
    told = _correlation(counts, lengths), None if lexicon.equally_far else _near_as_frequent(lexicon, counts)
    notes = (f"all vectors have the length 1; {EQUALLY_FAR}",) if lexicon.equally_far else ()
    return Norms(tuple(table.words), lengths, counts, *told, whole, tuple(made), notes)


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
    for part in blocks(matrix):
        units = np.asarray(matrix[part], np.float32) / lexicon.lengths[part, None]
        sums += (owners[part] == np.arange(count)[:, None]).astype(np.float32) @ units
    return sums


def _alike(total: np.ndarray, count: int) -> float | None:
    """The mean cosine of two different ones of so many vectors of length 1, which follows from their sum."""
    return float(((total**2).sum() - count) / (count * (count - 1))) if count > 1 else None


def _correlation(counts: np.ndarray, others: np.ndarray) -> float | None:
    return None if unchanging(counts) or unchanging(others) else spearman(counts, others)


def _near_as_frequent(lexicon: Lexicon, counts: np.ndarray) -> float | None:
    """Of words taken evenly from all ranks."""
    order = np.argsort(-counts, kind="stable")
    probed = order[:: max(1, len(order) // PROBED)][:PROBED]
    found = nearest(np.asarray(lexicon.table.matrix[probed]), lexicon.table.matrix, NEAR + 1, lexicon.lengths)
    logs = np.log(np.maximum(counts, 1))
    own = found.rows == probed[:, None]
    others = np.where(own, 0, logs[found.rows]).sum(1) / np.maximum((~own).sum(1), 1)
    return _correlation(logs[probed], others)
