"""`forebear classify`: what a text, or a pair of texts, is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

from forebear.cli.doing import NONE, ExampleOptions, do
from forebear.cli.many import Given, opened, plain
from forebear.cli.printing import Speaking, bar, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.tasks.classification import Classified


def classify(
    run: Path,
    texts: Given = None,
    /,
    *,
    show_table: Annotated[bool, Parameter(name="--table", negative="", show_default=False)] = False,
    many: ExampleOptions = NONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Classify texts with a run that was adapted to it; pairs of texts where it learned pairs.

    A plain line of --in is a text, or two with a tab between them. A line of --out is the text or texts, the label and
    its probability, with tabs between them.

    ```
    forebear classify runs/reviews "I loved it" "never again"
    forebear classify runs/same "我很喜欢你" "我很中意你" --table
    forebear classify runs/reviews --in texts.txt --out labels.tsv
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made for classification or pairs.
    texts
        Texts, each by itself; for pairs two and two.
    show_table
        Show the probability of every label. A single text is always shown so.
    """
    using = opened(run, "classify", speaking)
    from forebear.using.doing import labelled

    pairs = cast(Any, using.task).texts == 2
    given: list[Any] = list(texts or ())
    if pairs:
        if len(given) % 2:
            raise BadInput("this run is about pairs of texts, and one is left over", remedy="give two texts, or four …")
        given = list(zip(given[::2], given[1::2], strict=True))

    def line(text: str) -> Any:
        parts = tuple(text.split("\t")) if pairs else text
        return labelled(using, [parts])[0]  # pyright: ignore[reportArgumentType]

    shown = show_table or (len(given) == 1 and many.input_file is None)
    do(
        using,
        labelled(using, given),
        many,
        speaking,
        line=line,
        plain="two texts with a tab between them" if pairs else "a text",
        what="pairs" if pairs else "texts",
        draw=lambda console, answer: _draw(console, answer, shown),
        write=_row,
    )


def _row(answer: Classified) -> str:
    """Texts, label and its probability, with tabs between them."""
    label = ",".join(answer.label) if isinstance(answer.label, tuple) else str(answer.label)
    p = f"{answer.probabilities[answer.label]:.6f}" if isinstance(answer.label, str) else ""
    return "\t".join([*(" ".join(text.split()) for text in answer.texts), label, p]).rstrip("\t") + "\n"


def _draw(console: Console, answer: Classified, shown: bool) -> None:
    text = " / ".join(map(plain, answer.texts))
    label = ", ".join(answer.label) if isinstance(answer.label, tuple) else answer.label
    told = plain(label or "(none)") if isinstance(label, str) else f"{label:.4f}"
    sure = f" {answer.probabilities[label]:.1%}" if isinstance(label, str) and label in answer.probabilities else ""
    console.print(f"{text}: [bold]{told}[/]{sure}", soft_wrap=True)
    if shown and answer.probabilities:
        made = table("label", ">probability", "")
        for name, p in sorted(answer.probabilities.items(), key=lambda one: -one[1]):
            made.add_row(plain(name), f"{p:.4f}", bar(p))
        console.print(made)
