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

from forebear.data.labeled.examples import Example, TaggedExample, example_texts, is_labeled
from forebear.data.labeled.source import LabeledSource, labeled_source, read_extra_split, trained_examples
from forebear.data.labeled.split import SplitLeakage
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import is_supervised
from forebear.tasks import metrics
from forebear.tasks.classification import Classification
from forebear.tasks.metrics import oov_tagging_accuracy
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Judgment, Logits, ProgressFn, Task, predict_logits
from forebear.tasks.task_batches import ExampleRows

if TYPE_CHECKING:
    from forebear.inference.run import Run

SHOWN = 5  # mistakes


@dataclass(frozen=True)
class Misprediction:
    """An example that was judged wrongly."""

    example: Example
    judgment: Judgment

    def to_dict(self) -> dict[str, Any]:
        place = self.example.place
        told = {"file": place.file, "line": place.line, "name": place.name, "texts": list(example_texts(self.example))}
        return told | {
            "wanted": self.judgment.wanted,
            "said": self.judgment.said,
            "probability": self.judgment.probability,
        }


@dataclass(frozen=True)
class TaskEvaluation:
    """The figures of a task on some examples, and the mistakes, those it was surest of first."""

    task: str
    score: str
    metrics: dict[str, Any]
    calibration: dict[str, Any] | None
    mispredictions: tuple[Misprediction, ...]
    num_unlabeled: int
    notes: tuple[str, ...]
    seconds: float
    known_words: SplitLeakage | None = None  # examples that the run has learned from, where that is known

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "score": self.score,
            **self.metrics,
            "calibration": self.calibration,
            "mistakes": len(self.mispredictions),
            "first_mistakes": [mistake.to_dict() for mistake in self.mispredictions[:SHOWN]],
            "unlabelled": self.num_unlabeled,
            "learned_from": None if self.known_words is None else self.known_words.num_exact,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def evaluate_task(
    run: Run,
    file: str | os.PathLike[str],
    *,
    on_bad_rows: str = "fail",
    on_bad_tags: str = "fail",
    progress: ProgressFn | None = None,
) -> TaskEvaluation:
    """Measures a run on a file of labelled examples, written as those that it learned from."""
    began = time.monotonic()
    task = run.task
    assert task is not None
    how: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
    notes: list[str] = []
    if "labelled" in run.metadata:
        source = LabeledSource.from_dict({**run.metadata["labelled"]["source"], **how})
    else:  # imported: nobody knows what it learned from, and the file itself is looked at
        source, notes = labeled_source(os.fspath(file), task=task.name, **how)
    found = read_extra_split(os.fspath(file), source, task.scheme, notes)
    examples = [example for example in found if is_labeled(example)]
    if not examples:
        hint = f"give labelled examples; without labels, ask: forebear {task.verb} RUN --in FILE"
        raise InputError("no example has a label: there is nothing to measure", file=file, hint=hint)
    notes += _never_learned(task, examples, file)
    rows = task.encode(examples, run.tokenizer, run.folder.spec.input_format(run.tokenizer))
    logits = predict_logits(run.network, rows, progress)
    answers = task.predictions(examples, rows, logits)
    verdicts = [task.judge(example, answer) for example, answer in zip(examples, answers, strict=True)]
    wrong = [Misprediction(one, verdict) for one, verdict in zip(examples, verdicts, strict=True) if not verdict.right]
    wrong.sort(key=lambda mistake: -(mistake.judgment.probability or 0.0))
    return TaskEvaluation(
        task.name,
        task.score,
        _figures(run, task, examples, answers),
        sureness(task, rows, logits),
        tuple(wrong),
        len(found) - len(examples),
        tuple(notes),
        time.monotonic() - began,
        trained_examples(run.metadata["labelled"], examples) if "labelled" in run.metadata else None,
    )


def _never_learned(task: Task, examples: Sequence[Example], file: str | os.PathLike[str]) -> list[str]:
    """What to know of tags that stand for themselves and that nobody can have learned; an error where all are such."""
    if not isinstance(task, SequenceTagging) or not task.is_plain:
        return []
    wanted = Counter(tag for example in examples if isinstance(example, TaggedExample) for tag in example.tags or ())
    strange = {tag: count for tag, count in wanted.items() if tag not in task.tags}
    if not strange:
        return []
    names = ", ".join(sorted(strange, key=lambda tag: -strange[tag])[:SHOWN])
    if len(strange) == len(wanted):
        what = f"none of its tags ({names}) is one of those that were learned ({', '.join(task.tags[:SHOWN])}, …)"
        raise InputError(what, file=file, hint="give a file of the same tags, or ask a run that learned these")
    return [f"words whose tag was never learned, and which count as mistakes: {sum(strange.values()):,} ({names})"]


def _figures(run: Run, task: Task, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, Any]:
    """The task's own; and how words do that training did not have, where the run's vocabulary is of all it had."""
    figures = task.evaluate(examples, answers)
    if not isinstance(task, SequenceTagging) or not task.is_plain or not run.folder.spec.learns_tags:
        return figures
    words = sorted({word for example in examples if isinstance(example, TaggedExample) for word in example.words})
    tokenizer = base_tokenizer(run.tokenizer)
    ids, counts = tokenizer.encode_many(words)
    pieces = np.split(ids == tokenizer.unk_id, np.cumsum(counts)[:-1])
    known = {word for word, lacks in zip(words, pieces, strict=True) if not lacks.any()}
    return figures | oov_tagging_accuracy(examples, answers, known)


def sureness(task: Task, rows: ExampleRows, logits: Logits) -> dict[str, Any] | None:
    """Whether it is right as often as it says; None where it says nothing of the kind."""
    if not isinstance(task, Classification) or task.kind == "number":
        return None
    asked = is_supervised(rows.targets["label"])
    if not asked.any():
        return None
    return metrics.calibration(np.stack(logits["label"])[asked], rows.targets["label"][asked], task.temperature)


def write_mispredictions(examined: TaskEvaluation, file: Path) -> None:
    """A table with tabs between: where it stands, what was wanted and said, how surely, and the text."""
    from forebear.data.io.atomic import atomic_write, explain_disk_errors

    with explain_disk_errors(file), atomic_write(file) as aside:
        aside.write(b"file\tline\twanted\tsaid\tprobability\ttext\n")
        for mistake in examined.mispredictions:
            place, verdict = mistake.example.place, mistake.judgment
            sure = "" if verdict.probability is None else f"{verdict.probability:.4f}"
            cells = [place.file or "", place.line or place.name or "", verdict.wanted, verdict.said, sure]
            cells += example_texts(mistake.example)
            aside.write(("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n").encode("utf-8", "replace"))
