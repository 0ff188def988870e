"""Vectors grouped by likeness: by Ward's tree, in as many groups as hang together best, and in one where none do.

Whatever is cut into two falls apart somewhere, also a cloud without any gap. So groups are set beside those of clouds
which certainly are one, cut in the same way: drawn by chance from one normal distribution that is as long and as wide
in every direction as the vectors are (as in Liu et al. 2008). How well groups hang together is told by the silhouette
(Rousseeuw 1987). Seen in the directions in which the groups lie apart, it must surpass what one cloud of twenty
reaches; in all directions, where noise hides the gap between few vectors, the average cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.errors import InputError

CLOUDS = 40  # drawn by chance
SURE = 0.95  # of the clouds are to be surpassed
MOST_GROUPS = 8  # that are looked for
MIN_OCCURRENCES = 4  # vectors that can be grouped
SAME_VECTOR_DISTANCE = 1e-5  # numbers of vectors that differ by less are rounded otherwise


@dataclass(frozen=True)
class ClusterCandidate:
    """A number of groups: the silhouette, and seen in the directions in which the groups lie apart."""

    num_clusters: int
    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        told = {"silhouette": self.silhouette, "silhouette_apart": self.separation}
        return {"groups": self.num_clusters} | {name: round(value, 4) for name, value in told.items()}


@dataclass(frozen=True)
class SilhouetteBaseline:
    """Of clouds that are one, each cut where it falls apart best: the mean silhouette, and what one cloud of twenty
    reaches, seen in the directions in which its groups lie apart."""

    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean_silhouette": round(self.silhouette, 4),
            "silhouette_apart_of_one_in_twenty": round(self.separation, 4),
        }


@dataclass(frozen=True, eq=False)
class Clustering:
    """owners       (n,) the number of each vector's group; 0 is the largest
    silhouettes  (n,) how much nearer each is to its own group than to the next: from 1 to -1; of one group zeros
    tried        numbers of groups that were looked at, from 2
    chance       what they are set beside; None where nothing was tried
    distinct     how many different vectors there are
    """

    labels: np.ndarray
    silhouettes: np.ndarray
    num_distinct: int
    candidates: tuple[ClusterCandidate, ...] = ()
    baseline: SilhouetteBaseline | None = None

    @property
    def num_clusters(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def silhouette(self) -> float | None:
        """Of all together; None where there is one group, which has none."""
        return float(self.silhouettes.mean()) if self.num_clusters > 1 else None

    @property
    def best(self) -> ClusterCandidate | None:
        """The number of groups that hang together best, whether that is much or little."""
        return max(self.candidates, key=lambda one: one.silhouette, default=None)


def cluster_vectors(vectors: np.ndarray, groups: int | None = None) -> Clustering:
    """(n, D) vectors of length 1 in so many groups, or in as many as are there."""
    away = cosine_distances(vectors)
    distinct = _distinct(away)
    if groups is not None and not 1 <= groups <= len(vectors):
        raise InputError(f"--groups is {groups}", hint=f"give from 1 to {len(vectors):,}, as many as there are vectors")
    most = min(MOST_GROUPS, len(vectors) // 2, distinct)
    one = np.zeros(len(vectors), np.int64)
    if distinct == 1 or groups == 1 or most < 2:
        return Clustering(one, np.zeros(len(vectors)), distinct)
    merges = ward_tree(away)
    looked, chance = _tried(vectors, away, merges, most), _chance(vectors, most)
    best = max(looked, key=lambda one: one.silhouette)
    if groups is None:
        groups = best.num_clusters if best.separation > chance.separation and best.silhouette > chance.silhouette else 1
    owners = order_by_size(cut_tree(merges, min(groups, distinct)))
    return Clustering(owners, silhouettes(away, owners), distinct, looked, chance)


def cosine_distances(vectors: np.ndarray) -> np.ndarray:
    """(n, n) of vectors of length 1: 1 - cosine, which is half the square of how far they are apart."""
    given = vectors.astype(np.float64)
    squares = (given**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * given @ given.T, 0.0) / 2


def ward_tree(away: np.ndarray) -> np.ndarray:
    """(n - 1, 2) which two groups, by a member of each, are joined: those first whose join adds least variance.

    Ward's method, found along chains of nearest neighbours: two that are each other's nearest are joined, in whatever
    order they are met.
    """
    away, count = away.copy(), len(away)
    np.fill_diagonal(away, np.inf)
    sizes, chain = np.ones(count), [0]
    joined: list[tuple[float, int, int]] = []
    while len(joined) < count - 1:
        if not chain:
            chain.append(int(np.flatnonzero(sizes)[0]))
        here = chain[-1]
        near = int(away[here].argmin())
        if len(chain) < 2 or away[here, near] < away[here, chain[-2]]:
            chain.append(near)
            continue
        near = chain[-2]
        del chain[-2:]
        joined.append((float(away[here, near]), here, near))
        both = sizes[here] + sizes[near]
        made = (sizes[here] + sizes) * away[here] + (sizes[near] + sizes) * away[near] - sizes * away[here, near]
        made = made / (both + sizes)  # how far the two together are from all others (Lance and Williams)
        made[[here, near]] = np.inf
        sizes[here], sizes[near] = both, 0
        away[here], away[:, here] = made, made
        away[near], away[:, near] = np.inf, np.inf
    return np.array([(one, other) for _, one, other in sorted(joined, key=lambda join: join[0])], np.int64)


def cut_tree(merges: np.ndarray, groups: int) -> np.ndarray:
    """(n,) the tree's groups, when so many are left."""
    owners = np.arange(len(merges) + 1)
    for one, other in merges[: len(merges) + 1 - groups].tolist():
        owners[owners == owners[other]] = owners[one]
    return np.unique(owners, return_inverse=True)[1]


