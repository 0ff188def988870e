"""A small bilingual world whose texts have a known information content: stories, and the entropy of their source.

Every story is a function of (seed, number) alone. Its `bits` are −log2 of the probability of the decisions behind it.
The grammar is unambiguous, so they are −log2 of the probability of the text itself, its end included. `information`
proves it for any text: it parses the text and sums over all derivations. (A text with two derivations would make `bits`
an upper bound of its information, never a lower one.) Total bits over total bytes is the entropy of the source: no
model can do better on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Literal

from forebear.demo import grammar
from forebear.demo.demo_lexicon import LANGUAGES, ChoiceProbabilities, RandomSource, read_demo_data, world_lexicons
from forebear.demo.grammar import DemoGrammar, Location, RuleText, parse_rules
from forebear.errors import ForebearError, InputError

DemoLanguage = Literal["en", "zh", "both"]
QUESTION_COLUMNS = ["story", "answer", "known", "en", "zh"]
_EQUAL_ODDS = ChoiceProbabilities([1.0, 1.0])


@dataclass(frozen=True, slots=True)
class DemoDocument:
    """A text and its information: −log2 of its probability."""

    text: str
    bits: float
    language: str


@dataclass(frozen=True, slots=True)
class EntropyEstimate:
    """Bits per byte of the source and the standard error of the estimate."""

    rate: float
    error: float
    num_stories: int


# --- Stories ---


def make_story(language: DemoLanguage, seed: int, number: int) -> DemoDocument:
    """Story `number` of a seed; it does not depend on other stories."""
    chooser = RandomSource(f"{language}/{seed}/{number}")
    story_language = LANGUAGES[chooser.choose(_EQUAL_ODDS)] if language == "both" else language
    state = grammar.GenerationState(chooser)
    grammar_for(story_language).rules["document"].write(state)
    return DemoDocument(state.text(), chooser.bits, story_language)


def world_documents(
    language: DemoLanguage = "both", size_in_bytes: int = 1_000_000, seed: int = 0
) -> Iterator[DemoDocument]:
    """Stories until their texts have at least so many bytes together."""
    total = number = 0
    while total < size_in_bytes:
        story = make_story(language, seed, number)
        total += len(story.text.encode())
        number += 1
        yield story


def information(text: str, language: str) -> float:
    """Bits of a text under the source, over all its derivations; infinite for a text that the source never produces."""
    return grammar.text_information(grammar_for(language).rules["document"], text)


@cache
def entropy(language: DemoLanguage = "both", size_in_bytes: int = 2_000_000, seed: int = 0) -> EntropyEstimate:
    """True bits per byte, from a large sample: total bits over total bytes.

    The error is that of a ratio of means: the deviation of stories from the common rate, by the size of the sample.
    """
    bits_and_sizes = [
        (story.bits, len(story.text.encode())) for story in world_documents(language, size_in_bytes, seed)
    ]
    bits, size = sum(pair[0] for pair in bits_and_sizes), sum(pair[1] for pair in bits_and_sizes)
    rate, count = bits / size, len(bits_and_sizes)
    squares = sum((pair[0] - rate * pair[1]) ** 2 for pair in bits_and_sizes)
    return EntropyEstimate(rate, sqrt(squares * count / max(1, count - 1)) / size, count)


# --- The grammar of a language, from the files in data/ ---


@cache
def grammar_for(language: str) -> DemoGrammar:
    """The grammar of one language; its rule `document` makes a story of any kind."""
    if language not in LANGUAGES:
        raise InputError(
            f"the small world does not speak {language!r}", hint=f"there are: {', '.join(LANGUAGES)}, both"
        )
    text, file = read_demo_data(f"rules_{language}.txt")
    questions = [RuleText(location.rule, location, [(row[language], location)]) for row, location in _question_rows()]
    meanings = [rule for rules in load_meanings().values() for rule in (rules["things"], rules[language])]
    rules = (*parse_rules(text, language, file), *_sense_rules(language), *meanings, *questions)
    return DemoGrammar(language, world_lexicons(), rules)


@cache
def sense_sentences(language: str) -> dict[str, dict[str, list[tuple[str, Location]]]]:
    """Word → sense → sentences, each with its location in data/senses_*.txt, which documents the format."""
    text, file = read_demo_data(f"senses_{language}.txt")
    senses: dict[str, dict[str, list[tuple[str, Location]]]] = {}
    for heading, location, sentences in parse_rules(text, language, file):
        word, separator, sense = heading.partition(": ")
        if not separator:
            raise ForebearError(f"`word: sense` is expected, found {heading!r}", file=file, line=location.line)
        rule = f"sense.{word}.{sense}"
        senses.setdefault(word, {})[sense] = [
            (sentence, location._replace(rule=rule)) for sentence, location in sentences
        ]
    return senses


def _sense_rules(language: str) -> list[RuleText]:
    """The sentences as rules `sense.WORD.SENSE`, and `scene.sense`, which stays with one of them."""
    rules: list[RuleText] = []
    scenes: list[tuple[str, Location]] = []
    for word, senses in sense_sentences(language).items():
        for sense, sentences in senses.items():
            location = sentences[0][1]
            rules.append(RuleText(f"sense.{word}.{sense}", location, sentences))
            scenes += [(f"<sense.{word}.{sense}*{count}>", location) for count in (2, 3)]
    return [*rules, RuleText("scene.sense", scenes[0][1], scenes)]


@cache
def load_meanings() -> dict[str, dict[str, RuleText]]:
    """The meanings of data/meanings.txt, which documents its format, by name.

    Each has a rule `things.NAME`, which writes nothing, as "things", and a rule `meaning.NAME` for each language.
    """
    text, file = read_demo_data("meanings.txt")
    meanings: dict[str, dict[str, RuleText]] = {}
    name = ""
    for heading, location, wordings in parse_rules(text, "en", file):
        if heading not in LANGUAGES:
            name, _, things = heading.partition(" ")
            if not things or wordings:
                message = f"`name <~P=person>…`, then `en` and `zh`, is expected, found {heading!r}"
                raise ForebearError(message, file=file, line=location.line)
            location = location._replace(rule=f"meaning.{name}")
            meanings[name] = {"things": RuleText(f"things.{name}", location, [(things, location)])}
        elif not name:
            raise ForebearError(f"{heading!r} before the first meaning", file=file, line=location.line)
        else:
            located_wordings = [(wording, location._replace(rule=f"meaning.{name}")) for wording, location in wordings]
            meanings[name][heading] = RuleText(f"meaning.{name}", location, located_wordings)
    for name, rules in meanings.items():
        if missing_languages := [language for language in LANGUAGES if language not in rules]:
            raise ForebearError(
                f"{name!r} has no wording in {missing_languages[0]!r}", file=file, line=rules["things"].location.line
            )
    return meanings


@cache
def _question_rows() -> list[tuple[dict[str, str], Location]]:
    """The rows of data/questions.tsv: the kind of story, the variable that is the answer, other variables that must be
    known, and the question in both languages."""
    text, file = read_demo_data("questions.tsv")
    header, *lines = text.splitlines()
    if header.split("\t") != QUESTION_COLUMNS:
        raise ForebearError(f"the columns must be {', '.join(QUESTION_COLUMNS)}", file=file, line=1)
    rows: list[tuple[dict[str, str], Location]] = []
    for number, line in enumerate(lines):
        cells, location = line.split("\t"), Location(f"question.{number}", file, number + 2)
        if len(cells) != len(QUESTION_COLUMNS):
            message = f"{len(cells)} columns instead of {len(QUESTION_COLUMNS)}"
            raise ForebearError(message, file=file, line=location.line)
        rows.append((dict(zip(QUESTION_COLUMNS, cells, strict=True)), location))
    return rows


@cache
def story_questions() -> dict[str, list[tuple[str, Sequence[str], int]]]:
    """Kind of story → (variable that is the answer, variables that must be known too, number of the question)."""
    questions: dict[str, list[tuple[str, Sequence[str], int]]] = {}
    for number, (row, _) in enumerate(_question_rows()):
        questions.setdefault(row["story"], []).append((row["answer"], row["known"].split(), number))
    return questions
