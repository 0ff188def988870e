"""`forebear compare`: every milestone on the same text, one table, one page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.comparing.outcomes import Comparison, Row


def compare(
    texts: Texts,
    /,
    *,
    to: Path = Path("comparison"),
    time: str = "2m",
    seeds: int = 1,
    only: str | None = None,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.05,
    threads: int | None = None,
    prompt: str | None = None,
    limit: float | None = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
) -> None:
    """Train every milestone on the same text, split and budget; a table, and a page with a cost–quality plot.

    One that fails is a row with its error. Ctrl-C keeps what is finished, and the same command goes on.

    ```
    forebear compare book.txt --time 2m
    forebear compare book.txt --only ngram,gpt2 --seeds 3 --size gpt2=mini,ngram=five --to comparison/book
    forebear compare book.txt --tokenizer characters --time 30s --json
    ```

    Parameters
    ----------
    to
        The folder for comparison.html, comparison.json and the runs.
    time
        How long each milestone may learn with each seed.
    seeds
        How many times each is trained, from different beginnings; those that only count are trained once.
    only
        Milestones by name, with commas. [default: all of forebear lineage]
    size
        Sizes by milestone, such as gpt2=mini,ngram=five. [default: the one each begins with]
    tokenizer
        One for all: words, characters, wordpiece, bytepair or a file. [default: the one each milestone is used with]
    vocabulary
        Entries of a vocabulary that is learned. [default: by the size of the text]
    held_out
        The share of the text that examines instead of teaching.
    threads
        Threads of the processor for each. [default: as many as there are cores]
    prompt
        What everyone continues. [default: how the held-out text begins]
    limit
        The text's true entropy in bits per byte, where it is known; drawn as the line nobody can go below.
    overwrite
        Replace another comparison at --to.
    """
    from forebear.comparing.comparing import PAGE
    from forebear.comparing.comparing import compare as compared
    from forebear.comparing.verdict import sentences
    from forebear.training.corpora import TextSource

    if seeds < 1:
        raise BadInput(f"--seeds is {seeds}", remedy="give a number of at least 1")
    with hearing(speaking) as hear:
        found = compared(
            texts,
            to=to,
            only=only.split(",") if only else None,
            time=time,
            seeds=seeds,
            size=_sizes(size),
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            held_out=held_out,
            threads=threads,
            limit=limit,
            prompt=prompt,
            source=TextSource((), reading.reading()),
            overwrite=overwrite,
            command=shlex.join(["forebear", *sys.argv[1:]]),
            hear=hear,
        )
    facts = {**found.to_json(), "folder": str(to), "page": str(to / PAGE), "verdict": sentences(found)}
    speaking.tell(facts, lambda console: draw(console, found, facts))


def _sizes(text: str | None) -> dict[str, str]:
    """`gpt2=mini,ngram=five` as a dictionary."""
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise BadInput(f"--size is {text!r}", remedy="say which milestone's: --size gpt2=mini,ngram=five")
    return {name: value for name, _, value in pairs}


@contextmanager
def hearing(speaking: Speaking) -> Iterator[Callable[[str, int, Any], object]]:
    """What goes on, on stderr: a line that moves on a terminal, and a line for each result."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False, quiet=speaking.quiet)
    with screen.status("reading the text") as status:

        def hear(name: str, seed: int, told: Any) -> None:
            if isinstance(told, dict):
                losses = told.get("held_out") or told.get("losses") or {}
                more = "".join(f", {name} {loss:.3f} nats" for name, loss in losses.items())
                status.update(f"{name}, seed {seed}: step {told['step']:,}, {told['seconds']:.0f} s{more}")
                return
            bits = f"{told.bits_per_byte:.3f} bits per byte" if told.bits_per_byte is not None else "no bits per byte"
            bits = bits if told.found is None else f"{told.found:.1%} of hidden tokens found"
            screen.print(f"{name}, seed {seed}: {told.error or bits}", markup=False, soft_wrap=True)

        yield hear


def draw(console: Console, found: Comparison, facts: dict[str, Any]) -> None:
    made = table(
        ">year", "milestone", ">bits per byte", "", ">perplexity", ">parameters", ">learning", ">tokens/s", ">memory",
        "tokenizer",
    )  # fmt: skip
    for row in found.rows:
        _add(made, row, best=facts["best"] == row.name)
    for stick in found.yardsticks:
        made.add_row("", stick.name, f"{stick.bits_per_byte:.3f}", "yardstick", style="dim")
    if found.limit is not None:
        made.add_row("", "true entropy", f"{found.limit:.3f}", "limit", style="dim")
    console.print(made)
    for row in found.rows:
        if row.error:
            console.print(f"{row.title}: {row.error}", style="red", markup=False, soft_wrap=True)
    for text in facts["verdict"]:
        console.print(text, markup=False)
    console.print(f"the page: {facts['page']}", markup=False, soft_wrap=True)


def _add(made: Any, row: Row, *, best: bool) -> None:
    from rich.markup import escape

    from forebear.comparing.wording import duration, short, size

    bits, spread = row.mean("bits_per_byte"), row.spread
    marks = [f"± {spread:.3f}"] if spread is not None else []
    marks += ["best"] if best else []
    if row.error:
        marks.append("[red]failed[/]")
    elif (found := row.mean("found")) is not None:
        marks.append(f"{found:.1%} found")
    elif bits is None and sum(row.of("impossible")):
        marks.append(f"infinite: {sum(row.of('impossible')):,} tokens are impossible to it")
    shown = [
        (row.mean("perplexity"), lambda value: f"{value:,.1f}"),
        (row.mean("parameters"), short),
        (row.mean("seconds"), duration),
        (row.mean("speed"), short),
        (row.mean("memory"), size),
    ]
    kind = next((f"{trial.tokenizer}, {trial.vocabulary:,}" for trial in row.trials if trial.vocabulary), "")
    made.add_row(
        str(row.year),
        escape(f"{row.title} {row.size}".strip()),
        "—" if bits is None else f"{bits:.3f}",
        " ".join(marks),
        *("—" if value is None else say(value) for value, say in shown),
        kind,
        style="bold" if best else "",
    )
