"""A linear-chain conditional random field over features of words: the labels of a sentence judged together.

The score of a labelling adds up along the sentence: its start, for each word what its features weigh for its label, the
move from each label to the next, its end. Its probability is e^score over the sum of all labellings'. `networks.crf`
and `tasks.chains` have the same definition, with other scores of words. Learned by L-BFGS from all sentences at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from forebear.errors import ForebearError, InputError
from forebear.kernels import crf as kernels
from forebear.statistical.crf_features import (
    NO_FEATURE,
    FeatureIndex,
    WordAttributes,
    default_templates,
    load_index,
    parse_templates,
)
from forebear.statistical.linear import FeatureContribution

# What a chain of labels learns by: −ln of the probability of the right labels, and its exact gradient.
#
# Words are gone through in blocks of whole sentences, several threads at a time, and each number of the gradient is added
# up by one thread, in the order of the words: the bits are the same for any number of threads.


BLOCK = 2048  # words, about, that one thread goes through at a time
GROUP = 16  # blocks whose words are then added to the gradient
CERTAIN, LESS = 0.05, 0.7  # of a count even where one label is all there is; the power of what counts would tell
TINY = 1e-3  # bends at least
DENSE = 3  # features with at least one of so many labels have weights for all: these are added faster


def renumber_by_order(features: np.ndarray, count: int) -> np.ndarray:
    """(count,) a new number for each feature: in the order in which words (N, T) first have them.

    What a word has is then found in one place, and a feature that occurs once beside others of the same word.
    """
    flat = features.ravel()
    there = np.flatnonzero(flat != NO_FEATURE)[::-1]
    first = np.full(count, len(flat), np.int64)
    first[flat[there]] = there  # of several the last that is written is the first that stands there
    numbers = np.empty(count, np.int32)
    numbers[np.argsort(first, kind="stable")] = np.arange(count, dtype=np.int32)
    return numbers


@dataclass(frozen=True, eq=False)
class FeatureLabelPairs:
    """Which features weigh on which labels: those that stood together in training.

    offsets  (F + 1,) where the weights of each feature begin
    labels   (P,) the label of each weight
    learned  (P,) whether it may be anything but 0: a feature with weights for all labels has more than it learns
    """

    offsets: np.ndarray
    labels: np.ndarray
    fit: np.ndarray

    @classmethod
    def contains(cls, features: np.ndarray, right: np.ndarray, count: int, labels: int) -> FeatureLabelPairs:
        """From the features (N, T) of words and their labels (N,); of `count` features and so many labels."""
        width = kernels.padded_labels(labels)
        keys = [np.empty(0, np.int64)]
        for column in features.T:
            there = column != NO_FEATURE
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
class CRFProblem:
    """Sentences with their right labels, as numbers of features.

    features (N, T), lengths of sentences, right (N,) labels; legal (K, K), (K,), (K,): which moves, starts, ends may be
    l2  what Σ weight² counts besides
    """

    features: np.ndarray
    lengths: np.ndarray
    gold_labels: np.ndarray
    pairs: FeatureLabelPairs
    transitions: tuple[np.ndarray, np.ndarray, np.ndarray]
    l2: float = 0.0
    threads: int = 1

    @property
    def labels(self) -> int:
        return len(self.transitions[1])

    @property
    def size(self) -> int:
        """Of a point: weights of pairs, then of moves, starts and ends."""
        return self.pairs.size + self.labels * (self.labels + 2)

    @cached_property
    def pair_count(self) -> np.ndarray:
        """(size,) which numbers of a point may be anything but 0: what never was, or may not be, weighs nothing."""
        firsts, lasts = self._edges
        seen = [np.isin(np.arange(self.labels), self.gold_labels[ends]) for ends in (firsts, lasts)]
        moves, start, end = self.transitions
        return np.concatenate((self.pairs.fit, moves.ravel(), start & seen[0], end & seen[1]))

    @cached_property
    def curvature(self) -> np.ndarray:
        """(size,) about how much the gradient bends along each number of a point.

        Were labels drawn by how often each stands with a feature, the bend would be the variance of their count. Words
        have many features that say the same, and so it is less: a power of it was found by trying.
        """
        often = np.zeros(self.pairs.size)
        given = self.features, self.pairs.offsets, self.pairs.labels
        for first, last, _ in self._blocks:
            there = np.zeros((last - first, kernels.padded_labels(self.labels)))
            there[np.arange(last - first), self.gold_labels[first:last]] = 1
            kernels.emission_gradient(*given, there, first, last, 0, self.features.shape[1], often)
        sizes = np.diff(self.pairs.offsets)
        total = np.bincount(self.features[self.features != NO_FEATURE], minlength=len(sizes))
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
        after = np.ones(len(self.gold_labels), bool)
        after[firsts] = False
        here = np.flatnonzero(after)
        pair = self.gold_labels[here - 1] * self.labels + self.gold_labels[here]
        moves = np.bincount(pair, minlength=self.labels**2)
        edges = (np.bincount(self.gold_labels[ends], minlength=self.labels) for ends in (firsts, lasts))
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

    def objective(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """The cost at a point, and its gradient."""
        powers = self._powers(point)
        gradient = np.zeros(self.size)
        of_pairs = gradient[: self.pairs.size]
        cost, width = 0.0, kernels.padded_labels(self.labels)
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
        gradient[~self.pair_count] = 0.0
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
        return powers(*unpack_transitions(point[self.pairs.size :], self.labels), self.transitions)

    def _gone_through(self, point: np.ndarray, powers: Any, block: tuple[int, int, np.ndarray]) -> Any:
        first, last, lengths = block
        width = kernels.padded_labels(self.labels)
        scores, right = np.empty((last - first, width)), self.gold_labels[first:last]
        kernels.emission_scores(self.features, self.pairs.offsets, self.pairs.labels, point, first, last, scores)
        reached = float(scores[np.arange(last - first), right].sum())
        room = np.empty(width)
        levels = kernels.exponentials(scores, self.labels, room, room.view(np.int64))
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        cost = kernels.forward_backward(scores, lengths, powers, right, expected, edges)
        return cost + float(levels.sum()) - reached, expected, edges, scores

    def _added(self, blocks: Any, done: Any, gradient: np.ndarray, first: int, last: int) -> None:
        for (begin, end, _), (_, _, _, surplus) in zip(blocks, done, strict=True):
            kernels.emission_gradient(
                self.features, self.pairs.offsets, self.pairs.labels, surplus, begin, end, first, last, gradient
            )


def unpack_transitions(numbers: np.ndarray, labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moves (K, K), starts (K,) and ends (K,), of the numbers behind the weights of pairs."""
    square = labels * labels
    return numbers[:square].reshape(labels, labels), numbers[square : square + labels], numbers[square + labels :]


