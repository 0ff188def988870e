"""How well vectors predict the words around them: losses in double precision over whole windows, nothing learned."""

from __future__ import annotations

import numpy as np

from forebear.kernels.compiling import compiled
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
    """The summed loss of rows of words, and of how many pairs of words, or where the mean answers of how many words."""
    told = np.zeros(2)
    compiled(examined_in_loops, FREELY)(tokens, ends, inputs, outputs, supply, window, mean, np.uint64(state), told)
    return float(told[0]), int(told[1])


def examined_in_loops(tokens, ends, inputs, outputs, supply, window, mean, state, told):
    drawn = np.int64(state % np.uint64(max(len(supply.stream), 1)))
    hidden = np.empty(inputs.shape[1])
    row = 0
    for here in range(len(tokens)):
        while ends[row] <= here:
            row += 1
        left, right = max(ends[row - 1] if row else 0, here - window), min(ends[row], here + window + 1)
        if right - left < 2:
            continue
        begin, many = supply.indptr[tokens[here]], supply.indptr[tokens[here] + 1]
        many = 1 + supply.negatives if len(supply.stream) else many - begin
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
                end, sign = tokens[here], 1
                if len(supply.stream) and target:
                    end, sign = supply.stream[(drawn + target) % len(supply.stream)], -1
                    if end == tokens[here]:
                        continue
                elif not len(supply.stream):
                    end, sign = supply.nodes[begin + target], 1 - 2 * np.int64(supply.turns[begin + target])
                score = 0.0
                for column in range(len(hidden)):
                    score += hidden[column] * outputs[end, column]
                told[0] += max(-sign * score, 0.0) + np.log1p(np.exp(-abs(score)))
            told[1] += 1
        drawn += supply.negatives
