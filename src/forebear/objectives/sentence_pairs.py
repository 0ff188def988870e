"""Sequences of whole sentences (RoBERTa), next-sentence prediction (BERT) and sentence-order prediction (ALBERT)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, TargetArrays

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset

# --- Packing consecutive sentences of a document into sequences ---


SHORT_RATE = 0.1  # fraction of randomly shortened sequences, so that short inputs are trained too (BERT)
FULL_RATE = 0.05  # fraction of full-length sequences if most are shorter, so that every position is trained
MIN_SHORT_TOKENS = 8  # minimum tokens of a shortened sequence


@dataclass(frozen=True, eq=False)
class SentenceChunks:
    """Sentences, and parts of sentences that are too long for a sequence, in text order.

    Attributes:
        spans: (n, 2) token spans.
        documents: (n,) document number of each chunk.
        run_ends: (n,) end of the run of adjacent chunks of one document that each chunk is in.
        num_split: Number of sentences that were too long.
        num_dropped: Number of tokens that were truncated.
    """

    spans: np.ndarray
    documents: np.ndarray
    run_ends: np.ndarray
    num_split: int
    num_dropped: int

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> np.ndarray:
        return self.spans[:, 1] - self.spans[:, 0]


@lru_cache(maxsize=4)
def sentence_chunks(source: Subset, max_tokens: int, overflow: str) -> SentenceChunks:
    """The chunks of a subset, none longer than `max_tokens`.

    A longer sentence is split into windows, at word starts where these are known; with `overflow` "truncate" only the
    first window is kept.
    """
    spans = source.by_sentence().spans
    documents = np.repeat(np.arange(len(source)), source.units[:, 1] - source.units[:, 0])
    too_long = np.flatnonzero(spans[:, 1] - spans[:, 0] > max_tokens)
    num_dropped = 0
    if len(too_long):
        windows = [_windows(source, begin, end, max_tokens) for begin, end in spans[too_long].tolist()]
        if overflow == "truncate":
            num_dropped = sum(int(window[-1, 1] - window[0, 1]) for window in windows)
            windows = [window[:1] for window in windows]
        counts = np.ones(len(spans), np.int64)
        counts[too_long] = [len(window) for window in windows]
        documents, spans = np.repeat(documents, counts), np.repeat(spans, counts, axis=0)
        positions = concat_ranges((np.cumsum(counts) - counts)[too_long], counts[too_long])
        spans[positions] = np.concatenate(windows)
    breaks = np.flatnonzero((documents[1:] != documents[:-1]) | (spans[1:, 0] != spans[:-1, 1])) + 1
    ends = np.append(breaks, len(spans))
    run_ends = np.repeat(ends, np.diff(ends, prepend=0))
    return SentenceChunks(spans, documents, run_ends, len(too_long), num_dropped)


def _windows(source: Subset, start: int, end: int, max_tokens: int) -> np.ndarray:
    """(m, 2) consecutive spans of at most `max_tokens` tokens."""
    boundaries = [start]
    while end - boundaries[-1] > max_tokens:
        boundary = boundaries[-1] + max_tokens
        words = source.corpus.words
        starts = np.empty(0, int) if words is None else np.flatnonzero(words[boundaries[-1] + 1 : boundary + 1])
        boundaries.append(boundaries[-1] + 1 + int(starts[-1]) if len(starts) else boundary)
    return np.array([*zip(boundaries, [*boundaries[1:], end], strict=True)])


def pack_chunks(
    chunks: SentenceChunks, max_tokens: int, rng: np.random.Generator, *, train_tokens: int | None = None
) -> np.ndarray:
    """(m, 2) ranges of chunks, one per sequence; every chunk is in exactly one.

    A sequence takes as many chunks as fit into `max_tokens`; a few are randomly shorter. With `train_tokens` most are
    limited to that, unless a single chunk is longer. Hence every epoch packs a text differently. Each run is packed
    from its start or from its end at random: the chunk that did not fit tends to be long, and if it always came first,
    its length would reveal which segment is the first.
    """
    index, ends = np.arange(len(chunks)), chunks.run_ends
    starts = np.searchsorted(ends, ends)  # (n,) first chunk of each chunk's run
    is_backward = (rng.random(len(chunks)) < 0.5)[starts]
    lengths = chunks.lengths[np.where(is_backward, starts + ends - 1 - index, index)]  # mirrored
    cumulative = np.cumsum(lengths)
    limit = max_tokens if train_tokens is None else min(train_tokens, max_tokens)
    limits = np.full(len(chunks), limit)
    shortened_rows = np.flatnonzero(rng.random(len(chunks)) < SHORT_RATE)
    limits[shortened_rows] = rng.integers(min(MIN_SHORT_TOKENS, limit), limit + 1, len(shortened_rows))
    if limit < max_tokens:
        limits[rng.random(len(chunks)) < FULL_RATE] = max_tokens
    next_index = np.searchsorted(cumulative, cumulative - lengths + limits, side="right")
    next_index = np.maximum(np.minimum(next_index, ends), index + 1)
    ranges = np.array(_follow_links(next_index.tolist()), np.int64)
    first = ranges[:, 0]
    mirrored = (starts + ends)[first, None] - ranges[:, ::-1]
    return np.where(is_backward[first, None], mirrored, ranges)


def _follow_links(next_index: list[int]) -> list[tuple[int, int]]:
    """(start, next start) of each range, where `next_index` has the start of the range after one that starts here."""
    links, index = [], 0
    while index < len(next_index):
        links.append((index, next_index[index]))
        index = next_index[index]
    return links


NUM_SWAP_ROUNDS = 4  # rounds of matching second segments between documents


@dataclass(frozen=True)
class EpochRows:
    """All sequences of an epoch, in training order.

    Attributes:
        segments: (m, 4) start and end of the first and of the second segment, if there is one.
        labels: (m,) target of the pair.
        ends: (m,) cumulative tokens.
    """

    segments: np.ndarray
    labels: np.ndarray
    ends: np.ndarray


@dataclass(frozen=True)
class DocSentences:
    """Sequences [bos, sentences…, eos] of one document each, with as many whole sentences as fit (RoBERTa).

    An epoch has every token once (except truncated ones), packed and ordered differently each time. A batch holds
    sequences of about `batch_size` tokens in total, the longest first.

    Attributes:
        max_length: Maximum tokens of a sequence, special tokens included.
        bos_id: The id that starts a sequence.
        eos_id: The id that ends a sequence, or each of its segments.
        overflow: Sentences that are too long become "windows", or are truncated with "truncate".
        train_length: Tokens of most sequences, special tokens included; None: max_length.
    """

    num_special: ClassVar[int] = 2  # special tokens of a full sequence
    target_heads: ClassVar[bool] = False
    label_names: ClassVar[tuple[str, ...]] = ()  # of the sentence-pair target

    max_length: int
    bos_id: int
    eos_id: int
    overflow: str = "windows"
    train_length: int | None = None

    @property
    def max_text_tokens(self) -> int:
        """Maximum text tokens of a sequence."""
        return self.max_length - self.num_special

    def pack(self, chunks: SentenceChunks, rng: np.random.Generator) -> np.ndarray:
        """The chunk range of each sequence."""
        train_tokens = None if self.train_length is None else self.train_length - self.num_special
        return pack_chunks(chunks, self.max_text_tokens, rng, train_tokens=train_tokens)

    def steps(self, source: Subset, batch_size: int) -> int:
        """The number of batches; limited so that no batch is smaller than the longest sequence, and none is empty."""
        max_steps = (source.num_tokens - self.sentence_chunks(source).num_dropped) // self.max_length
        return max(1, min(round(int(_epoch(self, source, 0, 0).ends[-1]) / batch_size), max_steps))

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        steps = self.steps(source, batch_size)
        epoch_index, step = divmod(key.step, steps)
        epoch = _epoch(self, source, key.seed, epoch_index)
        total = int(epoch.ends[-1])
        first, last = np.searchsorted(epoch.ends, [step * total // steps, (step + 1) * total // steps], side="right")
        last = len(epoch.ends) if step == steps - 1 else last
        return self._make_batch(source.corpus.ids, epoch.segments[first:last], epoch.labels[first:last])

    def check(self, source: Subset) -> None:
        """Every text can be used."""

    def sentence_chunks(self, source: Subset) -> SentenceChunks:
        return sentence_chunks(source, self.max_text_tokens, self.overflow)

    def build_rows(self, chunks: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The segments of all sequences, and their labels."""
        ranges = self.pack(chunks, rng)
        start, end = chunks.spans[ranges[:, 0], 0], chunks.spans[ranges[:, 1] - 1, 1]
        return np.stack((start, end, end, end), axis=1), np.full(len(ranges), IGNORE_INDEX)

    def _make_batch(self, ids: np.ndarray, segments: np.ndarray, labels: np.ndarray) -> Batch:
        order = np.argsort(-row_lengths(segments), kind="stable")
        segments, labels = segments[order], labels[order]
        lengths = row_lengths(segments)
        first_lengths = segments[:, 1] - segments[:, 0]
        second_lengths = segments[:, 3] - segments[:, 2]
        starts = np.cumsum(lengths) - lengths
        positions = np.full(int(lengths.sum()), IGNORE_INDEX)
        positions[concat_ranges(starts + 1, first_lengths)] = concat_ranges(segments[:, 0], first_lengths)
        second_starts = starts + first_lengths + 2
        positions[concat_ranges(second_starts, second_lengths)] = concat_ranges(segments[:, 2], second_lengths)
        is_text = positions != IGNORE_INDEX
        tokens = np.full(len(positions), self.eos_id)
        tokens[starts] = self.bos_id
        tokens[is_text] = ids[positions[is_text]]
        inputs: TargetArrays = {"tokens": tokens, "lengths": lengths}
        if not self.target_heads:
            return Batch(inputs, {}, positions)
        is_second = np.arange(len(positions)) >= np.repeat(second_starts, lengths)
        return Batch({**inputs, "segments": is_second.astype(np.int64)}, {"pair": labels}, positions)


