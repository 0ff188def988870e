"""The Task base class (rows, heads, predictions, metrics), the task registry, and batched prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from forebear.data.io.sources import ProgressFn
from forebear.errors import InputError
from forebear.objectives.batch import TargetArrays, token_batches
from forebear.objectives.input_format import InputFormat
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from torch import nn

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.nn.model import Model
    from forebear.nn.scalar_mix import ScalarMix

# The task registry: name → module:class.
TASKS = {
    "classification": "forebear.tasks.classification:Classification",
    "pairs": "forebear.tasks.classification:PairClassification",
    "tagging": "forebear.tasks.tagging:SequenceTagging",
    "answering": "forebear.tasks.question_answering:QuestionAnswering",
    "choice": "forebear.tasks.multiple_choice:MultipleChoice",
}

Logits = Mapping[str, Sequence[np.ndarray]]  # head → one array per example (label, choice) or row


@dataclass(frozen=True)
class HeadSpec:
    """The encoder and the options that heads are built for."""

    width: int  # hidden size of the encoder
    depth: int  # layers of the encoder
    pooling: str  # of a sequence
    dense: bool  # whether a dense layer precedes the output layer
    uses_scalar_mix: bool = False  # whether the heads' input is a scalar mix of all layers
    dropout: float = 0.0
    class_weights: tuple[float, ...] | None = None

    def make_mix(self) -> ScalarMix | None:
        from forebear.nn.scalar_mix import ScalarMix

        return ScalarMix(self.depth) if self.uses_scalar_mix else None


@dataclass(frozen=True)
class AnswerComparison:
    """A prediction compared with its gold answer, both as text, with its probability if there is one."""

    is_right: bool
    expected: str
    predicted: str
    probability: float | None = None


@dataclass(frozen=True)
class Task(ABC):
    """A downstream task. Its fields (labels, for example) are derived from training examples and stored as JSON."""

    verb: ClassVar[str]  # the command that runs the task
    metric: ClassVar[str]  # name of the metric of `evaluate` that selects the best weights; higher is better
    linear_kind: ClassVar[tuple[str, bool]]  # type of the linear baseline, and whether its input is two texts
    num_texts: ClassVar[int] = 1  # per example, where that is fixed
    pools_rows: ClassVar[bool] = False  # whether a text is pooled to one vector; otherwise every token has an output

    # Fields of some tasks only; for the others these are plain class attributes with neutral values.
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
        """Derive the task from examples; raise InputError if nothing can be learned from them."""

    @abstractmethod
    def encode(
        self, examples: Sequence[Any], tokenizer: Tokenizer, input_format: InputFormat, *, is_training: bool = False
    ) -> ExampleRows:
        """The examples as sequences with targets; missing and unknown labels are not supervised.

        With `is_training`, uninformative sequences may be dropped.
        """

    @abstractmethod
    def build_heads(self, head_spec: HeadSpec) -> dict[str, nn.Module]:
        """The heads of the task."""

    @abstractmethod
    def predictions(self, examples: Sequence[Any], rows: ExampleRows, logits: Logits) -> list[Any]:
        """A prediction for each example from the logits of the heads."""

    @abstractmethod
    def evaluate(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        """Metrics of these predictions; unlabeled examples are ignored."""

    @abstractmethod
    def compare_to_gold(self, example: Any, prediction: Any) -> AnswerComparison:
        """Compare a prediction with its gold answer, for error analysis."""

    def to_source_format(self, prediction: Any) -> Any:
        """A prediction in the notation of the training examples, for output; metrics use predictions as they are."""
        return prediction

    def calibrate(self, examples: Sequence[Any], rows: ExampleRows, logits: Logits) -> Task:
        """The task with temperature or threshold calibrated on the dev set."""
        return self

    @property
    def num_classes(self) -> int:
        """The number of classes, where it is fixed."""
        return max(1, len(self.labels or self.tags))

    @property
    def is_multi_label(self) -> bool:
        """Whether an example may have any number of labels."""
        return self.kind == "several"

    @property
    def name(self) -> str:
        class_path = f"{type(self).__module__}:{type(self).__name__}"
        return next(name for name, path in TASKS.items() if path == class_path)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **asdict(self)}


def task_class(name: str) -> type[Task]:
    """The class of a task, imported on demand."""
    if name not in TASKS:
        raise InputError(f"no task named {name!r}", hint=f"there are: {', '.join(TASKS)}")
    module, _, class_name = TASKS[name].partition(":")
    return getattr(import_module(module), class_name)


def task_from_json(settings: Mapping[str, Any]) -> Task:
    """The inverse of `Task.to_dict`."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items() if name != "name"
    }
    try:
        return task_class(settings["name"])(**fields)
    except TypeError as error:
        hint = "it was made by another version of forebear"
        raise InputError(f"the task's fields do not fit: {error}", hint=hint) from error


