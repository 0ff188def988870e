"""Corpora in memory whose every token is another one, so that a row tells by itself where its tokens come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.tokenizers.tokenizer import Tokenizer

PAD, UNK, CLS, SEP, MASK = range(5)
FIRST = 5  # the id of the first token of the text; token number n of the text has the id FIRST + n


def corpus_of(
    documents: Sequence[Sequence[int]],
    *,
    ids: np.ndarray | None = None,
    words: np.ndarray | None = None,
    entities: np.ndarray | None = None,
    tokenizer: Tokenizer | None = None,
) -> Corpus:
    """Documents told by the lengths of their sentences."""
    lengths = np.array([length for sentences in documents for length in sentences], np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    if ids is None:
        ids = np.arange(FIRST, FIRST + starts[-1])
    made = Corpus(
        folder=Path("memory"),
        metadata={"made_from": {"tokenizer": tokenizer.digest if tokenizer else ""}},
        ids=ids,
        sentences=starts,
        documents=np.concatenate(([0], np.cumsum([len(sentences) for sentences in documents]))),
        hashes=np.random.default_rng(len(lengths)).integers(0, 1 << 63, len(documents), dtype=np.uint64) * np.uint64(2),
        sizes=4 * lengths,
        unknown=np.zeros(len(lengths), np.int64),
        words=words,
        entities=entities,
    )
    if tokenizer is not None:
        made.__dict__["tokenizer"] = tokenizer  # one in memory has no folder to read it from
    return made


def random_documents(rng: np.random.Generator, count: int, *, most: int = 12, longest: int = 12) -> list[list[int]]:
    """Of one sentence and of many, of one token and of many; a few sentences are huge."""
    sizes = np.minimum(rng.geometric(1 / 4, count), most).tolist()
    documents = [rng.integers(1, longest + 1, size).tolist() for size in sizes]
    for document in documents:
        if rng.random() < 0.1:
            document[int(rng.integers(len(document)))] = int(rng.integers(40, 200))
    return documents


def owners(corpus: Corpus) -> np.ndarray:
    """(tokens,) the number of each token's document, counted out one by one."""
    told = []
    for number in range(len(corpus.documents) - 1):
        told += [number] * len(corpus.document_ids(number))
    return np.array(told)


def rows_of(tokens: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """A batch's rows."""
    ends = np.cumsum(lengths).tolist()
    return [tokens[end - length : end].tolist() for end, length in zip(ends, lengths.tolist(), strict=True)]
