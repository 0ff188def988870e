"""`forebear ask`: zero-shot and few-shot prompting with labels, choices, blanks, summaries and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.batch_io import (
    DEFAULT_ENCODING,
    STDIN_PATH,
    BatchInputOptions,
    InputLine,
    RunArgument,
    TextArguments,
    counting_progress,
    open_run,
    read_choices,
)
from forebear.cli.options import given_options
from forebear.cli.output import (
    Console,
    Output,
    Table,
    count_phrase,
    format_number,
    printable_cell,
    replace_controls,
    text_bar,
)
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inference.prompted_generation import PromptReply
    from forebear.inference.prompting import PromptAnswer
    from forebear.inference.run import Run

Answers = Sequence["PromptAnswer | PromptReply"]

SCORING_OPTIONS, GENERATION_OPTIONS = ("calibrate", "neutral", "per", "table"), ("sentences", "length", "seed")
# The options of each mode; others are rejected.
MODE_OPTIONS = {
    "labels": ("template", "shots", *SCORING_OPTIONS),
    "choices": SCORING_OPTIONS,
    "cue": GENERATION_OPTIONS,
    "shots": ("template", "shots", "length"),
}
MODE_HINT = '--labels "good,bad", --choices "this" "that", --cue "TL;DR:", or examples of answers: --shots FILE'
MAX_TABLE_CHARACTERS = 60  # of a text in a table of several texts
MAX_PROMPT_CHARACTERS = 160  # of a prompt with an answer inserted


@Parameter(name="*")
@dataclass(frozen=True)
class AskOptions:
    """How it is asked. None: not said, so that what would change nothing can be refused."""

    template: str | None = None
    r"What the run reads: {text} and {label} once each, \n for a new line. [default: '{text} It was {label}.', for Chinese labels '{text}\n这是{label}的。'; without labels 'Q: {text}\nA: {label}' or '问：{text}\n答：{label}']"  # noqa: E501
    shots: Path | None = None
    "A file of examples, text TAB label a line: as many stand before the text as the context has room for."
    calibrate: bool | None = None
    "Divide by how likely each answer is without the text. [default: for labels, not for choices]"
    neutral: str | None = None
    "What stands for the text when calibrating, such as N/A. [default: nothing]"
    per: Literal["total", "token", "byte"] | None = None
    "Compare log-probabilities as they are (total), or by token or byte: then a long answer has no disadvantage, and shares are no probabilities. [default: total]"  # noqa: E501
    table: Annotated[bool | None, Parameter(negative="", show_default=False)] = None
    "Show all answers to each of many texts, as to a single one."
    sentences: int | None = None
    "How many sentences of what is written after a cue are the summary. [default: 3]"
    length: int | None = None
    "The most tokens to write. [default: 100 after a cue, 30 after examples]"
    seed: int | None = None
    "Another seed, another summary. [default: 0]"


def ask(
    run: RunArgument,
    texts: TextArguments = None,
    /,
    *,
    labels: str | None = None,
    choices: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    cue: str | None = None,
    ask_options: AskOptions = AskOptions(),
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
) -> None:
    """Ask a run something that it was never trained for, by a prompt alone.

    With labels, choices or a blank, every answer is put in its place and the likeliest wins; probabilities are shared
    out among the answers given. A summary, or an answer after examples, is written by the run.

    ```
    forebear ask runs/gpt2 "A film without any life." --labels "positive=great|good,negative=terrible|bad"
    forebear ask runs/gpt2 "这家酒店很干净" --labels 好,坏 --template "{text}。总之很{label}。"
    forebear ask runs/gpt2 "The cat sat on" --choices "the mat." "the moon."
    forebear ask runs/bert "the cat ____ on the mat" --choices sat saw
    forebear ask runs/gpt2 --in article.txt --cue "TL;DR:" --sentences 3
    forebear ask runs/gpt2 "Where do fish live?" --shots questions.tsv
    forebear ask runs/gpt2 --in reviews.txt --labels good,bad --shots examples.tsv --out answers.jsonl
    ```

    Parameters
    ----------
    texts
        What is asked about, each argument by itself; - for the lines of standard input.
    labels
        Two labels or more with commas between them; words that stand for one: good=great|fine,bad=poor.
    choices
        Two continuations or more, or words for a ____ in the text: each an argument, or the lines of one file.
    cue
        What stands after a text to have its summary written; auto: TL;DR: or 总之，. With --in, every file is a text.
    """
    from forebear.inference.prompt_templates import read_shots

    options, modes = given_options(ask_options), given_options(labels=labels, choices=read_choices(choices), cue=cue)
    mode = _prompt_mode(modes, options)
    loaded_run = open_run(run, "ask", output)
    shots = [] if ask_options.shots is None else read_shots(ask_options.shots)
    answer_options = {**options, **modes} | ({"shots": shots} if shots else {})
    answer_texts = _answer_function(loaded_run, mode, answer_options)
    counts = {"texts": 0, "cut_texts": 0}
    is_single_text = batch_input == BatchInputOptions() and STDIN_PATH not in (texts or ())
    counter = nullcontext(int) if is_single_text else counting_progress(output, "texts")
    with output.progress("asking") as progress, counter as add_count:

        def answer_batch(batch: list[str]) -> list[Any]:
            answers = answer_texts(batch)
            counts["texts"] += len(answers)
            counts["cut_texts"] += sum(answer.num_truncated > 0 for answer in answers)
            add_count(len(answers))
            return answers

        lines = _read_whole_files(texts, batch_input) if mode == "cue" else batch_input.valid_inputs(texts)
        answers: Answers = batch_input.run_batch(_track_progress(lines, batch_input, progress), answer_batch)
    if not counts["texts"]:
        raise InputError("there is no text to ask about", hint='forebear ask RUN "some text" …, or --in FILE')
    result: dict[str, Any] = {"run": loaded_run.name, "settings": modes | options}
    if batch_input.output_file is not None:
        summary = f"{count_phrase(counts['texts'], 'text')} asked, {counts['cut_texts']:,} of them cut to fit"
        batch_input.emit_written(result | counts, summary, output)
        return
    result |= {"examples": len(shots), "texts": [answer.to_dict() for answer in answers]}
    show_all = ask_options.table is not None or len(answers) == 1
    output.emit(result, lambda console: _print_result(console, answers, show_all=show_all, examples=len(shots)))


def _prompt_mode(modes: dict[str, Any], options: dict[str, Any]) -> str:
    """The requested mode; InputError for options without effect in it."""
    requested = list(modes)
    if len(requested) > 1:
        raise InputError(f"--{requested[0]} and --{requested[1]} together", hint=f"ask in one way: {MODE_HINT}")
    if not requested and "shots" not in options:
        raise InputError("a text alone asks nothing", hint=f"add {MODE_HINT}; forebear generate continues a text")
    mode = requested[0] if requested else "shots"
    if unused := [name for name in options if name not in MODE_OPTIONS[mode]]:
        other_modes = [f"--{name}" for name in MODE_OPTIONS if name != "shots" and unused[0] in MODE_OPTIONS[name]]
        hint = f"it goes with {' or '.join(other_modes)}, or leave it out"
        raise InputError(f"--{unused[0]} changes nothing with --{mode}", hint=hint)
    return mode


def _answer_function(loaded_run: Run, mode: str, options: dict[str, Any]) -> Callable[[list[str]], list[Any]]:
    """The function that answers a batch of texts in this mode."""
    from forebear.inference.prompted_generation import generate_replies, summarize
    from forebear.inference.prompting import score_options

    options = {name: value for name, value in options.items() if name != "table"}
    if "template" in options:
        options["template"] = options["template"].replace("\\n", "\n")
    tokenizer = loaded_run.vocabulary_tokenizer
    if mode in ("labels", "choices"):
        return lambda batch: score_options(loaded_run.scorer, tokenizer, batch, **options)
    loaded_run.require("generate")
    if mode == "cue":
        options["cue"] = None if options["cue"] == "auto" else options["cue"]
    generate_fn = summarize if mode == "cue" else generate_replies
    return lambda batch: generate_fn(loaded_run.predictor, tokenizer, batch, **options)


def _read_whole_files(texts: Sequence[str] | None, batch_input: BatchInputOptions) -> Iterator[InputLine]:
    """The texts of the arguments, then each file (of a folder or glob) as one text."""
    from forebear.data.io.sources import find_sources
    from forebear.data.io.text_blocks import TextBlocks
    from forebear.data.io.text_ledger import Ledger

    yield from (InputLine(text) for text in texts or () if text != STDIN_PATH)
    file = batch_input.input_file or (STDIN_PATH if STDIN_PATH in (texts or ()) else None)
    for source in () if file is None else find_sources([file]):
        blocks = TextBlocks(source, batch_input.encoding or DEFAULT_ENCODING, "fail", Ledger())
        yield InputLine("".join(blocks).strip(), source.name, 1)


def _track_progress(
    lines: Iterable[InputLine], batch_input: BatchInputOptions, progress: Callable[[int, int], None]
) -> Iterator[InputLine]:
    """Yield the lines and report how much of the file was read."""
    file = batch_input.input_file
    num_read, total = 0, file.stat().st_size if file is not None and file.is_file() else 0
    for line in lines:
        yield line
        num_read += len(line.text.encode("utf-8", "replace")) + 1
        if file is not None:
            progress(num_read, max(total, num_read))


def _print_result(console: Console, answers: Answers, *, show_all: bool, examples: int) -> None:
    from forebear.inference.prompting import PromptAnswer

    table = Table("answer", ">P", "text")
    for index, answer in enumerate(answers, 1):
        if not isinstance(answer, PromptAnswer):
            if len(answers) > 1:
                console.rule(str(index), align="left", style="dim")
            console.plain(replace_controls(answer.answer))
        elif show_all:
            _print_answers(console, answer)
        else:
            text = answer.text[:MAX_TABLE_CHARACTERS] + "…" * (len(answer.text) > MAX_TABLE_CHARACTERS)
            best = answer.best
            table.add_row(*(("–", "") if best is None else (best.name, f"{best.probability:.2%}")), text)
    if table.row_count:
        console.print(table)
    for note in _notes(answers, examples):
        console.warn(note)


def _print_answers(console: Console, answer: PromptAnswer) -> None:
    """Print all options for a text, the most probable first."""
    is_calibrated = answer.answers[0].content_free_log_prob is not None
    has_verbalizers = any(option.verbalizer != option.name for option in answer.answers)
    columns = ("answer", ">P", "", ">log P", *[">without the text"] * is_calibrated)
    table = Table(*columns, "best as" if has_verbalizers else ">bits/byte", "in its place")
    for option in sorted(answer.answers, key=lambda option: -option.probability):
        cells = [option.name, f"{option.probability:.2%}", text_bar(option.probability, 20)]
        cells.append(format_number(option.log_prob))
        cells += [] if option.content_free_log_prob is None else [format_number(option.content_free_log_prob)]
        prompt = "…" * (len(option.prompt) > MAX_PROMPT_CHARACTERS) + option.prompt[-MAX_PROMPT_CHARACTERS:]
        table.add_row(*cells, option.verbalizer if has_verbalizers else format_number(option.bits_per_byte), prompt)
    console.print(table)


def _notes(answers: Answers, examples: int) -> Iterator[str]:
    """Notes on truncation, examples, ties and unknown words."""
    from forebear.inference.prompting import PromptAnswer

    if cut := [answer.num_truncated for answer in answers if answer.num_truncated]:
        subject = "the text" if len(answers) == 1 else f"{len(cut):,} texts"
        yield f"{subject} had no room in the run's context: {sum(cut):,} tokens farthest from the answer were left out"
    if examples:
        min_shots, max_shots = min(answer.shots for answer in answers), max(answer.shots for answer in answers)
        num_shots = str(min_shots) if min_shots == max_shots else f"{min_shots} to {max_shots}"
        yield f"examples that had room before the text: {num_shots} of {examples}"
    answered = [answer for answer in answers if isinstance(answer, PromptAnswer)]
    if any(answer.is_pseudo_likelihood for answer in answered):
        yield "the run told the answers by both sides: that ranks them, but log P is no probability of the text"
    if names := {option.name for answer in answered for option in answer.answers if option.num_unknown}:
        listed_names = ", ".join(map(printable_cell, sorted(names)))
        yield f"the run's vocabulary lacks words of: {listed_names}; charged by their spelling"
    if tied := sum(answer.is_tied for answer in answered):
        yield f"no answer is likelier than another for {tied:,} of {len(answered):,} texts: the run sees no difference"
    if num_impossible := sum(answer.best is None for answer in answered):
        yield f"every answer is impossible for this run in {num_impossible:,} of {len(answered):,} texts"
