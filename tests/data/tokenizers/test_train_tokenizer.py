"""Tokenizer training: the same text gives the same file, from all of it or from a sample of stated size."""

import hashlib
import os
import subprocess
import sys

import pytest

from forebear.data.io.text_formats import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.source import tokenizer_for
from forebear.data.tokenizers import bpe, build_vocabulary
from forebear.data.tokenizers.train import TrainingSample, train_tokenizer
from forebear.errors import InputError
from hostile_texts import hostile_lines

KINDS = ("words", "characters", "wordpiece", "bytepair")
ROBERTA = {"start": "<s>", "padding": "<pad>", "end": "</s>", "unknown": "<unk>", "mask": "<mask>"}
TEXTS = hostile_lines(400, seed=5)

SCRIPT = """
import sys, os
sys.path.insert(0, sys.argv[1])
from hostile_texts import hostile_lines
from forebear.data.tokenizers.train import train_tokenizer
for kind in ("words", "characters", "wordpiece", "bytepair"):
    train_tokenizer(kind, hostile_lines(400, seed=5), size=900).save(os.path.join(sys.argv[2], kind))
"""


def test_same_texts_give_the_same_file_in_any_process(tmp_path):
    """Another process, another hash seed, more threads: the Rust trainers alone do not promise this."""
    tests_folder = os.path.join(os.path.dirname(__file__), *[".."] * 2)
    for number, parallel in (("1", "false"), ("77", "true")):
        folder = tmp_path / number
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": number, "TOKENIZERS_PARALLELISM": parallel}
        subprocess.run([sys.executable, "-c", SCRIPT, tests_folder, str(folder)], env=environment, check=True)
    for kind in KINDS:
        assert (tmp_path / "1" / kind).read_bytes() == (tmp_path / "77" / kind).read_bytes(), kind


def test_wordpiece_learns_subwords():
    texts = ["low lower lowest newer wider newest widest"] * 20 + ["北京 上海"] * 3
    tokenizer = train_tokenizer("wordpiece", texts, size=60)
    assert tokenizer.encode("Lowest").texts[0].startswith("low")
    assert tokenizer.vocab_size <= 60
    assert tokenizer.vocabulary()[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert "北" in tokenizer.vocabulary()
    assert "##北" not in tokenizer.vocabulary()
    assert train_tokenizer("wordpiece", texts, size=60, lower=False).encode("Lowest").texts == ["[UNK]"]
    large = train_tokenizer("wordpiece", texts, size=1000)
    assert large.encode("newest").texts == ["newest"]


def test_small_wordpiece_vocabulary_keeps_the_most_frequent_characters():
    tokenizer = train_tokenizer("wordpiece", ["一 二二 三三三 四四四四"], size=7, min_count=1)
    assert tokenizer.vocabulary()[5:] == sorted("三四")
    assert tokenizer.encode("四一").texts == ["四", "[UNK]"]


def test_no_text_or_too_small_vocabulary_is_refused():
    for kind in KINDS:
        with pytest.raises(InputError, match="no text to learn"):
            train_tokenizer(kind, [])
        min_size = {"bytepair": 257}.get(kind, 6)
        with pytest.raises(InputError, match=f"needs at least {min_size}"):
            train_tokenizer(kind, ["some text"], size=min_size - 1)
        assert train_tokenizer(kind, ["some text"], size=min_size).vocab_size <= min_size


def test_word_vocabulary_is_ordered_by_count():
    tokenizer = train_tokenizer("words", ["b a c, c", "c a b", "d"], min_count=2)
    assert tokenizer.vocabulary()[5:] == ["c", "a", "b"]
    assert tokenizer.encode("a d, b").texts == ["a", "[UNK]", "[UNK]", "b"]
    assert tokenizer.describe()["trained"]["coverage"] == round(7 / 9, 6)
    assert train_tokenizer("words", ["a a b"], size=6).vocabulary()[5:] == ["a"]
    assert tokenizer.segmenter is None  # no Chinese, nothing to record


def test_word_vocabulary_does_not_depend_on_the_cache_limit(monkeypatch):
    unlimited = train_tokenizer("words", TEXTS)
    monkeypatch.setattr(build_vocabulary, "MAX_PRETOKENS", 10)
    assert train_tokenizer("words", TEXTS).vocabulary() == unlimited.vocabulary()


def test_large_vocabulary_knows_every_training_word():
    """Counting and encoding split alike, so a large vocabulary knows all of the training text."""
    for options in ({}, {"split": "spaces"}, {"normalise": ("nfkc", "lower", "accents")}, {"segmenter": None}):
        texts = [text.replace("[UNK]", "") for text in TEXTS]
        texts = [text for text in texts if not any(special in text for special in ("[MASK]", "[CLS]"))]
        tokenizer = train_tokenizer("words", texts, size=10**6, **options)
        assert tokenizer.unk_id not in tokenizer.encode_many(texts)[0]
    characters = train_tokenizer("characters", TEXTS)
    assert characters.unk_id not in characters.encode_many(TEXTS)[0]


def test_given_special_tokens_are_used():
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, ["the cat <mask>"], specials=ROBERTA, size=300)
        assert tokenizer.vocabulary()[:5] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        assert tokenizer.special_roles == {"start": 0, "padding": 1, "end": 2, "unknown": 3, "mask": 4}
        assert tokenizer.encode("<mask>", specials=True).ids.tolist() == [4]
        assert 4 not in tokenizer.encode("<mask>").ids.tolist()


