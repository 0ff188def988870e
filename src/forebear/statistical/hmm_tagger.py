"""Supervised HMM tagger: tag transitions and word emissions counted from tagged text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain, takewhile
from typing import Any

import numpy as np

from forebear.data.unicode import SHAPES, word_shapes
from forebear.errors import ForebearError, InputError
from forebear.numerics import require_names, softmax
from forebear.statistical.hmm import HMMDecodingState, HMMParameters
from forebear.statistical.linear import FitReport

# --- Tags of unknown words by spelling, learned from rare words ---

MAX_RARE_COUNT = 10  # more frequent words are unlike unknown words
MAX_SUFFIX, MAX_PREFIX = 8, 3  # characters
PRIOR_COUNT = 2.0  # pseudo-count of the prior from the shorter affix
MIN_AFFIX_WORDS = 2  # words that must share an affix
PREFIX_WEIGHT = 1.0  # exponent of the prefix probability
NUM_LENGTHS = 4  # classes of word length: one character, two, three, and more
SHAPE_COUNT = len(SHAPES) * NUM_LENGTHS


class SuffixTagModel:
    """P(tag given the spelling of a word), from suffixes and prefixes smoothed by shorter ones (TnT, Brants 2000).

    The shortest context is the word's shape: capitals, digits, number of characters.

    words   training words
    counts  (words, K) how often each occurs with each tag
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray) -> None:
        frequencies = counts.sum(axis=1)
        rare_ids = np.flatnonzero((frequencies > 0) & (frequencies <= MAX_RARE_COUNT))
        if not len(rare_ids):
            rare_ids = np.flatnonzero(frequencies)
        tag_counts = np.minimum(counts[rare_ids], 1.0)  # each word counts once, as unknown words usually occur once
        self.num_tags = counts.shape[1]
        self.prior = (tag_counts.sum(axis=0) + 0.5) / (tag_counts.sum() + 0.5 * self.num_tags)
        rare_words = [words[word_id] for word_id in rare_ids.tolist()]
        self._suffixes = _AffixTree(rare_words, tag_counts, self.prior, is_suffix=True)
        self._prefixes = _AffixTree(rare_words, tag_counts, self.prior, is_suffix=False)

    def tag_probs(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) P(tag given the word)."""
        suffix_probs, _ = self._suffixes.tag_probs(words)
        prefix_probs, shape_probs = self._prefixes.tag_probs(words)
        # Both are conditioned on the shape, which must count once.
        logs = np.log(suffix_probs) + PREFIX_WEIGHT * np.log(prefix_probs) - PREFIX_WEIGHT * np.log(shape_probs)
        return softmax(logs)


class _AffixTree:
    """Tree of suffixes or prefixes: the parent of each is one letter shorter, and the roots are word shapes."""

    def __init__(self, words: Sequence[str], counts: np.ndarray, prior: np.ndarray, *, is_suffix: bool) -> None:
        self.is_suffix = is_suffix
        keys = [self._keys(shape, word) for shape, word in zip(_shapes(words), words, strict=True)]
        frequencies = Counter(chain.from_iterable(keys))
        frequent = [key for key, count in frequencies.items() if count >= MIN_AFFIX_WORDS and key[1]]
        frequent.sort(key=lambda key: (len(key[1]), key))
        self._node_ids = {(shape, ""): shape for shape in range(SHAPE_COUNT)}
        self._node_ids |= {key: node_id for node_id, key in enumerate(frequent, start=SHAPE_COUNT)}
        self._probs = np.zeros((len(self._node_ids), counts.shape[1]))
        for word_counts, word_keys in zip(counts, keys, strict=True):
            for key in word_keys:
                if (node_id := self._node_ids.get(key)) is not None:
                    self._probs[node_id] += word_counts
        parent_keys = [(shape, affix[1:] if is_suffix else affix[:-1]) for shape, affix in frequent]
        parents = np.array([self._node_ids.get(key, key[0]) for key in parent_keys], np.int64)
        sizes = np.array([len(affix) for _, affix in frequent], np.int64)
        self._interpolate(np.arange(SHAPE_COUNT), prior)
        for size in range(1, sizes.max(initial=0) + 1):
            level = np.flatnonzero(sizes == size)
            self._interpolate(SHAPE_COUNT + level, self._probs[parents[level]])

    def _interpolate(self, nodes: np.ndarray, prior: np.ndarray) -> None:
        """Replace the counts of these nodes by relative frequencies with a prior of PRIOR_COUNT observations."""
        counts = self._probs[nodes]
        self._probs[nodes] = (counts + PRIOR_COUNT * prior) / (counts.sum(axis=1, keepdims=True) + PRIOR_COUNT)

    def tag_probs(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """(n, K) of each word's longest known affix, and of its shape alone."""
        shapes = _shapes(words)
        node_ids = []
        for shape, word in zip(shapes, words, strict=True):
            path = map(self._node_ids.get, self._keys(shape, word))
            *_, node = takewhile(lambda node_id: node_id is not None, path)
            node_ids.append(node)
        return self._probs[np.array(node_ids, np.int64)], self._probs[np.array(shapes, np.int64)]

    def _keys(self, shape: int, word: str) -> list[tuple[int, str]]:
        """The nodes from the shape of a word to its longest affix."""
        sizes = range(min(MAX_SUFFIX if self.is_suffix else MAX_PREFIX, len(word)) + 1)
        return [(shape, word[len(word) - size :] if self.is_suffix else word[:size]) for size in sizes]


