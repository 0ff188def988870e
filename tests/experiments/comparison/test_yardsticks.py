"""Yardsticks, and that they see the very documents a corpus holds out."""

import gzip
import random
import string

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io import documents
from forebear.data.io.reader import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.experiments.comparison.compressors import (
    DOCUMENT_SEPARATOR,
    HeldOutText,
    compression_baselines,
    first_words,
    split_text,
)

ALL = 10**9


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_same_documents_are_held_out_as_in_a_corpus_whatever_the_tokenizer(book, kind):
    seen = split_text([book], TextFormat(), 0.2, ALL)
    corpus = prepare_corpus([book], train_tokenizer(kind, [book.read_text()]))
    split = corpus.split(0.2)
    assert split.method == "content"
    assert seen.num_documents == 200
    assert (seen.num_bytes, seen.held_out_bytes) == (corpus.all_documents().num_bytes, split.held_out.num_bytes)
    texts = book.read_text().strip().split("\n\n")
    kept = [texts[np.searchsorted(corpus.documents, first)] for first, _ in split.held_out.units.tolist()]
    assert seen.held_out == b"".join(text.encode() + DOCUMENT_SEPARATOR for text in kept)


@pytest.mark.parametrize("share", [0.2, 0.001, 0.97])
def test_one_document_is_divided_at_the_same_place(book, tmp_path, share):
    novel = tmp_path / "novel.txt"
    novel.write_text(book.read_text().replace("\n\n", " "))
    seen = split_text([novel], TextFormat(), share, ALL)
    corpus = prepare_corpus([novel], train_tokenizer("words", [novel.read_text()]))
    split = corpus.split(share)
    assert split.method == "position"
    assert seen.held_out_bytes == split.held_out.num_bytes
    assert novel.read_text().strip().endswith(seen.held_out.decode().strip())


def test_documents_in_parts_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "PART_CHARACTERS", 1000)
    path = tmp_path / "long.txt"
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_lowercase, k=5)) for _ in range(300)]
    texts = [". ".join(rng.choices(words, k=600)) for _ in range(30)]
    path.write_text("\n\n".join(texts))
    seen = split_text([path], TextFormat(), 0.3, ALL)
    split = prepare_corpus([path], train_tokenizer("characters", texts), workers=1).split(0.3)
    assert seen.num_documents == 30
    assert seen.held_out_bytes == split.held_out.num_bytes


def test_no_more_is_measured_than_asked(book):
    seen = split_text([book], TextFormat(), 0.2, 500)
    assert seen.measured_bytes == 500
    assert split_text([book], TextFormat(), 0.2, ALL).held_out.startswith(seen.held_out[:400])


def by_name(seen: HeldOutText) -> dict[str, float]:
    return {stick.name: stick.bits_per_byte for stick in compression_baselines(seen)}


def made(train: bytes, held_out: bytes) -> HeldOutText:
    counts = np.bincount(np.frombuffer(train, np.uint8), minlength=256)
    return HeldOutText(train, held_out, counts, 2, len(train) + len(held_out), len(held_out), len(held_out))


def test_chance_costs_eight_bits_and_what_was_read_before_next_to_nothing():
    rng = np.random.default_rng(0)
    noise, more = rng.integers(0, 256, 200_000, np.uint8).tobytes(), rng.integers(0, 256, 20_000, np.uint8).tobytes()
    fresh = by_name(made(noise, more))
    assert all(bits == pytest.approx(8, abs=0.05) for bits in fresh.values())
    known = by_name(made(noise, noise[100_000:120_000]))
    assert known["xz"] < 0.2  # read long before
    assert known["gzip"] > 7.9  # too long ago for it
    assert by_name(made(noise, noise[-20_000:]))["gzip"] < 0.2  # just read


def test_frequencies_by_hand():
    # three of four letters are a, but 256 counts of one are added: (300 + 1) / (400 + 256) and (100 + 1) / (400 + 256)
    told = by_name(made(b"aaab" * 100, b"ab" * 50))["byte frequencies"]
    assert told == pytest.approx(-(np.log2(301 / 656) + np.log2(101 / 656)) / 2)


def test_gzip_is_about_what_gzip_says(book):
    seen = split_text([book], TextFormat(), 0.2, ALL)
    alone = 8 * len(gzip.compress(seen.held_out)) / seen.measured_bytes
    assert by_name(seen)["gzip"] < alone  # it has seen the learning text
    assert by_name(made(b"\0", seen.held_out))["gzip"] == pytest.approx(alone, rel=0.1)


def test_how_the_held_out_text_begins():
    assert first_words(made(b"x", b"\n\nOnce upon a time there was\n")) == "Once upon a time"
    assert first_words(made(b"x", "北京的天气今天非常好。\n".encode())) == "北京的天气今天非"
    assert first_words(made(b"x", b"\n")) == ""
