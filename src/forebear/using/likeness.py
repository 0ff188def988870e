"""How alike words or texts are, and which is the odd one: by a run's own words, or by the texts in context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.using.embedding import matrix_of
from forebear.using.lexicon import EQUALLY_FAR, notes_of, scaled
from forebear.using.nearest import DIGITS
from forebear.using.words import has_words, is_table

if TYPE_CHECKING:
    from forebear.using.opened import Opened

LEAST = 3  # of two, neither is odd
SAME = 1.5 * 10**-DIGITS  # means that differ by less, which is rounding, are equal


@dataclass(frozen=True)
class Similarity:
    """Two texts and the cosine of their vectors: of "words" by themselves, or of "texts" in context."""

    texts: tuple[str, str]
    cosine: float
    by: str
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"texts": list(self.texts), "cosine": round(self.cosine, DIGITS)}
        return told | {"by": self.by, "notes": list(self.notes)}


@dataclass(frozen=True)
class Odd:
    """The text that is least like the others, and of each the mean of its cosines with all others.

    odd  None where all are as far from the others
    """

    odd: str | None
    texts: tuple[str, ...]
    cosines: tuple[float, ...]
    by: str
    notes: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        pairs = zip(self.texts, self.cosines, strict=True)
        told = [{"text": text, "cosine": round(cosine, DIGITS)} for text, cosine in pairs]
        return {"odd": self.odd, "texts": told, "by": self.by, "notes": list(self.notes)}


def similarities(run: Opened, pairs: Sequence[tuple[str, str]], **how: Any) -> list[Similarity]:
    """How alike the two of each pair are, by themselves where both are words; a fault is one of the pair of its number.

    `how` is what `embed` takes: where something is asked of it, texts are embedded.
    """
    run.ready_for("similarity")
    by_words = [_are_words(run, pair, how) for pair in pairs]
    others = [text for pair, words in zip(pairs, by_words, strict=True) if not words for text in pair]
    with _numbered(pairs, [number for number, words in enumerate(by_words, 1) if not words for _ in "ab"]):
        embedded = iter(_of_texts(run, others, how))
    made = []
    for number, (pair, words) in enumerate(zip(pairs, by_words, strict=True), 1):
        with _numbered(pairs, [number, number]):
            (first, second), notes = _of_words(run, pair) if words else ((next(embedded), next(embedded)), ())
        made.append(Similarity(pair, float(first @ second), "words" if words else "texts", notes))
    return made


def odd_one_out(run: Opened, texts: Sequence[str], **how: Any) -> Odd:
    """The one whose cosines with all others have the lowest mean; of equals the first, and none where all are."""
    run.ready_for("odd-one-out")
    if len(texts) < LEAST:
        raise BadInput(f"of {len(texts)} texts none is the odd one", remedy=f"give at least {LEAST}")
    words = _are_words(run, texts, how)
    units, notes = _of_words(run, texts) if words else (_of_texts(run, texts, how), ())
    means = np.round((units @ units.T).sum(1, where=~np.eye(len(texts), dtype=bool)) / (len(texts) - 1), DIGITS)
    odd = texts[int(means.argmin())] if means.max() - means.min() > SAME else None
    return Odd(odd, tuple(texts), tuple(means.tolist()), "words" if words else "texts", notes)


def _are_words(run: Opened, texts: Sequence[str], how: dict[str, Any]) -> bool:
    """Whether a table tells these: a network is asked for its table only if each is a word that it knows."""
    if any(value is not None for value in how.values()):
        return False
    return is_table(run) or (has_words(run) and all(run.lexicon.row(text) is not None for text in texts))


def _of_words(run: Opened, texts: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    found = run.lexicon.find_all(texts)
    different = len({one.rows for one in found}) > 1
    more = (EQUALLY_FAR,) if run.lexicon.equally_far and different else ()
    return scaled(np.stack([one.vector for one in found])), (*notes_of(found), *more)


def _of_texts(run: Opened, texts: Sequence[str], how: dict[str, Any]) -> np.ndarray:
    return scaled(matrix_of(run, texts, **how).vectors) if texts else np.empty((0, 1))


@contextmanager
def _numbered(pairs: Sequence[object], numbers: Sequence[int]) -> Iterator[None]:
    """A fault of text number n is one of the pair that has it."""
    try:
        yield
    except BadInput as error:
        error.line = None if len(pairs) == 1 else numbers[(error.line or 1) - 1]
        raise
