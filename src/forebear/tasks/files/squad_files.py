"""Questions about passages in SQuAD's JSON (1.1 and 2.0), as CMRC 2018 and many others also write it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from forebear.errors import BadInput
from forebear.tasks.examples import Example, Place
from forebear.tasks.files.forms import HALF, Bad, Wanted, shown
from forebear.tasks.files.json_records import HALF_CHARACTER
from forebear.tasks.files.making import maker
from forebear.text.records import SURROGATE
from forebear.text.sources import Source

EXPECTED = 'SQuAD\'s form is expected: {"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'


def examples(source: Source, wanted: Wanted) -> Iterator[Example]:
    """All questions, in order. JSON has no lines: what is bad is named by the question's id."""
    text = "".join(wanted.blocks(source))
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise BadInput(f"not JSON: {error}", file=source.name, line=line, remedy=EXPECTED) from error
    halves = HALF.search(text) is not None
    del text
    make = maker(wanted)
    for passage, question in _questions(told, source.name):
        name = str(question["id"]) if question.get("id") is not None else None
        try:
            values = [question.get("question"), passage, _answers(question, wanted), None]
            if halves:
                values = _sound(values, wanted)
            yield make(values, Place(source.name, None, name))
        except Bad as bad:
            wanted.faults.leave_out(None, str(bad), name)


def _questions(told: Any, file: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(passage, question with its answers); anything that is not of SQuAD's form ends the reading."""

    def part(value: Any, kind: type, what: str) -> Any:
        if not isinstance(value, kind):
            raise BadInput(f"{what} is {shown(value)}, not as in SQuAD", file=file, remedy=EXPECTED)
        return value

    articles = part(told, dict, "the whole").get("data") if not isinstance(told, list) else told
    for article in part(articles, list, "data"):
        for paragraph in part(part(article, dict, "an article").get("paragraphs"), list, "paragraphs"):
            passage = part(paragraph, dict, "a paragraph").get("context")
            for question in part(paragraph.get("qas"), list, "qas"):
                yield passage, part(question, dict, "a question")


def _answers(question: dict[str, Any], wanted: Wanted) -> Any:
    """SQuAD 2.0 marks questions that the passage does not answer; the answers it then gives are none."""
    if question.get("is_impossible") is True:
        return []
    answers = question.get("answers")
    # An empty list without that mark is what the test files of SQuAD 1.1 have.
    return None if answers == [] and "is_impossible" not in question and wanted.labels == "optional" else answers


def _sound(values: list[Any], wanted: Wanted) -> list[Any]:
    written = json.dumps(values, ensure_ascii=False)
    if not SURROGATE.search(written):
        return values
    if wanted.on_bad_bytes == "fail":
        raise Bad(HALF_CHARACTER)
    return json.loads(SURROGATE.sub("\ufffd" if wanted.on_bad_bytes == "replace" else "", written))


def is_squad(told: Any) -> bool:
    """Whether a JSON value is of SQuAD's form, by its first article."""
    articles = told.get("data") if isinstance(told, dict) else told
    first = articles[0] if isinstance(articles, list) and articles else None
    return isinstance(first, dict) and "paragraphs" in first
