"""Learning a word's vector from the words around it: one compiled loop for every kind of word2vec."""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import compiled

FREELY = frozenset({"reassoc", "contract", "nsz", "arcp"})  # not nnan: what is no number has to stay visible
TOLD = 16  # of so many windows one tells its loss


def learner():
    return compiled(learned_in_loops, FREELY)


def learned_in_loops(
    tokens, ends, first, last, inputs, outputs, indptr, rows, stream, path, nodes, turns, window, negatives, cbow, rate,
    state, told, fixed,
):  # fmt: skip
    """Windows around tokens[first:last] in turn; adds their losses and how many there were to told (2,)."""
    width = inputs.shape[1]
    longest = max(negatives + 1, 64)
    targets, labels = np.empty(longest, np.int64), np.empty(longest, inputs.dtype)
    hidden = np.empty((1 if cbow else 2 * window, width), inputs.dtype)
    pulls = np.empty(hidden.shape, inputs.dtype)
    scores = np.empty((len(hidden), longest), inputs.dtype)
    row = np.searchsorted(ends, first, side="right")
    draw = np.int64(state % np.uint64(max(len(stream), 1)))
    half = np.uint64(33)
    for here in range(first, last):
        while ends[row] <= here:
            row += 1
        begin = ends[row - 1] if row else 0
        reach = window
        if not fixed:
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            reach = 1 + np.int64((state >> half) % np.uint64(window))
        left, right = max(begin, here - reach), min(ends[row], here + reach + 1)
        if right - left < 2:
            continue
        many = 0
        if len(stream):
            targets[0], labels[0], many = tokens[here], 1, 1
            for _ in range(negatives):
                if stream[draw] != tokens[here]:
                    targets[many], labels[many] = stream[draw], 0
                    many += 1
                draw = draw + 1 if draw + 1 < len(stream) else 0
        for step in range(path[tokens[here]], path[tokens[here] + 1]):
            if many < longest:
                targets[many], labels[many] = nodes[step], 1 - turns[step]
                many += 1
        # -- the vectors that predict
        hidden[:] = 0
        pulls[:] = 0
        used = 0
        for place in range(left, right):
            if place == here:
                continue
            word = tokens[place]
            share = inputs.dtype.type(1) / (indptr[word + 1] - indptr[word])
            if cbow:
                share /= right - left - 1
            for entry in range(indptr[word], indptr[word + 1]):
                for column in range(width):
                    hidden[used, column] += share * inputs[rows[entry], column]
            if not cbow:
                used += 1
        used = 1 if cbow else used
        tell = fixed or here % TOLD == 0
        for one in range(used):
            for target in range(many):
                score = inputs.dtype.type(0)
                for column in range(width):
                    score += hidden[one, column] * outputs[targets[target], column]
                if tell:
                    signed = score if labels[target] else -score
                    told[0] += max(-signed, 0) + np.log1p(np.exp(-abs(signed)))
                scores[one, target] = rate * (labels[target] - 1 / (1 + np.exp(-score)))
        if tell:
            told[1] += used
        if fixed:
            continue
        for one in range(used):
            for target in range(many):
                for column in range(width):
                    pulls[one, column] += scores[one, target] * outputs[targets[target], column]
        for target in range(many):
            for one in range(used):
                for column in range(width):
                    outputs[targets[target], column] += scores[one, target] * hidden[one, column]
        used = 0
        for place in range(left, right):
            if place == here:
                continue
            word = tokens[place]
            for entry in range(indptr[word], indptr[word + 1]):
                for column in range(width):
                    inputs[rows[entry], column] += pulls[used, column]
            if not cbow:
                used += 1
