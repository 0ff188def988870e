"""A milestone's network with the heads of a task, to be taught or to be asked."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.corpus.parallel import TokenizerPair
from forebear.data.io.atomic import cache_folder
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError
from forebear.interrupts import deferred_interrupts
from forebear.models.spec import ModelSpec
from forebear.objectives.batch import Objective
from forebear.statistical.array_pool import memory_map_arrays
from forebear.statistical.ngram.hash_table import NgramStore, stamp_store
from forebear.statistical.ngram.language_model import NgramModel
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task
from forebear.training.adaptation import Adaptation
from forebear.training.learners import Learner
from forebear.training.run_folder import RunFolder
from forebear.training.settings import Recipe

if TYPE_CHECKING:
    from torch import Tensor

# Which learner teaches a milestone, and how what it learned is read again.


KINDS = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}  # of arrays, as safetensors names them


def learner_for(
    milestone: ModelSpec, tokenizer: Tokenizer | TokenizerPair, recipe: Recipe, given: Mapping[str, Any] | None = None
) -> Learner:
    """`given` are tensors to begin with, where it is not from nothing."""
    network = milestone.build(tokenizer)
    if milestone.counts_again:
        from forebear.training.learners import EMLearner

        return EMLearner(network, recipe)
    if milestone.learning == "counting":
        from forebear.training.learners import CountingLearner

        return CountingLearner(network, recipe)
    if milestone.learning == "sweeping":
        from forebear.training.learners import EmbeddingLearner

        return EmbeddingLearner(network, recipe, given)
    from forebear.training.gradient import GradientLearner, choose_device

    return GradientLearner(network, recipe, choose_device(recipe), given)


def prepass(learner: Learner, objective: Objective, source: Any) -> None:
    """Shows the text to those that must know all of it before they begin."""
    learner.prepass(objective, source)


def load_model(
    milestone: ModelSpec,
    tokenizer: Tokenizer | TokenizerPair,
    weights: Path,
    heads: Sequence[str] | None = None,
    *,
    quantised: bool = False,
) -> Any:
    """The network of a milestone with these weights, strictly; with all its heads, or with just these."""
    network = milestone.build(tokenizer)
    if milestone.learning == "counting":
        from safetensors.numpy import load_file

        network.load(load_file(weights))
        return network
    if milestone.learning == "sweeping":
        network.load(mapped(weights))
        return network
    if heads is not None:
        network = network.with_heads(heads)
    return load_torch_weights(network, weights, quantised)


def mapped(weights: Path) -> dict[str, np.ndarray]:
    """The arrays of a file where they lie: a table of millions of words is read as far as it is asked."""
    with open(weights, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        told = json.loads(file.read(size))
    made = {}
    for name, one in told.items():
        if name != "__metadata__":
            begin, end = one["data_offsets"]
            kind, shape = np.dtype(KINDS[one["dtype"]]), tuple(one["shape"])
            there = end > begin  # nothing cannot be mapped
            made[name] = np.memmap(weights, kind, "r", 8 + size + begin, shape) if there else np.zeros(shape, kind)
    return made


def load_torch_weights(network: Any, weights: Path, quantised: bool) -> Any:
    """A network with these weights, which may be small integers."""
    from safetensors.torch import load_file

    if quantised:
        from forebear.nn.quantized import quantize_layers

        quantize_layers(network.encoder)
    with deferred_interrupts():  # torch reports one that arrives within it as a corrupt file: a ValueError
        tensors = load_file(weights)
    return network.load(tensors, file=str(weights)).eval()


POOLER = "heads.pair.pool."  # what BERT learned to read [CLS] with; a head that reads it too begins with it


def task_learner(
    milestone: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    recipe: Recipe,
    *,
    given: Mapping[str, Tensor] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Learner:
    """`given` are the tensors of the pre-trained run; `weights` those of labels."""
    if milestone.learning == "counting":
        if uses_full_batch(milestone, task):
            from forebear.training.learners import CRFLearner

            return CRFLearner(linear(milestone, tokenizer, task, adaptation), recipe)
        from forebear.training.learners import LinearLearner

        return LinearLearner(linear(milestone, tokenizer, task, adaptation), recipe, weights)
    from forebear.training.gradient import GradientLearner, choose_device

    model = build_task_model(milestone, tokenizer, task, adaptation, weights)
    return GradientLearner(model, recipe, choose_device(recipe), taken(given or {}, model), adaptation.lr_scales(model))


def uses_full_batch(milestone: ModelSpec, task: Task) -> bool:
    """Whether it learns this task from all examples at once, in steps that lead to the best weights."""
    return milestone.learns_tags and milestone.learns_tags_by == "searching" and isinstance(task, SequenceTagging)


def build_task_model(
    milestone: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    weights: tuple[float, ...] | None = None,
) -> Any:
    """The encoder with the task's heads, still without values."""
    encoder = milestone.build_task_encoder(tokenizer, adaptation.task_encoder_config(task))
    return adaptation.build_model(encoder, task, milestone.input_format(tokenizer), weights)


