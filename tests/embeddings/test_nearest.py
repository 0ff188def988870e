"""The nearest rows by cosine: beside brute force over all of them, with ties in their order."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.embeddings import knn as module
from forebear.embeddings.knn import HNSWIndex, nearest_rows
from forebear.errors import ForebearError


def brute(asked: np.ndarray, matrix: np.ndarray, top: int) -> list[list[int]]:
    """By sorting all pairs: (cosine to six digits, falling; row, rising)."""
    found = []
    for one in asked.astype(np.float64):
        cosines = []
        for row, other in enumerate(matrix.astype(np.float64)):
            lengths = np.sqrt((one**2).sum()) * np.sqrt((other**2).sum())
            cosines.append((-round(float(one @ other / lengths), 5) if lengths else 0.0, row))
        found.append([row for _, row in sorted(cosines)[:top]])
    return found


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.integers(1, 50), st.integers(1, 60))
def test_as_brute_force(seed: int, rows: int, asked: int, top: int, block: int):
    """Numbers are small and whole, so that many rows are equally near, and some are zero."""
    rng = np.random.default_rng(seed)
    matrix, questions = (rng.integers(-1, 2, (count, 3)).astype(np.float32) for count in (rows, asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", block)
        patch.setattr(module, "QUERY_BLOCK", 2)
        found = nearest_rows(questions, matrix, top)
    assert found.rows.tolist() == brute(questions, matrix, top)
    assert (np.diff(found.cosines, axis=1) <= 0).all()


def test_lengths_of_vectors_change_nothing():
    rng = np.random.default_rng(0)
    matrix, asked = rng.normal(size=(50, 8)), rng.normal(size=(4, 8))
    plain = nearest_rows(asked, matrix, 5)
    longer = nearest_rows(7 * asked, matrix * rng.uniform(0.5, 3, (50, 1)), 5)
    assert plain.rows.tolist() == longer.rows.tolist()
    assert plain.cosines == pytest.approx(longer.cosines, abs=2e-6)


def test_an_index_finds_most_and_is_kept(tmp_path: Path):
    pytest.importorskip("usearch")
    rng = np.random.default_rng(1)
    matrix, asked = (rng.normal(size=(count, 16)).astype(np.float32) for count in (1500, 20))
    exact = nearest_rows(asked, matrix, 10)
    index = HNSWIndex(matrix, tmp_path / "rows.usearch")
    found = index.search(asked, 10)
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(exact.rows.tolist(), found.rows.tolist(), strict=True)]
    assert np.mean(shared) > 0.9
    assert (np.diff(found.cosines, axis=1) <= 0).all()
    assert index.recall(10) > 0.9
    again = HNSWIndex(matrix, tmp_path / "rows.usearch")
    assert again.search(asked, 10).rows.tolist() == found.rows.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["rows.usearch"]


def test_a_missing_index_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ForebearError, match="not installed") as caught:
        HNSWIndex(np.ones((2, 2), np.float32))
    assert "pip install" in caught.value.hint
