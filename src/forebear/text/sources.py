"""Where text comes from: files, folders, globs, pipes and standard input, each file once and in a fixed order."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from forebear.errors import BadInput, ForebearError
from forebear.text.ledger import Ledger

BLOCK = 1 << 20  # bytes read at a time
STDIN = ("-", "/dev/stdin")
LEDGER_SUFFIX = ".ledger.json"  # what stands beside cleaned text

Paths = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]

# Files that are certainly not text; every other file of a folder is read, and fails loudly if it is not text either.
NOT_TEXT = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .ico .svgz .mp3 .wav .flac .ogg .mp4 .avi .mkv .mov .webm "
    ".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ods .epub .mobi .zip .tar .tgz .7z .rar .bz2 .xz .jar "
    ".whl .exe .dll .so .o .a .class .pyc .bin .pt .pth .ckpt .safetensors .onnx .npy .npz .h5 .hdf5 "
    ".parquet .arrow .feather .sqlite .db .woff .woff2 .ttf .otf".split()
)


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


def find(paths: Paths, ledger: Ledger | None = None) -> Iterator[Source]:
    """The files meant by `paths`, in a fixed order; what a folder holds beside them is written into the ledger."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    named = [path for it in given for path in _expanded(os.fspath(it))]
    walk = _Walk(ledger if ledger is not None else Ledger(), several=len(named) > 1)
    found = False
    for path in named:
        for source in walk.through(path):
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


class _Walk:
    """Through files and folders in the order of their names, each once; a link loop ends where it began.

    Files are remembered only where `several` paths were named: one folder cannot name a file twice, and it may hold
    millions.
    """

    def __init__(self, ledger: Ledger, *, several: bool) -> None:
        self.ledger, self.several = ledger, several
        self.seen: set[object] = set()

    def through(self, path: str) -> Iterator[Source]:
        if path in STDIN:
            if self._is_new(STDIN, path):
                yield Source(_spooled(_standard_input()), "<stdin>")
            return
        pending: list[Iterator[str]] = [iter([path])]
        while pending:
            if (path := next(pending[-1], "")) == "":
                pending.pop()
            elif self._is_folder(path, asked=len(pending) == 1):
                with told_of(path):
                    names = sorted(os.listdir(path))
                pending.append(map(partial(os.path.join, path), names))
            else:
                yield from self._file(path, asked=len(pending) == 1)

    def _is_folder(self, path: str, *, asked: bool) -> bool:
        return os.path.isdir(path) and (asked or not _is_hidden(path)) and self._is_new(_identity(path), path)

    def _file(self, path: str, *, asked: bool) -> Iterator[Source]:
        """The file as a source, unless there is a reason to set it aside; what was asked for by name is read."""
        if os.path.isdir(path):  # one that is not entered
            if _is_hidden(path) and not asked:
                self.ledger.set_aside(path, "hidden folder")
            return
        if not asked and (reason := _not_text(path)):
            self.ledger.set_aside(path, reason)
            return
        with told_of(path):
            regular = stat.S_ISREG(os.stat(path).st_mode)
        if not regular and not asked:
            self.ledger.set_aside(path, "not a regular file")
        elif not self.several or self._is_new(_identity(path), path):
            yield Source(path if regular else _spooled(path), path)  # a named pipe, or the shell's <(command)

    def _is_new(self, identity: object, path: str) -> bool:
        if identity in self.seen:
            self.ledger.set_aside(path, "named twice, or a link back to a folder already read")
            return False
        self.seen.add(identity)
        return True


def _identity(path: str) -> object:
    """The same for two names of one file; hard links are two files that happen to be equal."""
    with told_of(path):
        status = os.stat(path)
    alone = stat.S_ISDIR(status.st_mode) or status.st_nlink == 1
    return (status.st_dev, status.st_ino) if alone else os.path.realpath(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")


def _not_text(path: str) -> str:
    """Why a file that nobody named is not read: nothing where it is."""
    if os.path.islink(path) and not os.path.exists(path):
        return "link that leads nowhere"
    if _is_hidden(path):
        return "hidden file"
    if path.endswith(LEDGER_SUFFIX):
        return "a ledger of cleaned text"
    return "not a text file by its name" if os.path.splitext(path)[1].lower() in NOT_TEXT else ""


def _standard_input() -> int:
    if sys.stdin is None:
        raise BadInput("there is no standard input", remedy="give it some: forebear … - < FILE")
    return sys.stdin.fileno()


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
