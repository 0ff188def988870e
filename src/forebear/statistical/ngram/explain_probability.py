"""Evidence for an n-gram probability: the counts of each context and what they contribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from forebear.statistical.ngram import smoothing
from forebear.statistical.ngram.counts import NgramCounts
from forebear.statistical.ngram.index import ABSENT, NgramIndex
from forebear.statistical.ngram.language_model import NgramModel
from forebear.statistical.ngram.smoothing import KneserNeyLevel, SmoothedLevel, min_count_for


@dataclass(frozen=True)
class BackoffStep:
    """What one context contributes to the probability of a token.

    context    ids; `words` are the same as text
    seen       occurrences of the context, with `followers` distinct next tokens; `times` the next token was this one.
               None for imported probabilities, which have no counts
    counted    what smoothing uses in place of `times`, and `of` in place of `seen`: with Kneser–Ney, below the highest
               order, the number of distinct preceding tokens
    discount   what is subtracted from `counted` in favor of unseen tokens
    pruned     the part of `of` that was pruned
    is_known   whether the model has the context: an unseen or pruned one contributes nothing
    is_listed  whether it has the n-gram of the context and this token
    share      probability from this context alone
    left       back-off mass for the shorter context, for this token
    weight     mass left by the longer contexts; `mass` = weight · share, and masses add up to the probability
    log, backoff  natural logarithms listed in an imported model
    """

    context: tuple[int, ...]
    words: tuple[str, ...]
    is_known: bool
    is_listed: bool
    share: float
    left: float
    weight: float
    seen: int | None = None
    followers: int | None = None
    times: int | None = None
    counted: int | None = None
    of: int | None = None
    discount: float = 0.0
    pruned: int = 0
    log: float | None = None
    backoff: float | None = None

    @property
    def mass(self) -> float:
        return self.weight * self.share

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        fields = asdict(self)
        del fields["words"], fields["log"], fields["backoff"]
        fields = {"context": list(self.words), "context_ids": list(fields.pop("context"))} | fields
        logs = {"log10": _to_log10(self.log), "backoff_log10": _to_log10(self.backoff)}
        return fields | {"part": self.mass} | logs


def _to_log10(log: float | None) -> float | None:
    return None if log is None or math.isinf(log) else log / math.log(10)


@dataclass(frozen=True)
class NgramEvidence:
    """The steps from the longest context on, and the `remainder`, shared evenly by `num_shared` tokens.

    ngram_length  of the longest n-gram of the model that ends with the token; the steps may end before it, where no
                  mass is left
    """

    smoothing: str
    add_k: float
    steps: tuple[BackoffStep, ...]
    remainder: float
    num_shared: int
    ngram_length: int = 1

    @property
    def uniform_share(self) -> float:
        """The token's share of the remainder."""
        return self.remainder / self.num_shared if self.remainder else 0.0

    @property
    def probability(self) -> float:
        return math.fsum((*(step.mass for step in self.steps), self.uniform_share))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "smoothing": self.smoothing,
            "ngram_length": self.ngram_length,
            "steps": [step.to_dict() for step in self.steps],
            "rest": self.remainder,
            "among": self.num_shared,
            "even": self.uniform_share,
            "probability": self.probability,
        }


def ngram_evidence(
    model: NgramModel, row: np.ndarray, tokens: Sequence[int], name: Callable[[int], str] = str
) -> list[NgramEvidence]:
    """The evidence for each of these tokens after a row; `name` maps ids to text."""
    context = model.context_of(row)
    contexts = [context[len(context) - n :].tolist() for n in range(len(context) + 1)]  # from none to all of it
    if model.is_imported:
        evidence = [_imported_evidence(model, contexts, token) for token in tokens]
    else:
        context_counts = _context_counts(model, contexts)
        evidence = [_counted_evidence(model, context_counts, token) for token in tokens]
    return [
        replace(item, steps=tuple(replace(step, words=tuple(map(name, step.context))) for step in item.steps))
        for item in evidence
    ]


# -- Counted models


