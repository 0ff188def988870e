"""Linear-chain CRF kernels: emission scores, forward–backward, gradients and Viterbi, with their numpy references.

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
MIN_EXPONENT = -700.0  # lower exponents are clipped to this, where e^x is still a normal number
ROUNDING_MAGIC = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, held in the lowest bits
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
# Fused multiply-add, in the same places on every run.
_contracted_kernel = partial(compile_kernel, fastmath=frozenset({"contract"}))


def padded_labels(num_labels: int) -> int:
    """The number of labels, rounded up to a multiple of LANES."""
    return -(-num_labels // LANES) * LANES


@compile_kernel
def emission_scores_kernel(features, offsets, labels, weights, first, last, scores):
    """Write the scores (last - first, K) of the labels of each word, given its features (N, T); -1: no feature.

    The weights of feature f are weights[offsets[f] : offsets[f + 1]], for the labels at the same offsets, or for all K.
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
def add_emission_gradient(features, offsets, labels, residuals, first, last, begin_template, end_template, gradient):
    """Add the residuals (last - first, K), expected minus observed labels, to the gradient of the words' features."""
    width = residuals.shape[1]
    for word in range(first, last):
        row = residuals[word - first]
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
def exponentials(scores, num_labels, buffer, buffer_bits):
    """Replace scores (n, K) by e^(score - maximum), 0 for labels from `num_labels` on; returns the maxima.

    e^x is 2^k · e^r with integer k and |r| below ln 2 / 2; e^r by its series. `buffer` and `buffer_bits` are
    one (K,) array, viewed as float64 and as int64.
    """
    width = scores.shape[1]
    maxima = np.empty(len(scores))
    for word in range(len(scores)):
        row = scores[word]
        maximum = row[0]
        for label in range(1, num_labels):
            maximum = max(maximum, row[label])
        maxima[word] = maximum
        for label in range(width):
            x = max(row[label] - maximum, MIN_EXPONENT)
            shifted = x * LOG2_E + ROUNDING_MAGIC
            buffer[label] = shifted
            k = shifted - ROUNDING_MAGIC
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
            buffer_bits[label] = (buffer_bits[label] << 52) + (1023 << 52)
        for label in range(width):
            row[label] *= buffer[label]
        row[num_labels:] = 0.0
    return maxima


@_contracted_kernel
def _vector_matrix(vector, matrix, out):
    """out (K,) = vector (K,) @ matrix (K, K), four rows at a time."""
    width = len(out)
    for label in range(width):
        out[label] = 0.0
    for row in range(0, width, 4):
        a, b, c, d = vector[row], vector[row + 1], vector[row + 2], vector[row + 3]
        for label in range(width):
            out[label] += (a * matrix[row, label] + b * matrix[row + 1, label]) + (
                c * matrix[row + 2, label] + d * matrix[row + 3, label]
            )


@_contracted_kernel
def _forward_backward(scores, lengths, transitions, transposed, start, end, gold_labels, alpha, beta, expected, edges):
    """Forward–backward through all sentences; returns −ln P of the gold labels, without their emission scores.

    scores       (n, K) e^(score - maximum) of each word; becomes the expected minus the observed count of labels
    transitions  (K, K) e^transition, `transposed` its transpose; start, end (K,) alike
    gold_labels  (n,); alpha, beta (n, K) are buffers for scaled forward and backward probabilities; edges (2, K) is
                 increased by the expected starts and ends
    """
    width = scores.shape[1]
    cost, first = 0.0, 0
    sums = np.empty(width)
    for sentence in range(len(lengths)):
        count = lengths[sentence]
        if count == 0:
            continue
        for label in range(width):
            sums[label] = start[label]
        for word in range(first, first + count):
            if word > first:
                _vector_matrix(alpha[word - 1], transitions, sums)
            total = 0.0
            for label in range(width):
                sums[label] *= scores[word, label]
                total += sums[label]
            if not 0.0 < total < np.inf:  # overflow after too long a step of the optimizer
                return np.inf
            cost += math.log(total)
            scale = 1 / total
            for label in range(width):
                alpha[word, label] = sums[label] * scale
        last, total = first + count - 1, 0.0
        for label in range(width):
            total += alpha[last, label] * end[label]
        if not 0.0 < total < np.inf:
            return np.inf
        cost += math.log(total)
        for label in range(width):
            beta[last, label] = end[label] / total
        for word in range(last, first, -1):
            # The posterior of a label is the product of its scaled forward and backward probability.
            total = 0.0
            for label in range(width):
                sums[label] = scores[word, label] * beta[word, label]
                scores[word, label] = alpha[word, label] * beta[word, label]
            _vector_matrix(sums, transposed, beta[word - 1])
            for label in range(width):
                total += beta[word - 1, label] * alpha[word - 1, label]
            if not 0.0 < total < np.inf:
                return np.inf
            scale = 1 / total
            for label in range(width):
                beta[word - 1, label] *= scale
                beta[word, label] = sums[label] * scale
        for label in range(width):
            scores[first, label] = alpha[first, label] * beta[first, label]
            edges[0, label] += scores[first, label]
            edges[1, label] += scores[last, label]
            beta[first, label] = 0.0
        first += count
    for word in range(first):
        scores[word, gold_labels[word]] -= 1
    return cost


