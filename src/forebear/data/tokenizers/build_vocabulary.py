"""Counts of words and pretokens, the order of a vocabulary, and its coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat

import numpy as np

from forebear.data.io.document import batches_by_size
from forebear.data.tokenizers.pretokens import WhitespaceWords, worth_compiling
from forebear.errors import InputError

# Distinct pretokens and characters that are held before they are split, to bound the memory of counting.
MAX_PRETOKENS, MAX_CHARACTERS = 1 << 19, 1 << 23
BLOCK_CHARACTERS = 1 << 20  # characters per look-up


def count_pieces(texts: Iterable[str], split_pretoken: Callable[[str], Iterable[str]]) -> Counter[str]:
    """Count pieces, where `split_pretoken` splits a pretoken without ASCII spaces.

    Text repeats its pretokens, so each distinct one is split once. Long texts switch to a compiled loop.
    """
    pieces: Counter[str] = Counter()
    pretokens: Counter[str] = Counter()
    characters = num_seen = 0
    remaining = iter(texts)
    for text in remaining:
        pretokens.update(text.split(" "))
        characters, num_seen = characters + len(text), num_seen + len(text)
        if len(pretokens) >= MAX_PRETOKENS or characters >= MAX_CHARACTERS:
            count_pieces_of_pretokens(pretokens.items(), split_pretoken, pieces)
            pretokens.clear()
            characters = 0
        if worth_compiling(num_seen):
            break
    count_pieces_of_pretokens(pretokens.items(), split_pretoken, pieces)
    word_counts = WordCounts(" ", num_seen)
    for block in text_blocks(remaining):
        word_counts.add(block)
        if len(word_counts.words) >= MAX_PRETOKENS or word_counts.words.characters >= MAX_CHARACTERS:
            count_pieces_of_pretokens(word_counts.word_counts(), split_pretoken, pieces)
            word_counts = WordCounts(" ", num_seen)
    return count_pieces_of_pretokens(word_counts.word_counts(), split_pretoken, pieces)


def count_pieces_of_pretokens(
    pretokens: Iterable[tuple[str, int]],
    split_pretoken: Callable[[str], Iterable[str]],
    pieces: Counter[str] | None = None,
) -> Counter[str]:
    """Count the pieces of pretokens with known counts, adding to `pieces`."""
    pieces = Counter() if pieces is None else pieces
    for pretoken, count in pretokens:
        for piece in split_pretoken(pretoken):
            pieces[piece] += count
    return pieces


def text_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, a million characters or one text at a time."""
    return batches_by_size(texts, len, BLOCK_CHARACTERS)


class WordCounts:
    """Words separated by gap characters, numbered by first occurrence, with counts; no Python object per word."""

    def __init__(self, gaps: str, characters_before: int = 0) -> None:
        self.words, self.counts = WhitespaceWords(gaps, characters_before), np.zeros(0, np.int64)

    @classmethod
    def from_texts(cls, texts: Iterable[str], gaps: str) -> WordCounts:
        counts = cls(gaps)
        for block in text_blocks(texts):
            counts.add(block)
        return counts

    def add(self, texts: list[str]) -> None:
        self.count(self.words.word_ids(texts))

    def count(self, word_ids: np.ndarray) -> None:
        """Add one occurrence of each of these word ids."""
        totals = np.bincount(word_ids, minlength=len(self.words))
        totals[: len(self.counts)] += self.counts
        self.counts = totals

    def word_counts(self) -> Iterator[tuple[str, int]]:
        return zip(self.words.texts(), self.counts.tolist(), strict=True)

    def order_by_frequency(
        self, *, specials: Iterable[str], size: int | None, min_count: int
    ) -> tuple[list[str], np.ndarray]:
        """The vocabulary as `order_vocabulary` returns it; also the id of each word, -1 if it is not in it."""
        special_tokens, max_words = _reserve_special_tokens(specials, size)
        alphabetical = self.words.sorted_ids()
        order = alphabetical[np.argsort(-self.counts[alphabetical], kind="stable")]
        order = order[self.counts[order] >= min_count][: None if max_words is None else max_words + len(special_tokens)]
        words, joined = self.words.texts_of(order), f" {self.words.gather(' ')} "
        if clashes := {special for special in special_tokens if f" {special} " in joined}:
            clash_positions = [index for index, name in enumerate(words) if name in clashes]
            order, words = np.delete(order, clash_positions), [name for name in words if name not in clashes]
        order, words = order[:max_words], words[:max_words]
        ids = np.full(len(self.counts), -1, np.int32)
        ids[order] = np.arange(len(special_tokens), len(special_tokens) + len(order))
        return special_tokens + words, ids


def order_vocabulary(
    counts: Mapping[str, int], *, specials: Iterable[str], size: int | None, min_count: int
) -> list[str]:
    """The vocabulary in id order: special tokens, then pieces by descending count, ties by text."""
    special_tokens, max_pieces = _reserve_special_tokens(specials, size)
    special_set = set(special_tokens)
    pieces = sorted(piece for piece, count in counts.items() if count >= min_count and piece not in special_set)
    pieces.sort(key=counts.__getitem__, reverse=True)  # stable: ties stay in text order
    return special_tokens + pieces[:max_pieces]


def _reserve_special_tokens(specials: Iterable[str], size: int | None) -> tuple[list[str], int | None]:
    """The special tokens, and how many further entries fit; None: unlimited."""
    special_tokens = list(dict.fromkeys(specials))
    if size is not None and size <= len(special_tokens):
        message = f"a vocabulary of {size} has no room beside its {len(special_tokens)} special tokens"
        raise InputError(message, hint=f"ask for a size above {len(special_tokens)}")
    return special_tokens, None if size is None else size - len(special_tokens)


def coverage(counts: Mapping[str, int], vocabulary: Iterable[str]) -> float:
    """The fraction of counted pieces that are in the vocabulary; 1.0 if nothing was counted."""
    total = sum(counts.values())
    return sum(map(counts.get, vocabulary, repeat(0))) / total if total else 1.0