@dataclass(frozen=True)
class _ContextCounts:
    """The tokens that followed a context, and the probabilities that smoothing gives to them.

    words            the tokens, ascending, with their `counts`; smoothing uses `adjusted_counts` in their place
    is_kept          whether each n-gram survives pruning
    is_known         whether the model has the context
    discounts        of the counts 0, 1, 2 and 3 or more
    probs            probability of each token from this context alone
    backoff_mass     left for the shorter context
    """

    context: tuple[int, ...]
    words: np.ndarray
    counts: np.ndarray
    adjusted_counts: np.ndarray
    is_kept: np.ndarray
    is_known: bool
    discounts: np.ndarray
    probs: np.ndarray
    backoff_mass: float = 1.0

    @property
    def num_pruned(self) -> int:
        return int(self.adjusted_counts[~self.is_kept].sum())

    def step(self, token: int) -> BackoffStep:
        """The contribution to the probability of a token, with weight 1."""
        position = int(np.searchsorted(self.words, token))
        is_observed = position < len(self.words) and bool(self.words[position] == token)
        is_listed = self.is_known and is_observed and bool(self.is_kept[position])
        adjusted_count = int(self.adjusted_counts[position]) if is_observed else 0
        return BackoffStep(
            self.context,
            (),
            seen=int(self.counts.sum()),
            followers=len(self.words),
            times=int(self.counts[position]) if is_observed else 0,
            counted=adjusted_count,
            of=int(self.adjusted_counts.sum()),
            discount=float(self.discounts[min(adjusted_count, 3)]) if is_listed else 0.0,
            pruned=self.num_pruned,
            is_known=self.is_known,
            is_listed=is_listed,
            share=float(self.probs[position]) if is_listed else 0.0,
            left=self.backoff_mass,
            weight=1.0,
        )


def _context_counts(model: NgramModel, contexts: Sequence[list[int]]) -> list[_ContextCounts]:
    """The counts after each context, from the shortest on."""
    counts, min_counts = model.counts, model.config.min_count_by_length
    discounts = [np.array([0.0, *discount["taken"]]) for discount in model.describe().get("discounts", ())]
    rows, backoff_walk = [], _BackoffWalk(model)
    for n, context in enumerate(contexts, start=1):
        words, continuation_counts = _followers(counts, context)
        is_known = len(words) > 0 or n <= 2  # the model has every single token, also one that nothing followed
        if n > 2 and is_known:
            ngram_id = counts.ngrams.index_of(context)
            is_known = int(counts.counts[n - 2][ngram_id]) >= min_count_for(min_counts, n - 1)
        is_kept = continuation_counts >= (min_count_for(min_counts, n) if n > 1 else 0)
        adjusted_counts = continuation_counts
        if model.config.smoothing == "kneser-ney" and n < model.order and (n == 1 or context[0] != model.eos_id):
            adjusted_counts = _num_predecessors(counts.ngrams, context)[words]
        level_discounts, probs = discounts[n - 1] if discounts else np.zeros(4), np.zeros(len(words))
        row = _ContextCounts(
            tuple(context), words, continuation_counts, adjusted_counts, is_kept, is_known, level_discounts, probs
        )
        if is_known:
            smoothed = backoff_walk.level(n, row)
            probs[is_kept] = smoothed.probs
            row = replace(row, backoff_mass=float(smoothed.backoff_mass[0]))
        rows.append(row)
    return rows


