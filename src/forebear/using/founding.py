"""Finished runs around weights that were not trained here: imported, or made of another run's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forebear.milestones.milestone import Milestone
from forebear.text.aside import disk_told, readable, sync_folder
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training.card import write_card
from forebear.training.checkpoint import digest, written
from forebear.training.folder import RunFolder
from forebear.training.learner import WEIGHTS
from forebear.using.run import Run


def founded(
    target: Path,
    milestone: Milestone,
    name: str,
    tokenizer: Tokenizer | Sides,
    write: Callable[[Path], None],
    more: dict[str, Any],
) -> RunFolder:
    """A run with the weights that `write` writes, and with `more` facts; it has its name only when it is whole."""
    aside = target.with_name(f".{target.name}.tmp")
    with disk_told(target):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            written(write, aside / WEIGHTS)
            readable(aside / WEIGHTS)
            facts: dict[str, Any] = {
                "name": target.name,
                "milestone": name,
                "size": None,
                "fields": asdict(milestone),
                "parent": None,
                "recipe": {},
                "data": None,
                "weights": {"sha256": digest(aside / WEIGHTS), "bytes": (aside / WEIGHTS).stat().st_size, "step": 0},
                "step": 0,
                "seconds": 0.0,
                "state": "finished",
                **more,
            }
            run = RunFolder.begin(aside, facts, tokenizer, None)
            if "parameters" not in more:
                run.tell(parameters=Run(run).parameters)
            write_card(run)
            if target.is_dir():
                target.rmdir()
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(target.parent)
    return RunFolder.open(target)
