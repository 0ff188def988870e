"""A hidden Markov model whose states people wrote down: tags, counted with the words they stand at and one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.statistics.hidden_states import HiddenStates, Reading
from forebear.statistics.linear import Fitted
from forebear.statistics.spelled_tags import SpelledTags

Arrays = Mapping[str, np.ndarray]
DOUBT = 0.5  # how much a word's spelling counts beside where it was seen: as seeing it this often
NEVER = 1e-300  # what is impossible counts as this rare, so that its logarithm is a number
LEAST = 1e-12  # of a move's probability, so that no chain that may be is impossible


class HmmTagger:
    """P(words and tags of a text): a tag follows the last, and says a word.

    P(word given tag) is what Bayes' rule makes of P(tag given word), which comes from how often the word was seen with
    each tag and, the more the seldomer it was, from how it is written: of a word that was never seen, from that alone.

    words    of the vocabulary, by their ids
    end      the id that begins and ends every text
    unknown  the id of all words that are not in the vocabulary
    legal    which of K tags may follow which (K, K), begin (K,) and end (K,)
    never    ids that are never predicted, the end among them
    spelled  numbers beyond the vocabulary → the words they stand for; None: there are none
    """

    heads = ("tag", "next")
    pseudo = False

    def __init__(
        self,
        *,
        words: Sequence[str],
        end: int,
        unknown: int,
        legal: tuple[np.ndarray, np.ndarray, np.ndarray],
        never: frozenset[int] = frozenset(),
        spelled: Callable[[np.ndarray], list[str]] | None = None,
    ) -> None:
        self.words, self.end, self.unknown, self.legal, self.spelled = words, end, unknown, legal, spelled
        self.never = np.array(sorted({*never, end} - {unknown}), np.int64)
        self._word_counts = np.zeros((len(words), self.tags), np.int64)
        self._move_counts = np.zeros((self.tags + 1, self.tags + 1), np.int64)
        self._settled: _Settled | None = None

    @property
    def tags(self) -> int:
        return len(self.legal[0])

    @property
    def vocabulary(self) -> int:
        return len(self.words)

    @property
    def context(self) -> None:
        return

    # -- learning

    def fit(
        self,
        inputs: Arrays,
        targets: Arrays,
        *,
        weights: np.ndarray | None = None,
        seconds: float | None = None,
        progress: object = None,
    ) -> Fitted:
        """Counts all rows at once; -log P of a word and its tag, in the mean, is the loss."""
        tokens, lengths = (np.asarray(inputs[name], np.int64) for name in ("tokens", "lengths"))
        right = np.asarray(targets["tag"], np.int64)
        if len(right) != len(tokens) or right.max(initial=-1) >= self.tags:
            raise ForebearError(f"{len(right)} tags of {self.tags} kinds for {len(tokens)} words")
        asked = right >= 0
        if not asked.any():
            raise BadInput("nothing is asked that counts", remedy="give examples with tags")
        known = np.where(tokens < self.vocabulary, tokens, self.unknown)
        np.add.at(self._word_counts, (known[asked], right[asked]), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)[asked]
        mine, border = right[asked], self.tags
        begins = np.diff(rows, prepend=-1) != 0
        before = np.where(begins, border, np.roll(mine, 1))
        np.add.at(self._move_counts, (before, mine), 1)
        self._move_counts[:, border] += np.bincount(mine[np.roll(begins, -1)], minlength=self.tags + 1)
        self._settled = None
        tables, moves = self.settle().states.emissions, self.settle().states.moves
        # what people tagged may break the rules of their own scheme
        loss = -np.log(np.maximum(moves[before, mine], NEVER)) - np.log(np.maximum(tables[known[asked], mine], NEVER))
        return Fitted(1, float(loss.mean()), "found")

    def settle(self) -> _Settled:
        if self._settled is None:
            if not self._word_counts.any():
                raise ForebearError("this model has counted nothing yet", remedy="fit it, or load what was learned")
            self._settled = _Settled(self)
        return self._settled

    # -- what it says of tags

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """(T, K) log P(word given tag), up to a number of its own for each word."""
        tokens = np.asarray(inputs["tokens"], np.int64)
        found = self.settle().said[np.where(tokens < self.vocabulary, tokens, self.unknown)]
        if self.spelled is not None and len(beyond := np.unique(tokens[tokens >= self.vocabulary])):
            own = self.settle().of_spelling(self.spelled(beyond))
            there = np.flatnonzero(tokens >= self.vocabulary)
            found[there] = own[np.searchsorted(beyond, tokens[there])]
        return {"tag": found.astype(np.float32)}

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, K), (K,), (K,) log P of what follows what, begins and ends."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.settle().states.moves)
        return logs[:-1, :-1], logs[-1, :-1], logs[:-1, -1]

    # -- what it says of words

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.settle().states.score([self._known(row) for row in rows])

    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.settle().states.follow([self._known(row) for row in rows])

    def read(self, rows: Sequence[np.ndarray], room: int) -> Reading:
        return self.settle().states.read([self._known(row) for row in rows], room)

    def _known(self, row: np.ndarray) -> np.ndarray:
        row = np.asarray(row, np.int64)
        return np.where(row < self.vocabulary, row, self.unknown)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """Counts; all else follows from them."""
        words, tags = np.nonzero(self._word_counts)
        own = {"words": words, "tags": tags, "counts": self._word_counts[words, tags], "moves": self._move_counts}
        return {name: np.ascontiguousarray(array) for name, array in own.items()}

    def load(self, arrays: Arrays) -> None:
        names = {"words", "tags", "counts", "moves"}
        for what, odd in (("lacks", names - set(arrays)), ("has, but should not,", set(arrays) - names)):
            if odd:
                raise ForebearError(f"the state of a hidden Markov model of {self.tags} tags {what} {sorted(odd)}")
        words, tags, counts = (arrays[name] for name in ("words", "tags", "counts"))
        right = arrays["moves"].shape == self._move_counts.shape and len(words) == len(tags) == len(counts)
        if not right or words.max(initial=0) >= self.vocabulary or tags.max(initial=0) >= self.tags:
            raise ForebearError(f"these counts are not of {self.vocabulary} words and {self.tags} tags")
        self._word_counts = np.zeros((self.vocabulary, self.tags), np.int64)
        self._word_counts[words, tags] = counts
        self._move_counts, self._settled = arrays["moves"].astype(np.int64), None

    # -- what is to be known of it

    @property
    def parameter_count(self) -> int:
        """Counts that are not 0."""
        return int(np.count_nonzero(self._word_counts) + np.count_nonzero(self._move_counts))

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        told = {"tags": self.tags, "vocabulary": self.vocabulary, "parameters": self.parameter_count}
        return told | {"words": int(self._word_counts.sum())}


class _Settled:
    """The probabilities that follow from a tagger's counts."""

    def __init__(self, tagger: HmmTagger) -> None:
        counts = tagger._word_counts
        often = counts.sum(axis=1)
        self._counted, self._often = counts, often
        self._spelling = SpelledTags(tagger.words, counts)
        # P(word): as often as it was seen; what was not, as often as what was seen once tells (Good and Turing)
        total, once = int(often.sum()), max(1, np.count_nonzero(often == 1))
        of_words = often / (total + once)
        unseen = often == 0
        unseen[tagger.never] = False
        unseen[tagger.unknown] = True  # whatever it was seen as, there are more words
        of_words = of_words + (once / (total + once)) * unseen / np.count_nonzero(unseen)
        given_word = self._given_word(tagger)
        given_word[tagger.never] = 0.0
        both = of_words[:, None] * given_word
        self._of_tags = both.sum(axis=0)
        emissions = np.zeros((tagger.vocabulary, tagger.tags + 1))
        emissions[:, :-1] = both / self._of_tags
        emissions[tagger.end, -1] = 1.0
        self.states = HiddenStates(_moves(tagger), emissions, tagger.end)
        self._of_unknown = float(of_words[tagger.unknown])

    def _given_word(self, tagger: HmmTagger) -> np.ndarray:
        """(V, K) P(tag given word)."""
        spelled = self._spelling.of(tagger.words)
        spelled[tagger.unknown] = self._spelling.usual
        return (self._counted + DOUBT * spelled) / (self._often[:, None] + DOUBT)

    @cached_property
    def said(self) -> np.ndarray:
        """(V, K) log P(word given tag)."""
        return np.log(np.maximum(self.states.emissions[:, :-1], NEVER))

    def of_spelling(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) the same of words that are not in the vocabulary, each as probable as all of them together."""
        return np.log(np.maximum(self._of_unknown * self._spelling.of(words) / self._of_tags, NEVER))


def _moves(tagger: HmmTagger) -> np.ndarray:
    """(S, S) P of the next tag given the last: counts of both, leaning on how often there is which tag at all.

    How much they lean is what leaving out each in turn says would have served best (deleted interpolation).
    """
    counts = tagger._move_counts.astype(np.float64)
    between, begin, end = tagger.legal
    allowed = np.ones(counts.shape, bool)
    allowed[:-1, :-1], allowed[-1, :-1], allowed[:-1, -1] = between, begin, end
    single, total = counts.sum(axis=0), counts.sum()
    before = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_two = np.where(before > 1, (counts - 1) / (before - 1), 0.0)
        of_one = (single - 1) / max(1.0, total - 1)
    better = of_two > of_one
    lean = counts[~better].sum() / max(1.0, total)
    shares = (1 - lean) * counts / np.maximum(before, 1.0) + lean * single / max(1.0, total) + LEAST
    shares = np.where(before > 0, shares, single / max(1.0, total) + LEAST) * np.where(allowed, 1.0, 0.0)
    return shares / shares.sum(axis=1, keepdims=True)
