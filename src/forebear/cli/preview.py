"""`forebear preview`: one training batch with its targets, and the training pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.cells import cell_len
from rich.text import Text

from forebear.cli.options import (
    ReadingOptions,
    SentenceOptions,
    TaggedTextOptions,
    TextFiles,
    TrainedVocabSize,
    given_options,
)
from forebear.cli.output import Console, Output, Switch, Table

if TYPE_CHECKING:
    from forebear.experiments.preview import Preview, PreviewRow

MAX_SHOWN_TOKENS = 60  # tokens of a row that are printed; --json has them all
MASK_ACTION_COLORS = {"masked": "bold magenta", "random": "bold yellow", "kept": "underline"}
SEGMENT_B_COLOR = "cyan"


def preview(
    milestone: str,
    texts: TextFiles,
    /,
    *,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: TrainedVocabSize = None,
    columns: Annotated[str, Parameter(show_default=False)] = "",
    rows: int = 4,
    step: int = 0,
    stages: Switch = False,
    sentences: SentenceOptions = SentenceOptions(),
    reading: ReadingOptions = ReadingOptions(),
    tags: TaggedTextOptions = TaggedTextOptions(),
    output: Output = Output(),
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
    columns
        Of parallel text in one file: the two sides, by name or field (de,en) or by number (1,2).
    rows
        How many rows of the batch to show.
    step
        Which batch: the one of this step of training.
    stages
        Show the nine steps of pre-training instead, from the text to the evaluation, each with its figures.
    fields
        A field of the milestone or a setting of the recipe by its name, such as --context 32 or --batch 256.
    """
    from forebear.experiments.plan import plan_pretraining
    from forebear.experiments.pretrain_tagger import is_tagged_training, plan_tagging
    from forebear.experiments.preview import pipeline_summary, preview_batch, preview_tags
    from forebear.registry import model_spec

    source = reading.source(sentences, pairs=model_spec(milestone).learns_from == "pairs", columns=columns)
    settings = given_options(tags, **fields)
    if is_tagged_training(milestone, texts, source.reading):
        unused = {"tokenizer": tokenizer, "vocabulary": vocabulary, "stages": stages, "step": step}
        tag_plan, _ = plan_tagging(milestone, texts, source, size=size, settings=settings, unused=unused)
        batch = preview_tags(tag_plan, rows=rows)
    else:
        model: dict[str, Any] = {"size": size, "tokenizer": tokenizer, "vocabulary": vocabulary}
        plan = plan_pretraining(milestone, texts, **model, source=source, settings=settings)
        if stages:
            with output.progress("preparing") as progress:
                summary = pipeline_summary(plan, progress=progress)
            lines = [(str(stage.number), Text(stage.name, "bold"), stage.words) for stage in summary]
            result = {"stages": [stage.to_dict() for stage in summary]}
            output.emit(result, lambda console: console.table(">", "step", "", rows=lines))
            return
        with output.progress("preparing") as progress:
            batch = preview_batch(plan, rows=rows, step=step, progress=progress)
    output.emit(batch.to_dict(), lambda console: _print_preview(console, batch))


def _print_preview(console: Console, preview: Preview) -> None:
    for index, row in enumerate(preview.rows):
        row_targets = (f", {name}: {value or 'not asked'}" for name, value in row.asked_of_row.items())
        console.print(f"[bold]row {index}[/]" + "".join(row_targets))
        if row.source is not None:
            console.plain("source: " + " ".join(map(_printable_token, row.source)))
        names = ["seen", *row.asked]
        console.print(_aligned_columns(preview, row, max(map(len, names)), console.width), soft_wrap=True)
    if preview.windows is not None:
        _print_windows(console, preview.windows)
    elif preview.together is not None:
        table = Table("word", "beside", ">how often", ">its weight", title="The first entries")
        for entry in preview.together:
            words = (_printable_token(entry[name]) for name in ("word", "beside"))
            table.add_row(*words, f"{entry['count']:,.2f}", f"{entry['weight']:.3f}")
        console.print(table)
    else:
        console.print(_legend(preview))
    console.table("this batch", "", rows=_batch_rows(preview))


def _print_windows(console: Console, windows: list[dict[str, Any]]) -> None:
    """Print training windows: word, context after subsampling, and negative samples or tree path."""
    negatives_title = "turns in the tree" if any(window["turns"] for window in windows) else "drawn by chance"
    table = Table("word", "around", negatives_title, title="The first windows")
    for window in windows:
        context, negatives = (" ".join(map(_printable_token, window[name])) for name in ("around", "drawn"))
        table.add_row(Text(_printable_token(window["word"]), "bold"), context, window["turns"] or negatives)
    console.print(table)


