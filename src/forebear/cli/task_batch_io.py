"""Batch input and output of runs with a task head: reads labeled files or plain lines, writes predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import DEFAULT_ENCODING, STDIN_PATH, BatchInputOptions, to_json
from forebear.cli.output import Output, count_phrase
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.data.labeled.labeled_format import LabeledFormat, RejectedRow
    from forebear.inference.run import Run

STRUCTURED_SUFFIXES = (".tsv", ".csv", ".jsonl", ".json", ".conll", ".bio", ".iob", ".bmes")

MAX_SHOWN_ROWS = 10  # rejected rows


@Parameter(name="*")
@dataclass(frozen=True)
class ExampleBatchOptions(BatchInputOptions):
    """Many examples at once."""

    input_file: Annotated[Path | None, Parameter(name="--in")] = None
    """Taken after what is given here (also .gz, .zst). .tsv, .csv, .jsonl, .json, .conll, .bio, .iob and .bmes are
    written as the file that the run learned from, with or without labels; any other, and - for standard input, is
    plain, an example a line. Words that plainly have tags with them, word/tag or in columns, are taken without."""
    output_file: Annotated[Path | None, Parameter(name="--out")] = None
    """Write the answers to this file instead, in order: .jsonl and .json a JSON object a line; any other name as told
    above. What could not be read keeps its place, with the error or as an empty line."""


@dataclass(frozen=True)
class LineFormat:
    """Format of plain lines with one example or answer of a task each.

    unit           noun for examples, in the plural
    description    contents of a line
    parse_line     converts a line to an example
    format_answer  converts an answer to a line, for files other than JSON lines
    error_line     replaces the answer of a row that could not be read
    """

    unit: str
    description: str
    parse_line: Callable[[str], Any]
    format_answer: Callable[[Any], str]
    error_line: str = "\n"


@dataclass
class ExampleStream:
    """All examples of a command in order, and the rejected rows with the number of examples before each."""

    run: Run
    examples: list[Any]
    batch_options: BatchInputOptions
    line_format: LineFormat
    count: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    rejected_positions: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        for example in chain(self.examples, self._file_examples()):
            self._record_positions()
            self.count += 1
            yield example
        self._record_positions()
        if not self.count:
            raise InputError("there is nothing to do", hint=f"give {self.line_format.unit}, or --in FILE")

    def _record_positions(self) -> None:
        self.rejected_positions += [self.count] * (len(self.rejected) - len(self.rejected_positions))

    def _file_examples(self) -> Iterator[Any]:
        """Examples of the input file, in the format of the training data or one per line; rejected rows go to
        `self.rejected`."""
        if (file := self.batch_options.input_file) is None:
            return iter(())
        name = file.name.removesuffix(".gz").removesuffix(".zst")
        is_structured = name.endswith(STRUCTURED_SUFFIXES) or self._has_tags(file)
        return self._read_structured(file) if is_structured else self._read_plain_lines(file)

    def _has_tags(self, file: Path) -> bool:
        """Whether the run is a tagger and the file clearly has tagged words, whatever its name."""
        from forebear.data.io.sources import find_sources
        from forebear.data.labeled.detect_format import FileHead

        if str(file) == STDIN_PATH or self.run.task is None or self.run.task.name != "tagging":
            return False
        try:
            head = FileHead.read(next(find_sources([file])), self.batch_options.encoding or DEFAULT_ENCODING, "replace")
            return head.tag_columns() is not None
        except InputError:  # raised again when the lines are read
            return False

    def _read_structured(self, file: Path) -> Iterator[Any]:
        from forebear.data.labeled.load import read_examples

        assert self.run.task is not None
        count_before, file_format = self.count, _labeled_format(self.run, file, self.batch_options.encoding)
        options: dict[str, Any] = {"labels": "optional", "on_bad_rows": "skip", "rejected": self.rejected}
        try:
            yield from read_examples([str(file)], self.run.task.name, file_format, **options)
        except InputError as error:
            if self.count == count_before and (self.rejected or error.message.startswith("there is no column")):
                error.hint = f"the run learned from {_describe_format(file_format)}: write the file so"
            elif error.byte is not None and error.message.startswith("not "):
                error.hint = "mend the file, or name the right --encoding (gb18030, big5, …)"
            raise

    def _read_plain_lines(self, file: Path) -> Iterator[Any]:
        from forebear.data.labeled.labeled_format import RejectedRow

        count_before = self.count
        for input_line in self.batch_options.read_inputs():
            example, reason = None, input_line.decode_error
            try:
                example = None if reason else self.line_format.parse_line(input_line.text)
            except InputError as error:
                reason = error.message
            if reason:
                self.rejected.append(RejectedRow(input_line.file or str(file), input_line.line, reason))
            else:
                yield example
        if self.rejected and self.count == count_before:
            first_rejected = self.rejected[0]
            hint = f"a line holds {self.line_format.description}; another encoding is named with --encoding"
            message = f"all lines are bad; this one: {first_rejected.reason}"
            raise InputError(message, file=first_rejected.file, line=first_rejected.line, hint=hint)

    def interleave_rejected(self, answers: Iterable[Any]) -> Iterator[Any]:
        """The answers with each rejected row at its position."""
        num_yielded = 0
        for index, answer in enumerate(answers):
            while num_yielded < len(self.rejected_positions) and self.rejected_positions[num_yielded] <= index:
                yield self.rejected[num_yielded]
                num_yielded += 1
            yield answer
        yield from self.rejected[num_yielded:]


def _labeled_format(run: Run, file: Path, encoding: str | None) -> LabeledFormat:
    """The format of the run's training data, or detected from the file if the run was imported."""
    from forebear.data.labeled.labeled_format import LabeledFormat
    from forebear.data.labeled.load import detect_format, format_like

    assert run.task is not None
    if labeled := run.metadata.get("labelled"):
        file_format = LabeledFormat.from_dict(labeled["source"]["form"])
        return format_like(str(file), file_format if encoding is None else replace(file_format, encoding=encoding))
    return detect_format(str(file), run.task.name, encoding=encoding or "utf-8").file_format


