"""Files that are whole or not there: written aside, synced, renamed in one step; and where they are kept."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from forebear.errors import ForebearError


@contextmanager
def written_aside(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends well; otherwise nothing is left of it."""
    target = Path(path)
    aside = target.with_name(f".{target.name[:80]}.{os.getpid()}.{threading.get_native_id()}.tmp")
    try:
        with open(aside, "wb") as file:
            yield file
            synced(file)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def readable(path: str | os.PathLike[str]) -> None:
    """A file that another library wrote for its owner alone has the permissions that this person's files have."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)


def write_json(path: str | os.PathLike[str], facts: dict[str, Any]) -> None:
    with written_aside(path) as file:
        file.write(json.dumps(facts, indent=1, allow_nan=False).encode() + b"\n")


def synced(file: IO[Any]) -> None:
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
def disk_told(target: str | os.PathLike[str]) -> Iterator[None]:
    """What a disk refuses, in words, with the remedy."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else target
        how = "by FOREBEAR_CACHE" if Path(place).is_relative_to(cache()) else "with --to"
        elsewhere = f"choose a place that can be written, {how}"
        remedies = {
            errno.ENOSPC: f"free some space and run again (what is finished is kept), or choose another disk {how}",
            errno.EDQUOT: f"your quota is used up: free some space, or choose another disk {how}",
        }
        raise ForebearError(
            error.strerror or str(error), file=place, remedy=remedies.get(error.errno or 0, elsewhere)
        ) from error


def cache() -> Path:
    """Where things that can be made again are kept: $FOREBEAR_CACHE, or the system's place for such things."""
    if given := os.environ.get("FOREBEAR_CACHE"):
        return Path(given)
    import platformdirs

    return platformdirs.user_cache_path("forebear")
