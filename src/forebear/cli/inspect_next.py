"""`forebear inspect next`: how a prediction forms, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import plain
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.lens import Lens


def next(  # noqa: A001 - the command's name
    run: Path,
    text: str,
    /,
    *,
    at: int | None = None,
    top: int = 5,
    to: Path | None = None,
    speaking: Speaking = Speaking(),
) -> None:
    """Show what every layer would say comes next, or is hidden, as if it were the last ("logit lens").

    ```
    forebear inspect next runs/gpt2 "Once upon a"
    forebear inspect next runs/gpt2 "我有一个梦想" --at 3 --to forming.png
    forebear inspect next runs/bert "the ____ sat on the mat" --top 3
    ```

    Each layer's state goes through the norm at the end and through the head, as the last one's does; the last row is
    what forebear next says. Entropy tells how unsure a layer is, the divergence (KL) how far from what is said in the
    end, both in bits.

    Parameters
    ----------
    run
        The run's folder: one that predicts the next token or finds hidden ones.
    text
        What is to be gone on with; for one that finds hidden tokens, a text with ____ or its mask.
    at
        After which token of the text, from 1 or from the end (-1); where tokens are hidden, which of those. [default:
        the last; the first that is hidden]
    top
        Candidates of each layer.
    to
        Write a picture (.png, .svg).
    """
    from forebear.inspecting.lens import lens
    from forebear.using.run import Run

    form = form_of(to, "png", "svg")
    using = Run.open(run)
    found = lens(using, text, at=at, top=top)
    speaking.note(using.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "next"} | found.facts()
    if to is not None:
        from forebear.inspecting.drawing import quoted
        from forebear.inspecting.lens_picture import picture

        put(to, picture(found, f"{using.name}: {quoted(text)}", form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw(console, found, to))


def _draw(console: Console, found: Lens, to: Path | None) -> None:
    asked = plain(found.tokens[found.place - 1])
    where = f"after {asked}" if found.head == "next" else f"in place of {asked}"
    console.print(f"[bold]{plain(found.text)}[/]  {where} ({found.place}), in the end: "
                  f"[bold]{plain(found.chosen.text)}[/]", soft_wrap=True)  # fmt: skip
    made = table(">layer", "likeliest", ">P of the last", ">rank", ">entropy", ">KL to the end")
    for layer in found.layers:
        told = "  ".join(f"{plain(one.text)} [dim]{one.probability:.1%}[/]" for one in layer.candidates)
        figures = (f"{layer.probability:.2%}", f"{layer.rank:,}", f"{layer.entropy:.2f}", f"{layer.divergence:.2f}")
        made.add_row(str(layer.number), told, *figures)
    console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
