"""The model that counts: n-grams of any order and what they say comes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.statistics import smoothing as ways
from forebear.statistics.backoff import Backoff
from forebear.statistics.counting import Counts, counted, merged

SMOOTHINGS = ("none", "add", "kneser-ney", "given")
NAMED = 5  # lengths of n-grams that are told one by one


def check(order: int, smoothing: str, k: float) -> None:
    """Refuses what is no n-gram model, before any text is read."""
    if order < 1:
        raise BadInput(f"an n-gram model of order {order}", remedy="choose an order of 1 or more, such as 3")
    if smoothing not in SMOOTHINGS:
        raise BadInput(f"no smoothing is named {smoothing!r}", remedy=f"there are: {', '.join(SMOOTHINGS)}")
    if smoothing == "add" and not 0 < k < float("inf"):
        raise BadInput(f"k is {k}", remedy='add something above 0 to each count, or choose smoothing "none"')


class NgramModel:
    """P(token given the last order - 1 tokens): a predictor that learns by counting, in whatever batches.

    order       tokens of the longest n-gram
    vocabulary  how many ids there are
    end         the id that begins every row, where it is only seen, and ends it, where it is predicted
    never       ids that are never predicted: their probability is 0, and that of all others sums to 1
    smoothing   "none": shares of counts, and the shorter context where a context was never seen; "add": k more for
                each; "kneser-ney": interpolated, modified; "given": not counted here but read from elsewhere
    """

    heads = ("next",)
    pseudo = False  # scores are factors of the probability of a row

    def __init__(
        self,
        *,
        order: int,
        vocabulary: int,
        end: int,
        never: Iterable[int] = (),
        smoothing: str = "kneser-ney",
        k: float = 1.0,
    ) -> None:
        check(order, smoothing, k)
        self.order, self.end, self.smoothing, self.k = order, end, smoothing, k
        self.predictable = np.ones(vocabulary, bool)
        self.predictable[list(never)] = False
        if not self.predictable[end]:
            raise BadInput(f"the end of a text (id {end}) is among the tokens that are never predicted")
        self._parts: list[Counts] = []
        self._settled: Backoff | None = None
        self._discounts: list[ways.Discounts] = []

    @property
    def vocabulary(self) -> int:
        return len(self.predictable)

    @property
    def context(self) -> None:
        """Rows of any length can be read: what lies too far back is simply not looked at."""
        return

    # -- learning

    def count(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> None:
        """Adds a batch of rows [end, w1 … wn] (one after the other in `tokens`) with the targets [w1 … wn, end]."""
        if self.smoothing == "given":
            remedy = "to count, choose --smoothing kneser-ney, add or none"
            raise BadInput(
                "smoothing 'given' means probabilities from elsewhere: there are no counts to add to", remedy=remedy
            )
        if not len(lengths):
            return
        self._parts.append(self._counted(np.asarray(tokens, np.int64), lengths, np.asarray(targets, np.int64)))
        self._settled = None
        # Like with like: each n-gram is merged about as often as the number of batches can be halved.
        while len(self._parts) > 1 and self._parts[-2].size <= 2 * self._parts[-1].size:
            self._parts[-2:] = [merged(self._parts[-2:])]

    def _counted(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> Counts:
        lasts = np.cumsum(lengths) - 1
        rows = np.insert(tokens, lasts + 1, self.end)
        asked, ends = np.delete(rows, lasts + 1 - lengths + np.arange(len(lengths))), rows == self.end
        if not np.array_equal(asked, targets) or np.count_nonzero(ends) != 2 * len(lengths):
            raise ForebearError(f"n-grams are counted in whole rows, all asked for, between two ids {self.end}")
        allowed = (targets >= 0) & (targets < self.vocabulary)
        allowed[allowed] = self.predictable[targets[allowed]]
        if not allowed.all():
            what = f"the text holds the id {targets[~allowed][0]}, which this model never predicts"
            raise BadInput(what, remedy="prepare the text with the tokenizer of this run")
        return counted(rows, lengths + 1, vocabulary=self.vocabulary, order=self.order)

    @property
    def counts(self) -> Counts:
        """All that was counted so far."""
        if len(self._parts) != 1:
            self._parts = [merged(self._parts) if self._parts else Counts.none(self.vocabulary, self.order)]
        return self._parts[0]

    def settle(self) -> Backoff:
        """The probabilities that follow from the counts; made at first use and kept until more is counted."""
        if self._settled is None:
            self._discounts = []
            if self.smoothing == "none":
                self._settled = ways.maximum_likelihood(self.counts, self.predictable)
            elif self.smoothing == "add":
                self._settled = ways.added(self.counts, self.predictable, self.k)
            elif self.smoothing == "kneser-ney":
                self._settled, self._discounts = ways.kneser_ney(self.counts, self.predictable, self.end)
            else:
                raise ForebearError("this n-gram model was not given its probabilities yet")
        return self._settled

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state. Equal counts give equal bytes, whatever the batches were."""
        return self.settle().arrays() if self.smoothing == "given" else self.counts.arrays()

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra, misshapen or disorderly array is refused by its name."""
        values = ["logs", "backoffs"] if self.smoothing == "given" else ["counts"]
        names = {f"{values[0]}.{n}" for n in range(1, self.order + 1)}
        names |= {f"words.{n + 1}" for n in range(1, self.order)}
        names |= {f"{name}.{n}" for name in ("continuations", *values[1:]) for n in range(1, self.order)}
        for what, odd in (("lacks", names - set(arrays)), ("has, but should not,", set(arrays) - names)):
            if odd:
                raise ForebearError(f"the state of an n-gram model of order {self.order} {what} {sorted(odd)}")
        if self.smoothing == "given":
            self._settled = Backoff.load(arrays, vocabulary=self.vocabulary, order=self.order)
        else:
            self._parts = [Counts.load(arrays, vocabulary=self.vocabulary, order=self.order)]
            self._settled = None

    def give(self, ngrams: Sequence[np.ndarray], logs: Sequence[np.ndarray], backoffs: Sequence[np.ndarray]) -> None:
        """Fills a model of smoothing "given" with what `written` or an ARPA file tells."""
        if self.smoothing != "given" or len(ngrams) != self.order:
            what = f"order {self.order} and smoothing {self.smoothing!r}"
            raise ForebearError(f"an n-gram model of {what} does not take these probabilities")
        self._settled = Backoff.of(ngrams, logs, backoffs, self.vocabulary)

    def written(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """For n = 1, 2, … the n-grams (size, n), log P and, but for the longest, back-offs: what an ARPA file holds."""
        return self.settle().written(self.predictable)

    # -- what it says

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        tokens, places, ends = self._laid(rows)
        told = self.settle().score(tokens, places)
        return [told[end - len(row) + 1 : end] for row, end in zip(rows, ends.tolist(), strict=True)]

    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        table, told = self.settle(), np.empty((len(rows), self.vocabulary))
        for line, row in zip(told, rows, strict=True):
            tokens, places, _ = self._laid([row[max(0, len(row) - self.order + 1) :]])
            since = 0 if not len(tokens) else 1 if tokens[-1] == self.end else int(places[-1]) + 1
            table.follow(tokens[len(tokens) - since :], line)
        return told

    def read(self, rows: Sequence[np.ndarray], room: int) -> Reading:
        return Reading(self, rows)

    def _laid(self, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows one after the other, how far back each token may look (not beyond the last end), and where rows end."""
        lengths = np.array([len(row) for row in rows], np.int64)
        tokens = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, rows)]).astype(np.int64)
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocabulary:
            raise BadInput(f"a row holds ids outside 0 to {self.vocabulary - 1}")
        ends = np.cumsum(lengths)
        begins = np.repeat(ends - lengths, lengths)
        here = np.arange(len(tokens))
        last = np.maximum.accumulate(np.where(tokens == self.end, here, 0))
        before = np.concatenate(([0], last[:-1])) if len(tokens) else last  # an end itself is predicted from before it
        return tokens, here - np.maximum(begins, before), ends

    # -- what is to be known of it

    @property
    def parameter_count(self) -> int:
        """How many n-grams it holds."""
        return sum(map(len, self.settle().logs))

    @property
    def notes(self) -> list[str]:
        """What a person should be told of how the probabilities came about."""
        ngrams = self.settle().ngrams
        if self.smoothing == "none":
            return ["without smoothing, what never followed a context is impossible; a new context is cut shorter"]
        told = enumerate(self._discounts, start=1)
        thin = [f"{n} ({one.taken[0]:.3g})" for n, one in told if one.way != "modified" and ngrams.size(n)]
        if not thin:
            return []
        which = ", ".join(thin[:NAMED]) + (", …" if thin[NAMED:] else "")
        what = "Kneser–Ney's three discounts cannot be told from so few counts, and one is taken from all"
        return [f"{what}: of n-grams of length {which}; usual for little or repetitive text"]

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        table = self.settle()
        told: dict[str, Any] = {
            "order": self.order,
            "smoothing": self.smoothing,
            "vocabulary": self.vocabulary,
            "predictable": int(np.count_nonzero(self.predictable)),
            "ngrams": [table.ngrams.size(n) for n in range(1, self.order + 1)],
        }
        if self.smoothing != "given":
            told["tokens"] = int(self.counts.times[0].sum())
        if self.smoothing == "add":
            told["k"] = self.k
        if self._discounts:
            told["discounts"] = [
                {"order": n, "way": mine.way, "taken": list(mine.taken), "seen": list(mine.seen)}
                for n, mine in enumerate(self._discounts, start=1)
            ]
        return told | {"notes": self.notes}


class Reading:
    """Rows that are being continued: only their last few tokens matter."""

    def __init__(self, model: NgramModel, rows: Sequence[np.ndarray]) -> None:
        self.model = model
        self.rows = [np.asarray(row, np.int64) for row in rows]

    def next(self) -> np.ndarray:
        return self.model.follow(self.rows).astype(np.float32)

    def take(self, ids: np.ndarray) -> None:
        keep = max(self.model.order - 1, 1)
        self.rows = [np.append(row, taken)[-keep:] for row, taken in zip(self.rows, ids.tolist(), strict=True)]

    def keep(self, rows: np.ndarray) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]
