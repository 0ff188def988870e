"""Subsets of a few ids, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.subset import Subset, document_bounds

DocumentIds = Sequence[Sequence[Sequence[int]]]  # documents of sentences


def subset_of(text: DocumentIds, key: str = "text") -> Subset:
    """A subset of all of this text; cached tables of it are known by the key and the text."""
    lengths = np.array([len(sentence) for document in text for sentence in document], np.int64)
    corpus = Corpus(
        folder=Path("memory"),
        metadata={"key": f"{key} {text}"},
        ids=np.array([word for document in text for sentence in document for word in sentence], np.uint16),
        sentences=np.concatenate(([0], np.cumsum(lengths))),
        documents=np.concatenate(([0], np.cumsum([len(document) for document in text]))),
        hashes=np.zeros(len(text), np.uint64),
        sizes=4 * lengths,
        unknown=np.zeros(len(lengths), np.int64),
        words=None,
    )
    return Subset(corpus, document_bounds(corpus))


def random_documents(words: int, tokens: int, seed: int = 0) -> list[list[list[int]]]:
    """Documents of one sentence, in which some words are frequent and neighbors are similar."""
    rng = np.random.default_rng(seed)
    ids = (words * rng.random(tokens) ** 3).astype(int)
    ids[1::2] = (ids[::2][: len(ids[1::2])] + rng.integers(0, 3, len(ids[1::2]))) % words
    return [[part.tolist()] for part in np.array_split(ids, max(1, tokens // 50))]
