"""English prose of the Python installation: its manual and the docstrings of its standard library."""

from __future__ import annotations

import ast
import os
import re
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from inspect import cleandoc
from pathlib import Path

# Folders that are not part of the library, or contain tables instead of prose.
SKIPPED_FOLDERS = {
    "__pycache__", "dist-packages", "encodings", "ensurepip", "idle_test", "idlelib", "lib2to3", "pydoc_data",
    "site-packages", "test", "tests", "turtledemo",
}  # fmt: skip

MIN_WORDS = 7  # of a paragraph
_DOCSTRING = re.compile(
    r"(?:\A(?:[ \t]*(?:#[^\n]*)?\n)*|:[ \t]*(?:#[^\n]*)?\n\s*)"
    r"(?P<string>[rRuU]?(?:\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}))",
    re.DOTALL,
)
_WORD = re.compile(r"[A-Za-z][a-z]*(?:'[a-z]+)?")
_ROLE = re.compile(r":[\w:]+:`~?([^`<>]*)(?:<[^`>]*>)?`")  # reST's :func:`name`
_QUOTED = re.compile(r"``?([^`]*)``?")
_EMPHASIZED = re.compile(r"(?<!\w)\*{1,2}(\w[^*]*)\*{1,2}(?!\w)")
_FOOTNOTE = re.compile(r"\s\[\d+\]_?")
_BULLET = re.compile(r"^(?:[-*+o•]|\(?[0-9a-z][.)])\s+")

# The start of a line of code, of a table, of a grammar or of a list of arguments.
_NOT_PROSE = re.compile(r"^(?:>>>|\.\.\. |\.\. |:[\w ]+:|@|[|+=~^#$%\\]|-{2,}|\w+ *(?:::=|=|->)|\w+\(.*\)?$)")
_COMMON_WORDS = frozenset(
    "a an and are as at be been but by can do for from has have if in into is it its may must no not of on or should "
    "so than that the their then there these they this to was when where which will with you your".split()
)


@cache
def manual_documents() -> tuple[str, ...]:
    """A document per topic of the manual, then per module of the library; one paragraph per line, no duplicates."""
    seen_paragraphs: set[str] = set()
    documents = []
    for texts in (*_topics(), *_modules()):
        paragraphs = [paragraph for text in texts for paragraph in _prose(text)]
        # Many topics and methods repeat one another: each paragraph is kept once.
        new_paragraphs = [paragraph for paragraph in dict.fromkeys(paragraphs) if paragraph not in seen_paragraphs]
        seen_paragraphs.update(new_paragraphs)
        if new_paragraphs:
            documents.append("\n".join(new_paragraphs))
    return tuple(documents)


def _topics() -> list[list[str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions strip it; the docstrings remain
        return []
    return [[topics[name]] for name in sorted(topics)]


def _modules() -> Iterator[list[str]]:
    """The docstrings of each module of the standard library; no module is imported."""
    for folder, subfolders, files in os.walk(sysconfig.get_path("stdlib")):
        subfolders[:] = sorted(set(subfolders) - SKIPPED_FOLDERS)  # site-packages may be far larger than the library
        for name in sorted(files):
            if name.endswith(".py"):
                with suppress(OSError, UnicodeDecodeError):  # a corrupt file of the installation
                    yield list(_docstrings(Path(folder, name).read_text(encoding="utf-8")))


def _docstrings(source_code: str) -> Iterator[str]:
    """Strings in triple quotes at the start of a file, or right below a line that opens a block.

    Python's own parser finds the same strings, ten times slower.
    """
    for match in _DOCSTRING.finditer(source_code):
        with suppress(SyntaxError, ValueError):  # not a string
            text = ast.literal_eval(match["string"])
            if isinstance(text, str):
                yield text


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of a docstring that consist of sentences, each on one line, without markup."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+o•]|\(?[0-9a-z][.)])\s)", cleandoc(text)):
        lines = [line.strip() for line in block.split("\n")]
        if any(_NOT_PROSE.match(line) for line in lines):
            continue
        paragraph = _strip_markup(" ".join(lines))
        if _is_prose(paragraph):
            yield paragraph


def _strip_markup(text: str) -> str:
    text = _ROLE.sub(r"\1", _BULLET.sub("", text))
    text = _FOOTNOTE.sub("", _EMPHASIZED.sub(r"\1", _QUOTED.sub(r"\1", text)))
    text = re.sub(r"\s*::$", ":", text)
    return re.sub(r"\s+", " ", text).strip()


def _is_prose(paragraph: str) -> bool:
    """Whether a paragraph has enough words, starts and ends like a sentence, and is mostly letters and common words."""
    if not paragraph or not paragraph[0].isupper() or paragraph[-1] not in ".!?:\")'":
        return False
    words = _WORD.findall(paragraph)
    if min(len(words), paragraph.count(" ") + 1) < MIN_WORDS:
        return False
    num_letters = sum(map(len, words)) + paragraph.count(" ")
    num_common = sum(word.lower() in _COMMON_WORDS for word in words)
    return num_letters >= 0.88 * len(paragraph) and num_common >= 0.2 * len(words)
