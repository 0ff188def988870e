"""Learning by gradient descent: AdamW on losses that are weighted by what was asked."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from forebear.data.io.workers import cpu_count
from forebear.errors import ForebearError, InputError
from forebear.objectives.batch import Batch, TargetArrays
from forebear.training.learners import LEARNER_STATE_FILE, WEIGHTS_FILE, Learner
from forebear.training.settings import Recipe

if TYPE_CHECKING:
    from forebear.nn.model import Model

# AdamW (Kingma and Ba 2014; Loshchilov and Hutter 2017) as one fused operation over all parameters.
#
# torch.optim does the same, but loads torch's compiler first: seconds, before the first step of a small run.


MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # torch.optim's names for what it remembers of each parameter


class AdamW:
    """Matrices decay, vectors (norms and biases) do not. `shares` of the rate are by name; 1 where nothing is said."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        *,
        decay: float,
        memory: float,
        epsilon: float = 1e-8,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.parameters, self.memory, self.epsilon = dict(parameters), memory, epsilon
        self.state = {
            "step": {name: torch.zeros((), device=one.device) for name, one in self.parameters.items()},
            "exp_avg": {name: torch.zeros_like(one) for name, one in self.parameters.items()},
            "exp_avg_sq": {name: torch.zeros_like(one) for name, one in self.parameters.items()},
        }
        groups: dict[tuple[float, float], list[str]] = {}  # names by decay and share of the rate
        for name, one in self.parameters.items():
            groups.setdefault((decay if one.dim() > 1 else 0.0, (shares or {}).get(name, 1.0)), []).append(name)
        self._groups = groups

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for (decay, share), names in self._groups.items():
            learned = [name for name in names if self.parameters[name].grad is not None]
            if not learned:
                continue
            values = [self.parameters[name] for name in learned]
            steps, means, squares = ([self.state[moment][name] for name in learned] for moment in MOMENTS)
            gradients = [value.grad for value in values if value.grad is not None]
            torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                values,
                gradients,
                means,
                squares,
                [],
                steps,
                lr=rate * share,
                beta1=0.9,
                beta2=self.memory,
                weight_decay=decay,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for value in self.parameters.values():
            value.grad = None

    def state_tensors(self) -> dict[str, Tensor]:
        """All that it remembers, for saving."""
        return {f"{moment}.{name}": one for moment in MOMENTS for name, one in self.state[moment].items()}

    def load(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Takes what `tensors` gave, or nothing: then the names of what is missing, too much or of another shape."""
        own = self.state_tensors()
        strange = sorted(own.keys() ^ tensors.keys())
        strange += [name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape]
        for name, one in own.items() if not strange else ():
            one.copy_(tensors[name])
        return strange


# Where numbers are crunched: the device, how many threads, and whether sixteen bits are enough.


@dataclass(frozen=True)
class DeviceConfig:
    """A choice that was made once and is stored with the run: other threads or bits would end in other weights."""

    device: str
    threads: int
    precision: str  # float32, or bfloat16 for the products, where the device is faster with it

    def of_process(self, number: int, processes: int, recipe: Recipe) -> DeviceConfig:
        """For one of several on a machine: a graphics card of its own, and a share of the processor."""
        import torch

        threads = recipe.threads or max(1, cpu_count() // processes)
        torch.set_num_threads(threads)
        if not self.device.startswith("cuda"):
            return replace(self, threads=threads)
        torch.cuda.set_device(number)
        return replace(self, name=f"cuda:{number}", threads=threads)

    @contextlib.contextmanager
    def precisely(self) -> Iterator[None]:
        import torch

        if self.precision == "float32":
            yield
            return
        with torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16):
            yield


def choose_device(recipe: Recipe) -> DeviceConfig:
    """The device a recipe asks for, or the best that is there; sets the number of threads."""
    import torch

    there = available()
    name = recipe.device or there[0]
    if name.partition(":")[0] not in there:
        raise InputError(f"there is no device {name!r} here", hint=f"choose one of {', '.join(there)}")
    precision = recipe.precision or ("bfloat16" if _has_bfloat16(name) else "float32")
    if precision not in ("float32", "bfloat16"):
        raise InputError(f"--precision is {precision!r}", hint="choose float32 or bfloat16")
    threads = recipe.threads or cpu_count()
    torch.set_num_threads(threads)
    return DeviceConfig(name, threads, precision)


def available() -> list[str]:
    """The kinds of device this machine has, the fastest first."""
    import torch

    kinds = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [kind for kind, there in kinds.items() if there]


def _has_bfloat16(name: str) -> bool:
    """Whether products of bfloat16 are made by hardware; emulated ones would only be slower."""
    import torch

    if name.startswith("cuda"):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if name == "cpu":
        return bool(getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)())
    return False


BENCHMARK_STEPS = 3  # steps made and forgotten, with each number of threads
CARRIED = "carried."  # what the name of a state begins with that a step hands to the next
SHARE_OF_TRIAL = 0.02  # of the time given: where a step takes long, fewer are tried


@dataclass(frozen=True)
class MicroBatch:
    """A part of a step's batch, and which it is: its chance follows from that. One that does not count is idle work."""

    number: int
    batch: Batch
    is_counted: bool = True


Losses = list[dict[str, float]]  # of each target, summed, in each part


class GradientLearner(Learner):
    """Everything from NNLM on. Some of its values may be `given` to begin with.

    `shares` are those of the rate that some parameters learn with, by name.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        device: DeviceConfig,
        given: Mapping[str, Tensor] | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.model, self.recipe, self.device, self.given = model, recipe, device, given
        self.shares = shares or {}
        self.parts = recipe.accumulate  # of a step: more, once memory has turned out to be too small
        self.notes: list[str] = []
        self.clipped, self.largest = 0, 0.0  # steps whose gradient was too long, and the longest, since last told

    def initialize(self) -> None:
        self.model.initialize(self.recipe.seed, self.given)
        if self.model.bptt_state is not None:
            self.model.bptt_state.forget()
        self.build_optimizer()

    def build_optimizer(self) -> None:
        """The optimiser for the network as it now is."""
        self.model.to(self.device.device)
        learned = {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        self.optimiser = AdamW(learned, decay=self.recipe.decay, memory=self.recipe.memory, shares=self.shares)
        self._chance = self.model.is_random

    def step(self, batch: Batch, step: int, share: float) -> dict[str, float]:
        asked = batch.supervised_counts()
        while True:
            parts = batch.split(self.parts)
            losses = self.accumulate_gradients([MicroBatch(*one) for one in enumerate(parts)], asked, step)
            if losses is not None:
                return mean_losses(losses, asked, self.apply_gradients(self.recipe.rate * share))
            self.halve_micro_batches(parts)

    def accumulate_gradients(self, parts: Sequence[MicroBatch], asked: Mapping[str, int], step: int) -> Losses | None:
        """Adds up the gradients of these parts of a step that asks so much; None: there was not enough memory."""
        self.model.train()
        found: Losses = []
        try:
            for part in parts:
                if self._chance:  # dropout too is a function of (seed, step), and of the part
                    torch.manual_seed(_chance(self.recipe.seed, step, part.number))
                losses, weights = self._losses(part.batch), part.batch.weights
                cost = [losses[name] * weights.get(name, 1.0) / max(1, asked[name]) for name in losses]
                (torch.stack(cost).sum() if part.is_counted else 0.0 * torch.stack(cost).sum()).backward()
                found += [{name: float(loss.detach()) for name, loss in losses.items()}] * part.is_counted
        except (RuntimeError, MemoryError) as error:
            if not _lacks_memory(error):
                raise
            self.optimiser.zero_grad()
            return None
        return found

    def apply_gradients(self, rate: float) -> bool:
        """Takes the step that the gradients say, if they are numbers: a checkpoint never holds what is none."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.optimiser.parameters.values(), self.recipe.clip))
        finite = math.isfinite(norm)
        self.clipped += norm > self.recipe.clip
        self.largest = max(self.largest, norm) if finite else self.largest
        if finite:
            self.optimiser.step(rate)
            if self.model.bptt_state is not None:
                self.model.bptt_state.settle()
        self.optimiser.zero_grad()
        return finite

    def clipping_stats(self) -> dict[str, float]:
        """How many gradients were clipped since it was last asked, and how long the longest was."""
        told = {"clipped": self.clipped, "largest_gradient": self.largest}
        self.clipped, self.largest = 0, 0.0
        return told

    def halve_micro_batches(self, parts: Sequence[Batch]) -> None:
        """From now on a step has twice as many parts as these, which were too large; an error, if that cannot be."""
        if all(len(np.unique(_examples(part))) == 1 for part in parts):
            raise ForebearError(
                "out of memory, even with a single example at a time",
                hint="choose a smaller --size, --context or --vocabulary, or a machine with more memory",
            )
        self.parts = 2 * len(parts)
        many = f"{len(parts)} part{'s' * (len(parts) > 1)}"
        self.notes.append(f"memory is too small for a step in {many}: from now on it is made in {self.parts}")

    def time_step(self, batch: Batch) -> float:
        """Given a time, it depends on the clock anyway: so the clock may also say how many threads are fastest."""
        free = self.recipe.threads is None and self.device.threads > 1
        counts = [self.device.threads, self.device.threads // 2] if free else [self.device.threads]
        seconds: dict[int, float] = {}
        spent, most = 0.0, SHARE_OF_TRIAL * (self.recipe.time or math.inf)
        for threads in counts * BENCHMARK_STEPS:
            if spent > most and seconds:
                break
            torch.set_num_threads(threads)
            took = self._timed(batch)
            seconds[threads] = min(took, seconds.get(threads, took))
            spent += took
        best = min(seconds, key=lambda threads: seconds[threads])
        torch.set_num_threads(best)
        self.device = replace(self.device, threads=best)
        return seconds[best]

    def _timed(self, batch: Batch) -> float:
        began = time.monotonic()
        self.step(batch, 0, 0.0)
        return time.monotonic() - began

    def resolved_settings(self) -> dict[str, Any]:
        return {"device": self.device.device, "threads": self.device.threads, "precision": self.device.precision}

    def evaluate(self, batch: Batch) -> dict[str, float]:
        while True:
            parts = batch.split(self.parts)
            losses = self.evaluate_parts([MicroBatch(*one) for one in enumerate(parts)])
            if losses is not None:
                return sum_losses(losses)
            self.halve_micro_batches(parts)

    @torch.no_grad()
    def evaluate_parts(self, parts: Sequence[MicroBatch]) -> Losses | None:
        """The losses of these parts; None: there was not enough memory."""
        self.model.eval()
        try:
            found = [{name: float(loss) for name, loss in self._losses(part.batch).items()} for part in parts]
        except (RuntimeError, MemoryError) as error:
            if not _lacks_memory(error):
                raise
            return None
        return [losses for losses, part in zip(found, parts, strict=True) if part.is_counted]

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        with self.device.precisely():
            return self.model(self._tensors(batch.inputs), self._tensors(batch.targets))

    def _tensors(self, arrays: TargetArrays) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array).to(self.device.device) for name, array in arrays.items()}

    def save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        save_file({name: tensor.detach().cpu() for name, tensor in self.model.tensors().items()}, folder / WEIGHTS_FILE)
        moments = self.optimiser.state_tensors()
        if self.model.bptt_state is not None:
            moments |= {f"{CARRIED}{name}": tensor for name, tensor in self.model.bptt_state.tensors().items()}
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in moments.items()}, folder / LEARNER_STATE_FILE
        )

    def load(self, folder: Path) -> None:
        from safetensors.torch import load_file

        weights = load_file(folder / WEIGHTS_FILE)
        self.model.load({name: tensor.clone() for name, tensor in weights.items()}, file=str(folder / WEIGHTS_FILE))
        self.build_optimizer()
        remembered = load_file(folder / LEARNER_STATE_FILE)
        if self.model.bptt_state is not None:
            names = [name for name in remembered if name.startswith(CARRIED)]
            self.model.bptt_state.load({name.removeprefix(CARRIED): remembered.pop(name) for name in names})
        if strange := self.optimiser.load(remembered):
            raise ForebearError(
                f"what the optimiser remembers does not fit the network: {', '.join(strange[:3])}",
                file=folder / LEARNER_STATE_FILE,
                hint="resume with the version of forebear that wrote it",
            )


def sum_losses(losses: Losses) -> dict[str, float]:
    """Summed over parts, in their order."""
    return {name: sum(one[name] for one in losses) for name in losses[0]}


def mean_losses(losses: Losses, asked: Mapping[str, int], finite: bool) -> dict[str, float]:
    """Of a whole step, for each target; no numbers, if it was not taken."""
    return {name: total / max(1, asked[name]) if finite else math.nan for name, total in sum_losses(losses).items()}


def _chance(seed: int, step: int, part: int) -> int:
    return seed * 0x9E3779B97F4A7C15 + step + part * 0xBF58476D1CE4E5B9 & 0x7FFFFFFFFFFFFFFF


def _lacks_memory(error: BaseException) -> bool:
    """torch has an error of its own for this only on graphics cards."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory", "out of memory"))


def _examples(batch: Batch) -> np.ndarray:
    """(B,) the example that each row is of."""
    return batch.inputs.get("groups", np.arange(len(batch.inputs["lengths"])))
