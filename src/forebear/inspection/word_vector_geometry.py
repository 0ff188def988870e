"""Geometry of word vectors: norms by frequency, and projection to two principal components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.embeddings.knn import nearest_rows, row_blocks
from forebear.embeddings.lexicon import ONEHOT_NOTE, Lexicon, LexiconMatch, lexicon_notes
from forebear.errors import InputError
from forebear.numerics import is_constant, mean_cosine, spearman, unit_rows

if TYPE_CHECKING:
    from forebear.inference.run import Run

BAND_MULTIPLIERS = (1, 3)  # bands start at these multiples of powers of ten
NUM_SAMPLED_WORDS, NUM_NEIGHBORS = 200, 10  # words whose neighbors are counted, and neighbors of each
NUM_EXTREMES = 8  # words listed with the longest and shortest vectors


@dataclass(frozen=True)
class FrequencyBand:
    """Statistics of the words with `min_count` to `max_count` occurrences: median and quantiles of their norms.

    cosine  mean cosine of two words; None for a single word
    """

    min_count: int
    max_count: int
    num_words: int
    median: float
    quantile_10: float
    quantile_90: float
    cosine: float | None

    @property
    def center(self) -> float:
        """Geometric mean of the range of counts."""
        return math.sqrt(max(self.min_count, 1) * self.max_count)

    def to_dict(self) -> dict[str, Any]:
        statistics = {"median": self.median, "tenth": self.quantile_10, "nine_tenths": self.quantile_90}
        statistics |= {"alike": self.cosine}
        data: dict[str, Any] = {"least": self.min_count, "most": self.max_count, "words": self.num_words}
        return data | {name: None if value is None else round(value, 6) for name, value in statistics.items()}


@dataclass(frozen=True, eq=False)
class VectorNorms:
    """Norms of all vectors and counts of their words.

    spearman   rank correlation of norms and counts; None if either is constant
    neighbors  correlation of a word's log count with the mean of its neighbors': above 0, neighbors are similarly
               frequent, whatever they mean; None if counts are constant or all words equally near
    cosine     mean cosine of any two words: above 0, all vectors share a common direction
    """

    words: tuple[str, ...]
    norms: np.ndarray
    counts: np.ndarray
    spearman: float | None
    neighbors: float | None
    cosine: float | None
    bands: tuple[FrequencyBand, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_varying(self) -> bool:
        """Whether norms differ."""
        return bool(self.norms.max(initial=0) > self.norms.min(initial=np.inf))

    @property
    def correlations(self) -> tuple[str, str]:
        """`spearman` and `neighbors` as text, or the reason why they are None."""
        reasons = ("all lengths are equal", "no word's neighbours are more frequent than another's")
        if is_constant(self.counts):
            reasons = ("all words were seen equally often",) * 2
        results = zip((self.spearman, self.neighbors), reasons, strict=True)
        first, second = (f"none: {reason}" if value is None else f"{value:+.3f}" for value, reason in results)
        return first, second

    @property
    def extremes(self) -> tuple[list[int], list[int]]:
        """Words with the longest and with the shortest vectors."""
        order = np.argsort(self.norms, kind="stable").tolist()
        return order[::-1][:NUM_EXTREMES], order[:NUM_EXTREMES]

    def to_dict(self) -> dict[str, Any]:
        correlations = {"spearman": self.spearman, "neighbours_spearman": self.neighbors, "alike": self.cosine}
        data: dict[str, Any] = {"words": len(self.words)}
        data |= {name: None if value is None else round(value, 6) for name, value in correlations.items()}
        data["bands"] = [band.to_dict() for band in self.bands]
        for name, rows in zip(("longest", "shortest"), self.extremes, strict=True):
            words = zip(rows, self.norms[rows].tolist(), self.counts[rows].tolist(), strict=True)
            data[name] = [
                {"word": self.words[row], "length": round(length, 6), "count": count} for row, length, count in words
            ]
        return data | {"notes": list(self.notes)}


def vector_norms(run: Run) -> VectorNorms:
    """Norms of a run's word vectors; raises InputError if the run has no counts."""
    run.require("neighbours")
    if run.word_table.counts is None:
        hint = "look at a run of word vectors that was trained here (word2vec, glove, …)"
        raise InputError("nobody counted how often its words were seen", file=run.folder.path, hint=hint)
    return lexicon_norms(run.lexicon)


