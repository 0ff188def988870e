"""Vectors of texts from their words: by hand, whatever stands beside them, unknown words told and composed."""

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
from small_runs import opened

WORDS = ["cat", "dog", "sat", "the", "我", "喜欢"]
ROWS = np.arange(18, dtype=np.float32).reshape(6, 3) ** 1.5 - 20
COUNTS = np.array([10, 5, 5, 80, 20, 30])


@pytest.fixture(scope="module")
def cutter() -> Tokenizer:
    return train_tokenizer("words", ["the cat sat", "the dog sat", "我喜欢你", "a wolf"], min_count=1)


def pooled(cutter: Tokenizer, **how: object) -> PooledTexts:
    return PooledTexts(WordMatcher(WordVectors(WORDS, ROWS, COUNTS, **how), cutter))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", ROWS[[3, 0, 2]].mean(0)),
        ("max", ROWS[[3, 0, 2]].max(0)),
        ("first", ROWS[3]),
        ("last", ROWS[2]),
    ],
)
def test_pooling_by_hand(cutter: Tokenizer, pooling, expected: np.ndarray):
    plain = pooled(cutter).embed_texts(["the cat sat", "我喜欢 the"], pooling, normalise=False)
    assert plain.vectors[0] == pytest.approx(expected, abs=1e-4)
    scaled = pooled(cutter).embed_texts(["the cat sat"], pooling)
    assert scaled.vectors[0] == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert (plain.num_tokens.tolist(), plain.num_truncated.tolist()) == ([3, 3], [0, 0])


def test_sif_weighs_rare_words_more_and_takes_away_what_all_share(cutter: Tokenizer):
    found = pooled(cutter).embed_texts(["the cat", "cat"], "sif", normalise=False).vectors
    shares = COUNTS / COUNTS.sum()
    weights = 1e-3 / (1e-3 + shares)
    shared = (shares * weights) @ ROWS
    shared /= np.linalg.norm(shared)
    for vector, rows in zip(found, ([3, 0], [0]), strict=True):
        whole = (weights[rows, None] * ROWS[rows]).mean(0)
        assert vector == pytest.approx(whole - (whole @ shared) * shared, abs=1e-5)
        assert vector @ shared == pytest.approx(0, abs=1e-5)
    with pytest.raises(InputError, match="nobody counted"):
        PooledTexts(WordMatcher(WordVectors(WORDS, ROWS), cutter)).embed_texts(["cat"], "sif")


def test_unknown_words_are_counted_and_a_text_of_them_alone_is_refused(cutter: Tokenizer):
    found = pooled(cutter).embed_texts(["the wolf Cat xyz", "dog"], normalise=False)
    assert found.vectors[0] == pytest.approx(ROWS[[3, 0]].mean(0), abs=1e-4)  # Cat is cat
    assert (found.num_tokens.tolist(), found.num_truncated.tolist()) == ([2, 1], [2, 0])
    with pytest.raises(InputError, match="none of this text's words") as told:
        pooled(cutter).embed_texts(["cat", "a wolf"])
    assert told.value.line == 2
    with pytest.raises(InputError, match="no tokens"):
        pooled(cutter).embed_texts(["cat", " "])
    with pytest.raises(InputError, match="pooling is 'sum'"):
        pooled(cutter).embed_texts(["cat"], "sum")  # pyright: ignore[reportArgumentType]
    assert pooled(cutter).embed_texts([]).vectors.shape == (0, 3)


