"""A disk that breaks at the n-th thing that is done to it: a write, a sync, a rename, a removal, a new folder."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from forebear.training import checkpoint

Way = Literal["error", "crash", "power cut"]
UNSYNCED = ("metrics.jsonl", "card.md")  # they may lose their last lines: nothing is gone on from them


class Crash(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class BreakingDisk:
    """Counts what is done below a folder.

    The n-th deed fails with an error of the system, and what follows is done again; or the process is as good as dead:
    that deed is half done, and none that follows changes anything. With a power cut, what was not synced is lost too.
    """

    def __init__(self, folder: Path, at: int, way: Way) -> None:
        self.folder, self.at, self.way = folder, at, way
        self.deeds: list[str] = []
        self.dead = False
        self.unsynced: set[int] = set()  # numbers of files

    def deed(self, name: str, half: Callable[[], object] = lambda: None) -> None:
        if self.dead:
            raise Crash
        self.deeds.append(name)
        if len(self.deeds) - 1 != self.at:
            return
        half()
        if self.way == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.folder))
        self.dead = True
        if self.way == "power cut":
            for file in self.folder.rglob("*"):
                if file.is_file() and file.stat().st_ino in self.unsynced and file.name not in UNSYNCED:
                    os.truncate(file, file.stat().st_size // 2)
        raise Crash

    def below(self, place: object, dir_fd: int | None = None) -> bool:
        if isinstance(place, int):
            place = os.readlink(f"/proc/self/fd/{place}")
        elif dir_fd is not None:
            place = Path(os.readlink(f"/proc/self/fd/{dir_fd}")) / os.fspath(place)  # pyright: ignore[reportArgumentType]
        return Path(os.fspath(place)).is_relative_to(self.folder)  # pyright: ignore[reportArgumentType]

    @property
    def broke(self) -> bool:
        return len(self.deeds) > self.at


class _File:
    """A file that is written to a disk that breaks."""

    def __init__(self, file: Any, disk: BreakingDisk) -> None:
        self.file, self.disk = file, disk
        disk.unsynced.add(os.fstat(file.fileno()).st_ino)

    def write(self, data: Any) -> int:
        self.disk.unsynced.add(os.fstat(self.file.fileno()).st_ino)

        def half() -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        self.disk.deed("write", half)
        return self.file.write(data)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *told: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@contextmanager
def breaking(folder: Path, at: int, way: Way) -> Iterator[BreakingDisk]:
    """What is done below this folder meanwhile fails at its n-th deed."""
    disk = BreakingDisk(folder, at, way)
    opened, written, sync = builtins.open, checkpoint.call_with_os_errors, os.fsync

    def opening(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int) or not disk.below(file):
            return opened(file, mode, *given, **named)
        disk.deed("open")
        return _File(opened(file, mode, *given, **named), disk)

    def writing(write: Callable[[Path], None], place: Path) -> None:
        """What libraries write by themselves."""
        disk.deed("begin to write")
        written(write, place)
        files = [file for file in place.iterdir() if file.is_file()]
        disk.unsynced |= {file.stat().st_ino for file in files}
        disk.deed("end to write", lambda: [os.truncate(file, file.stat().st_size // 2) for file in files])

    def syncing(number: int) -> None:
        if disk.below(number):
            disk.deed("sync")
        sync(number)
        disk.unsynced.discard(os.fstat(number).st_ino)

    def changing(name: str) -> Callable[..., Any]:
        own = getattr(os, name)

        def change(place: Any, *given: Any, **named: Any) -> Any:
            if disk.below(place, named.get("dir_fd")):
                disk.deed(name)
            return own(place, *given, **named)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for module in (builtins, io):
            patch.setattr(module, "open", opening)
        patch.setattr(checkpoint, "call_with_os_errors", writing)
        patch.setattr(os, "fsync", syncing)
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, changing(name))
        yield disk
