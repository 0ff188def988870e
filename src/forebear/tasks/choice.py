"""Which of these goes on, or answers, best? Each is read behind the same beginning, and gets a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING
from forebear.objectives.layout import Layout
from forebear.tasks.examples import Choices
from forebear.tasks.figures import calibration
from forebear.tasks.pairs import fitted
from forebear.tasks.rows import Row, Rows
from forebear.tasks.task import Logits, Making, Task, Verdict

if TYPE_CHECKING:
    from torch import nn

    from forebear.text.tokenizer import Tokenizer

ABSENT = -1e4  # the score of a choice that is not there, where others have more of them


@dataclass(frozen=True)
class Chosen:
    """A beginning, what might follow, the number (from 0) of what was chosen, and how probable each is."""

    text: str
    choices: tuple[str, ...]
    chosen: int
    probabilities: tuple[float, ...]

    def facts(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "choices": list(self.choices),
            "chosen": self.chosen,
            "choice": self.choices[self.chosen],
            "probabilities": [round(p, 6) for p in self.probabilities],
        }


@dataclass(frozen=True)
class Choice(Task):
    """Nothing is to be known beforehand: not even how many choices there are.

    temperature  by which scores are divided, so that probabilities are as sure as they may be
    """

    verb: ClassVar[str] = "choose"
    score: ClassVar[str] = "accuracy"

    temperature: float = 1.0

    @classmethod
    def learned(cls, examples: Sequence[Choices], **options: Any) -> Choice:
        if not any(example.right is not None for example in examples):
            remedy = "give the number or the text of the right choice"
            raise BadInput("no example says which choice is right", remedy=remedy)
        return cls(**options)

    @property
    def reads_rows(self) -> bool:
        return True

    @property
    def weighed_as(self) -> tuple[str, bool]:
        return "choice", True

    def rows(
        self, examples: Sequence[Choices], tokenizer: Tokenizer, layout: Layout, *, learning: bool = False
    ) -> Rows:
        ids, counts = tokenizer.encode_many([text for one in examples for text in (one.text, *one.choices)])
        parts = iter(np.split(ids, np.cumsum(counts)[:-1]))
        made, cut, room = [], 0, layout.room(2)
        for number, example in enumerate(examples):
            text = next(parts)
            for choice in (next(parts) for _ in example.choices):
                first, second = fitted(text, choice, room)
                cut += len(text) + len(choice) - len(first) - len(second)
                made.append(Row(number, *layout.row(first, second)))
        right = np.array([NOTHING if one.right is None else one.right for one in examples], np.int64)
        return Rows.of(made, tells=layout.segments, grouped=True, of_examples={"choice": right}, cut=cut)

    def heads(self, making: Making) -> dict[str, nn.Module]:
        from forebear.networks.answers import ChoiceHead

        how: dict[str, Any] = {"dense": making.dense, "mixture": making.mixture(), "dropout": making.dropout}
        return {"choice": ChoiceHead(making.width, making.read, **how)}

    def answers(self, examples: Sequence[Choices], rows: Rows, logits: Logits) -> list[Chosen]:
        made = []
        for example, scores in zip(examples, logits["choice"], strict=True):
            e = np.exp((scores - scores.max()).astype(np.float64) / self.temperature)
            made.append(Chosen(example.text, example.choices, int(e.argmax()), tuple((e / e.sum()).tolist())))
        return made

    def calibrated(self, examples: Sequence[Choices], rows: Rows, logits: Logits) -> Choice:
        """With the temperature under which the held-out choices are likeliest."""
        told = [(scores, one.right) for one, scores in zip(examples, logits["choice"], strict=True)]
        told = [(scores, right) for scores, right in told if right is not None]
        scores = np.full((len(told), max((len(one) for one, _ in told), default=0)), ABSENT)
        for row, (one, _) in zip(scores, told, strict=True):
            row[: len(one)] = one - one.max()
        right = np.array([right for _, right in told], np.int64)
        return replace(self, temperature=calibration.trusted_temperature(scores, right))

    def verdict(self, example: Choices, answer: Chosen) -> Verdict:
        wanted = "" if example.right is None else example.choices[example.right]
        sure = answer.probabilities[answer.chosen]
        return Verdict(example.right == answer.chosen, wanted, example.choices[answer.chosen], sure)

    def measured(self, examples: Sequence[Choices], answers: Sequence[Chosen]) -> dict[str, Any]:
        told = [(one, answer) for one, answer in zip(examples, answers, strict=True) if one.right is not None]
        right = sum(one.right == answer.chosen for one, answer in told)
        chance = sum(1 / len(one.choices) for one, _ in told)
        count = max(1, len(told))
        return {"accuracy": right / count, "chance": chance / count, "examples": len(told)}
