"""Labelled examples for every task of a pre-trained model, from the small world: the labels are right by construction.

opinion      is this review positive or negative?              topic       what is this text about?
coherence    is this a sentence or scrambled words?            paraphrase  do two sentences say the same?
names        people, places, organisations (IOBES tags)        answers     where in the passage is the answer?
matching     does this sentence answer this question?          senses      is one word meant alike in two sentences?
parallel     the same sentence in both languages
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from forebear.data.sentences import sentence_ends
from forebear.demo import meanings, questions, senses, world
from forebear.demo.grammar import EntityMention, GenerationState, GrammarNode, RuleNode
from forebear.demo.lexicon import LANGUAGES, ChoiceProbabilities, RandomSource
from forebear.demo.world import DemoLanguage
from forebear.errors import InputError

TOPICS = ("weather", "sport", "business", "food", "travel", "people")
NAMED_IN = ("happening", "sport.open", "business.open", "people.born", "weather.open", "people.work.first")
_ANSWERING = frozenset({"", "a"})  # forms that name a thing rather than point to it
_WORD = re.compile(r"'s\b|\w+(?:[-']\w+)*?(?='s\b|\W|$)|[^\w\s]")


@dataclass(frozen=True, slots=True)
class DemoLabeledText:
    text: str
    label: str
    language: str


@dataclass(frozen=True, slots=True)
class DemoTextPair:
    first: str
    second: str
    label: str  # similar or different; of a question and a sentence: answers or other
    language: str


@dataclass(frozen=True, slots=True)
class DemoTaggedSentence:
    """Words of English, characters of Chinese, each with a tag: O, or B, I, E, S before PER, LOC, ORG."""

    pieces: tuple[str, ...]
    tags: tuple[str, ...]
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """passage[start : start + len(answer)] is the answer."""

    passage: str
    question: str
    answer_text: str
    start: int
    language: str


@dataclass(frozen=True, slots=True)
class DemoSensePair:
    """One word in two sentences, where it stands in each, and whether it means the same."""

    word: str
    first: str
    second: str
    places: tuple[int, int]
    label: str  # same or different
    language: str


@dataclass(frozen=True, slots=True)
class DemoTranslation:
    english: str
    chinese: str


DemoExample = DemoLabeledText | DemoTextPair | DemoTaggedSentence | DemoQuestion | DemoSensePair | DemoTranslation


def demo_examples(task: str, count: int, seed: int = 0, language: world.DemoLanguage = "both") -> Iterator[DemoExample]:
    """The first `count` examples of a task; each depends on (task, seed, language, its number) alone."""
    if task not in TASKS:
        raise InputError(f"no task named {task!r} in the small world", hint=f"there are: {', '.join(TASKS)}")
    if language != "both" and language not in LANGUAGES:
        raise InputError(f"the small world does not speak {language!r}", hint="there are: en, zh, both")
    make, labels = TASKS[task]
    for number in range(count):
        chooser = RandomSource(f"{task}/{language}/{seed}/{number}")
        own = LANGUAGES[chooser.choose(ChoiceProbabilities([1.0, 1.0]))] if language == "both" else language
        yield make(chooser, own, _label(labels, f"{task}/{seed}", number))


def _label(labels: tuple[str, ...], seed: str, number: int) -> str:
    """Every label once in each run of as many examples, in an order that cannot be guessed."""
    if not labels:
        return ""
    block, place = divmod(number, len(labels))
    return Random(f"{seed}/{block}").sample(labels, len(labels))[place]


def _rule(language: str, name: str) -> RuleNode:
    return world.grammar_for(language).rules[name]


def _told(chooser: RandomSource, language: str, name: str) -> GenerationState:
    telling = GenerationState(chooser)
    _rule(language, name).write(telling)
    return telling


def _said(telling: GenerationState, language: str, name: str) -> str:
    """One more sentence about what is known already."""
    return _worded(telling, _rule(language, name))


def _even(chooser: RandomSource, count: int) -> int:
    return chooser.choose(ChoiceProbabilities([1.0] * count))


def _opinion(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    name = "review.good" if label == "positive" else "review.bad"
    return DemoLabeledText(_told(chooser, language, name).text(), label, language)


def _topic(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    return DemoLabeledText(_told(chooser, language, f"story.{label}").text(), label, language)


def _coherence(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    telling = _told(chooser, language, "happening")
    if label == "coherent":
        return DemoLabeledText(telling.text(), label, language)
    raw = "".join(telling.pieces)
    parts = raw[:-1].split(" ") if language == "en" else list(raw[:-1])
    mixed = list(parts)
    while mixed == parts:
        mixed = [parts[index] for index in _order(chooser, len(parts))]
    text = (" " if language == "en" else "").join(mixed) + raw[-1]
    return DemoLabeledText(text[:1].upper() + text[1:], label, language)


def _order(chooser: RandomSource, count: int) -> list[int]:
    return sorted(range(count), key=[chooser.draw() for _ in range(count)].__getitem__)


def _paraphrase(chooser: RandomSource, language: str, label: str) -> DemoTextPair:
    names = sorted(meanings.coherence_meanings())
    name = names[_even(chooser, len(names))]
    telling = _told(chooser, language, f"things.{name}")
    other = telling if label == "similar" else _changed(telling, language, name)
    # Two wordings in either case: how a thing is said must not tell whether the same thing is said.
    choice = _rule(language, f"meaning.{name}").choice
    first = chooser.choose(choice.odds)
    second = chooser.choose_without(choice.odds, {first})
    return DemoTextPair(_worded(telling, choice.nodes[first]), _worded(other, choice.nodes[second]), label, language)


def _worded(telling: GenerationState, wording: GrammarNode) -> str:
    more = GenerationState(telling.chooser, memory=telling.memory)
    wording.write(more)
    return more.text()


def _changed(telling: GenerationState, language: str, name: str) -> GenerationState:
    """The same meaning about other things: one of them is exchanged, all others stay."""
    variables = sorted(telling.memory)
    chosen = variables[_even(telling.chooser, len(variables))]
    while True:
        other = _told(telling.chooser, language, f"things.{name}").memory[chosen]
        if other not in telling.memory.values():
            return GenerationState(telling.chooser, memory={**telling.memory, chosen: other})


def _names(chooser: RandomSource, language: str, label: str) -> DemoTaggedSentence:
    telling = _told(chooser, language, NAMED_IN[_even(chooser, len(NAMED_IN))])
    text = telling.text()
    starts = _starts(telling)
    found = [_WORD.finditer(text), re.finditer(r"\S", text)][language == "zh"]
    spans = [piece.span() for piece in found]
    tags = ["O"] * len(spans)
    for mark in telling.marks:
        if mark.entry.label and mark.file_format in mark.entry.named_by:
            start, end = starts[mark.piece], starts[mark.piece + 1]
            inside = [number for number, span in enumerate(spans) if span[0] >= start and span[1] <= end]
            if language == "en" and len(inside) > 1 and text[slice(*spans[inside[0]])].lower() == "the":
                inside = inside[1:]  # the article is no part of a name
            for place, number in enumerate(inside):
                tags[number] = f"{_iobes(place, len(inside))}-{mark.entry.label}"
    return DemoTaggedSentence(tuple(text[slice(*span)] for span in spans), tuple(tags), text, language)


def _iobes(place: int, count: int) -> str:
    if count == 1:
        return "S"
    return "B" if place == 0 else "E" if place == count - 1 else "I"


def _starts(telling: GenerationState) -> list[int]:
    """Where each piece begins in the text, and the text's end."""
    starts = [0]
    for piece in telling.pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _answers(chooser: RandomSource, language: str, label: str) -> DemoQuestion:
    while True:
        telling, options = _asked(chooser, language)
        if options:
            number, mark = options[_even(chooser, len(options))]
            passage, (start, answer) = telling.text(), _place(telling, mark)
            return DemoQuestion(passage, _said(telling, language, f"question.{number}"), answer, start, language)


