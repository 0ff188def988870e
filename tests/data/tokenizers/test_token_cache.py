"""Cached encoding of many texts gives exactly what uncached encoding gives, for any texts."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import pretokens, token_cache
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.data.tokenizers.wordpiece import BERT_CJK_BLOCKS
from forebear.data.unicode import HAN_BLOCKS, code_points, is_han
from hostile_texts import FRAGMENTS, hostile_lines, hostile_strings
from story_corpus import encode_segmented, unknown_byte_count

TEXTS = [
    *hostile_lines(300, seed=1),
    "the cat sat on the mat. the cats don't sit, they ran" * 3,
    "我爱北京天安门，自然语言处理。" * 3,
]
SETUPS = {
    "wordpiece": {"size": 900},
    "wordpiece cased": {"size": 900, "lower": False},
    "wordpiece nfkc": {"size": 900, "normalise": ("nfkc",)},
    "bytepair": {"size": 600},
    "words": {},
    "words nfkc": {"normalise": ("nfkc",)},
    "words nfkc accents": {"normalise": ("nfkc", "lower", "accents")},
    "words lower": {"normalise": ("lower",), "segmenter": None},
    "words spaces": {"split": "spaces"},
    "words spaces cut": {"split": "spaces", "segmenter": Segmenter()},
    "characters": {"min_count": 2},
    "characters nfkc": {"min_count": 2, "normalise": ("nfkc",)},
}


@pytest.fixture(scope="module", params=["by names", "by loops"])
def tokenizers(request) -> Iterator[dict[str, Tokenizer]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: request.param == "by loops")
        yield {setup: train_tokenizer(setup.split()[0], TEXTS, **options) for setup, options in SETUPS.items()}


def assert_same_ids(tokenizer: Tokenizer, texts: list[str]) -> None:
    ids, counts = tokenizer.encode_many(texts)
    plain_ids, plain_counts = tokenizer.encode_many_reference(texts)
    assert ids.dtype == plain_ids.dtype == np.int32
    assert counts.tolist() == plain_counts.tolist()
    assert ids.tolist() == plain_ids.tolist()


@pytest.mark.parametrize("setup", SETUPS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(hostile_strings(), max_size=4))
def test_batch_encoding_equals_encoding_one_by_one(tokenizers, setup, texts):
    tokenizer = tokenizers[setup]
    assert_same_ids(tokenizer, texts)
    ids, counts = tokenizer.encode_many(texts)
    single = [tokenizer.encode(text).ids for text in texts]
    assert counts.tolist() == [len(encoded) for encoded in single]
    assert ids.tolist() == [i for encoded in single for i in encoded.tolist()]


@pytest.mark.parametrize(
    "setup", ["wordpiece", "wordpiece cased", "bytepair", "words", "words lower", "words spaces cut"]
)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(hostile_strings(), max_size=4))
def test_cached_spans_equal_uncached_spans(tokenizers, setup, texts):
    cached = tokenizers[setup]._cache.encode_many(
        texts, tokenizers[setup]._segmenter_boundaries(texts), with_offsets=True
    )
    uncached = tokenizers[setup]._encode_uncached(texts)
    for name in ("ids", "counts", "unknown_bytes", "first_offsets", "last_offsets"):
        assert getattr(cached, name).tolist() == getattr(uncached, name).tolist(), name


@pytest.mark.parametrize("setup", SETUPS)
@settings(max_examples=80, deadline=None)
@given(texts=st.lists(hostile_strings(), max_size=4))
def test_unknown_bytes_equal_those_of_the_spans(tokenizers, setup, texts):
    tokenizer = tokenizers[setup]
    tokens, (ids, counts) = tokenizer.encode_batch(texts), tokenizer.encode_many(texts)
    assert (tokens.ids.tolist(), tokens.counts.tolist()) == (ids.tolist(), counts.tolist())
    assert tokens.unknown_bytes.tolist() == [unknown_byte_count(tokenizer, text) for text in texts]
    assert tokens.is_word_start is None
    if not setup.startswith("words"):  # else other words may be unknown than those of its own segmenter
        assert (
            tokenizer.encode_batch(texts, [[len(text)] for text in texts]).unknown_bytes.tolist()
            == tokens.unknown_bytes.tolist()
        )


@pytest.mark.sample(4)
@pytest.mark.parametrize("setup", [way for way in SETUPS if way.startswith("words")])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(hostile_strings(), max_size=4))
def test_given_word_ends_decide_which_words_are_unknown(tokenizers, setup, texts):
    """With every character a word only the characters decide, and encoding without the cache gives the same."""
    ends = [list(range(1, len(text) + 1)) or [0] for text in texts]
    without_cache = Tokenizer(tokenizers[setup]._spec)
    without_cache.__dict__["_cache"] = None
    cached, uncached = tokenizers[setup].encode_batch(texts, ends), without_cache.encode_batch(texts, ends)
    for name in ("ids", "counts", "unknown_bytes", "is_word_start"):
        assert getattr(cached, name).tolist() == getattr(uncached, name).tolist(), name
    assert cached.unknown_bytes.tolist() == [
        sum(unknown_byte_count(without_cache, character) for character in text) for text in texts
    ]


def test_unknown_bytes_match_a_worked_example():
    texts = ["The cat 貓 sat.", "", "a dog ÉTÉ", "the cat"]
    word_level = train_tokenizer("words", ["the cat sat ."] * 2, normalise=("lower",))
    assert word_level.encode_batch(texts).unknown_bytes.tolist() == [3, 0, 1 + 3 + 5, 0]
    wordpiece = train_tokenizer("wordpiece", ["the cat sat ."] * 2, size=60, min_count=1)
    assert wordpiece.encode_batch(texts).unknown_bytes.tolist() == [3, 0, 3, 0]  # ÉTÉ is ete, letters it has
    char_level = train_tokenizer("characters", ["the cat sat."])
    assert char_level.encode_batch(texts).unknown_bytes.tolist() == [1 + 3, 0, 3 + 5, 0]
    assert train_tokenizer("bytepair", texts).encode_batch(texts).unknown_bytes.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("setup", ["wordpiece", "wordpiece cased", "words", "words lower", "words nfkc"])
def test_every_character_next_to_letters_and_marks_is_encoded_alike(tokenizers, setup):
    """All of planes 0 to 2, each next to characters it might join: no split rule may be wrong for any of them."""
    codes = [c for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    tokenizer = tokenizers[setup]
    classes = tokenizer._cache._rule.classes
    alone = [chr(c) for c in codes if classes[c] != token_cache.CLASS_RUN or c < 128]
    common = [chr(c) for c in codes[:0x3100:7]]
    texts = [f"a{c}\u0301b\u0338{c}{c}=1{c}ß{c}\u0338" for c in alone[:: 1 if len(alone) < 5000 else 9] + common]
    assert_same_ids(tokenizer, texts)


def test_every_character_is_encoded_alike_by_bpe(tokenizers):
    characters = [chr(c) for c in range(0x3100) if not 0xD800 <= c < 0xE000]
    assert_same_ids(tokenizers["bytepair"], [f"a{c} b {c} {c}c{c}'s{c}.{c} " for c in characters])


def test_cache_is_emptied_when_full(tokenizers, monkeypatch):
    monkeypatch.setattr(token_cache, "MAX_PRETOKENS", 40)
    tokenizer = Tokenizer.__reduce__(tokenizers["wordpiece"])[0](*Tokenizer.__reduce__(tokenizers["wordpiece"])[1])
    for line in hostile_lines(50, seed=2):
        assert_same_ids(tokenizer, [line, *FRAGMENTS[:5]])
        assert len(tokenizer._cache._pretokens) <= 40 + len(line) + 5


def test_no_texts_and_empty_texts_are_encoded(tokenizers):
    for tokenizer in tokenizers.values():
        for texts in ([], [""], ["", "", ""], ["", "a", ""]):
            assert_same_ids(tokenizer, texts)
            _, counts, starts = encode_segmented(tokenizer, texts)
            assert len(counts) == len(texts)
            assert len(starts) == counts.sum()


def test_han_characters_are_those_of_the_segmenter():
    codes = np.array([c for c in range(0x110000) if not 0xD800 <= c < 0xE000], np.uint32)
    assert is_han(codes).tolist() == [has_han(chr(c)) for c in codes.tolist()]
    assert HAN_BLOCKS != BERT_CJK_BLOCKS


def test_bert_han_blocks_are_those_of_the_bert_normalizer():
    from tokenizers.normalizers import BertNormalizer

    normalizer = BertNormalizer(clean_text=False, strip_accents=False, lowercase=False)
    codes = [c for c in range(0x40000) if not 0xD800 <= c < 0xE000]
    separated = [c for c in codes if normalizer.normalize_str(chr(c)) != chr(c)]
    assert separated == [c for first, last in BERT_CJK_BLOCKS for c in range(first, last + 1)]


def test_lone_surrogates_are_replaced_one_for_one(tokenizers):
    text = "a\ud83d\ude00b\udfff"
    assert code_points(text).tolist() == [0x61, 0xFFFD, 0xFFFD, 0x62, 0xFFFD]
    pieces = tokenizers["bytepair"].encode(text)
    assert tokenizers["bytepair"].decode(pieces.ids) == "a\ufffd\ufffdb\ufffd"
    assert pieces.spans[-1][1] == len(text)


def test_special_tokens_that_look_like_words_are_unknown_in_text():
    specials = {"padding": "PAD", "unknown": "UNK", "start": "CLS", "end": "SEP", "mask": "MASK"}
    tokenizer = train_tokenizer("words", ["a cat sat"], specials=specials)
    texts = ["UNK cat PAD", "the MASK sat", "CLS,SEP"]
    assert_same_ids(tokenizer, texts)
    unknown = tokenizer.special_roles["unknown"]
    assert tokenizer.encode_many(texts)[0].tolist().count(unknown) == 7  # the comma is one of them
