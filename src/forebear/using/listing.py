"""The runs in a folder: what each is, how far it came and how well it predicts; broken ones with the reason."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forebear.errors import BadInput, ForebearError
from forebear.training.folder import CHECKPOINTS, METRICS, RUN, RunFolder
from forebear.training.metrics import Metrics

DEEPEST = 4  # folders below the one that is asked for
PARTS = (CHECKPOINTS, METRICS, "tokenizer.json")  # what betrays that a folder without run.json was to be a run


@dataclass(frozen=True)
class Line:
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


def runs(folder: str | os.PathLike[str]) -> list[Line]:
    """Every run in this folder or below it, the newest first; those that are broken last."""
    root = Path(folder)
    if not root.is_dir():
        what = "is no folder" if root.exists() else "there is no such folder"
        raise BadInput(
            what, file=root, remedy="name the folder your runs are in; forebear pretrain makes them in runs/"
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
    if RUN in names or sum(part in names for part in PARTS) > 1:
        yield folder
    elif deeper:
        for name, entry in sorted(names.items()):
            if entry.is_dir(follow_symlinks=False) and not name.startswith("."):
                yield from _places(folder / name, deeper - 1)


def _line(place: Path) -> Line:
    try:
        return _told(RunFolder.open(place))
    except ForebearError as error:
        return Line(str(place), "broken", reason=error.what)
    except (KeyError, TypeError, AttributeError) as error:
        return Line(str(place), "broken", reason=f"{RUN} is not what it should be: {error!r}")


def _told(run: RunFolder) -> Line:
    facts = run.facts
    last: dict[str, Any] = next(iter(deque(Metrics(run.path / METRICS).read(), maxlen=1)), {})
    held_out = facts.get("metrics", {}).get("held_out", {})
    total = (facts.get("pace") or {}).get("total") or facts.get("recipe", {}).get("steps")
    changed = datetime.fromtimestamp((run.path / RUN).stat().st_mtime, UTC)
    return Line(
        folder=str(run.path),
        state=_state(run),
        milestone=facts["milestone"],
        size=facts.get("size") or "",
        step=facts.get("step") if run.finished else last.get("step", facts.get("step")),
        steps=total,
        bits_per_byte=None if held_out.get("pseudo") else held_out.get("bits_per_byte"),
        found=held_out.get("accuracy"),
        task=None if run.task is None else run.task.name,
        score=_score(run),
        seconds=facts.get("seconds") if run.finished else last.get("seconds", facts.get("seconds")),
        parameters=facts.get("parameters"),
        began=facts.get("began") or changed.isoformat(timespec="seconds"),
        reason=facts.get("failure", "") if facts["state"] == "failed" else "",
    )


def _score(run: RunFolder) -> tuple[str, float] | None:
    measured = run.facts.get("metrics", {})
    if "bleu" in (held_out := measured.get("held_out", {})):
        return "BLEU", held_out["bleu"]
    if held_out.get("told_apart") is not None:
        return "told apart", held_out["told_apart"]
    told = measured.get("test", measured.get("dev")) if run.task is not None else None
    return None if told is None or run.task is None else (run.task.score, told[run.task.score])


def _state(run: RunFolder) -> str:
    """What run.json says, set right by whether a process works on it now: a killed one cannot say that it was."""
    if run.busy:
        return "running"
    told = run.facts["state"]
    return "interrupted" if told in ("training", "trained") else told
