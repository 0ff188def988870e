"""Bits per byte against numbers worked out by hand, and against the scores of single texts."""

import json
import math
from pathlib import Path

import pytest
from bigrams import Dreaming, counted, uniform
from hypothesis import given
from hypothesis import strategies as st

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.reader import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.measure import evaluate_text
from forebear.inference.score import score_texts

SMALL = train_tokenizer("words", ["the cat sat on 垫子"], min_count=1)
LETTERS = "thecatson 垫子斑马zé\n.😀"


@given(st.lists(st.text(LETTERS, min_size=1, max_size=30), min_size=1, max_size=6))
def test_a_uniform_predictor_costs_what_one_works_out_by_hand(texts):
    measured = evaluate_text(uniform(SMALL), SMALL, texts)
    cut = [SMALL.encode(text) for text in texts]
    tokens = sum(len(pieces.ids) + 1 for pieces in cut)
    unknown = [
        len(text[a:b].encode())
        for text, pieces in zip(texts, cut, strict=True)
        for i, (a, b) in zip(pieces.ids.tolist(), pieces.spans, strict=True)
        if i == SMALL.unk_id
    ]
    bits = tokens * math.log2(SMALL.vocab_size) + sum(n + 1 for n in unknown) * math.log2(257)
    assert measured.bits_per_byte == pytest.approx(bits / len("".join(texts).encode()))
    assert measured.perplexity == pytest.approx(SMALL.vocab_size)
    assert (measured.tokens, measured.documents) == (tokens, len(texts))
    assert measured.unknown_tokens == len(unknown)


def test_scores_of_texts_add_up_to_their_measure(tokenizer):
    texts = ["the cat sat", "我很喜欢你 zebra", "a dog and a log", "斑马"]
    predictor = Dreaming(tokenizer.vocab_size)
    measured = evaluate_text(predictor, tokenizer, texts)
    scored = score_texts(predictor, tokenizer, texts, ends=True)
    bits = sum(one.bits_per_byte * one.num_bytes for one in scored)
    assert measured.bits_per_byte == pytest.approx(bits / sum(one.num_bytes for one in scored))
    assert measured.nats == pytest.approx(-sum(one.log_prob for one in scored))


@pytest.mark.parametrize("by", ["document", "sentence"])
def test_a_portion_measures_as_its_texts(tokenizer, tmp_path, by):
    documents = ["the cat sat. A zebra sat on it!", "我很喜欢你。斑马", "a dog"]
    Path(tmp_path / "text.txt").write_text("\n".join(documents))
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, text_format=TextFormat(documents="lines"))
    predictor = uniform(tokenizer)
    from_corpus = evaluate_text(predictor, tokenizer, corpus.all_documents(), unit=by)
    from_texts = evaluate_text(predictor, tokenizer, documents, unit=by)
    assert from_corpus.bytes == from_texts.bytes == len("".join(documents).encode())
    if by == "sentence" or tokenizer.kind != "bytepair":  # whose pieces do not cross the borders of sentences
        assert from_corpus.bits_per_byte == pytest.approx(from_texts.bits_per_byte)
        assert from_corpus.unknown_bytes == from_texts.unknown_bytes
    assert from_corpus.documents == from_texts.documents == 3
    assert from_corpus.units == from_texts.units == (5 if by == "sentence" else 3)


def test_memory_is_bounded_and_batches_change_nothing(words, monkeypatch):
    texts = ["the cat sat on the mat"] * 5 + ["a dog"] * 9
    whole = evaluate_text(Dreaming(words.vocab_size), words, texts)
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (16,))
    predictor = Dreaming(words.vocab_size)
    seen = []
    measured = evaluate_text(predictor, words, texts, progress=lambda done, total: seen.append((done, total)))
    assert max(predictor.batches) <= 4
    assert sum(predictor.batches) == len(texts)
    assert measured.nats == pytest.approx(whole.nats, rel=1e-12)
    assert seen[-1] == (measured.bytes, measured.bytes)


def test_what_is_impossible_makes_it_infinite_and_says_how_often(words):
    measured = evaluate_text(counted(words, ["the cat sat"]), words, ["the cat sat", "the mat", "mat"])
    facts = measured.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["bits_per_byte"] is facts["perplexity"] is facts["nats_per_token"] is None
    assert facts["impossible_tokens"] == 2  # mat after the, and mat at first; anything may follow it
    assert measured.bits_per_byte == math.inf


def test_nothing_to_measure_and_a_foreign_corpus_are_refused(words, tokenizers, tmp_path):
    with pytest.raises(InputError, match="no text"):
        evaluate_text(uniform(words), words, [])
    Path(tmp_path / "text.txt").write_text("the cat")
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizers["characters"])
    with pytest.raises(InputError, match="another tokenizer"):
        evaluate_text(uniform(words), words, corpus.all_documents())


def test_a_tokenizer_without_an_end_is_refused():
    endless = train_tokenizer("words", ["the cat"], min_count=1, specials={"unknown": "[UNK]"})
    with pytest.raises(InputError, match="end of a text"):
        evaluate_text(uniform(endless), endless, ["the cat"])


def test_perplexity_without_unknown_tokens_by_hand(words):
    predictor = counted(words, ["the cat sat", "the dog sat"], add=0.5)
    texts = ["the cat zebra", "斑马 sat", "the dog"]
    measured = evaluate_text(predictor, words, texts)
    known = [
        token.log_prob
        for one in score_texts(predictor, words, texts, ends=True)
        for token in one.tokens
        if token.id != words.unk_id
    ]
    assert len(known) == measured.tokens - measured.unknown_tokens
    assert measured.perplexity_known == pytest.approx(math.exp(-sum(known) / len(known)))
    assert measured.to_dict()["perplexity_known"] == measured.perplexity_known != measured.perplexity
    assert measured.ngram_length is None
    without = evaluate_text(predictor, words, ["the dog"])
    assert without.perplexity_known == without.perplexity


def test_unknown_tokens_that_are_impossible_are_left_out_too(words):
    measured = evaluate_text(counted(words, ["the cat sat", "the zebra"]), words, ["the cat sat", "the cat zebra"])
    assert measured.perplexity == math.inf
    assert measured.perplexity_known == pytest.approx(2 ** (2 / 7))  # two of P(cat after the) = 1/2, five of 1
