"""A run is a folder that explains itself: nothing else is ever needed to use, resume, adapt, serve or export it.

run.json             milestone, fields, recipe, data, versions, hardware, state, step, metrics
tokenizer.json       how text was cut
ledger.json          what became of the text
weights.safetensors  what was learned
metrics.jsonl        a line for every so many steps
card.md              the same for people
checkpoints/STEP/    states to go on from
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from forebear.errors import BadInput, ForebearError
from forebear.lineage import milestone_named
from forebear.milestones.milestone import Milestone
from forebear.tasks.adaptation import Adaptation
from forebear.tasks.task import Task, task_from
from forebear.text.aside import disk_told, write_json, written_aside
from forebear.text.corpus import LEDGER, TOKENIZER
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training import machine
from forebear.training.checkpoint import Checkpoint, Checkpoints, digest
from forebear.training.learner import WEIGHTS
from forebear.training.recipe import Recipe, recipe_from

FORMAT = "forebear-run/1"
RUN, METRICS, CARD, CHECKPOINTS = "run.json", "metrics.jsonl", "card.md", "checkpoints"


@contextlib.contextmanager
def held(folder: Path, otherwise: str) -> Iterator[None]:
    """A folder for this process alone, or an error with these words; the system lets go of it if we are killed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise BadInput(otherwise, file=folder, remedy="wait for it, or stop it first") from error
    try:
        yield
    finally:
        os.close(handle)


