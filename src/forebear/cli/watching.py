"""Training as one watches it: a bar with time left, and the loss drawn against what mere frequencies would cost."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from forebear.cli.chart import chart
from forebear.cli.printing import LOGGED, Speaking, alone
from forebear.kernels.compiling import heard

if TYPE_CHECKING:
    from forebear.training.trainer import Report, Watcher


SMALL = 0.1  # losses below it have more digits
COMPILING = "loops are compiled for this processor, which takes some seconds; they are kept for the next time"


@contextlib.contextmanager
def watching(speaking: Speaking) -> Iterator[Watcher]:
    """A watcher for a terminal, for a log, or for nobody; it hears of compiling too, which takes its time."""
    from forebear.training.trainer import Watcher

    with contextlib.ExitStack() as stack:
        loud = _log if not sys.stderr.isatty() else lambda: stack.enter_context(_live())
        watcher = Watcher() if speaking.quiet else loud()
        stack.enter_context(heard(lambda: watcher.note(COMPILING)))
        yield watcher


def clock(seconds: float) -> str:
    """5 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def figures(losses: dict[str, float]) -> str:
    """Each by its name; small ones with more digits, since they too are to be seen falling."""
    return ", ".join(f"{name} {loss:.{5 if 0 < loss < SMALL else 3}f}" for name, loss in losses.items())


def told(report: Report) -> str:
    """A report in one line."""
    of = f"/{report.total:,}" if report.total else ""
    losses, held_out = figures(report.losses), figures(report.held_out or {})
    parts = [
        f"step {report.step:,}{of}",
        f"{report.tokens_per_second:,.0f} {report.shown}/s",
        f"{clock(report.left)} left",
        f"loss {losses}" if losses else "",
        f"held out {held_out}" if held_out else "",
        f"(frequencies alone: {report.unigram:.3f})" if report.unigram and held_out else "",
    ]
    return " · ".join(filter(None, parts))


def _log() -> Watcher:
    from forebear.training.trainer import Watcher

    class Log(Watcher):
        """Lines for a file: every evaluation, and one now and then."""

        last = time.monotonic()

        def report(self, report: Report) -> None:
            now = time.monotonic()
            if report.held_out or now - self.last >= LOGGED:
                self.last = now
                print(told(report), file=sys.stderr)  # noqa: T201

        def note(self, words: str) -> None:
            print(f"note: {words}", file=sys.stderr)  # noqa: T201

        def stage(self, number: int, name: str, words: str) -> None:
            print(f"{number}/9 {name}: {words}", file=sys.stderr)  # noqa: T201

    return Log()


@contextlib.contextmanager
def _live() -> Iterator[Watcher]:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    from forebear.training.trainer import Watcher

    console = Console(stderr=True, highlight=False)

    class Picture(Watcher):
        """Redrawn in place; notes scroll by above it."""

        def __init__(self, live: Any) -> None:
            self.live = live
            self.points: list[tuple[float, float]] = []
            self.held_out = ""

        def report(self, report: Report) -> None:
            if report.held_out:
                self.held_out = f"held out {figures(report.held_out)}"
            if report.losses:
                self.points.append((report.step, next(iter(report.losses.values()))))  # of tokens, where there are more
            width = min(72, console.width - 10)
            lines = chart(self.points, level=report.unigram, width=max(width, 10))
            legend = f"        ⠤ loss by step, {self.held_out}"
            if report.unigram is not None:
                legend += f"; dotted: token frequencies alone, {report.unigram:.3f}"
            bar = ProgressBar(total=1.0, completed=report.done, width=max(width, 10))
            alone(self.live)
            self.live.update(Group(bar, Text(told(report)), *map(Text, lines), Text(legend)), refresh=True)

        def note(self, words: str) -> None:
            console.print(f"[yellow]note: {words}[/]", markup=True, soft_wrap=True)

        def stage(self, number: int, name: str, words: str) -> None:
            console.print(f"{number}/9 {name}: {words}", style="dim", markup=False, soft_wrap=True)

    live = Live(console=console, auto_refresh=False, transient=False)
    try:
        yield Picture(live)
    finally:
        live.stop()
