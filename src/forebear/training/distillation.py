"""Knowledge distillation (Hinton et al. 2015): heads, student network and learner that match a teacher's outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.encoder import Encoder, States
from forebear.nn.heads import LabelHead, LMHead, PointerHead, TagHead, pad_scores
from forebear.nn.layers import deferred_linear
from forebear.nn.model import Model, StateDict
from forebear.nn.softmax import row_slices
from forebear.nn.transformer import Transformer, TransformerBlock
from forebear.training.distillation_targets import DistillationConfig
from forebear.training.gradient_learner import GradientLearner

PROJECTION_FILE = "projected.safetensors"  # projections between layers of different sizes, for training only
MIN_LOGIT = -1e4  # in place of -inf, so that differences stay finite


# --- Output distillation ---


@dataclass(frozen=True)
class StudentStates(States):
    """A student's states, and its teacher's for the same sequences."""

    teacher: States = field(kw_only=True)


class LogitDistillation(nn.Module):
    """The distillation loss of a task head; the target is the teacher's logits."""

    def __init__(self, head: nn.Module, temperature: float) -> None:
        super().__init__()
        self._head, self.temperature = (head,), temperature  # in a tuple: its weights belong to the student

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        head: Any = self._head[0]
        if isinstance(head, TagHead) and target is not None:
            return _supervised_rows(target)
        return head.supervised_positions(lengths, None)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """T² · KL(teacher ‖ student) of logits divided by T, summed; for regression the squared difference.

        Targets are (E, answers), (T, tags) or, padded with -inf, (E, choices) and (B, positions); NaN: no target.
        """
        head: Any = self._head[0]
        positions = _supervised_rows(target)
        if isinstance(head, TagHead):
            logits = head.choose(head.dropout(head.vectors_at(states, positions))).float()
        elif isinstance(head, LabelHead):
            logits = head(states)[positions]
        else:  # a softmax over the tokens of a sequence, or over the sequences of an example
            example_ids: Any = states.groups
            sizes = states.lengths if isinstance(head, PointerHead) else tuple(torch.bincount(example_ids).tolist())
            logits = pad_scores(head(states), sizes)[positions]
        teacher_logits = target[positions, : logits.shape[1]]
        label_kind = head.kind if isinstance(head, LabelHead) else "one"
        if label_kind == "number":
            return functional.mse_loss(logits, teacher_logits, reduction="sum")
        if label_kind == "several":  # each label against its absence
            logits, teacher_logits = (
                torch.stack((scores, torch.zeros_like(scores)), -1).flatten(0, 1) for scores in (logits, teacher_logits)
            )
        student_log_probs, teacher_log_probs = (
            (scores.clamp_min(MIN_LOGIT) / self.temperature).log_softmax(1) for scores in (logits, teacher_logits)
        )
        divergence = functional.kl_div(student_log_probs, teacher_log_probs, reduction="sum", log_target=True)
        return self.temperature**2 * divergence  # T² keeps the size of gradients


def _supervised_rows(target: Tensor) -> Tensor:
    return (~torch.isnan(target[:, 0])).nonzero().squeeze(1)


class TokenDistillation(nn.Module):
    """Cross-entropy and distillation loss of tokens in one, which computes the logits of large vocabularies once."""

    def __init__(self, head: LMHead, teacher_head: LMHead, config: DistillationConfig) -> None:
        super().__init__()
        self._heads, self.config = (head, teacher_head), config

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return self._heads[0].supervised_positions(lengths, target)

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        head, teacher_head = self._heads
        positions = (target >= 0).nonzero().squeeze(1)
        with torch.no_grad():
            teacher_x = teacher_head.transform_states(_states_at(states.teacher, positions))
        x = head.transform_states(_states_at(states, positions))
        teacher_output = (teacher_x, teacher_head.weight, teacher_head.bias)
        return mixed_cross_entropy(x, head.weight, head.bias, target[positions], teacher_output, self.config)


def _states_at(states: States, positions: Tensor) -> Tensor:
    is_all = len(positions) == len(states.last) == sum(states.lengths)
    return states.last if is_all else states.last_at(positions)


def mixed_cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    teacher_output: tuple[Tensor, Tensor, Tensor | None],
    config: DistillationConfig,
) -> Tensor:
    """Σ (1 − α) · −log q[target] + α · T² · KL(p_T ‖ q_T) over the (N, D) vectors x; weight is (V, D), α config.share.

    `teacher_output` are the states, the weight and the bias that give the teacher's logits. Logits of both are computed
    once, for a slice of the rows at a time.
    """
    return _TokenDistillationFunction.apply(x, weight, bias, target, *teacher_output, config.temperature, config.share)  # pyright: ignore[reportReturnType]


