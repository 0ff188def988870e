"""Learning-rate schedule: warmup, cooldown, and the end of a run with a time, step, token or epoch budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forebear.training.settings import Recipe

DEFAULT_WARMUP = 100  # steps, or a tenth of a shorter run
MIN_WARMUP = 10  # steps, or half of an even shorter run
MIN_TIMED_FRACTION = 0.02  # of the time budget: the minimum duration over which the speed is measured
MAX_COOLDOWN = 0.9  # of a run with a time budget


@dataclass
class Schedule:
    """Linear warmup, a constant learning rate and a linear cooldown to 0; or, with "root", decay as 1/√step.

    Before the cooldown the learning rate does not depend on the total number of steps. So a run with a time budget
    fixes this number late, from the measured speed; from then on the schedule is a function of the step alone. A recipe
    with the same `steps`, `warmup` and `fall` (start of the cooldown) repeats the run exactly.
    """

    warmup: int  # steps
    total: int | None  # number of steps, once known
    cooldown_start: int | None  # step
    time: float | None  # time budget in seconds
    cooldown: float  # fraction of the run
    schedule: str | None = None
    timing_start: tuple[int, float] = (0, 0.0)  # step and seconds from which the speed is measured

    @classmethod
    def for_recipe(
        cls, recipe: Recipe, steps_per_epoch: int, seconds_per_step: float, tokens_per_step: int | None = None
    ) -> Schedule:
        """The schedule of a recipe. A step may have fewer tokens than `batch`, as sequences are not split."""
        total, cooldown_start, cooldown = recipe.steps, recipe.fall, recipe.cooldown
        if recipe.tokens is not None:
            total = max(1, round(recipe.tokens / (tokens_per_step or recipe.batch)))
        elif recipe.epochs is not None:
            total = max(1, round(recipe.epochs * steps_per_epoch))
        estimated_steps = total or max(1, round((recipe.time or 0) / max(seconds_per_step, 1e-9)))
        # On a busy machine the estimate may be far too low.
        default_warmup = min(DEFAULT_WARMUP, max(estimated_steps // 10, min(MIN_WARMUP, estimated_steps // 2)))
        if total is None:  # speed must be measured before the cooldown
            cooldown = min(cooldown, MAX_COOLDOWN)
        elif cooldown_start is None and recipe.schedule != "root":
            cooldown_start = round(total * (1 - cooldown))
        warmup = default_warmup if recipe.warmup is None else recipe.warmup
        return cls(warmup, total, cooldown_start, recipe.time, cooldown, recipe.schedule)

    def fix_total_steps(self, step: int, seconds: float) -> None:
        """With a time budget, fix the number of steps when the cooldown has to start."""
        if self.total is not None or self.time is None or not step:
            return
        start_seconds = self.time * (1 - self.cooldown)
        if not self.timing_start[0] and seconds >= start_seconds / 2:
            self.timing_start = step, seconds
        if seconds >= start_seconds:
            steps, duration = step - self.timing_start[0], seconds - self.timing_start[1]
            if duration < MIN_TIMED_FRACTION * self.time and seconds < self.time:  # too few steps to measure
                return
            seconds_per_step = duration / steps if steps else seconds / step
            self.total = step + max(1, round((self.time - seconds) / seconds_per_step))
            self.cooldown_start = None if self.schedule == "root" else step

    def lr_fraction(self, step: int) -> float:
        """The learning rate of this step, as a fraction of the peak."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.schedule == "root":
            return (max(1, self.warmup) / (step + 1)) ** 0.5
        if self.total is None or self.cooldown_start is None or step < self.cooldown_start:
            return 1.0
        return max(0.0, (self.total - step) / max(1, self.total - self.cooldown_start))

    def is_over(self, step: int) -> bool:
        return self.total is not None and step >= self.total

    def progress(self, step: int, seconds: float) -> float:
        """The completed fraction of the run, from 0 to 1."""
        if self.total is not None:
            return step / self.total
        return min(1.0, seconds / self.time) if self.time else 0.0

    def to_dict(self) -> dict[str, Any]:
        start, timing_start = self.cooldown_start, list(self.timing_start)
        return {"warmup": self.warmup, "total": self.total, "fall": start, "middle": timing_start}

    @classmethod
    def from_dict(cls, state: dict[str, Any], recipe: Recipe) -> Schedule:
        timing_start = (state["middle"][0], state["middle"][1])
        cooldown = recipe.cooldown if recipe.time is None else min(recipe.cooldown, MAX_COOLDOWN)
        return cls(state["warmup"], state["total"], state["fall"], recipe.time, cooldown, recipe.schedule, timing_start)


def is_eval_step(step: int, every: int | None) -> bool:
    """Whether held-out text is evaluated after this step: after every `every`, or at growing intervals (20, 30, 45 …).

    This depends on the step alone: the best checkpoint must not depend on when a run was interrupted.
    """
    if every:
        return step % every == 0
    eval_step = 20
    while eval_step < step:
        eval_step += eval_step // 2
    return eval_step == step
