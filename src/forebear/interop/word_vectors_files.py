"""Files of word vectors as bytes: unpacked where they are packed, read in pieces, written whole or not at all."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from forebear.errors import BadInput

BLOCK = 1 << 22  # bytes read at once; no line of text is longer
WIDEST = 1 << 20  # numbers of a vector: what says that it has more lies
USUAL = 4  # bytes that gzip makes one of
PACKED = b"\x1f\x8b"
AGAIN = "it was cut short or damaged: fetch or write it again"

Progress = Callable[[int, int], None]  # told how many bytes of the file were read, and of how many


class Stream:
    """The bytes of a file, plain or gzip, one after the other. What was looked at can be read again."""

    def __init__(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        self.path, self.progress, self._ahead = Path(path), progress, b""
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115
            self.size, begin = os.fstat(self._raw.fileno()).st_size, self._raw.peek(len(PACKED))
        except OSError as error:
            raise BadInput(f"cannot be read ({error.strerror})", file=path) from error
        self.packed = begin.startswith(PACKED)
        self._file = gzip.GzipFile(fileobj=self._raw) if self.packed else self._raw

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def room(self, told: int, smallest: int) -> int:
        """For how many rows of so many bytes to prepare, whatever the file says of itself: more can be had later."""
        return max(1, min(told, self.size * (USUAL if self.packed else 1) // smallest))

    def look(self) -> tuple[bytes, bool]:
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
            raise BadInput(f"the packed file is damaged ({error})", file=self.path, remedy=AGAIN) from error
        except OSError as error:
            raise BadInput(f"cannot be read ({error.strerror or error})", file=self.path) from error


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes its name only when the block ends well; packed where the name ends with .gz."""
    target = Path(path)
    aside = target.with_name(f".{target.name[:80]}.{os.getpid()}.part")
    try:
        with open(aside, "wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed  # pyright: ignore[reportReturnType]
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
