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
# One fused operation over all parameters. torch.optim does the same, but first loads torch's compiler, which takes
# seconds.

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # torch.optim's names for the state of each parameter


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
        self.state: dict[str, dict[str, Tensor]] = {moment: {} for moment in MOMENTS}
        # Names by weight decay and learning-rate scale.
        self._parameter_groups: dict[tuple[float, float], list[str]] = {}
        for name, parameter in self.parameters.items():
            self.state["step"][name] = torch.zeros((), device=parameter.device)
            self.state["exp_avg"][name] = torch.zeros_like(parameter)
            self.state["exp_avg_sq"][name] = torch.zeros_like(parameter)
            group = weight_decay if parameter.dim() > 1 else 0.0, (lr_scales or {}).get(name, 1.0)
            self._parameter_groups.setdefault(group, []).append(name)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for (weight_decay, lr_scale), names in self._parameter_groups.items():
            trained_names = [name for name in names if self.parameters[name].grad is not None]
            if not trained_names:
                continue
            parameters = [self.parameters[name] for name in trained_names]
            step_counts, means, squares = ([self.state[moment][name] for name in trained_names] for moment in MOMENTS)
            gradients = [value.grad for value in parameters if value.grad is not None]
            torch._foreach_add_(step_counts, 1)  # pyright: ignore[reportPrivateImportUsage]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                parameters,
                gradients,
                means,
                squares,
                [],
                step_counts,
                lr=rate * lr_scale,
                beta1=0.9,
                beta2=self.beta2,
                weight_decay=weight_decay,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )

    def zero_grad(self) -> None:
        """Clears all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """The optimizer state, for saving."""
        return {f"{moment}.{name}": tensor for moment in MOMENTS for name, tensor in self.state[moment].items()}

    def load(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Loads a saved state; or nothing, and returns the names that are missing, unexpected or misshapen."""
        current = self.state_tensors()
        mismatches = sorted(current.keys() ^ tensors.keys())
        mismatches += [name for name in current.keys() & tensors.keys() if current[name].shape != tensors[name].shape]
        for name, tensor in current.items() if not mismatches else ():
            tensor.copy_(tensors[name])
        return mismatches


# --- Device, threads and precision ---


@dataclass(frozen=True)
class DeviceConfig:
    """Stored with the run: with another number of threads or precision the weights would differ."""

    device: str
    threads: int
    precision: str  # float32, or bfloat16 for matrix products

    def for_process(self, local_rank: int, local_size: int, recipe: Recipe) -> DeviceConfig:
        """The device of one of several processes on a machine: its own GPU, or a share of the cores."""
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
    """The device of a recipe, or else the fastest available; also sets the number of threads."""
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
MAX_TIMING_SHARE = 0.02  # of the time budget: maximum time for measuring the speed


@dataclass(frozen=True)
class MicroBatch:
    """A part of a batch; `number` seeds its dropout. One that is not counted keeps an idle process in sync."""

    number: int
    batch: Batch
    is_counted: bool = True


Losses = list[dict[str, float]]  # of each micro-batch: the summed loss of each target


