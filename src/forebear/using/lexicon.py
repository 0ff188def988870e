"""A table of words that can be asked: which words are near, how alike two are, which is the odd one, who is to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.using.alike import alike
from forebear.using.nearest import DIGITS, Index, Nearest, best, cosines_with, lengths_of, nearest, stretches
from forebear.vectors.table import WordTable

Cut = Callable[[str], Sequence[str]]
Method = Literal["add", "multiply"]
EQUALLY_FAR = "one-hot vectors: any other word is equally far (cosine 0), which is why later milestones exist"
NOWHERE, ALONE = "its vector is all zeros, and near to nothing", "there is no other word"
SMALLEST = 1e-6  # what keeps 3CosMul from dividing by nothing (Levy and Goldberg 2014)


@dataclass(frozen=True, eq=False)
class Found:
    """What a table knows of a text.

    vector  (D,)
    rows    those of its own words, which are no answers to anything asked about it
    note    how it was found, if not as it is written
    """

    text: str
    vector: np.ndarray
    rows: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NearWord:
    """A word and how near it is; `count` is how often it was seen, where that is known.

    `cosine` is that with what was asked; of analogies whose cosines are multiplied, their product, which may exceed 1.
    """

    word: str
    cosine: float
    count: int | None

    def facts(self, name: str = "cosine") -> dict[str, Any]:
        return {"word": self.word, name: round(self.cosine, DIGITS), "count": self.count}


@dataclass(frozen=True)
class NearWords:
    """A word, or a text of several, and the words nearest to it."""

    text: str
    nearest: tuple[NearWord, ...]
    note: str = ""

    def facts(self) -> dict[str, Any]:
        return {"text": self.text, "note": self.note, "nearest": [one.facts() for one in self.nearest]}


@dataclass(frozen=True)
class Analogy:
    """`asked`: the first is to the second as the third is to the words found."""

    asked: tuple[str, str, str]
    method: Method
    nearest: tuple[NearWord, ...]
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"asked": list(self.asked), "method": self.method, "notes": list(self.notes)}
        name = "cosine" if self.method == "add" else "score"
        return told | {"nearest": [one.facts(name) for one in self.nearest]}


class Lexicon:
    """Asks a table of words.

    cut   makes words of a text that is none; without it, white space does
    kept  says where an index of the words is kept
    """

    def __init__(self, table: WordTable, cut: Cut = str.split, kept: Callable[[], Path] | None = None) -> None:
        self.table, self.cut, self._kept = table, cut, kept

    @cached_property
    def lengths(self) -> np.ndarray:
        return lengths_of(self.table.matrix)

    @property
    def equally_far(self) -> bool:
        """Whether every word is as far from every other, so that none is near."""
        return not isinstance(self.table.matrix, np.ndarray)

    @cached_property
    def index(self) -> Index:
        if self.equally_far:
            remedy = "leave --approximate out: exact search is as fast here"
            raise BadInput("one-hot vectors are equally far from each other, and need no index", remedy=remedy)
        return Index(self.table.matrix, None if self._kept is None else self._kept())

    @cached_property
    def _spellings(self) -> dict[str, int]:
        """The row of each word, and of those that differ in capitals alone the first, which is the most frequent."""
        found: dict[str, int] = {}
        for row, word in enumerate(self.table.words):
            found.setdefault(_spelled(word), row)
        return found

    def row(self, text: str) -> int | None:
        """The row of a word as it is written, in small letters, or with other capitals; that of a phrase whether there
        are spaces between its words or _, as other programs write them."""
        row = self.table.row(text)
        if row is not None or not (spelled := _spelled(text)):
            return row
        parted = (self.table.row(one) for one in (text.replace("_", " "), text.replace(" ", "_")))
        return next((found for found in parted if found is not None), self._spellings.get(spelled))

    def find(self, text: str) -> Found:
        """The vector of a text: its own row, what its parts make of it, or the mean of its words."""
        words = [text] if self.row(text) is not None else list(self.cut(text))
        if not words:
            raise BadInput(f"{text!r} has no words", remedy="write at least one")
        if len(words) > 1:
            return self._mean(text, words)
        row = self.row(words[0])
        if row is None:
            return replace(self._composed(words[0]), text=text)
        name = self.table.words[row]
        return Found(text, self._row(row), (row,), "" if name == text else f"as {name!r}")

    def _mean(self, text: str, words: list[str]) -> Found:
        parts = [self._composed(word) if self.row(word) is None else self.find(word) for word in words]
        rows = tuple(dict.fromkeys(row for part in parts for row in part.rows))
        vector = np.mean([part.vector for part in parts], axis=0)
        return Found(text, vector, rows, f"the mean of {len(words)} words: {', '.join(words)}")

    def _composed(self, word: str) -> Found:
        made = None if self.table.compose is None else self.table.compose(word)
        if made is None:
            raise self._unknown(word)
        return Found(word, made, (), "not in the vocabulary: from its parts")

    def _row(self, row: int) -> np.ndarray:
        return np.asarray(self.table.matrix[row], np.float32)

    def _unknown(self, word: str) -> BadInput:
        near = alike(word, self.table.words)
        remedy = f"did you mean: {', '.join(near)}?" if near else "ask for a word that the run has seen"
        parts = ", and none of its letter groups was seen" if self.table.compose is not None else ""
        what = f"no vector for {word!r}: it is not among {len(self.table.words):,} words{parts}"
        return BadInput(what, remedy=remedy)

    def neighbours(self, texts: str | Sequence[str], top: int = 10, *, approximate: bool = False) -> list[NearWords]:
        """The `top` words nearest to each text by cosine, its own words left out; none where none is nearer."""
        _positive(top)
        found = self.find_all([texts] if isinstance(texts, str) else texts)
        if not found:
            return []
        if self.equally_far and not approximate:
            return [NearWords(one.text, (), _noted(one, EQUALLY_FAR)) for one in found]
        near = self._search(np.stack([one.vector for one in found]), top + _most_rows(found), approximate)
        made = []
        for one, rows, cosines in zip(found, near.rows, near.cosines, strict=True):
            told = self._named(rows, cosines, one.rows, top) if one.vector.any() else ()
            why = ALONE if one.vector.any() else NOWHERE
            made.append(NearWords(one.text, told, one.note if told else _noted(one, why)))
        return made

    def find_all(self, texts: Sequence[str]) -> list[Found]:
        """`find` for each; a complaint is about the text of its number, from 1."""
        found = []
        for number, text in enumerate(texts, 1):
            try:
                found.append(self.find(text))
            except BadInput as error:
                error.line = number if len(texts) > 1 else None
                raise
        return found

    def analogy(
        self, first: str, second: str, third: str, *, top: int = 5, method: Method = "add", approximate: bool = False
    ) -> Analogy:
        """What is to the third as the second is to the first; the three themselves are no answers.

        method  "add": the words nearest to second - first + third, each of length 1 (3CosAdd); "multiply": those whose
                cosines with the second and third, multiplied and divided by that with the first, are largest (3CosMul)
        """
        _positive(top)
        if method not in get_args(Method):
            raise BadInput(f"method is {method!r}", remedy=f"choose one of {', '.join(get_args(Method))}")
        asked = (first, second, third)
        found = self.find_all(asked)
        left_out = tuple(dict.fromkeys(row for one in found for row in one.rows))
        units = scaled(np.stack([one.vector for one in found]))
        if self.equally_far and not approximate:
            return Analogy(asked, method, (), (*notes_of(found), EQUALLY_FAR))
        if method == "add":
            near = self._search((units[1] - units[0] + units[2])[None], top + len(left_out), approximate)
            rows, scores = near.rows[0], near.cosines[0]
        elif approximate:
            raise BadInput("an index finds what is near a vector", remedy="leave --approximate out, or --method add")
        else:
            rows, scores = self._multiplied(units, top + len(left_out))
        return Analogy(asked, method, self._named(rows, scores, left_out, top), notes_of(found))

    def _multiplied(self, units: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        parts = (cosines_with(units, self.table.matrix, part, self.lengths) for part in stretches(self.table.matrix))
        cosines = np.concatenate(list(parts), axis=1)
        scores = np.round(multiplied(*cosines), DIGITS)[None]
        rows, scores = best(np.arange(scores.shape[1])[None], scores, min(top, scores.shape[1]))
        return rows[0], scores[0]

    def _search(self, vectors: np.ndarray, top: int, approximate: bool) -> Nearest:
        if approximate:
            return self.index.nearest(vectors, top)
        return nearest(vectors, self.table.matrix, top, self.lengths)

    def _named(self, rows: np.ndarray, scores: np.ndarray, out: Sequence[int], top: int) -> tuple[NearWord, ...]:
        words, counts = self.table.words, self.table.counts
        made = []
        for row, score in zip(map(int, rows), scores.tolist(), strict=True):
            if row not in out:
                made.append(NearWord(words[row], score, None if counts is None else int(counts[row])))
        return tuple(made[:top])


def _spelled(text: str) -> str:
    return " ".join(text.casefold().replace("_", " ").split())


def multiplied(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """3CosMul of cosines with the three words that are asked about, moved to lie between 0 and 1."""
    return (1 + second) / 2 * ((1 + third) / 2) / ((1 + first) / 2 + SMALLEST)


def notes_of(found: Sequence[Found]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{one.text!r}: {one.note}" for one in found if one.note))


def scaled(vectors: np.ndarray) -> np.ndarray:
    """Each row with length 1; a row of zeros stays one."""
    return vectors / lengths_of(vectors)[:, None]


def _noted(found: Found, more: str) -> str:
    return "; ".join(filter(None, (found.note, more)))


def _positive(top: int) -> None:
    if top < 1:
        raise BadInput(f"--top is {top}", remedy="ask for at least one word")


def _most_rows(found: Sequence[Found]) -> int:
    return max(len(one.rows) for one in found)
