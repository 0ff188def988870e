"""The hidden Markov model: states that nobody wrote down, learned from plain text by what they make probable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels import hidden_states as kernels
from forebear.statistics.hidden_states import HiddenStates, Reading, in_parts

OF_MOVES = 0.01  # how much of `smoothing` is taken from moves: there are far fewer of them than of words
MOST_TOKENS = 1 << 31  # of which what is expected, in units of 2^-32, is sure to fit into 64 bits
MOST = 0.5  # of what all states share, the most that is left to words which were never seen


def check(states: int, smoothing: float) -> None:
    """Refuses what is no hidden Markov model, before any text is read."""
    if states < 1:
        raise BadInput(f"a hidden Markov model of {states} states", remedy="choose 1 or more, such as 64")
    if not 0 <= smoothing < 1:
        remedy = "choose a share from 0 to below 1, such as 0.05; 0: what a state never said is impossible"
        raise BadInput(f"smoothing is {smoothing}", remedy=remedy)


class HmmModel:
    """P(token given all before it), by states of which only probabilities are known; learns by Baum and Welch's way.

    A state says a word from a table of its own, or, one time in 1/smoothing, from one that all states share: how often
    there is what, with something left for what was never seen. Both are parts of one model, so that each iteration
    makes the text it learns from more probable, or leaves it as probable as it was.

    states      how many, the border between texts not counted
    vocabulary  how many ids there are
    end         the id that begins and ends every row
    never       ids that are never predicted: their probability is 0, and that of all others sums to 1
    smoothing   the share of words that a state takes from the common table
    """

    heads = ("next",)
    pseudo = False  # scores are factors of the probability of a row

    def __init__(
        self, *, states: int, vocabulary: int, end: int, never: Iterable[int] = (), smoothing: float = 0.05
    ) -> None:
        check(states, smoothing)
        self.states, self.end, self.smoothing = states, end, smoothing
        self.predictable = np.ones(vocabulary, bool)
        self.predictable[list(never)] = False
        if not self.predictable[end]:
            raise BadInput(f"the end of a text (id {end}) is among the tokens that are never predicted")
        self.counts = np.zeros(vocabulary, np.int64)  # of the text; ends are counted too
        self._moves, self._words = self._evenly()
        self._told_moves, self._told_words = self._nothing()
        self.iterations = 0
        self._settled: HiddenStates | None = None
        self.notes: list[str] = []

    @property
    def vocabulary(self) -> int:
        return len(self.predictable)

    @property
    def context(self) -> None:
        """Rows of any length can be read."""
        return

    # -- learning

    def meet(self, counts: np.ndarray) -> None:
        """Tells how often each id stands in the whole text that it will learn from."""
        if int(np.sum(counts)) >= MOST_TOKENS:
            what = f"{int(np.sum(counts)):,} tokens are more than can be counted in parts of 2^-32"
            raise BadInput(what, remedy=f"learn from fewer than {MOST_TOKENS:,}: give a part of the text")
        self.counts = np.where(self.predictable, np.asarray(counts, np.int64), 0)
        self._settled = None

    def begin(self, seed: int) -> None:
        """Each state begins with words as frequent as they are, more of some and less of others, by chance."""
        rng = np.random.default_rng([seed, self.states])
        moves, _ = self._evenly()
        moves[:-1] *= rng.exponential(1.0, (self.states, self.states + 1))
        words = self._shared()[:, None] * rng.exponential(1.0, (self.vocabulary, self.states))
        words[self.counts == 0] = 0.0  # what is not there will not be learned
        self._moves, self._words = _shares(moves, 1), _shares(words, 0, self._evenly()[1])
        self._told_moves, self._told_words = self._nothing()
        self.iterations, self._settled = 0, None

    def expect(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> float:
        """Adds what is expected of rows [end, w1 … wn] with the targets [w1 … wn, end]; -log P of all of them."""
        targets, lengths = np.asarray(targets, np.int64), np.asarray(lengths, np.int64)
        if not len(lengths):
            return 0.0
        self._check(np.asarray(tokens), lengths, targets)
        tables, ends = self.settle(), np.cumsum(lengths)

        def told(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            begin, end = (int(ends[row - 1]) if row else 0 for row in (part.start, part.stop))
            own = self._nothing() if part.start else (self._told_moves, self._told_words)
            losses = kernels.expected(targets[begin:end], ends[part] - begin, tables.moves, tables.emissions, *own)
            return losses, *own

        parts = in_parts(lengths, len(targets) * self.states)
        with ThreadPoolExecutor(len(parts)) as threads:
            found = list(threads.map(told, parts))
        for _, moves, words in found[1:]:  # whole numbers: in whatever order, their sum is the same
            self._told_moves += moves
            self._told_words += words
        return float(np.concatenate([losses for losses, *_ in found]).sum())

    def renew(self) -> None:
        """One iteration is over: tables as what was expected says, and nothing is expected any more."""
        tables = self.settle()
        if self.smoothing:  # the share of each that came from a state's own table
            moves = self._told_moves * _part(self._own_moves(), tables.moves)
            words = self._told_words[:, :-1] * _part(self._own_words(), tables.emissions[:, :-1])
        else:
            moves, words = self._told_moves.astype(np.float64), self._told_words[:, :-1].astype(np.float64)
        self._moves, self._words = _shares(moves, 1, self._moves), _shares(words, 0, self._words)
        self._told_moves, self._told_words = self._nothing()
        self.iterations, self._settled = self.iterations + 1, None

    @property
    def has_expectations(self) -> bool:
        return bool(self._told_moves.any())

    def _check(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> None:
        lasts = np.cumsum(lengths) - 1
        ends = np.zeros(len(targets), bool)
        ends[lasts] = True
        if not np.array_equal(targets == self.end, ends) or not (tokens[lasts + 1 - lengths] == self.end).all():
            raise ForebearError(f"states are learned from whole rows, all asked for, between two ids {self.end}")
        allowed = (targets >= 0) & (targets < self.vocabulary)
        allowed[allowed] = self.predictable[targets[allowed]]
        if not allowed.all():
            what = f"the text holds the id {targets[~allowed][0]}, which this model never predicts"
            raise BadInput(what, remedy="prepare the text with the tokenizer of this run")

    # -- tables

    def settle(self) -> HiddenStates:
        """The probabilities; made at first use and kept until something is learned."""
        if self._settled is None:
            emissions = np.zeros((self.vocabulary, self.states + 1))
            emissions[:, :-1] = self._own_words()
            moves = self._own_moves()
            if self.smoothing:
                emissions[:, :-1] += self.smoothing * self._shared()[:, None]
                moves = moves + self.smoothing * OF_MOVES * self._evenly()[0]
            emissions[self.end, -1] = 1.0
            self._settled = HiddenStates(moves, emissions, self.end)
        return self._settled

    def _own_moves(self) -> np.ndarray:
        return (1 - self.smoothing * OF_MOVES) * self._moves

    def _own_words(self) -> np.ndarray:
        return (1 - self.smoothing) * self._words

    def _evenly(self) -> tuple[np.ndarray, np.ndarray]:
        """Moves to any state alike, and to the end as often as there is one; words as frequent as they are."""
        ends, all_tokens = int(self.counts[self.end]), int(self.counts.sum())
        share = (ends + 1) / (all_tokens + 2) if np.count_nonzero(self.predictable) > 1 else 1.0
        moves = np.full((self.states + 1, self.states + 1), (1 - share) / self.states)
        moves[:, -1] = share
        return moves, np.tile(self._shared()[:, None], self.states)

    def _shared(self) -> np.ndarray:
        """(V,) what all states share: how often there is what, and as much for what was never seen as what was seen
        once tells that there is (Good and Turing), evenly.
        """
        counts = self.counts.copy()
        counts[self.end] = 0
        unseen = self.predictable & (counts == 0)
        unseen[self.end] = False
        total, once = int(counts.sum()), max(1, np.count_nonzero(counts == 1))
        if not total:
            return _shares(unseen.astype(np.float64), 0) if unseen.any() else np.zeros(self.vocabulary)
        new = min(MOST, once / (total + once) / self.smoothing) if self.smoothing and unseen.any() else 0.0
        return (1 - new) * counts / total + new * unseen / max(1, np.count_nonzero(unseen))

    def _nothing(self) -> tuple[np.ndarray, np.ndarray]:
        many = self.states + 1
        return np.zeros((many, many), np.int64), np.zeros((self.vocabulary, many), np.int64)

    # -- what it says

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.settle().score(rows)

    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.settle().follow(rows)

    def read(self, rows: Sequence[np.ndarray], room: int) -> Reading:
        return self.settle().read(rows, room)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state but what is expected of half an epoch."""
        iterations = np.array([self.iterations], np.int64)
        return {"moves": self._moves, "words": self._words, "counts": self.counts, "iterations": iterations}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        wanted = {
            "moves": ((self.states + 1, self.states + 1), np.float64),
            "words": ((self.vocabulary, self.states), np.float64),
            "counts": ((self.vocabulary,), np.int64),
            "iterations": ((1,), np.int64),
        }
        _check_arrays(arrays, wanted, f"a hidden Markov model of {self.states} states")
        self._moves, self._words, self.counts = arrays["moves"], arrays["words"], arrays["counts"]
        self._told_moves, self._told_words = self._nothing()
        self.iterations, self._settled = int(arrays["iterations"][0]), None

    def remembered(self) -> dict[str, np.ndarray]:
        """What is expected so far, in an epoch that is not over."""
        return {"told_moves": self._told_moves, "told_words": self._told_words}

    def remember(self, arrays: Mapping[str, np.ndarray]) -> None:
        wanted = {name: (array.shape, np.int64) for name, array in self.remembered().items()}
        _check_arrays(arrays, wanted, f"what is expected of {self.states} states")
        self._told_moves, self._told_words = arrays["told_moves"].copy(), arrays["told_words"].copy()

    # -- what is to be known of it

    @property
    def parameter_count(self) -> int:
        """Probabilities in its tables."""
        return self._moves.size + self._words.size

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {
            "states": self.states,
            "smoothing": self.smoothing,
            "vocabulary": self.vocabulary,
            "predictable": int(np.count_nonzero(self.predictable)),
            "tokens": int(self.counts.sum()),
            "iterations": self.iterations,
            "notes": self.notes,
        }


def _shares(counts: np.ndarray, axis: int, instead: np.ndarray | None = None) -> np.ndarray:
    """Counts as shares of their line; a line of nothing stays as it is in `instead`."""
    total = counts.sum(axis=axis, keepdims=True)
    made = counts / np.where(total > 0, total, 1.0)
    return made if instead is None else np.where(total > 0, made, instead)


def _part(own: np.ndarray, all_of_it: np.ndarray) -> np.ndarray:
    return own / np.where(all_of_it > 0, all_of_it, 1.0)


def _check_arrays(
    arrays: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[tuple[int, ...], Any]], what: str
) -> None:
    """Refuses a missing, extra or misshapen array by its name."""
    for verb, odd in (
        ("lacks", wanted.keys() - arrays.keys()),
        ("has, but should not,", arrays.keys() - wanted.keys()),
    ):
        if odd:
            raise ForebearError(f"the state of {what} {verb} {sorted(odd)}")
    for name, (shape, kind) in wanted.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != kind:
            found = f"{array.dtype} {list(array.shape)} instead of {np.dtype(kind)} {list(shape)}"
            raise ForebearError(f"the array {name!r} of {what} is {found}")
