"""Scores of texts against numbers worked out by hand."""

import json
import math

import pytest
from bigrams import Dreaming, Tabled, counted, uniform

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.score import score_ranks, score_texts

FOUR = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


def test_a_text_is_the_product_of_its_tokens(words):
    predictor = counted(words, ["the cat sat", "the dog sat"])
    (one,) = score_texts(predictor, words, "the cat sat")
    assert [token.probability for token in one.tokens] == pytest.approx([1, 1 / 2, 1])
    assert one.log_prob == pytest.approx(math.log(1 / 2))
    assert one.perplexity == pytest.approx(2 ** (1 / 3))
    assert one.bits_per_byte == pytest.approx(1 / 11)
    (ended,) = score_texts(predictor, words, ["the cat sat"], ends=True)
    assert len(ended.tokens) == 4
    assert ended.perplexity == pytest.approx(2 ** (1 / 4))
    assert (ended.tokens[-1].start, ended.tokens[-1].end, ended.tokens[-1].original) == (11, 11, "")


def test_the_worked_example_of_the_lineage():
    tokenizer = train_tokenizer("words", [*FOUR, "判断这个词的磁性"], min_count=1)
    predictor = counted(tokenizer, FOUR, add=1)
    better, worse = score_texts(predictor, tokenizer, ["判断这个词的词性", "判断这个词的磁性"])
    assert better.log_prob > worse.log_prob
    plain = counted(tokenizer, FOUR)
    (of_the,) = score_texts(plain, tokenizer, "的词性")
    assert of_the.tokens[1].probability == pytest.approx(2 / 3)


def test_tokens_say_where_they_stand(tokenizer):
    text = "the cat 我很喜欢你"
    (one,) = score_texts(Dreaming(tokenizer.vocab_size), tokenizer, text)
    pieces = tokenizer.encode(text)
    assert [(token.start, token.end) for token in one.tokens] == pieces.spans
    assert [token.token for token in one.tokens] == pieces.texts
    assert all(token.original == text[token.start : token.end] for token in one.tokens)


def test_unknown_text_is_charged_its_spelling(words):
    (one,) = score_texts(uniform(words), words, "the zebra 斑马")
    known = -math.log2(1 / words.vocab_size)
    spelled = [(5 + 1) * math.log2(257), (6 + 1) * math.log2(257)]
    assert [token.bits for token in one.tokens] == pytest.approx([known, known + spelled[0], known + spelled[1]])
    assert one.bits_per_byte == pytest.approx((3 * known + sum(spelled)) / 16)
    assert one.perplexity == pytest.approx(words.vocab_size)  # its own: as the run sees it


def test_what_is_impossible_is_valid_json(words):
    predictor = counted(words, ["the cat sat"])
    (one,) = score_texts(predictor, words, "the mat")
    assert one.log_prob == -math.inf
    assert one.perplexity == one.bits_per_byte == math.inf
    facts = one.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["log_probability"] is facts["perplexity"] is facts["bits_per_byte"] is None
    assert facts["impossible_tokens"] == 1
    assert facts["tokens"][1] | {"probability": 0.0, "log_probability": None, "bits": None} == facts["tokens"][1]


def test_a_text_without_tokens_is_named_by_its_number(tokenizer):
    with pytest.raises(InputError, match="no tokens") as caught:
        score_texts(uniform(tokenizer), tokenizer, ["the cat", ""])
    assert caught.value.line == 2


def test_many_texts_score_as_each_alone(tokenizer, monkeypatch):
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (8,))
    predictor = Dreaming(tokenizer.vocab_size)
    texts = ["the cat", "a dog sat on the mat", "你好", "a", "the log and the dog"]
    together = score_texts(predictor, tokenizer, texts)
    assert len(predictor.batches) > 1
    assert together == [score_texts(predictor, tokenizer, text)[0] for text in texts]


def test_lone_surrogates_count_as_the_character_that_stands_for_them(words):
    (one,) = score_texts(uniform(words), words, "the \ud800")
    assert one.num_bytes == len("the \ufffd".encode())


def test_gibberish_is_not_the_likeliest_because_it_is_one_token(words):
    """One unknown token may be likelier than a sentence; spelled out it is not."""
    predictor = counted(words, ["the cat sat on the mat", "the dog sat"], add=0.5)
    sentence, gibberish = score_texts(predictor, words, ["the cat sat on the mat", "zxqvwvutzzzzzzzzzzzz"])
    assert gibberish.log_prob > sentence.log_prob
    assert (gibberish.num_unknown, sentence.num_unknown) == (1, 0)
    assert score_ranks([sentence, gibberish]) == [1, 2]


def test_ranks_are_by_probability_and_shared_by_equals(words):
    predictor = counted(words, ["the cat sat", "the dog sat"])
    texts = ["the mat", "the cat", "the", "the dog", "the log"]
    assert score_ranks(score_texts(predictor, words, texts)) == [4, 2, 1, 2, 4]


def test_scores_that_are_no_numbers_are_told(words):
    broken = Tabled([[math.nan] * words.vocab_size] * words.vocab_size)
    with pytest.raises(ForebearError, match="no numbers"):
        score_texts(broken, words, "the cat")


def test_perplexity_without_unknown_tokens_by_hand(words):
    predictor = counted(words, ["the cat sat", "the dog sat"], add=0.5)
    (one,) = score_texts(predictor, words, "the zebra cat")
    the, zebra, cat = (token.probability for token in one.tokens)
    assert one.perplexity == pytest.approx((the * zebra * cat) ** (-1 / 3))
    assert one.perplexity_known == one.to_dict()["perplexity_known"] == pytest.approx((the * cat) ** (-1 / 2))
    (known,) = score_texts(predictor, words, "the cat")
    assert known.perplexity_known == known.perplexity
    (unheard,) = score_texts(predictor, words, "zebra")
    assert unheard.perplexity_known is unheard.to_dict()["perplexity_known"] is None
    assert "ngram_length" not in one.to_dict()["tokens"][0]
