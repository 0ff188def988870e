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
# After MCTest (Richardson et al. 2013) and SQuAD (Rajpurkar et al. 2016), whose candidates are the given choices or
# the constituents of a parse. Here, candidates are the spans between punctuation and words shared with the question.

UNIT_PATTERN = re.compile(r"\w+|[^\w\s]")
WINDOW_UNITS = 20  # units of context on either side
MAX_ANSWER_UNITS = 12  # units of an answer
AFTER_ANSWER_FACTOR = 2  # distance factor of words after the answer: in both languages, new information comes last


@dataclass(frozen=True)
class TextUnit:
    """A lower-case word, Chinese character, or punctuation mark with its offsets."""

    text: str
    start: int
    end: int
    is_han: bool

    @property
    def is_punctuation(self) -> bool:
        return not (self.text[0].isalnum() or self.text[0] == "_")


def split_units(text: str) -> list[TextUnit]:
    """Split a text into words, single Chinese characters, and punctuation."""
    is_han_at = is_han(code_points(text)) if text else ()
    units = []
    for match in UNIT_PATTERN.finditer(text):
        start = match.start()
        for position in range(start, match.end()):
            if is_han_at[position]:
                if start < position:
                    units.append(TextUnit(text[start:position].lower(), start, position, False))
                units.append(TextUnit(text[position], position, position + 1, True))
                start = position + 1
        if start < match.end():
            units.append(TextUnit(text[start : match.end()].lower(), start, match.end(), False))
    return units


def sliding_window_answer(
    question: str, passage: str, *, window: int = WINDOW_UNITS, max_units: int = MAX_ANSWER_UNITS
) -> tuple[int, str]:
    """The offset of the best answer in the passage, and the answer; (0, "") if there is no candidate.

    Every question word within `window` units of a candidate adds to its score once, by its rarity in the passage and
    its distance: log(1 + 1/count) / √distance. The last of equal candidates wins. A candidate of more than `max_units`
    units is truncated at its end, or at its start if no question word directly precedes it.
    """
    units = split_units(passage)
    is_shared = _question_units(split_units(question), units)
    counts = Counter(unit.text for unit in units)
    best_score, answer = 0.0, (0, "")
    for span_start, span_end in _candidate_spans(units, is_shared):
        distances: dict[str, int] = {}  # word → distance
        for position in range(max(0, span_start - window), min(len(units), span_end + window)):
            if is_shared[position]:
                distance = span_start - position
                if position >= span_start:
                    distance = AFTER_ANSWER_FACTOR * (position - span_end + 1)
                distances[units[position].text] = min(distance, distances.get(units[position].text, distance))
        score = sum(log(1 + 1 / counts[word]) / sqrt(distance) for word, distance in distances.items())
        if score >= best_score:
            follows_question = span_start > 0 and is_shared[span_start - 1]
            start = span_start if follows_question or span_end - span_start <= max_units else span_end - max_units
            end = min(span_end, start + max_units)
            best_score, answer = score, (units[start].start, passage[units[start].start : units[end - 1].end])
    return answer


def _question_units(question: list[TextUnit], passage: list[TextUnit]) -> list[bool]:
    """Which units of the passage are also in the question.

    A single Chinese character is ambiguous (度 in 摄氏度 and 温度), so it needs a neighbor from the question.
    """
    words = {unit.text for unit in question if not unit.is_punctuation}
    word_pairs = {(left.text, right.text) for left, right in pairwise(question)}
    is_shared = [not unit.is_han and unit.text in words for unit in passage]
    for position, (left, right) in enumerate(pairwise(passage)):
        if (left.text, right.text) in word_pairs and not left.is_punctuation and not right.is_punctuation:
            is_shared[position] = is_shared[position + 1] = True
    return is_shared


def _candidate_spans(units: list[TextUnit], is_shared: list[bool]) -> list[tuple[int, int]]:
    """(first, last + 1) of runs of units that are neither shared nor punctuation."""
    spans, span_start = [], None
    for position, unit in enumerate(units):
        if is_shared[position] or unit.is_punctuation:
            if span_start is not None:
                spans.append((span_start, position))
            span_start = None
        elif span_start is None:
            span_start = position
    return [*spans, (span_start, len(units))] if span_start is not None else spans


@dataclass(frozen=True)
class TaskBaseline:
    """A baseline: its name, its score, and what it predicts."""

    name: str
    score: float
    meaning: str


def task_baseline(task: Task, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    """The task's baseline with its score, by the task's metric, on these test examples, which all have labels."""
    if isinstance(task, Classification):
        return _majority_label(task, train, test)
    if isinstance(task, MultipleChoice):
        chance = sum(1 / len(example.choices) for example in test) / len(test)
        return TaskBaseline("chance", chance, "any choice, blindly")
    if isinstance(task, SequenceTagging) and task.is_plain:
        return _most_frequent_tags(task, train, test)
    if isinstance(task, SequenceTagging):
        return TaskBaseline("no names", 0.0, "every word is outside of everything")
    golds = [[span.text for span in example.answers] for example in test]
    predictions = [sliding_window_answer(example.question, example.passage)[1] for example in test]
    meaning = "where the question's words are nearest, and nothing learned"
    return TaskBaseline("sliding window", float(answer_scores(golds, predictions)["f1"]), meaning)


def _most_frequent_tags(task: SequenceTagging, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    """Each word gets its most frequent tag in the training data; a new word gets the most frequent tag of all."""
    counts: dict[str, Counter[str]] = {}
    for example in train:
        for word, tag in zip(example.words, example.tags or (), strict=False):
            counts.setdefault(word, Counter())[tag] += 1
    total_counts = sum(counts.values(), Counter[str]())
    tag_of_word = {word: max(tag_counts, key=lambda tag: (tag_counts[tag], tag)) for word, tag_counts in counts.items()}
    most_frequent_tag = max(total_counts, key=lambda tag: (total_counts[tag], tag))
    predictions = [[tag_of_word.get(word, most_frequent_tag) for word in example.words] for example in test]
    score = float(tagging_accuracy([example.tags for example in test], predictions)[task.metric])
    return TaskBaseline("commonest tag", score, "each word as it was tagged most often in the training examples")


def _majority_label(task: Classification, train: Sequence[Any], test: Sequence[Any]) -> TaskBaseline:
    if task.kind == "number":
        return TaskBaseline("one number", 0.0, "the same number for all: there is no order in that")
    train_labels: Sequence[Any] = [example.label for example in train]
    labels = Counter(name for label in train_labels for name in (label if isinstance(label, tuple) else (label,)))
    majority_label = max(labels, key=lambda label: (labels[label], label))
    prediction = (majority_label,) if task.kind == "several" else majority_label
    predictions = [LabelPrediction(example.texts, prediction, {}) for example in test]
    score = float(task.evaluate(test, predictions)[task.metric])
    return TaskBaseline("majority", score, f"always {majority_label!r}, the commonest label of the training examples")
