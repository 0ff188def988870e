"""Load the trained model of a run; a large n-gram model from its hash table, which is built if needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.arrays import map_safetensors
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError
from forebear.interrupts import deferred_interrupts
from forebear.models.spec import ModelSpec
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel
from forebear.training.build_learner import build_linear_model, build_task_model
from forebear.training.ngram_store import (
    NGRAM_STORE_FILE,
    mark_verified,
    memory_map_weights,
    save_ngram_store,
    verification_mark,
)
from forebear.training.run_folder import RunFolder


def load_model(
    spec: ModelSpec,
    tokenizer: Tokenizer | TokenizerPair,
    weights: Path,
    heads: Sequence[str] | None = None,
    *,
    quantized: bool = False,
) -> Any:
    """The model with saved weights, strictly matched; with all its heads, or only those named."""
    model = spec.build(tokenizer)
    if spec.learning in ("counting", "sweeping"):
        model.load(load_file(weights) if spec.learning == "counting" else map_safetensors(weights)[1])
        return model
    if heads is not None:
        model = model.with_heads(heads)
    return load_torch_weights(model, weights, quantized)


def load_torch_weights(model: Any, weights: Path, quantized: bool) -> Any:
    """Load weights into a network; `quantized`: they are int8."""
    from safetensors.torch import load_file as load_tensors

    if quantized:
        from forebear.nn.quantized import quantize_layers

        quantize_layers(model.encoder)
    with deferred_interrupts():  # else torch reports an interrupt as a corrupt file, a ValueError
        tensors = load_tensors(weights)
    return model.load(tensors, file=str(weights)).eval()


def load_run_model(folder: RunFolder) -> tuple[Any, list[str]]:
    """The trained model of a run, and notes for the user."""
    spec, is_quantized, task = folder.spec, "quantised" in folder.metadata, folder.task
    if spec.learning == "counting" and task is None:
        return load_counted_model(folder)
    weights, notes = folder.verified_weights()
    if task is None:
        model = load_model(spec, folder.tokenizers, weights, folder.metadata.get("heads"), quantized=is_quantized)
    elif spec.learning == "counting":
        model = build_linear_model(spec, folder.tokenizer, task, folder.adaptation)
        model.load(load_file(weights))
    else:
        model = build_task_model(spec, folder.tokenizer, task, folder.adaptation)
        model = load_torch_weights(model, weights, is_quantized)
    return model, notes


def load_counted_model(folder: RunFolder) -> tuple[Any, list[str]]:
    """The model of a counting run, and notes for the user."""
    model, file = folder.spec.build(folder.tokenizer), folder.path / NGRAM_STORE_FILE
    if not isinstance(model, NgramModel):
        weights, notes = folder.verified_weights()
        return load_model(folder.spec, folder.tokenizer, weights), notes
    weights_entry, notes = folder.metadata.get("weights"), []
    if folder.metadata["state"] in ("training", "interrupted"):
        step = f"stopped at step {weights_entry['step']:,}" if weights_entry else "was not finished"
        command = f"forebear pretrain --resume {folder.path} goes on"
        notes.append(f"counting {step}: it knows the text up to there alone ({command})")
    if weights_entry is not None and file.exists():
        try:
            store = NgramStore.open(file, weights_entry["sha256"])
            if not verification_mark(file).exists():  # once per file: reading all of it takes long
                store.verify()
                mark_verified(file)
            model.use_store(store, lambda: memory_map_weights(folder))
        except ForebearError as error:
            notes.append(f"{file} {error.message}: it is made again")
        else:
            return model, notes
    weights, load_notes = folder.verified_weights()
    model = load_model(folder.spec, folder.tokenizer, weights)
    if weights_entry is not None and not load_notes:
        save_ngram_store(model, folder)
    return model, notes + load_notes