@dataclass(eq=False)
class RunFolder:
    """A run on disk. `facts` is what run.json says."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    def begin(
        cls, path: Path, facts: dict[str, Any], tokenizer: Tokenizer | Sides, ledger: dict[str, Any] | None
    ) -> RunFolder:
        """Fills an empty folder; run.json comes last, and only then it is a run.

        Beside `facts` it tells of its tokenizer, of when and where it began, and of its state, if they do not.
        """
        told = {
            "tokenizer": {name: tokenizer.describe()[name] for name in ("kind", "size", "digest")},
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": machine.versions(),
            "hardware": machine.hardware(),
            "state": "begun",
        }
        run = cls(path, {"format": FORMAT, **facts, **{name: told[name] for name in told if name not in facts}})
        with disk_told(path):
            path.mkdir(parents=True, exist_ok=True)
            with run.held():
                if (path / RUN).exists():
                    raise BadInput("another process has just begun a run here", file=path, remedy="run again")
                tokenizer.save(path / TOKENIZER)
                if ledger is not None:
                    write_json(path / LEDGER, ledger)
                run.save()
        if isinstance(tokenizer, Sides):  # just written: no need to read it again
            run.sides = tokenizer
        else:
            run.tokenizer = tokenizer
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        path = Path(path)
        remedy = "name a folder that forebear pretrain or forebear import made; forebear runs lists them"
        if not path.is_dir():
            what = "is no folder" if path.exists() else "there is no such run"
            raise BadInput(what, file=path, remedy=remedy)
        try:
            facts = json.loads((path / RUN).read_text())
        except FileNotFoundError as error:
            raise BadInput(f"is no run: it has no {RUN}", file=path, remedy=remedy) from error
        except (OSError, ValueError) as error:
            raise ForebearError(f"cannot be read: {error}", file=path / RUN, remedy="restore it from a copy") from error
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            told = facts.get("format") if isinstance(facts, dict) else None
            raise BadInput(f"a run of format {told!r}; this version reads {FORMAT!r}", file=path, remedy=remedy)
        return cls(path, facts)

    def save(self) -> None:
        write_json(self.path / RUN, self.facts)

    def tell(self, **facts: Any) -> None:
        """Enters facts in run.json."""
        self.facts |= facts
        self.save()

    def held(self) -> contextlib.AbstractContextManager[None]:
        """The run for this process alone."""
        return held(self.path, "another process is training this run")

    @property
    def busy(self) -> bool:
        """Whether a process is training it now."""
        try:
            with self.held():
                return False
        except (BadInput, OSError):
            return True

    @cached_property
    def milestone(self) -> Milestone:
        kind = milestone_named(self.facts["milestone"])
        try:
            return kind(**self.facts["fields"])
        except TypeError as error:
            remedy = "it was made by another version of forebear"
            raise BadInput(f"its fields do not fit: {error}", file=self.path / RUN, remedy=remedy) from error

    @cached_property
    def tokenizer(self) -> Tokenizer:
        made = Tokenizer.load(self.path / TOKENIZER)
        return self.milestone.reading(made) if "task" in self.facts else made

    @cached_property
    def tokenizers(self) -> Tokenizer | Sides:
        """What its network is made for: one tokenizer, or those of both sides where it translates."""
        return self.tokenizer if self.milestone.learns_from == "text" else self.sides

    @cached_property
    def sides(self) -> Sides:
        """Of a run that translates."""
        return Sides.load(self.path)

    @property
    def task(self) -> Task | None:
        """What it was adapted to; None where it was only pre-trained."""
        told = self.facts.get("task")
        return None if told is None else task_from(told)

    @property
    def adaptation(self) -> Adaptation:
        """How it was adapted."""
        return Adaptation(**self.facts["adaptation"])

    def is_of_floats(self, otherwise: str, verb: str) -> None:
        """An error where its weights are small integers; what is meant is done with the run it was made of."""
        if "quantised" in self.facts:
            raise BadInput(otherwise, file=self.path, remedy=f"{verb} {self.facts['parent']}, which it was made of")

    def may_learn(self) -> None:
        """An error where its weights cannot change."""
        self.is_of_floats("quantised: small integers cannot learn", "train or teach with")

    @property
    def going_on(self) -> str:
        """The command that goes on with it."""
        verb = "distil" if "distilled" in self.facts else "adapt" if "task" in self.facts else "pretrain"
        return f"forebear {verb} --resume {self.path}"

    @property
    def recipe(self) -> Recipe:
        return recipe_from(self.facts["recipe"])

    def recipe_for(self, processes: int) -> Recipe:
        """What was settled holds; but threads that nobody asked for are settled anew for other numbers of processes."""
        recipe = self.recipe
        free = "threads" not in self.facts.get("asked", {}).get("recipe", {})
        same = self.facts.get("processes", 1) == processes
        return recipe if same or not free else replace(recipe, threads=None)

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path / CHECKPOINTS)

    @property
    def finished(self) -> bool:
        return self.facts["state"] == "finished"

    def publish(self, one: Checkpoint) -> None:
        """Makes a checkpoint's weights the run's own."""
        target = self.path / WEIGHTS
        with open(one.folder / WEIGHTS, "rb") as read, written_aside(target) as copy:
            shutil.copyfileobj(read, copy)  # no link: what befalls one of them must not befall the other
        self.tell(weights={"sha256": digest(target), "bytes": target.stat().st_size, "step": one.step})

    def weights(self) -> tuple[Path, list[str]]:
        """The verified file of what was learned, and what had to be said on the way to it."""
        own, told = self.path / WEIGHTS, self.facts.get("weights")
        notes: list[str] = []
        if told is not None:
            if own.is_file() and own.stat().st_size == told["bytes"] and digest(own) == told["sha256"]:
                return own, notes
            notes.append(f"{own} is missing or not what was written")
        one, more = self.checkpoints.good()
        if one is not None:
            state = "" if told is None else f": used the checkpoint of step {one.step:,} instead"
            return one.folder / WEIGHTS, [note + state for note in notes] + more
        if notes:
            raise ForebearError(
                "is missing or not what was written, and there is no checkpoint to fall back to",
                file=own,
                remedy="restore it from a copy, or train again",
            )
        remedy = f"train it with: {self.going_on}"
        raise BadInput("has learned nothing yet: there is no checkpoint", file=self.path, remedy=remedy)
