"""Answers chosen by a prompt alone: shares by hand, beside transformers, and beside whole texts that are scored."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from bigrams import Dreaming, Tabled, counted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebear.errors import BadInput, ForebearError
from forebear.milestones.bert import Bert
from forebear.networks.restorer import Restorer
from forebear.statistics.ngram import NgramModel
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train
from forebear.using.asking import Chosen, ask
from forebear.using.scoring import score
from small_runs import opened

pytestmark = pytest.mark.usefixtures("one_thread")
CORPUS = ["the cat sat", "the cat ran", "the dog ran"]


def shares(chosen: Chosen) -> dict[str, float]:
    return {answer.name: answer.probability for answer in chosen.answers}


def softmax(logs: list[float]) -> list[float]:
    weights = [math.exp(value - max(logs)) for value in logs]
    return [weight / sum(weights) for weight in weights]


# -- by hand


@pytest.fixture(scope="module")
def few() -> Tokenizer:
    return train("words", CORPUS, min_count=1)


@pytest.fixture(scope="module")
def bigrams(few: Tokenizer) -> NgramModel:
    """Shares of counts in the three lines: after `the`, cat 2/3 and dog 1/3; after cat, sat and ran; after dog, ran."""
    model = NgramModel(order=2, vocabulary=few.size, end=few.roles["end"], smoothing="none")
    for line in CORPUS:
        ids = few.encode(line).ids
        row = np.concatenate(([model.end], ids))
        model.count(row, np.array([len(row)]), np.append(ids, model.end))
    return model


def test_choices_continue_a_text(bigrams: NgramModel, few: Tokenizer):
    (one,) = ask(bigrams, few, "the", choices=["cat", "dog", "cat sat", "sat"])
    logs = {answer.name: answer.log_probability for answer in one.answers}
    assert logs == pytest.approx(
        {"cat": math.log(2 / 3), "dog": math.log(1 / 3), "cat sat": math.log(1 / 3), "sat": -math.inf}
    )
    assert shares(one) == pytest.approx({"cat": 1 / 2, "dog": 1 / 4, "cat sat": 1 / 4, "sat": 0})
    assert one.best is not None
    assert (one.best.name, one.best.whole, one.best.tokens) == ("cat", "the cat", 1)


def test_both_sides_of_a_blank_count(bigrams: NgramModel, few: Tokenizer):
    ran, sat = ask(bigrams, few, ["the ____ ran", "the ____ sat"], choices=["cat", "dog"])
    assert shares(ran) == pytest.approx({"cat": 1 / 2, "dog": 1 / 2})  # 2/3 of 1/2, and 1/3 of 1
    assert ran.is_tied
    assert shares(sat) == pytest.approx({"cat": 1, "dog": 0})
    assert not sat.is_tied
    assert [answer.whole for answer in sat.answers] == ["the cat sat", "the dog sat"]


def test_words_of_a_label_are_added_and_what_is_expected_anyway_is_divided_by(words: Tokenizer):
    """A label's words share the label; the neutral share of each label is its divisor, not that of each word."""
    table = np.full((words.size, words.size), 1e-9)
    the, cat, dog, mat = (words.encode(word).ids[0] for word in ("the", "cat", "dog", "mat"))
    table[the, [cat, dog, mat]] = 0.1, 0.3, 0.6
    table[words.roles["end"], [cat, dog, mat]] = 0.2, 0.2, 0.1
    told = {"labels": "pet=cat|dog,thing=mat", "template": "{text} {label}"}
    (plain,) = ask(Tabled(table), words, "the", calibrate=False, **told)
    assert shares(plain) == pytest.approx({"pet": 0.4, "thing": 0.6}, abs=1e-6)
    (divided,) = ask(Tabled(table), words, "the", **told)
    assert shares(divided) == pytest.approx({"pet": 1 / (1 + 6), "thing": 6 / (1 + 6)}, abs=1e-6)
    pet = divided.answers[0]
    assert (pet.log_probability, pet.neutral) == pytest.approx((math.log(0.4), math.log(0.4)))
    assert (pet.wording, pet.whole) == ("dog", "the dog")
    (other,) = ask(Tabled(table), words, "the", neutral="the", **told)
    assert other.is_tied


