"""`forebear inspect gradients`: how far back a run can learn from, several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import plain
from forebear.cli.pictures import form_of, put
from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.inspecting.distance import Reach

DISTANCES = (0, 1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500)  # that are told in the terminal, and the last


def gradients(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    text: str | None = None,
    input_files: Annotated[list[str] | None, Parameter(name="--in", consume_multiple=True, negative="")] = None,
    far: int = 50,
    to: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
) -> None:
    """Show how much what a run knows at a token depends on the tokens before it, by their distance.

    ```
    forebear inspect gradients runs/rnn runs/lstm runs/gpt2 --in book.txt --to reach.png
    forebear inspect gradients runs/lstm --text "a text of more than twenty words …" --far 20
    ```

    It is the size of the derivative of a state, in a direction by chance, by the vector of the token so far back: the
    mean over 32 places of the text and 4 directions of each. What it is in one direction of time a mistake is in the
    other: where the gradient vanishes nothing can be learned from so far back.

    Parameters
    ----------
    runs
        Folders of runs that look back: nnlm, rnn, lstm, gpt2, …
    text
        A text that is long enough.
    input_files
        Text files (also .gz, .zst), folders, quoted globs, - for standard input: documents that are long enough.
    far
        So many tokens back.
    to
        Write a picture (.png, .svg).
    """
    from forebear.inspecting.distance import gradients as looked_at
    from forebear.using.run import Run

    form = form_of(to, "png", "svg")
    if (text is None) == (input_files is None):
        what = "there is no text" if text is None else "there are two texts, --text and --in"
        raise BadInput(what, remedy='give --in FILE, or --text "a long text"')
    using = [Run.open(folder) for folder in runs]
    texts = [text] if text is not None else _documents(input_files or [], reading)
    found = looked_at(using, texts, far=far)
    for run in using:
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "gradients", "runs": [one.facts() for one in found]}
    if to is not None:
        from forebear.inspecting.distance_picture import picture

        put(to, picture(found, form))
        facts["to"] = str(to)
    speaking.tell(facts, lambda console: _draw(console, found, to))


def _documents(files: list[str], reading: ReadingOptions) -> list[str]:
    """As many as are enough."""
    from forebear.inspecting.distance import CHARACTERS
    from forebear.inspecting.occurrences import read

    made, size = [], 0
    for document in read(files, reading.reading()):
        made.append(document.text)
        size += len(document.text)
        if size >= CHARACTERS:
            break
    return made


def _draw(console: Console, found: list[Reach], to: Path | None) -> None:
    furthest = max(one.far for one in found)
    told = [distance for distance in DISTANCES if distance < furthest] + [furthest]
    made = table(">tokens back", *(cell for one in found for cell in (f">{plain(one.name)}", ">of its own")))
    for distance in told:
        cells = []
        for one in found:
            there = distance <= one.far
            cells += [f"{one.sizes[distance]:.2e}", f"{one.relative[distance]:.2e}"] if there else ["", ""]
        made.add_row(str(distance), *cells)
    console.print(made)
    for one in found:
        limit = f" ({one.limit})" if one.limit else ""
        console.print(f"[bold]{plain(one.name)}[/] {one.verdict}{limit}", soft_wrap=True)
    about = "of its own: of what it is at the token itself, 0 tokens back"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)
