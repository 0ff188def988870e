"""Chains of labels in compiled loops: scores of words, forwards and backwards through all chains, gradients, the best.

The arithmetic of `statistics.crf`, beside numpy's way in `crf_plainly`. Weights of moves stand as e^move, and each word
is brought to a level of its own, so that nothing has to be a logarithm but one number a word.

K labels, or a few more that weigh nothing, so that K is a multiple of LANES · N words, one chain behind the other
"""

from __future__ import annotations

import math

import numpy as np

from forebear.kernels.jit import compile_kernel

LANES = 4  # labels that the processor takes at once
LOWEST = -700.0  # e to this is still a number; what lies lower counts as this
MAGIC = 6755399441055744.0  # 1.5 · 2^52: added to a number, it leaves the nearest whole one in the last bits
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
IN_ANY_ORDER = frozenset({"contract"})  # round once instead of twice: the same every time


def padded_labels(labels: int) -> int:
    """So many labels, and a few more."""
    return -(-labels // LANES) * LANES


@compile_kernel
def emission_scores(features, offsets, labels, weights, first, last, scores):
    """scores (last - first, K): what the features (N, T) of each word say of each label, -1 being none.

    Those of feature f are weights[offsets[f] : offsets[f + 1]], of the labels that stand beside them; or of all K.
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
            own = weights[begin:end]
            if len(own) == width:
                for label in range(width):
                    row[label] += own[label]
            else:
                theirs = labels[begin:end]
                for pair in range(len(own)):
                    row[theirs[pair]] += own[pair]


def _gradient_loops(features, offsets, labels, surplus, first, last, begin_template, end_template, gradient):
    """Adds to the gradient what the words from `first` to `last` have too much (last - first, K) of each label."""
    width = surplus.shape[1]
    for word in range(first, last):
        row = surplus[word - first]
        for template in range(begin_template, end_template):
            feature = features[word, template]
            if feature < 0:
                continue
            begin, end = offsets[feature], offsets[feature + 1]
            own = gradient[begin:end]
            if len(own) == width:
                for label in range(width):
                    own[label] += row[label]
            else:
                theirs = labels[begin:end]
                for pair in range(len(own)):
                    own[pair] += row[theirs[pair]]


emission_gradient = compile_kernel(_gradient_loops)


def _exponentials_loops(scores, count, room, whole):
    """scores (n, K) become e^(score - level), 0 for labels from `count` on; the levels are given back.

    e^x is 2^k · e^r, k whole and r below ln 2 / 2; e^r by its series. Room (K,) as float64 and as int64.
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


exponentials = compile_kernel(_exponentials_loops, IN_ANY_ORDER)


def _through_loops(vector, moves, out):
    """out (K,) = vector (K,) times moves (K, K), four rows at a time."""
    width = len(out)
    for label in range(width):
        out[label] = 0.0
    for one in range(0, width, 4):
        a, b, c, d = vector[one], vector[one + 1], vector[one + 2], vector[one + 3]
        for label in range(width):
            out[label] += (a * moves[one, label] + b * moves[one + 1, label]) + (
                c * moves[one + 2, label] + d * moves[one + 3, label]
            )


_through = compile_kernel(_through_loops, IN_ANY_ORDER)


def _chains_loops(scores, lengths, moves, turned, start, end, right, before, after, expected, edges):
    """Goes through all chains; gives back −ln of the probability of the right labels, the chains' scores left out.

    scores  (n, K) e^(score - level) of each word; becomes what is expected of each label, less what is there
    moves   (K, K) e^move, `turned` the same with from and to exchanged; start, end (K,) alike
    right   (n,) labels; before, after (n, K) are room; expected (K, K) and edges (2, K) are added to: moves, and the
            starts and ends, that are expected; moves still have to be multiplied by e^move
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
                _through(before[word - 1], moves, sums)
            total = 0.0
            for label in range(width):
                sums[label] *= scores[word, label]
                total += sums[label]
            if not 0.0 < total < np.inf:  # a step that went too far
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
            # What is expected of a label is what comes to it times what goes on from it; both are shares.
            total = 0.0
            for label in range(width):
                sums[label] = scores[word, label] * after[word, label]
                scores[word, label] = before[word, label] * after[word, label]
            _through(sums, turned, after[word - 1])
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


_chains = compile_kernel(_chains_loops, IN_ANY_ORDER)


def _expected_loops(before, after, count, expected):
    """expected (K, K) += Σ before[n - 1] (K,) times after[n] (K,), four words at a time; after is 0 where none is."""
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


_expected = compile_kernel(_expected_loops, IN_ANY_ORDER)


def forward_backward(
    scores: np.ndarray,
    lengths: np.ndarray,
    powers: tuple[np.ndarray, np.ndarray, np.ndarray],
    right: np.ndarray,
    expected: np.ndarray,
    edges: np.ndarray,
) -> float:
    """The same, with its room and the expected moves; `powers` are e^ of moves, starts and ends."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    moves, start, end = powers
    cost = _chains(
        scores, lengths, moves, np.ascontiguousarray(moves.T), start, end, right, before, after, expected, edges
    )
    _expected(before, after, len(scores), expected)
    return cost


def _best_loops(scores, lengths, moves, start, end, came_from, found):
    """found (n,): the labels whose scores (n, K), moves (K, K), start and end add up to most; of equals the first."""
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
            found[word] = label
            label = came_from[word, label]
        found[at] = label
        at += count


_best = compile_kernel(_best_loops)


def viterbi(
    scores: np.ndarray, lengths: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """(N,) the likeliest labels of each chain: Viterbi's way. Moves, start and end are scores here, no powers."""
    given = [np.ascontiguousarray(one, np.float64) for one in (scores, moves, start, end)]
    found, came_from = np.zeros(len(scores), np.int64), np.empty(scores.shape, np.int32)
    _best(given[0], np.asarray(lengths, np.int64), *given[1:], came_from, found)
    return found


# Chains of labels in numpy: the readable twin of `crf`, chain by chain and in logarithms.


def scored(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, weights: np.ndarray, width: int):
    """(N, width) what the features (N, T) of each word weigh for each label."""
    scores = np.zeros((len(features), width))
    for word, own in enumerate(features):
        for feature in own[own >= 0]:
            here = slice(offsets[feature], offsets[feature + 1])
            np.add.at(scores[word], labels[here], weights[here])
    return scores


def gradient(features: np.ndarray, offsets: np.ndarray, labels: np.ndarray, surplus: np.ndarray):
    """(P,) for each weight the sum of what words that have its feature have too much of its label."""
    found = np.zeros(len(labels))
    for word, own in enumerate(features):
        for feature in own[own >= 0]:
            here = slice(offsets[feature], offsets[feature + 1])
            found[here] += surplus[word, labels[here]]
    return found


def chain(scores: np.ndarray, moves: np.ndarray, start: np.ndarray, end: np.ndarray):
    """Of one chain: ln of the sum of all labellings, (n, K) P of each label, (K, K) how often a move is expected."""
    before, after = np.empty_like(scores), np.empty_like(scores)
    before[0], after[-1] = start + scores[0], end
    for word in range(1, len(scores)):
        before[word] = scores[word] + _sum(before[word - 1][:, None] + moves, 0)
    for word in range(len(scores) - 2, -1, -1):
        after[word] = _sum(moves + (scores[word + 1] + after[word + 1])[None, :], 1)
    total = float(_sum(before[-1] + end, 0))
    expected = np.zeros_like(moves)
    for word in range(1, len(scores)):
        expected += np.exp(before[word - 1][:, None] + moves + (scores[word] + after[word])[None, :] - total)
    return total, np.exp(before + after - total), expected


def _sum(logarithms: np.ndarray, axis: int) -> np.ndarray:
    level = logarithms.max(axis, keepdims=True)
    return np.squeeze(level, axis) + np.log(np.exp(logarithms - level).sum(axis))
