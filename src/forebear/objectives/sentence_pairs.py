"""Rows of whole sentences, with or without a question about their two halves: does one follow, which came first?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Arrays, Batch, Moment
from forebear.objectives.passages import Pieces, packed, pieces_of
from forebear.text.portion import ranges

if TYPE_CHECKING:
    from forebear.text.portion import Portion

TRIES = 4  # times that halves are dealt out among documents anew, for those that fitted nowhere


@dataclass(frozen=True)
class Epoch:
    """Every row of an epoch, in the order in which they are shown.

    sides   (m, 4) first and last token of the first half and of the second, where there is one
    answer  (m,) what is asked of the two
    ends    (m,) tokens of all rows up to this one
    """

    sides: np.ndarray
    answer: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class Passages:
    """Rows [start, sentences…, end] of one document each, as many whole sentences as a row holds (RoBERTa).

    An epoch shows every token once (but for what "truncate" leaves away), in an order and division of its own. A batch
    holds rows of about `size` tokens together, the longest first.

    context  tokens in a row at most, special ones included
    start    the id that begins a row
    end      the id that ends it, or each of its halves
    long     a sentence longer than a row is read in "windows", or "truncate" leaves its rest away
    usual    tokens of most rows, special ones included; None: as many as the context holds
    """

    specials: ClassVar[int] = 2  # in a row that is full
    asks: ClassVar[bool] = False
    answers: ClassVar[tuple[str, ...]] = ()  # about two halves, where it asks

    context: int
    start: int
    end: int
    long: str = "windows"
    usual: int | None = None

    @property
    def room(self) -> int:
        """Tokens of text in a row."""
        return self.context - self.specials

    def packed(self, pieces: Pieces, rng: np.random.Generator) -> np.ndarray:
        """The pieces of each row."""
        return packed(pieces, self.room, rng, usual=None if self.usual is None else self.usual - self.specials)

    def steps(self, source: Portion, size: int) -> int:
        """As many as are asked for, or fewer: a batch is no smaller than the longest row, so that none is empty."""
        fullest = (source.tokens - self.pieces(source).left_away) // self.context
        return max(1, min(round(int(_epoch(self, source, 0, 0).ends[-1]) / size), fullest))

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        steps = self.steps(source, size)
        number, step = divmod(moment.step, steps)
        epoch = _epoch(self, source, moment.seed, number)
        total = int(epoch.ends[-1])
        first, last = np.searchsorted(epoch.ends, [step * total // steps, (step + 1) * total // steps], side="right")
        last = len(epoch.ends) if step == steps - 1 else last
        return self._rows(source.corpus.ids, epoch.sides[first:last], epoch.answer[first:last])

    def check(self, source: Portion) -> None:
        """Any text can be shown."""

    def pieces(self, source: Portion) -> Pieces:
        return pieces_of(source, self.room, self.long)

    def sided(self, pieces: Pieces, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The halves of all rows, and what is asked of them."""
        passages = self.packed(pieces, rng)
        begin, end = pieces.spans[passages[:, 0], 0], pieces.spans[passages[:, 1] - 1, 1]
        return np.stack((begin, end, end, end), axis=1), np.full(len(passages), NOTHING)

    def _rows(self, ids: np.ndarray, sides: np.ndarray, answer: np.ndarray) -> Batch:
        order = np.argsort(-lengths_of(sides), kind="stable")
        sides, answer = sides[order], answer[order]
        lengths, one, two = lengths_of(sides), sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]
        begins = np.cumsum(lengths) - lengths
        places = np.full(int(lengths.sum()), NOTHING)
        places[ranges(begins + 1, one)] = ranges(sides[:, 0], one)
        places[ranges(begins + one + 2, two)] = ranges(sides[:, 2], two)
        written = places != NOTHING
        tokens = np.full(len(places), self.end)
        tokens[begins] = self.start
        tokens[written] = ids[places[written]]
        inputs: Arrays = {"tokens": tokens, "lengths": lengths}
        if not self.asks:
            return Batch(inputs, {}, places)
        second = np.arange(len(places)) >= np.repeat(begins + one + 2, lengths)
        return Batch({**inputs, "segments": second.astype(np.int64)}, {"pair": answer}, places)


def lengths_of(sides: np.ndarray) -> np.ndarray:
    """(m,) tokens of rows with these halves: each half has an end behind it, and a start stands before them."""
    one, two = sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]
    return one + two + 2 + (two > 0)


@lru_cache(maxsize=4)
def _epoch(objective: Passages, source: Portion, seed: int, number: int) -> Epoch:
    rng = np.random.default_rng([seed, number, 1])
    sides, answer = objective.sided(objective.pieces(source), rng)
    order = rng.permutation(len(sides))
    sides, answer = sides[order], answer[order]
    return Epoch(sides, answer, np.cumsum(lengths_of(sides)))


