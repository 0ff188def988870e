"""Which of these goes on, or answers, best? Each is read behind the same beginning, and gets a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.data.labeled.examples import ChoiceExample
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.classification import truncate_pair
from forebear.tasks.task import HeadSpec, Judgment, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

ABSENT = -1e4  # the score of a choice that is not there, where others have more of them


@dataclass(frozen=True)
class ChoicePrediction:
    """A beginning, what might follow, the number (from 0) of what was chosen, and how probable each is."""

    text: str
    choices: tuple[str, ...]
    choice: int
    probabilities: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "choices": list(self.choices),
            "chosen": self.choice,
            "choice": self.choices[self.choice],
            "probabilities": [round(p, 6) for p in self.probabilities],
        }


@dataclass(frozen=True)
class MultipleChoice(Task):
    """Nothing is to be known beforehand: not even how many choices there are.

    temperature  by which scores are divided, so that probabilities are as sure as they may be
    """

    verb: ClassVar[str] = "choose"
    score: ClassVar[str] = "accuracy"

    temperature: float = 1.0

    @classmethod
    def from_examples(cls, examples: Sequence[ChoiceExample], **options: Any) -> MultipleChoice:
        if not any(example.right is not None for example in examples):
            hint = "give the number or the text of the right choice"
            raise InputError("no example says which choice is right", hint=hint)
        return cls(**options)

    @property
    def pools_rows(self) -> bool:
        return True

    @property
    def linear_kind(self) -> tuple[str, bool]:
        return "choice", True

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([text for one in examples for text in (one.text, *one.choices)])
        parts = iter(np.split(ids, np.cumsum(counts)[:-1]))
        made, cut, room = [], 0, layout.max_text_tokens(2)
        for number, example in enumerate(examples):
            text = next(parts)
            for choice in (next(parts) for _ in example.choices):
                first, second = truncate_pair(text, choice, room)
                cut += len(text) + len(choice) - len(first) - len(second)
                made.append(ExampleRow(number, *layout.make_row(first, second)))
        right = np.array([IGNORE_INDEX if one.right is None else one.right for one in examples], np.int64)
        return ExampleRows.from_rows(made, tells=layout.segments, grouped=True, of_examples={"choice": right}, cut=cut)

    def build_heads(self, making: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import ChoiceHead

        how: dict[str, Any] = {"dense": making.dense, "mixture": making.make_mix(), "dropout": making.dropout}
        return {"choice": ChoiceHead(making.width, making.read, **how)}

    def predictions(
        self, examples: Sequence[ChoiceExample], rows: ExampleRows, logits: Logits
    ) -> list[ChoicePrediction]:
        made = []
        for example, scores in zip(examples, logits["choice"], strict=True):
            p = softmax((scores - scores.max()).astype(np.float64) / self.temperature)
            made.append(ChoicePrediction(example.text, example.choices, int(p.argmax()), tuple(p.tolist())))
        return made

    def calibrate(self, examples: Sequence[ChoiceExample], rows: ExampleRows, logits: Logits) -> MultipleChoice:
        """With the temperature under which the held-out choices are likeliest."""
        told = [(scores, one.right) for one, scores in zip(examples, logits["choice"], strict=True)]
        told = [(scores, right) for scores, right in told if right is not None]
        scores = np.full((len(told), max((len(one) for one, _ in told), default=0)), ABSENT)
        for row, (one, _) in zip(scores, told, strict=True):
            row[: len(one)] = one - one.max()
        right = np.array([right for _, right in told], np.int64)
        return replace(self, temperature=metrics.fit_temperature(scores, right))

    def judge(self, example: ChoiceExample, answer: ChoicePrediction) -> Judgment:
        wanted = "" if example.right is None else example.choices[example.right]
        sure = answer.probabilities[answer.choice]
        return Judgment(example.right == answer.choice, wanted, example.choices[answer.choice], sure)

    def evaluate(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoicePrediction]) -> dict[str, Any]:
        told = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.right is not None]
        right = sum(one.right == answer.choice for one, answer in told)
        chance = sum(1 / len(one.choices) for one, _ in told)
        count = max(1, len(told))
        return {"accuracy": right / count, "chance": chance / count, "examples": len(told)}
