"""Streamed text: pieces join to the decoded text, characters come whole, stop strings are never shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.bpe import BYTE_OF_CHARACTER, token_bytes
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inference.stream_decode import TextStream

TEXTS = ["the cat's mat, “你好”…… 我喜欢 C++ (really)", "naïve 😀 words"]
TOKENIZERS = {
    "words": train_tokenizer("words", TEXTS, min_count=1),
    "spaces": train_tokenizer("words", TEXTS, min_count=1, split="spaces"),
    "characters": train_tokenizer("characters", TEXTS, min_count=1),
    "wordpiece": train_tokenizer("wordpiece", TEXTS, size=120, min_count=1),
    "bytepair": train_tokenizer("bytepair", TEXTS * 3, size=280, min_count=1),
}


def stream_pieces(tokenizer, prompt, ids, stop=()):
    stream = TextStream(tokenizer, prompt, stop)
    pieces = []
    for i in ids:
        pieces.append(stream.append(i))
        if stream.stopped:
            break
    pieces.append(stream.finish())
    assert "".join(pieces) == stream.text
    return pieces


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
def test_joined_pieces_equal_the_decoded_text(kind, data):
    tokenizer = TOKENIZERS[kind]
    text_ids = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids) + [
        i for i in [tokenizer.unk_id] if i is not None
    ]
    ids = st.lists(st.sampled_from(text_ids), max_size=12)
    prompt = tokenizer.encode(data.draw(st.sampled_from(["", "the", "你好", "the cat's (", "naïve 😀"]))).ids.tolist()
    continuation = data.draw(ids)
    decoded, decoded_prompt = tokenizer.decode([*prompt, *continuation]), tokenizer.decode(prompt)
    assert decoded.startswith(decoded_prompt)
    assert "".join(stream_pieces(tokenizer, prompt, continuation)) == decoded[len(decoded_prompt) :]


def test_character_is_streamed_only_with_all_its_bytes():
    tokenizer = TOKENIZERS["bytepair"]
    ids = [
        tokenizer.token_to_id(next(c for c, byte in BYTE_OF_CHARACTER.items() if byte == b)) for b in "你😀a".encode()
    ]
    pieces = stream_pieces(tokenizer, [], ids)
    assert pieces == ["", "", "你", "", "", "", "😀", "a", ""]
    assert stream_pieces(tokenizer, [], ids[:2])[-1] == "\ufffd"  # incomplete: shown as decoding shows it


def test_token_bytes_equal_those_of_the_library():
    tokenizer = TOKENIZERS["bytepair"]
    for i in sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids):
        assert token_bytes(tokenizer.id_to_token(i)).decode(errors="replace") == tokenizer.decode([i])
    assert len(BYTE_OF_CHARACTER) == len(set(BYTE_OF_CHARACTER.values())) == 256


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_stop_strings_are_cut_off_and_never_shown(text, stops):
    tokenizer = train_tokenizer("characters", ["ab"], min_count=1)
    pieces = stream_pieces(tokenizer, [], tokenizer.encode(text).ids.tolist(), stops)
    expected = text
    for n in range(len(text) + 1):  # the first moment at which the text holds one
        if any(stop in text[:n] for stop in stops):
            expected = text[: min(text[:n].find(stop) for stop in stops if stop in text[:n])]
            break
    assert "".join(pieces) == expected


def test_stop_string_may_cross_token_boundaries():
    tokenizer = TOKENIZERS["words"]
    ids = tokenizer.encode("the cat, really").ids.tolist()
    assert "".join(stream_pieces(tokenizer, [], ids, ["t, r"])) == "the ca"
    assert "".join(stream_pieces(tokenizer, [], ids, ["t,r"])) == tokenizer.decode(np.array(ids)) == "the cat, really"
