"""A small bilingual world: stories with known information content, and the entropy of their source.

Every story depends only on its seed and number. Its `bits` are −log2 of the probability of the choices that generated
it. The grammar is unambiguous, so they are also −log2 of the probability of the text, its end included.
`information_content` verifies this for any text: it parses the text and sums over all derivations. (For a text with two
derivations, `bits` would be an upper bound of its information.) Total bits divided by total bytes is the entropy of the
source: no model can be better on average.
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
_EQUAL_PROBABILITIES = ChoiceProbabilities([1.0, 1.0])


@dataclass(frozen=True, slots=True)
class DemoDocument:
    """A text and its information: −log2 of its probability."""

    text: str
    bits: float
    language: str


@dataclass(frozen=True, slots=True)
class EntropyEstimate:
    """The entropy of the source, estimated from a sample of stories."""

    bits_per_byte: float
    standard_error: float
    num_stories: int


# --- Stories ---


def make_story(language: DemoLanguage, seed: int, number: int) -> DemoDocument:
    """Story `number` of a seed, independent of other stories."""
    random_source = RandomSource(f"{language}/{seed}/{number}")
    story_language = LANGUAGES[random_source.choose(_EQUAL_PROBABILITIES)] if language == "both" else language
    state = grammar.GenerationState(random_source)
    grammar_for(story_language).rules["document"].generate(state)
    return DemoDocument(state.text(), random_source.bits, story_language)


def world_documents(
    language: DemoLanguage = "both", size_in_bytes: int = 1_000_000, seed: int = 0
) -> Iterator[DemoDocument]:
    """Stories whose texts have at least `size_in_bytes` in total."""
    total = number = 0
    while total < size_in_bytes:
        story = make_story(language, seed, number)
        total += len(story.text.encode())
        number += 1
        yield story


def information_content(text: str, language: str) -> float:
    """−log2 of the probability of a text, over all its derivations; infinite if the source cannot generate it."""
    return grammar.text_information(grammar_for(language).rules["document"], text)


@cache
def entropy(language: DemoLanguage = "both", size_in_bytes: int = 2_000_000, seed: int = 0) -> EntropyEstimate:
    """True bits per byte, estimated from a large sample: total bits divided by total bytes.

    Its standard error is that of a ratio of means.
    """
    stories = world_documents(language, size_in_bytes, seed)
    bits, sizes = zip(*((story.bits, len(story.text.encode())) for story in stories), strict=True)
    size, count = sum(sizes), len(sizes)
    rate = sum(bits) / size
    squares = sum((story_bits - rate * story_size) ** 2 for story_bits, story_size in zip(bits, sizes, strict=True))
    return EntropyEstimate(rate, sqrt(squares * count / max(1, count - 1)) / size, count)


# --- The grammar of a language, from the files in data/ ---


@cache
def grammar_for(language: str) -> DemoGrammar:
    """The grammar of one language; its rule `document` generates a story of any kind."""
    if language not in LANGUAGES:
        raise InputError(
            f"the small world does not speak {language!r}", hint=f"there are: {', '.join(LANGUAGES)}, both"
        )
    text, file = read_demo_data(f"rules_{language}.txt")
    questions = [RuleText(location.rule, location, [(row[language], location)]) for row, location in _question_rows()]
    meanings = [rule for rules in load_meanings().values() for rule in (rules["arguments"], rules[language])]
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
        located = [(sentence, location._replace(rule=rule)) for sentence, location in sentences]
        senses.setdefault(word, {})[sense] = located
    return senses


def _sense_rules(language: str) -> list[RuleText]:
    """The sentences as rules `sense.WORD.SENSE`, and a rule `scene.sense` for several sentences of one sense."""
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

    Each meaning maps "arguments" to a rule `arguments.NAME`, which emits no text, and each language to `meaning.NAME`.
    """
    text, file = read_demo_data("meanings.txt")
    meanings: dict[str, dict[str, RuleText]] = {}
    name = ""
    for heading, location, wordings in parse_rules(text, "en", file):
        if heading not in LANGUAGES:
            name, _, arguments = heading.partition(" ")
            if not arguments or wordings:
                message = f"`name <~P=person>…`, then `en` and `zh`, is expected, found {heading!r}"
                raise ForebearError(message, file=file, line=location.line)
            location = location._replace(rule=f"meaning.{name}")
            meanings[name] = {"arguments": RuleText(f"arguments.{name}", location, [(arguments, location)])}
        elif not name:
            raise ForebearError(f"{heading!r} before the first meaning", file=file, line=location.line)
        else:
            located_wordings = [(wording, location._replace(rule=f"meaning.{name}")) for wording, location in wordings]
            meanings[name][heading] = RuleText(f"meaning.{name}", location, located_wordings)
    for name, rules in meanings.items():
        if missing_languages := [language for language in LANGUAGES if language not in rules]:
            raise ForebearError(
                f"{name!r} has no wording in {missing_languages[0]!r}", file=file, line=rules["arguments"].location.line
            )
    return meanings


@cache
def _question_rows() -> list[tuple[dict[str, str], Location]]:
    """Rows of data/questions.tsv: kind of story, answer variable, other required variables, question per language."""
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
    """Kind of story → (answer variable, other required variables, number of the question)."""
    questions: dict[str, list[tuple[str, Sequence[str], int]]] = {}
    for number, (row, _) in enumerate(_question_rows()):
        questions.setdefault(row["story"], []).append((row["answer"], row["known"].split(), number))
    return questions
