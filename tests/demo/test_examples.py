"""Labelled examples: right by construction, and checked here from outside; balanced; the same every time."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import pytest

from forebear.demo import grammar, world
from forebear.demo.demo_lexicon import RandomSource
from forebear.demo.labeled_examples import (
    TASKS,
    DemoLabeledText,
    DemoQuestion,
    DemoSensePair,
    DemoTaggedSentence,
    DemoTextPair,
    DemoTranslation,
    _matching,
    demo_examples,
)
from forebear.errors import InputError

BOTH = pytest.mark.parametrize("language", ["en", "zh"])


@BOTH
@pytest.mark.parametrize("task", TASKS)
def test_examples_are_the_same_every_time_and_none_needs_the_others(task: str, language: str):
    few, many = list(demo_examples(task, 5, 1, language)), list(demo_examples(task, 12, 1, language))
    assert many[:5] == few
    assert list(demo_examples(task, 5, 2, language)) != few
    assert len(set(many)) > 8


@BOTH
@pytest.mark.parametrize("task", [task for task, (_, labels) in TASKS.items() if labels])
def test_labels_are_balanced_and_in_no_order(task: str, language: str):
    labels = [one.label for one in demo_examples(task, 120, 3, language)]  # type: ignore[union-attr]
    assert set(Counter(labels).values()) == {120 // len(TASKS[task][1])}
    period = len(TASKS[task][1])
    assert any(labels[place] != labels[place + period] for place in range(100))


GOOD = r"excellent|perfect|best|friendly|kind|recommend|Read it|lovely|again|好吃|热情|推荐|感动|舒服|好书|谢谢|好地方"


@BOTH
def test_opinions_sound_like_their_label(language: str):
    """A person's few words for good are found in positive reviews far more often than in negative ones."""
    found = Counter(one.label for one in demo_examples("opinion", 200, 0, language) if re.search(GOOD, one.text))  # type: ignore[union-attr]
    assert found["positive"] > 1.5 * found["negative"]


@BOTH
def test_a_bag_of_words_learns_topics(language: str):
    cut = (lambda text: re.findall(r"\w+", text.lower())) if language == "en" else list
    counts: dict[str, Counter[str]] = {}
    for one in demo_examples("topic", 300, 0, language):
        assert isinstance(one, DemoLabeledText)
        counts.setdefault(one.label, Counter()).update(cut(one.text))
    totals = {label: sum(counter.values()) for label, counter in counts.items()}
    right = 0
    for one in demo_examples("topic", 60, 1, language):
        assert isinstance(one, DemoLabeledText)
        scores = {
            label: sum(log((counter[word] + 0.1) / (totals[label] + 300)) for word in cut(one.text))
            for label, counter in counts.items()
        }
        right += max(scores, key=scores.__getitem__) == one.label
    assert right >= 54


@BOTH
def test_scrambled_sentences_are_no_sentences_of_the_world(language: str):
    rule = world.grammar_for(language).rules["happening"]
    for one in demo_examples("coherence", 16, 5, language):
        assert isinstance(one, DemoLabeledText)
        assert (grammar.text_information(rule, one.text) < float("inf")) == (one.label == "coherent")


@BOTH
def test_pairs_say_the_same_or_differ_in_one_thing(language: str):
    for one in demo_examples("paraphrase", 200, 2, language):
        assert isinstance(one, DemoTextPair)
        assert one.first != one.second
        assert one.first.endswith((".", "。"))


def test_the_pair_of_the_lineage_is_among_them():
    """我很喜欢你 / 我很中意你: two words for liking, one meaning."""
    pairs = [one for one in demo_examples("paraphrase", 3000, 0, "zh") if isinstance(one, DemoTextPair)]
    found = [one for one in pairs if "很喜欢" in one.first and "很中意" in one.second]
    assert any(one.label == "similar" and one.first.replace("喜欢", "中意") == one.second for one in found)


@BOTH
def test_tags_follow_the_scheme_and_rejoin_to_names(language: str):
    lexicons = world.world_lexicons()
    names = {
        label: {
            entry.form(language, form).removeprefix("the ").replace(" ", "")
            for name in lists
            for entry in lexicons[name].entries
            for form in entry.name_forms
            if f"{language}.{form}" in entry.forms
        }
        for label, lists in (("PER", ["person"]), ("LOC", ["town", "spot"]), ("ORG", ["organisation", "team"]))
    }
    seen = Counter[str]()
    for one in demo_examples("names", 300, 1, language):
        assert isinstance(one, DemoTaggedSentence)
        assert "".join(one.pieces) == re.sub(r"\s", "", one.text)
        inside = ""
        word = ""
        for piece, tag in zip(one.pieces, one.tags, strict=True):
            position, _, label = tag.partition("-")
            assert (position in "IE") == bool(inside), one
            word = word + piece if position in "IE" else piece
            if position in "ES":
                assert word in names[label], one
                seen[label] += 1
            inside = label if position in "BI" else ""
        assert not inside
    assert min(seen[label] for label in names) > 40


