"""Vector files: numpy and safetensors read what was written, and other files are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from forebear.data.io.arrays import read_vectors, write_vectors
from forebear.errors import InputError


def vector_blocks(*sizes: int, width: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, width)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("sizes", [(1,), (4, 2, 7), (0, 5)])
def test_numpy_and_safetensors_read_written_vectors(sizes: tuple[int, ...], tmp_path: Path):
    blocks = vector_blocks(*sizes)
    matrix = np.concatenate(blocks)
    assert write_vectors(tmp_path / "v.npy", iter(blocks)) == matrix.shape
    write_vectors(tmp_path / "v.safetensors", iter(blocks), {"run": "a"})
    assert (np.load(tmp_path / "v.npy", allow_pickle=False) == matrix).all()
    with safe_open(tmp_path / "v.safetensors", "numpy") as file:  # pyright: ignore[reportGeneralTypeIssues]
        assert file.metadata() == {"run": "a"}
        assert (file.get_tensor("vectors") == matrix).all()
    for name in ("v.npy", "v.safetensors"):
        vectors = read_vectors(tmp_path / name)
        assert isinstance(vectors, np.memmap)
        assert (vectors == matrix).all()


def test_vectors_written_by_numpy_and_safetensors_are_read(tmp_path: Path):
    from safetensors.numpy import save_file

    matrix = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "v.npy", matrix)
    save_file({"embeddings": matrix}, tmp_path / "v.safetensors")
    for name in ("v.npy", "v.safetensors"):
        assert (read_vectors(tmp_path / name) == matrix).all()


def test_failed_write_of_vectors_leaves_no_file(tmp_path: Path):
    def failing_blocks() -> Iterator[np.ndarray]:
        yield vector_blocks(5)[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_vectors(tmp_path / "v.npy", failing_blocks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors"])
def test_truncated_vector_files_are_refused(name: str, tmp_path: Path):
    file = tmp_path / name
    write_vectors(file, iter(vector_blocks(50)))
    content = file.read_bytes()
    for truncated in (b"", b"no", content[:40], content[:-8]):
        file.write_bytes(truncated)
        with pytest.raises(InputError) as caught:
            read_vectors(file)
        assert caught.value.hint
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / f"missing-{name}")


def test_arrays_that_are_not_float_matrices_are_refused(tmp_path: Path):
    for number, array in enumerate((np.zeros(4), np.zeros((2, 3, 4)), np.zeros((2, 2), np.int64), np.zeros((2, 0)))):
        np.save(tmp_path / f"{number}.npy", array)
        with pytest.raises(InputError, match="not a row of numbers"):
            read_vectors(tmp_path / f"{number}.npy")
    with pytest.raises(InputError, match="are read from"):
        read_vectors(tmp_path / "v.txt")
