"""Batch input and output: texts from arguments or a file (one per line), results as tables or a file (one per line)."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.output import Output, count_phrase
from forebear.data.io.text_blocks import TextBlocks
from forebear.data.io.text_ledger import Ledger
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inference.run import Run

STDIN_PATH = "/dev/stdin"  # `main` replaces a lone - by it
MAX_SHOWN_BYTES = 8  # undecodable bytes of a line
BATCH_LINES = 256  # lines of a file in one batch
BATCH_CHARACTERS = 1 << 20  # or as many lines as have this many characters in all
DEFAULT_ENCODING = "utf-8"
AnswerFn = Callable[[list[str]], list[Any]]  # texts → their answers
AnswerTextFn = Callable[[Any], Any]
_UNDECODABLE_BYTES = re.compile("[\udc00-\udcff]")  # as lone surrogates, which no text contains

TextArguments = Annotated[list[str] | None, Parameter(negative="")]
RunArgument = Annotated[Path, Parameter(help="The run's folder.")]
VectorRunArgument = Annotated[Path, Parameter(help="The run's folder: any with vectors.")]
WordRunArgument = Annotated[Path, Parameter(help="The run's folder: one whose tokens are words.")]


@dataclass(frozen=True)
class InputLine:
    """A text with its file and line (None for an argument); `decode_error` says why a line could not be decoded."""

    text: str
    file: str | None = None
    line: int | None = None
    decode_error: str = ""


class MarkedTextBlocks(TextBlocks):
    """Text blocks in which undecodable bytes are marked, so that errors can name their lines."""

    def repair(self, error: UnicodeDecodeError) -> tuple[str, int]:
        return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


def check_output_file(output: Path | None, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Raise InputError for an output file that is also an input or whose folder does not exist, before any work."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise InputError(f"there is no folder {output.parent}", hint="make it, or name another file")
    if output.is_dir():
        raise InputError(f"{output} is a folder", hint="name a file in it")
    if not output.is_file():
        return
    from forebear.data.io.sources import find_sources

    paths = [path for path in inputs if os.fspath(path) != STDIN_PATH]
    target = output.resolve()
    for source in find_sources(paths) if paths else ():
        if Path(source.path).resolve() == target:
            raise InputError(f"{output} is read, and would be replaced by the answers", hint="name another file")


@Parameter(name="*")
@dataclass(frozen=True)
class BatchInputOptions:
    """Many texts at once."""

    input_file: Annotated[Path | None, Parameter(name="--in")] = None
    "A file with a text a line, taken after those given here (also .gz, .zst; - for standard input)."
    output_file: Annotated[Path | None, Parameter(name="--out")] = None
    "Write the answers to this file instead, a JSON object a line, in the order of the texts (also .gz, .zst)."
    encoding: Annotated[str | None, Parameter(show_default=False)] = None
    "The encoding of the file, such as gb18030. [default: utf-8]"

    def __post_init__(self) -> None:
        check_output_file(self.output_file, [] if self.input_file is None else [self.input_file])

    def valid_inputs(self, texts: Sequence[str] | None) -> Iterator[InputLine]:
        """All texts in order, read lazily; InputError for a line that cannot be decoded."""
        for line in self.read_inputs(texts):
            if line.decode_error:
                hint = "mend the line, or name the right --encoding (gb18030, big5, …)"
                raise InputError(line.decode_error, file=line.file, line=line.line, hint=hint)
            yield line

    def read_inputs(self, texts: Sequence[str] | None = None) -> Iterator[InputLine]:
        """All texts in order, including lines that cannot be decoded."""
        arguments = list(texts or ())
        file = self.input_file or (Path(STDIN_PATH) if STDIN_PATH in arguments else None)
        yield from (InputLine(text) for text in arguments if text != STDIN_PATH)
        if file is None:
            return
        from forebear.data.io.sources import find_sources
        from forebear.data.io.text_formats import numbered_lines

        for source in find_sources([file]):
            blocks = MarkedTextBlocks(source, self.encoding or DEFAULT_ENCODING, "fail", Ledger())
            for number, line, _ in numbered_lines(blocks):
                bad_bytes = [] if line.isascii() else _UNDECODABLE_BYTES.findall(line)
                hex_codes = " ".join(f"0x{ord(character) - 0xDC00:02x}" for character in bad_bytes[:MAX_SHOWN_BYTES])
                ellipsis = " …" * (len(bad_bytes) > MAX_SHOWN_BYTES)
                decode_error = f"not {blocks.encoding}: {hex_codes}{ellipsis}" if bad_bytes else ""
                yield InputLine(line.removesuffix("\r"), source.name, number, decode_error)

    def reads_lines(self, texts: Sequence[str] | None) -> bool:
        """Whether texts come from a file or standard input, so that results must have the order of its lines."""
        return self.input_file is not None or STDIN_PATH in (texts or ())

    def count_inputs(self, texts: Sequence[str] | None, *, blank: bool = False) -> int:
        """Count the texts; InputError for lines that cannot be decoded and, unless `blank`, for blank lines."""
        count = 0
        for line in self.valid_inputs(texts):
            if line.file is not None and not blank and not line.text.strip():
                message = "this text has no tokens: the line is empty"
                hint = "leave it out, or write some text: there is an answer for every line"
                raise InputError(message, file=line.file, line=line.line, hint=hint)
            count += 1
        return count

    def run_batch(
        self,
        lines: Iterable[InputLine],
        answer_batch: AnswerFn,
        to_record: Callable[[Any], dict[str, Any] | str] = lambda answer: answer.to_dict(),
        batch_size: int = BATCH_LINES,
        partial_results: PartialResults | None = None,
    ) -> list[Any]:
        """Answer all lines; without an output file return the answers, otherwise write them there and return none.

        `to_record` converts an answer to a record or to a line of text. The file appears once it is complete. With
        `partial_results`, a line without an answer does not end the batch.
        """
        answer_group = add_source_location if partial_results is None else partial_results.collect

        def answer_lines() -> Iterator[Any]:
            for batch in group_inputs(lines, batch_size):
                yield from answer_group(batch, answer_batch)
            if partial_results is not None:
                partial_results.raise_if_all_failed()

        if self.output_file is None:
            return list(answer_lines())
        from forebear.data.io.atomic import explain_disk_errors
        from forebear.data.io.compression import atomic_compressed_file

        with explain_disk_errors(self.output_file), atomic_compressed_file(self.output_file) as file:
            is_empty = True
            for answer in answer_lines():
                is_empty = False
                record = to_record(answer)
                file.write((record if isinstance(record, str) else to_json(record)).encode() + b"\n")
            if is_empty:  # raised before the file appears
                raise InputError("there is no text", hint='give "a text", or a file that has some: --in FILE')
        return []

    def emit_written(self, result: dict[str, Any], summary: str, output: Output) -> None:
        """Print that the answers are in the output file."""
        output.emit_summary(result | {"out": str(self.output_file)}, f"{summary}: {self.output_file}")


def to_json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def read_choices(choices: Sequence[str] | None) -> list[str] | None:
    """The choices; a single choice that names a file is replaced by the lines of the file."""
    if choices is None or len(choices) != 1 or not Path(choices[0]).is_file():
        return None if choices is None else list(choices)
    return [line.text for line in BatchInputOptions(Path(choices[0])).valid_inputs(None) if line.text.strip()]


def group_inputs(lines: Iterable[InputLine], batch_size: int) -> Iterator[list[InputLine]]:
    """Lines in batches, limited by number of lines and of characters to bound memory."""
    batch: list[InputLine] = []
    num_characters = 0
    for line in lines:
        batch.append(line)
        num_characters += len(line.text)
        if len(batch) >= batch_size or num_characters >= BATCH_CHARACTERS:
            yield batch
            batch, num_characters = [], 0
    if batch:
        yield batch


def add_source_location(batch: list[InputLine], answer_batch: Callable[[list[str]], Any]) -> Any:
    """Call `answer_batch`; an error about text n of the batch becomes an error about its file and line."""
    try:
        return answer_batch([line.text for line in batch])
    except InputError as error:
        if error.file is None and error.line is not None:
            input_line = batch[error.line - 1]
            is_located = input_line.file is not None or repr(input_line.text) in error.message
            message = error.message if is_located else f"{error.message} ({input_line.text!r})"
            raise InputError(message, file=input_line.file, line=input_line.line, hint=error.hint) from error
        raise


def answer_one_by_one(texts: Sequence[Any], answer_text: AnswerTextFn, *, has_line_numbers: bool = True) -> list[Any]:
    """Call `answer_text` for each text; errors get the number of the text, from 1, as their line."""
    answers = []
    for index, text in enumerate(texts, 1):
        try:
            answers.append(answer_text(text))
        except InputError as error:
            error.line = error.line or (index if has_line_numbers and error.file is None else None)
            raise
    return answers


def run_per_text(
    run: Run,
    texts: Sequence[str] | None,
    batch_input: BatchInputOptions,
    output: Output,
    answer_text: AnswerTextFn,
    *,
    hint: str,
    done_verb: str,
    draw: Callable[[Any, Any], object],
) -> None:
    """Run a command text by text and draw each result with draw(console, answer), or write all to a file."""
    count = 0

    def answer_batch(batch: list[str]) -> list[Any]:
        nonlocal count
        count += len(batch)
        return answer_one_by_one(batch, answer_text)

    answers = batch_input.run_batch(batch_input.valid_inputs(texts), answer_batch)
    if not count:
        raise InputError("there is no text", hint=f"{hint}, or --in FILE")
    if batch_input.output_file is not None:
        summary = f"{count_phrase(count, 'text')} {done_verb}"
        batch_input.emit_written({"run": run.name, "texts": count}, summary, output)
        return
    result = {"run": run.name, "texts": [answer.to_dict() for answer in answers]}
    output.emit(result, lambda console: [draw(console, answer) for answer in answers])


def open_run(folder: Path, verb: str, output: Output) -> Run:
    """Load a run that supports a command; prints its notes."""
    from forebear.inference.run import Run

    loaded = Run.open(folder)
    loaded.require(verb)  # fails before any text is read
    output.note(loaded.notes)
    return loaded


@contextmanager
def counting_progress(output: Output, unit: str) -> Iterator[Callable[[int], None]]:
    """Report count and speed on stderr, periodically and at the end."""
    total = 0

    def add_count(count: int) -> None:
        nonlocal total
        total += count
        report(total, 0)

    start_time = time.monotonic()
    with output.counter(unit) as report:
        yield add_count
    seconds = time.monotonic() - start_time
    if not output.quiet:
        summary = f"{count_phrase(total, unit.removesuffix('s'))} in {seconds:.1f} s"
        print(f"{summary}, {total / max(seconds, 1e-9):,.0f} {unit}/s", file=sys.stderr)  # noqa: T201


# --- Batches in which some texts fail: results keep their positions, failures are reported at the end ---


MAX_NAMED_FAILURES = 5  # maximum number of failed texts that are listed; twice as many line numbers


@dataclass(frozen=True)
class FailedInput:
    """A text without a result: its record, its file and line, and the error."""

    record: dict[str, Any]
    file: str | None
    line: int | None
    error: InputError

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, (self.error.message, self.error.hint)))

    def to_dict(self) -> dict[str, Any]:
        return {**self.record, "line": self.line, "error": self.error.message, "remedy": self.error.hint}


@dataclass
class PartialResults:
    """Results and failures of all batches; `make_record` makes the record of a text without a result."""

    make_record: Callable[[str], dict[str, Any]] = lambda text: {"text": text}
    num_answered: int = 0
    failures: list[FailedInput] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.num_answered + len(self.failures)

    def collect(self, batch: list[InputLine], answer_batch: AnswerFn) -> list[Any]:
        """A result or a FailedInput for every line."""
        results = []
        for line, answer in zip(batch, _answer_each([line.text for line in batch], answer_batch), strict=True):
            if isinstance(answer, InputError):
                answer = FailedInput(self.make_record(line.text), line.file, line.line, answer)
                self.failures.append(answer)
            else:
                self.num_answered += 1
            results.append(answer)
        return results

    def raise_if_all_failed(self) -> None:
        """Raise the first error if no text has a result."""
        if self.num_answered or not self.failures:
            return
        first_failure = self.failures[0]
        others = f"; nor have the other {len(self.failures) - 1:,} an answer" if len(self.failures) > 1 else ""
        message, hint = f"{first_failure.error.message}{others}", first_failure.error.hint
        raise InputError(message, file=first_failure.file, line=first_failure.line, hint=hint) from first_failure.error

    def emit_failures(self, result: dict[str, Any], output: Output) -> None:
        """Add the number of failures to the result and list them on stderr."""
        if self.failures:
            result["unanswered"] = len(self.failures)
            output.note(self._notes())

    def _notes(self) -> list[str]:
        arguments = [failure for failure in self.failures if failure.line is None]
        lines = [failure for failure in self.failures if failure.line is not None]
        notes = [failure.reason for failure in arguments[:MAX_NAMED_FAILURES]]
        if len(arguments) > MAX_NAMED_FAILURES:
            notes.append(f"{len(arguments) - MAX_NAMED_FAILURES:,} more texts have no answer")
        if lines:
            limit = 2 * MAX_NAMED_FAILURES
            numbers = ", ".join(f"{failure.line:,}" for failure in lines[:limit]) + " …" * (len(lines) > limit)
            subject = count_phrase(len(lines), "line has", "lines have")
            notes.append(f"{subject} no answer, of {self.count:,} texts: {numbers}")
            notes.append(f"line {lines[0].line:,}: {lines[0].reason}")
        return notes


def _answer_each(texts: list[str], answer_batch: AnswerFn) -> list[Any]:
    """A result or an error for each text: an error about one text splits the batch there."""
    answers: list[Any] = []
    while texts:
        try:
            return answers + list(answer_batch(texts))
        except InputError as error:
            failed_number = 1 if len(texts) == 1 else error.line
            if failed_number is None or error.file is not None:
                raise
            answers += [*_answer_each(texts[: failed_number - 1], answer_batch), error]
            texts = texts[failed_number:]
    return answers
