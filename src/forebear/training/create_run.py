"""Finished runs around weights that were not trained here: imported, or made of another run's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.atomic import explain_disk_errors, share_permissions, sync_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.inference.run import Run
from forebear.models.spec import ModelSpec
from forebear.training.card import write_card
from forebear.training.checkpoint import file_digest, save_tensors
from forebear.training.learners import WEIGHTS_FILE
from forebear.training.run_folder import RunFolder


def create_run(
    target: Path,
    milestone: ModelSpec,
    name: str,
    tokenizer: Tokenizer | TokenizerPair,
    write: Callable[[Path], None],
    more: dict[str, Any],
) -> RunFolder:
    """A run with the weights that `write` writes, and with `more` facts; it has its name only when it is whole."""
    aside = target.with_name(f".{target.name}.tmp")
    with explain_disk_errors(target):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            save_tensors(write, aside / WEIGHTS_FILE)
            share_permissions(aside / WEIGHTS_FILE)
            facts: dict[str, Any] = {
                "name": target.name,
                "milestone": name,
                "size": None,
                "fields": asdict(milestone),
                "parent": None,
                "recipe": {},
                "data": None,
                "weights": {
                    "sha256": file_digest(aside / WEIGHTS_FILE),
                    "bytes": (aside / WEIGHTS_FILE).stat().st_size,
                    "step": 0,
                },
                "step": 0,
                "seconds": 0.0,
                "state": "finished",
                **more,
            }
            run = RunFolder.create(aside, facts, tokenizer, None)
            if "parameters" not in more:
                run.update(parameters=Run(run).num_parameters)
            write_card(run)
            if target.is_dir():
                target.rmdir()
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(target.parent)
    return RunFolder.open(target)