def _asked(chooser: RandomSource, language: str) -> tuple[GenerationState, list[tuple[int, EntityMention]]]:
    """A story, the numbers of the questions that it answers, and where it does."""
    asked = questions.story_questions()
    kinds = sorted(asked)
    kind = kinds[_even(chooser, len(kinds))]
    telling = _told(chooser, language, f"story.{kind}")
    return telling, [
        (number, mark)
        for answer, known, number in asked[kind]
        if all(other in telling.memory for other in known) and (mark := _naming(telling, answer))
    ]


def _place(telling: GenerationState, mark: EntityMention) -> tuple[int, str]:
    """Where in its text a thing is named, and how."""
    piece = telling.pieces[mark.piece]
    start = _starts(telling)[mark.piece] + len(piece) - len(piece.lstrip())
    return start, telling.text()[start : start + len(piece.strip())]


def _matching(chooser: RandomSource, language: str, label: str) -> DemoTextPair:
    """A question, and the sentence of a story that answers it or one that answers another question about the story:
    either sentence, and either question, is as likely with one label as with the other."""
    while True:
        telling, options = _asked(chooser, language)
        if len(options) < 2:
            continue
        (number, mark), (_, other) = (options[place] for place in _order(chooser, len(options))[:2])
        ends = sentence_ends(telling.text())
        said, right, wrong = _place(telling, mark)[1], *(_around(telling, one, ends) for one in (mark, other))
        if right != wrong and said not in wrong:
            question = _said(telling, language, f"question.{number}")
            return DemoTextPair(question, right if label == "answers" else wrong, label, language)


