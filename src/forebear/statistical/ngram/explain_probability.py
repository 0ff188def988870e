"""Why an n-gram model finds a token as probable as it does: what was counted, context by context, and what it adds."""

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
        told: dict[str, Any] = {"context": list(self.words), "context_ids": list(self.context)}
        told |= {"seen": self.seen, "followers": self.followers, "times": self.times, "counted": self.counted}
        told |= {"of": self.of, "discount": self.discount, "pruned": self.pruned}
        told |= {"is_known": self.is_known, "is_listed": self.is_listed}
        told |= {"share": self.share, "left": self.left, "weight": self.weight, "part": self.mass}
        return told | {"log10": _common(self.log), "backoff_log10": _common(self.backoff)}


def _common(log: float | None) -> float | None:
    return None if log is None or math.isinf(log) else log / math.log(10)


@dataclass(frozen=True)
class NgramEvidence:
    """All that speaks for a token: steps, and the `rest` that no context claims, which `among` tokens share evenly."""

    smoothing: str
    add_k: float
    steps: tuple[BackoffStep, ...]
    remainder: float
    num_shared: int

    @property
    def uniform_share(self) -> float:
        """What it gets of the rest."""
        return self.remainder / self.num_shared if self.remainder else 0.0

    @property
    def probability(self) -> float:
        return math.fsum((*(step.mass for step in self.steps), self.uniform_share))

    @property
    def ngram_length(self) -> int:
        """Tokens of the longest n-gram that the model has and that ends with this one."""
        return max((len(step.context) + 1 for step in self.steps if step.is_listed), default=1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        told: dict[str, Any] = {"smoothing": self.smoothing, "ngram_length": self.ngram_length}
        told |= {"steps": [step.to_dict() for step in self.steps]}
        told |= {"rest": self.remainder, "among": self.num_shared, "even": self.uniform_share}
        return told | {"probability": self.probability}


def ngram_evidence(
    model: NgramModel, row: np.ndarray, tokens: Sequence[int], name: Callable[[int], str] = str
) -> list[NgramEvidence]:
    """Why each of these tokens is as probable as it is after this row; `name` tells how a token is read."""
    context = model.context_of(row)
    contexts = [context[len(context) - n :].tolist() for n in range(len(context) + 1)]  # from none to all of it
    if model.is_imported:
        told = [_given(model, contexts, token) for token in tokens]
    else:
        heard = _heard(model, contexts)
        told = [_claimed(model, heard, token) for token in tokens]
    return [_named(one, name) for one in told]


def _named(found: NgramEvidence, name: Callable[[int], str]) -> NgramEvidence:
    steps = (replace(step, words=tuple(map(name, step.context))) for step in found.steps)
    return replace(found, steps=tuple(steps))


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
    def lost(self) -> int:
        return int(self.counted[~self.kept].sum())

    def place(self, token: int) -> int:
        """Of a token among those that followed; ABSENT: it never did."""
        place = int(np.searchsorted(self.words, token))
        return place if place < len(self.words) and self.words[place] == token else ABSENT


def _heard(model: NgramModel, contexts: Sequence[list[int]]) -> list[_ContextCounts]:
    """What each context says of all that followed it, the shortest first."""
    told: list[_ContextCounts] = []
    discounts = [(0.0, *one["taken"]) for one in model.describe().get("discounts", ())]
    speaking = _BackoffWalk(model)
    for n, context in enumerate(contexts, start=1):
        taken = np.array(discounts[n - 1] if discounts else (0.0, 0.0, 0.0, 0.0))
        row = _followed(model, context, taken)
        if row.is_known:
            made, own = speaking.says(n, row), np.zeros(len(row.words))
            own[row.kept] = made.probs
            row = replace(row, own=own, left=float(made.backoff_mass[0]))
        told.append(row)
    return told


def _followed(model: NgramModel, context: list[int], taken: np.ndarray) -> _ContextCounts:
    counts, least, n = model.counts, model.way.min_count, len(context) + 1
    words, times = _after(counts, context)
    is_known = len(words) > 0 or n <= 2  # every token is there, also one that nothing ever followed
    if n > 2 and is_known:
        number = counts.ngrams.index_of(context)
        is_known = int(counts.counts[n - 2][number]) >= min_count_for(least, n - 1)
    kept = times >= (min_count_for(least, n) if n > 1 else 0)
    counted = times
    if model.way.smoothing == "kneser-ney" and n < model.order and (n == 1 or context[0] != model.end):
        counted = _before(counts.ngrams, context)[words]
    return _ContextCounts(tuple(context), words, times, counted, kept, is_known, np.zeros(len(words)), 1.0, taken)


def _after(counts: NgramCounts, context: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that followed a context, and how often each did."""
    if not context:
        words = np.flatnonzero(counts.counts[0])
        return words, counts.counts[0][words]
    n, number = len(context), counts.ngrams.index_of(context)
    if number == ABSENT:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    which = counts.ngrams.continuation_range(n, number)
    return counts.ngrams.words[n - 1][which], counts.counts[n][which]


def _before(ngrams: NgramIndex, context: Sequence[int]) -> np.ndarray:
    """(V,) how many different tokens stand before the context with each token behind it."""
    if not context:
        return np.bincount(ngrams.words[0], minlength=ngrams.vocabulary)
    n = len(context)
    numbers = found = np.flatnonzero(ngrams.words[n - 1] == context[-1])  # any token, then the context
    for length in range(n, 1, -1):
        found = np.searchsorted(ngrams.continuation_starts(length), found, side="right") - 1
        same = ngrams.words[length - 2][found] == context[length - 2]
        numbers, found = numbers[same], found[same]
    starts = ngrams.continuation_starts(n + 1)
    many = starts[numbers + 1] - starts[numbers]
    skipped = np.repeat(starts[numbers] - np.concatenate(([0], np.cumsum(many)[:-1])), many) if len(many) else many
    return np.bincount(ngrams.words[n][skipped + np.arange(len(skipped))], minlength=ngrams.vocabulary)


# -- what follows from it


class _BackoffWalk:
    """One context after another, the shortest first, through what `smoothing` does with all of them at once."""

    def __init__(self, model: NgramModel) -> None:
        self.model, self.way = model, model.way
        self._plain, self._sums = np.zeros(model.vocab_size), np.ones(1)  # only of stupid back-off

    def says(self, n: int, row: _ContextCounts) -> SmoothedLevel:
        """What a context itself gives to the tokens that it keeps, and leaves to the shorter one."""
        times, lost = row.counted[row.kept], np.array([float(row.lost)])
        prefixes, nothing = np.zeros(len(times), np.int64), np.zeros(len(times))
        if self.way.smoothing == "none":
            return smoothing.relative_frequencies(times, prefixes, 1)
        if self.way.smoothing == "add":
            size = int(np.count_nonzero(self.model.predictable))
            made = smoothing.add_k_level(times, prefixes, 1, self.way.add_k, size)
            return SmoothedLevel(made.probs - made.backoff_mass[prefixes] / size, made.backoff_mass)
        if self.way.smoothing == "witten-bell":
            return smoothing.witten_bell_level(times, prefixes, 1, lost, nothing)
        if self.way.smoothing == "stupid":
            return self._cut_back(n, row, prefixes)
        many = np.array([len(times)])
        return smoothing.interpolate(times, many, np.arange(len(times)), row.taken, lost, nothing)

    def _cut_back(self, n: int, row: _ContextCounts, prefixes: np.ndarray) -> SmoothedLevel:
        if n == 1:
            predictable = self.model.predictable
            self._plain, self._sums = smoothing.unigram_probs(self.model.counts.counts[0], predictable)
            never = np.flatnonzero(predictable & (self.model.counts.counts[0] == 0))
            left = self._plain[never[:1]].sum() * np.count_nonzero(predictable) / self._sums
            return SmoothedLevel(self._plain[row.words] / self._sums[0], left)
        given = row.times, prefixes, 1, self._plain[row.words], self._sums
        plain, self._sums, made = smoothing.pruned_backoff(*given)
        self._plain[row.words] = plain
        return made


def _claimed(model: NgramModel, heard: Sequence[_ContextCounts], token: int) -> NgramEvidence:
    """From the longest context to the shortest, until nothing is left."""
    way, steps, weight = model.way, [], 1.0
    for row in reversed(heard):
        step = _step(row, token, weight)
        if step.is_listed and way.smoothing == "stupid":
            step = replace(step, left=0.0)
        steps.append(step)
        weight *= step.left
        if not weight or (row.is_known and way.smoothing == "add"):
            break
    among = int(np.count_nonzero(model.predictable))
    return NgramEvidence(way.smoothing, way.add_k, tuple(steps), weight if model.predictable[token] else 0.0, among)


def _step(row: _ContextCounts, token: int, weight: float) -> BackoffStep:
    place = row.place(token)
    is_listed = row.is_known and place != ABSENT and bool(row.kept[place])
    counted = 0 if place == ABSENT else int(row.counted[place])
    return BackoffStep(
        row.context,
        (),
        seen=int(row.times.sum()),
        followers=len(row.words),
        times=0 if place == ABSENT else int(row.times[place]),
        counted=counted,
        of=int(row.counted.sum()),
        discount=float(row.taken[min(counted, 3)]) if is_listed else 0.0,
        pruned=row.lost,
        is_known=row.is_known,
        is_listed=is_listed,
        share=float(row.own[place]) if is_listed else 0.0,
        left=row.left,
        weight=weight,
    )


# -- what was given


def _given(model: NgramModel, contexts: Sequence[list[int]], token: int) -> NgramEvidence:
    """The logarithm of the longest n-gram that is listed, and the back-offs of the contexts on the way to it."""
    settled, steps, weight = model.probabilities(), [], 1.0
    known = [True]
    for context in contexts[1:]:  # behind what is not listed, nothing longer is looked for
        known.append(known[-1] and settled.lookup(np.array(context)) is not None)
    for context, is_known in zip(reversed(contexts), reversed(known), strict=True):
        whole = settled.lookup(np.array([*context, token])) if is_known else None
        mine = settled.lookup(np.array(context)) if is_known and context else None
        log, backoff = None if whole is None else whole[0], None if mine is None else mine[1]
        left = 0.0 if log is not None else 1.0 if backoff is None else math.exp(backoff)
        share = 0.0 if log is None else math.exp(log)
        counts = dict.fromkeys(("seen", "followers", "times", "counted", "of"))
        facts: dict[str, Any] = {"is_known": is_known, "is_listed": log is not None, "weight": weight}
        facts |= {"share": share, "left": left, "log": log, "backoff": backoff if log is None else None}
        steps.append(BackoffStep(tuple(context), (), **counts, discount=0.0, pruned=0, **facts))
        weight *= left
        if not weight:
            break
    return NgramEvidence(
        model.way.smoothing, model.way.add_k, tuple(steps), 0.0, int(np.count_nonzero(model.predictable))
    )
