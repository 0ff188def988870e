"""From counts to a vocabulary: what is counted, in which order ids are given, and how much of a text it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat

import numpy as np

from forebear.errors import BadInput
from forebear.kernels.stretches import GAP, RUN
from forebear.text.characters import codes_of
from forebear.text.stretches import Stretches, worth_compiling

# Distinct stretches and their characters held before they are cut into pieces: bounds the memory of counting.
MOST_STRETCHES, MOST_CHARACTERS = 1 << 19, 1 << 23
BLOCK = 1 << 20  # characters that are looked up at once


def counted(texts: Iterable[str], cut: Callable[[str], Iterable[str]]) -> Counter[str]:
    """How often each piece occurs, where `cut` makes pieces of a stretch without ASCII spaces.

    Natural text repeats its stretches, so each distinct one is cut once and its pieces are counted many times. Where
    there is much text, the rest of it is looked up by compiled loops.
    """
    pieces: Counter[str] = Counter()
    stretches: Counter[str] = Counter()
    characters = seen = 0
    left = iter(texts)
    for text in left:
        stretches.update(text.split(" "))
        characters, seen = characters + len(text), seen + len(text)
        if len(stretches) >= MOST_STRETCHES or characters >= MOST_CHARACTERS:
            _settle(stretches.items(), cut, pieces)
            stretches.clear()
            characters = 0
        if worth_compiling(seen):
            break
    _settle(stretches.items(), cut, pieces)
    _count_by_loops(left, cut, pieces, seen)
    return pieces


def _settle(stretches: Iterable[tuple[str, int]], cut: Callable[[str], Iterable[str]], pieces: Counter[str]) -> None:
    for stretch, times in stretches:
        for piece in cut(stretch):
            pieces[piece] += times


def _count_by_loops(texts: Iterator[str], cut: Callable[[str], Iterable[str]], pieces: Counter[str], seen: int) -> None:
    """Adds the pieces of the remaining texts."""
    classes = np.full(0x110000, RUN, np.int8)
    classes[ord(" ")] = GAP
    known, times = Stretches(classes, seen=seen), np.zeros(0, np.int64)
    for block in _blocks(texts):
        codes = codes_of(block + " ")
        _, numbers, _ = known.look_up(codes, np.array([len(codes) - 1]))
        more = np.bincount(numbers, minlength=len(known))
        more[: len(times)] += times
        times = more
        if len(known) >= MOST_STRETCHES or known.characters >= MOST_CHARACTERS:
            _settle(zip(known.texts(), times.tolist(), strict=True), cut, pieces)
            known, times = Stretches(classes, seen=seen), np.zeros(0, np.int64)
    _settle(zip(known.texts(), times.tolist(), strict=True), cut, pieces)


def _blocks(texts: Iterable[str]) -> Iterator[str]:
    """The texts with a space between, a million characters or one text at a time."""
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if characters >= BLOCK:
            yield " ".join(block)
            block, characters = [], 0
    if block:
        yield " ".join(block)


def ordered(counts: Mapping[str, int], *, specials: Iterable[str], size: int | None, min_count: int) -> list[str]:
    """The vocabulary in id order: special tokens, then pieces by falling count; pieces of equal count by their text."""
    first = list(dict.fromkeys(specials))
    if size is not None and size <= len(first):
        raise BadInput(
            f"a vocabulary of {size} has no room beside its {len(first)} special tokens",
            remedy=f"ask for a size above {len(first)}",
        )
    taken = set(first)
    kept = sorted(piece for piece, count in counts.items() if count >= min_count and piece not in taken)
    kept.sort(key=counts.__getitem__, reverse=True)  # who is as frequent stays where it is
    return first + kept[: None if size is None else size - len(first)]


def coverage(counts: Mapping[str, int], vocabulary: Iterable[str]) -> float:
    """The share of all counted pieces that the vocabulary, in which each is once, has; 1.0 of nothing."""
    total = sum(counts.values())
    return sum(map(counts.get, vocabulary, repeat(0))) / total if total else 1.0
