"""The distinct words of texts that nothing but gaps of ASCII parts, each with a number: of much text, by bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from forebear.text import stretches
from forebear.text.characters import sound
from forebear.text.spans import lengths_of
from forebear.text.stretches import NOWHERE, Sought

HIGHEST_GAP, LINE_FEED = 32, 10  # as codes: nothing within a character of UTF-8 is as low


class SpacedWords:
    """As `Stretches`, for who knows no other classes than parts of words and these gaps.

    A dictionary finds them, and where there is much text a compiled loop over the bytes of UTF-8.
    """

    def __init__(self, gaps: str, seen: int = 0) -> None:
        codes = [ord(gap) for gap in gaps]
        assert " " in gaps
        assert max(codes) <= HIGHEST_GAP
        self._gaps = np.zeros(256, bool)
        self._gaps[codes] = True
        self._others = gaps.replace(" ", "")
        self._known: dict[str, int] = {}
        self._compiled: Any = None
        self._seen = seen

    def __len__(self) -> int:
        return int(self._compiled.many[0]) if self._compiled is not None else len(self._known)

    @property
    def characters(self) -> int:
        """Of all distinct words; of those that are not of ASCII, their bytes."""
        if self._compiled is None:
            return sum(map(len, self._known))
        return int(self._compiled.ends[len(self)]) - len(self)

    def sought(self, texts: Sequence[str], *, units: bool = False) -> Sought:
        """The words of these texts, as `Stretches.sought` tells of them; where they begin only if asked for."""
        before = len(self)
        numbers, upto, begins = self._found(texts, units)
        return Sought(begins, numbers, upto, self._fresh(before))

    def sought_in(self, data: bytes, ends: np.ndarray) -> Sought | None:
        """The same of texts in UTF-8 that gaps part and that end here; None while a dictionary is as fast."""
        before = len(self)
        found = self.numbered_in(data, ends)
        return None if found is None else Sought(NOWHERE, *found, self._fresh(before))

    def _fresh(self, before: int) -> list[str]:
        return self.texts(before) if len(self) > before else []

    def numbered(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of their words, and how many there are up to the end of each text."""
        return self._found(texts, False)[:2]

    def numbered_in(self, data: bytes, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The same of texts as `sought_in` takes them."""
        if not self._is_much([data]):
            return None
        return self._by_bytes(_followed(data), ends)[:2]

    def numbers_of(self, texts: Sequence[str]) -> np.ndarray:
        """Their numbers alone."""
        if not self._is_much(texts):
            return self._by_names(texts, False)[0]
        return self._by_bytes(_bytes_of(" ".join(texts)), NOWHERE)[0]

    def _by_bytes(
        self, data: np.ndarray, ends: np.ndarray, units: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from forebear.kernels.spaced import numbered_words

        self._compiled, *found = numbered_words(self._compiled, data, self._gaps, ends, places=units)
        return found[0], found[1], found[2]

    def _found(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of each word, how many there are up to the end of each text, and where they begin."""
        return (self._by_loops if self._is_much(texts) else self._by_names)(texts, units)

    def _is_much(self, texts: Sequence[str | bytes]) -> bool:
        """Whether with these so much text was seen that loops are worth it."""
        if self._compiled is None:
            self._seen += sum(map(len, texts))
            if stretches.worth_compiling(self._seen):
                self._compile()
        return self._compiled is not None

    def texts(self, first: int = 0) -> list[str]:
        """The words by number, from one on."""
        return list(self._known)[first:] if self._compiled is None else self._text(first).split(" ")[:-1]

    def joined(self, mark: str) -> str:
        """All words in one text, with this mark between them."""
        return mark.join(self._known) if self._compiled is None else self._text(0).replace(" ", mark)

    def _text(self, first: int) -> str:
        ends = self._compiled.ends
        return self._compiled.codes[ends[first] : ends[len(self)]].tobytes().decode()

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """The characters and the bytes of each word."""
        if self._compiled is None:
            names = list(self._known)
            return lengths_of(names), lengths_of([name.encode() for name in names])
        ends = self._compiled.ends[: len(self) + 1]
        further = np.flatnonzero((self._compiled.codes[: ends[-1]] & 0xC0) == 0x80)  # bytes within characters
        sizes = np.diff(ends) - 1
        return sizes - np.diff(np.searchsorted(further, ends)), sizes

    def in_order(self) -> np.ndarray:
        """The numbers of all words, in the order of their texts."""
        if self._compiled is None:
            return np.array(sorted(range(len(self._known)), key=list(self._known).__getitem__), np.int64)
        from forebear.kernels.compiling import compiled
        from forebear.kernels.spaced import firsts_in_loops

        first, second = np.empty(len(self), np.uint64), np.empty(len(self), np.uint64)
        compiled(firsts_in_loops)(self._compiled.codes, self._compiled.ends, first, second)
        order = np.argsort(first, kind="stable")
        _settled(order, lambda some: np.lexsort((second[some], first[some])), first)
        names = self.texts_of  # more than sixteen bytes are alike: seldom, so one by one
        _settled(order, lambda some: np.array(_places_sorted(names(some)), np.int64), first, second)
        return order

    def texts_of(self, numbers: np.ndarray) -> list[str]:
        """The words of these numbers."""
        if self._compiled is None:
            known = list(self._known)
            return [known[number] for number in numbers.tolist()]
        from forebear.kernels.compiling import compiled
        from forebear.kernels.spaced import gathered_in_loops

        codes, ends = self._compiled.codes, self._compiled.ends
        told = np.empty(int((ends[numbers + 1] - ends[numbers]).sum()), np.uint8)
        compiled(gathered_in_loops)(codes, ends, numbers, told)
        return told.tobytes().decode().split(" ")[:-1]

    def _compile(self) -> None:
        """From now on by compiled loops; those that are known keep their numbers."""
        from forebear.kernels.spaced import no_words, numbered_words

        self._compiled = no_words()
        if self._known:
            only = np.zeros(256, bool)
            only[ord(" ")] = True
            self._compiled, *_ = numbered_words(self._compiled, _bytes_of(" ".join(self._known)), only, NOWHERE)
        self._known = {}

    def _by_loops(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        data = _bytes_of("\n".join(texts))
        ends = np.append(np.flatnonzero(data == LINE_FEED), len(data))
        if not self._gaps[LINE_FEED] or len(ends) != len(texts):  # some have line feeds of their own: one by one
            parts = [sound(text).encode() for text in texts]
            data, ends = _followed(b" ".join(parts)), np.cumsum(lengths_of(parts) + 1)
        numbers, upto, begins = self._by_bytes(data, ends, units)
        if units:  # in characters
            begins -= np.searchsorted(np.flatnonzero((data & 0xC0) == 0x80), begins)
        return numbers, upto, begins

    def _spaced(self, text: str) -> str:
        """The text with spaces for all gaps."""
        for gap in self._others:
            text = text.replace(gap, " ")
        return text

    def _by_names(self, texts: Sequence[str], units: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The readable twin, which needs nothing but a dictionary."""
        known = self._known
        rows = [list(filter(None, self._spaced(sound(text)).split(" "))) for text in texts]
        words = list(chain.from_iterable(rows))
        found = np.fromiter(map(known.get, words, repeat(-1)), np.int32, len(words))
        for at in np.flatnonzero(found < 0).tolist():
            found[at] = known.setdefault(words[at], len(known))
        begins = np.zeros(len(found), np.int64)
        if units:
            base = np.cumsum(lengths_of(texts) + 1) - lengths_of(texts) - 1
            places = (_places(self._spaced(text), row) for text, row in zip(texts, rows, strict=True))
            begins = np.fromiter(chain.from_iterable(places), np.int64, len(found))
            begins += np.repeat(base, lengths_of(rows))
        return found, np.cumsum(lengths_of(rows)), begins


def _settled(order: np.ndarray, sort: Callable[[np.ndarray], np.ndarray], *keys: np.ndarray) -> None:
    """Sorts what is alike by all these keys, which stand together already; each such run by `sort`, in one call."""
    alike = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        alike &= key[order[1:]] == key[order[:-1]]
    tied = np.zeros(len(order), bool)
    tied[1:] |= alike
    tied[:-1] |= alike
    if tied.any():
        some = order[tied]
        order[tied] = some[sort(some)]


def _places_sorted(names: list[str]) -> list[int]:
    return sorted(range(len(names)), key=names.__getitem__)


def _places(text: str, row: list[str]) -> list[int]:
    """Where each of these words of a text begins."""
    told, at = [], 0
    for word in row:
        while text[at] == " ":
            at += 1
        told.append(at)
        at += len(word)
    return told


def _bytes_of(text: str) -> np.ndarray:
    """In UTF-8, with what has to stand behind."""
    try:
        return _followed(text.encode())
    except UnicodeEncodeError:
        return _followed(sound(text).encode())


def _followed(data: bytes) -> np.ndarray:
    """With what has to stand behind."""
    from forebear.kernels.spaced import BEHIND

    return np.frombuffer(data + b" " * BEHIND, np.uint8)
