"""One text or many: from the command line or a file, a line each; answers in a table, or in a file, a line each."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from forebear.cli.printing import Speaking, counted
from forebear.errors import BadInput
from forebear.text.blocks import Blocks
from forebear.text.ledger import Ledger

if TYPE_CHECKING:
    from forebear.cli.partly import Partly
    from forebear.using.run import Run

Answer = TypeVar("Answer")

STDIN = "/dev/stdin"  # what the front door makes of a lone -
TOGETHER = 256  # lines of a file answered at once
CHARACTERS = 1 << 20  # or as many lines as have these together
ENCODING = "utf-8"
BRIEF = 400  # characters of a text that are shown beside its figures
_MARKED = re.compile("[\udc00-\udcff]")  # bytes that are no text: halves of characters, which no text holds

Given = Annotated[list[str] | None, Parameter(negative="")]


@dataclass(frozen=True)
class Line:
    """A text and where it stands; one of the command line stands nowhere. With a fault it is no text."""

    text: str
    file: str | None = None
    line: int | None = None
    fault: str = ""


class Marking(Blocks):
    """Blocks in which bytes that are no text are marked, so that the lines that hold them can be named."""

    def mend(self, error: UnicodeDecodeError) -> tuple[str, int]:
        return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


def has_place(output: Path | None) -> None:
    """Refuses, before any work, a file whose folder is not there."""
    if output is not None and not output.parent.is_dir():
        raise BadInput(f"there is no folder {output.parent}", remedy="make it, or name another file")
    if output is not None and output.is_dir():
        raise BadInput(f"{output} is a folder", remedy="name a file in it")


def replaces_nothing(output: Path | None, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Refuses, before any work, a file that is itself read."""
    if output is None or not output.is_file():
        return
    from forebear.text.sources import find

    asked = [path for path in inputs if os.fspath(path) != STDIN]
    there = output.resolve()
    for source in find(asked) if asked else ():
        if Path(source.path).resolve() == there:
            raise BadInput(f"{output} is read, and would be replaced by the answers", remedy="name another file")


@Parameter(name="*")
@dataclass(frozen=True)
class ManyOptions:
    """Many texts at once."""

    input_file: Annotated[Path | None, Parameter(name="--in")] = None
    "A file with a text a line, taken after those given here (also .gz, .zst; - for standard input)."
    output_file: Annotated[Path | None, Parameter(name="--out")] = None
    "Write the answers to this file instead, a JSON object a line, in the order of the texts (also .gz, .zst)."
    encoding: Annotated[str | None, Parameter(show_default=False)] = None
    "The encoding of the file, such as gb18030. [default: utf-8]"

    def __post_init__(self) -> None:
        has_place(self.output_file)
        replaces_nothing(self.output_file, [] if self.input_file is None else [self.input_file])

    def lines(self, texts: Sequence[str] | None) -> Iterator[Line]:
        """All texts in order, read as they are asked for; one that cannot be read ends them."""
        for line in self.read(texts):
            if line.fault:
                remedy = "mend the line, or name the right --encoding (gb18030, big5, …)"
                raise BadInput(line.fault, file=line.file, line=line.line, remedy=remedy)
            yield line

    def read(self, texts: Sequence[str] | None = None) -> Iterator[Line]:
        """All texts in order, also those with a fault."""
        given = list(texts or ())
        file = self.input_file or (Path(STDIN) if STDIN in given else None)
        yield from (Line(text) for text in given if text != STDIN)
        if file is None:
            return
        from forebear.text.records import numbered_lines
        from forebear.text.sources import find

        for source in find([file]):
            blocks = Marking(source, self.encoding or ENCODING, "fail", Ledger())
            for number, line, _ in numbered_lines(blocks):
                bad = [] if line.isascii() else _MARKED.findall(line)
                fault = f"not {blocks.encoding}: {_bytes_of(bad)}" if bad else ""
                yield Line(line.removesuffix("\r"), source.name, number, fault)

    def reads_lines(self, texts: Sequence[str] | None) -> bool:
        """Whether there are lines of a file or of standard input, so that answers must keep their places."""
        return self.input_file is not None or STDIN in (texts or ())

    def count(self, texts: Sequence[str] | None, *, blank: bool = False) -> int:
        """How many texts there are; a fault in the last line is told before any work, also a `blank` one unless such
        have answers too."""
        count = 0
        for line in self.lines(texts):
            if line.file is not None and not blank and not line.text.strip():
                remedy = "leave it out, or write some text: there is an answer for every line"
                raise BadInput(
                    "this text has no tokens: the line is empty", file=line.file, line=line.line, remedy=remedy
                )
            count += 1
        return count

    def answer(
        self,
        lines: Iterable[Line],
        ask: Callable[[list[str]], list[Any]],
        write: Callable[[Any], dict[str, Any] | str],
        together: int = TOGETHER,
        partly: Partly | None = None,
    ) -> list[Any]:
        """What `ask` says of all lines: returned, or, where it goes to a file, written there and forgotten.

        `write` makes an object of each, or a line of text. A file appears only when all of it is there. With `partly`,
        lines that have no answer do not end the others.
        """
        asked, settle = (located, _nothing) if partly is None else (partly.asked, partly.settle)
        groups = (asked(group, ask) for group in grouped(lines, together))
        if self.output_file is None:
            answers = [answer for group in groups for answer in group]
            settle()
            return answers
        from forebear.text.aside import disk_told, written_aside
        from forebear.text.writing import packed

        target = self.output_file
        with disk_told(target), written_aside(target) as aside, packed(aside, target.name.lower()) as file:
            none = True
            for group in groups:
                none = False
                for answer in group:
                    told = write(answer)
                    line = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False, allow_nan=False)
                    file.write(line.encode() + b"\n")
            if none:  # here, so that no empty file is taken for an answer
                raise BadInput("there is no text", remedy='give "a text", or a file that has some: --in FILE')
            settle()
        return []


