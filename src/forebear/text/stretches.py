"""The distinct stretches of texts, each with a number: text repeats its words, and each is looked at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from forebear.kernels.stretches import ALONE, GAP, RUN
from forebear.text.characters import codes_of
from forebear.text.spans import lengths_of

NUL, SURROGATE = 0, 0xD800  # part the stretches inside one string: the first where no text has it; none has the second
# Characters from which on compiled loops save more time than it takes to load them, and where numba is there already.
ENOUGH, MANY = 1 << 22, 1 << 20
NOWHERE = np.zeros(0, np.int64)


def worth_compiling(characters: int) -> bool:
    """Whether so much text was seen that there is likely as much to come."""
    return characters > (MANY if "numba" in sys.modules else ENOUGH)


class Sought(NamedTuple):
    """The stretches of some texts, one after the other."""

    units: np.ndarray  # where each begins: characters over all texts, each of which is followed by one of nobody's
    numbers: np.ndarray
    upto: np.ndarray  # (texts,) how many there are up to the end of each
    fresh: list[str]  # those that are new


class Stretches:
    """Numbers stretches from 0 on, in the order in which they turn up.

    classes  (0x110000,) RUN, GAP or ALONE for each character: part of a stretch, between stretches, or a stretch of its
             own
    seen     characters that were looked at before, elsewhere

    They are looked up by Python, and where there is much text by a compiled loop.
    """

    def __init__(self, classes: np.ndarray, seen: int = 0) -> None:
        self._kinds = classes.astype(np.int32)  # becomes the number of each character that stands alone, once seen
        self._known: dict[str, int] = {}
        self._compiled: Any = None
        self._seen = seen
        self.characters = 0  # of all distinct stretches

    def __len__(self) -> int:
        return int(self._compiled.many[0]) if self._compiled is not None else len(self._known)

    def sought(
        self,
        texts: Sequence[str],
        cuts: np.ndarray | None = None,
        places: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> Sought:
        """The stretches of these texts, none of which reaches from one into another; else as in `look_up`."""
        codes = codes_of(" ".join(texts) + " ") if texts else np.zeros(0, np.uint32)
        ends = np.cumsum(lengths_of(texts) + 1)
        places_of = None if places is None else places(codes)
        units, numbers, fresh = self.look_up(codes, ends - 1, NOWHERE if cuts is None else cuts, places_of)
        return Sought(units, numbers, np.searchsorted(units, ends), fresh)

    def look_up(
        self, codes: np.ndarray, gaps: np.ndarray, cuts: np.ndarray = NOWHERE, places: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Where each stretch begins, its number, and those that are new.

        codes   code points, the last of which is in `gaps`
        gaps    rising places that belong to no stretch, whatever stands there
        cuts    rising places before which a stretch ends
        places  True where one does; None: nowhere
        """
        self._seen += len(codes)
        if self._compiled is None and worth_compiling(self._seen):
            self._compile()
        before = len(self)
        if self._compiled is None:
            begins, numbers = self._by_names(codes, gaps, cuts, places)
            fresh = list(self._known)[before:] if len(self._known) > before else []
        else:
            begins, numbers = self._by_loops(codes, gaps, cuts, places)
            fresh = self.texts(before)
        self.characters += sum(map(len, fresh))
        return begins, numbers, fresh

    def texts(self, first: int = 0) -> list[str]:
        """The stretches by number, from one on."""
        if self._compiled is None:
            return list(self._known)[first:]
        ends = self._compiled.ends[first : len(self) + 1]
        whole = self._compiled.codes[ends[0] : ends[-1]].tobytes().decode("utf-32-le")
        return [whole[begin:end] for begin, end in pairwise((ends - ends[0]).tolist())]

    def _compile(self) -> None:
        """From now on by compiled loops; those that are known keep their numbers."""
        from forebear.kernels.stretches import no_numbers, numbered

        self._compiled = no_numbers()
        if self._known:
            names = list(self._known)
            gaps = np.cumsum([len(name) + 1 for name in names]) - 1
            anything = np.full(0x110000, RUN, np.int32)
            self._compiled, *_ = numbered(
                self._compiled, codes_of(" ".join(names) + " "), anything, gaps, NOWHERE, np.zeros(0, bool)
            )
        self._known = {}

    def _by_loops(
        self, codes: np.ndarray, gaps: np.ndarray, cuts: np.ndarray, places: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        from forebear.kernels.stretches import numbered

        flags = np.zeros(0, bool) if places is None else places
        self._compiled, begins, numbers = numbered(self._compiled, codes, self._kinds, gaps, cuts, flags)
        return begins, numbers

    def _by_names(
        self, codes: np.ndarray, gaps: np.ndarray, cuts: np.ndarray, places: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The readable twin, which needs nothing but numpy and a dictionary."""
        numbers = self._kinds.take(codes)
        numbers[gaps] = GAP
        run = numbers == RUN
        begins = run.copy()
        begins[1:] &= ~run[:-1]
        if places is not None:
            begins |= places & run
        begins[cuts] |= run[cuts]
        if (unseen := numbers == ALONE).any():
            fresh = np.unique(codes[unseen])
            self._kinds[fresh] = self._numbers_of([chr(code) for code in fresh.tolist()])
            numbers[unseen] = self._kinds[codes[unseen]]
        places_of = np.flatnonzero(begins | (numbers >= 0))
        found = numbers[places_of]
        found[found == RUN] = self._numbers_of(_strings(codes, run, begins))
        return places_of, found

    def _numbers_of(self, names: list[str]) -> np.ndarray:
        known = self._known
        numbers = np.fromiter(map(known.get, names, repeat(-1)), np.int64, len(names))
        for at in np.flatnonzero(numbers < 0).tolist():
            numbers[at] = known.setdefault(names[at], len(known))
        return numbers


def _strings(codes: np.ndarray, run: np.ndarray, begins: np.ndarray) -> list[str]:
    """The stretches as strings: their characters with a mark before each, as one string, split at the marks."""
    inside = codes[run]
    if not len(inside):
        return []
    mark = NUL if inside.all() else SURROGATE
    places = np.cumsum(begins[run])
    places += np.arange(len(inside))
    marked = np.full(places[-1] + 2, mark, np.uint32)
    marked[places] = inside
    # A view as one long string makes no detour through an encoding; the mark at its end keeps it whole, as numpy
    # drops NULs there: with NUL for a mark that one is dropped, and only that one.
    whole = str(marked.view(f"U{len(marked)}")[0])
    return whole.split(chr(mark))[1:] if mark == NUL else whole.split(chr(mark))[1:-1]
