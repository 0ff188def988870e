"""Nearest rows by cosine: equal to brute force with ties in row order; the HNSW index finds most of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.embeddings import knn
from forebear.embeddings.knn import HNSWIndex, nearest_rows
from forebear.errors import ForebearError


def brute_force_rows(queries: np.ndarray, matrix: np.ndarray, top: int) -> list[list[int]]:
    """All rows sorted by rounded cosine, descending, then by row."""
    nearest = []
    for query in queries.astype(np.float64):
        cosines = []
        for row, vector in enumerate(matrix.astype(np.float64)):
            lengths = np.sqrt((query**2).sum()) * np.sqrt((vector**2).sum())
            cosines.append((-round(float(query @ vector / lengths), 5) if lengths else 0.0, row))
        nearest.append([row for _, row in sorted(cosines)[:top]])
    return nearest


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.integers(1, 50), st.integers(1, 60))
def test_nearest_rows_equal_brute_force_with_ties_in_row_order(
    seed: int, rows: int, num_queries: int, top: int, block: int
):
    """Entries are -1, 0 or 1, so that there are ties and zero rows."""
    rng = np.random.default_rng(seed)
    matrix, queries = (rng.integers(-1, 2, (count, 3)).astype(np.float32) for count in (rows, num_queries))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knn, "VALUES_PER_BLOCK", block)
        patch.setattr(knn, "QUERY_BLOCK", 2)
        result = nearest_rows(queries, matrix, top)
    assert result.rows.tolist() == brute_force_rows(queries, matrix, top)
    assert (np.diff(result.cosines, axis=1) <= 0).all()


def test_nearest_rows_do_not_depend_on_vector_length():
    rng = np.random.default_rng(0)
    matrix, queries = rng.normal(size=(50, 8)), rng.normal(size=(4, 8))
    reference = nearest_rows(queries, matrix, 5)
    scaled = nearest_rows(7 * queries, matrix * rng.uniform(0.5, 3, (50, 1)), 5)
    assert reference.rows.tolist() == scaled.rows.tolist()
    assert reference.cosines == pytest.approx(scaled.cosines, abs=2e-6)


def test_hnsw_index_has_high_recall_and_is_saved(tmp_path: Path):
    pytest.importorskip("usearch")
    rng = np.random.default_rng(1)
    matrix, queries = (rng.normal(size=(count, 16)).astype(np.float32) for count in (1500, 20))
    exact = nearest_rows(queries, matrix, 10)
    index = HNSWIndex(matrix, tmp_path / "rows.usearch")
    approximate = index.search(queries, 10)
    recalls = [len(set(a) & set(b)) / 10 for a, b in zip(exact.rows.tolist(), approximate.rows.tolist(), strict=True)]
    assert np.mean(recalls) > 0.9
    assert (np.diff(approximate.cosines, axis=1) <= 0).all()
    assert index.recall(10) > 0.9
    reopened = HNSWIndex(matrix, tmp_path / "rows.usearch")
    assert reopened.search(queries, 10).rows.tolist() == approximate.rows.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.usearch"]


def test_hnsw_index_without_usearch_is_refused_with_install_hint(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ForebearError, match="not installed") as error:
        HNSWIndex(np.ones((2, 2), np.float32))
    assert "pip install" in error.value.hint
