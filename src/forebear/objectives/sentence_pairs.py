"""Rows of whole sentences, with or without a question about their two halves: does one follow, which came first?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, TargetArrays

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset

# Documents cut into passages: neighbouring sentences of one document, as many as a row holds, none of them lost.


SHORT = 0.1  # share of passages that are made shorter than they could be, so that short rows too are known (BERT's)
FULL = 0.05  # share of passages that fill the context, where most rows are to be shorter, so that every place is known
LEAST = 8  # tokens that a passage made shorter may have at least


@dataclass(frozen=True, eq=False)
class SentenceChunks:
    """Sentences, and parts of those that are too long for a row, in the order of the text.

    spans      (n, 2) the first token of each and the one after its last
    documents  (n,) the number of the unit of the portion that each belongs to
    stretches  (n,) the number of the piece after the last that goes on without a gap, in the same document
    cut        sentences that were too long for a row
    left_away  tokens of them that no row shows
    """

    spans: np.ndarray
    documents: np.ndarray
    stretches: np.ndarray
    num_split: int
    num_dropped: int

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> np.ndarray:
        return self.spans[:, 1] - self.spans[:, 0]


@lru_cache(maxsize=4)
def sentence_chunks(source: Subset, room: int, long: str) -> SentenceChunks:
    """The pieces of a portion, none longer than `room` tokens.

    A longer sentence is cut into windows, where words are known before a word; with `long` "truncate" only the first
    of them is kept.
    """
    spans = source.by_sentence().spans
    documents = np.repeat(np.arange(len(source)), source.units[:, 1] - source.units[:, 0])
    too_long = np.flatnonzero(spans[:, 1] - spans[:, 0] > room)
    left_away = 0
    if len(too_long):
        windows = [_windows(source, begin, end, room) for begin, end in spans[too_long].tolist()]
        if long == "truncate":
            left_away = sum(int(window[-1, 1] - window[0, 1]) for window in windows)
            windows = [window[:1] for window in windows]
        counts = np.ones(len(spans), np.int64)
        counts[too_long] = [len(window) for window in windows]
        documents, spans = np.repeat(documents, counts), np.repeat(spans, counts, axis=0)
        where = concat_ranges((np.cumsum(counts) - counts)[too_long], counts[too_long])
        spans[where] = np.concatenate(windows)
    breaks = np.flatnonzero((documents[1:] != documents[:-1]) | (spans[1:, 0] != spans[:-1, 1])) + 1
    ends = np.append(breaks, len(spans))
    stretches = np.repeat(ends, np.diff(ends, prepend=0))
    return SentenceChunks(spans, documents, stretches, len(too_long), left_away)


def _windows(source: Subset, begin: int, end: int, room: int) -> np.ndarray:
    """(m, 2) spans of at most `room` tokens, one after the other."""
    cuts = [begin]
    while end - cuts[-1] > room:
        cut = cuts[-1] + room
        words = source.corpus.words
        starts = np.empty(0, int) if words is None else np.flatnonzero(words[cuts[-1] + 1 : cut + 1])
        cuts.append(cuts[-1] + 1 + int(starts[-1]) if len(starts) else cut)
    return np.array([*zip(cuts, [*cuts[1:], end], strict=True)])


def pack_chunks(pieces: SentenceChunks, room: int, rng: np.random.Generator, *, usual: int | None = None) -> np.ndarray:
    """(m, 2) the first piece of each passage and the one after its last: every piece is in exactly one of them.

    A passage holds as many pieces as have `room` tokens together; a few are drawn shorter. With `usual` most of them
    have only so many, but for a piece that is longer itself. So an epoch cuts a text otherwise than the one before. By
    a coin a stretch is packed from its beginning or from its end: the piece that did not fit is a long one, and if it
    always came first, its length would tell which half of a passage is the first.
    """
    here, ends = np.arange(len(pieces)), pieces.stretches
    begins = np.searchsorted(ends, ends)  # (n,) the first piece of each one's stretch
    backwards = (rng.random(len(pieces)) < 0.5)[begins]
    lengths = pieces.lengths[np.where(backwards, begins + ends - 1 - here, here)]  # as in a mirror
    upto = np.cumsum(lengths)
    most = room if usual is None else min(usual, room)
    rooms = np.full(len(pieces), most)
    short = np.flatnonzero(rng.random(len(pieces)) < SHORT)
    rooms[short] = rng.integers(min(LEAST, most), most + 1, len(short))
    if most < room:
        rooms[rng.random(len(pieces)) < FULL] = room
    after = np.searchsorted(upto, upto - lengths + rooms, side="right")
    after = np.maximum(np.minimum(after, ends), here + 1)
    found = np.array(_hops(after.tolist()), np.int64)
    first = found[:, 0]
    mirrored = (begins + ends)[first, None] - found[:, ::-1]
    return np.where(backwards[first, None], mirrored, found)


def _hops(after: list[int]) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(after):
        found.append((at, after[at]))
        at = after[at]
    return found


TRIES = 4  # times that halves are dealt out among documents anew, for those that fitted nowhere


@dataclass(frozen=True)
class EpochRows:
    """Every row of an epoch, in the order in which they are shown.

    sides   (m, 4) first and last token of the first half and of the second, where there is one
    answer  (m,) what is asked of the two
    ends    (m,) tokens of all rows up to this one
    """

    sides: np.ndarray
    labels: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class DocSentences:
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
    target_heads: ClassVar[bool] = False
    label_names: ClassVar[tuple[str, ...]] = ()  # about two halves, where it asks

    max_length: int
    bos_id: int
    eos_id: int
    overflow: str = "windows"
    train_length: int | None = None

    @property
    def max_text_tokens(self) -> int:
        """Tokens of text in a row."""
        return self.max_length - self.specials

    def pack(self, pieces: SentenceChunks, rng: np.random.Generator) -> np.ndarray:
        """The pieces of each row."""
        return pack_chunks(
            pieces,
            self.max_text_tokens,
            rng,
            usual=None if self.train_length is None else self.train_length - self.specials,
        )

    def steps(self, source: Subset, size: int) -> int:
        """As many as are asked for, or fewer: a batch is no smaller than the longest row, so that none is empty."""
        fullest = (source.num_tokens - self.sentence_chunks(source).num_dropped) // self.max_length
        return max(1, min(round(int(_epoch(self, source, 0, 0).ends[-1]) / size), fullest))

    def batch(self, source: Subset, size: int, moment: BatchKey) -> Batch:
        steps = self.steps(source, size)
        number, step = divmod(moment.step, steps)
        epoch = _epoch(self, source, moment.seed, number)
        total = int(epoch.ends[-1])
        first, last = np.searchsorted(epoch.ends, [step * total // steps, (step + 1) * total // steps], side="right")
        last = len(epoch.ends) if step == steps - 1 else last
        return self._rows(source.corpus.ids, epoch.sides[first:last], epoch.labels[first:last])

    def check(self, source: Subset) -> None:
        """Any text can be shown."""

    def sentence_chunks(self, source: Subset) -> SentenceChunks:
        return sentence_chunks(source, self.max_text_tokens, self.overflow)

    def sided(self, pieces: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The halves of all rows, and what is asked of them."""
        passages = self.pack(pieces, rng)
        begin, end = pieces.spans[passages[:, 0], 0], pieces.spans[passages[:, 1] - 1, 1]
        return np.stack((begin, end, end, end), axis=1), np.full(len(passages), IGNORE_INDEX)

    def _rows(self, ids: np.ndarray, sides: np.ndarray, answer: np.ndarray) -> Batch:
        order = np.argsort(-lengths_of(sides), kind="stable")
        sides, answer = sides[order], answer[order]
        lengths, one, two = lengths_of(sides), sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]
        begins = np.cumsum(lengths) - lengths
        places = np.full(int(lengths.sum()), IGNORE_INDEX)
        places[concat_ranges(begins + 1, one)] = concat_ranges(sides[:, 0], one)
        places[concat_ranges(begins + one + 2, two)] = concat_ranges(sides[:, 2], two)
        written = places != IGNORE_INDEX
        tokens = np.full(len(places), self.eos_id)
        tokens[begins] = self.bos_id
        tokens[written] = ids[places[written]]
        inputs: TargetArrays = {"tokens": tokens, "lengths": lengths}
        if not self.target_heads:
            return Batch(inputs, {}, places)
        second = np.arange(len(places)) >= np.repeat(begins + one + 2, lengths)
        return Batch({**inputs, "segments": second.astype(np.int64)}, {"pair": answer}, places)


