"""Labelled examples for every task of a pre-trained model, from the small world: the labels are right by construction.

opinion      is this review positive or negative?              topic       what is this text about?
coherence    is this a sentence or scrambled words?            paraphrase  do two sentences say the same?
names        people, places, organisations (IOBES tags)        answers     where in the passage is the answer?
matching     does this sentence answer this question?          senses      is one word meant alike in two sentences?
parallel     the same sentence in both languages
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from forebear.demo import meanings, questions, senses, world
from forebear.demo.chooser import Chooser, Odds
from forebear.demo.grammar import Mark, Node, Rule, Telling
from forebear.demo.lexicon import LANGUAGES
from forebear.errors import BadInput
from forebear.text.sentences import sentence_ends

TOPICS = ("weather", "sport", "business", "food", "travel", "people")
NAMED_IN = ("happening", "sport.open", "business.open", "people.born", "weather.open", "people.work.first")
_ANSWERING = frozenset({"", "a"})  # forms that name a thing rather than point to it
_WORD = re.compile(r"'s\b|\w+(?:[-']\w+)*?(?='s\b|\W|$)|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Labelled:
    text: str
    label: str
    language: str


@dataclass(frozen=True, slots=True)
class Pair:
    first: str
    second: str
    label: str  # similar or different; of a question and a sentence: answers or other
    language: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """Words of English, characters of Chinese, each with a tag: O, or B, I, E, S before PER, LOC, ORG."""

    pieces: tuple[str, ...]
    tags: tuple[str, ...]
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Answered:
    """passage[start : start + len(answer)] is the answer."""

    passage: str
    question: str
    answer: str
    start: int
    language: str


@dataclass(frozen=True, slots=True)
class SensePair:
    """One word in two sentences, where it stands in each, and whether it means the same."""

    word: str
    first: str
    second: str
    places: tuple[int, int]
    label: str  # same or different
    language: str


@dataclass(frozen=True, slots=True)
class Parallel:
    english: str
    chinese: str


Example = Labelled | Pair | Tagged | Answered | SensePair | Parallel


def examples(task: str, count: int, seed: int = 0, language: world.Language = "both") -> Iterator[Example]:
    """The first `count` examples of a task; each depends on (task, seed, language, its number) alone."""
    if task not in TASKS:
        raise BadInput(f"no task named {task!r} in the small world", remedy=f"there are: {', '.join(TASKS)}")
    if language != "both" and language not in LANGUAGES:
        raise BadInput(f"the small world does not speak {language!r}", remedy="there are: en, zh, both")
    make, labels = TASKS[task]
    for number in range(count):
        chooser = Chooser(f"{task}/{language}/{seed}/{number}")
        own = LANGUAGES[chooser.choose(Odds([1.0, 1.0]))] if language == "both" else language
        yield make(chooser, own, _label(labels, f"{task}/{seed}", number))


def _label(labels: tuple[str, ...], seed: str, number: int) -> str:
    """Every label once in each run of as many examples, in an order that cannot be guessed."""
    if not labels:
        return ""
    block, place = divmod(number, len(labels))
    return Random(f"{seed}/{block}").sample(labels, len(labels))[place]


def _rule(language: str, name: str) -> Rule:
    return world.language_of(language).rules[name]


def _told(chooser: Chooser, language: str, name: str) -> Telling:
    telling = Telling(chooser)
    _rule(language, name).write(telling)
    return telling


def _said(telling: Telling, language: str, name: str) -> str:
    """One more sentence about what is known already."""
    return _worded(telling, _rule(language, name))


def _even(chooser: Chooser, count: int) -> int:
    return chooser.choose(Odds([1.0] * count))


def _opinion(chooser: Chooser, language: str, label: str) -> Labelled:
    name = "review.good" if label == "positive" else "review.bad"
    return Labelled(_told(chooser, language, name).text(), label, language)


def _topic(chooser: Chooser, language: str, label: str) -> Labelled:
    return Labelled(_told(chooser, language, f"story.{label}").text(), label, language)


def _coherence(chooser: Chooser, language: str, label: str) -> Labelled:
    telling = _told(chooser, language, "happening")
    if label == "coherent":
        return Labelled(telling.text(), label, language)
    raw = "".join(telling.pieces)
    parts = raw[:-1].split(" ") if language == "en" else list(raw[:-1])
    mixed = list(parts)
    while mixed == parts:
        mixed = [parts[index] for index in _order(chooser, len(parts))]
    text = (" " if language == "en" else "").join(mixed) + raw[-1]
    return Labelled(text[:1].upper() + text[1:], label, language)


def _order(chooser: Chooser, count: int) -> list[int]:
    return sorted(range(count), key=[chooser.draw() for _ in range(count)].__getitem__)


def _paraphrase(chooser: Chooser, language: str, label: str) -> Pair:
    names = sorted(meanings.meanings())
    name = names[_even(chooser, len(names))]
    telling = _told(chooser, language, f"things.{name}")
    other = telling if label == "similar" else _changed(telling, language, name)
    # Two wordings in either case: how a thing is said must not tell whether the same thing is said.
    choice = _rule(language, f"meaning.{name}").choice
    first = chooser.choose(choice.odds)
    second = chooser.choose_without(choice.odds, {first})
    return Pair(_worded(telling, choice.nodes[first]), _worded(other, choice.nodes[second]), label, language)


def _worded(telling: Telling, wording: Node) -> str:
    more = Telling(telling.chooser, known=telling.known)
    wording.write(more)
    return more.text()


def _changed(telling: Telling, language: str, name: str) -> Telling:
    """The same meaning about other things: one of them is exchanged, all others stay."""
    variables = sorted(telling.known)
    chosen = variables[_even(telling.chooser, len(variables))]
    while True:
        other = _told(telling.chooser, language, f"things.{name}").known[chosen]
        if other not in telling.known.values():
            return Telling(telling.chooser, known={**telling.known, chosen: other})


def _names(chooser: Chooser, language: str, label: str) -> Tagged:
    telling = _told(chooser, language, NAMED_IN[_even(chooser, len(NAMED_IN))])
    text = telling.text()
    starts = _starts(telling)
    found = [_WORD.finditer(text), re.finditer(r"\S", text)][language == "zh"]
    spans = [piece.span() for piece in found]
    tags = ["O"] * len(spans)
    for mark in telling.marks:
        if mark.entry.label and mark.form in mark.entry.named_by:
            start, end = starts[mark.piece], starts[mark.piece + 1]
            inside = [number for number, span in enumerate(spans) if span[0] >= start and span[1] <= end]
            if language == "en" and len(inside) > 1 and text[slice(*spans[inside[0]])].lower() == "the":
                inside = inside[1:]  # the article is no part of a name
            for place, number in enumerate(inside):
                tags[number] = f"{_iobes(place, len(inside))}-{mark.entry.label}"
    return Tagged(tuple(text[slice(*span)] for span in spans), tuple(tags), text, language)


def _iobes(place: int, count: int) -> str:
    if count == 1:
        return "S"
    return "B" if place == 0 else "E" if place == count - 1 else "I"


def _starts(telling: Telling) -> list[int]:
    """Where each piece begins in the text, and the text's end."""
    starts = [0]
    for piece in telling.pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _answers(chooser: Chooser, language: str, label: str) -> Answered:
    while True:
        telling, options = _asked(chooser, language)
        if options:
            number, mark = options[_even(chooser, len(options))]
            passage, (start, answer) = telling.text(), _place(telling, mark)
            return Answered(passage, _said(telling, language, f"question.{number}"), answer, start, language)


