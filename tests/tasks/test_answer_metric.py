"""Exact match and F1 of answers: by hand, and on real questions as the official definitions give them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebear.errors import InputError
from forebear.tasks.metrics import (
    WORD,
    answer_language,
    answer_score,
    answer_scores,
    best_no_answer_threshold,
    chinese_f1,
    english_f1,
    longest_common,
)


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        (("The Eiffel Tower",), "eiffel tower!", 1, 1),
        (("a cat", "the black cat"), "black cat", 1, 1),
        (("Denver Broncos", "The Broncos won"), "Broncos", 0, 2 / 3),
        (("to be or not to be",), "to be", 0, 0.5),  # words count as often as they stand in both
        (("in 1998",), "1999", 0, 0),
        (("U.S.",), "us", 1, 1),
        (("1,000",), "1000", 1, 1),
        (("don't",), "dont", 1, 1),
        ((), "", 1, 1),
        ((), "anything", 0, 0),
        (("something",), "", 0, 0),
        (("the",), "", 1, 1),  # an answer of nothing but articles is none, as in SQuAD 2.0
        ((), "The.", 1, 1),
        (("theatre",), "atre", 0, 0),  # articles are whole words
    ],
)
def test_english_by_hand(golds, predicted, exact, f1):
    assert answer_score(golds, predicted, "english") == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        (("37摄氏度",), "37 摄氏度", 0, 1),  # the official script keeps white space inside for exact match
        (("37摄氏度",), "“37摄氏度。”", 1, 1),
        (("《三国志》",), "三国志", 1, 1),
        (("北京大学",), "在北京大学", 0, 2 * 4 / 9),
        (("北京大学",), "北京的大学", 0, 2 * 2 / 9),  # the longest run is 北京 or 大学
        (("光荣和ω-force", "光荣"), "光荣", 1, 1),
        (("光荣和ω-force",), "光荣和ωforce", 1, 1),
        (("使用iPhone手机",), "iphone", 0, 2 * 1 / 6),  # a Latin word is one word, in small letters
        (("上海",), "北京", 0, 0),
        ((), "", 1, 1),
        ((), "北京", 0, 0),
        (("北京",), "", 0, 0),
    ],
)
def test_chinese_by_hand(golds, predicted, exact, f1):
    assert answer_score(golds, predicted, "chinese") == (exact, pytest.approx(f1))


@pytest.mark.parametrize(
    ("text", "words"),  # as NLTK's word_tokenize gives them
    [
        ("1,000.5元", ["1,000.5", "元"]),
        ("it's don't", ["it", "'s", "do", "n't"]),
        ("(protein complexes.)", ["(", "protein", "complexes", ".", ")"]),
        ("young designers' exhibition", ["young", "designers", "'", "exhibition"]),
        ("a.s.d. treviso, 50%", ["a.s.d.", "treviso", ",", "50", "%"]),
        ("1915–1995年ノブ", ["1915", "–", "1995", "年", "ノブ"]),
        ("wait...", ["wait", "..."]),
    ],
)
def test_words_between_chinese_characters(text, words):
    assert WORD.findall(text) == words


@given(st.text(alphabet="ab.,'\" n't()北京1", max_size=30))
def test_no_character_but_white_space_is_lost(text):
    assert "".join(WORD.findall(text)) == "".join(text.split())


@given(*[st.lists(st.sampled_from("abc"), max_size=12)] * 2)
def test_the_longest_common_run_is_that_of_all_runs(left, right):
    runs = {tuple(left[a:b]) for a in range(len(left)) for b in range(a + 1, len(left) + 1)}
    others = {tuple(right[a:b]) for a in range(len(right)) for b in range(a + 1, len(right) + 1)}
    assert longest_common(left, right) == max(map(len, runs & others), default=0)


@given(st.text(), st.text())
def test_shares_are_shares(gold, predicted):
    for overlap in (english_f1, chinese_f1):
        assert 0 <= overlap(gold, predicted) <= 1
        assert overlap(gold, predicted) == pytest.approx(overlap(predicted, gold))
        assert overlap(gold, gold) == 1


def test_all_questions_together_and_apart():
    found = answer_scores([("the cat",), (), ("a dog", "the hound"), ()], ["cat", "cat", "big dog", ""])
    assert found == {
        "exact_match": 0.5,
        "f1": pytest.approx((1 + 0 + 2 / 3 + 1) / 4),
        "questions": 4,
        "language": "english",
        "has_answer": {"exact_match": 0.5, "f1": pytest.approx((1 + 2 / 3) / 2), "questions": 2},
        "no_answer": {"exact_match": 0.5, "f1": 0.5, "questions": 2},
    }
    assert "no_answer" not in answer_scores([("北京",)], ["北京"])
    assert "has_answer" not in answer_scores([()], [""])


@pytest.mark.parametrize(
    ("golds", "language"),
    [
        ([("北京大学",), ("iPhone",)], "chinese"),
        ([("the 北 gate of Peking",)], "english"),
        ([("1998",)], "english"),
        ([(), ()], "english"),
        ([("ω-force 与光荣",)], "chinese"),
    ],
)
def test_the_language_is_that_of_the_golds(golds, language):
    assert answer_language(golds) == language
    assert answer_scores(golds, [""] * len(golds))["language"] == language
    assert answer_scores(golds, [""] * len(golds), "chinese")["language"] == "chinese"


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="1 answers to 2 questions"):
        answer_scores([(), ()], [""])
    with pytest.raises(InputError, match="no questions"):
        answer_scores([], [])


def near_misses(file: Path) -> tuple[list[tuple[str, ...]], list[str]]:
    """Questions, some of them with their answers taken away, and for each an answer that is more or less right."""
    golds, predicted = [], []
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    asked = [(part["context"], one) for article in articles for part in article["paragraphs"] for one in part["qas"]]
    for number, (context, question) in enumerate(asked):
        texts = tuple(answer["text"] for answer in question["answers"])
        at = max(context.find(texts[0]), 0)
        more, less = ((0, 0), (3, 0), (0, 4), (0, -1), (8, 8), (0, 0), (1, 1))[number % 7]
        text = context[max(at - more, 0) : max(at + len(texts[0]) + less, 0)]
        golds.append(texts if number % 11 else ())
        predicted.append("" if number % 7 == 5 else text)
    return golds, predicted


@pytest.mark.parametrize(
    # What the official scripts' definitions, written down anew word for word and with NLTK's own words, gave for the
    # same answers (CMRC's knows no questions without an answer; here they count as in SQuAD 2.0).
    ("file", "language", "exact", "f1"),
    [
        ("squad/dev-v1.1.json", "english", 0.3029328287606433, 0.6168506367186202),
        ("cmrc2018/dev.json", "chinese", 0.18080149114631874, 0.640318790342277),
    ],
)
def test_real_questions_score_as_by_the_official_scripts(data: Path, file, language, exact, f1):
    golds, predicted = near_misses(data / "tasks" / file)
    began = time.process_time()
    found = answer_scores(golds, predicted)
    assert time.process_time() - began < 5
    assert found["language"] == language
    assert found["exact_match"] == pytest.approx(exact, abs=1e-12)
    assert found["f1"] == pytest.approx(f1, abs=1e-12)


@given(
    st.lists(
        st.tuples(st.sampled_from([(), ("cat",), ("black cat",)]), st.sampled_from(["cat", "dog"]), st.integers(-5, 5)),
        min_size=1,
        max_size=12,
        unique_by=lambda one: one[2],
    )
)
def test_no_threshold_for_not_answering_is_better_than_the_one_found(cases: list[tuple[tuple[str, ...], str, int]]):
    golds, said, gaps = (list(column) for column in zip(*cases, strict=True))

    def f1(threshold: float) -> float:
        told = ["" if gap > threshold else text for text, gap in zip(said, gaps, strict=True)]
        return answer_scores(golds, told)["f1"]

    found = best_no_answer_threshold(golds, said, gaps)
    assert f1(found) == pytest.approx(max(f1(half - 0.5) for half in range(-6, 8)))
    if f1(0.0) == pytest.approx(f1(found)):
        assert found == 0