@_contracted_kernel
def _transition_counts(alpha, beta, count, expected):
    """expected (K, K) += Σ alpha[n - 1] (K,) ⊗ beta[n] (K,), four words at once; `beta` is 0 at sentence starts."""
    width = expected.shape[0]
    unrolled_end = 1 + (count - 1) // 4 * 4 if count else 0
    for word in range(1, unrolled_end, 4):
        for previous in range(width):
            a = alpha[word - 1, previous]
            b = alpha[word, previous]
            c = alpha[word + 1, previous]
            d = alpha[word + 2, previous]
            for label in range(width):
                expected[previous, label] += (a * beta[word, label] + b * beta[word + 1, label]) + (
                    c * beta[word + 2, label] + d * beta[word + 3, label]
                )
    for word in range(max(unrolled_end, 1), count):
        for previous in range(width):
            a = alpha[word - 1, previous]
            for label in range(width):
                expected[previous, label] += a * beta[word, label]


def forward_backward(
    scores: np.ndarray,
    lengths: np.ndarray,
    exp_transitions: tuple[np.ndarray, np.ndarray, np.ndarray],
    gold_labels: np.ndarray,
    expected: np.ndarray,
    edges: np.ndarray,
) -> float:
    """Forward–backward, adding to the expected transitions; `exp_transitions`: of transitions, starts and ends."""
    alpha, beta = np.empty_like(scores), np.empty_like(scores)
    transitions, start, end = exp_transitions
    transposed = np.ascontiguousarray(transitions.T)
    cost = _forward_backward(
        scores, lengths, transitions, transposed, start, end, gold_labels, alpha, beta, expected, edges
    )
    _transition_counts(alpha, beta, len(scores), expected)
    return cost


@compile_kernel
def _viterbi(scores, lengths, transitions, start, end, backpointers, labels):
    """Write the labels (n,) with the highest total of scores, transitions, start and end; ties go to the first."""
    width = scores.shape[1]
    total, best_scores, best_previous = np.empty(width), np.empty(width), np.empty(width, np.int64)
    first = 0
    for sentence in range(len(lengths)):
        count = lengths[sentence]
        if count == 0:
            continue
        for label in range(width):
            total[label] = scores[first, label] + start[label]
        for word in range(first + 1, first + count):
            for label in range(width):
                best_scores[label] = total[0] + transitions[0, label]
                best_previous[label] = 0
            for previous in range(1, width):
                previous_score = total[previous]
                for label in range(width):
                    score = previous_score + transitions[previous, label]
                    is_better = score > best_scores[label]
                    best_scores[label] = score if is_better else best_scores[label]
                    best_previous[label] = previous if is_better else best_previous[label]
            for label in range(width):
                total[label] = best_scores[label] + scores[word, label]
                backpointers[word, label] = best_previous[label]
        label = 0
        for previous in range(1, width):
            if total[previous] + end[previous] > total[label] + end[label]:
                label = previous
        for word in range(first + count - 1, first, -1):
            labels[word] = label
            label = backpointers[word, label]
        labels[first] = label
        first += count


def viterbi(
    scores: np.ndarray, lengths: np.ndarray, transitions: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the best label sequence of each sentence (Viterbi). All arguments are scores, not exponentials."""
    arrays = [np.ascontiguousarray(array, np.float64) for array in (scores, transitions, start, end)]
    labels, backpointers = np.zeros(len(scores), np.int64), np.empty(scores.shape, np.int32)
    _viterbi(arrays[0], np.asarray(lengths, np.int64), *arrays[1:], backpointers, labels)
    return labels


# --- numpy reference, sentence by sentence in logarithms ---


def emission_scores_reference(
    features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, weights: np.ndarray, width: int
) -> np.ndarray:
    """(N, width) emission scores: reference of `emission_scores_kernel`."""
    scores = np.zeros((len(features), width))
    for word, word_features in enumerate(features):
        for feature in word_features[word_features >= 0]:
            span = slice(offsets[feature], offsets[feature + 1])
            np.add.at(scores[word], labels[span], weights[span])
    return scores


def emission_gradient_reference(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, residuals: np.ndarray):
    """(P,) gradient of the emission weights: reference of `add_emission_gradient`."""
    sums = np.zeros(len(labels))
    for word, word_features in enumerate(features):
        for feature in word_features[word_features >= 0]:
            span = slice(offsets[feature], offsets[feature + 1])
            sums[span] += residuals[word, labels[span]]
    return sums


def forward_backward_reference(scores: np.ndarray, transitions: np.ndarray, start: np.ndarray, end: np.ndarray):
    """Of one sentence: log-partition function, (n, K) marginals, and (K, K) expected transitions."""
    alpha, beta = np.empty_like(scores), np.empty_like(scores)
    alpha[0], beta[-1] = start + scores[0], end
    for word in range(1, len(scores)):
        alpha[word] = scores[word] + logsumexp(alpha[word - 1][:, None] + transitions, 0)
    for word in range(len(scores) - 2, -1, -1):
        beta[word] = logsumexp(transitions + (scores[word + 1] + beta[word + 1])[None, :], 1)
    total = float(logsumexp(alpha[-1] + end, 0))
    expected = np.zeros_like(transitions)
    for word in range(1, len(scores)):
        expected += np.exp(alpha[word - 1][:, None] + transitions + (scores[word] + beta[word])[None, :] - total)
    return total, np.exp(alpha + beta - total), expected
