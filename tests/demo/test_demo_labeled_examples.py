"""Labeled examples of the demo: correct labels, balanced classes, the same on every call."""

from __future__ import annotations

import re
from collections import Counter
from math import log

import pytest

from forebear.demo import grammar, stories
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

BOTH_LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])


@BOTH_LANGUAGES
@pytest.mark.parametrize("task", TASKS)
def test_demo_examples_depend_on_seed_and_number_alone(task: str, language: str):
    shorter, longer = list(demo_examples(task, 5, 1, language)), list(demo_examples(task, 12, 1, language))
    assert longer[:5] == shorter
    assert list(demo_examples(task, 5, 2, language)) != shorter
    assert len(set(longer)) > 8


@BOTH_LANGUAGES
@pytest.mark.parametrize("task", [task for task, (_, labels) in TASKS.items() if labels])
def test_demo_labels_are_balanced_and_shuffled(task: str, language: str):
    labels = [example.label for example in demo_examples(task, 120, 3, language)]  # type: ignore[union-attr]
    assert set(Counter(labels).values()) == {120 // len(TASKS[task][1])}
    period = len(TASKS[task][1])
    assert any(labels[index] != labels[index + period] for index in range(100))


POSITIVE_WORDS = (
    r"excellent|perfect|best|friendly|kind|recommend|Read it|lovely|again|好吃|热情|推荐|感动|舒服|好书|谢谢|好地方"
)


@BOTH_LANGUAGES
def test_positive_words_are_more_frequent_in_positive_reviews(language: str):
    """A short list of positive words matches positive reviews far more often than negative ones."""
    reviews = demo_examples("opinion", 200, 0, language)  # type: ignore[arg-type]
    counts = Counter(review.label for review in reviews if re.search(POSITIVE_WORDS, review.text))  # type: ignore[union-attr]
    assert counts["positive"] > 1.5 * counts["negative"]


@BOTH_LANGUAGES
def test_bag_of_words_classifier_learns_topics(language: str):
    tokenize = (lambda text: re.findall(r"\w+", text.lower())) if language == "en" else list
    counts: dict[str, Counter[str]] = {}
    for example in demo_examples("topic", 300, 0, language):
        assert isinstance(example, DemoLabeledText)
        counts.setdefault(example.label, Counter()).update(tokenize(example.text))
    totals = {label: sum(counter.values()) for label, counter in counts.items()}
    num_correct = 0
    for example in demo_examples("topic", 60, 1, language):
        assert isinstance(example, DemoLabeledText)
        scores = {
            label: sum(log((counter[word] + 0.1) / (totals[label] + 300)) for word in tokenize(example.text))
            for label, counter in counts.items()
        }
        num_correct += max(scores, key=scores.__getitem__) == example.label
    assert num_correct >= 54


@BOTH_LANGUAGES
def test_scrambled_sentences_are_not_generated_by_the_grammar(language: str):
    rule = stories.grammar_for(language).rules["happening"]
    for example in demo_examples("coherence", 16, 5, language):
        assert isinstance(example, DemoLabeledText)
        assert (grammar.text_information(rule, example.text) < float("inf")) == (example.label == "coherent")


@BOTH_LANGUAGES
def test_paraphrase_pairs_are_different_complete_sentences(language: str):
    for example in demo_examples("paraphrase", 200, 2, language):
        assert isinstance(example, DemoTextPair)
        assert example.first != example.second
        assert example.first.endswith((".", "。"))


def test_paraphrases_contain_the_pair_of_the_lineage():
    """我很喜欢你 / 我很中意你: two words for liking, one meaning."""
    pairs = [example for example in demo_examples("paraphrase", 3000, 0, "zh") if isinstance(example, DemoTextPair)]
    matches = [example for example in pairs if "很喜欢" in example.first and "很中意" in example.second]
    assert any(
        example.label == "similar" and example.first.replace("喜欢", "中意") == example.second for example in matches
    )


@BOTH_LANGUAGES
def test_entity_tags_follow_iobes_and_mark_lexicon_names(language: str):
    lexicons = stories.world_lexicons()
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
    counts = Counter[str]()
    for example in demo_examples("names", 300, 1, language):
        assert isinstance(example, DemoTaggedSentence)
        assert "".join(example.pieces) == re.sub(r"\s", "", example.text)
        open_label = ""
        word = ""
        for piece, tag in zip(example.pieces, example.tags, strict=True):
            position, _, label = tag.partition("-")
            assert (position in "IE") == bool(open_label), example
            word = word + piece if position in "IE" else piece
            if position in "ES":
                assert word in names[label], example
                counts[label] += 1
            open_label = label if position in "BI" else ""
        assert not open_label
    assert min(counts[label] for label in names) > 40


@BOTH_LANGUAGES
def test_answers_are_at_their_offset_and_not_in_the_question(language: str):
    question_starts = Counter[str]()
    for example in demo_examples("answers", 300, 1, language):
        assert isinstance(example, DemoQuestion)
        assert example.passage[example.start : example.start + len(example.answer_text)] == example.answer_text
        assert example.answer_text == example.answer_text.strip() != ""
        assert example.question.endswith(("?", "？"))
        assert not re.search(
            rf"\b{example.answer_text}\b" if language == "en" else example.answer_text, example.question, re.IGNORECASE
        )
        question_starts[example.question[:6]] += 1
    assert len(question_starts) >= 8


@BOTH_LANGUAGES
def test_matching_pairs_differ_only_in_the_answer(language: str):
    """The question is the same whatever the label, and openings tell little: neither text alone gives the label."""
    questions, openings = Counter[str](), Counter[str]()
    for number in range(300):
        positive, negative = (
            _matching(RandomSource(f"{language}/{number}"), language, label) for label in ("answers", "other")
        )
        assert positive.first == negative.first
        assert positive.first.endswith(("?", "？"))
        assert positive.second != negative.second
        assert positive.second == positive.second.strip() != ""
        questions[positive.first[:6]] += 1
        openings[positive.second[:1]] += 1
        openings[negative.second[:1]] -= 1
    assert len(questions) >= 8
    assert sum(map(abs, openings.values())) < 0.3 * 600


def test_answers_contain_the_question_of_the_lineage():
    """今天的最高温度是多少 → 37 摄氏度."""
    questions = (question for question in demo_examples("answers", 600, 0, "zh") if isinstance(question, DemoQuestion))
    matches = [question for question in questions if "最高温度" in question.question]
    assert len(matches) > 10
    for question in matches:
        assert re.fullmatch(r"(?:零下 )?\d+ 摄氏度", question.answer_text)
        assert re.search(r"最高|中午", question.passage[max(0, question.start - 12) : question.start]), question


@BOTH_LANGUAGES
def test_sense_pairs_share_the_word_and_are_labeled_by_its_sense(language: str):
    rules = stories.grammar_for(language).rules

    def senses_of(word: str, text: str) -> set[str]:
        senses = set()
        for sense in stories.sense_sentences(language)[word]:
            for node in rules[f"sense.{word}.{sense}"].nodes:
                literals = [
                    literal.text
                    for literal in getattr(node, "nodes", [node])
                    if isinstance(literal, grammar.LiteralNode)
                ]
                if all(literal.strip(" .,。，").lower() in text.lower() for literal in literals):
                    senses.add(sense)
        return senses

    for example in demo_examples("senses", 80, 1, language):
        assert isinstance(example, DemoSensePair)
        for text, position in zip((example.first, example.second), example.positions, strict=True):
            assert text[position : position + len(example.word)].lower() == example.word
        first, second = senses_of(example.word, example.first), senses_of(example.word, example.second)
        assert len(first) == len(second) == 1
        assert (first == second) == (example.label == "same")


def test_translations_name_the_same_people_and_places():
    lexicons = stories.world_lexicons()
    pairs = [
        (entry.form("en"), entry.form("zh"))
        for name in ("person", "team", "company", "organisation", "town")
        for entry in lexicons[name].entries
    ]
    for translation in demo_examples("parallel", 80, 1):
        assert isinstance(translation, DemoTranslation)
        assert not re.search(r"[\u4e00-\u9fff]", translation.english)
        assert not re.search(r"[A-Za-z]", translation.chinese)
        english = translation.english.replace("The ", "the ", 1)
        for english_name, chinese_name in pairs:
            # Northport is also part of the name of its team: longer names come first and are removed.
            if english_name in english and re.search(rf"\b{english_name}\b", english):
                assert chinese_name in translation.chinese, (translation, english_name)
                english = english.replace(english_name, "")


def test_unknown_demo_tasks_and_languages_are_refused():
    with pytest.raises(InputError, match="no task named 'poems'") as caught:
        next(demo_examples("poems", 1))
    assert "opinion" in caught.value.hint
    with pytest.raises(InputError, match="'fr'"):
        next(demo_examples("topic", 1, 0, "fr"))  # type: ignore[arg-type]
