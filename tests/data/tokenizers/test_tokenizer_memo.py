"""The fast ways to encode many texts give exactly what the plain way gives, whatever the texts."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import lost, segmented
from forebear.data.segmentation import Segmenter, has_han
from forebear.data.tokenizers import pretokens, token_cache
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.data.tokenizers.wordpiece import BERT_CJK_BLOCKS
from forebear.data.unicode import HAN_BLOCKS, code_points, is_han
from nasty import FRAGMENTS, lines, strings

TEXTS = [
    *lines(300, seed=1),
    "the cat sat on the mat. the cats don't sit, they ran" * 3,
    "我爱北京天安门，自然语言处理。" * 3,
]
WAYS = {
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
def made(request) -> Iterator[dict[str, Tokenizer]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretokens, "worth_compiling", lambda _: request.param == "by loops")
        yield {way: train_tokenizer(way.split()[0], TEXTS, **options) for way, options in WAYS.items()}


def same(tokenizer: Tokenizer, texts: list[str]) -> None:
    ids, counts = tokenizer.encode_many(texts)
    plain_ids, plain_counts = tokenizer.encode_many_reference(texts)
    assert ids.dtype == plain_ids.dtype == np.int32
    assert counts.tolist() == plain_counts.tolist()
    assert ids.tolist() == plain_ids.tolist()


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(strings(), max_size=4))
def test_many_texts_as_one_by_one(made, way, texts):
    tokenizer = made[way]
    same(tokenizer, texts)
    ids, counts = tokenizer.encode_many(texts)
    alone = [tokenizer.encode(text).ids for text in texts]
    assert counts.tolist() == [len(one) for one in alone]
    assert ids.tolist() == [i for one in alone for i in one.tolist()]


@pytest.mark.parametrize(
    "way", ["wordpiece", "wordpiece cased", "bytepair", "words", "words lower", "words spaces cut"]
)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(strings(), max_size=4))
def test_spans_from_memory_are_those_of_rust(made, way, texts):
    remembered = made[way]._cache.encode_many(texts, made[way]._segmenter_boundaries(texts), with_offsets=True)
    plain = made[way]._encode_uncached(texts)
    for name in ("ids", "counts", "unknown_bytes", "first", "last"):
        assert getattr(remembered, name).tolist() == getattr(plain, name).tolist(), name


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=80, deadline=None)
@given(texts=st.lists(strings(), max_size=4))
def test_unknown_bytes_are_those_of_the_spans(made, way, texts):
    tokenizer = made[way]
    tokens, (ids, counts) = tokenizer.encode_batch(texts), tokenizer.encode_many(texts)
    assert (tokens.ids.tolist(), tokens.counts.tolist()) == (ids.tolist(), counts.tolist())
    assert tokens.unknown_bytes.tolist() == [lost(tokenizer, text) for text in texts]
    assert tokens.starts is None
    if not way.startswith("words"):  # else other words may be unknown than those of its own segmenter
        assert (
            tokenizer.encode_batch(texts, [[len(text)] for text in texts]).unknown_bytes.tolist()
            == tokens.unknown_bytes.tolist()
        )


@pytest.mark.sample(4)
@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("words")])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(strings(), max_size=4))
def test_unknown_words_as_the_source_tells_them(made, way, texts):
    """Every character a word: then nothing but the characters decides, and Rust alone says the same."""
    ends = [list(range(1, len(text) + 1)) or [0] for text in texts]
    plain = Tokenizer(made[way]._spec)
    plain.__dict__["_cache"] = None
    found, twin = made[way].encode_batch(texts, ends), plain.encode_batch(texts, ends)
    for name in ("ids", "counts", "unknown_bytes", "starts"):
        assert getattr(found, name).tolist() == getattr(twin, name).tolist(), name
    assert found.unknown_bytes.tolist() == [sum(lost(plain, character) for character in text) for text in texts]


def test_unknown_bytes_by_hand():
    texts = ["The cat 貓 sat.", "", "a dog ÉTÉ", "the cat"]
    words = train_tokenizer("words", ["the cat sat ."] * 2, normalise=("lower",))
    assert words.encode_batch(texts).unknown_bytes.tolist() == [3, 0, 1 + 3 + 5, 0]
    pieces = train_tokenizer("wordpiece", ["the cat sat ."] * 2, size=60, min_count=1)
    assert pieces.encode_batch(texts).unknown_bytes.tolist() == [3, 0, 3, 0]  # ÉTÉ is ete, letters it has
    characters = train_tokenizer("characters", ["the cat sat."])
    assert characters.encode_batch(texts).unknown_bytes.tolist() == [1 + 3, 0, 3 + 5, 0]
    assert train_tokenizer("bytepair", texts).encode_batch(texts).unknown_bytes.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("way", ["wordpiece", "wordpiece cased", "words", "words lower", "words nfkc"])
def test_every_character_between_letters_and_marks(made, way):
    """All of planes 0 to 2, each beside what it might join: no cut rule may be wrong for any of them."""
    around = [c for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    tokenizer = made[way]
    classes = tokenizer._cache._rule.classes
    alone = [chr(c) for c in around if classes[c] != token_cache.CLASS_RUN or c < 128]
    common = [chr(c) for c in around[:0x3100:7]]
    texts = [f"a{c}\u0301b\u0338{c}{c}=1{c}ß{c}\u0338" for c in alone[:: 1 if len(alone) < 5000 else 9] + common]
    same(tokenizer, texts)


def test_every_character_in_byte_pairs(made):
    around = [chr(c) for c in range(0x3100) if not 0xD800 <= c < 0xE000]
    same(made["bytepair"], [f"a{c} b {c} {c}c{c}'s{c}.{c} " for c in around])


def test_memory_is_emptied_when_full(made, monkeypatch):
    monkeypatch.setattr(token_cache, "MAX_PRETOKENS", 40)
    tokenizer = Tokenizer.__reduce__(made["wordpiece"])[0](*Tokenizer.__reduce__(made["wordpiece"])[1])
    for line in lines(50, seed=2):
        same(tokenizer, [line, *FRAGMENTS[:5]])
        assert len(tokenizer._cache._pretokens) <= 40 + len(line) + 5


def test_nothing_and_empty_texts(made):
    for tokenizer in made.values():
        for texts in ([], [""], ["", "", ""], ["", "a", ""]):
            same(tokenizer, texts)
            _, counts, starts = segmented(tokenizer, texts)
            assert len(counts) == len(texts)
            assert len(starts) == counts.sum()


def test_chinese_characters_are_those_of_the_segmenter():
    codes = np.array([c for c in range(0x110000) if not 0xD800 <= c < 0xE000], np.uint32)
    assert is_han(codes).tolist() == [has_han(chr(c)) for c in codes.tolist()]
    assert HAN_BLOCKS != BERT_CJK_BLOCKS


def test_blocks_that_bert_sets_apart():
    from tokenizers.normalizers import BertNormalizer

    apart = BertNormalizer(clean_text=False, strip_accents=False, lowercase=False)
    codes = [c for c in range(0x40000) if not 0xD800 <= c < 0xE000]
    found = [c for c in codes if apart.normalize_str(chr(c)) != chr(c)]
    assert found == [c for first, last in BERT_CJK_BLOCKS for c in range(first, last + 1)]


def test_lone_surrogates_are_replaced_one_for_one(made):
    text = "a\ud83d\ude00b\udfff"
    assert code_points(text).tolist() == [0x61, 0xFFFD, 0xFFFD, 0x62, 0xFFFD]
    pieces = made["bytepair"].encode(text)
    assert made["bytepair"].decode(pieces.ids) == "a\ufffd\ufffdb\ufffd"
    assert pieces.spans[-1][1] == len(text)


def test_special_tokens_that_look_like_words_are_none_in_a_text():
    specials = {"padding": "PAD", "unknown": "UNK", "start": "CLS", "end": "SEP", "mask": "MASK"}
    tokenizer = train_tokenizer("words", ["a cat sat"], specials=specials)
    texts = ["UNK cat PAD", "the MASK sat", "CLS,SEP"]
    same(tokenizer, texts)
    unknown = tokenizer.special_roles["unknown"]
    assert tokenizer.encode_many(texts)[0].tolist().count(unknown) == 7  # the comma is one of them