def order_by_size(owners: np.ndarray) -> np.ndarray:
    """The same groups, the largest first; of equal ones that which begins first."""
    _, firsts, sizes = np.unique(owners, return_index=True, return_counts=True)
    return np.argsort(np.lexsort((firsts, -sizes)))[owners]


def silhouettes(away: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """(n,) of each: (b - a) / max(a, b), a how far its own group is on average, b the nearest other; alone it is 0."""
    if not owners.any():  # there is no other group
        return np.zeros(len(owners))
    members = np.eye(int(owners.max()) + 1)[owners]
    sizes, sums, rows = members.sum(0), away @ members, np.arange(len(owners))
    own = sums[rows, owners] / np.maximum(sizes[owners] - 1, 1)
    others = np.where(members > 0, np.inf, sums / sizes)
    other = others.min(1)
    return np.where(sizes[owners] > 1, (other - own) / np.maximum(np.maximum(own, other), 1e-12), 0.0)


def apart(vectors: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """(n, groups - 1) the vectors in the directions in which the means of their groups lie apart."""
    middle = vectors.mean(0)
    means = np.stack([vectors[owners == number].mean(0) for number in range(int(owners.max()) + 1)])
    return (vectors - middle) @ np.linalg.svd(means - middle, full_matrices=False)[2][: len(means) - 1].T


def _tried(vectors: np.ndarray, away: np.ndarray, merges: np.ndarray, most: int) -> tuple[ClusterCandidate, ...]:
    """2 groups to `most`."""
    owners, found = cut_tree(merges, most), []
    for count in range(most, 1, -1):
        own = np.unique(owners, return_inverse=True)[1]
        seen = silhouettes(cosine_distances(apart(vectors, own)), own)
        found.append(ClusterCandidate(count, float(silhouettes(away, own).mean()), float(seen.mean())))
        one, other = merges[len(merges) + 1 - count]
        owners[owners == owners[other]] = owners[one]
    return tuple(found[::-1])


def _chance(vectors: np.ndarray, most: int) -> SilhouetteBaseline:
    """Clouds of as many vectors of length 1, drawn from one normal distribution with the same mean and covariance."""
    given = vectors.astype(np.float64)
    middle = given.mean(0)
    _, lengths, directions = np.linalg.svd(given - middle, full_matrices=False)
    spread = (lengths / np.sqrt(len(given) - 1))[:, None] * directions
    chance, best = np.random.default_rng(0), []
    for _ in range(CLOUDS):
        cloud = middle + chance.normal(size=(len(given), len(spread))) @ spread
        cloud /= np.maximum(np.linalg.norm(cloud, axis=1, keepdims=True), 1e-12)
        away = cosine_distances(cloud)
        best.append(max(_tried(cloud, away, ward_tree(away), most), key=lambda one: one.silhouette))
    return SilhouetteBaseline(
        float(np.mean([one.silhouette for one in best])), float(np.quantile([one.separation for one in best], SURE))
    )


def _distinct(away: np.ndarray) -> int:
    left, count = np.ones(len(away), bool), 0
    while left.any():
        left &= away[left.argmax()] > SAME_VECTOR_DISTANCE**2  # distances are squares
        count += 1
    return count