@BOTH
def test_answers_stand_where_they_are_said_to(language: str):
    kinds = Counter[str]()
    for one in demo_examples("answers", 300, 1, language):
        assert isinstance(one, DemoQuestion)
        assert one.passage[one.start : one.start + len(one.answer_text)] == one.answer_text
        assert one.answer_text == one.answer_text.strip() != ""
        assert one.question.endswith(("?", "？"))
        assert not re.search(
            rf"\b{one.answer_text}\b" if language == "en" else one.answer_text, one.question, re.IGNORECASE
        )
        kinds[one.question[:6]] += 1
    assert len(kinds) >= 8


@BOTH
def test_a_sentence_answers_a_question_or_another_one_about_the_same(language: str):
    """The question is the same, whatever the label, and how sentences begin tells little: neither is enough alone."""
    questions, openings = Counter[str](), Counter[str]()
    for number in range(300):
        right, wrong = (
            _matching(RandomSource(f"{language}/{number}"), language, label) for label in ("answers", "other")
        )
        assert right.first == wrong.first
        assert right.first.endswith(("?", "？"))
        assert right.second != wrong.second
        assert right.second == right.second.strip() != ""
        questions[right.first[:6]] += 1
        openings[right.second[:1]] += 1
        openings[wrong.second[:1]] -= 1
    assert len(questions) >= 8
    assert sum(map(abs, openings.values())) < 0.3 * 600


def test_the_question_of_the_lineage_is_among_them():
    """今天的最高温度是多少 → 37 摄氏度."""
    asked = (one for one in demo_examples("answers", 600, 0, "zh") if isinstance(one, DemoQuestion))
    found = [one for one in asked if "最高温度" in one.question]
    assert len(found) > 10
    for one in found:
        assert re.fullmatch(r"(?:零下 )?\d+ 摄氏度", one.answer_text)
        assert re.search(r"最高|中午", one.passage[max(0, one.start - 12) : one.start]), one


@BOTH
def test_senses_share_the_word_and_are_labelled_by_its_meaning(language: str):
    rules = world.grammar_for(language).rules

    def meant(word: str, text: str) -> set[str]:
        found = set()
        for sense in world.sense_sentences(language)[word]:
            for node in rules[f"sense.{word}.{sense}"].nodes:
                fixed = [part.text for part in getattr(node, "nodes", [node]) if isinstance(part, grammar.LiteralNode)]
                if all(part.strip(" .,。，").lower() in text.lower() for part in fixed):
                    found.add(sense)
        return found

    for one in demo_examples("senses", 80, 1, language):
        assert isinstance(one, DemoSensePair)
        for text, place in zip((one.first, one.second), one.positions, strict=True):
            assert text[place : place + len(one.word)].lower() == one.word
        first, second = meant(one.word, one.first), meant(one.word, one.second)
        assert len(first) == len(second) == 1
        assert (first == second) == (one.label == "same")


def test_parallel_sentences_name_the_same_people_and_places():
    lexicons = world.world_lexicons()
    pairs = [
        (entry.form("en"), entry.form("zh"))
        for name in ("person", "team", "company", "organisation", "town")
        for entry in lexicons[name].entries
    ]
    for one in demo_examples("parallel", 80, 1):
        assert isinstance(one, DemoTranslation)
        assert not re.search(r"[\u4e00-\u9fff]", one.english)
        assert not re.search(r"[A-Za-z]", one.chinese)
        english = one.english.replace("The ", "the ", 1)
        for in_english, in_chinese in pairs:
            # Northport is also a part of the name of its team: longer names come first and are taken out.
            if in_english in english and re.search(rf"\b{in_english}\b", english):
                assert in_chinese in one.chinese, (one, in_english)
                english = english.replace(in_english, "")


def test_what_is_not_there_is_refused_with_what_is():
    with pytest.raises(InputError, match="no task named 'poems'") as caught:
        next(demo_examples("poems", 1))
    assert "opinion" in caught.value.hint
    with pytest.raises(InputError, match="'fr'"):
        next(demo_examples("topic", 1, 0, "fr"))  # type: ignore[arg-type]
