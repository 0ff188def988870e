"""Labeled examples of every task from the demo's world, correct by construction, and files of them.

opinion      is this review positive or negative?              topic       what is this text about?
coherence    is this a sentence or scrambled words?            paraphrase  do two sentences mean the same?
names        people, places, organisations (IOBES tags)        answers     where in the passage is the answer?
matching     does this sentence answer this question?          senses      has a word the same sense in two sentences?
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
from forebear.demo import world
from forebear.demo.demo_lexicon import LANGUAGES, ChoiceProbabilities, RandomSource, world_lexicons
from forebear.demo.grammar import EntityMention, GenerationState, GrammarNode, RuleNode
from forebear.demo.world import DemoLanguage
from forebear.errors import InputError

TOPICS = ("weather", "sport", "business", "food", "travel", "people")
ENTITY_RULES = ("happening", "sport.open", "business.open", "people.born", "weather.open", "people.work.first")
_NAMING_FORMS = frozenset({"", "a"})  # forms that name an entry, rather than refer to it
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
    """One word in two sentences, its position in each, and whether its sense is the same."""

    word: str
    first: str
    second: str
    positions: tuple[int, int]
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
        example_language = LANGUAGES[_choose_evenly(chooser, 2)] if language == "both" else language
        yield make(chooser, example_language, _label(labels, f"{task}/{seed}", number))


def _label(labels: tuple[str, ...], seed: str, number: int) -> str:
    """The label of an example: each block of consecutive examples has every label once, in random order."""
    if not labels:
        return ""
    block, position = divmod(number, len(labels))
    return Random(f"{seed}/{block}").sample(labels, len(labels))[position]


def _rule(language: str, name: str) -> RuleNode:
    return world.grammar_for(language).rules[name]


def _run_rule(chooser: RandomSource, language: str, name: str) -> GenerationState:
    generation = GenerationState(chooser)
    _rule(language, name).write(generation)
    return generation


def _next_sentence(generation: GenerationState, language: str, name: str) -> str:
    """One more sentence about the remembered entries."""
    return _write_node(generation, _rule(language, name))


def _choose_evenly(chooser: RandomSource, count: int) -> int:
    return chooser.choose(ChoiceProbabilities([1.0] * count))


def _opinion(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    name = "review.good" if label == "positive" else "review.bad"
    return DemoLabeledText(_run_rule(chooser, language, name).text(), label, language)


def _topic(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    return DemoLabeledText(_run_rule(chooser, language, f"story.{label}").text(), label, language)


def _coherence(chooser: RandomSource, language: str, label: str) -> DemoLabeledText:
    generation = _run_rule(chooser, language, "happening")
    if label == "coherent":
        return DemoLabeledText(generation.text(), label, language)
    raw = "".join(generation.pieces)
    parts = raw[:-1].split(" ") if language == "en" else list(raw[:-1])
    mixed = list(parts)
    while mixed == parts:
        mixed = [parts[index] for index in _permutation(chooser, len(parts))]
    text = (" " if language == "en" else "").join(mixed) + raw[-1]
    return DemoLabeledText(text[:1].upper() + text[1:], label, language)


def _permutation(chooser: RandomSource, count: int) -> list[int]:
    return sorted(range(count), key=[chooser.draw() for _ in range(count)].__getitem__)


def _paraphrase(chooser: RandomSource, language: str, label: str) -> DemoTextPair:
    names = sorted(world.load_meanings())
    name = names[_choose_evenly(chooser, len(names))]
    generation = _run_rule(chooser, language, f"things.{name}")
    other = generation if label == "similar" else _change_one_entry(generation, language, name)
    # Two wordings in either case: the wording must not reveal the label.
    choice = _rule(language, f"meaning.{name}").choice
    first = chooser.choose(choice.odds)
    second = chooser.choose_without(choice.odds, {first})
    return DemoTextPair(
        _write_node(generation, choice.nodes[first]), _write_node(other, choice.nodes[second]), label, language
    )


def _write_node(generation: GenerationState, wording: GrammarNode) -> str:
    more = GenerationState(generation.chooser, memory=generation.memory)
    wording.write(more)
    return more.text()


def _change_one_entry(generation: GenerationState, language: str, name: str) -> GenerationState:
    """The same meaning with one of its entries exchanged."""
    variables = sorted(generation.memory)
    variable = variables[_choose_evenly(generation.chooser, len(variables))]
    while True:
        other = _run_rule(generation.chooser, language, f"things.{name}").memory[variable]
        if other not in generation.memory.values():
            return GenerationState(generation.chooser, memory={**generation.memory, variable: other})


def _names(chooser: RandomSource, language: str, label: str) -> DemoTaggedSentence:
    generation = _run_rule(chooser, language, ENTITY_RULES[_choose_evenly(chooser, len(ENTITY_RULES))])
    text = generation.text()
    starts = _piece_starts(generation)
    matches = [_WORD.finditer(text), re.finditer(r"\S", text)][language == "zh"]
    spans = [match.span() for match in matches]
    tags = ["O"] * len(spans)
    for mention in generation.mentions:
        if mention.entry.label and mention.form in mention.entry.name_forms:
            start, end = starts[mention.piece], starts[mention.piece + 1]
            inside = [number for number, span in enumerate(spans) if span[0] >= start and span[1] <= end]
            if language == "en" and len(inside) > 1 and text[slice(*spans[inside[0]])].lower() == "the":
                inside = inside[1:]  # the article is not part of a name
            for position, number in enumerate(inside):
                tags[number] = f"{_iobes(position, len(inside))}-{mention.entry.label}"
    return DemoTaggedSentence(tuple(text[slice(*span)] for span in spans), tuple(tags), text, language)


def _iobes(position: int, count: int) -> str:
    if count == 1:
        return "S"
    return "B" if position == 0 else "E" if position == count - 1 else "I"


def _piece_starts(generation: GenerationState) -> list[int]:
    """The start of each piece in the text, and the end of the text."""
    starts = [0]
    for piece in generation.pieces:
        starts.append(starts[-1] + len(piece))
    return starts


def _answers(chooser: RandomSource, language: str, label: str) -> DemoQuestion:
    while True:
        generation, options = _story_with_questions(chooser, language)
        if options:
            number, mention = options[_choose_evenly(chooser, len(options))]
            passage, (start, answer) = generation.text(), _answer_span(generation, mention)
            return DemoQuestion(
                passage, _next_sentence(generation, language, f"question.{number}"), answer, start, language
            )


def _story_with_questions(
    chooser: RandomSource, language: str
) -> tuple[GenerationState, list[tuple[int, EntityMention]]]:
    """A story, the numbers of the questions that it answers, and the mentions that are the answers."""
    questions = world.story_questions()
    story_kinds = sorted(questions)
    story_kind = story_kinds[_choose_evenly(chooser, len(story_kinds))]
    generation = _run_rule(chooser, language, f"story.{story_kind}")
    return generation, [
        (number, mention)
        for answer, known, number in questions[story_kind]
        if all(other in generation.memory for other in known) and (mention := _first_mention(generation, answer))
    ]


def _answer_span(generation: GenerationState, mention: EntityMention) -> tuple[int, str]:
    """The start and the text of a mention."""
    piece = generation.pieces[mention.piece]
    start = _piece_starts(generation)[mention.piece] + len(piece) - len(piece.lstrip())
    return start, generation.text()[start : start + len(piece.strip())]


def _matching(chooser: RandomSource, language: str, label: str) -> DemoTextPair:
    """A question, and the sentence of a story that answers it, or one that answers another question about the story.

    Every question and every sentence is equally likely with both labels.
    """
    while True:
        generation, options = _story_with_questions(chooser, language)
        if len(options) < 2:
            continue
        (number, mention), (_, other_mention) = (options[index] for index in _permutation(chooser, len(options))[:2])
        ends = sentence_ends(generation.text())
        answer_text, answering, other_sentence = (
            _answer_span(generation, mention)[1],
            *(_sentence_around(generation, named, ends) for named in (mention, other_mention)),
        )
        if answering != other_sentence and answer_text not in other_sentence:
            question = _next_sentence(generation, language, f"question.{number}")
            return DemoTextPair(question, answering if label == "answers" else other_sentence, label, language)


def _sentence_around(generation: GenerationState, mention: EntityMention, ends: Sequence[int]) -> str:
    """The sentence that contains a mention."""
    index = bisect(ends, _answer_span(generation, mention)[0])
    return generation.text()[([0, *ends])[index] : ends[index]].strip()


def _first_mention(generation: GenerationState, variable: str) -> EntityMention | None:
    """The first mention of the entry that a variable has at the end."""
    entry = generation.memory.get(variable)
    mentions = (mention for mention in generation.mentions if mention.variable == variable and mention.entry is entry)
    return next((mention for mention in mentions if mention.form in _NAMING_FORMS), None)


def _senses(chooser: RandomSource, language: str, label: str) -> DemoSensePair:
    words = world.sense_sentences(language)
    word = list(words)[_choose_evenly(chooser, len(words))]
    senses = list(words[word])
    first = senses[_choose_evenly(chooser, 2)]
    second = first if label == "same" else senses[1 - senses.index(first)]
    rules = [_rule(language, f"sense.{word}.{sense}").choice for sense in (first, second)]
    indices = [chooser.choose(rules[0].odds)]
    # The same wording with another person would give the answer away.
    indices.append(chooser.choose_without(rules[1].odds, set(indices) if first == second else ()))
    texts = [_about_somebody(chooser, rule.nodes[index]) for rule, index in zip(rules, indices, strict=True)]
    pattern = re.compile(rf"\b{word}\b" if language == "en" else word, re.IGNORECASE)
    positions = [match.start() for text in texts if (match := pattern.search(text))]
    return DemoSensePair(word, texts[0], texts[1], (positions[0], positions[1]), label, language)


def _about_somebody(chooser: RandomSource, sentence: GrammarNode) -> str:
    people = world_lexicons()["person"]
    return _write_node(GenerationState(chooser, memory={"P": people.entries[chooser.choose(people.odds)]}), sentence)


def _parallel(chooser: RandomSource, language: str, label: str) -> DemoTranslation:
    names = sorted(world.load_meanings())
    name = names[_choose_evenly(chooser, len(names))]
    generation = _run_rule(chooser, "en", f"things.{name}")
    return DemoTranslation(
        _next_sentence(generation, "en", f"meaning.{name}"), _next_sentence(generation, "zh", f"meaning.{name}")
    )


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


# --- Examples as files: tables, CoNLL columns, SQuAD JSON ---

# Task of the demo's world -> (kind of task, file name).
TASK_FILES = {
    "opinion": ("classification", "opinion.tsv"),
    "topic": ("classification", "topic.tsv"),
    "coherence": ("classification", "coherence.tsv"),
    "matching": ("pairs", "matching.tsv"),
    "paraphrase": ("pairs", "paraphrase.tsv"),
    "names": ("tagging", "names.conll"),
    "answers": ("answering", "answers.json"),
}
TEST_SEED = 1_000_003  # added to the seed for test examples


def write_demo_tasks(
    folder: Path, count: int, tests: int, *, seed: int = 0, language: DemoLanguage = "both"
) -> dict[str, tuple[Path, Path]]:
    """Writes training and test examples of each task; returns the files by task."""
    written = {}
    for name, (_, file) in TASK_FILES.items():
        paths = []
        for split, number, split_seed in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
            path = folder / f"{Path(file).stem}.{split}{Path(file).suffix}"
            text = "".join(format_task_file(name, demo_examples(name, number, split_seed, language)))
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
            paths.append(path)
        written[name] = (paths[0], paths[1])
    return written


def write_pairs(folder: Path, count: int, tests: int, *, seed: int = 0) -> tuple[Path, Path]:
    """Writes English and Chinese sentences side by side for training and test; returns the files."""
    paths = []
    for split, number, split_seed in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
        examples = demo_examples("parallel", number, split_seed)
        translations = [example for example in examples if isinstance(example, DemoTranslation)]
        path = folder / f"pairs.{split}.tsv"
        rows = (f"{_one_line(example.english)}\t{_one_line(example.chinese)}\n" for example in translations)
        path.write_text("en\tzh\n" + "".join(rows), encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def format_task_file(name: str, examples: Iterable[DemoExample]) -> Iterator[str]:
    """The text of a file with these examples, in pieces."""
    if TASK_FILES[name][0] == "answering":
        yield json.dumps(_squad(examples), ensure_ascii=False) + "\n"
        return
    if TASK_FILES[name][0] != "tagging":
        yield "text\tlabel\n" if TASK_FILES[name][0] == "classification" else "first\tsecond\tlabel\n"
    for example in examples:
        if isinstance(example, DemoLabeledText):
            yield f"{_one_line(example.text)}\t{example.label}\n"
        elif isinstance(example, DemoTextPair):
            yield f"{_one_line(example.first)}\t{_one_line(example.second)}\t{example.label}\n"
        elif isinstance(example, DemoTaggedSentence):
            rows = zip(example.pieces, example.tags, strict=True)
            yield "".join(f"{piece}\t{tag}\n" for piece, tag in rows) + "\n"


def _squad(examples: Iterable[DemoExample]) -> dict[str, Any]:
    data = []
    for number, example in enumerate(examples):
        assert isinstance(example, DemoQuestion)
        answer = {"text": example.answer_text, "answer_start": example.start}
        question = {"id": str(number), "question": example.question, "answers": [answer]}
        data.append({"title": str(number), "paragraphs": [{"context": example.passage, "qas": [question]}]})
    return {"version": "1.1", "data": data}


def _one_line(text: str) -> str:
    """The text on one line, for a table."""
    return " ".join(text.split())


# --- Sentences with a word of two senses ---


def words_of_two_meanings(language: world.DemoLanguage = "both") -> list[str]:
    """The words of two senses in the demo's world."""
    return [word for one in LANGUAGES if language in (one, "both") for word in world.sense_sentences(one)]


