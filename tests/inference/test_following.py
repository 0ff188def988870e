"""The next token, and blanks filled by the probability of the whole text, against shares worked out by hand."""

import json
import math

import numpy as np
import pytest
from bigrams import Dreaming, Tabled, counted, uniform

from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference import next  # noqa: A004 - the module
from forebear.inference.next import next_tokens as what_follows
from forebear.inference.score import score_texts
from forebear.models.ngram import NgramSpec

FOUR = ["词性是动词", "判断单词的词性", "磁性很强的磁铁", "北京的词性是名词"]


def shares(result):
    return {candidate.text: candidate.probability for candidate in result.candidates}


def test_the_next_token_has_the_run_s_own_probabilities(words):
    predictor = counted(words, ["the cat sat", "the dog sat", "the dog", "the"])
    result = what_follows(predictor, words, "see: the", top=9)
    assert shares(result) == pytest.approx({"dog": 0.5, "cat": 0.25, "[SEP]": 0.25})
    assert result.candidates[0].text == "dog"
    assert not result.has_blank
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_blank_of_the_lineage_prefers_the_right_word():
    tokenizer = train_tokenizer("words", [*FOUR, "判断这个词的磁性"], min_count=1)
    for blank in ("____", "＿＿", "__ "):
        result = what_follows(counted(tokenizer, FOUR, add=0.01), tokenizer, "判断这个词的" + blank)
        assert result.candidates[0].text == "词性"
        assert result.candidates[0].full_text.strip() == "判断这个词的词性"


def test_a_blank_in_the_middle_counts_what_follows_it(words):
    predictor = counted(words, ["the cat sat", "the cat sat", "the dog and a cat", "the dog and a dog", "a dog sat"])
    at_the_end = what_follows(predictor, words, "the ____")
    assert shares(at_the_end) == pytest.approx({"cat": 0.5, "dog": 0.5})
    middle = what_follows(predictor, words, "the ____ sat")
    # P(cat|the) P(sat|cat) = 1/2 · 2/3, P(dog|the) P(sat|dog) = 1/2 · 1/4
    assert shares(middle) == pytest.approx({"cat": 8 / 11, "dog": 3 / 11})
    assert middle.candidates[0].full_text == "the cat sat"
    assert (middle.num_considered, middle.covered_mass) == (middle.num_valid, 1.0)


