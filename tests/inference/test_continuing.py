"""Text piece by piece is the text: characters whole, stop strings never shown, spaces as between words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.train import train_tokenizer
from forebear.inference.stream_decode import BYTE_OF_CHARACTER, TextStream, token_bytes

TEXTS = ["the cat's mat, “你好”…… 我喜欢 C++ (really)", "naïve 😀 words"]
TOKENIZERS = {
    "words": train_tokenizer("words", TEXTS, min_count=1),
    "spaces": train_tokenizer("words", TEXTS, min_count=1, split="spaces"),
    "characters": train_tokenizer("characters", TEXTS, min_count=1),
    "wordpiece": train_tokenizer("wordpiece", TEXTS, size=120, min_count=1),
    "bytepair": train_tokenizer("bytepair", TEXTS * 3, size=280, min_count=1),
}


def heard(tokenizer, prompt, ids, stop=()):
    continuation = TextStream(tokenizer, prompt, stop)
    pieces = []
    for i in ids:
        pieces.append(continuation.append(i))
        if continuation.stopped:
            break
    pieces.append(continuation.finish())
    assert "".join(pieces) == continuation.text
    return pieces


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
def test_pieces_joined_are_what_decoding_gives(kind, data):
    tokenizer = TOKENIZERS[kind]
    plain = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids) + [
        i for i in [tokenizer.unk_id] if i is not None
    ]
    ids = st.lists(st.sampled_from(plain), max_size=12)
    prompt = tokenizer.encode(data.draw(st.sampled_from(["", "the", "你好", "the cat's (", "naïve 😀"]))).ids.tolist()
    following = data.draw(ids)
    whole, before = tokenizer.decode([*prompt, *following]), tokenizer.decode(prompt)
    assert whole.startswith(before)
    assert "".join(heard(tokenizer, prompt, following)) == whole[len(before) :]


def test_a_character_waits_for_all_its_bytes():
    tokenizer = TOKENIZERS["bytepair"]
    ids = [
        tokenizer.token_to_id(next(c for c, byte in BYTE_OF_CHARACTER.items() if byte == b)) for b in "你😀a".encode()
    ]
    pieces = heard(tokenizer, [], ids)
    assert pieces == ["", "", "你", "", "", "", "😀", "a", ""]
    assert heard(tokenizer, [], ids[:2])[-1] == "\ufffd"  # it never came: shown as decoding shows it


def test_bytes_are_those_of_the_library():
    tokenizer = TOKENIZERS["bytepair"]
    for i in sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids):
        assert token_bytes(tokenizer.id_to_token(i)).decode(errors="replace") == tokenizer.decode([i])
    assert len(BYTE_OF_CHARACTER) == len(set(BYTE_OF_CHARACTER.values())) == 256


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_stop_strings_are_cut_off_and_never_shown(text, stops):
    tokenizer = train_tokenizer("characters", ["ab"], min_count=1)
    pieces = heard(tokenizer, [], tokenizer.encode(text).ids.tolist(), stops)
    expected = text
    for n in range(len(text) + 1):  # the first moment at which the text holds one
        if any(stop in text[:n] for stop in stops):
            expected = text[: min(text[:n].find(stop) for stop in stops if stop in text[:n])]
            break
    assert "".join(pieces) == expected


def test_a_stop_string_may_cross_the_borders_of_tokens():
    words = TOKENIZERS["words"]
    ids = words.encode("the cat, really").ids.tolist()
    assert "".join(heard(words, [], ids, ["t, r"])) == "the ca"
    assert "".join(heard(words, [], ids, ["t,r"])) == words.decode(np.array(ids)) == "the cat, really"
