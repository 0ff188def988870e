"""Files of vectors (.npy, .safetensors): streamed to disk, memory-mapped on reading; release of mapped pages."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.data.io.atomic import atomic_write, explain_disk_errors
from forebear.errors import InputError

SUFFIXES = (".npy", ".safetensors")
NAME = "vectors"  # of the only tensor in a .safetensors file
HEAD = 128  # bytes of the header of a .npy file: enough for a shape of any size
SAFETENSORS_HEAD = 4096  # the same of a .safetensors file, which also holds metadata
NUMBER = np.dtype("<f4")


def write_vectors(
    file: str | os.PathLike[str], groups: Iterable[np.ndarray], metadata: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """Writes (n, D) arrays one below the other, atomically; returns (rows, D).

    The number of rows need not be known in advance: the header is written last. `metadata` is for a
    .safetensors file; .npy has none.
    """
    target, rows, width = Path(file), 0, 0
    as_npy = target.suffix == ".npy"
    with explain_disk_errors(target), atomic_write(target) as stream:
        stream.write(b"\0" * (HEAD if as_npy else SAFETENSORS_HEAD))
        for group in groups:
            stream.write(np.ascontiguousarray(group, NUMBER).data)
            rows, width = rows + len(group), group.shape[1]
        stream.seek(0)
        stream.write(_npy_head(rows, width) if as_npy else _safetensors_head(rows, width, metadata or {}))
    return rows, width


def _npy_head(rows: int, width: int) -> bytes:
    """The header in version 1.0 of NumPy's format."""
    header = str({"descr": NUMBER.str, "fortran_order": False, "shape": (rows, width)})
    body = header.ljust(HEAD - 11).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def _safetensors_head(rows: int, width: int, metadata: Mapping[str, str]) -> bytes:
    size = rows * width * NUMBER.itemsize
    tensor = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": dict(metadata), NAME: tensor}).encode()
    assert len(header) <= SAFETENSORS_HEAD - 8, "facts are few words"
    return (SAFETENSORS_HEAD - 8).to_bytes(8, "little") + header.ljust(SAFETENSORS_HEAD - 8)


def read_vectors(file: str | os.PathLike[str]) -> np.ndarray:
    """(n, D) the vectors of a file, memory-mapped."""
    target = Path(file)
    if target.suffix not in SUFFIXES:
        hint = "make one with: forebear embed RUN --in FILE --out vectors.npy"
        raise InputError("vectors are read from .npy and .safetensors", file=target, hint=hint)
    if not target.is_file():
        raise InputError("there is no such file", file=target, hint="name the file that embed has written")
    try:
        vectors = (
            np.load(target, mmap_mode="r", allow_pickle=False) if target.suffix == ".npy" else _map_safetensors(target)
        )
    except (ValueError, KeyError, TypeError, EOFError) as error:
        description = f"is no file of vectors ({error})"
        raise InputError(
            description, file=target, hint="write it again, with: forebear embed RUN --in FILE --out …"
        ) from error
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.shape[1]:
        description = (
            f"holds an array of the shape {vectors.shape} and type {vectors.dtype}, not a row of numbers for each text"
        )
        raise InputError(description, file=target, hint="name the file that embed has written")
    return vectors


def _map_safetensors(file: Path) -> np.ndarray:
    with open(file, "rb") as opened:
        header = _head_of(opened, file.stat().st_size)
        begin = opened.tell()
    names = [name for name in header if name != "__metadata__"]
    tensor = header[NAME if NAME in names else names[0] if len(names) == 1 else NAME]
    dtypes = {"F32": "<f4", "F64": "<f8", "F16": "<f2"}
    shape, (start, end), dtype = tuple(tensor["shape"]), tensor["data_offsets"], np.dtype(dtypes[tensor["dtype"]])
    if math.prod(shape) * dtype.itemsize != end - start or begin + end > file.stat().st_size:
        raise ValueError("it is cut short")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", begin + start, shape)


def _head_of(file: IO[bytes], size: int) -> dict[str, Any]:
    length = int.from_bytes(file.read(8), "little")
    if length > size:
        raise ValueError("it is cut short")
    header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("it has no table of its tensors")
    return header


# --- Memory-mapped arrays ---


def _file_of(array: Any) -> np.memmap | None:
    """The memory map that an array is a view of, if any."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def release_pages(*arrays: np.ndarray) -> None:
    """Releases the memory of what was read or written of memory-mapped arrays.

    The system would reclaim it when memory is short, but until then it counts as used by this process.
    """
    for array in arrays:
        if (file := _file_of(array)) is not None:
            file._mmap.madvise(mmap.MADV_DONTNEED)  # pyright: ignore[reportAttributeAccessIssue] - numpy's, undeclared
