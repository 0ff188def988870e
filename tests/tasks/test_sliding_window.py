"""The sliding-window baseline: cases by hand in English and Chinese."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.tasks.baselines import sliding_window_answer, split_units


def test_split_units_by_words_characters_and_punctuation():
    assert [unit.text for unit in split_units("Ab c5，在37摄氏度x")] == [
        "ab",
        "c5",
        "，",
        "在",
        "37",
        "摄",
        "氏",
        "度",
        "x",
    ]
    for unit in split_units("Ab，在37 度x"):
        assert "Ab，在37 度x"[unit.start : unit.end].lower() == unit.text


@pytest.mark.parametrize(
    ("question", "passage", "expected"),
    [
        ("今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度", "37 摄氏度"),
        ("爱因斯坦在哪里发表演讲？", "爱因斯坦在柏林发表演讲。牛顿在伦敦散步。", "柏林"),
        ("By whom was Hamlet written?", "Hamlet was written by Shakespeare. Faust is longer.", "Shakespeare"),
        ("Where does the river Elbe rise?", "The river Elbe does rise in Bohemia. The Rhine is long.", "in Bohemia"),
    ],
)
def test_sliding_window_answers_by_hand(question: str, passage: str, expected: str):
    start, text = sliding_window_answer(question, passage)
    assert text == expected
    assert passage[start : start + len(text)] == text


def test_sliding_window_weights_rare_and_near_words_more():
    # Around "one": a, three times in the passage, right before it. Around "two": b, once, right after it or farther.
    passage = "a one . a . a . " + ". " * 30 + "two x b"
    assert log(2) / sqrt(2) > log(4 / 3)
    assert sliding_window_answer("a b", passage) == (passage.index("two"), "two x")  # "x" is not in the question
    passage = "a one . a . a . " + ". " * 30 + "two . . . b"
    assert log(2) / sqrt(8) < log(4 / 3)
    assert sliding_window_answer("a b", passage)[1] == "one"
    assert sliding_window_answer("a b", passage, window=0)[1] == "two"  # without near words all candidates are equal


def test_sliding_window_counts_a_near_word_once():
    passage = "b b b one b b " + ". " * 30 + "a two"
    # "one" has only b, five times in the passage; "two" has a, which occurs once
    assert sliding_window_answer("a b", passage) == (passage.index("two"), "two")


def test_sliding_window_truncates_long_answers_away_from_the_question():
    assert sliding_window_answer("q", "q 1 2 3 4", max_units=2)[1] == "1 2"
    assert sliding_window_answer("q", "1 2 3 4 q", max_units=2)[1] == "3 4"


def test_sliding_window_without_candidates_answers_nothing():
    assert sliding_window_answer("what?", "") == (0, "")
    assert sliding_window_answer("the cat", "The cat.") == (0, "")
    assert sliding_window_answer("", "one, two")[1] == "two"


@given(st.text(max_size=40), st.text(max_size=80))
def test_sliding_window_answer_is_a_span_of_the_passage(question: str, passage: str):
    start, text = sliding_window_answer(question, passage)
    assert passage[start : start + len(text)] == text


def test_sliding_window_exact_match_on_cmrc(data: Path):
    """Far above chance and far below a network."""
    file = json.loads((data / "tasks" / "cmrc2018" / "dev.json").read_text(encoding="utf-8"))
    questions = [
        (item["question"], paragraph["context"], {reply["text"] for reply in item["answers"]})
        for article in file["data"]
        for paragraph in article["paragraphs"]
        for item in paragraph["qas"]
    ][::10][:300]
    hits = sum(sliding_window_answer(question, passage)[1] in replies for question, passage, replies in questions)
    assert 15 <= hits <= 60
