"""`forebear ask`: prompting without training. Labels, choices, words for a blank, a summary, answers after examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.batch_io import (
    DEFAULT_ENCODING,
    SINGLE_INPUT,
    STDIN_PATH,
    BatchInputOptions,
    InputLine,
    TextArguments,
    counting_progress,
    format_number,
    open_run,
    printable_cell,
    read_choices,
)
from forebear.cli.output import Output, count_phrase, text_bar
from forebear.cli.output import make_table as made_table
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inference.prompting import PromptAnswer, PromptReply
    from forebear.inference.run import Run

Answers = Sequence["PromptAnswer | PromptReply"]

CHOOSING, WRITING = ("calibrate", "neutral", "per", "table"), ("sentences", "length", "seed")
# What each way of asking takes; what would change nothing is refused.
TAKES = {
    "labels": ("template", "shots", *CHOOSING),
    "choices": CHOOSING,
    "cue": WRITING,
    "shots": ("template", "shots", "length"),
}
WAYS = '--labels "good,bad", --choices "this" "that", --cue "TL;DR:", or examples of answers: --shots FILE'
SHORT, SHOWN = 60, 160  # characters of a text in a table of many, and of a whole with an answer


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

    def given_options(self) -> dict[str, Any]:
        """What was given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


PLAINLY = AskOptions()


