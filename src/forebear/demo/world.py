"""A small bilingual world whose texts have a known information content: stories, and the limit no model can pass.

Every story is a function of (seed, number) alone. Its `bits` are −log2 of the probability of the decisions behind it;
the grammar is made so that a text has one derivation only, so they are −log2 of the probability of the text itself, its
end included. `information` proves it for any text: it reads it back and sums over every derivation. (A text with
two would make `bits` an upper bound of its information, never a lower one.) Total bits over total bytes is the entropy
of the source: no model can do better on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import sqrt
from types import MappingProxyType
from typing import Literal

from forebear.demo import (
    cases,
    chinese_private,
    chinese_public,
    chinese_talk,
    clauses,
    deeds,
    doings,
    english_private,
    english_public,
    english_talk,
    grammar,
    meanings,
    measures,
    people,
    places,
    questions,
    senses,
    things,
)
from forebear.demo.grammar import DemoGrammar
from forebear.demo.lexicon import LANGUAGES, ChoiceProbabilities, DemoLexicon, RandomSource
from forebear.errors import InputError

DemoLanguage = Literal["en", "zh", "both"]
# What is told, and how often against the others.
KINDS = {
    "street": 4, "case": 4, "tale": 4, "diary": 3, "letter": 3, "talk": 3, "people": 2, "weather": 2, "food": 2,
    "sport": 1, "travel": 1, "business": 1, "notice": 1, "scene": 2,
}  # fmt: skip
_EVEN = ChoiceProbabilities([1.0, 1.0])

_RULES = {
    "en": (english_public.RULES, english_private.RULES, english_talk.RULES),
    "zh": (chinese_public.RULES, chinese_private.RULES, chinese_talk.RULES),
}


@dataclass(frozen=True, slots=True)
class DemoDocument:
    """A text, and how much it tells: −log2 of its probability."""

    text: str
    bits: float
    language: str


@dataclass(frozen=True, slots=True)
class EntropyEstimate:
    """Bits per byte of the source and the standard error of the estimate."""

    rate: float
    error: float
    stories: int


@cache
def world_lexicons() -> MappingProxyType[str, DemoLexicon]:
    found = [lexicon for part in (people, places, things, measures, doings, deeds) for lexicon in part.lexicons()]
    return MappingProxyType({lexicon.name: lexicon for lexicon in found})


@cache
def grammar_for(language: str) -> DemoGrammar:
    """The grammar of one language; its rule `document` makes a story of any kind."""
    if language not in LANGUAGES:
        raise InputError(
            f"the small world does not speak {language!r}", hint=f"there are: {', '.join(LANGUAGES)}, both"
        )
    top = "document\n" + "\n".join(f"    {weight}* <story.{kind}>" for kind, weight in KINDS.items())
    return DemoGrammar(
        language,
        world_lexicons(),
        [
            top,
            *_RULES[language],
            *clauses.clause_rules(language),
            *(part.rules(language) for part in (cases, senses, meanings, questions)),
        ],
    )


def make_story(language: DemoLanguage, seed: int, number: int) -> DemoDocument:
    """Story `number` of a seed, whatever was told before."""
    chooser = RandomSource(f"{language}/{seed}/{number}")
    own = LANGUAGES[chooser.choose(_EVEN)] if language == "both" else language
    telling = grammar.GenerationState(chooser)
    grammar_for(own).rules["document"].write(telling)
    return DemoDocument(telling.text(), chooser.bits, own)


def world_documents(
    language: DemoLanguage = "both", size_in_bytes: int = 1_000_000, seed: int = 0
) -> Iterator[DemoDocument]:
    """Stories until their texts have at least so many bytes together."""
    told = number = 0
    while told < size_in_bytes:
        one = make_story(language, seed, number)
        told += len(one.text.encode())
        number += 1
        yield one


def information(text: str, language: str) -> float:
    """Bits of a text as the source sees it, over all its derivations; infinite for what it never tells."""
    return grammar.text_information(grammar_for(language).rules["document"], text)


@cache
def entropy(language: DemoLanguage = "both", size_in_bytes: int = 2_000_000, seed: int = 0) -> EntropyEstimate:
    """True bits per byte, from a large sample: total bits over total bytes.

    The error is that of a ratio of means: how far stories stray from the common rate, by the size of the sample.
    """
    pairs = [(one.bits, len(one.text.encode())) for one in world_documents(language, size_in_bytes, seed)]
    bits, size = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    rate, count = bits / size, len(pairs)
    strays = sum((pair[0] - rate * pair[1]) ** 2 for pair in pairs)
    return EntropyEstimate(rate, sqrt(strays * count / max(1, count - 1)) / size, count)
