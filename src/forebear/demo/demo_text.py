"""English prose that is in every Python installation: the language's own reference and its library's docstrings."""

from __future__ import annotations

import ast
import os
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path

import numpy as np

from forebear.demo import world
from forebear.objectives.batch import shuffled_positions

# Not the library itself, or tables written as programs.
PASSED_OVER = {
    "__pycache__", "dist-packages", "encodings", "ensurepip", "idle_test", "idlelib", "lib2to3", "pydoc_data",
    "site-packages", "test", "tests", "turtledemo",
}  # fmt: skip
FEWEST_WORDS = 7

_DOCSTRING = re.compile(
    r"(?:\A(?:[ \t]*(?:#[^\n]*)?\n)*|:[ \t]*(?:#[^\n]*)?\n\s*)"
    r"(?P<string>[rRuU]?(?:\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}))",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z][a-z]*(?:'[a-z]+)?")
_ROLE = re.compile(r":[\w:]+:`~?([^`<>]*)(?:<[^`>]*>)?`")  # reST's :func:`name`
_QUOTED = re.compile(r"``?([^`]*)``?")
_STRESSED = re.compile(r"(?<!\w)\*{1,2}(\w[^*]*)\*{1,2}(?!\w)")
_FOOTNOTE = re.compile(r"\s\[\d+\]_?")
_BULLET = re.compile(r"^(?:[-*+o•]|\(?[0-9a-z][.)])\s+")
# What opens a line of code, of a table, of a grammar or of a list of arguments rather than a sentence.
_NO_PROSE = re.compile(r"^(?:>>>|\.\.\. |\.\. |:[\w ]+:|@|[|+=~^#$%\\]|-{2,}|\w+ *(?:::=|=|->)|\w+\(.*\)?$)")
_COMMON = frozenset(
    "a an and are as at be been but by can do for from has have if in into is it its may must no not of on or should "
    "so than that the their then there these they this to was when where which will with you your".split()
)


@cache
def manual_documents() -> tuple[str, ...]:
    """One document a topic of the manual, then one a module of the library, a paragraph a line, none twice."""
    seen: set[str] = set()
    kept = []
    for texts in (*_topics(), *_modules()):
        paragraphs = [paragraph for text in texts for paragraph in _prose(text)]
        # A paragraph that was seen says nothing new: many topics and methods repeat one another.
        fresh = [paragraph for paragraph in dict.fromkeys(paragraphs) if paragraph not in seen]
        seen.update(fresh)
        if fresh:
            kept.append("\n".join(fresh))
    return tuple(kept)


def size() -> int:
    """How many bytes of UTF-8 all documents have together."""
    return sum(len(document.encode()) for document in manual_documents())


def _topics() -> Iterator[list[str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions strip it; the docstrings remain
        return
    for name in sorted(topics):
        yield [topics[name]]


def _modules() -> Iterator[list[str]]:
    """The docstrings of each module of the standard library; nothing is imported or run."""
    for folder, below, names in os.walk(sysconfig.get_path("stdlib")):
        below[:] = sorted(set(below) - PASSED_OVER)  # site-packages may be far larger than the library
        for name in sorted(names):
            if name.endswith(".py"):
                try:
                    program = Path(folder, name).read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError):  # a damaged file of the installation is not ours to report
                    continue
                yield list(_docstrings(program))


def _docstrings(program: str) -> Iterator[str]:
    """What stands in triple quotes at the head of a file or right below a line that opens a block.

    Python's own parser finds the same strings and takes ten times as long.
    """
    for found in _DOCSTRING.finditer(program):
        try:
            text = ast.literal_eval(found["string"])
        except (SyntaxError, ValueError):  # no string after all
            continue
        if isinstance(text, str):
            yield text


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of real sentences in a docstring, each on one line, without markup."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+o•]|\(?[0-9a-z][.)])\s)", cleandoc(text)):
        lines = [line.strip() for line in block.split("\n")]
        if any(_NO_PROSE.match(line) for line in lines):
            continue
        paragraph = _plain(" ".join(lines))
        if _is_prose(paragraph):
            yield paragraph


def _plain(text: str) -> str:
    text = _BULLET.sub("", text)
    text = _ROLE.sub(r"\1", text)
    text = _FOOTNOTE.sub("", _STRESSED.sub(r"\1", _QUOTED.sub(r"\1", text)))
    text = re.sub(r"\s*::$", ":", text)
    return re.sub(r"\s+", " ", text).strip()


def _is_prose(paragraph: str) -> bool:
    """Enough words, a sentence's beginning and end, words of the language among them, and few signs."""
    if not paragraph or not paragraph[0].isupper() or paragraph[-1] not in ".!?:\")'":
        return False
    words = _WORD.findall(paragraph)
    if min(len(words), paragraph.count(" ") + 1) < FEWEST_WORDS:
        return False
    letters = sum(map(len, words)) + paragraph.count(" ")
    common = sum(word.lower() in _COMMON for word in words)
    return letters >= 0.88 * len(paragraph) and common >= 0.2 * len(words)


# The demo's text: real prose and the small world's stories in both languages, mixed, as much as is wanted.


def mixed_documents(size: int, seed: int = 0) -> Iterator[str]:
    """Documents of about `size` bytes together: by bytes half manual (while it lasts), half stories, as they come.

    A prefix of a larger mixture of the same seed is the smaller one, so that more text never changes what was there.
    """
    pages = manual_documents()
    order = iter(shuffled_positions(np.arange(len(pages)), len(pages), seed=seed)) if pages else iter(())
    told = {"manual": 0, "world": 0}
    number = 0
    left = True
    while sum(told.values()) < size:
        page = next(order, None) if left and told["manual"] <= told["world"] else None
        if page is not None:
            text, source = pages[int(page)], "manual"
        else:
            left = left and told["manual"] > told["world"]  # a page was wanted and none came: the manual is read
            text, source = world.make_story("both", seed, number).text, "world"
            number += 1
        told[source] += len(text.encode())
        yield text
