"""Linear-chain CRF kernels: emission scores, forward–backward, gradients and Viterbi, with their numpy twins.

The arithmetic of statistical/crf.py. Transitions are given as e^transition, and the scores of each word are shifted by
its maximum, so that only one logarithm per word is needed. K is the number of labels, padded to a multiple of LANES; N
is the number of words of all sentences, concatenated.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from forebear.kernels.jit import compile_kernel
from forebear.numerics import logsumexp

LANES = 4  # labels processed at once
LOWEST = -700.0  # lower exponents are clipped to this, where e^x is still a normal number
MAGIC = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, held in the lowest bits
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
# Fused multiply-add, in the same places on every run.
_contracted_kernel = partial(compile_kernel, allowed=frozenset({"contract"}))


def padded_labels(labels: int) -> int:
    """The number of labels, rounded up to a multiple of LANES."""
    return -(-labels // LANES) * LANES


@compile_kernel
def emission_scores_kernel(features, offsets, labels, weights, first, last, scores):
    """Write the scores (last - first, K) of the labels of each word, given its features (N, T); -1: no feature.

    The weights of feature f are weights[offsets[f] : offsets[f + 1]], for the labels given beside them, or for all K.
    """
    width = scores.shape[1]
    for word in range(first, last):
        row = scores[word - first]
        row[:] = 0.0
        for template in range(features.shape[1]):
            feature = features[word, template]
            if feature < 0:
                continue
            begin, end = offsets[feature], offsets[feature + 1]
            feature_weights = weights[begin:end]
            if len(feature_weights) == width:
                for label in range(width):
                    row[label] += feature_weights[label]
            else:
                feature_labels = labels[begin:end]
                for pair in range(len(feature_weights)):
                    row[feature_labels[pair]] += feature_weights[pair]


@compile_kernel
def add_emission_gradient(features, offsets, labels, surplus, first, last, begin_template, end_template, gradient):
    """Add the surplus (last - first, K) of expected over observed labels to the gradient of the words' features."""
    width = surplus.shape[1]
    for word in range(first, last):
        row = surplus[word - first]
        for template in range(begin_template, end_template):
            feature = features[word, template]
            if feature < 0:
                continue
            begin, end = offsets[feature], offsets[feature + 1]
            feature_gradient = gradient[begin:end]
            if len(feature_gradient) == width:
                for label in range(width):
                    feature_gradient[label] += row[label]
            else:
                feature_labels = labels[begin:end]
                for pair in range(len(feature_gradient)):
                    feature_gradient[pair] += row[feature_labels[pair]]


@_contracted_kernel
def exponentials(scores, count, room, whole):
    """Replace scores (n, K) by e^(score - maximum), 0 for labels from `count` on; returns the maxima.

    e^x is 2^k · e^r with integer k and |r| below ln 2 / 2; e^r by its series. `room` and `whole` are one (K,) buffer,
    viewed as float64 and as int64.
    """
    width = scores.shape[1]
    levels = np.empty(len(scores))
    for word in range(len(scores)):
        row = scores[word]
        level = row[0]
        for label in range(1, count):
            level = max(level, row[label])
        levels[word] = level
        for label in range(width):
            x = max(row[label] - level, LOWEST)
            shifted = x * LOG2_E + MAGIC
            room[label] = shifted
            k = shifted - MAGIC
            r = (x - k * LN2_HIGH) - k * LN2_LOW
            p = 1 / 6227020800 * r + 1 / 479001600
            p = p * r + 1 / 39916800
            p = p * r + 1 / 3628800
            p = p * r + 1 / 362880
            p = p * r + 1 / 40320
            p = p * r + 1 / 5040
            p = p * r + 1 / 720
            p = p * r + 1 / 120
            p = p * r + 1 / 24
            p = p * r + 1 / 6
            p = p * r + 0.5
            p = p * r + 1
            row[label] = p * r + 1
        for label in range(width):
            whole[label] = (whole[label] << 52) + (1023 << 52)
        for label in range(width):
            row[label] *= room[label]
        row[count:] = 0.0
    return levels


