"""One-hot vectors: orthogonal, and multiplication by a matrix selects a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.embeddings.word_table import IdentityMatrix, OnehotModel
from forebear.errors import ForebearError
from small_runs import open_small_run


def test_onehot_vector_times_matrix_selects_a_row():
    matrix = np.array([[17, 24, 1], [23, 5, 7], [4, 6, 13], [10, 12, 19], [11, 18, 25]])
    vector = IdentityMatrix(5)[3]
    assert vector.tolist() == [0, 0, 0, 1, 0]
    assert (vector @ matrix).tolist() == [10, 12, 19] == matrix[3].tolist()


def test_identity_matrix_rows_equal_those_of_numpy_eye():
    rows = IdentityMatrix(4)
    assert np.array_equal(rows[1:3], np.eye(4)[1:3])
    assert np.array_equal(rows[np.array([3, 0])], np.eye(4)[[3, 0]])
    assert (len(rows), rows.shape) == (4, (4, 4))


def test_onehot_run_has_orthogonal_vectors_and_counts(tmp_path: Path):
    table = open_small_run("onehot", tmp_path).word_table
    cat, dog = table.vector("cat"), table.vector("dog")
    assert cat is not None
    assert dog is not None
    assert cat @ dog == 0
    assert cat @ cat == 1
    assert table.vector("zebra") is None
    assert table.counts is not None
    assert table.counts[table.rows["cat"]] > 10


def test_onehot_model_refuses_arrays_other_than_its_counts():
    model = OnehotModel(vocab_size=4, excluded_ids=[0])
    with pytest.raises(ForebearError, match="counts alone"):
        model.load({"counts": np.zeros(3, np.int64)})
    with pytest.raises(ForebearError, match="counts alone"):
        model.load({"counts": np.zeros(4, np.int64), "more": np.zeros(1)})
