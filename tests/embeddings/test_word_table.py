"""Word tables: the example word and the mapping interface."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.embeddings.word_table import COMMON_WORDS, WordVectors

FIRST = [*",.", *(f"the{'e' * number}" for number in range(COMMON_WORDS - 2))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([*FIRST, "of", "1998", "--", "album", "season"], "album"),
        ([*FIRST, "的", "飓风", "album"], "飓风"),
        ([*FIRST, "的", "了"], "的"),
        ([",", "cat", "mouse", "house"], "mouse"),
        ([",", "cat"], "cat"),
        ([",", "."], ","),
        ([], None),
    ],
)
def test_word_table_example_is_a_frequent_content_word(words: list[str], expected: str | None):
    assert WordVectors(words, np.zeros((len(words), 1), np.float32)).example == expected


def test_word_vectors_support_len_in_getitem_and_repr():
    table = WordVectors(["cat", "Mat"], np.eye(2, dtype=np.float32))
    assert len(table) == 2
    assert "cat" in table
    assert "mat" not in table
    assert table["Mat"].tolist() == [0, 1]
    assert repr(table) == "WordVectors(2 words, width 2)"
    with pytest.raises(KeyError):
        table["dog"]
