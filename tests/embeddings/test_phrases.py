"""Phrases: frequent collocations are joined into one token, from the left, never across rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.phrases import PhraseTable
from forebear.embeddings.word2vec import Word2VecModel
from forebear.embeddings.word2vec_with_phrases import PhraseModel
from small_subsets import subset_of


def join_reference(row: list[int], pairs: dict[tuple[int, int], int]) -> list[int]:
    """The reference implementation: one pass over a row, token by token."""
    joined, position = [], 0
    while position < len(row):
        if position + 1 < len(row) and (row[position], row[position + 1]) in pairs:
            joined.append(pairs[row[position], row[position + 1]])
            position += 2
        else:
            joined.append(row[position])
            position += 1
    return joined


@given(
    rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=5),
    pairs=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
)
def test_phrase_join_equals_reference_implementation(rows: list[list[int]], pairs: set[tuple[int, int]]):
    pair_list = sorted(pairs)
    phrases = PhraseTable(5, np.array(pair_list, np.int64), (len(pair_list),))
    tokens, lengths = phrases.join(np.concatenate(rows).astype(np.int32), np.array([len(row) for row in rows]))
    expected = [join_reference(row, {pair: 5 + index for index, pair in enumerate(pair_list)}) for row in rows]
    assert tokens.tolist() == [token for row in expected for token in row]
    assert lengths.tolist() == [len(row) for row in expected]


def test_second_phrase_pass_joins_phrases_of_the_first():
    phrases = PhraseTable(3, np.array([[0, 1], [3, 2]], np.int64), (1, 2))
    tokens, lengths = phrases.join(np.array([0, 1, 2, 0, 1], np.int32), np.array([5]))
    assert tokens.tolist() == [4, 3]
    assert lengths.tolist() == [2]
    assert phrases.phrase_names(["new", "york", "city"]) == ["new york", "new york city"]
    assert phrases.phrase_names(["人工", "智能", "学"]) == ["人工智能", "人工智能学"]


def test_phrases_are_learned_by_collocation_score_and_counts_are_preserved(tmp_path: Path):
    texts = [f"we saw new york on day {n} and day {n} was new for us in york shire" for n in range(30)]
    texts += [f"on day {n} new york was a city of day and us and we" for n in range(200, 230)]
    (tmp_path / "text.txt").write_text("\n\n".join(texts))
    tokenizer = train_tokenizer("words", texts)
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, to=tmp_path / "corpus")
    never = np.zeros(tokenizer.vocab_size + 1, bool)
    never[list(tokenizer.special_ids)] = True
    phrases = PhraseTable.empty(tokenizer.vocab_size)
    assert phrases.count(corpus.all_documents()).sum() == len(corpus.ids)
    learned = phrases.learn(corpus.all_documents(), never)
    # "york shire" occurs 30 times, york 90, shire 30: score (30 - 5) · N / (90 · 30)
    total = len(corpus.ids)
    assert ("york shire" in learned.phrase_names(tokenizer.vocabulary())) == (25 * total / (90 * 30) > 100)
    counts = learned.count(corpus.all_documents())
    phrase_counts = counts[tokenizer.vocab_size :]
    assert counts[: tokenizer.vocab_size].sum() + 2 * phrase_counts.sum() == len(corpus.ids)


def phrase_model(text: list[list[int]], tokens: list[str], **joining: int) -> PhraseModel:
    def make(words: Sequence[str]) -> Word2VecModel:
        settings: dict[str, Any] = {"width": 2, "window": 1, "architecture": "skipgram", "output": "negatives"}
        return Word2VecModel(vocab_size=len(words), excluded_ids=[], **settings)

    model = PhraseModel(make, tokens=tokens, excluded_ids=[], **joining)
    model.run_first_pass(subset_of([[row] for row in text]))
    return model


def test_phrase_model_lists_only_phrases_with_a_vector():
    """Every "new york" is part of "new york city", so it never gets a vector of its own."""
    tokens, others = ["new", "york", "city", *(f"w{n}" for n in range(4000))], list(range(3, 4003))
    text = [[0, 1, 2, *others[start::20]] for start in range(20)]
    model = phrase_model(text, tokens, passes=2)
    assert model.phrases.phrase_names(tokens) == ["new york", "york city", "new york city"]
    assert model.notes == [
        "1 phrases are words of their own (new york city …); 2 more stand in others, or too seldom by themselves"
    ]
    assert model.describe()["phrases"] == 1
    assert {"new york city", "new york"} & set(model.word_table(tokens).words) == {"new york city"}


def test_phrases_below_min_count_are_not_joined():
    tokens, others = ["new", "york", *(f"w{n}" for n in range(4000))], list(range(2, 4002))
    text = [[0, 1, *others[start::20]] for start in range(20)]
    assert len(phrase_model(text, tokens, passes=1, min_count=20).phrases.pairs) == 1
    assert len(phrase_model(text, tokens, passes=1, min_count=21).phrases.pairs) == 0