def lexicon_norms(lexicon: Lexicon) -> VectorNorms:
    table, norms = lexicon.table, lexicon.norms
    assert table.counts is not None
    counts = np.asarray(table.counts, np.int64)
    edges, band_ids = _frequency_bands(counts)
    sums = np.zeros((len(edges), table.matrix.shape[1]))  # of unit vectors
    for rows in row_blocks(table.matrix):
        unit_vectors = np.asarray(table.matrix[rows], np.float32) / norms[rows, None]
        sums += (band_ids[rows] == np.arange(len(edges))[:, None]).astype(np.float32) @ unit_vectors
    bands = []
    for band, (min_count, max_count) in enumerate(edges):
        if num_words := int(np.count_nonzero(band_ids == band)):
            low, median, high = np.quantile(norms[band_ids == band], (0.1, 0.5, 0.9)).tolist()
            cosine = mean_cosine(sums[band], num_words)
            bands.append(FrequencyBand(min_count, max_count, num_words, median, low, high, cosine))
    return VectorNorms(
        tuple(table.words),
        norms,
        counts,
        spearman=_correlation(counts, norms),
        neighbors=None if lexicon.is_onehot else _neighbor_frequency_correlation(lexicon, counts),
        cosine=mean_cosine(sums.sum(0), len(counts)),
        bands=tuple(bands),
        notes=(f"all vectors have the length 1; {ONEHOT_NOTE}",) if lexicon.is_onehot else (),
    )


