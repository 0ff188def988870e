"""A person's labelled examples, divided the same way for everyone, and what needs no learning to answer them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forebear.comparing.task_outcomes import Baseline
from forebear.errors import BadInput
from forebear.statistics.sliding_window import answer
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification, Classified
from forebear.tasks.examples import is_labelled
from forebear.tasks.figures.answer_metric import of_answers
from forebear.tasks.tagging import Tagging
from forebear.tasks.task import Task, task_named
from forebear.training.labelled import LabelledData, LabelledSource, read_labelled


def divided_source(source: LabelledSource, share: float) -> LabelledSource:
    """The same; where no file is for the test, this share of the examples is, by what they say."""
    if source.test is None and not 0 < share < 1:
        raise BadInput(f"--test-share is {share}", remedy="give a share between 0 and 1, such as 0.2, or a --test file")
    return replace(source, test_share=0.0 if source.test is not None else share)


def read(source: LabelledSource) -> LabelledData:
    """All sides, the test with labels on every example."""
    found = read_labelled(source)
    tested = [example for example in found.test if is_labelled(example)]
    if not tested:
        few = "there are too few examples to hold some out for a test"
        what = "no test example has a label" if source.test else few
        remedy = "give examples with labels: --test FILE"
        raise BadInput(what, file=source.test or source.train, remedy=remedy)
    return replace(found, test=tested)


def task_of(source: LabelledSource, data: LabelledData) -> Task:
    """The task as it is learned from the training side."""
    return task_named(source.task).learned(data.train, **({"scheme": data.scheme} if data.scheme else {}))


def baselines(task: Task, data: LabelledData) -> tuple[Baseline, ...]:
    """What any model has to beat, as the task's own score on the test."""
    if isinstance(task, Classification):
        return (_majority(task, data),)
    if isinstance(task, Choice):
        chance = sum(1 / len(one.choices) for one in data.test) / len(data.test)
        return (Baseline("chance", chance, "any choice, blindly"),)
    if isinstance(task, Tagging):
        return (Baseline("no names", 0.0, "every word is outside of everything"),)
    return (_sliding_window(data),)


def _sliding_window(data: LabelledData) -> Baseline:
    golds = [[span.text for span in example.answers] for example in data.test]
    said = [answer(example.question, example.passage)[1] for example in data.test]
    meaning = "where the question's words are nearest, and nothing learned"
    return Baseline("sliding window", float(of_answers(golds, said)["f1"]), meaning)


def _majority(task: Classification, data: LabelledData) -> Baseline:
    if task.kind == "number":
        return Baseline("one number", 0.0, "the same number for all: there is no order in that")
    given: Sequence[Any] = [example.label for example in data.train]
    labels = Counter(one for label in given for one in (label if isinstance(label, tuple) else (label,)))
    commonest = max(labels, key=lambda label: (labels[label], label))
    said = (commonest,) if task.kind == "several" else commonest
    answers = [Classified(example.texts, said, {}) for example in data.test]
    score = float(task.measured(data.test, answers)[task.score])
    return Baseline("majority", score, f"always {commonest!r}, the commonest label of the training examples")
