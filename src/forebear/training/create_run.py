"""Create a finished run around given weights: imported, or derived from those of another run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.atomic import explain_disk_errors, file_digest, share_permissions, sync_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.models.spec import ModelSpec
from forebear.training.card import write_card
from forebear.training.checkpoint import save_tensors
from forebear.training.learners import WEIGHTS_FILE
from forebear.training.load_model import load_run_model
from forebear.training.run_folder import RunFolder


def create_run(
    target: Path,
    spec: ModelSpec,
    name: str,
    tokenizer: Tokenizer | TokenizerPair,
    write: Callable[[Path], None],
    extra_metadata: dict[str, Any],
) -> RunFolder:
    """Create a run atomically.

    Args:
        target: The run folder; it must be empty or not exist.
        spec: The model.
        name: The name of the model in the registry.
        tokenizer: Its tokenizer, or the pair of a translation model.
        write: Writes the weights to a file.
        extra_metadata: Entries of run.json beside the usual ones.
    """
    temp_folder = target.with_name(f".{target.name}.tmp")
    with explain_disk_errors(target):
        shutil.rmtree(temp_folder, ignore_errors=True)
        temp_folder.mkdir(parents=True)
        try:
            save_tensors(write, temp_folder / WEIGHTS_FILE)
            share_permissions(temp_folder / WEIGHTS_FILE)
            metadata: dict[str, Any] = {
                "name": target.name,
                "milestone": name,
                "size": None,
                "fields": asdict(spec),
                "parent": None,
                "recipe": {},
                "data": None,
                "weights": {
                    "sha256": file_digest(temp_folder / WEIGHTS_FILE),
                    "bytes": (temp_folder / WEIGHTS_FILE).stat().st_size,
                    "step": 0,
                },
                "step": 0,
                "seconds": 0.0,
                "state": "finished",
                **extra_metadata,
            }
            run = RunFolder.create(temp_folder, metadata, tokenizer, None)
            if "parameters" not in extra_metadata:
                network, _ = load_run_model(run)
                run.update(parameters=network.num_parameters)
            write_card(run)
            if target.is_dir():
                target.rmdir()
            temp_folder.rename(target)
        except BaseException:
            shutil.rmtree(temp_folder, ignore_errors=True)
            raise
        sync_folder(target.parent)
    return RunFolder.open(target)
