"""Finished runs beside each other by files of words that people judged: nothing is trained, and nothing is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.lineage import LINEAGE
from forebear.using.run import Run
from forebear.using.word_files import read_words

if TYPE_CHECKING:
    from forebear.using.word_measures import Agreement, Solved


@dataclass(frozen=True)
class Judged:
    """What the vectors of a run reach on a file: of all pairs or analogies, what is missing counted as told there."""

    file: str
    figure: float | None
    covered: int
    total: int

    @classmethod
    def of(cls, found: Agreement | Solved) -> Judged:
        told = found.facts()
        if told["kind"] == "similarity":
            return cls(PurePath(found.file).stem, told["spearman_all"], told["covered"], told["pairs"])
        return cls(PurePath(found.file).stem, told["accuracy_all"], told["covered"], told["total"])


@dataclass(frozen=True)
class JudgedRun:
    """A run and what each file says of it; with an error, why it could not be asked."""

    run: str
    title: str
    year: int
    words: int | None
    files: tuple[Agreement | Solved, ...] = ()
    error: str = ""

    @property
    def judged(self) -> dict[str, Judged]:
        """By the name of the file."""
        return {one.file: one for one in map(Judged.of, self.files)}

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"run": self.run, "milestone": self.title, "year": self.year, "words": self.words}
        return told | {"files": [one.facts() for one in self.files], "error": self.error}


def compare_words(runs: Sequence[str | os.PathLike[str]], files: Sequence[str | os.PathLike[str]]) -> list[JudgedRun]:
    """Each run on each file; one that has no vectors of words is a row with its error."""
    for file in files:
        read_words(file)  # what is wrong with it is told before any run is loaded
    return [_judged(Run.open(run), files) for run in runs]


def _judged(run: Run, files: Sequence[str | os.PathLike[str]]) -> JudgedRun:
    entry = LINEAGE[run.facts["milestone"]]
    try:
        found = tuple(run.measure_words(list(files)))
    except BadInput as error:
        return JudgedRun(str(run.folder.path), entry.title, entry.year, None, error=error.what)
    words = len(run.words.words) if "analogy" in run.verbs else None
    return JudgedRun(str(run.folder.path), entry.title, entry.year, words, found)
