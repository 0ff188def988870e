"""Arrays on disk (.npy, .safetensors): written as a stream, read memory-mapped; release of mapped pages."""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.io.atomic import atomic_write, explain_disk_errors, sync_file
from forebear.errors import InputError

SUFFIXES = (".npy", ".safetensors")
TENSOR_NAME = "vectors"  # of the only tensor in a .safetensors file
VECTORS_HEADER_BYTES = 4096  # of a .safetensors file of vectors: enough for any shape and metadata
VECTOR_DTYPE = np.dtype("<f4")


def write_vectors(
    file: str | os.PathLike[str], batches: Iterable[np.ndarray], metadata: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """Write batches of (n, D) vectors to one file, atomically; return (rows, D).

    The number of rows need not be known in advance: the header is rewritten at the end. Only .safetensors has
    `metadata`.
    """
    target, rows, width = Path(file), 0, 0

    def header() -> bytes:
        if target.suffix == ".npy":
            return _npy_header(VECTOR_DTYPE, (rows, width))
        return safetensors_header({TENSOR_NAME: ("F32", (rows, width))}, metadata or {}, VECTORS_HEADER_BYTES)

    with explain_disk_errors(target), atomic_write(target) as stream:
        size = stream.write(header())
        for batch in batches:
            stream.write(np.ascontiguousarray(batch, VECTOR_DTYPE).data)
            rows, width = rows + len(batch), batch.shape[1]
        stream.seek(0)
        assert stream.write(header()) == size, "the header has room for any shape"
    return rows, width


def read_vectors(file: str | os.PathLike[str]) -> np.ndarray:
    """(n, D) vectors of a file, memory-mapped."""
    target = Path(file)
    if target.suffix not in SUFFIXES:
        hint = "make one with: forebear embed RUN --in FILE --out vectors.npy"
        raise InputError("vectors are read from .npy and .safetensors", file=target, hint=hint)
    if not target.is_file():
        raise InputError("there is no such file", file=target, hint="name the file that embed has written")
    try:
        if target.suffix == ".npy":
            vectors = np.load(target, mmap_mode="r", allow_pickle=False)
        else:  # the tensor `vectors`, or the only one
            header, data_start = read_safetensors_header(target)
            names = [name for name in header if name != "__metadata__"]
            vectors = map_tensor(target, header[names[0] if len(names) == 1 else TENSOR_NAME], data_start)
    except (ValueError, KeyError, TypeError, EOFError) as error:
        hint = "write it again, with: forebear embed RUN --in FILE --out …"
        raise InputError(f"is no file of vectors ({error})", file=target, hint=hint) from error
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.shape[1]:
        contents = f"an array of the shape {vectors.shape} and type {vectors.dtype}"
        hint = "name the file that embed has written"
        raise InputError(f"holds {contents}, not a row of numbers for each text", file=target, hint=hint)
    return vectors


# --- safetensors: the library reads and writes tensors in memory; these functions map and stream them ---

SAFETENSORS_DTYPES = {
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "I64": "<i8", "I32": "<i4",
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
}  # fmt: skip
MAX_HEADER_BYTES = 100_000_000  # as the format allows


def safetensors_header(
    specs: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str], alignment: int = 64
) -> bytes:
    """The header of a file with tensors of these types and shapes; its size is a multiple of `alignment`."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, (dtype, shape) in specs.items():
        size = math.prod(shape) * np.dtype(SAFETENSORS_DTYPES[dtype]).itemsize
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header).encode()
    encoded += b" " * (-(8 + len(encoded)) % alignment)
    return len(encoded).to_bytes(8, "little") + encoded


def read_safetensors_header(file: Path) -> tuple[dict[str, Any], int]:
    """The header, and the offset of the data; raise ValueError if the file has no header."""
    with open(file, "rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if not 2 <= size <= min(MAX_HEADER_BYTES, file.stat().st_size - 8) or stream.read(1) != b"{":
            raise ValueError("it is cut short")
        return json.loads(b"{" + stream.read(size - 1)), 8 + size


def map_tensor(file: Path, entry: Any, data_start: int) -> np.ndarray:
    """The memory-mapped tensor of a header entry; raise ValueError, KeyError or TypeError if the entry is invalid."""
    dtype, shape = np.dtype(SAFETENSORS_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if end - begin != math.prod(shape) * dtype.itemsize or min((begin, *shape)) < 0:
        raise ValueError("a tensor is of another size")
    if data_start + end > file.stat().st_size:
        raise ValueError("it is cut short")
    return np.memmap(file, dtype, "r", data_start + begin, shape) if end > begin else np.zeros(shape, dtype)


def map_safetensors(file: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata, and all tensors memory-mapped; raise ValueError unless the file is exactly header and tensors."""
    header, data_start = read_safetensors_header(file)
    metadata = header.pop("__metadata__", {})
    bounds = sorted(entry["data_offsets"] for entry in header.values())
    if [0, *(end for _, end in bounds)] != [*(begin for begin, _ in bounds), file.stat().st_size - data_start]:
        raise ValueError("it is cut short")
    return metadata, {name: np.asarray(map_tensor(file, entry, data_start)) for name, entry in header.items()}


class NpyAppender:
    """An .npy file to which rows are appended; its length is written to the header at the end."""

    def __init__(self, path: Path, dtype: np.dtype | type) -> None:
        self.dtype, self.length, self.digest = np.dtype(dtype), 0, hashlib.sha256()
        self.file = open(path, "wb")  # noqa: SIM115 - closed by finish(), or by its user's close()
        self.file.write(_npy_header(self.dtype, (0,)))

    def append(self, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows, self.dtype).data
        self.file.write(data)
        self.digest.update(data)
        self.length += len(rows)

    def finish(self) -> dict[str, Any]:
        """Write the length into the header and sync the file; return the type, shape and digest of the array."""
        self.file.seek(0)
        self.file.write(_npy_header(self.dtype, (self.length,)))
        sync_file(self.file)
        self.close()
        return {"type": self.dtype.str, "shape": [self.length], "sha256": self.digest.hexdigest()}

    def close(self) -> None:
        self.file.close()


def _npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The header in version 1.0 of NumPy's format, padded so that its size does not depend on the number of rows."""
    buffer = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def _memmap_of(array: Any) -> np.memmap | None:
    """The memory map that an array is a view of, if any."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def release_pages(*arrays: np.ndarray) -> None:
    """Release the memory of pages of memory-mapped arrays that were read or written.

    The system would reclaim it when memory is short; until then it counts as used by this process.
    """
    for array in arrays:
        if (file := _memmap_of(array)) is not None:
            file._mmap.madvise(mmap.MADV_DONTNEED)  # pyright: ignore[reportAttributeAccessIssue] - numpy's, undeclared
