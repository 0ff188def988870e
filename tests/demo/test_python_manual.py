"""The Python manual as demo text: prose only, extracted without running code, in a fixed order."""

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

from forebear.demo import python_manual


@pytest.fixture(scope="module")
def documents() -> tuple[str, ...]:
    return python_manual.manual_documents()


def test_manual_has_about_a_megabyte_of_prose(documents: tuple[str, ...]):
    assert 600_000 < sum(len(document.encode()) for document in documents) < 4_000_000
    assert len(documents) > 150


def test_manual_paragraphs_are_unique_sentences_without_markup(documents: tuple[str, ...]):
    paragraphs = [line for document in documents for line in document.split("\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    for paragraph in paragraphs:
        assert paragraph[0].isupper()
        assert paragraph[-1] in ".!?:\")'"
        assert len(paragraph.split()) >= python_manual.MIN_WORDS
        assert "  " not in paragraph
    text = "\n".join(paragraphs)
    assert ">>>" not in text
    assert not re.search(r":\w+:`", text)
    assert "``" not in text


def test_most_frequent_manual_words_are_those_of_english(documents: tuple[str, ...]):
    """Code and tables would displace the usual most frequent words of English."""
    words = re.findall(r"[a-z]+", "\n".join(documents).lower())
    most_frequent = {word for word, _ in Counter(words).most_common(12)}
    assert {"the", "a", "to", "of", "is"} <= most_frequent


def test_manual_is_identical_in_another_process(documents: tuple[str, ...]):
    code = "import hashlib; from forebear.demo.python_manual import manual_documents; "
    code += "print(hashlib.sha256('|'.join(manual_documents()).encode()).hexdigest())"
    digest = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert digest == hashlib.sha256("|".join(documents).encode()).hexdigest()


@pytest.mark.parametrize("name", ["argparse.py", "json/__init__.py", "email/message.py", "typing.py", "shutil.py"])
def test_extracted_docstrings_equal_those_of_ast(name: str):
    program = Path(sysconfig.get_path("stdlib"), name).read_text(encoding="utf-8")
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    all_docstrings = [ast.get_docstring(node) for node in ast.walk(ast.parse(program)) if isinstance(node, nodes)]
    multi_line = {text for text in all_docstrings if text and '"""' in program and "\n" in text}
    extracted = {cleandoc(text) for text in python_manual._docstrings(program)}
    assert multi_line <= extracted
    assert extracted <= {text for text in all_docstrings if text}


def test_prose_excludes_markup_code_and_tables():
    text = """Return the *second* item of :class:`list` in ``items``, counted from the end of it [1]_.

        >>> second([1, 2])
        1

        name    what it means to the reader of this table of names
        =====   =====

        width = 3 * height and some more words that are here to be counted

        Short one.

          - An entry of a list, which is a sentence and may stay where it is.
    """
    assert list(python_manual._prose(text)) == [
        "Return the second item of list in items, counted from the end of it.",
        "An entry of a list, which is a sentence and may stay where it is.",
    ]


def test_manual_without_pydoc_topics_uses_docstrings(monkeypatch: pytest.MonkeyPatch):
    original_import = builtins.__import__

    def import_without_pydoc_data(name: str, *arguments: object, **keywords: object):
        if name.startswith("pydoc_data"):
            raise ImportError(name)
        return original_import(name, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", import_without_pydoc_data)
    assert list(python_manual._topics()) == []
    assert any(len(texts) > 3 for texts in python_manual._modules())
