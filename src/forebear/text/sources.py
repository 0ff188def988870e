"""Where text comes from: files, folders, globs and stdin, unpacked and decoded block by block, bad bytes named."""

from __future__ import annotations

import codecs
import glob
import hashlib
import io
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Literal

from forebear.errors import BadInput, ForebearError
from forebear.text.ledger import Ledger

OnBadBytes = Literal["fail", "replace", "skip"]

BLOCK = 1 << 20  # bytes read at a time
STDIN = ("-", "/dev/stdin")

# Files that are certainly not text; every other file of a folder is read, and fails loudly if it is not text either.
NOT_TEXT = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .ico .svgz .mp3 .wav .flac .ogg .mp4 .avi .mkv .mov .webm "
    ".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ods .epub .mobi .zip .tar .tgz .7z .rar .bz2 .xz .jar "
    ".whl .exe .dll .so .o .a .class .pyc .bin .pt .pth .ckpt .safetensors .onnx .npy .npz .h5 .hdf5 "
    ".parquet .arrow .feather .sqlite .db .woff .woff2 .ttf .otf".split()
)
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """One file to read, and the name under which messages speak of it."""

    path: str
    name: str

    def stamp(self) -> tuple[int, int, int, int, int]:
        """What changes when the file changes, without reading it."""
        with told_of(self.name):
            s = os.stat(self.path)
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


@contextmanager
def told_of(name: str) -> Iterator[None]:
    """Turns what the system says about a file into a message that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise BadInput("the file is not there (any more)", file=name, remedy="check the path and run again") from error
    except PermissionError as error:
        raise BadInput("permission denied", file=name, remedy="make the file readable, or leave it out") from error
    except OSError as error:
        raise ForebearError(error.strerror or str(error), file=name) from error


def find(paths: Iterable[str | os.PathLike[str]], ledger: Ledger | None = None) -> Iterator[Source]:
    """The files meant by `paths`, in a fixed order; what a folder holds beside them is written into the ledger."""
    ledger = ledger if ledger is not None else Ledger()
    seen: set[tuple[int, int]] = set()  # folders and named files, by identity: a link loop ends here
    found = False
    for given in paths:
        for path in _expanded(os.fspath(given)):
            for source in _walk(path, seen, ledger, asked=True):
                found = True
                yield source
    if not found:
        raise BadInput("there is no file to read", remedy="name a text file, a folder, a glob, or - for standard input")


def _expanded(given: str) -> list[str]:
    if given in STDIN or os.path.lexists(given):
        return [given]
    if not glob.has_magic(given):
        raise BadInput(
            "no such file or folder",
            file=given,
            remedy="check the spelling; globs like 'texts/**/*.txt' are understood",
        )
    matches = sorted(glob.glob(given, recursive=True))
    if not matches:
        raise BadInput(
            "nothing matches this pattern", file=given, remedy="quote the pattern and check the folder it starts from"
        )
    return matches


def _walk(path: str, seen: set[tuple[int, int]], ledger: Ledger, *, asked: bool) -> Iterator[Source]:
    """A file, or a folder's files in the order of their names. `asked` is False for what only its folder named."""
    if path in STDIN and asked:
        yield Source(_spooled(sys.stdin.fileno()), "<stdin>")
        return
    if not asked and os.path.islink(path) and not os.path.exists(path):
        ledger.set_aside(path, "link that leads nowhere")
        return
    with told_of(path):
        status = os.stat(path)
    identity = (status.st_dev, status.st_ino)
    if stat.S_ISDIR(status.st_mode) or asked:
        if identity in seen:
            ledger.set_aside(path, "named twice, or a link back to a folder already read")
            return
        seen.add(identity)
    if stat.S_ISDIR(status.st_mode):
        with told_of(path):
            names = sorted(os.listdir(path))
        for name in names:
            yield from _walk(os.path.join(path, name), seen, ledger, asked=False)
    elif not stat.S_ISREG(status.st_mode):
        if asked:  # a named pipe, or the shell's <(command)
            yield Source(_spooled(path), path)
        else:
            ledger.set_aside(path, "not a regular file")
    elif not asked and os.path.basename(path).startswith("."):
        ledger.set_aside(path, "hidden file")
    elif not asked and os.path.splitext(path)[1].lower() in NOT_TEXT:
        ledger.set_aside(path, "not a text file by its name")
    else:
        yield Source(path, path)


