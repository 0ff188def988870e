"""Log-probabilities of prompt options equal whole-text scores, the network called directly, and transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prompt_answers import answer_probabilities, softmax, untrained_masked_lm
from toy_language_models import BigramTable, HashedLM

from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import ForebearError, InputError
from forebear.inference.prompting import score_options
from forebear.inference.score import score_texts
from forebear.nn.masked_token_predictor import MaskedTokenPredictor
from small_runs import open_small_run

pytestmark = pytest.mark.usefixtures("one_thread")

# -- any tokenizer


TEXTS = st.text("the catsodgmn 我很喜欢你词性动ＡΩ\u0301😀.,", min_size=1, max_size=20).filter(
    lambda text: text.strip()
)
ANSWERS = st.lists(
    st.sampled_from(["cat", "the cat", "dog.", "很", "喜欢", "你好", "zebra", "😀", "t", "at"]), min_size=2, unique=True
)


@given(TEXTS, st.sampled_from(["", " on", "的。", "at", "\u0301"]), ANSWERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_option_probabilities_follow_whole_text_scores(tokenizer: Tokenizer, text: str, after: str, answers: list[str]):
    """Also where tokens merge with the surrounding text: Bayes' rule over whole texts, each scored alone."""
    predictor = HashedLM(tokenizer.vocab_size)
    template = "{text} {label}" + after
    full_texts = [f"{text} {answer}{after}" for answer in answers]
    bits = [result.total_bits for result in score_texts(predictor, tokenizer, full_texts)]
    (result,) = score_options(predictor, tokenizer, text, labels=answers, template=template, calibrate=False)
    expected = softmax([-value * math.log(2) for value in bits])
    assert [answer.prompt for answer in result.answers] == full_texts
    assert list(answer_probabilities(result).values()) == pytest.approx(expected, abs=1e-9)
    (blank,) = score_options(predictor, tokenizer, f"{text} ____{after}", choices=answers)
    if "_" not in text:
        assert list(answer_probabilities(blank).values()) == pytest.approx(expected, abs=1e-9)


def test_choice_log_prob_is_whole_text_minus_prompt(tokenizer: Tokenizer):
    predictor = HashedLM(tokenizer.vocab_size)
    for before, choices in (("the cat", ("sat on", "and")), ("我很喜欢", ("你好", "动词"))):
        space = "" if before == "我很喜欢" else " "
        (result,) = score_options(predictor, tokenizer, before, choices=choices)
        start = tokenizer.encode(before).ids.tolist()
        for answer, choice in zip(result.answers, choices, strict=True):
            assert answer.prompt == before + space + choice
            ids = tokenizer.encode(answer.prompt).ids.tolist()
            if ids[: len(start)] != start:
                continue  # merged: the tokens of the whole are the truth then, see above
            full_score, prompt_score = (score_texts(predictor, tokenizer, text)[0] for text in (answer.prompt, before))
            assert answer.log_prob == pytest.approx(-(full_score.total_bits - prompt_score.total_bits) * math.log(2))
            assert answer.tokens == len(ids) - len(start)


# -- masked language models


@torch.inference_mode()
def masked_log_prob(masked_lm: MaskedTokenPredictor, ids: list[int], first: int, last: int) -> float:
    """log P of the tokens from first to last, each with itself and the later ones masked, by a direct call."""
    total = 0.0
    for position in range(first, last):
        row = [masked_lm.start_id, *ids, masked_lm.end_id]
        row[position + 1 : last + 1] = [masked_lm.mask_id] * (last - position)
        logits = masked_lm.model.logits({"tokens": torch.tensor(row), "lengths": torch.tensor([len(row)])})["token"]
        total += float(torch.log_softmax(logits.double(), -1)[position + 1, ids[position]])
    return total


def test_masked_options_are_scored_left_to_right(mask_tokenizer: Tokenizer):
    masked_lm, mask = (
        untrained_masked_lm(mask_tokenizer),
        mask_tokenizer.id_to_token(mask_tokenizer.special_roles["mask"]),
    )
    choices = ["cat", "the dog", "喜欢"]
    for blank in ("____", mask, mask * 2):
        in_blank, at_end = score_options(masked_lm, mask_tokenizer, [f"a {blank} sat on", "a cat and"], choices=choices)
        assert in_blank.is_pseudo_likelihood
        expected = []
        for choice in choices:
            left, right = (
                mask_tokenizer.encode("a" if mask_tokenizer.kind == "bytepair" else "a ").ids,
                mask_tokenizer.encode(" sat on").ids,
            )
            ids = mask_tokenizer.encode(f"a {choice} sat on").ids.tolist()
            assert ids == [*left, *ids[len(left) : len(ids) - len(right)], *right]  # here nothing merges
            spelled = sum(
                token.spelling_bits for token in score_texts(masked_lm, mask_tokenizer, f"a {choice} sat on")[0].tokens
            )
            expected.append(masked_log_prob(masked_lm, ids, len(left), len(ids) - len(right)) - spelled * math.log(2))
        assert [answer.log_prob for answer in in_blank.answers] == pytest.approx(expected, abs=1e-4)
        assert list(answer_probabilities(in_blank).values()) == pytest.approx(softmax(expected), abs=1e-5)
        assert at_end.answers[0].prompt == "a cat and cat"


