"""Answers chosen by a prompt alone: shares worked out by hand, and what is refused."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from asked import shares, softmax
from bigrams import Dreaming, Tabled, counted

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts
from forebear.statistical.ngram.language_model import NgramModel
from small_runs import opened

pytestmark = pytest.mark.usefixtures("one_thread")
CORPUS = ["the cat sat", "the cat ran", "the dog ran"]


# -- by hand


@pytest.fixture(scope="module")
def few() -> Tokenizer:
    return train_tokenizer("words", CORPUS, min_count=1)


@pytest.fixture(scope="module")
def bigrams(few: Tokenizer) -> NgramModel:
    """Shares of counts in the three lines: after `the`, cat 2/3 and dog 1/3; after cat, sat and ran; after dog, ran."""
    model = NgramModel(order=2, vocabulary=few.vocab_size, end=few.special_roles["end"], smoothing="none")
    for line in CORPUS:
        ids = few.encode(line).ids
        row = np.concatenate(([model.end], ids))
        model.add_batch(row, np.array([len(row)]), np.append(ids, model.end))
    return model


def test_choices_continue_a_text(bigrams: NgramModel, few: Tokenizer):
    (one,) = score_options(bigrams, few, "the", choices=["cat", "dog", "cat sat", "sat"])
    logs = {answer.name: answer.log_prob for answer in one.answers}
    assert logs == pytest.approx(
        {"cat": math.log(2 / 3), "dog": math.log(1 / 3), "cat sat": math.log(1 / 3), "sat": -math.inf}
    )
    assert shares(one) == pytest.approx({"cat": 1 / 2, "dog": 1 / 4, "cat sat": 1 / 4, "sat": 0})
    assert one.best is not None
    assert (one.best.name, one.best.prompt, one.best.tokens) == ("cat", "the cat", 1)


def test_both_sides_of_a_blank_count(bigrams: NgramModel, few: Tokenizer):
    ran, sat = score_options(bigrams, few, ["the ____ ran", "the ____ sat"], choices=["cat", "dog"])
    assert shares(ran) == pytest.approx({"cat": 1 / 2, "dog": 1 / 2})  # 2/3 of 1/2, and 1/3 of 1
    assert ran.is_tied
    assert shares(sat) == pytest.approx({"cat": 1, "dog": 0})
    assert not sat.is_tied
    assert [answer.prompt for answer in sat.answers] == ["the cat sat", "the dog sat"]


def test_words_of_a_label_are_added_and_what_is_expected_anyway_is_divided_by(words: Tokenizer):
    """A label's words share the label; the neutral share of each label is its divisor, not that of each word."""
    table = np.full((words.vocab_size, words.vocab_size), 1e-9)
    the, cat, dog, mat = (words.encode(word).ids[0] for word in ("the", "cat", "dog", "mat"))
    table[the, [cat, dog, mat]] = 0.1, 0.3, 0.6
    table[words.special_roles["end"], [cat, dog, mat]] = 0.2, 0.2, 0.1
    told = {"labels": "pet=cat|dog,thing=mat", "template": "{text} {label}"}
    (plain,) = score_options(Tabled(table), words, "the", calibrate=False, **told)
    assert shares(plain) == pytest.approx({"pet": 0.4, "thing": 0.6}, abs=1e-6)
    (divided,) = score_options(Tabled(table), words, "the", **told)
    assert shares(divided) == pytest.approx({"pet": 1 / (1 + 6), "thing": 6 / (1 + 6)}, abs=1e-6)
    pet = divided.answers[0]
    assert (pet.log_prob, pet.neutral_log_probability) == pytest.approx((math.log(0.4), math.log(0.4)))
    assert (pet.verbalizer, pet.prompt) == ("dog", "the dog")
    (other,) = score_options(Tabled(table), words, "the", neutral="the", **told)
    assert other.is_tied


def test_per_token_and_per_byte_take_the_mean_of_what_is_counted(words: Tokenizer):
    predictor = counted(words, ["the cat sat on the mat", "the dog"], add=0.01)
    long, short = "cat sat on the mat", "dog"
    logs = {
        name: math.fsum(t.log_prob for t in score_texts(predictor, words, f"the {name}")[0].tokens[1:])
        for name in (long, short)
    }
    for per, lengths in (("total", (1, 1)), ("token", (5, 1)), ("byte", (18, 3))):
        (one,) = score_options(predictor, words, "the", choices=[long, short], per=per)
        expected = [logs[long] / lengths[0], logs[short] / lengths[1]]
        assert [answer.score for answer in one.answers] == pytest.approx(expected)
        assert list(shares(one).values()) == pytest.approx(softmax(expected))
    assert [answer.bytes for answer in one.answers] == [18, 3]
    assert one.answers[1].bits_per_byte == pytest.approx(-logs[short] / math.log(2) / 3)


def test_a_label_before_the_text_is_asked_how_well_it_tells_the_text(words: Tokenizer):
    """The noisy channel: calibrated, what counts is P(text given label)."""
    predictor = counted(words, ["cat sat", "cat sat", "dog sat", "dog on", "dog the"], add=0.01)
    (one,) = score_options(predictor, words, "sat", labels=["cat", "dog"], template="{label} {text}")
    given = [score_texts(predictor, words, f"{label} sat")[0].tokens[1].log_prob for label in ("cat", "dog")]
    assert list(shares(one).values()) == pytest.approx(softmax(given))


