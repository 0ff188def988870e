"""Vectors from elsewhere: kept as they were given, strictly loaded, and never learned."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.embeddings.word_table import PretrainedVectors
from forebear.errors import ForebearError, InputError

VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def model(**more: np.ndarray) -> PretrainedVectors:
    made = PretrainedVectors(vocabulary=5, never={0, 3}, width=2)
    made.set_vectors(VECTORS, **more)
    return made


def test_rows_by_id_and_by_word():
    made = model(counts=np.array([5, 4, 3]))
    assert made.matrix.tolist() == [[0, 0], [0, 1], [2, 3], [0, 0], [4, 5]]
    table = made.word_table(["[UNK]", "a", "b", "[SEP]", "c"])
    assert table.words == ["a", "b", "c"]
    assert table.matrix is made.vectors  # a large table is not copied
    assert np.array_equal(table.counts, [5, 4, 3])  # pyright: ignore[reportArgumentType]
    assert (made.num_parameters, made.heads, made.notes) == (6, (), [])
    assert made.describe() == {"output": "given", "vocabulary": 5, "words": 3, "width": 2}


@pytest.mark.parametrize("more", [{}, {"counts": np.array([5, 4, 3])}])
def test_the_state_there_and_back(more: dict[str, np.ndarray]):
    made, again = model(**more), PretrainedVectors(vocabulary=5, never={0, 3}, width=2)
    again.load(made.arrays())
    assert {name: array.tolist() for name, array in again.arrays().items()} == {
        name: array.tolist() for name, array in made.arrays().items()
    }
    again.set_vectors(VECTORS + 1)
    assert again.matrix[1].tolist() == [1, 2]  # what was made before is made anew


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, r"lacks \['vectors'\]"),
        ({"vectors": VECTORS, "inputs": VECTORS}, r"should not, \['inputs'\]"),
        ({"vectors": VECTORS[:2]}, r"float32 \[2, 2\], and should be \[3, 2\]"),
        ({"vectors": VECTORS.astype(np.int64)}, "int64"),
        ({"vectors": VECTORS, "counts": np.zeros(5, np.int64)}, "counts of 3 given words"),
    ],
)
def test_loading_is_strict(arrays: dict[str, np.ndarray], said: str):
    with pytest.raises(ForebearError, match=said):
        model().load(arrays)


def test_what_it_refuses():
    empty = PretrainedVectors(vocabulary=5, never={0}, width=2)
    with pytest.raises(ForebearError, match="not given its vectors yet"):
        empty.arrays()
    with pytest.raises(InputError, match="nothing to learn"):
        empty.prepass(None)
    with pytest.raises(InputError, match="width is 0"):
        PretrainedVectors(vocabulary=5, never={0}, width=0)
