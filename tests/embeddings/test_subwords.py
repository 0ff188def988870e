"""Character n-grams: fastText's own for alphabets, single characters and pairs for Chinese; the same hashes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.embeddings import word2vec
from forebear.embeddings.word2vec import Subwords, fnv1a_hash
from forebear.errors import InputError

WORDS = ["where", "a", "", "naïve", "北京", "磁", "x北京y", "👩‍🚀", "två ord", "ﬁn", "<b>", "カメラ"]


def test_the_ngrams_of_a_word():
    assert Subwords(3, 4).ngrams("her") == ["<he", "<her", "her", "her>", "er>"]
    assert Subwords(1, 2).ngrams("ab") == ["<a", "a", "ab", "b", "b>"]
    assert Subwords().ngrams("北京") == ["<北京", "<北京>", "北", "北京", "北京>", "京"]
    assert Subwords(han=False).ngrams("北京") == ["<北京", "<北京>", "北京>"]
    assert Subwords(3, 3).ngrams("") == []
    assert Subwords(1, 1).ngrams("北京") == ["北", "北京", "京"]


def test_hashes_are_those_that_fnv_publishes():
    assert (fnv1a_hash(""), fnv1a_hash("a")) == (0x811C9DC5, 0xE40C292C)


@pytest.mark.parametrize(("shortest", "longest"), [(3, 6), (1, 2), (2, 2)])
def test_ngrams_and_hashes_are_fasttexts(shortest: int, longest: int):
    theirs = pytest.importorskip("gensim.models.fasttext_inner")
    for word in WORDS:
        wanted = [theirs.ft_hash_bytes(ngram) for ngram in theirs.compute_ngrams_bytes(word, shortest, longest)]
        assert [fnv1a_hash(ngram) for ngram in Subwords(shortest, longest, han=False).ngrams(word)] == wanted


@given(st.lists(st.text(max_size=12), max_size=8), st.integers(1, 4), st.integers(0, 3), st.booleans())
@settings(deadline=None)
def test_compiled_loops_find_the_same(words: list[str], shortest: int, more: int, han: bool):
    ways = Subwords(shortest, shortest + more, 97, han)
    words = [*words, *WORDS]
    many, word2vec.MIN_COMPILED_WORDS = word2vec.MIN_COMPILED_WORDS, 0
    try:
        found = ways.bucket_rows(words)
    finally:
        word2vec.MIN_COMPILED_WORDS = many
    wanted = ways.bucket_rows_reference(words)
    assert np.array_equal(found[0], wanted[0])
    assert np.array_equal(found[1], wanted[1])
    assert found[1].dtype == np.int32


@pytest.mark.parametrize("odd", [{"shortest": 0}, {"shortest": 4, "longest": 3}, {"buckets": 0}])
def test_what_are_no_ngrams(odd: dict):
    with pytest.raises(InputError):
        Subwords(**odd)
