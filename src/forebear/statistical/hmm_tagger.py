"""A hidden Markov model whose states people wrote down: tags, counted with the words they stand at and one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forebear.data.unicode import SHAPES, word_shapes
from forebear.errors import ForebearError, InputError
from forebear.statistical.hmm import HMMDecodingState, HMMParameters
from forebear.statistical.linear import FitReport

# What a word may be by how it is written: its last letters, its first ones and its shape, learned from rare words.


RARE = 10  # words seen more often than this are unlike those that nobody has seen
LONGEST = {True: 8, False: 3}  # letters at the end that are looked at, and at the beginning
BELIEF = 2.0  # so many words with a longer ending outweigh all that is known of the shorter one
FEW = 2  # words that must share an ending before it says anything
STRENGTH = 1.0  # of what the beginning says, beside the ending


class SuffixTagModel:
    """P(tag given how a word is written): of ever longer endings, each leaning on the shorter one (Brants's TnT, 2000);
    and of beginnings, in the same way. The first step is the word's shape: capitals, digits, how many characters.

    words   those it learns from
    counts  (words, K) how often each was seen with each tag
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray) -> None:
        often = counts.sum(axis=1)
        rare = np.flatnonzero((often > 0) & (often <= RARE))
        if not len(rare):
            rare = np.flatnonzero(often)
        told = np.minimum(counts[rare], 1.0)  # each word once: what nobody has seen is met once too
        self.tags = counts.shape[1]
        self.usual = (told.sum(axis=0) + 0.5) / (told.sum() + 0.5 * self.tags)
        learned = [words[number] for number in rare.tolist()]
        self._ends, self._begins = (_AffixTree(learned, told, self.usual, at_end=at_end) for at_end in (True, False))

    def tag_probs(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) P(tag given the word); each line sums to 1."""
        logs = np.log(self._ends.of(words)) + STRENGTH * np.log(self._begins.of(words))
        logs -= STRENGTH * np.log(self._begins.of_shapes(words))  # which both have in common
        shares = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
        return shares / shares.sum(axis=1, keepdims=True)


class _AffixTree:
    """Endings, or beginnings, as a tree: above each is the one that is a letter shorter, and at the top are shapes."""

    def __init__(self, words: Sequence[str], counts: np.ndarray, usual: np.ndarray, *, at_end: bool) -> None:
        self.at_end, self.longest = at_end, LONGEST[at_end]
        self._numbers: dict[tuple[int, str], int] = {}
        keys, shapes = [self._keys(word) for word in words], _shapes(words)
        often: dict[tuple[int, str], int] = {}
        for shape, mine in zip(shapes, keys, strict=True):
            for key in mine:
                often[shape, key] = often.get((shape, key), 0) + 1
        kept = sorted((key for key, many in often.items() if many >= FEW), key=lambda key: (len(key[1]), key))
        self._numbers = {key: number for number, key in enumerate(kept, start=SHAPE_COUNT)}
        shares = np.zeros((SHAPE_COUNT + len(kept), counts.shape[1]))
        for line, shape, mine in zip(counts, shapes, keys, strict=True):
            shares[shape] += line
            for key in mine:
                if (number := self._numbers.get((shape, key))) is not None:
                    shares[number] += line
        above = [(shape, key[1:] if at_end else key[:-1]) for shape, key in kept]
        parents = np.array([self._numbers.get(key, key[0]) for key in above], np.int64)
        sizes = np.array([len(key) for _, key in kept], np.int64)
        shares[:SHAPE_COUNT] = _leaning(shares[:SHAPE_COUNT], usual)
        for size in range(1, self.longest + 1):
            level = np.flatnonzero(sizes == size)
            shares[SHAPE_COUNT + level] = _leaning(shares[SHAPE_COUNT + level], shares[parents[level]])
        self._shares = shares

    def of(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) of each word's longest ending that is known."""
        found = []
        for shape, word in zip(_shapes(words), words, strict=True):
            number = shape
            for key in self._keys(word):
                deeper = self._numbers.get((shape, key))
                if deeper is None:
                    break
                number = deeper
            found.append(number)
        return self._shares[np.array(found, np.int64)]

    def of_shapes(self, words: Sequence[str]) -> np.ndarray:
        return self._shares[np.array(_shapes(words), np.int64)]

    def _keys(self, word: str) -> list[str]:
        most = min(self.longest, len(word))
        return [word[-size:] if self.at_end else word[:size] for size in range(1, most + 1)]


SIZES = 4  # of words: one character, two, three, and more
SHAPE_COUNT = len(SHAPES) * SIZES


def _shapes(words: Sequence[str]) -> list[int]:
    return [
        int(shape) * SIZES + min(len(word), SIZES) - 1 if word else 0
        for shape, word in zip(word_shapes(words)[:-1].tolist(), words, strict=True)
    ]


