"""Linear-chain conditional random field over word features.

The score of a label sequence is the sum of its start, the emission score of each word, the transitions between labels,
and its end. Its probability is e^score over the sum for all sequences. `nn/crf.py` and `tasks/tagging.py` use the same
definition with other emission scores. Trained with L-BFGS on all sentences at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from forebear.errors import ForebearError, InputError
from forebear.kernels import crf as kernels
from forebear.numerics import require_finite, require_names
from forebear.statistical.crf_features import (
    ATTRIBUTES,
    CHARACTER_TEMPLATES,
    NO_FEATURE,
    WORD_TEMPLATES,
    FeatureIndex,
    WordAttributes,
    load_index,
    parse_templates,
)
from forebear.statistical.linear import FeatureContribution
from forebear.statistical.linear_features import row_chunks

# --- Objective: -ln P of the gold labels, and its gradient ---
# Threads work on blocks of complete sentences. Each component of the gradient is summed by one thread in word order, so
# the result is bit-equal for any number of threads.


TransitionArrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # transitions (K, K), starts (K,), ends (K,)
WORDS_PER_BLOCK = 2048  # approximate words that a thread processes at a time
BLOCKS_PER_GROUP = 16  # blocks whose words are then added to the gradient
# Curvature of a feature with one label, relative to its count; and exponent of the estimated curvature.
CERTAIN_CURVATURE, CURVATURE_POWER = 0.05, 0.7
MIN_CURVATURE = 1e-3
DENSE_RATIO = 3  # features with at least a third of the labels have weights for all labels, which is faster


def renumber_by_order(features: np.ndarray, num_features: int) -> np.ndarray:
    """(num_features,) a new id for each feature, in order of first occurrence in the words (N, T).

    The features of a word are then close together in memory.
    """
    flat = features.ravel()
    positions = np.flatnonzero(flat != NO_FEATURE)[::-1]
    first = np.full(num_features, len(flat), np.int64)
    first[flat[positions]] = positions  # of repeated indices, the last write is kept: the first occurrence
    new_ids = np.empty(num_features, np.int32)
    new_ids[np.argsort(first, kind="stable")] = np.arange(num_features, dtype=np.int32)
    return new_ids


@dataclass(frozen=True, eq=False)
class FeatureLabelPairs:
    """Which features have weights for which labels: those that occur together in training.

    offsets       (F + 1,) where the weights of each feature begin
    labels        (P,) the label of each weight
    is_trainable  (P,) whether it is trained: a dense feature has weights for all labels, some of which stay 0
    """

    offsets: np.ndarray
    labels: np.ndarray
    is_trainable: np.ndarray

    @classmethod
    def from_examples(
        cls, features: np.ndarray, gold_labels: np.ndarray, num_features: int, num_labels: int
    ) -> FeatureLabelPairs:
        """From the features (N, T) of words and their labels (N,), with `num_features` features in all."""
        width = kernels.padded_labels(num_labels)
        keys = []
        for column in features.T:
            has_feature = column != NO_FEATURE
            keys.append(np.unique(column[has_feature].astype(np.int64) * width + gold_labels[has_feature]))
        feature, label = np.divmod(np.sort(np.concatenate(keys)), width)
        counts = np.bincount(feature, minlength=num_features)
        is_dense = counts * DENSE_RATIO >= width
        sizes = np.where(is_dense, width, counts)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        pair_labels, is_trainable = np.empty(offsets[-1], np.uint16), np.zeros(offsets[-1], bool)
        rank = np.arange(len(feature)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = offsets[feature] + np.where(is_dense[feature], label, rank)
        pair_labels[slots], is_trainable[slots] = label, True
        dense_features = np.flatnonzero(is_dense)
        pair_labels[(offsets[dense_features, None] + np.arange(width)).ravel()] = np.tile(
            np.arange(width), len(dense_features)
        )
        return cls(offsets, pair_labels, is_trainable)

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class CRFProblem:
    """The training objective: sentences with gold labels, as feature ids.

    features     (N, T)
    lengths      of the sentences
    gold_labels  (N,)
    transitions  which transitions, starts and ends are allowed
    l2           weight of Σ weight²
    """

    features: np.ndarray
    lengths: np.ndarray
    gold_labels: np.ndarray
    pairs: FeatureLabelPairs
    transitions: TransitionArrays
    l2: float = 0.0
    threads: int = 1

    @property
    def num_labels(self) -> int:
        return len(self.transitions[1])

    @property
    def size(self) -> int:
        """Length of a point: emission weights, then transitions, starts and ends."""
        return self.pairs.size + self.num_labels * (self.num_labels + 2)

    @cached_property
    def is_free(self) -> np.ndarray:
        """(size,) which components of a point are trained: those that occur and are allowed."""
        firsts, lasts = self._edges
        is_observed = [np.isin(np.arange(self.num_labels), self.gold_labels[ends]) for ends in (firsts, lasts)]
        transitions, start, end = self.transitions
        return np.concatenate(
            (self.pairs.is_trainable, transitions.ravel(), start & is_observed[0], end & is_observed[1])
        )

    @cached_property
    def curvature(self) -> np.ndarray:
        """(size,) estimated curvature along each component.

        If labels were sampled by their frequency given each feature, the curvature would be the variance of their
        count. The features of a word are correlated, so it is smaller: an empirical power of the variance.
        """
        counts = np.zeros(self.pairs.size)
        for first, last, _ in self._blocks:
            one_hot = np.zeros((last - first, kernels.padded_labels(self.num_labels)))
            one_hot[np.arange(last - first), self.gold_labels[first:last]] = 1
            self._add_gradients([(first, last, one_hot)], counts, (0, self.features.shape[1]))
        sizes = np.diff(self.pairs.offsets)
        total = np.bincount(self.features[self.features != NO_FEATURE], minlength=len(sizes))
        fraction = counts / np.maximum(1, np.repeat(total, sizes))
        curvature = np.concatenate((counts * (1 - fraction + CERTAIN_CURVATURE), self._observed_transitions))
        return np.maximum(2 * self.l2 + curvature**CURVATURE_POWER, MIN_CURVATURE)

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the first and the last word of each non-empty sentence."""
        sizes = self.lengths[self.lengths > 0]
        return np.cumsum(sizes) - sizes, np.cumsum(sizes) - 1

    @cached_property
    def _observed_transitions(self) -> np.ndarray:
        """Observed counts of transitions, starts and ends."""
        firsts, lasts = self._edges
        has_previous = np.ones(len(self.gold_labels), bool)
        has_previous[firsts] = False
        positions = np.flatnonzero(has_previous)
        pair = self.gold_labels[positions - 1] * self.num_labels + self.gold_labels[positions]
        transition_counts = np.bincount(pair, minlength=self.num_labels**2)
        edges = (np.bincount(self.gold_labels[ends], minlength=self.num_labels) for ends in (firsts, lasts))
        return np.concatenate((transition_counts, *edges)).astype(np.float64)

    @cached_property
    def _blocks(self) -> list[tuple[int, int, np.ndarray]]:
        """(first word, last + 1, lengths) of each block of complete sentences."""
        blocks = [
            (words.start, words.stop, np.asarray(self.lengths[rows], np.int64))
            for rows, words in row_chunks(self.lengths, WORDS_PER_BLOCK)
        ]
        return [block for block in blocks if block[0] < block[1]]

    def objective(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective at a point, and its gradient."""
        exp_scores = exp_transitions(unpack_transitions(point[self.pairs.size :], self.num_labels), self.transitions)
        gradient = np.zeros(self.size)
        pair_gradient = gradient[: self.pairs.size]
        cost, width = 0.0, kernels.padded_labels(self.num_labels)
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        with ThreadPoolExecutor(self.threads) as pool:
            map_blocks = map if self.threads == 1 else pool.map
            for start in range(0, len(self._blocks), BLOCKS_PER_GROUP):
                blocks = self._blocks[start : start + BLOCKS_PER_GROUP]
                results = list(map_blocks(partial(self._process_block, point, exp_scores), blocks))
                for loss, transition_counts, ends, _ in results:
                    cost, expected, edges = cost + loss, expected + transition_counts, edges + ends
                residuals = [(first, last, result[3]) for (first, last, _), result in zip(blocks, results, strict=True)]
                list(map_blocks(partial(self._add_gradients, residuals, pair_gradient), self._template_ranges))
        real_labels = slice(0, self.num_labels)
        expected_transitions = (expected * exp_scores[0])[real_labels, real_labels].ravel()
        gradient[self.pairs.size :] = (
            np.concatenate((expected_transitions, edges[0, real_labels], edges[1, real_labels]))
            - self._observed_transitions
        )
        cost -= float(np.einsum("i,i->", point[self.pairs.size :], self._observed_transitions))
        gradient[~self.is_free] = 0.0
        if self.l2:
            cost += self.l2 * float(np.einsum("i,i->", point, point))
            gradient += 2 * self.l2 * point
        return cost, gradient

    @cached_property
    def _template_ranges(self) -> list[tuple[int, int]]:
        """Ranges of templates, one per thread."""
        bounds = np.linspace(0, self.features.shape[1], min(self.threads, self.features.shape[1]) + 1).astype(int)
        return list(pairwise(bounds.tolist()))

    def _process_block(
        self, point: np.ndarray, exp_scores: TransitionArrays, block: tuple[int, int, np.ndarray]
    ) -> Any:
        """The cost of a block, its expected transitions and edges, and the gradient of its scores."""
        first, last, lengths = block
        width = kernels.padded_labels(self.num_labels)
        scores, gold_labels = np.empty((last - first, width)), self.gold_labels[first:last]
        kernels.emission_scores_kernel(self.features, self.pairs.offsets, self.pairs.labels, point, first, last, scores)
        gold_score = float(scores[np.arange(last - first), gold_labels].sum())
        buffer = np.empty(width)
        maxima = kernels.exponentials(scores, self.num_labels, buffer, buffer.view(np.int64))
        expected, edges = np.zeros((width, width)), np.zeros((2, width))
        cost = kernels.forward_backward(scores, lengths, exp_scores, gold_labels, expected, edges)
        return cost + float(maxima.sum()) - gold_score, expected, edges, scores

    def _add_gradients(
        self, residuals: list[tuple[int, int, np.ndarray]], gradient: np.ndarray, templates: tuple[int, int]
    ) -> None:
        """Add the gradients of the scores of blocks (first word, last + 1, gradient) to those of their features."""
        args = self.features, self.pairs.offsets, self.pairs.labels
        for first, last, block_residuals in residuals:
            kernels.add_emission_gradient(*args, block_residuals, first, last, *templates, gradient)


def unpack_transitions(flat: np.ndarray, num_labels: int) -> TransitionArrays:
    """Transitions, starts and ends from a flat array."""
    square = num_labels * num_labels
    return (
        flat[:square].reshape(num_labels, num_labels),
        flat[square : square + num_labels],
        flat[square + num_labels :],
    )


def exp_transitions(transitions: TransitionArrays, is_allowed: TransitionArrays) -> TransitionArrays:
    """e^ of each, 0 where it is not allowed and for padding labels."""
    padding = kernels.padded_labels(len(transitions[1])) - len(transitions[1])
    with np.errstate(over="ignore"):  # after too long a step: the cost is infinite, and the line search shortens it
        transition_powers, start, end = (
            np.pad(np.where(allowed, np.exp(scores), 0.0), (0, padding))
            for scores, allowed in zip(transitions, is_allowed, strict=True)
        )
    return transition_powers, start, end


# --- The model ---

RETRY_HINT = "train it again"
MIN_CHARACTER_RATE = 0.98  # minimum fraction of one-character words for which character templates are the default
NO_TARGET = -1


@dataclass(eq=False)
class CRFModel:
    """A trained CRF tagger and its features.

    attributes  of words
    allowed     which labels may follow each other, start and end a sentence
    templates   feature templates; "": defaults for words or characters
    min_count   how often a feature must occur
    l1, l2      regularization: weights of Σ |weight| and Σ weight²
    """

    attributes: WordAttributes
    allowed: TransitionArrays
    templates: str = ""
    min_count: int = 1
    l1: float = 0.0
    l2: float = 1.0
    index: FeatureIndex | None = None
    offsets: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint16))
    weights: np.ndarray = field(default_factory=lambda: np.empty(0))
    transitions: TransitionArrays | None = None
    new_ids: np.ndarray | None = None  # of the index's features while they are learned

    kind = "tag"
    heads = ("tag",)

    @property
    def num_labels(self) -> int:
        return len(self.allowed[1])

    @property
    def num_parameters(self) -> int:
        """Nonzero emission weights, and all transitions, starts and ends."""
        return int(np.count_nonzero(self.weights)) + sum(array.size for array in self._require_trained()[1])

    # -- training

    def make_problem(self, inputs: Mapping[str, np.ndarray], gold_labels: np.ndarray, threads: int = 1) -> CRFProblem:
        """The training objective; words without a target are only features of their neighbors."""
        tokens, lengths = _rows(inputs)
        is_target = gold_labels != NO_TARGET
        if not is_target.any():
            raise InputError("no word has a tag", hint="give words with their tags")
        templates = self.templates
        if not templates:
            table, rows = self.attributes.attribute_rows(tokens)
            is_character = table[rows, ATTRIBUTES.index("prefix2")] == NO_FEATURE
            templates = CHARACTER_TEMPLATES if is_character.mean() >= MIN_CHARACTER_RATE else WORD_TEMPLATES
        index, features = FeatureIndex.fit(parse_templates(templates), self.attributes, tokens, lengths, self.min_count)
        if not index.size:
            raise InputError(f"no feature occurs {self.min_count} times", hint="give more examples, or --min-count 1")
        row = np.repeat(np.arange(len(lengths)), lengths)
        target_lengths = np.bincount(row[is_target], minlength=len(lengths)).astype(np.int64)
        features, gold_labels = np.ascontiguousarray(features[is_target]), gold_labels[is_target].astype(np.int64)
        self.new_ids = renumber_by_order(features, index.size)
        features = self._renumber(features)
        pairs = FeatureLabelPairs.from_examples(features, gold_labels, index.size, self.num_labels)
        self.index, self.offsets, self.labels = index, pairs.offsets, pairs.labels
        return CRFProblem(features, target_lengths, gold_labels, pairs, self.allowed, self.l2, threads)

    def set_weights(self, point: np.ndarray) -> None:
        """Set the parameters from a point of the optimizer."""
        self.weights = point[: len(self.labels)]
        self.transitions = unpack_transitions(point[len(self.labels) :], self.num_labels)

    # -- prediction

    def logits(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """tag (T, K): emission scores; `transitions` has the transitions."""
        index, _ = self._require_trained()
        tokens, lengths = _rows(inputs)
        features = self._renumber(index.lookup(self.attributes, tokens, lengths))
        scores = np.empty((len(tokens), kernels.padded_labels(self.num_labels)))
        kernels.emission_scores_kernel(features, self.offsets, self.labels, self.weights, 0, len(tokens), scores)
        return {"tag": scores[:, : self.num_labels]}

    def feature_contributions(
        self, inputs: Mapping[str, np.ndarray], number: int = 0, *, head: str = "", answer: int | None = None
    ) -> list[FeatureContribution]:
        """Contribution of each feature to the score of a label, relative to its mean over labels, the largest first."""
        index, _ = self._require_trained()
        tokens, lengths = _rows(inputs)
        features = index.lookup(self.attributes, tokens, lengths)[number]
        features = features[features != NO_FEATURE]
        contributions = []
        for feature, new_id in zip(features.tolist(), self._renumber(features).tolist(), strict=True):
            span = slice(self.offsets[new_id], self.offsets[new_id + 1])
            label_weights = np.zeros(kernels.padded_labels(self.num_labels))
            label_weights[self.labels[span]] = self.weights[span]
            label_weights = label_weights[: self.num_labels]
            label = int(np.argmax(label_weights)) if answer is None else answer
            if value := float(label_weights[label] - label_weights.mean()):
                template, parts = index.feature(feature, self.attributes)
                value_text = "+".join(text or "outside" for _, text in parts)
                contributions.append(
                    FeatureContribution((), f"{template} = {value_text}", value, tuple(offset for offset, _ in parts))
                )
        return sorted(contributions, key=lambda contribution: (-abs(contribution.value), contribution.field))

    def _renumber(self, features: np.ndarray) -> np.ndarray:
        new_ids = self.new_ids
        return features if new_ids is None else np.where(features == NO_FEATURE, NO_FEATURE, new_ids[features])

    def _require_trained(self) -> tuple[FeatureIndex, TransitionArrays]:
        if self.index is None or self.transitions is None:
            raise ForebearError("this chain of labels has learned nothing yet", hint="train it, or load what was")
        return self.index, self.transitions

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        """The state, without zero weights and features that have no others."""
        index, transitions = self._require_trained()
        new_ids = np.arange(index.size) if self.new_ids is None else self.new_ids
        sizes = np.diff(self.offsets)[new_ids]
        order = np.repeat(self.offsets[new_ids] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        weights, labels = self.weights[order], self.labels[order]  # in the order of the index
        nonzero = weights != 0
        counts = np.bincount(np.repeat(np.arange(index.size), sizes)[nonzero], minlength=index.size)
        has_weights = counts > 0
        kept_by_template = np.split(has_weights, index.first_feature_ids[1:-1])
        keys = (keys[is_kept] for keys, is_kept in zip(index.keys, kept_by_template, strict=True))
        pruned_index = FeatureIndex(index.templates, tuple(keys))
        transition_scores, start, end = (scores.astype(np.float32) for scores in transitions)
        return pruned_index.arrays() | {
            "offsets": np.concatenate(([0], np.cumsum(counts[has_weights]))).astype(np.int64),
            "labels": labels[nonzero],
            "weights": weights[nonzero].astype(np.float32),
            "moves": transition_scores,
            "start": start,
            "end": end,
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load such a state; raise ForebearError for missing or misshapen arrays."""
        count = self.num_labels
        shapes: dict[str, Any] = {"moves": (count, count), "start": (count,), "end": (count,)}
        expected_names = {"templates", "keys", "firsts", "offsets", "labels", "weights", *shapes}
        require_names("a chain of labels", arrays, expected_names, hint=RETRY_HINT)
        templates = parse_templates(arrays["templates"].tobytes().decode("utf-8", "replace"))
        index, offsets = load_index(dict(arrays), templates), arrays["offsets"]
        shapes |= {"weights": (len(arrays["labels"]),)}
        require_finite("the chain of labels", arrays, shapes, hint=RETRY_HINT)
        labels = arrays["labels"]
        is_valid = offsets.shape == (index.size + 1,) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        if not is_valid or offsets[-1] != len(labels) or not ((labels >= 0) & (labels < count)).all():
            raise ForebearError("the weights of this chain of labels are damaged", hint=RETRY_HINT)
        self.index, self.offsets, self.labels = index, offsets.astype(np.int64), labels.astype(np.uint16)
        self.weights = arrays["weights"].astype(np.float64)
        transitions, start, end = (arrays[name].astype(np.float64) for name in ("moves", "start", "end"))
        self.transitions, self.new_ids = (transitions, start, end), None


def _rows(inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    tokens, lengths = np.asarray(inputs["tokens"]), np.asarray(inputs["lengths"], np.int64)
    if lengths.sum() != len(tokens) or (lengths < 0).any():
        raise ForebearError(f"rows of {int(lengths.sum()):,} words in all, but there are {len(tokens):,}")
    return tokens, lengths
