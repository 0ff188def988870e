"""Supervised HMM tagger: tag transitions and word emissions counted from tagged text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from forebear.data.unicode import SHAPES, word_shapes
from forebear.errors import ForebearError, InputError
from forebear.statistical.hmm import HMMDecodingState, HMMParameters
from forebear.statistical.linear import FitReport

# --- Tags of unknown words by spelling, learned from rare words ---


MAX_RARE_COUNT = 10  # words seen more often than this are unlike those that nobody has seen
MAX_AFFIX = {True: 8, False: 3}  # letters at the end that are looked at, and at the beginning
PRIOR_COUNT = 2.0  # so many words with a longer ending outweigh all that is known of the shorter one
MIN_AFFIX_WORDS = 2  # words that must share an ending before it says anything
PREFIX_WEIGHT = 1.0  # of what the beginning says, beside the ending


class SuffixTagModel:
    """P(tag given the spelling of a word), from suffixes smoothed by shorter ones (TnT, Brants 2000), and prefixes
    alike. The shortest context is the word's shape: capitals, digits, number of characters.

    words   training words
    counts  (words, K) how often each occurs with each tag
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray) -> None:
        frequencies = counts.sum(axis=1)
        rare_ids = np.flatnonzero((frequencies > 0) & (frequencies <= MAX_RARE_COUNT))
        if not len(rare_ids):
            rare_ids = np.flatnonzero(frequencies)
        tag_counts = np.minimum(counts[rare_ids], 1.0)  # each word once: what nobody has seen is met once too
        self.tags = counts.shape[1]
        self.usual = (tag_counts.sum(axis=0) + 0.5) / (tag_counts.sum() + 0.5 * self.tags)
        rare_words = [words[number] for number in rare_ids.tolist()]
        self._ends, self._begins = (
            _AffixTree(rare_words, tag_counts, self.usual, at_end=at_end) for at_end in (True, False)
        )

    def tag_probs(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) P(tag given the word)."""
        logs = np.log(self._ends.tag_probs(words)) + PREFIX_WEIGHT * np.log(self._begins.tag_probs(words))
        logs -= PREFIX_WEIGHT * np.log(self._begins.shape_probs(words))  # which both have in common
        shares = np.exp(logs - logs.max(axis=1, keepdims=True, initial=-np.inf))
        return shares / shares.sum(axis=1, keepdims=True)


class _AffixTree:
    """Tree of suffixes or prefixes: the parent of each is one letter shorter, and the roots are word shapes."""

    def __init__(self, words: Sequence[str], counts: np.ndarray, prior: np.ndarray, *, at_end: bool) -> None:
        self.at_end, self.longest = at_end, MAX_AFFIX[at_end]
        self._numbers: dict[tuple[int, str], int] = {}
        keys, shapes = [self._affixes(word) for word in words], _shapes(words)
        affix_counts: dict[tuple[int, str], int] = {}
        for shape, word_affixes in zip(shapes, keys, strict=True):
            for key in word_affixes:
                affix_counts[shape, key] = affix_counts.get((shape, key), 0) + 1
        frequent = sorted(
            (key for key, many in affix_counts.items() if many >= MIN_AFFIX_WORDS), key=lambda key: (len(key[1]), key)
        )
        self._numbers = {key: number for number, key in enumerate(frequent, start=SHAPE_COUNT)}
        probs = np.zeros((SHAPE_COUNT + len(frequent), counts.shape[1]))
        for line, shape, word_affixes in zip(counts, shapes, keys, strict=True):
            probs[shape] += line
            for key in word_affixes:
                if (number := self._numbers.get((shape, key))) is not None:
                    probs[number] += line
        parent_keys = [(shape, key[1:] if at_end else key[:-1]) for shape, key in frequent]
        parents = np.array([self._numbers.get(key, key[0]) for key in parent_keys], np.int64)
        sizes = np.array([len(key) for _, key in frequent], np.int64)
        probs[:SHAPE_COUNT] = _interpolate(probs[:SHAPE_COUNT], prior)
        for size in range(1, self.longest + 1):
            level = np.flatnonzero(sizes == size)
            probs[SHAPE_COUNT + level] = _interpolate(probs[SHAPE_COUNT + level], probs[parents[level]])
        self._shares = probs

    def tag_probs(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) of each word's longest known affix."""
        node_ids = []
        for shape, word in zip(_shapes(words), words, strict=True):
            number = shape
            for key in self._affixes(word):
                child = self._numbers.get((shape, key))
                if child is None:
                    break
                number = child
            node_ids.append(number)
        return self._shares[np.array(node_ids, np.int64)]

    def shape_probs(self, words: Sequence[str]) -> np.ndarray:
        return self._shares[np.array(_shapes(words), np.int64)]

    def _affixes(self, word: str) -> list[str]:
        most = min(self.longest, len(word))
        return [word[-size:] if self.at_end else word[:size] for size in range(1, most + 1)]


NUM_LENGTHS = 4  # of words: one character, two, three, and more
SHAPE_COUNT = len(SHAPES) * NUM_LENGTHS


