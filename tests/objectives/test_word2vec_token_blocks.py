"""Context windows: each word once an epoch for any batch size; sequences stay within their sentence or document."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import BatchKey
from forebear.objectives.word2vec_token_blocks import TokenBlocks

TEXTS = ["a b c. d e. f", "g h", "i. j k l m n o p. q", "r", "s t u v w. x y z"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder: Path = tmp_path_factory.mktemp("around")
    (folder / "text.txt").write_text("\n\n".join(TEXTS))
    return prepare_corpus([folder / "text.txt"], train_tokenizer("words", TEXTS), to=folder / "corpus")


@given(size=st.integers(1, 60), seed=st.integers(0, 5), epoch=st.integers(0, 3))
@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_context_windows_contain_every_word_once_an_epoch(corpus: Corpus, unit: str, size: int, seed: int, epoch: int):
    objective, source = TokenBlocks(unit), corpus.all_documents()
    steps = objective.steps(source, size)
    counts: Counter[int] = Counter()
    for step in range(epoch * steps, (epoch + 1) * steps):
        batch = objective.batch(source, size, BatchKey(seed, step))
        assert len(batch.inputs["tokens"]) <= size
        assert batch.inputs["lengths"].sum() == len(batch.inputs["tokens"])
        assert (batch.inputs["lengths"] > 0).all()
        counts.update(batch.inputs["tokens"].tolist())
    assert counts == Counter(corpus.ids.tolist())


@given(size=st.integers(1, 60), step=st.integers(0, 20))
@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_context_window_sequences_stay_within_their_unit(corpus: Corpus, unit: str, size: int, step: int):
    batch = TokenBlocks(unit).batch(corpus.all_documents(), size, BatchKey(0, step))
    units = corpus.all_documents().by_sentence() if unit == "sentence" else corpus.all_documents()
    texts = [" ".join(map(str, corpus.ids[first:last])) for first, last in units.spans.tolist()]
    ends = np.cumsum(batch.inputs["lengths"])
    for end, length in zip(ends.tolist(), batch.inputs["lengths"].tolist(), strict=True):
        row = " ".join(map(str, batch.inputs["tokens"][end - length : end]))
        assert any(f" {row} " in f" {text} " for text in texts)


def test_context_windows_are_shuffled_anew_each_epoch(corpus: Corpus):
    objective, source = TokenBlocks("document"), corpus.all_documents()
    steps = objective.steps(source, 3)
    orders = [
        tuple(
            int(objective.batch(source, 3, BatchKey(0, epoch * steps + step)).inputs["tokens"][0])
            for step in range(steps)
        )
        for epoch in range(3)
    ]
    assert len(set(orders)) == 3


def test_context_windows_refuse_unknown_unit():
    with pytest.raises(InputError, match="no unit of text is named 'page'"):
        TokenBlocks("page")
