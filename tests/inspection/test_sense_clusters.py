"""Sense clusters: Ward tree and silhouettes equal to scipy and scikit-learn, number of clusters, agreement scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import InputError
from forebear.inspection.sense_clusters import (
    ClusterAgreement,
    adjusted_rand_index,
    cluster_vectors,
    cosine_distances,
    cut_tree,
    order_by_size,
    project_to_means,
    purity,
    silhouettes,
    ward_tree,
)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def same_cluster(labels: np.ndarray) -> np.ndarray:
    """(n, n) whether two items share a cluster, whatever its label."""
    return labels[:, None] == labels[None]


def single_cluster(seed: int, count: int = 60, width: int = 40) -> np.ndarray:
    """One cluster: anisotropic normal vectors with a mean away from zero, as contextual vectors have."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, width)) * np.arange(1, width + 1) ** -0.7 + 0.5


def separated_clusters(seed: int, groups: int, count: int = 60, width: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centers, labels = rng.normal(size=(groups, width)), np.arange(count) % groups
    return rng.normal(size=(count, width)) + 1.5 * centers[labels] + 1, labels


@pytest.mark.parametrize("seed", range(3))
def test_ward_tree_equals_that_of_scipy(seed: int):
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    vectors = unit_rows(single_cluster(seed))
    merges, reference = ward_tree(cosine_distances(vectors)), hierarchy.linkage(vectors, "ward")
    for groups in (1, 2, 3, 5, 17, 59, 60):
        expected = hierarchy.fcluster(reference, groups, "maxclust")
        np.testing.assert_array_equal(same_cluster(cut_tree(merges, groups)), same_cluster(expected))


def test_ward_tree_with_tied_merges_is_cut_into_any_number_of_clusters():
    tree = ward_tree(cosine_distances(np.eye(8)))
    assert [len(set(cut_tree(tree, groups).tolist())) for groups in range(1, 9)] == list(range(1, 9))


def test_silhouettes_equal_scikit_learn_and_a_worked_example():
    metrics = pytest.importorskip("sklearn.metrics")
    vectors, labels = separated_clusters(0, 4)
    distances = cosine_distances(unit_rows(vectors))
    np.fill_diagonal(distances, 0)
    labels[0] = 4  # a cluster of one
    np.testing.assert_allclose(
        silhouettes(distances, labels), metrics.silhouette_samples(distances, labels, metric="precomputed")
    )
    line = np.abs(np.subtract.outer([0.0, 1.0, 4.0], [0.0, 1.0, 4.0]))
    np.testing.assert_allclose(silhouettes(line, np.array([0, 0, 1])), [(4 - 1) / 4, (3 - 1) / 3, 0])


def test_number_of_clusters_is_one_for_a_cloud_and_exact_for_separated_clusters():
    # At a false-positive rate of 1 / 41
    assert sum(cluster_vectors(unit_rows(single_cluster(seed, 40))).num_clusters > 1 for seed in range(20)) <= 2
    for groups in (2, 3, 5):
        for seed in range(2):
            vectors, labels = separated_clusters(seed, groups)
            clustering = cluster_vectors(unit_rows(vectors))
            assert clustering.num_clusters == groups
            assert adjusted_rand_index(clustering.labels, [str(label) for label in labels]) > 0.9
            best, baseline = clustering.best, clustering.baseline
            assert best is not None
            assert baseline is not None
            assert (best.num_clusters, best.silhouette) == (groups, pytest.approx(clustering.silhouette))
            assert best.separation > baseline.separation
            assert best.silhouette > baseline.silhouette


def test_twelve_separated_vectors_are_clustered_and_a_small_cloud_is_not():
    vectors, labels = separated_clusters(0, 2, count=12)
    clustering = cluster_vectors(unit_rows(vectors))
    assert (clustering.num_clusters, adjusted_rand_index(clustering.labels, [str(label) for label in labels])) == (
        2,
        1.0,
    )
    assert [cluster_vectors(unit_rows(single_cluster(seed, count=12))).num_clusters for seed in range(5)] == [1] * 5


def test_projection_to_means_is_the_line_through_two_cluster_means():
    """Of two clusters, each point keeps its coordinate along the line through the means."""
    vectors = np.array([(0, 0), (1, -1), (3, 4), (4, 3)], float)
    projected = project_to_means(vectors, np.array([0, 0, 1, 1]))
    assert projected.shape == (4, 1)
    expected = (vectors - vectors.mean(0)) @ np.array([3, 4]) / 5
    np.testing.assert_allclose(np.abs(projected[:, 0]), np.abs(expected))


def test_requested_number_of_clusters_is_honored_without_cluster_structure():
    vectors = unit_rows(single_cluster(0))
    clustering = cluster_vectors(vectors, 3)
    assert clustering.num_clusters == 3
    # Largest cluster first
    assert np.bincount(clustering.labels).tolist() == sorted(np.bincount(clustering.labels), reverse=True)
    assert clustering.candidates[1].silhouette == pytest.approx(clustering.silhouette)
    np.testing.assert_array_equal(clustering.labels, cluster_vectors(vectors, 3).labels)
    assert cluster_vectors(vectors, 1).silhouette is None
    with pytest.raises(InputError, match="--groups is 61"):
        cluster_vectors(vectors, 61)


def test_identical_vectors_form_one_cluster_whatever_number_is_requested():
    identical = np.repeat(unit_rows(single_cluster(0, 1)), 9, 0)
    assert (
        cluster_vectors(identical).num_clusters,
        cluster_vectors(identical, 3).num_clusters,
        cluster_vectors(identical).num_distinct,
    ) == (1, 1, 1)
    opposite = np.concatenate((identical, -identical[:4]))
    assert cluster_vectors(opposite, 3).labels.tolist() == [0] * 9 + [1] * 4


@given(st.lists(st.integers(0, 3), min_size=4, max_size=12).filter(lambda given: len(set(given)) > 1))
def test_clusters_are_numbered_by_decreasing_size(given: list[int]):
    labels = order_by_size(np.unique(given, return_inverse=True)[1])
    np.testing.assert_array_equal(same_cluster(labels), same_cluster(np.array(given)))
    sizes = np.bincount(labels).tolist()
    assert sizes == sorted(sizes, reverse=True)


def test_purity_and_adjusted_rand_index_match_worked_example():
    """Of 15 pairs, 2 share cluster and label, 3 a cluster, 6 a label; expected 3 · 6 / 15 = 1.2, at most 4.5."""
    labels, gold = np.array([0, 0, 1, 1, 2, 2]), ["a", "a", "a", "b", "b", "b"]
    assert purity(labels, gold) == pytest.approx(5 / 6)
    assert adjusted_rand_index(labels, gold) == pytest.approx((2 - 1.2) / (4.5 - 1.2))
    assert adjusted_rand_index(np.zeros(6, int), gold) == 0.0
    assert adjusted_rand_index(np.array([1, 1, 1, 0, 0, 0]), gold) == 1.0
    assert adjusted_rand_index(np.zeros(3, int), ["a"] * 3) == 1.0
    agreement = ClusterAgreement.from_clusters(labels, ["a", "a", "a", "a", "b", "b"])
    assert (agreement.num_clusters, agreement.purity, agreement.merged_adjusted_rand) == (3, 1.0, 1.0)
    assert agreement.adjusted_rand < 0.6
    assert 2 / 3 < agreement.shuffled_purity < 1


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=2, max_size=30))
def test_adjusted_rand_index_equals_that_of_scikit_learn(given: list[tuple[int, str]]):
    metrics = pytest.importorskip("sklearn.metrics")
    labels, gold = (
        np.unique([label for label, _ in given], return_inverse=True)[1],
        [gold_label for _, gold_label in given],
    )
    assert adjusted_rand_index(labels, gold) == pytest.approx(metrics.adjusted_rand_score(gold, labels), abs=1e-12)
