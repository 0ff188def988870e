"""Adapt a pre-trained encoder to a task: fine-tuning, frozen layers, or feature extraction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from forebear.errors import InputError
from forebear.objectives.input_format import InputFormat, MixPosition, Pooling, TaskEncoderConfig, TaskEncoderKind
from forebear.tasks.task import HeadSpec, Task

if TYPE_CHECKING:
    from forebear.nn.encoder import Encoder
    from forebear.nn.model import Model

How = Literal["finetune", "freeze", "features"]
MAX_POOLED_TASK_ENCODERS = ("convolution", "recurrent")  # task encoders with max pooling instead of mean


@dataclass(frozen=True)
class Adaptation:
    """How a pre-trained model is adapted to a task.

    how            finetune: train all weights; freeze: freeze the lower layers; features: freeze the whole encoder
                   and train a head on a learned mixture of all its layers (scalar mix, as ELMo does)
    freeze_layers  with freeze: number of frozen layers, besides the embedding; None: half of them
    layer_decay    layer-wise learning-rate decay: learning rate of a layer, relative to the layer above it
    read           pooling: first, last, mean or max; None: as in the model's paper, or the mean with features
    language       weight of the auxiliary language-model loss (lm_weight), for causal encoders (GPT)
    dropout        dropout of the heads
    balanced       whether class weights balance the labels
    reader         task encoder above word vectors, if nothing else was pre-trained; it is trained from scratch.
                   With freeze the vectors are frozen; with features the head reads their mean and, for text
                   pairs, how much each word differs from similar words in the other text
    reader_width   hidden size of the task encoder; None: that of the vectors
    reader_dropout dropout of its input vectors
    mixture        where the scalar mix of a recurrent encoder's layers is concatenated: "before" the task encoder, to
                   the word vectors ([x; ELMo]), "after" it, to its output, or "both"
    mixture_norm   normalize the layers before they are mixed
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
    mixture: MixPosition | None = None
    mixture_norm: bool = False

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            prompting_hint = "; a prompt without training is asked by: forebear ask RUN TEXT --labels A,B"
            raise InputError(f"--how is {self.how!r}", hint=f"there are: {', '.join(get_args(How))}{prompting_hint}")
        choices = {"read": Pooling, "reader": TaskEncoderKind, "mixture": MixPosition}
        for name, choice_type in choices.items():
            if (value := getattr(self, name)) not in (None, *get_args(choice_type)):
                raise InputError(f"--{name} is {value!r}", hint=f"there are: {', '.join(get_args(choice_type))}")
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
        self._check_task_encoder()

    def _check_task_encoder(self) -> None:
        if self.reader not in (None, "mean") and self.how == "features":
            message = f"--reader {self.reader} would learn nothing with --how features, which takes vectors as they are"
            raise InputError(message, hint="--how freeze: the vectors stay, and what reads them learns")
        if self.reader_width is not None and self.reader_width < 1:
            raise InputError(f"--reader-width is {self.reader_width}", hint="give 1 or more")
        if self.reader_width is not None and self.how == "features":
            message = "--reader-width means nothing with --how features, which takes vectors as they are"
            raise InputError(message, hint="leave it out")
        if (self.mixture or self.mixture_norm) and self.reader is None:
            raise InputError("--mixture means nothing without a reader", hint="add one: --reader recurrent")
        if not 0 <= self.reader_dropout < 1:
            raise InputError(f"--dropout is {self.reader_dropout}", hint="give a share from 0 to below 1")

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        if self.reader is None:  # most models need none
            values = {name: value for name, value in values.items() if not name.startswith("reader")}
        if self.mixture is None:
            values = {name: value for name, value in values.items() if not name.startswith("mixture")}
        return values

    def task_encoder_config(self, task: Task) -> TaskEncoderConfig:
        """The task encoder above word vectors, for models that need one."""
        kind, mixture = None if self.how == "features" else self.reader, self.mixture or "before"
        is_pair_task = task.linear_kind[1]
        return TaskEncoderConfig(kind, self.reader_width, is_pair_task, self.reader_dropout, mixture, self.mixture_norm)

    def build_model(
        self, pretrained: Model, task: Task, input_format: InputFormat, label_weights: tuple[float, ...] | None = None
    ) -> Model:
        """The encoder with the task's heads, uninitialized; frozen parameters require no gradient."""
        from forebear.nn.model import Model

        encoder = pretrained.encoder
        features, widths = self.how == "features", encoder.widths
        if features and len(set(widths)) > 1:
            width_list = " and ".join(f"{width:,}" for width in widths)
            hint = "--how freeze, or pre-train it with layers of one width"
            raise InputError(f"its layers are {width_list} numbers wide: they cannot be mixed", hint=hint)
        default_pooling = "max" if self.reader in MAX_POOLED_TASK_ENCODERS else input_format.pooling
        pooling = self.read or ("mean" if features else default_pooling)
        is_dense, dropout = pooling != "last", self.dropout
        head_spec = HeadSpec(encoder.width, encoder.depth, pooling, is_dense, features, dropout, label_weights)
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
        num_frozen = encoder.depth // 2 if self.freeze_layers is None else self.freeze_layers
        if num_frozen > encoder.depth:
            hint = f"give at most {encoder.depth}, or --how features"
            raise InputError(f"--freeze-layers is {num_frozen}, but there are {encoder.depth}", hint=hint)
        frozen = list(encoder.lower_parameters(num_frozen))
        higher_parameters = {*map(id, encoder.lower_parameters(encoder.depth))} - {*map(id, frozen)}
        if 0 < num_frozen < encoder.depth and not higher_parameters:
            message = "all its layers are one and the same: none can stay while another learns"
            raise InputError(message, hint="--freeze-layers 0, --how features or --how finetune")
        return frozen

    def lr_scales(self, model: Model) -> dict[str, float]:
        """Factors of the learning rate by parameter name, smaller in lower layers (layer-wise learning-rate decay)."""
        if self.layer_decay == 1:
            return {}
        encoder = model.encoder
        layer_of: dict[int, int] = {}
        for layer in range(encoder.depth + 1):
            for parameter in encoder.lower_parameters(layer):
                layer_of.setdefault(id(parameter), layer)
        top = encoder.depth + 1
        layers = {name: layer_of.get(id(parameter), top) for name, parameter in model.named_parameters()}
        return {name: self.layer_decay ** (top - layer) for name, layer in layers.items()}
