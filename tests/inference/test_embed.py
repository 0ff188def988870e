"""Embeddings of texts and words equal numpy on the hidden states of the model, row by row."""

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


def model_of(tokenizer: Tokenizer, spec_type: type = BertSpec, context: int = CONTEXT) -> Model:
    model = spec_type(width=16, depth=3, heads=2, context=context).build(tokenizer).initialize(2)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(6)
    return model


@torch.inference_mode()
def hidden_states(model: Model, tokenizer: Tokenizer, ids: np.ndarray, layer: int = -1) -> np.ndarray:
    """(n + 2, D) of [start, ids, end], or (n + 1, D) of [end, ids] for causal models, whose training
    documents start with the end token."""
    roles = tokenizer.special_roles
    tail = [roles["end"]] if model.encoder.sees == "all" else []
    row = torch.tensor([roles["start" if tail else "end"], *np.asarray(ids).tolist(), *tail])
    return model.eval().encoder(row, [len(row)]).layers[layer].double().numpy()


def unit_vector(vector: np.ndarray) -> np.ndarray:
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


@pytest.mark.parametrize("spec_type", [BertSpec, GPT2Spec])
@pytest.mark.parametrize("pooling", POOLING)
def test_text_vector_is_pooled_from_its_hidden_states(
    mask_tokenizers: dict[str, Tokenizer], spec_type: type, pooling: str
):
    tokenizer = mask_tokenizers["bytepair"]
    model = model_of(tokenizer, spec_type, context=24)
    for layer in (-1, 0, 1, 3, -4):
        embeddings = embed_with_words(model, tokenizer, TEXTS, layers=layer, pooling=pooling, normalise=False)
        for text, embedding in zip(TEXTS, embeddings, strict=True):
            expected = POOLING[pooling](hidden_states(model, tokenizer, ids_of(tokenizer, text), layer))
            assert embedding.vector == pytest.approx(expected, abs=1e-5)
            assert (embedding.text, embedding.tokens, embedding.num_truncated) == (
                text,
                len(ids_of(tokenizer, text)),
                0,
            )
            assert embedding.words is None


def test_every_kind_of_tokenizer_has_text_vectors(mask_tokenizer: Tokenizer):
    model = model_of(mask_tokenizer, context=30)
    for text, embedding in zip(TEXTS, embed_with_words(model, mask_tokenizer, TEXTS), strict=True):
        assert embedding.vector == pytest.approx(
            unit_vector(hidden_states(model, mask_tokenizer, ids_of(mask_tokenizer, text)).mean(axis=0)), abs=1e-5
        )
        json.dumps(embedding.to_dict(), allow_nan=False)


def test_layers_are_mixed_by_their_weights(word_tokenizer: Tokenizer):
    model = model_of(word_tokenizer)
    rows = [hidden_states(model, word_tokenizer, ids_of(word_tokenizer, "the cat sat"), layer) for layer in range(4)]
    for layers, expected in (
        (2, rows[2]),
        ([0, 1, 2, 3], sum(rows) / 4),
        ([1, -1], (rows[1] + rows[3]) / 2),
        ((-1, 3), rows[3]),
        ({1: 0.5, 3: 2.0}, 0.5 * rows[1] + 2 * rows[3]),
        ({-1: -1.0}, -rows[3]),
    ):
        vector = embed_with_words(model, word_tokenizer, "the cat sat", layers=layers, normalise=False)[0].vector
        assert vector == pytest.approx(expected.mean(axis=0), abs=1e-5), layers


def test_layer_given_twice_counts_twice(word_tokenizer: Tokenizer):
    model = model_of(word_tokenizer)
    first, second = (
        hidden_states(model, word_tokenizer, ids_of(word_tokenizer, "the cat sat"), layer) for layer in (1, 2)
    )
    for layers, expected in (([1, 1], first), ([1, 1, 2], (2 * first + second) / 3)):
        vector = embed_with_words(model, word_tokenizer, "the cat sat", layers=layers, normalise=False)[0].vector
        assert vector == pytest.approx(expected.mean(axis=0), abs=1e-5), layers


def test_layers_are_parsed_from_text():
    assert parse_layers("-1") == [-1]
    assert parse_layers("1, 2,3") == [1, 2, 3]
    assert parse_layers("2:0.5,4:1.5") == {2: 0.5, 4: 1.5}
    for invalid in ("", "one", "1,2:0.5", "1:2:3", "1;2"):
        with pytest.raises(InputError) as caught:
            parse_layers(invalid)
        assert caught.value.hint


