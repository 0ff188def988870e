"""word2vec training with several threads: splitting a text into parts, buffers, and running the kernels."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forebear.kernels import simd, word2vec
from forebear.kernels.jit import compile_kernel
from forebear.kernels.simd import MAX_BLOCK_TARGETS, SUM_LANES
from forebear.kernels.vector_tables import CACHE_LINE, aligned_table
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

# --- Splitting a text so that no word is trained on too often while tables are frozen ---


def split_at_bursts(
    tokens: np.ndarray,
    vocab_size: int,
    *,
    max_words: int,
    word_weight: float,
    repeat_weight: float,
    max_distance: int,
    max_weight: float,
) -> np.ndarray:
    """(n + 1,) boundaries of spans in which no word occurs too often: real text is bursty.

    Args:
        max_words: Maximum length of a span.
        word_weight: Weight of an occurrence.
        repeat_weight: Its weight if the word occurred at most `max_distance` words before.
        max_weight: Maximum weight of a word in a span; its first occurrence is always allowed.
    """
    last_positions, weights = np.full(vocab_size, -1, np.int64), np.zeros(vocab_size)
    boundaries = np.empty(len(tokens) + 1, np.int64)
    num_boundaries = compile_kernel(split_at_bursts_kernel)(
        tokens, max_words, word_weight, repeat_weight, max_distance, max_weight, last_positions, weights, boundaries
    )
    return boundaries[:num_boundaries].copy()


def split_at_bursts_kernel(
    tokens, max_words, word_weight, repeat_weight, max_distance, max_weight, last_positions, weights, boundaries
):
    """`last_positions` has the last position of each word, `weights` its weight in this span."""
    span_start, num_boundaries = 0, 0
    for position in range(len(tokens)):
        word = tokens[position]
        previous_position = last_positions[word]
        weight = repeat_weight if previous_position >= max(position - max_distance, 0) else word_weight
        total = weight + (weights[word] if previous_position >= span_start else 0.0)
        if position == 0 or position - span_start == max_words or (total > max_weight and position > span_start):
            span_start, boundaries[num_boundaries], num_boundaries = position, position, num_boundaries + 1
            total = weight
        last_positions[word], weights[word] = position, total
    boundaries[num_boundaries] = len(tokens)
    return num_boundaries + 1


PART_WORDS = 256  # maximum words of a part, which has one random stream and whose windows are sampled together
MAX_HOGWILD_WINDOWS = 4  # windows scored before they are applied, so that they overlap in the processor
MAX_PARTS_AT_ONCE = 8  # parts trained together in deterministic training: the maximum number of useful threads
MAX_SPAN_WORDS = 4096  # maximum words trained together in deterministic training
# With frozen tables, updates of a row add up. The sum of the learning rates with which a row is updated is kept below
# this; at a few times as much, vectors diverge.
MAX_RATE_SUM = 2.0
MAX_BURST_RATE = 2 * MAX_RATE_SUM  # the same for a word in a burst, beyond what its frequency says
MAX_WORD_RATE = MAX_RATE_SUM / 2  # the same for one occurrence: a little more than with 5 negatives and window 5
HOGWILD_DIVISOR = 8  # Hogwild training freezes tables for fewer words by this factor, at no cost
# Maximum sum of the learning rates with which context words update a target at once: those of a wide window have
# similar gradients.
MAX_TARGET_RATE = 0.25
MIN_CONTEXT_AT_ONCE = 10  # context words that may always update a target at once
MIN_THREAD_WORK = 6_000  # nanoseconds of work that make a thread worthwhile
MIN_REPORTS = 128  # minimum number of windows that report their loss
MAX_REPORT_INTERVAL = 64  # at least one of so many windows reports its loss
INLINED_MODULES = (word2vec, simd)  # modules whose functions are inlined into the loops


@dataclass(frozen=True, eq=False)
class Word2VecVariant:
    """How words are trained.

    window      maximum number of context words on each side
    use_mean    predict from the mean of the context (CBOW) instead of each word (skip-gram)
    targets     what a word is predicted by: at most `max_targets`, on average `mean_targets` of a word
    subwords    indptr and rows: the vector of word w is the mean of rows[indptr[w] : indptr[w + 1]]; None: row w is
    busiest_row_rate  updates per word of text of the row that is updated most
    """

    window: int
    use_mean: bool
    targets: OutputTargets
    max_targets: int
    subwords: tuple[np.ndarray, np.ndarray] | None = None
    busiest_row_rate: float = 1.0
    mean_targets: float = 1.0

    @property
    def updates_per_word(self) -> float:
        """Mean number of updates of a word where it occurs."""
        return self.mean_targets * (1 if self.use_mean else self.window + 1)

    def max_frozen_words(self, rate: float) -> int:
        """Maximum number of words to learn from while the tables are frozen."""
        words = MAX_RATE_SUM / max(rate * self.busiest_row_rate, MAX_RATE_SUM / MAX_SPAN_WORDS)
        return int(min(max(words, 1), MAX_SPAN_WORDS))

    def has_wide_window(self, rate: float) -> bool:
        """Whether a window is too wide to be scored together with others."""
        return not self.use_mean and 2 * self.window * rate > MAX_TARGET_RATE

    def needs_hogwild(self, rate: float) -> bool:
        """Whether a single word or window is too much for deterministic training."""
        return self.has_wide_window(rate) or rate * self.updates_per_word > MAX_WORD_RATE

    def context_words_at_once(self, rate: float) -> int:
        """Maximum number of context words that update a target at once in Hogwild training."""
        return max(MIN_CONTEXT_AT_ONCE, int(MAX_TARGET_RATE / rate)) if self.has_wide_window(rate) else 2 * self.window

    def hogwild_parts(self, rate: float, num_words: int) -> tuple[np.ndarray, int]:
        """Boundaries of parts of a text, and the number of windows scored together."""
        max_frozen = self.max_frozen_words(rate)
        part_words = PART_WORDS if self.subwords is None else min(max_frozen, PART_WORDS)
        windows_at_once = (
            1 if self.has_wide_window(rate) else min(max(1, max_frozen // HOGWILD_DIVISOR), MAX_HOGWILD_WINDOWS)
        )
        return np.minimum(np.arange(-(-num_words // part_words) + 1) * part_words, num_words), windows_at_once

    def deterministic_parts(self, rate: float, tokens: np.ndarray, vocab_size: int) -> tuple[np.ndarray, int]:
        """Boundaries of parts of a text for deterministic training, and the number of parts scored together."""
        max_frozen, word_weight = self.max_frozen_words(rate), rate * self.updates_per_word
        boundaries = split_at_bursts(
            tokens,
            vocab_size,
            max_words=max_frozen,
            word_weight=word_weight,
            # a word that fills its window is the whole mean
            repeat_weight=word_weight * (self.window + 1) if self.use_mean else word_weight,
            max_distance=2 * self.window,
            max_weight=MAX_BURST_RATE,
        )
        parts_per_span = min(max_frozen, MAX_PARTS_AT_ONCE)
        offsets = np.arange(parts_per_span) * np.diff(boundaries)[:, None] // parts_per_span
        return np.append((boundaries[:-1, None] + offsets).ravel(), len(tokens)), parts_per_span

    @property
    def target_block(self) -> tuple[int, ...]:
        """A tuple as long as a block of targets, so that the kernels know the length by its type."""
        if not len(self.targets.stream):
            return (0,) * MAX_BLOCK_TARGETS  # paths differ in length
        blocks = -(-self.max_targets // MAX_BLOCK_TARGETS)
        return (0,) * -(-self.max_targets // blocks)

    @property
    def targets_per_word(self) -> int:
        """Targets of one word, padded to whole blocks."""
        count = len(self.target_block)
        return -(-self.max_targets // count) * count

    def allocate_windows(self, num_windows: int) -> WindowBatch:
        """Allocate windows."""
        size = num_windows * self.targets_per_word
        lefts, rights, blocks = np.zeros((3, num_windows), np.int64)
        return WindowBatch(lefts, rights, blocks, np.zeros(size, np.int32), np.zeros(size + SUM_LANES, np.float32))

    def max_updates(self, num_windows: int) -> int:
        """Maximum number of gradients of so many windows, plus one vector, since stores may reach beyond the last."""
        return num_windows * self.targets_per_word * (1 if self.use_mean else 2 * self.window) + SUM_LANES

    def make_workspace(
        self, part_words: int, num_parts: int, outputs: np.ndarray, rate: float, loss_sums: np.ndarray, report_mask: int
    ) -> SGNSWorkspace:
        """Allocate the workspace for `num_parts` parts trained together."""
        num_windows, width = part_words * num_parts, outputs.shape[1]
        gradients, signs = np.zeros((2, num_parts * self.max_updates(part_words) + SUM_LANES), np.float32)
        means, sums = (aligned_table(num_windows if self.use_mean else 0, width) for _ in range(2))
        buffers = ContextGradients(gradients, signs, np.arange(num_windows, dtype=np.int32), means, sums)
        return SGNSWorkspace(
            outputs, self.allocate_windows(num_windows), buffers, self.target_block, self.targets_per_word, self.window,
            self.context_words_at_once(rate), np.float32(rate), loss_sums, report_mask,
        )  # fmt: skip

    def num_useful_threads(self, num_windows: int, width: int) -> int:
        """Number of threads worth their overhead in deterministic training; it affects the time, not the result."""
        work = num_windows * (50 + self.max_updates(1) * width / 64)  # nanoseconds, about
        return max(1, min(int(work / MIN_THREAD_WORK), width // CACHE_LINE))

    def make_subword_rows(self, num_words: int, width: int, vocab_size: int) -> SubwordRows | None:
        """Allocate buffers for a span of so many words."""
        if self.subwords is None:
            return None
        indptr, rows = self.subwords
        words, span_positions = np.zeros((2, num_words + 2 * self.window), np.int32)
        vectors, previous_vectors = (aligned_table(len(words), width) for _ in range(2))
        span_ids = np.full(vocab_size, -1, np.int32)
        return SubwordRows(
            indptr, rows, span_ids, words, span_positions, np.zeros(1, np.int64), vectors, previous_vectors
        )


def train_word2vec(
    inputs: np.ndarray,
    outputs: np.ndarray,
    tokens: np.ndarray,
    lengths: np.ndarray,
    keep_probs: np.ndarray,
    variant: Word2VecVariant,
    *,
    rate: float,
    rng_key: tuple[int, int],
    threads: int,
    deterministic: bool,
) -> tuple[float, float]:
    """Train on rows of ids in place; returns the reported loss and the number of predictions in it.

    All randomness follows from `rng_key`. With `deterministic`, the result is bit-equal for any number of threads;
    what is too heavy for that is trained by one thread.
    """
    kept_tokens, ends = subsample(tokens, lengths, keep_probs, rng_key)
    if not len(kept_tokens) or not variant.max_targets:
        return 0.0, 0.0
    if deterministic and variant.needs_hogwild(rate):
        deterministic, threads = False, 1
    if deterministic:
        starts, group_size = variant.deterministic_parts(rate, kept_tokens, len(keep_probs))
    else:
        starts, group_size = variant.hogwild_parts(rate, len(kept_tokens))
    num_parts = len(starts) - 1
    text = TokenRuns(kept_tokens, ends, hash_seeds(rng_key, num_parts), starts)
    loss_sums = np.zeros((num_parts, 2))
    interval = 1
    while interval < MAX_REPORT_INTERVAL and interval * 2 * MIN_REPORTS <= len(kept_tokens):
        interval *= 2
    make_workspace = partial(
        variant.make_workspace, outputs=outputs, rate=rate, loss_sums=loss_sums, report_mask=interval - 1
    )
    mean = True if variant.use_mean else None  # None and True differ by type, at compile time
    make_subword_rows = partial(variant.make_subword_rows, width=inputs.shape[1], vocab_size=len(keep_probs))
    if deterministic:
        part_words, group_words = int(np.diff(starts).max()), int(np.diff(starts[::group_size]).max())
        workspace, subwords = make_workspace(part_words, group_size), make_subword_rows(group_words)
        train_deterministic_threads(text, variant, inputs, workspace, mean, subwords, group_size, threads)
    else:
        makers = make_workspace, mean, make_subword_rows
        train_hogwild_threads(text, variant, inputs, *makers, group_size, min(threads, num_parts))
    loss, num_reports = loss_sums.sum(0).tolist()
    return loss, num_reports


def train_hogwild_threads(
    text: TokenRuns,
    variant: Word2VecVariant,
    inputs: np.ndarray,
    make_workspace: Any,
    mean: Any,
    make_subword_rows: Any,
    windows_at_once: int,
    threads: int,
) -> None:
    """Hogwild: each thread has parts and buffers of its own; none waits for another."""
    kernel, num_parts = (
        compile_kernel(train_hogwild, allocates=False, inlined_modules=INLINED_MODULES),
        len(text.states),
    )
    part_words = int(text.starts[1])  # the first part is the longest

    def run_part(thread: int) -> None:
        part_range = num_parts * thread // threads, num_parts * (thread + 1) // threads
        subwords, workspace = make_subword_rows(part_words), make_workspace(part_words, 1)
        kernel(text, variant.targets, subwords, workspace, mean, inputs, *part_range, windows_at_once)

    run_threads(run_part, threads)


def train_deterministic_threads(
    text: TokenRuns,
    variant: Word2VecVariant,
    inputs: np.ndarray,
    workspace: SGNSWorkspace,
    mean: Any,
    subwords: Any,
    parts_at_once: int,
    threads: int,
) -> None:
    """All threads work on the same group of parts, in shared buffers."""
    part_words = int(np.diff(text.starts).max())
    kernel = compile_kernel(train_deterministic, allocates=False, inlined_modules=INLINED_MODULES)
    buffer_size, num_windows = variant.max_updates(part_words), len(text.tokens) * parts_at_once // len(text.states)
    threads = min(threads, parts_at_once, variant.num_useful_threads(num_windows, inputs.shape[1]))
    if variant.use_mean and threads == 2:
        threads = 1  # with so little to score, a second thread loses more by waiting than it gains
    gate = np.zeros(1, np.int64)

    def run_part(thread: int) -> None:
        kernel(
            thread, threads, gate, text, variant.targets, subwords, workspace, mean, inputs, parts_at_once, buffer_size
        )

    def open_gate() -> None:
        gate[0] = GATE_OPEN

    run_threads(run_part, threads, open_gate)


def run_threads(work: Callable[[int], None], threads: int, release: Callable[[], None] = lambda: None) -> None:
    """Run the work of all threads, the first in this one; `release` ends the waiting if not all could start."""
    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        try:
            futures = [pool.submit(work, thread) for thread in range(1, threads)]
        except BaseException:
            release()
            raise
        work(0)
        for future in futures:
            future.result()
