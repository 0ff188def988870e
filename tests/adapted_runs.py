"""Small labeled data for tests: a few rows of every task in both languages, and runs adapted to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from forebear.cli.main import main
from forebear.data.labeled.labeled_source import labeled_source
from forebear.demo.labeled_examples import TASK_FILES, demo_examples, format_task_file
from forebear.experiments import training_run
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import TrainingCallback
from small_runs import train_small_run

TASKS = {task: name for name, (task, _) in TASK_FILES.items() if name != "topic" and name != "opinion"} | {"choice": ""}


@lru_cache
def task_file_text(task: str, count: int, seed: int = 0) -> str:
    """The text of a file with so many examples."""
    if task == "choice":
        return "".join(_choices(count, seed))
    name = TASKS[task]
    return "".join(format_task_file(name, demo_examples(name, count, seed)))


def _choices(count: int, seed: int):
    yield "text\tchoice1\tchoice2\tlabel\n"
    for number, example in enumerate(demo_examples("coherence", 3 * count, seed)):
        if number // 3 < count and example.label == "coherent":  # pyright: ignore[reportAttributeAccessIssue]
            words = example.text.split() if " " in example.text else list(example.text)  # pyright: ignore[reportAttributeAccessIssue]
            separator = " " if " " in example.text else ""  # pyright: ignore[reportAttributeAccessIssue]
            half = len(words) // 2
            right, wrong = separator.join(words[half:]), separator.join(reversed(words[half:]))
            right_index = number % 2
            pair = (wrong, right) if right_index else (right, wrong)
            yield f"{separator.join(words[:half])}\t{pair[0]}\t{pair[1]}\t{right_index}\n"


def suffix(task: str) -> str:
    return {"tagging": ".conll", "answering": ".json"}.get(task, ".tsv")


def task_file(task: str, folder: Path, count: int = 60, seed: int = 0) -> Path:
    file = folder / f"{task}-{count}-{seed}{suffix(task)}"
    if not file.exists():
        file.write_text(task_file_text(task, count, seed), encoding="utf-8")
    return file


def adaptation_plan(
    base: str | Path, task: str, folder: Path, count: int = 60, **settings: Any
) -> training_run.AdaptPlan:
    adaptation = {
        name: settings.pop(name)
        for name in (
            *("how", "freeze_layers", "layer_decay", "language", "balanced"),
            *("reader", "reader_width", "mixture", "mixture_norm"),
        )
        if name in settings
    }
    options = {name: settings.pop(name) for name in ("crf",) if name in settings}
    source, _ = labeled_source(str(task_file(task, folder, count)), task=task)
    defaults = {"steps": 12, "threads": 1, "precision": "float32"} if str(base) != "ngram" else {}
    if str(base) in ("crf", "hmm"):
        defaults.pop("precision")  # these do not use torch
    dropout = settings.pop("dropout", None)
    return training_run.plan_adaptation(
        str(base), source, how=adaptation, options=options, dropout=dropout, settings={**defaults, **settings}
    )


def adapt_small_run(
    base: str | Path,
    task: str,
    folder: Path,
    *,
    to: str = "adapted",
    callback: TrainingCallback | None = None,
    **settings: Any,
) -> RunFolder:
    return training_run.run_adaptation(adaptation_plan(base, task, folder, **settings), folder / to, callback=callback)


SHORT_TRAINING = ["--steps", "4", "--threads", "1", "--quiet"]  # for commands that only have to finish


def folder_of_adapted_runs(folder: Path, tasks: Iterable[str]) -> Path:
    """A folder with a small BERT and, for each of these tasks, a run adapted from it by the command line."""
    (folder / "text.txt").write_text(task_file_text("pairs", 150).replace("\t", " ").replace("\n", "\n\n"))
    train_small_run("bert", folder, steps=10, context=48, to="bert")
    for task in tasks:
        command = [
            "adapt",
            folder / "bert",
            task_file(task, folder, 40),
            "--task",
            task,
            "--to",
            folder / task,
            *SHORT_TRAINING,
        ]
        assert main([str(part) for part in command]) == 0
    return folder
