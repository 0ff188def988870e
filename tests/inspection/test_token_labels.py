"""Token labels: one printable label per token, marks for continuation pieces, numbered parts of characters."""

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
def tokenizers() -> dict[str, Tokenizer]:
    return {
        kind: train_tokenizer(kind, [TEXT * 9], size=330) for kind in ("bytepair", "wordpiece", "words", "characters")
    }


def labels_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return list(token_labels(tokenizer, tokenizer.encode(text).ids.tolist()))


def test_wordpiece_continuations_are_labeled_with_a_middle_dot(tokenizers: dict[str, Tokenizer]):
    labels = labels_of(tokenizers["wordpiece"], "the catsat")
    assert labels[0] == "the"
    assert "".join(labels[1:]).replace("·", "") == "catsat"
    assert label_notes(labels) == [CONTINUATION_NOTE]
    assert all(label.startswith("·") for label in labels[2:])


def test_bytepair_labels_drop_leading_space_and_mark_continuations(tokenizers: dict[str, Tokenizer]):
    tokenizer = tokenizers["bytepair"]
    assert labels_of(tokenizer, "the cat sat")[:2] == ["the", "cat"]
    assert labels_of(tokenizer, "the catz")[-2:] == ["cat", "·z"]
    assert labels_of(tokenizer, "cat, the")[:3] == ["cat", ",", "the"]  # a comma starts a new word
    assert labels_of(tokenizer, "the  ")[-1] in ("␣", "␣␣")  # a token of spaces only shows them
    assert label_notes(labels_of(tokenizer, "北京 的 天气")) == []  # Chinese has no spaces: no continuation marks


def test_character_of_several_byte_tokens_is_labeled_with_numbered_parts(tokenizers: dict[str, Tokenizer]):
    tokenizer = tokenizers["bytepair"]
    assert labels_of(tokenizer, "cat é")[-2:] == ["é 1/2", "é 2/2"]
    assert label_notes(labels_of(tokenizer, "cat é")) == [SPLIT_CHARACTER_NOTE]
    parts = labels_of(tokenizer, "鑫")
    assert parts == [f"鑫 {part}/{len(parts)}" for part in range(1, len(parts) + 1)]
    assert len(parts) > 1
    first_byte = tokenizer.encode("鑫").ids.tolist()[:1]
    assert token_labels(tokenizer, first_byte)[0].startswith("‹")  # an incomplete character is shown by its bytes
    assert labels_of(tokenizer, "鑫a")[-1] == "a"
    assert labels_of(tokenizer, "éa")[-1] == "·a"


def test_special_tokens_are_labeled_by_their_role(tokenizers: dict[str, Tokenizer]):
    bytepair = tokenizers["bytepair"]
    end = bytepair.special_roles["end"]
    cat = bytepair.encode("cat").ids.tolist()
    assert token_labels(bytepair, [end, *cat, end])[:: len(cat) + 1] == ("(start)", "(end)")
    assert next_label(bytepair, [end], end) == "(end)"
    wordpiece = tokenizers["wordpiece"]
    sequence = [wordpiece.special_roles["start"], *wordpiece.encode("cat").ids.tolist(), wordpiece.special_roles["end"]]
    assert token_labels(wordpiece, sequence) == ("[CLS]", "cat", "[SEP]")
    assert token_labels(wordpiece, sequence, wordpiece.special_roles["end"])[-1] == "(end)"


def test_next_token_label_depends_on_the_preceding_token(tokenizers: dict[str, Tokenizer]):
    tokenizer = tokenizers["bytepair"]
    cat, z = tokenizer.encode("a cat").ids.tolist()[-1], tokenizer.encode("z").ids.tolist()[0]
    the = tokenizer.encode("the").ids.tolist()
    assert (next_label(tokenizer, the, cat), next_label(tokenizer, the, z)) == ("cat", "·z")
    assert next_label(tokenizer, [], z) == "z"


@given(st.text(max_size=30), st.sampled_from(["bytepair", "wordpiece", "words", "characters"]))
def test_every_token_has_a_printable_label(tokenizers: dict[str, Tokenizer], text: str, kind: str):
    ids = tokenizers[kind].encode(text).ids.tolist()
    labels = token_labels(tokenizers[kind], ids)
    assert len(labels) == len(ids)
    assert all(label and label.isprintable() for label in labels)
