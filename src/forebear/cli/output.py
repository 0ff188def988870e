"""Output of commands: JSON or tables on stdout, progress on stderr; loss curves, heat maps, image files."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.style import StyleType
from rich.table import Table as RichTable
from rich.text import Text

from forebear.errors import InputError, printable_path
from forebear.kernels.jit import on_compile

if TYPE_CHECKING:
    import numpy as np

    from forebear.data.io.text_ledger import Ledger
    from forebear.training.trainer import ProgressReport, TrainingCallback

COUNTER_INTERVAL = 5  # seconds between lines of a counter
LOG_INTERVAL = 30  # seconds between lines of progress without a terminal
MAX_SHOWN_CHARACTERS = 400  # characters of a text next to its metrics
SMALL_LOSS = 0.1  # losses below are shown with more digits

ProgressCallback = Callable[[int, int], None]  # done and total
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


class Table(RichTable):
    """A plain table; cells are text without markup, columns whose name starts with `>` are right-aligned."""

    def __init__(self, *columns: str, title: str | None = None, rows: Iterable[Iterable[RenderableType]] = ()) -> None:
        super().__init__(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
        self.show_header = any(column.strip(">") for column in columns)
        for column in columns:
            justify = "right" if column.startswith(">") else "left"
            self.add_column(column.removeprefix(">"), justify=justify, overflow="fold")
        for row in rows:
            self.add_row(*row)

    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """Add a row; whitespace and control characters of text are escaped."""
        cells = (printable_cell(cell) if isinstance(cell, str) else cell for cell in renderables)
        super().add_row(*cells, style=style, end_section=end_section)


class Console(RichConsole):
    """Standard output; raises BrokenPipeError instead of exiting."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def plain(self, text: str, *, style: str | None = None) -> None:
        """Print a line as it is: no markup, not wrapped."""
        self.print(text, style=style, markup=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line with markup in yellow, not wrapped."""
        self.print(f"[yellow]{text}[/]", soft_wrap=True)

    def dim(self, *texts: str) -> None:
        """Print lines without markup in a faint color, not wrapped."""
        for text in texts:
            self.print(printable_cell(text), style="dim", soft_wrap=True)

    def bold(self, text: str, rest: str = "") -> None:
        """Print a text in bold and, with markup, what follows it; not wrapped."""
        self.print(f"[bold]{printable_cell(text)}[/]{rest}", soft_wrap=True)

    def notes(self, notes: Iterable[str]) -> None:
        """Print notes of a run in yellow."""
        for note in notes:
            self.plain(f"note: {note}", style="yellow")

    def table(self, *columns: str, title: str | None = None, rows: Iterable[Iterable[RenderableType]]) -> None:
        self.print(Table(*columns, title=title, rows=rows))

    def lines(self, lines: Iterable[str | Text]) -> None:
        """Print lines that were laid out for this width."""
        for line in lines:
            self.print(line, markup=False, no_wrap=True, overflow="ignore", crop=False)


DrawFn = Callable[[Console], object]
RenderFn = Callable[[str], bytes | str]  # file format such as png → content


def make_console(*, wide: bool = True) -> Console:
    """Standard output; at least 88 columns for tables, which a narrow terminal wraps."""
    width = shutil.get_terminal_size((120, 25)).columns
    return Console(highlight=False, emoji=False, width=max(width, 88) if wide else None)


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Options of every command."""

    json: Switch = False
    "Print one JSON document instead of tables."
    quiet: Switch = False
    "No progress, no notes; only the result."
    config: Annotated[str | None, Parameter(show_default=False)] = None  # read by `main`, for every command
    "A TOML file with settings, a table for each command; what is given here wins."

    def emit(self, result: dict[str, Any], draw: DrawFn) -> None:
        """Print the result as JSON, or draw it."""
        if self.json:
            text = json.dumps(result, ensure_ascii=False, indent=1, default=str)
            print(text.encode("utf-8", "backslashreplace").decode())  # noqa: T201
        else:
            draw(make_console())

    def emit_summary(self, result: dict[str, Any], summary: str) -> None:
        """Print the result as JSON, or as a line."""
        self.emit(result, lambda console: console.plain(summary))

    def emit_with_image(self, result: dict[str, Any], draw: DrawFn, file: Path | None, render: RenderFn) -> None:
        """Render a picture or page in the format of the file's suffix and write it; then print the result."""
        if file is None:
            self.emit(result, draw)
            return
        image = render(file.suffix.lower().removeprefix("."))
        write_file(file, image.encode() if isinstance(image, str) else image)
        self.emit(result | {"to": str(file)}, lambda console: (draw(console), console.plain(f"written: {file}")))

    def note(self, notes: Iterable[str]) -> None:
        """Print notes on stderr."""
        for note in () if self.quiet else notes:
            print(f"note: {note}", file=sys.stderr)  # noqa: T201

    @contextmanager
    def progress(self, description: str) -> Iterator[ProgressCallback]:
        """A progress bar with speed and time left on a terminal; periodic lines in a log."""

        def describe(done: int, total: int, seconds: float) -> str:
            seconds_left, speed = seconds * (total - done) / done, done / seconds / 1e6
            return f"{description}: {done / max(total, 1):.0%}, {speed:.1f} MB/s, about {seconds_left:.0f} s left"

        if self.quiet or not sys.stderr.isatty():
            yield self._progress_lines(LOG_INTERVAL, describe)
            return
        from rich import progress

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.DownloadColumn())
        times = (progress.TransferSpeedColumn(), progress.TimeRemainingColumn())
        bar = progress.Progress(*columns, *times, console=RichConsole(stderr=True, emoji=False), transient=True)
        task = bar.add_task(description, total=None)

        def update(done: int, total: int) -> None:
            start_display(bar)
            bar.update(task, completed=done, total=total)

        try:
            yield update
        finally:
            bar.stop()

    @contextmanager
    def counter(self, unit: str) -> Iterator[ProgressCallback]:
        """Report count and speed periodically, for work of unknown size."""

        def describe(done: int, total: int, seconds: float) -> str:
            time_left = f", about {seconds * (total - done) / done:.0f} s left" if total > done else ""
            return f"{done:,} {unit}, {done / seconds:,.0f} a second{time_left}"

        yield self._progress_lines(COUNTER_INTERVAL, describe)

    def _progress_lines(self, interval: float, describe: Callable[[int, int, float], str]) -> ProgressCallback:
        """Print a line on stderr every `interval` seconds, described by (done, total, seconds)."""
        start_time = last_report_time = time.monotonic()

        def report(done: int, total: int) -> None:
            nonlocal last_report_time
            now = time.monotonic()
            if done and not self.quiet and now - last_report_time >= interval:
                last_report_time = now
                print(describe(done, total, now - start_time), file=sys.stderr)  # noqa: T201

        return report


