"""Durations, counts and bytes as text: parse and format them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from forebear.errors import InputError

SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
DECIMAL_EXPONENTS = {"": 0, "k": 3, "m": 6, "g": 9, "b": 9, "t": 12}


def parse_duration(text: str | float) -> float:
    """Seconds, written as 90, 30s, 5m, 1.5h, 2d or 1h30m."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    text = str(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise InputError(f"{text!r} is no duration", hint="write it as 30s, 5m, 2h or 1h30m")
    return sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in parts)


def parse_count(text: str | float, name: str = "the number") -> int:
    """A whole number, written as 4096, 4_096, 200k, 1.5M or 2G; `name` is the setting's, for the message."""
    match = re.fullmatch(r"(-?\d[\d_]*(?:\.\d+)?(?:e\d\d?)?)([kmgbt]?)", str(text).strip().lower())
    number = Decimal(match[1].replace("_", "")).scaleb(DECIMAL_EXPONENTS[match[2]]) if match else Decimal("0.5")
    if number != int(number):
        flag = f"--{name.replace('_', '-')}" if " " not in name else name
        raise InputError(f"{flag} is {text!r}", hint="write a whole number as 4096, 200k, 1.5M or 2G")
    return int(number)


def format_duration(seconds: float) -> str:
    """Seconds with a fitting unit: 0.5 s, 42 s, 12 min, 3.4 h."""
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 5940:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def format_count(number: float) -> str:
    """A count with three significant digits: 950, 12.3 k, 124 M."""
    for unit in ("", " k", " M", " G"):
        if abs(number) < 999.5 or unit == " G":
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return ""


def format_bytes(count: float) -> str:
    """Bytes with three significant digits: 950 bytes, 12.3 kB, 124 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    power = min(int(math.log10(count) // 3), 4)
    return f"{count / 1000**power:.3g} {' kMGT'[power]}B"
