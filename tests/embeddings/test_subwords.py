"""Character n-grams: those and the hashes of fastText; for Chinese, single characters and pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.embeddings import word2vec
from forebear.embeddings.word2vec import Subwords, fnv1a_hash
from forebear.errors import InputError

WORDS = ["where", "a", "", "naïve", "北京", "磁", "x北京y", "👩‍🚀", "två ord", "ﬁn", "<b>", "カメラ"]


def test_subwords_of_a_word_are_its_character_ngrams_with_boundaries():
    assert Subwords(3, 4).ngrams("her") == ["<he", "<her", "her", "her>", "er>"]
    assert Subwords(1, 2).ngrams("ab") == ["<a", "a", "ab", "b", "b>"]
    assert Subwords().ngrams("北京") == ["<北京", "<北京>", "北", "北京", "北京>", "京"]
    assert Subwords(han=False).ngrams("北京") == ["<北京", "<北京>", "北京>"]
    assert Subwords(3, 3).ngrams("") == []
    assert Subwords(1, 1).ngrams("北京") == ["北", "北京", "京"]


def test_fnv1a_hash_matches_published_values():
    assert (fnv1a_hash(""), fnv1a_hash("a")) == (0x811C9DC5, 0xE40C292C)


@pytest.mark.parametrize(("shortest", "longest"), [(3, 6), (1, 2), (2, 2)])
def test_subwords_and_hashes_equal_those_of_fasttext(shortest: int, longest: int):
    fasttext = pytest.importorskip("gensim.models.fasttext_inner")
    for word in WORDS:
        expected = [fasttext.ft_hash_bytes(ngram) for ngram in fasttext.compute_ngrams_bytes(word, shortest, longest)]
        assert [fnv1a_hash(ngram) for ngram in Subwords(shortest, longest, han=False).ngrams(word)] == expected


@given(st.lists(st.text(max_size=12), max_size=8), st.integers(1, 4), st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_compiled_bucket_rows_equal_reference_implementation(
    word_tokenizer: list[str], shortest: int, extra: int, han: bool
):
    subwords = Subwords(shortest, shortest + extra, 97, han)
    word_tokenizer = [*word_tokenizer, *WORDS]
    min_compiled, word2vec.MIN_COMPILED_WORDS = word2vec.MIN_COMPILED_WORDS, 0
    try:
        compiled = subwords.bucket_rows(word_tokenizer)
    finally:
        word2vec.MIN_COMPILED_WORDS = min_compiled
    expected = subwords.bucket_rows_reference(word_tokenizer)
    assert np.array_equal(compiled[0], expected[0])
    assert np.array_equal(compiled[1], expected[1])
    assert compiled[1].dtype == np.int32


@pytest.mark.parametrize("settings", [{"shortest": 0}, {"shortest": 4, "longest": 3}, {"buckets": 0}])
def test_subwords_refuse_invalid_lengths_and_buckets(settings: dict):
    with pytest.raises(InputError):
        Subwords(**settings)
