"""Many continuations of one beginning, told token by token along the tree of what they share: all is read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from forebear.using.sampling import log_sums

if TYPE_CHECKING:
    from forebear.using.predicting import Predictor

AT_ONCE = 64  # continuations told together: bounds memory, changes no result


def told_along(predictor: Predictor, begun: np.ndarray, tails: Sequence[Sequence[int]]) -> np.ndarray:
    """(N,) log P of each continuation (one token or more) of the row `begun`."""
    found, order = np.zeros(len(tails)), sorted(range(len(tails)), key=lambda number: tuple(tails[number]))
    for first in range(0, len(order), AT_ONCE):
        _walk(predictor, begun, tails, order[first : first + AT_ONCE], found)
    return found


def _walk(
    predictor: Predictor, begun: np.ndarray, tails: Sequence[Sequence[int]], mine: list[int], found: np.ndarray
) -> None:
    """Level by level: a row for each stretch that some of these continuations begin with and go on from."""
    reader, depth = predictor.read([begun], max(len(tails[number]) for number in mine)), 0
    rows = [mine]  # the continuations that go on from each row
    while rows:
        scores = reader.next()
        whole, branches = log_sums(scores), []
        for row, numbers in enumerate(rows):
            by_token: dict[int, list[int]] = {}
            for number in numbers:
                by_token.setdefault(tails[number][depth], []).append(number)
            for token, those in by_token.items():
                found[those] += float(scores[row, token]) - whole[row] if scores[row, token] > -np.inf else -np.inf
                if going := [number for number in those if len(tails[number]) > depth + 1]:
                    branches.append((row, token, going))
        if branches:
            reader.keep(np.array([row for row, _, _ in branches]))
            reader.take(np.array([token for _, token, _ in branches]))
        rows, depth = [going for _, _, going in branches], depth + 1