class _TokenDistillationFunction(torch.autograd.Function):
    """Computes gradients in the forward pass, slice by slice, and scales them in the backward pass.

    The gradient with respect to the student's logits is (1 − α) · (q − [target]) + α · T · (q_T − p_T).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *teacher_inputs: Any
    ) -> Tensor:
        teacher_x, teacher_weight, teacher_bias, temperature, alpha = teacher_inputs
        device_type = x.device.type
        dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else x.dtype
        ctx.dtypes = x.dtype, weight.dtype
        x, teacher_x, weight, teacher_weight = (tensor.to(dtype) for tensor in (x, teacher_x, weight, teacher_weight))
        x_gradient, weight_gradient = torch.empty_like(x), torch.zeros(weight.shape, device=x.device)
        bias_gradient = torch.zeros(len(weight) if bias is not None else 0, device=x.device)
        loss = torch.zeros((), device=x.device)
        with torch.autocast(device_type, enabled=False):
            for row_slice in row_slices(len(x), len(weight)):
                scores = _scores(x[row_slice], weight, bias)
                log_p = _scores(teacher_x[row_slice], teacher_weight, teacher_bias).div_(temperature).log_softmax(1)
                log_q = (scores / temperature).log_softmax(1)
                p = log_p.exp()
                loss += alpha * temperature**2 * log_p.sub_(log_q).mul_(p).sum()
                score_gradient = log_q.exp_().sub_(p).mul_(alpha * temperature)
                if alpha < 1:
                    log_q = scores.log_softmax(1)
                    target_column = target[row_slice, None]
                    loss -= (1 - alpha) * log_q.gather(1, target_column).sum()
                    q = log_q.exp_().scatter_add_(1, target_column, log_q.new_full(target_column.shape, -1.0))
                    score_gradient.add_(q, alpha=1 - alpha)
                bias_gradient += score_gradient.sum(0) if bias is not None else 0.0
                cast_gradient = score_gradient.to(dtype)
                x_gradient[row_slice] = cast_gradient @ weight
                weight_gradient += (cast_gradient.t() @ x[row_slice]).float()
        ctx.save_for_backward(x_gradient, weight_gradient, bias_gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        (scale,), (x_dtype, weight_dtype) = gradients, ctx.dtypes
        scaled = [x_gradient.mul(scale).to(x_dtype), weight_gradient.mul(scale).to(weight_dtype)]
        return (*scaled, bias_gradient.mul(scale) if bias_gradient.numel() else None, *[None] * 6)


def _scores(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scores = (x @ weight.t()).float()
    return scores if bias is None else scores.add_(bias.float())


# --- Layer distillation ---


def matching_teacher_layers(student_depth: int, teacher_depth: int) -> list[int]:
    """The teacher's layer, from 1, that each layer of the student matches: evenly spaced, the last with the last."""
    return [(2 * layer * teacher_depth + student_depth) // (2 * student_depth) for layer in range(1, student_depth + 1)]


class _LayerDistillation(nn.Module):
    """Compares student and teacher at every token, layer by layer."""

    def __init__(self, student: Encoder, teacher: Encoder) -> None:
        super().__init__()
        self._encoders = student, teacher
        self.pairs = list(enumerate(matching_teacher_layers(student.depth, teacher.depth), 1))

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> None:
        return None


class HiddenStateDistillation(_LayerDistillation):
    """Mean squared difference of hidden states; if sizes differ, the student's are projected first."""

    def __init__(self, student: Encoder, teacher: Encoder) -> None:
        super().__init__(student, teacher)
        widths = student.width, teacher.width
        self.project = nn.ModuleList(deferred_linear(*widths) for _ in self.pairs) if len({*widths}) > 1 else None

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        total = torch.zeros((), device=target.device)
        for index, (student_layer, teacher_layer) in enumerate(self.pairs):
            x = states.layers[student_layer]
            x = x if self.project is None else self.project[index](x)
            total = total + (x.float() - states.teacher.layers[teacher_layer].float()).square().mean(1).sum()
        return total / len(self.pairs)


class AttentionDistillation(_LayerDistillation):
    """KL(teacher ‖ student) of attention weights, averaged over heads and layers."""

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        total = torch.zeros((), device=target.device)
        for student_layer, teacher_layer in self.pairs:
            with torch.no_grad():
                teacher_maps = self._attention_maps(1, states.teacher, teacher_layer)
            for p, q in zip(teacher_maps, self._attention_maps(0, states, student_layer), strict=True):
                tiny = torch.finfo(torch.float32).tiny
                log_q = q.float().clamp_min(tiny).log()
                total = total + functional.kl_div(log_q, p.float(), reduction="sum") / len(p)
        return total / len(self.pairs)

    def _attention_maps(self, index: int, states: States, layer: int) -> list[Tensor]:
        encoder = self._encoders[index]
        assert isinstance(encoder, Transformer)
        block = encoder.blocks[(layer - 1) % len(encoder.blocks)]
        assert isinstance(block, TransformerBlock)
        return block.attention_weights(states.layers[layer - 1], states.lengths)


def layer_distillations(config: DistillationConfig, student: Encoder, teacher: Encoder) -> dict[str, nn.Module]:
    """The layer losses of a configuration. Raise InputError if the encoders do not match."""
    losses: dict[str, nn.Module] = {}
    if config.hidden:
        losses["hidden"] = HiddenStateDistillation(student, teacher)
    if config.attention:
        student_heads, teacher_heads = (
            encoder.heads if isinstance(encoder, Transformer) else None for encoder in (student, teacher)
        )
        if student_heads != teacher_heads or student_heads is None:
            heads_text = f"the student has {student_heads} heads, the teacher {teacher_heads}"
            message = f"--attention compares maps head by head, but {heads_text}"
            hint = f"give the student as many (--heads {teacher_heads}), or leave --attention out"
            raise InputError(message, hint=hint)
        losses["attention"] = AttentionDistillation(student, teacher)
    return losses


# --- Student ---


class StudentModel(Model):
    """A network with extra heads for distillation, which are not saved and do not predict."""

    def __init__(self, model: Model, extra_heads: Mapping[str, nn.Module], teacher: Model | None) -> None:
        super().__init__(model.encoder, {**model.heads, **extra_heads})
        self.student_head_names, self.projections = tuple(model.heads), dict[str, Tensor]()
        self._teacher = (teacher,)  # in a tuple, so that it is neither trained nor saved

    @property
    def teacher(self) -> Model | None:
        return self._teacher[0]

    def encode(self, inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor | None]) -> States:
        student_states = super().encode(inputs, targets)
        if self.teacher is None or not self.training:
            return student_states
        teacher_inputs = {name: array for name, array in inputs.items() if name != "groups"}
        with torch.no_grad():
            teacher_states = self.teacher.encoder(**teacher_inputs, positions=student_states.positions)
        return StudentStates(**vars(student_states), teacher=teacher_states)

    def logits(self, inputs: Mapping[str, Tensor], heads: Iterable[str] | None = None) -> StateDict:
        return super().logits(inputs, [name for name in self.student_head_names if heads is None or name in heads])

    def tensors(self, *, extra: bool = False) -> StateDict:
        """The weights without the extra heads, or only theirs."""
        return {name: tensor for name, tensor in super().tensors().items() if self._is_extra(name) == extra}

    def load(self, tensors: Mapping[str, Tensor], *, file: str | None = None) -> Model:
        return super().load({**tensors, **self.projections}, file=file)

    def _is_extra(self, name: str) -> bool:
        return name.startswith("heads.") and name.split(".")[1] not in self.student_head_names


