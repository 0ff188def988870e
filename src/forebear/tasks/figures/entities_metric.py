"""How many entities a tagger finds: precision, recall and F1 of whole entities, read leniently and strictly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.tasks.figures.metrics import Counts
from forebear.tasks.tags import parts_of

LETTERS = "OBIES"
OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(len(LETTERS))
UNNAMED = "_"  # the kind of a bare B, as of Chinese words


@dataclass(frozen=True)
class Found:
    """Entities of many sequences, laid one after the other: where each begins and ends, and the number of its kind."""

    first: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    is_whole: np.ndarray  # written as IOBES demands: from B to E, or S


def of_entities(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Of sequences in IOBES (or in BIO, whose strict figures mean nothing): right are first, last and kind together.

    `precision`, `recall`, `f1`, `macro_f1` and `per_kind` read as conlleval and seqeval do: an I after O or after
    another kind begins an entity. Those in `strict` count what is written as IOBES demands and nothing else.
    """
    if [*map(len, true)] != [*map(len, predicted)]:
        raise BadInput("the predicted sequences of tags are not as long as the true ones")
    numbers: dict[str, int] = {tag: number for number, tag in enumerate({"O"}.union(*true, *predicted))}
    parts = [parts_of(tag) for tag in numbers]
    kinds = sorted({kind or UNNAMED for letter, kind in parts if letter != "O"})
    places = {kind: number for number, kind in enumerate(kinds)}
    codes = np.array([LETTERS.index(letter) for letter, _ in parts], np.int8)
    kind_of = np.array([places.get(kind or UNNAMED, -1) for _, kind in parts])
    meant, said = (_found(_laid_out(sequences, numbers), codes, kind_of) for sequences in (true, predicted))
    words = sum(map(len, true))
    lenient = _facts(_counts(meant, said, len(kinds)), kinds)
    strict = _facts(_counts(_whole(meant), _whole(said), len(kinds)), kinds)
    return {**lenient, "strict": strict, "sequences": len(true), "words": words}


def _laid_out(sequences: Sequence[Sequence[str]], numbers: dict[str, int]) -> np.ndarray:
    """The numbers of all tags, with an O before each sequence and one at the end."""
    tags = chain.from_iterable(chain(("O",), tags) for tags in (*sequences, ()))
    return np.fromiter(map(numbers.__getitem__, tags), np.int64)


def _found(laid_out: np.ndarray, codes: np.ndarray, kind_of: np.ndarray) -> Found:
    code, kind = codes[laid_out], kind_of[laid_out]
    goes_on = np.zeros(len(code), bool)
    goes_on[1:] = ((code[:-1] == BEGIN) | (code[:-1] == INSIDE)) & ((code[1:] == INSIDE) | (code[1:] == END))
    goes_on[1:] &= kind[:-1] == kind[1:]
    borders = np.flatnonzero(~goes_on)  # where anything begins: an entity or an O; the last is the O at the end
    begins = np.flatnonzero(code[borders] != OUTSIDE)
    first, end = borders[begins], borders[begins + 1]
    is_whole = (code[first] == SINGLE) | ((code[first] == BEGIN) & (code[end - 1] == END))
    return Found(first, end, kind[first], is_whole)


def _whole(found: Found) -> Found:
    keep = found.is_whole
    return Found(found.first[keep], found.end[keep], found.kind[keep], found.is_whole[keep])


def _counts(meant: Found, said: Found, kinds: int) -> Counts:
    """At most one entity begins at a place, so that two are compared where both readings have one."""
    _, left, right = np.intersect1d(meant.first, said.first, assume_unique=True, return_indices=True)
    same = (meant.end[left] == said.end[right]) & (meant.kind[left] == said.kind[right])
    every = (meant.kind[left[same]], said.kind, meant.kind)
    return Counts(*(np.bincount(some, minlength=kinds) for some in every))


def _facts(counts: Counts, kinds: Sequence[str]) -> dict[str, Any]:
    total = Counts(*(np.array([some.sum()]) for some in (counts.hits, counts.said, counts.meant)))
    there = (counts.said + counts.meant) > 0
    named = [kind for kind, is_there in zip(kinds, there, strict=True) if is_there]
    return {
        "precision": float(total.precision[0]),
        "recall": float(total.recall[0]),
        "f1": float(total.f1[0]),
        "macro_f1": counts.occurring().average_f1("macro"),
        "entities": int(counts.meant.sum()),
        "per_kind": counts.occurring().facts(named),
    }