@pytest.mark.parametrize("pooling", ["mean", "max", "first", "last", "sif"])
@pytest.mark.parametrize("normalise", [True, False])
def test_texts_without_a_known_word_have_zeros_where_that_is_asked_for(cutter: Tokenizer, pooling, normalise: bool):
    texts = ["", "the cat", "a wolf", "dog dog cat", " ", "xyz"]
    whole = pooled(cutter).embed_texts(texts, pooling, normalise, zeros=True)
    some = pooled(cutter).embed_texts([texts[1], texts[3]], pooling, normalise)
    assert whole.vectors[[1, 3]].tolist() == some.vectors.tolist()
    assert not whole.vectors[[0, 2, 4, 5]].any()
    assert (whole.num_tokens.tolist(), whole.num_truncated.tolist()) == ([0, 2, 0, 3, 0, 0], [0, 0, 2, 0, 0, 1])
    one_by_one = pooled(cutter).embed(texts, pooling, True, normalise, zeros=True)
    assert [len(one.words or ()) for one in one_by_one] == [0, 2, 0, 3, 0, 0]
    assert not pooled(cutter).embed_texts(["", "wolf"], pooling, normalise, zeros=True).vectors.any()


def test_words_are_composed_once_and_count_as_rare(cutter: Tokenizer):
    asked = []

    def compose(word: str) -> np.ndarray | None:
        asked.append(word)
        return None if word == "9" else np.full(3, len(word), np.float32)

    by = pooled(cutter, compose=compose)
    found = by.embed_texts(["wolf wolves", "wolves 9"], normalise=False)
    assert found.vectors.tolist() == [[5, 5, 5], [6, 6, 6]]
    assert (found.num_truncated.tolist(), sorted(asked)) == ([0, 1], ["9", "wolf", "wolves"])
    whole = np.full(3, 6.0)
    assert by.embed_texts(["wolves"], "sif", False).vectors[0] == pytest.approx(
        whole - (whole @ by.common_component) * by.common_component, abs=1e-4
    )


@pytest.mark.parametrize("pooling", ["mean", "max", "sif", "first", "last"])
def test_no_text_depends_on_those_beside_it_nor_on_blocks(cutter: Tokenizer, pooling, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[:4], size)) for size in (1, 7, 40, 3, 3, 90, 1)]
    alone = np.concatenate([pooled(cutter).embed_texts([text], pooling).vectors for text in texts])
    assert (pooled(cutter).embed_texts(texts, pooling).vectors == alone).all()  # to the last bit
    monkeypatch.setattr(embed, "VALUES_PER_BLOCK", 30)
    blocks = pooled(cutter).embed_texts(texts, pooling).vectors
    assert blocks == pytest.approx(alone, abs=1e-5)
    assert (np.concatenate([pooled(cutter).embed_texts([text], pooling).vectors for text in texts]) == blocks).all()


@given(st.lists(st.integers(1, 30)), st.integers(1, 10))
def test_portions_hold_everything_once_and_cut_texts_from_their_beginning(counts: list[int], most: int):
    parts = list(_token_slices(counts, most))
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(sum(counts)))
    assert all(0 < part.stop - part.start <= most for part in parts)
    begins = {0, *np.cumsum(counts).tolist()}
    for part in parts:
        begin = max(one for one in begins if one <= part.start)
        assert (part.start - begin) % most == 0


def test_words_of_a_text_have_their_vectors_and_places(cutter: Tokenizer):
    (found,) = pooled(cutter).embed(["我喜欢 xyz the  cat"], "mean", words=True, normalise=False)
    assert found.words is not None
    assert [(word.text, word.start, word.end) for word in found.words] == [
        ("我", 0, 1), ("喜欢", 1, 3), ("the", 8, 11), ("cat", 13, 16),
    ]  # fmt: skip
    assert found.words[3].vector.tolist() == ROWS[0].tolist()
    assert (found.tokens, found.num_truncated) == (4, 1)
    assert pooled(cutter).embed(["cat"], "mean", words=False, normalise=True)[0].words is None


