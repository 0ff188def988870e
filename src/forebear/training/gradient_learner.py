"""Gradient descent: fused AdamW, device and precision, and the learner of all neural networks."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from forebear.data.io.workers import cpu_count
from forebear.errors import ForebearError, InputError
from forebear.objectives.batch import Batch, TargetArrays
from forebear.training.learner import LEARNER_STATE_FILE, NUM_TIMED_STEPS, WEIGHTS_FILE, Learner
from forebear.training.settings import Recipe

if TYPE_CHECKING:
    from forebear.nn.model import Model

# --- AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017) ---
# torch.optim has the same fused AdamW, but first loads torch's compiler, which takes seconds.

ADAM_BETA1 = 0.9
STATE_NAMES = ("step", "exp_avg", "exp_avg_sq")  # torch.optim's names for the state of each parameter


class AdamW:
    """Weight decay applies to matrices, not to vectors (norms, biases); `lr_scales` are by parameter name, else 1."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        weight_decay: float,
        beta2: float,
        epsilon: float = 1e-8,
        lr_scales: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters, self.beta2, self.epsilon = dict(parameters), beta2, epsilon
        self.state: dict[str, dict[str, Tensor]] = {state_name: {} for state_name in STATE_NAMES}
        # Names by weight decay and learning-rate scale.
        self._parameter_groups: dict[tuple[float, float], list[str]] = {}
        for name, parameter in self.parameters.items():
            self.state["step"][name] = torch.zeros((), device=parameter.device)
            self.state["exp_avg"][name] = torch.zeros_like(parameter)
            self.state["exp_avg_sq"][name] = torch.zeros_like(parameter)
            group = weight_decay if parameter.dim() > 1 else 0.0, (lr_scales or {}).get(name, 1.0)
            self._parameter_groups.setdefault(group, []).append(name)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for (weight_decay, lr_scale), names in self._parameter_groups.items():
            trained_names = [name for name in names if self.parameters[name].grad is not None]
            if not trained_names:
                continue
            parameters = [self.parameters[name] for name in trained_names]
            step_counts, means, squares = ([self.state[key][name] for name in trained_names] for key in STATE_NAMES)
            gradients = [value.grad for value in parameters if value.grad is not None]
            torch._foreach_add_(step_counts, 1)  # pyright: ignore[reportPrivateImportUsage]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                parameters,
                gradients,
                means,
                squares,
                [],
                step_counts,
                lr=lr * lr_scale,
                beta1=ADAM_BETA1,
                beta2=self.beta2,
                weight_decay=weight_decay,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )

    def zero_grad(self) -> None:
        """Clear all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """The optimizer state, for saving."""
        return {f"{key}.{name}": tensor for key in STATE_NAMES for name, tensor in self.state[key].items()}

    def load(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Load a saved state, unless names are missing or unexpected or shapes differ: then return those names."""
        current = self.state_tensors()
        mismatches = sorted(current.keys() ^ tensors.keys())
        mismatches += [name for name in current.keys() & tensors.keys() if current[name].shape != tensors[name].shape]
        for name, tensor in current.items() if not mismatches else ():
            tensor.copy_(tensors[name])
        return mismatches


# --- Device, threads and precision ---


@dataclass(frozen=True)
class DeviceConfig:
    """Device, threads and precision. They are stored with the run, as the weights depend on them."""

    device: str
    threads: int
    precision: str  # float32, or bfloat16 for matrix products

    def for_process(self, local_rank: int, local_size: int, recipe: Recipe) -> DeviceConfig:
        """The device of one of several processes on a machine: one GPU each, or an equal number of cores."""
        threads = recipe.threads or max(1, cpu_count() // local_size)
        torch.set_num_threads(threads)
        if not self.device.startswith("cuda"):
            return replace(self, threads=threads)
        torch.cuda.set_device(local_rank)
        return replace(self, device=f"cuda:{local_rank}", threads=threads)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16)


