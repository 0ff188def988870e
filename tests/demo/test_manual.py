"""The manual: prose only, found without running anything, in the same order every time."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from inspect import cleandoc
from pathlib import Path

import pytest

from forebear.demo import demo_text


@pytest.fixture(scope="module")
def documents() -> tuple[str, ...]:
    return demo_text.manual_documents()


def test_there_is_about_a_megabyte_of_prose(documents: tuple[str, ...]):
    assert 600_000 < sum(len(document.encode()) for document in documents) < 4_000_000
    assert len(documents) > 150


def test_paragraphs_are_sentences_and_none_comes_twice(documents: tuple[str, ...]):
    paragraphs = [line for document in documents for line in document.split("\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    for paragraph in paragraphs:
        assert paragraph[0].isupper()
        assert paragraph[-1] in ".!?:\")'"
        assert len(paragraph.split()) >= demo_text.MIN_WORDS
        assert "  " not in paragraph
    whole = "\n".join(paragraphs)
    assert ">>>" not in whole
    assert not re.search(r":\w+:`", whole)
    assert "``" not in whole


def test_it_reads_like_english(documents: tuple[str, ...]):
    """The commonest English words are the commonest here too: code and tables would push them down."""
    words = re.findall(r"[a-z]+", "\n".join(documents).lower())
    top = {word for word, _ in Counter(words).most_common(12)}
    assert {"the", "a", "to", "of", "is"} <= top


def test_the_same_text_in_another_process(documents: tuple[str, ...]):
    code = "import hashlib; from forebear.demo.demo_text import manual_documents; "
    code += "print(hashlib.sha256('|'.join(manual_documents()).encode()).hexdigest())"
    other = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert other == hashlib.sha256("|".join(documents).encode()).hexdigest()


@pytest.mark.parametrize("name", ["argparse.py", "json/__init__.py", "email/message.py", "typing.py", "shutil.py"])
def test_docstrings_are_those_that_python_sees(name: str):
    program = Path(sysconfig.get_path("stdlib"), name).read_text(encoding="utf-8")
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    seen = [ast.get_docstring(node) for node in ast.walk(ast.parse(program)) if isinstance(node, nodes)]
    long = {text for text in seen if text and '"""' in program and "\n" in text}
    found = {cleandoc(text) for text in demo_text._docstrings(program)}
    assert long <= found
    assert found <= {text for text in seen if text}


def test_markup_code_and_tables_are_no_prose():
    text = """Return the *second* item of :class:`list` in ``items``, counted from the end of it [1]_.

        >>> second([1, 2])
        1

        name    what it means to the reader of this table of names
        =====   =====

        width = 3 * height and some more words that are here to be counted

        Short one.

          - An entry of a list, which is a sentence and may stay where it is.
    """
    assert list(demo_text._prose(text)) == [
        "Return the second item of list in items, counted from the end of it.",
        "An entry of a list, which is a sentence and may stay where it is.",
    ]


def test_without_the_topics_the_docstrings_remain(monkeypatch: pytest.MonkeyPatch):
    ordinary = builtins.__import__

    def stripped(name: str, *rest: object, **more: object):
        if name.startswith("pydoc_data"):
            raise ImportError(name)
        return ordinary(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", stripped)
    assert list(demo_text._topics()) == []
    assert any(len(texts) > 3 for texts in demo_text._modules())
