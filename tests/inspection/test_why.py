"""Which words speak for an answer: they add up, and are right where a word was planted; every task, both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.inspection.attribution import Attribution, attribute
from forebear.inspection.gradients import RELATIVE_TOLERANCE
from planted_runs import ASKED, BAD, GOOD, SAID, SAID_IN_CHINESE, Runs, sentences
from small_runs import trained


def adds_up(told: Attribution) -> None:
    assert told.baseline is not None
    assert told.gap is not None
    gain = told.score - told.baseline
    assert sum(word.attribution for word in told.words) + told.elsewhere + told.gap == pytest.approx(gain, abs=1e-5)
    assert abs(told.gap) <= RELATIVE_TOLERANCE * max(abs(gain), 0.1)


WAYS = [("bert", task, {}) for task in ASKED] + [
    ("bert", "tagging", {"crf": True, "steps": 15}),
    ("gpt", "pairs", {"steps": 8}),  # in both orders
    ("gpt", "classification", {}),
    ("albert", "classification", {"how": "features", "steps": 8}),  # a mixture of layers
    ("roberta", "choice", {"steps": 8}),
    *(("ngram", task, {}) for task in ASKED),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("milestone", "task", "how"), WAYS)
def test_what_words_add_is_what_the_score_gains(milestone: str, task: str, how: dict[str, Any], runs: Runs):
    run = runs(milestone, task, **how)
    for text in ASKED[task]:
        told = attribute(run, text)
        adds_up(told)
        assert told.target in (told.said, *told.said.split(", "))
        assert [told.texts[word.text_index][word.start : word.end] for word in told.words] == [
            word.text for word in told.words
        ]
        assert all(word.is_visible for word in told.words)
        if milestone != "ngram":
            assert told.elsewhere == 0  # what stands around texts stays as it is
        if task == "numbers":
            assert told.probability is None
            assert f"{told.score:.4g}" == told.target
            assert told.score == pytest.approx(run.classify(text)[0].label, abs=1e-4)
        elif task != "answering" and (milestone != "ngram" or task in ("classification", "several")):
            assert told.probability == pytest.approx(1 / (1 + np.exp(-told.score)), abs=1e-4)


@pytest.mark.parametrize("milestone", ["bert", "gpt", "ngram"])
def test_the_word_that_decides_says_most(milestone: str, runs: Runs):
    run = runs(milestone)
    held_out = sentences(16, seed=7)
    right = 0
    for text, label in held_out:
        told = attribute(run, text)
        assert told.target == label
        strongest = told.strongest(1)[0]
        right += strongest.text in (*GOOD, *BAD) and strongest.attribution > 0
        other = attribute(run, text, of="bad" if label == "good" else "good")
        assert other.said == label
        assert other.probability == pytest.approx(1 - (told.probability or 0), abs=1e-4)
        # Of two labels what speaks for one speaks against the other.
        np.testing.assert_allclose(
            [word.attribution for word in other.words], [-word.attribution for word in told.words], atol=2e-3
        )
    assert right >= 15


def test_of_several_labels_each_by_itself(runs: Runs):
    run = runs("bert", "several")
    (answer,) = run.classify(SAID)
    for label in ("good", "bad", "short", "long"):
        told = attribute(run, SAID, of=label)
        assert told.probability == pytest.approx(answer.probabilities[label], abs=1e-5)
        assert told.said == ", ".join(answer.label)  # pyright: ignore
    strongest = attribute(run, SAID, of="good").strongest(1)[0]
    assert (strongest.text, strongest.attribution > 0) == ("splendid", True)


def test_a_number_is_told_in_its_own_units(runs: Runs):
    told = attribute(runs("bert", "numbers"), SAID_IN_CHINESE)
    assert told.score == pytest.approx(1.5, abs=0.5)
    assert (told.strongest(1)[0].text, told.strongest(1)[0].attribution < 0) == ("讨厌", True)
    with pytest.raises(InputError, match="--of means nothing"):
        attribute(runs("bert", "numbers"), SAID, of="3")


@pytest.mark.parametrize(("task", "text"), [(task, text) for task in ("tagging", "answering") for text in ASKED[task]])
def test_the_word_itself_says_what_it_is(task: str, text: Any, runs: Runs):
    told = attribute(runs("bert", task), text)
    assert told.strongest(1)[0].text in (*GOOD, *BAD)
    assert told.strongest(1)[0].text in told.target


def test_features_around_a_word_are_found_where_they_stand(runs: Runs):
    told = attribute(runs("ngram", "tagging"), SAID)
    assert told.strongest(1)[0].text == "splendid"
    assert told.target == "splendid: S-GOOD"
    beside = {word.text for word in told.words if word.attribution}
    assert beside <= {"a", "splendid", "film", "about"}  # no feature reaches farther than two words


@pytest.mark.parametrize(
    ("milestone", "task"), [("bert", "classification"), ("ngram", "classification"), ("bert", "choice")]
)
def test_what_is_explained_is_the_probability_that_is_told(milestone: str, task: str, runs: Runs):
    scores = []
    for temperature in (1.0, 2.5):
        run = Run.open(runs(milestone, task).folder.path)
        run.metadata["task"]["temperature"] = temperature
        told = attribute(run, ASKED[task][0])
        adds_up(told)
        assert told.probability == pytest.approx(1 / (1 + np.exp(-told.score)), abs=1e-5)
        scores.append(told.score)
    assert scores[0] == pytest.approx(2.5 * scores[1], rel=1e-4)


def test_of_pairs_the_text_that_decides(runs: Runs):
    told = attribute(runs("bert", "pairs"), (SAID, SAID_IN_CHINESE))
    assert told.target == "bad"
    assert (told.strongest(1)[0].text, told.strongest(1)[0].text_index) == ("讨厌", 1)


def test_a_linear_model_without_words_is_its_bias(runs: Runs):
    run = runs("ngram")
    told = attribute(run, SAID)
    assert told.method == "weights"
    assert told.strongest(1)[0].text == "splendid"
    nothing = run.network.logits({"tokens": np.zeros(0, np.int64), "lengths": np.zeros(1, np.int64)})["label"][0]
    label = run.task.labels.index(told.target)  # pyright: ignore
    bias = (nothing[label] - nothing[1 - label]) / run.task.temperature  # pyright: ignore
    assert told.baseline == pytest.approx(bias, abs=1e-5)
    assert "splendid" in told.features[0].text
    assert sum(feature.value for feature in told.features) == pytest.approx(told.score - bias, abs=1e-5)


# -- what is asked


def test_a_crf_is_asked_as_a_whole(runs: Runs):
    run = runs("bert", "tagging", crf=True, steps=15)
    (answer,) = run.tag([SAID])
    for number in range(len(answer.words)):
        for tag in ("O", "S-GOOD", "S-BAD"):
            told = attribute(run, SAID, at=number + 1, of=tag, method="gradients")
            p = answer.probabilities[number, answer.labels.index(tag)]
            assert told.probability == pytest.approx(p, abs=1e-6)
            assert told.score == pytest.approx(np.log(p / (1 - p)), abs=1e-3)
    other = next(number for number, tag in enumerate(answer.tags, 1) if tag == "O")
    impossible = attribute(run, SAID, at=len(answer.words), of="B-BAD")  # nothing follows that could end it
    assert impossible.probability == 0
    assert impossible.score < -1000
    assert attribute(run, SAID, at=other).words[other - 1].attribution > 0


def test_of_tagging_words_and_names_and_kinds(runs: Runs):
    run = runs("bert", "tagging")
    assert attribute(run, SAID).target == "splendid: S-GOOD"
    assert attribute(run, SAID.split()).to_dict() == attribute(run, SAID).to_dict()
    assert attribute(run, SAID, at="splendid", of="BAD").target == "splendid: S-BAD"
    assert attribute(run, SAID, at="film").target == "film: O"
    assert attribute(run, SAID, at="3").target == "film: O"
    assert attribute(run, SAID, at="film", of="GOOD").target == "film: S-GOOD"
    for text, how, word in [
        (SAID, {"at": "cat"}, "there is no word 'cat'"),
        (SAID, {"at": 0}, "there is no word 0"),
        (SAID, {"at": "film", "of": "PER"}, "nothing of the kind 'PER' was learned"),
        ("the film about the dog", {"at": "the"}, "'the' stands here 2 times"),
        ("the film", {}, "nothing was found"),
        (" ", {}, "no words"),
    ]:
        with pytest.raises(InputError, match=word) as refused:
            attribute(run, text, **how)
        assert refused.value.hint


def test_of_answering_start_end_and_other_parts(runs: Runs):
    run = runs("bert", "answering")
    both = attribute(run, ("how was it", SAID))
    start, end = (attribute(run, ("how was it", SAID), at=part) for part in ("start", "end"))
    assert both.target == "splendid"
    assert start.target == "start of splendid"
    assert both.score == pytest.approx(start.score + end.score, abs=1e-4)
    assert both.probability == pytest.approx((start.probability or 0) * (end.probability or 0), rel=1e-4)
    assert both.probability == pytest.approx(run.answer("how was it", SAID)[0].best.probability, rel=1e-4)
    other = attribute(run, ("how was it", SAID), of="film about")
    assert (other.target, other.said) == ("film about", "splendid")
    assert (other.probability or 0) < 0.5
    for how, word in [({"of": "cat"}, "does not stand"), ({"of": " "}, "does not stand"), ({"at": "film"}, "--at is")]:
        with pytest.raises(InputError, match=word):
            attribute(run, ("how was it", SAID), **how)


def test_of_choices_another(runs: Runs):
    run = runs("bert", "choice")
    told = attribute(run, ASKED["choice"][0])
    assert (told.target, told.parts) == (SAID, ("text", "choice 1", "choice 2"))
    assert attribute(run, ASKED["choice"][0], of="2").target == SAID_IN_CHINESE
    assert attribute(run, ASKED["choice"][0], of=SAID_IN_CHINESE).probability == pytest.approx(
        1 - (told.probability or 0), abs=1e-6
    )
    with pytest.raises(InputError, match="none of the choices"):
        attribute(run, ASKED["choice"][0], of="3")


@pytest.mark.parametrize(
    ("task", "text", "how", "word"),
    [
        ("classification", SAID, {"of": "worst"}, "no label is named 'worst'"),
        ("classification", " ", {}, "empty"),
        ("classification", (SAID, SAID_IN_CHINESE), {}, "single texts, and 2 came"),
        ("classification", SAID, {"at": "film"}, "--at means nothing"),
        ("classification", SAID, {"method": "guess"}, "--method is"),
        ("pairs", SAID, {}, "pairs of texts, and 1 came"),
        ("answering", SAID, {}, "1 texts came"),
        ("choice", ("now:", SAID), {}, "nothing to choose"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_a_remedy(task: str, text: Any, how: Any, word: str, runs: Runs):
    with pytest.raises(InputError, match=word) as refused:
        attribute(runs("bert", task), text, **how)
    assert refused.value.hint


def test_a_run_without_a_task_says_what_it_can_do(tmp_path: Path):
    run = Run(trained("ngram", tmp_path))
    with pytest.raises(InputError, match="not adapted to a task") as refused:
        attribute(run, "a text")
    assert "generate" in refused.value.hint


# -- long texts


def test_windows_of_a_long_text_are_joined(runs: Runs):
    run = runs("bert")
    text = f"{SAID}. " * 14  # more than three rows
    told = attribute(run, text)
    adds_up(told)
    assert told.target == "good"
    assert [word.text for word in told.words] == text.replace(".", " .").split()
    assert all(word.is_visible for word in told.words)
    said = {word: sum(one.attribution for one in told.words if one.text == word) for word in {*SAID.split(), "."}}
    assert max(said, key=lambda word: said[word]) == "splendid"
    assert sum(one.attribution > 0 for one in told.words if one.text == "splendid") >= 10


def test_what_is_not_read_is_said(runs: Runs):
    told = attribute(runs("bert", "pairs"), ("the film " * 40, SAID_IN_CHINESE))
    assert [word.is_visible for word in told.words[:5]] == [True] * 5
    unread = [word for word in told.words if not word.is_visible]
    assert unread
    assert {word.attribution for word in unread} == {0.0}
    assert {word.text_index for word in unread} == {0}
    assert told.to_dict()["words"][79]["read"] is False
    adds_up(told)
