"""The demo's text: English prose from Python's manual and docstrings, mixed with stories of the demo's world."""

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

import numpy as np

from forebear.demo import world
from forebear.objectives.shuffle import shuffled_positions

# Folders that are not part of the library, or contain tables instead of prose.
SKIPPED_FOLDERS = {
    "__pycache__", "dist-packages", "encodings", "ensurepip", "idle_test", "idlelib", "lib2to3", "pydoc_data",
    "site-packages", "test", "tests", "turtledemo",
}  # fmt: skip
MIN_WORDS = 7  # minimum words of a paragraph

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
    """A document for each topic of the manual, then for each module: one paragraph per line, without duplicates."""
    seen_paragraphs: set[str] = set()
    documents = []
    for texts in (*_topics(), *_modules()):
        paragraphs = [paragraph for text in texts for paragraph in _prose(text)]
        # Many topics and methods have paragraphs in common.
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
    """Strings in triple quotes at the start of a file, or directly below a line that opens a block.

    Python's own parser finds the same strings, but takes ten times as long.
    """
    for match in _DOCSTRING.finditer(source_code):
        with suppress(SyntaxError, ValueError):  # not a string
            text = ast.literal_eval(match["string"])
            if isinstance(text, str):
                yield text


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of a docstring that are prose, each on one line, without markup."""
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


# --- Manual and stories, mixed ---


def mixed_documents(size: int, seed: int = 0) -> Iterator[str]:
    """Documents of about `size` bytes in total, half of the bytes manual (until it is exhausted) and half stories.

    With the same seed, a smaller mixture is a prefix of a larger one.
    """
    documents = manual_documents()
    order = iter(shuffled_positions(np.arange(len(documents)), len(documents), seed=seed)) if documents else iter(())
    num_bytes = {"manual": 0, "world": 0}
    story_number, has_manual_left = 0, True
    while sum(num_bytes.values()) < size:
        is_manual_turn = has_manual_left and num_bytes["manual"] <= num_bytes["world"]
        document_index = next(order, None) if is_manual_turn else None
        if document_index is not None:
            text, source = documents[int(document_index)], "manual"
        else:
            has_manual_left = has_manual_left and not is_manual_turn  # on its turn, the manual had no document left
            text, source = world.make_story("both", seed, story_number).text, "world"
            story_number += 1
        num_bytes[source] += len(text.encode())
        yield text
