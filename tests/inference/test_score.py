"""Scores of texts equal numbers worked out by hand."""

import json
import math

import pytest
from toy_language_models import BigramTable, HashedLM, bigram_model, uniform_model

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.score import score_ranks, score_texts

LINES = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


def test_text_probability_is_the_product_over_its_tokens(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat"])
    (score,) = score_texts(predictor, word_tokenizer, "the cat sat")
    assert [token.probability for token in score.tokens] == pytest.approx([1, 1 / 2, 1])
    assert score.log_prob == pytest.approx(math.log(1 / 2))
    assert score.perplexity == pytest.approx(2 ** (1 / 3))
    assert score.bits_per_byte == pytest.approx(1 / 11)
    (with_end,) = score_texts(predictor, word_tokenizer, ["the cat sat"], ends=True)
    assert len(with_end.tokens) == 4
    assert with_end.perplexity == pytest.approx(2 ** (1 / 4))
    assert (with_end.tokens[-1].start, with_end.tokens[-1].end, with_end.tokens[-1].original) == (11, 11, "")


def test_scores_match_the_worked_bigram_example():
    tokenizer = train_tokenizer("words", [*LINES, "判断这个词的磁性"], min_count=1)
    predictor = bigram_model(tokenizer, LINES, add=1)
    better, worse = score_texts(predictor, tokenizer, ["判断这个词的词性", "判断这个词的磁性"])
    assert better.log_prob > worse.log_prob
    unsmoothed = bigram_model(tokenizer, LINES)
    (score,) = score_texts(unsmoothed, tokenizer, "的词性")
    assert score.tokens[1].probability == pytest.approx(2 / 3)


def test_scored_tokens_have_their_spans(tokenizer):
    text = "the cat 我很喜欢你"
    (score,) = score_texts(HashedLM(tokenizer.vocab_size), tokenizer, text)
    pieces = tokenizer.encode(text)
    assert [(token.start, token.end) for token in score.tokens] == pieces.spans
    assert [token.token for token in score.tokens] == pieces.texts
    assert all(token.original == text[token.start : token.end] for token in score.tokens)


def test_unknown_words_are_charged_by_spelling(word_tokenizer):
    (score,) = score_texts(uniform_model(word_tokenizer), word_tokenizer, "the zebra 斑马")
    known = -math.log2(1 / word_tokenizer.vocab_size)
    spelling_bits = [(5 + 1) * math.log2(257), (6 + 1) * math.log2(257)]
    assert [token.bits for token in score.tokens] == pytest.approx(
        [known, known + spelling_bits[0], known + spelling_bits[1]]
    )
    assert score.bits_per_byte == pytest.approx((3 * known + sum(spelling_bits)) / 16)
    assert score.perplexity == pytest.approx(word_tokenizer.vocab_size)  # per token, without spelling


def test_impossible_text_gives_valid_json(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat"])
    (score,) = score_texts(predictor, word_tokenizer, "the mat")
    assert score.log_prob == -math.inf
    assert score.perplexity == score.bits_per_byte == math.inf
    facts = score.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["log_probability"] is facts["perplexity"] is facts["bits_per_byte"] is None
    assert facts["impossible_tokens"] == 1
    assert facts["tokens"][1] | {"probability": 0.0, "log_probability": None, "bits": None} == facts["tokens"][1]


def test_text_without_tokens_is_refused_with_its_number(tokenizer):
    with pytest.raises(InputError, match="no tokens") as caught:
        score_texts(uniform_model(tokenizer), tokenizer, ["the cat", ""])
    assert caught.value.line == 2


def test_batched_texts_score_as_each_alone(tokenizer, monkeypatch):
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (8,))
    predictor = HashedLM(tokenizer.vocab_size)
    texts = ["the cat", "a dog sat on the mat", "你好", "a", "the log and the dog"]
    together = score_texts(predictor, tokenizer, texts)
    assert len(predictor.batches) > 1
    assert together == [score_texts(predictor, tokenizer, text)[0] for text in texts]


def test_lone_surrogates_count_as_the_replacement_character(word_tokenizer):
    (score,) = score_texts(uniform_model(word_tokenizer), word_tokenizer, "the \ud800")
    assert score.num_bytes == len("the \ufffd".encode())


def test_gibberish_of_one_unknown_token_ranks_below_a_sentence(word_tokenizer):
    """One unknown token may be more probable than a sentence; with its spelling it is not."""
    predictor = bigram_model(word_tokenizer, ["the cat sat on the mat", "the dog sat"], add=0.5)
    sentence, gibberish = score_texts(predictor, word_tokenizer, ["the cat sat on the mat", "zxqvwvutzzzzzzzzzzzz"])
    assert gibberish.log_prob > sentence.log_prob
    assert (gibberish.num_unknown, sentence.num_unknown) == (1, 0)
    assert score_ranks([sentence, gibberish]) == [1, 2]


def test_ranks_are_by_probability_and_shared_by_ties(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat"])
    texts = ["the mat", "the cat", "the", "the dog", "the log"]
    assert score_ranks(score_texts(predictor, word_tokenizer, texts)) == [4, 2, 1, 2, 4]


def test_nan_scores_are_refused(word_tokenizer):
    broken = BigramTable([[math.nan] * word_tokenizer.vocab_size] * word_tokenizer.vocab_size)
    with pytest.raises(ForebearError, match="no numbers"):
        score_texts(broken, word_tokenizer, "the cat")


def test_perplexity_of_known_tokens_matches_a_worked_example(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat"], add=0.5)
    (score,) = score_texts(predictor, word_tokenizer, "the zebra cat")
    the, zebra, cat = (token.probability for token in score.tokens)
    assert score.perplexity == pytest.approx((the * zebra * cat) ** (-1 / 3))
    assert score.perplexity_known == score.to_dict()["perplexity_known"] == pytest.approx((the * cat) ** (-1 / 2))
    (known,) = score_texts(predictor, word_tokenizer, "the cat")
    assert known.perplexity_known == known.perplexity
    (unknown_only,) = score_texts(predictor, word_tokenizer, "zebra")
    assert unknown_only.perplexity_known is unknown_only.to_dict()["perplexity_known"] is None
    assert "ngram_length" not in score.to_dict()["tokens"][0]
