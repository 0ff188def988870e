"""From counts to probabilities: as they are, with something added to each, or with something taken for the unseen."""

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
STUPID = 0.4  # what a shorter context counts in Brants et al. (2007)


class SmoothedLevel(NamedTuple):
    """P(last token given the others) of each n-gram of one length, and what each context leaves to the shorter one."""

    probs: np.ndarray  # (n-grams of n tokens,) float64
    backoff_mass: np.ndarray  # (n-grams of n - 1 tokens,) float64


class LogProbLevel(NamedTuple):
    """The natural logarithms of both, rounded once: what is asked, stored and exchanged."""

    log_probs: np.ndarray  # float32
    backoffs: np.ndarray  # float32

    @classmethod
    def from_level(cls, level: SmoothedLevel) -> LogProbLevel:
        return cls(to_log_probs(level.probs), to_log_probs(level.backoff_mass))


LogProbLevels = Iterator[LogProbLevel]


def to_log_probs(shares: np.ndarray, to: np.ndarray | None = None) -> np.ndarray:
    """Rounded once, to float32."""
    with np.errstate(divide="ignore"):  # what never occurs
        made = np.empty(len(shares), np.float32) if to is None else to
        return np.log(shares, out=made, casting="same_kind")


def maximum_likelihood(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Shares of counts. A context that was never seen has none; the shorter context answers for it."""
    for n, times in enumerate(counts.counts, start=1):
        made = relative_frequencies(times, counts.ngrams.prefixes(n), counts.ngrams.count(n - 1))
        # Of nothing, all is equally likely.
        yield LogProbLevel.from_level(
            made if times.any() or n > 1 else SmoothedLevel(uniform_probs(predictable), made.backoff_mass)
        )


def relative_frequencies(times: np.ndarray, prefixes: np.ndarray, contexts: int) -> SmoothedLevel:
    """Of n-grams of one length with these prefixes, of which there are so many; and so below."""
    total = _summed(prefixes, times, contexts)
    return SmoothedLevel(times / np.maximum(total, 1)[prefixes], np.where(total > 0, 0.0, 1.0))


def add_k(counts: NgramCounts, predictable: np.ndarray, k: float) -> LogProbLevels:
    """As if every token had followed every context k times more than it did (Laplace's rule where k is 1).

    What is left goes to all tokens evenly, not to the shorter context.
    """
    size = int(np.count_nonzero(predictable))
    for n, times in enumerate(counts.counts, start=1):
        made = add_k_level(times, counts.ngrams.prefixes(n), counts.ngrams.count(n - 1), k, size)
        yield LogProbLevel.from_level(
            SmoothedLevel(np.where(predictable, made.probs, 0.0), made.backoff_mass) if n == 1 else made
        )


def add_k_level(times: np.ndarray, prefixes: np.ndarray, contexts: int, k: float, size: int) -> SmoothedLevel:
    total = _summed(prefixes, times, contexts) + k * size
    return SmoothedLevel((times + k) / total[prefixes], k * size / total)


def witten_bell(counts: NgramCounts, predictable: np.ndarray, least: Sequence[int] = ()) -> LogProbLevels:
    """What is new after a context is as likely as it was in the past: as many times as there are different tokens."""
    ngrams, times, suffixes, lost = _pruned(counts, list(counts.counts), _suffixes(counts), least)
    shares = uniform_probs(predictable)
    for n, mine in enumerate(times, start=1):
        lower = shares if n == 1 else shares[suffixes[n - 1]]
        made = witten_bell_level(mine, ngrams.prefixes(n), ngrams.count(n - 1), lost[n - 1], lower)
        shares = made.probs
        yield LogProbLevel.from_level(made)


def witten_bell_level(
    times: np.ndarray, prefixes: np.ndarray, contexts: int, lost: np.ndarray, lower: np.ndarray
) -> SmoothedLevel:
    new, gone = _summed(prefixes, times > 0, contexts), lost if len(lost) else 0.0
    total = _summed(prefixes, times, contexts) + gone + new
    left = np.divide(new + gone, total, out=np.ones(contexts), where=total > 0)
    return SmoothedLevel(times / np.maximum(total, 1)[prefixes] + left[prefixes] * lower, left)


def stupid_backoff(counts: NgramCounts, predictable: np.ndarray) -> LogProbLevels:
    """Shares of counts, and 0.4 of the shorter context's where there are none (Brants et al. 2007); then made to sum
    to 1 after each context, which changes no order among tokens.
    """
    ngrams, suffixes = counts.ngrams, _suffixes(counts)
    plain, sums = unigram_probs(counts.counts[0], predictable)
    yield LogProbLevel.from_level(SmoothedLevel(plain / sums[0], np.ones(1)))
    for n, times in enumerate(counts.counts[1:], start=2):
        lower, shorter = plain[suffixes[n - 1]], sums[suffixes[n - 2]]
        plain, sums, made = pruned_backoff(times, ngrams.prefixes(n), ngrams.count(n - 1), lower, shorter)
        yield LogProbLevel.from_level(made)


def unigram_probs(times: np.ndarray, predictable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of single tokens, before they are made to sum to 1; and their sum."""
    plain = np.where(times > 0, times / max(1, int(times.sum())), STUPID * uniform_probs(predictable))
    return plain, np.array([plain.sum()])


def pruned_backoff(
    times: np.ndarray, prefixes: np.ndarray, contexts: int, lower: np.ndarray, shorter: np.ndarray
) -> tuple[np.ndarray, np.ndarray, SmoothedLevel]:
    """The same of longer n-grams, of which shorter contexts said `lower`, in all `shorter`; and made to sum to 1."""
    total = _summed(prefixes, times, contexts)
    plain = times / np.maximum(total, 1)[prefixes]
    sums = 1 + STUPID * (shorter - _summed(prefixes, lower, contexts))
    return plain, sums, SmoothedLevel(plain / sums[prefixes], np.where(total > 0, STUPID * shorter / sums, 1.0))


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
        once, twice, thrice, four = seen = _seen(times)
        if not (once and twice):
            return cls("half", (0.5, 0.5, 0.5), seen)
        share = once / (once + 2 * twice)
        if thrice:
            three = (share, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice)
            # At 0 nothing would be left for the unseen; below, probability would be made of nothing.
            if all(taken > 0 for taken in three):
                return cls("modified", three, seen)
        return cls("absolute", (share, share, share), seen)


def _seen(times: np.ndarray) -> tuple[int, int, int, int]:
    if len(times) > BLOCK_NGRAMS:
        from forebear.kernels.jit import compile_kernel
        from forebear.kernels.kneser_ney import count_of_counts_kernel

        often = compile_kernel(count_of_counts_kernel)(times, np.zeros(6, np.int64)).tolist()
    else:
        often = np.bincount(np.minimum(times, 5), minlength=5).tolist()
    return often[1], often[2], often[3], often[4]


def kneser_ney(
    counts: NgramCounts,
    predictable: np.ndarray,
    end: int,
    discounts: list[Discounts],
    least: Sequence[int] = (),
    room: ArrayPool = UNBOUNDED_POOL,
) -> LogProbLevels:
    """Interpolated modified Kneser–Ney, as KenLM estimates it; the discounts of each length are put into that list.

    P(w|context) = (a(context w) - D) / Σ a(context ·) + left(context) · P(w|shorter context), down to a single token,
    whose rest is shared evenly by all that can be predicted, seen or not. All of what is pruned is left.
    """
    suffixes = _suffixes(counts, room)
    adjusted = _adjusted(counts, suffixes, end, room)
    discounts[:] = [Discounts.estimate(times) for times in adjusted]
    ngrams, adjusted, suffixes, lost = _pruned(counts, adjusted, suffixes, least)
    # Shares of shorter n-grams are kept as float32: a ten-millionth is nothing beside what any count can tell.
    shares, nothing = uniform_probs(predictable).astype(np.float32), np.zeros(0, np.int32)
    for n, times in enumerate(adjusted, start=1):
        taken = np.array([0.0, *discounts[n - 1].taken])
        many = np.array([ngrams.vocabulary], np.int32) if n == 1 else ngrams.continuations[n - 2]
        under = np.arange(ngrams.vocabulary, dtype=np.int32) if n == 1 else suffixes[n - 1]
        given = times, many, under, taken, lost[n - 1], shares
        # For pairs they are the last tokens themselves, which are not ours to change.
        ours = len(times) > BLOCK_NGRAMS and n > 2 and under.dtype == np.int32
        if len(times) > BLOCK_NGRAMS:
            listed, above = _interpolated_in_loops(*given, room, keep=n < ngrams.order, ours=ours)
        else:
            made = interpolate(*given)
            listed, above = LogProbLevel.from_level(made), made.probs.astype(np.float32)
        room.release(shares, times, *([] if ours else [under]))
        adjusted[n - 1] = suffixes[n - 1] = times = under = nothing  # room for what comes
        del given
        shares = above
        yield listed


def interpolate(
    times: np.ndarray, many: np.ndarray, under: np.ndarray, taken: np.ndarray, lost: np.ndarray, lower: np.ndarray
) -> SmoothedLevel:
    """Shares, and what is left: numpy's way, whose compiled twin is in `kernels.smoothing`."""
    prefixes, minus = np.repeat(np.arange(len(many)), many), taken[np.minimum(times, 3)]
    gone = lost if len(lost) else 0.0
    total, left = _summed(prefixes, times, len(many)) + gone, _summed(prefixes, minus, len(many)) + gone
    left = np.divide(left, total, out=np.ones(len(many)), where=total > 0)
    return SmoothedLevel(
        (times - minus) / np.where(total > 0, total, 1.0)[prefixes] + left[prefixes] * lower[under], left
    )


def _interpolated_in_loops(
    times: np.ndarray,
    many: np.ndarray,
    under: np.ndarray,
    taken: np.ndarray,
    lost: np.ndarray,
    lower: np.ndarray,
    room: ArrayPool,
    *,
    keep: bool,
    ours: bool,
) -> tuple[LogProbLevel, np.ndarray]:
    """Block by block: of shares and what is left only logarithms stay, and where longer n-grams want them, shares."""
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.kneser_ney import interpolate_kernel

    block = max(BLOCK, int(many.max(initial=0)))
    own, left = np.empty(block), np.empty(BLOCK)
    shares = room.empty(len(times) if keep else 0, np.float32)
    # Each number of `under` is looked at once, before the logarithm of its n-gram, which may take its place, is known.
    logs = under.view(np.float32) if ours else room.empty(len(times), np.float32)
    listed = LogProbLevel(logs, room.empty(len(many), np.float32))
    context = at = 0
    while context < len(many):
        given = times, many, under, taken, lost, lower, context, at
        after, end = compile_kernel(interpolate_kernel)(*given, own, left)
        if keep:
            shares[at:end] = own[: end - at]
        to_log_probs(own[: end - at], listed.log_probs[at:end])
        to_log_probs(left[: after - context], listed.backoffs[context:after])
        if after // PROGRESS_NGRAMS > context // PROGRESS_NGRAMS or end // PROGRESS_NGRAMS > at // PROGRESS_NGRAMS:
            release_pages(times, many, under, lower, shares, *listed)
        context, at = after, end
    return listed, shares


def _adjusted(counts: NgramCounts, suffixes: Sequence[np.ndarray], end: int, room: ArrayPool) -> list[np.ndarray]:
    """Counts as Kneser and Ney want them.

    Below the highest order an n-gram counts for how many different tokens stand before it: San Francisco makes
    Francisco frequent but not likely elsewhere. Nothing stands before the beginning of a text: there, its count.
    """
    ngrams, adjusted = counts.ngrams, []
    for n in range(1, ngrams.order):
        different = _different(suffixes[n], ngrams.count(n), room)
        if n > 1:
            # What begins with the token that begins a text is what stands at its beginning, and nowhere else.
            begin, many = _of_first(ngrams, n, end)
            different[begin : begin + many] = counts.counts[n - 1][begin : begin + many]
        adjusted.append(different)
    return [*adjusted, counts.counts[-1]]


def _of_first(ngrams: NgramIndex, n: int, token: int) -> tuple[int, int]:
    """The number of the first n-gram that begins with this token, and how many there are: they stand together."""
    first, many = token, 1
    for continued in ngrams.continuations[: n - 1]:
        first, many = int(continued[:first].sum()), int(continued[first : first + many].sum())
    return first, many


def _different(suffixes: np.ndarray, size: int, room: ArrayPool) -> np.ndarray:
    if len(suffixes) <= BLOCK_NGRAMS:
        return np.bincount(suffixes, minlength=size).astype(np.int64)
    from forebear.kernels.jit import compile_kernel
    from forebear.kernels.kneser_ney import count_suffix_types_kernel

    told = room.zeros(size, np.int32)
    compile_kernel(count_suffix_types_kernel)(suffixes, told)
    release_pages(suffixes, told)
    return told


# -- what several share


def _pruned(
    counts: NgramCounts, times: list[np.ndarray], suffixes: list[np.ndarray], least: Sequence[int]
) -> tuple[NgramIndex, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """N-grams that occur often enough, the numbers `times` of these, what is left without their first tokens; and, for
    each length, how much every context has lost.
    """
    ngrams = counts.ngrams
    nothing = [np.zeros(0)] * ngrams.order
    if not any(least):
        return ngrams, times, suffixes, nothing
    words, continuations, kept_times, kept_suffixes, lost = [], [], [times[0]], [suffixes[0]], [np.zeros(0)]
    before, numbers = np.ones(ngrams.vocabulary, bool), np.arange(ngrams.vocabulary)
    for n in range(2, ngrams.order + 1):
        stays = counts.counts[n - 1] >= min_count_for(least, n)
        prefixes = ngrams.prefixes(n)
        many = np.bincount(prefixes[stays], minlength=ngrams.count(n - 1))
        gone = _summed(prefixes[~stays], times[n - 1][~stays], ngrams.count(n - 1))
        words.append(ngrams.words[n - 2][stays])
        continuations.append(many[before].astype(np.int32))
        kept_times.append(times[n - 1][stays])
        kept_suffixes.append(numbers[suffixes[n - 1][stays]])
        lost.append(gone[before])
        before, numbers = stays, np.cumsum(stays) - 1
    return NgramIndex(ngrams.vocabulary, tuple(words), tuple(continuations)), kept_times, kept_suffixes, lost


def prune_ngrams(counts: NgramCounts, least: Sequence[int]) -> NgramIndex:
    """The n-grams that are left."""
    if not any(least):
        return counts.ngrams
    return _pruned(counts, list(counts.counts), counts.ngrams.suffixes(), least)[0]


def min_count_for(least: Sequence[int], n: int) -> int:
    """How often an n-gram of n tokens has to occur; the last number holds for all longer ones."""
    return least[min(n, len(least)) - 1] if least else 0


def _suffixes(counts: NgramCounts, room: ArrayPool = UNBOUNDED_POOL) -> list[np.ndarray]:
    return counts.take_suffixes() or counts.ngrams.suffixes(room)


def _summed(prefixes: np.ndarray, values: np.ndarray, contexts: int) -> np.ndarray:
    return np.bincount(prefixes, weights=values, minlength=contexts)


def uniform_probs(predictable: np.ndarray) -> np.ndarray:
    """The same for all that can be predicted."""
    return predictable / np.count_nonzero(predictable)


# Which n-gram models there are: orders, ways of smoothing and pruning; what is none of them is refused early.


SMOOTHINGS = ("none", "add", "witten-bell", "stupid", "kneser-ney", "given")
PRUNING = ("witten-bell", "kneser-ney")  # ways to which nothing is lost by leaving out what is rare
HIGHEST = 10


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
        if not 1 <= self.order <= HIGHEST:
            hint = f"choose an order from 1 to {HIGHEST}, such as 3"
            raise InputError(f"an n-gram model of order {self.order}", hint=hint)
        if self.smoothing not in SMOOTHINGS:
            raise InputError(f"no smoothing is named {self.smoothing!r}", hint=f"there are: {', '.join(SMOOTHINGS)}")
        if self.smoothing == "add" and not 0 < self.add_k < float("inf"):
            raise InputError(
                f"k is {self.add_k}", hint='add something above 0 to each count, or choose smoothing "none"'
            )
        if self.min_count and self.smoothing not in PRUNING:
            what = f"smoothing {self.smoothing!r} has no use for --prune"
            raise InputError(what, hint=f"choose --smoothing {' or '.join(PRUNING)}")

    @property
    def min_count(self) -> tuple[int, ...]:
        """How often n-grams of each length have to occur; none: once."""
        parts = self.min_counts.replace(",", " ").split()
        if not all(part.isdecimal() and part.isascii() for part in parts):
            hint = "give a number for each length, the last for all longer ones: --prune '0 0 1'"
            raise InputError(f"--prune {self.min_counts!r}", hint=hint)
        most = [int(part) for part in parts]
        if most and most[0]:
            what = f"--prune {self.min_counts!r} would leave out single tokens"
            raise InputError(what, hint="begin with 0; --vocabulary makes a smaller vocabulary")
        if most != sorted(most):
            what = (
                f"--prune {self.min_counts!r}: a longer n-gram would stay without the shorter ones that it is made of"
            )
            raise InputError(what, hint="give numbers that do not fall")
        return tuple(count + 1 for count in most) if any(most) else ()

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
            return witten_bell(counts, predictable, self.min_count)
        if self.smoothing == "stupid":
            return stupid_backoff(counts, predictable)
        return kneser_ney(counts, predictable, end, discounts, self.min_count, room)

    def is_uniform(self, predictable: np.ndarray) -> np.ndarray | None:
        """What a context that lacks a token falls back to, where that is not the shorter context."""
        return uniform_probs(predictable) if self.smoothing == "add" else None
