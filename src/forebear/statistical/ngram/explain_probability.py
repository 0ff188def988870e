"""Evidence for an n-gram probability: the counts of each context and what they contribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from forebear.statistical.ngram import smoothing
from forebear.statistical.ngram.counts import ABSENT, NgramCounts, NgramIndex
from forebear.statistical.ngram.language_model import NgramModel
from forebear.statistical.ngram.smoothing import SmoothedLevel, min_count_for


@dataclass(frozen=True)
class BackoffStep:
    """What one context says of a token; the longest speaks first, and the shorter share what it leaves.

    context    ids, and `words` as a person reads them
    seen       how often anything followed it, `followers` different tokens in all, and `times` this token did;
               None where there are no counts, but only probabilities from elsewhere
    counted    what is taken for `times`, `of` for `seen`: the same, but to Kneser and Ney, below the longest n-grams,
               in how many tokens differ before them
    discount   what is taken from `counted`, for tokens that never followed
    pruned     that part of `of` which was left out as too rare
    is_known   whether the model has the context: one that was never seen, or was pruned, says nothing
    is_listed  whether it has the context with this token behind it: what was pruned counts as never seen
    share      what the context itself gives to the token
    left       what it leaves to the shorter context, for this token
    weight     what longer contexts have left; so `part` = weight · share, and parts add up to the probability
    log, backoff  the natural logarithms that are listed, of smoothing "given"; None where the model lists none
    """

    context: tuple[int, ...]
    words: tuple[str, ...]
    seen: int | None
    followers: int | None
    times: int | None
    counted: int | None
    of: int | None
    discount: float
    pruned: int
    is_known: bool
    is_listed: bool
    share: float
    left: float
    weight: float
    log: float | None = None
    backoff: float | None = None

    @property
    def mass(self) -> float:
        return self.weight * self.share

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        fields: dict[str, Any] = {"context": list(self.words), "context_ids": list(self.context)}
        fields |= {"seen": self.seen, "followers": self.followers, "times": self.times, "counted": self.counted}
        fields |= {"of": self.of, "discount": self.discount, "pruned": self.pruned}
        fields |= {"is_known": self.is_known, "is_listed": self.is_listed}
        fields |= {"share": self.share, "left": self.left, "weight": self.weight, "part": self.mass}
        return fields | {"log10": _to_log10(self.log), "backoff_log10": _to_log10(self.backoff)}


def _to_log10(log: float | None) -> float | None:
    return None if log is None or math.isinf(log) else log / math.log(10)


@dataclass(frozen=True)
class NgramEvidence:
    """The steps from the longest context on, and the `remainder`, shared evenly by `num_shared` tokens."""

    smoothing: str
    add_k: float
    steps: tuple[BackoffStep, ...]
    remainder: float
    num_shared: int

    @property
    def uniform_share(self) -> float:
        """The token's share of the remainder."""
        return self.remainder / self.num_shared if self.remainder else 0.0

    @property
    def probability(self) -> float:
        return math.fsum((*(step.mass for step in self.steps), self.uniform_share))

    @property
    def ngram_length(self) -> int:
        """Length of the longest n-gram of the model that ends with this token."""
        return max((len(step.context) + 1 for step in self.steps if step.is_listed), default=1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        fields: dict[str, Any] = {"smoothing": self.smoothing, "ngram_length": self.ngram_length}
        fields |= {"steps": [step.to_dict() for step in self.steps]}
        fields |= {"rest": self.remainder, "among": self.num_shared, "even": self.uniform_share}
        return fields | {"probability": self.probability}


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
        evidence = [_collect_evidence(model, context_counts, token) for token in tokens]
    return [_add_words(item, name) for item in evidence]


def _add_words(evidence: NgramEvidence, name: Callable[[int], str]) -> NgramEvidence:
    steps = (replace(step, words=tuple(map(name, step.context))) for step in evidence.steps)
    return replace(evidence, steps=tuple(steps))


# -- what was counted


@dataclass(frozen=True)
class _ContextCounts:
    """What followed a context: the `words` rise, and each came `times`, which counts for `counted`; those that are too
    rare are not `kept`. A context that `is_known` to the model gives `own` to each of the kept and leaves `left`.
    """

    context: tuple[int, ...]
    words: np.ndarray
    times: np.ndarray
    counted: np.ndarray
    kept: np.ndarray
    is_known: bool
    own: np.ndarray
    left: float
    taken: np.ndarray

    @property
    def num_pruned(self) -> int:
        return int(self.counted[~self.kept].sum())

    def place(self, token: int) -> int:
        """Of a token among those that followed; ABSENT: it never did."""
        place = int(np.searchsorted(self.words, token))
        return place if place < len(self.words) and self.words[place] == token else ABSENT


def _context_counts(model: NgramModel, contexts: Sequence[list[int]]) -> list[_ContextCounts]:
    """The counts after each context, from the shortest on."""
    counts_by_context: list[_ContextCounts] = []
    discounts = [(0.0, *discount["taken"]) for discount in model.describe().get("discounts", ())]
    backoff_walk = _BackoffWalk(model)
    for n, context in enumerate(contexts, start=1):
        discount_values = np.array(discounts[n - 1] if discounts else (0.0, 0.0, 0.0, 0.0))
        context_counts = _count_context(model, context, discount_values)
        if context_counts.is_known:
            smoothed, probs = backoff_walk.level(n, context_counts), np.zeros(len(context_counts.words))
            probs[context_counts.kept] = smoothed.probs
            context_counts = replace(context_counts, own=probs, left=float(smoothed.backoff_mass[0]))
        counts_by_context.append(context_counts)
    return counts_by_context


def _count_context(model: NgramModel, context: list[int], discount_values: np.ndarray) -> _ContextCounts:
    counts, min_counts, n = model.counts, model.way.min_count_by_length, len(context) + 1
    words, times = _followers(counts, context)
    is_known = len(words) > 0 or n <= 2  # every token is there, also one that nothing ever followed
    if n > 2 and is_known:
        number = counts.ngrams.index_of(context)
        is_known = int(counts.counts[n - 2][number]) >= min_count_for(min_counts, n - 1)
    is_kept = times >= (min_count_for(min_counts, n) if n > 1 else 0)
    counted = times
    if model.way.smoothing == "kneser-ney" and n < model.order and (n == 1 or context[0] != model.end):
        counted = _num_predecessors(counts.ngrams, context)[words]
    return _ContextCounts(
        tuple(context), words, times, counted, is_kept, is_known, np.zeros(len(words)), 1.0, discount_values
    )


def _followers(counts: NgramCounts, context: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that follow a context, and their counts."""
    if not context:
        words = np.flatnonzero(counts.counts[0])
        return words, counts.counts[0][words]
    n, number = len(context), counts.ngrams.index_of(context)
    if number == ABSENT:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    continuations = counts.ngrams.continuation_range(n, number)
    return counts.ngrams.words[n - 1][continuations], counts.counts[n][continuations]


def _num_predecessors(ngrams: NgramIndex, context: Sequence[int]) -> np.ndarray:
    """(V,) number of distinct tokens before the context with each token after it."""
    if not context:
        return np.bincount(ngrams.words[0], minlength=ngrams.vocabulary)
    n = len(context)
    numbers = prefix_ids = np.flatnonzero(ngrams.words[n - 1] == context[-1])  # any token, then the context
    for length in range(n, 1, -1):
        prefix_ids = np.searchsorted(ngrams.continuation_starts(length), prefix_ids, side="right") - 1
        matches = ngrams.words[length - 2][prefix_ids] == context[length - 2]
        numbers, prefix_ids = numbers[matches], prefix_ids[matches]
    starts = ngrams.continuation_starts(n + 1)
    num_continuations = starts[numbers + 1] - starts[numbers]
    offsets = (
        np.repeat(starts[numbers] - np.concatenate(([0], np.cumsum(num_continuations)[:-1])), num_continuations)
        if len(num_continuations)
        else num_continuations
    )
    return np.bincount(ngrams.words[n][offsets + np.arange(len(offsets))], minlength=ngrams.vocabulary)


# -- what follows from it


class _BackoffWalk:
    """Applies `smoothing` to one context after the other, from the shortest on."""

    def __init__(self, model: NgramModel) -> None:
        self.model, self.way = model, model.way
        self._unnormalized, self._sums = np.zeros(model.vocab_size), np.ones(1)  # only of stupid back-off

    def level(self, n: int, row: _ContextCounts) -> SmoothedLevel:
        """Probabilities a context gives to its tokens, and its back-off mass."""
        times, pruned = row.counted[row.kept], np.array([float(row.num_pruned)])
        prefixes, no_mass = np.zeros(len(times), np.int64), np.zeros(len(times))
        if self.way.smoothing == "none":
            return smoothing.relative_frequencies(times, prefixes, 1)
        if self.way.smoothing == "add":
            size = int(np.count_nonzero(self.model.predictable))
            smoothed = smoothing.add_k_level(times, prefixes, 1, self.way.add_k, size)
            return SmoothedLevel(smoothed.probs - smoothed.backoff_mass[prefixes] / size, smoothed.backoff_mass)
        if self.way.smoothing == "witten-bell":
            return smoothing.witten_bell_level(times, prefixes, 1, pruned, no_mass)
        if self.way.smoothing == "stupid":
            return self._stupid_backoff_level(n, row, prefixes)
        num_followers = np.array([len(times)])
        return smoothing.interpolate(times, num_followers, np.arange(len(times)), row.taken, pruned, no_mass)

    def _stupid_backoff_level(self, n: int, row: _ContextCounts, prefixes: np.ndarray) -> SmoothedLevel:
        if n == 1:
            predictable = self.model.predictable
            self._unnormalized, self._sums = smoothing.unigram_probs(self.model.counts.counts[0], predictable)
            unseen = np.flatnonzero(predictable & (self.model.counts.counts[0] == 0))
            left = self._unnormalized[unseen[:1]].sum() * np.count_nonzero(predictable) / self._sums
            return SmoothedLevel(self._unnormalized[row.words] / self._sums[0], left)
        args = row.times, prefixes, 1, self._unnormalized[row.words], self._sums
        unnormalized, self._sums, smoothed = smoothing.pruned_backoff(*args)
        self._unnormalized[row.words] = unnormalized
        return smoothed


def _collect_evidence(model: NgramModel, contexts: Sequence[_ContextCounts], token: int) -> NgramEvidence:
    """From the longest context to the shortest, until no mass is left."""
    way, steps, weight = model.way, [], 1.0
    for row in reversed(contexts):
        step = _step(row, token, weight)
        if step.is_listed and way.smoothing == "stupid":
            step = replace(step, left=0.0)
        steps.append(step)
        weight *= step.left
        if not weight or (row.is_known and way.smoothing == "add"):
            break
    num_shared = int(np.count_nonzero(model.predictable))
    return NgramEvidence(
        way.smoothing, way.add_k, tuple(steps), weight if model.predictable[token] else 0.0, num_shared
    )


def _step(row: _ContextCounts, token: int, weight: float) -> BackoffStep:
    position = row.place(token)
    is_listed = row.is_known and position != ABSENT and bool(row.kept[position])
    counted = 0 if position == ABSENT else int(row.counted[position])
    return BackoffStep(
        row.context,
        (),
        seen=int(row.times.sum()),
        followers=len(row.words),
        times=0 if position == ABSENT else int(row.times[position]),
        counted=counted,
        of=int(row.counted.sum()),
        discount=float(row.taken[min(counted, 3)]) if is_listed else 0.0,
        pruned=row.num_pruned,
        is_known=row.is_known,
        is_listed=is_listed,
        share=float(row.own[position]) if is_listed else 0.0,
        left=row.left,
        weight=weight,
    )


# -- what was given


def _imported_evidence(model: NgramModel, contexts: Sequence[list[int]], token: int) -> NgramEvidence:
    """The log-probability of the longest listed n-gram, and the back-offs on the way to it."""
    table, steps, weight = model.probabilities(), [], 1.0
    known = [True]
    for context in contexts[1:]:  # behind what is not listed, nothing longer is looked for
        known.append(known[-1] and table.lookup(np.array(context)) is not None)
    for context, is_known in zip(reversed(contexts), reversed(known), strict=True):
        ngram_entry = table.lookup(np.array([*context, token])) if is_known else None
        context_entry = table.lookup(np.array(context)) if is_known and context else None
        log, backoff = (
            None if ngram_entry is None else ngram_entry[0],
            None if context_entry is None else context_entry[1],
        )
        left = 0.0 if log is not None else 1.0 if backoff is None else math.exp(backoff)
        share = 0.0 if log is None else math.exp(log)
        counts = dict.fromkeys(("seen", "followers", "times", "counted", "of"))
        fields: dict[str, Any] = {"is_known": is_known, "is_listed": log is not None, "weight": weight}
        fields |= {"share": share, "left": left, "log": log, "backoff": backoff if log is None else None}
        steps.append(BackoffStep(tuple(context), (), **counts, discount=0.0, pruned=0, **fields))
        weight *= left
        if not weight:
            break
    return NgramEvidence(
        model.way.smoothing, model.way.add_k, tuple(steps), 0.0, int(np.count_nonzero(model.predictable))
    )
