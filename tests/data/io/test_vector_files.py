"""Files of vectors: numpy and safetensors read what was written, and what is no such file is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from forebear.data.io.safetensors import read_vectors, write_vectors
from forebear.errors import InputError


def groups(*sizes: int, width: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, width)).astype(np.float32) for size in sizes]


@pytest.mark.parametrize("sizes", [(1,), (4, 2, 7), (0, 5)])
def test_others_read_them(sizes: tuple[int, ...], tmp_path: Path):
    made = groups(*sizes)
    whole = np.concatenate(made)
    assert write_vectors(tmp_path / "v.npy", iter(made)) == whole.shape
    write_vectors(tmp_path / "v.safetensors", iter(made), {"run": "a"})
    assert (np.load(tmp_path / "v.npy", allow_pickle=False) == whole).all()
    with safe_open(tmp_path / "v.safetensors", "numpy") as file:  # pyright: ignore[reportGeneralTypeIssues]
        assert file.metadata() == {"run": "a"}
        assert (file.get_tensor("vectors") == whole).all()
    for name in ("v.npy", "v.safetensors"):
        found = read_vectors(tmp_path / name)
        assert isinstance(found, np.memmap)
        assert (found == whole).all()


def test_those_of_others_are_read(tmp_path: Path):
    from safetensors.numpy import save_file

    made = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "v.npy", made)
    save_file({"embeddings": made}, tmp_path / "v.safetensors")
    for name in ("v.npy", "v.safetensors"):
        assert (read_vectors(tmp_path / name) == made).all()


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path):
    def broken() -> Iterator[np.ndarray]:
        yield groups(5)[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_vectors(tmp_path / "v.npy", broken())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors"])
def test_what_is_cut_short_or_strange_is_told(name: str, tmp_path: Path):
    file = tmp_path / name
    write_vectors(file, iter(groups(50)))
    whole = file.read_bytes()
    for part in (b"", b"no", whole[:40], whole[:-8]):
        file.write_bytes(part)
        with pytest.raises(InputError) as caught:
            read_vectors(file)
        assert caught.value.hint
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / f"missing-{name}")


def test_other_arrays_are_told(tmp_path: Path):
    for number, array in enumerate((np.zeros(4), np.zeros((2, 3, 4)), np.zeros((2, 2), np.int64), np.zeros((2, 0)))):
        np.save(tmp_path / f"{number}.npy", array)
        with pytest.raises(InputError, match="not a row of numbers"):
            read_vectors(tmp_path / f"{number}.npy")
    with pytest.raises(InputError, match="are read from"):
        read_vectors(tmp_path / "v.txt")
