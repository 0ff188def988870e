"""Build the learner or load the trained network of a run, for pre-training and for tasks."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.numpy import load_file

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.arrays import map_safetensors
from forebear.data.io.atomic import cache_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError
from forebear.interrupts import deferred_interrupts
from forebear.models.spec import ModelSpec
from forebear.statistical.ngram.hash_table import NgramStore, stamp_store
from forebear.statistical.ngram.language_model import NgramModel
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task
from forebear.training.adaptation import Adaptation
from forebear.training.learners import CountingLearner, CRFLearner, EmbeddingLearner, EMLearner, Learner, LinearLearner
from forebear.training.run_folder import RunFolder
from forebear.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor

# --- Pre-training ---


def learner_for(
    spec: ModelSpec,
    tokenizer: Tokenizer | TokenizerPair,
    recipe: Recipe,
    initial_tensors: Mapping[str, Any] | None = None,
) -> Learner:
    """The learner that pre-trains this model, from random weights or from `initial_tensors`."""
    network = spec.build(tokenizer)
    if spec.counts_again:
        return EMLearner(network, recipe)
    if spec.learning == "counting":
        return CountingLearner(network, recipe)
    if spec.learning == "sweeping":
        return EmbeddingLearner(network, recipe, initial_tensors)
    from forebear.training.gradient import GradientLearner, choose_device

    return GradientLearner(network, recipe, choose_device(recipe), initial_tensors)


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


POOLER_PREFIX = "heads.pair.pool."  # BERT's pooler of [CLS], which initializes that of task heads


def task_learner(
    spec: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    recipe: Recipe,
    *,
    pretrained: Mapping[str, Tensor] | None = None,
    label_weights: tuple[float, ...] | None = None,
) -> Learner:
    """The learner of a task; `pretrained` are the tensors of the pre-trained run."""
    if spec.learning == "counting":
        model = build_linear_model(spec, tokenizer, task, adaptation)
        is_full_batch = uses_full_batch(spec, task)
        return CRFLearner(model, recipe) if is_full_batch else LinearLearner(model, recipe, label_weights)
    from forebear.training.gradient import GradientLearner, choose_device

    model = build_task_model(spec, tokenizer, task, adaptation, label_weights)
    initial_tensors = select_pretrained_tensors(pretrained or {}, model)
    return GradientLearner(model, recipe, choose_device(recipe), initial_tensors, adaptation.lr_scales(model))


def uses_full_batch(spec: ModelSpec, task: Task) -> bool:
    """Whether this task is learned by full-batch optimization (L-BFGS)."""
    return spec.learns_tags and spec.learns_tags_by == "searching" and isinstance(task, SequenceTagging)


def build_task_model(
    spec: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    label_weights: tuple[float, ...] | None = None,
) -> Any:
    """The encoder with the task's heads, uninitialized."""
    encoder = spec.build_task_encoder(tokenizer, adaptation.task_encoder_config(task))
    return adaptation.build_model(encoder, task, spec.input_format(tokenizer), label_weights)


def select_pretrained_tensors(pretrained: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """The tensors of a pre-trained run that fit the parameters of this model, under their names there."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    candidates = {name: tensor for name, tensor in pretrained.items() if name.startswith("encoder.")}
    inner_tensors = {name.replace("encoder.", "encoder.inner.", 1): tensor for name, tensor in candidates.items()}
    if shapes.keys() & inner_tensors.keys():  # a task encoder wraps it
        candidates = inner_tensors
    for name, tensor in pretrained.items():
        if name.startswith(POOLER_PREFIX):
            part = name.removeprefix(POOLER_PREFIX)
            candidates |= {f"heads.{head}.pool.{part}": tensor for head in ("label", "choice")}
    return {name: tensor for name, tensor in candidates.items() if shapes.get(name) == tuple(tensor.shape)}


def build_linear_model(spec: ModelSpec, tokenizer: Tokenizer, task: Task, adaptation: Adaptation) -> Any:
    """The linear model over n-gram features that stands for counting models; for tagging, the model's own tagger."""
    if spec.learns_tags and isinstance(task, SequenceTagging):
        return spec.build_tagger(tokenizer, task.transitions)
    from forebear.data.unicode import word_shapes
    from forebear.statistical.linear import LinearModel

    kind, is_pair_task = task.linear_kind
    max_order = 2 if tokenizer.kind == "words" else 3  # characters and subwords carry less information
    return LinearModel(
        kind,  # pyright: ignore[reportArgumentType]
        vocab_size=tokenizer.vocab_size,
        num_classes=task.num_answers,
        order=max_order if spec.order is None else min(spec.order, max_order),
        is_pair=is_pair_task,
        special_ids=tokenizer.special_ids - {tokenizer.unk_id},
        shapes=word_shapes(tokenizer.vocabulary()) if kind in ("tag", "span") else None,
    )


def balanced_label_weights(task: Task, examples: Sequence[Any]) -> tuple[float, ...] | None:
    """Class weights that balance the labels; None for tasks without labels."""
    labels = task.labels
    if not labels:
        return None
    label_sets = [example.label if isinstance(example.label, tuple) else (str(example.label),) for example in examples]
    counts = Counter(chain.from_iterable(label_sets))
    if task.kind == "several":  # for each label: negatives per positive
        return tuple((len(examples) - counts[label]) / max(1, counts[label]) for label in labels)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)


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


# --- Counting models; large n-gram models answer from a memory-mapped hash table ---

NGRAM_STORE_FILE = "ngrams.table"


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


@contextmanager
def spill_to_run_folder(network: Any, folder: RunFolder) -> Iterator[None]:
    """While n-grams are counted, spills what does not fit into memory to the run folder; finally builds the table."""
    if not isinstance(network, NgramModel):
        yield
        return
    network.store_file = folder.path / NGRAM_STORE_FILE
    _remove_leftovers(folder)
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=folder.path) as spill_folder:
        network.counter.folder = Path(spill_folder)
        yield
        save_ngram_store(network, folder)
        network.counter.folder = None


def save_ngram_store(network: NgramModel, folder: RunFolder) -> None:
    """Builds the hash table of a run's weights if the model is large and the folder is writable."""
    file = folder.path / NGRAM_STORE_FILE
    if network.counter.folder is None:  # no process is counting here
        _remove_leftovers(folder)
    try:
        if (table := network.build_store(file)) is not None:
            stamp_store(file, folder.metadata["weights"]["sha256"])
            _mark_verified(file)
            if network.is_imported:  # its probabilities are nowhere else in memory
                network.use_store(table, lambda: _memory_map_weights(folder))
        else:
            file.unlink(missing_ok=True)  # left by an earlier model
    except OSError:
        network.store_file = None


def _mark_verified(file: Path) -> None:
    """Records that this file is valid as long as it does not change."""
    with suppress(OSError):  # without a cache it is only verified again
        mark = _verification_mark(file)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def _verification_mark(file: Path) -> Path:
    stat = file.stat()
    stamp = (str(file.resolve()), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return cache_folder() / "tables" / hashlib.sha256(repr(stamp).encode()).hexdigest()


def _remove_leftovers(folder: RunFolder) -> None:
    """Removes the files of killed processes."""
    for leftover in folder.path.glob(".counts-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in folder.path.glob(f".{NGRAM_STORE_FILE}.*.tmp"):
        leftover.unlink(missing_ok=True)


def _memory_map_weights(folder: RunFolder) -> dict[str, Any]:
    return map_safetensors(folder.verified_weights()[0])[1]