def powers(
    moves: np.ndarray, start: np.ndarray, end: np.ndarray, legal: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """e^ of each, 0 where it may not be and for the labels that are too many."""
    width, labels = kernels.padded_labels(len(start)), len(start)
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


Legal = tuple[np.ndarray, np.ndarray, np.ndarray]
AGAIN = "train it again"
ALONE = 0.98  # of the words have one character, where characters are labelled
NOTHING = -1  # asks for nothing


@dataclass(eq=False)
class CRFModel:
    """What was learned, and how features are made.

    written    how words are written
    legal      (K, K), (K,), (K,) which labels may follow which, begin and end
    templates  what is looked at; "": what suits words, or characters
    min_count  how often a feature must occur
    l1 l2      what Σ |weight| and Σ weight² count beside the cost
    """

    written: WordAttributes
    legal: Legal
    templates: str = ""
    min_count: int = 1
    l1: float = 0.0
    l2: float = 1.0
    index: FeatureIndex | None = None
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint16))
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    moves: Legal | None = None
    numbers: np.ndarray | None = None  # of the index's features while they are learned

    kind = "tag"
    heads = ("tag",)

    @property
    def num_labels(self) -> int:
        return len(self.legal[1])

    @property
    def num_parameters(self) -> int:
        """Weights that are not 0, and those of moves, starts and ends."""
        return int(np.count_nonzero(self.weights)) + sum(one.size for one in self._settled()[1])

    # -- learning

    def make_problem(self, inputs: Mapping[str, np.ndarray], right: np.ndarray, threads: int = 1) -> CRFProblem:
        """The features of these sentences and what is to be learned from them; words that ask for nothing are no part
        of their chain, but their neighbours see them."""
        tokens, lengths = _rows(inputs)
        asked = right != NOTHING
        if not asked.any():
            raise InputError("no word has a tag", hint="give words with their tags")
        index, features = FeatureIndex.fit(
            parse_templates(self.templates or self._usual(tokens)), self.written, tokens, lengths, self.min_count
        )
        if not index.size:
            raise InputError(f"no feature occurs {self.min_count} times", hint="give more examples, or --min-count 1")
        row = np.repeat(np.arange(len(lengths)), lengths)
        kept = np.bincount(row[asked], minlength=len(lengths)).astype(np.int64)
        features, right = np.ascontiguousarray(features[asked]), right[asked].astype(np.int64)
        self.numbers = renumber_by_order(features, index.size)
        features = np.where(features == NO_FEATURE, NO_FEATURE, self.numbers[features])
        pairs = FeatureLabelPairs.contains(features, right, index.size, self.num_labels)
        self.index, self.offsets, self.labels = index, pairs.offsets, pairs.labels
        return CRFProblem(features, kept, right, pairs, self.legal, self.l2, threads)

    def set_weights(self, point: np.ndarray) -> None:
        """What was learned so far, in the form of its problem's points."""
        self.weights = point[: len(self.labels)]
        self.moves = unpack_transitions(point[len(self.labels) :], self.num_labels)

    def _usual(self, tokens: np.ndarray) -> str:
        table, rows = self.written.attribute_rows(tokens)
        of_two = table[rows, 3]  # prefix2, which a single character does not have
        return default_templates(characters=bool((of_two == NO_FEATURE).mean() >= ALONE))

    # -- what it says

    def logits(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """tag (T, K): what the features of each word weigh for each label; `moves` says the rest."""
        index, _ = self._settled()
        tokens, lengths = _rows(inputs)
        features = self._numbered(index.lookup(self.written, tokens, lengths))
        scores = np.empty((len(tokens), kernels.padded_labels(self.num_labels)))
        kernels.emission_scores(features, self.offsets, self.labels, self.weights, 0, len(tokens), scores)
        return {"tag": scores[:, : self.num_labels]}

    def feature_weights(
        self, inputs: Mapping[str, np.ndarray], number: int = 0, *, head: str = "", answer: int | None = None
    ) -> list[FeatureContribution]:
        """Which features add how much to the score of a label, above what they add to all labels, for the word of this
        number; the weightiest first."""
        index, _ = self._settled()
        tokens, lengths = _rows(inputs)
        features = index.lookup(self.written, tokens, lengths)[number]
        shares = []
        for feature in features[features != NO_FEATURE].tolist():
            number = feature if self.numbers is None else int(self.numbers[feature])
            here = slice(self.offsets[number], self.offsets[number + 1])
            each = np.zeros(kernels.padded_labels(self.num_labels))
            each[self.labels[here]] = self.weights[here]
            each = each[: self.num_labels]
            which = int(np.argmax(each)) if answer is None else answer
            if value := float(each[which] - each.mean()):
                template, parts = index.feature(feature, self.written)
                shown = "+".join(text or "outside" for _, text in parts)
                shares.append(
                    FeatureContribution((), f"{template} = {shown}", value, tuple(place for place, _ in parts))
                )
        return sorted(shares, key=lambda share: (-abs(share.value), share.field))

    def _numbered(self, features: np.ndarray) -> np.ndarray:
        return (
            features if self.numbers is None else np.where(features == NO_FEATURE, NO_FEATURE, self.numbers[features])
        )

    def _settled(self) -> tuple[FeatureIndex, Legal]:
        if self.index is None or self.moves is None:
            raise ForebearError("this chain of labels has learned nothing yet", hint="train it, or load what was")
        return self.index, self.moves

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state, without weights that are 0 and features that have no others."""
        index, moves = self._settled()
        numbers = np.arange(index.size) if self.numbers is None else self.numbers
        sizes = np.diff(self.offsets)[numbers]
        place = np.repeat(self.offsets[numbers] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        weights, labels = self.weights[place], self.labels[place]  # in the order of the index
        kept = weights != 0
        counts = np.bincount(np.repeat(np.arange(index.size), sizes)[kept], minlength=index.size)
        there = counts > 0
        keys = np.split(there, index.firsts[1:-1])
        small = FeatureIndex(index.templates, tuple(one[own] for one, own in zip(index.keys, keys, strict=True)))
        between, start, end = (one.astype(np.float32) for one in moves)
        return small.arrays() | {
            "offsets": np.concatenate(([0], np.cumsum(counts[there]))).astype(np.int64),
            "labels": labels[kept],
            "weights": weights[kept].astype(np.float32),
            "moves": between,
            "start": start,
            "end": end,
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; what is missing or misshapen is refused by its name."""
        count = self.num_labels
        shapes: dict[str, Any] = {"moves": (count, count), "start": (count,), "end": (count,)}
        wanted = {"templates", "keys", "firsts", "offsets", "labels", "weights", *shapes}
        for what, odd in (("lacks", wanted - set(arrays)), ("has, but should not,", set(arrays) - wanted)):
            if odd:
                raise ForebearError(f"the state of a chain of labels {what} {sorted(odd)}", hint=AGAIN)
        templates = parse_templates(arrays["templates"].tobytes().decode("utf-8", "replace"))
        index, offsets = load_index(dict(arrays), templates), arrays["offsets"]
        shapes |= {"weights": (len(arrays["labels"]),)}
        for name, shape in shapes.items():
            array = arrays[name]
            if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
                what = f"the array {name!r} of the chain of labels holds {array.dtype} {list(array.shape)}"
                raise ForebearError(f"{what} instead of finite float32 {list(shape)}", hint=AGAIN)
        labels = arrays["labels"]
        orderly = offsets.shape == (index.size + 1,) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        if not orderly or offsets[-1] != len(labels) or (len(labels) and not 0 <= labels.min() <= labels.max() < count):
            raise ForebearError("the weights of this chain of labels are damaged", hint=AGAIN)
        self.index, self.offsets, self.labels = index, offsets.astype(np.int64), labels.astype(np.uint16)
        self.weights = arrays["weights"].astype(np.float64)
        between, start, end = (arrays[name].astype(np.float64) for name in ("moves", "start", "end"))
        self.moves, self.numbers = (between, start, end), None


def _rows(inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    tokens, lengths = np.asarray(inputs["tokens"]), np.asarray(inputs["lengths"], np.int64)
    if lengths.sum() != len(tokens) or (lengths < 0).any():
        raise ForebearError(f"rows of {int(lengths.sum()):,} words in all, but there are {len(tokens):,}")
    return tokens, lengths
