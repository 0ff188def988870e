"""`forebear compare`: models on the same text or task, as one table and one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from rich.console import Console as RichConsole
from rich.text import Text

from forebear.cli.options import ComparisonDataOptions, ReadingOptions, StringList, TrainedVocabSize, command_line
from forebear.cli.output import Console, Output, Switch, Table, number_cell
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.experiments.comparison.results import TaskComparison, TextComparison, TextComparisonRow

WORD_FILES_LEGEND = (
    "files of words: Spearman's correlation with what people say of all pairs, a missing one having the mean cosine; "
    "or the share of all analogies that are solved, a missing one being wrong; in brackets how many are covered"
)
NOT_APPLICABLE = "—"
DEFAULT_FOLDER = Path("comparison")
TEXTS_HELP = (
    "Text files (also .gz, .zst), folders, quoted globs such as 'texts/**/*.txt', or a corpus that was prepared."
)


@Parameter(name="*", group=Group("A task of your own"))
@dataclass(frozen=True)
class ComparisonTaskOptions:
    """What is asked of everyone, beside the text."""

    task: Annotated[tuple[str, str] | None, Parameter(negative="")] = None
    "classification, pairs, tagging, answering, choice or auto, and the file of labelled examples to learn from."
    test: str | None = None
    "Labelled examples to measure on. [default: a share of the others, by what they say]"
    dev: str | None = None
    "Labelled examples that choose the best weights. [default: a tenth of the others]"
    runs: StringList = None
    "Finished runs that take part; with them no text is needed."
    adapt_time: str | None = None
    "How long each may learn the task, with each seed. [default: as many epochs as the examples want]"
    ablate: str | None = None
    "Variants of BERT instead of milestones, with commas: nsp, direction, whole-words, pretraining."


def compare(
    texts: Annotated[
        list[str] | None, Parameter(help=f"{TEXTS_HELP} May be left out with --runs and --task or --words.")
    ] = None,
    /,
    *,
    to: Path = DEFAULT_FOLDER,
    time: str | None = None,
    seeds: int = 1,
    only: str | None = None,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: TrainedVocabSize = None,
    held_out: float = 0.05,
    threads: int | None = None,
    prompt: str | None = None,
    limit: float | None = None,
    words: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    overwrite: Switch = False,
    task_options: ComparisonTaskOptions = ComparisonTaskOptions(),
    data_options: ComparisonDataOptions = ComparisonDataOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
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
    from forebear.experiments.comparison.compare import compare_on_text
    from forebear.experiments.comparison.verdict import text_conclusions

    if task_options.runs and words and task_options.task is None and not texts:
        unused = {"--time": time, "--seeds": seeds != 1, "--only": only, "--size": size, "--tokenizer": tokenizer}
        unused |= {"--vocabulary": vocabulary, "--threads": threads, "--prompt": prompt, "--limit": limit}
        unused |= {"--overwrite": overwrite, "--to": to != DEFAULT_FOLDER}
        _compare_words(task_options.runs, words, unused, output)
        return
    if seeds < 1:
        raise InputError(f"--seeds is {seeds}", hint="give a number of at least 1")
    _refuse_unused_settings(task_options, data_options, {"prompt": prompt, "limit": limit, "words": words or None})
    sizes = [item.partition("=") for item in size.split(",")] if size else []
    if not all(name and equals and value for name, equals, value in sizes):
        raise InputError(f"--size is {size!r}", hint="say which milestone's: --size gpt2=mini,ngram=five")
    options: dict[str, Any] = {"to": to, "only": only.split(",") if only else None, "time": time, "seeds": seeds}
    options |= {"size": {name: value for name, _, value in sizes}, "tokenizer": tokenizer, "vocabulary": vocabulary}
    options |= {"held_out": held_out, "threads": threads, "source": TextSource((), reading.text_format())}
    options |= {"overwrite": overwrite, "command": command_line()}
    if task_options.task is None:
        with comparison_progress(output) as on_progress:
            options |= {"limit": limit, "prompt": prompt, "words": words or (), "on_progress": on_progress}
            comparison = compare_on_text(texts or [], **options)
        result = _result(comparison, to, text_conclusions(comparison))
        output.emit(result, lambda console: print_comparison(console, comparison, result))
    else:
        _compare_on_task(texts or [], options, task_options, data_options, output)


def _compare_words(runs: Sequence[str], files: Sequence[str], unused: Mapping[str, Any], output: Output) -> None:
    """Compare finished runs on word-similarity and analogy files; training options are rejected."""
    from forebear.experiments.comparison.trials import compare_words

    if rejected := [name for name, value in unused.items() if value]:
        hint = "leave it out: the runs are finished, and are measured as they are"
        raise InputError(f"{rejected[0]} means nothing beside --runs and --words", hint=hint)
    rows = compare_words(runs, files)

    def draw(console: Console) -> None:
        names = list(dict.fromkeys(name for row in rows for name in row.results))
        table = Table("run", ">year", "milestone", ">words", *(f">{name}" for name in names))
        for row in rows:
            cells = [number_cell(row.num_words, ",", NOT_APPLICABLE)]
            for result in map(row.results.get, names):
                coverage = None if result is None else (result.num_covered, result.total)
                cells.append(_metric_cell(None if result is None else result.metric, coverage))
            table.add_row(row.run, str(row.year), row.title, *cells)
        console.print(table)
        console.dim(WORD_FILES_LEGEND)
        for row in rows:
            if row.error:
                console.plain(f"{row.run}: {row.error}", style="red")
            for note in dict.fromkeys(file.note for file in row.files if file.note):
                console.plain(f"{row.run}: {note}", style="yellow")

    output.emit({"runs": [row.to_dict() for row in rows]}, draw)


def _metric_cell(score: float | None, coverage: tuple[int, int] | None) -> str:
    value = number_cell(score, ".3f", NOT_APPLICABLE)
    return value if coverage is None else f"{value} ({coverage[0]:,} of {coverage[1]:,})"


def _refuse_unused_settings(
    task_options: ComparisonTaskOptions, data_options: ComparisonDataOptions, text_settings: dict[str, Any]
) -> None:
    """Raise InputError for settings that would have no effect."""
    if task_options.task is None:
        names = {"encoding": "examples-encoding"}
        for options in (task_options, data_options):
            for name in (field.name for field in fields(options) if getattr(options, field.name) != field.default):
                hint = "say which task and examples: --task classification train.tsv"
                hint += "; or compare runs by words, without a text: --words FILE" if name == "runs" else ""
                flag = names.get(name, name.replace("_", "-"))
                raise InputError(f"--{flag} means nothing without --task", hint=hint)
    elif any(value is not None for value in text_settings.values()):
        raise InputError("--prompt, --limit and --words mean nothing beside --task", hint="leave them out")
    elif task_options.test is not None and data_options.test_share != ComparisonDataOptions.test_share:
        raise InputError("--test-share means nothing beside --test", hint="leave one of them out")


def _result(comparison: TextComparison | TaskComparison, folder: Path, conclusions: list[str]) -> dict[str, Any]:
    from forebear.experiments.comparison.compare import COMPARISON_PAGE

    paths = {"folder": str(folder), "page": str(folder / COMPARISON_PAGE)}
    return {**comparison.to_dict(), **paths, "verdict": conclusions}


def _compare_on_task(
    texts: list[str],
    options: dict[str, Any],
    task_options: ComparisonTaskOptions,
    data_options: ComparisonDataOptions,
    output: Output,
) -> None:
    from forebear.experiments.comparison.compare import compare_on_task, usage_command
    from forebear.experiments.comparison.verdict import task_conclusions

    assert task_options.task is not None
    ablated = task_options.ablate.split(",") if task_options.ablate else ()
    options |= {"task": task_options.task, "test": task_options.test, "dev": task_options.dev}
    options |= {"runs": task_options.runs or (), "adapt_time": task_options.adapt_time, "ablate": ablated}
    options |= {"test_share": data_options.test_share}
    options |= {"form": data_options.detection_args(), "labelled": data_options.settings()}
    with comparison_progress(output, unit="") as on_progress:
        comparison = compare_on_task(texts, **options, on_progress=on_progress)
    result = _result(comparison, options["to"], task_conclusions(comparison))
    best = comparison.best
    result["use"] = usage_command(comparison, best, options["to"]) if best is not None else None
    output.emit(result, lambda console: _print_task_comparison(console, comparison, result))


@contextmanager
def comparison_progress(output: Output, unit: str = " nats") -> Iterator[Callable[[str, int, Any], object]]:
    """Progress on stderr: a status line on a terminal, and a line for each result."""
    from forebear.experiments.comparison.results import TaskTrial, TextTrial

    console = RichConsole(stderr=True, highlight=False, emoji=False, quiet=output.quiet)
    with console.status("reading the text") as status:

        def on_event(name: str, seed: int, event: dict[str, Any] | TextTrial | TaskTrial) -> None:
            if isinstance(event, dict):
                losses = event.get("held_out") or event.get("losses") or {}
                loss_text = "".join(f", {name} {loss:.3f}{unit}" for name, loss in losses.items())
                status.update(f"{name}, seed {seed}: step {event['step']:,}, {event['seconds']:.0f} s{loss_text}")
                return
            if isinstance(event, TaskTrial):
                console.print(f"{name}, seed {seed}: {event.error or f'{event.score:.4f} on the test'}", markup=False)
                return
            bits = f"{event.bits_per_byte:.3f} bits per byte" if event.bits_per_byte is not None else "no bits per byte"
            bits = bits if event.found is None else f"{event.found:.1%} of hidden tokens found"
            bits = bits if event.told_apart is None else f"{event.told_apart:.1%} of neighbours told apart"
            console.print(f"{name}, seed {seed}: {event.error or bits}", markup=False, soft_wrap=True)

        yield on_event


def print_comparison(console: Console, comparison: TextComparison, result: dict[str, Any]) -> None:
    """Print the table of a comparison on text, other metrics, errors and conclusions."""
    columns = (">year", "milestone", ">bits per\nbyte", "", ">perplexity", ">parameters", ">learning")
    table = Table(*columns, ">tokens\nper s", ">memory", "tokenizer")
    for row in comparison.rows:
        is_best = result["best"] == row.name
        table.add_row(*_comparison_cells(row, is_best=is_best), style="bold" if is_best else "")
    for yardstick in comparison.yardsticks:
        table.add_row("", yardstick.name, f"{yardstick.bits_per_byte:.3f}", *[""] * 6, "yardstick", style="dim")
    if comparison.limit is not None:
        table.add_row("", "true entropy", f"{comparison.limit:.3f}", *[""] * 6, "limit", style="dim")
    console.print(table)
    print_other_metrics(console, comparison)
    _print_errors(console, comparison)
    for text in (*result["verdict"], *filter(None, [comparison.facts.get("note")])):
        console.print(text, markup=False)
    console.plain(f"the page: {result['page']}")


def _comparison_cells(row: TextComparisonRow, *, is_best: bool) -> Iterator[str | Text]:
    from forebear.settings.units import format_bytes, format_count, format_duration

    bits, spread, impossible = row.mean("bits_per_byte"), row.spread, sum(row.trial_values("impossible"))
    remarks = [Text("best")] if is_best else []
    if spread is not None:
        remarks.insert(0, Text(f"± {spread:.3f}"))
    if row.error:
        remarks.append(Text("failed", "red"))
    elif bits is None and impossible:
        remarks.append(Text(f"infinite: {impossible:,} tokens are impossible to it"))
    yield from (str(row.year), f"{row.title} {row.size}".strip(), number_cell(bits, ".3f", NOT_APPLICABLE))
    yield Text(" ").join(remarks)
    columns: dict[str, Callable[[float], str]] = {"perplexity": "{:,.1f}".format, "parameters": format_count}
    columns |= {"seconds": format_duration, "speed": format_count, "memory": format_bytes}
    for metric, format_value in columns.items():
        value = row.mean(metric)
        yield NOT_APPLICABLE if value is None else format_value(value)
    yield next((f"{trial.tokenizer}, {trial.vocabulary:,}" for trial in row.trials if trial.vocabulary), "")


def print_other_metrics(console: Console, comparison: TextComparison) -> None:
    """Print metrics other than bits per byte: neighbors, masked tokens, word files."""
    labels = (("neighbours told apart", "told_apart"), ("hidden tokens found", "found"))
    metrics = {name: key for name, key in labels if any(row.trial_values(key) for row in comparison.rows)}
    table = Table("milestone", *(f">{name}" for name in (*metrics, *comparison.word_file_names)))
    for row in comparison.rows:
        cells = [number_cell(value, ".1%", NOT_APPLICABLE) for value in map(row.mean, metrics.values())]
        cells += [_metric_cell(row.word_score(name), row.word_coverage(name)) for name in comparison.word_file_names]
        if set(cells) - {NOT_APPLICABLE}:
            table.add_row(f"{row.title} {row.size}".strip(), *cells)
    if table.row_count:
        console.print(table)
        if comparison.word_file_names:
            console.dim(WORD_FILES_LEGEND)


def _print_errors(console: Console, comparison: TextComparison | TaskComparison) -> None:
    for row in comparison.rows:
        if row.error:
            console.plain(f"{row.title}: {row.error}", style="red")


def _print_task_comparison(console: Console, comparison: TaskComparison, result: dict[str, Any]) -> None:
    from forebear.experiments.comparison.report import table_cells, table_columns, table_legend
    from forebear.experiments.comparison.verdict import format_points

    table = Table(">year", "model", *(f">{name}" for name in table_columns(comparison)))
    for row in comparison.rows:
        has_failed = row.error and row.score is None
        cells = [Text("failed", "red")] if has_failed else map(str, table_cells(row, comparison))
        style = "bold" if result["best"] == row.name else ""
        table.add_row(str(row.year), f"{row.title} {row.size}".strip(), *cells, style=style)
    for baseline in comparison.baselines:
        table.add_row("", baseline.name, format_points(baseline.score), style="dim")
    console.print(table)
    console.print(table_legend(comparison), style="dim", markup=False)
    _print_errors(console, comparison)
    for text in result["verdict"]:
        console.plain(text)
    for row in comparison.rows:
        if row.papers:
            console.plain(f"{row.title}: {row.differs}. {row.papers}", style="dim")
    for text in comparison.remarks:
        console.plain(text, style="yellow")
    if result["use"]:
        console.plain(f"what now: {result['use']}")
    console.plain(f"the page: {result['page']}")
