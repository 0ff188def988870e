"""Where two files that should be parallel part: a missing line shows in the lengths of all that follow it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NEAR = 3  # lines that may be missing or too many at once, beside the difference of both files
DOUBT = 12.0  # how much worse lines must fit, all in all, before another distance is believed


def first_suspicious(left: Sequence[int], right: Sequence[int]) -> int:
    """The first line (from 1) of the shorter file from which on the files belong together at another distance.

    Lines that belong together have lengths in about the same ratio. The likeliest course of the distance between them,
    from none to the difference of both files, is found as a hidden Markov model finds its states.
    """
    one, two = (np.log(np.asarray(side, np.float64) + 1) for side in (left, right))
    shorter, longer = (one, two) if len(one) < len(two) else (two, one)
    count, apart = len(shorter), len(longer) - len(shorter)
    if not count:
        return 1
    distances = np.array(sorted({*range(-NEAR, NEAR + 1), *range(apart - NEAR, apart + NEAR + 1)}))
    ratio = float(np.median(longer[:count] - shorter))
    cost = np.where(distances == 0, 0.0, np.inf)  # of the best course that ends at each distance
    stayed = np.empty((count, len(distances)), bool)
    came_from = np.empty(count, np.int64)
    for line in range(count):
        came_from[line] = best = int(cost.argmin())
        stayed[line] = cost <= cost[best] + DOUBT
        places = line + distances
        fits = (places >= 0) & (places < len(longer))
        apart_by = np.abs(longer[np.clip(places, 0, len(longer) - 1)] - shorter[line] - ratio)
        cost = np.where(stayed[line], cost, cost[best] + DOUBT) + np.where(fits, apart_by, np.inf)
    at = int(np.flatnonzero(distances == apart)[0])
    first = count + 1
    for line in range(count - 1, -1, -1):
        if distances[at] != 0:
            first = line + 1
        at = at if stayed[line, at] else int(came_from[line])
    return first
