"""Clustering of vectors by Ward's method, with random clouds as baseline, and agreement with gold labels.

Any cloud of vectors can be divided, so clusters are compared with those of random clouds that have none: samples of
one normal distribution with the same mean and covariance, clustered in the same way (as in Liu et al. 2008). The
quality of clusters is their silhouette (Rousseeuw 1987). In the directions in which clusters differ it must exceed the
95% quantile of the random clouds; in all directions, where noise hides the gap between few vectors, their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from forebear.errors import InputError
from forebear.numerics import unit_rows

NUM_RANDOM_CLOUDS = 40
BASELINE_QUANTILE = 0.95
MAX_CLUSTERS = 8
MIN_OCCURRENCES = 4
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
    """The best clusterings of random clouds: mean silhouette, and 95% quantile of the separation."""

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
    candidates    clusterings that were compared, by number of clusters, from 2
    baseline      of random clouds; None without candidates
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
        return max(self.candidates, key=attrgetter("silhouette"), default=None)


def cluster_vectors(vectors: np.ndarray, num_clusters: int | None = None) -> Clustering:
    """Cluster (n, D) unit vectors into this many clusters, or the best number, or one."""
    distances = cosine_distances(vectors)
    num_distinct = int((~np.tril(distances <= SAME_VECTOR_DISTANCE**2, -1).any(1)).sum())  # distances are squared
    if num_clusters is not None and not 1 <= num_clusters <= len(vectors):
        hint = f"give from 1 to {len(vectors):,}, as many as there are vectors"
        raise InputError(f"--groups is {num_clusters}", hint=hint)
    max_clusters = min(MAX_CLUSTERS, len(vectors) // 2, num_distinct)
    if num_clusters == 1 or max_clusters < 2:
        return Clustering(np.zeros(len(vectors), np.int64), np.zeros(len(vectors)), num_distinct)
    tree = ward_tree(distances)
    candidates = _score_candidates(vectors, distances, tree, max_clusters)
    baseline = _random_baseline(vectors, max_clusters)
    if num_clusters is None:
        best = max(candidates, key=attrgetter("silhouette"))
        is_clustered = best.separation > baseline.separation and best.silhouette > baseline.silhouette
        num_clusters = best.num_clusters if is_clustered else 1
    labels = order_by_size(cut_tree(tree, min(num_clusters, num_distinct)))
    return Clustering(labels, silhouettes(distances, labels), num_distinct, candidates, baseline)


def cosine_distances(vectors: np.ndarray) -> np.ndarray:
    """(n, n) 1 - cosine of unit vectors, which is half their squared distance."""
    rows = vectors.astype(np.float64)
    squares = (rows**2).sum(1)
    return np.maximum(squares[:, None] + squares[None] - 2 * rows @ rows.T, 0.0) / 2


def ward_tree(distances: np.ndarray) -> np.ndarray:
    """(n - 1, 4) merges of Ward's method in scipy's format, with their ordinal numbers as heights.

    Different heights, also for merges of equal cost, allow the tree to be cut into any number of clusters.
    """
    from scipy.cluster.hierarchy import ward

    tree = ward(np.sqrt(2 * distances[np.triu_indices(len(distances), 1)]))
    tree[:, 2] = np.arange(len(tree))
    return tree


def cut_tree(tree: np.ndarray, num_clusters: int) -> np.ndarray:
    """(n,) cluster labels when the tree is cut into this many clusters."""
    from scipy.cluster.hierarchy import fcluster

    return fcluster(tree, num_clusters, "maxclust") - 1


def order_by_size(labels: np.ndarray) -> np.ndarray:
    """Relabel clusters by size, largest first; ties by first member."""
    _, first_rows, sizes = np.unique(labels, return_index=True, return_counts=True)
    return np.argsort(np.lexsort((first_rows, -sizes)))[labels]


def silhouettes(distances: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n,) (b - a) / max(a, b) of mean distances: a in the cluster, b to the nearest other one; 0 for singletons."""
    if not labels.any():  # only one cluster
        return np.zeros(len(labels))
    membership = np.eye(int(labels.max()) + 1)[labels]
    sizes, sums, rows = membership.sum(0), distances @ membership, np.arange(len(labels))
    within = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    between = np.where(membership > 0, np.inf, sums / sizes)
    nearest_other = between.min(1)
    values = (nearest_other - within) / np.maximum(np.maximum(within, nearest_other), 1e-12)
    return np.where(sizes[labels] > 1, values, 0.0)


