"""A task: an objective whose targets a person wrote, with the heads that answer it and the figures that judge it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.layout import Layout
from forebear.tasks.rows import Rows

if TYPE_CHECKING:
    from torch import nn

    from forebear.networks.mixture import Mixture
    from forebear.text.tokenizer import Tokenizer

# The only list of them: name, and the class in the file of that name.
TASKS = {
    "classification": "Classification",
    "pairs": "Pairs",
    "tagging": "Tagging",
    "answering": "Answering",
    "choice": "Choice",
}

Logits = Mapping[str, Sequence[np.ndarray]]  # of each head, an array for each example (label, choice) or row


@dataclass(frozen=True)
class Making:
    """What heads are made for: an encoder of this width and depth, and whether they read all of its layers.

    read     the vector that stands for a row
    dense    whether a layer stands between it and the answer
    weights  of labels, where mistakes about some are to count more
    """

    width: int
    depth: int
    read: str
    dense: bool
    features: bool = False
    dropout: float = 0.0
    weights: tuple[float, ...] | None = None

    def mixture(self) -> Mixture | None:
        from forebear.networks.mixture import Mixture

        return Mixture(self.depth) if self.features else None


@dataclass(frozen=True)
class Verdict:
    """An answer held against what people said: both in words, and how sure it was, where it says."""

    right: bool
    wanted: str
    said: str
    probability: float | None = None


@dataclass(frozen=True)
class Task(ABC):
    """Fields are what was learned of the task itself (its labels, say); they survive JSON.

    verb   what a run is asked to do it
    score  the figure by which it is judged, of those that `measured` tells; more is better
    """

    verb: ClassVar[str]
    score: ClassVar[str]
    texts: ClassVar[int] = 1  # in an example, where it has so many

    # Fields that only some have, and what they say where there is none; to the rest they are no fields.
    if TYPE_CHECKING:
        labels: tuple[str, ...] = ()
        tags: tuple[str, ...] = ()
        kind: str = "one"
        scheme: str = ""
        crf: bool = False
    else:
        labels = tags = ()
        kind, scheme, crf = "one", "", False

    @classmethod
    @abstractmethod
    def learned(cls, examples: Sequence[Any], **options: Any) -> Task:
        """The task that these examples are of; an error where nothing can be learned from them."""

    @abstractmethod
    def rows(self, examples: Sequence[Any], tokenizer: Tokenizer, layout: Layout, *, learning: bool = False) -> Rows:
        """The examples as rows with targets; what has no label, or an unknown one, asks for nothing.

        For `learning`, rows that could teach little may be left out.
        """

    @abstractmethod
    def heads(self, making: Making) -> dict[str, nn.Module]:
        """What answers."""

    @abstractmethod
    def answers(self, examples: Sequence[Any], rows: Rows, logits: Logits) -> list[Any]:
        """What the heads' logits say of each example."""

    @abstractmethod
    def measured(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        """How right these answers are; examples without a label do not count."""

    @abstractmethod
    def verdict(self, example: Any, answer: Any) -> Verdict:
        """Whether an answer is right, for a list of mistakes."""

    def as_taught(self, answer: Any) -> Any:
        """An answer as the examples to learn from would write it, for people; figures are of answers as they are."""
        return answer

    def calibrated(self, examples: Sequence[Any], rows: Rows, logits: Logits) -> Task:
        """The same, as sure of itself as held-out examples say it may be."""
        return self

    @property
    @abstractmethod
    def weighed_as(self) -> tuple[str, bool]:
        """What kind of linear model does it, and whether that reads two texts."""

    @property
    def answers_count(self) -> int:
        """Different answers, where they are always the same."""
        return 1

    @property
    def answers_are_several(self) -> bool:
        """Whether any number of answers may be right at once."""
        return False

    @property
    def reads_rows(self) -> bool:
        """Whether one vector stands for a whole text; else every token is looked at."""
        return False

    @property
    def name(self) -> str:
        return next(name for name, kind in TASKS.items() if kind == type(self).__name__)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


def task_named(name: str) -> type[Task]:
    """The class of a task, loaded when it is asked for."""
    if name not in TASKS:
        raise BadInput(f"no task named {name!r}", remedy=f"there are: {', '.join(TASKS)}")
    return getattr(import_module(f"forebear.tasks.{name}"), TASKS[name])


def task_from(told: Mapping[str, Any]) -> Task:
    """The task that `to_json` told of."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    fields.pop("name")
    try:
        return task_named(told["name"])(**fields)
    except TypeError as error:
        remedy = "it was made by another version of forebear"
        raise BadInput(f"the task's fields do not fit: {error}", remedy=remedy) from error