def _around(telling: GenerationState, mark: EntityMention, ends: Sequence[int]) -> str:
    """The sentence in which a thing is named."""
    at = bisect(ends, _place(telling, mark)[0])
    return telling.text()[([0, *ends])[at] : ends[at]].strip()


def _naming(telling: GenerationState, variable: str) -> EntityMention | None:
    """Where the thing that is known last under this name is first named."""
    entry = telling.memory.get(variable)
    marks = (mark for mark in telling.marks if mark.variable == variable and mark.entry is entry)
    return next((mark for mark in marks if mark.file_format in _ANSWERING), None)


def _senses(chooser: RandomSource, language: str, label: str) -> DemoSensePair:
    words = senses.sense_sentences(language)
    word = list(words)[_even(chooser, len(words))]
    meant = list(words[word])
    first = meant[_even(chooser, 2)]
    second = first if label == "same" else meant[1 - meant.index(first)]
    rules = [_rule(language, f"sense.{word}.{sense}").choice for sense in (first, second)]
    indices = [chooser.choose(rules[0].odds)]
    # The same wording told of two people would give the answer away.
    indices.append(chooser.choose_without(rules[1].odds, set(indices) if first == second else ()))
    texts = [_of_somebody(chooser, rule.nodes[index]) for rule, index in zip(rules, indices, strict=True)]
    pattern = re.compile(rf"\b{word}\b" if language == "en" else word, re.IGNORECASE)
    places = [found.start() for text in texts if (found := pattern.search(text))]
    return DemoSensePair(word, texts[0], texts[1], (places[0], places[1]), label, language)


def _of_somebody(chooser: RandomSource, sentence: GrammarNode) -> str:
    people = world.world_lexicons()["person"]
    return _worded(GenerationState(chooser, memory={"P": people.entries[chooser.choose(people.odds)]}), sentence)


def _parallel(chooser: RandomSource, language: str, label: str) -> DemoTranslation:
    names = sorted(meanings.coherence_meanings())
    name = names[_even(chooser, len(names))]
    telling = _told(chooser, "en", f"things.{name}")
    return DemoTranslation(_said(telling, "en", f"meaning.{name}"), _said(telling, "zh", f"meaning.{name}"))


TASKS: dict[str, tuple[Callable[[RandomSource, str, str], DemoExample], tuple[str, ...]]] = {
    "opinion": (_opinion, ("negative", "positive")),
    "topic": (_topic, TOPICS),
    "coherence": (_coherence, ("coherent", "scrambled")),
    "paraphrase": (_paraphrase, ("different", "similar")),
    "names": (_names, ()),
    "answers": (_answers, ()),
    "matching": (_matching, ("answers", "other")),
    "senses": (_senses, ("different", "same")),
    "parallel": (_parallel, ()),
}


# The small world's labelled examples as files that people write: tables, CoNLL columns, SQuAD's JSON.


# The task of the small world, what it is an example of, and how its file is called.
TASK_FILES = {
    "opinion": ("classification", "opinion.tsv"),
    "topic": ("classification", "topic.tsv"),
    "coherence": ("classification", "coherence.tsv"),
    "matching": ("pairs", "matching.tsv"),
    "paraphrase": ("pairs", "paraphrase.tsv"),
    "names": ("tagging", "names.conll"),
    "answers": ("answering", "answers.json"),
}
TEST_SEED = 1_000_003  # examples for the test come from another seed than those to learn from


