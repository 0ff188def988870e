"""Groups: the tree and silhouettes of other programs, one group where there are no more, agreement by hand."""

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


def units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def together(owners: np.ndarray) -> np.ndarray:
    """(n, n) who is with whom, whatever groups are called."""
    return owners[:, None] == owners[None]


def cloud(seed: int, count: int = 60, width: int = 40) -> np.ndarray:
    """One group: normal, longer in some directions than in others, and away from zero as vectors in context are."""
    chance = np.random.default_rng(seed)
    return chance.normal(size=(count, width)) * np.arange(1, width + 1) ** -0.7 + 0.5


def islands(seed: int, groups: int, count: int = 60, width: int = 40) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    middles, mine = chance.normal(size=(groups, width)), np.arange(count) % groups
    return chance.normal(size=(count, width)) + 1.5 * middles[mine] + 1, mine


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_that_of_scipy(seed: int):
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    vectors = units(cloud(seed))
    merges, theirs = ward_tree(cosine_distances(vectors)), hierarchy.linkage(vectors, "ward")
    for groups in (1, 2, 3, 5, 17, 59, 60):
        expected = hierarchy.fcluster(theirs, groups, "maxclust")
        np.testing.assert_array_equal(together(cut_tree(merges, groups)), together(expected))


def test_merges_of_equal_cost_are_cut_into_any_number_of_groups():
    tree = ward_tree(cosine_distances(np.eye(8)))
    assert [len(set(cut_tree(tree, groups).tolist())) for groups in range(1, 9)] == list(range(1, 9))


def test_silhouettes_are_those_of_scikit_learn_and_of_a_hand():
    metrics = pytest.importorskip("sklearn.metrics")
    vectors, mine = islands(0, 4)
    away = cosine_distances(units(vectors))
    np.fill_diagonal(away, 0)
    mine[0] = 4  # one that is alone
    np.testing.assert_allclose(silhouettes(away, mine), metrics.silhouette_samples(away, mine, metric="precomputed"))
    line = np.abs(np.subtract.outer([0.0, 1.0, 4.0], [0.0, 1.0, 4.0]))
    np.testing.assert_allclose(silhouettes(line, np.array([0, 0, 1])), [(4 - 1) / 4, (3 - 1) / 3, 0])


def test_a_cloud_is_one_group_and_islands_are_as_many_as_they_are():
    assert (
        sum(cluster_vectors(units(cloud(seed, 40))).num_clusters > 1 for seed in range(20)) <= 2
    )  # one of 41 is expected to
    for groups in (2, 3, 5):
        for seed in range(2):
            vectors, mine = islands(seed, groups)
            found = cluster_vectors(units(vectors))
            assert found.num_clusters == groups
            assert adjusted_rand_index(found.labels, [str(one) for one in mine]) > 0.9
            best, chance = found.best, found.baseline
            assert best is not None
            assert chance is not None
            assert (best.num_clusters, best.silhouette) == (groups, pytest.approx(found.silhouette))
            assert best.separation > chance.separation
            assert best.silhouette > chance.silhouette


def test_few_vectors_that_lie_far_apart_are_groups():
    vectors, mine = islands(0, 2, count=12)
    found = cluster_vectors(units(vectors))
    assert (found.num_clusters, adjusted_rand_index(found.labels, [str(one) for one in mine])) == (2, 1.0)
    assert [cluster_vectors(units(cloud(seed, count=12))).num_clusters for seed in range(5)] == [1] * 5


def test_the_directions_in_which_groups_lie_apart():
    """Two groups on a slant: what is left of each is how far it lies along the line through their means."""
    vectors = np.array([(0, 0), (1, -1), (3, 4), (4, 3)], float)
    seen = project_to_means(vectors, np.array([0, 0, 1, 1]))
    assert seen.shape == (4, 1)
    along = (vectors - vectors.mean(0)) @ np.array([3, 4]) / 5
    np.testing.assert_allclose(np.abs(seen[:, 0]), np.abs(along))


def test_what_has_no_groups_is_cut_where_that_is_asked_for():
    vectors = units(cloud(0))
    found = cluster_vectors(vectors, 3)
    assert found.num_clusters == 3
    assert np.bincount(found.labels).tolist() == sorted(np.bincount(found.labels), reverse=True)  # the largest first
    assert found.candidates[1].silhouette == pytest.approx(found.silhouette)
    np.testing.assert_array_equal(found.labels, cluster_vectors(vectors, 3).labels)
    assert cluster_vectors(vectors, 1).silhouette is None
    with pytest.raises(InputError, match="--groups is 61"):
        cluster_vectors(vectors, 61)


def test_equal_vectors_are_one_group_whatever_is_asked_for():
    same = np.repeat(units(cloud(0, 1)), 9, 0)
    assert (
        cluster_vectors(same).num_clusters,
        cluster_vectors(same, 3).num_clusters,
        cluster_vectors(same).num_distinct,
    ) == (1, 1, 1)
    two = np.concatenate((same, -same[:4]))
    assert cluster_vectors(two, 3).labels.tolist() == [0] * 9 + [1] * 4


@given(st.lists(st.integers(0, 3), min_size=4, max_size=12).filter(lambda given: len(set(given)) > 1))
def test_groups_are_named_by_their_size(given: list[int]):
    owners = order_by_size(np.unique(given, return_inverse=True)[1])
    np.testing.assert_array_equal(together(owners), together(np.array(given)))
    sizes = np.bincount(owners).tolist()
    assert sizes == sorted(sizes, reverse=True)


def test_agreement_by_hand():
    """Pairs that are together: 2 in both, 3 in groups, 6 in kinds, of 15. By chance 3 · 6 / 15 = 1.2, at most 4.5."""
    owners, known = np.array([0, 0, 1, 1, 2, 2]), ["a", "a", "a", "b", "b", "b"]
    assert purity(owners, known) == pytest.approx(5 / 6)
    assert adjusted_rand_index(owners, known) == pytest.approx((2 - 1.2) / (4.5 - 1.2))
    assert adjusted_rand_index(np.zeros(6, int), known) == 0.0
    assert adjusted_rand_index(np.array([1, 1, 1, 0, 0, 0]), known) == 1.0
    assert adjusted_rand_index(np.zeros(3, int), ["a"] * 3) == 1.0
    found = ClusterAgreement.from_clusters(owners, ["a", "a", "a", "a", "b", "b"])
    assert (found.groups, found.purity, found.merged_groups) == (3, 1.0, 1.0)
    assert found.rand < 0.6
    assert 2 / 3 < found.chance < 1


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), min_size=2, max_size=30))
def test_the_rand_index_is_that_of_scikit_learn(given: list[tuple[int, str]]):
    metrics = pytest.importorskip("sklearn.metrics")
    owners, known = np.unique([one for one, _ in given], return_inverse=True)[1], [kind for _, kind in given]
    assert adjusted_rand_index(owners, known) == pytest.approx(metrics.adjusted_rand_score(known, owners), abs=1e-12)
