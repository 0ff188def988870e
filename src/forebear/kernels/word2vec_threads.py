"""A sweep over a text: words that are looked at, room to work in, and threads that run word2vec's compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forebear.kernels import simd, word2vec
from forebear.kernels.jit import compile_kernel
from forebear.kernels.layout import CACHE_LINE, aligned_table
from forebear.kernels.simd import KINDS, WIDE
from forebear.kernels.word2vec import (
    GATE_OPEN,
    ContextGradients,
    OutputTargets,
    SGNSWorkspace,
    SubwordRows,
    TokenRuns,
    WindowBatch,
    train_deterministic,
    train_hogwild,
)
from forebear.kernels.word2vec_sampling import hash_seeds, subsample

# Where a text is cut so that no word is learned from too often while tables stand still: real text repeats itself.


def split_at_bursts(
    tokens: np.ndarray, vocabulary: int, *, longest: int, each: float, again: float, near: int, most: float
) -> np.ndarray:
    """(n + 1,) the places where stretches begin, and the end of the text; none is empty.

    longest  words of a stretch
    each     what a word weighs
    again    what it weighs where it stood before, so near or nearer
    most     what all occurrences of a word in a stretch may weigh; the first of them is always in it
    """
    seen, weights = np.full(vocabulary, -1, np.int64), np.zeros(vocabulary)
    borders = np.empty(len(tokens) + 1, np.int64)
    many = compile_kernel(cut_in_loops)(tokens, longest, each, again, near, most, seen, weights, borders)
    return borders[:many].copy()


def cut_in_loops(tokens, longest, each, again, near, most, seen, weights, borders):
    """`seen` is where each word stood last, `weights` what it weighs in this stretch."""
    begin, many = 0, 0
    for here in range(len(tokens)):
        word = tokens[here]
        before = seen[word]
        weight = again if before >= max(here - near, 0) else each
        total = weight + (weights[word] if before >= begin else 0.0)
        if here == 0 or here - begin == longest or (total > most and here > begin):
            begin, borders[many], many = here, here, many + 1
            total = weight
        seen[word], weights[word] = here, total
    borders[many] = len(tokens)
    return many + 1


PART = 256  # words at most that share a stream of chance, and whose windows are decided about together
FEW = 4  # windows that are measured before they are applied: the next begins while the last is not yet done
PIECES = 8  # parts that are learned from in step, so that as many threads can share in them
LONGEST = 4096  # words that are learned from in step, at most
# Against tables that stand still, pulls add up: the same row is pulled again and again, as if nothing had happened.
# The sum of the rates by which it is pulled is kept below this; at a few times as much vectors grow without end.
STILL = 2.0
BURST = 2 * STILL  # the same of a word that real text repeats here or there, beyond what its frequency tells
HEAVY = STILL / 2  # the same of a word that occurs once: a little more than with five negatives and five words around
CALM = 8  # freely, they stand still for so many times fewer: that costs nothing
# The sum of the rates by which a target is pulled at once by the words around it. Where a window is wide, all its words
# are about the same, and pull the same way.
ABREAST = 0.25
LEAST = 10  # words around a target that may always pull at it at once
WORTH = 6_000  # nanoseconds of work for which it is worth while to call a thread and to wait for it twice
SEEN = 128  # windows that tell their loss, or more
SELDOM = 64  # at most one of so many does
BESIDE = (word2vec, simd)  # modules whose functions are inlined into the loops: numba must see when they change


@dataclass(frozen=True, eq=False)
class Word2VecVariant:
    """How words are learned from.

    window    words to each side that are looked at, at most
    mean      the words around answer together, by their mean
    supply    what a word is told from
    most      of them at most for one word
    spelling  indptr and rows: the vector of word w is the mean of rows[indptr[w] : indptr[w + 1]]; None: row w is
    busiest   how often the row that is pulled most is pulled for each word of text
    told      how many of them there are for a word, in the mean
    """

    window: int
    use_mean: bool
    supply: OutputTargets
    max_window: int
    spelling: tuple[np.ndarray, np.ndarray] | None = None
    busiest: float = 1.0
    reports: float = 1.0

    @property
    def pulls(self) -> float:
        """How often a word is pulled where it occurs, in the mean: by words around one by one, or by all as one."""
        return self.reports * (1 if self.use_mean else self.window + 1)

    def is_idle(self, rate: float) -> int:
        """How many words may be learned from while tables stand still."""
        return int(min(max(STILL / max(rate * self.busiest, STILL / LONGEST), 1), LONGEST))

    def is_wide(self, rate: float) -> bool:
        """Whether a window is too wide to be measured together with others."""
        return not self.use_mean and 2 * self.window * rate > ABREAST

    def is_heavy(self, rate: float) -> bool:
        """Whether a single word or window is too much to be learned from in step."""
        return self.is_wide(rate) or rate * self.pulls > HEAVY

    def abreast(self, rate: float) -> int:
        """How many words around a target may pull at it at once, where they do so freely: all, but of a wide window."""
        return max(LEAST, int(ABREAST / rate)) if self.is_wide(rate) else 2 * self.window

    def parts(self, rate: float, size: int) -> tuple[np.ndarray, int]:
        """Where parts of a text of so many words begin, and how many windows of them are measured together."""
        still = self.is_idle(rate)
        part = PART if self.spelling is None else min(still, PART)
        few = min(max(1, still // CALM), FEW)
        if self.is_wide(rate):
            few = 1
        return np.minimum(np.arange(-(-size // part) + 1) * part, size), few

    def parts_in_step(self, rate: float, tokens: np.ndarray, vocabulary: int) -> tuple[np.ndarray, int]:
        """Where parts of a text begin, and how many of them are measured together: stretches, each in equal parts."""
        still, each = self.is_idle(rate), rate * self.pulls
        again = each * (self.window + 1) if self.use_mean else each  # a word that is all its window is the whole mean
        how = {"longest": still, "each": each, "again": again, "near": 2 * self.window, "most": BURST}
        borders = split_at_bursts(tokens, vocabulary, **how)
        pieces = min(still, PIECES)
        shares = np.arange(pieces) * np.diff(borders)[:, None] // pieces
        return np.append((borders[:-1, None] + shares).ravel(), len(tokens)), pieces

    @property
    def kinds(self) -> tuple[int, ...]:
        """As long as a block of targets: compiled loops know it by its type."""
        if not len(self.supply.stream):
            return (0,) * KINDS  # paths are long or short
        blocks = -(-self.max_window // KINDS)
        return (0,) * -(-self.max_window // blocks)

    @property
    def slots(self) -> int:
        """Targets of one word, whole blocks."""
        count = len(self.kinds)
        return -(-self.max_window // count) * count

    def windows(self, many: int) -> WindowBatch:
        """Room for so many."""
        size = many * self.slots
        lefts, rights, blocks = np.zeros((3, many), np.int64)
        return WindowBatch(lefts, rights, blocks, np.zeros(size, np.int32), np.zeros(size + WIDE, np.float32))

    def buffers(self, many: int) -> int:
        """Pulls of so many windows at most; and one vector more, since vectors may reach beyond the last."""
        return many * self.slots * (1 if self.use_mean else 2 * self.window) + WIDE

    def lesson(
        self, part: int, parts: int, outputs: np.ndarray, rate: float, told: np.ndarray, every: int
    ) -> SGNSWorkspace:
        """Room to learn from so many parts together, and all that there is to know for it."""
        many, width = part * parts, outputs.shape[1]
        pulls, signs = np.zeros((2, parts * self.buffers(part) + WIDE), np.float32)
        means, sums = (aligned_table(many if self.use_mean else 0, width) for _ in range(2))
        work = ContextGradients(pulls, signs, np.arange(many, dtype=np.int32), means, sums)
        windows = self.windows(many)
        kinds, slots, few = self.kinds, self.slots, self.abreast(rate)
        return SGNSWorkspace(outputs, windows, work, kinds, slots, self.window, few, np.float32(rate), told, every)

    def helpers(self, many: int, width: int) -> int:
        """Threads that are worth while for so many windows in step: bits do not depend on it, time does."""
        work = many * (50 + self.buffers(1) * width / 64)  # nanoseconds, about
        return max(1, min(int(work / WORTH), width // CACHE_LINE))

    def subword_rows(self, many: int, width: int, vocabulary: int) -> SubwordRows | None:
        """Room for a stretch of so many words."""
        if self.spelling is None:
            return None
        indptr, rows = self.spelling
        words, places = np.zeros((2, many + 2 * self.window), np.int32)
        vectors, before = (aligned_table(len(words), width) for _ in range(2))
        numbers = np.full(vocabulary, -1, np.int32)
        return SubwordRows(indptr, rows, numbers, words, places, np.zeros(1, np.int64), vectors, before)


def train_word2vec(
    inputs: np.ndarray,
    outputs: np.ndarray,
    tokens: np.ndarray,
    lengths: np.ndarray,
    kept: np.ndarray,
    way: Word2VecVariant,
    *,
    rate: float,
    moment: tuple[int, int],
    threads: int,
    in_step: bool,
) -> tuple[float, float]:
    """Learns from rows of ids in place: the losses that were told, and how many. All chance follows from the moment.

    In step, the same bits come about for any number of threads; what is too heavy for that is left to one.
    """
    found, ends = subsample(tokens, lengths, kept, moment)
    if not len(found) or not way.max_window:
        return 0.0, 0.0
    if in_step and way.is_heavy(rate):
        in_step, threads = False, 1
    starts, together = way.parts_in_step(rate, found, len(kept)) if in_step else way.parts(rate, len(found))
    parts = len(starts) - 1
    text = TokenRuns(found, ends, hash_seeds(moment, parts), starts)
    told = np.zeros((parts, 2))
    seldom = 1
    while seldom < SELDOM and seldom * 2 * SEEN <= len(found):
        seldom *= 2
    lesson = partial(way.lesson, outputs=outputs, rate=rate, told=told, every=seldom - 1)
    mean = True if way.use_mean else None  # compiled loops know None from True by its type
    spelled = partial(way.subword_rows, width=inputs.shape[1], vocabulary=len(kept))
    if in_step:
        part, whole = int(np.diff(starts).max()), int(np.diff(starts[::together]).max())
        stepwise(text, way, inputs, lesson(part, together), mean, spelled(whole), together, threads)
    else:
        freely(text, way, inputs, lesson, mean, spelled, together, min(threads, parts))
    loss, many = told.sum(0).tolist()
    return loss, many


def freely(
    text: TokenRuns,
    way: Word2VecVariant,
    inputs: np.ndarray,
    lesson: Any,
    mean: Any,
    spelled: Any,
    few: int,
    threads: int,
) -> None:
    """Each thread has parts and room of its own; no thread waits for another."""
    run, parts = compile_kernel(train_hogwild, bare=True, beside=BESIDE), len(text.states)
    part = int(text.starts[1])  # the first is as long as any

    def one(thread: int) -> None:
        mine = (parts * thread // threads, parts * (thread + 1) // threads)
        run(text, way.supply, spelled(part), lesson(part, 1), mean, inputs, *mine, few)

    at_once(one, threads)


def stepwise(
    text: TokenRuns,
    way: Word2VecVariant,
    inputs: np.ndarray,
    lesson: SGNSWorkspace,
    mean: Any,
    spelling: Any,
    pieces: int,
    threads: int,
) -> None:
    """All threads work at the same pieces of text, in the same room."""
    part = int(np.diff(text.starts).max())
    run, room = compile_kernel(train_deterministic, bare=True, beside=BESIDE), way.buffers(part)
    threads = min(threads, pieces, way.helpers(len(text.tokens) * pieces // len(text.states), inputs.shape[1]))
    if way.use_mean and threads == 2:
        threads = 1  # there is so little to measure that a second one loses more by waiting than it brings
    gate = np.zeros(1, np.int64)

    def one(thread: int) -> None:
        run(thread, threads, gate, text, way.supply, spelling, lesson, mean, inputs, pieces, room)

    def let_go() -> None:
        gate[0] = GATE_OPEN

    at_once(one, threads, let_go)


def at_once(work: Callable[[int], None], threads: int, let_go: Callable[[], None] = lambda: None) -> None:
    """The work of all threads, at the same time, the first of them this one; `let_go` where not all could begin, and
    the others wait for them."""
    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        try:
            begun = [pool.submit(work, thread) for thread in range(1, threads)]
        except BaseException:
            let_go()
            raise
        work(0)
        for one in begun:
            one.result()
