"""`forebear demo`: the whole lineage, once, on text that comes with forebear."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.compare import draw, hearing
from forebear.cli.demo_tasks import SHOWN, TAUGHT, learned
from forebear.cli.demo_tasks import drawn as drawn_tasks
from forebear.cli.demo_tasks import further as further_tasks
from forebear.cli.printing import Speaking

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.comparing.outcomes import Comparison
    from forebear.demo.world import Story

SIZE = 2_000_000  # bytes of text
SEED = 7
OF_TASKS = 0.4  # of the time
LEARNED = len(SHOWN) * (len(TAUGHT) - 1)  # adaptations that take their time; counting does not
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
    speaking: Speaking = Speaking(),
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
    from forebear.comparing.comparing import PAGE, compare
    from forebear.comparing.verdict import sentences
    from forebear.lineage import learning_from_text, milestone_named
    from forebear.text.aside import disk_told
    from forebear.training.recipe import duration

    with disk_told(to):
        to.mkdir(parents=True, exist_ok=True)
        file, limit = write_text(to, text)
    kinds = [milestone_named(name) for name in learning_from_text()]
    timed = sum(kind.learning != "counting" or kind.counts_again for kind in kinds)
    share = OF_TASKS if tasks and text == "world" else 0.0
    with hearing(speaking) as hear:
        found = compare(
            str(file),
            to=to / text,
            time=(1 - share) * duration(time) / max(1, timed),
            limit=limit,
            overwrite=overwrite,
            command=f"forebear demo --text {text} --time {time} --to {to}",
            hear=hear,
        )
    rows = learned(to, found, to / text, share * duration(time) / LEARNED, speaking) if share else []
    facts = {**found.to_json(), "tasks": rows, "folder": str(to), "text": str(file), "page": str(to / text / PAGE)}
    further = [*further_tasks(rows), *_further(to, text, found)]
    facts |= {"verdict": sentences(found), "next": [command for command, _ in further]}
    speaking.tell(facts, lambda console: _draw(console, found, facts, further))


def write_text(folder: Path, text: str) -> tuple[Path, float | None]:
    """The chosen text as a file, and its true entropy in bits per byte where that is known."""
    from forebear.demo import manual, mixing, world

    limit = None
    if text == "world":
        stories = list(world.documents("both", SIZE, SEED))
        documents = [story.text for story in stories]
        limit = _limit(stories)
    else:
        documents = manual.documents() if text == "manual" else list(mixing.mixture(SIZE, SEED))
    file = folder / f"{text}.txt"
    told = "\n\n".join(documents) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != told:
        file.write_text(told, encoding="utf-8")
    return file, limit


def _limit(stories: list[Story]) -> float:
    """What the held-out stories tell, by their bytes: no model can predict them with less."""
    import numpy as np

    from forebear.text.encoding import content_hash
    from forebear.text.portion import held_out_by
    from forebear.training.recipe import Recipe

    apart = held_out_by(np.array([content_hash(story.text) for story in stories], np.uint64), Recipe().held_out)
    chosen = [story for story, examines in zip(stories, apart.tolist(), strict=True) if examines]
    return sum(story.bits for story in chosen) / sum(len(story.text.encode()) for story in chosen)


def _further(to: Path, text: str, found: Comparison) -> list[tuple[str, str]]:
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


def _draw(console: Console, found: Comparison, facts: dict[str, Any], further: list[tuple[str, str]]) -> None:
    from rich.markup import escape

    draw(console, found, facts)
    for row in found.rows:
        sample = next((trial.sample for trial in row.trials if trial.sample), "")
        if sample:
            words = " ".join(f"{found.prompt}{sample}".split())
            console.print(f"[bold]{escape(row.title)}[/] writes: {escape(words[:300])}", soft_wrap=True)
    if facts["tasks"]:
        drawn_tasks(console, facts["tasks"])
    console.print("\n[bold]try next[/]")
    for command, what in further:
        console.print(f"# {what}", style="dim", markup=False, soft_wrap=True)
        console.print(command, markup=False, soft_wrap=True)
    console.print("(. .venv/bin/activate puts the forebear command on your path)", style="dim", markup=False)