def _asked(chooser: Chooser, language: str) -> tuple[Telling, list[tuple[int, Mark]]]:
    """A story, the numbers of the questions that it answers, and where it does."""
    asked = questions.questions()
    kinds = sorted(asked)
    kind = kinds[_even(chooser, len(kinds))]
    telling = _told(chooser, language, f"story.{kind}")
    return telling, [
        (number, mark)
        for answer, known, number in asked[kind]
        if all(other in telling.known for other in known) and (mark := _naming(telling, answer))
    ]


def _place(telling: Telling, mark: Mark) -> tuple[int, str]:
    """Where in its text a thing is named, and how."""
    piece = telling.pieces[mark.piece]
    start = _starts(telling)[mark.piece] + len(piece) - len(piece.lstrip())
    return start, telling.text()[start : start + len(piece.strip())]


def _matching(chooser: Chooser, language: str, label: str) -> Pair:
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
            return Pair(question, right if label == "answers" else wrong, label, language)


def _around(telling: Telling, mark: Mark, ends: Sequence[int]) -> str:
    """The sentence in which a thing is named."""
    at = bisect(ends, _place(telling, mark)[0])
    return telling.text()[([0, *ends])[at] : ends[at]].strip()


def _naming(telling: Telling, variable: str) -> Mark | None:
    """Where the thing that is known last under this name is first named."""
    entry = telling.known.get(variable)
    marks = (mark for mark in telling.marks if mark.variable == variable and mark.entry is entry)
    return next((mark for mark in marks if mark.form in _ANSWERING), None)


def _senses(chooser: Chooser, language: str, label: str) -> SensePair:
    words = senses.senses(language)
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
    return SensePair(word, texts[0], texts[1], (places[0], places[1]), label, language)


def _of_somebody(chooser: Chooser, sentence: Node) -> str:
    people = world.lexicons()["person"]
    return _worded(Telling(chooser, known={"P": people.entries[chooser.choose(people.odds)]}), sentence)


def _parallel(chooser: Chooser, language: str, label: str) -> Parallel:
    names = sorted(meanings.meanings())
    name = names[_even(chooser, len(names))]
    telling = _told(chooser, "en", f"things.{name}")
    return Parallel(_said(telling, "en", f"meaning.{name}"), _said(telling, "zh", f"meaning.{name}"))


TASKS: dict[str, tuple[Callable[[Chooser, str, str], Example], tuple[str, ...]]] = {
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
