"""Files of word vectors as bytes: unpacked where they are packed, read in pieces, written whole or not at all."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forebear.errors import InputError

BLOCK = 1 << 22  # bytes read at once; no line of text is longer
MAX_LINE_BYTES = 1 << 20  # numbers of a vector: what says that it has more lies
USUAL = 4  # bytes that gzip makes one of
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
WINDOW = 1 << 31  # bytes that zstd may look back, as `zstd --long=31` writes
FED = 1 << 10  # bytes of zstd taken up at once: they may unfold to thousands of times as many
CORRUPT_FILE_HINT = "it was cut short or damaged: fetch or write it again"

ProgressFn = Callable[[int, int], None]  # told how many bytes of the file were read, and of how many


class PeekableStream:
    """The bytes of a file, plain, gzip or zstd, one after the other. What was looked at can be read again."""

    def __init__(self, path: str | os.PathLike[str], progress: ProgressFn | None = None) -> None:
        self.path, self.progress, self._ahead = Path(path), progress, b""
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115
            self.size, begin = os.fstat(self._raw.fileno()).st_size, self._raw.peek(len(ZSTD))
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror})", file=path, hint="check its name and place"
            ) from error
        self.packed = begin.startswith((GZIP, ZSTD))
        self._file: Any = self._raw
        if self.packed:
            self._file = gzip.GzipFile(fileobj=self._raw) if begin.startswith(GZIP) else ZstdReader(self._raw)

    def __enter__(self) -> PeekableStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def bytes_left(self, told: int, smallest: int) -> int:
        """For how many rows of so many bytes to prepare, whatever the file says of itself: more can be had later."""
        return max(1, min(told, self.size * (USUAL if self.packed else 1) // smallest))

    def peek(self) -> tuple[bytes, bool]:
        """The first of the bytes that are still to come, and whether these are all."""
        while len(self._ahead) <= BLOCK and (more := self._read(BLOCK + 1 - len(self._ahead))):
            self._ahead += more
        return self._ahead[:BLOCK], len(self._ahead) <= BLOCK

    def read(self, size: int = BLOCK) -> bytes:
        """The next bytes, as many as there are; none at the end."""
        if self._ahead:
            taken, self._ahead = self._ahead[:size], self._ahead[size:]
            return taken
        taken = self._read(size)
        if self.progress is not None:
            self.progress(self._raw.tell(), self.size)
        return taken

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"the packed file is damaged ({error})", file=self.path, hint=CORRUPT_FILE_HINT) from error
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror or error})", file=self.path) from error


class ZstdReader:
    """The bytes of a zstd file, to be read as those of any other."""

    def __init__(self, file: IO[bytes]) -> None:
        self._pieces, self._ahead = _unfolded(file), b""

    def read(self, size: int) -> bytes:
        """The next bytes, as many as are wanted or as there are."""
        found = bytearray(self._ahead)
        while len(found) < size and (more := next(self._pieces, b"")):
            found += more
        self._ahead = bytes(found[size:])
        return bytes(found[:size])


def _unfolded(file: IO[bytes]) -> Iterator[bytes]:
    """Frame after frame; one that is cut short is an error (the library's own reader ends in silence)."""
    import zstandard

    packed, begun, frame = b"", False, zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    while packed or (packed := file.read(BLOCK)):
        try:
            made = frame.decompress(packed[:FED])
        except zstandard.ZstdError as error:
            raise EOFError(error) from error
        packed, begun = frame.unused_data + packed[FED:], True
        if frame.eof:
            frame, begun = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj(), False
        if made:
            yield made
    if begun:
        raise EOFError("the last frame has no end")


@contextmanager
def atomic_vector_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes its name only when the block ends well; packed where the name ends with .gz or .zst."""
    target = Path(path)
    aside = target.with_name(f".{target.name[:80]}.{os.getpid()}.part")
    try:
        with open(aside, "wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed  # pyright: ignore[reportReturnType]
            elif target.suffix == ".zst":
                import zstandard

                with zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False) as packed:
                    yield packed  # pyright: ignore[reportReturnType]
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
