"""Words that a vocabulary lacks have numbers of their own, the same for the same word, spelled as its words are."""

from __future__ import annotations

import numpy as np

from forebear.data.tokenizers.char_ids import CharIds, oov_ids
from forebear.data.tokenizers.train import train_tokenizer

TEXTS = ["The cat SAT", "", "a Zebra, a cat; 斑马 a zebra"]


def test_each_unknown_word_is_numbered_by_its_spelling():
    tokenizer = train_tokenizer("words", ["the cat sat, a; 猫"], lower=True)
    spelling = CharIds(tokenizer.vocabulary(), 12, tokenizer.special_roles)
    ids, counts = tokenizer.encode_many(TEXTS)
    found = np.split(oov_ids(tokenizer, spelling, TEXTS, ids, counts), np.cumsum(counts)[:-1])
    assert found[0].tolist() == ids[:3].tolist()  # all known
    assert [len(part) for part in found] == counts.tolist()
    size = tokenizer.vocab_size
    a, comma, cat, semicolon = (tokenizer.token_to_id(token) for token in ("a", ",", "cat", ";"))
    last = found[2].tolist()
    zebra = last[1]
    assert zebra >= size
    assert last == [a, zebra, comma, a, cat, semicolon, *last[6:-2], a, zebra]
    assert all(number >= size and number != zebra for number in last[6:-2])
    assert np.array_equal(spelling.char_rows(np.array([zebra]))[0], spelling.encode_word("zebra"))
    assert spelling.truncated_words() == []
    oov_ids(tokenizer, spelling, ["interminable"], *tokenizer.encode_many(["interminable"]))
    assert spelling.truncated_words() == ["interminable"]  # ten bytes are read


def test_where_all_words_are_known_nothing_is_changed():
    tokenizer = train_tokenizer("words", ["the cat sat"])
    spelling = CharIds(tokenizer.vocabulary(), 12, tokenizer.special_roles)
    ids, counts = tokenizer.encode_many(["the cat"])
    assert oov_ids(tokenizer, spelling, ["the cat"], ids, counts) is ids
