"""Where the tokens of a task's rows come from: which word of which text, so that what is said of tokens is of words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from forebear.objectives.batch import NOTHING
from forebear.objectives.layout import Layout
from forebear.tasks.examples import Example, Tagged, texts_of
from forebear.tasks.rows import Rows
from forebear.tasks.task import Task
from forebear.text.segmentation import Segmenter, has_han
from forebear.text.tokenizer import Pieces, Tokenizer

SHORTENED = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)+")  # didn't is one word, whatever cuts it


@dataclass(frozen=True)
class Place:
    """Where a word stands: characters `start` to before `end` of the text with the number `of`."""

    of: int
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Traced:
    """An example as rows, and the word of each token.

    texts   what is written in the example
    words   in the order of the texts
    owners  (T,) the number of the word that each token of the rows is of; NOTHING for those that stand around texts
    inside  (T,) whether a token is of a text: white space is, though it is no word's
    """

    rows: Rows
    texts: tuple[str, ...]
    words: tuple[Place, ...]
    owners: np.ndarray
    inside: np.ndarray

    def added_up(self, values: np.ndarray) -> tuple[np.ndarray, float]:
        """What is said of tokens (T,), of words: (words,), and the sum of what is no word's."""
        known = self.owners != NOTHING
        return np.bincount(self.owners[known], values[known], len(self.words)), float(values[~known].sum())

    @property
    def read(self) -> np.ndarray:
        """(words,) whether a row holds any of it: what does not fit is not read."""
        return np.isin(np.arange(len(self.words)), self.owners)


def trace(task: Task, example: Example, tokenizer: Tokenizer, layout: Layout) -> Traced:
    """The rows that the task makes of an example, with the way back to its words."""
    numbering = _Numbering(tokenizer)
    rows = task.rows([example], numbering, layout)
    inside = rows.tokens >= tokenizer.size
    numbers = rows.tokens[inside] - tokenizer.size  # of pieces, in the order in which they were cut
    tokens, pieces = rows.tokens.copy(), numbering.pieces
    tokens[inside] = np.concatenate([np.empty(0, np.int32), *(one.ids for one in pieces)])[numbers]
    if isinstance(example, Tagged):  # its words are given, each was cut by itself
        text, words = written(example.words)
        texts, owned = (text,), np.repeat(np.arange(len(pieces)), [len(one.ids) for one in pieces])
    else:
        texts = texts_of(example)
        if len(pieces) < len(texts):  # a question that is its own passage was cut only once
            numbers = numbers + len(pieces[0].ids) * rows.segments[inside]
            pieces = pieces * 2
        words, owned = _cut(texts, pieces)
    owners = np.full(len(tokens), NOTHING)
    owners[inside] = owned[numbers]
    return Traced(replace(rows, tokens=tokens), texts, tuple(words), owners, inside)


class _Numbering(Tokenizer):
    """A tokenizer that gives each piece a number of its own, above all ids: whatever a task makes of them, its rows
    then tell which piece stands where, without anybody knowing how it cuts windows or orders texts."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        vars(self).update(vars(tokenizer))  # it is the same in all else
        self._tokenizer = tokenizer
        self.pieces: list[Pieces] = []
        self._count = tokenizer.size

    def encode(self, text: str, *, specials: bool = False) -> Pieces:
        pieces = self._tokenizer.encode(text, specials=specials)
        self.pieces.append(pieces)
        numbers = np.arange(self._count, self._count + len(pieces.ids), dtype=np.int32)
        self._count += len(numbers)
        return replace(pieces, ids=numbers)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        cuts = [self.encode(text).ids for text in texts]
        return np.concatenate([np.empty(0, np.int32), *cuts]), np.array([len(ids) for ids in cuts], np.int32)


def _cut(texts: Sequence[str], cuts: Sequence[Pieces]) -> tuple[list[Place], np.ndarray]:
    """All words, and for each piece the number of its word; white space is no word."""
    words: list[Place] = []
    owned = []
    for of, (text, pieces) in enumerate(zip(texts, cuts, strict=True)):
        spans = list(_stripped(text, pieces))
        ends = borders(text, spans)
        begins = [0, *ends[:-1]]
        numbers = np.full(len(ends) + 1, NOTHING)
        for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if text[begin:end].strip():
                numbers[number] = len(words)
                words.append(Place(of, begin, end))
        places = np.array([begin for begin, _ in spans], np.int64)
        owned.append(numbers[np.searchsorted(ends, places, side="right")])
    return words, np.concatenate([np.empty(0, np.int64), *owned])


def _stripped(text: str, pieces: Pieces) -> Iterator[tuple[int, int]]:
    """The span of each piece without white space before it; a further byte of a character has that of the first."""
    span = (0, 0)
    for begin, end in pieces.spans:
        if begin < end:
            written = text[begin:end].lstrip()
            span = (end - len(written), end) if written else (begin, end)
        yield span


def borders(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Where words end. A token that reaches over a border leaves no border there: nobody could say whose it is."""
    kept = np.zeros(len(text) + 1, bool)
    kept[[*Segmenter().cuts(text), len(text)]] = True
    whole = [found.span() for found in SHORTENED.finditer(text) if not has_han(found.group())]
    for begin, end in (*spans, *whole):
        kept[begin + 1 : end] = False
    kept[0] = False
    return np.flatnonzero(kept).tolist()


def written(words: Sequence[str]) -> tuple[str, list[Place]]:
    """Words as one text, and where each of them stands in it: with spaces between, but not beside Chinese."""
    text, places = "", []
    for word in words:
        text += " " if text and not (has_han(text[-1]) or has_han(word[:1])) else ""
        places.append(Place(0, len(text), len(text) + len(word)))
        text += word
    return text, places
