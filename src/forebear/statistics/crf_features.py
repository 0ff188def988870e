"""Words of many sentences as numbers of features, template by template: those that training has seen often enough."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.statistics.crf_templates import ATTRIBUTES, Template, attributes

NONE = -1  # no feature, no value
_LOCK = threading.Lock()  # of the rows of unlisted words
MOST = 1 << 62  # different values of a template that a number can tell apart


class Written:
    """How all words of a vocabulary are written, and others as they come: a row of numbers for each.

    Values of an attribute are numbered as they come in the vocabulary, from 1; 0 is what lies outside of a sentence.
    A word that the vocabulary lacks has no number as a word (NONE), and those of its parts that other words have.

    tokens  the vocabulary
    word    the word of a number behind the vocabulary, for those that it lacks
    """

    def __init__(self, tokens: Sequence[str], word: Callable[[int], str]) -> None:
        self.size, self._word = len(tokens), word
        self._numbers: list[dict[str, int]] = [{"": NONE} for _ in ATTRIBUTES]
        rows = np.empty((self.size + 1, len(ATTRIBUTES)), np.int32)
        for number, token in enumerate(tokens):
            for at, (value, known) in enumerate(zip(attributes(token), self._numbers, strict=True)):
                rows[number, at] = known.setdefault(value, len(known))
        rows[self.size] = 0
        self._rows = rows
        self._unlisted: dict[int, int] = {}  # number of a word → its row

    def sizes(self) -> list[int]:
        """How many values each attribute has, that of what lies outside included."""
        return [len(known) for known in self._numbers]

    def rows(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The table of all rows, and (N,) which of them each of these words has."""
        found = numbers.astype(np.int64)
        unlisted = np.flatnonzero(found >= self.size)
        if len(unlisted):
            distinct, which = np.unique(found[unlisted], return_inverse=True)
            found[unlisted] = np.array([self._row(number) for number in distinct.tolist()])[which]
        return self._rows, found

    def _row(self, number: int) -> int:
        with _LOCK:
            row = self._unlisted.get(number)
            if row is None:
                values = zip(attributes(self._word(number)), self._numbers, strict=True)
                made = np.array([[known.get(value, NONE) for value, known in values]], np.int32)
                row = len(self._rows)
                self._rows = np.concatenate((self._rows, made))
                self._unlisted[number] = row  # last, so that an interrupt leaves no number without its row
            return row

    def value(self, attribute: int, number: int) -> str:
        """What a number of an attribute stands for."""
        return next((text for text, one in self._numbers[attribute].items() if one == number), "")


@dataclass(frozen=True, eq=False)
class Index:
    """Which features there are: for each template the values (sorted) that are one, and the number of the first."""

    templates: tuple[Template, ...]
    keys: tuple[np.ndarray, ...]  # int64, for each template
    _tables: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def firsts(self) -> np.ndarray:
        return np.concatenate(([0], np.cumsum([len(one) for one in self.keys])))

    @property
    def size(self) -> int:
        return sum(map(len, self.keys))

    @classmethod
    def learned(
        cls, templates: tuple[Template, ...], written: Written, tokens: np.ndarray, lengths: np.ndarray, least: int
    ) -> tuple[Index, np.ndarray]:
        """Those that occur at least so often, and (N, T) the features of these words."""
        keys, made = [], np.empty((len(tokens), len(templates)), np.int32)
        first = 0
        for number, values in enumerate(_values(templates, written, tokens, lengths)):
            distinct, which, counts = np.unique(values, return_inverse=True, return_counts=True)
            kept = (counts >= least) & (distinct >= 0)
            numbers = np.where(kept, first + np.cumsum(kept) - 1, NONE)
            made[:, number] = numbers[which]
            keys.append(distinct[kept])
            first += int(kept.sum())
        return cls(templates, tuple(keys)), made

    def of(self, written: Written, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(N, T) the features of these words; NONE where there is none."""
        made = np.full((len(tokens), len(self.templates)), NONE, np.int32)
        first = 0
        for number, values in enumerate(_values(self.templates, written, tokens, lengths)):
            keys = self.keys[number]
            if len(self.templates[number].parts) == 1:
                made[:, number] = self._table(number, written)[values]
            elif len(keys):
                place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
                made[:, number] = np.where(keys[place] == values, first + place, NONE)
            first += len(keys)
        return made

    def _table(self, number: int, written: Written) -> np.ndarray:
        """For each value of a template of one part its feature; for NONE, which is the last, none."""
        table = self._tables.get(number)
        if table is None:
            table = np.full(written.sizes()[self.templates[number].parts[0][0]] + 1, NONE, np.int32)
            table[self.keys[number]] = self.firsts[number] + np.arange(len(self.keys[number]))
            self._tables[number] = table
        return table

    def feature(self, number: int, written: Written) -> tuple[str, list[tuple[int, str]]]:
        """What a feature stands for: its template, and (place, value) of each part."""
        at = int(np.searchsorted(self.firsts, number, side="right")) - 1
        key, parts = int(self.keys[at][number - self.firsts[at]]), []
        sizes = written.sizes()
        for attribute, place in reversed(self.templates[at].parts):
            key, value = divmod(key, sizes[attribute])
            parts.append((place, written.value(attribute, value)))
        return str(self.templates[at]), parts[::-1]

    def arrays(self) -> dict[str, np.ndarray]:
        told = " ".join(map(str, self.templates)).encode()
        keys = np.concatenate([*self.keys, np.empty(0, np.int64)])
        return {"templates": np.frombuffer(told, np.uint8).copy(), "keys": keys, "firsts": self.firsts.astype(np.int64)}


def _values(templates: tuple[Template, ...], written: Written, tokens: np.ndarray, lengths: np.ndarray):
    """For each template (N,) the value that each word has, as one number; NONE where it has none."""
    table, rows = written.rows(tokens)
    sizes, reach = written.sizes(), max(abs(place) for one in templates for _, place in one.parts)
    edged = np.full(len(tokens) + 2 * reach * len(lengths), written.size, np.int64)
    here = np.arange(len(tokens)) + reach * (2 * np.repeat(np.arange(len(lengths)), lengths) + 1)
    edged[here] = rows
    for template in templates:
        if np.prod([float(sizes[attribute]) for attribute, _ in template.parts]) > MOST:
            what = f"the template {template} has more values than numbers can tell apart with so many words"
            raise BadInput(what, remedy="join fewer parts")
        values = np.zeros(len(tokens), np.int64)
        lacking = np.zeros(len(tokens), bool)
        for attribute, place in template.parts:
            own = table[edged[here + place], attribute]
            lacking |= own < 0
            values = values * sizes[attribute] + own
        values[lacking] = NONE
        yield values


def loaded(arrays: dict[str, np.ndarray], templates: tuple[Template, ...]) -> Index:
    """From such arrays; what does not fit together is refused."""
    keys, firsts = arrays["keys"], arrays["firsts"]
    fits = keys.dtype == firsts.dtype == np.int64 and firsts.shape == (len(templates) + 1,) and firsts[0] == 0
    if not fits or firsts[-1] != len(keys) or (np.diff(firsts) < 0).any():
        raise ForebearError("the features of this chain of labels are damaged", remedy="train it again")
    return Index(templates, tuple(np.split(keys, firsts[1:-1])))
