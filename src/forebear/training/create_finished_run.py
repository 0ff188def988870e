"""Create a finished run around given weights: imported, or derived from those of another run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.atomic import apply_umask, explain_disk_errors, file_digest, new_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.models.spec import ModelSpec
from forebear.training.card import write_model_card
from forebear.training.checkpoint import call_with_os_errors
from forebear.training.learner import WEIGHTS_FILE
from forebear.training.load_model import load_run_model
from forebear.training.run_folder import RunFolder


def create_run(
    target: Path,
    spec: ModelSpec,
    model: str,
    tokenizer: Tokenizer | TokenizerPair,
    tensors: Callable[[], Mapping[str, Any]],
    extra_metadata: dict[str, Any],
) -> RunFolder:
    """Create a run atomically, in a folder that is empty or does not exist.

    `model` is its name in the registry. `tensors` returns the weights, all as NumPy arrays or all as torch tensors.
    `extra_metadata` are further entries of run.json.
    """
    with explain_disk_errors(target), new_folder(target) as folder:
        weights, weights_file = dict(tensors()), folder / WEIGHTS_FILE
        if all(isinstance(array, np.ndarray) for array in weights.values()):
            from safetensors.numpy import save_file  # without torch
        else:
            from safetensors.torch import save_file
        call_with_os_errors(partial(save_file, weights), weights_file)
        apply_umask(weights_file)
        metadata: dict[str, Any] = {
            "name": target.name,
            "milestone": model,
            "size": None,
            "fields": asdict(spec),
            "parent": None,
            "recipe": {},
            "data": None,
            "weights": {"sha256": file_digest(weights_file), "bytes": weights_file.stat().st_size, "step": 0},
            "step": 0,
            "seconds": 0.0,
            "state": "finished",
            **extra_metadata,
        }
        run = RunFolder.create(folder, metadata, tokenizer, None)
        if "parameters" not in extra_metadata:
            run.update(parameters=load_run_model(run)[0].num_parameters)
        write_model_card(run)
    return RunFolder.open(target)
