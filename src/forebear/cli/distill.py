"""`forebear distil`: train a smaller model on the outputs of a larger one and compare both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from forebear.cli.options import ReadingOptions, ReplaceRun, ResumedRun, command_line, given_options
from forebear.cli.output import Console, Output, Switch, Table, format_clock, number_cell, training_progress
from forebear.cli.pretrain import TrainingOptions
from forebear.errors import InputError
from forebear.objectives.input_format import TaskEncoderKind

if TYPE_CHECKING:
    from forebear.inference.run import Run


def distil(
    teacher: str | None = None,
    data: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    /,
    *,
    to: Path | None = None,
    student: Annotated[str | None, Parameter(name=["--student", "--from"])] = None,
    size: str | None = None,
    layers: Literal["every-second", "none"] | None = None,
    temperature: float = 2.0,
    share: float = 0.5,
    hidden: float = 0.0,
    attention: float = 0.0,
    texts: Path | None = None,
    reader: TaskEncoderKind | None = None,
    reader_width: int | None = None,
    compare: Switch = False,
    resume: ResumedRun = None,
    overwrite: ReplaceRun = False,
    training: TrainingOptions = TrainingOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
    **fields: str,
) -> None:
    """Teach a smaller run what a larger one knows; Ctrl-C saves, and the same command (or --resume) goes on.

    The student learns what the teacher thinks of every possible answer, beside which one is true. A language model
    is taught on text, and both are Transformers; a task is taught on the examples that the teacher learned from, by
    and to any network. What it costs and keeps is measured.

    ```
    forebear distil runs/reviews --to runs/small --compare
    forebear distil runs/reviews --student runs/pocket-bert --texts more.txt --temperature 4
    forebear distil runs/reviews --student runs/word2vec --reader convolution
    forebear distil runs/gpt2 book.txt --depth 2 --time 5m
    forebear distil runs/bert news.txt --size pocket --hidden 1
    forebear distil --resume runs/small
    ```

    Parameters
    ----------
    teacher
        The run to learn from.
    data
        Text files for a language model; for a task one file of examples. [default: those the teacher learned from]
    to
        The student's folder. [default: runs/TEACHER-distilled]
    student
        A smaller run to begin with, or the name of a milestone. [default: the teacher's, at most half as large]
    size
        A size of the student's milestone by name.
    layers
        every-second: the student begins with layers of the teacher, evenly chosen; none: from nothing.
        [default: every-second where the two differ in depth alone]
    temperature
        Divides the logits of both before they are compared: the warmer, the more unlikely answers tell.
    share
        Of the loss that is the teacher's; the rest is the truth's.
    hidden
        What the squared difference between layers of both counts beside it.
    attention
        What the divergence between attention maps of both counts beside it.
    texts
        Tasks: more texts, a line each, without labels: only the teacher says something of them. Pairs, question and
        passage, or a text and its choices have tabs between them.
    reader
        Tasks: what reads the word vectors of a student that has nothing else (word2vec, glove, onehot). [default: mean]
    reader_width
        Numbers for each word in it. [default: those of the vectors]
    compare
        Also train the same student without the teacher, into a folder beside it, and set it beside the others.
    fields
        A field of the student by its name, such as --width 64 or --depth 2.
    """
    from forebear.experiments import distill

    settings = given_options(training, **fields)
    with training_progress(output) as callback:
        if resume is not None:
            if teacher is not None or data or settings:
                raise InputError("--resume takes everything from the run's folder", hint="leave out the rest")
            run = distill.resume_distillation(resume, callback=callback)
        elif teacher is None:
            raise InputError("what to distil?", hint="forebear distil RUN, or --resume RUN")
        else:
            options: dict[str, Any] = {"to": to, "student": student, "size": size, "layers": layers, "texts": texts}
            options |= {"temperature": temperature, "share": share, "hidden": hidden, "attention": attention}
            options |= {"reader": reader, "reader_width": reader_width, "compare": compare, "overwrite": overwrite}
            options["reading"] = None if reading == ReadingOptions() else reading.text_format()
            run = distill.distill(teacher, data, **options, **settings, command=command_line(), callback=callback)
    output.emit({"folder": str(run.folder.path), **run.metadata}, lambda console: _print_distillation(console, run))


def _print_distillation(console: Console, run: Run) -> None:
    metadata: dict[str, Any] = run.metadata
    rows = metadata["price"]
    splits = [split for split in ("dev", "test", "held_out") if split in rows[0]]
    score_columns = (f">{rows[0]['score']}, {split}".replace("_", " ") for split in splits)
    table = Table("", ">parameters", ">MB", *score_columns, ">kept", ">ms a text")
    for row in rows:
        scores = (number_cell(row.get(split), ".4f") for split in splits)
        costs = (number_cell(row["kept"], ".1%"), number_cell(row["milliseconds"], ".1f"))
        cells = (f"{row['parameters']:,}", f"{row['megabytes']:.1f}", *scores, *costs)
        table.add_row(row["who"], *cells, style="bold" if row["who"] == "student" else "")
    console.print(table)
    console.print(f"{metadata['step']:,} steps in {format_clock(metadata['seconds'])}")
    console.plain(f"run: {run.folder.path}")
    verb = run.task.verb if run.task is not None else "measure"
    console.plain(f"what now: forebear {verb} {run.folder.path} …")