_ACTIVE_DISPLAYS: list[Any] = []  # at most one: a terminal can show only one live display


def start_display(display: Any) -> None:
    """Start a rich display and stop the current one."""
    if [display] != _ACTIVE_DISPLAYS:
        for other in _ACTIVE_DISPLAYS:
            other.stop()
        _ACTIVE_DISPLAYS[:] = [display]
        display.start()


def ledger_table(ledger: Ledger) -> Table:
    """The ledger as a table: inputs, drops and outputs by stage."""
    from forebear.data.io.text_ledger import LEDGER_UNITS

    rows = list(ledger.rows())
    units = [unit for unit in LEDGER_UNITS if any(unit in counts for _, _, counts in rows)]
    table = Table("stage", "", *(f">{unit}" for unit in units), title="Ledger")
    previous_stage = None
    for stage, label, counts in rows:
        cells = [f"{counts[unit]:,}" if unit in counts else "" for unit in units]
        shown_stage, style = stage if stage != previous_stage else "", "yellow" if label.startswith("−") else ""
        table.add_row(shown_stage, label, *cells, style=style)
        previous_stage = stage
    return table


def ledger_notes(ledger: Ledger) -> Iterator[str]:
    """Notes for the table: repaired bytes and skipped files."""
    for treatment, entry in ledger.repaired.items():
        first = entry.examples[0]
        position = f"{printable_path(first['file'])} at byte {first['byte']:,}"
        yield f"{entry.count:,} bad bytes {treatment}, the first in {position}"
    for reason, entry in ledger.skipped_files.items():
        yield f"{entry.count:,} files set aside ({reason}), the first {printable_path(entry.examples[0]['file'])}"


def text_bar(fraction: float, width: int = 30) -> str:
    """A fraction as a bar of blocks, to an eighth of a block."""
    eighths = round(fraction * width * 8)
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else " ▏▎▍▌▋▊▉"[eighths % 8])