def row_lengths(segments: np.ndarray) -> np.ndarray:
    """(m,) tokens of sequences with these segments: one bos, and an eos after each segment."""
    first, second = segments[:, 1] - segments[:, 0], segments[:, 3] - segments[:, 2]
    return first + second + 2 + (second > 0)


@lru_cache(maxsize=4)
def _epoch(objective: DocSentences, source: Subset, seed: int, epoch_index: int) -> EpochRows:
    rng = np.random.default_rng([seed, epoch_index, 1])
    segments, labels = objective.build_rows(objective.sentence_chunks(source), rng)
    order = rng.permutation(len(segments))
    segments, labels = segments[order], labels[order]
    return EpochRows(segments, labels, np.cumsum(row_lengths(segments)))


@dataclass(frozen=True)
class _SentencePairs(DocSentences):
    """Sequences [bos, first, eos, second, eos]; a sequence with a single sentence is not split and has no label."""

    num_special: ClassVar[int] = 3
    target_heads: ClassVar[bool] = True

    def split_sequences(self, chunks: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(m, 4) segments, split between two random sentences, and the document of each sequence."""
        first, last = self.pack(chunks, rng).T
        split_at = np.where(last - first > 1, rng.integers(first + 1, np.maximum(last, first + 2)), last)
        start, end = chunks.spans[first, 0], chunks.spans[last - 1, 1]
        middle = chunks.spans[split_at - 1, 1]
        return np.stack((start, middle, middle, end), axis=1), chunks.documents[first]


@dataclass(frozen=True)
class NextSentence(_SentencePairs):
    """Next-sentence prediction (BERT): does the second segment follow (0), or is it from another document (1)?

    Sequences of different documents swap second segments of similar length: no token is repeated or lost, and lengths
    reveal nothing. Only sequences that could be swapped have a label, and half of them are: a sequence that
    can never be swapped, as with few documents, would always have the same label and reveal it.
    """

    label_names: ClassVar[tuple[str, ...]] = ("follows", "from elsewhere")

    def build_rows(self, chunks: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        segments, documents = self.split_sequences(chunks, rng)
        labels = np.full(len(segments), IGNORE_INDEX)
        two_segment_rows = rng.permutation(np.flatnonzero(segments[:, 3] > segments[:, 2]))
        swappable = self._find_swaps(segments, documents, two_segment_rows, rng)
        swaps = swappable[: (len(swappable) + int(rng.integers(2))) // 2]
        labels[swappable.ravel()], labels[swaps.ravel()] = 0, 1
        left, right = swaps.T
        segments[left, 2:], segments[right, 2:] = segments[right, 2:], segments[left, 2:].copy()
        return segments, labels

    def _find_swaps(
        self, segments: np.ndarray, documents: np.ndarray, unmatched: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(s, 2) random pairs of sequences that can swap second segments of similar length."""
        swaps = [np.empty((0, 2), np.int64)]
        first, second = segments[:, 1] - segments[:, 0], segments[:, 3] - segments[:, 2]
        for attempt in range(NUM_SWAP_ROUNDS):
            # A stable sort: equal lengths stay in random order.
            unmatched = unmatched[np.argsort(second[unmatched], kind="stable")]
            pairs = unmatched[attempt % 2 :][: (len(unmatched) - attempt % 2) // 2 * 2].reshape(-1, 2)
            left, right = pairs.T
            is_other_document = documents[left] != documents[right]
            swapped_lengths = np.maximum(first[left] + second[right], first[right] + second[left])
            swaps.append(pairs[is_other_document & (swapped_lengths <= self.max_text_tokens)])
            unmatched = rng.permutation(np.setdiff1d(unmatched, swaps[-1]))
        return rng.permutation(np.concatenate(swaps))

    def check(self, source: Subset) -> None:
        hint = "say where documents end (--documents blank, lines or files), or ask no such question: --pairs none"
        if len(source) < 2:
            message = "the text to learn from is one document: there is no other to take second sentences from"
            raise InputError(message, hint=hint)
        if not (_epoch(self, source, 0, 0).labels != IGNORE_INDEX).any():
            message = f"no two documents have two sentences that fit together into a row of {self.max_length} tokens"
            raise InputError(message, hint=f"a larger --context, shorter sentences (--sentences split), or {hint}")


@dataclass(frozen=True)
class SentenceOrder(_SentencePairs):
    """Sentence-order prediction (ALBERT): are the segments in order (0) or swapped (1)?"""

    label_names: ClassVar[tuple[str, ...]] = ("in order", "swapped")

    def build_rows(self, chunks: SentenceChunks, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        segments, _ = self.split_sequences(chunks, rng)
        labels = np.full(len(segments), IGNORE_INDEX)
        two_segment_rows = rng.permutation(np.flatnonzero(segments[:, 3] > segments[:, 2]))
        swapped = two_segment_rows[: len(two_segment_rows) // 2]
        labels[two_segment_rows], labels[swapped] = 0, 1
        segments[swapped] = segments[swapped][:, [2, 3, 0, 1]]
        return segments, labels

    def check(self, source: Subset) -> None:
        if not (_epoch(self, source, 0, 0).labels != IGNORE_INDEX).any():
            message = f"no document has two sentences that fit together into a row of {self.max_length} tokens"
            hint = "a larger --context, shorter sentences (--sentences split), or no such question: --pairs none"
            raise InputError(message, hint=hint)


SENTENCE_TASKS: dict[str, Callable[[int, int, int, str, int | None], DocSentences]] = {
    "next": NextSentence,
    "order": SentenceOrder,
    "none": DocSentences,
}