def _describe_format(file_format: LabeledFormat) -> str:
    """The format of a labeled file in words."""
    from forebear.data.labeled.labeled_format import LABELED_FORMATS

    columns = [*file_format.texts, *file_format.choices, *([] if file_format.label is None else [file_format.label])]
    if file_format.kind in ("squad", "conll", "tagged") or not columns:
        return LABELED_FORMATS[file_format.kind]
    kind = ("column" if file_format.kind in ("tsv", "csv") else "field") + "s" * (len(columns) > 1)
    return f"{LABELED_FORMATS[file_format.kind]} with the {kind} {', '.join(map(str, columns))}"


def run_task_command(
    run: Run,
    argument_examples: list[Any],
    batch_input: BatchInputOptions,
    output: Output,
    line_format: LineFormat,
    draw: Callable[[Any, Any], object],
) -> None:
    """Answer the given examples and those of --in; draw answers with draw(console, answer), or write them to --out."""
    from forebear.inference.task_predictions import format_predictions

    examples = ExampleStream(run, argument_examples, batch_input, line_format)
    answers: list[Any] = []
    with output.counter(line_format.unit) as progress:
        predictions = format_predictions(run, examples, progress)
        if batch_input.output_file is None:
            answers = list(predictions)
        else:
            _write_answers(batch_input.output_file, examples.interleave_rejected(predictions), line_format)
    rejected, count = examples.rejected, examples.count
    for row in rejected[:MAX_SHOWN_ROWS]:
        print(f"not read: {row}", file=sys.stderr)  # noqa: T201
    if len(rejected) > MAX_SHOWN_ROWS:
        print(f"not read: {len(rejected) - MAX_SHOWN_ROWS:,} more", file=sys.stderr)  # noqa: T201
    result: dict[str, Any] = {"run": run.name, "count": count}
    result["bad"] = [{"file": row.file, "line": row.line, "reason": row.reason} for row in rejected]
    if batch_input.output_file is not None:
        batch_input.emit_written(result, count_phrase(count, line_format.unit.removesuffix("s")), output)
        return
    result["answers"] = [answer.to_dict() for answer in answers]
    output.emit(result, lambda console: [draw(console, answer) for answer in answers])


def _write_answers(file: Path, answers: Iterable[Any], line_format: LineFormat) -> None:
    """Write the file atomically, as JSON lines or plain lines."""
    from forebear.data.io.atomic import atomic_write, explain_disk_errors
    from forebear.data.labeled.labeled_format import RejectedRow

    writes_json = file.name.endswith((".jsonl", ".json"))
    with explain_disk_errors(file), atomic_write(file) as output:
        for answer in answers:
            is_rejected = isinstance(answer, RejectedRow)
            if writes_json:
                record = {"line": answer.line, "error": answer.reason} if is_rejected else answer.to_dict()
                line = to_json(record) + "\n"
            else:
                line = line_format.error_line if is_rejected else line_format.format_answer(answer)
            output.write(line.encode("utf-8", "replace"))