def write_demo_tasks(
    folder: Path, count: int, tests: int, *, seed: int = 0, language: DemoLanguage = "both"
) -> dict[str, tuple[Path, Path]]:
    """Writes each task's examples to learn from and those for the test; returns their files."""
    written = {}
    for name, (_, file) in TASK_FILES.items():
        paths = []
        for side, number, own in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
            path = folder / f"{Path(file).stem}.{side}{Path(file).suffix}"
            told = "".join(lines(name, demo_examples(name, number, own, language)))
            if not path.exists() or path.read_text(encoding="utf-8") != told:
                path.write_text(told, encoding="utf-8")
            paths.append(path)
        written[name] = (paths[0], paths[1])
    return written


def write_pairs(folder: Path, count: int, tests: int, *, seed: int = 0) -> tuple[Path, Path]:
    """Writes sentences in English and Chinese, side by side, to learn from and for the test; returns the files."""
    paths = []
    for side, number, own in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
        told = [one for one in demo_examples("parallel", number, own) if isinstance(one, DemoTranslation)]
        path = folder / f"pairs.{side}.tsv"
        rows = (f"{_flat(one.english)}\t{_flat(one.chinese)}\n" for one in told)
        path.write_text("en\tzh\n" + "".join(rows), encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def lines(name: str, given: Iterable[DemoExample]) -> Iterator[str]:
    """The text of a file with these examples."""
    if TASK_FILES[name][0] == "answering":
        yield json.dumps(_squad(given), ensure_ascii=False) + "\n"
        return
    if TASK_FILES[name][0] != "tagging":
        yield "text\tlabel\n" if TASK_FILES[name][0] == "classification" else "first\tsecond\tlabel\n"
    for one in given:
        if isinstance(one, DemoLabeledText):
            yield f"{_flat(one.text)}\t{one.label}\n"
        elif isinstance(one, DemoTextPair):
            yield f"{_flat(one.first)}\t{_flat(one.second)}\t{one.label}\n"
        elif isinstance(one, DemoTaggedSentence):
            rows = zip(one.pieces, one.tags, strict=True)
            yield "".join(f"{piece}\t{tag}\n" for piece, tag in rows) + "\n"


def _squad(given: Iterable[DemoExample]) -> dict[str, Any]:
    data = []
    for number, one in enumerate(given):
        assert isinstance(one, DemoQuestion)
        answer = {"text": one.answer_text, "answer_start": one.start}
        question = {"id": str(number), "question": one.question, "answers": [answer]}
        data.append({"title": str(number), "paragraphs": [{"context": one.passage, "qas": [question]}]})
    return {"version": "1.1", "data": data}


def _flat(text: str) -> str:
    """On one line, as a table wants it."""
    return " ".join(text.split())


# Sentences in which a word of two meanings stands, each with the meaning that is meant: right by construction.


def words_of_two_meanings(language: world.DemoLanguage = "both") -> list[str]:
    """The words of the small world of which there are such sentences."""
    return [word for own in LANGUAGES if language in (own, "both") for word in senses.sense_sentences(own)]


def sentences_with(word: str, count: int = 200, seed: int = 0) -> Iterator[DemoLabeledText]:
    """So many sentences with the word, its meanings in turn; each depends on (word, seed, its number) alone."""
    language = next((one for one in LANGUAGES if word in senses.sense_sentences(one)), None)
    if language is None:
        known = ", ".join(words_of_two_meanings())
        raise InputError(f"{word!r} has no two meanings in the small world", hint=f"there are: {known}")
    meant, people = list(senses.sense_sentences(language)[word]), world.world_lexicons()["person"]
    for number in range(count):
        chooser, sense = RandomSource(f"sense/{word}/{seed}/{number}"), meant[number % len(meant)]
        telling = GenerationState(chooser, memory={"P": people.entries[chooser.choose(people.odds)]})
        world.grammar_for(language).rules[f"sense.{word}.{sense}"].write(telling)
        yield DemoLabeledText(telling.text(), sense, language)


def write_sentences(file: Path, word: str, count: int = 200, *, seed: int = 0) -> Path:
    """Writes them as `forebear inspect senses --senses` reads them: a line each, the meaning before a tab."""
    lines = (f"{one.label}\t{one.text}\n" for one in sentences_with(word, count, seed))
    file.write_text("".join(lines), encoding="utf-8")
    return file
