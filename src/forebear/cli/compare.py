"""`forebear compare`: every milestone on the same text, one table, one page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from forebear.cli.batch_io import printable_cell
from forebear.cli.options import EXAMPLES_GROUP, ColumnNames, LabeledDataOptions, ReadingOptions
from forebear.cli.output import Output, make_table
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.experiments.comparison.results import (
        TaskComparison,
        TaskTrial,
        TextComparison,
        TextComparisonRow,
        TextTrial,
    )
    from forebear.experiments.comparison.trials import WordEvalRow

# Word vectors beside each other, for people: what milestones or finished runs reach on files of judged words.


LEGEND = (
    "files of words: Spearman's correlation with what people say of all pairs, a missing one having the mean cosine; "
    "or the share of all analogies that are solved, a missing one being wrong; in brackets how many are covered"
)
NOTHING = "—"


def compare_words_command(
    runs: Sequence[str], files: Sequence[str], given: Mapping[str, Any], speaking: Output
) -> None:
    """Finished runs by files of words; whatever is about training means nothing here."""
    from forebear.experiments.comparison.trials import compare_words

    for name, value in given.items():
        if value:
            hint = "leave it out: the runs are finished, and are measured as they are"
            raise InputError(f"{name} means nothing beside --runs and --words", hint=hint)
    found = compare_words(runs, files)
    speaking.emit({"runs": [one.to_dict() for one in found]}, lambda console: _draw(console, found))


def _draw(console: Console, found: Sequence[WordEvalRow]) -> None:
    names = list(dict.fromkeys(name for one in found for name in one.results))
    made = make_table("run", ">year", "milestone", ">words", *(f">{name}" for name in names))
    for one in found:
        words = NOTHING if one.num_words is None else f"{one.num_words:,}"
        told = (one.results.get(name) for name in names)
        cells = (NOTHING if at is None else _cell(at.metric, (at.num_covered, at.total)) for at in told)
        made.add_row(printable_cell(one.run), str(one.year), printable_cell(one.title), words, *cells)
    console.print(made)
    console.print(LEGEND, style="dim", soft_wrap=True)
    for one in found:
        if one.error:
            console.print(f"{one.run}: {one.error}", style="red", markup=False, soft_wrap=True)
        for why in dict.fromkeys(file.note for file in one.files if file.note):
            console.print(f"{one.run}: {why}", style="yellow", markup=False, soft_wrap=True)


def print_other_metrics(console: Console, found: TextComparison) -> None:
    """What is no bits per byte, where a milestone has it: of neighbours, of hidden tokens, and of files of words."""
    shares = {"neighbours told apart": "told_apart", "hidden tokens found": "found"}
    shares = {name: what for name, what in shares.items() if any(row.values(what) for row in found.rows)}
    if not shares and not found.measured_rows:
        return
    made = make_table("milestone", *(f">{name}" for name in (*shares, *found.measured_rows)))
    for row in found.rows:
        cells = [NOTHING if (value := row.mean(what)) is None else f"{value:.1%}" for what in shares.values()]
        cells += [_cell(row.word_figures(name), row.word_coverage(name)) for name in found.measured_rows]
        if set(cells) != {NOTHING}:
            made.add_row(printable_cell(f"{row.title} {row.size}".strip()), *cells)
    if made.row_count:
        console.print(made)
        if found.measured_rows:
            console.print(LEGEND, style="dim", soft_wrap=True)


def _cell(figure: float | None, covered: tuple[int, int] | None) -> str:
    told = NOTHING if figure is None else f"{figure:.3f}"
    return told if covered is None else f"{told} ({covered[0]:,} of {covered[1]:,})"


PLACE = Path("comparison")
TASK = Group("A task of your own")
TEXTS = "Text files (also .gz, .zst), folders, quoted globs such as 'texts/**/*.txt', or a corpus that was prepared."


@Parameter(name="*", group=EXAMPLES_GROUP)
@dataclass(frozen=True)
class ComparisonDataOptions(LabeledDataOptions):
    """How files become examples, and what becomes of them."""

    encoding: Annotated[str, Parameter(name="--examples-encoding")] = "utf-8"
    "The encoding of the files of examples, such as gb18030."
    test_share: float = 0.2
    "The share of the examples that is held out for the test where there is no --test."


@Parameter(name="*", group=TASK)
@dataclass(frozen=True)
class ComparisonTaskOptions:
    """What is asked of everyone, beside the text."""

    task: Annotated[tuple[str, str] | None, Parameter(negative="")] = None
    "classification, pairs, tagging, answering, choice or auto, and the file of labelled examples to learn from."
    test: str | None = None
    "Labelled examples to measure on. [default: a share of the others, by what they say]"
    dev: str | None = None
    "Labelled examples that choose the best weights. [default: a tenth of the others]"
    runs: ColumnNames = None
    "Finished runs that take part; with them no text is needed."
    adapt_time: str | None = None
    "How long each may learn the task, with each seed. [default: as many epochs as the examples want]"
    ablate: str | None = None
    "Variants of BERT instead of milestones, with commas: nsp, direction, whole-words, pretraining."


USUAL_TASK, USUAL_EXAMPLES = ComparisonTaskOptions(), ComparisonDataOptions()


def compare(
    texts: Annotated[
        list[str] | None, Parameter(help=f"{TEXTS} May be left out with --runs and --task or --words.")
    ] = None,
    /,
    *,
    to: Path = PLACE,
    time: str | None = None,
    seeds: int = 1,
    only: str | None = None,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.05,
    threads: int | None = None,
    prompt: str | None = None,
    limit: float | None = None,
    words: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    overwrite: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    on_task: ComparisonTaskOptions = USUAL_TASK,
    examples: ComparisonDataOptions = USUAL_EXAMPLES,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Output = Output(),
) -> None:
    """Train every milestone on the same text, split and budget; a table, and a page with a cost–quality plot.

    With --task each is adapted to your labelled examples as well, and measured on the test: its score and what it costs
    in time, space and memory. One that fails is a row with its error. Ctrl-C keeps what is finished, and the same
    command goes on.

    ```
    forebear compare book.txt --time 2m
    forebear compare book.txt --only ngram,gpt2 --seeds 3 --size gpt2=mini,ngram=five --to comparison/book
    forebear compare book.txt --task classification train.tsv --test test.tsv --only ngram,bert,gpt --adapt-time 1m
    forebear compare --task auto train.tsv --runs runs/bert runs/minilm --seeds 3
    forebear compare book.txt --task pairs train.tsv --ablate nsp,direction,pretraining --seeds 3
    forebear compare --runs runs/word2vec runs/glove --words wordsim353.tsv questions-words.txt
    ```

    Parameters
    ----------
    to
        The folder for comparison.html, comparison.json and the runs.
    time
        How long each milestone may learn from the text, with each seed. [default: 2m]
    seeds
        How many times each is trained, from different beginnings; those that only count are trained once.
    only
        Milestones by name, with commas. [default: all of forebear lineage; without a text only ngram]
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
    words
        Files of pairs of words with what people say of them, or of analogies (see measure --words): a column for each,
        over all pairs, for milestones that have vectors. With --runs and no text, finished runs beside each other.
    overwrite
        Replace another comparison at --to.
    """
    from forebear.data.source import TextSource

    if on_task.runs and words and on_task.task is None and not texts:
        given = {"--time": time, "--seeds": seeds != 1, "--only": only, "--size": size, "--tokenizer": tokenizer}
        given |= {"--vocabulary": vocabulary, "--threads": threads, "--prompt": prompt, "--limit": limit}
        compare_words_command(on_task.runs, words, given | {"--overwrite": overwrite, "--to": to != PLACE}, speaking)
        return
    if seeds < 1:
        raise InputError(f"--seeds is {seeds}", hint="give a number of at least 1")
    _refuse_useless(on_task, examples, prompt, limit, words)
    given: dict[str, Any] = {
        "to": to,
        "only": only.split(",") if only else None,
        "time": time,
        "seeds": seeds,
        "size": _sizes(size),
        "tokenizer": tokenizer,
        "vocabulary": vocabulary,
        "held_out": held_out,
        "threads": threads,
        "source": TextSource((), reading.reading()),
        "overwrite": overwrite,
        "command": shlex.join(["forebear", *sys.argv[1:]]),
    }
    if on_task.task is None:
        _on_text(texts or [], given | {"limit": limit, "prompt": prompt, "words": words or ()}, speaking)
    else:
        _on_task(texts or [], given, on_task, examples, speaking)


def _refuse_useless(
    on_task: ComparisonTaskOptions,
    examples: ComparisonDataOptions,
    prompt: str | None,
    limit: float | None,
    words: list[str] | None,
) -> None:
    """A setting that would change nothing is refused: who gives it believes that it does."""
    if on_task.task is None:
        given = [*_changed(on_task, USUAL_TASK), *_changed(examples, USUAL_EXAMPLES)]
        if given:
            hint = "say which task and examples: --task classification train.tsv"
            hint += "; or compare runs by words, without a text: --words FILE" if given[0] == "runs" else ""
            raise InputError(f"--{given[0]} means nothing without --task", hint=hint)
    elif prompt is not None or limit is not None or words:
        raise InputError("--prompt, --limit and --words mean nothing beside --task", hint="leave them out")
    elif on_task.test is not None and examples.test_share != USUAL_EXAMPLES.test_share:
        raise InputError("--test-share means nothing beside --test", hint="leave one of them out")


def _changed(options: Any, usual: Any) -> list[str]:
    names = {"encoding": "examples-encoding"}
    given = [one.name for one in fields(options) if getattr(options, one.name) != getattr(usual, one.name)]
    return [names.get(name, name.replace("_", "-")) for name in given]


def _on_text(texts: list[str], words: dict[str, Any], speaking: Output) -> None:
    from forebear.experiments.comparison.compare import COMPARISON_PAGE, compare_on_text
    from forebear.experiments.comparison.verdict import text_conclusions

    with comparison_progress(speaking) as hear:
        found = compare_on_text(texts, **words, on_progress=hear)
    to = words["to"]
    facts = {
        **found.to_dict(),
        "folder": str(to),
        "page": str(to / COMPARISON_PAGE),
        "verdict": text_conclusions(found),
    }
    speaking.emit(facts, lambda console: print_comparison(console, found, facts))


def _on_task(
    texts: list[str],
    words: dict[str, Any],
    on_task: ComparisonTaskOptions,
    examples: ComparisonDataOptions,
    speaking: Output,
) -> None:
    from forebear.experiments.comparison.compare import COMPARISON_PAGE, compare_on_task, usage_command
    from forebear.experiments.comparison.verdict import task_conclusions

    assert on_task.task is not None
    with comparison_progress(speaking, unit="") as hear:
        found = compare_on_task(
            texts,
            task=on_task.task,
            test=on_task.test,
            dev=on_task.dev,
            test_share=examples.test_share,
            runs=on_task.runs or (),
            adapt_time=on_task.adapt_time,
            ablate=on_task.ablate.split(",") if on_task.ablate else (),
            form=examples.form(),
            labelled=examples.settings(),
            on_progress=hear,
            **words,
        )
    to = words["to"]
    facts = {
        **found.to_dict(),
        "folder": str(to),
        "page": str(to / COMPARISON_PAGE),
        "verdict": task_conclusions(found),
    }
    facts["use"] = usage_command(found, found.best, to) if found.best is not None else None
    speaking.emit(facts, lambda console: _draw_task(console, found, facts))


def _sizes(text: str | None) -> dict[str, str]:
    """`gpt2=mini,ngram=five` as a dictionary."""
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise InputError(f"--size is {text!r}", hint="say which milestone's: --size gpt2=mini,ngram=five")
    return {name: value for name, _, value in pairs}


@contextmanager
def comparison_progress(speaking: Output, unit: str = " nats") -> Iterator[Callable[[str, int, Any], object]]:
    """What goes on, on stderr: a line that moves on a terminal, and a line for each result."""
    from rich.console import Console

    from forebear.experiments.comparison.results import TaskTrial

    screen = Console(stderr=True, highlight=False, quiet=speaking.quiet)
    with screen.status("reading the text") as status:

        def hear(name: str, seed: int, told: dict[str, Any] | TextTrial | TaskTrial) -> None:
            if isinstance(told, dict):
                losses = told.get("held_out") or told.get("losses") or {}
                more = "".join(f", {name} {loss:.3f}{unit}" for name, loss in losses.items())
                status.update(f"{name}, seed {seed}: step {told['step']:,}, {told['seconds']:.0f} s{more}")
                return
            if isinstance(told, TaskTrial):
                screen.print(f"{name}, seed {seed}: {told.error or f'{told.score:.4f} on the test'}", markup=False)
                return
            bits = f"{told.bits_per_byte:.3f} bits per byte" if told.bits_per_byte is not None else "no bits per byte"
            bits = bits if told.found is None else f"{told.found:.1%} of hidden tokens found"
            bits = bits if told.told_apart is None else f"{told.told_apart:.1%} of neighbours told apart"
            screen.print(f"{name}, seed {seed}: {told.error or bits}", markup=False, soft_wrap=True)

        yield hear


def print_comparison(console: Console, found: TextComparison, facts: dict[str, Any]) -> None:
    made = make_table(
        ">year", "milestone", ">bits per\nbyte", "", ">perplexity", ">parameters", ">learning", ">tokens\nper s",
        ">memory", "tokenizer",
    )  # fmt: skip
    for row in found.rows:
        _add(made, row, best=facts["best"] == row.name)
    for stick in found.yardsticks:
        made.add_row("", stick.name, f"{stick.bits_per_byte:.3f}", *[""] * 6, "yardstick", style="dim")
    if found.limit is not None:
        made.add_row("", "true entropy", f"{found.limit:.3f}", *[""] * 6, "limit", style="dim")
    console.print(made)
    print_other_metrics(console, found)
    for row in found.rows:
        if row.error:
            console.print(f"{row.title}: {row.error}", style="red", markup=False, soft_wrap=True)
    for text in (*facts["verdict"], *filter(None, [found.facts.get("note")])):
        console.print(text, markup=False)
    console.print(f"the page: {facts['page']}", markup=False, soft_wrap=True)


def _add(made: Any, row: TextComparisonRow, *, best: bool) -> None:
    from rich.markup import escape

    from forebear.settings.units import format_bytes, format_count, format_duration

    bits, spread = row.mean("bits_per_byte"), row.spread
    marks = [f"± {spread:.3f}"] if spread is not None else []
    marks += ["best"] if best else []
    if row.error:
        marks.append("[red]failed[/]")
    elif bits is None and sum(row.values("impossible")):
        marks.append(f"infinite: {sum(row.values('impossible')):,} tokens are impossible to it")
    shown = [
        (row.mean("perplexity"), lambda value: f"{value:,.1f}"),
        (row.mean("parameters"), format_count),
        (row.mean("seconds"), format_duration),
        (row.mean("speed"), format_count),
        (row.mean("memory"), format_bytes),
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


def _draw_task(console: Console, found: TaskComparison, facts: dict[str, Any]) -> None:
    from rich.markup import escape

    from forebear.experiments.comparison.report import table_cells, table_columns, table_legend
    from forebear.experiments.comparison.verdict import format_points

    names = table_columns(found)
    made = make_table(">year", "model", *(f">{name}" for name in names))
    for row in found.rows:
        title = escape(f"{row.title} {row.size}".strip())
        shown = ["[red]failed[/]"] if row.error and row.score is None else [str(one) for one in table_cells(row, found)]
        made.add_row(str(row.year), title, *shown, style="bold" if facts["best"] == row.name else "")
    for base in found.baselines:
        made.add_row("", base.name, format_points(base.score), style="dim")
    console.print(made)
    console.print(table_legend(found), style="dim", markup=False)
    for row in found.rows:
        if row.error:
            console.print(f"{row.title}: {row.error}", style="red", markup=False, soft_wrap=True)
    for text in facts["verdict"]:
        console.print(text, markup=False, soft_wrap=True)
    for row in found.rows:
        if row.papers:
            told = f"{row.title}: {row.differs}. {row.papers}"
            console.print(told, style="dim", markup=False, soft_wrap=True)
    for text in found.remarks:
        console.print(text, style="yellow", markup=False, soft_wrap=True)
    if facts["use"]:
        console.print(f"what now: {facts['use']}", markup=False, soft_wrap=True)
    console.print(f"the page: {facts['page']}", markup=False, soft_wrap=True)