def test_batched_masked_options_equal_single_ones(
    mask_tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
):
    tokenizer = mask_tokenizers["wordpiece"]
    masked_lm = untrained_masked_lm(tokenizer, context=20)
    texts = ["the cat", "the dog sat on the log and a cat and a dog sat on the mat", "我很喜欢你"]
    alone = [score_options(masked_lm, tokenizer, text, labels=["cat", "a dog"])[0] for text in texts]
    monkeypatch.setattr("forebear.inference.score_continuations.MASKED_BATCH_TOKENS", 40)
    together = score_options(masked_lm, tokenizer, texts, labels=["cat", "a dog"])
    for result, batched_result in zip(alone, together, strict=True):
        assert answer_probabilities(result) == pytest.approx(answer_probabilities(batched_result), abs=1e-5)
    assert [result.num_truncated > 0 for result in together] == [False, True, False]
    assert all(len(tokenizer.encode(answer.prompt).ids) <= 18 for result in together for answer in result.answers)


# -- compared with transformers


PROMPTS = ["The cat sat by the mat", "The old fox ran. 我很喜欢你", "Number 3 is"]
LABELS = ["a dog", "over", "红色"]


def test_gpt2_option_probabilities_equal_those_of_transformers(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Whole texts through GPT2LMHeadModel and its own tokenizer: nothing of ours but the folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    run = open_small_run("gpt2", tmp_path, tokenizer="bytepair", steps=30, context=64)
    run.export(tmp_path / "theirs")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")

    @torch.inference_mode()
    def log_probability(text: str) -> float:
        ids = torch.tensor([hf_tokenizer.bos_token_id, *hf_tokenizer(text, add_special_tokens=False)["input_ids"]])
        logs = model(ids[None]).logits[0].double().log_softmax(-1)
        return float(logs[torch.arange(len(ids) - 1), ids[1:]].sum())

    for calibrate in (False, True):
        results = score_options(
            run.predictor, run.tokenizer, PROMPTS, labels=LABELS, template="{text} It is {label}.", calibrate=calibrate
        )
        for text, result in zip(PROMPTS, results, strict=True):
            logs = [log_probability(f"{text} It is {label}.") for label in LABELS]
            logs = [
                log - calibrate * log_probability(f"It is {label}.") for log, label in zip(logs, LABELS, strict=True)
            ]
            assert list(answer_probabilities(result).values()) == pytest.approx(softmax(logs), abs=1e-4)


def test_bert_option_log_probs_equal_those_of_transformers(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    run = open_small_run("bert", tmp_path, tokenizer="wordpiece", steps=30, context=64)
    run.export(tmp_path / "theirs")
    model = transformers.BertForPreTraining.from_pretrained(tmp_path / "theirs").eval()
    hf_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")

    @torch.inference_mode()
    def log_probability(before: str, words: str, after: str) -> float:
        parts = [hf_tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, words, after)]
        total = 0.0
        for position, token in enumerate(parts[1]):
            masked = [*parts[1][:position], *[hf_tokenizer.mask_token_id] * (len(parts[1]) - position)]
            row = [hf_tokenizer.cls_token_id, *parts[0], *masked, *parts[2], hf_tokenizer.sep_token_id]
            logits = model(torch.tensor([row])).prediction_logits[0, 1 + len(parts[0]) + position]
            total += float(logits.double().log_softmax(-1)[token])
        return total

    choices = ["cat", "old fox", "numberless river"]
    (result,) = score_options(run.masked_lm, run.tokenizer, "The ____ sat by the red roof.", choices=choices)
    logs = [log_probability("The", choice, "sat by the red roof.") for choice in choices]
    assert [answer.log_prob for answer in result.answers] == pytest.approx(logs, abs=1e-4)
    assert list(answer_probabilities(result).values()) == pytest.approx(softmax(logs), abs=1e-4)


# -- unknown words and refusals


def test_unknown_option_words_are_charged_by_spelling(word_tokenizer: Tokenizer):
    """Otherwise any out-of-vocabulary word would be one probable token."""
    table = np.full((word_tokenizer.vocab_size, word_tokenizer.vocab_size), 1e-3)
    table[:, word_tokenizer.unk_id] = 0.9
    (result,) = score_options(BigramTable(table), word_tokenizer, "the", choices=["cat", "zebra"])
    cat, zebra = result.answers
    assert cat.probability > zebra.probability
    assert zebra.log_prob == pytest.approx(math.log(0.9) - 6 * math.log(257))
    assert (cat.num_unknown, zebra.num_unknown) == (0, 1)


def test_option_without_tokens_is_refused(mask_tokenizers: dict[str, Tokenizer]):
    with pytest.raises(InputError, match="sees nothing"):
        score_options(
            untrained_masked_lm(mask_tokenizers["wordpiece"]),
            mask_tokenizers["wordpiece"],
            "the cat",
            choices=["\u200b\u200b", "dog"],
        )


def test_nan_option_scores_are_refused(word_tokenizer: Tokenizer, mask_tokenizers: dict[str, Tokenizer]):
    with pytest.raises(ForebearError, match="no numbers"):
        score_options(
            BigramTable([[math.nan] * word_tokenizer.vocab_size] * word_tokenizer.vocab_size),
            word_tokenizer,
            "the",
            choices=["cat", "dog"],
        )
    masked_lm = untrained_masked_lm(mask_tokenizers["words"])
    with torch.no_grad():
        next(iter(masked_lm.model.parameters())).fill_(math.nan)
    with pytest.raises(ForebearError, match="no numbers"):
        score_options(masked_lm, mask_tokenizers["words"], "the", choices=["cat", "dog"])
