"""Plain, gzip and zstd files of other programs: read in blocks with look-ahead, written atomically."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forebear.data.io.atomic import atomic_write
from forebear.errors import InputError

BLOCK = 1 << 22  # bytes read at once; no line of text is longer
MAX_LINE_BYTES = 1 << 20  # also the largest plausible number of dimensions
GZIP_RATIO = 4  # typical compression ratio
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_WINDOW = 1 << 31  # bytes; what `zstd --long=31` writes
ZSTD_CHUNK = 1 << 10  # compressed bytes per step: they may expand a thousandfold
CORRUPT_FILE_HINT = "it was cut short or damaged: fetch or write it again"

ProgressFn = Callable[[int, int], None]  # (bytes read, size of the file)


class PeekableStream:
    """The decompressed bytes of a file; what `peek` returned is read again by `read`."""

    def __init__(self, path: str | os.PathLike[str], progress: ProgressFn | None = None) -> None:
        self.path, self.progress, self._ahead = Path(path), progress, b""
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115
            self.size, head = os.fstat(self._raw.fileno()).st_size, self._raw.peek(len(ZSTD))
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror})", file=path, hint="check its name and place"
            ) from error
        self.is_compressed = head.startswith((GZIP, ZSTD))
        self._file: Any = self._raw
        if self.is_compressed:
            self._file = gzip.GzipFile(fileobj=self._raw) if head.startswith(GZIP) else ZstdReader(self._raw)

    def __enter__(self) -> PeekableStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def bytes_left(self, max_rows: int, row_bytes: int) -> int:
        """Rows to allocate: at most `max_rows`, and no more than the file can plausibly hold."""
        return max(1, min(max_rows, self.size * (GZIP_RATIO if self.is_compressed else 1) // row_bytes))

    def peek(self) -> tuple[bytes, bool]:
        """The next block without consuming it, and whether the file ends with it."""
        while len(self._ahead) <= BLOCK and (more := self._read(BLOCK + 1 - len(self._ahead))):
            self._ahead += more
        return self._ahead[:BLOCK], len(self._ahead) <= BLOCK

    def read(self, size: int = BLOCK) -> bytes:
        """Up to `size` bytes; empty at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        data = self._read(size)
        if self.progress is not None:
            self.progress(self._raw.tell(), self.size)
        return data

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"the packed file is damaged ({error})", file=self.path, hint=CORRUPT_FILE_HINT) from error
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})", file=self.path) from error


class ZstdReader:
    """A zstd file as a readable stream."""

    def __init__(self, file: IO[bytes]) -> None:
        self._pieces, self._ahead = _decompress_frames(file), b""

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer at the end."""
        data = bytearray(self._ahead)
        while len(data) < size and (piece := next(self._pieces, b"")):
            data += piece
        self._ahead = bytes(data[size:])
        return bytes(data[:size])


def _decompress_frames(file: IO[bytes]) -> Iterator[bytes]:
    """Decompresses frame after frame; a truncated frame is an error, which zstandard's own reader ignores."""
    import zstandard

    compressed, in_frame, frame = b"", False, zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
    while compressed or (compressed := file.read(BLOCK)):
        try:
            data = frame.decompress(compressed[:ZSTD_CHUNK])
        except zstandard.ZstdError as error:
            raise EOFError(error) from error
        compressed, in_frame = frame.unused_data + compressed[ZSTD_CHUNK:], True
        if frame.eof:
            frame, in_frame = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(), False
        if data:
            yield data
    if in_frame:
        raise EOFError("the last frame has no end")


@contextmanager
def atomic_compressed_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that gets its name only if the block succeeds; compressed if the name ends in .gz or .zst."""
    suffix = Path(path).suffix
    with atomic_write(path) as file:
        if suffix == ".gz":
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed:
                yield compressed  # pyright: ignore[reportReturnType]
        elif suffix == ".zst":
            import zstandard

            with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as compressed:
                yield compressed  # pyright: ignore[reportReturnType]
        else:
            yield file
