"""`forebear odd-one-out`: which of some words or texts is least like the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forebear.cli.many import Given, opened, plain
from forebear.cli.printing import Speaking, bar, table
from forebear.using.vectors import AnyPooling

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.likeness import Odd

WIDTH = 20  # of a bar


def odd_one_out(
    run: Path,
    texts: Given = None,
    /,
    *,
    layers: str | None = None,
    pooling: AnyPooling | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Tell which of some words or texts is least like the others: the mean of its cosines with them is the lowest.

    Words that the run knows are compared by their own vectors, where its tokens are words; all else as texts, by the
    vectors that `embed` makes.

    ```
    forebear odd-one-out runs/word2vec breakfast lunch dinner king
    forebear odd-one-out runs/zh 北京 上海 苹果 天津
    forebear odd-one-out runs/bert "the cat sat" "a dog lay" "taxes rose" --layers 2
    ```

    Parameters
    ----------
    run
        The run's folder: any with vectors.
    texts
        Three words or texts, or more.
    layers
        Compare texts by this layer, as for embed; words too are then read as texts.
    pooling
        Compare texts with this pooling, as for embed; words too are then read as texts.
    """
    from forebear.using.vectors import layers_from

    using = opened(run, "odd-one-out", speaking)
    chosen = None if layers is None else layers_from(layers)
    found = using.odd_one_out(list(texts or ()), layers=chosen, pooling=pooling)
    speaking.tell({"run": using.name, **found.facts()}, lambda console: _draw(console, found))


def _draw(console: Console, found: Odd) -> None:
    told = "none is the odd one: all are as far from the others" if found.odd is None else ""
    console.print(told or f"[bold]{plain(found.odd or '')}[/] is the odd one, by {found.by}")
    made = table(">mean cosine with the others", "", "")
    for text, cosine in zip(found.texts, found.cosines, strict=True):
        style = "bold" if text == found.odd else ""
        made.add_row(f"{cosine:.3f}", bar(max(cosine, 0.0), WIDTH), plain(text), style=style)
    console.print(made)
    for note in found.notes:
        console.print(plain(note), style="dim", soft_wrap=True)
