"""From counts to probabilities: as they are, with something added to each, or with something taken for the unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forebear.statistics.counting import Counts
from forebear.statistics.ngrams import MUCH, Ngrams
from forebear.statistics.room import UNBOUNDED, Room
from forebear.text.mapping import let_go

BLOCK = 1 << 16  # n-grams whose shares are computed at once
SELDOM = 1 << 20  # n-grams after which memory is given back, where they lie in files
STUPID = 0.4  # what a shorter context counts in Brants et al. (2007)


class Level(NamedTuple):
    """P(last token given the others) of each n-gram of one length, and what each context leaves to the shorter one."""

    shares: np.ndarray  # (n-grams of n tokens,) float64
    left: np.ndarray  # (n-grams of n - 1 tokens,) float64


class Listed(NamedTuple):
    """The natural logarithms of both, rounded once: what is asked, stored and exchanged."""

    logs: np.ndarray  # float32
    backoffs: np.ndarray  # float32

    @classmethod
    def of(cls, level: Level) -> Listed:
        return cls(logarithms(level.shares), logarithms(level.left))


Levels = Iterator[Listed]


def logarithms(shares: np.ndarray, to: np.ndarray | None = None) -> np.ndarray:
    """Rounded once, to float32."""
    with np.errstate(divide="ignore"):  # what never occurs
        made = np.empty(len(shares), np.float32) if to is None else to
        return np.log(shares, out=made, casting="same_kind")


def maximum_likelihood(counts: Counts, predictable: np.ndarray) -> Levels:
    """Shares of counts. A context that was never seen has none; the shorter context answers for it."""
    for n, times in enumerate(counts.times, start=1):
        made = in_proportion(times, counts.ngrams.prefixes(n), counts.ngrams.size(n - 1))
        # Of nothing, all is equally likely.
        yield Listed.of(made if times.any() or n > 1 else Level(even(predictable), made.left))


def in_proportion(times: np.ndarray, prefixes: np.ndarray, contexts: int) -> Level:
    """Of n-grams of one length with these prefixes, of which there are so many; and so below."""
    total = _summed(prefixes, times, contexts)
    return Level(times / np.maximum(total, 1)[prefixes], np.where(total > 0, 0.0, 1.0))


def added(counts: Counts, predictable: np.ndarray, k: float) -> Levels:
    """As if every token had followed every context k times more than it did (Laplace's rule where k is 1).

    What is left goes to all tokens evenly, not to the shorter context.
    """
    size = int(np.count_nonzero(predictable))
    for n, times in enumerate(counts.times, start=1):
        made = with_more(times, counts.ngrams.prefixes(n), counts.ngrams.size(n - 1), k, size)
        yield Listed.of(Level(np.where(predictable, made.shares, 0.0), made.left) if n == 1 else made)


def with_more(times: np.ndarray, prefixes: np.ndarray, contexts: int, k: float, size: int) -> Level:
    total = _summed(prefixes, times, contexts) + k * size
    return Level((times + k) / total[prefixes], k * size / total)


def witten_bell(counts: Counts, predictable: np.ndarray, least: Sequence[int] = ()) -> Levels:
    """What is new after a context is as likely as it was in the past: as many times as there are different tokens."""
    ngrams, times, suffixes, lost = _pruned(counts, list(counts.times), _suffixes(counts), least)
    shares = even(predictable)
    for n, mine in enumerate(times, start=1):
        lower = shares if n == 1 else shares[suffixes[n - 1]]
        made = with_new(mine, ngrams.prefixes(n), ngrams.size(n - 1), lost[n - 1], lower)
        shares = made.shares
        yield Listed.of(made)


def with_new(times: np.ndarray, prefixes: np.ndarray, contexts: int, lost: np.ndarray, lower: np.ndarray) -> Level:
    new, gone = _summed(prefixes, times > 0, contexts), lost if len(lost) else 0.0
    total = _summed(prefixes, times, contexts) + gone + new
    left = np.divide(new + gone, total, out=np.ones(contexts), where=total > 0)
    return Level(times / np.maximum(total, 1)[prefixes] + left[prefixes] * lower, left)


def stupid(counts: Counts, predictable: np.ndarray) -> Levels:
    """Shares of counts, and 0.4 of the shorter context's where there are none (Brants et al. 2007); then made to sum
    to 1 after each context, which changes no order among tokens.
    """
    ngrams, suffixes = counts.ngrams, _suffixes(counts)
    plain, sums = plain_alone(counts.times[0], predictable)
    yield Listed.of(Level(plain / sums[0], np.ones(1)))
    for n, times in enumerate(counts.times[1:], start=2):
        lower, shorter = plain[suffixes[n - 1]], sums[suffixes[n - 2]]
        plain, sums, made = cut_back(times, ngrams.prefixes(n), ngrams.size(n - 1), lower, shorter)
        yield Listed.of(made)


def plain_alone(times: np.ndarray, predictable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of single tokens, before they are made to sum to 1; and their sum."""
    plain = np.where(times > 0, times / max(1, int(times.sum())), STUPID * even(predictable))
    return plain, np.array([plain.sum()])


def cut_back(
    times: np.ndarray, prefixes: np.ndarray, contexts: int, lower: np.ndarray, shorter: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Level]:
    """The same of longer n-grams, of which shorter contexts said `lower`, in all `shorter`; and made to sum to 1."""
    total = _summed(prefixes, times, contexts)
    plain = times / np.maximum(total, 1)[prefixes]
    sums = 1 + STUPID * (shorter - _summed(prefixes, lower, contexts))
    return plain, sums, Level(plain / sums[prefixes], np.where(total > 0, STUPID * shorter / sums, 1.0))


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
    def of(cls, times: np.ndarray) -> Discounts:
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
    if len(times) > MUCH:
        from forebear.kernels.compiling import compiled
        from forebear.kernels.smoothing import seen_in_loops

        often = compiled(seen_in_loops)(times, np.zeros(6, np.int64)).tolist()
    else:
        often = np.bincount(np.minimum(times, 5), minlength=5).tolist()
    return often[1], often[2], often[3], often[4]


def kneser_ney(
    counts: Counts,
    predictable: np.ndarray,
    end: int,
    discounts: list[Discounts],
    least: Sequence[int] = (),
    room: Room = UNBOUNDED,
) -> Levels:
    """Interpolated modified Kneser–Ney, as KenLM estimates it; the discounts of each length are put into that list.

    P(w|context) = (a(context w) - D) / Σ a(context ·) + left(context) · P(w|shorter context), down to a single token,
    whose rest is shared evenly by all that can be predicted, seen or not. All of what is pruned is left.
    """
    suffixes = _suffixes(counts, room)
    adjusted = _adjusted(counts, suffixes, end, room)
    discounts[:] = [Discounts.of(times) for times in adjusted]
    ngrams, adjusted, suffixes, lost = _pruned(counts, adjusted, suffixes, least)
    # Shares of shorter n-grams are kept as float32: a ten-millionth is nothing beside what any count can tell.
    shares, nothing = even(predictable).astype(np.float32), np.zeros(0, np.int32)
    for n, times in enumerate(adjusted, start=1):
        taken = np.array([0.0, *discounts[n - 1].taken])
        many = np.array([ngrams.vocabulary], np.int32) if n == 1 else ngrams.continuations[n - 2]
        under = np.arange(ngrams.vocabulary, dtype=np.int32) if n == 1 else suffixes[n - 1]
        given = times, many, under, taken, lost[n - 1], shares
        # For pairs they are the last tokens themselves, which are not ours to change.
        ours = len(times) > MUCH and n > 2 and under.dtype == np.int32
        if len(times) > MUCH:
            listed, above = _interpolated_in_loops(*given, room, keep=n < ngrams.order, ours=ours)
        else:
            made = interpolated(*given)
            listed, above = Listed.of(made), made.shares.astype(np.float32)
        room.free(shares, times, *([] if ours else [under]))
        adjusted[n - 1] = suffixes[n - 1] = times = under = nothing  # room for what comes
        del given
        shares = above
        yield listed


def interpolated(
    times: np.ndarray, many: np.ndarray, under: np.ndarray, taken: np.ndarray, lost: np.ndarray, lower: np.ndarray
) -> Level:
    """Shares, and what is left: numpy's way, whose compiled twin is in `kernels.smoothing`."""
    prefixes, minus = np.repeat(np.arange(len(many)), many), taken[np.minimum(times, 3)]
    gone = lost if len(lost) else 0.0
    total, left = _summed(prefixes, times, len(many)) + gone, _summed(prefixes, minus, len(many)) + gone
    left = np.divide(left, total, out=np.ones(len(many)), where=total > 0)
    return Level((times - minus) / np.where(total > 0, total, 1.0)[prefixes] + left[prefixes] * lower[under], left)


def _interpolated_in_loops(
    times: np.ndarray,
    many: np.ndarray,
    under: np.ndarray,
    taken: np.ndarray,
    lost: np.ndarray,
    lower: np.ndarray,
    room: Room,
    *,
    keep: bool,
    ours: bool,
) -> tuple[Listed, np.ndarray]:
    """Block by block: of shares and what is left only logarithms stay, and where longer n-grams want them, shares."""
    from forebear.kernels.compiling import compiled
    from forebear.kernels.smoothing import interpolated_in_loops

    block = max(BLOCK, int(many.max(initial=0)))
    own, left = np.empty(block), np.empty(BLOCK)
    shares = room.empty(len(times) if keep else 0, np.float32)
    # Each number of `under` is looked at once, before the logarithm of its n-gram, which may take its place, is known.
    logs = under.view(np.float32) if ours else room.empty(len(times), np.float32)
    listed = Listed(logs, room.empty(len(many), np.float32))
    context = at = 0
    while context < len(many):
        given = times, many, under, taken, lost, lower, context, at
        after, end = compiled(interpolated_in_loops)(*given, own, left)
        if keep:
            shares[at:end] = own[: end - at]
        logarithms(own[: end - at], listed.logs[at:end])
        logarithms(left[: after - context], listed.backoffs[context:after])
        if after // SELDOM > context // SELDOM or end // SELDOM > at // SELDOM:
            let_go(times, many, under, lower, shares, *listed)
        context, at = after, end
    return listed, shares


def _adjusted(counts: Counts, suffixes: Sequence[np.ndarray], end: int, room: Room) -> list[np.ndarray]:
    """Counts as Kneser and Ney want them.

    Below the highest order an n-gram counts for how many different tokens stand before it: San Francisco makes
    Francisco frequent but not likely elsewhere. Nothing stands before the beginning of a text: there, its count.
    """
    ngrams, adjusted = counts.ngrams, []
    for n in range(1, ngrams.order):
        different = _different(suffixes[n], ngrams.size(n), room)
        if n > 1:
            # What begins with the token that begins a text is what stands at its beginning, and nowhere else.
            begin, many = _of_first(ngrams, n, end)
            different[begin : begin + many] = counts.times[n - 1][begin : begin + many]
        adjusted.append(different)
    return [*adjusted, counts.times[-1]]


def _of_first(ngrams: Ngrams, n: int, token: int) -> tuple[int, int]:
    """The number of the first n-gram that begins with this token, and how many there are: they stand together."""
    first, many = token, 1
    for continued in ngrams.continuations[: n - 1]:
        first, many = int(continued[:first].sum()), int(continued[first : first + many].sum())
    return first, many


def _different(suffixes: np.ndarray, size: int, room: Room) -> np.ndarray:
    if len(suffixes) <= MUCH:
        return np.bincount(suffixes, minlength=size).astype(np.int64)
    from forebear.kernels.compiling import compiled
    from forebear.kernels.smoothing import different_in_loops

    told = room.zeros(size, np.int32)
    compiled(different_in_loops)(suffixes, told)
    let_go(suffixes, told)
    return told


# -- what several share


def _pruned(
    counts: Counts, times: list[np.ndarray], suffixes: list[np.ndarray], least: Sequence[int]
) -> tuple[Ngrams, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
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
        stays = counts.times[n - 1] >= least_of(least, n)
        prefixes = ngrams.prefixes(n)
        many = np.bincount(prefixes[stays], minlength=ngrams.size(n - 1))
        gone = _summed(prefixes[~stays], times[n - 1][~stays], ngrams.size(n - 1))
        words.append(ngrams.words[n - 2][stays])
        continuations.append(many[before].astype(np.int32))
        kept_times.append(times[n - 1][stays])
        kept_suffixes.append(numbers[suffixes[n - 1][stays]])
        lost.append(gone[before])
        before, numbers = stays, np.cumsum(stays) - 1
    return Ngrams(ngrams.vocabulary, tuple(words), tuple(continuations)), kept_times, kept_suffixes, lost


def pruned(counts: Counts, least: Sequence[int]) -> Ngrams:
    """The n-grams that are left."""
    if not any(least):
        return counts.ngrams
    return _pruned(counts, list(counts.times), counts.ngrams.suffixes(), least)[0]


def least_of(least: Sequence[int], n: int) -> int:
    """How often an n-gram of n tokens has to occur; the last number holds for all longer ones."""
    return least[min(n, len(least)) - 1] if least else 0


def _suffixes(counts: Counts, room: Room = UNBOUNDED) -> list[np.ndarray]:
    return counts.take_suffixes() or counts.ngrams.suffixes(room)


def _summed(prefixes: np.ndarray, values: np.ndarray, contexts: int) -> np.ndarray:
    return np.bincount(prefixes, weights=values, minlength=contexts)


def even(predictable: np.ndarray) -> np.ndarray:
    """The same for all that can be predicted."""
    return predictable / np.count_nonzero(predictable)
