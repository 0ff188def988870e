"""What needs no learning, or nearly none, to do a task: who is no better has learned nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from typing import Any

from forebear.data.tokenizers.char_level import code_points, is_han
from forebear.tasks.classification import Classification, LabelPrediction
from forebear.tasks.metrics import answer_scores, tagging_accuracy
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task

# An answer without any learning: the stretch of a passage whose surroundings have most of the question's words.
#
# After the sliding windows of MCTest (Richardson et al. 2013) and SQuAD (Rajpurkar et al. 2016). Their candidates are
# choices that somebody gave, or constituents that a parser found. Here they are the stretches between what the passage
# and the question have in common, and between punctuation, which nobody has to give or find.


UNITS = re.compile(r"\w+|[^\w\s]")
WINDOW = 20  # units to either side
LONGEST = 12  # units of an answer
BEHIND = 2  # how much farther a word counts that stands behind the answer: what is new comes late, in both languages


@dataclass(frozen=True)
class Unit:
    """A word, a Chinese character, or a mark of punctuation: lower case, and where it stands."""

    text: str
    start: int
    end: int
    is_han: bool

    @property
    def is_mark(self) -> bool:
        return not (self.text[0].isalnum() or self.text[0] == "_")


def units_of(text: str) -> list[Unit]:
    """Words, single Chinese characters, and punctuation."""
    han = is_han(code_points(text)) if text else ()
    found = []
    for match in UNITS.finditer(text):
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
    question: str, passage: str, *, window: int = WINDOW, longest: int = LONGEST
) -> tuple[int, str]:
    """Where the best answer begins in the passage, and the answer; (0, "") where the passage says nothing else.

    Every word of the question that stands within `window` units of a stretch counts once for it, by how rare it is in
    the passage and how near to the stretch: log(1 + 1/times) / √distance. Of equals the last is taken. What is longer
    than `longest` units loses its end, or its beginning where no word of the question stands right before it.
    """
    units = units_of(passage)
    shared = _shared(units_of(question), units)
    times = Counter(unit.text for unit in units)
    best, chosen = 0.0, (0, "")
    for first, last in _stretches(units, shared):
        around: dict[str, int] = {}  # word → how far it is
        for place in range(max(0, first - window), min(len(units), last + window)):
            if shared[place]:
                away = first - place if place < first else BEHIND * (place - last + 1)
                around[units[place].text] = min(away, around.get(units[place].text, away))
        score = sum(log(1 + 1 / times[word]) / sqrt(away) for word, away in around.items())
        if score >= best:
            before = first > 0 and shared[first - 1]
            begin = first if before or last - first <= longest else last - longest
            end = min(last, begin + longest)
            best, chosen = score, (units[begin].start, passage[units[begin].start : units[end - 1].end])
    return chosen


def _shared(question: list[Unit], passage: list[Unit]) -> list[bool]:
    """Which units of the passage are also in the question.

    A Chinese character alone says too little: 度 of 摄氏度 is not that of 温度. It needs a neighbour from the question.
    """
    words = {unit.text for unit in question if not unit.is_mark}
    pairs = {(one.text, two.text) for one, two in pairwise(question)}
    told = [not unit.is_han and unit.text in words for unit in passage]
    for place, (one, two) in enumerate(pairwise(passage)):
        if (one.text, two.text) in pairs and not one.is_mark and not two.is_mark:
            told[place] = told[place + 1] = True
    return told


def _stretches(units: list[Unit], shared: list[bool]) -> list[tuple[int, int]]:
    """Units on end that are neither shared nor punctuation: (first, last + 1) of each."""
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
    return _sliding_window(test)


def _sliding_window(test: Sequence[Any]) -> TaskBaseline:
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
