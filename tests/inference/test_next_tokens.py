"""The next token, and blanks filled by the probability of the whole text, equal probabilities worked out by hand."""

import json
import math

import numpy as np
import pytest
from toy_language_models import BigramTable, HashedLM, bigram_model, uniform_model

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference import next_tokens as next_tokens_module
from forebear.inference.next_tokens import next_tokens
from forebear.inference.score import score_texts
from forebear.models.ngram import NgramSpec

LINES = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


def probabilities(result):
    return {candidate.text: candidate.probability for candidate in result.candidates}


def test_next_token_probabilities_are_those_of_the_model(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat", "the dog", "the"])
    result = next_tokens(predictor, word_tokenizer, "see: the", top=9)
    assert probabilities(result) == pytest.approx({"dog": 0.5, "cat": 0.25, "[SEP]": 0.25})
    assert result.candidates[0].text == "dog"
    assert not result.has_blank
    json.dumps(result.to_dict(), allow_nan=False)


def test_blank_of_the_worked_example_prefers_the_right_word():
    tokenizer = train_tokenizer("words", [*LINES, "判断这个词的磁性"], min_count=1)
    for blank in ("____", "＿＿", "__ "):
        result = next_tokens(bigram_model(tokenizer, LINES, add=0.01), tokenizer, "判断这个词的" + blank)
        assert result.candidates[0].text == "词性"
        assert result.candidates[0].full_text.strip() == "判断这个词的词性"


def test_blank_inside_a_text_is_scored_with_the_text_after_it(word_tokenizer):
    predictor = bigram_model(
        word_tokenizer, ["the cat sat", "the cat sat", "the dog and a cat", "the dog and a dog", "a dog sat"]
    )
    at_the_end = next_tokens(predictor, word_tokenizer, "the ____")
    assert probabilities(at_the_end) == pytest.approx({"cat": 0.5, "dog": 0.5})
    middle = next_tokens(predictor, word_tokenizer, "the ____ sat")
    # P(cat|the) P(sat|cat) = 1/2 · 2/3, P(dog|the) P(sat|dog) = 1/2 · 1/4
    assert probabilities(middle) == pytest.approx({"cat": 8 / 11, "dog": 3 / 11})
    assert middle.candidates[0].full_text == "the cat sat"
    assert (middle.num_considered, middle.covered_mass) == (middle.num_valid, 1.0)


def test_blank_scores_equal_those_of_the_whole_text(tokenizer):
    predictor = HashedLM(tokenizer.vocab_size)
    text = "the ____ sat" if tokenizer.kind != "characters" else "the _____at"
    for ends in (False, True):
        result = next_tokens(predictor, tokenizer, text, top=tokenizer.vocab_size, ends=ends)
        assert sum(candidate.probability for candidate in result.candidates) == pytest.approx(1)
        left = tokenizer.encode("the" if tokenizer.kind != "characters" else "the ").ids.tolist()
        right = tokenizer.encode(" sat" if tokenizer.kind != "characters" else "at").ids.tolist()
        end = tokenizer.special_roles["end"]
        for candidate in result.candidates[:5]:
            row = np.array([end, *left, candidate.id, *right, *([end] if ends else [])])
            assert candidate.log_prob == pytest.approx(predictor.score([row])[0].sum())


def test_filled_text_has_the_log_prob_of_score(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat", "the dog sat"], add=0.1)
    best = next_tokens(predictor, word_tokenizer, "the ____ sat").candidates[0]
    assert score_texts(predictor, word_tokenizer, best.full_text)[0].log_prob == pytest.approx(best.log_prob)


def test_byte_level_tokens_take_the_space_before_the_blank(tokenizers):
    tokenizer = tokenizers["bytepair"]
    predictor = uniform_model(tokenizer)
    result = next_tokens(predictor, tokenizer, "the ____ sat", top=400)
    assert result.candidates
    assert all(candidate.text.startswith(" ") and candidate.text.strip() for candidate in result.candidates)
    assert all(
        candidate.full_text.startswith("the ") and "  " not in candidate.full_text for candidate in result.candidates
    )
    chinese = next_tokens(predictor, tokenizer, "我____你", top=400)
    assert all(not candidate.text.startswith(" ") for candidate in chinese.candidates)
    assert all("\ufffd" not in candidate.text for candidate in chinese.candidates)
    assert chinese.num_valid == len(chinese.candidates) > result.num_valid


def test_continuation_pieces_fill_only_attached_blanks(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    predictor = uniform_model(tokenizer)
    for text in ("the ____ sat", "____ sat", "我____"):
        result = next_tokens(predictor, tokenizer, text, top=400)
        assert not any(candidate.token.startswith("##") for candidate in result.candidates)
    attached = next_tokens(predictor, tokenizer, "ca____", top=400)
    assert all(candidate.token.startswith("##") for candidate in attached.candidates)
    assert attached.candidates[0].full_text == "ca" + attached.candidates[0].token[2:]


def test_special_tokens_never_fill_a_blank(tokenizer):
    result = next_tokens(uniform_model(tokenizer), tokenizer, "the ____", top=tokenizer.vocab_size)
    assert not {candidate.id for candidate in result.candidates} & tokenizer.special_ids


def test_shortlist_is_scored_where_all_tokens_are_too_many(word_tokenizer, monkeypatch):
    predictor = HashedLM(word_tokenizer.vocab_size, context=64)
    exact = next_tokens(predictor, word_tokenizer, "the ____ sat", top=3)
    monkeypatch.setattr(next_tokens_module, "TOKEN_BUDGET", 20)
    shortlisted = next_tokens(predictor, word_tokenizer, "the ____ sat", top=3)
    assert shortlisted.num_considered == 5  # rows of four tokens
    assert shortlisted.num_valid == exact.num_valid > 5
    end = word_tokenizer.special_roles["end"]
    next_probs = np.exp(predictor.next_log_probs([np.array([end, word_tokenizer.token_to_id("the")])])[0])
    fitting = [i for i in range(word_tokenizer.vocab_size) if i not in word_tokenizer.special_ids]
    likeliest = sorted(next_probs[fitting], reverse=True)[:5]
    assert shortlisted.covered_mass == pytest.approx(sum(likeliest) / next_probs[fitting].sum())
    assert next_tokens(predictor, word_tokenizer, "the ____ sat", among=7).num_considered == 7
    unlimited = HashedLM(word_tokenizer.vocab_size, context=None)
    assert next_tokens(unlimited, word_tokenizer, "the ____ sat").num_considered == shortlisted.num_valid


def test_impossible_tokens_are_no_candidates(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat"])
    result = next_tokens(predictor, word_tokenizer, "the ____ mat")
    assert result.candidates == ()
    json.dumps(result.to_dict(), allow_nan=False)
    assert next_tokens(predictor, word_tokenizer, "the ____ mat", among=2).covered_mass <= 1


def test_invalid_next_options_are_refused(word_tokenizer):
    for text, options in (("a ____ b ____", {}), ("the", {"top": 0}), ("the", {"among": 0})):
        with pytest.raises(InputError) as caught:
            next_tokens(uniform_model(word_tokenizer), word_tokenizer, text, **options)
        assert caught.value.hint
    nan_table = BigramTable(np.full((word_tokenizer.vocab_size, word_tokenizer.vocab_size), math.nan))
    with pytest.raises(Exception, match="no numbers"):
        next_tokens(nan_table, word_tokenizer, "the")


def test_names_with_underscores_are_no_blanks(word_tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat"])
    assert not next_tokens(predictor, word_tokenizer, "the __init__ cat").has_blank
    assert next_tokens(predictor, word_tokenizer, "the __init__ ____").has_blank
    assert next_tokens(predictor, word_tokenizer, "the __.").has_blank


def test_why_lists_the_counts_behind_each_probability(word_tokenizer):
    model = NgramSpec(order=3).build(word_tokenizer)
    lines = ["the cat sat", "the dog sat", "the dog", "the"]
    rows = [np.array([model.eos_id, *word_tokenizer.encode(line).ids]) for line in lines]
    targets = np.concatenate([np.append(row[1:], model.eos_id) for row in rows])
    model.add_batch(np.concatenate(rows), np.array(list(map(len, rows))), targets)
    result = next_tokens(model, word_tokenizer, "the", top=4, why=True)
    assert result.candidates[0].text == "dog"
    for candidate in result.candidates:
        parts = [step.mass for step in candidate.evidence.steps]
        assert sum(parts) + candidate.evidence.uniform_share == pytest.approx(candidate.probability, abs=1e-6)
    first, second, _ = result.candidates[0].evidence.steps
    assert (first.words, first.times, first.seen, first.followers) == (("[SEP]", "the"), 2, 4, 3)
    assert (second.words, second.times, second.seen) == (("the",), 2, 4)
    facts = result.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["candidates"][0]["why"]["steps"][1]["context"] == ["the"]
    assert next_tokens(model, word_tokenizer, "the").candidates[0].evidence is None


def test_why_is_refused_for_models_without_counts_and_for_blanks(word_tokenizer):
    with pytest.raises(InputError, match="did not count") as caught:
        next_tokens(uniform_model(word_tokenizer), word_tokenizer, "the", why=True)
    assert "--why" in caught.value.hint
    with pytest.raises(InputError, match="blank") as caught:
        next_tokens(NgramSpec(order=2).build(word_tokenizer), word_tokenizer, "the ____", why=True)
    assert "where the blank begins" in caught.value.hint
