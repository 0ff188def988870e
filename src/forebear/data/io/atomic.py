"""Atomic writes of files and folders, disk errors, the cache folder, and locked work folders that can be resumed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forebear.errors import ForebearError, InputError

PLAN_FILE = "plan.json"
SHARDS_FOLDER = "shards"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A temporary binary file that is renamed to `path` when the block succeeds, and removed when it fails."""
    target = Path(path)
    temp_path = target.with_name(f".{target.name[:80]}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        with open(temp_path, "wb") as file:
            yield file
            sync_file(file)
        temp_path.replace(target)
    except BaseException:
        temp_path.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


@contextmanager
def new_folder(target: Path, *, may_exist: bool = False) -> Iterator[Path]:
    """A temporary folder that becomes `target`, which is empty or missing, when the block succeeds; else removed.

    With `may_exist`, several processes may create the same folder: the first one that finishes wins.
    """
    temp_path = target.with_name(f".{target.name}.{os.getpid()}.tmp" if may_exist else f".{target.name}.tmp")
    shutil.rmtree(temp_path, ignore_errors=True)
    temp_path.mkdir(parents=True)
    try:
        yield temp_path
        if not (may_exist and target.exists()):
            temp_path.rename(target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(temp_path, ignore_errors=True)


def apply_umask(path: str | os.PathLike[str]) -> None:
    """Set the permissions of ordinary new files, for a file that a library created for its owner only."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def write_json(path: str | os.PathLike[str], value: dict[str, Any]) -> None:
    """Write a JSON object atomically."""
    with atomic_write(path) as file:
        file.write(json.dumps(value, indent=1, allow_nan=False).encode() + b"\n")


def sync_file(file: IO[Any]) -> None:
    """Sync a file to disk, so that it survives a power failure."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync a folder's directory entries, so that they survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explain_disk_errors(target: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a disk error into a message with a hint."""
    try:
        yield
    except OSError as error:
        path = error.filename if isinstance(error.filename, str) else target
        option = "by FOREBEAR_CACHE" if Path(path).is_relative_to(cache_folder()) else "with --to"
        default_hint = f"choose a place that can be written, {option}"
        hints = {
            errno.ENOSPC: f"free some space and run again (what is finished is kept), or choose another disk {option}",
            errno.EDQUOT: f"your quota is used up: free some space, or choose another disk {option}",
        }
        hint = hints.get(error.errno or 0, default_hint)
        raise ForebearError(error.strerror or str(error), file=path, hint=hint) from error


def cache_folder() -> Path:
    """The cache folder: $FOREBEAR_CACHE, or the system's cache folder for forebear."""
    if folder := os.environ.get("FOREBEAR_CACHE"):
        return Path(folder)
    import platformdirs

    return platformdirs.user_cache_path("forebear")


# --- Work folders ---


def _work_folder(target: Path) -> Path:
    return target.with_name(target.name + ".part")


@contextmanager
def lock_work_folder(target: Path) -> Iterator[Path]:
    """The work folder of `target`, locked for this process; the system releases the lock if the process is killed."""
    work = _work_folder(target)
    while (handle := _lock_folder(work, fcntl.LOCK_EX)) is None:
        pass  # its previous owner finished and removed it while we waited
    try:
        yield work
    finally:
        with contextlib.suppress(OSError):
            work.rmdir()  # only if it is empty: the result existed already
        os.close(handle)


def remove_stale_work(target: Path) -> None:
    """Remove the work folder of a finished result whose process was killed before it could do so."""
    work = _work_folder(target)
    if stored_key(work, PLAN_FILE) is None:
        return
    with contextlib.suppress(OSError):  # another process works in it, or it is read-only: it may stay
        handle = _lock_folder(work, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is not None:
            with contextlib.suppress(OSError):
                remove_work_folder(work)
            os.close(handle)


def _lock_folder(work: Path, mode: int) -> int | None:
    """A descriptor that holds the lock, or None if the folder was removed meanwhile."""
    if work.exists() and not work.is_dir():
        raise InputError("is in the way: forebear would work in it", file=work, hint="move it, or choose another --to")
    try:
        work.mkdir(parents=True, exist_ok=True)
        handle = os.open(work, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, mode)
        if os.fstat(handle).st_ino == os.stat(work).st_ino:
            return handle
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def prepare_work_folder(work: Path, key: str) -> None:
    """Keep the shards of an earlier attempt with the same key; remove those of any other."""
    known_key = stored_key(work, PLAN_FILE)
    has_other_files = any(not item.name.startswith(f".{PLAN_FILE}.") for item in work.iterdir())
    if known_key is None and has_other_files:
        raise InputError("is in the way: forebear would work in it", file=work, hint="move it, or choose another --to")
    if known_key != key:
        clear_folder(work)
        write_json(work / PLAN_FILE, {"key": key})
    (work / SHARDS_FOLDER).mkdir(exist_ok=True)
    for leftover in (work / SHARDS_FOLDER).glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def remove_work_folder(work: Path) -> None:
    """Remove a work folder, its plan last: a folder without a plan is never removed."""
    clear_folder(work)
    (work / PLAN_FILE).unlink(missing_ok=True)
    work.rmdir()


def clear_folder(work: Path) -> None:
    """Remove everything in a work folder except its plan."""
    for item in work.iterdir():
        if item.name != PLAN_FILE:
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def stored_key(folder: Path, file: str) -> str | None:
    """The key in a JSON file of a folder, or None if there is none."""
    try:
        return json.loads((folder / file).read_text())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
