"""The small world's labelled examples as files that people write: tables, CoNLL columns, SQuAD's JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from forebear.demo.examples import Answered, Example, Labelled, Pair, Parallel, Tagged, examples
from forebear.demo.world import Language

# The task of the small world, what it is an example of, and how its file is called.
FILES = {
    "opinion": ("classification", "opinion.tsv"),
    "topic": ("classification", "topic.tsv"),
    "coherence": ("classification", "coherence.tsv"),
    "matching": ("pairs", "matching.tsv"),
    "paraphrase": ("pairs", "paraphrase.tsv"),
    "names": ("tagging", "names.conll"),
    "answers": ("answering", "answers.json"),
}
TEST_SEED = 1_000_003  # examples for the test come from another seed than those to learn from


def write_tasks(
    folder: Path, count: int, tests: int, *, seed: int = 0, language: Language = "both"
) -> dict[str, tuple[Path, Path]]:
    """Writes each task's examples to learn from and those for the test; returns their files."""
    written = {}
    for name, (_, file) in FILES.items():
        paths = []
        for side, number, own in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
            path = folder / f"{Path(file).stem}.{side}{Path(file).suffix}"
            told = "".join(lines(name, examples(name, number, own, language)))
            if not path.exists() or path.read_text(encoding="utf-8") != told:
                path.write_text(told, encoding="utf-8")
            paths.append(path)
        written[name] = (paths[0], paths[1])
    return written


def write_pairs(folder: Path, count: int, tests: int, *, seed: int = 0) -> tuple[Path, Path]:
    """Writes sentences in English and Chinese, side by side, to learn from and for the test; returns the files."""
    paths = []
    for side, number, own in (("train", count, seed), ("test", tests, seed + TEST_SEED)):
        told = [one for one in examples("parallel", number, own) if isinstance(one, Parallel)]
        path = folder / f"pairs.{side}.tsv"
        rows = (f"{_flat(one.english)}\t{_flat(one.chinese)}\n" for one in told)
        path.write_text("en\tzh\n" + "".join(rows), encoding="utf-8")
        paths.append(path)
    return paths[0], paths[1]


def lines(name: str, given: Iterable[Example]) -> Iterator[str]:
    """The text of a file with these examples."""
    if FILES[name][0] == "answering":
        yield json.dumps(_squad(given), ensure_ascii=False) + "\n"
        return
    if FILES[name][0] != "tagging":
        yield "text\tlabel\n" if FILES[name][0] == "classification" else "first\tsecond\tlabel\n"
    for one in given:
        if isinstance(one, Labelled):
            yield f"{_flat(one.text)}\t{one.label}\n"
        elif isinstance(one, Pair):
            yield f"{_flat(one.first)}\t{_flat(one.second)}\t{one.label}\n"
        elif isinstance(one, Tagged):
            rows = zip(one.pieces, one.tags, strict=True)
            yield "".join(f"{piece}\t{tag}\n" for piece, tag in rows) + "\n"


def _squad(given: Iterable[Example]) -> dict[str, Any]:
    data = []
    for number, one in enumerate(given):
        assert isinstance(one, Answered)
        answer = {"text": one.answer, "answer_start": one.start}
        question = {"id": str(number), "question": one.question, "answers": [answer]}
        data.append({"title": str(number), "paragraphs": [{"context": one.passage, "qas": [question]}]})
    return {"version": "1.1", "data": data}


def _flat(text: str) -> str:
    """On one line, as a table wants it."""
    return " ".join(text.split())
