"""Figures as people say them: durations, counts, bytes."""

from __future__ import annotations

import math


def format_duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 5940:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def format_count(number: float) -> str:
    """A count in three figures: 950, 12.3 k, 124 M."""
    for unit in ("", " k", " M", " G"):
        if abs(number) < 999.5 or unit == " G":
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return ""


def format_bytes(count: float) -> str:
    """Bytes as people say them."""
    if count < 1000:
        return f"{count:.0f} bytes"
    power = min(int(math.log10(count) // 3), 4)
    return f"{count / 1000**power:.3g} {' kMGT'[power]}B"
