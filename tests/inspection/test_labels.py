"""Labels of tokens: as people read them, one for each, and what is a part says of what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inspection.token_labels import (
    CONTINUATION_NOTE,
    SPLIT_CHARACTER_NOTE,
    label_notes,
    next_label,
    token_labels,
)

TEXT = "the cat sat, the cats sat: a cat's mat. 北京的天气很好 the cat\n"


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    return {
        kind: train_tokenizer(kind, [TEXT * 9], size=330) for kind in ("bytepair", "wordpiece", "words", "characters")
    }


def told(cutter: Tokenizer, text: str) -> list[str]:
    return list(token_labels(cutter, cutter.encode(text).ids.tolist()))


def test_pieces_of_wordpiece_have_a_point_instead_of_hashes(cutters: dict[str, Tokenizer]):
    found = told(cutters["wordpiece"], "the catsat")
    assert found[0] == "the"
    assert "".join(found[1:]).replace("·", "") == "catsat"
    assert label_notes(found) == [CONTINUATION_NOTE]
    assert all(name.startswith("·") for name in found[2:])


def test_pieces_of_bytes_have_no_sign_for_a_space_before_a_word(cutters: dict[str, Tokenizer]):
    cutter = cutters["bytepair"]
    assert told(cutter, "the cat sat")[:2] == ["the", "cat"]
    assert told(cutter, "the catz")[-2:] == ["cat", "·z"]
    assert told(cutter, "cat, the")[:3] == ["cat", ",", "the"]  # behind a comma nothing goes on
    assert told(cutter, "the  ")[-1] in ("␣", "␣␣")  # of spaces alone they are all there is
    assert label_notes(told(cutter, "北京 的 天气")) == []  # Chinese has no spaces, and nothing to be joined


def test_a_character_of_several_pieces_is_named_in_each(cutters: dict[str, Tokenizer]):
    cutter = cutters["bytepair"]
    assert told(cutter, "cat é")[-2:] == ["é 1/2", "é 2/2"]
    assert label_notes(told(cutter, "cat é")) == [SPLIT_CHARACTER_NOTE]
    three = told(cutter, "鑫")
    assert three == [f"鑫 {part}/{len(three)}" for part in range(1, len(three) + 1)]
    assert len(three) > 1
    half = cutter.encode("鑫").ids.tolist()[:1]
    assert token_labels(cutter, half)[0].startswith("‹")  # the rest is not there: its bytes
    assert told(cutter, "鑫a")[-1] == "a"
    assert told(cutter, "éa")[-1] == "·a"


def test_what_stands_around_texts(cutters: dict[str, Tokenizer]):
    cutter = cutters["bytepair"]
    end = cutter.special_roles["end"]
    cat = cutter.encode("cat").ids.tolist()
    assert token_labels(cutter, [end, *cat, end])[:: len(cat) + 1] == ("(start)", "(end)")
    assert next_label(cutter, [end], end) == "(end)"
    pieces = cutters["wordpiece"]
    row = [pieces.special_roles["start"], *pieces.encode("cat").ids.tolist(), pieces.special_roles["end"]]
    assert token_labels(pieces, row) == ("[CLS]", "cat", "[SEP]")
    assert token_labels(pieces, row, pieces.special_roles["end"])[-1] == "(end)"


def test_a_candidate_is_told_by_what_it_follows(cutters: dict[str, Tokenizer]):
    cutter = cutters["bytepair"]
    cat, joined = cutter.encode("a cat").ids.tolist()[-1], cutter.encode("z").ids.tolist()[0]
    the = cutter.encode("the").ids.tolist()
    assert (next_label(cutter, the, cat), next_label(cutter, the, joined)) == ("cat", "·z")
    assert next_label(cutter, [], joined) == "z"


@given(st.text(max_size=30), st.sampled_from(["bytepair", "wordpiece", "words", "characters"]))
def test_every_token_has_a_label_that_prints(cutters: dict[str, Tokenizer], text: str, kind: str):
    ids = cutters[kind].encode(text).ids.tolist()
    found = token_labels(cutters[kind], ids)
    assert len(found) == len(ids)
    assert all(name and name.isprintable() for name in found)
