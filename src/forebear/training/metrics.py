"""The log of a run: a JSON line for every so many steps, cut back to where a resumed run begins again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebear.text.aside import written_aside


@dataclass(frozen=True)
class Metrics:
    """An append-only file; a line that was cut short by a kill is not counted."""

    file: Path

    def read(self) -> Iterator[dict[str, Any]]:
        if not self.file.exists():
            return
        with open(self.file, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except ValueError:
                    return

    def add(self, **facts: Any) -> None:
        line = json.dumps({name: _told(value) for name, value in facts.items()})
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def cut(self, step: int) -> None:
        """Forgets what lies beyond this step."""
        kept = [line for line in self.read() if line["step"] <= step]
        with written_aside(self.file) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())


def _told(value: Any) -> Any:
    """Numbers short enough to read; what is no number is null, as JSON wants it."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return {name: _told(one) for name, one in value.items()} if isinstance(value, dict) else value
