"""A curve in a terminal: dots of braille, two by four to a character, with a level line to compare with."""

from __future__ import annotations

from collections.abc import Sequence

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column within a character
BLANK = 0x2800


def chart(
    points: Sequence[tuple[float, float]], *, level: float | None = None, width: int = 60, height: int = 8
) -> list[str]:
    """The points (x, y) as lines of text with a scale on the left; `level` is drawn as a dotted line."""
    if not points:
        return []
    values = [y for _, y in points] + ([level] if level is not None else [])
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    first, last = points[0][0], points[-1][0]
    cells = [[0] * width for _ in range(height)]

    def dot(column: int, value: float) -> None:
        row = round((high - value) / span * (4 * height - 1))
        cells[row // 4][column // 2] |= DOTS[row % 4][column % 2]

    if level is not None:
        for column in range(0, 2 * width, 4):
            dot(column, level)
    before: tuple[int, float] | None = None
    for x, y in points:
        column = round((x - first) / ((last - first) or 1.0) * (2 * width - 1))
        for between in range(before[0] + 1, column) if before else ():
            share = (between - before[0]) / (column - before[0]) if before else 0
            dot(between, before[1] + share * (y - before[1]) if before else y)
        dot(column, y)
        before = (column, y)
    scale = [f"{high:7.3f} ", *[" " * 8] * (height - 2), f"{low:7.3f} "] if height > 1 else [f"{high:7.3f} "]
    return [left + "".join(chr(BLANK + cell) for cell in row) for left, row in zip(scale, cells, strict=True)]
