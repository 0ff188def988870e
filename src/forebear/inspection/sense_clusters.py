"""Clusters of vectors by Ward's method, compared with random clouds, and their agreement with gold labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.errors import InputError

# --- Clustering of vectors by Ward's method, compared with a baseline without clusters ---
#
# Any cloud of vectors can be cut in two, so clusters are compared with those of random clouds that have none: samples
# of one normal distribution with the same mean and covariance, cut in the same way (as in Liu et al. 2008). The quality
# of clusters is their silhouette (Rousseeuw 1987). In the directions in which clusters differ it must exceed the 95%
# quantile of the random clouds; in all directions, where noise hides the gap between few vectors, their mean.

NUM_RANDOM_CLOUDS = 40
BASELINE_QUANTILE = 0.95  # quantile of the random clouds
MAX_CLUSTERS = 8  # maximum number of clusters
MIN_OCCURRENCES = 4  # minimum number of vectors
SAME_VECTOR_DISTANCE = 1e-5  # distance below which vectors count as equal


@dataclass(frozen=True)
class ClusterCandidate:
    """A number of clusters with its silhouette, in all directions and in those in which the clusters differ."""

    num_clusters: int
    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        data = {"silhouette": self.silhouette, "silhouette_apart": self.separation}
        return {"groups": self.num_clusters} | {name: round(value, 4) for name, value in data.items()}


@dataclass(frozen=True)
class SilhouetteBaseline:
    """Random clouds cut at their best: mean silhouette, and the 95% quantile in the directions in which clusters
    differ.
    """

    silhouette: float
    separation: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "mean_silhouette": round(self.silhouette, 4),
            "silhouette_apart_of_one_in_twenty": round(self.separation, 4),
        }


@dataclass(frozen=True, eq=False)
class Clustering:
    """labels        (n,) cluster of each vector; 0 is the largest
    silhouettes   (n,) silhouette of each vector, from -1 to 1; zeros for one cluster
    num_distinct  number of distinct vectors
    candidates    numbers of clusters that were tried, from 2
    baseline      of random clouds; None if nothing was tried
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
        """Mean silhouette; None for one cluster."""
        return float(self.silhouettes.mean()) if self.num_clusters > 1 else None

    @property
    def best(self) -> ClusterCandidate | None:
        """The number of clusters with the highest silhouette."""
        return max(self.candidates, key=lambda candidate: candidate.silhouette, default=None)


