"""Character ids of tokens: bytes between markers, in any script, truncated at the maximum word length."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.char_ids import (
    CHAR_PADDING,
    NUM_SYMBOLS,
    TEXT_END,
    TEXT_START,
    WORD_END,
    WORD_START,
    CharIds,
)

TOKENS = ["<s>", "</s>", "[UNK]", "cat", "银行", "a" * 9]
ROLES = {"start": 0, "end": 1, "unknown": 2}


def char_ids(max_length: int = 10) -> CharIds:
    return CharIds(TOKENS, max_length, ROLES)


def test_symbol_ids_are_those_of_the_published_files():
    """258 and 259 mark the begin and end of a word, 260 is padding: the published numbers less one."""
    assert (TEXT_START, TEXT_END, WORD_START, WORD_END, CHAR_PADDING) == (256, 257, 258, 259, 260)
    assert NUM_SYMBOLS == 261


def test_word_is_its_bytes_between_two_markers():
    assert char_ids().encode_word("cat").tolist() == [258, 99, 97, 116, 259, 260, 260, 260, 260, 260]
    assert char_ids().encode_word("").tolist() == [258, 259, *[260] * 8]
    assert char_ids().encode_word("银行").tolist() == [258, 0xE9, 0x93, 0xB6, 0xE8, 0xA1, 0x8C, 259, 260, 260]


def test_text_begin_and_end_have_their_own_symbols():
    rows = char_ids().char_rows(np.array([1, 0, 2]))
    assert rows[0].tolist() == [258, 257, 259, *[260] * 7]
    assert rows[1].tolist() == [258, 256, 259, *[260] * 7]
    assert rows[2].tolist() == [258, *b"[UNK]", 259, *[260] * 3]  # the unknown token is spelled like any word


def test_longer_words_are_truncated_and_listed():
    assert char_ids().char_rows(np.array([5]))[0].tolist() == [258, *b"a" * 8, 259]
    assert char_ids().truncated_ids().tolist() == [5]
    assert char_ids(11).truncated_ids().tolist() == []
    assert char_ids(7).truncated_ids().tolist() == [4, 5]  # two characters are six bytes, and five fit
    assert char_ids(7).char_rows(np.array([4]))[0].tolist() == [258, 0xE9, 0x93, 0xB6, 0xE8, 0xA1, 259]
    assert CharIds(["𠮷"], 5, {}).truncated_ids().tolist() == [0]  # four bytes, though one character


def test_oov_words_get_ids_after_the_vocabulary():
    ids = char_ids()
    oov_numbers = [ids.oov_id(word) for word in ("dog", "狗", "dog", "cats")]
    assert oov_numbers == [6, 7, 6, 8]
    for number, word in ((6, "dog"), (7, "狗"), (8, "cats")):
        assert ids.char_rows(np.array([number])).tolist() == [ids.encode_word(word).tolist()]
    many = [ids.oov_id(f"word {n}") for n in range(100)]  # more than the initial capacity
    assert many == list(range(9, 109))
    assert ids.char_rows(np.array([6, 3, 108])).tolist() == [
        ids.encode_word(text).tolist() for text in ("dog", "cat", "word 99")
    ]
    assert ids.size == len(TOKENS)


@given(words=st.lists(st.text(max_size=12), min_size=1, max_size=8), max_length=st.integers(4, 20))
def test_any_word_of_any_script_can_be_read_back(words: list[str], max_length: int):
    ids = CharIds(words, max_length, {})
    rows = ids.char_rows(np.arange(len(words)))
    assert rows.shape == (len(words), max_length)
    for number, (row, word) in enumerate(zip(rows.tolist(), words, strict=True)):
        end = row.index(WORD_END)
        assert row[0] == WORD_START
        assert set(row[end + 1 :]) <= {CHAR_PADDING}
        encoded = word.encode("utf-8", "replace")
        assert bytes(row[1:end]) == encoded[: max_length - 2]
        assert (number in ids.truncated_ids()) == (len(encoded) > max_length - 2)


def test_lone_surrogate_is_encoded_as_question_mark():
    assert char_ids().encode_word("a\ud800b").tolist()[:5] == [258, 97, 63, 98, 259]
