"""The training loop: an objective makes batches, a learner learns from them, checkpoints are saved.

Batch number `step` is a function of (seed, step) alone: a resumed run sees the batches of an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, Protocol

from forebear.errors import UserInterrupt
from forebear.objectives.batch import BatchKey
from forebear.objectives.objective import Objective, batch_unit
from forebear.training.checkpoint import Checkpoint
from forebear.training.diagnostics import Diagnostics, NonFiniteLossError
from forebear.training.learner import Learner
from forebear.training.run_folder import METRICS_FILE, MetricsLog, RunFolder
from forebear.training.schedule import Schedule, is_eval_step
from forebear.training.settings import Recipe

# --- Ctrl-C: the loop finishes its step and saves; a second Ctrl-C exits immediately ---

SIGNALS = (signal.SIGINT, signal.SIGTERM)
MIN_SIGNAL_GAP = 0.5  # seconds; signals closer together count as one


class SignalGuard(contextlib.AbstractContextManager["SignalGuard"]):
    """Records SIGINT and SIGTERM while it is open; outside the main thread it does nothing.

    Python handles signals between two bytecode instructions, and one step of a large network can be a single
    instruction for minutes. So a thread also listens and ends the process at the second signal. Saving is atomic, so
    this loses no checkpoint.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._previous_wakeup_fd = -1  # for example of an event loop

    def __enter__(self) -> SignalGuard:
        if threading.current_thread() is threading.main_thread():
            self._previous_handlers = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
            self._sockets = socket.socketpair()
            self._sockets[1].setblocking(False)
            self._previous_wakeup_fd = signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
            threading.Thread(target=_listen, args=(self._sockets[0],), daemon=True).start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signal_number, handler in self._previous_handlers.items():
            signal.signal(signal_number, handler)
        if self._sockets is not None:
            signal.set_wakeup_fd(self._previous_wakeup_fd)
            self._sockets[1].close()  # ends the thread

    def _on_signal(self, signal_number: int, frame: FrameType | None) -> None:
        self.is_requested = True


def _listen(receiver: socket.socket) -> None:
    first_signal_time = None
    with receiver:
        while received_bytes := receiver.recv(1):
            if received_bytes[0] not in SIGNALS:
                continue
            if first_signal_time is not None and time.monotonic() - first_signal_time > MIN_SIGNAL_GAP:
                os.write(2, b"\nforebear: ended at once, without saving; what was saved before is whole\n")
                os._exit(128 + received_bytes[0])
            first_signal_time = first_signal_time or time.monotonic()


STEPS_PER_LINE = 10  # steps per line of metrics.jsonl
MAX_EVAL_BATCHES, MAX_EVAL_TOKENS = 10, 1 << 18  # of held-out text in an evaluation
STOPPED_EARLY = "stopped early"  # prefix of the note
SAVE_INTERVAL_FACTOR = 20  # minimum time between two saves, in durations of a save


# Metrics of held-out examples, and the value whose minimum selects the best weights.
TaskEvaluation = Callable[[], tuple[dict[str, float], float]]


class Split(Protocol):
    """Training and held-out data, of any type that the objective takes."""

    @property
    def train(self) -> Any: ...

    @property
    def held_out(self) -> Any: ...


@dataclass(frozen=True)
class ProgressReport:
    """The progress of a run, for callbacks."""

    step: int
    total: int | None
    progress: float  # 0 to 1
    seconds: float
    seconds_left: float
    tokens_per_second: float  # or of other units, see `unit`
    lr: float
    losses: dict[str, float]  # mean of the last steps
    held_out: dict[str, float] | None  # if it was just evaluated
    unigram_loss: float | None
    unit: str = "tokens"  # of tokens_per_second


class TrainingCallback:
    """Receives progress, notes and stages of a run; the methods do nothing."""

    def on_progress(self, report: ProgressReport) -> None: ...

    def on_note(self, message: str) -> None: ...

    def on_stage(self, number: int, name: str, description: str) -> None: ...


