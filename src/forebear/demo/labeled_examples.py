"""Labeled examples of every task, generated from the demo's world with correct labels, and files of them.

opinion      is this review positive or negative?              topic       what is this text about?
coherence    is this a sentence or scrambled words?            paraphrase  do two sentences mean the same?
names        people, places, organisations (IOBES tags)        answers     which span of the passage is the answer?
matching     does this sentence answer this question?          senses      has a word the same sense in two sentences?
parallel     the same sentence in both languages
"""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TypeVar

from forebear.data.labeled.tag_schemes import entities_to_iobes
from forebear.data.sentences import sentence_ends
from forebear.demo import stories
from forebear.demo.demo_lexicon import LANGUAGES, ChoiceProbabilities, RandomSource, world_lexicons
from forebear.demo.grammar import AlternativeNode, EntityMention, GenerationState, GrammarNode
from forebear.demo.stories import DemoLanguage
from forebear.errors import InputError

TOPICS = ("weather", "sport", "business", "food", "travel", "people")
ENTITY_RULES = ("happening", "sport.open", "business.open", "people.born", "weather.open", "people.work.first")
T = TypeVar("T")
_NAMING_FORMS = frozenset({"", "a"})  # forms that name an entry, rather than refer to it
_CHARACTER = re.compile(r"\S")
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
    """English words or Chinese characters, each with an IOBES tag of PER, LOC or ORG."""

    pieces: tuple[str, ...]
    tags: tuple[str, ...]
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question whose answer is passage[start : start + len(answer_text)]."""

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


def demo_examples(task: str, count: int, seed: int = 0, language: DemoLanguage = "both") -> Iterator[DemoExample]:
    """The first `count` examples of a task; each depends only on task, seed, language and its number."""
    if task not in TASKS:
        raise InputError(f"no task named {task!r} in the small world", hint=f"there are: {', '.join(TASKS)}")
    if language != "both" and language not in LANGUAGES:
        raise InputError(f"the small world does not speak {language!r}", hint="there are: en, zh, both")
    make_example, labels = TASKS[task]
    for number in range(count):
        random_source = RandomSource(f"{task}/{language}/{seed}/{number}")
        example_language = _pick(random_source, LANGUAGES) if language == "both" else language
        label = ""
        if labels:  # every block of len(labels) examples has each label once, in random order
            block, position = divmod(number, len(labels))
            label = Random(f"{task}/{seed}/{block}").sample(labels, len(labels))[position]
        yield make_example(random_source, example_language, label)


def _pick(random_source: RandomSource, options: Sequence[T]) -> T:
    """Choose an option uniformly."""
    return options[random_source.choose(ChoiceProbabilities([1.0] * len(options)))]


def _permutation(random_source: RandomSource, count: int) -> list[int]:
    return sorted(range(count), key=[random_source.draw() for _ in range(count)].__getitem__)


def _rule(language: str, name: str) -> AlternativeNode:
    return stories.grammar_for(language).rules[name]


def _run_rule(random_source: RandomSource, language: str, name: str) -> GenerationState:
    generation = GenerationState(random_source)
    _rule(language, name).generate(generation)
    return generation


def _sentence(generation: GenerationState, node: GrammarNode) -> str:
    """A sentence about the remembered entries."""
    continuation = GenerationState(generation.random_source, memory=generation.memory)
    node.generate(continuation)
    return continuation.text()


def _labeled_text(random_source: RandomSource, language: str, label: str) -> DemoLabeledText:
    name = {"positive": "review.good", "negative": "review.bad"}.get(label, f"story.{label}")
    return DemoLabeledText(_run_rule(random_source, language, name).text(), label, language)


def _coherence(random_source: RandomSource, language: str, label: str) -> DemoLabeledText:
    generation = _run_rule(random_source, language, "happening")
    if label == "coherent":
        return DemoLabeledText(generation.text(), label, language)
    raw_text = "".join(generation.pieces)
    parts = raw_text[:-1].split(" ") if language == "en" else list(raw_text[:-1])
    shuffled = parts
    while shuffled == parts:
        shuffled = [parts[index] for index in _permutation(random_source, len(parts))]
    text = (" " if language == "en" else "").join(shuffled) + raw_text[-1]
    return DemoLabeledText(text[:1].upper() + text[1:], label, language)


def _paraphrase(random_source: RandomSource, language: str, label: str) -> DemoTextPair:
    name = _pick(random_source, sorted(stories.load_meanings()))
    generation = _run_rule(random_source, language, f"arguments.{name}")
    other = generation if label == "similar" else _change_one_entry(generation, language, name)
    # The two wordings always differ: the wording must not reveal the label.
    rule = _rule(language, f"meaning.{name}")
    first = random_source.choose(rule.probabilities)
    second = random_source.choose_without(rule.probabilities, {first})
    texts = _sentence(generation, rule.nodes[first]), _sentence(other, rule.nodes[second])
    return DemoTextPair(*texts, label, language)


def _change_one_entry(generation: GenerationState, language: str, name: str) -> GenerationState:
    """The same meaning with one entry replaced."""
    variable = _pick(generation.random_source, sorted(generation.memory))
    while True:
        other = _run_rule(generation.random_source, language, f"arguments.{name}").memory[variable]
        if other not in generation.memory.values():
            return GenerationState(generation.random_source, memory={**generation.memory, variable: other})


def _names(random_source: RandomSource, language: str, label: str) -> DemoTaggedSentence:
    generation = _run_rule(random_source, language, _pick(random_source, ENTITY_RULES))
    text, starts = generation.text(), _piece_starts(generation)
    spans = [match.span() for match in (_WORD if language == "en" else _CHARACTER).finditer(text)]
    entities = []
    for mention in generation.mentions:
        if mention.entry.label and mention.form in mention.entry.name_forms:
            start, end = starts[mention.piece], starts[mention.piece + 1]
            word_indices = [number for number, span in enumerate(spans) if span[0] >= start and span[1] <= end]
            if language == "en" and len(word_indices) > 1 and text[slice(*spans[word_indices[0]])].lower() == "the":
                word_indices = word_indices[1:]  # the article is not part of a name
            entities += [(word_indices[0], word_indices[-1] + 1, mention.entry.label)] if word_indices else []
    tags = entities_to_iobes(entities, len(spans))
    return DemoTaggedSentence(tuple(text[slice(*span)] for span in spans), tuple(tags), text, language)


def _piece_starts(generation: GenerationState) -> list[int]:
    """The start of each piece in the text, and the end of the text."""
    return list(accumulate(map(len, generation.pieces), initial=0))


def _answers(random_source: RandomSource, language: str, label: str) -> DemoQuestion:
    while True:
        generation, options = _story_with_questions(random_source, language)
        if options:
            number, mention = _pick(random_source, options)
            start, answer = _answer_span(generation, mention)
            question = _sentence(generation, _rule(language, f"question.{number}"))
            return DemoQuestion(generation.text(), question, answer, start, language)


def _story_with_questions(
    random_source: RandomSource, language: str
) -> tuple[GenerationState, list[tuple[int, EntityMention]]]:
    """A story, and the number of each question that it answers with the first mention of the answer by name."""
    questions = stories.story_questions()
    story_kind = _pick(random_source, sorted(questions))
    generation = _run_rule(random_source, language, f"story.{story_kind}")
    options = []
    for answer, known, number in questions[story_kind]:
        entry = generation.memory.get(answer)  # the variable's value at the end of the story
        for mention in generation.mentions:
            if mention.variable == answer and mention.entry is entry and mention.form in _NAMING_FORMS:
                options += [(number, mention)] if all(other in generation.memory for other in known) else []
                break
    return generation, options


def _answer_span(generation: GenerationState, mention: EntityMention) -> tuple[int, str]:
    """The start and the text of a mention."""
    piece = generation.pieces[mention.piece]
    start = _piece_starts(generation)[mention.piece] + len(piece) - len(piece.lstrip())
    return start, generation.text()[start : start + len(piece.strip())]


def _matching(random_source: RandomSource, language: str, label: str) -> DemoTextPair:
    """A question with the sentence of a story that answers it, or with one that answers another question.

    Every question and every sentence is equally likely with both labels.
    """
    while True:
        generation, options = _story_with_questions(random_source, language)
        if len(options) < 2:
            continue
        first, second = _permutation(random_source, len(options))[:2]
        ends = [0, *sentence_ends(generation.text())]
        spans = [_answer_span(generation, options[index][1]) for index in (first, second)]
        indices = [bisect(ends, start) for start, _ in spans]
        answering, other = (generation.text()[ends[index - 1] : ends[index]].strip() for index in indices)
        if answering != other and spans[0][1] not in other:
            question = _sentence(generation, _rule(language, f"question.{options[first][0]}"))
            return DemoTextPair(question, answering if label == "answers" else other, label, language)


def _senses(random_source: RandomSource, language: str, label: str) -> DemoSensePair:
    senses_by_word = stories.sense_sentences(language)
    word = _pick(random_source, list(senses_by_word))
    senses = list(senses_by_word[word])
    first = _pick(random_source, senses)
    second = first if label == "same" else senses[1 - senses.index(first)]
    rules = [_rule(language, f"sense.{word}.{sense}") for sense in (first, second)]
    indices = [random_source.choose(rules[0].probabilities)]
    # The same wording with another person would reveal the label.
    indices.append(random_source.choose_without(rules[1].probabilities, set(indices) if first == second else ()))
    texts = [
        _sentence(_state_with_person(random_source), rule.nodes[index])
        for rule, index in zip(rules, indices, strict=True)
    ]
    pattern = re.compile(rf"\b{word}\b" if language == "en" else word, re.IGNORECASE)
    positions = [match.start() for text in texts if (match := pattern.search(text))]
    return DemoSensePair(word, texts[0], texts[1], (positions[0], positions[1]), label, language)


def _state_with_person(random_source: RandomSource) -> GenerationState:
    """The state of an empty text, with a person remembered as P."""
    people = world_lexicons()["person"]
    return GenerationState(random_source, memory={"P": people.entries[random_source.choose(people.probabilities)]})


def _parallel(random_source: RandomSource, language: str, label: str) -> DemoTranslation:
    name = _pick(random_source, sorted(stories.load_meanings()))
    generation = _run_rule(random_source, "en", f"arguments.{name}")
    return DemoTranslation(*(_sentence(generation, _rule(target, f"meaning.{name}")) for target in ("en", "zh")))


TASKS: dict[str, tuple[Callable[[RandomSource, str, str], DemoExample], tuple[str, ...]]] = {
    "opinion": (_labeled_text, ("negative", "positive")),
    "topic": (_labeled_text, TOPICS),
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
# Kind of task -> header of its table.
TABLE_HEADERS = {"classification": "text\tlabel\n", "pairs": "first\tsecond\tlabel\n", "translation": "en\tzh\n"}
TEST_SEED = 1_000_003  # added to the seed for test examples


def write_demo_tasks(
    folder: Path, count: int, num_tests: int, *, seed: int = 0, language: DemoLanguage = "both"
) -> dict[str, tuple[Path, Path]]:
    """Write training and test examples of each task; returns the files by task."""
    return {
        name: _write_splits(folder, name, file, count, num_tests, seed, language)
        for name, (_, file) in TASK_FILES.items()
    }


def write_pairs(folder: Path, count: int, num_tests: int, *, seed: int = 0) -> tuple[Path, Path]:
    """Write parallel English and Chinese sentences for training and test; returns the files."""
    return _write_splits(folder, "parallel", "pairs.tsv", count, num_tests, seed, "both")


def _write_splits(
    folder: Path, task: str, file: str, count: int, num_tests: int, seed: int, language: DemoLanguage
) -> tuple[Path, Path]:
    """Write the training and test files; a file that already has this text is not rewritten."""
    paths = []
    for split, num_examples, split_seed in (("train", count, seed), ("test", num_tests, seed + TEST_SEED)):
        path = folder / f"{Path(file).stem}.{split}{Path(file).suffix}"
        text = "".join(format_task_file(task, demo_examples(task, num_examples, split_seed, language)))
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def format_task_file(name: str, examples: Iterable[DemoExample]) -> Iterator[str]:
    """The text of a file with these examples, in pieces."""
    kind = "translation" if name == "parallel" else TASK_FILES[name][0]
    if kind == "answering":
        data = []
        for number, example in enumerate(examples):
            assert isinstance(example, DemoQuestion)
            answer = {"text": example.answer_text, "answer_start": example.start}
            question = {"id": str(number), "question": example.question, "answers": [answer]}
            data.append({"title": str(number), "paragraphs": [{"context": example.passage, "qas": [question]}]})
        yield json.dumps({"version": "1.1", "data": data}, ensure_ascii=False) + "\n"
        return
    yield TABLE_HEADERS.get(kind, "")
    for example in examples:
        match example:
            case DemoTaggedSentence():
                rows = zip(example.pieces, example.tags, strict=True)
                yield "".join(f"{piece}\t{tag}\n" for piece, tag in rows) + "\n"
            case DemoLabeledText():
                yield f"{_one_line(example.text)}\t{example.label}\n"
            case DemoTextPair():
                yield f"{_one_line(example.first)}\t{_one_line(example.second)}\t{example.label}\n"
            case DemoTranslation():
                yield f"{_one_line(example.english)}\t{_one_line(example.chinese)}\n"


def _one_line(text: str) -> str:
    """The text on one line, for a table."""
    return " ".join(text.split())


# --- Sentences with ambiguous words ---


def words_of_two_meanings(language: DemoLanguage = "both") -> list[str]:
    """The words with two senses in the demo's world."""
    return [
        word
        for candidate in LANGUAGES
        if language in (candidate, "both")
        for word in stories.sense_sentences(candidate)
    ]


def sentences_with(word: str, count: int = 200, seed: int = 0) -> Iterator[DemoLabeledText]:
    """`count` sentences with the word, alternating its senses; each depends only on word, seed and its number."""
    language = next((candidate for candidate in LANGUAGES if word in stories.sense_sentences(candidate)), None)
    if language is None:
        known = ", ".join(words_of_two_meanings())
        raise InputError(f"{word!r} has no two meanings in the small world", hint=f"there are: {known}")
    senses = list(stories.sense_sentences(language)[word])
    for number in range(count):
        generation = _state_with_person(RandomSource(f"sense/{word}/{seed}/{number}"))
        sense = senses[number % len(senses)]
        yield DemoLabeledText(_sentence(generation, _rule(language, f"sense.{word}.{sense}")), sense, language)


def write_sense_sentences(file: Path, word: str, count: int = 200, *, seed: int = 0) -> Path:
    """Write them for `forebear inspect senses --senses`: one per line, the sense and a tab before the sentence."""
    lines = (f"{example.label}\t{example.text}\n" for example in sentences_with(word, count, seed))
    file.write_text("".join(lines), encoding="utf-8")
    return file
