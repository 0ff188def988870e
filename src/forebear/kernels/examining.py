"""How well vectors predict the words around them: losses in double precision over whole windows, nothing learned."""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import compiled, inlined
from forebear.kernels.windows import Supply

FREELY = frozenset({"reassoc", "contract"})  # sums may be taken several at a time


def examined(
    tokens: np.ndarray,
    ends: np.ndarray,
    inputs: np.ndarray,
    outputs: np.ndarray,
    supply: Supply,
    window: int,
    mean: bool,
    state: int,
) -> tuple[float, int]:
    """The summed loss of rows of words, and of how many pairs of words, or where the mean answers of how many words.

    Rows of `outputs` may be longer than those of `inputs`, by numbers that do not count.
    """
    told = np.zeros(2)
    compiled(examined_in_loops, FREELY)(tokens, ends, inputs, outputs, supply, window, mean, np.uint64(state), told)
    return float(told[0]), int(told[1])


def examined_in_loops(tokens, ends, inputs, outputs, supply, window, mean, state, told):
    drawn = np.int64(state % np.uint64(max(len(supply.stream), 1)))
    hidden = np.empty(inputs.shape[1])
    most = max(1 + supply.negatives, np.diff(supply.indptr).max() if len(supply.indptr) > 1 else 0)
    targets, signs = np.empty(most, np.int64), np.empty(most)
    loss, factors, asked, row = 0.0, 1.0, 0, 0
    for here in range(len(tokens)):
        while ends[row] <= here:
            row += 1
        left, right = max(ends[row - 1] if row else 0, here - window), min(ends[row], here + window + 1)
        if right - left < 2:
            continue
        many = told_from(tokens[here], supply, drawn, targets, signs)
        for place in range(left, left + 1 if mean else right):
            if mean:
                hidden[:] = -inputs[tokens[here]]
                for other in range(left, right):
                    hidden += inputs[tokens[other]]
                hidden /= right - left - 1
            elif place != here:
                hidden[:] = inputs[tokens[place]]
            else:
                continue
            for target in range(many):
                score = 0.0
                for column in range(len(hidden)):
                    score += hidden[column] * outputs[targets[target], column]
                loss += max(-signs[target] * score, 0.0)
                factors *= 1 + np.exp(-abs(score))  # one logarithm for many: that of a product is the sum of theirs
                if factors > 1e300:
                    loss += np.log(factors)
                    factors = 1.0
            asked += 1
        drawn += supply.negatives
    told[0], told[1] = loss + np.log(factors), asked


@inlined
def told_from(word, supply, drawn, targets, signs):
    """The rows of what a word is told from, 1 where it is true and -1 where it is not; how many there are."""
    if not len(supply.stream):
        begin, many = supply.indptr[word], supply.indptr[word + 1] - supply.indptr[word]
        for step in range(many):
            targets[step] = supply.nodes[begin + step]
            signs[step] = 1 - 2 * np.int64(supply.turns[begin + step])
        return many
    targets[0], signs[0], many = word, 1, 1
    for number in range(1, 1 + supply.negatives):
        other = supply.stream[(drawn + number) % len(supply.stream)]
        if other != word:  # the truth is no counterexample
            targets[many], signs[many] = other, -1
            many += 1
    return many
