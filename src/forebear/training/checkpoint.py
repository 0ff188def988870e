"""Checkpoints of a run: written to a temporary folder, synced, hashed and renamed into place; verified when read."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebear.data.io.atomic import file_digest, sync_folder, write_json
from forebear.errors import ForebearError

STATE_FILE, MANIFEST_FILE = "state.json", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: a folder named by its step, with the learner's files, the state of the loop, and a manifest."""

    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name)

    def load_state(self) -> dict[str, Any]:
        return json.loads((self.folder / STATE_FILE).read_text())

    def find_corruption(self) -> str | None:
        """A message on the first corrupt or missing file; None if every checksum matches."""
        try:
            entries = json.loads((self.folder / MANIFEST_FILE).read_text())["files"]
            for name, entry in entries.items():
                path = self.folder / name
                if not path.is_file():
                    return f"{path} is missing"
                if path.stat().st_size != entry["bytes"]:
                    return f"{path} has {path.stat().st_size:,} bytes, not {entry['bytes']:,}"
                if file_digest(path) != entry["sha256"]:
                    return f"{path} is not what was written"
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{self.folder / MANIFEST_FILE} is missing or damaged"
        return None


@dataclass(frozen=True)
class CheckpointStore:
    """All checkpoints of a run."""

    folder: Path

    def list_all(self) -> list[Checkpoint]:
        """All checkpoints, oldest first, unverified."""
        if not self.folder.is_dir():
            return []
        checkpoints = [Checkpoint(item) for item in self.folder.iterdir() if item.name.isdigit() and item.is_dir()]
        return sorted(checkpoints, key=lambda checkpoint: checkpoint.step)

    def newest_valid_and_errors(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest valid checkpoint, and the errors of newer ones."""
        errors: list[str] = []
        for checkpoint in reversed(self.list_all()):
            if (error := checkpoint.find_corruption()) is None:
                return checkpoint, errors
            errors.append(error)
        return None, errors

    def newest_valid(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest valid checkpoint, and notes on newer ones. Raise ForebearError if there are only corrupt ones."""
        checkpoint, errors = self.newest_valid_and_errors()
        if checkpoint is not None:
            return checkpoint, [f"{error}: fell back to step {checkpoint.step:,}" for error in errors]
        if errors:
            hint = "restore one of them from a copy, or train again into another folder"
            message = f"no checkpoint of this run is whole: {'; '.join(errors)}"
            raise ForebearError(message, file=self.folder, hint=hint)
        return None, []

    def save(self, step: int, state: dict[str, Any], write_tensors: Callable[[Path], None]) -> Checkpoint:
        """Write a checkpoint to a temporary folder and rename it into place; a valid one of the same step is kept."""
        temp_folder = self.folder / f".{step}.tmp"
        checkpoint = Checkpoint(self.folder / f"{step:08d}")
        self.clean_up()
        if checkpoint.folder.exists() and checkpoint.find_corruption() is None:
            return checkpoint
        temp_folder.mkdir(parents=True)
        try:
            call_with_os_errors(write_tensors, temp_folder)
            write_json(temp_folder / STATE_FILE, state)
            file_entries = {}
            for path in sorted(temp_folder.iterdir()):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                file_entries[path.name] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
            write_json(temp_folder / MANIFEST_FILE, {"files": file_entries})
            if checkpoint.folder.exists():  # it is corrupt, as checked above
                checkpoint.folder.rename(self.folder / f".{step}.old")
            temp_folder.rename(checkpoint.folder)
        except BaseException:
            shutil.rmtree(temp_folder, ignore_errors=True)
            raise
        sync_folder(self.folder)
        self.clean_up()
        return checkpoint

    def clean_up(self) -> None:
        """Remove leftovers of a killed save."""
        if self.folder.is_dir():
            for leftover in self.folder.iterdir():
                if leftover.name.startswith(".") and leftover.name.endswith((".tmp", ".old")):
                    shutil.rmtree(leftover, ignore_errors=True)

    def quarantine(self, step: int) -> None:
        """Rename checkpoints newer than this step, which are corrupt, so that they are not used."""
        for checkpoint in self.list_all():
            if checkpoint.step > step:
                target = checkpoint.folder.with_name(f"{checkpoint.folder.name}.damaged")
                shutil.rmtree(target, ignore_errors=True)
                checkpoint.folder.rename(target)

    def prune(self, keep: int, protected_steps: set[int]) -> None:
        """Remove all but the newest `keep` and those of `protected_steps`, and leftovers of a killed save."""
        for checkpoint in self.list_all()[:-keep]:
            if checkpoint.step not in protected_steps:
                # Renamed before it is deleted: an incomplete folder never has a checkpoint's name.
                checkpoint.folder.rename(self.folder / f".{checkpoint.step}.old")
        self.clean_up()


def call_with_os_errors(write: Callable[[Path], None], folder: Path) -> None:
    """Call `write` with the folder; system errors that safetensors wraps, such as a full disk, become `OSError`."""
    from safetensors import SafetensorError

    try:
        write(folder)
    except SafetensorError as error:
        if match := re.search(r"os error (\d+)", str(error)):
            code = int(match[1])
            raise OSError(code, os.strerror(code), str(folder)) from error
        raise
