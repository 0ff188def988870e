"""How commands speak: one JSON document or tables for people on stdout, progress with time left on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.errors import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forebear.text.ledger import Ledger


COUNTED = 5  # seconds between two lines that count
LOGGED = 30  # seconds between two lines of progress where there is no terminal


@Parameter(name="*")
@dataclass(frozen=True)
class Speaking:
    """Options of every command."""

    json: Annotated[bool, Parameter(negative="", show_default=False)] = False
    "Print one JSON document instead of tables."
    quiet: Annotated[bool, Parameter(negative="", show_default=False)] = False
    "No progress, no notes; only the result."
    config: Annotated[str | None, Parameter(show_default=False)] = None  # read at the front door, for every command
    "A TOML file with settings, a table for each command; what is given here wins."

    def tell(self, facts: dict[str, Any], draw: Callable[[Console], object]) -> None:
        """The result: as JSON, or drawn for people."""
        if self.json:
            text = json.dumps(facts, ensure_ascii=False, indent=1, default=str)
            print(text.encode("utf-8", "backslashreplace").decode())  # noqa: T201
        else:
            draw(console())

    def note(self, notes: Iterable[str]) -> None:
        """What a person should know about a run beside the result."""
        for note in () if self.quiet else notes:
            print(f"note: {note}", file=sys.stderr)  # noqa: T201

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A bar with speed and time left on a terminal; in a log a line every now and then."""
        if self.quiet or not sys.stderr.isatty():
            yield _line_by_line(what) if not self.quiet else lambda done, total: None
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(what, total=None)

        def look(done: int, total: int) -> None:
            alone(bar)
            bar.update(task, completed=done, total=total)

        try:
            yield look
        finally:
            bar.stop()

    @contextmanager
    def counting(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """How many of something are done and how fast, every now and then: where nobody knows how many there are."""
        began = last = time.monotonic()

        def look(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if not self.quiet and now - last >= COUNTED:
                last = now
                left = f", about {(now - began) * (total - done) / done:.0f} s left" if total > done else ""
                print(f"{done:,} {what}, {done / (now - began):,.0f} a second{left}", file=sys.stderr)  # noqa: T201

        yield look


_DISPLAY: list[Any] = []  # the one that is being drawn; a terminal has room for one


def alone(display: Any) -> None:
    """Starts a display of rich's, if it is not the one that is shown, and stops the one that is."""
    if [display] != _DISPLAY:
        for other in _DISPLAY:
            other.stop()
        _DISPLAY[:] = [display]
        display.start()


def _line_by_line(what: str) -> Callable[[int, int], None]:
    """Progress for a log: how far, how fast, how long yet, every LOGGED seconds."""
    began = last = time.monotonic()

    def look(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= LOGGED and done:
            last = now
            left = (now - began) * (total - done) / done
            rate = done / (now - began) / 1e6
            print(f"{what}: {done / max(total, 1):.0%}, {rate:.1f} MB/s, about {left:.0f} s left", file=sys.stderr)  # noqa: T201

    return look


def console(*, wide: bool = True) -> Console:
    """Standard output for people. Tables need some width: a terminal too narrow wraps them, but does not cut words."""
    from rich.console import Console

    class Honest(Console):
        """One that tells a broken pipe instead of ending the program."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = shutil.get_terminal_size((120, 25)).columns
    return Honest(highlight=False, width=max(width, 88) if wide else None)


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns whose name starts with `>` hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    made.show_header = any(column.strip(">") for column in columns)
    for column in columns:
        made.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    return made


def ledger_table(ledger: Ledger) -> Table:
    """What went in, what was dropped, what came out, stage by stage."""
    from forebear.text.ledger import UNITS

    rows = list(ledger.rows())
    units = [unit for unit in UNITS if any(unit in counts for _, _, counts in rows)]
    made = table("stage", "", *(f">{unit}" for unit in units), title="Ledger")
    before = None
    for stage, what, counts in rows:
        cells = [f"{counts[unit]:,}" if unit in counts else "" for unit in units]
        made.add_row(stage if stage != before else "", what, *cells, style="yellow" if what.startswith("−") else "")
        before = stage
    return made


def ledger_notes(ledger: Ledger) -> Iterator[str]:
    """What a person should know beside the table: bytes that were mended, files that were not read."""
    for how, listed in ledger.mended.items():
        first = listed.examples[0]
        yield f"{listed.count:,} bad bytes {how}, the first in {shown(first['file'])} at byte {first['byte']:,}"
    for reason, listed in ledger.aside.items():
        yield f"{listed.count:,} files set aside ({reason}), the first {shown(listed.examples[0]['file'])}"


def bar(share: float, width: int = 30) -> str:
    """A share as a bar of blocks, to an eighth of a block."""
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else " ▏▎▍▌▋▊▉"[eighths % 8])


def counted(number: int, what: str) -> str:
    """So many of something, in words: 1 text, 2 texts."""
    return f"{number:,} {what}{'s' * (number != 1)}"