def test_per_token_and_per_byte_take_the_mean_of_what_is_counted(words: Tokenizer):
    predictor = counted(words, ["the cat sat on the mat", "the dog"], add=0.01)
    long, short = "cat sat on the mat", "dog"
    logs = {
        name: math.fsum(t.log_probability for t in score(predictor, words, f"the {name}")[0].tokens[1:])
        for name in (long, short)
    }
    for per, lengths in (("total", (1, 1)), ("token", (5, 1)), ("byte", (18, 3))):
        (one,) = ask(predictor, words, "the", choices=[long, short], per=per)
        expected = [logs[long] / lengths[0], logs[short] / lengths[1]]
        assert [answer.score for answer in one.answers] == pytest.approx(expected)
        assert list(shares(one).values()) == pytest.approx(softmax(expected))
    assert [answer.bytes for answer in one.answers] == [18, 3]
    assert one.answers[1].bits_per_byte == pytest.approx(-logs[short] / math.log(2) / 3)


def test_a_label_before_the_text_is_asked_how_well_it_tells_the_text(words: Tokenizer):
    """The noisy channel: calibrated, what counts is P(text given label)."""
    predictor = counted(words, ["cat sat", "cat sat", "dog sat", "dog on", "dog the"], add=0.01)
    (one,) = ask(predictor, words, "sat", labels=["cat", "dog"], template="{label} {text}")
    given = [score(predictor, words, f"{label} sat")[0].tokens[1].log_probability for label in ("cat", "dog")]
    assert list(shares(one).values()) == pytest.approx(softmax(given))


# -- whatever the tokenizer


TEXTS = st.text("the catsodgmn 我很喜欢你词性动ＡΩ\u0301😀.,", min_size=1, max_size=20).filter(
    lambda text: text.strip()
)
ANSWERS = st.lists(
    st.sampled_from(["cat", "the cat", "dog.", "很", "喜欢", "你好", "zebra", "😀", "t", "at"]), min_size=2, unique=True
)


