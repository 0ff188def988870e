"""A student learns what a teacher thinks of every possible answer, beside which one is true (Hinton et al. 2015)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import InputError
from forebear.nn.encoder import Encoder, States
from forebear.nn.heads import LabelHead, LMHead, PointerHead, TagHead, pad_scores
from forebear.nn.layers import deferred_linear
from forebear.nn.model import Model, StateDict
from forebear.nn.softmax import row_slices
from forebear.nn.transformer import Transformer, TransformerBlock
from forebear.training.gradient import GradientLearner
from forebear.training.soft_targets import DistillationConfig

PROJECTED = "projected.safetensors"  # between layers of unequal width; of use in training only
LEAST = -1e4  # the logit of what cannot be: finite, so that no difference is no number


# -- what answers


@dataclass(frozen=True)
class StudentStates(States):
    """A student's states, and those of its teacher for the same rows."""

    taught: States | None = None

    @property
    def teacher(self) -> States:
        assert self.taught is not None
        return self.taught


def softened(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """T² · KL(teacher ‖ student) of (n, K) logits that are divided by T, summed: T² keeps gradients as large."""
    own, theirs = ((one.clamp_min(LEAST) / temperature).log_softmax(1) for one in (logits, taught))
    return temperature**2 * functional.kl_div(own, theirs, reduction="sum", log_target=True)


class LogitDistillation(nn.Module):
    """A head of a task, held against the teacher's logits, which are the target. The head is asked, not owned."""

    def __init__(self, head: nn.Module, temperature: float) -> None:
        super().__init__()
        self._head, self.temperature = (head,), temperature  # in a tuple: its weights have a name already

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        head: Any = self._head[0]
        return (
            _asked(target)
            if isinstance(head, TagHead) and target is not None
            else head.supervised_positions(lengths, None)
        )

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Targets are (E, answers), (T, tags) or, ending in -inf, (E, choices) and (B, places); NaN: nothing is said.

        Numbers have no softmax: their squared difference counts.
        """
        head: Any = self._head[0]
        asked = _asked(target)
        if isinstance(head, TagHead):
            logits = head.choose(head.dropout(head.at(states, asked))).float()
        elif isinstance(head, LabelHead):
            logits = head(states)[asked]
        else:  # a softmax over the tokens of a row, or over the rows of an example
            groups: Any = states.groups
            sizes = states.lengths if isinstance(head, PointerHead) else tuple(torch.bincount(groups).tolist())
            logits = pad_scores(head(states), sizes)[asked]
        taught = target[asked, : logits.shape[1]]
        kind = head.kind if isinstance(head, LabelHead) else "one"
        if kind == "number":
            return functional.mse_loss(logits, taught, reduction="sum")
        if kind == "several":  # each label against its own absence
            logits, taught = (torch.stack((one, torch.zeros_like(one)), -1).flatten(0, 1) for one in (logits, taught))
        return softened(logits, taught, self.temperature)


def _asked(target: Tensor) -> Tensor:
    return (~torch.isnan(target[:, 0])).nonzero().squeeze(1)


class TokenDistillation(nn.Module):
    """Truth and teacher in one loss, for tokens: among so many, and at so many places, each is scored once."""

    def __init__(self, head: LMHead, theirs: LMHead, how: DistillationConfig) -> None:
        super().__init__()
        self._heads, self.how = (head, theirs), how

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return self._heads[0].supervised_positions(lengths, target)

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        head, theirs = self._heads
        asked = (target >= 0).nonzero().squeeze(1)
        with torch.no_grad():
            taught = theirs.transform_states(_at(states.teacher, asked))
        told = (taught, theirs.weight, theirs.bias)
        return mixed_cross_entropy(
            head.transform_states(_at(states, asked)), head.weight, head.bias, target[asked], told, self.how
        )


def _at(states: States, asked: Tensor) -> Tensor:
    return states.last if len(asked) == len(states.last) == sum(states.lengths) else states.last_at(asked)


def mixed_cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    taught: tuple[Tensor, Tensor, Tensor | None],
    how: DistillationConfig,
) -> Tensor:
    """Σ (1 − share) · −log q[target] + share · T² · KL(p_T ‖ q_T) over the (N, D) vectors x; weight is (V, D).

    `taught` are the vectors, the weight and the bias of which the teacher's scores are made. The scores of either are
    held for a part of the rows at a time, and once.
    """
    return _TokenDistillationFunction.apply(x, weight, bias, target, *taught, how.temperature, how.share)  # pyright: ignore[reportReturnType]


class _TokenDistillationFunction(torch.autograd.Function):
    """As `cross_entropy._Summed`: gradients are made on the way forward, part by part, and scaled on the way back.

    By the student's scores they are (1 − share) · (q − [target]) + share · T · (q_T − p_T).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, *more: Any) -> Tensor:
        y, their_weight, their_bias, temperature, share = more
        kind = x.device.type
        lower = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        ctx.kinds = x.dtype, weight.dtype
        x, y, weight, their_weight = (one.to(lower) for one in (x, y, weight, their_weight))
        by_x, by_weight = torch.empty_like(x), torch.zeros(weight.shape, device=x.device)
        by_bias = torch.zeros(len(weight) if bias is not None else 0, device=x.device)
        cost = torch.zeros((), device=x.device)
        with torch.autocast(kind, enabled=False):
            for part in row_slices(len(x), len(weight)):
                scores = _scores(x[part], weight, bias)
                log_p = _scores(y[part], their_weight, their_bias).div_(temperature).log_softmax(1)
                log_q = (scores / temperature).log_softmax(1)
                p = log_p.exp()
                cost += share * temperature**2 * log_p.sub_(log_q).mul_(p).sum()
                slope = log_q.exp_().sub_(p).mul_(share * temperature)
                if share < 1:
                    log_q = scores.log_softmax(1)
                    wanted = target[part, None]
                    cost -= (1 - share) * log_q.gather(1, wanted).sum()
                    q = log_q.exp_().scatter_add_(1, wanted, log_q.new_full(wanted.shape, -1.0))
                    slope.add_(q, alpha=1 - share)
                by_bias += slope.sum(0) if bias is not None else 0.0
                low = slope.to(lower)
                by_x[part] = low @ weight
                by_weight += (low.t() @ x[part]).float()
        ctx.save_for_backward(by_x, by_weight, by_bias)
        return cost

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_x, by_weight, by_bias = ctx.saved_tensors
        (scale,), (x_kind, weight_kind) = gradients, ctx.kinds
        found = [by_x.mul(scale).to(x_kind), by_weight.mul(scale).to(weight_kind)]
        return (*found, by_bias.mul(scale) if by_bias.numel() else None, *[None] * 6)


def _scores(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    scores = (x @ weight.t()).float()
    return scores if bias is None else scores.add_(bias.float())


# -- what is inside


def layers_of(student: int, teacher: int) -> list[int]:
    """Which of the teacher's layers, from 1, each of the student's stands for: evenly apart, the last for the last."""
    return [(2 * layer * teacher + student) // (2 * student) for layer in range(1, student + 1)]


class _LayerDistillation(nn.Module):
    """What is compared at every token, from layer to layer."""

    def __init__(self, student: Encoder, teacher: Encoder) -> None:
        super().__init__()
        self._encoders = student, teacher
        self.pairs = list(enumerate(layers_of(student.depth, teacher.depth), 1))

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> None:
        return None


class HiddenStateDistillation(_LayerDistillation):
    """The mean squared difference of vectors; where widths differ, the student's is led to the teacher's first."""

    def __init__(self, student: Encoder, teacher: Encoder) -> None:
        super().__init__(student, teacher)
        narrow, wide = student.width, teacher.width
        self.project = nn.ModuleList(deferred_linear(narrow, wide) for _ in self.pairs) if narrow != wide else None

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        total = torch.zeros((), device=target.device)
        for number, (own, their) in enumerate(self.pairs):
            x = states.layers[own] if self.project is None else self.project[number](states.layers[own])
            total = total + (x.float() - states.teacher.layers[their].float()).square().mean(1).sum()
        return total / len(self.pairs)


class AttentionDistillation(_LayerDistillation):
    """KL(teacher ‖ student) of where a token looks, the mean of heads and layers."""

    def loss(self, states: StudentStates, target: Tensor) -> Tensor:
        total = torch.zeros((), device=target.device)
        for own, their in self.pairs:
            with torch.no_grad():
                theirs = self._maps(1, states.teacher, their)
            for p, q in zip(theirs, self._maps(0, states, own), strict=True):
                least = torch.finfo(torch.float32).tiny
                log_q = q.float().clamp_min(least).log()
                total = total + functional.kl_div(log_q, p.float(), reduction="sum") / len(p)
        return total / len(self.pairs)

    def _maps(self, whose: int, states: States, layer: int) -> list[Tensor]:
        encoder = self._encoders[whose]
        assert isinstance(encoder, Transformer)
        block = encoder.blocks[(layer - 1) % len(encoder.blocks)]
        assert isinstance(block, TransformerBlock)
        return block.attention_weights(states.layers[layer - 1], states.lengths)


def layer_distillations(how: DistillationConfig, student: Encoder, teacher: Encoder) -> dict[str, nn.Module]:
    """What compares the insides of two encoders; an error where they cannot be compared."""
    made: dict[str, nn.Module] = {}
    if how.hidden:
        made["hidden"] = HiddenStateDistillation(student, teacher)
    if how.attention:
        heads = tuple(one.heads if isinstance(one, Transformer) else None for one in (student, teacher))
        if heads[0] != heads[1] or None in heads:
            what = (
                f"--attention compares maps head by head, but the student has {heads[0]} heads, the teacher {heads[1]}"
            )
            raise InputError(what, hint=f"give the student as many (--heads {heads[1]}), or leave --attention out")
        made["attention"] = AttentionDistillation(student, teacher)
    return made


# -- who learns


class StudentModel(Model):
    """A network with more heads for what it learns from a teacher; only its own are saved, and answer."""

    def __init__(self, model: Model, more: Mapping[str, nn.Module], teacher: Model | None) -> None:
        super().__init__(model.encoder, {**model.heads, **more})
        self.own, self.projected = tuple(model.heads), dict[str, Tensor]()
        self._teacher = (teacher,)  # in a tuple: it does not learn, and is not saved

    @property
    def teacher(self) -> Model | None:
        return self._teacher[0]

    def encode(self, inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor | None]) -> States:
        own = super().encode(inputs, targets)
        if self.teacher is None or not self.training:
            return own
        seen = {name: array for name, array in inputs.items() if name != "groups"}
        with torch.no_grad():
            theirs = self.teacher.encoder(**seen, kept=own.positions)
        return StudentStates(own.layers, own.lengths, own.positions, own.groups, theirs)

    def logits(self, inputs: Mapping[str, Tensor], heads: Iterable[str] | None = None) -> StateDict:
        return super().logits(inputs, [name for name in self.own if heads is None or name in heads])

    def tensors(self) -> StateDict:
        return {name: one for name, one in super().tensors().items() if not self._is_more(name)}

    def more_tensors(self) -> StateDict:
        return {name: one for name, one in super().tensors().items() if self._is_more(name)}

    def load(self, tensors: Mapping[str, Tensor], *, file: str | None = None) -> Model:
        return super().load({**tensors, **self.projected}, file=file)

    def _is_more(self, name: str) -> bool:
        return name.startswith("heads.") and name.split(".")[1] not in self.own


class DistillationLearner(GradientLearner):
    """Descending with a teacher at hand."""

    model: StudentModel

    def build_optimizer(self) -> None:
        super().build_optimizer()
        if self.model.teacher is not None:
            self.model.teacher.to(self.device.device)

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        super().save(folder)
        if more := self.model.more_tensors():
            save_file({name: tensor.cpu() for name, tensor in more.items()}, folder / PROJECTED)

    def load(self, folder: Path) -> None:
        from safetensors.torch import load_file

        self.model.projected = load_file(folder / PROJECTED) if (folder / PROJECTED).exists() else {}
        super().load(folder)


def inherit_layers(given: Mapping[str, Tensor], student: Model, depths: tuple[int, int]) -> StateDict:
    """A teacher's tensors for a student as wide: of its layers those that the student's stand for, and all else.

    A shorter context begins with the first positions.
    """
    chosen, found = layers_of(*depths), {}
    for name, wanted in student.named_parameters():
        layer = re.match(r"encoder\.blocks\.(\d+)\.", name)
        theirs = name
        if layer and "encoder.blocks.1.attention.output.weight" in given:  # else one block is all of them
            theirs = f"encoder.blocks.{chosen[int(layer[1])] - 1}.{name[layer.end() :]}"
        tensor = given.get(theirs)
        if tensor is not None and name == "encoder.embedding.position.weight":
            tensor = tensor[: len(wanted)]
        if tensor is not None and tensor.shape == wanted.shape:
            found[name] = tensor.clone()
    return found
