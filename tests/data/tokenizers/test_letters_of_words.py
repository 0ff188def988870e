"""How tokens are spelled: bytes between marks, whatever the script, no further than is read."""

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


def spelling(longest: int = 10) -> CharIds:
    return CharIds(TOKENS, longest, ROLES)


def test_symbols_are_those_of_the_published_files():
    """258 and 259 are the marks of a word, 260 is what lies beyond it: the published numbers less one."""
    assert (TEXT_START, TEXT_END, WORD_START, WORD_END, CHAR_PADDING) == (256, 257, 258, 259, 260)
    assert NUM_SYMBOLS == 261


def test_a_word_is_its_bytes_between_two_marks():
    assert spelling().encode_word("cat").tolist() == [258, 99, 97, 116, 259, 260, 260, 260, 260, 260]
    assert spelling().encode_word("").tolist() == [258, 259, *[260] * 8]
    assert spelling().encode_word("银行").tolist() == [258, 0xE9, 0x93, 0xB6, 0xE8, 0xA1, 0x8C, 259, 260, 260]


def test_the_begin_and_the_end_of_a_text_have_symbols_of_their_own():
    rows = spelling().char_rows(np.array([1, 0, 2]))
    assert rows[0].tolist() == [258, 257, 259, *[260] * 7]
    assert rows[1].tolist() == [258, 256, 259, *[260] * 7]
    assert rows[2].tolist() == [258, *b"[UNK]", 259, *[260] * 3]  # what is unknown is a word as any other


def test_what_is_longer_is_read_as_far_as_it_fits_and_told():
    assert spelling().char_rows(np.array([5]))[0].tolist() == [258, *b"a" * 8, 259]
    assert spelling().truncated_ids().tolist() == [5]
    assert spelling(11).truncated_ids().tolist() == []
    assert spelling(7).truncated_ids().tolist() == [4, 5]  # two characters are six bytes, and five fit
    assert spelling(7).char_rows(np.array([4]))[0].tolist() == [258, 0xE9, 0x93, 0xB6, 0xE8, 0xA1, 259]
    assert CharIds(["𠮷"], 5, {}).truncated_ids().tolist() == [0]  # four bytes, though one character


def test_words_that_are_not_in_the_vocabulary_get_numbers_behind_it():
    own = spelling()
    numbers = [own.oov_id(word) for word in ("dog", "狗", "dog", "cats")]
    assert numbers == [6, 7, 6, 8]
    for number, word in ((6, "dog"), (7, "狗"), (8, "cats")):
        assert own.char_rows(np.array([number])).tolist() == [own.encode_word(word).tolist()]
    many = [own.oov_id(f"word {n}") for n in range(100)]  # more than there is room for at first
    assert many == list(range(9, 109))
    assert own.char_rows(np.array([6, 3, 108])).tolist() == [
        own.encode_word(one).tolist() for one in ("dog", "cat", "word 99")
    ]
    assert own.size == len(TOKENS)


@given(words=st.lists(st.text(max_size=12), min_size=1, max_size=8), longest=st.integers(4, 20))
def test_any_word_of_any_script_can_be_read_back(words: list[str], longest: int):
    own = CharIds(words, longest, {})
    rows = own.char_rows(np.arange(len(words)))
    assert rows.shape == (len(words), longest)
    for number, (row, word) in enumerate(zip(rows.tolist(), words, strict=True)):
        end = row.index(WORD_END)
        assert row[0] == WORD_START
        assert set(row[end + 1 :]) <= {CHAR_PADDING}
        written = word.encode("utf-8", "replace")
        assert bytes(row[1:end]) == written[: longest - 2]
        assert (number in own.truncated_ids()) == (len(written) > longest - 2)


def test_half_a_pair_of_a_broken_text_is_spelled_too():
    assert spelling().encode_word("a\ud800b").tolist()[:5] == [258, 97, 63, 98, 259]
