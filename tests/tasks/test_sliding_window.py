"""The sliding window: cases worked out by hand, in both languages."""

from __future__ import annotations

import json
from math import log, sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.tasks.baselines import sliding_window_answer, split_units


def test_units():
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
    ("question", "passage", "wanted"),
    [
        ("今天的最高温度是多少", "天气预报显示今天最高温度 37 摄氏度", "37 摄氏度"),
        ("爱因斯坦在哪里发表演讲？", "爱因斯坦在柏林发表演讲。牛顿在伦敦散步。", "柏林"),
        ("By whom was Hamlet written?", "Hamlet was written by Shakespeare. Faust is longer.", "Shakespeare"),
        ("Where does the river Elbe rise?", "The river Elbe does rise in Bohemia. The Rhine is long.", "in Bohemia"),
    ],
)
def test_the_stretch_with_most_of_the_question_around_it(question: str, passage: str, wanted: str):
    start, text = sliding_window_answer(question, passage)
    assert text == wanted
    assert passage[start : start + len(text)] == text


def test_rare_words_count_more_and_near_ones_too():
    # Around "one": a, three times in the passage, right before it. Around "two": b, once, right behind it, or farther.
    passage = "a one . a . a . " + ". " * 30 + "two x b"
    assert log(2) / sqrt(2) > log(4 / 3)
    assert sliding_window_answer("a b", passage) == (passage.index("two"), "two x")  # "x" is no word of the question
    passage = "a one . a . a . " + ". " * 30 + "two . . . b"
    assert log(2) / sqrt(8) < log(4 / 3)
    assert sliding_window_answer("a b", passage)[1] == "one"
    assert sliding_window_answer("a b", passage, window=0)[1] == "two"  # where nothing is near, all are equal


def test_a_word_counts_once_however_often_it_is_near():
    passage = "b b b one b b " + ". " * 30 + "a two"
    # "one" has b alone, five times in the passage; "two" has a, which is there once
    assert sliding_window_answer("a b", passage) == (passage.index("two"), "two")


def test_long_stretches_are_cut_where_the_question_is_farther():
    assert sliding_window_answer("q", "q 1 2 3 4", max_units=2)[1] == "1 2"
    assert sliding_window_answer("q", "1 2 3 4 q", max_units=2)[1] == "3 4"


def test_nothing_to_say():
    assert sliding_window_answer("what?", "") == (0, "")
    assert sliding_window_answer("the cat", "The cat.") == (0, "")
    assert sliding_window_answer("", "one, two")[1] == "two"


@given(st.text(max_size=40), st.text(max_size=80))
def test_an_answer_stands_in_its_passage(question: str, passage: str):
    start, text = sliding_window_answer(question, passage)
    assert passage[start : start + len(text)] == text


def test_cmrc(data: Path):
    """Far above chance, far below a network: what a yardstick should be."""
    file = json.loads((data / "tasks" / "cmrc2018" / "dev.json").read_text(encoding="utf-8"))
    asked = [
        (item["question"], paragraph["context"], {reply["text"] for reply in item["answers"]})
        for article in file["data"]
        for paragraph in article["paragraphs"]
        for item in paragraph["qas"]
    ][::10][:300]
    hits = sum(sliding_window_answer(question, passage)[1] in replies for question, passage, replies in asked)
    assert 15 <= hits <= 60
