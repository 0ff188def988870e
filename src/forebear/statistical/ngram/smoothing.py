"""Smoothing: maximum likelihood, add-k, Witten–Bell, stupid back-off and Kneser–Ney; pruning and model settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forebear.data.io.safetensors import release_pages
from forebear.errors import InputError
from forebear.statistical.array_pool import UNBOUNDED_POOL, ArrayPool
from forebear.statistical.ngram.counts import BLOCK_NGRAMS, NgramCounts, NgramIndex

BLOCK = 1 << 16  # n-grams whose shares are computed at once
PROGRESS_NGRAMS = 1 << 20  # n-grams after which memory is given back, where they lie in files
BACKOFF_FACTOR = 0.4  # what a shorter context counts in Brants et al. (2007)


class SmoothedLevel(NamedTuple):
    """P(last token given the others) of each n-gram of one length, and what each context leaves to the shorter one."""

    probs: np.ndarray  # (n-grams of n tokens,) float64
    backoff_mass: np.ndarray  # (n-grams of n - 1 tokens,) float64


class LogProbLevel(NamedTuple):
    """The natural logarithms of both in float32, as they are used and stored."""

    log_probs: np.ndarray  # float32
    backoffs: np.ndarray  # float32

    @classmethod
    def from_level(cls, level: SmoothedLevel) -> LogProbLevel:
        return cls(to_log_probs(level.probs), to_log_probs(level.backoff_mass))


LogProbLevels = Iterator[LogProbLevel]


def to_log_probs(probs: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Natural logarithm as float32."""
    with np.errstate(divide="ignore"):  # what never occurs
        log_probs = np.empty(len(probs), np.float32) if out is None else out
        return np.log(probs, out=log_probs, casting="same_kind")


