"""Multiple choice: each choice is encoded with the same context and gets a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.data.labeled.examples import ChoiceExample
from forebear.errors import InputError
from forebear.numerics import softmax
from forebear.objectives.batch import IGNORE_INDEX
from forebear.objectives.input_format import InputFormat
from forebear.tasks import metrics
from forebear.tasks.classification import truncate_pair
from forebear.tasks.task import AnswerComparison, HeadSpec, Logits, Task
from forebear.tasks.task_batches import ExampleRow, ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer

Examples = Sequence[ChoiceExample]

PADDING_SCORE = -1e4  # score of padding choices, where other examples have more


@dataclass(frozen=True)
class ChoicePrediction:
    """A context with choices, the index of the predicted choice, and the probability of each."""

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
    """Multiple choice with any number of choices."""

    verb: ClassVar[str] = "choose"
    metric: ClassVar[str] = "accuracy"
    linear_kind: ClassVar[tuple[str, bool]] = ("choice", True)
    pools_rows: ClassVar[bool] = True

    temperature: float = 1.0  # calibrated divisor of scores

    @classmethod
    def from_examples(cls, examples: Examples, **options: Any) -> MultipleChoice:
        if not any(example.answer_index is not None for example in examples):
            hint = "give the number or the text of the right choice"
            raise InputError("no example says which choice is right", hint=hint)
        return cls(**options)

    def encode(
        self, examples: Examples, tokenizer: Tokenizer, input_format: InputFormat, *, is_training: bool = False
    ) -> ExampleRows:
        ids, counts = tokenizer.encode_many([text for example in examples for text in (example.text, *example.choices)])
        token_ids = iter(np.split(ids, np.cumsum(counts)[:-1]))
        rows, num_truncated, max_tokens = [], 0, input_format.max_text_tokens(2)
        for index, example in enumerate(examples):
            text = next(token_ids)
            for choice in islice(token_ids, len(example.choices)):
                first, second = truncate_pair(text, choice, max_tokens)
                num_truncated += len(text) + len(choice) - len(first) - len(second)
                rows.append(ExampleRow(index, *input_format.make_row(first, second)))
        right = [IGNORE_INDEX if example.answer_index is None else example.answer_index for example in examples]
        return ExampleRows.from_rows(
            rows,
            uses_segments=input_format.segments,
            groups_rows=True,
            example_targets={"choice": np.array(right, np.int64)},
            num_truncated=num_truncated,
        )

    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        from forebear.nn.heads import ChoiceHead

        options: dict[str, Any] = {"dense": head_spec.dense, "dropout": head_spec.dropout}
        return {"choice": ChoiceHead(head_spec.width, head_spec.pooling, mixture=head_spec.make_mix(), **options)}

    def predictions(self, examples: Examples, rows: ExampleRows, logits: Logits) -> list[ChoicePrediction]:
        predictions = []
        for example, scores in zip(examples, logits["choice"], strict=True):
            probabilities = softmax((scores - scores.max()).astype(np.float64) / self.temperature)
            best, choice_probabilities = int(probabilities.argmax()), tuple(probabilities.tolist())
            predictions.append(ChoicePrediction(example.text, example.choices, best, choice_probabilities))
        return predictions

    def calibrate(self, examples: Examples, rows: ExampleRows, logits: Logits) -> MultipleChoice:
        """Fit the temperature to the choices of the dev set."""
        labeled = metrics.labeled_pairs(examples, logits["choice"])
        max_choices = max((len(choice_scores) for _, choice_scores in labeled), default=0)
        scores = np.full((len(labeled), max_choices), PADDING_SCORE)
        for row, (_, choice_scores) in zip(scores, labeled, strict=True):
            row[: len(choice_scores)] = choice_scores - choice_scores.max()
        right = np.array([example.answer_index for example, _ in labeled], np.int64)
        return replace(self, temperature=metrics.fit_temperature(scores, right))

    def compare_to_gold(self, example: ChoiceExample, prediction: ChoicePrediction) -> AnswerComparison:
        expected = "" if example.answer_index is None else example.choices[example.answer_index]
        probability = prediction.probabilities[prediction.choice]
        return AnswerComparison(
            example.answer_index == prediction.choice, expected, example.choices[prediction.choice], probability
        )

    def evaluate(self, examples: Examples, predictions: Sequence[ChoicePrediction]) -> dict[str, Any]:
        labeled = metrics.labeled_pairs(examples, predictions)
        num_right = sum(example.answer_index == prediction.choice for example, prediction in labeled)
        chance = sum(1 / len(example.choices) for example, _ in labeled)
        count = max(1, len(labeled))
        return {"accuracy": num_right / count, "chance": chance / count, "examples": len(labeled)}