def _leaning(counts: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Shares of these counts, as if so many more had been seen in the shares above."""
    return (counts + BELIEF * above) / (counts.sum(axis=1, keepdims=True) + BELIEF)


Arrays = Mapping[str, np.ndarray]
DOUBT = 0.5  # how much a word's spelling counts beside where it was seen: as seeing it this often
NEVER = 1e-300  # what is impossible counts as this rare, so that its logarithm is a number
LEAST = 1e-12  # of a move's probability, so that no chain that may be is impossible


class HMMTagger:
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
    is_pseudo_likelihood = False

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
        self._settled: _TaggerProbabilities | None = None

    @property
    def tags(self) -> int:
        return len(self.legal[0])

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    @property
    def max_length(self) -> None:
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
    ) -> FitReport:
        """Counts all rows at once; -log P of a word and its tag, in the mean, is the loss."""
        tokens, lengths = (np.asarray(inputs[name], np.int64) for name in ("tokens", "lengths"))
        right = np.asarray(targets["tag"], np.int64)
        if len(right) != len(tokens) or right.max(initial=-1) >= self.tags:
            raise ForebearError(f"{len(right)} tags of {self.tags} kinds for {len(tokens)} words")
        asked = right >= 0
        if not asked.any():
            raise InputError("nothing is asked that counts", hint="give examples with tags")
        known = np.where(tokens < self.vocab_size, tokens, self.unknown)
        np.add.at(self._word_counts, (known[asked], right[asked]), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)[asked]
        mine, border = right[asked], self.tags
        begins = np.diff(rows, prepend=-1) != 0
        before = np.where(begins, border, np.roll(mine, 1))
        np.add.at(self._move_counts, (before, mine), 1)
        self._move_counts[:, border] += np.bincount(mine[np.roll(begins, -1)], minlength=self.tags + 1)
        self._settled = None
        tables, moves = self.finalize().states.emissions, self.finalize().states.moves
        # what people tagged may break the rules of their own scheme
        loss = -np.log(np.maximum(moves[before, mine], NEVER)) - np.log(np.maximum(tables[known[asked], mine], NEVER))
        return FitReport(1, float(loss.mean()), "found")

    def finalize(self) -> _TaggerProbabilities:
        if self._settled is None:
            if not self._word_counts.any():
                raise ForebearError("this model has counted nothing yet", hint="fit it, or load what was learned")
            self._settled = _TaggerProbabilities(self)
        return self._settled

    # -- what it says of tags

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """(T, K) log P(word given tag), up to a number of its own for each word."""
        tokens = np.asarray(inputs["tokens"], np.int64)
        found = self.finalize().said[np.where(tokens < self.vocab_size, tokens, self.unknown)]
        if self.spelled is not None and len(beyond := np.unique(tokens[tokens >= self.vocab_size])):
            own = self.finalize().of_spelling(self.spelled(beyond))
            there = np.flatnonzero(tokens >= self.vocab_size)
            found[there] = own[np.searchsorted(beyond, tokens[there])]
        return {"tag": found.astype(np.float32)}

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, K), (K,), (K,) log P of what follows what, begins and ends."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.finalize().states.moves)
        return logs[:-1, :-1], logs[-1, :-1], logs[:-1, -1]

    # -- what it says of words

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.finalize().states.score([self._known(row) for row in rows])

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.finalize().states.next_log_probs([self._known(row) for row in rows])

    def read(self, rows: Sequence[np.ndarray], room: int) -> HMMDecodingState:
        return self.finalize().states.start_decoding([self._known(row) for row in rows], room)

    def _known(self, row: np.ndarray) -> np.ndarray:
        row = np.asarray(row, np.int64)
        return np.where(row < self.vocab_size, row, self.unknown)

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
        if not right or words.max(initial=0) >= self.vocab_size or tags.max(initial=0) >= self.tags:
            raise ForebearError(f"these counts are not of {self.vocab_size} words and {self.tags} tags")
        self._word_counts = np.zeros((self.vocab_size, self.tags), np.int64)
        self._word_counts[words, tags] = counts
        self._move_counts, self._settled = arrays["moves"].astype(np.int64), None

    # -- what is to be known of it

    @property
    def num_parameters(self) -> int:
        """Counts that are not 0."""
        return int(np.count_nonzero(self._word_counts) + np.count_nonzero(self._move_counts))

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        told = {"tags": self.tags, "vocabulary": self.vocab_size, "parameters": self.num_parameters}
        return told | {"words": int(self._word_counts.sum())}


class _TaggerProbabilities:
    """The probabilities that follow from a tagger's counts."""

    def __init__(self, tagger: HMMTagger) -> None:
        counts = tagger._word_counts
        often = counts.sum(axis=1)
        self._counted, self._often = counts, often
        self._spelling = SuffixTagModel(tagger.words, counts)
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
        emissions = np.zeros((tagger.vocab_size, tagger.tags + 1))
        emissions[:, :-1] = both / self._of_tags
        emissions[tagger.end, -1] = 1.0
        self.states = HMMParameters(_moves(tagger), emissions, tagger.end)
        self._of_unknown = float(of_words[tagger.unknown])

    def _given_word(self, tagger: HMMTagger) -> np.ndarray:
        """(V, K) P(tag given word)."""
        spelled = self._spelling.tag_probs(tagger.words)
        spelled[tagger.unknown] = self._spelling.usual
        return (self._counted + DOUBT * spelled) / (self._often[:, None] + DOUBT)

    @cached_property
    def said(self) -> np.ndarray:
        """(V, K) log P(word given tag)."""
        return np.log(np.maximum(self.states.emissions[:, :-1], NEVER))

    def of_spelling(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) the same of words that are not in the vocabulary, each as probable as all of them together."""
        return np.log(np.maximum(self._of_unknown * self._spelling.tag_probs(words) / self._of_tags, NEVER))


def _moves(tagger: HMMTagger) -> np.ndarray:
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
