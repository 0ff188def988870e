"""Smoothing: maximum likelihood, add-k, Witten–Bell, stupid back-off and Kneser–Ney; pruning and model settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forebear.data.io.arrays import release_pages
from forebear.errors import InputError
from forebear.kernels.jit import compile_kernel
from forebear.statistical.disk_backed_arrays import UNBOUNDED_POOL, ArrayPool
from forebear.statistical.ngram.counts import NgramCounts
from forebear.statistical.ngram.index import MIN_COMPILED_NGRAMS, NgramIndex

NGRAMS_PER_BLOCK = 1 << 16  # n-grams whose probabilities are computed at once
NGRAMS_PER_PAGE_RELEASE = 1 << 20  # n-grams after which pages of mapped files are released
BACKOFF_FACTOR = 0.4  # weight of the shorter context in Brants et al. (2007)


class SmoothedLevel(NamedTuple):
    """P(last token given the others) of the n-grams of one length, and the back-off mass of each context."""

    probs: np.ndarray  # (n-grams of n tokens,) float64
    backoff_mass: np.ndarray  # (n-grams of n - 1 tokens,) float64


class LogProbLevel(NamedTuple):
    """Natural logarithms of a `SmoothedLevel`, as they are used and stored."""

    log_probs: np.ndarray  # float32
    backoffs: np.ndarray  # float32

    @classmethod
    def from_level(cls, level: SmoothedLevel) -> LogProbLevel:
        return cls(to_log_probs(level.probs), to_log_probs(level.backoff_mass))


LogProbLevels = Iterator[LogProbLevel]


def to_log_probs(probs: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Natural logarithm as float32."""
    log_probs = np.empty(len(probs), np.float32) if out is None else out
    with np.errstate(divide="ignore"):
        return np.log(probs, out=log_probs, casting="same_kind")


