"""`forebear preview`: what a milestone will see and must predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forebear.cli.printing import Speaking, table
from forebear.cli.reading import ReadingOptions, Texts
from forebear.text.sentences import Mode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from forebear.using.previewing import Preview, Seen

LONGEST = 60  # tokens of a row that are drawn; --json has them all


def preview(
    milestone: str,
    texts: Texts,
    /,
    *,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    rows: int = 4,
    step: int = 0,
    sentences: Mode = "split",
    segment: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    user_dict: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Speaking = Speaking(),
    **fields: str,
) -> None:
    """Show what a milestone will see and must predict: a batch of its objective on your text, and figures of it.

    Fields of the milestone and of the recipe are options too (--context, --batch, --seed, …), as for pretrain.

    ```
    forebear preview gpt2 book.txt
    forebear preview ngram book.txt --tokenizer characters --rows 8
    forebear preview gpt2 红楼梦.txt --context 32 --batch 256 --step 7 --json
    ```

    Parameters
    ----------
    milestone
        One of forebear lineage.
    size
        A size by name; forebear explain MILESTONE lists them.
    tokenizer
        words, characters, wordpiece or bytepair, learned from this text; or a tokenizer.json or vocab.txt.
    vocabulary
        Entries of a vocabulary that is learned. [default: by the size of the text]
    rows
        How many rows of the batch to show.
    step
        Which batch: the one of this step of training.
    sentences
        split: at punctuation and line ends; lines: each line is one; flow: line ends are spaces; whole: none.
    segment
        Find Chinese words and store where they start.
    user_dict
        Your own words for the segmentation, a line each. Implies --segment.
    fields
        A field of the milestone or a setting of the recipe by its name, such as --context 32 or --batch 256.
    """
    from forebear.training.corpora import TextSource
    from forebear.using.planning import plan
    from forebear.using.previewing import preview as previewed

    dictionary = str(user_dict) if user_dict else None
    what = plan(
        milestone,
        texts,
        size=size,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        source=TextSource((), reading.reading(), sentences, segment or dictionary is not None, dictionary),
        settings={name.replace("-", "_"): value for name, value in fields.items()},
    )
    with speaking.progress("preparing") as progress:
        told = previewed(what, rows=rows, step=step, progress=progress)
    speaking.tell(told.facts(), lambda console: _draw(console, told))


def _draw(console: Console, told: Preview) -> None:
    from rich.text import Text

    for number, row in enumerate(told.rows):
        console.print(f"[bold]row {number}[/]" + _of_row(row))
        names = ["seen", *row.asked]
        console.print(_columns(told, row, max(map(len, names)), console.width), soft_wrap=True)
    legend = Text("blue: where one document ends and the next begins; red: unknown; ", style="dim")
    legend.append("beneath each token what has to be predicted there, seeing it and what the milestone may see", "dim")
    console.print(legend)
    console.print(_figures(told))


def _of_row(row: Seen) -> str:
    told = ", ".join(f"{name} {value}" for name, value in row.asked_of_row.items())
    return f", of the whole row: {told}" if told else ""


def _columns(told: Preview, row: Seen, margin: int, width: int) -> Text:
    """Tokens with their targets beneath, broken into as many lines as the terminal wants."""
    from rich.cells import cell_len
    from rich.text import Text

    lines = {"seen": row.tokens, **row.asked}
    shown = {name: [_plain(token) for token in tokens[:LONGEST]] for name, tokens in lines.items()}
    widths = [max(map(cell_len, column)) + 2 for column in zip(*shown.values(), strict=True)]
    made, first = Text(), 0
    while first < len(widths):
        last, used = first, margin + 2
        while last < len(widths) and (last == first or used + widths[last] <= width):
            used += widths[last]
            last += 1
        for name, tokens in shown.items():
            made.append(name.ljust(margin + 2), "dim")
            for at in range(first, last):
                padding = " " * (widths[at] - cell_len(tokens[at]))
                made.append(tokens[at] + padding, _style(lines[name][at], told, seen=name == "seen"))
            made.append("\n")
        first = last
    if len(row.tokens) > LONGEST:
        made.append(f"… and {len(row.tokens) - LONGEST:,} more tokens\n", "dim")
    return made


def _style(token: str | None, told: Preview, *, seen: bool) -> str:
    if token is None:
        return "dim"
    return "red" if token == told.unknown else "blue" if token == told.end else "" if seen else "green"


def _plain(token: str | None) -> str:
    """A token as it may be shown on one line; a dot where nothing is asked."""
    if token is None:
        return "·"
    return token if token.isprintable() and token else repr(token)[1:-1]


def _figures(told: Preview):
    made = table("this batch", "")
    figures = told.figures
    made.add_row("rows", f"{figures['rows']:,}, of {figures['shortest_row']:,} to {figures['longest_row']:,} tokens")
    made.add_row("tokens", f"{figures['tokens']:,}, {figures['distinct_tokens']:,} different ones")
    for name, count in figures["asked"].items():
        made.add_row(f"asked for {name}", f"{count:,}, {figures['asked_share'][name]:.1%} of what could be")
    made.add_row("unknown", f"{figures['unknown_share']:.2%} of the tokens")
    if "documents_begun" in figures:
        inside = figures["rows_begun_inside_a_document"]
        made.add_row("documents", f"{figures['documents_begun']:,} begin here; {inside:,} rows begin inside one")
    if "rows_as_long_as_the_context" in figures:
        made.add_row("cut by the context", f"{figures['rows_as_long_as_the_context']:,} rows")
    made.add_row("an epoch", f"{figures['steps_an_epoch']:,} such batches")
    sizes = f"{figures['train_bytes']:,} bytes to learn from, {figures['held_out_bytes']:,} held out"
    made.add_row("text", f"{sizes}, by {figures['split_by']}")
    made.add_row("tokenizer", f"{told.tokenizer['kind']}, {told.tokenizer['size']:,} entries")
    return made
