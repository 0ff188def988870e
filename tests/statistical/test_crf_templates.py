"""CRF feature templates: their syntax, and attributes of words."""

from __future__ import annotations

import pytest

from forebear.errors import InputError
from forebear.statistical.crf_features import parse_templates, shape, word_attributes


def test_templates_are_parsed_and_invalid_ones_refused():
    assert [str(template) for template in parse_templates("word[0],word[-1]+suffix2[+1]")] == [
        "word[0]",
        "word[-1]+suffix2[1]",
    ]
    for text, message in (
        ("", "no template"),
        ("word", "is no template"),
        ("wurd[0]", "is no template"),
        ("word[9]", "further than 8"),
        ("word[0] word[0]", "twice"),
        ("word[0]+word[0]", "joins too much"),
    ):
        with pytest.raises(InputError, match=message):
            parse_templates(text)


def test_shapes_and_attributes_of_words():
    assert [shape(word) for word in ("Paris", "iPhone", "1998年", "U.S.", "，", "北京", "")] == [
        "Aa", "aAa", "0字", "A.A.", "p", "字", "",
    ]  # fmt: skip
    attributes = word_attributes("北京市")
    assert attributes[2:10] == ("北", "北京", "北京市", "", "市", "京市", "北京市", "")