def project_to_means(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, clusters - 1) vectors projected onto the span of the cluster means."""
    center = vectors.mean(0)
    means = np.stack([vectors[labels == cluster_id].mean(0) for cluster_id in range(int(labels.max()) + 1)])
    return (vectors - center) @ np.linalg.svd(means - center, full_matrices=False)[2][: len(means) - 1].T


def _score_candidates(
    vectors: np.ndarray, distances: np.ndarray, tree: np.ndarray, max_clusters: int
) -> tuple[ClusterCandidate, ...]:
    """Candidates with 2 to `max_clusters` clusters."""
    candidates = []
    for num_clusters in range(2, max_clusters + 1):
        labels = cut_tree(tree, num_clusters)
        separations = silhouettes(cosine_distances(project_to_means(vectors, labels)), labels)
        silhouette = float(silhouettes(distances, labels).mean())
        candidates.append(ClusterCandidate(num_clusters, silhouette, float(separations.mean())))
    return tuple(candidates)


def _random_baseline(vectors: np.ndarray, max_clusters: int) -> SilhouetteBaseline:
    """Baseline from random unit vectors of a normal distribution with the same mean and covariance."""
    float_vectors = vectors.astype(np.float64)
    center = float_vectors.mean(0)
    _, singular_values, directions = np.linalg.svd(float_vectors - center, full_matrices=False)
    scaled_directions = (singular_values / np.sqrt(len(float_vectors) - 1))[:, None] * directions
    rng, best_candidates = np.random.default_rng(0), []
    for _ in range(NUM_RANDOM_CLOUDS):
        cloud = unit_rows(center + rng.normal(size=(len(float_vectors), len(scaled_directions))) @ scaled_directions)
        distances = cosine_distances(cloud)
        candidates = _score_candidates(cloud, distances, ward_tree(distances), max_clusters)
        best_candidates.append(max(candidates, key=attrgetter("silhouette")))
    scores, separations = np.array([(candidate.silhouette, candidate.separation) for candidate in best_candidates]).T
    return SilhouetteBaseline(float(scores.mean()), float(np.quantile(separations, BASELINE_QUANTILE)))


# --- Agreement of clusters with gold senses: purity and the adjusted Rand index ---

NUM_SHUFFLES = 40  # of the senses, for the random baseline


@dataclass(frozen=True)
class ClusterAgreement:
    """Agreement of clusters with gold senses.

    purity                fraction of occurrences with the majority sense of their cluster
    shuffled_purity       the same for shuffled senses
    adjusted_rand         adjusted Rand index
    merged_adjusted_rand  the same after clusters with the same majority sense are merged
    """

    num_clusters: int
    purity: float
    shuffled_purity: float
    adjusted_rand: float
    merged_adjusted_rand: float

    @classmethod
    def from_clusters(cls, cluster_ids: np.ndarray, labels: Sequence[str]) -> ClusterAgreement:
        rng, label_array = np.random.default_rng(0), np.array(labels)
        shuffled_purities = [purity(cluster_ids, rng.permutation(label_array).tolist()) for _ in range(NUM_SHUFFLES)]
        majority_ids = _contingency_table(cluster_ids, labels).argmax(1)[cluster_ids]
        return cls(
            int(cluster_ids.max()) + 1,
            purity(cluster_ids, labels),
            float(np.mean(shuffled_purities)),  # grows with the number of clusters
            adjusted_rand_index(cluster_ids, labels),
            adjusted_rand_index(majority_ids, labels),
        )

    def to_dict(self) -> dict[str, Any]:
        data = {"purity": self.purity, "purity_by_chance": self.shuffled_purity}
        data |= {"adjusted_rand_index": self.adjusted_rand, "adjusted_rand_index_joined": self.merged_adjusted_rand}
        return {"groups": self.num_clusters} | {name: round(value, 4) for name, value in data.items()}


def purity(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Fraction of occurrences with the majority sense of their cluster."""
    return float(_contingency_table(cluster_ids, labels).max(1).sum()) / len(cluster_ids)


def adjusted_rand_index(cluster_ids: np.ndarray, labels: Sequence[str]) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): agreement on pairs, corrected for chance.

    1 is a perfect match; 0 is chance level, and always the value of a single cluster.
    """

    def num_pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    table = _contingency_table(cluster_ids, labels)
    same_pairs, cluster_pairs, label_pairs = num_pairs(table), num_pairs(table.sum(1)), num_pairs(table.sum(0))
    expected = cluster_pairs * label_pairs / max(num_pairs(np.array([len(cluster_ids)])), 1)
    maximum = (cluster_pairs + label_pairs) / 2
    return (same_pairs - expected) / (maximum - expected) if maximum > expected else float(same_pairs == maximum)


def _contingency_table(cluster_ids: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """(clusters, senses) counts."""
    label_ids = np.unique(np.array(labels), return_inverse=True)[1]
    table = np.zeros((int(cluster_ids.max()) + 1, int(label_ids.max()) + 1))
    np.add.at(table, (cluster_ids, label_ids), 1)
    return table