class DistillationLearner(GradientLearner):
    """Gradient descent of a student with its teacher on the same device."""

    model: StudentModel

    def build_optimizer(self) -> None:
        super().build_optimizer()
        if self.model.teacher is not None:
            self.model.teacher.to(self.device.device)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if extra := self.model.tensors(extra=True):
            save_file({name: tensor.cpu() for name, tensor in extra.items()}, folder / PROJECTION_FILE)

    def load(self, folder: Path) -> None:
        self.model.projections = load_file(folder / PROJECTION_FILE) if (folder / PROJECTION_FILE).exists() else {}
        super().load(folder)


def inherit_layers(teacher_tensors: Mapping[str, Tensor], student: Model, depths: tuple[int, int]) -> StateDict:
    """Initial tensors of a student of the same hidden size: the matching layers of its teacher, and all other tensors.

    A student with a shorter context takes the first positions.
    """
    teacher_layers, inherited = matching_teacher_layers(*depths), {}
    has_blocks = "encoder.blocks.1.attention.output.weight" in teacher_tensors  # else all layers share one block
    for name, parameter in student.named_parameters():
        teacher_name, layer_match = name, re.match(r"encoder\.blocks\.(\d+)\.", name)
        if layer_match and has_blocks:
            teacher_name = f"encoder.blocks.{teacher_layers[int(layer_match[1])] - 1}.{name[layer_match.end() :]}"
        tensor = teacher_tensors.get(teacher_name)
        if tensor is not None and name == "encoder.embedding.position.weight":
            tensor = tensor[: len(parameter)]
        if tensor is not None and tensor.shape == parameter.shape:
            inherited[name] = tensor.clone()
    return inherited
