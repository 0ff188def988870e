"""The folder beside a corpus in which it is made: held by one process, kept when work breaks off, known by its plan."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from forebear.data.corpus.corpus import TOKENIZER_FILE
from forebear.errors import ForebearError, InputError

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer

# Files that are whole or not there: written aside, synced, renamed in one step; and where they are kept.


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends well; otherwise nothing is left of it."""
    target = Path(path)
    aside = target.with_name(f".{target.name[:80]}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        with open(aside, "wb") as file:
            yield file
            sync_file(file)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def share_permissions(path: str | os.PathLike[str]) -> None:
    """A file that another library wrote for its owner alone has the permissions that this person's files have."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def write_json(path: str | os.PathLike[str], facts: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(facts, indent=1, allow_nan=False).encode() + b"\n")


def sync_file(file: IO[Any]) -> None:
    """What was written so far survives a power cut."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """The names in a folder survive a power cut."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def explain_disk_errors(target: str | os.PathLike[str]) -> Iterator[None]:
    """What a disk refuses, in words, with the remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else target
        how = "by FOREBEAR_CACHE" if Path(place).is_relative_to(cache_folder()) else "with --to"
        elsewhere = f"choose a place that can be written, {how}"
        remedies = {
            errno.ENOSPC: f"free some space and run again (what is finished is kept), or choose another disk {how}",
            errno.EDQUOT: f"your quota is used up: free some space, or choose another disk {how}",
        }
        raise ForebearError(
            error.strerror or str(error), file=place, hint=remedies.get(error.errno or 0, elsewhere)
        ) from error


def cache_folder() -> Path:
    """Where things that can be made again are kept: $FOREBEAR_CACHE, or the system's place for such things."""
    if given := os.environ.get("FOREBEAR_CACHE"):
        return Path(given)
    import platformdirs

    return platformdirs.user_cache_path("forebear")


PLAN = "plan.json"
SHARDS_FOLDER = "shards"


def beside(target: Path) -> Path:
    return target.with_name(target.name + ".part")


@contextlib.contextmanager
def lock_work_folder(target: Path) -> Iterator[Path]:
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


def remove_stale_work(target: Path) -> None:
    """Removes what is left beside a corpus whose maker was killed between its last two steps."""
    work = beside(target)
    if stored_key(work, PLAN) is None:
        return
    with contextlib.suppress(OSError):  # another process is at work there, or we may not write: no matter
        handle = _locked(work, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is not None:
            with contextlib.suppress(OSError):
                remove_work_folder(work)
            os.close(handle)


def _locked(work: Path, how: int) -> int | None:
    """A handle that holds the folder, or None if the folder was removed meanwhile."""
    if work.exists() and not work.is_dir():
        raise InputError("is in the way: forebear would work in it", file=work, hint="move it, or choose another --to")
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


def begin_work(work: Path, key: str, tokenizer: Tokenizer) -> None:
    """Keeps the shards of an earlier attempt at the very same corpus, and nothing else of ours."""
    known = stored_key(work, PLAN)
    strangers = [item.name for item in work.iterdir() if not item.name.startswith(f".{PLAN}.")]
    if known is None and strangers:
        raise InputError("is in the way: forebear would work in it", file=work, hint="move it, or choose another --to")
    if known != key:
        _emptied(work)
        write_json(work / PLAN, {"key": key})
    if not (work / TOKENIZER_FILE).exists():
        tokenizer.save(work / TOKENIZER_FILE)
    (work / SHARDS_FOLDER).mkdir(exist_ok=True)
    for leftover in (work / SHARDS_FOLDER).glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def remove_work_folder(work: Path) -> None:
    """The plan goes last: what has no plan is not ours to remove."""
    _emptied(work)
    (work / PLAN).unlink(missing_ok=True)
    work.rmdir()


def _emptied(work: Path) -> None:
    for item in work.iterdir():
        if item.name != PLAN:
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def stored_key(folder: Path, file: str) -> str | None:
    """The key in a folder's JSON file, if there is one that can be read."""
    try:
        return json.loads((folder / file).read_text())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
