"""Baselines for tasks: majority class, most frequent tag, sliding window for question answering."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from typing import Any

from forebear.data.unicode import code_points, is_han
from forebear.tasks.classification import Classification, LabelPrediction
from forebear.tasks.metrics import answer_scores, tagging_accuracy
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task

# --- Sliding-window question answering: the span whose context shares most words with the question ---
#
# After MCTest (Richardson et al. 2013) and SQuAD (Rajpurkar et al. 2016), whose candidates are given choices or
# constituents of a parse. Here, candidates are the spans between punctuation and words shared with the question.

UNIT = re.compile(r"\w+|[^\w\s]")
WINDOW_UNITS = 20  # units of context on either side
MAX_ANSWER_UNITS = 12  # units of an answer
AFTER_ANSWER_FACTOR = 2  # distance factor of words after the answer: new information comes late, in both languages


@dataclass(frozen=True)
class Unit:
    """A lower-case word, Chinese character, or punctuation mark with its offsets."""

    text: str
    start: int
    end: int
    is_han: bool

    @property
    def is_mark(self) -> bool:
        return not (self.text[0].isalnum() or self.text[0] == "_")


def split_units(text: str) -> list[Unit]:
    """Split a text into words, single Chinese characters, and punctuation."""
    han = is_han(code_points(text)) if text else ()
    found = []
    for match in UNIT.finditer(text):
        begin = match.start()
        for place in range(begin, match.end()):
            if han[place]:
                if begin < place:
                    found.append(Unit(text[begin:place].lower(), begin, place, False))
                found.append(Unit(text[place], place, place + 1, True))
                begin = place + 1
        if begin < match.end():
            found.append(Unit(text[begin : match.end()].lower(), begin, match.end(), False))
    return found


def sliding_window_answer(
    question: str, passage: str, *, window: int = WINDOW_UNITS, longest: int = MAX_ANSWER_UNITS
) -> tuple[int, str]:
    """The offset of the best answer in the passage, and the answer; (0, "") if there is no candidate.

    Every question word within `window` units of a candidate adds to its score once, by its rarity in the passage and
    its distance: log(1 + 1/count) / √distance. The last of equal candidates wins. A candidate of more than `longest`
    units is truncated at its end, or at its start if no question word directly precedes it.
    """
    units = split_units(passage)
    shared = _question_units(split_units(question), units)
    counts = Counter(unit.text for unit in units)
    best, answer = 0.0, (0, "")
    for first, last in _candidate_spans(units, shared):
        distances: dict[str, int] = {}  # word → distance
        for position in range(max(0, first - window), min(len(units), last + window)):
            if shared[position]:
                distance = first - position if position < first else AFTER_ANSWER_FACTOR * (position - last + 1)
                distances[units[position].text] = min(distance, distances.get(units[position].text, distance))
        score = sum(log(1 + 1 / counts[word]) / sqrt(distance) for word, distance in distances.items())
        if score >= best:
            follows_question = first > 0 and shared[first - 1]
            start = first if follows_question or last - first <= longest else last - longest
            end = min(last, start + longest)
            best, answer = score, (units[start].start, passage[units[start].start : units[end - 1].end])
    return answer


def _question_units(question: list[Unit], passage: list[Unit]) -> list[bool]:
    """Which units of the passage are also in the question.

    A single Chinese character is ambiguous (度 in 摄氏度 and 温度), so it needs a neighbor from the question.
    """
    words = {unit.text for unit in question if not unit.is_mark}
    pairs = {(left.text, right.text) for left, right in pairwise(question)}
    is_shared = [not unit.is_han and unit.text in words for unit in passage]
    for position, (left, right) in enumerate(pairwise(passage)):
        if (left.text, right.text) in pairs and not left.is_mark and not right.is_mark:
            is_shared[position] = is_shared[position + 1] = True
    return is_shared


def _candidate_spans(units: list[Unit], shared: list[bool]) -> list[tuple[int, int]]:
    """(first, last + 1) of runs of units that are neither shared nor punctuation."""
    found, first = [], None
    for place, unit in enumerate(units):
        if shared[place] or unit.is_mark:
            if first is not None:
                found.append((first, place))
            first = None
        elif first is None:
            first = place
    return [*found, (first, len(units))] if first is not None else found


@dataclass(frozen=True)
class TaskBaseline:
    """What a model has to beat: its name, its score, and what it does."""

    name: str
    score: float
    meaning: str


def task_baseline(task: Task, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    """What any model has to beat, as the task's own score on these examples, all of which have labels."""
    if isinstance(task, Classification):
        return _majority(task, train, test)
    if isinstance(task, MultipleChoice):
        chance = sum(1 / len(one.choices) for one in test) / len(test)
        return TaskBaseline("chance", chance, "any choice, blindly")
    if isinstance(task, SequenceTagging) and task.is_plain:
        return _commonest_tags(task, train, test)
    if isinstance(task, SequenceTagging):
        return TaskBaseline("no names", 0.0, "every word is outside of everything")
    golds = [[span.text for span in example.answers] for example in test]
    said = [sliding_window_answer(example.question, example.passage)[1] for example in test]
    meaning = "where the question's words are nearest, and nothing learned"
    return TaskBaseline("sliding window", float(answer_scores(golds, said)["f1"]), meaning)


def _commonest_tags(task: SequenceTagging, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    """Each word has the tag that it has most often where it was taught; a new one has the commonest of all."""
    counts: dict[str, Counter[str]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags or (), strict=False):
            counts.setdefault(word, Counter())[tag] += 1
    every = sum(counts.values(), Counter[str]())
    best = {word: max(own, key=lambda tag: (own[tag], tag)) for word, own in counts.items()}
    usual = max(every, key=lambda tag: (every[tag], tag))
    said = [[best.get(word, usual) for word in example.words] for example in test]
    score = float(tagging_accuracy([example.tags for example in test], said)[task.score])
    return TaskBaseline("commonest tag", score, "each word as it was tagged most often in the training examples")


def _majority(task: Classification, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    if task.kind == "number":
        return TaskBaseline("one number", 0.0, "the same number for all: there is no order in that")
    given: Sequence[Any] = [example.label for example in train]
    labels = Counter(one for label in given for one in (label if isinstance(label, tuple) else (label,)))
    commonest = max(labels, key=lambda label: (labels[label], label))
    said = (commonest,) if task.kind == "several" else commonest
    answers = [LabelPrediction(example.texts, said, {}) for example in test]
    score = float(task.evaluate(test, answers)[task.score])
    return TaskBaseline("majority", score, f"always {commonest!r}, the commonest label of the training examples")
