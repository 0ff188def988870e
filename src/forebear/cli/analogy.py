"""`forebear analogy`: what is to one word as another is to a third."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import opened, plain
from forebear.cli.printing import Speaking, table
from forebear.using.lexicon import Method

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.lexicon import Analogy


def analogy(
    run: Path,
    first: str,
    second: str,
    third: str,
    /,
    *,
    top: int = 5,
    method: Method = "add",
    approximate: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    speaking: Speaking = Speaking(),
) -> None:
    """Answer: the first is to the second as the third is to what? The three themselves are no answers.

    ```
    forebear analogy runs/word2vec man king woman
    forebear analogy runs/zh 中国 北京 日本 --top 10
    forebear analogy runs/word2vec walk walked go --method multiply
    ```

    Parameters
    ----------
    run
        The run's folder: one whose tokens are words.
    first
        A word, such as man.
    second
        What belongs to it, such as king.
    third
        Another word, such as woman.
    top
        How many answers are told.
    method
        add: words near to second - first + third; multiply: words near to second and third and far from the first,
        by the product of cosines, so that no one of them decides.
    approximate
        Search by an index (usearch) that finds most of the nearest and looks at few: for millions of words.
    """
    using = opened(run, "analogy", speaking)
    found = using.analogy(first, second, third, top=top, method=method, approximate=approximate)
    facts: dict[str, Any] = {"run": using.name, **found.facts()}
    if approximate:
        facts["recall"] = round(using.lexicon.index.recall(top), 4)
    speaking.tell(facts, lambda console: _draw(console, found, facts))


def _draw(console: Console, found: Analogy, facts: dict[str, Any]) -> None:
    first, second, third = map(plain, found.asked)
    best = plain(found.nearest[0].word) if found.nearest else "no word more than to another"
    console.print(f"{first} is to {second} as {third} is to [bold]{best}[/]", soft_wrap=True)
    made = table(">cosine" if found.method == "add" else ">score", ">seen", "word")
    for one in found.nearest:
        made.add_row(f"{one.cosine:.3f}", "" if one.count is None else f"{one.count:,}", plain(one.word))
    if found.nearest:
        console.print(made)
    for note in found.notes:
        console.print(plain(note), style="dim", soft_wrap=True)
    if "recall" in facts:
        console.print(f"the index finds {facts['recall']:.1%} of the nearest, measured against exact search")
