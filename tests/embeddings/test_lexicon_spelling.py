"""Lexicon lookup of other spellings: case, phrases and typing errors."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.embeddings.lexicon import Lexicon, edit_distances, spelling_suggestions
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError


@pytest.mark.parametrize("separator", [" ", "_"])
def test_lexicon_finds_phrases_in_any_case_and_with_any_separator(separator: str):
    words = ["a", f"New{separator}York", "NATO", "Nato", "_", "New"]
    lexicon = Lexicon(WordVectors(words, np.eye(6, dtype=np.float32)))
    for text in ("New York", "New_York", "new york", "new_york", "NEW_YORK", "New  York"):
        match = lexicon.find(text)
        assert (match.rows, match.note) == ((1,), "" if text == words[1] else f"as {words[1]!r}"), text
    assert lexicon.find("nato").rows == (2,)  # the more frequent spelling
    assert lexicon.find("Nato").rows == (3,)
    assert lexicon.find("NEW A").rows == (5, 0)
    assert lexicon.find("_").rows == (4,)
    with pytest.raises(InputError, match="no vector for 'york'"):
        lexicon.find("york")
    with pytest.raises(InputError, match="has no words"):
        lexicon.find(" ")


def test_spelling_suggestions_are_close_words_and_fast_in_a_large_vocabulary():
    words = [f"{a}{b}{c}" for a in ("con", "pre", "re", "un") for b in range(25_000) for c in ("ing", "ed")]
    start = time.monotonic()
    assert spelling_suggestions("kingg", ["king", "queen", "kings", "ring", "King"]) == ["king", "kings", "King"]
    assert spelling_suggestions("wmoan", ["loan", "Joan", "moon", "woman", "women", "Bowman"]) == ["woman"]
    assert spelling_suggestions("recieve", ["relive", "receive", "believe", "achieve"]) == ["receive"]
    assert spelling_suggestions("internationally", ["nation", "international", "internally"]) == ["international"]
    assert (
        spelling_suggestions("of", ["no", "it"])
        == spelling_suggestions("x", ["a", "I"])
        == spelling_suggestions("", ["a"])
        == spelling_suggestions("a" * 99, ["a"])
        == []
    )
    assert spelling_suggestions("北京大", ["天津", "北京大学", "北京", "大"]) == ["北京大学", "北京"]
    assert spelling_suggestions("qqqq", words) == []
    assert time.monotonic() - start < 10  # usually far less: a bound for a busy machine


def alignment_distance(word: str, other: str) -> int:
    """Optimal string alignment distance by its recursive definition."""
    if not word or not other:
        return len(word) + len(other)
    distance = min(alignment_distance(word[:-1], other) + 1, alignment_distance(word, other[:-1]) + 1)
    distance = min(distance, alignment_distance(word[:-1], other[:-1]) + (word[-1] != other[-1]))
    if word[-2:] == other[-2:][::-1] and len(word) > 1 and len(other) > 1:
        distance = min(distance, alignment_distance(word[:-2], other[:-2]) + 1)
    return distance


@given(st.text("abc", max_size=5), st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=6))
def test_edit_distances_equal_recursive_definition(word: str, others: list[str]):
    assert edit_distances(word, others).tolist() == [alignment_distance(word, other) for other in others]
