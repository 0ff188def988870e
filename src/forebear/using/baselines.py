"""What needs no learning, or nearly none, to do a task: who is no better has learned nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forebear.statistics.sliding_window import answer
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification, Classified
from forebear.tasks.figures.answer_metric import of_answers
from forebear.tasks.figures.words_metric import of_words
from forebear.tasks.tagging import Tagging
from forebear.tasks.task import Task


@dataclass(frozen=True)
class Baseline:
    """What a model has to beat: its name, its score, and what it does."""

    name: str
    score: float
    meaning: str


def baseline(task: Task, train: Sequence[Any], test: Sequence[Any]) -> Baseline:
    """What any model has to beat, as the task's own score on these examples, all of which have labels."""
    if isinstance(task, Classification):
        return _majority(task, train, test)
    if isinstance(task, Choice):
        chance = sum(1 / len(one.choices) for one in test) / len(test)
        return Baseline("chance", chance, "any choice, blindly")
    if isinstance(task, Tagging) and task.is_plain:
        return _commonest_tags(task, train, test)
    if isinstance(task, Tagging):
        return Baseline("no names", 0.0, "every word is outside of everything")
    return _sliding_window(test)


def _sliding_window(test: Sequence[Any]) -> Baseline:
    golds = [[span.text for span in example.answers] for example in test]
    said = [answer(example.question, example.passage)[1] for example in test]
    meaning = "where the question's words are nearest, and nothing learned"
    return Baseline("sliding window", float(of_answers(golds, said)["f1"]), meaning)


def _commonest_tags(task: Tagging, train: Sequence[Any], test: Sequence[Any]) -> Baseline:
    """Each word has the tag that it has most often where it was taught; a new one has the commonest of all."""
    counts: dict[str, Counter[str]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags or (), strict=False):
            counts.setdefault(word, Counter())[tag] += 1
    every = sum(counts.values(), Counter[str]())
    best = {word: max(own, key=lambda tag: (own[tag], tag)) for word, own in counts.items()}
    usual = max(every, key=lambda tag: (every[tag], tag))
    said = [[best.get(word, usual) for word in example.words] for example in test]
    score = float(of_words([example.tags for example in test], said)[task.score])
    return Baseline("commonest tag", score, "each word as it was tagged most often in the training examples")


def _majority(task: Classification, train: Sequence[Any], test: Sequence[Any]) -> Baseline:
    if task.kind == "number":
        return Baseline("one number", 0.0, "the same number for all: there is no order in that")
    given: Sequence[Any] = [example.label for example in train]
    labels = Counter(one for label in given for one in (label if isinstance(label, tuple) else (label,)))
    commonest = max(labels, key=lambda label: (labels[label], label))
    said = (commonest,) if task.kind == "several" else commonest
    answers = [Classified(example.texts, said, {}) for example in test]
    score = float(task.measured(test, answers)[task.score])
    return Baseline("majority", score, f"always {commonest!r}, the commonest label of the training examples")
