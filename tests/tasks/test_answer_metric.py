"""Exact match and F1 of answers: by hand, and on SQuAD and CMRC 2018 as by the official scripts."""

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
        (("to be or not to be",), "to be", 0, 0.5),  # words count as often as they occur in both
        (("in 1998",), "1999", 0, 0),
        (("U.S.",), "us", 1, 1),
        (("1,000",), "1000", 1, 1),
        (("don't",), "dont", 1, 1),
        ((), "", 1, 1),
        ((), "anything", 0, 0),
        (("something",), "", 0, 0),
        (("the",), "", 1, 1),  # an answer of only articles is no answer, as in SQuAD 2.0
        ((), "The.", 1, 1),
        (("theatre",), "atre", 0, 0),  # articles are whole words
    ],
)
def test_english_answer_scores_by_hand(golds, predicted, exact, f1):
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
        (("使用iPhone手机",), "iphone", 0, 2 * 1 / 6),  # a Latin word is one unit, in lowercase
        (("上海",), "北京", 0, 0),
        ((), "", 1, 1),
        ((), "北京", 0, 0),
        (("北京",), "", 0, 0),
    ],
)
def test_chinese_answer_scores_by_hand(golds, predicted, exact, f1):
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
def test_chinese_f1_splits_latin_text_like_nltk(text, words):
    assert WORD.findall(text) == words


@given(st.text(alphabet="ab.,'\" n't()北京1", max_size=30))
def test_answer_words_keep_every_character_except_whitespace(text):
    assert "".join(WORD.findall(text)) == "".join(text.split())


@given(*[st.lists(st.sampled_from("abc"), max_size=12)] * 2)
def test_longest_common_equals_a_search_over_all_runs(left, right):
    runs = {tuple(left[a:b]) for a in range(len(left)) for b in range(a + 1, len(left) + 1)}
    others = {tuple(right[a:b]) for a in range(len(right)) for b in range(a + 1, len(right) + 1)}
    assert longest_common(left, right) == max(map(len, runs & others), default=0)


@given(st.text(), st.text())
def test_answer_f1_is_symmetric_and_between_zero_and_one(gold, predicted):
    for overlap in (english_f1, chinese_f1):
        assert 0 <= overlap(gold, predicted) <= 1
        assert overlap(gold, predicted) == pytest.approx(overlap(predicted, gold))
        assert overlap(gold, gold) == 1


def test_answer_scores_with_and_without_gold_answers():
    scores = answer_scores([("the cat",), (), ("a dog", "the hound"), ()], ["cat", "cat", "big dog", ""])
    assert scores == {
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
def test_answer_language_is_that_of_the_golds(golds, language):
    assert answer_language(golds) == language
    assert answer_scores(golds, [""] * len(golds))["language"] == language
    assert answer_scores(golds, [""] * len(golds), "chinese")["language"] == "chinese"


def test_answer_scores_refuse_missing_questions_or_predictions():
    with pytest.raises(InputError, match="1 answers to 2 questions"):
        answer_scores([(), ()], [""])
    with pytest.raises(InputError, match="no questions"):
        answer_scores([], [])


def near_misses(file: Path) -> tuple[list[tuple[str, ...]], list[str]]:
    """Questions, some without their gold answers, and for each a more or less correct prediction."""
    golds, predicted = [], []
    articles = json.loads(file.read_text(encoding="utf-8"))["data"]
    questions = [
        (paragraph["context"], qa)
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]
    for index, (context, question) in enumerate(questions):
        texts = tuple(answer["text"] for answer in question["answers"])
        start = max(context.find(texts[0]), 0)
        before, after = ((0, 0), (3, 0), (0, 4), (0, -1), (8, 8), (0, 0), (1, 1))[index % 7]
        text = context[max(start - before, 0) : max(start + len(texts[0]) + after, 0)]
        golds.append(texts if index % 11 else ())
        predicted.append("" if index % 7 == 5 else text)
    return golds, predicted


@pytest.mark.parametrize(
    # Results of a literal reimplementation of the official scripts, with NLTK's tokenizer, for the same
    # answers (CMRC's has no questions without an answer; here they count as in SQuAD 2.0).
    ("file", "language", "exact", "f1"),
    [
        ("squad/dev-v1.1.json", "english", 0.3029328287606433, 0.6168506367186202),
        ("cmrc2018/dev.json", "chinese", 0.18080149114631874, 0.640318790342277),
    ],
)
def test_answer_scores_of_squad_and_cmrc_equal_the_official_scripts(data: Path, file, language, exact, f1):
    golds, predicted = near_misses(data / "tasks" / file)
    start_time = time.process_time()
    scores = answer_scores(golds, predicted)
    assert time.process_time() - start_time < 5
    assert scores["language"] == language
    assert scores["exact_match"] == pytest.approx(exact, abs=1e-12)
    assert scores["f1"] == pytest.approx(f1, abs=1e-12)


@given(
    st.lists(
        st.tuples(st.sampled_from([(), ("cat",), ("black cat",)]), st.sampled_from(["cat", "dog"]), st.integers(-5, 5)),
        min_size=1,
        max_size=12,
        unique_by=lambda case: case[2],
    )
)
def test_best_no_answer_threshold_has_the_highest_f1(cases: list[tuple[tuple[str, ...], str, int]]):
    golds, answers, gaps = (list(column) for column in zip(*cases, strict=True))

    def f1(threshold: float) -> float:
        predicted = ["" if gap > threshold else text for text, gap in zip(answers, gaps, strict=True)]
        return answer_scores(golds, predicted)["f1"]

    best = best_no_answer_threshold(golds, answers, gaps)
    assert f1(best) == pytest.approx(max(f1(half - 0.5) for half in range(-6, 8)))
    if f1(0.0) == pytest.approx(f1(best)):
        assert best == 0