def test_phrases_are_one_word_as_they_were_in_training(cutter: Tokenizer):
    ids = {token: number for number, token in enumerate(cutter.vocabulary())}
    pairs = np.array([(ids["cat"], ids["sat"]), (ids["我"], ids["喜欢"]), (ids["the"], cutter.vocab_size)])
    phrases = PhraseTable(cutter.vocab_size, pairs, (2, 3))
    names = phrases.phrase_names(cutter.vocabulary())
    assert names == ["cat sat", "我喜欢", "the cat sat"]
    table = WordVectors([*WORDS, *names], np.eye(9, dtype=np.float32), np.arange(9, 0, -1))
    cutting = WordMatcher(table, cutter, phrases)
    assert cutting.find_words("dog the cat sat 我喜欢 xyz") == ["dog", "the cat sat", "我喜欢", "xyz"]
    (found,) = PooledTexts(cutting).embed(["dog the cat sat 我喜欢 xyz"], "mean", words=True, normalise=False)
    assert found.vector == pytest.approx(np.eye(9)[[1, 8, 7]].mean(0))
    assert found.words is not None
    assert [(word.text, word.start, word.end) for word in found.words] == [
        ("dog", 0, 3), ("the cat sat", 4, 15), ("我喜欢", 16, 19),
    ]  # fmt: skip
    assert (found.tokens, found.num_truncated) == (3, 1)


def test_a_run_of_words_embeds_and_is_searched_like_any_other(tmp_path: Path):
    run = opened("word2vec", tmp_path, steps=10)
    sentences = ["the cat sat", "Number 7 is over", "the dog ran", "the cat sat ."]
    vectors = np.stack([one.vector for one in run.embed(sentences)])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    (near,) = run.neighbours("the cat sat", among=sentences, top=2)
    assert [one.text for one in near.nearest] == ["the cat sat", "the cat sat ."]
    (weighed,) = run.neighbours("the cat sat", among=sentences, top=1, pooling="sif")
    assert weighed.nearest[0].text == "the cat sat"
    (far,) = run.neighbours("the cat sat", among=["", "xyzzy", "the cat sat"], top=3)
    assert [round(one.cosine, 4) for one in far.nearest] == [1, 0, 0]
    with pytest.raises(InputError, match="none of this text's words"):
        run.neighbours("xyzzy", among=sentences)
    assert run.embed(["xyzzy", "the cat"], zeros=True)[0].tokens == 0
    with pytest.raises(InputError, match="--layers means nothing"):
        run.embed("the cat", layers=-1)
    with pytest.raises(InputError, match="--long means nothing"):
        run.embed("the cat", long="windows")
    network = opened("gpt2", tmp_path, to="network", steps=2)
    with pytest.raises(InputError, match="pooling is 'sif'"):
        network.embed("the cat", pooling="sif")
    with pytest.raises(InputError, match="this is a network"):
        network.embed("the cat", zeros=True)


def test_the_shared_direction_is_nearly_the_papers(data: Path):
    """The first singular vector of many texts, against the mean word: the decision to use the latter rests on this."""
    lines = (data / "corpora" / "wikitext2" / "valid.txt").read_text(encoding="utf-8").split("\n")
    texts = [line for line in lines if len(line.split()) > 20][:1500]
    cutter = train_tokenizer("words", texts, min_count=3)
    ids, counts = cutter.encode_many(texts)
    words = [token for number, token in enumerate(cutter.vocabulary()) if number not in cutter.special_ids]
    often = np.bincount(ids, minlength=cutter.vocab_size)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(words), 50)).astype(np.float32) + 0.3  # vectors that point somewhat the same way
    by = PooledTexts(
        WordMatcher(
            WordVectors(words, rows, np.array([often[cutter.token_to_id(word) or 0] for word in words])), cutter
        )
    )
    spoken = by.matcher.match_words(texts)
    known = spoken.rows >= 0
    owners = spoken.text_ids()[known]
    means = np.zeros((len(texts), 50))
    np.add.at(means, owners, by.weights[spoken.rows[known], None] * rows[spoken.rows[known]])
    means /= np.bincount(owners, minlength=len(texts))[:, None]
    first = np.linalg.svd(means, full_matrices=False)[2][0]
    assert abs(first @ by.common_component) > 0.97
    assert len(counts) == len(texts)
