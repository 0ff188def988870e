"""A disk that fails at the n-th write, sync, rename, removal or new folder."""

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

FaultKind = Literal["error", "crash", "power cut"]
UNSYNCED = ("metrics.jsonl", "card.md")  # they may lose their last lines: training does not resume from them


class Crash(BaseException):
    """Not caught by any handler, like SIGKILL."""


class FaultyDisk:
    """Counts the file operations below a folder and breaks one of them.

    With `error`, the n-th operation raises OSError and later ones work. With `crash`, it is half done and no later
    operation has an effect, as if the process had died. With `power cut`, unsynced data is lost as well.
    """

    def __init__(self, folder: Path, fault_index: int, fault: FaultKind) -> None:
        self.folder, self.fault_index, self.fault = folder, fault_index, fault
        self.operations: list[str] = []
        self.crashed = False
        self.unsynced: set[int] = set()  # inode numbers

    def record_operation(self, name: str, write_half: Callable[[], object] = lambda: None) -> None:
        if self.crashed:
            raise Crash
        self.operations.append(name)
        if len(self.operations) - 1 != self.fault_index:
            return
        write_half()
        if self.fault == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self.folder))
        self.crashed = True
        if self.fault == "power cut":
            for file in self.folder.rglob("*"):
                if file.is_file() and file.stat().st_ino in self.unsynced and file.name not in UNSYNCED:
                    os.truncate(file, file.stat().st_size // 2)
        raise Crash

    def is_inside(self, path: object, dir_fd: int | None = None) -> bool:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        elif dir_fd is not None:
            path = Path(os.readlink(f"/proc/self/fd/{dir_fd}")) / os.fspath(path)  # pyright: ignore[reportArgumentType]
        return Path(os.fspath(path)).is_relative_to(self.folder)  # pyright: ignore[reportArgumentType]

    @property
    def fault_reached(self) -> bool:
        return len(self.operations) > self.fault_index


class _File:
    """A file on a faulty disk, open for writing."""

    def __init__(self, file: Any, disk: FaultyDisk) -> None:
        self.file, self.disk = file, disk
        disk.unsynced.add(os.fstat(file.fileno()).st_ino)

    def write(self, data: Any) -> int:
        self.disk.unsynced.add(os.fstat(self.file.fileno()).st_ino)

        def write_half() -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        self.disk.record_operation("write", write_half)
        return self.file.write(data)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@contextmanager
def inject_disk_fault(folder: Path, fault_index: int, fault: FaultKind) -> Iterator[FaultyDisk]:
    """Breaks the n-th file operation below a folder while the context is open."""
    disk = FaultyDisk(folder, fault_index, fault)
    plain_open, plain_save, plain_sync = builtins.open, checkpoint.call_with_os_errors, os.fsync

    def faulty_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int) or not disk.is_inside(file):
            return plain_open(file, mode, *arguments, **options)
        disk.record_operation("open")
        return _File(plain_open(file, mode, *arguments, **options), disk)

    def faulty_save(write: Callable[[Path], None], path: Path) -> None:
        """Files that libraries write themselves."""
        disk.record_operation("begin to write")
        plain_save(write, path)
        files = [file for file in path.iterdir() if file.is_file()]
        disk.unsynced |= {file.stat().st_ino for file in files}
        disk.record_operation("end to write", lambda: [os.truncate(file, file.stat().st_size // 2) for file in files])

    def faulty_sync(descriptor: int) -> None:
        if disk.is_inside(descriptor):
            disk.record_operation("sync")
        plain_sync(descriptor)
        disk.unsynced.discard(os.fstat(descriptor).st_ino)

    def faulty_call(name: str) -> Callable[..., Any]:
        plain_call = getattr(os, name)

        def change(path: Any, *arguments: Any, **options: Any) -> Any:
            if disk.is_inside(path, options.get("dir_fd")):
                disk.record_operation(name)
            return plain_call(path, *arguments, **options)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for module in (builtins, io):
            patch.setattr(module, "open", faulty_open)
        patch.setattr(checkpoint, "call_with_os_errors", faulty_save)
        patch.setattr(os, "fsync", faulty_sync)
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, faulty_call(name))
        yield disk