@cache
def _spooled(stream: str | int) -> str:
    """What can be read only once, as a file: text is read more than once (to fingerprint, to learn, to encode)."""
    import atexit

    with tempfile.NamedTemporaryFile(prefix="forebear-stdin-", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        with told_of(file.name), open(stream, "rb", closefd=isinstance(stream, str)) as pipe:
            while block := pipe.read(BLOCK):
                file.write(block)
    return file.name


def fingerprint(sources: Iterable[Source]) -> str:
    """One digest of the contents of all files, in order; their names do not matter."""
    whole = hashlib.sha256()
    for source in sources:
        with told_of(source.name), open(source.path, "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


@dataclass
class Blocks:
    """The decoded text of one file in bounded blocks; counts what it read and what it had to mend."""

    source: Source
    encoding: str
    on_bad_bytes: OnBadBytes
    ledger: Ledger
    packed: int = 0  # bytes of the file itself, so far
    unpacked: int = 0  # bytes after decompression, so far

    def __iter__(self) -> Iterator[str]:
        decoder = _decoder(self.encoding)
        digest = hashlib.sha256()
        first, held_back = True, ""
        with told_of(self.source.name), open(self.source.path, "rb") as file:
            for block in self._unpacked(_Counted(file, self, digest)):
                text = held_back + self._decoded(decoder, block, final=False)
                if first and text:
                    text, first = self._without_mark(text), False
                # A carriage return at the very end may be half of a line ending: wait for what follows.
                held_back = "\r" if text.endswith("\r") else ""
                text = self._with_plain_endings(text[: len(text) - len(held_back)])
                if text:
                    yield text
        rest = held_back + self._decoded(decoder, b"", final=True)
        if rest:
            yield rest
        self.ledger.source(files=1, bytes=self.packed, unpacked=self.unpacked, digest=digest.digest())

    def _unpacked(self, file: _Counted) -> Iterator[bytes]:
        head = file.peek(4)
        try:
            if head[:2] == GZIP:
                import gzip

                read = gzip.GzipFile(fileobj=file, mode="rb").read  # pyright: ignore[reportArgumentType]
                blocks: Iterable[bytes] = iter(lambda: read(BLOCK), b"")
            else:
                blocks = _unpacked_zstd(file) if head == ZSTD else iter(lambda: file.read(BLOCK), b"")
            for block in blocks:
                self.unpacked += len(block)
                yield block
        except (EOFError, zlib.error) as error:
            raise self._damaged(error) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from error  # gzip.BadGzipFile carries no number

    def _damaged(self, error: Exception) -> BadInput:
        return BadInput(
            f"the compressed file is damaged or cut short ({error})",
            file=self.source.name,
            byte=self.packed,
            remedy="fetch or compress it again; what was read of it is not used",
        )

    def _decoded(self, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool) -> str:
        global _mending
        _mending = self
        try:
            return decoder.decode(block, final)
        finally:
            _mending = None

    def mend(self, error: UnicodeDecodeError) -> tuple[str, int]:
        """Called by the codec at each bad byte."""
        offset = self.unpacked - len(error.object) + error.start
        bad = error.object[error.start : error.end]
        if self.on_bad_bytes == "fail":
            raise BadInput(
                f"not {self.encoding}: {' '.join(f'0x{byte:02x}' for byte in bad)}",
                file=self.source.name,
                byte=offset,
                remedy="name the right --encoding (gb18030, big5, …), or choose --on-bad-bytes replace or skip",
            )
        self.ledger.mend(
            self.source.name, offset, len(bad), "replaced" if self.on_bad_bytes == "replace" else "skipped"
        )
        return ("�" if self.on_bad_bytes == "replace" else ""), error.end

    def _without_mark(self, text: str) -> str:
        if not text.startswith("\ufeff"):
            return text
        self.ledger.structure("byte order mark", "\ufeff")
        return text[1:]

    def _with_plain_endings(self, text: str) -> str:
        if "\r\n" not in text:
            return text
        plain = text.replace("\r\n", "\n")
        self.ledger.structure("carriage returns", "\r" * (len(text) - len(plain)))
        return plain


def _unpacked_zstd(file: _Counted) -> Iterator[bytes]:
    """Frame after frame; raises EOFError where the last one is cut short (the library's own reader ends in silence)."""
    import zstandard

    packed, small = b"", 1 << 10  # fed in small pieces: each may unfold to thousands of times its size
    frame = zstandard.ZstdDecompressor().decompressobj()
    begun = False
    while packed or (packed := file.read(BLOCK)):
        try:
            block = frame.decompress(packed[:small])
        except zstandard.ZstdError as error:
            raise EOFError(error) from error
        packed, begun = frame.unused_data + packed[small:], True
        if frame.eof:
            frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
        if block:
            yield block
    if begun:
        raise EOFError("the last frame has no end")


class _Counted(io.RawIOBase):
    """A binary file that tells how far it has been read and what its digest is."""

    def __init__(self, file: BinaryIO, blocks: Blocks, digest: hashlib._Hash) -> None:
        self.file, self.blocks, self.digest, self.ahead = file, blocks, digest, b""

    def peek(self, size: int) -> bytes:
        self.ahead = self.read(size)
        return self.ahead

    def read(self, size: int = -1) -> bytes:
        if self.ahead:
            ahead, self.ahead = self.ahead[:size], self.ahead[size:]
            return ahead if size <= len(ahead) else ahead + self.read(size - len(ahead))
        block = self.file.read(size)
        self.digest.update(block)
        self.blocks.packed += len(block)
        self.blocks.ledger.position += len(block)
        return block

    def readable(self) -> bool:
        return True


_mending: Blocks | None = None
_HANDLER = "forebear.mend"


def _mend(error: UnicodeError) -> tuple[str, int]:
    assert _mending is not None
    assert isinstance(error, UnicodeDecodeError)
    return _mending.mend(error)


codecs.register_error(_HANDLER, _mend)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # pyright: ignore[reportAttributeAccessIssue]
            raise LookupError
        return codecs.getincrementaldecoder(encoding)(_HANDLER)
    except LookupError:
        raise BadInput(
            f"no text encoding is called {encoding!r}", remedy="for example utf-8, gb18030, big5, utf-16, latin-1"
        ) from None