def lengths_of(sides: np.ndarray) -> np.ndarray:
    """(m,) tokens of rows with these halves: each half has an end behind it, and a start stands before them."""
    one, two = sides[:, 1] - sides[:, 0], sides[:, 3] - sides[:, 2]
    return one + two + 2 + (two > 0)


@lru_cache(maxsize=4)
def _epoch(objective: DocSentences, source: Subset, seed: int, number: int) -> EpochRows:
    rng = np.random.default_rng([seed, number, 1])
    sides, answer = objective.sided(objective.sentence_chunks(source), rng)
    order = rng.permutation(len(sides))
    sides, answer = sides[order], answer[order]
    return EpochRows(sides, answer, np.cumsum(lengths_of(sides)))


@dataclass(frozen=True)
class _SentencePairs(DocSentences):
    """Rows [start, first half, end, second half, end]; a passage of a single sentence stays whole, and unasked."""

    specials: ClassVar[int] = 3
    target_heads: ClassVar[bool] = True

    def halved(self, pieces: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(m, 4) sides of all passages, cut between two sentences anywhere, and the document of each."""
        passages = self.pack(pieces, rng)
        first, last = passages[:, 0], passages[:, 1]
        cut = np.where(last - first > 1, rng.integers(first + 1, np.maximum(last, first + 2)), last)
        begin, end = pieces.spans[first, 0], pieces.spans[last - 1, 1]
        middle = pieces.spans[cut - 1, 1]
        return np.stack((begin, middle, middle, end), axis=1), pieces.documents[first]


@dataclass(frozen=True)
class NextSentence(_SentencePairs):
    """Does the second half follow the first (0), or is it from another document (1)? (BERT)

    Two passages of different documents swap second halves of nearly the same length: nothing is shown twice, nothing is
    left away, and the length of a row tells nothing. Only what could be swapped is asked, and half of it is: what found
    no partner, as where documents are few, would always be answered alike, and tell by itself.
    """

    label_names: ClassVar[tuple[str, ...]] = ("follows", "from elsewhere")

    def sided(self, pieces: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sides, documents = self.halved(pieces, rng)
        answer = np.full(len(sides), IGNORE_INDEX)
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
            fits = (first[one] + second[other] <= self.max_text_tokens) & (
                first[other] + second[one] <= self.max_text_tokens
            )
            found.append(pairs[apart & fits])
            waiting = rng.permutation(np.setdiff1d(waiting, found[-1]))
        return rng.permutation(np.concatenate(found))

    def check(self, source: Subset) -> None:
        hint = "say where documents end (--documents blank, lines or files), or ask no such question: --pairs none"
        if len(source) < 2:
            what = "the text to learn from is one document: there is no other to take second sentences from"
            raise InputError(what, hint=hint)
        if not (_epoch(self, source, 0, 0).labels != IGNORE_INDEX).any():
            what = f"no two documents have two sentences that fit together into a row of {self.max_length} tokens"
            raise InputError(what, hint=f"a larger --context, shorter sentences (--sentences split), or {hint}")


@dataclass(frozen=True)
class SentenceOrder(_SentencePairs):
    """Do the halves stand as they stood (0), or are they swapped (1)? (ALBERT)"""

    label_names: ClassVar[tuple[str, ...]] = ("in order", "swapped")

    def sided(self, pieces: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sides, _ = self.halved(pieces, rng)
        answer = np.full(len(sides), IGNORE_INDEX)
        both = rng.permutation(np.flatnonzero(sides[:, 3] > sides[:, 2]))
        swapped = both[: len(both) // 2]
        answer[both], answer[swapped] = 0, 1
        sides[swapped] = sides[swapped][:, [2, 3, 0, 1]]
        return sides, answer

    def check(self, source: Subset) -> None:
        if not (_epoch(self, source, 0, 0).labels != IGNORE_INDEX).any():
            what = f"no document has two sentences that fit together into a row of {self.max_length} tokens"
            hint = "a larger --context, shorter sentences (--sentences split), or no such question: --pairs none"
            raise InputError(what, hint=hint)


SENTENCE_TASKS: dict[str, Callable[[int, int, int, str, int | None], DocSentences]] = {
    "next": NextSentence,
    "order": SentenceOrder,
    "none": DocSentences,
}
