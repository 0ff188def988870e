"""What a chain of labels looks at: templates such as `word[-1]+word[0]`, and how a word is written, part by part.

A template names what is looked at (an attribute) and where, counted from the word that is to be labelled; several
joined by + are one feature together. CRF++ and CRFsuite have made this the usual way to say it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import category

from forebear.errors import BadInput
from forebear.statistics.shapes import SHAPES, shapes_of
from forebear.text.segmentation import has_han

LONGEST_PART = 4  # characters of the longest prefix and suffix
REACH = 8  # words to either side, at most
TOGETHER = 4  # parts of a template, at most
ATTRIBUTES = (
    "word",
    "small",
    *(f"prefix{n}" for n in range(1, LONGEST_PART + 1)),
    *(f"suffix{n}" for n in range(1, LONGEST_PART + 1)),
    "shape",
    "kind",
)
MEANINGS = {
    "word": "the word itself",
    "small": "the word in small letters",
    "prefix1": "its first character; prefix2 to prefix4: its first two to four",
    "suffix1": "its last character; suffix2 to suffix4: its last two to four",
    "shape": "what kinds of characters follow one another in it: A capitals, a small letters, 0 digits, 字 Han, …",
    "kind": "one of " + ", ".join(SHAPES),
}
OF_WORDS = (
    "word[-2] word[-1] word[0] word[1] word[2] word[-1]+word[0] word[0]+word[1] word[-1]+word[1] small[0]"
    " prefix1[0] prefix2[0] prefix3[0] prefix4[0] suffix1[0] suffix2[0] suffix3[0] suffix4[0]"
    " suffix1[-1] suffix1[1] prefix1[1] suffix2[-1] shape[-1] shape[0] shape[1] shape[-1]+shape[0]+shape[1]"
)
OF_CHARACTERS = (
    "word[-3] word[-2] word[-1] word[0] word[1] word[2] word[3]"
    " word[-2]+word[-1] word[-1]+word[0] word[0]+word[1] word[1]+word[2] word[-1]+word[1]"
    " word[-2]+word[-1]+word[0] word[-1]+word[0]+word[1] word[0]+word[1]+word[2]"
    " kind[-1] kind[0] kind[1] kind[-1]+kind[0]+kind[1]"
)
_PART = re.compile(r"([a-z]+[1-9]?)\[([+-]?\d+)\]")
_CLASSES = {"Lu": "A", "Lt": "A", "Ll": "a", "Nd": "0", "Nl": "0", "No": "0"}


@dataclass(frozen=True)
class Template:
    """Attributes, by their numbers, and where each is looked at, counted from the word."""

    parts: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return "+".join(f"{ATTRIBUTES[attribute]}[{place}]" for attribute, place in self.parts)


def templates_of(written: str) -> tuple[Template, ...]:
    """Templates from how people write them, with spaces or commas between; an error that names what is wrong."""
    found = tuple(_template(one) for one in re.split(r"[\s,]+", written.strip()) if one)
    if not found:
        raise BadInput("there is no template", remedy="give some, such as word[0] word[-1]+word[0] suffix2[0]")
    twice = [str(one) for number, one in enumerate(found) if one in found[:number]]
    if twice:
        raise BadInput(f"the template {twice[0]} stands there twice", remedy="give it once")
    return found


def _template(written: str) -> Template:
    parts = []
    for part in re.split(r"\+(?=[a-z])", written):
        match = _PART.fullmatch(part)
        if match is None or match[1] not in ATTRIBUTES:
            remedy = f"write NAME[PLACE], joined by + where several count together; names: {', '.join(ATTRIBUTES)}"
            raise BadInput(f"{written!r} is no template", remedy=remedy)
        if abs(int(match[2])) > REACH:
            raise BadInput(f"{written!r} looks further than {REACH} words", remedy="look nearer to the word")
        parts.append((ATTRIBUTES.index(match[1]), int(match[2])))
    if len(parts) > TOGETHER or len(set(parts)) < len(parts):
        raise BadInput(f"{written!r} joins too much", remedy=f"join at most {TOGETHER} different parts by +")
    return Template(tuple(parts))


def usual(*, characters: bool) -> str:
    """The templates that suit words, or texts that are labelled character by character."""
    return OF_CHARACTERS if characters else OF_WORDS


def attributes(word: str) -> tuple[str, ...]:
    """How a word is written, in the order of ATTRIBUTES; "" where it is too short for a part of that length."""
    sizes = range(1, LONGEST_PART + 1)
    long = len(word)
    before = (word[:size] if long >= size else "" for size in sizes)
    behind = (word[-size:] if long >= size else "" for size in sizes)
    kind = SHAPES[int(shapes_of((word,))[0])]
    return (word, word.lower(), *before, *behind, shape(word), kind)


def shape(word: str) -> str:
    """Kinds of characters as they follow one another, each kind once: 1998年 is 0字, iPhone aAa."""
    made = ""
    for character in word:
        one = _class(character)
        if one != made[-1:]:
            made += one
    return made


def _class(character: str) -> str:
    kind = category(character)
    if kind in _CLASSES:
        return _CLASSES[kind]
    if has_han(character):
        return "字"
    return "l" if kind[0] in "LM" else character if kind[0] == "P" and character in ".,-'" else kind[0].lower()
