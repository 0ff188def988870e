"""Vectors of texts and words: beside numpy on the states of the model, row by row."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.inference.embed import embed_with_words, parse_layers
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.nn.model import Model

pytestmark = pytest.mark.usefixtures("one_thread")
CONTEXT = 14
TEXTS = ["the cat sat", "a", "我很喜欢你", "the dog sat on the log"]


def model_of(tokenizer: Tokenizer, milestone: type = BertSpec, context: int = CONTEXT) -> Model:
    model = milestone(width=16, depth=3, heads=2, context=context).build(tokenizer).initialize(2)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(6)
    return model


@torch.inference_mode()
def states(model: Model, tokenizer: Tokenizer, ids: np.ndarray, layer: int = -1) -> np.ndarray:
    """(n + 2, D) of [start, ids, end], or (n + 1, D) of [end, ids] where a model only looks back: so do
    the documents begin that it learned from."""
    roles = tokenizer.special_roles
    tail = [roles["end"]] if model.encoder.sees == "all" else []
    row = torch.tensor([roles["start" if tail else "end"], *np.asarray(ids).tolist(), *tail])
    return model.eval().encoder(row, [len(row)]).layers[layer].double().numpy()


def scaled(vector: np.ndarray) -> np.ndarray:
    return vector / math.sqrt((vector**2).sum())


def ids_of(tokenizer: Tokenizer, text: str) -> np.ndarray:
    return tokenizer.encode(text).ids


# -- pooling and layers

POOLING = {
    "mean": lambda rows: rows.mean(axis=0),
    "max": lambda rows: rows.max(axis=0),
    "first": lambda rows: rows[0],
    "last": lambda rows: rows[-1],
}


@pytest.mark.parametrize("milestone", [BertSpec, GPT2Spec])
@pytest.mark.parametrize("pooling", POOLING)
def test_a_text_s_vector_is_pooled_from_its_row(cutters: dict[str, Tokenizer], milestone: type, pooling: str):
    tokenizer = cutters["bytepair"]
    model = model_of(tokenizer, milestone, context=24)
    for layer in (-1, 0, 1, 3, -4):
        told = embed_with_words(model, tokenizer, TEXTS, layers=layer, pooling=pooling, normalise=False)
        for text, one in zip(TEXTS, told, strict=True):
            expected = POOLING[pooling](states(model, tokenizer, ids_of(tokenizer, text), layer))
            assert one.vector == pytest.approx(expected, abs=1e-5)
            assert (one.text, one.tokens, one.num_truncated) == (text, len(ids_of(tokenizer, text)), 0)
            assert one.words is None


def test_every_kind_of_token_has_vectors(cutter: Tokenizer):
    model = model_of(cutter, context=30)
    for text, one in zip(TEXTS, embed_with_words(model, cutter, TEXTS), strict=True):
        assert one.vector == pytest.approx(scaled(states(model, cutter, ids_of(cutter, text)).mean(axis=0)), abs=1e-5)
        json.dumps(one.to_dict(), allow_nan=False)


def test_layers_are_mixed_by_their_weights(words: Tokenizer):
    model = model_of(words)
    rows = [states(model, words, ids_of(words, "the cat sat"), layer) for layer in range(4)]
    for layers, expected in (
        (2, rows[2]),
        ([0, 1, 2, 3], sum(rows) / 4),
        ([1, -1], (rows[1] + rows[3]) / 2),
        ((-1, 3), rows[3]),
        ({1: 0.5, 3: 2.0}, 0.5 * rows[1] + 2 * rows[3]),
        ({-1: -1.0}, -rows[3]),
    ):
        told = embed_with_words(model, words, "the cat sat", layers=layers, normalise=False)[0].vector
        assert told == pytest.approx(expected.mean(axis=0), abs=1e-5), layers


def test_a_layer_that_is_named_twice_counts_twice(words: Tokenizer):
    model = model_of(words)
    one, two = (states(model, words, ids_of(words, "the cat sat"), layer) for layer in (1, 2))
    for layers, expected in (([1, 1], one), ([1, 1, 2], (2 * one + two) / 3)):
        told = embed_with_words(model, words, "the cat sat", layers=layers, normalise=False)[0].vector
        assert told == pytest.approx(expected.mean(axis=0), abs=1e-5), layers


def test_layers_as_they_are_written():
    assert parse_layers("-1") == [-1]
    assert parse_layers("1, 2,3") == [1, 2, 3]
    assert parse_layers("2:0.5,4:1.5") == {2: 0.5, 4: 1.5}
    for wrong in ("", "one", "1,2:0.5", "1:2:3", "1;2"):
        with pytest.raises(InputError) as caught:
            parse_layers(wrong)
        assert caught.value.hint


@pytest.mark.parametrize(
    "how",
    [
        {"layers": 4},
        {"layers": -5},
        {"layers": [0, 9]},
        {"layers": []},
        {"layers": {}},
        {"layers": {1: math.nan}},
        {"layers": {1: math.inf}},
        {"pooling": "median"},
        {"long": "cut"},
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(words: Tokenizer, how: dict):
    with pytest.raises(InputError) as caught:
        embed_with_words(model_of(words), words, "the cat", **how)
    assert caught.value.hint


def test_a_text_without_tokens_is_refused_by_its_number(words: Tokenizer):
    for empty in ("", "  \n"):
        with pytest.raises(InputError, match="no tokens") as caught:
            embed_with_words(model_of(words), words, ["the cat", empty, "a"])
        assert caught.value.line == 2
    assert embed_with_words(model_of(words), words, []) == []


def test_vectors_have_length_one_if_asked_for(cutter: Tokenizer):
    model = model_of(cutter, context=30)
    plain, normed = (embed_with_words(model, cutter, TEXTS, words=True, normalise=how) for how in (False, True))
    for one, other in zip(plain, normed, strict=True):
        assert math.sqrt((other.vector**2).sum()) == pytest.approx(1, abs=1e-6)
        assert scaled(one.vector) == pytest.approx(other.vector, abs=1e-6)
        for word, same in zip(one.words or (), other.words or (), strict=True):
            assert scaled(word.vector) == pytest.approx(same.vector, abs=1e-6)


def test_a_vector_of_nothing_stays_nothing(words: Tokenizer):
    told = embed_with_words(model_of(words), words, "the cat", layers={0: 0.0})[0].vector
    assert told.tolist() == [0.0] * 16


def test_many_texts_have_the_vectors_they_have_alone(words: Tokenizer):
    """Of different lengths and in any order, more than are read at once."""
    model, rng = model_of(words), np.random.default_rng(0)
    texts = [" ".join(rng.choice(["the", "cat", "sat", "dog", "a"], n)) for n in rng.integers(1, 12, 1200)]
    told = embed_with_words(model, words, texts)
    for number in (0, 1, 600, 1199):
        assert told[number].text == texts[number]
        assert told[number].vector == pytest.approx(embed_with_words(model, words, texts[number])[0].vector, abs=1e-5)


# -- long texts


@pytest.mark.parametrize("pooling", POOLING)
@pytest.mark.parametrize("milestone", [BertSpec, GPT2Spec])
def test_windows_are_averaged_by_their_tokens(words: Tokenizer, pooling: str, milestone: type):
    model = model_of(words, milestone)
    room = CONTEXT - (2 if milestone is BertSpec else 1)
    text = "the cat sat on the mat and a dog sat on the log the end of it and on and on the mat sat a cat"
    ids = ids_of(words, text)
    assert 2 * room > len(ids) - room > 0
    rows = [states(model, words, ids[at : at + room]) for at in range(0, len(ids), room)]
    parts = [POOLING[pooling](row) for row in rows]
    expected = sum(len(row) * part for row, part in zip(rows, parts, strict=True)) / sum(map(len, rows))
    one = embed_with_words(model, words, text, pooling=pooling, normalise=False)[0]
    assert one.vector == pytest.approx(expected, abs=1e-5)
    assert (one.tokens, one.num_truncated) == (len(ids), 0)
    short = embed_with_words(model, words, text, pooling=pooling, normalise=False, long="truncate")[0]
    assert short.vector == pytest.approx(parts[0], abs=1e-5)
    assert (short.tokens, short.num_truncated) == (room, len(ids) - room)


def test_a_text_that_just_fits_is_one_window(words: Tokenizer):
    model = model_of(words)
    text = " ".join(["cat"] * (CONTEXT - 2))
    one, other = (embed_with_words(model, words, text, long=how)[0] for how in ("windows", "truncate"))
    assert one.vector == pytest.approx(other.vector, abs=1e-7)
    assert one.num_truncated == other.num_truncated == 0
    assert embed_with_words(model, words, text + " a", long="truncate")[0].num_truncated == 1


# -- words


def expected_words(model: Model, tokenizer: Tokenizer, text: str, spans: list[tuple[int, int]]) -> list[np.ndarray]:
    """The mean of the vectors of all tokens that stand for a character of each span; a token of several bytes too."""
    pieces = tokenizer.encode(text)
    inner, owners, place = states(model, tokenizer, pieces.ids)[1:-1], [], 0
    for begin, end in pieces.spans:
        if end > begin:  # one without a span stands for the same character as the token before it
            place = next((at for at in range(begin, end) if text[at].strip()), begin)
        owners.append(place)
    return [inner[[begin <= owner < end for owner in owners]].mean(axis=0) for begin, end in spans]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("the cat sat on the mat", "the cat sat on the mat".split()),
        ("a cat, and a dog.", "a cat , and a dog .".split()),
        ("我很喜欢你", "我 很 喜欢 你".split()),
        ("词性是动词，你好", "词性 是 动词 ， 你好".split()),
        ("the cat 喜欢 dog", "the cat 喜欢 dog".split()),
        ("cat 😀 dog", "cat 😀 dog".split()),
        ("the cat 😀", "the cat 😀".split()),
        ("  cat\n dog ", "cat dog".split()),
        ("catdog unseenword", "catdog unseenword".split()),
    ],
)
def test_a_word_s_vector_is_the_mean_of_its_pieces(cutter: Tokenizer, text: str, parts: list[str]):
    model = model_of(cutter, context=60)
    spans, at = [], 0
    for part in parts:
        at = text.index(part, at)
        spans.append((at, at := at + len(part)))
    (one,) = embed_with_words(model, cutter, text, words=True, normalise=False)
    assert one.words is not None
    told = [(word.start, word.end) for word in one.words]
    assert told == spans
    assert [word.text for word in one.words] == parts
    for word, expected in zip(one.words, expected_words(model, cutter, text, spans), strict=True):
        assert word.vector == pytest.approx(expected, abs=1e-5)


def test_words_of_a_long_text_are_found_in_their_windows(words: Tokenizer):
    model = model_of(words)
    text = " ".join(["the", "cat", "sat", "on", "a", "mat"] * 5)
    room = CONTEXT - 2
    (one,) = embed_with_words(model, words, text, words=True, normalise=False)
    assert [word.text for word in one.words or ()] == text.split()
    ids = ids_of(words, text)
    inner = np.concatenate([states(model, words, ids[at : at + room])[1:-1] for at in range(0, len(ids), room)])
    for word, expected in zip(one.words or (), inner, strict=True):
        assert word.vector == pytest.approx(expected, abs=1e-5)
    (short,) = embed_with_words(model, words, text, words=True, long="truncate")
    assert [word.text for word in short.words or ()] == text.split()[:room]
    assert short.num_truncated == len(ids) - room