@dataclass
class _LoopState:
    """The state of the loop, saved with every checkpoint."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    worse: int = 0  # evaluations since the best one
    recent: dict[str, list[float]] = field(default_factory=dict)  # losses since the last line of metrics.jsonl
    clipped: int = 0  # steps with a clipped gradient
    largest: float = 0.0  # the largest gradient norm
    notes: list[str] = field(default_factory=list)  # shown to the user so far


class Trainer:
    """Trains one run from its newest checkpoint, or from the start, to the end.

    Args:
        single_pass: Stop after one pass over the text.
        keep_last: Keep the last weights, not the best ones.
        by_epoch: Evaluate held-out text at the end of each epoch.
        unigram_loss: Held-out loss of a unigram model, for diagnostics.
        evaluate_task: Evaluates held-out examples of a task.
    """

    def __init__(
        self,
        folder: RunFolder,
        learner: Learner,
        objective: Objective,
        split: Split,
        *,
        single_pass: bool = False,
        keep_last: bool = False,
        by_epoch: bool = False,
        unigram_loss: float | None = None,
        evaluate_task: TaskEvaluation | None = None,
        callback: TrainingCallback | None = None,
    ) -> None:
        self.folder, self.learner, self.objective, self.split = folder, learner, objective, split
        self.single_pass, self.keep_last = single_pass, keep_last
        self.by_epoch = by_epoch or keep_last
        self.is_count_based = single_pass or by_epoch
        self.evaluate_task = evaluate_task
        self.recipe: Recipe = folder.recipe
        self.callback = callback or TrainingCallback()
        self.log = MetricsLog(folder.path / METRICS_FILE)
        self.steps_per_epoch = objective.steps(split.train, self.recipe.batch)
        self.state = _LoopState()
        self.schedule, self.unigram_loss = Schedule(0, None, None, None, self.recipe.cooldown), unigram_loss
        self.started_at = self.last_save_at = time.monotonic()
        self.save_seconds = 0.0  # duration of the last save

    def run(self) -> None:
        """Train until the end or an interrupt; the best weights are written to the run folder, locked by the caller."""
        with SignalGuard() as interruption:
            try:
                self._begin()
                self._loop(interruption)
                self._finish()
            except NonFiniteLossError as error:
                self.folder.update(state="failed", failure=error.message)
                raise

    def _loop(self, interruption: SignalGuard) -> None:
        self.folder.update(state="training")
        self.started_at = time.monotonic() - self.state.seconds
        warmup, default_lr = self.schedule.warmup, self.folder.spec.default_recipe().get("rate")
        diagnostics = Diagnostics(self.unigram_loss, warmup, self.steps_per_epoch, self._note_once, default_lr)
        while not self._is_over():
            self._step(diagnostics)
            self.state.seconds = time.monotonic() - self.started_at
            self.schedule.fix_total_steps(self.state.step, self.state.seconds)
            self._evaluate_and_report(diagnostics)
            save_interval = max(self.recipe.save_every, SAVE_INTERVAL_FACTOR * self.save_seconds)
            if time.monotonic() - self.last_save_at > save_interval and not self._is_over():
                self._save()
            if interruption.is_requested and not self._is_over():
                self._stop()

    # --- Start and resume ---

    def _begin(self) -> None:
        checkpoint, notes = self.folder.checkpoints.newest_valid()
        for note in notes:
            self.callback.on_note(note)
        if checkpoint is not None:
            self.folder.checkpoints.quarantine(checkpoint.step)
            state = checkpoint.load_state()
            self.learner.load(checkpoint.folder)
            self.state = _LoopState(**state["position"])
            self.schedule = Schedule.from_dict(state["pace"], self.recipe)
            self.callback.on_note(f"going on from step {self.state.step:,}")
        else:
            self._start()
        self.folder.update(recipe=self.folder.metadata["recipe"] | self.learner.resolved_settings())
        self.log.truncate(self.state.step)

    def _start(self) -> None:
        start = time.monotonic()
        self.learner.initialize()
        seconds_per_step = 0.0
        if self.recipe.time is not None and not self.single_pass:
            seconds_per_step = self.learner.time_step(self._batch(0))
            self.learner.initialize()
            self.state.seconds = time.monotonic() - start  # timing a step is part of the time budget
        tokens_per_step = self._batch(0).num_tokens if self.recipe.tokens is not None else None
        self.schedule = Schedule.for_recipe(self.recipe, self.steps_per_epoch, seconds_per_step, tokens_per_step)
        if self.single_pass:
            self.schedule.total = min(self.schedule.total or self.steps_per_epoch, self.steps_per_epoch)

    # --- Steps and evaluation ---

    def _batch(self, step: int):
        return self.objective.batch(self.split.train, self.recipe.batch, BatchKey(self.recipe.seed, step))

    def _step(self, diagnostics: Diagnostics) -> None:
        step, lr_fraction = self.state.step, self.schedule.lr_fraction(self.state.step)
        batch = self._batch(step)
        losses = self.learner.step(batch, step, lr_fraction)
        self._forward_notes()
        diagnostics.check_finite(step, sum(losses.values()), self.recipe.rate * lr_fraction)
        for name, loss in losses.items():
            self.state.recent.setdefault(name, []).append(loss)
        self.state.tokens += batch.num_tokens
        self.state.step += 1
        clipping = self.learner.clipping_stats()
        self.state.clipped += int(clipping.get("clipped", 0))
        self.state.largest = max(self.state.largest, clipping.get("largest_gradient", 0.0))
        diagnostics.check_gradient(self.state.step, clipping.get("largest_gradient", 0.0), self.recipe.clip)

    def _evaluate_and_report(self, diagnostics: Diagnostics) -> None:
        """Evaluate, write a line of metrics.jsonl and report progress, each when due."""
        step, is_over = self.state.step, self._is_over()
        rate = self.recipe.rate * self.schedule.lr_fraction(step - 1)
        held_out, is_best = None, False
        if is_over:
            self.learner.finish_training()
            self.state.seconds = time.monotonic() - self.started_at
            self._forward_notes()
        interval = self.recipe.evaluate_every or (self.steps_per_epoch if self.by_epoch else None)
        if is_eval_step(step, interval) or is_over:
            held_out = self.evaluate()
            if not self.is_count_based:  # in count-based models a token may have probability 0
                diagnostics.check_finite(step, sum(held_out.values()), rate)
            loss = sum(held_out.values()) if held_out else math.inf  # infinite if nothing is held out
            if self.keep_last:
                diagnostics.check_vectors(step, loss, self.learner.model.nothing, rate)
            if self.evaluate_task is not None:
                task_metrics, loss = self.evaluate_task()
                held_out |= task_metrics
            is_best = self._is_best(loss, diagnostics)
            is_infinite = self.is_count_based and loss == math.inf
            if is_over and not is_infinite and (token_loss := _token_loss(held_out)) is not None:
                diagnostics.check_end(token_loss, self.state.seconds, self.recipe.time, is_counting=self.single_pass)
        if step % STEPS_PER_LINE and held_out is None:
            return
        losses = {name: sum(recent) / len(recent) for name, recent in self.state.recent.items() if recent}
        if (token_loss := _token_loss(losses)) is not None:
            diagnostics.check_training_loss(step, token_loss)
        progress, seconds = self.schedule.progress(step, self.state.seconds), self.state.seconds
        speed = self.state.tokens / max(seconds, 1e-9)
        line = {"step": step, "seconds": seconds, "tokens": self.state.tokens, "rate": rate, "tokens_per_second": speed}
        self.log.add(**line, losses=losses, **({"held_out": held_out} if held_out else {}))
        self.state.recent = {}
        if is_best and not is_over and not self.keep_last:  # if the last is always the best, save_every suffices
            self._save()
        time_left = seconds * (1 - progress) / max(progress, 1e-9)
        position = (step, self.schedule.total, progress, seconds, time_left, speed, rate)
        report = ProgressReport(*position, losses, held_out, self.unigram_loss, batch_unit(self.objective))
        self.callback.on_progress(report)

    def evaluate(self) -> dict[str, float]:
        """The mean loss of each target on a few batches of held-out text, always the same ones."""
        sums, counts = Counter[str](), Counter[str]()
        steps = min(MAX_EVAL_BATCHES, -(-MAX_EVAL_TOKENS // self.recipe.batch)) if len(self.split.held_out) else 0
        steps = min(steps, self.objective.steps(self.split.held_out, self.recipe.batch))
        for index in range(steps):
            batch = self.objective.batch(self.split.held_out, self.recipe.batch, BatchKey(0, index))
            counts.update(batch.supervised_counts())
            sums.update(self.learner.evaluate(batch))
        return {name: total / max(1, counts[name]) for name, total in sums.items()}

    def _is_best(self, loss: float, diagnostics: Diagnostics) -> bool:
        """Whether this state is the best so far; for count-based models and word vectors the last one always is."""
        if self.single_pass or self.keep_last or self.state.best is None or loss < self.state.best:
            self.state.best = loss if math.isfinite(loss) else None
            self.state.best_step, self.state.worse = self.state.step, 0
            return True
        self.state.worse += 1
        if self.evaluate_task is not None and loss == self.state.best:  # equal: prefer the later state
            self.state.best_step = self.state.step
            return True
        if self.state.worse > 1 and self.evaluate_task is None:  # a single evaluation may be noise
            diagnostics.check_overfitting(self.state.step, loss, self.state.best, self.state.best_step)
        return False

    def _note_once(self, kind: str, message: str) -> None:
        """Emit at most one note of each kind per run, even if it is resumed."""
        if not any(note.startswith(f"{kind}: ") for note in self.state.notes):
            self.state.notes.append(f"{kind}: {message}")
            self.callback.on_note(f"{kind}: {message}")

    def _forward_notes(self) -> None:
        """Forward notes of the learner that were not shown before."""
        while self.learner.notes:
            message = self.learner.notes.pop(0)
            if message not in self.state.notes:
                self.state.notes.append(message)
                self.callback.on_note(message)

    def _is_over(self) -> bool:
        if self.learner.has_converged or self.schedule.is_over(self.state.step) or self._is_out_of_patience():
            return True
        max_seconds = self.recipe.time if self.single_pass and self.state.step > 0 else None
        return max_seconds is not None and self.state.seconds >= max_seconds

    def _is_out_of_patience(self) -> bool:
        return self.recipe.patience is not None and self.state.worse >= self.recipe.patience

    # --- Saving and the end ---

    def _save(self) -> Checkpoint:
        start = time.monotonic()
        state: dict[str, Any] = {"position": self.state.__dict__, "pace": self.schedule.to_dict()}
        checkpoint = self.folder.checkpoints.save(self.state.step, state, self.learner.save)
        protected_steps = set[int]() if self.state.best is None else {self.state.best_step}
        self.folder.checkpoints.prune(self.recipe.keep, protected_steps)
        self.last_save_at = time.monotonic()
        self.save_seconds = self.last_save_at - start
        return checkpoint

    def _stop(self) -> None:
        self._save()
        self.folder.update(state="interrupted", step=self.state.step, seconds=round(self.state.seconds, 3))
        message, hint = f"interrupted at step {self.state.step:,}; everything is saved", self.folder.resume_command
        raise UserInterrupt(message, file=self.folder.path, hint=f"go on with: {hint}")

    def _finish(self) -> None:
        self.state.seconds = time.monotonic() - self.started_at  # includes the last evaluation, which smooths counts
        best_checkpoint, best_step = self._save(), self.state.best_step
        if self.state.best is not None and best_step != best_checkpoint.step:
            saved = next((item for item in self.folder.checkpoints.list_all() if item.step == best_step), None)
            error = "is gone" if saved is None else saved.find_corruption()
            best_checkpoint = best_checkpoint if saved is None or error else saved
            if error:
                message = f"the best checkpoint, of step {best_step:,}, {error}: the last one is kept instead"
                self._note_once("not the best", message)
        if self._is_out_of_patience() and not self.schedule.is_over(self.state.step):
            of_total = "" if self.schedule.total is None else f" of {self.schedule.total:,}"
            evaluations = f"{self.state.worse:,} look{'s' * (self.state.worse != 1)}"
            message = f"at step {self.state.step:,}{of_total}, no better for {evaluations}; "
            self._note_once(STOPPED_EARLY, f"{message}the weights of step {best_checkpoint.step:,} are kept")
        self.folder.publish_checkpoint(best_checkpoint)
        gradients = {"clipped": self.state.clipped, "largest": self.state.largest}
        self.folder.update(
            state="trained",
            step=self.state.step,
            seconds=round(self.state.seconds, 3),
            tokens=self.state.tokens,
            pace=self.schedule.to_dict(),
            best_step=best_checkpoint.step,
            held_out_loss=self.state.best,
            **({"gradients": gradients} if self.state.largest else {}),
            notes=[*self.folder.metadata.get("notes", []), *self.state.notes],
        )
        self.folder.checkpoints.prune(1, set())  # last: if it is killed before, resuming repeats this method


def _token_loss(losses: dict[str, float]) -> float | None:
    """The loss per token, which can be compared with the unigram loss; None without such a target."""
    return next((losses[name] for name in ("next", "token", "translation") if name in losses), None)