def choose_device(recipe: Recipe) -> DeviceConfig:
    """The device of the recipe, by default the fastest available one; also sets the number of threads."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    devices = [device for device in available if available[device]]  # the fastest first
    name = recipe.device or devices[0]
    if name.partition(":")[0] not in devices:
        raise InputError(f"there is no device {name!r} here", hint=f"choose one of {', '.join(devices)}")
    precision = recipe.precision or ("bfloat16" if _has_bfloat16(name) else "float32")
    if precision not in ("float32", "bfloat16"):
        raise InputError(f"--precision is {precision!r}", hint="choose float32 or bfloat16")
    threads = recipe.threads or cpu_count()
    torch.set_num_threads(threads)
    return DeviceConfig(name, threads, precision)


def _has_bfloat16(device: str) -> bool:
    """Whether the hardware multiplies bfloat16 matrices; emulation would be slower."""
    if device.startswith("cuda"):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device == "cpu":
        return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())
    return False


BPTT_PREFIX = "carried."  # prefix of tensors of the truncated-BPTT state
MAX_TIMING_FRACTION = 0.02  # of the time budget: maximum time for measuring the speed


@dataclass(frozen=True)
class MicroBatch:
    """A part of a batch; `index` seeds its dropout. One that is not counted keeps an idle process in sync."""

    index: int
    batch: Batch
    is_counted: bool = True


Losses = list[dict[str, float]]  # of each micro-batch: the summed loss of each target


def split_batch(batch: Batch, count: int) -> list[MicroBatch]:
    return [MicroBatch(index, part) for index, part in enumerate(batch.split(count))]


class GradientLearner(Learner):
    """Trains a network by gradient descent, from random weights or from `initial_tensors`.

    `lr_scales` are factors of the learning rate by parameter name, 1 by default.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        device: DeviceConfig,
        initial_tensors: Mapping[str, Tensor] | None = None,
        lr_scales: Mapping[str, float] | None = None,
    ) -> None:
        self.model, self.recipe, self.device, self.initial_tensors = model, recipe, device, initial_tensors
        self.lr_scales = lr_scales or {}
        self.num_micro_batches = recipe.accumulate  # per step; doubled when memory is too small
        self.notes: list[str] = []
        self.num_clipped, self.max_gradient_norm = 0, 0.0  # since clipping_stats() was called

    def initialize(self) -> None:
        self.model.initialize(self.recipe.seed, self.initial_tensors)
        if self.model.bptt_state is not None:
            self.model.bptt_state.clear()
        self.build_optimizer()

    def build_optimizer(self) -> None:
        """Move the network to its device and create the optimizer."""
        self.model.to(self.device.device)
        trainable = {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        recipe = self.recipe
        self.optimizer = AdamW(trainable, weight_decay=recipe.decay, beta2=recipe.memory, lr_scales=self.lr_scales)
        self._uses_dropout = self.model.is_random

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        counts = batch.supervised_counts()
        while True:
            micro_batches = split_batch(batch, self.num_micro_batches)
            losses = self.accumulate_gradients(micro_batches, counts, step)
            if losses is not None:
                return mean_losses(losses, counts, self.apply_gradients(self.recipe.rate * lr_fraction))
            self.halve_micro_batches(micro_batches)

    def accumulate_gradients(
        self, micro_batches: Sequence[MicroBatch], counts: Mapping[str, int], step: int
    ) -> Losses | None:
        """Accumulate the gradients of micro-batches; `counts` are those of the whole batch. None: out of memory."""
        self.model.train()
        part_losses: Losses = []
        try:
            for micro_batch in micro_batches:
                if self._uses_dropout:  # dropout is a function of (seed, step, micro-batch)
                    seed = self.recipe.seed * 0x9E3779B97F4A7C15 + step + micro_batch.index * 0xBF58476D1CE4E5B9
                    torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
                losses, weights = self._losses(micro_batch.batch), micro_batch.batch.weights
                weighted = [losses[name] * weights.get(name, 1.0) / max(1, counts[name]) for name in losses]
                (torch.stack(weighted).sum() * float(micro_batch.is_counted)).backward()
                part_losses += [{name: float(loss.detach()) for name, loss in losses.items()}] * micro_batch.is_counted
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            self.optimizer.zero_grad()
            return None
        return part_losses

    def apply_gradients(self, lr: float) -> bool:
        """Take an optimizer step if all gradients are finite, so that no checkpoint holds NaN; else return False."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.optimizer.parameters.values(), self.recipe.clip))
        is_finite = math.isfinite(norm)
        self.num_clipped += norm > self.recipe.clip
        self.max_gradient_norm = max(self.max_gradient_norm, norm) if is_finite else self.max_gradient_norm
        if is_finite:
            self.optimizer.step(lr)
            if self.model.bptt_state is not None:
                self.model.bptt_state.commit()
        self.optimizer.zero_grad()
        return is_finite

    def clipping_stats(self) -> dict[str, float]:
        """Number of clipped steps and largest gradient norm since the last call."""
        stats = {"clipped": self.num_clipped, "largest_gradient": self.max_gradient_norm}
        self.num_clipped, self.max_gradient_norm = 0, 0.0
        return stats

    def halve_micro_batches(self, micro_batches: Sequence[MicroBatch]) -> None:
        """Double the number of micro-batches, which ran out of memory; raise ForebearError if they cannot be split."""
        inputs = [micro_batch.batch.inputs for micro_batch in micro_batches]
        example_ids = [arrays.get("groups", np.arange(len(arrays["lengths"]))) for arrays in inputs]
        if all(len(np.unique(ids)) == 1 for ids in example_ids):
            hint = "choose a smaller --size, --context or --vocabulary, or a machine with more memory"
            raise ForebearError("out of memory, even with a single example at a time", hint=hint)
        count = len(micro_batches)
        self.num_micro_batches = 2 * count
        subject = f"memory is too small for a step in {count} part{'s' * (count > 1)}"
        self.notes.append(f"{subject}: from now on it is made in {self.num_micro_batches}")

    def time_step(self, batch: Batch) -> float:
        """Duration of a step in seconds; also chooses the number of threads, as a time budget depends on the clock."""
        is_default_threads = self.recipe.threads is None and self.device.threads > 1
        candidates = [self.device.threads, self.device.threads // 2] if is_default_threads else [self.device.threads]
        seconds: dict[int, float] = {}
        total_seconds, max_seconds = 0.0, MAX_TIMING_FRACTION * (self.recipe.time or math.inf)
        for threads in candidates * NUM_TIMED_STEPS:
            if total_seconds > max_seconds and seconds:
                break
            torch.set_num_threads(threads)
            duration = self._time_one_step(batch)
            seconds[threads] = min(duration, seconds.get(threads, duration))
            total_seconds += duration
        best = min(seconds, key=lambda threads: seconds[threads])
        torch.set_num_threads(best)
        self.device = replace(self.device, threads=best)
        return seconds[best]

    def resolved_settings(self) -> dict[str, Any]:
        return {"device": self.device.device, "threads": self.device.threads, "precision": self.device.precision}

    def evaluate(self, batch: Batch) -> dict[str, float]:
        while True:
            micro_batches = split_batch(batch, self.num_micro_batches)
            losses = self.evaluate_micro_batches(micro_batches)
            if losses is not None:
                return sum_losses(losses)
            self.halve_micro_batches(micro_batches)

    @torch.no_grad()
    def evaluate_micro_batches(self, micro_batches: Sequence[MicroBatch]) -> Losses | None:
        """Losses of micro-batches; None: out of memory."""
        self.model.eval()
        try:
            part_losses = [
                {name: float(loss) for name, loss in self._losses(part.batch).items()} for part in micro_batches
            ]
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            return None
        return [losses for losses, part in zip(part_losses, micro_batches, strict=True) if part.is_counted]

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        with self.device.autocast():
            return self.model(self._tensors(batch.inputs), self._tensors(batch.targets))

    def _tensors(self, arrays: TargetArrays) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array).to(self.device.device) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        training_state = self.optimizer.state_tensors()
        if (bptt_state := self.model.bptt_state) is not None:
            training_state |= {BPTT_PREFIX + name: tensor for name, tensor in bptt_state.state_tensors().items()}
        for file, tensors in ((WEIGHTS_FILE, self.model.tensors()), (LEARNER_STATE_FILE, training_state)):
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, folder / file)

    def load(self, folder: Path) -> None:
        weights = load_file(folder / WEIGHTS_FILE)
        self.model.load({name: tensor.clone() for name, tensor in weights.items()}, file=str(folder / WEIGHTS_FILE))
        self.build_optimizer()
        optimizer_state = load_file(folder / LEARNER_STATE_FILE)
        if self.model.bptt_state is not None:
            names = [name for name in optimizer_state if name.startswith(BPTT_PREFIX)]
            self.model.bptt_state.load({name.removeprefix(BPTT_PREFIX): optimizer_state.pop(name) for name in names})
        if mismatches := self.optimizer.load(optimizer_state):
            message = f"what the optimiser remembers does not fit the network: {', '.join(mismatches[:3])}"
            hint = "resume with the version of forebear that wrote it"
            raise ForebearError(message, file=folder / LEARNER_STATE_FILE, hint=hint)


def sum_losses(losses: Losses) -> dict[str, float]:
    """The loss of each target summed over micro-batches, in their order."""
    return {name: sum(part_losses[name] for part_losses in losses) for name in losses[0]}


def mean_losses(losses: Losses, counts: Mapping[str, int], is_finite: bool) -> dict[str, float]:
    """The mean loss of each target in a step; NaN if the step was not taken."""
    return {name: total / max(1, counts[name]) if is_finite else math.nan for name, total in sum_losses(losses).items()}


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory is exhausted; torch has an error class for this only on GPUs."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(phrase in str(error) for phrase in ("can't allocate memory", "not enough memory", "out of memory"))
