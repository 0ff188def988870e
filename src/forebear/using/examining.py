"""How well a run does its task on labelled examples: the field's figures, how sure it may be, and every mistake."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import is_asked
from forebear.tasks.classification import Classification
from forebear.tasks.examples import Example, Tagged, is_labelled, texts_of
from forebear.tasks.figures import calibration
from forebear.tasks.figures.words_metric import of_words_unseen
from forebear.tasks.files.splitting import Leaks
from forebear.tasks.predicting import Progress, predicted
from forebear.tasks.rows import Rows
from forebear.tasks.tagging import Tagging
from forebear.tasks.task import Logits, Task, Verdict
from forebear.text.unlisted import plain
from forebear.training.labelled import LabelledSource, labelled_source, learned_from, side_of

if TYPE_CHECKING:
    from forebear.using.run import Run

SHOWN = 5  # mistakes


@dataclass(frozen=True)
class Mistake:
    """An example that was judged wrongly."""

    example: Example
    verdict: Verdict

    def facts(self) -> dict[str, Any]:
        place = self.example.place
        told = {"file": place.file, "line": place.line, "name": place.name, "texts": list(texts_of(self.example))}
        return told | {
            "wanted": self.verdict.wanted,
            "said": self.verdict.said,
            "probability": self.verdict.probability,
        }


@dataclass(frozen=True)
class Examined:
    """The figures of a task on some examples, and the mistakes, those it was surest of first."""

    task: str
    score: str
    figures: dict[str, Any]
    calibration: dict[str, Any] | None
    mistakes: tuple[Mistake, ...]
    unlabelled: int
    notes: tuple[str, ...]
    seconds: float
    known: Leaks | None = None  # examples that the run has learned from, where that is known

    def facts(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "score": self.score,
            **self.figures,
            "calibration": self.calibration,
            "mistakes": len(self.mistakes),
            "first_mistakes": [mistake.facts() for mistake in self.mistakes[:SHOWN]],
            "unlabelled": self.unlabelled,
            "learned_from": None if self.known is None else self.known.exact,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def examine(
    run: Run,
    file: str | os.PathLike[str],
    *,
    on_bad_rows: str = "fail",
    on_bad_tags: str = "fail",
    progress: Progress | None = None,
) -> Examined:
    """Measures a run on a file of labelled examples, written as those that it learned from."""
    began = time.monotonic()
    task = run.task
    assert task is not None
    how: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
    notes: list[str] = []
    if "labelled" in run.facts:
        source = LabelledSource.from_json({**run.facts["labelled"]["source"], **how})
    else:  # imported: nobody knows what it learned from, and the file itself is looked at
        source, notes = labelled_source(os.fspath(file), task=task.name, **how)
    found = side_of(os.fspath(file), source, task.scheme, notes)
    examples = [example for example in found if is_labelled(example)]
    if not examples:
        remedy = f"give labelled examples; without labels, ask: forebear {task.verb} RUN --in FILE"
        raise BadInput("no example has a label: there is nothing to measure", file=file, remedy=remedy)
    notes += _never_learned(task, examples, file)
    rows = task.rows(examples, run.tokenizer, run.folder.milestone.layout(run.tokenizer))
    logits = predicted(run.network, rows, progress)
    answers = task.answers(examples, rows, logits)
    verdicts = [task.verdict(example, answer) for example, answer in zip(examples, answers, strict=True)]
    wrong = [Mistake(one, verdict) for one, verdict in zip(examples, verdicts, strict=True) if not verdict.right]
    wrong.sort(key=lambda mistake: -(mistake.verdict.probability or 0.0))
    return Examined(
        task.name,
        task.score,
        _figures(run, task, examples, answers),
        sureness(task, rows, logits),
        tuple(wrong),
        len(found) - len(examples),
        tuple(notes),
        time.monotonic() - began,
        learned_from(run.facts["labelled"], examples) if "labelled" in run.facts else None,
    )


def _never_learned(task: Task, examples: Sequence[Example], file: str | os.PathLike[str]) -> list[str]:
    """What to know of tags that stand for themselves and that nobody can have learned; an error where all are such."""
    if not isinstance(task, Tagging) or not task.is_plain:
        return []
    wanted = Counter(tag for example in examples if isinstance(example, Tagged) for tag in example.tags or ())
    strange = {tag: count for tag, count in wanted.items() if tag not in task.tags}
    if not strange:
        return []
    names = ", ".join(sorted(strange, key=lambda tag: -strange[tag])[:SHOWN])
    if len(strange) == len(wanted):
        what = f"none of its tags ({names}) is one of those that were learned ({', '.join(task.tags[:SHOWN])}, …)"
        raise BadInput(what, file=file, remedy="give a file of the same tags, or ask a run that learned these")
    return [f"words whose tag was never learned, and which count as mistakes: {sum(strange.values()):,} ({names})"]


def _figures(run: Run, task: Task, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, Any]:
    """The task's own; and how words do that training did not have, where the run's vocabulary is of all it had."""
    figures = task.measured(examples, answers)
    if not isinstance(task, Tagging) or not task.is_plain or not run.folder.milestone.learns_tags:
        return figures
    words = sorted({word for example in examples if isinstance(example, Tagged) for word in example.words})
    tokenizer = plain(run.tokenizer)
    ids, counts = tokenizer.encode_many(words)
    pieces = np.split(ids == tokenizer.unknown, np.cumsum(counts)[:-1])
    known = {word for word, lacks in zip(words, pieces, strict=True) if not lacks.any()}
    return figures | of_words_unseen(examples, answers, known)


def sureness(task: Task, rows: Rows, logits: Logits) -> dict[str, Any] | None:
    """Whether it is right as often as it says; None where it says nothing of the kind."""
    if not isinstance(task, Classification) or task.kind == "number":
        return None
    asked = is_asked(rows.targets["label"])
    if not asked.any():
        return None
    return calibration.of_logits(np.stack(logits["label"])[asked], rows.targets["label"][asked], task.temperature)


def write_mistakes(examined: Examined, file: Path) -> None:
    """A table with tabs between: where it stands, what was wanted and said, how surely, and the text."""
    from forebear.text.aside import disk_told, written_aside

    with disk_told(file), written_aside(file) as aside:
        aside.write(b"file\tline\twanted\tsaid\tprobability\ttext\n")
        for mistake in examined.mistakes:
            place, verdict = mistake.example.place, mistake.verdict
            sure = "" if verdict.probability is None else f"{verdict.probability:.4f}"
            cells = [place.file or "", place.line or place.name or "", verdict.wanted, verdict.said, sure]
            cells += texts_of(mistake.example)
            aside.write(("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n").encode("utf-8", "replace"))
