"""Run folders: run.json, metrics.jsonl and weights of a run, and the list of runs in a folder.

A run folder is self-contained: nothing else is needed to use, resume, adapt, serve or export it.

run.json             model, fields, recipe, data, versions, hardware, state, step, metrics
tokenizer.json       the tokenizer
ledger.json          account of the text that was read and dropped
weights.safetensors  the trained weights
metrics.jsonl        training log
card.md              the model card
checkpoints/STEP/    checkpoints to resume from
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
from forebear.data.io.atomic import atomic_write, explain_disk_errors, file_digest, write_json
from forebear.data.io.workers import cpu_count
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.models.spec import ModelSpec
from forebear.registry import model_spec
from forebear.tasks.task import Task, task_from_json
from forebear.training.adaptation import Adaptation
from forebear.training.checkpoint import Checkpoint, CheckpointStore
from forebear.training.learner import WEIGHTS_FILE
from forebear.training.settings import Recipe, merge_recipe

# --- Versions and hardware ---

PACKAGES = ("numpy", "safetensors", "tokenizers", "torch")


def library_versions() -> dict[str, str]:
    """Versions of all software that can change a result."""
    versions = {"forebear": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def hardware_info() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8") as lines:
        processor = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    hardware = {"processor": processor, "cores": cpu_count(), "system": f"{platform.system()} {platform.machine()}"}
    if "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            hardware["gpu"] = torch.cuda.get_device_name()
    return hardware


FORMAT = "forebear-run/1"
RUN_FILE, METRICS_FILE, CARD_FILE, CHECKPOINTS_FOLDER = "run.json", "metrics.jsonl", "card.md", "checkpoints"


@contextlib.contextmanager
def lock_folder(folder: Path, message: str) -> Iterator[None]:
    """Lock a folder for this process, or raise InputError with this message; the lock ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InputError(message, file=folder, hint="wait for it, or stop it first") from error
    try:
        yield
    finally:
        os.close(descriptor)