# -- how it is written


def test_many_texts_are_asked_as_each_alone(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebear.objectives.batch.token_batches.__defaults__", (24,))
    monkeypatch.setattr("forebear.inference.prompting.BATCH_TEXTS", 3)
    predictor = Dreaming(tokenizer.vocab_size)
    texts = ["the cat", "a dog sat on the mat.", "你好", "a", "the log and the dog", "我很喜欢你"]
    for how in ({"labels": "good=cat|dog,bad=mat"}, {"choices": ["sat", "喜欢"], "calibrate": True, "per": "byte"}):
        together = score_options(predictor, tokenizer, texts, **how)
        assert len(predictor.batches) > 3
        assert together == [score_options(predictor, tokenizer, text, **how)[0] for text in texts]


def test_a_space_stands_where_writing_has_one(words: Tokenizer):
    def wholes(text: str, *choices: str) -> list[str]:
        return [
            answer.prompt
            for answer in score_options(Dreaming(words.vocab_size), words, text, choices=choices)[0].answers
        ]

    assert wholes("the cat", "sat", " sat", ", too", "喜欢") == [
        "the cat sat",
        "the cat sat",
        "the cat, too",
        "the cat喜欢",
    ]
    assert wholes("the ", "cat", "dog") == ["the cat", "the dog"]
    assert wholes("我很", "喜欢", "cat") == ["我很喜欢", "我很cat"]


def test_the_template_is_in_the_language_of_the_labels(words: Tokenizer):
    for labels, text, whole in (
        ("cat,dog", "我很喜欢你", "我很喜欢你 It was cat."),
        ("喜欢，动词", "the cat", "the cat\n这是喜欢的。"),
        ({"a": "喜欢", "b": ["动词", "x"]}, "the {label} cat", "the {label} cat\n这是喜欢的。"),
    ):
        (one,) = score_options(Dreaming(words.vocab_size), words, text, labels=labels)
        assert one.answers[0].prompt == whole


# -- it works


@pytest.mark.slow
def test_a_run_that_has_read_reviews_tells_new_ones(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Nobody labelled anything: what a review says about itself is enough, in either language."""
    praise, blame = ["lovely", "charming", "brilliant", "moving"], ["dreadful", "boring", "stupid", "clumsy"]
    chinese = ["精彩", "感人", "有趣", "动人"], ["无聊", "糟糕", "难看", "乏味"]
    lines = []
    for which, words in enumerate((praise, blame)):
        for first, second in pairwise([*words, *words, words[0]]):
            for thing in ("film", "play", "book"):
                lines.append(f"A {first} and {second} {thing}. It was {('great', 'bad')[which]}.")
    for which, words in enumerate(chinese):
        for first, second in pairwise([*words, *words, words[0]]):
            lines += [f"{thing}{first}又{second}。\n这是{'好坏'[which]}的。" for thing in ("电影", "戏", "书")]
    (tmp_path / "text.txt").write_text("\n\n".join(lines * 3), encoding="utf-8")
    run = opened("gpt2", tmp_path, tokenizer="words", steps=300, context=32, rate=1e-2)
    new = [f"A {words[0]} and {words[2]} {thing}." for words in (praise, blame) for thing in ("film", "book")]
    told = score_options(run.scorer, run.tokenizer, new, labels="positive=great|good,negative=bad|poor")
    assert [one.best.name for one in told if one.best] == ["positive", "positive", "negative", "negative"]
    assert all(one.best.probability > 0.9 for one in told if one.best)
    told = score_options(run.scorer, run.tokenizer, ["戏精彩又有趣。", "书无聊又难看。"], labels="好,坏")
    assert [one.best.name for one in told if one.best] == ["好", "坏"]


# -- what is wrong


@pytest.mark.parametrize(
    ("how", "said"),
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
def test_questions_without_sense_are_refused_with_a_remedy(words: Tokenizer, how: dict, said: str):
    with pytest.raises(InputError) as caught:
        score_options(Dreaming(words.vocab_size), words, "the cat", **how)
    assert said in caught.value.message
    assert caught.value.hint


def test_texts_without_sense_are_named_by_their_number(words: Tokenizer):
    for texts, said in ((["the", " \n"], "empty"), (["the", "____ cat ____"], "2 blanks")):
        with pytest.raises(InputError, match=said) as caught:
            score_options(Dreaming(words.vocab_size), words, texts, choices=["a", "b"])
        assert caught.value.line == 2


def test_what_is_impossible_is_valid_json_and_no_answer(words: Tokenizer):
    predictor = counted(words, ["the cat sat"])
    (one,) = score_options(predictor, words, "the", choices=["mat", "log"])
    assert one.best is None
    assert not one.is_tied
    facts = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert facts["answer"] is None
    assert facts["answers"][0]["log_probability"] is None
    with pytest.raises(InputError, match="'dog' is impossible") as caught:
        score_options(predictor, words, "the", choices=["the cat", "dog"], calibrate=True)
    assert "--no-calibrate" in str(caught.value.hint)
