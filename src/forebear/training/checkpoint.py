"""States of a run on disk, each whole or not there: written aside, synced, hashed, renamed; verified when read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebear.data.io.atomic import sync_folder, write_json
from forebear.errors import ForebearError

STATE, MANIFEST = "state.json", "manifest.json"


@dataclass(frozen=True)
class Checkpoint:
    """One state: a folder named by its step, with the learner's files, what the loop knew, and a manifest of both."""

    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name)

    def load_state(self) -> dict[str, Any]:
        return json.loads((self.folder / STATE).read_text())

    def damage(self) -> str | None:
        """What is wrong with it, naming the file; None if every byte is what was written."""
        try:
            told = json.loads((self.folder / MANIFEST).read_text())["files"]
            for name, facts in told.items():
                path = self.folder / name
                if not path.is_file():
                    return f"{path} is missing"
                if path.stat().st_size != facts["bytes"]:
                    return f"{path} has {path.stat().st_size:,} bytes, not {facts['bytes']:,}"
                if file_digest(path) != facts["sha256"]:
                    return f"{path} is not what was written"
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return f"{self.folder / MANIFEST} is missing or damaged"
        return None


@dataclass(frozen=True)
class CheckpointStore:
    """All states of a run."""

    folder: Path

    def list_all(self) -> list[Checkpoint]:
        """The oldest first; nothing is verified."""
        if not self.folder.is_dir():
            return []
        found = [Checkpoint(item) for item in self.folder.iterdir() if item.name.isdigit() and item.is_dir()]
        return sorted(found, key=lambda one: one.step)

    def newest_with_faults(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest that is whole, and what is wrong with those that are newer."""
        wrong: list[str] = []
        for one in reversed(self.list_all()):
            damage = one.damage()
            if damage is None:
                return one, wrong
            wrong.append(damage)
        return None, wrong

    def newest_valid(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest that is whole; an error where there are some and none is."""
        one, wrong = self.newest_with_faults()
        if one is None and wrong:
            raise ForebearError(
                f"no checkpoint of this run is whole: {'; '.join(wrong)}",
                file=self.folder,
                hint="restore one of them from a copy, or train again into another folder",
            )
        return one, [f"{damage}: fell back to step {one.step:,}" for damage in wrong] if one else []

    def save(self, step: int, state: dict[str, Any], write: Callable[[Path], None]) -> Checkpoint:
        """A new state. Until its folder has its name nothing of it counts; one of this step that is whole stays."""
        aside = self.folder / f".{step}.tmp"
        final = Checkpoint(self.folder / f"{step:08d}")
        self.clean_up()
        if final.folder.exists() and final.damage() is None:
            return final
        aside.mkdir(parents=True)
        try:
            save_tensors(write, aside)
            write_json(aside / STATE, state)
            names = sorted(item.name for item in aside.iterdir())
            for name in names:
                _sync(aside / name)
            facts = {
                name: {"bytes": (aside / name).stat().st_size, "sha256": file_digest(aside / name)} for name in names
            }
            write_json(aside / MANIFEST, {"files": facts})
            if final.folder.exists():  # damaged, as we now know
                final.folder.rename(self.folder / f".{step}.old")
            aside.rename(final.folder)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(self.folder)
        self.clean_up()
        return final

    def clean_up(self) -> None:
        """Removes what a killed save left behind."""
        if self.folder.is_dir():
            for item in self.folder.iterdir():
                if item.name.startswith(".") and item.name.endswith((".tmp", ".old")):
                    shutil.rmtree(item, ignore_errors=True)

    def quarantine(self, step: int) -> None:
        """Moves away what is newer than this step and was found damaged, so that it is not kept for whole."""
        for one in self.list_all():
            if one.step > step:
                place = one.folder.with_name(f"{one.folder.name}.damaged")
                shutil.rmtree(place, ignore_errors=True)
                one.folder.rename(place)

    def prune(self, keep: int, spare: set[int]) -> None:
        """Keeps the newest `keep` and those of the steps to spare."""
        for one in self.list_all()[:-keep]:
            if one.step not in spare:
                aside = self.folder / f".{one.step}.old"
                one.folder.rename(aside)  # in one step: half a folder never has a checkpoint's name
                shutil.rmtree(aside, ignore_errors=True)


def save_tensors(write: Callable[[Path], None], folder: Path) -> None:
    """safetensors wraps what the system says in an error of its own; it is told as the system says it."""
    from safetensors import SafetensorError

    try:
        write(folder)
    except SafetensorError as error:
        if code := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(folder)) from error
        raise


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
