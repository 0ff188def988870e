"""Options scored by a prompt alone: probabilities match worked examples, and invalid calls are refused."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from prompt_answers import answer_probabilities, softmax
from toy_language_models import BigramTable, HashedLM, bigram_model

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts
from forebear.statistical.ngram.language_model import NgramModel
from small_runs import open_small_run

pytestmark = pytest.mark.usefixtures("one_thread")
CORPUS = ["the cat sat", "the cat ran", "the dog ran"]


# -- worked examples


@pytest.fixture(scope="module")
def corpus_tokenizer() -> Tokenizer:
    return train_tokenizer("words", CORPUS, min_count=1)


@pytest.fixture(scope="module")
def trained_bigrams(corpus_tokenizer: Tokenizer) -> NgramModel:
    """Shares of counts in the three lines: after `the`, cat 2/3 and dog 1/3; after cat, sat and ran; after dog, ran."""
    model = NgramModel(
        order=2, vocab_size=corpus_tokenizer.vocab_size, eos_id=corpus_tokenizer.special_roles["end"], smoothing="none"
    )
    for line in CORPUS:
        ids = corpus_tokenizer.encode(line).ids
        row = np.concatenate(([model.eos_id], ids))
        model.add_batch(row, np.array([len(row)]), np.append(ids, model.eos_id))
    return model


def test_choices_are_scored_as_continuations(trained_bigrams: NgramModel, corpus_tokenizer: Tokenizer):
    (result,) = score_options(trained_bigrams, corpus_tokenizer, "the", choices=["cat", "dog", "cat sat", "sat"])
    logs = {answer.name: answer.log_prob for answer in result.answers}
    assert logs == pytest.approx(
        {"cat": math.log(2 / 3), "dog": math.log(1 / 3), "cat sat": math.log(1 / 3), "sat": -math.inf}
    )
    assert answer_probabilities(result) == pytest.approx({"cat": 1 / 2, "dog": 1 / 4, "cat sat": 1 / 4, "sat": 0})
    assert result.best is not None
    assert (result.best.name, result.best.prompt, result.best.tokens) == ("cat", "the cat", 1)


def test_blank_is_scored_with_the_text_on_both_sides(trained_bigrams: NgramModel, corpus_tokenizer: Tokenizer):
    ran, sat = score_options(
        trained_bigrams, corpus_tokenizer, ["the ____ ran", "the ____ sat"], choices=["cat", "dog"]
    )
    assert answer_probabilities(ran) == pytest.approx({"cat": 1 / 2, "dog": 1 / 2})  # 2/3 of 1/2, and 1/3 of 1
    assert ran.is_tied
    assert answer_probabilities(sat) == pytest.approx({"cat": 1, "dog": 0})
    assert not sat.is_tied
    assert [answer.prompt for answer in sat.answers] == ["the cat sat", "the dog sat"]


def test_verbalizer_probabilities_are_summed_and_calibrated(word_tokenizer: Tokenizer):
    """Words of one label are summed; the divisor is the neutral probability of the label, not of each word."""
    table = np.full((word_tokenizer.vocab_size, word_tokenizer.vocab_size), 1e-9)
    the, cat, dog, mat = (word_tokenizer.encode(word).ids[0] for word in ("the", "cat", "dog", "mat"))
    table[the, [cat, dog, mat]] = 0.1, 0.3, 0.6
    table[word_tokenizer.special_roles["end"], [cat, dog, mat]] = 0.2, 0.2, 0.1
    options = {"labels": "pet=cat|dog,thing=mat", "template": "{text} {label}"}
    (uncalibrated,) = score_options(BigramTable(table), word_tokenizer, "the", calibrate=False, **options)
    assert answer_probabilities(uncalibrated) == pytest.approx({"pet": 0.4, "thing": 0.6}, abs=1e-6)
    (calibrated,) = score_options(BigramTable(table), word_tokenizer, "the", **options)
    assert answer_probabilities(calibrated) == pytest.approx({"pet": 1 / (1 + 6), "thing": 6 / (1 + 6)}, abs=1e-6)
    pet = calibrated.answers[0]
    assert (pet.log_prob, pet.content_free_log_prob) == pytest.approx((math.log(0.4), math.log(0.4)))
    assert (pet.verbalizer, pet.prompt) == ("dog", "the dog")
    (own_neutral,) = score_options(BigramTable(table), word_tokenizer, "the", neutral="the", **options)
    assert own_neutral.is_tied


def test_scores_per_token_and_per_byte_are_means(word_tokenizer: Tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat on the mat", "the dog"], add=0.01)
    long, short = "cat sat on the mat", "dog"
    logs = {
        name: math.fsum(t.log_prob for t in score_texts(predictor, word_tokenizer, f"the {name}")[0].tokens[1:])
        for name in (long, short)
    }
    for per, lengths in (("total", (1, 1)), ("token", (5, 1)), ("byte", (18, 3))):
        (result,) = score_options(predictor, word_tokenizer, "the", choices=[long, short], per=per)
        expected = [logs[long] / lengths[0], logs[short] / lengths[1]]
        assert [answer.score for answer in result.answers] == pytest.approx(expected)
        assert list(answer_probabilities(result).values()) == pytest.approx(softmax(expected))
    assert [answer.bytes for answer in result.answers] == [18, 3]
    assert result.answers[1].bits_per_byte == pytest.approx(-logs[short] / math.log(2) / 3)


def test_label_before_the_text_is_scored_by_text_given_label(word_tokenizer: Tokenizer):
    """The noisy channel: calibrated, what counts is P(text given label)."""
    predictor = bigram_model(word_tokenizer, ["cat sat", "cat sat", "dog sat", "dog on", "dog the"], add=0.01)
    (result,) = score_options(predictor, word_tokenizer, "sat", labels=["cat", "dog"], template="{label} {text}")
    log_probs = [
        score_texts(predictor, word_tokenizer, f"{label} sat")[0].tokens[1].log_prob for label in ("cat", "dog")
    ]
    assert list(answer_probabilities(result).values()) == pytest.approx(softmax(log_probs))


# -- prompts


def test_batched_texts_are_scored_as_each_alone(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (24,))
    monkeypatch.setattr("forebear.inference.prompting.BATCH_TEXTS", 3)
    predictor = HashedLM(tokenizer.vocab_size)
    texts = ["the cat", "a dog sat on the mat.", "你好", "a", "the log and the dog", "我很喜欢你"]
    for options in ({"labels": "good=cat|dog,bad=mat"}, {"choices": ["sat", "喜欢"], "calibrate": True, "per": "byte"}):
        together = score_options(predictor, tokenizer, texts, **options)
        assert len(predictor.batches) > 3
        assert together == [score_options(predictor, tokenizer, text, **options)[0] for text in texts]


def test_space_is_inserted_where_writing_has_one(word_tokenizer: Tokenizer):
    def prompts(text: str, *choices: str) -> list[str]:
        return [
            answer.prompt
            for answer in score_options(HashedLM(word_tokenizer.vocab_size), word_tokenizer, text, choices=choices)[
                0
            ].answers
        ]

    assert prompts("the cat", "sat", " sat", ", too", "喜欢") == [
        "the cat sat",
        "the cat sat",
        "the cat, too",
        "the cat喜欢",
    ]
    assert prompts("the ", "cat", "dog") == ["the cat", "the dog"]
    assert prompts("我很", "喜欢", "cat") == ["我很喜欢", "我很cat"]


def test_default_template_follows_the_language_of_the_labels(word_tokenizer: Tokenizer):
    for labels, text, prompt in (
        ("cat,dog", "我很喜欢你", "我很喜欢你 It was cat."),
        ("喜欢，动词", "the cat", "the cat\n这是喜欢的。"),
        ({"a": "喜欢", "b": ["动词", "x"]}, "the {label} cat", "the {label} cat\n这是喜欢的。"),
    ):
        (result,) = score_options(HashedLM(word_tokenizer.vocab_size), word_tokenizer, text, labels=labels)
        assert result.answers[0].prompt == prompt


# -- a trained model


@pytest.mark.slow
def test_gpt2_trained_on_reviews_classifies_new_ones_by_prompt(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Without labels: pre-training on reviews is enough, in either language."""
    praise, blame = ["lovely", "charming", "brilliant", "moving"], ["dreadful", "boring", "stupid", "clumsy"]
    chinese = ["精彩", "感人", "有趣", "动人"], ["无聊", "糟糕", "难看", "乏味"]
    lines = []
    for class_index, words in enumerate((praise, blame)):
        for first, second in pairwise([*words, *words, words[0]]):
            for thing in ("film", "play", "book"):
                lines.append(f"A {first} and {second} {thing}. It was {('great', 'bad')[class_index]}.")
    for class_index, words in enumerate(chinese):
        for first, second in pairwise([*words, *words, words[0]]):
            lines += [f"{thing}{first}又{second}。\n这是{'好坏'[class_index]}的。" for thing in ("电影", "戏", "书")]
    (tmp_path / "text.txt").write_text("\n\n".join(lines * 3), encoding="utf-8")
    run = open_small_run("gpt2", tmp_path, tokenizer="words", steps=300, context=32, rate=1e-2)
    new_reviews = [f"A {words[0]} and {words[2]} {thing}." for words in (praise, blame) for thing in ("film", "book")]
    results = score_options(run.scorer, run.tokenizer, new_reviews, labels="positive=great|good,negative=bad|poor")
    assert [result.best.name for result in results if result.best] == ["positive", "positive", "negative", "negative"]
    assert all(result.best.probability > 0.9 for result in results if result.best)
    results = score_options(run.scorer, run.tokenizer, ["戏精彩又有趣。", "书无聊又难看。"], labels="好,坏")
    assert [result.best.name for result in results if result.best] == ["好", "坏"]


