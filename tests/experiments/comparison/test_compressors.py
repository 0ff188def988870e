"""Compression baselines, and that they compress exactly the documents a corpus holds out."""

import gzip
import random
import string

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.experiments.comparison.compressors import (
    DOCUMENT_SEPARATOR,
    HeldOutText,
    compression_baselines,
    first_words,
    split_text,
)

NO_LIMIT = 10**9


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_split_text_holds_out_the_documents_of_a_corpus_for_any_tokenizer(book, kind):
    text_split = split_text([book], TextFormat(), 0.2, NO_LIMIT)
    corpus = prepare_corpus([book], train_tokenizer(kind, [book.read_text()]))
    split = corpus.split(0.2)
    assert split.method == "content"
    assert text_split.num_documents == 200
    assert (text_split.num_bytes, text_split.held_out_bytes) == (
        corpus.all_documents().num_bytes,
        split.held_out.num_bytes,
    )
    texts = book.read_text().strip().split("\n\n")
    held_out_texts = [texts[np.searchsorted(corpus.documents, first)] for first, _ in split.held_out.units.tolist()]
    assert text_split.held_out == b"".join(text.encode() + DOCUMENT_SEPARATOR for text in held_out_texts)


@pytest.mark.parametrize("share", [0.2, 0.001, 0.97])
def test_split_text_splits_one_document_where_a_corpus_does(book, tmp_path, share):
    novel = tmp_path / "novel.txt"
    novel.write_text(book.read_text().replace("\n\n", " "))
    text_split = split_text([novel], TextFormat(), share, NO_LIMIT)
    corpus = prepare_corpus([novel], train_tokenizer("words", [novel.read_text()]))
    split = corpus.split(share)
    assert split.method == "position"
    assert text_split.held_out_bytes == split.held_out.num_bytes
    assert novel.read_text().strip().endswith(text_split.held_out.decode().strip())


def test_split_text_keeps_documents_read_in_parts_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("forebear.data.io.document.PART_CHARACTERS", 1000)
    path = tmp_path / "long.txt"
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_lowercase, k=5)) for _ in range(300)]
    texts = [". ".join(rng.choices(words, k=600)) for _ in range(30)]
    path.write_text("\n\n".join(texts))
    text_split = split_text([path], TextFormat(), 0.3, NO_LIMIT)
    split = prepare_corpus([path], train_tokenizer("characters", texts), workers=1).split(0.3)
    assert text_split.num_documents == 30
    assert text_split.held_out_bytes == split.held_out.num_bytes


def test_split_text_measures_at_most_the_given_bytes(book):
    text_split = split_text([book], TextFormat(), 0.2, 500)
    assert text_split.measured_bytes == 500
    assert split_text([book], TextFormat(), 0.2, NO_LIMIT).held_out.startswith(text_split.held_out[:400])


def baselines_by_name(text: HeldOutText) -> dict[str, float]:
    return {baseline.name: baseline.bits_per_byte for baseline in compression_baselines(text)}


def held_out_text_of(train: bytes, held_out: bytes) -> HeldOutText:
    counts = np.bincount(np.frombuffer(train, np.uint8), minlength=256)
    return HeldOutText(train, held_out, counts, 2, len(train) + len(held_out), len(held_out), len(held_out))


def test_random_bytes_cost_eight_bits_and_repeated_ones_next_to_none():
    rng = np.random.default_rng(0)
    noise, other_noise = (
        rng.integers(0, 256, 200_000, np.uint8).tobytes(),
        rng.integers(0, 256, 20_000, np.uint8).tobytes(),
    )
    new_text = baselines_by_name(held_out_text_of(noise, other_noise))
    assert all(bits == pytest.approx(8, abs=0.05) for bits in new_text.values())
    repeated_text = baselines_by_name(held_out_text_of(noise, noise[100_000:120_000]))
    assert repeated_text["xz"] < 0.2  # read long before, within its window
    assert repeated_text["gzip"] > 7.9  # outside its window
    assert baselines_by_name(held_out_text_of(noise, noise[-20_000:]))["gzip"] < 0.2  # just read, within its window


def test_byte_frequency_baseline_matches_worked_example():
    # three of four letters are a, but 256 counts of one are added: (300 + 1) / (400 + 256) and (100 + 1) / (400 + 256)
    bits_per_byte = baselines_by_name(held_out_text_of(b"aaab" * 100, b"ab" * 50))["byte frequencies"]
    assert bits_per_byte == pytest.approx(-(np.log2(301 / 656) + np.log2(101 / 656)) / 2)


def test_gzip_baseline_agrees_with_gzip(book):
    text_split = split_text([book], TextFormat(), 0.2, NO_LIMIT)
    gzip_bits = 8 * len(gzip.compress(text_split.held_out)) / text_split.measured_bytes
    assert baselines_by_name(text_split)["gzip"] < gzip_bits  # it has read the training text
    assert baselines_by_name(held_out_text_of(b"\0", text_split.held_out))["gzip"] == pytest.approx(gzip_bits, rel=0.1)


def test_first_words_of_held_out_text():
    assert first_words(held_out_text_of(b"x", b"\n\nOnce upon a time there was\n")) == "Once upon a time"
    assert first_words(held_out_text_of(b"x", "北京的天气今天非常好。\n".encode())) == "北京的天气今天非"
    assert first_words(held_out_text_of(b"x", b"\n")) == ""