def ask(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    labels: str | None = None,
    choices: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    cue: str | None = None,
    details: AskOptions = PLAINLY,
    many: BatchInputOptions = SINGLE_INPUT,
    speaking: Output = Output(),
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
    run
        The run's folder.
    texts
        What is asked about, each argument by itself; - for the lines of standard input.
    labels
        Two labels or more with commas between them; words that stand for one: good=great|fine,bad=poor.
    choices
        Two continuations or more, or words for a ____ in the text: each an argument, or the lines of one file.
    cue
        What stands after a text to have its summary written; auto: TL;DR: or 总之，. With --in, every file is a text.
    """
    said, choices = details.given_options(), read_choices(choices)
    way = _way({"labels": labels, "choices": choices, "cue": cue}, said)
    using = open_run(run, "ask", speaking)
    shots = _shots(details.shots)
    what = {"labels": labels, "choices": choices, "cue": None if cue == "auto" else cue}
    asked = _asker(using, way, said | ({"shots": shots} if shots else {}), what)
    told = {"texts": 0, "cut_texts": 0}
    is_one = many == SINGLE_INPUT and STDIN_PATH not in (texts or ())
    with (
        speaking.progress("asking") as look,
        nullcontext(int) if is_one else counting_progress(speaking, "texts") as count,
    ):

        def heard(group: list[str]) -> list[Any]:
            answers = asked(group)
            told["texts"] += len(answers)
            told["cut_texts"] += sum(answer.num_truncated > 0 for answer in answers)
            count(len(answers))
            return answers

        lines = _whole_files(texts, many) if way == "cue" else many.valid_inputs(texts)
        answers: Answers = many.run_batch(_watched(lines, many, look), heard, lambda answer: answer.to_dict())
    if not told["texts"]:
        raise InputError("there is no text to ask about", hint='forebear ask RUN "some text" …, or --in FILE')
    settings = {"labels": labels, "choices": choices, "cue": cue, **said}
    facts = {"run": using.name, "settings": {name: value for name, value in settings.items() if value is not None}}
    if many.output_file is not None:
        done = (
            f"{count_phrase(told['texts'], 'text')} asked, {told['cut_texts']:,} of them cut to fit: {many.output_file}"
        )
        facts |= {**told, "out": str(many.output_file)}
        speaking.emit(facts, lambda console: console.print(done, soft_wrap=True, markup=False))
        return
    facts |= {"examples": len(shots), "texts": [answer.to_dict() for answer in answers]}
    whole = details.table is not None or len(answers) == 1
    speaking.emit(facts, lambda console: _draw(console, answers, whole=whole, examples=len(shots)))


def _shots(file: Path | None) -> list[tuple[str, str]]:
    if file is None:
        return []
    from forebear.inference.prompt_templates import read_shots

    return read_shots(file)


def _way(ways: dict[str, Any], said: dict[str, Any]) -> str:
    """Which of the ways to ask is meant; whatever it does not take is refused."""
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} together", hint=f"ask in one way: {WAYS}")
    if not given and "shots" not in said:
        raise InputError("a text alone asks nothing", hint=f"add {WAYS}; forebear generate continues a text")
    way = given[0] if given else "shots"
    for name in said:
        if name not in TAKES[way]:
            others = " or ".join(f"--{other}" for other, takes in TAKES.items() if name in takes and other != "shots")
            raise InputError(f"--{name} changes nothing with --{way}", hint=f"it goes with {others}, or leave it out")
    return way


def _asker(using: Run, way: str, said: dict[str, Any], what: dict[str, Any]) -> Callable[[list[str]], list[Any]]:
    """What answers some texts in this way."""
    how = {name: value for name, value in said.items() if name != "table"}
    if "template" in how:
        how["template"] = how["template"].replace("\\n", "\n")
    if way in ("labels", "choices"):
        from forebear.inference.prompting import score_options as chosen

        how[way] = what[way]
        return lambda group: chosen(using.scorer, using.vocabulary_tokenizer, group, **how)
    using.require("generate")
    from forebear.inference.prompting import generate_replies, summarize

    if way == "cue":
        return lambda group: summarize(using.predictor, using.vocabulary_tokenizer, group, cue=what["cue"], **how)
    return lambda group: generate_replies(using.predictor, using.vocabulary_tokenizer, group, **how)


def _whole_files(texts: Sequence[str] | None, many: BatchInputOptions) -> Iterator[InputLine]:
    """The texts given here, then each file (of a folder, a glob) as one."""
    from forebear.data.io.files import TextBlocks, find_sources
    from forebear.data.io.ledger import Ledger

    yield from (InputLine(text) for text in texts or () if text != STDIN_PATH)
    file = many.input_file or (STDIN_PATH if STDIN_PATH in (texts or ()) else None)
    for source in () if file is None else find_sources([file]):
        yield InputLine(
            "".join(TextBlocks(source, many.encoding or DEFAULT_ENCODING, "fail", Ledger())).strip(), source.name, 1
        )


def _watched(
    lines: Iterable[InputLine], many: BatchInputOptions, look: Callable[[int, int], None]
) -> Iterator[InputLine]:
    """The lines, telling how far they are read."""
    file = many.input_file
    done, total = 0, file.stat().st_size if file is not None and file.is_file() else 0
    for line in lines:
        yield line
        done += len(line.text.encode("utf-8", "replace")) + 1
        if file is not None:
            look(done, max(total, done))


# -- for people


def _draw(console: Console, answers: Answers, *, whole: bool, examples: int) -> None:
    from forebear.inference.prompting import PromptAnswer

    chosen = [answer for answer in answers if isinstance(answer, PromptAnswer)]
    if not chosen:
        _draw_written(console, [answer for answer in answers if not isinstance(answer, PromptAnswer)])
    elif whole:
        for answer in chosen:
            _draw_answers(console, answer)
    else:
        made = made_table("answer", ">P", "text")
        for answer in chosen:
            best, text = answer.best, answer.text[:SHORT] + "…" * (len(answer.text) > SHORT)
            told = ("–", "") if best is None else (printable_cell(best.name), f"{best.probability:.2%}")
            made.add_row(*told, printable_cell(text))
        console.print(made)
    for note in _notes(answers, examples):
        console.print(f"[yellow]{note}[/]", soft_wrap=True)


def _draw_answers(console: Console, answer: PromptAnswer) -> None:
    """All answers to a text, the likeliest first."""
    calibrated = answer.answers[0].neutral_log_probability is not None
    worded = any(one.verbalizer != one.name for one in answer.answers)
    columns = ("answer", ">P", "", ">log P", *([">without the text"] if calibrated else []))
    made = made_table(*columns, "best as" if worded else ">bits/byte", "in its place")
    for one in sorted(answer.answers, key=lambda one: -one.probability):
        cells = [
            printable_cell(one.name),
            f"{one.probability:.2%}",
            text_bar(one.probability, 20),
            format_number(one.log_prob),
        ]
        cells += [] if one.neutral_log_probability is None else [format_number(one.neutral_log_probability)]
        shown = one.prompt if len(one.prompt) <= SHOWN else "…" + one.prompt[-SHOWN:]
        made.add_row(
            *cells,
            printable_cell(one.verbalizer) if worded else format_number(one.bits_per_byte),
            printable_cell(shown),
        )
    console.print(made)


def _draw_written(console: Console, answers: Sequence[PromptReply]) -> None:
    for at, answer in enumerate(answers):
        if len(answers) > 1:
            console.rule(str(at + 1), align="left", style="dim")
        console.print(_harmless(answer.answer), markup=False, soft_wrap=True)


def _harmless(text: str) -> str:
    """What a run writes may hold control characters; none of them reaches the terminal but line ends and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _notes(answers: Answers, examples: int) -> Iterator[str]:
    """What a person should know of the answers."""
    from forebear.inference.prompting import PromptAnswer

    if cut := [answer.num_truncated for answer in answers if answer.num_truncated]:
        which = "the text" if len(answers) == 1 else f"{len(cut):,} texts"
        yield f"{which} had no room in the run's context: {sum(cut):,} tokens farthest from the answer were left out"
    if examples:
        least, most = min(answer.shots for answer in answers), max(answer.shots for answer in answers)
        shown = str(least) if least == most else f"{least} to {most}"
        yield f"examples that had room before the text: {shown} of {examples}"
    chosen = [answer for answer in answers if isinstance(answer, PromptAnswer)]
    if any(answer.is_pseudo_likelihood for answer in chosen):
        yield "the run told the answers by both sides: that ranks them, but log P is no probability of the text"
    if names := {one.name for answer in chosen for one in answer.answers if one.num_unknown}:
        yield f"the run's vocabulary lacks words of: {', '.join(map(printable_cell, sorted(names)))}; charged by their spelling"
    if tied := sum(answer.is_tied for answer in chosen):
        yield f"no answer is likelier than another for {tied:,} of {len(chosen):,} texts: the run sees no difference"
    if impossible := sum(answer.best is None for answer in chosen):
        yield f"every answer is impossible for this run in {impossible:,} of {len(chosen):,} texts"