def sentences_with(word: str, count: int = 200, seed: int = 0) -> Iterator[DemoLabeledText]:
    """`count` sentences with the word, its senses in turn; each depends on (word, seed, its number) alone."""
    language = next((candidate for candidate in LANGUAGES if word in world.sense_sentences(candidate)), None)
    if language is None:
        known = ", ".join(words_of_two_meanings())
        raise InputError(f"{word!r} has no two meanings in the small world", hint=f"there are: {known}")
    senses, people = list(world.sense_sentences(language)[word]), world_lexicons()["person"]
    for number in range(count):
        chooser, sense = RandomSource(f"sense/{word}/{seed}/{number}"), senses[number % len(senses)]
        generation = GenerationState(chooser, memory={"P": people.entries[chooser.choose(people.odds)]})
        world.grammar_for(language).rules[f"sense.{word}.{sense}"].write(generation)
        yield DemoLabeledText(generation.text(), sense, language)


def write_sense_sentences(file: Path, word: str, count: int = 200, *, seed: int = 0) -> Path:
    """Writes them as `forebear inspect senses --senses` reads them: one a line, the sense before a tab."""
    lines = (f"{example.label}\t{example.text}\n" for example in sentences_with(word, count, seed))
    file.write_text("".join(lines), encoding="utf-8")
    return file