@dataclass(frozen=True)
class _Halves(Passages):
    """Rows [start, first half, end, second half, end]; a passage of a single sentence stays whole, and unasked."""

    specials: ClassVar[int] = 3
    asks: ClassVar[bool] = True

    def halved(self, pieces: Pieces, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(m, 4) sides of all passages, cut between two sentences anywhere, and the document of each."""
        passages = self.packed(pieces, rng)
        first, last = passages[:, 0], passages[:, 1]
        cut = np.where(last - first > 1, rng.integers(first + 1, np.maximum(last, first + 2)), last)
        begin, end = pieces.spans[first, 0], pieces.spans[last - 1, 1]
        middle = pieces.spans[cut - 1, 1]
        return np.stack((begin, middle, middle, end), axis=1), pieces.documents[first]


@dataclass(frozen=True)
class NextSentences(_Halves):
    """Does the second half follow the first (0), or is it from another document (1)? (BERT)

    Two passages of different documents swap second halves of nearly the same length: nothing is shown twice, nothing is
    left away, and the length of a row tells nothing. Only what could be swapped is asked, and half of it is: what found
    no partner, as where documents are few, would always be answered alike, and tell by itself.
    """

    answers: ClassVar[tuple[str, ...]] = ("follows", "from elsewhere")

    def sided(self, pieces: Pieces, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sides, documents = self.halved(pieces, rng)
        answer = np.full(len(sides), NOTHING)
        both = rng.permutation(np.flatnonzero(sides[:, 3] > sides[:, 2]))
        able = self._swaps(sides, documents, both, rng)
        swaps = able[: (len(able) + int(rng.integers(2))) // 2]
        answer[able.ravel()], answer[swaps.ravel()] = 0, 1
        one, other = swaps.T
        sides[one, 2:], sides[other, 2:] = sides[other, 2:], sides[one, 2:].copy()
        return sides, answer

    def _swaps(
        self, sides: np.ndarray, documents: np.ndarray, waiting: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(s, 2) passages that can swap their second halves, by chance among those of nearly equal length."""
        found = [np.empty((0, 2), np.int64)]
        first, second = sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]
        for turn in range(TRIES):
            waiting = waiting[np.argsort(second[waiting], kind="stable")]  # equal ones stay in the order of chance
            pairs = waiting[turn % 2 :][: (len(waiting) - turn % 2) // 2 * 2].reshape(-1, 2)
            one, other = pairs.T
            apart = documents[one] != documents[other]
            fits = (first[one] + second[other] <= self.room) & (first[other] + second[one] <= self.room)
            found.append(pairs[apart & fits])
            waiting = rng.permutation(np.setdiff1d(waiting, found[-1]))
        return rng.permutation(np.concatenate(found))

    def check(self, source: Portion) -> None:
        remedy = "say where documents end (--documents blank, lines or files), or ask no such question: --pairs none"
        if len(source) < 2:
            what = "the text to learn from is one document: there is no other to take second sentences from"
            raise BadInput(what, remedy=remedy)
        if not (_epoch(self, source, 0, 0).answer != NOTHING).any():
            what = f"no two documents have two sentences that fit together into a row of {self.context} tokens"
            raise BadInput(what, remedy=f"a larger --context, shorter sentences (--sentences split), or {remedy}")


@dataclass(frozen=True)
class SentenceOrder(_Halves):
    """Do the halves stand as they stood (0), or are they swapped (1)? (ALBERT)"""

    answers: ClassVar[tuple[str, ...]] = ("in order", "swapped")

    def sided(self, pieces: Pieces, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sides, _ = self.halved(pieces, rng)
        answer = np.full(len(sides), NOTHING)
        both = rng.permutation(np.flatnonzero(sides[:, 3] > sides[:, 2]))
        swapped = both[: len(both) // 2]
        answer[both], answer[swapped] = 0, 1
        sides[swapped] = sides[swapped][:, [2, 3, 0, 1]]
        return sides, answer

    def check(self, source: Portion) -> None:
        if not (_epoch(self, source, 0, 0).answer != NOTHING).any():
            what = f"no document has two sentences that fit together into a row of {self.context} tokens"
            remedy = "a larger --context, shorter sentences (--sentences split), or no such question: --pairs none"
            raise BadInput(what, remedy=remedy)


PAIRS: dict[str, Callable[[int, int, int, str, int | None], Passages]] = {
    "next": NextSentences,
    "order": SentenceOrder,
    "none": Passages,
}