def _legend(preview: Preview) -> Text:
    legend = Text()
    if "fates" in preview.figures:
        for action, meaning in (("masked", "behind the mask"), ("random", "behind another token"), ("kept", "shown")):
            legend.append(f"asked {meaning}", MASK_ACTION_COLORS[action]).append("; ", "dim")
        legend.append("second half", SEGMENT_B_COLOR).append("; ", "dim")
    elif preview.rows and preview.rows[0].source is None:
        legend.append("blue: where one document ends and the next begins; ", "dim")
    if not any(row.asked or row.asked_of_row for row in preview.rows):
        return legend.append("red: unknown; nothing has to be predicted: words are counted", "dim")
    legend.append("red: unknown; beneath each token what has to be predicted there, ", "dim")
    return legend.append("seeing it and what the milestone may see", "dim")


def _aligned_columns(preview: Preview, row: PreviewRow, margin: int, width: int) -> Text:
    """Tokens above their targets, wrapped to the terminal width."""
    lines = {"seen": row.tokens, **row.asked}
    cells = {name: [_printable_token(token) for token in tokens[:MAX_SHOWN_TOKENS]] for name, tokens in lines.items()}
    widths = [max(map(cell_len, column)) + 2 for column in zip(*cells.values(), strict=True)]
    text, start = Text(), 0
    while start < len(widths):
        end, line_width = start, margin + 2
        while end < len(widths) and (end == start or line_width + widths[end] <= width):
            line_width += widths[end]
            end += 1
        for name, tokens in cells.items():
            text.append(name.ljust(margin + 2), "dim")
            for column in range(start, end):
                padding = " " * (widths[column] - cell_len(tokens[column]))
                text.append(tokens[column] + padding, _token_style(preview, row, name, column))
            text.append("\n")
        start = end
    if len(row.tokens) > MAX_SHOWN_TOKENS:
        text.append(f"… and {len(row.tokens) - MAX_SHOWN_TOKENS:,} more tokens\n", "dim")
    return text


def _token_style(preview: Preview, row: PreviewRow, name: str, position: int) -> str:
    """The style of a token in one of the lines."""
    token = row.tokens[position] if name == "seen" else row.asked[name][position]
    if token is None:
        return "dim"
    if name == "seen" and row.fates[position]:
        return MASK_ACTION_COLORS[row.fates[position]]
    if token == preview.unknown:
        return "red"
    if name != "seen":
        return "green"
    if token == preview.end:
        return "blue"
    return SEGMENT_B_COLOR if any(row.inputs.get("segments", [])[position : position + 1]) else ""


def _printable_token(token: str | None) -> str:
    """A token for one line; a dot where nothing is predicted."""
    if token is None:
        return "·"
    return token if token.isprintable() and token else repr(token)[1:-1]


def _batch_rows(preview: Preview) -> Iterator[tuple[str, str]]:
    stats = preview.figures
    yield "rows", f"{stats['rows']:,}, of {stats['shortest_row']:,} to {stats['longest_row']:,} tokens"
    yield "tokens", f"{stats['tokens']:,}, {stats['distinct_tokens']:,} different ones"
    for name, count in stats["asked"].items():
        yield f"asked for {name}", f"{count:,}, {stats['asked_share'][name]:.1%} of what could be"
    if "fates" in stats:
        yield from _masking_rows(stats)
    yield "unknown", f"{stats['unknown_share']:.2%} of the tokens"
    if "documents_begun" in stats:
        num_inside = stats["rows_begun_inside_a_document"]
        yield "documents", f"{stats['documents_begun']:,} begin here; {num_inside:,} rows begin inside one"
    if "rows_as_long_as_the_context" in stats:
        yield "cut by the context", f"{stats['rows_as_long_as_the_context']:,} rows"
    yield "an epoch", f"{stats['steps_an_epoch']:,} such batches"
    sizes = f"{stats['train_bytes']:,} bytes to learn from, {stats['held_out_bytes']:,} held out"
    yield "text", f"{sizes}, by {stats['split_by']}"
    yield "tokenizer", f"{preview.tokenizer['kind']}, {preview.tokenizer['size']:,} entries"


def _masking_rows(stats: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of the table for masked language models."""
    actions = stats["fates"]
    fractions = f"{actions['masked']:.1%} masked, {actions['random']:.1%} another token, {actions['kept']:.1%} shown"
    yield "hidden", f"{stats['hidden_share']:.1%} of the text; of that {fractions}"
    if stats["words_half_hidden"] is not None:
        yield "words half hidden", f"{stats['words_half_hidden']:,}"
    if "pairs" in stats:
        answers = ", ".join(f"{count:,} {answer}" for answer, count in stats["pairs"].items())
        yield "halves", f"{answers}; {stats['pairs_unasked']:,} rows are not asked"
    yield "across documents", f"{stats['mixed_halves']:,} halves of a row hold more than one document"
    if "long_sentences" in stats:
        truncated = f"{stats['tokens_left_away']:,} tokens of them left away"
        yield "too long for a row", f"{stats['long_sentences']:,} sentences of the whole text; {truncated}"
