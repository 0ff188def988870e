"""What are these two texts to each other? A paraphrase, an entailment, a question and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.objectives.layout import Layout
from forebear.tasks.classification import Classification
from forebear.tasks.examples import Labelled
from forebear.tasks.rows import Row, Rows

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer

ORDERED = (
    "entail",
    "contradict",
    "neutral",
    "follow",
    "蕴",
    "矛盾",
    "中立",
)  # labels of what is not the same both ways


@dataclass(frozen=True)
class Pairs(Classification):
    """Two texts in one row, so that each is read in the light of the other.

    ordered  the first is not to the second what the second is to the first, as in entailment; else a network that only
             looks back is shown both orders (GPT's similarity)
    """

    texts: ClassVar[int] = 2

    ordered: bool = False

    @classmethod
    def learned(cls, examples: Sequence[Labelled], **options: Any) -> Classification:
        labels = {str(example.label).lower() for example in examples}
        ordered = any(mark in label for label in labels for mark in ORDERED)
        return super().learned(examples, **{"ordered": ordered, **options})

    def rows(
        self, examples: Sequence[Labelled], tokenizer: Tokenizer, layout: Layout, *, learning: bool = False
    ) -> Rows:
        ids, counts = tokenizer.encode_many([text for example in examples for text in example.texts])
        parts = np.split(ids, np.cumsum(counts)[:-1])
        both = layout.both_orders and not self.ordered
        made, cut, room = [], 0, layout.room(2)
        for number in range(len(examples)):
            first, second = fitted(parts[2 * number], parts[2 * number + 1], room)
            cut += len(parts[2 * number]) + len(parts[2 * number + 1]) - len(first) - len(second)
            made.append(Row(number, *layout.row(first, second)))
            if both:
                made.append(Row(number, *layout.row(second, first)))
        return Rows.of(made, tells=layout.segments, grouped=both, of_examples=self._targets(examples), cut=cut)


def fitted(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Both texts, the longer one cut at its end until they have room."""
    spare = room - len(first) - len(second)
    if spare >= 0:
        return first, second
    short = min(len(first), len(second))
    if 2 * short > room:
        return first[: room - room // 2], second[: room // 2]
    longer = room - short
    return (first[:longer], second) if len(first) > len(second) else (first, second[:longer])