def taken(given: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    """Of a run's tensors those that this model has a place for: what read words may be read otherwise now."""
    wanted = {name: tuple(one.shape) for name, one in model.named_parameters()}
    own = {name: tensor for name, tensor in given.items() if name.startswith("encoder.")}
    inside = {f"encoder.inner.{name.removeprefix('encoder.')}": tensor for name, tensor in own.items()}
    own = own if not wanted.keys() & inside.keys() else inside  # something reads above it now
    found = {name: tensor for name, tensor in own.items() if wanted.get(name) == tuple(tensor.shape)}
    for name, tensor in given.items():
        if name.startswith(POOLER):
            for head in ("label", "choice"):
                other = f"heads.{head}.pool.{name.removeprefix(POOLER)}"
                found |= {other: tensor} if wanted.get(other) == tuple(tensor.shape) else {}
    return found


def load_task_model(
    milestone: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    weights: Path,
    *,
    quantised: bool = False,
) -> Any:
    """The network that was adapted, with these weights, strictly."""
    if milestone.learning == "counting":
        from safetensors.numpy import load_file

        model = linear(milestone, tokenizer, task, adaptation)
        model.load(load_file(weights))
        return model
    return load_torch_weights(build_task_model(milestone, tokenizer, task, adaptation), weights, quantised)


def linear(milestone: ModelSpec, tokenizer: Tokenizer, task: Task, adaptation: Adaptation) -> Any:
    """A linear model over the n-grams of a milestone that counts, the honest baseline; of one that tags, its own."""
    if milestone.learns_tags and isinstance(task, SequenceTagging):
        return milestone.build_tagger(tokenizer, task.transitions)
    from forebear.data.unicode import word_shapes
    from forebear.statistical.linear import LinearModel

    kind, pairs = task.linear_kind
    most = 2 if tokenizer.kind == "words" else 3  # of characters and pieces it takes more to say something
    return LinearModel(
        kind,  # pyright: ignore[reportArgumentType]
        vocabulary=tokenizer.vocab_size,
        answers=task.num_answers,
        order=most if milestone.order is None else min(milestone.order, most),
        pairs=pairs,
        skipped=tokenizer.special_ids - {tokenizer.unk_id},
        shapes=word_shapes(map(tokenizer.id_to_token, range(tokenizer.vocab_size)))
        if kind in ("tag", "span")
        else None,
    )


def balanced_label_weights(task: Task, examples: Sequence[Any]) -> tuple[float, ...] | None:
    """Weights with which all labels count alike; None where there are no labels to weigh."""
    from collections import Counter

    labels = task.labels
    if not labels:
        return None
    counts = Counter(one for example in examples for one in _labels(example.label))
    if task.kind == "several":  # of each: those without it to those with it
        return tuple((len(examples) - counts[label]) / max(1, counts[label]) for label in labels)
    return tuple(len(examples) / (len(labels) * max(1, counts[label])) for label in labels)


def _labels(label: Any) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


# Models that count, opened to be asked: a large one answers from a table of its own, which is made once.


TABLE = "ngrams.table"


def load_counted_model(folder: RunFolder) -> tuple[Any, list[str]]:
    """The network of a run that counts, and what had to be said on the way to it."""
    network, told, file = folder.spec.build(folder.tokenizer), folder.metadata.get("weights"), folder.path / TABLE
    if not isinstance(network, NgramModel):
        weights, notes = folder.verified_weights()
        return load_model(folder.spec, folder.tokenizer, weights), notes
    notes: list[str] = []
    if folder.metadata["state"] in ("training", "interrupted"):
        told_of = f"counting stopped at step {told['step']:,}" if told else "counting was not finished"
        notes.append(
            f"{told_of}: it knows the text up to there alone (forebear pretrain --resume {folder.path} goes on)"
        )
    if told is not None and file.exists():
        try:
            table = NgramStore.open(file, told["sha256"])
            _verify_once(table, file)
            network.use_store(table, lambda: _state(folder))
        except ForebearError as error:
            notes.append(f"{file} {error.message}: it is made again")
        else:
            return network, notes
    weights, more = folder.verified_weights()
    network = load_model(folder.spec, folder.tokenizer, weights)
    if told is not None and not more:
        leave_table(network, folder)
    return network, notes + more


@contextmanager
def spill_to_run_folder(network: Any, folder: RunFolder) -> Iterator[None]:
    """While a run learns to count, what does not fit into memory goes to its folder; at last its table stands there."""
    if not isinstance(network, NgramModel):
        yield
        return
    network.place = folder.path / TABLE
    _sweep(folder)
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=folder.path) as aside:
        network.tally.folder = Path(aside)
        yield
        leave_table(network, folder)
        network.tally.folder = None


def leave_table(network: NgramModel, folder: RunFolder) -> None:
    """Makes the table of a run's published weights, if it is large; a folder that cannot be written goes without."""
    file = folder.path / TABLE
    if network.tally.folder is None:  # nobody is at work here
        _sweep(folder)
    try:
        if (table := network.build_store(file)) is not None:
            stamp_store(file, folder.metadata["weights"]["sha256"])
            _remember(file)
            if network.is_imported:  # a table cannot be written out again, and nothing else is left of what was given
                network.use_store(table, lambda: _state(folder))
        else:
            file.unlink(missing_ok=True)  # of what stood here before
    except OSError:
        network.place = None


def _verify_once(table: NgramStore, file: Path) -> None:
    """Reads all of a table that was touched since it was made, or copied: to read it each time would take too long."""
    if not _note_of(file).exists():
        table.verify()
        _remember(file)


def _remember(file: Path) -> None:
    """That it is whole, as long as nobody touches it."""
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        note = _note_of(file)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


def _note_of(file: Path) -> Path:
    facts = file.stat()
    stamp = (str(file.resolve()), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return cache_folder() / "tables" / hashlib.sha256(repr(stamp).encode()).hexdigest()


def _sweep(folder: RunFolder) -> None:
    """Takes away what a process that was killed has left."""
    for left in folder.path.glob(".counts-*"):
        shutil.rmtree(left, ignore_errors=True)
    for left in folder.path.glob(f".{TABLE}.*.tmp"):
        left.unlink(missing_ok=True)


def _state(folder: RunFolder) -> dict[str, Any]:
    return memory_map_arrays(folder.verified_weights()[0])[1]
