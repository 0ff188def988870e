"""Out-of-vocabulary words get ids of their own, equal for equal words, and are spelled like words of the vocabulary."""

from __future__ import annotations

import numpy as np

from forebear.data.tokenizers.char_ids import CharIds, oov_ids
from forebear.data.tokenizers.train import train_tokenizer

TEXTS = ["The cat SAT", "", "a Zebra, a cat; 斑马 a zebra"]


def test_oov_words_are_numbered_by_their_spelling():
    tokenizer = train_tokenizer("words", ["the cat sat, a; 猫"], lower=True)
    char_ids = CharIds(tokenizer.vocabulary(), 12, tokenizer.special_roles)
    ids, counts = tokenizer.encode_many(TEXTS)
    ids_by_text = np.split(oov_ids(tokenizer, char_ids, TEXTS, ids, counts), np.cumsum(counts)[:-1])
    assert ids_by_text[0].tolist() == ids[:3].tolist()  # all known
    assert [len(part) for part in ids_by_text] == counts.tolist()
    size = tokenizer.vocab_size
    a, comma, cat, semicolon = (tokenizer.token_to_id(token) for token in ("a", ",", "cat", ";"))
    last_ids = ids_by_text[2].tolist()
    zebra = last_ids[1]
    assert zebra >= size
    assert last_ids == [a, zebra, comma, a, cat, semicolon, *last_ids[6:-2], a, zebra]
    assert all(number >= size and number != zebra for number in last_ids[6:-2])
    assert np.array_equal(char_ids.char_rows(np.array([zebra]))[0], char_ids.encode_word("zebra"))
    assert char_ids.truncated_words() == []
    oov_ids(tokenizer, char_ids, ["interminable"], *tokenizer.encode_many(["interminable"]))
    assert char_ids.truncated_words() == ["interminable"]  # ten bytes are read


def test_ids_are_unchanged_where_all_words_are_known():
    tokenizer = train_tokenizer("words", ["the cat sat"])
    char_ids = CharIds(tokenizer.vocabulary(), 12, tokenizer.special_roles)
    ids, counts = tokenizer.encode_many(["the cat"])
    assert oov_ids(tokenizer, char_ids, ["the cat"], ids, counts) is ids
