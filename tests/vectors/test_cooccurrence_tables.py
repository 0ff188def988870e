"""Counts of words that stand together: against a plain count, whatever the memory; whole or not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.text.corpus import Corpus
from forebear.text.portion import Portion, documents
from forebear.vectors import cooccurrence
from forebear.vectors.cooccurrence import counted

WORDS = 7  # ids; 0 is never counted
texts = st.lists(
    st.lists(st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=8), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


def portion_of(text: Sequence[Sequence[Sequence[int]]], key: str = "text") -> Portion:
    """Documents of sentences of ids, in memory."""
    lengths = np.array([len(sentence) for document in text for sentence in document], np.int64)
    corpus = Corpus(
        folder=Path("memory"),
        facts={"key": f"{key} {text}"},
        ids=np.array([word for document in text for sentence in document for word in sentence], np.uint16),
        sentences=np.concatenate(([0], np.cumsum(lengths))),
        documents=np.concatenate(([0], np.cumsum([len(document) for document in text]))),
        hashes=np.zeros(len(text), np.uint64),
        sizes=4 * lengths,
        unknown=np.zeros(len(lengths), np.int64),
        words=None,
    )
    return Portion(corpus, documents(corpus))


def plainly(text: Sequence[Sequence[Sequence[int]]], window: int, unit: str, never: frozenset[int]) -> np.ndarray:
    table = np.zeros((WORDS, WORDS))
    units = [s for d in text for s in d] if unit == "sentence" else [[w for s in d for w in s] for d in text]
    for whole in units:
        words = [word for word in whole if word not in never]
        for here, word in enumerate(words):
            for there, other in enumerate(words):
                if 0 < abs(here - there) <= window:
                    table[word, other] += 1 / abs(here - there)
    return table


def dense(table: cooccurrence.Cooccurrences) -> np.ndarray:
    told = np.zeros((WORDS, WORDS), np.float32)
    told[table.rows, table.columns] = table.counts
    assert np.count_nonzero(told) == len(table)
    return told


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("FOREBEAR_CACHE", str(folder))
    return folder / "cooccurrences"


@settings(max_examples=40)
@given(text=texts, window=st.integers(1, 20), unit=st.sampled_from(["sentence", "document"]), piece=st.integers(1, 30))
def test_counts_are_those_of_a_plain_count(text, window: int, unit: str, piece: int):
    never, told = frozenset({0}), []
    with pytest.MonkeyPatch.context() as patch:
        for size in (cooccurrence.PIECE, piece):  # all at once, and in many stretches
            patch.setattr(cooccurrence, "PIECE", size)
            patch.setattr(cooccurrence, "BAND", 2)
            source = portion_of(text, key=f"{size}")
            told.append(counted(source, vocabulary=WORDS, window=window, unit=unit, never=never, max_memory=0))
    assert np.allclose(dense(told[0]), plainly(text, window, unit, never), rtol=1e-4 if window > 16 else 1e-6)
    assert np.array_equal(dense(told[0]), dense(told[0]).T)
    for name in cooccurrence.ARRAYS:
        assert np.array_equal(getattr(told[0], name), getattr(told[1], name)), "memory changes neither counts nor order"