def printable_cell(text: str) -> str:
    """The text for a table cell: whitespace and control characters escaped, brackets not read as markup."""
    return escape(text if text.isprintable() else repr(text)[1:-1])


def shorten(text: str) -> str:
    """The text with its middle omitted if it is long."""
    half = MAX_SHOWN_CHARACTERS // 2
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:half]} … {text[-half:]}"


def printable(text: str) -> str:
    """The text for a terminal: control characters escaped, line ends as spaces."""
    return "".join(c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in text)


def replace_controls(text: str) -> str:
    """The text with U+FFFD for control characters other than line ends and tabs."""
    return "".join("\ufffd" if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 else c for c in text)


def format_number(value: float, digits: int = 3) -> str:
    """A number for a table."""
    return f"{value:,.{digits}f}" if abs(value) < 1e15 else f"{value:.4g}"


def number_cell(value: float | None, spec: str = ",", missing: str = "") -> str:
    """A number by a format specification; `missing` if there is none."""
    return missing if value is None else format(value, spec)


def count_phrase(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun, or with noun and verb: 1 text, 2 texts, 2 texts have."""
    return f"1 {singular}" if count == 1 else f"{count:,} {plural or singular + 's'}"


# --- Curves and heat maps ---


BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column within a character
BLANK_BRAILLE = 0x2800
HEAT_COLORS = (226, 236, 252), (24, 72, 150)  # weak and strong; readable on dark and light terminals
SHADES = " ░▒▓█"
LABEL_WIDTH, MAX_CELL_WIDTH, MIN_CELL_WIDTH = 13, 9, 4  # terminal columns


def curve_lines(
    points: Sequence[tuple[float, float]], *, level: float | None = None, width: int = 60, height: int = 8
) -> list[str]:
    """Plot points (x, y) with 2 × 4 dots per character and a scale at the left; `level` is a dotted baseline."""
    if not points:
        return []
    values = [y for _, y in points] + ([level] if level is not None else [])
    min_value, max_value = min(values), max(values)
    value_range = (max_value - min_value) or 1.0
    first_x, last_x = points[0][0], points[-1][0]
    cells = [[0] * width for _ in range(height)]

    def set_dot(column: int, value: float) -> None:
        row = round((max_value - value) / value_range * (4 * height - 1))
        cells[row // 4][column // 2] |= BRAILLE_DOTS[row % 4][column % 2]

    if level is not None:
        for column in range(0, 2 * width, 4):
            set_dot(column, level)
    dot_positions = [(round((x - first_x) / ((last_x - first_x) or 1.0) * (2 * width - 1)), y) for x, y in points]
    for column, y in dot_positions:
        set_dot(column, y)
    for (left, left_y), (right, right_y) in pairwise(dot_positions):
        for column in range(left + 1, right):
            set_dot(column, left_y + (column - left) / (right - left) * (right_y - left_y))
    scale = [f"{max_value:7.3f} ", *[" " * 8] * (height - 2), f"{min_value:7.3f} "][:height]
    return [label + "".join(chr(BLANK_BRAILLE + cell) for cell in row) for label, row in zip(scale, cells, strict=True)]


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    visible: np.ndarray,
    *,
    width: int,
    use_color: bool,
    separators_before: Sequence[int] = (),
) -> Iterator[Text]:
    """A heat map with numbers and names of rows and columns, lines before `separators_before`; small if too wide."""
    label_width = min(LABEL_WIDTH, max(map(cell_len, rows)))
    available_width = (width - label_width - len(separators_before)) // len(columns)
    if available_width < MIN_CELL_WIDTH:
        yield from small_heatmap(values, visible, use_color=use_color, rows=rows)
        return
    cell_width = min(max(*map(cell_len, columns), 3) + 1, available_width, MAX_CELL_WIDTH)
    separators = ["│" if index in separators_before else "" for index in range(len(columns))]
    names = (separator + _align_right(name, cell_width) for separator, name in zip(separators, columns, strict=True))
    yield Text(" " * label_width + "".join(names))
    max_value = float(values.max()) or 1.0
    for index, (name, row_values, visible_row) in enumerate(zip(rows, values.tolist(), visible.tolist(), strict=True)):
        if index in separators_before:
            crossings = ("┼" if separator else "" for separator in separators)
            yield Text(" " * label_width + "".join(crossing + "─" * cell_width for crossing in crossings))
        line = Text(_align_right(name, label_width, gap=False))
        for value, is_visible, separator in zip(row_values, visible_row, separators, strict=True):
            number_text = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
            style = cell_style(value / max_value) if is_visible and use_color else ""
            line.append(separator).append(_align_right(number_text if is_visible else "", cell_width), style=style)
        yield line


def small_heatmap(
    values: np.ndarray,
    visible: np.ndarray,
    *,
    use_color: bool,
    rows: Sequence[str] = (),
    max_value: float | None = None,
) -> Iterator[Text]:
    """A heat map without numbers, two characters per cell; invisible cells are dots."""
    max_value = max_value or float(values.max()) or 1.0
    names = [f"{_align_right(name, LABEL_WIDTH, gap=False)} " for name in rows] or [""] * len(values)
    for name, row_values, visible_row in zip(names, values.tolist(), visible.tolist(), strict=True):
        line = Text(name)
        for value, is_visible in zip(row_values, visible_row, strict=True):
            fraction = value / max_value
            if not is_visible:
                line.append(" ·", style="dim" if use_color else "")
            elif use_color:
                line.append("  ", style=cell_style(fraction))
            else:
                line.append(SHADES[min(int(fraction * len(SHADES)), len(SHADES) - 1)] * 2)
        yield line


def maps_side_by_side(blocks: Sequence[tuple[str, Sequence[Text]]], *, width: int) -> Iterator[Text]:
    """Small heat maps with titles, as many side by side as fit."""
    block_width = max(max(cell_len(title), *(line.cell_len for line in lines)) for title, lines in blocks) + 3
    per_row = max(1, (width + 3) // block_width)
    for start in range(0, len(blocks), per_row):
        row_blocks = blocks[start : start + per_row]
        titles = (title + " " * (block_width - cell_len(title)) for title, _ in row_blocks)
        yield Text("".join(titles).rstrip(), style="bold")
        for lines in zip(*(lines for _, lines in row_blocks), strict=True):
            joined = Text()
            for line in lines:
                joined.append_text(line).append(" " * (block_width - line.cell_len))
            yield joined
        yield Text()


def _align_right(text: str, width: int, *, gap: bool = True) -> str:
    """Right-aligned text, Chinese characters counted as two columns; truncated if longer."""
    available = width - gap
    if cell_len(text) > available:
        text = set_cell_size(text, available - 1).rstrip() + "…"
    return " " * (width - cell_len(text)) + text


def cell_style(fraction: float, colors: Sequence[Sequence[int]] = HEAT_COLORS, white_text_above: float = 0.5) -> str:
    """A background between the weak and the strong color; letters are white above a fraction."""
    channels = (round(low + (high - low) * fraction) for low, high in zip(*colors, strict=True))
    return f"{'#ffffff' if fraction > white_text_above else '#000000'} on rgb({','.join(map(str, channels))})"


# --- Image files ---


def _require_image(*suffixes: str) -> Parameter:
    """An option that rejects files with other suffixes before any work."""

    def require(_: Any, file: Path | None) -> None:
        if file is None:
            return
        if file.suffix.lower() not in suffixes:
            message = f"what {file.name} is to be cannot be told by its name"
            raise InputError(message, hint=f"let it end with one of {', '.join(suffixes)}")
        require_folder(file, f"look{suffixes[0]}")

    return Parameter(validator=require)


PictureFile = Annotated[Path | None, Parameter(help="Write a picture (.png, .svg)."), _require_image(".png", ".svg")]
ImageFile = Annotated[Path | None, _require_image(".png", ".svg", ".html")]
PictureOrPage = Annotated[ImageFile, Parameter(help="Write a picture (.png, .svg) or a page (.html).")]


def require_folder(file: Path, example: str) -> None:
    """Raise InputError for a file that is a folder, or whose folder does not exist."""
    if file.is_dir() or not file.absolute().parent.is_dir():
        message = "is a folder" if file.is_dir() else "the folder of this file does not exist"
        raise InputError(message, file=file, hint=f"name a file in a folder that exists, such as {example}")


def write_file(file: Path, content: bytes) -> None:
    """Write a file atomically."""
    from forebear.data.io.atomic import atomic_write, explain_disk_errors

    with explain_disk_errors(file), atomic_write(file) as output:
        output.write(content)


# --- Training progress: a bar, and the loss with the unigram baseline ---


COMPILING_NOTE = "loops are compiled for this processor, which takes some seconds; they are kept for the next time"


@contextmanager
def training_progress(output: Output) -> Iterator[TrainingCallback]:
    """A training callback for a terminal, a log or --quiet; it also announces kernel compilation."""
    from forebear.training.trainer import TrainingCallback

    with ExitStack() as stack:
        make_callback = _log_callback if not sys.stderr.isatty() else lambda: stack.enter_context(_live_callback())
        callback = TrainingCallback() if output.quiet else make_callback()
        stack.enter_context(on_compile(lambda: callback.on_note(COMPILING_NOTE)))
        yield callback


def format_clock(seconds: float) -> str:
    """5 s, 3 min 20 s, 2 h 5 min."""
    minutes, rest_seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest_seconds} s" if minutes else f"{rest_seconds} s"


def format_losses(losses: dict[str, float]) -> str:
    """Losses by name; small ones with more digits."""
    return ", ".join(f"{name} {loss:.{5 if 0 < loss < SMALL_LOSS else 3}f}" for name, loss in losses.items())


def format_progress(report: ProgressReport) -> str:
    """A progress report in one line."""
    total = f"/{report.total:,}" if report.total else ""
    losses, held_out = format_losses(report.losses), format_losses(report.held_out or {})
    parts = [
        f"step {report.step:,}{total}",
        f"{report.tokens_per_second:,.0f} {report.unit}/s",
        f"{format_clock(report.seconds_left)} left",
        f"loss {losses}" if losses else "",
        f"held out {held_out}" if held_out else "",
        f"(frequencies alone: {report.unigram_loss:.3f})" if report.unigram_loss and held_out else "",
    ]
    return " · ".join(filter(None, parts))


def _log_callback() -> TrainingCallback:
    from forebear.training.trainer import TrainingCallback

    class LogCallback(TrainingCallback):
        """Prints log lines periodically and at every evaluation."""

        last = time.monotonic()

        def on_progress(self, report: ProgressReport) -> None:
            now = time.monotonic()
            if report.held_out or now - self.last >= LOG_INTERVAL:
                self.last = now
                print(format_progress(report), file=sys.stderr)  # noqa: T201

        def on_note(self, message: str) -> None:
            print(f"note: {message}", file=sys.stderr)  # noqa: T201

        def on_stage(self, number: int, name: str, description: str) -> None:
            print(f"{number}/9 {name}: {description}", file=sys.stderr)  # noqa: T201

    return LogCallback()


@contextmanager
def _live_callback() -> Iterator[TrainingCallback]:
    from rich.live import Live
    from rich.progress_bar import ProgressBar

    from forebear.training.trainer import TrainingCallback

    console = RichConsole(stderr=True, highlight=False, emoji=False)

    class LiveCallback(TrainingCallback):
        """A live display; notes are printed above it."""

        def __init__(self, live: Any) -> None:
            self.live = live
            self.loss_curve: list[tuple[float, float]] = []
            self.held_out = ""

        def on_progress(self, report: ProgressReport) -> None:
            if report.held_out:
                self.held_out = f"held out {format_losses(report.held_out)}"
            if report.losses:
                token_loss = next(iter(report.losses.values()))  # the first of several losses
                self.loss_curve.append((report.step, token_loss))
            width = min(72, console.width - 10)
            lines = curve_lines(self.loss_curve, level=report.unigram_loss, width=max(width, 10))
            legend = f"        ⠤ loss by step, {self.held_out}"
            if report.unigram_loss is not None:
                legend += f"; dotted: token frequencies alone, {report.unigram_loss:.3f}"
            bar = ProgressBar(total=1.0, completed=report.progress, width=max(width, 10))
            start_display(self.live)
            self.live.update(Group(bar, Text(format_progress(report)), *map(Text, lines), Text(legend)), refresh=True)

        def on_note(self, message: str) -> None:
            console.print(f"[yellow]note: {message}[/]", markup=True, soft_wrap=True)

        def on_stage(self, number: int, name: str, description: str) -> None:
            console.print(f"{number}/9 {name}: {description}", style="dim", markup=False, soft_wrap=True)

    live = Live(console=console, auto_refresh=False, transient=False)
    try:
        yield LiveCallback(live)
    finally:
        live.stop()