def cluster_vectors(vectors: np.ndarray, num_clusters: int | None = None) -> Clustering:
    """Cluster (n, D) unit vectors into this many clusters, or the best number, or one."""
    distances = cosine_distances(vectors)
    num_distinct = _count_distinct(distances)
    if num_clusters is not None and not 1 <= num_clusters <= len(vectors):
        raise InputError(
            f"--groups is {num_clusters}", hint=f"give from 1 to {len(vectors):,}, as many as there are vectors"
        )
    max_clusters = min(MAX_CLUSTERS, len(vectors) // 2, num_distinct)
    single_cluster = np.zeros(len(vectors), np.int64)
    if num_distinct == 1 or num_clusters == 1 or max_clusters < 2:
        return Clustering(single_cluster, np.zeros(len(vectors)), num_distinct)
    merges = ward_tree(distances)
    candidates, baseline = (
        _score_candidates(vectors, distances, merges, max_clusters),
        _random_baseline(vectors, max_clusters),
    )
    best = max(candidates, key=lambda single_cluster: single_cluster.silhouette)
    if num_clusters is None:
        num_clusters = (
            best.num_clusters if best.separation > baseline.separation and best.silhouette > baseline.silhouette else 1
        )
    labels = order_by_size(cut_tree(merges, min(num_clusters, num_distinct)))
    return Clustering(labels, silhouettes(distances, labels), num_distinct, candidates, baseline)


def cosine_distances(vectors: np.ndarray) -> np.ndarray:
    """(n, n) 1 - cosine of unit vectors, which is half their squared distance."""
    rows = vectors.astype(np.float64)
    squares = (rows**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0.0) / 2


def ward_tree(distances: np.ndarray) -> np.ndarray:
    """(n - 1, 2) merges of two clusters, each given by a member, in the order of increasing cost.

    Ward's method by nearest-neighbor chains: mutual nearest neighbors are merged, in whatever order they are met.
    """
    distances, count = distances.copy(), len(distances)
    np.fill_diagonal(distances, np.inf)
    sizes, chain = np.ones(count), [0]
    merges: list[tuple[float, int, int]] = []
    while len(merges) < count - 1:
        if not chain:
            chain.append(int(np.flatnonzero(sizes)[0]))
        current = chain[-1]
        nearest = int(distances[current].argmin())
        if len(chain) < 2 or distances[current, nearest] < distances[current, chain[-2]]:
            chain.append(nearest)
            continue
        nearest = chain[-2]
        del chain[-2:]
        merges.append((float(distances[current, nearest]), current, nearest))
        joint_size = sizes[current] + sizes[nearest]
        new_distances = (
            (sizes[current] + sizes) * distances[current]
            + (sizes[nearest] + sizes) * distances[nearest]
            - sizes * distances[current, nearest]
        )
        new_distances = new_distances / (joint_size + sizes)  # distance to the merged cluster (Lance and Williams)
        new_distances[[current, nearest]] = np.inf
        sizes[current], sizes[nearest] = joint_size, 0
        distances[current], distances[:, current] = new_distances, new_distances
        distances[nearest], distances[:, nearest] = np.inf, np.inf
    return np.array([(first, second) for _, first, second in sorted(merges, key=lambda join: join[0])], np.int64)


def cut_tree(merges: np.ndarray, num_clusters: int) -> np.ndarray:
    """(n,) cluster labels when the tree is cut into this many clusters."""
    labels = np.arange(len(merges) + 1)
    for first, second in merges[: len(merges) + 1 - num_clusters].tolist():
        labels[labels == labels[second]] = labels[first]
    return np.unique(labels, return_inverse=True)[1]


def order_by_size(labels: np.ndarray) -> np.ndarray:
    """Relabel clusters by size, largest first; ties by first member."""
    _, first_rows, sizes = np.unique(labels, return_index=True, return_counts=True)
    return np.argsort(np.lexsort((first_rows, -sizes)))[labels]


def silhouettes(distances: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) (b - a) / max(a, b): a is the mean distance within the cluster, b to the nearest other one; 0 for
    singletons.
    """
    if not labels.any():  # only one cluster
        return np.zeros(len(labels))
    members = np.eye(int(labels.max()) + 1)[labels]
    sizes, sums, rows = members.sum(0), distances @ members, np.arange(len(labels))
    within = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    between = np.where(members > 0, np.inf, sums / sizes)
    nearest_other = between.min(1)
    return np.where(
        sizes[labels] > 1, (nearest_other - within) / np.maximum(np.maximum(within, nearest_other), 1e-12), 0.0
    )


def project_to_means(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, clusters - 1) vectors projected onto the span of the cluster means."""
    center = vectors.mean(0)
    means = np.stack([vectors[labels == number].mean(0) for number in range(int(labels.max()) + 1)])
    return (vectors - center) @ np.linalg.svd(means - center, full_matrices=False)[2][: len(means) - 1].T


def _score_candidates(
    vectors: np.ndarray, distances: np.ndarray, merges: np.ndarray, max_clusters: int
) -> tuple[ClusterCandidate, ...]:
    """Candidates with 2 to `max_clusters` clusters."""
    labels, candidates = cut_tree(merges, max_clusters), []
    for count in range(max_clusters, 1, -1):
        compact_labels = np.unique(labels, return_inverse=True)[1]
        separations = silhouettes(cosine_distances(project_to_means(vectors, compact_labels)), compact_labels)
        candidates.append(
            ClusterCandidate(count, float(silhouettes(distances, compact_labels).mean()), float(separations.mean()))
        )
        first, second = merges[len(merges) + 1 - count]
        labels[labels == labels[second]] = labels[first]
    return tuple(candidates[::-1])


def _random_baseline(vectors: np.ndarray, max_clusters: int) -> SilhouetteBaseline:
    """Baseline from random unit vectors of a normal distribution with the same mean and covariance."""
    rows = vectors.astype(np.float64)
    center = rows.mean(0)
    _, lengths, directions = np.linalg.svd(rows - center, full_matrices=False)
    directions_scaled = (lengths / np.sqrt(len(rows) - 1))[:, None] * directions
    rng, best_candidates = np.random.default_rng(0), []
    for _ in range(NUM_RANDOM_CLOUDS):
        cloud = center + rng.normal(size=(len(rows), len(directions_scaled))) @ directions_scaled
        cloud /= np.maximum(np.linalg.norm(cloud, axis=1, keepdims=True), 1e-12)
        distances = cosine_distances(cloud)
        best_candidates.append(
            max(
                _score_candidates(cloud, distances, ward_tree(distances), max_clusters),
                key=lambda candidate: candidate.silhouette,
            )
        )
    return SilhouetteBaseline(
        float(np.mean([candidate.silhouette for candidate in best_candidates])),
        float(np.quantile([candidate.separation for candidate in best_candidates], BASELINE_QUANTILE)),
    )


def _count_distinct(distances: np.ndarray) -> int:
    remaining, count = np.ones(len(distances), bool), 0
    while remaining.any():
        remaining &= distances[remaining.argmax()] > SAME_VECTOR_DISTANCE**2  # distances are squared
        count += 1
    return count


# --- Agreement of clusters with gold senses: purity and the adjusted Rand index ---

NUM_SHUFFLES = 40  # shuffles for the random baseline


@dataclass(frozen=True)
class ClusterAgreement:
    """Agreement of clusters with gold senses.

    purity         share of occurrences with the majority sense of their cluster
    chance         the same for shuffled senses
    rand           adjusted Rand index
    merged_groups  the same with clusters of one majority sense merged
    """

    groups: int
    purity: float
    chance: float
    rand: float
    merged_groups: float

    @classmethod
    def from_clusters(cls, cluster_ids: np.ndarray, labels: Sequence[str]) -> ClusterAgreement:
        majority_ids = _contingency_table(cluster_ids, labels).argmax(1)[cluster_ids]
        scores = (
            purity(cluster_ids, labels),
            chance_purity(cluster_ids, labels),
            adjusted_rand_index(cluster_ids, labels),
        )
        return cls(int(cluster_ids.max()) + 1, *scores, adjusted_rand_index(majority_ids, labels))

    def to_dict(self) -> dict[str, Any]:
        data = {"purity": self.purity, "purity_by_chance": self.chance}
        data |= {"adjusted_rand_index": self.rand, "adjusted_rand_index_joined": self.merged_groups}
        return {"groups": self.groups} | {name: round(value, 4) for name, value in data.items()}


def purity(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Share of occurrences with the majority sense of their cluster."""
    return float(_contingency_table(cluster_ids, labels).max(1).sum()) / len(cluster_ids)


def chance_purity(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Mean purity for shuffled senses, which grows with the number of clusters."""
    rng, label_array = np.random.default_rng(0), np.array(labels)
    return float(np.mean([purity(cluster_ids, rng.permutation(label_array).tolist()) for _ in range(NUM_SHUFFLES)]))


def adjusted_rand_index(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): agreement on pairs, corrected for chance.

    1 is a perfect match; 0 is chance level, and always the value of a single cluster.
    """

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    table = _contingency_table(cluster_ids, labels)
    same_pairs, cluster_pairs, label_pairs = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    expected = cluster_pairs * label_pairs / max(pairs(np.array([len(cluster_ids)])), 1)
    maximum = (cluster_pairs + label_pairs) / 2
    return (same_pairs - expected) / (maximum - expected) if maximum > expected else float(same_pairs == maximum)


def _contingency_table(cluster_ids: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """(clusters, senses) counts."""
    label_ids = np.unique(np.array(labels), return_inverse=True)[1]
    table = np.zeros((int(cluster_ids.max()) + 1, int(label_ids.max()) + 1))
    np.add.at(table, (cluster_ids, label_ids), 1)
    return table
