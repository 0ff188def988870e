"""Compressed files (gzip, zstd): detection, reading and writing; a stream whose next bytes can be inspected."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forebear.data.io.atomic import atomic_write
from forebear.data.io.sources import BLOCK_BYTES, ProgressFn, SourceFile, explain_file_errors
from forebear.errors import InputError

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f: start of a zstd frame that holds only metadata
ZSTD_WINDOW = 1 << 31  # bytes of zstd's largest window, as `zstd --long=31` writes
ZSTD_CHUNK = 1 << 10  # compressed bytes fed at a time: each may decompress to thousands of times its size


def is_compressed(source: SourceFile) -> bool:
    """Whether the file is gzip or zstd."""
    with explain_file_errors(source.name), open(source.path, "rb") as file:
        return _has_compressed_magic(file.read(4))


def _has_compressed_magic(magic: bytes) -> bool:
    return magic.startswith((GZIP, ZSTD)) or (magic[1:] == ZSTD_SKIPPABLE and magic[0] >> 4 == 5)


def decompressed_stream(file: Any, magic: bytes) -> Any:
    """A stream of the decompressed bytes of a gzip or zstd file; the file itself if it is not compressed.

    `magic` are its first four bytes.
    """
    if magic.startswith(GZIP):
        return gzip.GzipFile(fileobj=file, mode="rb")
    return _ZstdStream(file) if _has_compressed_magic(magic) else file


class _ZstdStream:
    """The decompressed bytes of all frames of a zstd file."""

    def __init__(self, file: Any) -> None:
        self._chunks, self._buffer = _decompress_frames(file), b""

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end."""
        data = bytearray(self._buffer)
        while len(data) < size and (chunk := next(self._chunks, b"")):
            data += chunk
        self._buffer = bytes(data[size:])
        return bytes(data[:size])


def _decompress_frames(file: Any) -> Iterator[bytes]:
    """The data of all frames; raise EOFError if the last one is truncated, which the library would ignore."""
    import zstandard

    frame, is_open = None, False
    while block := file.read(BLOCK_BYTES):
        start = 0
        while start < len(block):
            frame = frame or zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
            chunk = block[start : start + ZSTD_CHUNK]
            try:
                data = frame.decompress(chunk)
            except zstandard.ZstdError as error:
                raise EOFError(error) from error
            start += len(chunk) - len(frame.unused_data)
            is_open = not frame.eof
            if frame.eof:
                frame = None
            if data:
                yield data
    if is_open:
        raise EOFError("the last frame has no end")


@contextmanager
def compressed_writer(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The file, or a compressing stream into it if its name ends in .gz or .zst."""
    name = name.lower()
    if name.endswith(".gz"):
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
            yield stream  # pyright: ignore[reportReturnType]
    elif name.endswith(".zst"):
        import zstandard

        with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as stream:
            yield stream  # pyright: ignore[reportReturnType]
    else:
        yield file


@contextmanager
def atomic_compressed_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that is written atomically, and compressed if its name ends in .gz or .zst."""
    with atomic_write(path) as file, compressed_writer(file, Path(path).name) as stream:
        yield stream


LOOKAHEAD = 1 << 22  # bytes of `peek` and of a block
GZIP_RATIO = 4  # typical compression ratio
MAX_COMPRESSION_RATIO = 20  # assumed maximum ratio of the sizes of a text and its compressed file
CORRUPT_FILE_HINT = "it was cut short or damaged: fetch or write it again"


class PeekableStream:
    """The decompressed bytes of a file; `read` returns the bytes that `peek` has returned again.

    `progress` is called with the number of bytes read from the file, and its size.
    """

    def __init__(self, path: str | os.PathLike[str], progress: ProgressFn | None = None) -> None:
        self.path, self.progress, self._lookahead = Path(path), progress, b""
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115
            self.size, magic = os.fstat(self._raw.fileno()).st_size, self._raw.peek(4)[:4]
        except OSError as error:
            message = f"cannot be read ({error.strerror})"
            raise InputError(message, file=path, hint="check its name and place") from error
        self._file = decompressed_stream(self._raw, magic)

    def __enter__(self) -> PeekableStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def max_plausible_rows(self, max_rows: int, row_bytes: int) -> int:
        """Rows to allocate: at most `max_rows`, and no more than the file can plausibly hold."""
        ratio = 1 if self._file is self._raw else GZIP_RATIO
        return max(1, min(max_rows, self.size * ratio // row_bytes))

    def peek(self) -> tuple[bytes, bool]:
        """The next block without consuming it, and whether the file ends with it."""
        while len(self._lookahead) <= LOOKAHEAD and (block := self._read(LOOKAHEAD + 1 - len(self._lookahead))):
            self._lookahead += block
        return self._lookahead[:LOOKAHEAD], len(self._lookahead) <= LOOKAHEAD

    def read(self, size: int = LOOKAHEAD) -> bytes:
        """Up to `size` bytes; empty at the end."""
        if self._lookahead:
            data, self._lookahead = self._lookahead[:size], self._lookahead[size:]
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
