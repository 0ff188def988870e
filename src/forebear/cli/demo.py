"""`forebear demo`: the whole lineage, once, on text that comes with forebear."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.compare import comparison_progress, print_comparison
from forebear.cli.output import Output, make_table, watching

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.demo.world import DemoDocument
    from forebear.experiments.comparison.results import TextComparison

# The demo's second half: four tasks, learned by counting, by one that looks back and by one that looks both ways.


DEMO_MODELS = ("ngram", "gpt2", "bert")  # one of each kind
EXAMPLES, TESTS = 2000, 300
# What is asked, in the words of the small world's files; and a text to try it on.
TASK_QUESTIONS = {
    "coherence": ("is this a sentence?", '"The tall doctor sold a red kite."'),
    "paraphrase": ("do two sentences say the same?", '"我很喜欢你。" "我很中意你。"'),
    "names": ("who, where, which organisation?", '"何娜在柳岸镇遇见了陈志远。"'),
    "answers": ("where is the answer?", '"谁卖了茶壶？" "星期三，何娜卖了一把茶壶。"'),
}


def adapt_demo_runs(
    folder: Path, found: TextComparison, home: Path, seconds: float, speaking: Output
) -> list[dict[str, Any]]:
    """Adapts the runs of the comparison to each task for so many seconds; a row for each, what is finished stays."""
    from forebear.data.labeled.source import labeled_source
    from forebear.demo.labeled_examples import TASK_FILES, write_demo_tasks
    from forebear.experiments.pipeline import plan_adaptation, run_adaptation

    runs = {row.name: home / trial.run for row in found.rows for trial in row.trials[:1] if trial.finished}
    files = write_demo_tasks(folder, EXAMPLES, TESTS)
    rows = []
    with watching(Output(quiet=True)) as watcher:
        for name, (what, _) in TASK_QUESTIONS.items():
            train, test = map(str, files[name])
            source, _notes = labeled_source(train, task=TASK_FILES[name][0], test=test)
            for milestone in DEMO_MODELS:
                begin = "ngram" if milestone == "ngram" else str(runs.get(milestone, ""))
                if not begin:
                    continue
                if not speaking.quiet:
                    _say(f"{milestone} learns: {what}")
                settings: dict[str, Any] = {"time": seconds}
                made = run_adaptation(
                    plan_adaptation(begin, source, settings=settings),
                    home / "tasks" / f"{name}-{milestone}",
                    watcher=watcher,
                )
                assert made.task is not None
                score = made.metadata["metrics"]["test"][made.task.score]
                rows.append({"task": name, "asks": what, "milestone": milestone, "score": score})
                rows[-1] |= {"figure": made.task.score, "seconds": made.metadata["seconds"], "run": str(made.path)}
                rows[-1] |= {"verb": made.task.verb}
    return rows


def _say(words: str) -> None:
    import sys

    print(words, file=sys.stderr)  # noqa: T201


def print_task_table(console: Console, rows: list[dict[str, Any]]) -> None:
    """A line for each task, a column for each who learned it."""
    made = make_table("task", "figure", *(f">{name}" for name in DEMO_MODELS), title="Four tasks, scores on the test")
    for name, (what, _) in TASK_QUESTIONS.items():
        own = {row["milestone"]: row for row in rows if row["task"] == name}
        if own:
            figure = next(iter(own.values()))["figure"].replace("_", " ")
            scores = [f"{own[one]['score']:.3f}" if one in own else "" for one in DEMO_MODELS]
            made.add_row(what, figure, *scores)
    console.print(made)
    console.print(
        "(ngram: a linear model over words and pairs of words; gpt2 and bert go on from what they read)", style="dim"
    )


def next_steps(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What to try with the best of each task."""
    best: Mapping[str, dict[str, Any]] = {
        name: max((row for row in rows if row["task"] == name), key=lambda row: row["score"])
        for name in TASK_QUESTIONS
        if rows
    }
    return [
        (f"forebear {row['verb']} {row['run']} {TASK_QUESTIONS[name][1]}", row["asks"]) for name, row in best.items()
    ]


SIZE = 2_000_000  # bytes of text
SEED = 7
OF_TASKS = 0.4  # of the time
LEARNED = len(TASK_QUESTIONS) * (len(DEMO_MODELS) - 1)  # adaptations that take their time; counting does not
# A blank to fill, how a text may begin, a word, and two sentences to weigh against each other: as the text speaks.
ASKED = {
    "world": (
        "鸥湾今天有____，和前几天一样。",
        "The river",
        "doctor",
        "虽然下雨了，他还是买了一把伞。",
        "虽然雨下了，他还是伞买了一把。",
    ),
    "manual": ("a ____ of strings", "Return the", "string", "Return a list of strings.", "Return of strings a list."),
}


