"""Many examples for a run that does a task: given or from a file; answers in tables or in a file, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import ManyOptions
from forebear.cli.printing import Speaking
from forebear.errors import BadInput

if TYPE_CHECKING:
    from forebear.using.run import Run

STRUCTURED = (".tsv", ".csv", ".jsonl", ".json", ".conll", ".bio", ".iob", ".bmes")
Make = Callable[[str], Any]  # a line of plain text into an example


def from_file(run: Run, file: Path, line: Make, bad: list[Any]) -> Iterator[Any]:
    """The examples of a file: as those that the run learned from are written, or a text a line.

    What cannot be read is entered in `bad`, and does not lose the rest.
    """
    from forebear.tasks.files.forms import Form
    from forebear.tasks.files.reading import examples, guess

    name = file.name.removesuffix(".gz").removesuffix(".zst")
    if name.endswith(STRUCTURED):
        assert run.task is not None
        told = run.facts.get("labelled")  # absent where the run was imported: then the file itself is looked at
        form = Form.from_json(told["source"]["form"]) if told else guess(str(file), run.task.name).form
        yield from examples([str(file)], run.task.name, form, labels="optional", on_bad_rows="skip", bad=bad)
        return
    from forebear.tasks.files.forms import BadRow

    for one in ManyOptions(file).lines(None):
        try:
            yield line(one.text)
        except BadInput as error:
            bad.append(BadRow(one.file or str(file), one.line, error.what))


def do(
    run: Run,
    given: list[Any],
    many: ManyOptions,
    speaking: Speaking,
    *,
    line: Make,
    what: str,
    draw: Callable[[Any, Any], object],
    write: Callable[[Any], str] | None = None,
) -> None:
    """Answers for the given examples and those of --in, drawn (console, answer) or written to --out.

    `write` is how an answer stands in a file whose name does not end in .jsonl; None: as JSON too.
    """
    from forebear.using.doing import done

    bad: list[Any] = []
    count = 0

    def everything() -> Iterator[Any]:
        yield from given
        if many.input_file is not None:
            yield from from_file(run, many.input_file, line, bad)

    with speaking.counting(what) as progress:
        answers = done(run, everything(), progress)
        if many.output_file is None:
            told = list(answers)
            count = len(told)
        else:
            told = []
            as_json = many.output_file.name.endswith((".jsonl", ".json"))
            count = _written(many.output_file, answers, _json if write is None or as_json else write)
    if not count and not bad:
        raise BadInput("there is nothing to do", remedy=f"give {what}, or --in FILE")
    for row in bad[:10]:
        print(f"not read: {row}", file=sys.stderr)  # noqa: T201
    if len(bad) > 10:
        print(f"not read: {len(bad) - 10:,} more", file=sys.stderr)  # noqa: T201
    facts: dict[str, Any] = {"run": run.name, "count": count}
    facts["bad"] = [{"file": row.file, "line": row.line, "reason": row.reason} for row in bad]
    if many.output_file is not None:
        facts["out"] = str(many.output_file)
        speaking.tell(facts, lambda console: console.print(f"{count:,} {what}: {many.output_file}", markup=False))
        return
    facts["answers"] = [answer.facts() for answer in told]
    speaking.tell(facts, lambda console: [draw(console, answer) for answer in told])


def _json(answer: Any) -> str:
    return json.dumps(answer.facts(), ensure_ascii=False, allow_nan=False) + "\n"


def _written(file: Path, answers: Iterable[Any], write: Callable[[Any], str]) -> int:
    """How many; the file appears only when all of it is there."""
    from forebear.text.aside import disk_told, written_aside

    count = 0
    with disk_told(file), written_aside(file) as aside:
        for answer in answers:
            aside.write(write(answer).encode("utf-8", "replace"))
            count += 1
    return count