def _shapes(words: Sequence[str]) -> list[int]:
    return [
        int(shape) * NUM_LENGTHS + min(len(word), NUM_LENGTHS) - 1 if word else 0
        for shape, word in zip(word_shapes(words)[:-1].tolist(), words, strict=True)
    ]


# --- The tagger ---

Arrays = Mapping[str, np.ndarray]
SPELLING_WEIGHT = 0.5  # pseudo-count of the spelling
MIN_PROB = 1e-300  # floor of probabilities, so that logarithms are finite
MIN_TRANSITION = 1e-12  # floor of transition probabilities, so that every legal tag sequence is possible


class HMMTagger:
    """P(words and tags of a text): each tag depends on the previous one and emits a word.

    P(word given tag) follows by Bayes' rule from P(tag given word), which combines the counts of the word with its
    spelling; for unseen words it is the spelling alone.

    words         vocabulary by id
    eos_id        begins and ends every text
    unk_id        id of all words outside the vocabulary
    allowed       allowed tag transitions (K, K), first tags (K,) and last tags (K,)
    excluded_ids  ids that are never predicted
    oov_words     maps ids beyond the vocabulary to words; None: there are none
    """

    heads = ("tag", "next")
    is_pseudo_likelihood = False
    max_length = None

    def __init__(
        self,
        *,
        words: Sequence[str],
        eos_id: int,
        unk_id: int,
        allowed: tuple[np.ndarray, np.ndarray, np.ndarray],
        excluded_ids: frozenset[int] = frozenset(),
        oov_words: Callable[[np.ndarray], list[str]] | None = None,
    ) -> None:
        self.words, self.eos_id, self.unk_id = words, eos_id, unk_id
        self.allowed, self.oov_words = allowed, oov_words
        self.excluded_ids = np.array(sorted({*excluded_ids, eos_id} - {unk_id}), np.int64)
        self._word_counts = np.zeros((len(words), self.num_tags), np.int64)
        self._transition_counts = np.zeros((self.num_tags + 1, self.num_tags + 1), np.int64)
        self._probabilities: _TaggerProbabilities | None = None

    @property
    def num_tags(self) -> int:
        return len(self.allowed[0])

    @property
    def vocab_size(self) -> int:
        return len(self.words)

    # -- training

    def fit(
        self,
        inputs: Arrays,
        targets: Arrays,
        *,
        weights: np.ndarray | None = None,
        seconds: float | None = None,
        progress: object = None,
    ) -> FitReport:
        """Count all rows; the reported loss is the mean -log P of a word and its tag."""
        tokens, lengths = (np.asarray(inputs[name], np.int64) for name in ("tokens", "lengths"))
        gold = np.asarray(targets["tag"], np.int64)
        if len(gold) != len(tokens) or gold.max(initial=-1) >= self.num_tags:
            raise ForebearError(f"{len(gold)} tags of {self.num_tags} kinds for {len(tokens)} words")
        has_tag = gold >= 0
        if not has_tag.any():
            raise InputError("nothing is asked that counts", hint="give examples with tags")
        token_ids = np.where(tokens < self.vocab_size, tokens, self.unk_id)
        np.add.at(self._word_counts, (token_ids[has_tag], gold[has_tag]), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)[has_tag]
        tags, boundary = gold[has_tag], self.num_tags
        is_start = np.diff(rows, prepend=-1) != 0
        previous = np.where(is_start, boundary, np.roll(tags, 1))
        np.add.at(self._transition_counts, (previous, tags), 1)
        self._transition_counts[:, boundary] += np.bincount(tags[np.roll(is_start, -1)], minlength=self.num_tags + 1)
        self._probabilities = None
        states = self.probabilities().states
        # 0 where the tags violate their scheme
        probs = states.transitions[previous, tags], states.emissions[token_ids[has_tag], tags]
        loss = -sum(np.log(np.maximum(values, MIN_PROB)) for values in probs)
        return FitReport(1, float(np.mean(loss)), "found")

    def probabilities(self) -> _TaggerProbabilities:
        """The probabilities, estimated on first use and cached until the next fit."""
        if self._probabilities is None:
            if not self._word_counts.any():
                raise ForebearError("this model has counted nothing yet", hint="fit it, or load what was learned")
            self._probabilities = _TaggerProbabilities(self)
        return self._probabilities

    # -- tags

    def logits(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """(T, K) log P(word given tag), up to a constant per word."""
        tokens = np.asarray(inputs["tokens"], np.int64)
        scores = self.probabilities().log_emissions[np.where(tokens < self.vocab_size, tokens, self.unk_id)]
        if self.oov_words is not None and len(unknown_ids := np.unique(tokens[tokens >= self.vocab_size])):
            unknown_scores = self.probabilities().unknown_log_emissions(self.oov_words(unknown_ids))
            unknown_positions = np.flatnonzero(tokens >= self.vocab_size)
            scores[unknown_positions] = unknown_scores[np.searchsorted(unknown_ids, tokens[unknown_positions])]
        return {"tag": scores.astype(np.float32)}

    @property
    def transitions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K, K), (K,), (K,) log P of transitions, starts and ends."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities().states.transitions)
        return logs[:-1, :-1], logs[-1, :-1], logs[:-1, -1]

    # -- words

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        return self.probabilities().states.score([self._map_unknown(row) for row in rows])

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        return self.probabilities().states.next_log_probs([self._map_unknown(row) for row in rows])

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> HMMDecodingState:
        return self.probabilities().states.start_decoding([self._map_unknown(row) for row in rows], max_new_tokens)

    def _map_unknown(self, row: np.ndarray) -> np.ndarray:
        row = np.asarray(row, np.int64)
        return np.where(row < self.vocab_size, row, self.unk_id)

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        """The counts, which determine the probabilities."""
        words, tags = np.nonzero(self._word_counts)
        state = {"words": words, "tags": tags, "counts": self._word_counts[words, tags]}
        state["moves"] = self._transition_counts
        return {name: np.ascontiguousarray(array) for name, array in state.items()}

    def load(self, arrays: Arrays) -> None:
        require_names(f"a hidden Markov model of {self.num_tags} tags", arrays, ("words", "tags", "counts", "moves"))
        words, tags, counts, transition_counts = (arrays[name] for name in ("words", "tags", "counts", "moves"))
        has_shapes = transition_counts.shape == self._transition_counts.shape and len(words) == len(tags) == len(counts)
        if not has_shapes or words.max(initial=0) >= self.vocab_size or tags.max(initial=0) >= self.num_tags:
            raise ForebearError(f"these counts are not of {self.vocab_size} words and {self.num_tags} tags")
        self._word_counts = np.zeros((self.vocab_size, self.num_tags), np.int64)
        self._word_counts[words, tags] = counts
        self._transition_counts, self._probabilities = transition_counts.astype(np.int64), None

    # -- metadata

    @property
    def num_parameters(self) -> int:
        """Number of nonzero counts."""
        return int(np.count_nonzero(self._word_counts) + np.count_nonzero(self._transition_counts))

    def describe(self) -> dict[str, Any]:
        """Metadata as JSON values."""
        metadata = {"tags": self.num_tags, "vocabulary": self.vocab_size, "parameters": self.num_parameters}
        return metadata | {"words": int(self._word_counts.sum())}