ONE = ManyOptions()


def _nothing() -> None:
    """Nothing is left to do."""


def listed(choices: Sequence[str] | None) -> list[str] | None:
    """Choices as given; one that is the name of a file stands for its lines, as one alone is no choice."""
    if choices is None or len(choices) != 1 or not Path(choices[0]).is_file():
        return None if choices is None else list(choices)
    return [line.text for line in ManyOptions(Path(choices[0])).lines(None) if line.text.strip()]


def _bytes_of(marks: Sequence[str], most: int = 8) -> str:
    """Marked bytes as they are written for people."""
    return " ".join(f"0x{ord(mark) - 0xDC00:02x}" for mark in marks[:most]) + " …" * (len(marks) > most)


def grouped(lines: Iterable[Line], together: int) -> Iterator[list[Line]]:
    """The lines in order, so many at a time, or fewer where they are long: memory is bounded."""
    group: list[Line] = []
    characters = 0
    for line in lines:
        group.append(line)
        characters += len(line.text)
        if len(group) >= together or characters >= CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def located(group: list[Line], ask: Callable[[list[str]], Answer]) -> Answer:
    """An answer's complaint about text number n of a group is one about its file and line."""
    try:
        return ask([line.text for line in group])
    except BadInput as error:
        if error.file is None and error.line is not None:
            at = group[error.line - 1]
            told = at.file is not None or repr(at.text) in error.what
            what = error.what if told else f"{error.what} ({at.text!r})"
            raise BadInput(what, file=at.file, line=at.line, remedy=error.remedy) from error
        raise


def one_by_one(texts: Sequence[str], ask: Callable[[str], Answer]) -> list[Answer]:
    """What `ask` says of each text; a fault is one of the text of its number, counted from 1."""
    answers = []
    for number, text in enumerate(texts, 1):
        try:
            answers.append(ask(text))
        except BadInput as error:
            error.line = error.line or number
            raise
    return answers


def asked_singly(
    run: Run,
    texts: Sequence[str] | None,
    many: ManyOptions,
    speaking: Speaking,
    ask: Callable[[str], Any],
    *,
    remedy: str,
    done: str,
    draw: Callable[[Any, Any], object],
) -> None:
    """Asks of each text by itself, and draws the answers (console, answer) or writes them to a file."""
    count = 0

    def together(group: list[str]) -> list[Any]:
        nonlocal count
        count += len(group)
        return one_by_one(group, ask)

    answers = many.answer(many.lines(texts), together, lambda answer: answer.facts())
    if not count:
        raise BadInput("there is no text", remedy=f"{remedy}, or --in FILE")
    if many.output_file is not None:
        told = f"{counted(count, 'text')} {done}: {many.output_file}"
        facts = {"run": run.name, "texts": count, "out": str(many.output_file)}
        speaking.tell(facts, lambda console: console.print(told, soft_wrap=True, markup=False))
        return
    facts = {"run": run.name, "texts": [answer.facts() for answer in answers]}
    speaking.tell(facts, lambda console: [draw(console, answer) for answer in answers])


def opened(folder: Path, verb: str, speaking: Speaking) -> Run:
    """The run, loaded, to be asked this; what there is to know about it is told on the way."""
    from forebear.using.run import Run

    run = Run.open(folder)
    run.ready_for(verb)  # whatever is wrong with it is said before any text is read
    for note in () if speaking.quiet else run.notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201
    return run


@contextmanager
def counting(speaking: Speaking, what: str) -> Iterator[Callable[[int], None]]:
    """Tells on stderr how many of something were done and how fast: every now and then, and at the end."""
    import time

    done = 0

    def add(count: int) -> None:
        nonlocal done
        done += count
        look(done, 0)

    began = time.monotonic()
    with speaking.counting(what) as look:
        yield add
    seconds = time.monotonic() - began
    if not speaking.quiet:
        told = f"{counted(done, what.removesuffix('s'))} in {seconds:.1f} s"
        print(f"{told}, {done / max(seconds, 1e-9):,.0f} {what}/s", file=sys.stderr)  # noqa: T201


def plain(text: str) -> str:
    """The text as it may be shown in a cell: white space and controls by their escapes, brackets not as markup."""
    from rich.markup import escape

    return escape(text if text.isprintable() else repr(text)[1:-1])


def brief(text: str) -> str:
    """`plain`, with its middle left out where it is very long: it is recognised by how it begins and ends."""
    half = BRIEF // 2
    return plain(text if len(text) <= BRIEF else f"{text[:half]} … {text[-half:]}")


def printable(text: str) -> str:
    """What a terminal may be given: controls by their escapes; line ends are spaces."""
    return "".join(one if one.isprintable() else " " if one.isspace() else repr(one)[1:-1] for one in text)


def number(value: float, digits: int = 3) -> str:
    """A number for a table; what is infinite by its word."""
    return f"{value:,.{digits}f}" if abs(value) < 1e15 else f"{value:.4g}"
