"""Small labelled data for tests: a few lines of every task, in both languages, and runs that are adapted to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from forebear.cli.main import main
from forebear.data.labeled.source import labeled_source
from forebear.demo.labeled_examples import TASK_FILES, format_task_file
from forebear.demo.labeled_examples import demo_examples as of_world
from forebear.experiments import pipeline
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import TrainingCallback
from small_runs import trained

TASKS = {task: name for name, (task, _) in TASK_FILES.items() if name != "topic" and name != "opinion"} | {"choice": ""}


@lru_cache
def written(task: str, count: int, seed: int = 0) -> str:
    """The text of a file with so many examples."""
    if task == "choice":
        return "".join(_choices(count, seed))
    name = TASKS[task]
    return "".join(format_task_file(name, of_world(name, count, seed)))


def _choices(count: int, seed: int):
    yield "text\tchoice1\tchoice2\tlabel\n"
    for number, one in enumerate(of_world("coherence", 3 * count, seed)):
        if number // 3 < count and one.label == "coherent":  # pyright: ignore[reportAttributeAccessIssue]
            words = one.text.split() if " " in one.text else list(one.text)  # pyright: ignore[reportAttributeAccessIssue]
            glue = " " if " " in one.text else ""  # pyright: ignore[reportAttributeAccessIssue]
            half = len(words) // 2
            right, wrong = glue.join(words[half:]), glue.join(reversed(words[half:]))
            first = number % 2
            pair = (wrong, right) if first else (right, wrong)
            yield f"{glue.join(words[:half])}\t{pair[0]}\t{pair[1]}\t{first}\n"


def suffix(task: str) -> str:
    return {"tagging": ".conll", "answering": ".json"}.get(task, ".tsv")


def file_of(task: str, folder: Path, count: int = 60, seed: int = 0) -> Path:
    file = folder / f"{task}-{count}-{seed}{suffix(task)}"
    if not file.exists():
        file.write_text(written(task, count, seed), encoding="utf-8")
    return file


def planned(begin: str | Path, task: str, folder: Path, count: int = 60, **settings: Any) -> pipeline.AdaptPlan:
    how = {
        name: settings.pop(name)
        for name in (
            *("how", "freeze_layers", "layer_decay", "language", "balanced"),
            *("reader", "reader_width", "mixture", "mixture_norm"),
        )
        if name in settings
    }
    options = {name: settings.pop(name) for name in ("crf",) if name in settings}
    source, _ = labeled_source(str(file_of(task, folder, count)), task=task)
    usual = {"steps": 12, "threads": 1, "precision": "float32"} if str(begin) != "ngram" else {}
    if str(begin) in ("crf", "hmm"):
        usual.pop("precision")  # they do without torch
    dropout = settings.pop("dropout", None)
    return pipeline.plan_adaptation(
        str(begin), source, how=how, options=options, dropout=dropout, settings={**usual, **settings}
    )


def adapted(
    begin: str | Path,
    task: str,
    folder: Path,
    *,
    to: str = "adapted",
    callback: TrainingCallback | None = None,
    **settings: Any,
) -> RunFolder:
    return pipeline.run_adaptation(planned(begin, task, folder, **settings), folder / to, callback=callback)


SHORT = ["--steps", "4", "--threads", "1", "--quiet"]  # a command that only has to come to its end


def home_of_runs(folder: Path, tasks: Iterable[str]) -> Path:
    """A folder with a small BERT, and runs of these names that were adapted from it by the command line."""
    (folder / "text.txt").write_text(written("pairs", 150).replace("\t", " ").replace("\n", "\n\n"))
    trained("bert", folder, steps=10, context=48, to="bert")
    for task in tasks:
        command = ["adapt", folder / "bert", file_of(task, folder, 40), "--task", task, "--to", folder / task, *SHORT]
        assert main([str(part) for part in command]) == 0
    return folder
