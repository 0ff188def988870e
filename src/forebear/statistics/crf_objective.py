"""What a chain of labels learns by: −ln of the probability of the right labels, and its exact gradient.

Words are gone through in blocks of whole sentences, several threads at a time, and each number of the gradient is added
up by one thread, in the order of the words: the bits are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from forebear.kernels import crf as kernels
from forebear.statistics.crf_features import NONE

BLOCK = 2048  # words, about, that one thread goes through at a time
GROUP = 16  # blocks whose words are then added to the gradient
CERTAIN, LESS = 0.05, 0.7  # of a count even where one label is all there is; the power of what counts would tell
TINY = 1e-3  # bends at least
DENSE = 3  # features with at least one of so many labels have weights for all: these are added faster


def as_they_come(features: np.ndarray, count: int) -> np.ndarray:
    """(count,) a new number for each feature: in the order in which words (N, T) first have them.

    What a word has is then found in one place, and a feature that occurs once beside others of the same word.
    """
    flat = features.ravel()
    there = np.flatnonzero(flat != NONE)[::-1]
    first = np.full(count, len(flat), np.int64)
    first[flat[there]] = there  # of several the last that is written is the first that stands there
    numbers = np.empty(count, np.int32)
    numbers[np.argsort(first, kind="stable")] = np.arange(count, dtype=np.int32)
    return numbers


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which features weigh on which labels: those that stood together in training.

    offsets  (F + 1,) where the weights of each feature begin
    labels   (P,) the label of each weight
    learned  (P,) whether it may be anything but 0: a feature with weights for all labels has more than it learns
    """

    offsets: np.ndarray
    labels: np.ndarray
    learned: np.ndarray

    @classmethod
    def seen(cls, features: np.ndarray, right: np.ndarray, count: int, labels: int) -> Pairs:
        """From the features (N, T) of words and their labels (N,); of `count` features and so many labels."""
        width = kernels.padded(labels)
        keys = [np.empty(0, np.int64)]
        for column in features.T:
            there = column != NONE
            keys.append(np.unique(column[there].astype(np.int64) * width + right[there]))
        every = np.sort(np.concatenate(keys))
        feature, label = every // width, every % width
        counts = np.bincount(feature, minlength=count)
        dense = counts * DENSE >= width
        sizes = np.where(dense, width, counts)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        made, learned = np.empty(offsets[-1], np.uint16), np.zeros(offsets[-1], bool)
        rank = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts)
        place = offsets[feature] + np.where(dense[feature], label, rank)
        made[place], learned[place] = label, True
        full = np.flatnonzero(dense)
        made[(offsets[full, None] + np.arange(width)).ravel()] = np.tile(np.arange(width), len(full))
        return cls(offsets, made, learned)

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Problem:
    """Sentences with their right labels, as numbers of features.

    features (N, T), lengths of sentences, right (N,) labels; legal (K, K), (K,), (K,): which moves, starts, ends may be
    l2  what Σ weight² counts besides
    """

    features: np.ndarray
    lengths: np.ndarray
    right: np.ndarray
    pairs: Pairs
    legal: tuple[np.ndarray, np.ndarray, np.ndarray]
    l2: float = 0.0
    threads: int = 1

    @property
    def labels(self) -> int:
        return len(self.legal[1])

    @property
    def size(self) -> int:
        """Of a point: weights of pairs, then of moves, starts and ends."""
        return self.pairs.size + self.labels * (self.labels + 2)

    @cached_property
    def learned(self) -> np.ndarray:
        """(size,) which numbers of a point may be anything but 0: what never was, or may not be, weighs nothing."""
        firsts, lasts = self._edges
        seen = [np.isin(np.arange(self.labels), self.right[ends]) for ends in (firsts, lasts)]
        moves, start, end = self.legal
        return np.concatenate((self.pairs.learned, moves.ravel(), start & seen[0], end & seen[1]))

    @cached_property
    def curvature(self) -> np.ndarray:
        """(size,) about how much the gradient bends along each number of a point.

        Were labels drawn by how often each stands with a feature, the bend would be the variance of their count. Words
        have many features that say the same, and so it is less: a power of it was found by trying.
        """
        often = np.zeros(self.pairs.size)
        given = self.features, self.pairs.offsets, self.pairs.labels
        for first, last, _ in self._blocks:
            there = np.zeros((last - first, kernels.padded(self.labels)))
            there[np.arange(last - first), self.right[first:last]] = 1
            kernels.gradient(*given, there, first, last, 0, self.features.shape[1], often)
        sizes = np.diff(self.pairs.offsets)
        total = np.bincount(self.features[self.features != NONE], minlength=len(sizes))
        share = often / np.maximum(1, np.repeat(total, sizes))
        bend = np.concatenate((often * (1 - share + CERTAIN), self._there))
        return np.maximum(2 * self.l2 + bend**LESS, TINY)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last word of each sentence that has any."""
        sizes = self.lengths[self.lengths > 0]
        return np.cumsum(sizes) - sizes, np.cumsum(sizes) - 1

    @cached_property
    def _there(self) -> np.ndarray:
        """What of a point the right labels have: moves, starts and ends, as often as they occur."""
        firsts, lasts = self._edges
        after = np.ones(len(self.right), bool)
        after[firsts] = False
        here = np.flatnonzero(after)
        pair = self.right[here - 1] * self.labels + self.right[here]
        moves = np.bincount(pair, minlength=self.labels**2)
        edges = (np.bincount(self.right[ends], minlength=self.labels) for ends in (firsts, lasts))
        return np.concatenate((moves, *edges)).astype(np.float64)

    @cached_property
    def _blocks(self) -> list[tuple[int, int, np.ndarray]]:
        """(first word, last + 1, lengths) of each block of whole sentences."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        made, first = [], 0
        while first < len(self.lengths):
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + BLOCK, side="right")) - 1)
            made.append((int(ends[first]), int(ends[last]), np.asarray(self.lengths[first:last], np.int64)))
            first = last
        return [one for one in made if one[0] < one[1]]

    def value(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost at a point, and its gradient."""
        powers = self._powers(point)
        gradient = np.zeros(self.size)
        of_pairs = gradient[: self.pairs.size]
        cost, width = 0.0, kernels.padded(self.labels)
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        with _shared(self.threads) as run:
            for at in range(0, len(self._blocks), GROUP):
                some = self._blocks[at : at + GROUP]
                done = run([partial(self._gone_through, point, powers, block) for block in some])
                for loss, moves, ends, _ in done:
                    cost, expected, edges = cost + loss, expected + moves, edges + ends
                run([partial(self._added, some, done, of_pairs, *part) for part in self._parts])
        here = slice(0, self.labels)
        moved = (expected * powers[0])[here, here].ravel()
        gradient[self.pairs.size :] = np.concatenate((moved, edges[0, here], edges[1, here])) - self._there
        cost -= float(np.einsum("i,i->", point[self.pairs.size :], self._there))
        gradient[~self.learned] = 0.0
        if self.l2:
            cost += self.l2 * float(np.einsum("i,i->", point, point))
            gradient += 2 * self.l2 * point
        return cost, gradient

    @cached_property
    def _parts(self) -> list[tuple[int, int]]:
        """Templates, shared out among threads."""
        cuts = np.linspace(0, self.features.shape[1], min(self.threads, self.features.shape[1]) + 1).astype(int)
        return list(pairwise(cuts.tolist()))

    def _powers(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """e^move, e^start and e^end, 0 where they may not be, with room for more labels."""
        return powers(*unfolded(point[self.pairs.size :], self.labels), self.legal)

    def _gone_through(self, point: np.ndarray, powers: Any, block: tuple[int, int, np.ndarray]) -> Any:
        first, last, lengths = block
        width = kernels.padded(self.labels)
        scores, right = np.empty((last - first, width)), self.right[first:last]
        kernels.scored(self.features, self.pairs.offsets, self.pairs.labels, point, first, last, scores)
        reached = float(scores[np.arange(last - first), right].sum())
        room = np.empty(width)
        levels = kernels.exponentials(scores, self.labels, room, room.view(np.int64))
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        cost = kernels.chains(scores, lengths, powers, right, expected, edges)
        return cost + float(levels.sum()) - reached, expected, edges, scores

    def _added(self, blocks: Any, done: Any, gradient: np.ndarray, first: int, last: int) -> None:
        for (begin, end, _), (_, _, _, surplus) in zip(blocks, done, strict=True):
            kernels.gradient(
                self.features, self.pairs.offsets, self.pairs.labels, surplus, begin, end, first, last, gradient
            )


def unfolded(numbers: np.ndarray, labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moves (K, K), starts (K,) and ends (K,), of the numbers behind the weights of pairs."""
    square = labels * labels
    return numbers[:square].reshape(labels, labels), numbers[square : square + labels], numbers[square + labels :]


def powers(
    moves: np.ndarray, start: np.ndarray, end: np.ndarray, legal: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """e^ of each, 0 where it may not be and for the labels that are too many."""
    width, labels = kernels.padded(len(start)), len(start)
    made = np.zeros((width, width)), np.zeros(width), np.zeros(width)
    with np.errstate(over="ignore"):  # a step may go too far: then the cost is no number, and it is made shorter
        made[0][:labels, :labels] = np.where(legal[0], np.exp(moves), 0.0)
        made[1][:labels], made[2][:labels] = np.where(legal[1], np.exp(start), 0), np.where(legal[2], np.exp(end), 0)
    return made


@contextmanager
def _shared(threads: int) -> Iterator[Callable[[list[Callable[[], Any]]], list[Any]]]:
    """Does all of some things, by so many threads, and gives back what they gave, in order."""
    if threads == 1:
        yield lambda jobs: [job() for job in jobs]
        return
    with ThreadPoolExecutor(threads) as pool:
        yield lambda jobs: list(pool.map(lambda job: job(), jobs))