# -- invalid calls


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither labels nor choices"),
        ({"labels": "a,b", "choices": ["a", "b"]}, "both labels and choices"),
        ({"labels": "good"}, "with 1 label there is nothing"),
        ({"choices": []}, "with 0 choice there is nothing"),
        ({"labels": "good,,bad"}, "a label is empty"),
        ({"labels": "good=,bad"}, "a label is empty"),
        ({"choices": ["a", " "]}, "a choice is empty"),
        ({"labels": "good,bad,good"}, "'good' stands for two labels"),
        ({"labels": "good=fine|well,bad=poor|fine"}, "'fine' stands for two labels"),
        ({"labels": "a,b", "template": "It was {label}."}, "no {text}"),
        ({"labels": "a,b", "template": "{text} It was"}, "no {label}"),
        ({"labels": "a,b", "template": "{text} {label} {label}"}, "{label} 2 times"),
        ({"labels": "a,b", "shots": [("x", "c")]}, "'c', which is none of the labels"),
        ({"choices": ["a", "b"], "template": "{text} {label}"}, "choices take no template"),
        ({"choices": ["a", "b"], "shots": [("x", "a")]}, "no examples"),
        ({"choices": ["a", "b"], "neutral": "N/A"}, "changes nothing"),
        ({"choices": ["a", "b"], "per": "word"}, "per is 'word'"),
    ],
)
def test_invalid_prompt_options_are_refused_with_a_hint(word_tokenizer: Tokenizer, options: dict, message: str):
    with pytest.raises(InputError) as caught:
        score_options(HashedLM(word_tokenizer.vocab_size), word_tokenizer, "the cat", **options)
    assert message in caught.value.message
    assert caught.value.hint


def test_invalid_texts_are_named_by_their_number(word_tokenizer: Tokenizer):
    for texts, message in ((["the", " \n"], "empty"), (["the", "____ cat ____"], "2 blanks")):
        with pytest.raises(InputError, match=message) as caught:
            score_options(HashedLM(word_tokenizer.vocab_size), word_tokenizer, texts, choices=["a", "b"])
        assert caught.value.line == 2


def test_impossible_options_give_valid_json_and_no_answer(word_tokenizer: Tokenizer):
    predictor = bigram_model(word_tokenizer, ["the cat sat"])
    (result,) = score_options(predictor, word_tokenizer, "the", choices=["mat", "log"])
    assert result.best is None
    assert not result.is_tied
    facts = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert facts["answer"] is None
    assert facts["answers"][0]["log_probability"] is None
    with pytest.raises(InputError, match="'dog' is impossible") as caught:
        score_options(predictor, word_tokenizer, "the", choices=["the cat", "dog"], calibrate=True)
    assert "--no-calibrate" in str(caught.value.hint)