def _shapes(words: Sequence[str]) -> list[int]:
    return [
        int(shape) * NUM_LENGTHS + min(len(word), NUM_LENGTHS) - 1 if word else 0
        for shape, word in zip(word_shapes(words)[:-1].tolist(), words, strict=True)
    ]


def _interpolate(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Relative frequencies with a prior of PRIOR_COUNT observations."""
    return (counts + PRIOR_COUNT * prior) / (counts.sum(axis=1, keepdims=True) + PRIOR_COUNT)


Arrays = Mapping[str, np.ndarray]
SPELLING_WEIGHT = 0.5  # how much a word's spelling counts beside where it was seen: as seeing it this often
MIN_PROB = 1e-300  # what is impossible counts as this rare, so that its logarithm is a number
MIN_TRANSITION = 1e-12  # of a move's probability, so that no chain that may be is impossible


class HMMTagger:
    """P(words and tags of a text): each tag depends on the previous one and emits a word.

    P(word given tag) follows by Bayes' rule from P(tag given word), which combines the counts of the word with its
    spelling; for unseen words it is the spelling alone.

    words    vocabulary by id
    end      id that begins and ends every text
    unknown  id of all words outside the vocabulary
    legal    which of K tags may follow each other (K, K), begin (K,) and end (K,)
    never    ids that are never predicted, including `end`
    spelled  maps ids beyond the vocabulary to words; None: there are none
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
        self._transition_counts = np.zeros((self.tags + 1, self.tags + 1), np.int64)
        self._probabilities: _TaggerProbabilities | None = None

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
        """Count all rows; the loss is the mean -log P of a word and its tag."""
        tokens, lengths = (np.asarray(inputs[name], np.int64) for name in ("tokens", "lengths"))
        gold = np.asarray(targets["tag"], np.int64)
        if len(gold) != len(tokens) or gold.max(initial=-1) >= self.tags:
            raise ForebearError(f"{len(gold)} tags of {self.tags} kinds for {len(tokens)} words")
        has_tag = gold >= 0
        if not has_tag.any():
            raise InputError("nothing is asked that counts", hint="give examples with tags")
        token_ids = np.where(tokens < self.vocab_size, tokens, self.unknown)
        np.add.at(self._word_counts, (token_ids[has_tag], gold[has_tag]), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)[has_tag]
        tags, border = gold[has_tag], self.tags
        is_start = np.diff(rows, prepend=-1) != 0
        previous = np.where(is_start, border, np.roll(tags, 1))
        np.add.at(self._transition_counts, (previous, tags), 1)
        self._transition_counts[:, border] += np.bincount(tags[np.roll(is_start, -1)], minlength=self.tags + 1)
        self._probabilities = None
        tables, moves = self.finalize().states.emissions, self.finalize().states.moves
        # what people tagged may break the rules of their own scheme
        loss = -np.log(np.maximum(moves[previous, tags], MIN_PROB)) - np.log(
            np.maximum(tables[token_ids[has_tag], tags], MIN_PROB)
        )
        return FitReport(1, float(loss.mean()), "found")

    def finalize(self) -> _TaggerProbabilities:
        if self._probabilities is None:
            if not self._word_counts.any():
                raise ForebearError("this model has counted nothing yet", hint="fit it, or load what was learned")
            self._probabilities = _TaggerProbabilities(self)
        return self._probabilities

    # -- what it says of tags

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """(T, K) log P(word given tag), up to a constant per word."""
        tokens = np.asarray(inputs["tokens"], np.int64)
        scores = self.finalize().log_emissions[np.where(tokens < self.vocab_size, tokens, self.unknown)]
        if self.spelled is not None and len(unknown_ids := np.unique(tokens[tokens >= self.vocab_size])):
            unknown_scores = self.finalize().unknown_log_emissions(self.spelled(unknown_ids))
            unknown_positions = np.flatnonzero(tokens >= self.vocab_size)
            scores[unknown_positions] = unknown_scores[np.searchsorted(unknown_ids, tokens[unknown_positions])]
        return {"tag": scores.astype(np.float32)}

    @property
    def moves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, K), (K,), (K,) log P of transitions, starts and ends."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.finalize().states.moves)
        return logs[:-1, :-1], logs[-1, :-1], logs[:-1, -1]

    # -- what it says of words

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.finalize().states.score([self._map_unknown(row) for row in rows])

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.finalize().states.next_log_probs([self._map_unknown(row) for row in rows])

    def start_decoding(self, rows: Sequence[np.ndarray], room: int) -> HMMDecodingState:
        return self.finalize().states.start_decoding([self._map_unknown(row) for row in rows], room)

    def _map_unknown(self, row: np.ndarray) -> np.ndarray:
        row = np.asarray(row, np.int64)
        return np.where(row < self.vocab_size, row, self.unknown)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts, from which everything follows."""
        words, tags = np.nonzero(self._word_counts)
        state = {
            "words": words,
            "tags": tags,
            "counts": self._word_counts[words, tags],
            "moves": self._transition_counts,
        }
        return {name: np.ascontiguousarray(array) for name, array in state.items()}

    def load(self, arrays: Arrays) -> None:
        names = {"words", "tags", "counts", "moves"}
        for problem, names_at_fault in (("lacks", names - set(arrays)), ("has, but should not,", set(arrays) - names)):
            if names_at_fault:
                raise ForebearError(
                    f"the state of a hidden Markov model of {self.tags} tags {problem} {sorted(names_at_fault)}"
                )
        words, tags, counts = (arrays[name] for name in ("words", "tags", "counts"))
        is_consistent = arrays["moves"].shape == self._transition_counts.shape and len(words) == len(tags) == len(
            counts
        )
        if not is_consistent or words.max(initial=0) >= self.vocab_size or tags.max(initial=0) >= self.tags:
            raise ForebearError(f"these counts are not of {self.vocab_size} words and {self.tags} tags")
        self._word_counts = np.zeros((self.vocab_size, self.tags), np.int64)
        self._word_counts[words, tags] = counts
        self._transition_counts, self._probabilities = arrays["moves"].astype(np.int64), None

    # -- what is to be known of it

    @property
    def num_parameters(self) -> int:
        """Number of nonzero counts."""
        return int(np.count_nonzero(self._word_counts) + np.count_nonzero(self._transition_counts))

    def describe(self) -> dict[str, Any]:
        """Metadata as JSON values."""
        metadata = {"tags": self.tags, "vocabulary": self.vocab_size, "parameters": self.num_parameters}
        return metadata | {"words": int(self._word_counts.sum())}


class _TaggerProbabilities:
    """The probabilities that follow from a tagger's counts."""

    def __init__(self, tagger: HMMTagger) -> None:
        counts = tagger._word_counts
        frequencies = counts.sum(axis=1)
        self._counted, self._often = counts, frequencies
        self._spelling = SuffixTagModel(tagger.words, counts)
        # P(word): as often as it was seen; what was not, as often as what was seen once tells (Good and Turing)
        total, once = int(frequencies.sum()), max(1, np.count_nonzero(frequencies == 1))
        word_probs = frequencies / (total + once)
        unseen = frequencies == 0
        unseen[tagger.never] = False
        unseen[tagger.unknown] = True  # whatever it was seen as, there are more words
        word_probs = word_probs + (once / (total + once)) * unseen / np.count_nonzero(unseen)
        tag_given_word = self._tag_given_word(tagger)
        tag_given_word[tagger.never] = 0.0
        joint = word_probs[:, None] * tag_given_word
        self._of_tags = joint.sum(axis=0)
        emissions = np.zeros((tagger.vocab_size, tagger.tags + 1))
        emissions[:, :-1] = joint / self._of_tags
        emissions[tagger.end, -1] = 1.0
        self.states = HMMParameters(_transition_probs(tagger), emissions, tagger.end)
        self._of_unknown = float(word_probs[tagger.unknown])

    def _tag_given_word(self, tagger: HMMTagger) -> np.ndarray:
        """(V, K) P(tag given word)."""
        spelling_probs = self._spelling.tag_probs(tagger.words)
        spelling_probs[tagger.unknown] = self._spelling.usual
        return (self._counted + SPELLING_WEIGHT * spelling_probs) / (self._often[:, None] + SPELLING_WEIGHT)

    @cached_property
    def log_emissions(self) -> np.ndarray:
        """(V, K) log P(word given tag)."""
        return np.log(np.maximum(self.states.emissions[:, :-1], MIN_PROB))

    def unknown_log_emissions(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) the same for words outside the vocabulary, each as probable as all of them together."""
        return np.log(np.maximum(self._of_unknown * self._spelling.tag_probs(words) / self._of_tags, MIN_PROB))


def _transition_probs(tagger: HMMTagger) -> np.ndarray:
    """(S, S) P of the next tag, interpolated with the unigram distribution (deleted interpolation)."""
    counts = tagger._transition_counts.astype(np.float64)
    allowed_transitions, allowed_starts, allowed_ends = tagger.legal
    allowed = np.ones(counts.shape, bool)
    allowed[:-1, :-1], allowed[-1, :-1], allowed[:-1, -1] = allowed_transitions, allowed_starts, allowed_ends
    tag_counts, total = counts.sum(axis=0), counts.sum()
    previous_counts = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        bigram_probs = np.where(previous_counts > 1, (counts - 1) / (previous_counts - 1), 0.0)
        unigram_probs = (tag_counts - 1) / max(1.0, total - 1)
    prefers_bigram = bigram_probs > unigram_probs
    unigram_weight = counts[~prefers_bigram].sum() / max(1.0, total)
    probs = (
        (1 - unigram_weight) * counts / np.maximum(previous_counts, 1.0)
        + unigram_weight * tag_counts / max(1.0, total)
        + MIN_TRANSITION
    )
    probs = np.where(previous_counts > 0, probs, tag_counts / max(1.0, total) + MIN_TRANSITION) * np.where(
        allowed, 1.0, 0.0
    )
    return probs / probs.sum(axis=1, keepdims=True)