@dataclass(eq=False)
class RunFolder:
    """A run on disk; `metadata` is the content of run.json."""

    path: Path
    metadata: dict[str, Any]

    @classmethod
    def create(
        cls, path: Path, metadata: dict[str, Any], tokenizer: Tokenizer | TokenizerPair, ledger: dict[str, Any] | None
    ) -> RunFolder:
        """Create a run in an empty folder; run.json is written last.

        Entries that `metadata` lacks are added: tokenizer, start time, versions, hardware and state.
        """
        defaults = {
            "tokenizer": {name: tokenizer.describe()[name] for name in ("kind", "size", "digest")},
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": library_versions(),
            "hardware": hardware_info(),
            "state": "begun",
        }
        missing = {name: value for name, value in defaults.items() if name not in metadata}
        run = cls(path, {"format": FORMAT, **metadata, **missing})
        with explain_disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            with run.lock():
                if (path / RUN_FILE).exists():
                    raise InputError("another process has just begun a run here", file=path, hint="run again")
                tokenizer.save(path / TOKENIZER_FILE)
                if ledger is not None:
                    write_json(path / LEDGER_FILE, ledger)
                run.save()
        if isinstance(tokenizer, TokenizerPair):  # cached, so that it is not read again
            run.tokenizer_pair = tokenizer
        else:
            run.tokenizer = tokenizer
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        path = Path(path)
        hint = "name a folder that forebear pretrain or forebear import made; forebear runs lists them"
        if not path.is_dir():
            message = "is no folder" if path.exists() else "there is no such run"
            raise InputError(message, file=path, hint=hint)
        try:
            content = json.loads((path / RUN_FILE).read_text())
        except FileNotFoundError as error:
            raise InputError(f"is no run: it has no {RUN_FILE}", file=path, hint=hint) from error
        except (OSError, ValueError) as error:
            message = f"cannot be read: {error}"
            raise ForebearError(message, file=path / RUN_FILE, hint="restore it from a copy") from error
        run_format = content.get("format") if isinstance(content, dict) else None
        if run_format != FORMAT:
            raise InputError(f"a run of format {run_format!r}; this version reads {FORMAT!r}", file=path, hint=hint)
        return cls(path, content)

    def save(self) -> None:
        write_json(self.path / RUN_FILE, self.metadata)

    def update(self, **entries: Any) -> None:
        """Add or replace entries of run.json."""
        self.metadata |= entries
        self.save()

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Lock the run for this process."""
        return lock_folder(self.path, "another process is training this run")

    @property
    def is_training(self) -> bool:
        """Whether a process is training this run now."""
        try:
            with self.lock():
                return False
        except (InputError, OSError):
            return True

    @cached_property
    def spec(self) -> ModelSpec:
        spec_class = model_spec(self.metadata["milestone"])
        try:
            return spec_class(**self.metadata["fields"])
        except TypeError as error:
            hint = "it was made by another version of forebear"
            raise InputError(f"its fields do not fit: {error}", file=self.path / RUN_FILE, hint=hint) from error

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.load(self.path / TOKENIZER_FILE)
        return self.spec.task_tokenizer(tokenizer) if "task" in self.metadata else tokenizer

    @cached_property
    def tokenizers(self) -> Tokenizer | TokenizerPair:
        """The tokenizer, or the source and target tokenizers of a translation model."""
        return self.tokenizer if self.spec.learns_from == "text" else self.tokenizer_pair

    @cached_property
    def tokenizer_pair(self) -> TokenizerPair:
        return TokenizerPair.load(self.path)

    @property
    def task(self) -> Task | None:
        """The task it was adapted to; None for a pre-trained run."""
        task = self.metadata.get("task")
        return None if task is None else task_from_json(task)

    @property
    def adaptation(self) -> Adaptation:
        """How it was adapted."""
        return Adaptation(**self.metadata["adaptation"])

    def require_float_weights(self, message: str, verb: str) -> None:
        """Raise InputError for a quantized run; the hint names the run it was quantized from."""
        if "quantised" in self.metadata:
            raise InputError(message, file=self.path, hint=f"{verb} {self.metadata['parent']}, which it was made of")

    def require_trainable(self) -> None:
        """Raise InputError for a run that cannot be trained."""
        self.require_float_weights("quantised: small integers cannot learn", "train or teach with")

    @property
    def resume_command(self) -> str:
        """The command that resumes this run."""
        verb = "distil" if "distilled" in self.metadata else "adapt" if "task" in self.metadata else "pretrain"
        return f"forebear {verb} --resume {self.path}"

    @property
    def recipe(self) -> Recipe:
        return merge_recipe(self.metadata["recipe"])

    def recipe_for(self, processes: int) -> Recipe:
        """The recorded recipe; the number of threads is chosen again if the number of processes has changed."""
        recipe = self.recipe
        is_default_threads = "threads" not in self.metadata.get("asked", {}).get("recipe", {})
        same_process_count = self.metadata.get("processes", 1) == processes
        return recipe if same_process_count or not is_default_threads else replace(recipe, threads=None)

    @property
    def checkpoints(self) -> CheckpointStore:
        return CheckpointStore(self.path / CHECKPOINTS_FOLDER)

    @property
    def is_finished(self) -> bool:
        return self.metadata["state"] == "finished"

    def publish_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Copy the weights of a checkpoint to the run folder."""
        target = self.path / WEIGHTS_FILE
        with open(checkpoint.folder / WEIGHTS_FILE, "rb") as source, atomic_write(target) as target_file:
            shutil.copyfileobj(
                source, target_file
            )  # not linked, so that corruption of one file does not affect the other
        self.update(weights={"sha256": file_digest(target), "bytes": target.stat().st_size, "step": checkpoint.step})

    def verified_weights(self) -> tuple[Path, list[str]]:
        """The weights file after verification, or that of the newest valid checkpoint, and notes for the user."""
        path, entry = self.path / WEIGHTS_FILE, self.metadata.get("weights")
        size = path.stat().st_size if path.is_file() else -1
        if entry is not None and size == entry["bytes"] and file_digest(path) == entry["sha256"]:
            return path, []
        damage = "is missing or not what was written"
        checkpoint, notes = self.checkpoints.newest_valid()
        if checkpoint is not None:
            if entry is not None:
                notes.insert(0, f"{path} {damage}: used the checkpoint of step {checkpoint.step:,} instead")
            return checkpoint.folder / WEIGHTS_FILE, notes
        if entry is not None:
            message = f"{damage}, and there is no checkpoint to fall back to"
            raise ForebearError(message, file=path, hint="restore it from a copy, or train again")
        hint = f"train it with: {self.resume_command}"
        raise InputError("has learned nothing yet: there is no checkpoint", file=self.path, hint=hint)


# --- metrics.jsonl ---


@dataclass(frozen=True)
class MetricsLog:
    """The training log: an append-only file of JSON lines; a line truncated by a kill is ignored."""

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

    def add(self, **values: Any) -> None:
        line = json.dumps({name: _rounded_for_json(value) for name, value in values.items()})
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def truncate(self, step: int) -> None:
        """Drop lines after this step, before training resumes from it."""
        lines = [line for line in self.read_lines() if line["step"] <= step]
        with atomic_write(self.path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines).encode())


