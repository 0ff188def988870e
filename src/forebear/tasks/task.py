"""A task: an objective whose targets a person wrote, with the heads that answer it and the figures that judge it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from forebear.errors import InputError
from forebear.objectives.batch import TargetArrays
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.encoder import ScalarMix
    from forebear.nn.model import Model

# The only list of them: name, and where its class is.
TASKS = {
    "classification": "forebear.tasks.classification:Classification",
    "pairs": "forebear.tasks.classification:PairClassification",
    "tagging": "forebear.tasks.tagging:SequenceTagging",
    "answering": "forebear.tasks.question_answering:QuestionAnswering",
    "choice": "forebear.tasks.multiple_choice:MultipleChoice",
}

Logits = Mapping[str, Sequence[np.ndarray]]  # of each head, an array for each example (label, choice) or row


@dataclass(frozen=True)
class HeadSpec:
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

    def make_mix(self) -> ScalarMix | None:
        from forebear.nn.encoder import ScalarMix

        return ScalarMix(self.depth) if self.features else None


@dataclass(frozen=True)
class Judgment:
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
    def from_examples(cls, examples: Sequence[Any], **options: Any) -> Task:
        """The task that these examples are of; an error where nothing can be learned from them."""

    @abstractmethod
    def encode(
        self, examples: Sequence[Any], tokenizer: Tokenizer, layout: InputFormat, *, learning: bool = False
    ) -> ExampleRows:
        """The examples as rows with targets; what has no label, or an unknown one, asks for nothing.

        For `learning`, rows that could teach little may be left out.
        """

    @abstractmethod
    def build_heads(self, making: HeadSpec) -> dict[str, nn.Module]:
        """What answers."""

    @abstractmethod
    def predictions(self, examples: Sequence[Any], rows: ExampleRows, logits: Logits) -> list[Any]:
        """What the heads' logits say of each example."""

    @abstractmethod
    def evaluate(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
        """How right these answers are; examples without a label do not count."""

    @abstractmethod
    def judge(self, example: Any, answer: Any) -> Judgment:
        """Whether an answer is right, for a list of mistakes."""

    def to_source_format(self, answer: Any) -> Any:
        """An answer as the examples to learn from would write it, for people; figures are of answers as they are."""
        return answer

    def calibrate(self, examples: Sequence[Any], rows: ExampleRows, logits: Logits) -> Task:
        """The same, as sure of itself as held-out examples say it may be."""
        return self

    @property
    @abstractmethod
    def linear_kind(self) -> tuple[str, bool]:
        """What kind of linear model does it, and whether that reads two texts."""

    @property
    def num_answers(self) -> int:
        """Different answers, where they are always the same."""
        return 1

    @property
    def is_multi_label(self) -> bool:
        """Whether any number of answers may be right at once."""
        return False

    @property
    def pools_rows(self) -> bool:
        """Whether one vector stands for a whole text; else every token is looked at."""
        return False

    @property
    def name(self) -> str:
        place = f"{type(self).__module__}:{type(self).__name__}"
        return next(name for name, kind in TASKS.items() if kind == place)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


def task_class(name: str) -> type[Task]:
    """The class of a task, loaded when it is asked for."""
    if name not in TASKS:
        raise InputError(f"no task named {name!r}", hint=f"there are: {', '.join(TASKS)}")
    module, _, kind = TASKS[name].partition(":")
    return getattr(import_module(module), kind)


def task_from_json(told: Mapping[str, Any]) -> Task:
    """The task that `to_json` told of."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    fields.pop("name")
    try:
        return task_class(told["name"])(**fields)
    except TypeError as error:
        hint = "it was made by another version of forebear"
        raise InputError(f"the task's fields do not fit: {error}", hint=hint) from error


# What a model says of examples: rows in batches of like length, never padded, answers in the order of the examples.


AT_ONCE = 4096  # tokens: enough for the processor, little for memory
OF_EXAMPLES = ("label",)  # heads that answer an example as a whole
OF_ROWS = ("choice",)  # heads that answer each row
OF_TOKENS = ("tag", "start", "end")  # heads that answer each token; all others are of no task

ProgressFn = Callable[[int, int], object]


@runtime_checkable
class Scorer(Protocol):
    """A model that counts and gives logits for arrays. `moves` is what it has learned of which tag follows which,
    begins and ends, where it tags."""

    @property
    def moves(self) -> Sequence[np.ndarray] | None: ...

    def logits(self, inputs: TargetArrays) -> dict[str, np.ndarray]: ...


def predict_logits(model: Model | Scorer, rows: ExampleRows, progress: ProgressFn | None = None) -> Logits:
    """The logits of each head: for each example (label, choice), or for each row one for each of its tokens.

    `model` is a network, or one that counts and gives logits for arrays.
    """
    rows = rows.per_row()
    answer = model.logits if isinstance(model, Scorer) else _asked_of_network(model, int(rows.lengths.sum()))
    examples: dict[str, list[Any]] = {}
    told: dict[str, list[Any]] = {}
    done = 0
    for chosen in _batches(rows.example_lengths):
        batch = rows.make_batch(chosen)
        for name, array in answer(batch.inputs).items():
            if name in OF_EXAMPLES:
                kept = examples.setdefault(name, [None] * len(rows))
                for example, logits in zip(chosen, array, strict=True):
                    kept[example] = logits
            elif name in OF_ROWS:
                kept = examples.setdefault(name, [None] * len(rows))
                counts = [len(rows.row_range(example)) for example in chosen]
                for example, logits in zip(chosen, np.split(array, np.cumsum(counts)[:-1]), strict=True):
                    kept[example] = logits
            else:
                kept = told.setdefault(name, [None] * len(rows.lengths))
                numbers = [row for example in chosen for row in rows.row_range(example)]
                parts = np.split(array, np.cumsum(rows.lengths[numbers])[:-1])
                for row, logits in zip(numbers, parts, strict=True):
                    kept[row] = logits
        done += len(chosen)
        if progress is not None:
            progress(done, len(rows))
    return {**examples, **told, **_moves(model)}


def _moves(model: Model | Scorer) -> dict[str, Sequence[np.ndarray]]:
    """What a chain of tags has learned of which follows which, begins and ends; none without one."""
    if isinstance(model, Scorer):
        return {} if model.moves is None else {"moves": model.moves}
    from forebear.nn.heads import TagHead

    head = dict(model.heads.items()).get("tag")
    crf = head.crf if isinstance(head, TagHead) else None
    if crf is None:
        return {}
    learned = (crf.transition_bias, crf.start_bias, crf.end_bias)
    return {"moves": [tensor.detach().float().cpu().numpy() for tensor in learned]}


def _asked_of_network(model: Model, tokens: int) -> Callable[[TargetArrays], dict[str, np.ndarray]]:
    import torch

    from forebear.nn.encode_rows import pack_for_batch

    model = pack_for_batch(model.eval(), tokens)
    heads = [name for name in model.heads if name in (*OF_EXAMPLES, *OF_ROWS, *OF_TOKENS)]

    def answer(inputs: TargetArrays) -> dict[str, np.ndarray]:
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.items()}
            return {name: logits.float().cpu().numpy() for name, logits in model.logits(tensors, heads).items()}

    return answer


def _batches(sizes: np.ndarray) -> Iterator[list[int]]:
    """Numbers of examples, the longest first, about AT_ONCE tokens together."""
    batch: list[int] = []
    size = 0
    for number in np.argsort(-sizes, kind="stable").tolist():
        if batch and size + int(sizes[number]) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += int(sizes[number])
    if batch:
        yield batch
