"""Build the learner or load the trained network of a run, for pre-training and for tasks."""

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
    _mark_verified,
    _memory_map_weights,
    _verification_mark,
    save_ngram_store,
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
    """The network of a model with saved weights, strictly matched; with all its heads, or only those named."""
    network = spec.build(tokenizer)
    if spec.learning in ("counting", "sweeping"):
        network.load(load_file(weights) if spec.learning == "counting" else map_safetensors(weights)[1])
        return network
    if heads is not None:
        network = network.with_heads(heads)
    return load_torch_weights(network, weights, quantized)


def load_torch_weights(network: Any, weights: Path, quantized: bool) -> Any:
    """Loads weights into a torch network; `quantized`: they are int8."""
    from safetensors.torch import load_file as load_tensors

    if quantized:
        from forebear.nn.quantized import quantize_layers

        quantize_layers(network.encoder)
    with deferred_interrupts():  # torch reports one that arrives within it as a corrupt file: a ValueError
        tensors = load_tensors(weights)
    return network.load(tensors, file=str(weights)).eval()


def load_run_model(folder: RunFolder) -> tuple[Any, list[str]]:
    """The trained network of any run, and notes for the user."""
    spec, is_quantized, task = folder.spec, "quantised" in folder.metadata, folder.task
    if spec.learning == "counting" and task is None:
        return load_counted_model(folder)
    weights, notes = folder.verified_weights()
    if task is None:
        network = load_model(spec, folder.tokenizers, weights, folder.metadata.get("heads"), quantized=is_quantized)
    elif spec.learning == "counting":
        network = build_linear_model(spec, folder.tokenizer, task, folder.adaptation)
        network.load(load_file(weights))
    else:
        network = build_task_model(spec, folder.tokenizer, task, folder.adaptation)
        network = load_torch_weights(network, weights, is_quantized)
    return network, notes


def load_counted_model(folder: RunFolder) -> tuple[Any, list[str]]:
    """The network of a counting run, and notes for the user."""
    network, file = folder.spec.build(folder.tokenizer), folder.path / NGRAM_STORE_FILE
    if not isinstance(network, NgramModel):
        weights, notes = folder.verified_weights()
        return load_model(folder.spec, folder.tokenizer, weights), notes
    weights_entry, notes = folder.metadata.get("weights"), []
    if folder.metadata["state"] in ("training", "interrupted"):
        step = f"stopped at step {weights_entry['step']:,}" if weights_entry else "was not finished"
        command = f"forebear pretrain --resume {folder.path} goes on"
        notes.append(f"counting {step}: it knows the text up to there alone ({command})")
    if weights_entry is not None and file.exists():
        try:
            table = NgramStore.open(file, weights_entry["sha256"])
            if not _verification_mark(file).exists():  # reading all of it takes long: once for this very file
                table.verify()
                _mark_verified(file)
            network.use_store(table, lambda: _memory_map_weights(folder))
        except ForebearError as error:
            notes.append(f"{file} {error.message}: it is made again")
        else:
            return network, notes
    weights, load_notes = folder.verified_weights()
    network = load_model(folder.spec, folder.tokenizer, weights)
    if weights_entry is not None and not load_notes:
        save_ngram_store(network, folder)
    return network, notes + load_notes