def _rounded_for_json(value: Any) -> Any:
    """Round floats to seven digits; NaN and infinity, which JSON cannot represent, become null."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return {name: _rounded_for_json(nested) for name, nested in value.items()} if isinstance(value, dict) else value


# --- List of runs ---

MAX_SEARCH_DEPTH = 4  # levels of folders that are searched
PARTIAL_RUN_FILES = (CHECKPOINTS_FOLDER, METRICS_FILE, "tokenizer.json")  # two of them: a run that lost run.json


@dataclass(frozen=True)
class RunSummary:
    """A run in the list; `state` is finished, running, interrupted, begun, failed or broken (see `reason`)."""

    folder: str
    state: str
    milestone: str = ""
    size: str = ""
    step: int | None = None
    steps: int | None = None  # in total, once known
    bits_per_byte: float | None = None
    found: float | None = None  # masked-LM accuracy, for runs without bits per byte
    task: str | None = None  # what it was adapted to
    score: tuple[str, float] | None = None  # name and value of the task metric, on the test or dev set
    seconds: float | None = None
    parameters: int | None = None
    began: str = ""
    reason: str = ""


def list_runs(folder: str | os.PathLike[str]) -> list[RunSummary]:
    """All runs in or below a folder, the newest first and broken ones last."""
    root = Path(folder)
    if not root.is_dir():
        message = "is no folder" if root.exists() else "there is no such folder"
        hint = "name the folder your runs are in; forebear pretrain makes them in runs/"
        raise InputError(message, file=root, hint=hint)
    summaries = []
    for path in _find_run_folders(root, MAX_SEARCH_DEPTH):
        try:
            summaries.append(_summarize_run(RunFolder.open(path)))
        except ForebearError as error:
            summaries.append(RunSummary(str(path), "broken", reason=error.message))
        except (KeyError, TypeError, AttributeError) as error:
            reason = f"{RUN_FILE} is not what it should be: {error!r}"
            summaries.append(RunSummary(str(path), "broken", reason=reason))
    summaries.sort(key=lambda summary: summary.folder)
    return sorted(summaries, key=lambda summary: (summary.state != "broken", summary.began), reverse=True)


def _find_run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders of runs, also of partial ones without run.json; their subfolders are not searched."""
    try:
        names = {entry.name: entry for entry in os.scandir(folder)}
    except OSError:
        return
    if RUN_FILE in names or sum(name in names for name in PARTIAL_RUN_FILES) > 1:
        yield folder
    elif depth:
        for name, entry in sorted(names.items()):
            if entry.is_dir(follow_symlinks=False) and not name.startswith("."):
                yield from _find_run_folders(folder / name, depth - 1)


def _summarize_run(run: RunFolder) -> RunSummary:
    metadata, state = run.metadata, run.metadata["state"]
    if run.is_training:
        state = "running"
    elif state in ("training", "trained"):  # a killed process could not record that
        state = "interrupted"
    last_line: dict[str, Any] = next(iter(deque(MetricsLog(run.path / METRICS_FILE).read_lines(), maxlen=1)), {})
    latest = metadata if run.is_finished else metadata | last_line
    held_out = metadata.get("metrics", {}).get("held_out", {})
    modified = datetime.fromtimestamp((run.path / RUN_FILE).stat().st_mtime, UTC)
    return RunSummary(
        folder=str(run.path),
        state=state,
        milestone=metadata["milestone"],
        size=metadata.get("size") or "",
        step=latest.get("step"),
        steps=(metadata.get("pace") or {}).get("total") or metadata.get("recipe", {}).get("steps"),
        bits_per_byte=None if held_out.get("pseudo") else held_out.get("bits_per_byte"),
        found=held_out.get("accuracy"),
        task=None if run.task is None else run.task.name,
        score=_headline_score(run),
        seconds=latest.get("seconds"),
        parameters=metadata.get("parameters"),
        began=metadata.get("began") or modified.isoformat(timespec="seconds"),
        reason=metadata.get("failure", "") if metadata["state"] == "failed" else "",
    )


def _headline_score(run: RunFolder) -> tuple[str, float] | None:
    metrics = run.metadata.get("metrics", {})
    if "bleu" in (held_out := metrics.get("held_out", {})):
        return "BLEU", held_out["bleu"]
    if held_out.get("told_apart") is not None:
        return "told apart", held_out["told_apart"]
    task, task_metrics = run.task, metrics.get("test", metrics.get("dev"))
    return None if task is None or task_metrics is None else (task.metric, task_metrics[task.metric])
