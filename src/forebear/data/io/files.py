"""Files: found, read as decompressed bytes or as decoded text whose bad bytes are reported, and written compressed."""

from __future__ import annotations

import codecs
import glob
import gzip
import hashlib
import os
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, Literal

from forebear.data.io.atomic import atomic_write
from forebear.data.io.ledger import Ledger
from forebear.errors import ForebearError, InputError

PathLike = str | os.PathLike[str]

# --- Finding files: files, folders, globs, pipes and standard input, each file once and in a fixed order ---

STDIN = ("-", "/dev/stdin")
LEDGER_SUFFIX = ".ledger.json"  # of the ledger next to cleaned text

Paths = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]
ProgressFn = Callable[[int, int], object]  # called with what is done so far, and the total; both in the same unit

# Files that are certainly not text; every other file of a folder is read, which fails if it is not text either.
BINARY_SUFFIXES = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .ico .svgz .mp3 .wav .flac .ogg .mp4 .avi .mkv .mov .webm "
    ".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ods .epub .mobi .zip .tar .tgz .7z .rar .bz2 .xz .jar "
    ".whl .exe .dll .so .o .a .class .pyc .bin .pt .pth .ckpt .safetensors .onnx .npy .npz .h5 .hdf5 "
    ".parquet .arrow .feather .sqlite .db .woff .woff2 .ttf .otf".split()
)


@dataclass(frozen=True)
class SourceFile:
    """One file to read, and its name in messages."""

    path: str
    name: str

    def file_stamp(self) -> tuple[int, int, int, int, int]:
        """Device, inode, size and times: they change when the file changes."""
        with explain_file_errors(self.name):
            s = os.stat(self.path)
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


