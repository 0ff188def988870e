"""A table of words says which of them to ask about first."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.vectors.table import COMMON, WordTable

FIRST = [*",.", *(f"the{'e' * number}" for number in range(COMMON - 2))]


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
def test_a_word_to_begin_with(words: list[str], expected: str | None):
    assert WordTable(words, np.zeros((len(words), 1), np.float32)).example == expected
