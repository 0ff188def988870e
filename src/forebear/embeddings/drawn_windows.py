"""Windows as chance decides about them, one by one: what compiled loops learn from, for whoever wants to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.kernels.windows import TokenRuns, WindowBatch, draw_windows
from forebear.kernels.word2vec_sampling import hash_seeds, subsample
from forebear.kernels.word2vec_threads import Word2VecVariant


@dataclass(frozen=True)
class SampledWindow:
    """A word, the words around it that are looked at, and what it is told from: drawn words, or turns in a tree."""

    word: int
    context: tuple[int, ...]
    drawn: tuple[int, ...]
    path_turns: str  # "lrr": left, right, right; "" where words are drawn


def sample_windows(
    tokens: np.ndarray,
    lengths: np.ndarray,
    kept: np.ndarray,
    way: Word2VecVariant,
    *,
    rate: float,
    moment: tuple[int, int],
    many: int,
) -> list[SampledWindow]:
    """The first windows of a batch in which there is something to learn, as free-running loops draw them."""
    found, ends = subsample(tokens, lengths, kept, moment)
    if not len(found) or not way.max_window:
        return []
    starts, _ = way.parts(rate, len(found))
    part = int(starts[1])
    text = TokenRuns(found, ends, hash_seeds(moment, min(len(starts) - 1, -(-2 * many // part))), starts)
    made: list[SampledWindow] = []
    plainly: Any = getattr(draw_windows, "py_func")  # noqa: B009 - what was compiled remembers what it was made of
    for number in range(len(text.states)):
        room = way.windows(part)
        plainly(text, way.supply, way.window, number, room, 0, way.slots, way.kinds)
        for at in range(min(part, len(found) - number * part)):
            if room.blocks[at]:
                made.append(_window(found, number * part + at, room, at, way))
    return made[:many]


def _window(found: np.ndarray, here: int, room: WindowBatch, at: int, way: Word2VecVariant) -> SampledWindow:
    around = [int(found[place]) for place in range(room.lefts[at], room.rights[at]) if place != here]
    slots = slice(at * way.slots, at * way.slots + int(room.blocks[at]) * len(way.kinds))
    targets, signs = room.targets[slots], room.signs[slots]
    if len(way.supply.stream):
        return SampledWindow(int(found[here]), tuple(around), tuple(int(one) for one in targets[signs < 0]), "")
    turns = "".join("l" if sign > 0 else "r" for sign in signs if sign)
    return SampledWindow(int(found[here]), tuple(around), (), turns)