def _followers(counts: NgramCounts, context: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that follow a context, and their counts."""
    if not context:
        words = np.flatnonzero(counts.counts[0])
        return words, counts.counts[0][words]
    n, ngram_id = len(context), counts.ngrams.index_of(context)
    if ngram_id == ABSENT:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    continuations = counts.ngrams.continuation_range(n, ngram_id)
    return counts.ngrams.last_tokens[n - 1][continuations], counts.counts[n][continuations]


def _num_predecessors(ngrams: NgramIndex, context: Sequence[int]) -> np.ndarray:
    """(V,) number of distinct tokens before the context with each token after it."""
    if not context:
        return np.bincount(ngrams.last_tokens[0], minlength=ngrams.vocab_size)
    n = len(context)
    ngram_ids = prefix_ids = np.flatnonzero(ngrams.last_tokens[n - 1] == context[-1])  # any token, then the context
    for length in range(n, 1, -1):
        prefix_ids = np.searchsorted(ngrams.continuation_starts(length), prefix_ids, side="right") - 1
        is_match = ngrams.last_tokens[length - 2][prefix_ids] == context[length - 2]
        ngram_ids, prefix_ids = ngram_ids[is_match], prefix_ids[is_match]
    starts = ngrams.continuation_starts(n + 1)
    sizes = starts[ngram_ids + 1] - starts[ngram_ids]
    positions = np.repeat(starts[ngram_ids] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    return np.bincount(ngrams.last_tokens[n][positions], minlength=ngrams.vocab_size)


class _BackoffWalk:
    """Applies `smoothing` to one context after the other, from the shortest on."""

    def __init__(self, model: NgramModel) -> None:
        self.model, self.config = model, model.config
        self._unnormalized, self._sums = np.zeros(model.vocab_size), np.ones(1)  # only of stupid back-off

    def level(self, n: int, row: _ContextCounts) -> SmoothedLevel:
        """Probabilities a context gives to its tokens, and its back-off mass."""
        ngram_counts, pruned = row.adjusted_counts[row.is_kept], np.array([float(row.num_pruned)])
        prefixes, no_mass = np.zeros(len(ngram_counts), np.int64), np.zeros(len(ngram_counts))
        match self.config.smoothing:
            case "none":
                return smoothing.relative_frequencies(ngram_counts, prefixes, 1)
            case "add":
                size = int(np.count_nonzero(self.model.predictable))
                smoothed = smoothing.add_k_level(ngram_counts, prefixes, 1, self.config.add_k, size)
                return SmoothedLevel(smoothed.probs - smoothed.backoff_mass[prefixes] / size, smoothed.backoff_mass)
            case "witten-bell":
                return smoothing.witten_bell_level(ngram_counts, prefixes, 1, pruned, no_mass)
            case "stupid":
                return self._stupid_backoff_level(n, row, prefixes)
        children, suffix_ids = np.array([len(ngram_counts)]), np.arange(len(ngram_counts))
        return smoothing.interpolate(KneserNeyLevel(ngram_counts, children, suffix_ids, row.discounts, pruned, no_mass))

    def _stupid_backoff_level(self, n: int, row: _ContextCounts, prefixes: np.ndarray) -> SmoothedLevel:
        if n == 1:
            predictable = self.model.predictable
            self._unnormalized, self._sums = smoothing.stupid_backoff_unigrams(self.model.counts.counts[0], predictable)
            unseen = np.flatnonzero(predictable & (self.model.counts.counts[0] == 0))
            left = self._unnormalized[unseen[:1]].sum() * np.count_nonzero(predictable) / self._sums
            return SmoothedLevel(self._unnormalized[row.words] / self._sums[0], left)
        args = row.counts, prefixes, 1, self._unnormalized[row.words], self._sums
        unnormalized, self._sums, smoothed = smoothing.stupid_backoff_level(*args)
        self._unnormalized[row.words] = unnormalized
        return smoothed


def _counted_evidence(model: NgramModel, contexts: Sequence[_ContextCounts], token: int) -> NgramEvidence:
    """From the longest context to the shortest, until no mass is left."""
    smoothing_name = model.config.smoothing
    candidates, steps, weight = [row.step(token) for row in reversed(contexts)], [], 1.0
    for step in candidates:
        left = 0.0 if step.is_listed and smoothing_name == "stupid" else step.left
        steps.append(replace(step, weight=weight, left=left))
        weight *= left
        if not weight or (step.is_known and smoothing_name == "add"):
            break
    return _evidence(model, steps, weight if model.predictable[token] else 0.0, candidates)


def _evidence(
    model: NgramModel, steps: Sequence[BackoffStep], remainder: float, candidates: Sequence[BackoffStep]
) -> NgramEvidence:
    """`candidates` are the steps of all contexts, also those that no mass is left for."""
    ngram_length = max((len(step.context) + 1 for step in candidates if step.is_listed), default=1)
    num_shared = int(np.count_nonzero(model.predictable))
    return NgramEvidence(model.config.smoothing, model.config.add_k, tuple(steps), remainder, num_shared, ngram_length)


# -- Imported models


def _imported_evidence(model: NgramModel, contexts: Sequence[list[int]], token: int) -> NgramEvidence:
    """The log-probability of the longest listed n-gram, and the back-offs on the way to it."""
    table, steps, weight = model.probabilities(), [], 1.0
    known = [True]
    for context in contexts[1:]:  # a context is only in reach if every shorter one is listed
        known.append(known[-1] and table.lookup(np.array(context)) is not None)
    for context, is_known in zip(reversed(contexts), reversed(known), strict=True):
        entry = table.lookup(np.array([*context, token])) if is_known else None
        if entry is not None:
            log, backoff, share, left = entry[0], None, math.exp(entry[0]), 0.0
        else:
            context_entry = table.lookup(np.array(context)) if is_known and context else None
            log, backoff, share = None, None if context_entry is None else context_entry[1], 0.0
            left = 1.0 if backoff is None else math.exp(backoff)
        probs = share, left, weight
        steps.append(BackoffStep(tuple(context), (), is_known, entry is not None, *probs, log=log, backoff=backoff))
        weight *= left
        if entry is not None:
            break
    return _evidence(model, steps, 0.0, steps)
