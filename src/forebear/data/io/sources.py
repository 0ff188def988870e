"""Source files: from paths of files, folders, globs, pipes and standard input, each once and in a fixed order."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from forebear.data.io.text_ledger import Ledger
from forebear.errors import ForebearError, InputError

PathLike = str | os.PathLike[str]

STDIN = ("-", "/dev/stdin")
BLOCK_BYTES = 1 << 20  # bytes read at a time
LEDGER_SUFFIX = ".ledger.json"  # of the ledger that is written with cleaned text

Paths = Iterable[PathLike] | PathLike
ProgressFn = Callable[[int, int], object]  # called with the amount done so far and the total, in the same unit

# Files that are certainly not text; every other file of a folder is read, which fails if it is not text either.
BINARY_SUFFIXES = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .ico .svgz .mp3 .wav .flac .ogg .mp4 .avi .mkv .mov .webm "
    ".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ods .epub .mobi .zip .tar .tgz .7z .rar .bz2 .xz .jar "
    ".whl .exe .dll .so .o .a .class .pyc .bin .pt .pth .ckpt .safetensors .onnx .npy .npz .h5 .hdf5 "
    ".parquet .arrow .feather .sqlite .db .woff .woff2 .ttf .otf".split()
)


@dataclass(frozen=True)
class SourceFile:
    """A file to read, and its name in messages."""

    path: str
    name: str

    def file_stamp(self) -> tuple[int, int, int, int, int]:
        """Device, inode, size and times: they change when the file changes."""
        with explain_file_errors(self.name):
            s = os.stat(self.path)
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


@contextmanager
def explain_file_errors(name: str) -> Iterator[None]:
    """Turn a system error into a message with the file's name."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("the file is not there (any more)", file=name, hint="check the path and run again") from error
    except PermissionError as error:
        raise InputError("permission denied", file=name, hint="make the file readable, or leave it out") from error
    except OSError as error:
        raise ForebearError(error.strerror or str(error), file=name) from error


def find_sources(paths: Paths, ledger: Ledger | None = None) -> Iterator[SourceFile]:
    """The files of `paths` in a fixed order; skipped files of folders are recorded in the ledger."""
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

    Files are remembered only if there are several paths: a single folder has each file once, and may have millions.
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
        """Yield the file as a source, unless it is skipped; a file that the user named is never skipped."""
        if os.path.isdir(path):  # hidden, or already read
            if _is_hidden(path) and not is_named:
                self.ledger.record_skipped_file(path, "hidden folder")
            return
        if not is_named and (reason := _skip_reason(path)):
            self.ledger.record_skipped_file(path, reason)
            return
        with explain_file_errors(path):
            is_regular = stat.S_ISREG(os.stat(path).st_mode)
        if not is_regular and not is_named:
            self.ledger.record_skipped_file(path, "not a regular file")
        elif not self.has_several_paths or self._is_new(_identity(path), path):
            yield SourceFile(path if is_regular else _spool(path), path)  # a named pipe, or the shell's <(command)

    def _is_new(self, identity: object, path: str) -> bool:
        if identity in self.seen:
            self.ledger.record_skipped_file(path, "named twice, or a link back to a folder already read")
            return False
        self.seen.add(identity)
        return True


def _identity(path: str) -> object:
    """A key that is equal for two names of one file; hard links count as different files."""
    with explain_file_errors(path):
        status = os.stat(path)
    has_one_name = stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
    return (status.st_dev, status.st_ino) if has_one_name else os.path.realpath(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _skip_reason(path: str) -> str:
    """The reason to skip a file of a folder; "" if it is read."""
    if os.path.islink(path) and not os.path.exists(path):
        return "link that leads nowhere"
    if _is_hidden(path):
        return "hidden file"
    if path.endswith(LEDGER_SUFFIX):
        return "a ledger of cleaned text"
    return "not a text file by its name" if os.path.splitext(path)[1].lower() in BINARY_SUFFIXES else ""


@cache
def _spool(path_or_fd: str | int) -> str:
    """A temporary file with the content of a pipe: text is read several times (fingerprint, tokenizer, corpus)."""
    import atexit

    with tempfile.NamedTemporaryFile(prefix="forebear-stdin-", delete=False) as file:
        atexit.register(lambda: Path(file.name).unlink(missing_ok=True))
        with explain_file_errors(file.name), open(path_or_fd, "rb", closefd=isinstance(path_or_fd, str)) as pipe:
            while block := pipe.read(BLOCK_BYTES):
                file.write(block)
    return file.name


def sources_digest(sources: Iterable[SourceFile]) -> str:
    """One digest of the contents of all files in order, independent of their names."""
    digest = hashlib.sha256()
    for source in sources:
        with explain_file_errors(source.name), open(source.path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