def test_invalid_training_options_are_refused():
    with pytest.raises(InputError, match="nfkc, lower, accents"):
        train_tokenizer("words", [], normalise=("nfc",))
    with pytest.raises(InputError, match="words, characters, wordpiece, bytepair"):
        train_tokenizer("letters", [])
    with pytest.raises(InputError, match="punctuation, spaces"):
        train_tokenizer("words", [], split="tabs")
    with pytest.raises(InputError, match="above 0"):
        train_tokenizer("words", [], size=0)
    with pytest.raises(InputError, match="unknown"):
        train_tokenizer("words", ["a"], specials={"mask": "[MASK]"})


def test_normalization_is_explicit():
    assert train_tokenizer("words", ["Ａ É"]).vocabulary()[5:] == ["É", "Ａ"]
    assert train_tokenizer("words", ["Ａ É"], normalise=("nfkc",)).vocabulary()[5:] == ["A", "É"]
    assert train_tokenizer("words", ["Ａ É"], normalise=("nfkc", "lower")).vocabulary()[5:] == ["a", "é"]
    stripped = train_tokenizer("words", ["Ａ É 각"], normalise=("nfkc", "lower", "accents"))
    assert stripped.vocabulary()[5:] == ["a", "e", "각"]
    assert stripped.encode("x É").spans == [(0, 1), (2, 3)]
    assert train_tokenizer("bytepair", ["ABC"] * 9, lower=True).decode(
        train_tokenizer("bytepair", ["ABC"], lower=True).encode("ABC").ids
    )
    assert train_tokenizer("words", ["漢字 汉字"]).describe()["normalise"] == []


def test_training_sample_is_reported_and_independent_of_order():
    texts = [f"text number {n} " * 10 for n in range(2000)]
    total = sum(map(len, texts))
    sample = TrainingSample(texts, limit=total // 4, total=total)
    sampled = set(sample)
    report = sample.report()
    assert report == {"characters": sum(map(len, sampled)), "of": total, "texts": 2000} | {
        "sample": "by hash of content",
        "limit": total // 4,
    }
    assert 0.2 < report["characters"] / total < 0.3
    reversed_sample = set(TrainingSample(texts[::-1], limit=total // 4, total=total))
    assert len(sampled ^ reversed_sample) <= 2  # the very first block is always taken
    assert any(int(text.split()[2]) > 1500 for text in sampled)


def test_single_huge_text_is_sampled():
    text = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(20_000))
    sample = TrainingSample([text], limit=len(text) // 2, total=len(text))
    assert 0.2 < sum(map(len, sample)) / len(text) < 0.8


def test_beginning_is_taken_where_the_total_is_unknown():
    tokenizer = train_tokenizer("words", iter(["one two", "three four", "five"]), limit=12)
    assert tokenizer.describe()["trained"] == {
        "characters": 12,
        "of": None,
        "texts": 2,
        "sample": "the beginning",
        "limit": 12,
        "min_count": 1,
        "size_asked": 50_000,
        "coverage": 1.0,
    }
    assert "five" not in tokenizer.vocabulary()


def test_unspaced_text_is_split_for_training():
    text = "我爱北京天安门" * 20 + "a" * 200 + "，b c" + "0" * 500
    parts = bpe.split_for_training(text, Segmenter())
    assert "".join(parts) == text
    assert set(parts) >= {"我", "爱", "北京", "天安门", "a" * 32}
    assert bpe.split_for_training("a plain sentence, no Chinese 3.14", Segmenter()) == [
        "a plain sentence, no Chinese 3.14"
    ]


def test_given_segmenter_is_kept():
    assert train_tokenizer("words", ["no Chinese"], segmenter=Segmenter(("天安",))).segmenter == Segmenter(("天安",))
    assert train_tokenizer("words", ["我爱北京"], split="spaces").segmenter is None


def test_held_out_end_adds_no_partial_word_to_the_vocabulary(tmp_path, monkeypatch):
    """The end of a single document is held out, at any position; the vocabulary has whole words of the rest."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    text = "".join(f"however internationalisation {number}\n" for number in range(200, 260))
    (tmp_path / "text.txt").write_text(text)
    for share in (0.05, 0.051, 0.052, 0.053, 0.054, 0.055, 0.056):
        tokenizer = tokenizer_for("spaces", [tmp_path / "text.txt"], TextFormat(), held_out=share)
        assert set(tokenizer.vocabulary()) - {tokenizer.id_to_token(number) for number in tokenizer.special_ids} <= set(
            text.split()
        )


def test_unspaced_text_is_trained_on_up_to_the_held_out_end(tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 400))))
    assert tokenizer_for("characters", [tmp_path / "text.txt"], TextFormat(), held_out=0.05).vocab_size == 380 + 5
