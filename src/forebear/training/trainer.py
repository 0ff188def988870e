"""The only training loop. It knows neither text nor tensors: an objective makes a batch, a learner takes it.

Batch number `step` is a function of (seed, step) alone: a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
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

# Ctrl-C as a question: the loop finishes its step, saves and says how to go on; a second one ends it at once.


SIGNALS = (signal.SIGINT, signal.SIGTERM)
APART = 0.5  # seconds between two signals that were meant as two


class SignalGuard(contextlib.AbstractContextManager["SignalGuard"]):
    """Watches for SIGINT and SIGTERM while it is open; elsewhere than in the main thread nothing can be watched.

    Python tells of a signal only between two of its own instructions, and a step of a large network is one for minutes.
    So a thread listens too: it hears the second signal even then. Everything saved is whole, so the end may be sudden.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._ears: tuple[socket.socket, socket.socket] | None = None
        self._heard_before = -1  # another's ear, such as that of an event loop

    def __enter__(self) -> SignalGuard:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in SIGNALS}
            self._ears = socket.socketpair()
            self._ears[1].setblocking(False)
            self._heard_before = signal.set_wakeup_fd(self._ears[1].fileno(), warn_on_full_buffer=False)
            threading.Thread(target=_listen, args=(self._ears[0],), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            handler: Callable[..., Any] | int | None = before
            signal.signal(number, handler)
        if self._ears is not None:
            signal.set_wakeup_fd(self._heard_before)
            self._ears[1].close()  # the thread hears that, and ends

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def _listen(ear: socket.socket) -> None:
    first = None
    with ear:
        while heard := ear.recv(1):
            if heard[0] not in SIGNALS:
                continue
            if first is not None and time.monotonic() - first > APART:
                os.write(2, b"\nforebear: ended at once, without saving; what was saved before is whole\n")
                os._exit(128 + heard[0])
            first = first or time.monotonic()


LINE = 10  # steps to a line of metrics
LOOKED_AT, AT_MOST = 10, 1 << 18  # batches of held-out text in an evaluation; fewer, where they show so many tokens
STOPPED_EARLY = "stopped early"  # how the note begins
SHARE_OF_SAVING = 20  # at least this many times the duration of a save lies between two


# What else than the loss is told of held-out examples, and how bad it is: by that the best weights are chosen.
Judge = Callable[[], tuple[dict[str, float], float]]


class Split(Protocol):
    """What teaches and what examines; what they are is between the objective and whoever made them."""

    @property
    def train(self) -> Any: ...

    @property
    def held_out(self) -> Any: ...


@dataclass(frozen=True)
class ProgressReport:
    """Where a run stands, for whoever watches."""

    step: int
    total: int | None
    progress: float  # 0 to 1
    seconds: float
    seconds_left: float  # seconds
    tokens_per_second: float  # or whatever else is shown
    lr: float
    losses: dict[str, float]  # of the last steps
    held_out: dict[str, float] | None  # if it was just examined
    unigram_loss: float | None
    num_tokens: str = "tokens"  # what of the text is shown


class TrainingCallback:
    """Told of everything that happens; this one says nothing."""

    def on_progress(self, report: ProgressReport) -> None: ...

    def on_note(self, words: str) -> None: ...

    def on_stage(self, number: int, name: str, words: str) -> None: ...


@dataclass
class _LoopState:
    """What the loop itself has to remember; stored with every checkpoint."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    worse: int = 0  # evaluations since the best
    recent: dict[str, list[float]] = field(default_factory=dict)  # losses since the last line of metrics
    clipped: int = 0  # steps whose gradient was too long
    largest: float = 0.0  # the longest of them
    notes: list[str] = field(default_factory=list)  # what seemed wrong on the way


class Trainer:
    """One run on its way: `run` goes from wherever the folder stands to the end."""

    def __init__(
        self,
        folder: RunFolder,
        learner: Learner,
        objective: Objective,
        split: Split,
        *,
        once: bool = False,
        last: bool = False,
        by_epoch: bool = False,
        unigram: float | None = None,
        judge: Judge | None = None,
        watcher: TrainingCallback | None = None,
    ) -> None:
        self.folder, self.learner, self.objective, self.split = folder, learner, objective, split
        self.once, self.last = once, last  # everything is shown once; what was learned last is kept, not the best
        self.by_epoch, self.counts = by_epoch or last, once or by_epoch  # when it is looked at; whether without descent
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
        """Trains to the end, or until interrupted; the folder, which the caller holds, then has the best weights."""
        with SignalGuard() as interruption, self._failure_told():
            self._begin()
            self.folder.update(state="training")
            self.began = time.monotonic() - self.at.seconds
            usual = self.folder.spec.default_recipe().get("rate")
            troubles = Diagnostics(self.unigram, self.pace.warmup, self.epoch, self._note, usual)
            while not self._over():
                self._step(troubles)
                self.at.seconds = time.monotonic() - self.began
                self.pace.fix_total_steps(self.at.step, self.at.seconds)
                self._look(troubles)
                due = max(self.recipe.save_every, SHARE_OF_SAVING * self.saving)
                if time.monotonic() - self.saved > due and not self._over():
                    self._save()
                if interruption.asked and not self._over():
                    self._stop()
            self._finish()

    @contextlib.contextmanager
    def _failure_told(self) -> Iterator[None]:
        """Enters in run.json that it failed, and why."""
        try:
            yield
        except NonFiniteLossError as error:
            self.folder.update(state="failed", failure=error.message)
            raise

    # -- before

    def _begin(self) -> None:
        one, notes = self.folder.checkpoints.newest_valid()
        for note in notes:
            self.watcher.on_note(note)
        if one is None:
            self._afresh()
        else:
            self.folder.checkpoints.quarantine(one.step)
            self._resume(one)
        self.metrics.truncate(self.at.step)

    def _afresh(self) -> None:
        began = time.monotonic()
        self.learner.initialize()
        seconds_a_step = 0.0
        if self.recipe.time is not None and not self.once:
            seconds_a_step = self.learner.time_step(self._batch(0))
            self.learner.initialize()
            self.at.seconds = time.monotonic() - began  # trying too is a part of the time that was given
        self.folder.update(recipe=self.folder.metadata["recipe"] | self.learner.resolved_settings())
        tokens = self._batch(0).num_tokens if self.recipe.tokens is not None else None
        self.pace = Schedule.for_recipe(self.recipe, self.epoch, seconds_a_step, tokens)
        if self.once:
            self.pace.total = min(self.pace.total or self.epoch, self.epoch)

    def _resume(self, one: Checkpoint) -> None:
        state = one.load_state()
        self.learner.load(one.folder)
        self.at = _LoopState(**state["position"])
        self.pace = Schedule.from_dict(state["pace"], self.recipe)
        self.folder.update(recipe=self.folder.metadata["recipe"] | self.learner.resolved_settings())
        self.watcher.on_note(f"going on from step {self.at.step:,}")

    # -- during

    def _batch(self, step: int):
        return self.objective.batch(self.split.train, self.recipe.batch, BatchKey(self.recipe.seed, step))

    def _step(self, troubles: Diagnostics) -> None:
        step, share = self.at.step, self.pace.lr_fraction(self.at.step)
        batch = self._batch(step)
        losses = self.learner.step(batch, step, share)
        self._hear()
        troubles.no_number(step, sum(losses.values()), self.recipe.rate * share)
        for name, loss in losses.items():
            self.at.recent.setdefault(name, []).append(loss)
        self.at.tokens += batch.num_tokens
        self.at.step += 1
        told = self.learner.clipping_stats()
        self.at.clipped += int(told.get("clipped", 0))
        self.at.largest = max(self.at.largest, told.get("largest_gradient", 0.0))
        troubles.of_gradient(self.at.step, told.get("largest_gradient", 0.0), self.recipe.clip)

    def _look(self, troubles: Diagnostics) -> None:
        """Evaluates, writes a line of metrics and reports, each when it is due."""
        step, over = self.at.step, self._over()
        rate = self.recipe.rate * self.pace.lr_fraction(step - 1)
        held_out, best = None, False
        if over:
            self.learner.conclude()
            self.at.seconds = time.monotonic() - self.began
            self._hear()
        if is_eval_step(step, self.recipe.evaluate_every or (self.epoch if self.by_epoch else None)) or over:
            held_out = self.evaluate()
            if not self.counts:  # to such something may well be impossible
                troubles.no_number(step, sum(held_out.values()), rate)
            bad = sum(held_out.values()) if held_out else math.inf  # where nothing is held out, nothing is known
            if self.last:
                troubles.of_vectors(step, bad, self.learner.model.nothing, rate)
            if self.judge is not None:
                told, bad = self.judge()
                held_out |= told
            best = self._best(bad, troubles)
            if over and not (self.counts and bad == math.inf) and (tokens := _of_tokens(held_out)) is not None:
                troubles.of_end(tokens, self.at.seconds, self.recipe.time, once=self.once)
        if step % LINE and held_out is None:
            return
        losses = {name: sum(recent) / len(recent) for name, recent in self.at.recent.items() if recent}
        if (tokens := _of_tokens(losses)) is not None:
            troubles.of_loss(step, tokens)
        done, seconds = self.pace.progress(step, self.at.seconds), self.at.seconds
        speed = self.at.tokens / max(seconds, 1e-9)
        more = {"held_out": held_out} if held_out else {}
        self.metrics.add(
            step=step, seconds=seconds, tokens=self.at.tokens, rate=rate, tokens_per_second=speed, losses=losses, **more
        )
        self.at.recent = {}
        if best and not over and not self.last:  # where the last is always the best, the clock is enough
            self._save()
        left = seconds * (1 - done) / max(done, 1e-9)
        total, shown = self.pace.total, batch_unit(self.objective)
        told = ProgressReport(step, total, done, seconds, left, speed, rate, losses, held_out, self.unigram, shown)
        self.watcher.on_progress(told)

    def evaluate(self) -> dict[str, float]:
        """The mean loss of each target on the same few batches of held-out text, whenever it is asked."""
        sums: dict[str, float] = {}
        asked: dict[str, int] = {}
        steps = min(LOOKED_AT, -(-AT_MOST // self.recipe.batch)) if len(self.split.held_out) else 0
        steps = min(steps, self.objective.steps(self.split.held_out, self.recipe.batch))
        for number in range(steps):
            batch = self.objective.batch(self.split.held_out, self.recipe.batch, BatchKey(0, number))
            for name, count in batch.supervised_counts().items():
                asked[name] = asked.get(name, 0) + count
            for name, loss in self.learner.evaluate(batch).items():
                sums[name] = sums.get(name, 0.0) + loss
        return {name: total / max(1, asked[name]) for name, total in sums.items()}

    def _best(self, loss: float, troubles: Diagnostics) -> bool:
        """Whether this is the best state so far; of counts and vectors it is always the last."""
        if self.once or self.last:
            self.at.best, self.at.best_step = (loss if math.isfinite(loss) else None), self.at.step
            return True
        if self.at.best is None or loss < self.at.best:
            self.at.best, self.at.best_step, self.at.worse = loss if math.isfinite(loss) else None, self.at.step, 0
            return True
        self.at.worse += 1
        if self.judge is not None and loss == self.at.best:  # as right as before, and it has learned on since
            self.at.best_step = self.at.step
            return True
        if self.at.worse > 1 and self.judge is None:  # one look may be bad luck
            troubles.of_evaluation(self.at.step, loss, self.at.best, self.at.best_step)
        return False

    def _note(self, kind: str, words: str) -> None:
        """Says each kind of thing once in a run, however often it is resumed."""
        if not any(note.startswith(f"{kind}: ") for note in self.at.notes):
            self.at.notes.append(f"{kind}: {words}")
            self.watcher.on_note(f"{kind}: {words}")

    def _hear(self) -> None:
        """Passes on what the learner has to say, if it was not said before."""
        while self.learner.notes:
            words = self.learner.notes.pop(0)
            if words not in self.at.notes:
                self.at.notes.append(words)
                self.watcher.on_note(words)

    def _over(self) -> bool:
        late = self.once and self.recipe.time is not None and self.at.seconds >= self.recipe.time
        return self.learner.ended or self.pace.is_over(self.at.step) or self._bored() or (late and self.at.step > 0)

    def _bored(self) -> bool:
        return self.recipe.patience is not None and self.at.worse >= self.recipe.patience

    # -- after

    def _save(self) -> Checkpoint:
        began = time.monotonic()
        state: dict[str, Any] = {"position": self.at.__dict__, "pace": self.pace.to_dict()}
        one = self.folder.checkpoints.save(self.at.step, state, self.learner.save)
        self.folder.checkpoints.prune(self.recipe.keep, {self.at.best_step} if self.at.best is not None else set())
        self.saved = time.monotonic()
        self.saving = self.saved - began
        return one

    def _stop(self) -> None:
        self._save()
        self.folder.update(state="interrupted", step=self.at.step, seconds=round(self.at.seconds, 3))
        raise UserInterrupt(
            f"interrupted at step {self.at.step:,}; everything is saved",
            file=self.folder.path,
            hint=f"go on with: {self.folder.resume_command}",
        )

    def _finish(self) -> None:
        self.at.seconds = time.monotonic() - self.began  # the last look is a part of it: counts are estimated there
        last = self._save()
        best = last
        if self.at.best is not None and self.at.best_step != last.step:
            found = [one for one in self.folder.checkpoints.list_all() if one.step == self.at.best_step]
            damage = found[0].damage() if found else "is gone"
            if damage is None:
                best = found[0]
            else:
                words = f"the best checkpoint, of step {self.at.best_step:,}, {damage}: the last one is kept instead"
                self._note("not the best", words)
        if self._bored() and not self.pace.is_over(self.at.step):
            total = "" if self.pace.total is None else f" of {self.pace.total:,}"
            looks = f"{self.at.worse:,} look{'s' * (self.at.worse != 1)}"
            kept = f"the weights of step {best.step:,} are kept"
            self._note(STOPPED_EARLY, f"at step {self.at.step:,}{total}, no better for {looks}; {kept}")
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
        self.folder.checkpoints.prune(1, set())  # last: until all is told, a kill would bring us here again


def _of_tokens(losses: dict[str, float]) -> float | None:
    """The loss that frequencies of tokens can be set beside, where there is one."""
    return next((losses[name] for name in ("next", "token", "translation") if name in losses), None)