@pytest.mark.parametrize(
    "options",
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
def test_invalid_embedding_options_are_refused_with_a_hint(word_tokenizer: Tokenizer, options: dict):
    with pytest.raises(InputError) as caught:
        embed_with_words(model_of(word_tokenizer), word_tokenizer, "the cat", **options)
    assert caught.value.hint


def test_embedding_a_text_without_tokens_is_refused_with_its_number(word_tokenizer: Tokenizer):
    for empty in ("", "  \n"):
        with pytest.raises(InputError, match="no tokens") as caught:
            embed_with_words(model_of(word_tokenizer), word_tokenizer, ["the cat", empty, "a"])
        assert caught.value.line == 2
    assert embed_with_words(model_of(word_tokenizer), word_tokenizer, []) == []


def test_normalized_vectors_have_length_1(mask_tokenizer: Tokenizer):
    model = model_of(mask_tokenizer, context=30)
    plain, normalized = (
        embed_with_words(model, mask_tokenizer, TEXTS, words=True, normalise=normalise) for normalise in (False, True)
    )
    for raw, unit in zip(plain, normalized, strict=True):
        assert math.sqrt((unit.vector**2).sum()) == pytest.approx(1, abs=1e-6)
        assert unit_vector(raw.vector) == pytest.approx(unit.vector, abs=1e-6)
        for word, unit_word in zip(raw.words or (), unit.words or (), strict=True):
            assert unit_vector(word.vector) == pytest.approx(unit_word.vector, abs=1e-6)


def test_zero_vector_is_not_normalized(word_tokenizer: Tokenizer):
    vector = embed_with_words(model_of(word_tokenizer), word_tokenizer, "the cat", layers={0: 0.0})[0].vector
    assert vector.tolist() == [0.0] * 16


def test_batched_texts_have_the_vectors_of_each_alone(word_tokenizer: Tokenizer):
    """Texts of different lengths in any order, more than one batch."""
    model, rng = model_of(word_tokenizer), np.random.default_rng(0)
    texts = [" ".join(rng.choice(["the", "cat", "sat", "dog", "a"], n)) for n in rng.integers(1, 12, 1200)]
    embeddings = embed_with_words(model, word_tokenizer, texts)
    for number in (0, 1, 600, 1199):
        assert embeddings[number].text == texts[number]
        assert embeddings[number].vector == pytest.approx(
            embed_with_words(model, word_tokenizer, texts[number])[0].vector, abs=1e-5
        )


# -- long texts


@pytest.mark.parametrize("pooling", POOLING)
@pytest.mark.parametrize("spec_type", [BertSpec, GPT2Spec])
def test_windows_are_averaged_by_token_count(word_tokenizer: Tokenizer, pooling: str, spec_type: type):
    model = model_of(word_tokenizer, spec_type)
    room = CONTEXT - (2 if spec_type is BertSpec else 1)
    text = "the cat sat on the mat and a dog sat on the log the end of it and on and on the mat sat a cat"
    ids = ids_of(word_tokenizer, text)
    assert 2 * room > len(ids) - room > 0
    rows = [hidden_states(model, word_tokenizer, ids[at : at + room]) for at in range(0, len(ids), room)]
    parts = [POOLING[pooling](row) for row in rows]
    expected = sum(len(row) * part for row, part in zip(rows, parts, strict=True)) / sum(map(len, rows))
    embedding = embed_with_words(model, word_tokenizer, text, pooling=pooling, normalise=False)[0]
    assert embedding.vector == pytest.approx(expected, abs=1e-5)
    assert (embedding.tokens, embedding.num_truncated) == (len(ids), 0)
    truncated = embed_with_words(model, word_tokenizer, text, pooling=pooling, normalise=False, long="truncate")[0]
    assert truncated.vector == pytest.approx(parts[0], abs=1e-5)
    assert (truncated.tokens, truncated.num_truncated) == (room, len(ids) - room)


def test_text_that_just_fits_is_one_window(word_tokenizer: Tokenizer):
    model = model_of(word_tokenizer)
    text = " ".join(["cat"] * (CONTEXT - 2))
    windowed, truncated = (
        embed_with_words(model, word_tokenizer, text, long=overflow)[0] for overflow in ("windows", "truncate")
    )
    assert windowed.vector == pytest.approx(truncated.vector, abs=1e-7)
    assert windowed.num_truncated == truncated.num_truncated == 0
    assert embed_with_words(model, word_tokenizer, text + " a", long="truncate")[0].num_truncated == 1


# -- words


def reference_word_vectors(
    model: Model, tokenizer: Tokenizer, text: str, spans: list[tuple[int, int]]
) -> list[np.ndarray]:
    """The mean vector of the tokens whose first visible character lies in each span."""
    pieces = tokenizer.encode(text)
    inner, positions, position = hidden_states(model, tokenizer, pieces.ids)[1:-1], [], 0
    for begin, end in pieces.spans:
        if end > begin:  # a token with an empty span belongs to the character of the token before it
            position = next((at for at in range(begin, end) if text[at].strip()), begin)
        positions.append(position)
    return [inner[[begin <= at_position < end for at_position in positions]].mean(axis=0) for begin, end in spans]


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
def test_word_vector_is_the_mean_of_its_subwords(mask_tokenizer: Tokenizer, text: str, parts: list[str]):
    model = model_of(mask_tokenizer, context=60)
    spans, at = [], 0
    for part in parts:
        at = text.index(part, at)
        spans.append((at, at := at + len(part)))
    (embedding,) = embed_with_words(model, mask_tokenizer, text, words=True, normalise=False)
    assert embedding.words is not None
    word_spans = [(word.start, word.end) for word in embedding.words]
    assert word_spans == spans
    assert [word.text for word in embedding.words] == parts
    for word, expected in zip(embedding.words, reference_word_vectors(model, mask_tokenizer, text, spans), strict=True):
        assert word.vector == pytest.approx(expected, abs=1e-5)


def test_word_vectors_of_a_long_text_come_from_its_windows(word_tokenizer: Tokenizer):
    model = model_of(word_tokenizer)
    text = " ".join(["the", "cat", "sat", "on", "a", "mat"] * 5)
    room = CONTEXT - 2
    (embedding,) = embed_with_words(model, word_tokenizer, text, words=True, normalise=False)
    assert [word.text for word in embedding.words or ()] == text.split()
    ids = ids_of(word_tokenizer, text)
    inner = np.concatenate(
        [hidden_states(model, word_tokenizer, ids[at : at + room])[1:-1] for at in range(0, len(ids), room)]
    )
    for word, expected in zip(embedding.words or (), inner, strict=True):
        assert word.vector == pytest.approx(expected, abs=1e-5)
    (truncated,) = embed_with_words(model, word_tokenizer, text, words=True, long="truncate")
    assert [word.text for word in truncated.words or ()] == text.split()[:room]
    assert truncated.num_truncated == len(ids) - room