@_contracted_kernel
def _vector_matrix(vector, moves, out):
    """out (K,) = vector (K,) @ moves (K, K), four rows at a time."""
    width = len(out)
    for label in range(width):
        out[label] = 0.0
    for one in range(0, width, 4):
        a, b, c, d = vector[one], vector[one + 1], vector[one + 2], vector[one + 3]
        for label in range(width):
            out[label] += (a * moves[one, label] + b * moves[one + 1, label]) + (
                c * moves[one + 2, label] + d * moves[one + 3, label]
            )


@_contracted_kernel
def _forward_backward(scores, lengths, moves, turned, start, end, right, before, after, expected, edges):
    """Forward–backward through all sentences; returns −ln P of the gold labels, without their emission scores.

    scores  (n, K) e^(score - maximum) of each word; becomes the expected count of each label minus the observed one
    moves   (K, K) e^transition, `turned` its transpose; start, end (K,) alike
    right   (n,) gold labels; before, after (n, K) are buffers; edges (2, K) is increased by the expected starts and
            ends
    """
    width = scores.shape[1]
    cost, at = 0.0, 0
    sums = np.empty(width)
    for chain in range(len(lengths)):
        count = lengths[chain]
        if count == 0:
            continue
        for label in range(width):
            sums[label] = start[label]
        for word in range(at, at + count):
            if word > at:
                _vector_matrix(before[word - 1], moves, sums)
            total = 0.0
            for label in range(width):
                sums[label] *= scores[word, label]
                total += sums[label]
            if not 0.0 < total < np.inf:  # overflow after too long a step of the optimizer
                return np.inf
            cost += math.log(total)
            share = 1 / total
            for label in range(width):
                before[word, label] = sums[label] * share
        last, total = at + count - 1, 0.0
        for label in range(width):
            total += before[last, label] * end[label]
        if not 0.0 < total < np.inf:
            return np.inf
        cost += math.log(total)
        for label in range(width):
            after[last, label] = end[label] / total
        for word in range(last, at, -1):
            # The posterior of a label is the product of its scaled forward and backward probability.
            total = 0.0
            for label in range(width):
                sums[label] = scores[word, label] * after[word, label]
                scores[word, label] = before[word, label] * after[word, label]
            _vector_matrix(sums, turned, after[word - 1])
            for label in range(width):
                total += after[word - 1, label] * before[word - 1, label]
            if not 0.0 < total < np.inf:
                return np.inf
            share = 1 / total
            for label in range(width):
                after[word - 1, label] *= share
                after[word, label] = sums[label] * share
        for label in range(width):
            scores[at, label] = before[at, label] * after[at, label]
            edges[0, label] += scores[at, label]
            edges[1, label] += scores[last, label]
            after[at, label] = 0.0
        at += count
    for word in range(at):
        scores[word, right[word]] -= 1
    return cost


@_contracted_kernel
def _transition_counts(before, after, count, expected):
    """expected (K, K) += Σ before[n - 1] (K,) ⊗ after[n] (K,), four words at once; `after` is 0 at sentence starts."""
    width = expected.shape[0]
    full = 1 + (count - 1) // 4 * 4 if count else 0
    for word in range(1, full, 4):
        for one in range(width):
            a, b, c, d = before[word - 1, one], before[word, one], before[word + 1, one], before[word + 2, one]
            for label in range(width):
                expected[one, label] += (a * after[word, label] + b * after[word + 1, label]) + (
                    c * after[word + 2, label] + d * after[word + 3, label]
                )
    for word in range(max(full, 1), count):
        for one in range(width):
            a = before[word - 1, one]
            for label in range(width):
                expected[one, label] += a * after[word, label]


