"""Files that people made to measure word vectors: pairs of words with how alike they are, and analogies by section."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from forebear.errors import BadInput
from forebear.using.neighbours import lines_of

NO_NUMBERS = ("nan", "inf", "infinity")  # nor with a sign
SECTION, COMMENT = ":", "#"
LOOKED_AT = 5  # lines by which it is told what a file holds
POINT = "write a number with a point, such as 8.5"
FORMS = (
    "a line is two words and a number, or four words of an analogy below a line such as ': capitals'; they are parted "
    "by tabs, semicolons, commas or spaces"
)

Pair = tuple[str, str]
Question = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class WordPairs:
    """Pairs of words and how alike people find them; `headings` is the first line, where it is taken for those."""

    file: str
    pairs: tuple[Pair, ...]
    scores: np.ndarray
    headings: str = ""


@dataclass(frozen=True)
class Section:
    """Analogies of one kind: a is to b as c is to d. `kind` is "semantic" or "syntactic", where a file tells."""

    name: str
    kind: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Questions:
    """The analogies of a file."""

    file: str
    sections: tuple[Section, ...]


def read_words(file: str | os.PathLike[str], encoding: str = "utf-8") -> WordPairs | Questions:
    """What the file holds is told by its lines; comments (#) and a line of headings are passed over."""
    name = os.fspath(file)
    lines = list(_lines(name, encoding))
    if not lines:
        raise BadInput("there is nothing in this file", file=name, remedy=FORMS)
    return _questions(name, lines) if _asks(lines) else _pairs(name, lines)


def _lines(file: str, encoding: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines_of(file, encoding), 1):
        if line.strip() and not line.startswith(COMMENT):
            yield number, line.strip()


def _asks(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether they are analogies: sections, or four words and no number among the last two."""
    first = [line for _, line in islice(lines, LOOKED_AT)]
    if any(line.startswith(SECTION) for line in first):
        return True
    parts = [_fields(line) for line in first]
    return all(len(part) == 4 and not any(_number(one) is not None for one in part[2:]) for part in parts)


def _pairs(file: str, lines: Sequence[tuple[int, str]]) -> WordPairs:
    pairs, scores, headings = [], [], ""
    if len(lines) > 1 and _heads(_fields(lines[0][1]), _fields(lines[1][1])):
        headings, lines = lines[0][1], lines[1:]
    parted = [_fields(line) for _, line in lines]
    numbered = _numbered([words[0] for words in parted], min(map(len, parted)))
    for (number, line), fields in zip(lines, parted, strict=True):
        words = fields[numbered:]
        # SimLex has a part of speech before the number, others what each person said behind it.
        field = next((one for one in words[2:] if _meant_as_number(one)), None)
        if field is None:
            raise BadInput(f"no pair of words with a number: {line[:80]!r}", file=file, line=number, remedy=FORMS)
        if (score := _number(field)) is None:
            what = f"no pair of words with a number: {field[:40]!r} is none"
            raise BadInput(what, file=file, line=number, remedy=POINT)
        pairs.append((words[0], words[1]))
        scores.append(score)
    return WordPairs(file, tuple(pairs), np.array(scores, np.float64), headings)


def _numbered(first: Sequence[str], fields: int) -> bool:
    """Whether lines have their own number before two words and a number: 0 or 1, and then one more each time."""
    told = [int(one) if one.isdecimal() else -1 for one in first]
    return fields > 3 and len(told) > 1 and told[0] in (0, 1) and told == list(range(told[0], told[0] + len(told)))


def _heads(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first line is one of headings: where the second has its number, it has a word."""
    place = next((place for place, one in enumerate(second) if place > 1 and _meant_as_number(one)), 2)
    return not any(_meant_as_number(first[at]) for at in {2, place} if at < len(first))


def _questions(file: str, lines: Sequence[tuple[int, str]]) -> Questions:
    found: dict[str, list[Question]] = {}
    name = ""
    for number, line in lines:
        if line.startswith(SECTION):
            name = line.removeprefix(SECTION).strip()
            continue
        words = _fields(line)
        if len(words) != 4:
            raise BadInput(f"no analogy of four words: {line[:80]!r}", file=file, line=number, remedy=FORMS)
        found.setdefault(name, []).append((words[0], words[1], words[2], words[3]))
    if not found:
        raise BadInput("there are sections in this file and no analogies", file=file, remedy=FORMS)
    told = _kinds(file, list(found))
    return Questions(file, tuple(Section(name, told[name], tuple(asked)) for name, asked in found.items()))


def _kinds(file: str, names: Sequence[str]) -> dict[str, str]:
    """Google's sections of grammar are named gram1 …; elsewhere a file of its own holds them (CA8)."""
    if any(name.startswith("gram") for name in names):
        return {name: "syntactic" if name.startswith("gram") else "semantic" for name in names}
    base = os.path.basename(file).lower()
    kind = "syntactic" if re.search("morpholog|syntactic", base) else "semantic" if "semantic" in base else ""
    return dict.fromkeys(names, kind)


def _fields(line: str) -> list[str]:
    """Parted by tabs, by semicolons, by commas, or else by spaces."""
    mark = "\t" if "\t" in line else next((one for one in ";," if line.count(one) > 1), None)
    return [part.strip() for part in line.split(mark)]


def _meant_as_number(text: str) -> bool:
    """Whether a person who wrote this meant a number, though it may be none: 8,5 or nan."""
    return text[:1].isdigit() or text.startswith(("+", "-", ".")) or text.casefold() in NO_NUMBERS


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
