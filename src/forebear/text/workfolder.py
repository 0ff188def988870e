"""The folder beside a corpus in which it is made: held by one process, kept when work breaks off, known by its plan."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forebear.errors import BadInput
from forebear.text.aside import write_json
from forebear.text.corpus import TOKENIZER

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

PLAN = "plan.json"
SHARDS = "shards"


def beside(target: Path) -> Path:
    return target.with_name(target.name + ".part")


@contextlib.contextmanager
def held(target: Path) -> Iterator[Path]:
    """The work folder of `target`, for this process alone; the system lets go of it if we are killed."""
    work = beside(target)
    while (handle := _locked(work, fcntl.LOCK_EX)) is None:
        pass  # its last holder finished and removed it while we waited
    try:
        yield work
    finally:
        with contextlib.suppress(OSError):
            work.rmdir()  # only if it is empty: the corpus was there already
        os.close(handle)


def swept(target: Path) -> None:
    """Removes what is left beside a corpus whose maker was killed between its last two steps."""
    work = beside(target)
    if key_of(work, PLAN) is None:
        return
    with contextlib.suppress(OSError):  # another process is at work there, or we may not write: no matter
        handle = _locked(work, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is not None:
            with contextlib.suppress(OSError):
                removed(work)
            os.close(handle)


def _locked(work: Path, how: int) -> int | None:
    """A handle that holds the folder, or None if the folder was removed meanwhile."""
    if work.exists() and not work.is_dir():
        raise BadInput("is in the way: forebear would work in it", file=work, remedy="move it, or choose another --to")
    try:
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, how)
        if os.fstat(handle).st_ino == os.stat(work).st_ino:
            return handle
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def begin(work: Path, key: str, tokenizer: Tokenizer) -> None:
    """Keeps the shards of an earlier attempt at the very same corpus, and nothing else of ours."""
    known = key_of(work, PLAN)
    strangers = [item.name for item in work.iterdir() if not item.name.startswith(f".{PLAN}.")]
    if known is None and strangers:
        raise BadInput("is in the way: forebear would work in it", file=work, remedy="move it, or choose another --to")
    if known != key:
        _emptied(work)
        write_json(work / PLAN, {"key": key})
    if not (work / TOKENIZER).exists():
        tokenizer.save(work / TOKENIZER)
    (work / SHARDS).mkdir(exist_ok=True)
    for leftover in (work / SHARDS).glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def removed(work: Path) -> None:
    """The plan goes last: what has no plan is not ours to remove."""
    _emptied(work)
    (work / PLAN).unlink(missing_ok=True)
    work.rmdir()


def _emptied(work: Path) -> None:
    for item in work.iterdir():
        if item.name != PLAN:
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def key_of(folder: Path, file: str) -> str | None:
    """The key in a folder's JSON file, if there is one that can be read."""
    try:
        return json.loads((folder / file).read_text())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
