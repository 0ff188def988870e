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
import math
import os
import platform
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from forebear._version import __version__
from forebear.data.corpus.corpus import LEDGER_FILE, TOKENIZER_FILE
from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.atomic import atomic_write, explain_disk_errors, write_json
from forebear.data.io.workers import cpu_count
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.models.spec import ModelSpec
from forebear.registry import model_spec
from forebear.tasks.task import Task, task_from_json
from forebear.training.adaptation import Adaptation
from forebear.training.checkpoint import Checkpoint, CheckpointStore, file_digest
from forebear.training.learners import WEIGHTS_FILE
from forebear.training.settings import Recipe, merge_recipe

# What a run was made with: versions and hardware, for its card.


PACKAGES = ("numpy", "safetensors", "tokenizers", "torch")


def library_versions() -> dict[str, str]:
    """Of everything that can change a number."""
    told = {"forebear": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            told[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return told


def hardware_info() -> dict[str, Any]:
    told: dict[str, Any] = {
        "processor": _processor(),
        "cores": cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            told["gpu"] = torch.cuda.get_device_name()
    return told


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


FORMAT = "forebear-run/1"
RUN_FILE, METRICS_FILE, CARD_FILE, CHECKPOINTS_FOLDER = "run.json", "metrics.jsonl", "card.md", "checkpoints"


@contextlib.contextmanager
def lock_folder(folder: Path, otherwise: str) -> Iterator[None]:
    """A folder for this process alone, or an error with these words; the system lets go of it if we are killed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise InputError(otherwise, file=folder, hint="wait for it, or stop it first") from error
    try:
        yield
    finally:
        os.close(handle)


@dataclass(eq=False)
class RunFolder:
    """A run on disk. `facts` is what run.json says."""

    path: Path
    metadata: dict[str, Any]

    @classmethod
    def create(
        cls, path: Path, facts: dict[str, Any], tokenizer: Tokenizer | TokenizerPair, ledger: dict[str, Any] | None
    ) -> RunFolder:
        """Fills an empty folder; run.json comes last, and only then it is a run.

        Beside `facts` it tells of its tokenizer, of when and where it began, and of its state, if they do not.
        """
        told = {
            "tokenizer": {name: tokenizer.describe()[name] for name in ("kind", "size", "digest")},
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": library_versions(),
            "hardware": hardware_info(),
            "state": "begun",
        }
        run = cls(path, {"format": FORMAT, **facts, **{name: told[name] for name in told if name not in facts}})
        with explain_disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            with run.lock():
                if (path / RUN_FILE).exists():
                    raise InputError("another process has just begun a run here", file=path, hint="run again")
                tokenizer.save(path / TOKENIZER_FILE)
                if ledger is not None:
                    write_json(path / LEDGER_FILE, ledger)
                run.save()
        if isinstance(tokenizer, TokenizerPair):  # just written: no need to read it again
            run.tokenizer_pair = tokenizer
        else:
            run.tokenizer = tokenizer
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        path = Path(path)
        hint = "name a folder that forebear pretrain or forebear import made; forebear runs lists them"
        if not path.is_dir():
            what = "is no folder" if path.exists() else "there is no such run"
            raise InputError(what, file=path, hint=hint)
        try:
            facts = json.loads((path / RUN_FILE).read_text())
        except FileNotFoundError as error:
            raise InputError(f"is no run: it has no {RUN_FILE}", file=path, hint=hint) from error
        except (OSError, ValueError) as error:
            raise ForebearError(
                f"cannot be read: {error}", file=path / RUN_FILE, hint="restore it from a copy"
            ) from error
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            told = facts.get("format") if isinstance(facts, dict) else None
            raise InputError(f"a run of format {told!r}; this version reads {FORMAT!r}", file=path, hint=hint)
        return cls(path, facts)

    def save(self) -> None:
        write_json(self.path / RUN_FILE, self.metadata)

    def update(self, **facts: Any) -> None:
        """Enters facts in run.json."""
        self.metadata |= facts
        self.save()

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """The run for this process alone."""
        return lock_folder(self.path, "another process is training this run")

    @property
    def is_training(self) -> bool:
        """Whether a process is training it now."""
        try:
            with self.lock():
                return False
        except (InputError, OSError):
            return True

    @cached_property
    def spec(self) -> ModelSpec:
        kind = model_spec(self.metadata["milestone"])
        try:
            return kind(**self.metadata["fields"])
        except TypeError as error:
            hint = "it was made by another version of forebear"
            raise InputError(f"its fields do not fit: {error}", file=self.path / RUN_FILE, hint=hint) from error

    @cached_property
    def tokenizer(self) -> Tokenizer:
        made = Tokenizer.load(self.path / TOKENIZER_FILE)
        return self.spec.task_tokenizer(made) if "task" in self.metadata else made

    @cached_property
    def tokenizers(self) -> Tokenizer | TokenizerPair:
        """What its network is made for: one tokenizer, or those of both sides where it translates."""
        return self.tokenizer if self.spec.learns_from == "text" else self.tokenizer_pair

    @cached_property
    def tokenizer_pair(self) -> TokenizerPair:
        """Of a run that translates."""
        return TokenizerPair.load(self.path)

    @property
    def task(self) -> Task | None:
        """What it was adapted to; None where it was only pre-trained."""
        told = self.metadata.get("task")
        return None if told is None else task_from_json(told)

    @property
    def adaptation(self) -> Adaptation:
        """How it was adapted."""
        return Adaptation(**self.metadata["adaptation"])

    def require_float_weights(self, otherwise: str, verb: str) -> None:
        """An error where its weights are small integers; what is meant is done with the run it was made of."""
        if "quantised" in self.metadata:
            raise InputError(otherwise, file=self.path, hint=f"{verb} {self.metadata['parent']}, which it was made of")

    def require_trainable(self) -> None:
        """An error where its weights cannot change."""
        self.require_float_weights("quantised: small integers cannot learn", "train or teach with")

    @property
    def resume_command(self) -> str:
        """The command that goes on with it."""
        verb = "distil" if "distilled" in self.metadata else "adapt" if "task" in self.metadata else "pretrain"
        return f"forebear {verb} --resume {self.path}"

    @property
    def recipe(self) -> Recipe:
        return merge_recipe(self.metadata["recipe"])

    def recipe_for(self, processes: int) -> Recipe:
        """What was settled holds; but threads that nobody asked for are settled anew for other numbers of processes."""
        recipe = self.recipe
        free = "threads" not in self.metadata.get("asked", {}).get("recipe", {})
        same = self.metadata.get("processes", 1) == processes
        return recipe if same or not free else replace(recipe, threads=None)

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.path / CHECKPOINTS_FOLDER)

    @property
    def is_finished(self) -> bool:
        return self.metadata["state"] == "finished"

    def publish_checkpoint(self, one: Checkpoint) -> None:
        """Makes a checkpoint's weights the run's own."""
        target = self.path / WEIGHTS_FILE
        with open(one.folder / WEIGHTS_FILE, "rb") as read, atomic_write(target) as copy:
            shutil.copyfileobj(read, copy)  # no link: what befalls one of them must not befall the other
        self.update(weights={"sha256": file_digest(target), "bytes": target.stat().st_size, "step": one.step})

    def verified_weights(self) -> tuple[Path, list[str]]:
        """The verified file of what was learned, and what had to be said on the way to it."""
        own, told = self.path / WEIGHTS_FILE, self.metadata.get("weights")
        notes: list[str] = []
        if told is not None:
            if own.is_file() and own.stat().st_size == told["bytes"] and file_digest(own) == told["sha256"]:
                return own, notes
            notes.append(f"{own} is missing or not what was written")
        one, more = self.checkpoints.newest_valid()
        if one is not None:
            state = "" if told is None else f": used the checkpoint of step {one.step:,} instead"
            return one.folder / WEIGHTS_FILE, [note + state for note in notes] + more
        if notes:
            raise ForebearError(
                "is missing or not what was written, and there is no checkpoint to fall back to",
                file=own,
                hint="restore it from a copy, or train again",
            )
        hint = f"train it with: {self.resume_command}"
        raise InputError("has learned nothing yet: there is no checkpoint", file=self.path, hint=hint)


# The log of a run: a JSON line for every so many steps, cut back to where a resumed run begins again.


@dataclass(frozen=True)
class MetricsLog:
    """An append-only file; a line that was cut short by a kill is not counted."""

    path: Path

    def read_lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        with open(self.path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    return

    def add(self, **facts: Any) -> None:
        line = json.dumps({name: _told(value) for name, value in facts.items()})
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def truncate(self, step: int) -> None:
        """Forgets what lies beyond this step."""
        kept = [line for line in self.read_lines() if line["step"] <= step]
        with atomic_write(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())


def _told(value: Any) -> Any:
    """Numbers short enough to read; what is no number is null, as JSON wants it."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return {name: _told(one) for name, one in value.items()} if isinstance(value, dict) else value


# The runs in a folder: what each is, how far it came and how well it predicts; broken ones with the reason.


DEEPEST = 4  # folders below the one that is asked for
PARTS = (
    CHECKPOINTS_FOLDER,
    METRICS_FILE,
    "tokenizer.json",
)  # what betrays that a folder without run.json was to be a run


@dataclass(frozen=True)
class RunSummary:
    """One run folder. `state` is finished, running, interrupted, begun, failed or broken; of the last two `reason` says
    why."""

    folder: str
    state: str
    milestone: str = ""
    size: str = ""
    step: int | None = None
    steps: int | None = None  # in all, once they are known
    bits_per_byte: float | None = None
    found: float | None = None  # share of hidden tokens, of a run that finds them and has no bits
    task: str | None = None  # what it was adapted to
    score: tuple[str, float] | None = None  # the task's figure and its name, on the test or the held-out examples
    seconds: float | None = None
    parameters: int | None = None
    began: str = ""
    reason: str = ""


def list_runs(folder: str | os.PathLike[str]) -> list[RunSummary]:
    """Every run in this folder or below it, the newest first; those that are broken last."""
    root = Path(folder)
    if not root.is_dir():
        what = "is no folder" if root.exists() else "there is no such folder"
        raise InputError(
            what, file=root, hint="name the folder your runs are in; forebear pretrain makes them in runs/"
        )
    lines = sorted((_line(place) for place in _places(root, DEEPEST)), key=lambda line: line.folder)
    lines.sort(key=lambda line: line.began, reverse=True)
    return sorted(lines, key=lambda line: line.state == "broken")


def _places(folder: Path, deeper: int) -> Iterator[Path]:
    """Folders that are runs, or remains of one; nothing is looked for inside them."""
    try:
        names = {entry.name: entry for entry in os.scandir(folder)}
    except OSError:
        return
    if RUN_FILE in names or sum(part in names for part in PARTS) > 1:
        yield folder
    elif deeper:
        for name, entry in sorted(names.items()):
            if entry.is_dir(follow_symlinks=False) and not name.startswith("."):
                yield from _places(folder / name, deeper - 1)


def _line(place: Path) -> RunSummary:
    try:
        return _listing_told(RunFolder.open(place))
    except ForebearError as error:
        return RunSummary(str(place), "broken", reason=error.message)
    except (KeyError, TypeError, AttributeError) as error:
        return RunSummary(str(place), "broken", reason=f"{RUN_FILE} is not what it should be: {error!r}")


def _listing_told(run: RunFolder) -> RunSummary:
    facts = run.metadata
    last: dict[str, Any] = next(iter(deque(MetricsLog(run.path / METRICS_FILE).read_lines(), maxlen=1)), {})
    held_out = facts.get("metrics", {}).get("held_out", {})
    total = (facts.get("pace") or {}).get("total") or facts.get("recipe", {}).get("steps")
    changed = datetime.fromtimestamp((run.path / RUN_FILE).stat().st_mtime, UTC)
    return RunSummary(
        folder=str(run.path),
        state=_state(run),
        milestone=facts["milestone"],
        size=facts.get("size") or "",
        step=facts.get("step") if run.is_finished else last.get("step", facts.get("step")),
        steps=total,
        bits_per_byte=None if held_out.get("pseudo") else held_out.get("bits_per_byte"),
        found=held_out.get("accuracy"),
        task=None if run.task is None else run.task.name,
        score=_score(run),
        seconds=facts.get("seconds") if run.is_finished else last.get("seconds", facts.get("seconds")),
        parameters=facts.get("parameters"),
        began=facts.get("began") or changed.isoformat(timespec="seconds"),
        reason=facts.get("failure", "") if facts["state"] == "failed" else "",
    )


def _score(run: RunFolder) -> tuple[str, float] | None:
    measured = run.metadata.get("metrics", {})
    if "bleu" in (held_out := measured.get("held_out", {})):
        return "BLEU", held_out["bleu"]
    if held_out.get("told_apart") is not None:
        return "told apart", held_out["told_apart"]
    told = measured.get("test", measured.get("dev")) if run.task is not None else None
    return None if told is None or run.task is None else (run.task.score, told[run.task.score])


def _state(run: RunFolder) -> str:
    """What run.json says, set right by whether a process works on it now: a killed one cannot say that it was."""
    if run.is_training:
        return "running"
    told = run.metadata["state"]
    return "interrupted" if told in ("training", "trained") else told
