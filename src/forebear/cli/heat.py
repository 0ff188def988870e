"""Heat maps in a terminal: cells with colours and numbers, or small ones in shades where there are no colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from rich.text import Text

WEAK, STRONG = (226, 236, 252), (24, 72, 150)  # letters can be read on dark and on light terminals alike
LIGHT = 0.5  # of the strongest: from there on letters are white
SHADES = " ░▒▓█"
LABEL, CELL, SHORT = 13, 9, 4  # columns of a terminal: for a row's name, the widest and the narrowest cell


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    seen: np.ndarray,
    *,
    width: int,
    colours: bool,
    borders: Sequence[int] = (),
) -> Iterator[Text]:
    """Lines of a map with names at its sides; before `borders` a line is drawn. Numbers are left out without room."""
    from rich.cells import cell_len
    from rich.text import Text

    left = min(LABEL, max(map(cell_len, rows)))
    room = (width - left - len(borders)) // len(columns)
    if room < SHORT:
        yield from small(values, seen, colours=colours, rows=rows)
        return
    cell = min(max(*map(cell_len, columns), 3) + 1, room, CELL)
    marks = ["│" if number in borders else "" for number in range(len(columns))]
    yield Text(" " * left + "".join(mark + _right(name, cell) for mark, name in zip(marks, columns, strict=True)))
    most = float(values.max()) or 1.0
    for number, (name, line, may) in enumerate(zip(rows, values.tolist(), seen.tolist(), strict=True)):
        if number in borders:
            yield Text(" " * left + "".join(("┼" if mark else "") + "─" * cell for mark in marks))
        made = Text(_right(name, left, gap=False))
        for value, can, mark in zip(line, may, marks, strict=True):
            told = _right(f"{value:.2f}".removeprefix("0") if value < 0.995 else "1", cell) if can else " " * cell
            made.append(mark).append(told, style=_style(value / most) if can and colours else "")
        yield made


def small(
    values: np.ndarray, seen: np.ndarray, *, colours: bool, rows: Sequence[str] = (), most: float | None = None
) -> Iterator[Text]:
    """The same without numbers, two columns of the terminal to a cell; what is not seen is a dot."""
    from rich.text import Text

    highest = most or float(values.max()) or 1.0
    names = [f"{_right(name, LABEL, gap=False)} " for name in rows] or [""] * len(values)
    for name, line, may in zip(names, values.tolist(), seen.tolist(), strict=True):
        made = Text(name)
        for value, can in zip(line, may, strict=True):
            share = value / highest
            if not can:
                made.append(" ·", style="dim" if colours else "")
            elif colours:
                made.append("  ", style=_style(share))
            else:
                made.append(SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] * 2)
        yield made


def beside(blocks: Sequence[tuple[str, Sequence[Text]]], *, width: int) -> Iterator[Text]:
    """Small maps with their titles, as many side by side as fit."""
    from rich.cells import cell_len
    from rich.text import Text

    wide = max(max(cell_len(title), *(line.cell_len for line in lines)) for title, lines in blocks) + 3
    together = max(1, (width + 3) // wide)
    for begin in range(0, len(blocks), together):
        group = blocks[begin : begin + together]
        yield Text("".join(title + " " * (wide - cell_len(title)) for title, _ in group).rstrip(), style="bold")
        for lines in zip(*(lines for _, lines in group), strict=True):
            made = Text()
            for line in lines:
                made.append_text(line).append(" " * (wide - line.cell_len))
            yield made
        yield Text()


def _right(text: str, width: int, *, gap: bool = True) -> str:
    """The text at the right of so many columns, Chinese characters counted as two; cut where it is longer."""
    from rich.cells import cell_len, set_cell_size

    room = width - gap
    if cell_len(text) > room:
        text = set_cell_size(text, room - 1).rstrip() + "…"
    return " " * (width - cell_len(text)) + text


def _style(share: float) -> str:
    mixed = (round(a + (b - a) * share) for a, b in zip(WEAK, STRONG, strict=True))
    return f"{'#ffffff' if share > LIGHT else '#000000'} on rgb({','.join(map(str, mixed))})"