class _TaggerProbabilities:
    """The probabilities estimated from a tagger's counts."""

    def __init__(self, tagger: HMMTagger) -> None:
        counts = tagger._word_counts
        frequencies = counts.sum(axis=1)
        self._suffix_model = SuffixTagModel(tagger.words, counts)
        # P(word): relative frequencies, and the Good–Turing mass of unseen words, distributed uniformly
        total, num_singletons = int(frequencies.sum()), max(1, np.count_nonzero(frequencies == 1))
        word_probs = frequencies / (total + num_singletons)
        is_unseen = frequencies == 0
        is_unseen[tagger.excluded_ids] = False
        is_unseen[tagger.unk_id] = True
        word_probs = word_probs + (num_singletons / (total + num_singletons)) * is_unseen / np.count_nonzero(is_unseen)
        spelling_probs = self._suffix_model.tag_probs(tagger.words)
        spelling_probs[tagger.unk_id] = self._suffix_model.prior
        tag_given_word = (counts + SPELLING_WEIGHT * spelling_probs) / (frequencies[:, None] + SPELLING_WEIGHT)
        tag_given_word[tagger.excluded_ids] = 0.0
        joint = word_probs[:, None] * tag_given_word
        self._tag_probs = joint.sum(axis=0)
        emissions = np.zeros((tagger.vocab_size, tagger.num_tags + 1))
        emissions[:, :-1] = joint / self._tag_probs
        emissions[tagger.eos_id, -1] = 1.0
        self.states = HMMParameters(_transition_probs(tagger), emissions, tagger.eos_id)
        self._unknown_prob = float(word_probs[tagger.unk_id])

    @cached_property
    def log_emissions(self) -> np.ndarray:
        """(V, K) log P(word given tag)."""
        return np.log(np.maximum(self.states.emissions[:, :-1], MIN_PROB))

    def unknown_log_emissions(self, words: Sequence[str]) -> np.ndarray:
        """(n, K) log P(word given tag) of OOV words; each gets the total probability of all of them."""
        return np.log(np.maximum(self._unknown_prob * self._suffix_model.tag_probs(words) / self._tag_probs, MIN_PROB))


