"""Soft targets of a teacher (Hinton et al. 2015): settings and objective of distillation, the teacher's logits."""

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
MIN_PROBABILITY = 1e-30  # with a finite logarithm in float32


@dataclass(frozen=True)
class DistillationConfig:
    """Weights of the distillation losses.

    temperature  divisor of the logits of teacher and student: higher values give small probabilities more weight
    share        weight α of the distillation loss, times temperature²; the loss of the labels has 1 - α
    hidden       weight of the squared difference of hidden states, added to these losses
    attention    weight of the divergence of attention maps, added to these losses
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
        """A copy with all weights 0."""
        return replace(self, share=0.0, hidden=0.0, attention=0.0)


@dataclass(frozen=True, eq=False)
class DistillationObjective:
    """An objective with targets for distillation in training batches; held-out batches have only the labels.

    train_source   the training source; other sources are held out
    mixed_targets  targets trained by one mixed loss (labels and teacher), renamed with TEACHER_SUFFIX
    layer_targets  layer losses, computed at every token
    weights        weights of targets
    """

    base_objective: Objective
    train_source: Any
    mixed_targets: tuple[str, ...] = ()
    layer_targets: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    def steps(self, source: Any, batch_size: int) -> int:
        return self.base_objective.steps(source, batch_size)

    def check(self, source: Any) -> None:
        self.base_objective.check(source)

    def batch(self, source: Any, batch_size: int, key: BatchKey) -> Batch:
        batch = self.base_objective.batch(source, batch_size, key)
        if source is not self.train_source:
            return batch
        names = {name: name + TEACHER_SUFFIX for name in self.mixed_targets}
        targets = {names.get(name, name): target for name, target in batch.targets.items()}
        # placeholders: layer losses compare states at every token and need no labels
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

        (E, labels); (E, choices) and (B, positions), padded with -inf; (T, tags), NaN except at the first token of a
        word. For answer spans, whose positions are tokens, teacher and student get the same rows.
        """
        teacher_rows = rows
        if "start" not in rows.targets:
            teacher_rows = self.task.encode(examples, self.tokenizer, self.input_format)
        logits = predict_logits(self.model, teacher_rows, progress)
        if "tag" in rows.targets:
            predictions = self.task.predictions(
                examples, teacher_rows, logits
            )  # with a CRF: the marginals of each word
            word_probabilities = [prediction.probabilities for prediction in predictions]
            return {f"tag{TEACHER_SUFFIX}": _scatter_to_words(rows, word_probabilities)}
        return {f"{name}{TEACHER_SUFFIX}": _pad_logits(logits[name]) for name in rows.targets}


def _pad_logits(logits: Sequence[np.ndarray]) -> np.ndarray:
    """The logits as one array, padded with -inf."""
    padded = np.full((len(logits), max(map(len, logits))), -np.inf, np.float32)
    for row, values in zip(padded, logits, strict=True):
        row[: len(values)] = values
    return padded


def _scatter_to_words(rows: ExampleRows, word_probabilities: Sequence[np.ndarray]) -> np.ndarray:
    """(T, tags) log-probabilities at the tokens that represent words, from (words, tags) of each example."""
    assert rows.token_sources is not None
    log_probs = np.log(np.maximum(np.concatenate(word_probabilities), MIN_PROBABILITY)).astype(np.float32)
    starts = np.cumsum([0, *map(len, word_probabilities)])[:-1]
    targets = np.full((len(rows.tokens), log_probs.shape[1]), np.nan, np.float32)
    is_supervised = rows.token_sources != IGNORE_INDEX
    word_rows = starts[np.repeat(rows.examples, rows.lengths)] + rows.token_sources
    targets[is_supervised] = log_probs[word_rows[is_supervised]]
    return targets


def mask_labels(rows: ExampleRows, num_labeled: int) -> ExampleRows:
    """The same rows, without the labels of all but the first `num_labeled` examples."""
    is_unlabeled = {
        len(rows): np.arange(len(rows)) >= num_labeled,
        len(rows.lengths): rows.examples >= num_labeled,
        len(rows.tokens): np.repeat(rows.examples, rows.lengths) >= num_labeled,
    }
    targets = {name: target.copy() for name, target in rows.targets.items()}
    for target in targets.values():
        target[is_unlabeled[len(target)]] = np.nan if target.dtype.kind == "f" else IGNORE_INDEX
    return replace(rows, targets=targets)
