"""Text vectors pooled from word vectors: worked examples, independence of batches, unknown and composed words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.lexicon import WordMatcher
from forebear.embeddings.phrases import PhraseTable
from forebear.embeddings.word_table import WordVectors
from forebear.errors import InputError
from forebear.inference import embed
from forebear.inference.embed import PooledTexts, _token_slices
from small_runs import open_small_run

WORDS = ["cat", "dog", "sat", "the", "我", "喜欢"]
ROWS = np.arange(18, dtype=np.float32).reshape(6, 3) ** 1.5 - 20
COUNTS = np.array([10, 5, 5, 80, 20, 30])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer("words", ["the cat sat", "the dog sat", "我喜欢你", "a wolf"], min_count=1)


def pooled_texts(tokenizer: Tokenizer, **options: object) -> PooledTexts:
    return PooledTexts(WordMatcher(WordVectors(WORDS, ROWS, COUNTS, **options), tokenizer))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", ROWS[[3, 0, 2]].mean(0)),
        ("max", ROWS[[3, 0, 2]].max(0)),
        ("first", ROWS[3]),
        ("last", ROWS[2]),
    ],
)
def test_pooling_matches_a_worked_example(tokenizer: Tokenizer, pooling, expected: np.ndarray):
    unnormalized = pooled_texts(tokenizer).embed_texts(["the cat sat", "我喜欢 the"], pooling, normalise=False)
    assert unnormalized.vectors[0] == pytest.approx(expected, abs=1e-4)
    scaled = pooled_texts(tokenizer).embed_texts(["the cat sat"], pooling)
    assert scaled.vectors[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert (unnormalized.num_tokens.tolist(), unnormalized.num_truncated.tolist()) == ([3, 3], [0, 0])


def test_sif_weights_rare_words_and_removes_the_common_component(tokenizer: Tokenizer):
    vectors = pooled_texts(tokenizer).embed_texts(["the cat", "cat"], "sif", normalise=False).vectors
    shares = COUNTS / COUNTS.sum()
    weights = 1e-3 / (1e-3 + shares)
    common_component = (shares * weights) @ ROWS
    common_component /= np.linalg.norm(common_component)
    for vector, rows in zip(vectors, ([3, 0], [0]), strict=True):
        weighted_mean = (weights[rows, None] * ROWS[rows]).mean(0)
        assert vector == pytest.approx(weighted_mean - (weighted_mean @ common_component) * common_component, abs=1e-5)
        assert vector @ common_component == pytest.approx(0, abs=1e-5)
    with pytest.raises(InputError, match="nobody counted"):
        PooledTexts(WordMatcher(WordVectors(WORDS, ROWS), tokenizer)).embed_texts(["cat"], "sif")


def test_unknown_words_are_counted_and_texts_without_known_words_refused(tokenizer: Tokenizer):
    embedded = pooled_texts(tokenizer).embed_texts(["the wolf Cat xyz", "dog"], normalise=False)
    assert embedded.vectors[0] == pytest.approx(ROWS[[3, 0]].mean(0), abs=1e-4)  # Cat is cat
    assert (embedded.num_tokens.tolist(), embedded.num_truncated.tolist()) == ([2, 1], [2, 0])
    with pytest.raises(InputError, match="none of this text's words") as caught:
        pooled_texts(tokenizer).embed_texts(["cat", "a wolf"])
    assert caught.value.line == 2
    with pytest.raises(InputError, match="no tokens"):
        pooled_texts(tokenizer).embed_texts(["cat", " "])
    with pytest.raises(InputError, match="pooling is 'sum'"):
        pooled_texts(tokenizer).embed_texts(["cat"], "sum")  # pyright: ignore[reportArgumentType]
    assert pooled_texts(tokenizer).embed_texts([]).vectors.shape == (0, 3)


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last", "sif"])
@pytest.mark.parametrize("normalise", [True, False])
def test_texts_without_known_words_are_zeros_on_request(tokenizer: Tokenizer, pooling, normalise: bool):
    texts = ["", "the cat", "a wolf", "dog dog cat", " ", "xyz"]
    with_zeros = pooled_texts(tokenizer).embed_texts(texts, pooling, normalise, zeros=True)
    known_only = pooled_texts(tokenizer).embed_texts([texts[1], texts[3]], pooling, normalise)
    assert with_zeros.vectors[[1, 3]].tolist() == known_only.vectors.tolist()
    assert not with_zeros.vectors[[0, 2, 4, 5]].any()
    assert (with_zeros.num_tokens.tolist(), with_zeros.num_truncated.tolist()) == (
        [0, 2, 0, 3, 0, 0],
        [0, 0, 2, 0, 0, 1],
    )
    one_by_one = pooled_texts(tokenizer).embed(texts, pooling, True, normalise, zeros=True)
    assert [len(embedding.words or ()) for embedding in one_by_one] == [0, 2, 0, 3, 0, 0]
    assert not pooled_texts(tokenizer).embed_texts(["", "wolf"], pooling, normalise, zeros=True).vectors.any()


def test_words_are_composed_once_and_weighted_as_rare(tokenizer: Tokenizer):
    composed = []

    def compose(word: str) -> np.ndarray | None:
        composed.append(word)
        return None if word == "9" else np.full(3, len(word), np.float32)

    texts = pooled_texts(tokenizer, compose=compose)
    embedded = texts.embed_texts(["wolf wolves", "wolves 9"], normalise=False)
    assert embedded.vectors.tolist() == [[5, 5, 5], [6, 6, 6]]
    assert (embedded.num_truncated.tolist(), sorted(composed)) == ([0, 1], ["9", "wolf", "wolves"])
    vector = np.full(3, 6.0)
    assert texts.embed_texts(["wolves"], "sif", False).vectors[0] == pytest.approx(
        vector - (vector @ texts.common_component) * texts.common_component, abs=1e-4
    )


@pytest.mark.parametrize("pooling", ["mean", "max", "sif", "first", "last"])
def test_text_vectors_do_not_depend_on_batches_and_blocks(
    tokenizer: Tokenizer, pooling, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[:4], size)) for size in (1, 7, 40, 3, 3, 90, 1)]
    alone = np.concatenate([pooled_texts(tokenizer).embed_texts([text], pooling).vectors for text in texts])
    assert (pooled_texts(tokenizer).embed_texts(texts, pooling).vectors == alone).all()  # to the last bit
    monkeypatch.setattr(embed, "VALUES_PER_BLOCK", 30)
    blocks = pooled_texts(tokenizer).embed_texts(texts, pooling).vectors
    assert blocks == pytest.approx(alone, abs=1e-5)
    assert (
        np.concatenate([pooled_texts(tokenizer).embed_texts([text], pooling).vectors for text in texts]) == blocks
    ).all()


@given(st.lists(st.integers(1, 30)), st.integers(1, 10))
def test_token_slices_cover_all_tokens_and_split_texts_from_their_start(counts: list[int], max_tokens: int):
    parts = list(_token_slices(counts, max_tokens))
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(sum(counts)))
    assert all(0 < part.stop - part.start <= max_tokens for part in parts)
    text_starts = {0, *np.cumsum(counts).tolist()}
    for part in parts:
        text_start = max(start for start in text_starts if start <= part.start)
        assert (part.start - text_start) % max_tokens == 0


def test_words_of_a_text_have_vectors_and_spans(tokenizer: Tokenizer):
    (embedding,) = pooled_texts(tokenizer).embed(["我喜欢 xyz the  cat"], "mean", words=True, normalise=False)
    assert embedding.words is not None
    assert [(word.text, word.start, word.end) for word in embedding.words] == [
        ("我", 0, 1), ("喜欢", 1, 3), ("the", 8, 11), ("cat", 13, 16),
    ]  # fmt: skip
    assert embedding.words[3].vector.tolist() == ROWS[0].tolist()
    assert (embedding.tokens, embedding.num_truncated) == (4, 1)
    assert pooled_texts(tokenizer).embed(["cat"], "mean", words=False, normalise=True)[0].words is None


def test_phrases_are_embedded_as_one_word_as_in_training(tokenizer: Tokenizer):
    ids = {token: number for number, token in enumerate(tokenizer.vocabulary())}
    pairs = np.array([(ids["cat"], ids["sat"]), (ids["我"], ids["喜欢"]), (ids["the"], tokenizer.vocab_size)])
    phrases = PhraseTable(tokenizer.vocab_size, pairs, (2, 3))
    names = phrases.phrase_names(tokenizer.vocabulary())
    assert names == ["cat sat", "我喜欢", "the cat sat"]
    table = WordVectors([*WORDS, *names], np.eye(9, dtype=np.float32), np.arange(9, 0, -1))
    matcher = WordMatcher(table, tokenizer, phrases)
    assert matcher.find_words("dog the cat sat 我喜欢 xyz") == ["dog", "the cat sat", "我喜欢", "xyz"]
    (embedding,) = PooledTexts(matcher).embed(["dog the cat sat 我喜欢 xyz"], "mean", words=True, normalise=False)
    assert embedding.vector == pytest.approx(np.eye(9)[[1, 8, 7]].mean(0))
    assert embedding.words is not None
    assert [(word.text, word.start, word.end) for word in embedding.words] == [
        ("dog", 0, 3), ("the cat sat", 4, 15), ("我喜欢", 16, 19),
    ]  # fmt: skip
    assert (embedding.tokens, embedding.num_truncated) == (3, 1)


def test_word2vec_run_embeds_and_searches_texts(tmp_path: Path):
    run = open_small_run("word2vec", tmp_path, steps=10)
    sentences = ["the cat sat", "Number 7 is over", "the dog ran", "the cat sat ."]
    vectors = np.stack([item.vector for item in run.embed(sentences)])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    (nearest_texts,) = run.neighbours("the cat sat", among=sentences, top=2)
    assert [item.text for item in nearest_texts.nearest] == ["the cat sat", "the cat sat ."]
    (by_sif,) = run.neighbours("the cat sat", among=sentences, top=1, pooling="sif")
    assert by_sif.nearest[0].text == "the cat sat"
    (with_unknown,) = run.neighbours("the cat sat", among=["", "xyzzy", "the cat sat"], top=3)
    assert [round(item.cosine, 4) for item in with_unknown.nearest] == [1, 0, 0]
    with pytest.raises(InputError, match="none of this text's words"):
        run.neighbours("xyzzy", among=sentences)
    assert run.embed(["xyzzy", "the cat"], zeros=True)[0].tokens == 0
    with pytest.raises(InputError, match="--layers means nothing"):
        run.embed("the cat", layers=-1)
    with pytest.raises(InputError, match="--long means nothing"):
        run.embed("the cat", long="windows")
    network = open_small_run("gpt2", tmp_path, to="network", steps=2)
    with pytest.raises(InputError, match="pooling is 'sif'"):
        network.embed("the cat", pooling="sif")
    with pytest.raises(InputError, match="this is a network"):
        network.embed("the cat", zeros=True)


def test_common_component_is_nearly_the_first_singular_vector_of_the_paper(data: Path):
    """The first singular vector of many texts is close to the mean word, which is used instead of it."""
    lines = (data / "corpora" / "wikitext2" / "valid.txt").read_text(encoding="utf-8").split("\n")
    texts = [line for line in lines if len(line.split()) > 20][:1500]
    tokenizer = train_tokenizer("words", texts, min_count=3)
    ids, counts = tokenizer.encode_many(texts)
    words = [token for number, token in enumerate(tokenizer.vocabulary()) if number not in tokenizer.special_ids]
    frequencies = np.bincount(ids, minlength=tokenizer.vocab_size)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(words), 50)).astype(np.float32) + 0.3  # vectors that point somewhat the same way
    pooler = PooledTexts(
        WordMatcher(
            WordVectors(words, rows, np.array([frequencies[tokenizer.token_to_id(word) or 0] for word in words])),
            tokenizer,
        )
    )
    matches = pooler.matcher.match_words(texts)
    known = matches.rows >= 0
    text_ids = matches.text_ids()[known]
    means = np.zeros((len(texts), 50))
    np.add.at(means, text_ids, pooler.weights[matches.rows[known], None] * rows[matches.rows[known]])
    means /= np.bincount(text_ids, minlength=len(texts))[:, None]
    first = np.linalg.svd(means, full_matrices=False)[2][0]
    assert abs(first @ pooler.common_component) > 0.97
    assert len(counts) == len(texts)
