"""Word attribution: complete, and highest on the planted word, for every task and in both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cue_word_runs import CHINESE_TEXT, ENGLISH_TEXT, NEGATIVE, POSITIVE, TASK_INPUTS, RunCache, labeled_sentences
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.attribution import Attribution, attribute
from forebear.inspection.gradients import RELATIVE_TOLERANCE
from small_runs import train_small_run


def assert_complete(attribution: Attribution) -> None:
    assert attribution.baseline is not None
    assert attribution.gap is not None
    gain = attribution.score - attribution.baseline
    assert sum(
        word.attribution for word in attribution.words
    ) + attribution.remainder + attribution.gap == pytest.approx(gain, abs=1e-5)
    assert abs(attribution.gap) <= RELATIVE_TOLERANCE * max(abs(gain), 0.1)


CASES = [("bert", task, {}) for task in TASK_INPUTS] + [
    ("bert", "tagging", {"crf": True, "steps": 15}),
    ("gpt", "pairs", {"steps": 8}),  # in both orders
    ("gpt", "classification", {}),
    ("albert", "classification", {"how": "features", "steps": 8}),  # a scalar mix of layers
    ("roberta", "choice", {"steps": 8}),
    *(("ngram", task, {}) for task in TASK_INPUTS),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("model", "task", "options"), CASES)
def test_attributions_sum_to_the_gain_in_score_for_every_task(
    model: str, task: str, options: dict[str, Any], runs: RunCache
):
    run = runs(model, task, **options)
    for text in TASK_INPUTS[task]:
        attribution = attribute(run, text)
        assert_complete(attribution)
        assert attribution.target in (attribution.prediction, *attribution.prediction.split(", "))
        assert [attribution.texts[word.text_index][word.start : word.end] for word in attribution.words] == [
            word.text for word in attribution.words
        ]
        assert all(word.is_visible for word in attribution.words)
        if model != "ngram":
            assert attribution.remainder == 0  # special tokens are the same in the baseline
        if task == "numbers":
            assert attribution.probability is None
            assert f"{attribution.score:.4g}" == attribution.target
            assert attribution.score == pytest.approx(run.classify(text)[0].label, abs=1e-4)
        elif task != "answering" and (model != "ngram" or task in ("classification", "several")):
            assert attribution.probability == pytest.approx(1 / (1 + np.exp(-attribution.score)), abs=1e-4)


@pytest.mark.parametrize("model", ["bert", "gpt", "ngram"])
def test_planted_word_has_the_highest_attribution(model: str, runs: RunCache):
    run = runs(model)
    held_out = labeled_sentences(16, seed=7)
    num_correct = 0
    for text, label in held_out:
        attribution = attribute(run, text)
        assert attribution.target == label
        strongest = attribution.strongest(1)[0]
        num_correct += strongest.text in (*POSITIVE, *NEGATIVE) and strongest.attribution > 0
        other = attribute(run, text, of="bad" if label == "good" else "good")
        assert other.prediction == label
        assert other.probability == pytest.approx(1 - (attribution.probability or 0), abs=1e-4)
        # With two labels, evidence for one is evidence against the other.
        np.testing.assert_allclose(
            [word.attribution for word in other.words], [-word.attribution for word in attribution.words], atol=2e-3
        )
    assert num_correct >= 15


def test_multi_label_attribution_explains_each_label_separately(runs: RunCache):
    run = runs("bert", "several")
    (prediction,) = run.classify(ENGLISH_TEXT)
    for label in ("good", "bad", "short", "long"):
        attribution = attribute(run, ENGLISH_TEXT, of=label)
        assert attribution.probability == pytest.approx(prediction.probabilities[label], abs=1e-5)
        assert attribution.prediction == ", ".join(prediction.label)  # pyright: ignore
    strongest = attribute(run, ENGLISH_TEXT, of="good").strongest(1)[0]
    assert (strongest.text, strongest.attribution > 0) == ("splendid", True)


def test_regression_attribution_is_in_units_of_the_target(runs: RunCache):
    attribution = attribute(runs("bert", "numbers"), CHINESE_TEXT)
    assert attribution.score == pytest.approx(1.5, abs=0.5)
    assert (attribution.strongest(1)[0].text, attribution.strongest(1)[0].attribution < 0) == ("讨厌", True)
    with pytest.raises(InputError, match="--of means nothing"):
        attribute(runs("bert", "numbers"), ENGLISH_TEXT, of="3")


@pytest.mark.parametrize(
    ("task", "text"), [(task, text) for task in ("tagging", "answering") for text in TASK_INPUTS[task]]
)
def test_tag_and_answer_are_attributed_to_their_own_word(task: str, text: Any, runs: RunCache):
    attribution = attribute(runs("bert", task), text)
    assert attribution.strongest(1)[0].text in (*POSITIVE, *NEGATIVE)
    assert attribution.strongest(1)[0].text in attribution.target


def test_crf_attribution_is_limited_to_the_feature_window(runs: RunCache):
    attribution = attribute(runs("ngram", "tagging"), ENGLISH_TEXT)
    assert attribution.strongest(1)[0].text == "splendid"
    assert attribution.target == "splendid: S-GOOD"
    attributed = {word.text for word in attribution.words if word.attribution}
    assert attributed <= {"a", "splendid", "film", "about"}  # the feature window is two words


@pytest.mark.parametrize(
    ("model", "task"), [("bert", "classification"), ("ngram", "classification"), ("bert", "choice")]
)
def test_attribution_score_is_the_log_odds_of_the_calibrated_probability(model: str, task: str, runs: RunCache):
    scores = []
    for temperature in (1.0, 2.5):
        run = Run.open(runs(model, task).folder.path)
        run.metadata["task"]["temperature"] = temperature
        attribution = attribute(run, TASK_INPUTS[task][0])
        assert_complete(attribution)
        assert attribution.probability == pytest.approx(1 / (1 + np.exp(-attribution.score)), abs=1e-5)
        scores.append(attribution.score)
    assert scores[0] == pytest.approx(2.5 * scores[1], rel=1e-4)


def test_pair_attribution_is_highest_in_the_deciding_text(runs: RunCache):
    attribution = attribute(runs("bert", "pairs"), (ENGLISH_TEXT, CHINESE_TEXT))
    assert attribution.target == "bad"
    assert (attribution.strongest(1)[0].text, attribution.strongest(1)[0].text_index) == ("讨厌", 1)


def test_linear_attribution_baseline_is_the_bias(runs: RunCache):
    run = runs("ngram")
    attribution = attribute(run, ENGLISH_TEXT)
    assert attribution.method == "weights"
    assert attribution.strongest(1)[0].text == "splendid"
    empty_logits = run.network.logits({"tokens": np.zeros(0, np.int64), "lengths": np.zeros(1, np.int64)})["label"][0]
    label = run.task.labels.index(attribution.target)  # pyright: ignore
    bias = (empty_logits[label] - empty_logits[1 - label]) / run.task.temperature  # pyright: ignore
    assert attribution.baseline == pytest.approx(bias, abs=1e-5)
    assert "splendid" in attribution.features[0].text
    assert sum(feature.value for feature in attribution.features) == pytest.approx(attribution.score - bias, abs=1e-5)


# -- targets


def test_crf_attribution_explains_marginals_of_the_whole_sequence(runs: RunCache):
    run = runs("bert", "tagging", crf=True, steps=15)
    (prediction,) = run.tag([ENGLISH_TEXT])
    for number in range(len(prediction.words)):
        for tag in ("O", "S-GOOD", "S-BAD"):
            attribution = attribute(run, ENGLISH_TEXT, at=number + 1, of=tag, method="gradients")
            p = prediction.probabilities[number, prediction.labels.index(tag)]
            assert attribution.probability == pytest.approx(p, abs=1e-6)
            assert attribution.score == pytest.approx(np.log(p / (1 - p)), abs=1e-3)
    other = next(number for number, tag in enumerate(prediction.tags, 1) if tag == "O")
    impossible = attribute(run, ENGLISH_TEXT, at=len(prediction.words), of="B-BAD")  # B-BAD cannot be the last tag
    assert impossible.probability == 0
    assert impossible.score < -1000
    assert attribute(run, ENGLISH_TEXT, at=other).words[other - 1].attribution > 0


def test_tagging_attribution_selects_word_and_tag(runs: RunCache):
    run = runs("bert", "tagging")
    assert attribute(run, ENGLISH_TEXT).target == "splendid: S-GOOD"
    assert attribute(run, ENGLISH_TEXT.split()).to_dict() == attribute(run, ENGLISH_TEXT).to_dict()
    assert attribute(run, ENGLISH_TEXT, at="splendid", of="BAD").target == "splendid: S-BAD"
    assert attribute(run, ENGLISH_TEXT, at="film").target == "film: O"
    assert attribute(run, ENGLISH_TEXT, at="3").target == "film: O"
    assert attribute(run, ENGLISH_TEXT, at="film", of="GOOD").target == "film: S-GOOD"
    for text, options, message in [
        (ENGLISH_TEXT, {"at": "cat"}, "there is no word 'cat'"),
        (ENGLISH_TEXT, {"at": 0}, "there is no word 0"),
        (ENGLISH_TEXT, {"at": "film", "of": "PER"}, "nothing of the kind 'PER' was learned"),
        ("the film about the dog", {"at": "the"}, "'the' stands here 2 times"),
        ("the film", {}, "nothing was found"),
        (" ", {}, "no words"),
    ]:
        with pytest.raises(InputError, match=message) as error:
            attribute(run, text, **options)
        assert error.value.hint


def test_answer_attribution_selects_start_end_or_another_span(runs: RunCache):
    run = runs("bert", "answering")
    span = attribute(run, ("how was it", ENGLISH_TEXT))
    start, end = (attribute(run, ("how was it", ENGLISH_TEXT), at=part) for part in ("start", "end"))
    assert span.target == "splendid"
    assert start.target == "start of splendid"
    assert span.score == pytest.approx(start.score + end.score, abs=1e-4)
    assert span.probability == pytest.approx((start.probability or 0) * (end.probability or 0), rel=1e-4)
    assert span.probability == pytest.approx(run.answer("how was it", ENGLISH_TEXT)[0].best.probability, rel=1e-4)
    other = attribute(run, ("how was it", ENGLISH_TEXT), of="film about")
    assert (other.target, other.prediction) == ("film about", "splendid")
    assert (other.probability or 0) < 0.5
    for options, message in [
        ({"of": "cat"}, "does not stand"),
        ({"of": " "}, "does not stand"),
        ({"at": "film"}, "--at is"),
    ]:
        with pytest.raises(InputError, match=message):
            attribute(run, ("how was it", ENGLISH_TEXT), **options)


def test_choice_attribution_selects_another_choice(runs: RunCache):
    run = runs("bert", "choice")
    attribution = attribute(run, TASK_INPUTS["choice"][0])
    assert (attribution.target, attribution.text_roles) == (ENGLISH_TEXT, ("text", "choice 1", "choice 2"))
    assert attribute(run, TASK_INPUTS["choice"][0], of="2").target == CHINESE_TEXT
    assert attribute(run, TASK_INPUTS["choice"][0], of=CHINESE_TEXT).probability == pytest.approx(
        1 - (attribution.probability or 0), abs=1e-6
    )
    with pytest.raises(InputError, match="none of the choices"):
        attribute(run, TASK_INPUTS["choice"][0], of="3")


@pytest.mark.parametrize(
    ("task", "text", "options", "message"),
    [
        ("classification", ENGLISH_TEXT, {"of": "worst"}, "no label is named 'worst'"),
        ("classification", " ", {}, "empty"),
        ("classification", (ENGLISH_TEXT, CHINESE_TEXT), {}, "single texts, and 2 came"),
        ("classification", ENGLISH_TEXT, {"at": "film"}, "--at means nothing"),
        ("classification", ENGLISH_TEXT, {"method": "guess"}, "--method is"),
        ("pairs", ENGLISH_TEXT, {}, "pairs of texts, and 1 came"),
        ("answering", ENGLISH_TEXT, {}, "1 texts came"),
        ("choice", ("now:", ENGLISH_TEXT), {}, "nothing to choose"),
    ],
)
def test_attribution_refuses_bad_texts_and_options_with_hint(
    task: str, text: Any, options: Any, message: str, runs: RunCache
):
    with pytest.raises(InputError, match=message) as error:
        attribute(runs("bert", task), text, **options)
    assert error.value.hint


def test_attribution_of_run_without_task_is_refused_with_its_capabilities(tmp_path: Path):
    run = Run(train_small_run("ngram", tmp_path))
    with pytest.raises(InputError, match="not adapted to a task") as error:
        attribute(run, "a text")
    assert "generate" in error.value.hint


# -- long texts


def test_attributions_of_long_text_are_joined_across_windows(runs: RunCache):
    run = runs("bert")
    text = f"{ENGLISH_TEXT}. " * 14  # more than three windows
    attribution = attribute(run, text)
    assert_complete(attribution)
    assert attribution.target == "good"
    assert [word.text for word in attribution.words] == text.replace(".", " .").split()
    assert all(word.is_visible for word in attribution.words)
    totals = {
        word: sum(each.attribution for each in attribution.words if each.text == word)
        for word in {*ENGLISH_TEXT.split(), "."}
    }
    assert max(totals, key=lambda word: totals[word]) == "splendid"
    assert sum(each.attribution > 0 for each in attribution.words if each.text == "splendid") >= 10


def test_truncated_words_are_invisible_with_zero_attribution(runs: RunCache):
    attribution = attribute(runs("bert", "pairs"), ("the film " * 40, CHINESE_TEXT))
    assert [word.is_visible for word in attribution.words[:5]] == [True] * 5
    unread = [word for word in attribution.words if not word.is_visible]
    assert unread
    assert {word.attribution for word in unread} == {0.0}
    assert {word.text_index for word in unread} == {0}
    assert attribution.to_dict()["words"][79]["read"] is False
    assert_complete(attribution)