class GradientLearner(Learner):
    """Trains a network by gradient descent, from random weights or from `initial_tensors`.

    `lr_scales` multiply the learning rate of some parameters, by name.
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
        """Moves the network to its device and creates its optimizer."""
        self.model.to(self.device.device)
        trainable = {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        self.optimizer = AdamW(
            trainable, weight_decay=self.recipe.decay, beta2=self.recipe.memory, lr_scales=self.lr_scales
        )
        self._uses_dropout = self.model.is_random

    def step(self, batch: Batch, step: int, lr_fraction: float) -> dict[str, float]:
        counts = batch.supervised_counts()
        while True:
            batches = batch.split(self.num_micro_batches)
            losses = self.accumulate_gradients([MicroBatch(*numbered) for numbered in enumerate(batches)], counts, step)
            if losses is not None:
                return mean_losses(losses, counts, self.apply_gradients(self.recipe.rate * lr_fraction))
            self.halve_micro_batches(batches)

    def accumulate_gradients(
        self, micro_batches: Sequence[MicroBatch], counts: Mapping[str, int], step: int
    ) -> Losses | None:
        """Accumulates the gradients of micro-batches; `counts` are those of the whole batch. None: out of memory."""
        self.model.train()
        part_losses: Losses = []
        try:
            for micro_batch in micro_batches:
                if self._uses_dropout:  # dropout is a function of (seed, step, micro-batch)
                    seed = self.recipe.seed * 0x9E3779B97F4A7C15 + step + micro_batch.number * 0xBF58476D1CE4E5B9
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

    def apply_gradients(self, rate: float) -> bool:
        """Takes an optimizer step if all gradients are finite, so that no checkpoint holds NaN; else returns False."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.optimizer.parameters.values(), self.recipe.clip))
        is_finite = math.isfinite(norm)
        self.num_clipped += norm > self.recipe.clip
        self.max_gradient_norm = max(self.max_gradient_norm, norm) if is_finite else self.max_gradient_norm
        if is_finite:
            self.optimizer.step(rate)
            if self.model.bptt_state is not None:
                self.model.bptt_state.commit()
        self.optimizer.zero_grad()
        return is_finite

    def clipping_stats(self) -> dict[str, float]:
        """Number of clipped gradients and largest gradient norm since the last call."""
        stats = {"clipped": self.num_clipped, "largest_gradient": self.max_gradient_norm}
        self.num_clipped, self.max_gradient_norm = 0, 0.0
        return stats

    def halve_micro_batches(self, batches: Sequence[Batch]) -> None:
        """Doubles the number of micro-batches, as these were too large for memory; an error if they cannot be split."""
        example_ids_by_batch = [
            batch.inputs.get("groups", np.arange(len(batch.inputs["lengths"]))) for batch in batches
        ]
        if all(len(np.unique(example_ids)) == 1 for example_ids in example_ids_by_batch):
            hint = "choose a smaller --size, --context or --vocabulary, or a machine with more memory"
            raise ForebearError("out of memory, even with a single example at a time", hint=hint)
        self.num_micro_batches = 2 * len(batches)
        subject = f"memory is too small for a step in {len(batches)} part{'s' * (len(batches) > 1)}"
        self.notes.append(f"{subject}: from now on it is made in {self.num_micro_batches}")

    def time_step(self, batch: Batch) -> float:
        """Seconds of a step. A run with a time budget depends on the clock anyway, so the number of threads may too."""
        is_default_threads = self.recipe.threads is None and self.device.threads > 1
        candidates = [self.device.threads, self.device.threads // 2] if is_default_threads else [self.device.threads]
        seconds: dict[int, float] = {}
        total_seconds, max_seconds = 0.0, MAX_TIMING_SHARE * (self.recipe.time or math.inf)
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
            batches = batch.split(self.num_micro_batches)
            losses = self.evaluate_micro_batches([MicroBatch(*numbered) for numbered in enumerate(batches)])
            if losses is not None:
                return sum_losses(losses)
            self.halve_micro_batches(batches)

    @torch.no_grad()
    def evaluate_micro_batches(self, micro_batches: Sequence[MicroBatch]) -> Losses | None:
        """Losses of micro-batches; None: out of memory."""
        self.model.eval()
        try:
            part_losses = [
                {name: float(loss) for name, loss in self._losses(micro_batch.batch).items()}
                for micro_batch in micro_batches
            ]
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            return None
        return [
            losses for losses, micro_batch in zip(part_losses, micro_batches, strict=True) if micro_batch.is_counted
        ]

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        with self.device.autocast():
            return self.model(self._tensors(batch.inputs), self._tensors(batch.targets))

    def _tensors(self, arrays: TargetArrays) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array).to(self.device.device) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        save_file({name: tensor.detach().cpu() for name, tensor in self.model.tensors().items()}, folder / WEIGHTS_FILE)
        training_state = self.optimizer.state_tensors()
        if self.model.bptt_state is not None:
            training_state |= {
                f"{BPTT_PREFIX}{name}": tensor for name, tensor in self.model.bptt_state.state_tensors().items()
            }
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in training_state.items()},
            folder / LEARNER_STATE_FILE,
        )

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
    """Mean loss of each target in a step; NaN if the step was not taken."""
    return {name: total / max(1, counts[name]) if is_finite else math.nan for name, total in sum_losses(losses).items()}


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory is exhausted; torch has an error class for this only on GPUs."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(phrase in str(error) for phrase in ("can't allocate memory", "not enough memory", "out of memory"))