# --- Prediction: packed batches of similar length, logits in the order of the examples ---

BATCH_TOKENS = 4096  # tokens per batch: enough to use the processor, little memory
EXAMPLE_HEADS = ("label",)  # heads with one output per example
ROW_HEADS = ("choice",)  # heads with one output per sequence
TOKEN_HEADS = ("tag", "start", "end")  # heads with one output per token; other heads belong to no task


@runtime_checkable
class Scorer(Protocol):
    """A torch-free model that computes logits from arrays; its CRF, if any, has transition, start and end scores."""

    @property
    def transitions(self) -> Sequence[np.ndarray] | None: ...

    def logits(self, inputs: TargetArrays) -> dict[str, np.ndarray]: ...


def predict_logits(model: Model | Scorer, rows: ExampleRows, progress: ProgressFn | None = None) -> Logits:
    """The logits of each head: per example (label, choice), or per sequence with one row per token.

    `model` is a neural network or a torch-free Scorer.
    """
    rows = rows.per_row()
    score = model.logits if isinstance(model, Scorer) else _network_scorer(model, int(rows.lengths.sum()))
    outputs: dict[str, dict[int, np.ndarray]] = {}  # logits by example or sequence
    num_done = 0
    longest_first = np.argsort(-rows.example_lengths, kind="stable").tolist()
    for examples in token_batches(longest_first, lambda example: int(rows.example_lengths[example]), BATCH_TOKENS):
        row_ids = [row for example in examples for row in rows.row_range(example)]
        for name, array in score(rows.make_batch(examples).inputs).items():
            if name in EXAMPLE_HEADS:
                item_ids, logits = examples, array
            elif name in ROW_HEADS:
                counts = [len(rows.row_range(example)) for example in examples]
                item_ids, logits = examples, np.split(array, np.cumsum(counts)[:-1])
            else:
                item_ids, logits = row_ids, np.split(array, np.cumsum(rows.lengths[row_ids])[:-1])
            outputs.setdefault(name, {}).update(zip(item_ids, logits, strict=True))
        num_done += len(examples)
        if progress is not None:
            progress(num_done, len(rows))
    in_order = {name: [values[index] for index in range(len(values))] for name, values in outputs.items()}
    return {**in_order, **_crf_scores(model)}


def _crf_scores(model: Model | Scorer) -> dict[str, Sequence[np.ndarray]]:
    """The transition, start and end scores of a CRF; empty without one."""
    if isinstance(model, Scorer):
        return {} if model.transitions is None else {"transitions": model.transitions}
    from forebear.nn.heads import TagHead

    head = dict(model.heads.items()).get("tag")
    crf = head.crf if isinstance(head, TagHead) else None
    if crf is None:
        return {}
    parameters = (crf.transition_bias, crf.start_bias, crf.end_bias)
    return {"transitions": [tensor.detach().float().cpu().numpy() for tensor in parameters]}


def _network_scorer(model: Model, num_tokens: int) -> Callable[[TargetArrays], dict[str, np.ndarray]]:
    import torch

    from forebear.nn.encode_rows import pack_for_batch
    from forebear.nn.inference_mode import inference_mode

    model = pack_for_batch(model.eval(), num_tokens)
    heads = [name for name in model.heads if name in (*EXAMPLE_HEADS, *ROW_HEADS, *TOKEN_HEADS)]

    def score(inputs: TargetArrays) -> dict[str, np.ndarray]:
        with inference_mode():
            tensors = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.items()}
            return {name: logits.float().cpu().numpy() for name, logits in model.logits(tensors, heads).items()}

    return score
