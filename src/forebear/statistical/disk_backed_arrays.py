"""Large arrays in memory or in temporary files, malloc tuning, and writing arrays to safetensors files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.data.io.arrays import SAFETENSORS_DTYPES, release_pages, safetensors_header
from forebear.data.io.atomic import atomic_write

MIN_FILE_BYTES = 1 << 24  # smaller arrays stay in memory
CHUNK_ELEMENTS = 1 << 20  # elements written at once
RETAINED_BYTES = 1 << 25  # free memory that is not returned to the system
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # as in malloc.h
CACHE_LINE_BYTES = 64  # alignment of arrays


class ArrayPool:
    """Allocates arrays in memory up to a limit, and beyond it in temporary files of a folder.

    The files have no name, so they are deleted with the last array that uses them, even if the process is killed.
    """

    def __init__(self, max_memory: int | None = None, folder: Path | None = None) -> None:
        self.max_memory, self.folder = max_memory, folder
        self._memory_sizes: dict[int, int] = {}  # bytes of the arrays in memory, by address

    @property
    def bytes_used(self) -> int:
        """Bytes of memory in use."""
        return sum(self._memory_sizes.values())

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with undefined values."""
        return self._allocate(shape, dtype, np.empty)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        return self._allocate(shape, dtype, np.zeros)

    def _allocate(self, shape: int | tuple[int, ...], dtype: Any, create: Any) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if (
            self.max_memory is None
            or self.folder is None
            or size < MIN_FILE_BYTES
            or self.bytes_used + size <= self.max_memory
        ):
            buffer = create(size + CACHE_LINE_BYTES, np.uint8)
            begin = -buffer.ctypes.data % CACHE_LINE_BYTES
            array = buffer[begin : begin + size].view(dtype).reshape(shape)
            if self.max_memory is not None:
                self._memory_sizes[array.ctypes.data] = size
            return array
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk raises here, not SIGBUS later
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))  # initially zero

    def release(self, *arrays: np.ndarray) -> None:
        """Stop counting these arrays against `max_memory`."""
        for array in arrays:
            self._memory_sizes.pop(array.ctypes.data, None)  # ignores arrays of other pools


UNBOUNDED_POOL = ArrayPool()


def ram_limit() -> int:
    """Bytes of memory of this machine, or of its control group."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # "max" is no limit
        return min(physical, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return physical


def tune_malloc() -> None:
    """Return blocks of more than 8 MB to the system as soon as they are freed, in the whole process.

    By default, glibc grows to keep blocks of up to 32 MB, whose fragmentation is a tenth of the memory of preparing and
    counting a text. Smaller blocks are retained, up to the size of one block of text.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, 1 << 23)
        library.mallopt(TRIM_THRESHOLD, RETAINED_BYTES)


def trim_malloc() -> None:
    """Return all free memory to the system before a large allocation."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(TRIM_THRESHOLD, 1 << 20)
        library.malloc_trim(0)


class SpillArray:
    """An array written chunk by chunk, in memory or in a temporary file of a folder."""

    def __init__(self, dtype: Any, folder: Path | None) -> None:
        self.dtype = np.dtype(dtype)
        self._parts: list[np.ndarray] = []
        self._file: IO[bytes] | None = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115

    def append(self, part: np.ndarray) -> None:
        part = np.array(part, self.dtype)
        if self._file is None:
            self._parts.append(part)
        else:
            self._file.write(part.data)

    def finish(self) -> np.ndarray:
        """The complete array; nothing can be appended any more."""
        if self._file is None:
            array, self._parts = np.concatenate([np.zeros(0, self.dtype), *self._parts]), []
            return array
        with self._file as file:
            file.flush()
            is_empty = os.fstat(file.fileno()).st_size == 0  # an empty file cannot be mapped
            return np.zeros(0, self.dtype) if is_empty else np.asarray(np.memmap(file, self.dtype, "r"))


# -- safetensors files


def narrowest_dtype(array: np.ndarray) -> Any:
    """The narrowest unsigned type for these integers; other arrays keep their type."""
    if array.dtype.kind not in "iu":
        return array.dtype
    largest = max((int(part.max(initial=0)) for part in array_chunks(array)), default=0)
    release_pages(array)
    return np.min_scalar_type(largest)


def array_chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    flat_array = array.reshape(-1)
    return (flat_array[begin : begin + CHUNK_ELEMENTS] for begin in range(0, len(flat_array), CHUNK_ELEMENTS))


def save_arrays(path: Path, arrays: Mapping[str, tuple[np.ndarray, Any]]) -> None:
    """Write arrays as safetensors, each converted to the given type, the widest types first for alignment."""
    order = sorted(arrays, key=lambda name: (-np.dtype(arrays[name][1]).itemsize, name))
    names = {np.dtype(kind): name for name, kind in SAFETENSORS_DTYPES.items()}
    with atomic_write(path) as file:
        specs = {name: (names[np.dtype(arrays[name][1])], arrays[name][0].shape) for name in order}
        file.write(safetensors_header(specs, {}))
        for name in order:
            array, kind = arrays[name]
            for part in array_chunks(array):
                file.write(np.ascontiguousarray(part, kind).data)
            release_pages(array)
