"""How likely words are in their place: beside whole texts that are scored, beside the network, beside transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from asked import restorer_of, shares, softmax
from bigrams import Dreaming, Tabled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts
from forebear.nn.masked_lm import MaskedLM
from small_runs import opened

pytestmark = pytest.mark.usefixtures("one_thread")

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
    predictor = Dreaming(tokenizer.vocab_size)
    template = "{text} {label}" + after
    wholes = [f"{text} {answer}{after}" for answer in answers]
    bits = [one.total_bits for one in score_texts(predictor, tokenizer, wholes)]
    (one,) = score_options(predictor, tokenizer, text, labels=answers, template=template, calibrate=False)
    expected = softmax([-value * math.log(2) for value in bits])
    assert [answer.prompt for answer in one.answers] == wholes
    assert list(shares(one).values()) == pytest.approx(expected, abs=1e-9)
    (blank,) = score_options(predictor, tokenizer, f"{text} ____{after}", choices=answers)
    if "_" not in text:
        assert list(shares(blank).values()) == pytest.approx(expected, abs=1e-9)


def test_what_counts_is_the_whole_less_what_stands_before(tokenizer: Tokenizer):
    predictor = Dreaming(tokenizer.vocab_size)
    for before, choices in (("the cat", ("sat on", "and")), ("我很喜欢", ("你好", "动词"))):
        space = "" if before == "我很喜欢" else " "
        (one,) = score_options(predictor, tokenizer, before, choices=choices)
        start = tokenizer.encode(before).ids.tolist()
        for answer, choice in zip(one.answers, choices, strict=True):
            assert answer.prompt == before + space + choice
            ids = tokenizer.encode(answer.prompt).ids.tolist()
            if ids[: len(start)] != start:
                continue  # merged: the tokens of the whole are the truth then, see above
            whole, alone = (score_texts(predictor, tokenizer, text)[0] for text in (answer.prompt, before))
            assert answer.log_prob == pytest.approx(-(whole.total_bits - alone.total_bits) * math.log(2))
            assert answer.tokens == len(ids) - len(start)


# -- runs that find what is hidden


@torch.inference_mode()
def directly(restorer: MaskedLM, ids: list[int], first: int, last: int) -> float:
    """log P of the tokens from first to last, each with itself and the later ones hidden, by the whole model."""
    total = 0.0
    for place in range(first, last):
        row = [restorer.start, *ids, restorer.end]
        row[place + 1 : last + 1] = [restorer.mask] * (last - place)
        logits = restorer.model.logits({"tokens": torch.tensor(row), "lengths": torch.tensor([len(row)])})["token"]
        total += float(torch.log_softmax(logits.double(), -1)[place + 1, ids[place]])
    return total


def test_hidden_words_are_told_left_to_right_by_both_sides(cutter: Tokenizer):
    restorer, mask = restorer_of(cutter), cutter.id_to_token(cutter.special_roles["mask"])
    choices = ["cat", "the dog", "喜欢"]
    for blank in ("____", mask, mask * 2):
        one, end = score_options(restorer, cutter, [f"a {blank} sat on", "a cat and"], choices=choices)
        assert one.is_pseudo_likelihood
        expected = []
        for choice in choices:
            left, right = cutter.encode("a" if cutter.kind == "bytepair" else "a ").ids, cutter.encode(" sat on").ids
            ids = cutter.encode(f"a {choice} sat on").ids.tolist()
            assert ids == [*left, *ids[len(left) : len(ids) - len(right)], *right]  # here nothing merges
            spelled = sum(
                token.spelling_bits for token in score_texts(restorer, cutter, f"a {choice} sat on")[0].tokens
            )
            expected.append(directly(restorer, ids, len(left), len(ids) - len(right)) - spelled * math.log(2))
        assert [answer.log_prob for answer in one.answers] == pytest.approx(expected, abs=1e-4)
        assert list(shares(one).values()) == pytest.approx(softmax(expected), abs=1e-5)
        assert end.answers[0].prompt == "a cat and cat"


def test_hidden_words_in_batches_are_as_alone(cutters: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch):
    tokenizer = cutters["wordpiece"]
    restorer = restorer_of(tokenizer, context=20)
    texts = ["the cat", "the dog sat on the log and a cat and a dog sat on the mat", "我很喜欢你"]
    alone = [score_options(restorer, tokenizer, text, labels=["cat", "a dog"])[0] for text in texts]
    monkeypatch.setattr("forebear.inference.prompting.MASKED_BATCH_TOKENS", 40)
    together = score_options(restorer, tokenizer, texts, labels=["cat", "a dog"])
    for one, other in zip(alone, together, strict=True):
        assert shares(one) == pytest.approx(shares(other), abs=1e-5)
    assert [one.num_truncated > 0 for one in together] == [False, True, False]
    assert all(len(tokenizer.encode(answer.prompt).ids) <= 18 for one in together for answer in one.answers)


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
        told = score_options(
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
    (one,) = score_options(run.masked_lm, run.tokenizer, "The ____ sat by the red roof.", choices=choices)
    logs = [log_probability("The", choice, "sat by the red roof.") for choice in choices]
    assert [answer.log_prob for answer in one.answers] == pytest.approx(logs, abs=1e-4)
    assert list(shares(one).values()) == pytest.approx(softmax(logs), abs=1e-4)


# -- what cannot be told


def test_unknown_words_are_charged_their_spelling(words: Tokenizer):
    """Else whatever the vocabulary lacks would be one likely token."""
    table = np.full((words.vocab_size, words.vocab_size), 1e-3)
    table[:, words.unk_id] = 0.9
    (one,) = score_options(Tabled(table), words, "the", choices=["cat", "zebra"])
    cat, zebra = one.answers
    assert cat.probability > zebra.probability
    assert zebra.log_prob == pytest.approx(math.log(0.9) - 6 * math.log(257))
    assert (cat.num_unknown, zebra.num_unknown) == (0, 1)


def test_what_the_tokenizer_does_not_see_is_refused(cutters: dict[str, Tokenizer]):
    with pytest.raises(InputError, match="sees nothing"):
        score_options(
            restorer_of(cutters["wordpiece"]), cutters["wordpiece"], "the cat", choices=["\u200b\u200b", "dog"]
        )


def test_scores_that_are_no_numbers_are_told(words: Tokenizer, cutters: dict[str, Tokenizer]):
    with pytest.raises(ForebearError, match="no numbers"):
        score_options(Tabled([[math.nan] * words.vocab_size] * words.vocab_size), words, "the", choices=["cat", "dog"])
    restorer = restorer_of(cutters["words"])
    with torch.no_grad():
        next(iter(restorer.model.parameters())).fill_(math.nan)
    with pytest.raises(ForebearError, match="no numbers"):
        score_options(restorer, cutters["words"], "the", choices=["cat", "dog"])
