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

SECTION, COMMENT = ":", "#"
LOOKED_AT = 5  # lines by which it is told what a file holds
FORMS = "a line is two words and a number, or four words of an analogy below a line such as ': capitals'"

Pair = tuple[str, str]
Question = tuple[str, str, str, str]


@dataclass(frozen=True, eq=False)
class WordPairs:
    """Pairs of words and how alike people find them."""

    file: str
    pairs: tuple[Pair, ...]
    scores: np.ndarray


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
    pairs, scores = [], []
    for place, (number, line) in enumerate(lines):
        words = _fields(line)
        numbers = [value for value in map(_number, words[2:]) if value is not None]
        if not numbers and place == 0 and len(lines) > 1:
            continue  # headings
        if len(words) < 3 or not numbers:
            raise BadInput(f"no pair of words with a number: {line[:80]!r}", file=file, line=number, remedy=FORMS)
        pairs.append((words[0], words[1]))
        scores.append(numbers[0])  # SimLex has a part of speech before it, others what each person said behind it
    return WordPairs(file, tuple(pairs), np.array(scores, np.float64))


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
    """Parted by tabs, by commas, or else by spaces."""
    mark = "\t" if "\t" in line else "," if line.count(",") > 1 else None
    return [part.strip() for part in line.split(mark)]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