def demo(
    *,
    to: Path = Path("forebear-demo"),
    text: Literal["world", "manual", "mixture"] = "world",
    time: str = "4m",
    tasks: bool = True,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Output = Output(),
) -> None:
    """Train every milestone on text that comes with forebear, compare them, teach some of them four tasks.

    A second call goes on where the first stopped, or shows its result.

    ```
    forebear demo
    forebear demo --text manual --time 1m --to tried/manual
    ```

    Parameters
    ----------
    to
        The folder for the text, the runs and the page.
    text
        world: a small town, told in English and Chinese by a grammar whose true entropy is known, so that a model's
        distance to the limit shows; manual: Python's own documentation; mixture: both.
    time
        How long all may learn together, a little more than half of it from text, the rest from labelled examples.
    tasks
        Learn tasks too (of the world: its examples are right by construction).
    overwrite
        Replace what an earlier demo with another --time left there.
    """
    from forebear.data.io.atomic import explain_disk_errors
    from forebear.experiments.comparison.compare import COMPARISON_PAGE, compare
    from forebear.experiments.comparison.verdict import text_conclusions
    from forebear.registry import model_spec, text_models
    from forebear.settings.units import parse_duration

    with explain_disk_errors(to):
        to.mkdir(parents=True, exist_ok=True)
        file, limit = write_text(to, text)
    kinds = [model_spec(name) for name in text_models()]
    timed = sum(kind.learning != "counting" or kind.counts_again for kind in kinds)
    share = OF_TASKS if tasks and text == "world" else 0.0
    with comparison_progress(speaking) as hear:
        found = compare(
            str(file),
            to=to / text,
            time=(1 - share) * parse_duration(time) / max(1, timed),
            limit=limit,
            overwrite=overwrite,
            command=f"forebear demo --text {text} --time {time} --to {to}",
            hear=hear,
        )
    rows = adapt_demo_runs(to, found, to / text, share * parse_duration(time) / LEARNED, speaking) if share else []
    facts = {
        **found.to_dict(),
        "tasks": rows,
        "folder": str(to),
        "text": str(file),
        "page": str(to / text / COMPARISON_PAGE),
    }
    further_ = [*next_steps(rows), *_further(to, text, found)]
    facts |= {"verdict": text_conclusions(found), "next": [command for command, _ in further_]}
    speaking.emit(facts, lambda console: _draw(console, found, facts, further_))


def write_text(folder: Path, text: str) -> tuple[Path, float | None]:
    """The chosen text as a file, and its true entropy in bits per byte where that is known."""
    from forebear.demo import demo_text, world

    limit = None
    if text == "world":
        stories = list(world.world_documents("both", SIZE, SEED))
        documents = [story.text for story in stories]
        limit = _limit(stories)
    else:
        documents = demo_text.manual_documents() if text == "manual" else list(demo_text.mixed_documents(SIZE, SEED))
    file = folder / f"{text}.txt"
    told = "\n\n".join(documents) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != told:
        file.write_text(told, encoding="utf-8")
    return file, limit


def _limit(stories: list[DemoDocument]) -> float:
    """What the held-out stories tell, by their bytes: no model can predict them with less."""
    import numpy as np

    from forebear.data.corpus.encode import content_hash
    from forebear.data.corpus.subset import held_out_mask
    from forebear.training.settings import Recipe

    apart = held_out_mask(np.array([content_hash(story.text) for story in stories], np.uint64), Recipe().held_out)
    chosen = [story for story, examines in zip(stories, apart.tolist(), strict=True) if examines]
    return sum(story.bits for story in chosen) / sum(len(story.text.encode()) for story in chosen)


def _further(to: Path, text: str, found: TextComparison) -> list[tuple[str, str]]:
    """What to try next, with what is there now."""
    runs = {row.name: trial.run for row in found.rows for trial in row.trials[:1] if trial.finished}
    blank, begun, word, *sentences = ASKED["manual" if text == "manual" else "world"]
    said = []
    for name, run in runs.items():
        place = to / text / run
        if name == "ngram":
            said.append((f'forebear next {place} "{blank}"', "what fills a blank, by counting"))
        elif name == "word2vec":
            said.append((f"forebear neighbours {place} {word}", "which words stand where this one does"))
        elif name == "bert":
            tokens = "" if text == "manual" else " --tokens 2"
            said.append((f'forebear fill {place} "{blank}"{tokens}', "what fills a blank, seen from both sides"))
        elif name == "gpt2":
            said.append((f'forebear generate {place} "{begun}"', "let it write on"))
            pair = " ".join(f'"{sentence}"' for sentence in sentences)
            said.append((f"forebear score {place} {pair} --tokens", "which sentence is likelier, and why"))
    longer = f"forebear demo --text {text} --time 30m --to {to}-longer"
    said.append((longer, "networks gain by time, counting does not"))
    said.append(("forebear explain gpt2", "what a milestone is, and what it costs"))
    said.append(("forebear compare YOUR.txt --time 2m", "the same on your own text"))
    return said


def _draw(console: Console, found: TextComparison, facts: dict[str, Any], further: list[tuple[str, str]]) -> None:
    from rich.markup import escape

    print_comparison(console, found, facts)
    for row in found.rows:
        sample = next((trial.sample for trial in row.trials if trial.sample), "")
        if sample:
            words = " ".join(f"{found.prompt}{sample}".split())
            console.print(f"[bold]{escape(row.title)}[/] writes: {escape(words[:300])}", soft_wrap=True)
    if facts["tasks"]:
        print_task_table(console, facts["tasks"])
    console.print("\n[bold]try next[/]")
    for command, what in further:
        console.print(f"# {what}", style="dim", markup=False, soft_wrap=True)
        console.print(command, markup=False, soft_wrap=True)
    console.print("(. .venv/bin/activate puts the forebear command on your path)", style="dim", markup=False)
