"""Room for large arrays: in memory as long as there is enough of it, and then in files that nobody else sees."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.data.io.atomic import atomic_write
from forebear.data.io.safetensors import release_pages

LARGE = 1 << 24  # bytes from which on an array may have a file of its own
PART = 1 << 20  # numbers that are written at once
KEPT = 1 << 25  # bytes of memory that nobody uses, kept for who wants some
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # their numbers in malloc.h
LINE = 64  # bytes that memory gives at once: arrays begin where one does
KINDS = {"U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "I64": np.int64, "F32": np.float32}


class ArrayPool:
    """Arrays that together take so many bytes of memory; what is beyond is mapped into files of this folder.

    A file has no name from the beginning, so it is gone with the last array that lies in it, however a process ends.
    """

    def __init__(self, memory: int | None = None, folder: Path | None = None) -> None:
        self.memory, self.folder = memory, folder
        self._given: dict[int, int] = {}  # bytes of the arrays in memory, by where they begin

    @property
    def bytes_used(self) -> int:
        """Bytes of memory that are in use."""
        return sum(self._given.values())

    def empty(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        """An array whose values are not set yet."""
        return self._made(shape, kind, np.empty)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        return self._made(shape, kind, np.zeros)

    def _made(self, shape: int | tuple[int, ...], kind: Any, way: Any) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        if self.memory is None or self.folder is None or size < LARGE or self.bytes_used + size <= self.memory:
            made = _in_line(way(size + LINE, np.uint8), size).view(kind).reshape(shape)
            if self.memory is not None:
                self._given[made.ctypes.data] = size
            return made
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is told now, not by a signal later
            return np.asarray(np.memmap(file, kind, "r+", shape=shape))  # all zeros

    def release(self, *arrays: np.ndarray) -> None:
        """Says that these are needed no more."""
        for array in arrays:
            self._given.pop(array.ctypes.data, None)  # or it is not of this room


def _in_line(bytes_there: np.ndarray, size: int) -> np.ndarray:
    """So many of them, from where a line of memory begins."""
    begin = -bytes_there.ctypes.data % LINE
    return bytes_there[begin : begin + size]


UNBOUNDED_POOL = ArrayPool()


def available_ram() -> int:
    """Bytes of memory that this machine has, or that its keeper allows."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # no limit is written as a word
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return whole


def tune_malloc() -> None:
    """From now on the system gets back what is larger than 8 MB as soon as it is freed, in this whole process.

    By itself the C library comes to keep pieces of up to 32 MB, between which smaller ones settle: a tenth of the
    memory of preparing and counting a text that nobody uses any more. What is smaller is kept, up to as much again as
    a block of text takes, or every block would ask the system for it anew.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library has its own ways
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, 1 << 23)
        library.mallopt(TRIM_THRESHOLD, KEPT)


def trim_malloc() -> None:
    """From now on nothing is kept: something large comes."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(TRIM_THRESHOLD, 1 << 20)
        library.malloc_trim(0)


class SpillArray:
    """An array that is written part by part: in memory, or in a file of this folder."""

    def __init__(self, kind: Any, folder: Path | None) -> None:
        self.kind = np.dtype(kind)
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def append(self, part: np.ndarray) -> None:
        part = np.array(part, self.kind)
        if self._file is None:
            self._parts.append(part)
        else:
            self._file.write(part.data)

    def finish(self) -> np.ndarray:
        """All of it; nothing can be added any more."""
        if self._file is None:
            made, self._parts = np.concatenate([np.zeros(0, self.kind), *self._parts]), []
            return made
        with self._file as file:
            file.flush()
            there = os.fstat(file.fileno()).st_size > 0  # nothing cannot be mapped
            return np.asarray(np.memmap(file, self.kind, "r")) if there else np.zeros(0, self.kind)


# -- files of arrays, as safetensors has them


def narrowest_dtype(array: np.ndarray) -> Any:
    """The narrowest unsigned type that these whole numbers fit in; other numbers keep theirs."""
    if array.dtype.kind not in "iu":
        return array.dtype
    largest = max((int(part.max(initial=0)) for part in array_chunks(array)), default=0)
    release_pages(array)
    return np.min_scalar_type(largest)


def array_chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    flat = array.reshape(-1)
    return (flat[begin : begin + PART] for begin in range(0, len(flat), PART))


def save_arrays(path: Path, arrays: Mapping[str, tuple[np.ndarray, Any]]) -> None:
    """Writes each array as numbers of the type beside it, the widest types first, so that all begin where they may."""
    order = sorted(arrays, key=lambda name: (-np.dtype(arrays[name][1]).itemsize, name))
    names = {np.dtype(kind): name for name, kind in KINDS.items()}
    with atomic_write(path) as file:
        shapes = {name: (names[np.dtype(arrays[name][1])], arrays[name][0].shape) for name in order}
        file.write(safetensors_header(shapes, {}))
        for name in order:
            array, kind = arrays[name]
            for part in array_chunks(array):
                file.write(np.ascontiguousarray(part, kind).data)
            release_pages(array)


def safetensors_header(shapes: Mapping[str, tuple[str, tuple[int, ...]]], facts: Mapping[str, str]) -> bytes:
    """What such a file begins with."""
    told: dict[str, Any] = {"__metadata__": dict(facts)} if facts else {}
    at = 0
    for name, (kind, shape) in shapes.items():
        size = int(np.prod(shape)) * np.dtype(KINDS[kind]).itemsize
        told[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    made = json.dumps(told).encode()
    made += b" " * (-(8 + len(made)) % LINE)
    return len(made).to_bytes(8, "little") + made


def memory_map_arrays(file: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The facts of such a file and its arrays, where they lie; a ValueError for what is none."""
    whole = file.stat().st_size
    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if not 0 < size <= whole:
            raise ValueError("no head")
        told = json.loads(opened.read(size))
    arrays, last = {}, 0
    for name, one in told.items():
        if name != "__metadata__":
            begin, end = one["data_offsets"]
            kind, shape = np.dtype(KINDS[one["dtype"]]), tuple(one["shape"])
            if end - begin != int(np.prod(shape)) * kind.itemsize or begin != last or min(shape, default=0) < 0:
                raise ValueError(f"{name} is of another size")
            last = end
            there = np.memmap(file, kind, "r", 8 + size + begin, shape) if end > begin else np.zeros(shape, kind)
            arrays[name] = np.asarray(there)
    if whole != 8 + size + last:
        raise ValueError("cut short")
    return told.get("__metadata__", {}), arrays
