"""`forebear demo`: train and compare every model on embedded text, and adapt some of them to tasks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.markup import escape

from forebear.cli.compare import comparison_progress, print_comparison
from forebear.cli.output import Console, Output, Switch, Table, number_cell, training_progress

if TYPE_CHECKING:
    from forebear.demo.stories import DemoDocument
    from forebear.experiments.comparison.results import TextComparison

# Models that learn the four tasks: an n-gram model, a decoder and an encoder.
DEMO_MODELS = ("ngram", "gpt2", "bert")
NUM_EXAMPLES, NUM_TEST_EXAMPLES = 2000, 300
# Each task as a question, and a text to try it on.
TASK_QUESTIONS = {
    "coherence": ("is this a sentence?", '"The tall doctor sold a red kite."'),
    "paraphrase": ("do two sentences say the same?", '"我很喜欢你。" "我很中意你。"'),
    "names": ("who, where, which organisation?", '"何娜在柳岸镇遇见了陈志远。"'),
    "answers": ("where is the answer?", '"谁卖了茶壶？" "星期三，何娜卖了一把茶壶。"'),
}
TEXT_BYTES = 2_000_000
SEED = 7
TASK_TIME_FRACTION = 0.4  # fraction of the time for tasks
NUM_TIMED_ADAPTATIONS = len(TASK_QUESTIONS) * (len(DEMO_MODELS) - 1)  # counting takes no time
# In the style of each text: a blank to fill, a prompt, a word, and two sentences to score.
WORLD_SENTENCES = ("虽然下雨了，他还是买了一把伞。", "虽然雨下了，他还是伞买了一把。")
SAMPLE_INPUTS = {
    "world": ("鸥湾今天有____，和前几天一样。", "The river", "doctor", *WORLD_SENTENCES),
    "manual": ("a ____ of strings", "Return the", "string", "Return a list of strings.", "Return of strings a list."),
}


def adapt_demo_runs(
    folder: Path, comparison: TextComparison, runs_folder: Path, seconds: float, output: Output
) -> list[dict[str, Any]]:
    """Adapt the runs of the comparison to each task, for `seconds` each; one row per run, finished ones included."""
    from forebear.data.labeled.labeled_source import labeled_source
    from forebear.demo.labeled_examples import TASK_FILES, write_demo_tasks
    from forebear.experiments.training_run import plan_adaptation, run_adaptation

    runs = {row.name: runs_folder / trial.run for row in comparison.rows for trial in row.trials[:1] if trial.finished}
    files = write_demo_tasks(folder, NUM_EXAMPLES, NUM_TEST_EXAMPLES)
    rows = []
    with training_progress(Output(quiet=True)) as callback:
        for name, (question, _) in TASK_QUESTIONS.items():
            train, test = map(str, files[name])
            source, _notes = labeled_source(train, task=TASK_FILES[name][0], test=test)
            for milestone in DEMO_MODELS:
                base_model = "ngram" if milestone == "ngram" else str(runs.get(milestone, ""))
                if not base_model:
                    continue
                if not output.quiet:
                    print(f"{milestone} learns: {question}", file=sys.stderr)  # noqa: T201
                plan = plan_adaptation(base_model, source, settings={"time": seconds})
                run = run_adaptation(plan, runs_folder / "tasks" / f"{name}-{milestone}", callback=callback)
                assert run.task is not None
                score = run.metadata["metrics"]["test"][run.task.metric]
                row = {"task": name, "asks": question, "milestone": milestone, "score": score}
                row |= {"figure": run.task.metric, "seconds": run.metadata["seconds"], "run": str(run.path)}
                rows.append(row | {"verb": run.task.verb})
    return rows


def demo(
    *,
    to: Path = Path("forebear-demo"),
    text: Literal["world", "manual", "mixture"] = "world",
    time: str = "4m",
    tasks: bool = True,
    overwrite: Switch = False,
    output: Output = Output(),
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
        text_file, limit = write_text(to, text)
    specs = [model_spec(name) for name in text_models()]
    num_timed = sum(spec.learning != "counting" or spec.counts_again for spec in specs)
    task_fraction = TASK_TIME_FRACTION if tasks and text == "world" else 0.0
    with comparison_progress(output) as on_progress:
        comparison = compare(
            str(text_file),
            to=to / text,
            time=(1 - task_fraction) * parse_duration(time) / max(1, num_timed),
            limit=limit,
            overwrite=overwrite,
            command=f"forebear demo --text {text} --time {time} --to {to}",
            on_progress=on_progress,
        )
    seconds = task_fraction * parse_duration(time) / NUM_TIMED_ADAPTATIONS
    rows = adapt_demo_runs(to, comparison, to / text, seconds, output) if task_fraction else []
    result = {**comparison.to_dict(), "tasks": rows, "folder": str(to), "text": str(text_file)}
    result["page"] = str(to / text / COMPARISON_PAGE)
    suggestions = _suggested_commands(to, text, comparison, rows)
    result |= {"verdict": text_conclusions(comparison), "next": [command for command, _ in suggestions]}
    output.emit(result, lambda console: _print_demo(console, comparison, result, suggestions))


def write_text(folder: Path, text: str) -> tuple[Path, float | None]:
    """Write the chosen text; return the file and its true entropy in bits per byte, if known."""
    from forebear.demo import demo_text, python_manual, stories

    limit = None
    if text == "world":
        stories = list(stories.world_documents("both", TEXT_BYTES, SEED))
        documents = [story.text for story in stories]
        limit = _entropy_limit(stories)
    elif text == "manual":
        documents = python_manual.manual_documents()
    else:
        documents = demo_text.mixed_documents(TEXT_BYTES, SEED)
    file = folder / f"{text}.txt"
    content = "\n\n".join(documents) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != content:
        file.write_text(content, encoding="utf-8")
    return file, limit


def _entropy_limit(stories: list[DemoDocument]) -> float:
    """The entropy of the held-out stories in bits per byte: a lower bound for every model."""
    import numpy as np

    from forebear.data.corpus.document_encoder import content_hash
    from forebear.data.corpus.subset import held_out_mask
    from forebear.training.settings import Recipe

    held_out = held_out_mask(np.array([content_hash(story.text) for story in stories], np.uint64), Recipe().held_out)
    held_out_stories = [story for story, is_held_out in zip(stories, held_out.tolist(), strict=True) if is_held_out]
    return sum(story.bits for story in held_out_stories) / sum(len(story.text.encode()) for story in held_out_stories)


def _suggested_commands(
    to: Path, text: str, comparison: TextComparison, task_rows: list[dict[str, Any]]
) -> list[tuple[str, str]]:
    """Commands that try the best run of each task and the runs of the comparison."""
    runs = {row.name: to / text / trial.run for row in comparison.rows for trial in row.trials[:1] if trial.finished}
    blank, prompt, word, first, second = SAMPLE_INPUTS["manual" if text == "manual" else "world"]
    tokens = "" if text == "manual" else " --tokens 2"
    examples = (
        ("ngram", "next", f'"{blank}"', "what fills a blank, by counting"),
        ("word2vec", "neighbours", word, "which words stand where this one does"),
        ("gpt2", "generate", f'"{prompt}"', "let it write on"),
        ("gpt2", "score", f'"{first}" "{second}" --tokens', "which sentence is likelier, and why"),
        ("bert", "fill", f'"{blank}"{tokens}', "what fills a blank, seen from both sides"),
    )
    commands = []
    for name, (_, example) in TASK_QUESTIONS.items() if task_rows else ():
        best = max((row for row in task_rows if row["task"] == name), key=lambda row: row["score"])
        commands.append((f"forebear {best['verb']} {best['run']} {example}", best["asks"]))
    for name, run in runs.items():
        model_examples = (example for example in examples if example[0] == name)
        commands += [(f"forebear {verb} {run} {text}", description) for _, verb, text, description in model_examples]
    longer = f"forebear demo --text {text} --time 30m --to {to}-longer"
    commands.append((longer, "networks gain by time, counting does not"))
    commands.append(("forebear explain gpt2", "what a milestone is, and what it costs"))
    commands.append(("forebear compare YOUR.txt --time 2m", "the same on your own text"))
    return commands


def _print_demo(
    console: Console, comparison: TextComparison, result: dict[str, Any], suggestions: list[tuple[str, str]]
) -> None:
    print_comparison(console, comparison, result)
    for row in comparison.rows:
        sample = next((trial.sample for trial in row.trials if trial.sample), "")
        if sample:
            words = " ".join(f"{comparison.prompt}{sample}".split())
            console.print(f"[bold]{escape(row.title)}[/] writes: {escape(words[:300])}", soft_wrap=True)
    if rows := result["tasks"]:
        table = Table("task", "figure", *(f">{name}" for name in DEMO_MODELS), title="Four tasks, scores on the test")
        for name, (question, _) in TASK_QUESTIONS.items():
            scores = {row["milestone"]: row["score"] for row in rows if row["task"] == name}
            metrics = {row["figure"].replace("_", " ") for row in rows if row["task"] == name}
            if scores:
                table.add_row(question, *metrics, *(number_cell(scores.get(model), ".3f") for model in DEMO_MODELS))
        console.print(table)
        note = "(ngram: a linear model over words and pairs of words; gpt2 and bert go on from what they read)"
        console.print(note, style="dim")
    console.print("\n[bold]try next[/]")
    for command, description in suggestions:
        console.plain(f"# {description}", style="dim")
        console.plain(command)
    console.print("(. .venv/bin/activate puts the forebear command on your path)", style="dim", markup=False)
