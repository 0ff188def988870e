"""Small corpora of ids and n-gram models counted on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from forebear.statistical.ngram.language_model import NgramModel

UNKNOWN, END, PADDING = 0, 1, 2  # PADDING is never predicted
VOCABULARY = 9
LINEAGE_SENTENCES = [
    "词性 是 动词",
    "判断 单词 的 词性",
    "磁性 很 强 的 磁铁",
    "北京 的 词性 是 名词",
]  # LINEAGE, section 1

words = st.integers(3, VOCABULARY - 2) | st.just(UNKNOWN)  # the last id is in the vocabulary and never occurs
text_lists = st.lists(st.lists(words, max_size=8), max_size=12)
contexts = st.lists(st.integers(0, VOCABULARY - 1), max_size=7)


def count(model: NgramModel, text_lists: Sequence[Sequence[int]]) -> NgramModel:
    """The model after one batch of these texts, each between two end tokens."""
    lengths = np.array([len(text) + 1 for text in text_lists], np.int64)
    tokens = np.array([token for text in text_lists for token in [model.eos_id, *text]], np.int64)
    targets = np.array([token for text in text_lists for token in [*text, model.eos_id]], np.int64)
    model.add_batch(tokens, lengths, targets)
    return model


def counted_model(
    text_lists: Sequence[Sequence[int]], order: int, smoothing: str = "kneser-ney", **options: Any
) -> NgramModel:
    model = NgramModel(
        order=order, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing=smoothing, **options
    )
    return count(model, text_lists)


def skewed_texts(seed: int, size: int = 60) -> list[list[int]]:
    """Texts with few frequent words, long enough for n-grams with counts of one to four."""
    rng = np.random.default_rng(seed)
    return [(3 + rng.geometric(0.5, rng.integers(1, 9)).clip(max=5) % 5).tolist() for _ in range(size)]


def lineage_model(smoothing: str, order: int = 2, k: float = 1.0) -> tuple[NgramModel, dict[str, int]]:
    """The four sentences of the lineage and the ids of their words."""
    sentences = [sentence.split() for sentence in LINEAGE_SENTENCES]
    ids = {
        word: i
        for i, word in enumerate(
            ["<unk>", "</s>", *sorted({word for sentence_words in sentences for word in sentence_words})]
        )
    }
    model = NgramModel(order=order, vocab_size=len(ids), eos_id=END, smoothing=smoothing, k=k)
    return count(model, [[ids[word] for word in sentence_words] for sentence_words in sentences]), ids


def next_probs(model: NgramModel, context: Sequence[int]) -> np.ndarray:
    """(V,) probabilities of the next token after this context."""
    return np.exp(model.next_log_probs([np.array(context, np.int64)])[0])
