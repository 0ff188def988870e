"""From counts to a vocabulary: what is counted, in which order ids are given, and how much of a text it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from forebear.errors import BadInput

if TYPE_CHECKING:
    pass

# Distinct stretches and their characters held before they are cut into pieces: bounds the memory of counting.
MOST_STRETCHES, MOST_CHARACTERS = 1 << 19, 1 << 23


def counted(texts: Iterable[str], cut: Callable[[str], Iterable[str]]) -> Counter[str]:
    """How often each piece occurs, where `cut` makes pieces of a stretch without ASCII spaces.

    Natural text repeats its stretches, so each distinct one is cut once and its pieces are counted many times.
    """
    pieces: Counter[str] = Counter()
    stretches: Counter[str] = Counter()
    characters = 0

    def settle() -> None:
        for stretch, times in stretches.items():
            for piece in cut(stretch):
                pieces[piece] += times
        stretches.clear()

    for text in texts:
        stretches.update(text.split(" "))
        characters += len(text)
        if len(stretches) >= MOST_STRETCHES or characters >= MOST_CHARACTERS:
            settle()
            characters = 0
    settle()
    return pieces


def ordered(counts: Mapping[str, int], *, specials: Iterable[str], size: int | None, min_count: int) -> list[str]:
    """The vocabulary in id order: special tokens, then pieces by falling count; pieces of equal count by their text."""
    first = list(dict.fromkeys(specials))
    if size is not None and size <= len(first):
        raise BadInput(
            f"a vocabulary of {size} has no room beside its {len(first)} special tokens",
            remedy=f"ask for a size above {len(first)}",
        )
    taken = set(first)
    kept = [(-count, piece) for piece, count in counts.items() if count >= min_count and piece not in taken]
    room = None if size is None else size - len(first)
    return first + [piece for _, piece in islice(sorted(kept), room)]


def coverage(counts: Mapping[str, int], vocabulary: Iterable[str]) -> float:
    """The share of all counted pieces that the vocabulary has; 1.0 of nothing."""
    total = sum(counts.values())
    return sum(counts.get(piece, 0) for piece in set(vocabulary)) / total if total else 1.0
