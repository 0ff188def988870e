"""Words that are not written as the vocabulary has them: other capitals, phrases, and slips of the hand."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.embeddings.lexicon import Lexicon, edit_distances, spelling_suggestions
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError


@pytest.mark.parametrize("between", [" ", "_"])
def test_phrases_and_capitals_are_found_however_they_are_written(between: str):
    words = ["a", f"New{between}York", "NATO", "Nato", "_", "New"]
    lexicon = Lexicon(WordVectors(words, np.eye(6, dtype=np.float32)))
    for text in ("New York", "New_York", "new york", "new_york", "NEW_YORK", "New  York"):
        found = lexicon.find(text)
        assert (found.rows, found.note) == ((1,), "" if text == words[1] else f"as {words[1]!r}"), text
    assert lexicon.find("nato").rows == (2,)  # the more frequent
    assert lexicon.find("Nato").rows == (3,)
    assert lexicon.find("NEW A").rows == (5, 0)
    assert lexicon.find("_").rows == (4,)
    with pytest.raises(InputError, match="no vector for 'york'"):
        lexicon.find("york")
    with pytest.raises(InputError, match="has no words"):
        lexicon.find(" ")


def test_words_spelled_alike_are_found_quickly_in_a_large_vocabulary():
    words = [f"{a}{b}{c}" for a in ("con", "pre", "re", "un") for b in range(25_000) for c in ("ing", "ed")]
    began = time.monotonic()
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
    assert time.monotonic() - began < 10  # far less, but not on a busy machine


def slips(word: str, other: str) -> int:
    """Optimal string alignment as it is defined."""
    if not word or not other:
        return len(word) + len(other)
    least = min(slips(word[:-1], other) + 1, slips(word, other[:-1]) + 1)
    least = min(least, slips(word[:-1], other[:-1]) + (word[-1] != other[-1]))
    if word[-2:] == other[-2:][::-1] and len(word) > 1 and len(other) > 1:
        least = min(least, slips(word[:-2], other[:-2]) + 1)
    return least


@given(st.text("abc", max_size=5), st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=6))
def test_slips_are_counted_as_they_are_defined(word: str, others: list[str]):
    assert edit_distances(word, others).tolist() == [slips(word, other) for other in others]