@given(TEXTS, st.sampled_from(["", " on", "的。", "at", "\u0301"]), ANSWERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shares_are_those_of_the_whole_texts(tokenizer: Tokenizer, text: str, after: str, answers: list[str]):
    """Wherever words merge with what stands around them: Bayes' rule over the wholes, each scored by itself."""
    predictor = Dreaming(tokenizer.size)
    template = "{text} {label}" + after
    wholes = [f"{text} {answer}{after}" for answer in answers]
    bits = [one.bits for one in score(predictor, tokenizer, wholes)]
    (one,) = ask(predictor, tokenizer, text, labels=answers, template=template, calibrate=False)
    expected = softmax([-value * math.log(2) for value in bits])
    assert [answer.whole for answer in one.answers] == wholes
    assert list(shares(one).values()) == pytest.approx(expected, abs=1e-9)
    (blank,) = ask(predictor, tokenizer, f"{text} ____{after}", choices=answers)
    if "_" not in text:
        assert list(shares(blank).values()) == pytest.approx(expected, abs=1e-9)


def test_what_counts_is_the_whole_less_what_stands_before(tokenizer: Tokenizer):
    predictor = Dreaming(tokenizer.size)
    for before, choices in (("the cat", ("sat on", "and")), ("我很喜欢", ("你好", "动词"))):
        space = "" if before == "我很喜欢" else " "
        (one,) = ask(predictor, tokenizer, before, choices=choices)
        start = tokenizer.encode(before).ids.tolist()
        for answer, choice in zip(one.answers, choices, strict=True):
            assert answer.whole == before + space + choice
            ids = tokenizer.encode(answer.whole).ids.tolist()
            if ids[: len(start)] != start:
                continue  # merged: the tokens of the whole are the truth then, see above
            whole, alone = (score(predictor, tokenizer, text)[0] for text in (answer.whole, before))
            assert answer.log_probability == pytest.approx(-(whole.bits - alone.bits) * math.log(2))
            assert answer.tokens == len(ids) - len(start)


def test_many_texts_are_asked_as_each_alone(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("forebear.using.texts.batches.__defaults__", (24,))
    monkeypatch.setattr("forebear.using.asking.TOGETHER", 3)
    predictor = Dreaming(tokenizer.size)
    texts = ["the cat", "a dog sat on the mat.", "你好", "a", "the log and the dog", "我很喜欢你"]
    for how in ({"labels": "good=cat|dog,bad=mat"}, {"choices": ["sat", "喜欢"], "calibrate": True, "per": "byte"}):
        together = ask(predictor, tokenizer, texts, **how)
        assert len(predictor.batches) > 3
        assert together == [ask(predictor, tokenizer, text, **how)[0] for text in texts]


def test_a_space_stands_where_writing_has_one(words: Tokenizer):
    def wholes(text: str, *choices: str) -> list[str]:
        return [answer.whole for answer in ask(Dreaming(words.size), words, text, choices=choices)[0].answers]

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
        (one,) = ask(Dreaming(words.size), words, text, labels=labels)
        assert one.answers[0].whole == whole


# -- room


def test_what_lies_farthest_from_the_answer_has_no_room(tokenizer: Tokenizer):
    text = "the cat and a dog sat on the mat 我很喜欢你😀😀😀"
    for template in ("{text} {label}", "a {text} and {label} 你", "{label} {text}", "{label}, {text}."):
        for context in (14, 17, 23, 40):
            predictor = Dreaming(tokenizer.size, context=context)
            (one,) = ask(predictor, tokenizer, text, labels=["cat", "dog"], template=template, calibrate=False)
            wholes = [answer.whole for answer in one.answers]
            sizes = [len(tokenizer.encode(whole).ids) for whole in wholes]
            assert max(sizes) <= context
            fixed = template.split("{text}")
            kept = wholes[0].removeprefix(fixed[0].replace("{label}", "cat"))
            kept = kept.removesuffix(fixed[1].replace("{label}", "cat")) if fixed[1] else kept
            assert text.startswith(kept) if template.startswith("{label}") else text.endswith(kept)
            whole = template.format(text=text, label="cat")
            assert (one.cut > 0) == (kept != text) == (len(tokenizer.encode(whole).ids) > context)
            if one.cut:  # no more than needed: but for a character of several tokens
                assert max(sizes) > context - 5
            bits = [one.bits for one in score(predictor, tokenizer, wholes)]
            assert list(shares(one).values()) == pytest.approx(softmax([-value * math.log(2) for value in bits]))


def test_both_sides_of_a_blank_keep_alike(words: Tokenizer):
    predictor = Dreaming(words.size, context=9)
    before, after = "a the cat dog sat on", "mat log and a the cat"
    (one,) = ask(predictor, words, f"{before} ____ {after}", choices=["sat", "on the"])
    assert one.answers[0].whole == "the cat dog sat on sat mat log and"[4:]
    assert one.cut == 12 - 7
    (one,) = ask(predictor, words, f"a ____ {after}", choices=["sat", "on"], calibrate=True)
    assert one.answers[0].whole == f"a sat {after}"


def test_as_many_examples_as_have_room_stand_before_the_text(tokenizer: Tokenizer):
    shots = [("the cat sat", "good"), ("a dog", "bad"), ("我很喜欢你", "good"), ("词性", "bad")]
    labels = {"good": ["cat", "mat"], "bad": ["log"]}
    written = [f"{text}: {'cat' if label == 'good' else 'log'}\n\n" for text, label in shots]
    shown = set()
    for context in (None, 12, 20, 26, 34, 45, 60, 200):
        predictor = Dreaming(tokenizer.size, context=context)
        (one,) = ask(predictor, tokenizer, "a cat", labels=labels, template="{text}: {label}", shots=shots)
        sizes = [
            max(len(tokenizer.encode("".join(written[:k]) + f"a cat: {word}").ids) for word in ("cat", "mat", "log"))
            for k in range(5)
        ]
        fits = max(k for k in range(5) if context is None or sizes[k] <= context)
        assert one.shots == fits
        assert one.answers[1].whole == "".join(written[:fits]) + "a cat: log"
        shown.add(fits)
        words = {"good": ("cat", "mat"), "bad": ("log",)}
        logs = {}
        for name, text in (("with", "a cat: "), ("without", ": ")):  # the examples stand before the neutral text too
            wholes = {word: "".join(written[:fits]) + text + word for word in ("cat", "mat", "log")}
            if name == "without":
                wholes = {word: "".join(written[:fits]) + ": ".lstrip() + word for word in wholes}
            told = dict(
                zip(
                    wholes,
                    (-s.bits * math.log(2) for s in score(predictor, tokenizer, list(wholes.values()))),
                    strict=True,
                )
            )
            logs[name] = [float(np.logaddexp.reduce([told[word] for word in of])) for of in words.values()]
        expected = softmax([a - b for a, b in zip(logs["with"], logs["without"], strict=True)])
        assert list(shares(one).values()) == pytest.approx(expected)
    assert len(shown) > 2


def test_an_answer_without_room_for_the_text_is_refused(words: Tokenizer):
    with pytest.raises(BadInput, match="leaves it no room") as caught:
        ask(Dreaming(words.size, context=5), words, ["the", "the cat"], choices=["sat", "a dog on the mat"])
    assert (caught.value.line, "a dog on the mat" in caught.value.what) == (1, True)


# -- runs that find what is hidden


def restorer_of(tokenizer: Tokenizer, context: int = 32) -> Restorer:
    """An untrained BERT whose answers differ clearly."""
    model = Bert(width=16, depth=2, heads=2, context=context).network(tokenizer).initialise(1)
    with torch.no_grad():
        for value in model.parameters():
            if value.dim() > 1:
                value.mul_(8)
    roles = tokenizer.roles
    return Restorer(model.eval(), start=roles["start"], end=roles["end"], mask=roles["mask"])


@torch.inference_mode()
def directly(restorer: Restorer, ids: list[int], first: int, last: int) -> float:
    """log P of the tokens from first to last, each with itself and the later ones hidden, by the whole model."""
    total = 0.0
    for place in range(first, last):
        row = [restorer.start, *ids, restorer.end]
        row[place + 1 : last + 1] = [restorer.mask] * (last - place)
        logits = restorer.model.answers({"tokens": torch.tensor(row), "lengths": torch.tensor([len(row)])})["token"]
        total += float(torch.log_softmax(logits.double(), -1)[place + 1, ids[place]])
    return total


def test_hidden_words_are_told_left_to_right_by_both_sides(cutter: Tokenizer):
    restorer, mask = restorer_of(cutter), cutter.token(cutter.roles["mask"])
    choices = ["cat", "the dog", "喜欢"]
    for blank in ("____", mask, mask * 2):
        one, end = ask(restorer, cutter, [f"a {blank} sat on", "a cat and"], choices=choices)
        assert one.pseudo
        expected = []
        for choice in choices:
            left, right = cutter.encode("a" if cutter.kind == "bytepair" else "a ").ids, cutter.encode(" sat on").ids
            ids = cutter.encode(f"a {choice} sat on").ids.tolist()
            assert ids == [*left, *ids[len(left) : len(ids) - len(right)], *right]  # here nothing merges
            spelled = sum(token.spelling for token in score(restorer, cutter, f"a {choice} sat on")[0].tokens)
            expected.append(directly(restorer, ids, len(left), len(ids) - len(right)) - spelled * math.log(2))
        assert [answer.log_probability for answer in one.answers] == pytest.approx(expected, abs=1e-4)
        assert list(shares(one).values()) == pytest.approx(softmax(expected), abs=1e-5)
        assert end.answers[0].whole == "a cat and cat"


def test_hidden_words_in_batches_are_as_alone(cutters: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch):
    tokenizer = cutters["wordpiece"]
    restorer = restorer_of(tokenizer, context=20)
    texts = ["the cat", "the dog sat on the log and a cat and a dog sat on the mat", "我很喜欢你"]
    alone = [ask(restorer, tokenizer, text, labels=["cat", "a dog"])[0] for text in texts]
    monkeypatch.setattr("forebear.using.likelihoods.AT_ONCE", 40)
    together = ask(restorer, tokenizer, texts, labels=["cat", "a dog"])
    for one, other in zip(alone, together, strict=True):
        assert shares(one) == pytest.approx(shares(other), abs=1e-5)
    assert [one.cut > 0 for one in together] == [False, True, False]
    assert all(len(tokenizer.encode(answer.whole).ids) <= 18 for one in together for answer in one.answers)


# -- beside transformers


PROMPTS = ["The cat sat by the mat", "The old fox ran. 我很喜欢你", "Number 3 is"]
LABELS = ["a dog", "over", "红色"]


def test_gpt2_chooses_as_transformers_does(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Whole texts through GPT2LMHeadModel and its own tokenizer: nothing of ours but the folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    run = opened("gpt2", tmp_path, tokenizer="bytepair", steps=30, context=64)
    run.export(tmp_path / "theirs")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "theirs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")

    @torch.inference_mode()
    def log_probability(text: str) -> float:
        ids = torch.tensor([cutter.bos_token_id, *cutter(text, add_special_tokens=False)["input_ids"]])
        logs = model(ids[None]).logits[0].double().log_softmax(-1)
        return float(logs[torch.arange(len(ids) - 1), ids[1:]].sum())

    for calibrate in (False, True):
        told = ask(
            run.predictor, run.tokenizer, PROMPTS, labels=LABELS, template="{text} It is {label}.", calibrate=calibrate
        )
        for text, one in zip(PROMPTS, told, strict=True):
            logs = [log_probability(f"{text} It is {label}.") for label in LABELS]
            logs = [
                log - calibrate * log_probability(f"It is {label}.") for log, label in zip(logs, LABELS, strict=True)
            ]
            assert list(shares(one).values()) == pytest.approx(softmax(logs), abs=1e-4)


def test_bert_chooses_as_transformers_does(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    run = opened("bert", tmp_path, tokenizer="wordpiece", steps=30, context=64)
    run.export(tmp_path / "theirs")
    model = transformers.BertForPreTraining.from_pretrained(tmp_path / "theirs").eval()
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")

    @torch.inference_mode()
    def log_probability(before: str, words: str, after: str) -> float:
        parts = [cutter(part, add_special_tokens=False)["input_ids"] for part in (before, words, after)]
        total = 0.0
        for place, token in enumerate(parts[1]):
            hidden = [*parts[1][:place], *[cutter.mask_token_id] * (len(parts[1]) - place)]
            row = [cutter.cls_token_id, *parts[0], *hidden, *parts[2], cutter.sep_token_id]
            logits = model(torch.tensor([row])).prediction_logits[0, 1 + len(parts[0]) + place]
            total += float(logits.double().log_softmax(-1)[token])
        return total

    choices = ["cat", "old fox", "numberless river"]
    (one,) = ask(run.restorer, run.tokenizer, "The ____ sat by the red roof.", choices=choices)
    logs = [log_probability("The", choice, "sat by the red roof.") for choice in choices]
    assert [answer.log_probability for answer in one.answers] == pytest.approx(logs, abs=1e-4)
    assert list(shares(one).values()) == pytest.approx(softmax(logs), abs=1e-4)


# -- it works


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
    told = ask(run.scorer, run.tokenizer, new, labels="positive=great|good,negative=bad|poor")
    assert [one.best.name for one in told if one.best] == ["positive", "positive", "negative", "negative"]
    assert all(one.best.probability > 0.9 for one in told if one.best)
    told = ask(run.scorer, run.tokenizer, ["戏精彩又有趣。", "书无聊又难看。"], labels="好,坏")
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
    with pytest.raises(BadInput) as caught:
        ask(Dreaming(words.size), words, "the cat", **how)
    assert said in caught.value.what
    assert caught.value.remedy


def test_texts_without_sense_are_named_by_their_number(words: Tokenizer):
    for texts, said in ((["the", " \n"], "empty"), (["the", "____ cat ____"], "2 blanks")):
        with pytest.raises(BadInput, match=said) as caught:
            ask(Dreaming(words.size), words, texts, choices=["a", "b"])
        assert caught.value.line == 2


def test_what_is_impossible_is_valid_json_and_no_answer(words: Tokenizer):
    predictor = counted(words, ["the cat sat"])
    (one,) = ask(predictor, words, "the", choices=["mat", "log"])
    assert one.best is None
    assert not one.is_tied
    facts = json.loads(json.dumps(one.facts(), allow_nan=False))
    assert facts["answer"] is None
    assert facts["answers"][0]["log_probability"] is None
    with pytest.raises(BadInput, match="'dog' is impossible") as caught:
        ask(predictor, words, "the", choices=["the cat", "dog"], calibrate=True)
    assert "--no-calibrate" in str(caught.value.remedy)


def test_unknown_words_are_charged_their_spelling(words: Tokenizer):
    """Else whatever the vocabulary lacks would be one likely token."""
    table = np.full((words.size, words.size), 1e-3)
    table[:, words.unknown] = 0.9
    (one,) = ask(Tabled(table), words, "the", choices=["cat", "zebra"])
    cat, zebra = one.answers
    assert cat.probability > zebra.probability
    assert zebra.log_probability == pytest.approx(math.log(0.9) - 6 * math.log(257))
    assert (cat.unknown, zebra.unknown) == (0, 1)


def test_what_the_tokenizer_does_not_see_is_refused(cutters: dict[str, Tokenizer]):
    with pytest.raises(BadInput, match="sees nothing"):
        ask(restorer_of(cutters["wordpiece"]), cutters["wordpiece"], "the cat", choices=["\u200b\u200b", "dog"])


def test_scores_that_are_no_numbers_are_told(words: Tokenizer, cutters: dict[str, Tokenizer]):
    with pytest.raises(ForebearError, match="no numbers"):
        ask(Tabled([[math.nan] * words.size] * words.size), words, "the", choices=["cat", "dog"])
    restorer = restorer_of(cutters["words"])
    with torch.no_grad():
        next(iter(restorer.model.parameters())).fill_(math.nan)
    with pytest.raises(ForebearError, match="no numbers"):
        ask(restorer, cutters["words"], "the", choices=["cat", "dog"])
