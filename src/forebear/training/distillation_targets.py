"""Soft targets of a teacher (Hinton et al. 2015): distillation settings, objective and targets; loads no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, TargetArrays
from forebear.objectives.input_format import InputFormat
from forebear.objectives.objective import Objective
from forebear.tasks.task import ProgressFn, Task, predict_logits
from forebear.tasks.task_batches import ExampleRows

TEACHER_SUFFIX = "_taught"  # of the names of targets that are the teacher's logits
MIN_PROBABILITY = 1e-30  # its logarithm is finite in single precision


@dataclass(frozen=True)
class DistillationConfig:
    """Weights of the distillation losses.

    temperature  divides the logits of teacher and student: at higher ones small probabilities matter more
    share        weight of the distillation loss, times temperature²; the rest is that of the labels
    hidden       weight of the squared difference of hidden states, added to these
    attention    weight of the divergence of attention maps, added to these
    """

    temperature: float = 2.0
    share: float = 0.5
    hidden: float = 0.0
    attention: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise InputError(f"--temperature is {self.temperature}", hint="give a number above 0, such as 2")
        if not 0 <= self.share <= 1:
            raise InputError(f"--share is {self.share}", hint="give a share from 0 (truth alone) to 1 (teacher alone)")
        if not (0 <= self.hidden < math.inf and 0 <= self.attention < math.inf):
            message = f"--hidden {self.hidden}, --attention {self.attention}"
            raise InputError(message, hint="give weights of 0 or more")

    @property
    def layer_losses(self) -> dict[str, float]:
        """The layer losses in use, with their weights."""
        return {name: weight for name, weight in asdict(self).items() if name in ("hidden", "attention") and weight}

    def without_distillation(self) -> DistillationConfig:
        """The same without distillation: all weights are 0."""
        return replace(self, share=0.0, hidden=0.0, attention=0.0)


@dataclass(frozen=True, eq=False)
class DistillationObjective:
    """Another objective with targets of the teacher in training; held-out batches have the labels alone.

    train_source   the training source; other sources are held out
    mixed_targets  targets whose labels and teacher outputs are one loss, under a name of its own
    layer_targets  layer losses, computed at every token
    weights        weights of targets
    """

    inner: Objective
    train_source: Any
    mixed_targets: tuple[str, ...] = ()
    layer_targets: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    def steps(self, source: Any, batch_size: int) -> int:
        return self.inner.steps(source, batch_size)

    def check(self, source: Any) -> None:
        self.inner.check(source)

    def batch(self, source: Any, batch_size: int, key: BatchKey) -> Batch:
        batch = self.inner.batch(source, batch_size, key)
        if source is not self.train_source:
            return batch
        names = {name: name + TEACHER_SUFFIX for name in self.mixed_targets}
        targets = {names.get(name, name): target for name, target in batch.targets.items()}
        targets |= {name: np.zeros(batch.num_target_tokens, np.int64) for name in self.layer_targets}
        return replace(batch, targets=targets, weights={**batch.weights, **self.weights})


@dataclass(frozen=True, eq=False)
class Teacher:
    """A trained task model with its input format; its tokenizer may differ from the student's."""

    model: Any
    task: Task
    tokenizer: Tokenizer
    input_format: InputFormat

    def targets_for(
        self, examples: Sequence[Any], rows: ExampleRows, progress: ProgressFn | None = None
    ) -> TargetArrays:
        """The teacher's logits for each target of the student's `rows` of these examples.

        (E, labels); (E, choices) and (B, positions), padded with -inf; (T, tags), NaN where no word begins. For answer
        spans, whose positions are tokens, teacher and student read the same rows.
        """
        teacher_rows = rows
        if "start" not in rows.targets:
            teacher_rows = self.task.encode(examples, self.tokenizer, self.input_format)
        logits = predict_logits(self.model, teacher_rows, progress)
        if "tag" in rows.targets:
            answers = self.task.predictions(examples, teacher_rows, logits)  # with a CRF: the marginals of each word
            return {f"tag{TEACHER_SUFFIX}": _scatter_to_words(rows, [answer.probabilities for answer in answers])}
        return {f"{name}{TEACHER_SUFFIX}": _pad_logits(logits[name]) for name in rows.targets}


def _pad_logits(logits: Sequence[np.ndarray]) -> np.ndarray:
    """The logits as one array, padded with -inf."""
    padded = np.full((len(logits), max(map(len, logits))), -np.inf, np.float32)
    for row, values in zip(padded, logits, strict=True):
        row[: len(values)] = values
    return padded


def _scatter_to_words(rows: ExampleRows, word_probabilities: Sequence[np.ndarray]) -> np.ndarray:
    """Log probabilities of each example's (words, tags), at the tokens that represent the words."""
    assert rows.answer_spans is not None
    log_probs = np.log(np.maximum(np.concatenate(word_probabilities), MIN_PROBABILITY)).astype(np.float32)
    starts = np.cumsum([0, *map(len, word_probabilities)])[:-1]
    targets = np.full((len(rows.tokens), log_probs.shape[1]), np.nan, np.float32)
    is_supervised = rows.answer_spans != IGNORE_INDEX
    word_rows = starts[np.repeat(rows.examples, rows.lengths)] + rows.answer_spans
    targets[is_supervised] = log_probs[word_rows[is_supervised]]
    return targets


def mask_labels(rows: ExampleRows, num_labeled: int) -> ExampleRows:
    """The same rows, with the labels of all but the first examples removed."""
    is_unlabeled = {
        len(rows): np.arange(len(rows)) >= num_labeled,
        len(rows.lengths): rows.examples >= num_labeled,
        len(rows.tokens): np.repeat(rows.examples, rows.lengths) >= num_labeled,
    }
    targets = {name: target.copy() for name, target in rows.targets.items()}
    for target in targets.values():
        target[is_unlabeled[len(target)]] = np.nan if target.dtype.kind == "f" else IGNORE_INDEX
    return replace(rows, targets=targets)