@contextmanager
def explain_file_errors(name: str) -> Iterator[None]:
    """Turns a system error into a message with the file's name."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("the file is not there (any more)", file=name, hint="check the path and run again") from error
    except PermissionError as error:
        raise InputError("permission denied", file=name, hint="make the file readable, or leave it out") from error
    except OSError as error:
        raise ForebearError(error.strerror or str(error), file=name) from error


def find_sources(paths: Paths, ledger: Ledger | None = None) -> Iterator[SourceFile]:
    """The files of `paths` in a fixed order; other files of folders are entered in the ledger."""
    expanded: list[str] = []
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        pattern = os.fspath(path)
        if pattern in STDIN or os.path.lexists(pattern):
            expanded.append(pattern)
        elif matches := sorted(glob.glob(pattern, recursive=True)):
            expanded += matches
        elif glob.has_magic(pattern):
            hint = "quote the pattern and check the folder it starts from"
            raise InputError("nothing matches this pattern", file=pattern, hint=hint)
        else:
            hint = "check the spelling; globs like 'texts/**/*.txt' are understood"
            raise InputError("no such file or folder", file=pattern, hint=hint)
    walk = _FileWalk(ledger if ledger is not None else Ledger(), has_several_paths=len(expanded) > 1)
    has_files = False
    for path in expanded:
        for source in walk.sources_in(path):
            has_files = True
            yield source
    if not has_files:
        raise InputError("there is no file to read", hint="name a text file, a folder, a glob, or - for standard input")


class _FileWalk:
    """A walk through files and folders in the order of their names, each once, even if links form a loop.

    Files are remembered only if there are several paths: one folder has each file once, and may have millions.
    """

    def __init__(self, ledger: Ledger, *, has_several_paths: bool) -> None:
        self.ledger, self.has_several_paths = ledger, has_several_paths
        self.seen: set[object] = set()

    def sources_in(self, path: str) -> Iterator[SourceFile]:
        if path in STDIN:
            if sys.stdin is None:
                raise InputError("there is no standard input", hint="give it some: forebear … - < FILE")
            if self._is_new(STDIN, path):
                yield SourceFile(_spool(sys.stdin.fileno()), "<stdin>")
            return
        pending: list[Iterator[str]] = [iter([path])]
        while pending:
            is_named = len(pending) == 1
            if (path := next(pending[-1], "")) == "":
                pending.pop()
            elif os.path.isdir(path) and (is_named or not _is_hidden(path)) and self._is_new(_identity(path), path):
                with explain_file_errors(path):
                    names = sorted(os.listdir(path))
                pending.append(map(partial(os.path.join, path), names))
            else:
                yield from self._file(path, is_named=is_named)

    def _file(self, path: str, *, is_named: bool) -> Iterator[SourceFile]:
        """The file as a source, unless there is a reason to skip it; a file that is named by the user is read."""
        if os.path.isdir(path):  # a folder that is not entered
            if _is_hidden(path) and not is_named:
                self.ledger.quarantine(path, "hidden folder")
            return
        if not is_named and (reason := _skip_reason(path)):
            self.ledger.quarantine(path, reason)
            return
        with explain_file_errors(path):
            is_regular = stat.S_ISREG(os.stat(path).st_mode)
        if not is_regular and not is_named:
            self.ledger.quarantine(path, "not a regular file")
        elif not self.has_several_paths or self._is_new(_identity(path), path):
            yield SourceFile(path if is_regular else _spool(path), path)  # a named pipe, or the shell's <(command)

    def _is_new(self, identity: object, path: str) -> bool:
        if identity in self.seen:
            self.ledger.quarantine(path, "named twice, or a link back to a folder already read")
            return False
        self.seen.add(identity)
        return True


def _identity(path: str) -> object:
    """Equal for two names of one file; hard links count as different files."""
    with explain_file_errors(path):
        status = os.stat(path)
    has_one_name = stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
    return (status.st_dev, status.st_ino) if has_one_name else os.path.realpath(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _skip_reason(path: str) -> str:
    """Why a file of a folder is not read, or ""."""
    if os.path.islink(path) and not os.path.exists(path):
        return "link that leads nowhere"
    if _is_hidden(path):
        return "hidden file"
    if path.endswith(LEDGER_SUFFIX):
        return "a ledger of cleaned text"
    return "not a text file by its name" if os.path.splitext(path)[1].lower() in BINARY_SUFFIXES else ""


@cache
def _spool(stream: str | int) -> str:
    """A temporary file with the content of a stream: text is read several times (fingerprint, tokenizer, corpus)."""
    import atexit

    with tempfile.NamedTemporaryFile(prefix="forebear-stdin-", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        with explain_file_errors(file.name), open(stream, "rb", closefd=isinstance(stream, str)) as pipe:
            while block := pipe.read(BLOCK_BYTES):
                file.write(block)
    return file.name


def sources_digest(sources: Iterable[SourceFile]) -> str:
    """One digest of the contents of all files in order; their names do not matter."""
    digest = hashlib.sha256()
    for source in sources:
        with explain_file_errors(source.name), open(source.path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


# --- Compressed files ---

BLOCK_BYTES = 1 << 20  # bytes read at a time
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x50 to 0x5f: a zstd frame of metadata before the first of text
ZSTD_WINDOW = 1 << 31  # bytes of zstd's largest window, as `zstd --long=31` writes
ZSTD_CHUNK = 1 << 10  # compressed bytes fed at a time: each may decompress to thousands of times its size


def is_compressed(source: SourceFile) -> bool:
    """Whether the file is gzip or zstd."""
    with explain_file_errors(source.name), open(source.path, "rb") as file:
        return _has_compressed_magic(file.read(4))


def _has_compressed_magic(magic: bytes) -> bool:
    return magic.startswith((GZIP, ZSTD)) or (magic[1:] == ZSTD_SKIPPABLE and magic[0] >> 4 == 5)


def _decompressed_stream(file: Any, magic: bytes) -> Any:
    """The file, whose first four bytes are `magic`, or a stream of what it holds if it is gzip or zstd."""
    if magic.startswith(GZIP):
        return gzip.GzipFile(fileobj=file, mode="rb")
    return _ZstdStream(file) if _has_compressed_magic(magic) else file


class _ZstdStream:
    """The decompressed bytes of all frames of a zstd file."""

    def __init__(self, file: Any) -> None:
        self._pieces, self._lookahead = _decompress_frames(file), b""

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer at the end."""
        data = bytearray(self._lookahead)
        while len(data) < size and (piece := next(self._pieces, b"")):
            data += piece
        self._lookahead = bytes(data[size:])
        return bytes(data[:size])


def _decompress_frames(file: Any) -> Iterator[bytes]:
    """All frames; raises EOFError if the last one is truncated (the library's own reader ends without an error)."""
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
    """A file that gets its name only if the block succeeds; compressed if the name ends in .gz or .zst."""
    with atomic_write(path) as file, compressed_writer(file, Path(path).name) as stream:
        yield stream


# --- Reading bytes with look-ahead: files of other programs ---

LOOKAHEAD = 1 << 22  # bytes of `peek` and of a block
GZIP_RATIO = 4  # typical compression ratio
CORRUPT_FILE_HINT = "it was cut short or damaged: fetch or write it again"


class PeekableStream:
    """The decompressed bytes of a file; what `peek` returned is read again by `read`.

    `progress` is called with the bytes of the file that are read, and its size.
    """

    def __init__(self, path: str | os.PathLike[str], progress: ProgressFn | None = None) -> None:
        self.path, self.progress, self._lookahead = Path(path), progress, b""
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115
            self.size, magic = os.fstat(self._raw.fileno()).st_size, self._raw.peek(4)[:4]
        except OSError as error:
            message = f"cannot be read ({error.strerror})"
            raise InputError(message, file=path, hint="check its name and place") from error
        self._file = _decompressed_stream(self._raw, magic)

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