def maximum_likelihood(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Relative frequencies; unseen contexts back off."""
    for n, level_counts in enumerate(counts.counts, start=1):
        smoothed = relative_frequencies(level_counts, counts.ngrams.prefixes(n), counts.ngrams.num_ngrams(n - 1))
        if n == 1 and not level_counts.any():  # an empty text
            smoothed = smoothed._replace(probs=uniform_probs(predictable))
        yield LogProbLevel.from_level(smoothed)


def relative_frequencies(ngram_counts: np.ndarray, prefixes: np.ndarray, num_contexts: int) -> SmoothedLevel:
    total = _sum_by_context(prefixes, ngram_counts, num_contexts)
    return SmoothedLevel(ngram_counts / np.maximum(total, 1)[prefixes], np.where(total > 0, 0.0, 1.0))


def add_k(counts: NgramCounts, predictable: np.ndarray, k: float) -> LogProbLevels:
    """Add-k smoothing (k = 1: Laplace): add k to the count of every token after every context.

    The back-off mass is distributed uniformly over all tokens instead of by the shorter context.
    """
    num_tokens = int(np.count_nonzero(predictable))
    for n, level_counts in enumerate(counts.counts, start=1):
        smoothed = add_k_level(level_counts, counts.ngrams.prefixes(n), counts.ngrams.num_ngrams(n - 1), k, num_tokens)
        if n == 1:
            smoothed = smoothed._replace(probs=np.where(predictable, smoothed.probs, 0.0))
        yield LogProbLevel.from_level(smoothed)


def add_k_level(
    ngram_counts: np.ndarray, prefixes: np.ndarray, num_contexts: int, k: float, num_tokens: int
) -> SmoothedLevel:
    total = _sum_by_context(prefixes, ngram_counts, num_contexts) + k * num_tokens
    return SmoothedLevel((ngram_counts + k) / total[prefixes], k * num_tokens / total)


def witten_bell(counts: NgramCounts, predictable: np.ndarray, min_counts: Sequence[int] = ()) -> LogProbLevels:
    """Interpolated Witten–Bell: a context's back-off mass is proportional to its number of distinct continuations."""
    suffixes = counts.take_suffixes() or counts.ngrams.suffixes()
    ngrams, counts_by_length, suffixes, pruned = _prune_levels(counts, list(counts.counts), suffixes, min_counts)
    probs = uniform_probs(predictable)
    for n, level_counts in enumerate(counts_by_length, start=1):
        lower = probs if n == 1 else probs[suffixes[n - 1]]
        smoothed = witten_bell_level(level_counts, ngrams.prefixes(n), ngrams.num_ngrams(n - 1), pruned[n - 1], lower)
        probs = smoothed.probs
        yield LogProbLevel.from_level(smoothed)


def witten_bell_level(
    ngram_counts: np.ndarray, prefixes: np.ndarray, num_contexts: int, pruned: np.ndarray, lower: np.ndarray
) -> SmoothedLevel:
    num_types, pruned_mass = _sum_by_context(prefixes, ngram_counts > 0, num_contexts), pruned if len(pruned) else 0.0
    total = _sum_by_context(prefixes, ngram_counts, num_contexts) + pruned_mass + num_types
    backoff_mass = np.divide(num_types + pruned_mass, total, out=np.ones(num_contexts), where=total > 0)
    return SmoothedLevel(ngram_counts / np.maximum(total, 1)[prefixes] + backoff_mass[prefixes] * lower, backoff_mass)


def stupid_backoff(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Stupid back-off (Brants et al. 2007), normalized for each context, which preserves the ranking of tokens."""
    ngrams, suffixes = counts.ngrams, counts.take_suffixes() or counts.ngrams.suffixes()
    unnormalized, sums = stupid_backoff_unigrams(counts.counts[0], predictable)
    yield LogProbLevel.from_level(SmoothedLevel(unnormalized / sums[0], np.ones(1)))
    for n, level_counts in enumerate(counts.counts[1:], start=2):
        lower, suffix_sums = unnormalized[suffixes[n - 1]], sums[suffixes[n - 2]]
        unnormalized, sums, smoothed = stupid_backoff_level(
            level_counts, ngrams.prefixes(n), ngrams.num_ngrams(n - 1), lower, suffix_sums
        )
        yield LogProbLevel.from_level(smoothed)


def stupid_backoff_unigrams(counts: np.ndarray, predictable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unnormalized unigram scores of stupid back-off, and their sum."""
    unnormalized = np.where(counts > 0, counts / max(1, int(counts.sum())), BACKOFF_FACTOR * uniform_probs(predictable))
    return unnormalized, np.array([unnormalized.sum()])


def stupid_backoff_level(
    ngram_counts: np.ndarray, prefixes: np.ndarray, num_contexts: int, lower: np.ndarray, suffix_sums: np.ndarray
) -> tuple[np.ndarray, np.ndarray, SmoothedLevel]:
    """Unnormalized scores of longer n-grams, their sum after each context, and the normalized level.

    lower        scores of the suffixes of the n-grams
    suffix_sums  sums after the suffixes of the contexts
    """
    total = _sum_by_context(prefixes, ngram_counts, num_contexts)
    unnormalized = ngram_counts / np.maximum(total, 1)[prefixes]
    sums = 1 + BACKOFF_FACTOR * (suffix_sums - _sum_by_context(prefixes, lower, num_contexts))
    backoff_mass = np.where(total > 0, BACKOFF_FACTOR * suffix_sums / sums, 1.0)
    return unnormalized, sums, SmoothedLevel(unnormalized / sums[prefixes], backoff_mass)


# -- Kneser–Ney


@dataclass(frozen=True)
class Discounts:
    """The discounts of n-grams seen once, twice, and three or more times.

    way    "modified": three discounts from counts of counts (Chen & Goodman 1998); "absolute": one discount, if three
           cannot be estimated (Kneser & Ney 1995); "half": 0.5, if no n-gram was seen once or none twice
    taken  the discounts
    seen   number of n-grams seen 1, 2, 3 and 4 times
    """

    way: str
    taken: tuple[float, float, float]
    seen: tuple[int, int, int, int]

    @classmethod
    def estimate(cls, counts: np.ndarray) -> Discounts:
        if len(counts) > MIN_COMPILED_NGRAMS:
            from forebear.kernels.kneser_ney import count_of_counts_kernel

            histogram = compile_kernel(count_of_counts_kernel)(counts, np.zeros(6, np.int64)).tolist()
        else:
            histogram = np.bincount(np.minimum(counts, 5), minlength=5).tolist()
        n1, n2, n3, n4 = counts_of_counts = histogram[1], histogram[2], histogram[3], histogram[4]
        if not (n1 and n2):
            return cls("half", (0.5, 0.5, 0.5), counts_of_counts)
        discount = n1 / (n1 + 2 * n2)
        if n3:
            discounts = (discount, 2 - 3 * discount * n3 / n2, 3 - 4 * discount * n4 / n3)
            # A discount of 0 leaves no mass for unseen tokens; a negative one would create mass.
            if all(value > 0 for value in discounts):
                return cls("modified", discounts, counts_of_counts)
        return cls("absolute", (discount, discount, discount), counts_of_counts)


class KneserNeyLevel(NamedTuple):
    """Inputs to the probabilities of one length."""

    adjusted_counts: np.ndarray
    num_children: np.ndarray  # number of n-grams of each context, which are contiguous
    suffix_ids: np.ndarray  # of each n-gram
    discounts: np.ndarray  # (4,) of the counts 0, 1, 2 and 3 or more
    pruned: np.ndarray  # pruned counts of each context; or empty
    lower: np.ndarray  # probabilities of the (n-1)-grams


def kneser_ney(
    counts: NgramCounts,
    predictable: np.ndarray,
    eos_id: int,
    discounts: list[Discounts],
    min_counts: Sequence[int] = (),
    pool: ArrayPool = UNBOUNDED_POOL,
) -> LogProbLevels:
    """Interpolated modified Kneser–Ney, as in KenLM; fills the list of discounts.

    P(w|context) = (a(context w) - D) / Σ a(context ·) + backoff(context) · P(w|shorter context), down to the uniform
    distribution over all predictable tokens. a is the adjusted count. Pruned counts go to the back-off mass.
    """
    suffixes = counts.take_suffixes() or counts.ngrams.suffixes(pool)
    adjusted_counts = _adjusted_counts(counts, suffixes, eos_id, pool)
    discounts[:] = map(Discounts.estimate, adjusted_counts)
    ngrams, adjusted_counts, suffixes, pruned = _prune_levels(counts, adjusted_counts, suffixes, min_counts)
    # Probabilities of shorter n-grams are kept as float32: the rounding is far below the error of any estimate.
    probs, empty = uniform_probs(predictable).astype(np.float32), np.zeros(0, np.int32)
    for n, level_counts in enumerate(adjusted_counts, start=1):
        level_discounts = np.array([0.0, *discounts[n - 1].taken])
        num_children = np.array([ngrams.vocab_size], np.int32) if n == 1 else ngrams.num_continuations[n - 2]
        suffix_ids = np.arange(ngrams.vocab_size, dtype=np.int32) if n == 1 else suffixes[n - 1]
        level = KneserNeyLevel(level_counts, num_children, suffix_ids, level_discounts, pruned[n - 1], probs)
        # The suffixes of bigrams are the words of the index itself, which must not be overwritten.
        is_owned = len(level_counts) > MIN_COMPILED_NGRAMS and n > 2 and suffix_ids.dtype == np.int32
        if len(level_counts) > MIN_COMPILED_NGRAMS:
            log_probs, next_probs = _interpolate_compiled(level, pool, keep_probs=n < ngrams.order, is_owned=is_owned)
        else:
            smoothed = interpolate(level)
            log_probs, next_probs = LogProbLevel.from_level(smoothed), smoothed.probs.astype(np.float32)
        pool.release(probs, level_counts, *([] if is_owned else [suffix_ids]))
        adjusted_counts[n - 1] = suffixes[n - 1] = level_counts = suffix_ids = empty  # frees memory for the next level
        del level
        probs = next_probs
        yield log_probs


def interpolate(level: KneserNeyLevel) -> SmoothedLevel:
    """Interpolated probabilities and back-off mass: numpy reference of `interpolate_kernel`."""
    counts, num_children, suffix_ids, discounts, pruned, lower = level
    prefixes, discounted = np.repeat(np.arange(len(num_children)), num_children), discounts[np.minimum(counts, 3)]
    pruned_mass = pruned if len(pruned) else 0.0
    total, backoff_mass = (
        _sum_by_context(prefixes, values, len(num_children)) + pruned_mass for values in (counts, discounted)
    )
    backoff_mass = np.divide(backoff_mass, total, out=np.ones(len(num_children)), where=total > 0)
    discounted_probs = (counts - discounted) / np.where(total > 0, total, 1.0)[prefixes]
    return SmoothedLevel(discounted_probs + backoff_mass[prefixes] * lower[suffix_ids], backoff_mass)


def _interpolate_compiled(
    level: KneserNeyLevel, pool: ArrayPool, *, keep_probs: bool, is_owned: bool
) -> tuple[LogProbLevel, np.ndarray]:
    """Compiled `interpolate`, block by block; keeps logarithms, and probabilities if `keep_probs`."""
    from forebear.kernels.kneser_ney import interpolate_kernel

    counts, num_children, suffix_ids, _, _, lower = level
    block_size = max(NGRAMS_PER_BLOCK, int(num_children.max(initial=0)))
    block_probs, block_mass = np.empty(block_size), np.empty(NGRAMS_PER_BLOCK)
    probs = pool.empty(len(counts) if keep_probs else 0, np.float32)
    # Each suffix id is read once, before the logarithm of its n-gram overwrites it.
    logs = suffix_ids.view(np.float32) if is_owned else pool.empty(len(counts), np.float32)
    log_probs = LogProbLevel(logs, pool.empty(len(num_children), np.float32))
    context = first_ngram = 0
    while context < len(num_children):
        next_context, end = compile_kernel(interpolate_kernel)(*level, context, first_ngram, block_probs, block_mass)
        if keep_probs:
            probs[first_ngram:end] = block_probs[: end - first_ngram]
        to_log_probs(block_probs[: end - first_ngram], log_probs.log_probs[first_ngram:end])
        to_log_probs(block_mass[: next_context - context], log_probs.backoffs[context:next_context])
        if any(
            new // NGRAMS_PER_PAGE_RELEASE > old // NGRAMS_PER_PAGE_RELEASE
            for new, old in ((next_context, context), (end, first_ngram))
        ):
            release_pages(counts, num_children, suffix_ids, lower, probs, *log_probs)
        context, first_ngram = next_context, end
    return log_probs, probs


def _adjusted_counts(
    counts: NgramCounts, suffixes: Sequence[np.ndarray], eos_id: int, pool: ArrayPool
) -> list[np.ndarray]:
    """Below the highest order, the number of distinct tokens before an n-gram; its count if it begins with EOS."""
    ngrams, adjusted_levels = counts.ngrams, []
    begin, num_ngrams = eos_id, 1  # n-grams that begin with EOS are contiguous, and occur only at the start of a text
    for n in range(1, ngrams.order):
        if len(suffixes[n]) <= MIN_COMPILED_NGRAMS:
            type_counts = np.bincount(suffixes[n], minlength=ngrams.num_ngrams(n)).astype(np.int64)
        else:
            from forebear.kernels.kneser_ney import count_suffix_types_kernel

            type_counts = pool.zeros(ngrams.num_ngrams(n), np.int32)
            compile_kernel(count_suffix_types_kernel)(suffixes[n], type_counts)
            release_pages(suffixes[n], type_counts)
        if n > 1:
            children = ngrams.num_continuations[n - 2]
            begin, num_ngrams = int(children[:begin].sum()), int(children[begin : begin + num_ngrams].sum())
            type_counts[begin : begin + num_ngrams] = counts.counts[n - 1][begin : begin + num_ngrams]
        adjusted_levels.append(type_counts)
    return [*adjusted_levels, counts.counts[-1]]


# -- Pruning and sums


def _prune_levels(
    counts: NgramCounts, counts_by_length: list[np.ndarray], suffixes: list[np.ndarray], min_counts: Sequence[int]
) -> tuple[NgramIndex, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """N-grams with sufficient counts, their `counts_by_length` and suffixes, and the pruned mass of each context."""
    ngrams = counts.ngrams
    if not any(min_counts):
        return ngrams, counts_by_length, suffixes, [np.zeros(0)] * ngrams.order
    words = []
    num_continuations = []
    kept_counts = [counts_by_length[0]]
    kept_suffixes = [suffixes[0]]
    pruned_masses = [np.zeros(0)]
    is_kept_context, new_ids = np.ones(ngrams.vocab_size, bool), np.arange(ngrams.vocab_size)
    for n in range(2, ngrams.order + 1):
        is_kept = counts.counts[n - 1] >= min_count_for(min_counts, n)
        prefixes = ngrams.prefixes(n)
        num_children = np.bincount(prefixes[is_kept], minlength=ngrams.num_ngrams(n - 1))
        pruned_mass = _sum_by_context(prefixes[~is_kept], counts_by_length[n - 1][~is_kept], ngrams.num_ngrams(n - 1))
        words.append(ngrams.last_tokens[n - 2][is_kept])
        num_continuations.append(num_children[is_kept_context].astype(np.int32))
        kept_counts.append(counts_by_length[n - 1][is_kept])
        kept_suffixes.append(new_ids[suffixes[n - 1][is_kept]])
        pruned_masses.append(pruned_mass[is_kept_context])
        is_kept_context, new_ids = is_kept, np.cumsum(is_kept) - 1
    kept_ngrams = NgramIndex(ngrams.vocab_size, tuple(words), tuple(num_continuations))
    return kept_ngrams, kept_counts, kept_suffixes, pruned_masses


def prune_ngrams(counts: NgramCounts, min_counts: Sequence[int]) -> NgramIndex:
    """The n-grams that remain after pruning."""
    if not any(min_counts):
        return counts.ngrams
    return _prune_levels(counts, list(counts.counts), counts.ngrams.suffixes(), min_counts)[0]


def min_count_for(min_counts: Sequence[int], n: int) -> int:
    """Minimum count of n-grams of n tokens; the last entry applies to all longer ones."""
    return min_counts[min(n, len(min_counts)) - 1] if min_counts else 0


def _sum_by_context(prefixes: np.ndarray, values: np.ndarray, num_contexts: int) -> np.ndarray:
    return np.bincount(prefixes, weights=values, minlength=num_contexts)


def uniform_probs(predictable: np.ndarray) -> np.ndarray:
    """Uniform distribution over the predictable tokens."""
    return predictable / np.count_nonzero(predictable)


# --- Settings ---

SMOOTHINGS = ("none", "add", "witten-bell", "stupid", "kneser-ney", "given")
PRUNING = ("witten-bell", "kneser-ney")  # smoothings that give pruned mass to the back-off
MAX_ORDER = 10


@dataclass(frozen=True)
class NgramConfig:
    """How counts of n-grams up to an order become probabilities.

    smoothing   "none": relative frequencies, with back-off from unseen contexts; "add": add-k; "witten-bell"; "stupid":
                stupid back-off; "kneser-ney": interpolated, modified; "given": imported probabilities
    min_counts  pruning thresholds: n-grams of each length with counts up to this are dropped, such as "0 0 1"
    """

    order: int
    smoothing: str = "kneser-ney"
    add_k: float = 1.0
    min_counts: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            hint = f"choose an order from 1 to {MAX_ORDER}, such as 3"
            raise InputError(f"an n-gram model of order {self.order}", hint=hint)
        if self.smoothing not in SMOOTHINGS:
            raise InputError(f"no smoothing is named {self.smoothing!r}", hint=f"there are: {', '.join(SMOOTHINGS)}")
        if self.smoothing == "add" and not 0 < self.add_k < float("inf"):
            hint = 'add something above 0 to each count, or choose smoothing "none"'
            raise InputError(f"k is {self.add_k}", hint=hint)
        if self.min_count_by_length and self.smoothing not in PRUNING:
            message = f"smoothing {self.smoothing!r} has no use for --prune"
            raise InputError(message, hint=f"choose --smoothing {' or '.join(PRUNING)}")

    @property
    def min_count_by_length(self) -> tuple[int, ...]:
        """Minimum count of n-grams of each length; empty without pruning."""
        parts = self.min_counts.replace(",", " ").split()
        if not all(part.isdecimal() and part.isascii() for part in parts):
            hint = "give a number for each length, the last for all longer ones: --prune '0 0 1'"
            raise InputError(f"--prune {self.min_counts!r}", hint=hint)
        max_pruned = [int(part) for part in parts]
        if max_pruned and max_pruned[0]:
            message = f"--prune {self.min_counts!r} would leave out single tokens"
            raise InputError(message, hint="begin with 0; --vocabulary makes a smaller vocabulary")
        if max_pruned != sorted(max_pruned):
            message = "a longer n-gram would stay without the shorter ones that it is made of"
            raise InputError(f"--prune {self.min_counts!r}: {message}", hint="give numbers that do not fall")
        return tuple(count + 1 for count in max_pruned) if any(max_pruned) else ()

    def levels(
        self,
        counts: NgramCounts,
        predictable: np.ndarray,
        eos_id: int,
        discounts: list[Discounts],
        pool: ArrayPool = UNBOUNDED_POOL,
    ) -> LogProbLevels:
        """Probabilities, length by length; Kneser–Ney fills the list of discounts before the first level."""
        discounts.clear()
        match self.smoothing:
            case "none":
                return maximum_likelihood(counts, predictable)
            case "add":
                return add_k(counts, predictable, self.add_k)
            case "witten-bell":
                return witten_bell(counts, predictable, self.min_count_by_length)
            case "stupid":
                return stupid_backoff(counts, predictable)
        return kneser_ney(counts, predictable, eos_id, discounts, self.min_count_by_length, pool)
