"""`forebear preview`: what a milestone will see and must predict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.options import NO_TAG_OPTIONS, ReadingOptions, TaggedTextOptions, TextFiles
from forebear.cli.output import Output, make_table
from forebear.data.sentences import SentenceMode

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from forebear.experiments.preview import PipelineStage, Preview, PreviewRow

LONGEST = 60  # tokens of a row that are drawn; --json has them all
FATES = {"masked": "bold magenta", "random": "bold yellow", "kept": "underline"}
SECOND = "cyan"  # the second half of a row


def preview(
    milestone: str,
    texts: TextFiles,
    /,
    *,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: int | None = None,
    columns: Annotated[str, Parameter(show_default=False)] = "",
    rows: int = 4,
    step: int = 0,
    stages: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    sentences: SentenceMode = "split",
    segment: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    user_dict: Path | None = None,
    entities: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    tags: TaggedTextOptions = NO_TAG_OPTIONS,
    speaking: Output = Output(),
    **fields: str,
) -> None:
    """Show what a milestone will see and must predict: a batch of its objective on your text, and figures of it.

    Fields of the milestone and of the recipe are options too (--context, --batch, --seed, …), as for pretrain.

    ```
    forebear preview gpt2 book.txt
    forebear preview bert 红楼梦.txt --whole-words
    forebear preview bert book.txt --stages
    forebear preview ngram book.txt --tokenizer characters --rows 8
    forebear preview gpt2 红楼梦.txt --context 32 --batch 256 --step 7 --json
    forebear preview transformer train.de train.en
    forebear preview crf peoples-daily-tagged.txt
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
    columns
        Of parallel text in one file: the two sides, by name or field (de,en) or by number (1,2).
    rows
        How many rows of the batch to show.
    step
        Which batch: the one of this step of training.
    stages
        Show the nine steps of pre-training instead, from the text to the evaluation, each with its figures.
    sentences
        split: at punctuation and line ends; lines: each line is one; flow: line ends are spaces; whole: none.
    segment
        Find Chinese words and store where they start.
    user_dict
        Your own words for the segmentation, a line each. Implies --segment.
    entities
        Names of persons, places and organisations, a line each, that ernie hides whole. Implies --segment.
    fields
        A field of the milestone or a setting of the recipe by its name, such as --context 32 or --batch 256.
    """
    from forebear.data.source import TextSource
    from forebear.experiments.plan import plan_pretraining
    from forebear.experiments.preview import pipeline_summary as staged
    from forebear.experiments.preview import preview_batch as previewed
    from forebear.experiments.preview import preview_tags
    from forebear.experiments.tag_plans import is_tagged_training, plan_tagging
    from forebear.registry import model_spec

    dictionary, names = (str(file) if file is not None else None for file in (user_dict, entities))
    segment = segment or dictionary is not None or names is not None
    translates = model_spec(milestone).learns_from == "pairs"
    source = TextSource((), reading.reading(), sentences, segment, dictionary, names, translates, columns)
    settings = tags.settings() | {name.replace("-", "_"): value for name, value in fields.items()}
    if is_tagged_training(milestone, texts, source.reading):
        idle = {"tokenizer": tokenizer, "vocabulary": vocabulary, "stages": stages, "step": step}
        taught, _ = plan_tagging(milestone, texts, source, size=size, settings=settings, idle=idle)
        seen = preview_tags(taught, rows=rows)
        speaking.emit(seen.to_dict(), lambda console: _draw(console, seen))
        return
    what = plan_pretraining(
        milestone,
        texts,
        size=size,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        source=source,
        settings=settings,
    )
    if stages:
        with speaking.progress("preparing") as progress:
            nine = staged(what, progress=progress)
        speaking.emit({"stages": [one.to_dict() for one in nine]}, lambda console: _draw_stages(console, nine))
        return
    with speaking.progress("preparing") as progress:
        told = previewed(what, rows=rows, step=step, progress=progress)
    speaking.emit(told.to_dict(), lambda console: _draw(console, told))


def _draw(console: Console, told: Preview) -> None:
    for number, row in enumerate(told.rows):
        console.print(f"[bold]row {number}[/]" + _of_row(row))
        if row.source is not None:
            console.print("source: " + " ".join(map(_plain, row.source)), markup=False, soft_wrap=True)
        names = ["seen", *row.asked]
        console.print(_columns(told, row, max(map(len, names)), console.width), soft_wrap=True)
    if told.windows is not None:
        console.print(_windows(told.windows))
    elif told.together is not None:
        console.print(_together(told.together))
    else:
        console.print(_legend(told))
    console.print(_figures(told))


def _windows(windows: list[dict[str, Any]]):
    """A word, those around it that chance has left, and those that were drawn."""
    from rich.markup import escape

    drawn = "turns in the tree" if any(one["turns"] for one in windows) else "drawn by chance"
    made = make_table("word", "around", drawn, title="The first windows")
    for one in windows:
        against = one["turns"] or " ".join(map(_plain, one["drawn"]))
        around = " ".join(map(_plain, one["around"]))
        made.add_row(f"[bold]{escape(_plain(one['word']))}[/]", escape(around), escape(against))
    return made


def _together(entries: list[dict[str, Any]]):
    from rich.markup import escape

    made = make_table("word", "beside", ">how often", ">its weight", title="The first entries")
    for one in entries:
        words = (escape(_plain(one[name])) for name in ("word", "beside"))
        made.add_row(*words, f"{one['count']:,.2f}", f"{one['weight']:.3f}")
    return made


def _draw_stages(console: Console, nine: list[PipelineStage]) -> None:
    made = make_table(">", "step", "")
    for stage in nine:
        made.add_row(str(stage.number), f"[bold]{stage.name}[/]", stage.words)
    console.print(made)


def _legend(told: Preview) -> Text:
    from rich.text import Text

    made = Text()
    if "fates" in told.figures:
        for fate, meaning in (("masked", "behind the mask"), ("random", "behind another token"), ("kept", "shown")):
            made.append(f"asked {meaning}", FATES[fate]).append("; ", "dim")
        made.append("second half", SECOND).append("; ", "dim")
    elif told.rows and told.rows[0].source is None:
        made.append("blue: where one document ends and the next begins; ", "dim")
    if not any(row.asked or row.asked_of_row for row in told.rows):
        return made.append("red: unknown; nothing has to be predicted: words are counted", "dim")
    made.append("red: unknown; beneath each token what has to be predicted there, ", "dim")
    return made.append("seeing it and what the milestone may see", "dim")


def _of_row(row: PreviewRow) -> str:
    told = ", ".join(f"{name}: {value or 'not asked'}" for name, value in row.asked_of_row.items())
    return f", {told}" if told else ""


def _columns(told: Preview, row: PreviewRow, margin: int, width: int) -> Text:
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
                made.append(tokens[at] + padding, _style(told, row, name, at))
            made.append("\n")
        first = last
    if len(row.tokens) > LONGEST:
        made.append(f"… and {len(row.tokens) - LONGEST:,} more tokens\n", "dim")
    return made


def _style(told: Preview, row: PreviewRow, name: str, at: int) -> str:
    """Of the token at a place of one of the lines."""
    token = row.tokens[at] if name == "seen" else row.asked[name][at]
    if token is None:
        return "dim"
    if name == "seen" and row.fates[at]:
        return FATES[row.fates[at]]
    if token == told.unknown:
        return "red"
    if name != "seen":
        return "green"
    return "blue" if token == told.end else SECOND if any(row.inputs.get("segments", [])[at : at + 1]) else ""


def _plain(token: str | None) -> str:
    """A token as it may be shown on one line; a dot where nothing is asked."""
    if token is None:
        return "·"
    return token if token.isprintable() and token else repr(token)[1:-1]


def _figures(told: Preview):
    made = make_table("this batch", "")
    figures = told.figures
    made.add_row("rows", f"{figures['rows']:,}, of {figures['shortest_row']:,} to {figures['longest_row']:,} tokens")
    made.add_row("tokens", f"{figures['tokens']:,}, {figures['distinct_tokens']:,} different ones")
    for name, count in figures["asked"].items():
        made.add_row(f"asked for {name}", f"{count:,}, {figures['asked_share'][name]:.1%} of what could be")
    for name, told_of_it in _of_hidden(figures):
        made.add_row(name, told_of_it)
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


def _of_hidden(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What can be said where something is hidden."""
    if "fates" not in figures:
        return
    fates = figures["fates"]
    shares = f"{fates['masked']:.1%} masked, {fates['random']:.1%} another token, {fates['kept']:.1%} shown"
    yield "hidden", f"{figures['hidden_share']:.1%} of the text; of that {shares}"
    if figures["words_half_hidden"] is not None:
        yield "words half hidden", f"{figures['words_half_hidden']:,}"
    if "pairs" in figures:
        asked = ", ".join(f"{count:,} {answer}" for answer, count in figures["pairs"].items())
        yield "halves", f"{asked}; {figures['pairs_unasked']:,} rows are not asked"
    yield "across documents", f"{figures['mixed_halves']:,} halves of a row hold more than one document"
    if "long_sentences" in figures:
        left = f"{figures['tokens_left_away']:,} tokens of them left away"
        yield "too long for a row", f"{figures['long_sentences']:,} sentences of the whole text; {left}"
