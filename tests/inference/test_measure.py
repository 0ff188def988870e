"""Bits per byte of texts equal worked examples and the sum of the scores of single texts."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_language_models import HashedLM, bigram_model, uniform_model

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.measure import evaluate_text
from forebear.inference.score import score_texts

SMALL_TOKENIZER = train_tokenizer("words", ["the cat sat on 垫子"], min_count=1)
LETTERS = "thecatson 垫子斑马zé\n.😀"


@given(st.lists(st.text(LETTERS, min_size=1, max_size=30), min_size=1, max_size=6))
def test_bits_per_byte_of_a_uniform_model_match_a_worked_example(texts):
    evaluation = evaluate_text(uniform_model(SMALL_TOKENIZER), SMALL_TOKENIZER, texts)
    encoded = [SMALL_TOKENIZER.encode(text) for text in texts]
    tokens = sum(len(pieces.ids) + 1 for pieces in encoded)
    unknown = [
        len(text[a:b].encode())
        for text, pieces in zip(texts, encoded, strict=True)
        for i, (a, b) in zip(pieces.ids.tolist(), pieces.spans, strict=True)
        if i == SMALL_TOKENIZER.unk_id
    ]
    bits = tokens * math.log2(SMALL_TOKENIZER.vocab_size) + sum(n + 1 for n in unknown) * math.log2(257)
    assert evaluation.bits_per_byte == pytest.approx(bits / len("".join(texts).encode()))
    assert evaluation.perplexity == pytest.approx(SMALL_TOKENIZER.vocab_size)
    assert (evaluation.tokens, evaluation.documents) == (tokens, len(texts))
    assert evaluation.unknown_tokens == len(unknown)


def test_text_scores_add_up_to_the_evaluation(tokenizer):
    texts = ["the cat sat", "我很喜欢你 zebra", "a dog and a log", "斑马"]
    predictor = HashedLM(tokenizer.vocab_size)
    evaluation = evaluate_text(predictor, tokenizer, texts)
    scores = score_texts(predictor, tokenizer, texts, ends=True)
    bits = sum(score.bits_per_byte * score.num_bytes for score in scores)
    assert evaluation.bits_per_byte == pytest.approx(bits / sum(score.num_bytes for score in scores))
    assert evaluation.nats == pytest.approx(-sum(score.log_prob for score in scores))


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_corpus_is_evaluated_like_its_texts(tokenizer, tmp_path, unit):
    documents = ["the cat sat. A zebra sat on it!", "我很喜欢你。斑马", "a dog"]
    Path(tmp_path / "text.txt").write_text("\n".join(documents))
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, text_format=TextFormat(documents="lines"))
    predictor = uniform_model(tokenizer)
    from_corpus = evaluate_text(predictor, tokenizer, corpus.all_documents(), unit=unit)
    from_texts = evaluate_text(predictor, tokenizer, documents, unit=unit)
    assert from_corpus.bytes == from_texts.bytes == len("".join(documents).encode())
    if unit == "sentence" or tokenizer.kind != "bytepair":  # whose pieces do not cross the borders of sentences
        assert from_corpus.bits_per_byte == pytest.approx(from_texts.bits_per_byte)
        assert from_corpus.unknown_bytes == from_texts.unknown_bytes
    assert from_corpus.documents == from_texts.documents == 3
    assert from_corpus.units == from_texts.units == (5 if unit == "sentence" else 3)


def test_evaluation_does_not_depend_on_batches_of_bounded_size(word_tokenizer, monkeypatch):
    texts = ["the cat sat on the mat"] * 5 + ["a dog"] * 9
    unbatched = evaluate_text(HashedLM(word_tokenizer.vocab_size), word_tokenizer, texts)
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (16,))
    predictor = HashedLM(word_tokenizer.vocab_size)
    reports = []
    evaluation = evaluate_text(
        predictor, word_tokenizer, texts, progress=lambda done, total: reports.append((done, total))
    )
    assert max(predictor.batches) <= 4
    assert sum(predictor.batches) == len(texts)
    assert evaluation.nats == pytest.approx(unbatched.nats, rel=1e-12)
    assert reports[-1] == (evaluation.bytes, evaluation.bytes)


def test_impossible_tokens_are_counted_and_make_bits_per_byte_infinite(word_tokenizer):
    evaluation = evaluate_text(
        bigram_model(word_tokenizer, ["the cat sat"]), word_tokenizer, ["the cat sat", "the mat", "mat"]
    )
    facts = evaluation.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["bits_per_byte"] is facts["perplexity"] is facts["nats_per_token"] is None
    assert facts["impossible_tokens"] == 2  # mat after the, and mat at first; anything may follow it
    assert evaluation.bits_per_byte == math.inf


def test_no_text_and_corpus_of_another_tokenizer_are_refused(word_tokenizer, tokenizers, tmp_path):
    with pytest.raises(InputError, match="no text"):
        evaluate_text(uniform_model(word_tokenizer), word_tokenizer, [])
    Path(tmp_path / "text.txt").write_text("the cat")
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizers["characters"])
    with pytest.raises(InputError, match="another tokenizer"):
        evaluate_text(uniform_model(word_tokenizer), word_tokenizer, corpus.all_documents())


def test_tokenizer_without_end_token_is_refused():
    without_end = train_tokenizer("words", ["the cat"], min_count=1, specials={"unknown": "[UNK]"})
    with pytest.raises(InputError, match="end of a text"):
        evaluate_text(uniform_model(without_end), without_end, ["the cat"])


def test_perplexity_of_known_tokens_matches_a_worked_example(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat"], add=0.5)
    texts = ["the cat zebra", "斑马 sat", "the dog"]
    evaluation = evaluate_text(predictor, word_tokenizer, texts)
    known = [
        token.log_prob
        for score in score_texts(predictor, word_tokenizer, texts, ends=True)
        for token in score.tokens
        if token.id != word_tokenizer.unk_id
    ]
    assert len(known) == evaluation.tokens - evaluation.unknown_tokens
    assert evaluation.perplexity_known == pytest.approx(math.exp(-sum(known) / len(known)))
    assert evaluation.to_dict()["perplexity_known"] == evaluation.perplexity_known != evaluation.perplexity
    assert evaluation.ngram_length is None
    known_only = evaluate_text(predictor, word_tokenizer, ["the dog"])
    assert known_only.perplexity_known == known_only.perplexity


def test_perplexity_of_known_tokens_ignores_impossible_unknown_tokens(word_tokenizer):
    evaluation = evaluate_text(
        bigram_model(word_tokenizer, ["the cat sat", "the zebra"]), word_tokenizer, ["the cat sat", "the cat zebra"]
    )
    assert evaluation.perplexity == math.inf
    assert evaluation.perplexity_known == pytest.approx(2 ** (2 / 7))  # two of P(cat after the) = 1/2, five of 1
