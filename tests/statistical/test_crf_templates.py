"""What a chain of labels looks at: templates as people write them, and how words are written."""

from __future__ import annotations

import pytest

from forebear.errors import InputError
from forebear.statistical.crf_features import parse_templates, shape, word_attributes


def test_templates_and_what_is_wrong_with_them():
    assert [str(one) for one in parse_templates("word[0],word[-1]+suffix2[+1]")] == ["word[0]", "word[-1]+suffix2[1]"]
    for wrong, what in (
        ("", "no template"),
        ("word", "is no template"),
        ("wurd[0]", "is no template"),
        ("word[9]", "further than 8"),
        ("word[0] word[0]", "twice"),
        ("word[0]+word[0]", "joins too much"),
    ):
        with pytest.raises(InputError, match=what):
            parse_templates(wrong)


def test_how_words_are_written():
    assert [shape(word) for word in ("Paris", "iPhone", "1998年", "U.S.", "，", "北京", "")] == [
        "Aa", "aAa", "0字", "A.A.", "p", "字", "",
    ]  # fmt: skip
    told = word_attributes("北京市")
    assert told[2:10] == ("北", "北京", "北京市", "", "市", "京市", "北京市", "")
