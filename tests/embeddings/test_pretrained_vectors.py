"""Pre-trained vectors: stored unchanged, loaded strictly, never trained."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.embeddings.word_table import PretrainedVectors
from forebear.errors import ForebearError, InputError

VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


def pretrained_vectors(**arrays: np.ndarray) -> PretrainedVectors:
    vectors = PretrainedVectors(vocab_size=5, excluded_ids={0, 3}, width=2)
    vectors.set_vectors(VECTORS, **arrays)
    return vectors


def test_pretrained_vectors_skip_special_ids_and_form_a_word_table():
    vectors = pretrained_vectors(counts=np.array([5, 4, 3]))
    assert vectors.matrix.tolist() == [[0, 0], [0, 1], [2, 3], [0, 0], [4, 5]]
    table = vectors.word_table(["[UNK]", "a", "b", "[SEP]", "c"])
    assert table.words == ["a", "b", "c"]
    assert table.matrix is vectors.vectors  # no copy of a large matrix
    assert np.array_equal(table.counts, [5, 4, 3])  # pyright: ignore[reportArgumentType]
    assert (vectors.num_parameters, vectors.heads, vectors.notes) == (6, (), [])
    assert vectors.describe() == {"output": "given", "vocabulary": 5, "words": 3, "width": 2}


@pytest.mark.parametrize("arrays", [{}, {"counts": np.array([5, 4, 3])}])
def test_pretrained_vectors_round_trip_their_arrays(arrays: dict[str, np.ndarray]):
    vectors, loaded = pretrained_vectors(**arrays), PretrainedVectors(vocab_size=5, excluded_ids={0, 3}, width=2)
    loaded.load(vectors.arrays())
    assert {name: array.tolist() for name, array in loaded.arrays().items()} == {
        name: array.tolist() for name, array in vectors.arrays().items()
    }
    loaded.set_vectors(VECTORS + 1)
    assert loaded.matrix[1].tolist() == [1, 2]  # the cached matrix is rebuilt


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"lacks \['vectors'\]"),
        ({"vectors": VECTORS, "inputs": VECTORS}, r"should not, \['inputs'\]"),
        ({"vectors": VECTORS[:2]}, r"float32 \[2, 2\], and should be \[3, 2\]"),
        ({"vectors": VECTORS.astype(np.int64)}, "int64"),
        ({"vectors": VECTORS, "counts": np.zeros(5, np.int64)}, "counts of 3 given words"),
    ],
)
def test_pretrained_vectors_refuse_missing_extra_or_misshaped_arrays(arrays: dict[str, np.ndarray], message: str):
    with pytest.raises(ForebearError, match=message):
        pretrained_vectors().load(arrays)


def test_pretrained_vectors_refuse_training_missing_vectors_and_zero_width():
    empty = PretrainedVectors(vocab_size=5, excluded_ids={0}, width=2)
    with pytest.raises(ForebearError, match="not given its vectors yet"):
        empty.arrays()
    with pytest.raises(InputError, match="nothing to learn"):
        empty.run_first_pass(None)
    with pytest.raises(InputError, match="width is 0"):
        PretrainedVectors(vocab_size=5, excluded_ids={0}, width=0)
