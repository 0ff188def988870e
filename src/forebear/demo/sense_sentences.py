"""Sentences in which a word of two meanings stands, each with the meaning that is meant: right by construction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from forebear.demo import senses, world
from forebear.demo.chooser import Chooser
from forebear.demo.examples import Labelled
from forebear.demo.grammar import Telling
from forebear.demo.lexicon import LANGUAGES
from forebear.errors import BadInput


def words_of_two_meanings(language: world.Language = "both") -> list[str]:
    """The words of the small world of which there are such sentences."""
    return [word for own in LANGUAGES if language in (own, "both") for word in senses.senses(own)]


def sentences_with(word: str, count: int = 200, seed: int = 0) -> Iterator[Labelled]:
    """So many sentences with the word, its meanings in turn; each depends on (word, seed, its number) alone."""
    language = next((one for one in LANGUAGES if word in senses.senses(one)), None)
    if language is None:
        known = ", ".join(words_of_two_meanings())
        raise BadInput(f"{word!r} has no two meanings in the small world", remedy=f"there are: {known}")
    meant, people = list(senses.senses(language)[word]), world.lexicons()["person"]
    for number in range(count):
        chooser, sense = Chooser(f"sense/{word}/{seed}/{number}"), meant[number % len(meant)]
        telling = Telling(chooser, known={"P": people.entries[chooser.choose(people.odds)]})
        world.language_of(language).rules[f"sense.{word}.{sense}"].write(telling)
        yield Labelled(telling.text(), sense, language)


def write_sentences(file: Path, word: str, count: int = 200, *, seed: int = 0) -> Path:
    """Writes them as `forebear inspect senses --senses` reads them: a line each, the meaning before a tab."""
    lines = (f"{one.label}\t{one.text}\n" for one in sentences_with(word, count, seed))
    file.write_text("".join(lines), encoding="utf-8")
    return file
