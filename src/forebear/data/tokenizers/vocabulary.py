"""From counts to a vocabulary: what is counted, in which order ids are given, and how much of a text it covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat

import numpy as np

from forebear.data.tokenizers.pretokens import WhitespaceWords, worth_compiling
from forebear.errors import InputError

# Distinct stretches and their characters held before they are cut into pieces: bounds the memory of counting.
MOST_STRETCHES, MOST_CHARACTERS = 1 << 19, 1 << 23
BLOCK = 1 << 20  # characters that are looked up at once


def count_pieces(texts: Iterable[str], cut: Callable[[str], Iterable[str]]) -> Counter[str]:
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
            count_known_pretokens(stretches.items(), cut, pieces)
            stretches.clear()
            characters = 0
        if worth_compiling(seen):
            break
    count_known_pretokens(stretches.items(), cut, pieces)
    _count_by_loops(left, cut, pieces, seen)
    return pieces


def count_known_pretokens(
    stretches: Iterable[tuple[str, int]], cut: Callable[[str], Iterable[str]], pieces: Counter[str] | None = None
) -> Counter[str]:
    """The pieces of stretches that occur so often, added to those of others."""
    pieces = Counter() if pieces is None else pieces
    for stretch, times in stretches:
        for piece in cut(stretch):
            pieces[piece] += times
    return pieces


def _count_by_loops(texts: Iterator[str], cut: Callable[[str], Iterable[str]], pieces: Counter[str], seen: int) -> None:
    """Adds the pieces of the remaining texts."""
    known = WordCounts(" ", seen)
    for block in _blocks(texts):
        known.add(block)
        if len(known.words) >= MOST_STRETCHES or known.words.characters >= MOST_CHARACTERS:
            count_known_pretokens(known.word_counts(), cut, pieces)
            known = WordCounts(" ", seen)
    count_known_pretokens(known.word_counts(), cut, pieces)


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, a million characters or one text at a time."""
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if characters >= BLOCK:
            yield block
            block, characters = [], 0
    if block:
        yield block


class WordCounts:
    """Words that gaps part, numbered as they turn up, and how often each occurs: no Python object for any of them."""

    def __init__(self, gaps: str, seen: int = 0) -> None:
        self.words, self.times = WhitespaceWords(gaps, seen), np.zeros(0, np.int64)

    @classmethod
    def from_texts(cls, texts: Iterable[str], gaps: str) -> WordCounts:
        made = cls(gaps)
        for block in _blocks(texts):
            made.add(block)
        return made

    def add(self, texts: list[str]) -> None:
        self.count(self.words.word_ids(texts))

    def count(self, numbers: np.ndarray) -> None:
        """Words of these numbers occur once more each."""
        more = np.bincount(numbers, minlength=len(self.words))
        more[: len(self.times)] += self.times
        self.times = more

    def word_counts(self) -> Iterator[tuple[str, int]]:
        return zip(self.words.texts(), self.times.tolist(), strict=True)

    def by_frequency(
        self, *, specials: Iterable[str], size: int | None, min_count: int
    ) -> tuple[list[str], np.ndarray]:
        """As `ordered` below; and the id of each word by its number, -1 where the vocabulary lacks it."""
        first, room = _first(specials, size)
        by_text = self.words.in_order()
        order = by_text[np.argsort(-self.times[by_text], kind="stable")]
        order = order[self.times[order] >= min_count][: None if room is None else room + len(first)]
        names, spoken = self.words.texts_of(order), f" {self.words.gather(' ')} "
        if taken := {special for special in first if f" {special} " in spoken}:
            apart = [place for place, name in enumerate(names) if name in taken]
            order, names = np.delete(order, apart), [name for name in names if name not in taken]
        order, names = order[:room], names[:room]
        ids = np.full(len(self.times), -1, np.int32)
        ids[order] = np.arange(len(first), len(first) + len(order))
        return first + names, ids


def order_vocabulary(
    counts: Mapping[str, int], *, specials: Iterable[str], size: int | None, min_count: int
) -> list[str]:
    """The vocabulary in id order: special tokens, then pieces by falling count; pieces of equal count by their text."""
    first, room = _first(specials, size)
    taken = set(first)
    kept = sorted(piece for piece, count in counts.items() if count >= min_count and piece not in taken)
    kept.sort(key=counts.__getitem__, reverse=True)  # who is as frequent stays where it is
    return first + kept[:room]


def _first(specials: Iterable[str], size: int | None) -> tuple[list[str], int | None]:
    """What the first ids are for, and how many others there may be; None: any number."""
    first = list(dict.fromkeys(specials))
    if size is not None and size <= len(first):
        raise InputError(
            f"a vocabulary of {size} has no room beside its {len(first)} special tokens",
            hint=f"ask for a size above {len(first)}",
        )
    return first, None if size is None else size - len(first)


def coverage(counts: Mapping[str, int], vocabulary: Iterable[str]) -> float:
    """The share of all counted pieces that the vocabulary, in which each is once, has; 1.0 of nothing."""
    total = sum(counts.values())
    return sum(map(counts.get, vocabulary, repeat(0))) / total if total else 1.0
