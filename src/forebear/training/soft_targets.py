"""What a teacher says of every example, as targets beside the truth, and how much it counts (Hinton et al. 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, Objective, TargetArrays
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task import ProgressFn, Task, predict_logits
from forebear.tasks.task_batches import ExampleRows

TEACHER_TARGET = "_taught"  # behind the name of a target: what the teacher says of it
TINY = 1e-30  # a probability whose logarithm is still a number in single precision


@dataclass(frozen=True)
class DistillationConfig:
    """temperature  divides the logits of both before they are compared: the warmer, the more the small ones tell
    share        of the loss that is the teacher's, times temperature²; the rest is the truth's
    hidden       what the squared difference of layers counts beside it
    attention    what the divergence of attention maps counts beside it
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
        """What of the inside of both is compared, and how much it counts."""
        return {name: weight for name, weight in asdict(self).items() if name in ("hidden", "attention") and weight}

    def soft_targets_only(self) -> DistillationConfig:
        """The same without the teacher."""
        return replace(self, share=0.0, hidden=0.0, attention=0.0)


@dataclass(frozen=True, eq=False)
class DistillationObjective:
    """The rows of another objective with what the teacher is asked of them; what examines is asked for the truth alone.

    lessons  the source that teaches
    mixed    targets whose truth and teacher are one loss, under a name of its own
    matched  what is compared at every token
    weights  of targets
    """

    inner: Objective
    lessons: Any
    mixed: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    def steps(self, source: Any, size: int) -> int:
        return self.inner.steps(source, size)

    def check(self, source: Any) -> None:
        self.inner.check(source)

    def batch(self, source: Any, size: int, moment: BatchKey) -> Batch:
        batch = self.inner.batch(source, size, moment)
        if source is not self.lessons:
            return batch
        targets = {
            name + TEACHER_TARGET if name in self.mixed else name: target for name, target in batch.targets.items()
        }
        placeholder = {name: np.zeros(batch.num_target_tokens, np.int64) for name in self.matched}
        return replace(batch, targets=targets | placeholder, weights={**batch.weights, **self.weights})


@dataclass(frozen=True, eq=False)
class Teacher:
    """Who knows a task: a model, and how it reads texts. It need not cut them as its student does."""

    model: Any
    task: Task
    tokenizer: Tokenizer
    layout: InputFormat

    def targets_for(
        self, examples: Sequence[Any], rows: ExampleRows, progress: ProgressFn | None = None
    ) -> TargetArrays:
        """Its logits of each target of a student's `rows`, which are those of the examples.

        (E, answers) of labels, (E, choices) of choices and (B, places) of places, ending in -inf; (T, tags) of tags,
        NaN where no word begins. Places are tokens: there, both read the same rows.
        """
        if "start" in rows.targets:
            logits = predict_logits(self.model, rows, progress)
            return {f"{name}{TEACHER_TARGET}": _pad_logits(logits[name]) for name in ("start", "end")}
        teacher_rows = self.task.encode(examples, self.tokenizer, self.layout)
        logits = predict_logits(self.model, teacher_rows, progress)
        if "tag" in rows.targets:
            answers = self.task.predictions(
                examples, teacher_rows, logits
            )  # with a CRF: of each word, whatever the others are
            return {f"tag{TEACHER_TARGET}": _scatter_to_words(rows, [answer.probabilities for answer in answers])}
        (name,) = rows.targets
        return {f"{name}{TEACHER_TARGET}": _pad_logits(logits[name])}


def _pad_logits(logits: Sequence[np.ndarray]) -> np.ndarray:
    """One row for each, as long as the longest; beyond its own end nothing can be."""
    padded = np.full((len(logits), max(map(len, logits))), -np.inf, np.float32)
    for row, values in zip(padded, logits, strict=True):
        row[: len(values)] = values
    return padded


def _scatter_to_words(rows: ExampleRows, word_probabilities: Sequence[np.ndarray]) -> np.ndarray:
    """The logarithms of (words, tags) probabilities of each example, at the tokens that answer for the words."""
    assert rows.answer_spans is not None
    log_probs = np.log(np.maximum(np.concatenate(word_probabilities), TINY)).astype(np.float32)
    starts = np.cumsum([0, *map(len, word_probabilities)])[:-1]
    targets = np.full((len(rows.tokens), log_probs.shape[1]), np.nan, np.float32)
    is_supervised = rows.answer_spans != IGNORE_INDEX
    targets[is_supervised] = log_probs[
        (starts[np.repeat(rows.examples, rows.lengths)] + rows.answer_spans)[is_supervised]
    ]
    return targets


def without_labels(rows: ExampleRows, num_labeled: int) -> ExampleRows:
    """The same where nobody has said what is right of the examples from this number on."""
    is_unlabeled = {
        len(rows): np.arange(len(rows)) >= num_labeled,
        len(rows.lengths): rows.examples >= num_labeled,
        len(rows.tokens): np.repeat(rows.examples, rows.lengths) >= num_labeled,
    }
    targets = {name: target.copy() for name, target in rows.targets.items()}
    for target in targets.values():
        target[is_unlabeled[len(target)]] = np.nan if target.dtype.kind == "f" else IGNORE_INDEX
    return replace(rows, targets=targets)