def maximum_likelihood(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Relative frequencies; unseen contexts back off."""
    for n, times in enumerate(counts.counts, start=1):
        smoothed = relative_frequencies(times, counts.ngrams.prefixes(n), counts.ngrams.count(n - 1))
        # Of nothing, all is equally likely.
        yield LogProbLevel.from_level(
            smoothed if times.any() or n > 1 else SmoothedLevel(uniform_probs(predictable), smoothed.backoff_mass)
        )


def relative_frequencies(times: np.ndarray, prefixes: np.ndarray, contexts: int) -> SmoothedLevel:
    """Of n-grams of one length with these prefixes."""
    total = _sum_by_context(prefixes, times, contexts)
    return SmoothedLevel(times / np.maximum(total, 1)[prefixes], np.where(total > 0, 0.0, 1.0))


def add_k(counts: NgramCounts, predictable: np.ndarray, k: float) -> LogProbLevels:
    """As if every token had followed every context k times more than it did (Laplace's rule where k is 1).

    What is left goes to all tokens evenly, not to the shorter context.
    """
    size = int(np.count_nonzero(predictable))
    for n, times in enumerate(counts.counts, start=1):
        smoothed = add_k_level(times, counts.ngrams.prefixes(n), counts.ngrams.count(n - 1), k, size)
        yield LogProbLevel.from_level(
            SmoothedLevel(np.where(predictable, smoothed.probs, 0.0), smoothed.backoff_mass) if n == 1 else smoothed
        )


def add_k_level(times: np.ndarray, prefixes: np.ndarray, contexts: int, k: float, size: int) -> SmoothedLevel:
    total = _sum_by_context(prefixes, times, contexts) + k * size
    return SmoothedLevel((times + k) / total[prefixes], k * size / total)


def witten_bell(counts: NgramCounts, predictable: np.ndarray, min_counts: Sequence[int] = ()) -> LogProbLevels:
    """Interpolated Witten–Bell: a context's back-off mass is proportional to its number of distinct continuations."""
    ngrams, times, suffixes, pruned = _prune_levels(counts, list(counts.counts), _suffixes(counts), min_counts)
    probs = uniform_probs(predictable)
    for n, level_counts in enumerate(times, start=1):
        lower = probs if n == 1 else probs[suffixes[n - 1]]
        smoothed = witten_bell_level(level_counts, ngrams.prefixes(n), ngrams.count(n - 1), pruned[n - 1], lower)
        probs = smoothed.probs
        yield LogProbLevel.from_level(smoothed)


def witten_bell_level(
    times: np.ndarray, prefixes: np.ndarray, contexts: int, pruned: np.ndarray, lower: np.ndarray
) -> SmoothedLevel:
    num_types, pruned_mass = _sum_by_context(prefixes, times > 0, contexts), pruned if len(pruned) else 0.0
    total = _sum_by_context(prefixes, times, contexts) + pruned_mass + num_types
    backoff_mass = np.divide(num_types + pruned_mass, total, out=np.ones(contexts), where=total > 0)
    return SmoothedLevel(times / np.maximum(total, 1)[prefixes] + backoff_mass[prefixes] * lower, backoff_mass)


def stupid_backoff(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Shares of counts, and 0.4 of the shorter context's where there are none (Brants et al. 2007); then made to sum
    to 1 after each context, which changes no order among tokens.
    """
    ngrams, suffixes = counts.ngrams, _suffixes(counts)
    unnormalized, sums = unigram_probs(counts.counts[0], predictable)
    yield LogProbLevel.from_level(SmoothedLevel(unnormalized / sums[0], np.ones(1)))
    for n, times in enumerate(counts.counts[1:], start=2):
        lower, shorter = unnormalized[suffixes[n - 1]], sums[suffixes[n - 2]]
        unnormalized, sums, smoothed = pruned_backoff(times, ngrams.prefixes(n), ngrams.count(n - 1), lower, shorter)
        yield LogProbLevel.from_level(smoothed)


def unigram_probs(times: np.ndarray, predictable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unnormalized unigram scores of stupid back-off, and their sum."""
    unnormalized = np.where(times > 0, times / max(1, int(times.sum())), BACKOFF_FACTOR * uniform_probs(predictable))
    return unnormalized, np.array([unnormalized.sum()])


def pruned_backoff(
    times: np.ndarray, prefixes: np.ndarray, contexts: int, lower: np.ndarray, shorter: np.ndarray
) -> tuple[np.ndarray, np.ndarray, SmoothedLevel]:
    """The same of longer n-grams, of which shorter contexts said `lower`, in all `shorter`; and made to sum to 1."""
    total = _sum_by_context(prefixes, times, contexts)
    unnormalized = times / np.maximum(total, 1)[prefixes]
    sums = 1 + BACKOFF_FACTOR * (shorter - _sum_by_context(prefixes, lower, contexts))
    return (
        unnormalized,
        sums,
        SmoothedLevel(unnormalized / sums[prefixes], np.where(total > 0, BACKOFF_FACTOR * shorter / sums, 1.0)),
    )


# -- Kneser and Ney


@dataclass(frozen=True)
class Discounts:
    """What is taken from n-grams seen once, twice, and more often, to be given to those never seen.

    way  "modified": three discounts, from how many n-grams were seen 1 to 4 times (Chen & Goodman 1998).
         "absolute": one for all, where the three cannot be had (Kneser & Ney 1995).
         "half": one half, where even that cannot, because none was seen once or none twice.
    """

    way: str
    taken: tuple[float, float, float]
    seen: tuple[int, int, int, int]  # how many n-grams were seen 1, 2, 3 and 4 times

    @classmethod
    def estimate(cls, times: np.ndarray) -> Discounts:
        once, twice, thrice, four = counts_of_counts = _count_of_counts(times)
        if not (once and twice):
            return cls("half", (0.5, 0.5, 0.5), counts_of_counts)
        discount = once / (once + 2 * twice)
        if thrice:
            discounts = (discount, 2 - 3 * discount * thrice / twice, 3 - 4 * discount * four / thrice)
            # At 0 nothing would be left for the unseen; below, probability would be made of nothing.
            if all(taken > 0 for taken in discounts):
                return cls("modified", discounts, counts_of_counts)
        return cls("absolute", (discount, discount, discount), counts_of_counts)


def _count_of_counts(times: np.ndarray) -> tuple[int, int, int, int]:
    if len(times) > BLOCK_NGRAMS:
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.kneser_ney import count_of_counts_kernel

        histogram = compile_kernel(count_of_counts_kernel)(times, np.zeros(6, np.int64)).tolist()
    else:
        histogram = np.bincount(np.minimum(times, 5), minlength=5).tolist()
    return histogram[1], histogram[2], histogram[3], histogram[4]


def kneser_ney(
    counts: NgramCounts,
    predictable: np.ndarray,
    end: int,
    discounts: list[Discounts],
    min_counts: Sequence[int] = (),
    pool: ArrayPool = UNBOUNDED_POOL,
) -> LogProbLevels:
    """Interpolated modified Kneser–Ney, as KenLM estimates it; the discounts of each length are put into that list.

    P(w|context) = (a(context w) - D) / Σ a(context ·) + left(context) · P(w|shorter context), down to a single token,
    whose rest is shared evenly by all that can be predicted, seen or not. All of what is pruned is left.
    """
    suffixes = _suffixes(counts, pool)
    adjusted_counts = _adjusted_counts(counts, suffixes, end, pool)
    discounts[:] = [Discounts.estimate(times) for times in adjusted_counts]
    ngrams, adjusted_counts, suffixes, pruned = _prune_levels(counts, adjusted_counts, suffixes, min_counts)
    # Shares of shorter n-grams are kept as float32: a ten-millionth is nothing beside what any count can tell.
    probs, freed = uniform_probs(predictable).astype(np.float32), np.zeros(0, np.int32)
    for n, times in enumerate(adjusted_counts, start=1):
        discount_values = np.array([0.0, *discounts[n - 1].taken])
        num_children = np.array([ngrams.vocabulary], np.int32) if n == 1 else ngrams.continuations[n - 2]
        suffix_ids = np.arange(ngrams.vocabulary, dtype=np.int32) if n == 1 else suffixes[n - 1]
        args = times, num_children, suffix_ids, discount_values, pruned[n - 1], probs
        # For pairs they are the last tokens themselves, which are not ours to change.
        is_owned = len(times) > BLOCK_NGRAMS and n > 2 and suffix_ids.dtype == np.int32
        if len(times) > BLOCK_NGRAMS:
            log_probs, next_probs = _interpolate_compiled(*args, pool, keep_probs=n < ngrams.order, is_owned=is_owned)
        else:
            smoothed = interpolate(*args)
            log_probs, next_probs = LogProbLevel.from_level(smoothed), smoothed.probs.astype(np.float32)
        pool.release(probs, times, *([] if is_owned else [suffix_ids]))
        adjusted_counts[n - 1] = suffixes[n - 1] = times = suffix_ids = freed  # room for what comes
        del args
        probs = next_probs
        yield log_probs


def interpolate(
    times: np.ndarray,
    num_children: np.ndarray,
    suffix_ids: np.ndarray,
    discount_values: np.ndarray,
    pruned: np.ndarray,
    lower: np.ndarray,
) -> SmoothedLevel:
    """Shares, and what is left: numpy's way, whose compiled twin is in `kernels.smoothing`."""
    prefixes, discounted = np.repeat(np.arange(len(num_children)), num_children), discount_values[np.minimum(times, 3)]
    pruned_mass = pruned if len(pruned) else 0.0
    total, backoff_mass = (
        _sum_by_context(prefixes, times, len(num_children)) + pruned_mass,
        _sum_by_context(prefixes, discounted, len(num_children)) + pruned_mass,
    )
    backoff_mass = np.divide(backoff_mass, total, out=np.ones(len(num_children)), where=total > 0)
    return SmoothedLevel(
        (times - discounted) / np.where(total > 0, total, 1.0)[prefixes] + backoff_mass[prefixes] * lower[suffix_ids],
        backoff_mass,
    )


def _interpolate_compiled(
    times: np.ndarray,
    num_children: np.ndarray,
    suffix_ids: np.ndarray,
    discount_values: np.ndarray,
    pruned: np.ndarray,
    lower: np.ndarray,
    pool: ArrayPool,
    *,
    keep_probs: bool,
    is_owned: bool,
) -> tuple[LogProbLevel, np.ndarray]:
    """Block by block; only logarithms are kept, and probabilities where longer n-grams need them."""
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.kneser_ney import interpolate_kernel

    block = max(BLOCK, int(num_children.max(initial=0)))
    block_probs, block_mass = np.empty(block), np.empty(BLOCK)
    probs = pool.empty(len(times) if keep_probs else 0, np.float32)
    # Each number of `under` is looked at once, before the logarithm of its n-gram, which may take its place, is known.
    logs = suffix_ids.view(np.float32) if is_owned else pool.empty(len(times), np.float32)
    log_probs = LogProbLevel(logs, pool.empty(len(num_children), np.float32))
    context = at = 0
    while context < len(num_children):
        args = times, num_children, suffix_ids, discount_values, pruned, lower, context, at
        next_context, end = compile_kernel(interpolate_kernel)(*args, block_probs, block_mass)
        if keep_probs:
            probs[at:end] = block_probs[: end - at]
        to_log_probs(block_probs[: end - at], log_probs.log_probs[at:end])
        to_log_probs(block_mass[: next_context - context], log_probs.backoffs[context:next_context])
        if (
            next_context // PROGRESS_NGRAMS > context // PROGRESS_NGRAMS
            or end // PROGRESS_NGRAMS > at // PROGRESS_NGRAMS
        ):
            release_pages(times, num_children, suffix_ids, lower, probs, *log_probs)
        context, at = next_context, end
    return log_probs, probs


def _adjusted_counts(
    counts: NgramCounts, suffixes: Sequence[np.ndarray], end: int, pool: ArrayPool
) -> list[np.ndarray]:
    """Counts as Kneser and Ney want them.

    Below the highest order an n-gram counts for how many different tokens stand before it: San Francisco makes
    Francisco frequent but not likely elsewhere. Nothing stands before the beginning of a text: there, its count.
    """
    ngrams, adjusted_levels = counts.ngrams, []
    for n in range(1, ngrams.order):
        type_counts = _count_suffix_types(suffixes[n], ngrams.count(n), pool)
        if n > 1:
            # What begins with the token that begins a text is what stands at its beginning, and nowhere else.
            begin, num_ngrams = _ngrams_starting_with(ngrams, n, end)
            type_counts[begin : begin + num_ngrams] = counts.counts[n - 1][begin : begin + num_ngrams]
        adjusted_levels.append(type_counts)
    return [*adjusted_levels, counts.counts[-1]]


def _ngrams_starting_with(ngrams: NgramIndex, n: int, token: int) -> tuple[int, int]:
    """Number of the first n-gram that begins with this token, and how many there are: they are contiguous."""
    first, num_ngrams = token, 1
    for children in ngrams.continuations[: n - 1]:
        first, num_ngrams = int(children[:first].sum()), int(children[first : first + num_ngrams].sum())
    return first, num_ngrams


def _count_suffix_types(suffixes: np.ndarray, size: int, pool: ArrayPool) -> np.ndarray:
    if len(suffixes) <= BLOCK_NGRAMS:
        return np.bincount(suffixes, minlength=size).astype(np.int64)
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.kneser_ney import count_suffix_types_kernel

    type_counts = pool.zeros(size, np.int32)
    compile_kernel(count_suffix_types_kernel)(suffixes, type_counts)
    release_pages(suffixes, type_counts)
    return type_counts


# -- what several share


def _prune_levels(
    counts: NgramCounts, times: list[np.ndarray], suffixes: list[np.ndarray], min_counts: Sequence[int]
) -> tuple[NgramIndex, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """N-grams with sufficient counts, their `times` and suffixes, and the pruned mass of each context."""
    ngrams = counts.ngrams
    no_mass = [np.zeros(0)] * ngrams.order
    if not any(min_counts):
        return ngrams, times, suffixes, no_mass
    words, continuations, kept_times, kept_suffixes, lost = [], [], [times[0]], [suffixes[0]], [np.zeros(0)]
    is_kept_context, numbers = np.ones(ngrams.vocabulary, bool), np.arange(ngrams.vocabulary)
    for n in range(2, ngrams.order + 1):
        is_kept = counts.counts[n - 1] >= min_count_for(min_counts, n)
        prefixes = ngrams.prefixes(n)
        num_children = np.bincount(prefixes[is_kept], minlength=ngrams.count(n - 1))
        pruned_mass = _sum_by_context(prefixes[~is_kept], times[n - 1][~is_kept], ngrams.count(n - 1))
        words.append(ngrams.words[n - 2][is_kept])
        continuations.append(num_children[is_kept_context].astype(np.int32))
        kept_times.append(times[n - 1][is_kept])
        kept_suffixes.append(numbers[suffixes[n - 1][is_kept]])
        lost.append(pruned_mass[is_kept_context])
        is_kept_context, numbers = is_kept, np.cumsum(is_kept) - 1
    return NgramIndex(ngrams.vocabulary, tuple(words), tuple(continuations)), kept_times, kept_suffixes, lost


def prune_ngrams(counts: NgramCounts, min_counts: Sequence[int]) -> NgramIndex:
    """The n-grams that remain after pruning."""
    if not any(min_counts):
        return counts.ngrams
    return _prune_levels(counts, list(counts.counts), counts.ngrams.suffixes(), min_counts)[0]


def min_count_for(min_counts: Sequence[int], n: int) -> int:
    """Minimum count of n-grams of n tokens; the last number holds for all longer ones."""
    return min_counts[min(n, len(min_counts)) - 1] if min_counts else 0


def _suffixes(counts: NgramCounts, pool: ArrayPool = UNBOUNDED_POOL) -> list[np.ndarray]:
    return counts.take_suffixes() or counts.ngrams.suffixes(pool)


def _sum_by_context(prefixes: np.ndarray, values: np.ndarray, num_contexts: int) -> np.ndarray:
    return np.bincount(prefixes, weights=values, minlength=num_contexts)


def uniform_probs(predictable: np.ndarray) -> np.ndarray:
    """Uniform distribution over all tokens that can be predicted."""
    return predictable / np.count_nonzero(predictable)


# --- Settings ---


SMOOTHINGS = ("none", "add", "witten-bell", "stupid", "kneser-ney", "given")
PRUNING = ("witten-bell", "kneser-ney")  # ways to which nothing is lost by leaving out what is rare
MAX_ORDER = 10


@dataclass(frozen=True)
class NgramConfig:
    """How counts of n-grams up to an order become probabilities.

    smoothing  "none": shares of counts, and the shorter context where a context was never seen; "add": k more for each;
               "witten-bell"; "stupid"; "kneser-ney": interpolated, modified; "given": not counted here but read from
               elsewhere
    prune      n-grams of each length that are seen no more often than this are left out: "0 0 1"
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
            raise InputError(
                f"k is {self.add_k}", hint='add something above 0 to each count, or choose smoothing "none"'
            )
        if self.min_count_by_length and self.smoothing not in PRUNING:
            what = f"smoothing {self.smoothing!r} has no use for --prune"
            raise InputError(what, hint=f"choose --smoothing {' or '.join(PRUNING)}")

    @property
    def min_count_by_length(self) -> tuple[int, ...]:
        """How often n-grams of each length have to occur; none: once."""
        parts = self.min_counts.replace(",", " ").split()
        if not all(part.isdecimal() and part.isascii() for part in parts):
            hint = "give a number for each length, the last for all longer ones: --prune '0 0 1'"
            raise InputError(f"--prune {self.min_counts!r}", hint=hint)
        max_pruned = [int(part) for part in parts]
        if max_pruned and max_pruned[0]:
            message = f"--prune {self.min_counts!r} would leave out single tokens"
            raise InputError(message, hint="begin with 0; --vocabulary makes a smaller vocabulary")
        if max_pruned != sorted(max_pruned):
            message = (
                f"--prune {self.min_counts!r}: a longer n-gram would stay without the shorter ones that it is made of"
            )
            raise InputError(message, hint="give numbers that do not fall")
        return tuple(count + 1 for count in max_pruned) if any(max_pruned) else ()

    def levels(
        self,
        counts: NgramCounts,
        predictable: np.ndarray,
        end: int,
        discounts: list[Discounts],
        room: ArrayPool = UNBOUNDED_POOL,
    ) -> LogProbLevels:
        """Probabilities, length by length; Kneser–Ney's discounts are put into that list before the first."""
        discounts.clear()
        if self.smoothing == "none":
            return maximum_likelihood(counts, predictable)
        if self.smoothing == "add":
            return add_k(counts, predictable, self.add_k)
        if self.smoothing == "witten-bell":
            return witten_bell(counts, predictable, self.min_count_by_length)
        if self.smoothing == "stupid":
            return stupid_backoff(counts, predictable)
        return kneser_ney(counts, predictable, end, discounts, self.min_count_by_length, room)

    def uniform_fallback(self, predictable: np.ndarray) -> np.ndarray | None:
        """What a context that lacks a token falls back to, where that is not the shorter context."""
        return uniform_probs(predictable) if self.smoothing == "add" else None
