"""Words that a vocabulary lacks have numbers of their own, the same for the same word, spelled as its words are."""

from __future__ import annotations

import numpy as np

from forebear.text.spelling import Spelling
from forebear.text.training import train
from forebear.text.unlisted import numbered

TEXTS = ["The cat SAT", "", "a Zebra, a cat; 斑马 a zebra"]


def test_each_unknown_word_is_numbered_by_its_spelling():
    tokenizer = train("words", ["the cat sat, a; 猫"], lower=True)
    spelling = Spelling(tokenizer.tokens(), 12, tokenizer.roles)
    ids, counts = tokenizer.encode_many(TEXTS)
    found = np.split(numbered(tokenizer, spelling, TEXTS, ids, counts), np.cumsum(counts)[:-1])
    assert found[0].tolist() == ids[:3].tolist()  # all known
    assert [len(part) for part in found] == counts.tolist()
    size = tokenizer.size
    a, comma, cat, semicolon = (tokenizer.id(token) for token in ("a", ",", "cat", ";"))
    last = found[2].tolist()
    zebra = last[1]
    assert zebra >= size
    assert last == [a, zebra, comma, a, cat, semicolon, *last[6:-2], a, zebra]
    assert all(number >= size and number != zebra for number in last[6:-2])
    assert np.array_equal(spelling.rows(np.array([zebra]))[0], spelling.spelled("zebra"))
    assert spelling.longer() == []
    numbered(tokenizer, spelling, ["interminable"], *tokenizer.encode_many(["interminable"]))
    assert spelling.longer() == ["interminable"]  # ten bytes are read


def test_where_all_words_are_known_nothing_is_changed():
    tokenizer = train("words", ["the cat sat"])
    spelling = Spelling(tokenizer.tokens(), 12, tokenizer.roles)
    ids, counts = tokenizer.encode_many(["the cat"])
    assert numbered(tokenizer, spelling, ["the cat"], ids, counts) is ids
