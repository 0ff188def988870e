"""The demo's second half: four tasks, learned by counting, by one that looks back and by one that looks both ways."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.printing import Speaking, table
from forebear.cli.watching import watching

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.comparing.outcomes import Comparison

TAUGHT = ("ngram", "gpt2", "bert")  # one of each kind
EXAMPLES, TESTS = 2000, 300
# What is asked, in the words of the small world's files; and a text to try it on.
SHOWN = {
    "coherence": ("is this a sentence?", '"The tall doctor sold a red kite."'),
    "paraphrase": ("do two sentences say the same?", '"我很喜欢你。" "我很中意你。"'),
    "names": ("who, where, which organisation?", '"何娜在柳岸镇遇见了陈志远。"'),
    "answers": ("where is the answer?", '"谁卖了茶壶？" "星期三，何娜卖了一把茶壶。"'),
}


def learned(folder: Path, found: Comparison, home: Path, seconds: float, speaking: Speaking) -> list[dict[str, Any]]:
    """Adapts the runs of the comparison to each task for so many seconds; a row for each, what is finished stays."""
    from forebear.demo.labelled import FILES, write_tasks
    from forebear.training.labelled import labelled_source
    from forebear.using.adapting import adapt, plan

    runs = {row.name: home / trial.run for row in found.rows for trial in row.trials[:1] if trial.finished}
    files = write_tasks(folder, EXAMPLES, TESTS)
    rows = []
    with watching(Speaking(quiet=True)) as watcher:
        for name, (what, _) in SHOWN.items():
            train, test = map(str, files[name])
            source, _notes = labelled_source(train, task=FILES[name][0], test=test)
            for milestone in TAUGHT:
                begin = "ngram" if milestone == "ngram" else str(runs.get(milestone, ""))
                if not begin:
                    continue
                if not speaking.quiet:
                    _say(f"{milestone} learns: {what}")
                settings: dict[str, Any] = {"time": seconds}
                made = adapt(
                    plan(begin, source, settings=settings), home / "tasks" / f"{name}-{milestone}", watcher=watcher
                )
                assert made.task is not None
                score = made.facts["metrics"]["test"][made.task.score]
                rows.append({"task": name, "asks": what, "milestone": milestone, "score": score})
                rows[-1] |= {"figure": made.task.score, "seconds": made.facts["seconds"], "run": str(made.path)}
                rows[-1] |= {"verb": made.task.verb}
    return rows


def _say(words: str) -> None:
    import sys

    print(words, file=sys.stderr)  # noqa: T201


def drawn(console: Console, rows: list[dict[str, Any]]) -> None:
    """A line for each task, a column for each who learned it."""
    made = table("task", "figure", *(f">{name}" for name in TAUGHT), title="Four tasks, scores on the test")
    for name, (what, _) in SHOWN.items():
        own = {row["milestone"]: row for row in rows if row["task"] == name}
        if own:
            figure = next(iter(own.values()))["figure"].replace("_", " ")
            scores = [f"{own[one]['score']:.3f}" if one in own else "" for one in TAUGHT]
            made.add_row(what, figure, *scores)
    console.print(made)
    console.print(
        "(ngram: a linear model over words and pairs of words; gpt2 and bert go on from what they read)", style="dim"
    )


def further(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What to try with the best of each task."""
    best: Mapping[str, dict[str, Any]] = {
        name: max((row for row in rows if row["task"] == name), key=lambda row: row["score"]) for name in SHOWN if rows
    }
    return [(f"forebear {row['verb']} {row['run']} {SHOWN[name][1]}", row["asks"]) for name, row in best.items()]
