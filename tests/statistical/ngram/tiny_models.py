"""Small corpora of ids and models that counted them, for the tests of the statistics room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from forebear.statistical.ngram.language_model import NgramModel

UNKNOWN, END, PADDING = 0, 1, 2  # PADDING is never predicted
VOCABULARY = 9
FOUR = ["词性 是 动词", "判断 单词 的 词性", "磁性 很 强 的 磁铁", "北京 的 词性 是 名词"]  # LINEAGE, section 1

words = st.integers(3, VOCABULARY - 2) | st.just(UNKNOWN)  # the last id is in the vocabulary and never seen
texts = st.lists(st.lists(words, max_size=8), max_size=12)
contexts = st.lists(st.integers(0, VOCABULARY - 1), max_size=7)


def count(model: NgramModel, texts: Sequence[Sequence[int]]) -> NgramModel:
    """The model after one batch of these texts, each between two ends."""
    lengths = np.array([len(text) + 1 for text in texts], np.int64)
    tokens = np.array([token for text in texts for token in [model.end, *text]], np.int64)
    targets = np.array([token for text in texts for token in [*text, model.end]], np.int64)
    model.add_batch(tokens, lengths, targets)
    return model


def made(texts: Sequence[Sequence[int]], order: int, smoothing: str = "kneser-ney", **more: Any) -> NgramModel:
    model = NgramModel(order=order, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing=smoothing, **more)
    return count(model, texts)


def many(seed: int, size: int = 60) -> list[list[int]]:
    """Texts in which few words are frequent, long enough for n-grams that are seen one to four times."""
    rng = np.random.default_rng(seed)
    return [(3 + rng.geometric(0.5, rng.integers(1, 9)).clip(max=5) % 5).tolist() for _ in range(size)]


def four(smoothing: str, order: int = 2, k: float = 1.0) -> tuple[NgramModel, dict[str, int]]:
    """The four sentences of the lineage and the ids of their words."""
    sentences = [sentence.split() for sentence in FOUR]
    ids = {word: i for i, word in enumerate(["<unk>", "</s>", *sorted({word for mine in sentences for word in mine})])}
    model = NgramModel(order=order, vocabulary=len(ids), end=END, smoothing=smoothing, k=k)
    return count(model, [[ids[word] for word in mine] for mine in sentences]), ids


def probability(model: NgramModel, context: Sequence[int]) -> np.ndarray:
    """(V,) of what follows this row."""
    return np.exp(model.next_log_probs([np.array(context, np.int64)])[0])