def forward_backward(
    scores: np.ndarray,
    lengths: np.ndarray,
    powers: tuple[np.ndarray, np.ndarray, np.ndarray],
    right: np.ndarray,
    expected: np.ndarray,
    edges: np.ndarray,
) -> float:
    """Forward–backward with the expected transitions added up; `powers` is e^ of transitions, starts and ends."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    moves, start, end = powers
    turned = np.ascontiguousarray(moves.T)
    cost = _forward_backward(scores, lengths, moves, turned, start, end, right, before, after, expected, edges)
    _transition_counts(before, after, len(scores), expected)
    return cost


@compile_kernel
def _viterbi(scores, lengths, moves, start, end, came_from, labels):
    """Write the labels (n,) with the highest total of scores, transitions, start and end; the first of equal ones."""
    width = scores.shape[1]
    total, most, place = np.empty(width), np.empty(width), np.empty(width, np.int64)
    at = 0
    for chain in range(len(lengths)):
        count = lengths[chain]
        if count == 0:
            continue
        for label in range(width):
            total[label] = scores[at, label] + start[label]
        for word in range(at + 1, at + count):
            for label in range(width):
                most[label] = total[0] + moves[0, label]
                place[label] = 0
            for one in range(1, width):
                so_far = total[one]
                for label in range(width):
                    through = so_far + moves[one, label]
                    better = through > most[label]
                    most[label] = through if better else most[label]
                    place[label] = one if better else place[label]
            for label in range(width):
                total[label] = most[label] + scores[word, label]
                came_from[word, label] = place[label]
        label = 0
        for one in range(1, width):
            if total[one] + end[one] > total[label] + end[label]:
                label = one
        for word in range(at + count - 1, at, -1):
            labels[word] = label
            label = came_from[word, label]
        labels[at] = label
        at += count


def viterbi(
    scores: np.ndarray, lengths: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the best label sequence of each sentence (Viterbi). Transitions, start and end are scores, not powers."""
    arrays = [np.ascontiguousarray(array, np.float64) for array in (scores, moves, start, end)]
    labels, came_from = np.zeros(len(scores), np.int64), np.empty(scores.shape, np.int32)
    _viterbi(arrays[0], np.asarray(lengths, np.int64), *arrays[1:], came_from, labels)
    return labels


# --- numpy reference, sentence by sentence in logarithms ---


def emission_scores_reference(
    features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, weights: np.ndarray, width: int
) -> np.ndarray:
    """(N, width) emission scores: readable twin of `emission_scores_kernel`."""
    scores = np.zeros((len(features), width))
    for word, word_features in enumerate(features):
        for feature in word_features[word_features >= 0]:
            span = slice(offsets[feature], offsets[feature + 1])
            np.add.at(scores[word], labels[span], weights[span])
    return scores


def emission_gradient_reference(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, surplus: np.ndarray):
    """(P,) gradient of the emission weights: readable twin of `add_emission_gradient`."""
    sums = np.zeros(len(labels))
    for word, word_features in enumerate(features):
        for feature in word_features[word_features >= 0]:
            span = slice(offsets[feature], offsets[feature + 1])
            sums[span] += surplus[word, labels[span]]
    return sums


def forward_backward_reference(scores: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray):
    """Of one sentence: log-partition function, (n, K) marginals, and (K, K) expected transitions."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    before[0], after[-1] = start + scores[0], end
    for word in range(1, len(scores)):
        before[word] = scores[word] + logsumexp(before[word - 1][:, None] + moves, 0)
    for word in range(len(scores) - 2, -1, -1):
        after[word] = logsumexp(moves + (scores[word + 1] + after[word + 1])[None, :], 1)
    total = float(logsumexp(before[-1] + end, 0))
    expected = np.zeros_like(moves)
    for word in range(1, len(scores)):
        expected += np.exp(before[word - 1][:, None] + moves + (scores[word] + after[word])[None, :] - total)
    return total, np.exp(before + after - total), expected
