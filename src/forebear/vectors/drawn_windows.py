"""Windows as chance decides about them, one by one: what compiled loops learn from, for whoever wants to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.kernels.drawing import scrambled_many, thinned
from forebear.kernels.sweeping import Way
from forebear.kernels.windows import Text, Windows, draw


@dataclass(frozen=True)
class Window:
    """A word, the words around it that are looked at, and what it is told from: drawn words, or turns in a tree."""

    word: int
    around: tuple[int, ...]
    drawn: tuple[int, ...]
    turns: str  # "lrr": left, right, right; "" where words are drawn


def drawn_windows(
    tokens: np.ndarray,
    lengths: np.ndarray,
    kept: np.ndarray,
    way: Way,
    *,
    rate: float,
    moment: tuple[int, int],
    many: int,
) -> list[Window]:
    """The first windows of a batch in which there is something to learn, as free-running loops draw them."""
    found, ends = thinned(tokens, lengths, kept, moment)
    if not len(found) or not way.most:
        return []
    starts, _ = way.parts(rate, len(found))
    part = int(starts[1])
    text = Text(found, ends, scrambled_many(moment, min(len(starts) - 1, -(-2 * many // part))), starts)
    made: list[Window] = []
    plainly: Any = getattr(draw, "py_func")  # noqa: B009 - what was compiled remembers what it was made of
    for number in range(len(text.states)):
        room = way.windows(part)
        plainly(text, way.supply, way.window, number, room, 0, way.slots, way.kinds)
        for at in range(min(part, len(found) - number * part)):
            if room.blocks[at]:
                made.append(_window(found, number * part + at, room, at, way))
    return made[:many]


def _window(found: np.ndarray, here: int, room: Windows, at: int, way: Way) -> Window:
    around = [int(found[place]) for place in range(room.lefts[at], room.rights[at]) if place != here]
    slots = slice(at * way.slots, at * way.slots + int(room.blocks[at]) * len(way.kinds))
    targets, signs = room.targets[slots], room.signs[slots]
    if len(way.supply.stream):
        return Window(int(found[here]), tuple(around), tuple(int(one) for one in targets[signs < 0]), "")
    turns = "".join("l" if sign > 0 else "r" for sign in signs if sign)
    return Window(int(found[here]), tuple(around), (), turns)
