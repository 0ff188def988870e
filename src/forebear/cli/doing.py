"""Many examples for a run that does a task: given or from a file; answers in tables or in a file, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import STDIN, ManyOptions
from forebear.cli.printing import Speaking, counted
from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.tasks.files.forms import BadRow, Form
    from forebear.using.run import Run

STRUCTURED = (".tsv", ".csv", ".jsonl", ".json", ".conll", ".bio", ".iob", ".bmes")
SHOWN = 10  # bad rows
Make = Callable[[str], Any]  # a line of plain text into an example


@Parameter(name="*")
@dataclass(frozen=True)
class ExampleOptions(ManyOptions):
    """Many examples at once."""

    input_file: Annotated[Path | None, Parameter(name="--in")] = None
    """Taken after what is given here (also .gz, .zst). .tsv, .csv, .jsonl, .json, .conll, .bio, .iob and .bmes are
    written as the file that the run learned from, with or without labels; any other, and - for standard input, is
    plain, an example a line. Words that plainly have tags with them, word/tag or in columns, are taken without."""
    output_file: Annotated[Path | None, Parameter(name="--out")] = None
    """Write the answers to this file instead, in order: .jsonl and .json a JSON object a line; any other name as told
    above. What could not be read keeps its place, with the error or as an empty line."""


NONE = ExampleOptions()


@dataclass
class Examples:
    """All examples of a command in order, and the rows that are none, each with how many examples came before it."""

    run: Run
    given: list[Any]
    many: ManyOptions
    line: Make
    what: str
    plain: str
    count: int = 0
    bad: list[BadRow] = field(default_factory=list)
    before: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        for example in self.given:
            self.count += 1
            yield example
        for example in self._of_file():
            self._place()
            self.count += 1
            yield example
        self._place()
        if not self.count:
            raise BadInput("there is nothing to do", remedy=f"give {self.what}, or --in FILE")

    def _place(self) -> None:
        self.before += [self.count] * (len(self.bad) - len(self.before))

    def _of_file(self) -> Iterator[Any]:
        """As those that the run learned from are written, or a line each; what cannot be read is entered in `bad`."""
        if (file := self.many.input_file) is None:
            return iter(())
        name = file.name.removesuffix(".gz").removesuffix(".zst")
        return self._structured(file) if name.endswith(STRUCTURED) or self._has_tags(file) else self._plain(file)

    def _has_tags(self, file: Path) -> bool:
        """Whether words are to be tagged, and those of this file plainly have tags with them, whatever its name."""
        from forebear.tasks.files.recognising import Head
        from forebear.text.sources import find

        if str(file) == STDIN or self.run.task is None or self.run.task.name != "tagging":
            return False
        try:
            return Head.of(next(find([file])), self.many.encoding or "utf-8", "replace").of_tags() is not None
        except BadInput:  # which is told where the lines are read
            return False

    def _structured(self, file: Path) -> Iterator[Any]:
        from forebear.tasks.files.reading import examples

        assert self.run.task is not None
        before, form = self.count, _form(self.run, file, self.many.encoding)
        try:
            name = self.run.task.name
            yield from examples([str(file)], name, form, labels="optional", on_bad_rows="skip", bad=self.bad)
        except BadInput as error:
            if self.count == before and (self.bad or error.what.startswith("there is no column")):
                error.remedy = f"the run learned from {_told(form)}: write the file so"
            elif error.byte is not None and error.what.startswith("not "):
                error.remedy = "mend the file, or name the right --encoding (gb18030, big5, …)"
            raise

    def _plain(self, file: Path) -> Iterator[Any]:
        from forebear.tasks.files.forms import BadRow

        before = self.count
        for one in self.many.read():
            fault = one.fault
            if not fault:
                try:
                    example = self.line(one.text)
                except BadInput as error:
                    fault = error.what
                else:
                    yield example
                    continue
            self.bad.append(BadRow(one.file or str(file), one.line, fault))
        if self.bad and self.count == before:
            first, remedy = self.bad[0], f"a line holds {self.plain}; another encoding is named with --encoding"
            what = f"all lines are bad; this one: {first.reason}"
            raise BadInput(what, file=first.file, line=first.line, remedy=remedy)

    def among(self, answers: Iterable[Any]) -> Iterator[Any]:
        """The answers, and every bad row at its place among them."""
        told = 0
        for number, answer in enumerate(answers):
            while told < len(self.before) and self.before[told] <= number:
                yield self.bad[told]
                told += 1
            yield answer
        yield from self.bad[told:]


def _form(run: Run, file: Path, encoding: str | None) -> Form:
    """How a file is written; where the run was imported, nobody knows what it learned from: the file is looked at."""
    from forebear.tasks.files.forms import Form
    from forebear.tasks.files.reading import as_written, guess

    assert run.task is not None
    if told := run.facts.get("labelled"):
        form = Form.from_json(told["source"]["form"])
        return as_written(str(file), form if encoding is None else replace(form, encoding=encoding))
    return guess(str(file), run.task.name, encoding=encoding or "utf-8").form


def _told(form: Form) -> str:
    """How a file is written, in words."""
    from forebear.tasks.files.forms import KINDS

    columns = [*form.texts, *form.choices, *([] if form.label is None else [form.label])]
    if form.kind in ("squad", "conll", "tagged") or not columns:
        return KINDS[form.kind]
    kind = "column" if form.kind in ("tsv", "csv") else "field"
    return f"{KINDS[form.kind]} with the {kind}{'s' * (len(columns) > 1)} {', '.join(map(str, columns))}"


def do(
    run: Run,
    given: list[Any],
    many: ManyOptions,
    speaking: Speaking,
    *,
    line: Make,
    plain: str,
    what: str,
    draw: Callable[[Any, Any], object],
    write: Callable[[Any], str],
    gap: str = "\n",
) -> None:
    """Answers for the given examples and those of --in, drawn (console, answer) or written to --out.

    `plain` says what `line` expects; `write` is how an answer stands in a file whose name does not end in .jsonl, and
    `gap` what stands there for a row that could not be read.
    """
    from forebear.using.doing import told as answered

    examples = Examples(run, given, many, line, what, plain)
    told: list[Any] = []
    with speaking.counting(what) as progress:
        answers = answered(run, examples, progress)
        if many.output_file is None:
            told = list(answers)
        else:
            as_json = many.output_file.name.endswith((".jsonl", ".json"))
            _written(many.output_file, examples.among(answers), _json if as_json else _with_gaps(write, gap))
    bad, count = examples.bad, examples.count
    for row in bad[:SHOWN]:
        print(f"not read: {row}", file=sys.stderr)  # noqa: T201
    if len(bad) > SHOWN:
        print(f"not read: {len(bad) - SHOWN:,} more", file=sys.stderr)  # noqa: T201
    facts: dict[str, Any] = {"run": run.name, "count": count}
    facts["bad"] = [{"file": row.file, "line": row.line, "reason": row.reason} for row in bad]
    if many.output_file is not None:
        facts["out"] = str(many.output_file)
        done = f"{counted(count, what.removesuffix('s'))}: {many.output_file}"
        speaking.tell(facts, lambda console: console.print(done, markup=False))
        return
    facts["answers"] = [answer.facts() for answer in told]
    speaking.tell(facts, lambda console: [draw(console, answer) for answer in told])


def _json(answer: Any) -> str:
    """An answer, or the error of a row, as an object."""
    from forebear.tasks.files.forms import BadRow

    facts = {"line": answer.line, "error": answer.reason} if isinstance(answer, BadRow) else answer.facts()
    return json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n"


def _with_gaps(write: Callable[[Any], str], gap: str) -> Callable[[Any], str]:
    from forebear.tasks.files.forms import BadRow

    return lambda answer: gap if isinstance(answer, BadRow) else write(answer)


def _written(file: Path, answers: Iterable[Any], write: Callable[[Any], str]) -> None:
    """The file appears only when all of it is there."""
    from forebear.text.aside import disk_told, written_aside

    with disk_told(file), written_aside(file) as aside:
        for answer in answers:
            aside.write(write(answer).encode("utf-8", "replace"))