def test_a_blank_s_scores_are_those_of_the_whole_text(tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    text = "the ____ sat" if tokenizer.kind != "characters" else "the _____at"
    for ends in (False, True):
        result = what_follows(predictor, tokenizer, text, top=tokenizer.vocab_size, ends=ends)
        assert sum(candidate.probability for candidate in result.candidates) == pytest.approx(1)
        left = tokenizer.encode("the" if tokenizer.kind != "characters" else "the ").ids.tolist()
        right = tokenizer.encode(" sat" if tokenizer.kind != "characters" else "at").ids.tolist()
        end = tokenizer.special_roles["end"]
        for candidate in result.candidates[:5]:
            row = np.array([end, *left, candidate.id, *right, *([end] if ends else [])])
            assert candidate.log_prob == pytest.approx(predictor.score([row])[0].sum())


def test_a_filled_words_text_scores_as_score_says(words):
    predictor = counted(words, ["the cat sat", "the dog sat"], add=0.1)
    best = what_follows(predictor, words, "the ____ sat").candidates[0]
    assert score_texts(predictor, words, best.full_text)[0].log_prob == pytest.approx(best.log_prob)


def test_byte_pieces_take_the_space_before_the_blank(tokenizers):
    tokenizer = tokenizers["bytepair"]
    predictor = uniform(tokenizer)
    result = what_follows(predictor, tokenizer, "the ____ sat", top=400)
    assert result.candidates
    assert all(candidate.text.startswith(" ") and candidate.text.strip() for candidate in result.candidates)
    assert all(
        candidate.full_text.startswith("the ") and "  " not in candidate.full_text for candidate in result.candidates
    )
    chinese = what_follows(predictor, tokenizer, "我____你", top=400)
    assert all(not candidate.text.startswith(" ") for candidate in chinese.candidates)
    assert all("\ufffd" not in candidate.text for candidate in chinese.candidates)
    assert chinese.num_valid == len(chinese.candidates) > result.num_valid


def test_pieces_that_continue_a_word_fill_only_what_is_attached(tokenizers):
    tokenizer = tokenizers["wordpiece"]
    predictor = uniform(tokenizer)
    for text in ("the ____ sat", "____ sat", "我____"):
        result = what_follows(predictor, tokenizer, text, top=400)
        assert not any(candidate.token.startswith("##") for candidate in result.candidates)
    attached = what_follows(predictor, tokenizer, "ca____", top=400)
    assert all(candidate.token.startswith("##") for candidate in attached.candidates)
    assert attached.candidates[0].full_text == "ca" + attached.candidates[0].token[2:]


def test_special_tokens_never_fill_a_blank(tokenizer):
    result = what_follows(uniform(tokenizer), tokenizer, "the ____", top=tokenizer.vocab_size)
    assert not {candidate.id for candidate in result.candidates} & tokenizer.special_ids


def test_where_all_are_too_many_a_shortlist_is_tried_and_said(words, monkeypatch):
    predictor = Dreaming(words.vocab_size, context=64)
    exact = what_follows(predictor, words, "the ____ sat", top=3)
    monkeypatch.setattr(next, "TOKEN_BUDGET", 20)
    few = what_follows(predictor, words, "the ____ sat", top=3)
    assert few.num_considered == 5  # rows of four tokens
    assert few.num_valid == exact.num_valid > 5
    end = words.special_roles["end"]
    after = np.exp(predictor.next_log_probs([np.array([end, words.token_to_id("the")])])[0])
    fitting = [i for i in range(words.vocab_size) if i not in words.special_ids]
    likeliest = sorted(after[fitting], reverse=True)[:5]
    assert few.covered_mass == pytest.approx(sum(likeliest) / after[fitting].sum())
    assert what_follows(predictor, words, "the ____ sat", among=7).num_considered == 7
    cheap = Dreaming(words.vocab_size, context=None)
    assert what_follows(cheap, words, "the ____ sat").num_considered == few.num_valid


def test_what_is_impossible_is_no_candidate(words):
    predictor = counted(words, ["the cat sat"])
    result = what_follows(predictor, words, "the ____ mat")
    assert result.candidates == ()
    json.dumps(result.to_dict(), allow_nan=False)
    assert what_follows(predictor, words, "the ____ mat", among=2).covered_mass <= 1


def test_wishes_without_sense_are_refused(words):
    for text, how in (("a ____ b ____", {}), ("the", {"top": 0}), ("the", {"among": 0})):
        with pytest.raises(InputError) as caught:
            what_follows(uniform(words), words, text, **how)
        assert caught.value.hint
    nothing = Tabled(np.full((words.vocab_size, words.vocab_size), math.nan))
    with pytest.raises(Exception, match="no numbers"):
        what_follows(nothing, words, "the")


def test_names_with_underscores_are_no_blanks(words):
    predictor = counted(words, ["the cat sat"])
    assert not what_follows(predictor, words, "the __init__ cat").has_blank
    assert what_follows(predictor, words, "the __init__ ____").has_blank
    assert what_follows(predictor, words, "the __.").has_blank


def test_why_tells_the_counts_behind_each_probability(words):
    model = NgramSpec(order=3).build(words)
    lines = ["the cat sat", "the dog sat", "the dog", "the"]
    rows = [np.array([model.end, *words.encode(line).ids]) for line in lines]
    targets = np.concatenate([np.append(row[1:], model.end) for row in rows])
    model.add_batch(np.concatenate(rows), np.array(list(map(len, rows))), targets)
    result = what_follows(model, words, "the", top=4, why=True)
    assert result.candidates[0].text == "dog"
    for candidate in result.candidates:
        parts = [step.mass for step in candidate.explanation.steps]
        assert sum(parts) + candidate.explanation.uniform_share == pytest.approx(candidate.probability, abs=1e-6)
    first, second, _ = result.candidates[0].explanation.steps
    assert (first.words, first.times, first.seen, first.followers) == (("[SEP]", "the"), 2, 4, 3)
    assert (second.words, second.times, second.seen) == (("the",), 2, 4)
    facts = result.to_dict()
    json.dumps(facts, allow_nan=False)
    assert facts["candidates"][0]["why"]["steps"][1]["context"] == ["the"]
    assert what_follows(model, words, "the").candidates[0].explanation is None


def test_why_is_refused_where_nothing_was_counted_or_a_blank_is_to_be_filled(words):
    with pytest.raises(InputError, match="did not count") as caught:
        what_follows(uniform(words), words, "the", why=True)
    assert "--why" in caught.value.hint
    with pytest.raises(InputError, match="blank") as caught:
        what_follows(NgramSpec(order=2).build(words), words, "the ____", why=True)
    assert "where the blank begins" in caught.value.hint