def _transition_probs(tagger: HMMTagger) -> np.ndarray:
    """(S, S) P of the next tag, interpolated with the unigram distribution (deleted interpolation)."""
    counts = tagger._transition_counts.astype(np.float64)
    allowed_transitions, allowed_starts, allowed_ends = tagger.allowed
    allowed = np.ones(counts.shape, bool)
    allowed[:-1, :-1], allowed[-1, :-1], allowed[:-1, -1] = allowed_transitions, allowed_starts, allowed_ends
    tag_counts, total = counts.sum(axis=0), counts.sum()
    previous_counts = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        bigram_probs = np.where(previous_counts > 1, (counts - 1) / (previous_counts - 1), 0.0)
        unigram_probs = (tag_counts - 1) / max(1.0, total - 1)
    prefers_bigram = bigram_probs > unigram_probs
    unigram_weight = counts[~prefers_bigram].sum() / max(1.0, total)
    bigram_fractions, unigram_fractions = counts / np.maximum(previous_counts, 1.0), tag_counts / max(1.0, total)
    probs = (1 - unigram_weight) * bigram_fractions + unigram_weight * unigram_fractions
    probs = (np.where(previous_counts > 0, probs, unigram_fractions) + MIN_TRANSITION) * allowed
    return probs / probs.sum(axis=1, keepdims=True)
