"""In-memory corpora in which every token id is different, so that a sequence shows which tokens it has."""

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
    """A corpus of documents given by the lengths of their sentences."""
    lengths = np.array([length for sentences in documents for length in sentences], np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    if ids is None:
        ids = np.arange(FIRST, FIRST + starts[-1])
    corpus = Corpus(
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
        corpus.__dict__["tokenizer"] = tokenizer  # an in-memory corpus has no folder to read it from
    return corpus


def random_documents(rng: np.random.Generator, count: int, *, most: int = 12, longest: int = 12) -> list[list[int]]:
    """Documents of one or many sentences, of one or many tokens; a few sentences are very long."""
    sizes = np.minimum(rng.geometric(1 / 4, count), most).tolist()
    documents = [rng.integers(1, longest + 1, size).tolist() for size in sizes]
    for document in documents:
        if rng.random() < 0.1:
            document[int(rng.integers(len(document)))] = int(rng.integers(40, 200))
    return documents


def document_numbers(corpus: Corpus) -> np.ndarray:
    """(tokens,) the number of the document of each token."""
    numbers = []
    for number in range(len(corpus.documents) - 1):
        numbers += [number] * len(corpus.document_ids(number))
    return np.array(numbers)


def rows_of(tokens: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """The sequences of a batch."""
    ends = np.cumsum(lengths).tolist()
    return [tokens[end - length : end].tolist() for end, length in zip(ends, lengths.tolist(), strict=True)]
