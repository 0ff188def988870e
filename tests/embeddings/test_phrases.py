"""Phrases: what stands together more often than by chance is one, joined from the left, and never across rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.phrases import PhraseModel, PhraseTable
from forebear.embeddings.word2vec import Word2VecModel
from small_portions import portion_of


def plainly(row: list[int], pairs: dict[tuple[int, int], int]) -> list[int]:
    """One pass over a row, word by word: the readable twin."""
    made, at = [], 0
    while at < len(row):
        if at + 1 < len(row) and (row[at], row[at + 1]) in pairs:
            made.append(pairs[row[at], row[at + 1]])
            at += 2
        else:
            made.append(row[at])
            at += 1
    return made


@given(
    rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=5),
    pairs=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
)
def test_rows_are_joined_as_by_hand(rows: list[list[int]], pairs: set[tuple[int, int]]):
    known = sorted(pairs)
    phrases = PhraseTable(5, np.array(known, np.int64), (len(known),))
    tokens, lengths = phrases.join(np.concatenate(rows).astype(np.int32), np.array([len(row) for row in rows]))
    expected = [plainly(row, {pair: 5 + number for number, pair in enumerate(known)}) for row in rows]
    assert tokens.tolist() == [token for row in expected for token in row]
    assert lengths.tolist() == [len(row) for row in expected]


def test_a_second_pass_joins_what_the_first_made():
    phrases = PhraseTable(3, np.array([[0, 1], [3, 2]], np.int64), (1, 2))
    tokens, lengths = phrases.join(np.array([0, 1, 2, 0, 1], np.int32), np.array([5]))
    assert tokens.tolist() == [4, 3]
    assert lengths.tolist() == [2]
    assert phrases.phrase_names(["new", "york", "city"]) == ["new york", "new york city"]
    assert phrases.phrase_names(["人工", "智能", "学"]) == ["人工智能", "人工智能学"]


def test_words_that_belong_together_are_found(tmp_path: Path):
    texts = [f"we saw new york on day {n} and day {n} was new for us in york shire" for n in range(30)]
    texts += [f"on day {n} new york was a city of day and us and we" for n in range(200, 230)]
    (tmp_path / "text.txt").write_text("\n\n".join(texts))
    tokenizer = train_tokenizer("words", texts)
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, to=tmp_path / "corpus")
    never = np.zeros(tokenizer.vocab_size + 1, bool)
    never[list(tokenizer.special_ids)] = True
    phrases = PhraseTable.empty(tokenizer.vocab_size)
    assert phrases.count(corpus.all_documents()).sum() == len(corpus.ids)
    found = phrases.learn(corpus.all_documents(), never)
    # by hand: "york shire" 30 times; york 90, shire 30 of the tokens: (30 - 5) · N / (90 · 30)
    total = len(corpus.ids)
    assert ("york shire" in found.phrase_names(tokenizer.vocabulary())) == (25 * total / (90 * 30) > 100)
    everything = found.count(corpus.all_documents())
    joined = everything[tokenizer.vocab_size :]
    assert everything[: tokenizer.vocab_size].sum() + 2 * joined.sum() == len(corpus.ids)


def vectors_of(text: list[list[int]], tokens: list[str], **joining: int) -> PhraseModel:
    def make(words: Sequence[str]) -> Word2VecModel:
        how: dict[str, Any] = {"width": 2, "window": 1, "architecture": "skipgram", "output": "negatives"}
        return Word2VecModel(vocabulary=len(words), never=[], **how)

    made = PhraseModel(make, tokens=tokens, never=[], **joining)
    made.prepass(portion_of([[row] for row in text]))
    return made


def test_only_phrases_that_have_a_vector_are_told():
    """Each time that new and york stand together they are a part of new york city, which is another word."""
    tokens, others = ["new", "york", "city", *(f"w{n}" for n in range(4000))], list(range(3, 4003))
    text = [[0, 1, 2, *others[part::20]] for part in range(20)]
    made = vectors_of(text, tokens, passes=2)
    assert made.phrases.phrase_names(tokens) == ["new york", "york city", "new york city"]
    assert made.notes == [
        "1 phrases are words of their own (new york city …); 2 more stand in others, or too seldom by themselves"
    ]
    assert made.describe()["phrases"] == 1
    assert {"new york city", "new york"} & set(made.word_table(tokens).words) == {"new york city"}


def test_what_is_seen_too_seldom_for_a_word_is_no_phrase():
    tokens, others = ["new", "york", *(f"w{n}" for n in range(4000))], list(range(2, 4002))
    text = [[0, 1, *others[part::20]] for part in range(20)]
    assert len(vectors_of(text, tokens, passes=1, min_count=20).phrases.pairs) == 1
    assert len(vectors_of(text, tokens, passes=1, min_count=21).phrases.pairs) == 0
