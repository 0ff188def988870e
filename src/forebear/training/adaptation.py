"""Ways of adapting a pre-trained encoder to a task: all of it learns, its upper layers, or only what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from forebear.errors import InputError
from forebear.objectives.input_format import InputFormat, Pooling, PromptSide, TaskEncoderConfig, TaskEncoderKind
from forebear.tasks.task import HeadSpec, Task

if TYPE_CHECKING:
    from forebear.nn.encoder import Encoder
    from forebear.nn.model import Model

How = Literal["finetune", "freeze", "features"]
MAX_POOLED_READERS = (
    "convolution",
    "recurrent",
)  # readers of whose vectors the largest numbers stand for a row, not the means


@dataclass(frozen=True)
class Adaptation:
    """how            finetune: every weight learns; freeze: the lower layers stay as they are; features: the whole
                   encoder does, and a head learns to read a mixture of all its layers (ELMo's way)
    freeze_layers  with freeze: how many layers stay, beside the embedding; None: half of them
    layer_decay    each layer learns with this share of the rate of the one above it
    read           the vector that stands for a row: first, last, mean or max; None: as in the milestone's paper, and
                   the mean where features are read
    language       how much predicting the next token counts beside the task, for encoders that can (GPT)
    dropout        share of numbers that heads do not see in training
    balanced       mistakes about rare labels count more, so that all labels count alike
    reader         what reads vectors of words, where they are all that was pre-trained; it learns from nothing. With
                   freeze the vectors stay and it learns; with features the head reads their mean, and of two texts
                   how much each word differs from its likes in the other
    reader_width   of what it reads; None: that of the vectors
    reader_dropout share of the numbers of vectors that it does not see in training
    mixture        where a recurrent encoder's layers, mixed as the task learns, are put: "before" the reader, beside
                   the vectors of words ([x; ELMo]), "after" it, beside what it makes of them, or "both"
    mixture_norm   the layers are brought to one scale before they are mixed
    """

    how: How = "finetune"
    freeze_layers: int | None = None
    layer_decay: float = 1.0
    read: Pooling | None = None
    language: float = 0.0
    dropout: float = 0.1
    balanced: bool = False
    reader: TaskEncoderKind | None = None
    reader_width: int | None = None
    reader_dropout: float = 0.0
    mixture: PromptSide | None = None
    mixture_norm: bool = False

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            prompting = "; a prompt without training is asked by: forebear ask RUN TEXT --labels A,B"
            raise InputError(f"--how is {self.how!r}", hint=f"there are: {', '.join(get_args(How))}{prompting}")
        if self.read not in (None, *get_args(Pooling)):
            raise InputError(f"--read is {self.read!r}", hint=f"there are: {', '.join(get_args(Pooling))}")
        if self.freeze_layers is not None and self.how != "freeze":
            raise InputError("--freeze-layers means nothing without --how freeze", hint="add --how freeze")
        if self.freeze_layers is not None and self.freeze_layers < 0:
            raise InputError(f"--freeze-layers is {self.freeze_layers}", hint="give 0 or more")
        if not 0 < self.layer_decay <= 1:
            raise InputError(f"--layer-decay is {self.layer_decay}", hint="give a share above 0, up to 1")
        if self.layer_decay < 1 and self.how == "features":
            raise InputError("--layer-decay means nothing where no layer learns", hint="leave it out")
        if not 0 <= self.dropout < 1 or self.language < 0:
            message = f"--head-dropout {self.dropout}, --language {self.language}"
            raise InputError(message, hint="give a dropout from 0 to below 1, and a weight of 0 or more")
        self._check_reader()

    def _check_reader(self) -> None:
        if self.reader not in (None, *get_args(TaskEncoderKind)):
            raise InputError(f"--reader is {self.reader!r}", hint=f"there are: {', '.join(get_args(TaskEncoderKind))}")
        if self.reader not in (None, "mean") and self.how == "features":
            message = f"--reader {self.reader} would learn nothing with --how features, which takes vectors as they are"
            raise InputError(message, hint="--how freeze: the vectors stay, and what reads them learns")
        if self.reader_width is not None and self.reader_width < 1:
            raise InputError(f"--reader-width is {self.reader_width}", hint="give 1 or more")
        if self.reader_width is not None and self.how == "features":
            message = "--reader-width means nothing with --how features, which takes vectors as they are"
            raise InputError(message, hint="leave it out")
        if self.mixture not in (None, *get_args(PromptSide)):
            raise InputError(f"--mixture is {self.mixture!r}", hint=f"there are: {', '.join(get_args(PromptSide))}")
        if (self.mixture or self.mixture_norm) and self.reader is None:
            raise InputError("--mixture means nothing without a reader", hint="add one: --reader recurrent")
        if not 0 <= self.reader_dropout < 1:
            raise InputError(f"--dropout is {self.reader_dropout}", hint="give a share from 0 to below 1")

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        if self.reader is None:  # most have an encoder of their own
            values = {name: value for name, value in values.items() if not name.startswith("reader")}
        if self.mixture is None:
            values = {name: value for name, value in values.items() if not name.startswith("mixture")}
        return values

    def task_encoder_config(self, task: Task) -> TaskEncoderConfig:
        """What is to read vectors of words for this task, where they need it."""
        encoder_kind = None if self.how == "features" else self.reader
        mixture_options = {"mixture": self.mixture or "before", "normed": self.mixture_norm}
        return TaskEncoderConfig(
            encoder_kind, self.reader_width, task.linear_kind[1], self.reader_dropout, **mixture_options
        )

    def build_model(
        self, pretrained: Model, task: Task, input_format: InputFormat, label_weights: tuple[float, ...] | None = None
    ) -> Model:
        """The encoder with the task's heads, still without values; what does not learn is marked so."""
        from forebear.nn.model import Model

        encoder = pretrained.encoder
        features, widths = self.how == "features", encoder.widths
        if features and len(set(widths)) > 1:
            width_list = " and ".join(f"{width:,}" for width in widths)
            hint = "--how freeze, or pre-train it with layers of one width"
            raise InputError(f"its layers are {width_list} numbers wide: they cannot be mixed", hint=hint)
        default_pooling = "max" if self.reader in MAX_POOLED_READERS else input_format.pooling
        pooling = self.read or ("mean" if features else default_pooling)
        head_spec = HeadSpec(
            encoder.width,
            encoder.depth,
            pooling,
            dense=pooling != "last",
            features=features,
            dropout=self.dropout,
            weights=label_weights,
        )
        heads = task.build_heads(head_spec)
        if self.language:
            heads["next"] = pretrained.heads["next"]
        model = Model(encoder, heads)
        for parameter in self._parameters_to_freeze(encoder):
            parameter.requires_grad_(False)
        return model

    def _parameters_to_freeze(self, encoder: Encoder) -> list[Any]:
        if self.how == "finetune":
            return []
        if self.how == "features":
            return list(encoder.parameters())
        layers = encoder.depth // 2 if self.freeze_layers is None else self.freeze_layers
        if layers > encoder.depth:
            hint = f"give at most {encoder.depth}, or --how features"
            raise InputError(f"--freeze-layers is {layers}, but there are {encoder.depth}", hint=hint)
        frozen = list(encoder.lower_parameters(layers))
        above = {id(parameter) for parameter in encoder.lower_parameters(encoder.depth)} - {
            id(parameter) for parameter in frozen
        }
        if 0 < layers < encoder.depth and not above:
            message = "all its layers are one and the same: none can stay while another learns"
            raise InputError(message, hint="--freeze-layers 0, --how features or --how finetune")
        return frozen

    def lr_scales(self, model: Model) -> dict[str, float]:
        """Of the rate, by the name of the parameter: less, the lower its layer."""
        if self.layer_decay == 1:
            return {}
        encoder = model.encoder
        layer_of: dict[int, int] = {}
        for layer in range(encoder.depth + 1):
            for parameter in encoder.lower_parameters(layer):
                layer_of.setdefault(id(parameter), layer)
        names: Mapping[str, Any] = dict(model.named_parameters())
        top = encoder.depth + 1
        return {name: self.layer_decay ** (top - layer_of.get(id(parameter), top)) for name, parameter in names.items()}
