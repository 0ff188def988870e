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
from forebear.objectives.batch import BatchKey, Objective, batch_unit
from forebear.training.checkpoint import Checkpoint
from forebear.training.diagnostics import Diagnostics, NonFiniteLossError
from forebear.training.learners import Learner
from forebear.training.run_folder import METRICS_FILE, MetricsLog, RunFolder
from forebear.training.schedule import Schedule, is_eval_step
from forebear.training.settings import Recipe

# --- Ctrl-C: the loop finishes its step and saves; a second one ends the process at once ---

SIGNALS = (signal.SIGINT, signal.SIGTERM)
MIN_SIGNAL_GAP = 0.5  # seconds; signals closer together count as one


class SignalGuard(contextlib.AbstractContextManager["SignalGuard"]):
    """Notices SIGINT and SIGTERM while it is open; outside the main thread it does nothing.

    Python handles signals only between two of its own instructions, and one step of a large network can be a single
    instruction for minutes. So a thread listens too, and ends the process at the second signal. Saving is atomic, so a
    sudden end is safe.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._previous_wakeup_fd = -1  # such as that of an event loop

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
            self._sockets[1].close()  # which ends the thread

    def _on_signal(self, signal_number: int, frame: FrameType | None) -> None:
        self.is_requested = True


def _listen(receiver: socket.socket) -> None:
    first_time = None
    with receiver:
        while received := receiver.recv(1):
            if received[0] not in SIGNALS:
                continue
            if first_time is not None and time.monotonic() - first_time > MIN_SIGNAL_GAP:
                os.write(2, b"\nforebear: ended at once, without saving; what was saved before is whole\n")
                os._exit(128 + received[0])
            first_time = first_time or time.monotonic()


STEPS_PER_LINE = 10  # steps per line of metrics.jsonl
MAX_EVAL_BATCHES, MAX_EVAL_TOKENS = 10, 1 << 18  # of held-out text in an evaluation
STOPPED_EARLY = "stopped early"  # prefix of the note
SAVE_INTERVAL_FACTOR = 20  # two saves are at least this many times the duration of one apart


# Metrics of held-out examples beside the loss, and a value to minimize, by which the best weights are chosen.
Judge = Callable[[], tuple[dict[str, float], float]]


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
    seconds_left: float  # seconds
    tokens_per_second: float  # or of other units, see `num_tokens`
    lr: float
    losses: dict[str, float]  # mean of the last steps
    held_out: dict[str, float] | None  # if it was just evaluated
    unigram_loss: float | None
    num_tokens: str = "tokens"  # the unit of tokens_per_second


class TrainingCallback:
    """Receives progress, notes and stages of a run; this one ignores them."""

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
    notes: list[str] = field(default_factory=list)  # shown so far, each once


class Trainer:
    """Trains one run from its newest checkpoint, or from the start, to the end.

    Args:
        single_pass: All of the text is read once, and counted.
        keep_last: The last weights are kept, not the best ones.
        by_epoch: Held-out text is evaluated at the end of each epoch.
        unigram: Held-out loss of token frequencies alone, for diagnostics.
        judge: Evaluates held-out examples of a task.
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
        unigram: float | None = None,
        judge: Judge | None = None,
        watcher: TrainingCallback | None = None,
    ) -> None:
        self.folder, self.learner, self.objective, self.split = folder, learner, objective, split
        self.once, self.last = single_pass, keep_last
        self.by_epoch = by_epoch or keep_last
        self.counts = single_pass or by_epoch  # counts, instead of gradient descent
        self.judge = judge
        self.recipe: Recipe = folder.recipe
        self.watcher = watcher or TrainingCallback()
        self.metrics = MetricsLog(folder.path / METRICS_FILE)
        self.epoch = objective.steps(split.train, self.recipe.batch)
        self.at = _LoopState()
        self.pace, self.unigram = Schedule(0, None, None, None, self.recipe.cooldown), unigram
        self.began = self.saved = time.monotonic()
        self.saving = 0.0  # seconds the last save took

    def run(self) -> None:
        """Trains to the end or until interrupted; the run folder, locked by the caller, gets the best weights."""
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
        self.began = time.monotonic() - self.at.seconds
        default_lr = self.folder.spec.default_recipe().get("rate")
        diagnostics = Diagnostics(self.unigram, self.pace.warmup, self.epoch, self._note_once, default_lr)
        while not self._is_over():
            self._step(diagnostics)
            self.at.seconds = time.monotonic() - self.began
            self.pace.fix_total_steps(self.at.step, self.at.seconds)
            self._evaluate_and_report(diagnostics)
            save_interval = max(self.recipe.save_every, SAVE_INTERVAL_FACTOR * self.saving)
            if time.monotonic() - self.saved > save_interval and not self._is_over():
                self._save()
            if interruption.is_requested and not self._is_over():
                self._stop()

    # --- Start and resume ---

    def _begin(self) -> None:
        checkpoint, notes = self.folder.checkpoints.newest_valid()
        for note in notes:
            self.watcher.on_note(note)
        if checkpoint is not None:
            self.folder.checkpoints.quarantine(checkpoint.step)
            state = checkpoint.load_state()
            self.learner.load(checkpoint.folder)
            self.at = _LoopState(**state["position"])
            self.pace = Schedule.from_dict(state["pace"], self.recipe)
            self.watcher.on_note(f"going on from step {self.at.step:,}")
        else:
            self._start()
        self.folder.update(recipe=self.folder.metadata["recipe"] | self.learner.resolved_settings())
        self.metrics.truncate(self.at.step)

    def _start(self) -> None:
        began = time.monotonic()
        self.learner.initialize()
        seconds_per_step = 0.0
        if self.recipe.time is not None and not self.once:
            seconds_per_step = self.learner.time_step(self._batch(0))
            self.learner.initialize()
            self.at.seconds = time.monotonic() - began  # timing a step is part of the time budget
        tokens_per_step = self._batch(0).num_tokens if self.recipe.tokens is not None else None
        self.pace = Schedule.for_recipe(self.recipe, self.epoch, seconds_per_step, tokens_per_step)
        if self.once:
            self.pace.total = min(self.pace.total or self.epoch, self.epoch)

    # --- Steps and evaluation ---

    def _batch(self, step: int):
        return self.objective.batch(self.split.train, self.recipe.batch, BatchKey(self.recipe.seed, step))

    def _step(self, diagnostics: Diagnostics) -> None:
        step, lr_fraction = self.at.step, self.pace.lr_fraction(self.at.step)
        batch = self._batch(step)
        losses = self.learner.step(batch, step, lr_fraction)
        self._forward_notes()
        diagnostics.check_finite(step, sum(losses.values()), self.recipe.rate * lr_fraction)
        for name, loss in losses.items():
            self.at.recent.setdefault(name, []).append(loss)
        self.at.tokens += batch.num_tokens
        self.at.step += 1
        clipping = self.learner.clipping_stats()
        self.at.clipped += int(clipping.get("clipped", 0))
        self.at.largest = max(self.at.largest, clipping.get("largest_gradient", 0.0))
        diagnostics.check_gradient(self.at.step, clipping.get("largest_gradient", 0.0), self.recipe.clip)

    def _evaluate_and_report(self, diagnostics: Diagnostics) -> None:
        """Evaluates, writes a line of metrics.jsonl and reports progress, each when it is due."""
        step, is_over = self.at.step, self._is_over()
        rate = self.recipe.rate * self.pace.lr_fraction(step - 1)
        held_out, is_best = None, False
        if is_over:
            self.learner.conclude()
            self.at.seconds = time.monotonic() - self.began
            self._forward_notes()
        if is_eval_step(step, self.recipe.evaluate_every or (self.epoch if self.by_epoch else None)) or is_over:
            held_out = self.evaluate()
            if not self.counts:  # in models of counts a token may have probability 0
                diagnostics.check_finite(step, sum(held_out.values()), rate)
            loss = sum(held_out.values()) if held_out else math.inf  # infinite if nothing is held out
            if self.last:
                diagnostics.check_vectors(step, loss, self.learner.model.nothing, rate)
            if self.judge is not None:
                judged_metrics, loss = self.judge()
                held_out |= judged_metrics
            is_best = self._is_best(loss, diagnostics)
            if is_over and not (self.counts and loss == math.inf) and (tokens := _token_loss(held_out)) is not None:
                diagnostics.check_end(tokens, self.at.seconds, self.recipe.time, is_counting=self.once)
        if step % STEPS_PER_LINE and held_out is None:
            return
        losses = {name: sum(recent) / len(recent) for name, recent in self.at.recent.items() if recent}
        if (tokens := _token_loss(losses)) is not None:
            diagnostics.check_training_loss(step, tokens)
        progress, seconds = self.pace.progress(step, self.at.seconds), self.at.seconds
        speed = self.at.tokens / max(seconds, 1e-9)
        line = {"step": step, "seconds": seconds, "tokens": self.at.tokens, "rate": rate, "tokens_per_second": speed}
        self.metrics.add(**line, losses=losses, **({"held_out": held_out} if held_out else {}))
        self.at.recent = {}
        if is_best and not is_over and not self.last:  # if the last is always the best, save_every suffices
            self._save()
        time_left = seconds * (1 - progress) / max(progress, 1e-9)
        pace = (step, self.pace.total, progress, seconds, time_left, speed, rate)
        report = ProgressReport(*pace, losses, held_out, self.unigram, batch_unit(self.objective))
        self.watcher.on_progress(report)

    def evaluate(self) -> dict[str, float]:
        """The mean loss of each target on the same few batches of held-out text each time."""
        sums, counts = Counter[str](), Counter[str]()
        steps = min(MAX_EVAL_BATCHES, -(-MAX_EVAL_TOKENS // self.recipe.batch)) if len(self.split.held_out) else 0
        steps = min(steps, self.objective.steps(self.split.held_out, self.recipe.batch))
        for number in range(steps):
            batch = self.objective.batch(self.split.held_out, self.recipe.batch, BatchKey(0, number))
            counts.update(batch.supervised_counts())
            sums.update(self.learner.evaluate(batch))
        return {name: total / max(1, counts[name]) for name, total in sums.items()}

    def _is_best(self, loss: float, diagnostics: Diagnostics) -> bool:
        """Whether this state is the best so far; the last one always is for counts and word vectors."""
        if self.once or self.last or self.at.best is None or loss < self.at.best:
            self.at.best, self.at.best_step, self.at.worse = loss if math.isfinite(loss) else None, self.at.step, 0
            return True
        self.at.worse += 1
        if self.judge is not None and loss == self.at.best:  # equal: prefer the later state
            self.at.best_step = self.at.step
            return True
        if self.at.worse > 1 and self.judge is None:  # a single evaluation may be noise
            diagnostics.check_overfitting(self.at.step, loss, self.at.best, self.at.best_step)
        return False

    def _note_once(self, kind: str, message: str) -> None:
        """Emits one note of each kind in a run, however often it is resumed."""
        if not any(note.startswith(f"{kind}: ") for note in self.at.notes):
            self.at.notes.append(f"{kind}: {message}")
            self.watcher.on_note(f"{kind}: {message}")

    def _forward_notes(self) -> None:
        """Forwards notes of the learner that were not shown before."""
        while self.learner.notes:
            message = self.learner.notes.pop(0)
            if message not in self.at.notes:
                self.at.notes.append(message)
                self.watcher.on_note(message)

    def _is_over(self) -> bool:
        if self.learner.ended or self.pace.is_over(self.at.step) or self._is_out_of_patience():
            return True
        max_seconds = self.recipe.time if self.once and self.at.step > 0 else None
        return max_seconds is not None and self.at.seconds >= max_seconds

    def _is_out_of_patience(self) -> bool:
        return self.recipe.patience is not None and self.at.worse >= self.recipe.patience

    # --- Saving and the end ---

    def _save(self) -> Checkpoint:
        began = time.monotonic()
        state: dict[str, Any] = {"position": self.at.__dict__, "pace": self.pace.to_dict()}
        checkpoint = self.folder.checkpoints.save(self.at.step, state, self.learner.save)
        self.folder.checkpoints.prune(self.recipe.keep, {self.at.best_step} if self.at.best is not None else set())
        self.saved = time.monotonic()
        self.saving = self.saved - began
        return checkpoint

    def _stop(self) -> None:
        self._save()
        self.folder.update(state="interrupted", step=self.at.step, seconds=round(self.at.seconds, 3))
        message, hint = f"interrupted at step {self.at.step:,}; everything is saved", self.folder.resume_command
        raise UserInterrupt(message, file=self.folder.path, hint=f"go on with: {hint}")

    def _finish(self) -> None:
        self.at.seconds = time.monotonic() - self.began  # with the last evaluation, in which counts are smoothed
        best = self._save()
        if self.at.best is not None and self.at.best_step != best.step:
            matches = [item for item in self.folder.checkpoints.list_all() if item.step == self.at.best_step]
            damage = matches[0].find_damage() if matches else "is gone"
            if damage is None:
                best = matches[0]
            else:
                message = f"the best checkpoint, of step {self.at.best_step:,}, {damage}: the last one is kept instead"
                self._note_once("not the best", message)
        if self._is_out_of_patience() and not self.pace.is_over(self.at.step):
            of_total = "" if self.pace.total is None else f" of {self.pace.total:,}"
            evaluations = f"{self.at.worse:,} look{'s' * (self.at.worse != 1)}"
            message = f"at step {self.at.step:,}{of_total}, no better for {evaluations}; "
            self._note_once(STOPPED_EARLY, f"{message}the weights of step {best.step:,} are kept")
        self.folder.publish_checkpoint(best)
        self.folder.update(
            state="trained",
            step=self.at.step,
            seconds=round(self.at.seconds, 3),
            tokens=self.at.tokens,
            pace=self.pace.to_dict(),
            best_step=best.step,
            held_out_loss=self.at.best,
            **({"gradients": {"clipped": self.at.clipped, "largest": self.at.largest}} if self.at.largest else {}),
            notes=[*self.folder.metadata.get("notes", []), *self.at.notes],
        )
        self.folder.checkpoints.prune(1, set())  # last: after a kill, resuming would finish the run again


def _token_loss(losses: dict[str, float]) -> float | None:
    """The loss per token, which compares to that of token frequencies, where there is one."""
    return next((losses[name] for name in ("next", "token", "translation") if name in losses), None)