# --- Reading text: decompressed and decoded ---

OnBadBytes = Literal["fail", "replace", "skip"]


@dataclass
class TextBlocks:
    """The decoded text of one file in bounded blocks; enters bytes and repairs in the ledger."""

    source: SourceFile
    encoding: str
    on_bad_bytes: OnBadBytes
    ledger: Ledger
    compressed_bytes: int = 0  # bytes of the file itself, so far
    decompressed_bytes: int = 0  # bytes after decompression, so far

    def __iter__(self) -> Iterator[str]:
        decoder, digest = _decoder(self.encoding), hashlib.sha256()
        is_at_start, held_back = True, ""
        with explain_file_errors(self.source.name), open(self.source.path, "rb") as file:
            stream = _decompressed_stream(_CountingFile(file, self, digest), file.peek(4)[:4])
            for block in self._decompress(stream):
                text = held_back + self._decode(decoder, block, final=False)
                if is_at_start and text:
                    is_at_start = False
                    if text.startswith("\ufeff"):
                        self.ledger.add_structure("byte order mark", "\ufeff")
                        text = text[1:]
                # A carriage return at the end may be half of a line ending: wait for the next block.
                held_back = "\r" if text.endswith("\r") else ""
                text = text[: len(text) - len(held_back)]
                if "\r" in text and "\r\n" in text:  # searching for one character is much faster than for two
                    normalized = text.replace("\r\n", "\n")
                    self.ledger.add_structure("carriage returns", "\r" * (len(text) - len(normalized)))
                    text = normalized
                if text:
                    yield text
        if rest := held_back + self._decode(decoder, b"", final=True):
            yield rest
        self.ledger.add_source(self.compressed_bytes, self.decompressed_bytes, digest.digest())

    def _decompress(self, stream: Any) -> Iterator[bytes]:
        try:
            while block := stream.read(BLOCK_BYTES):
                self.decompressed_bytes += len(block)
                yield block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"the compressed file is damaged or cut short ({error})"
            hint = "fetch or compress it again; what was read of it is not used"
            raise InputError(message, file=self.source.name, byte=self.compressed_bytes, hint=hint) from error

    def _decode(self, decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool) -> str:
        previous, _DECODING.blocks = getattr(_DECODING, "blocks", None), self
        try:
            return decoder.decode(block, final)
        except UnicodeError as error:  # of the encoding as such, such as UTF-16 without a byte order mark
            hint = "name the right --encoding (utf-16-le, utf-16-be, gb18030, …)"
            raise InputError(f"cannot be read as {self.encoding}: {error}", file=self.source.name, hint=hint) from error
        finally:
            _DECODING.blocks = previous

    def repair(self, error: UnicodeDecodeError) -> tuple[str, int]:
        """Called by the codec at each undecodable byte."""
        offset = self.decompressed_bytes - len(error.object) + error.start
        bad_bytes = error.object[error.start : error.end]
        if self.on_bad_bytes == "fail":
            message = f"not {self.encoding}: {' '.join(f'0x{byte:02x}' for byte in bad_bytes)}"
            hint = "name the right --encoding (gb18030, big5, …), or choose --on-bad-bytes replace or skip"
            raise InputError(message, file=self.source.name, byte=offset, hint=hint)
        action, replacement = ("replaced", "�") if self.on_bad_bytes == "replace" else ("skipped", "")
        self.ledger.add_structure_count(f"bad bytes {action}", 0, len(bad_bytes) - len(replacement.encode()))
        self.ledger.repair(self.source.name, offset, len(bad_bytes), action)
        return replacement, error.end


class _CountingFile:
    """A binary file that counts and digests what is read."""

    def __init__(self, file: IO[bytes], blocks: TextBlocks, digest: hashlib._Hash) -> None:
        self.file, self.blocks, self.digest = file, blocks, digest

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        self.digest.update(block)
        self.blocks.compressed_bytes += len(block)
        self.blocks.ledger.position += len(block)
        return block


_DECODING = threading.local()  # the text that is being decoded: error handlers of codecs are not told
_HANDLER = "forebear.mend"


def _repair_bad_bytes(error: UnicodeError) -> tuple[str, int]:
    blocks: TextBlocks = _DECODING.blocks
    assert isinstance(error, UnicodeDecodeError)
    return blocks.repair(error)


codecs.register_error(_HANDLER, _repair_bad_bytes)


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # pyright: ignore[reportAttributeAccessIssue]
            raise LookupError
        return codecs.getincrementaldecoder(encoding)(_HANDLER)
    except LookupError:
        hint = "for example utf-8, gb18030, big5, utf-16, latin-1"
        raise InputError(f"no text encoding is called {encoding!r}", hint=hint) from None