def _frequency_bands(counts: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Count range of each band, limited to the observed counts, and the band of each word."""
    powers = 10 ** np.arange(len(str(int(counts.max(initial=1)))) + 1)
    starts = np.sort(np.concatenate([powers * multiplier for multiplier in BAND_MULTIPLIERS]))
    band_ids = np.maximum(np.searchsorted(starts, counts, side="right") - 1, 0)
    min_counts = [counts.min(initial=1), *np.maximum(starts[1:], counts.min(initial=starts[-1]))]
    max_counts = np.minimum([*(starts[1:] - 1), starts[-1]], counts.max(initial=1))
    return [(int(low), int(high)) for low, high in zip(min_counts, max_counts, strict=True)], band_ids


def _correlation(counts: np.ndarray, values: np.ndarray) -> float | None:
    return None if is_constant(counts) or is_constant(values) else spearman(counts, values)


def _neighbor_frequency_correlation(lexicon: Lexicon, counts: np.ndarray) -> float | None:
    """Correlation for words sampled evenly from all frequency ranks."""
    order = np.argsort(-counts, kind="stable")
    sampled_rows = order[:: max(1, len(order) // NUM_SAMPLED_WORDS)][:NUM_SAMPLED_WORDS]
    matrix = lexicon.table.matrix
    neighbors = nearest_rows(np.asarray(matrix[sampled_rows]), matrix, NUM_NEIGHBORS + 1, lexicon.norms)
    log_counts = np.log(np.maximum(counts, 1))
    is_self = neighbors.rows == sampled_rows[:, None]
    neighbor_log_counts = np.where(is_self, 0, log_counts[neighbors.rows]).sum(1) / np.maximum((~is_self).sum(1), 1)
    return _correlation(log_counts[sampled_rows], neighbor_log_counts)


# --- Projection to two principal components ---

DEFAULT_NUM_WORDS = 100
MIN_WORDS, MAX_WORDS = 3, 5000


@dataclass(frozen=True, eq=False)
class WordProjection:
    """Words in a plane.

    points              (n, 2)
    explained_variance  fraction of the total variance per axis
    groups              index of the query word that each word is, or whose neighbor it is
    is_query            which words were requested; all, if they are the most frequent ones
    notes               how out-of-vocabulary words were matched
    """

    words: tuple[str, ...]
    points: np.ndarray
    explained_variance: tuple[float, float]
    counts: tuple[int | None, ...]
    groups: tuple[int, ...]
    is_query: tuple[bool, ...]
    notes: tuple[str, ...]

    @property
    def highlights(self) -> tuple[bool, ...]:
        """Which words to highlight: the requested ones, unless there are no others."""
        return (False,) * len(self.words) if all(self.is_query) else self.is_query

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"explained_variance": [round(ratio, 6) for ratio in self.explained_variance]}
        rows = zip(self.words, self.points.tolist(), self.counts, self.groups, self.is_query, strict=True)
        data["words"] = [
            {"word": word, "x": round(x, 6), "y": round(y, 6), "count": count, "group": group, "asked": is_query}
            for word, (x, y), count, group, is_query in rows
        ]
        return data | {"notes": list(self.notes)}


def project_words(run: Run, words: Sequence[str] = (), *, top: int | None = None, near: int = 0) -> WordProjection:
    """Project these words with the `near` nearest neighbors of each, or the `top` most frequent words.

    Vectors are normalized: norms reflect frequency more than meaning.
    """
    if words and top is not None:
        raise InputError("--top is for when no words are given", hint="leave it out, or add neighbours: --near 10")
    if near and not words:
        raise InputError("--near adds the neighbours of words that are given", hint="name some words, or use --top")
    if near < 0:
        raise InputError(f"--near is {near}", hint="give a number of neighbours, or 0 for none")
    run.require("neighbours")
    return project_lexicon(run.lexicon, words, DEFAULT_NUM_WORDS if top is None else top, near)


def project_lexicon(lexicon: Lexicon, words: Sequence[str], top: int, near: int) -> WordProjection:
    table, counts = lexicon.table, lexicon.table.counts
    if words:
        members = _find_with_neighbors(lexicon, words, near)
    else:
        order = np.arange(len(table.words)) if counts is None else np.argsort(-counts, kind="stable")
        members = [(lexicon.find(table.words[int(row)]), 0, True) for row in order[: min(max(top, 0), MAX_WORDS + 1)]]
    if not MIN_WORDS <= len(members) <= MAX_WORDS:
        message = f"{len(members):,} words do not make a picture"
        raise InputError(message, hint=f"choose from {MIN_WORDS} to {MAX_WORDS:,} words, or add neighbours with --near")
    matches, groups, is_query = zip(*members, strict=True)
    points, explained_variance = pca_plane(unit_rows(np.stack([match.vector for match in matches])))
    notes = lexicon_notes(matches)
    if lexicon.is_onehot:
        notes += (f"where a word lies here means nothing; {ONEHOT_NOTE}",)
    match_counts = (
        int(counts[list(match.rows)].min()) if counts is not None and match.rows else None for match in matches
    )
    texts = tuple(match.text for match in matches)
    return WordProjection(texts, points, explained_variance, tuple(match_counts), groups, is_query, notes)


def pca_plane(vectors: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """(n, 2) first two principal components of (n, D), and the fraction of variance that each explains.

    The sign of a component is chosen so that its largest value is positive, which makes plots reproducible.
    """
    centered = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    u, singular_values, _ = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    for index in range(min(2, len(singular_values))):
        component = u[:, index] * singular_values[index]
        points[:, index] = component * (1 if component[np.abs(component).argmax()] >= 0 else -1)
    total_variance = float((singular_values**2).sum()) or 1.0
    first, second = (*(singular_values[:2] ** 2 / total_variance).tolist(), 0.0)[:2]
    return points, (first, second)


def _find_with_neighbors(lexicon: Lexicon, words: Sequence[str], near: int) -> list[tuple[LexiconMatch, int, bool]]:
    """Words and neighbors without duplicates, each with the index of its first query word and whether it is one."""
    matches = lexicon.find_all(list(dict.fromkeys(words)))
    members = {match.text: (match, query_index, True) for query_index, match in enumerate(matches)}
    for query_index, answer in enumerate(lexicon.neighbors(list(members), near) if near else ()):
        for neighbor in answer.nearest:
            members.setdefault(neighbor.word, (lexicon.find(neighbor.word), query_index, False))
    return list(members.values())
