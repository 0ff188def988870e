"""`forebear inspect`: the group of commands; attention maps, attribution (`why`) and senses of a word."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from rich.text import Text

from forebear.cli.batch_io import TextArguments, VectorRunArgument, answer_one_by_one
from forebear.cli.inspect_layers import gradients, layers, next, positions  # noqa: A004 - the command's name
from forebear.cli.options import ReadingOptions, chosen_layers
from forebear.cli.output import (
    Console,
    ImageFile,
    Output,
    Switch,
    Table,
    cell_style,
    count_phrase,
    heatmap,
    maps_side_by_side,
    number_cell,
    printable,
    printable_cell,
    require_folder,
    small_heatmap,
    write_file,
)
from forebear.cli.words import neighbours, norms, projection
from forebear.data.sentences import SentenceMode
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.inference.run import Run
    from forebear.inspection.attention import AttentionMap, AttentionView
    from forebear.inspection.attribution import Attribution
    from forebear.inspection.occurrences import Occurrence, SenseText
    from forebear.inspection.senses import SenseAnalysis

CLUSTER_STYLES = ("blue", "red", "green", "magenta", "yellow", "cyan", "bright_red", "bright_black")
NUM_STRONGEST_EDGES = 8  # listed below a map
BAR_WIDTH = 16  # maximum length of a bar, to the left or right
MIN_COLORED, STRONG_COLOR = 0.08, 0.6  # relative to the strongest word: minimum to color, minimum for white letters
# Colors of weak and strong words, readable on dark and light terminals.
POSITIVE_COLORS, NEGATIVE_COLORS = ((219, 233, 255), (31, 95, 208)), ((255, 227, 214), (194, 65, 12))


def attention(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    layer: int | None = None,
    head: Literal["mean"] | int | None = None,
    rollout: Switch = False,
    bare: Switch = False,
    part: Literal["cross", "source", "target"] | None = None,
    top: int | None = None,
    to: ImageFile = None,
    output: Output = Output(),
) -> None:
    """Show where the tokens of a text, or of two in one row, look: any layer, any head, their mean, or a roll-out.

    ```
    forebear inspect attention runs/bert "i have a dream" --layer 2 --head 1
    forebear inspect attention runs/bert "我很喜欢你" "我很中意你" --to heads.png
    forebear inspect attention runs/gpt2 "我有一个梦想" --head mean --to page.html
    forebear inspect attention runs/gpt2 "a long text …" --rollout --top 30
    forebear inspect attention runs/de-en "Ein Hund läuft." --head mean --layer -1 --to alignment.png
    ```

    Of a run that translates, the tokens of a translation (a second text, or its own) look at those of the source.

    Every row of a map sums to 1. In one that looks back, what comes later is empty: it is not seen. Where a run finds
    hidden tokens, ____ and [MASK] hide one.

    Parameters
    ----------
    run
        The run's folder: any with a Transformer, or seq2seq_attention.
    texts
        One text, or two that are laid out in one row as the milestone does ([CLS] A [SEP] B [SEP]).
    layer
        Only this layer, from 1, or from the end: -1 is the last. [default: all]
    head
        Only this head, from 1 or from the end; or mean, of all heads of a layer. [default: all]
    rollout
        What reaches the layer (by itself the last) from the beginning, if attention and what is carried past it were
        all there is: layers multiplied (Abnar & Zuidema 2020).
    bare
        Only the texts' own tokens: nothing before, between and behind them.
    part
        Of a run that translates: cross, from the translation to the source; source or target, within either.
        [default: cross for a picture, else all]
    top
        Only so many edges, the strongest of each head: a table, and lines in a picture. [default: for more than 60
        tokens 40]
    to
        Write a picture (.png, .svg), or a page (.html) in which layers and heads are chosen by hand.
    """
    from forebear.inference.run import Run
    from forebear.inspection.attention import MAX_EDGES, attention_view, compute_attention_maps

    if top is not None and top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least 1 edge")
    loaded_run, given_texts = Run.open(run), list(texts or ())
    maps = compute_attention_maps(loaded_run, given_texts, bare=bare)
    maps = _select_maps(loaded_run, maps, part, to, rollout=rollout)
    output.note(loaded_run.notes)
    all_views = (attention_view(attention_map, layer, head, rollout=rollout) for attention_map in maps)
    views = [(view, MAX_EDGES if top is None and view.is_long else top) for view in all_views]
    result: dict[str, Any] = {"run": loaded_run.name, "what": "attention", "texts": given_texts}
    result["maps"] = [view.to_dict(max_edges) for view, max_edges in views]
    if to is not None:
        result["to"] = _write_attention(to, views, loaded_run.name, given_texts)

    def draw(console: Console) -> None:
        for view, max_edges in views:
            _print_attention(console, view, max_edges)
        for file in result.get("to", ()):
            console.plain(f"written: {file}")

    output.emit(result, draw)


def _select_maps(
    run: Run, maps: list[AttentionMap], part: str | None, to: Path | None, *, rollout: bool
) -> list[AttentionMap]:
    """The requested maps; pictures of translation models show cross-attention by default."""
    from forebear.inspection.attention import SEQ2SEQ_MAP_ORDER

    if "translation" not in run.heads:
        if part is not None:
            raise InputError(f"--part {part} is for runs that translate", hint="leave it out")
        return [attention_map for attention_map in maps if not rollout or attention_map.kind != "cross"]
    if len(maps) == 1 and (rollout or part in ("source", "target")):
        message = "nothing looks within the source or the translation, which are read token by token"
        raise InputError(message, hint="leave out --rollout" if rollout else f"leave out --part {part}")
    if rollout and part == "cross":
        raise InputError("a source is not rolled out into a translation", hint="--part source or --part target")
    if part is None and to is not None and to.suffix != ".html":
        part = "source" if rollout else "cross"
    selected = maps if part is None else [maps[SEQ2SEQ_MAP_ORDER.index(part)]]
    return [attention_map for attention_map in selected if not rollout or attention_map.kind != "cross"]


def _write_attention(to: Path, views: list[tuple[AttentionView, int | None]], run: str, texts: list[str]) -> list[str]:
    """Write one page for all maps, or a numbered picture of each; return the files."""
    from forebear.inspection.attention_visualization import attention_page, plot_attention
    from forebear.reports.plotting import title_quote

    title = f"{run}: " + " | ".join(map(title_quote, texts))
    image_type = to.suffix.lower().removeprefix(".")
    if image_type == "html":
        write_file(to, attention_page(views, title).encode())
        return [str(to)]
    files = [to] if len(views) == 1 else [to.with_stem(f"{to.stem}-{index + 1}") for index in range(len(views))]
    images = [plot_attention(view, title, image_type, max_edges) for view, max_edges in views]
    for file, content in zip(files, images, strict=True):
        write_file(file, content)
    return [str(file) for file in files]


def _print_attention(console: Console, view: AttentionView, top: int | None) -> None:
    from forebear.inspection.token_labels import label_notes

    attention_map = view.attention_map
    tokens = f"{len(attention_map.rows):,} tokens"
    if attention_map.kind == "cross":
        tokens += f" that look at {len(attention_map.columns):,}"
    shape = f"{count_phrase(attention_map.layers, 'layer')} of {count_phrase(attention_map.heads, 'head')}"
    console.print(f"[bold]{attention_map.name}[/], {shape}, {tokens}")
    for note in label_notes((*attention_map.rows, *attention_map.columns)):
        console.print(note, style="dim")
    if top is None:
        _print_attention_maps(console, view)
    has_panels = len(view.panels) > 1
    console.print("the strongest edges" if has_panels else f"the strongest edges of {view.panels[0].title}")
    table = Table(*[">layer", ">head"] * has_panels, ">", "token", "looks at", ">", ">weight")
    for edge in view.strongest_edges(top or NUM_STRONGEST_EDGES):
        panel_cells = [str(edge.panel.layer), str(edge.panel.head)] * has_panels
        source = (str(edge.row + 1), attention_map.rows[edge.row])
        target = (attention_map.columns[edge.column], str(edge.column + 1))
        table.add_row(*panel_cells, *source, *target, f"{edge.weight:.3f}")
    console.print(table)


def _print_attention_maps(console: Console, view: AttentionView) -> None:
    """Print one map with numbers, or several small ones; of all layers and heads, the mean of each layer."""
    from forebear.inspection.attention import attention_view

    attention_map, colors = view.attention_map, console.color_system is not None
    if len(view.panels) == 1:
        console.print(f"{view.panels[0].title}: {view.axis_labels[0]} (down) {view.axis_labels[1]} (across)")
        options: dict[str, Any] = {"width": console.width, "use_color": colors}
        options["separators_before"] = attention_map.text_starts
        names, mask = (attention_map.rows, attention_map.columns), attention_map.visible_mask
        lines = heatmap(*names, view.panels[0].weights, mask, **options)
    else:
        is_overview = len({panel.head for panel in view.panels}) > 1 and len({panel.layer for panel in view.panels}) > 1
        shown_view = attention_view(attention_map, head="mean") if is_overview else view
        max_weight = max(float(panel.weights.max()) for panel in shown_view.panels)
        options = {"use_color": colors, "max_value": max_weight}
        mask, panels = attention_map.visible_mask, shown_view.panels
        maps = [(shown_view.summary(panel), list(small_heatmap(panel.weights, mask, **options))) for panel in panels]
        lines = maps_side_by_side(maps, width=console.width)
        axes = {"down those that look, across those they look at": attention_map.rows}
        if attention_map.kind == "cross":
            axes = {"down": attention_map.rows, "across": attention_map.columns}
        for axis, names in axes.items():
            console.print(f"{axis}: {printable_cell(' '.join(names))}", soft_wrap=True)
        if is_overview:
            hint = "--layer N shows the heads of one layer, --layer N --head N one with its numbers"
            console.print(f"the mean of each layer's heads ({hint})", style="dim")
    console.lines(lines)


def why(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    of: str | None = None,
    at: str | None = None,
    method: Literal["integrated", "gradients"] = "integrated",
    top: int = 20,
    html: Path | None = None,
    output: Output = Output(),
) -> None:
    """Show which words of a text speak for what a run says of it, and which against.

    ```
    forebear inspect why runs/reviews "I loved it" "never again" --html why.html
    forebear inspect why runs/same "我很喜欢你" "我很中意你"
    forebear inspect why runs/names "爱因斯坦在柏林发表演讲" --at 柏林 --of PER
    forebear inspect why runs/answers "今天的最高温度是多少" "天气预报显示今天最高温度 37 摄氏度"
    ```

    What is explained are the log-odds of the answer. Integrated gradients tell how much of them each word adds,
    beginning with the same text of which every word is hidden; they add up. A linear model is told by its weights,
    exactly.

    Parameters
    ----------
    run
        The run's folder: one that forebear adapt made, for any task.
    texts
        Texts, each by itself; for pairs two and two; a question and its passage; a beginning and all choices.
    of
        Explain another label, choice, kind of name, tag or part of the passage than the run says.
    at
        Tagging: the word or name that is meant, or the word's number; by itself the surest name. Answering: start or
        end; by itself both.
    method
        integrated (integrated gradients), or gradients (gradient × input): cheaper and rougher.
    top
        Rows of the table: the strongest words.
    html
        Write a page with all explanations to this file, too.
    """
    from forebear.inference.run import Run
    from forebear.inspection.attribution import attribute, attribution_page

    loaded_run = Run.open(run)
    if top < 0:
        raise InputError(f"--top is {top}", hint="give a number of rows, or 0 for none")
    groups = list(_group_texts(loaded_run, list(texts or ())))
    attribute_group = functools.partial(attribute, loaded_run, of=of, at=at, method=method)
    attributions = answer_one_by_one(groups, attribute_group, has_line_numbers=len(groups) > 1)
    output.note(loaded_run.notes)
    result: dict[str, Any] = {"run": loaded_run.name, "what": "why"}
    result["texts"] = [attribution.to_dict() for attribution in attributions]
    if html is not None:
        require_folder(html, "why.html")
        write_file(html, attribution_page(attributions, loaded_run.name).encode())
        result["html"] = str(html)

    def draw(console: Console) -> None:
        for attribution in attributions:
            _print_attribution(console, attribution, top)
        if html is not None:
            console.plain(f"page: {html}")

    output.emit(result, draw)


def _group_texts(run: Run, texts: list[str]) -> Iterator[str | Sequence[str]]:
    """Texts in the groups that the task expects: one, two, or all texts."""
    if not texts:
        raise InputError("there is no text", hint='forebear inspect why RUN "a text"')
    name = run.task.name if run.task is not None else ""
    if name == "choice":
        yield texts
    elif name in ("pairs", "answering"):
        if len(texts) % 2:
            description = "pairs of texts" if name == "pairs" else "questions and their passages"
            message = f"this run is about {description}, and one text is left over"
            raise InputError(message, hint="give two texts, or four …")
        yield from zip(texts[::2], texts[1::2], strict=True)
    else:
        yield from texts


def _print_attribution(console: Console, attribution: Attribution, top: int) -> None:
    probability = "" if attribution.probability is None else f" {attribution.probability:.1%}"
    is_prediction = attribution.prediction == attribution.target
    prediction = "" if is_prediction else f", the run itself says {printable_cell(attribution.prediction)}"
    console.bold(attribution.target, f"{probability}{prediction}")
    for index, role in enumerate(attribution.text_roles):
        label = f"{role}: " if len(attribution.text_roles) > 1 else ""
        text = _highlighted_text(attribution, index, label, colors=console.color_system is not None)
        console.print(text, soft_wrap=True)
    if strongest := attribution.strongest(top):
        table = Table("word", ">adds", ">against", "for")
        for word in strongest:
            fraction = word.attribution / attribution.strongest_value
            bar = "█" * max(1, round(abs(fraction) * BAR_WIDTH)) if fraction else ""
            table.add_row(word.text, f"{word.attribution:+.4f}", *((bar, "") if fraction < 0 else ("", bar)))
        console.print(table)
    if attribution.features and top:
        rows = ((feature.text, feature.field, f"{feature.value:+.4f}") for feature in attribution.features[:top])
        console.table("n-gram", "where", ">adds", rows=rows)
    num_unread = sum(not word.is_visible for word in attribution.words)
    unread_note = f" {num_unread:,} words do not fit into a row and were not read." if num_unread else ""
    console.plain(f"{attribution.description}{unread_note}\n", style="dim")


def _highlighted_text(attribution: Attribution, number: int, label: str, *, colors: bool) -> Text:
    """The text with words colored by attribution; without colors, strong words are followed by signs."""
    text, offset, highlighted = attribution.texts[number], 0, Text(label)
    for word in (word for word in attribution.words if word.text_index == number):
        highlighted.append(printable(text[offset : word.start]))
        strength = abs(word.attribution) / attribution.strongest_value
        style = "" if word.is_visible else "dim"
        if word.is_visible and strength >= MIN_COLORED:
            style = cell_style(strength, POSITIVE_COLORS if word.attribution > 0 else NEGATIVE_COLORS, STRONG_COLOR)
        highlighted.append(printable(word.text), style=style if colors else "")
        num_signs = min(3, int(strength * 4)) if not colors else 0
        highlighted.append(f"({('+' if word.attribution > 0 else '-') * num_signs})" if num_signs else "")
        offset = word.end
    return highlighted.append(printable(text[offset:]))


def senses(
    run: VectorRunArgument,
    word: str,
    /,
    *,
    input_files: Annotated[list[str], Parameter(name="--in", consume_multiple=True, negative="")],
    layers: Annotated[str | None, Parameter(name=("--layers", "--layer"))] = None,
    groups: int | None = None,
    most: int = 200,
    top: int = 3,
    beside: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    known: Annotated[bool, Parameter(name="--senses", negative="", show_default=False)] = False,
    sentences: SentenceMode = "split",
    to: ImageFile = None,
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
) -> None:
    """Group the sentences in which a word stands by what a run makes of the word there.

    ```
    forebear inspect senses runs/elmo bank --in book.txt
    forebear inspect senses runs/bert 苹果 --in 'news/*.txt' --layers -1 --to senses.html
    forebear inspect senses runs/elmo 打 --in book.txt --beside runs/word2vec --groups 4
    forebear inspect senses runs/elmo bank --in bank.tsv --senses --to senses.png
    ```

    A run that reads in context has another vector for every occurrence, a table of words the same for all: both are
    shown. There are as many groups as hang together best (silhouette), and one where no groups surpass what a cloud
    without any has by chance.

    The word is found as a whole word, also with other capitals; in Chinese where the segmenter ends words at both of
    its ends. The same sentence counts once.

    Parameters
    ----------
    word
        The word, or several that stand together.
    input_files
        Text files (also .gz, .zst), folders, quoted globs, - for standard input.
    layers
        A layer (0: the embedding, -1: the last), several for their mean (1,2), or with weights (1:0.3,2:0.7).
        [default: the mean of all above the embedding]
    groups
        So many groups, whether they hang together or not. [default: as many as do]
    most
        So many occurrences at most, evenly from all.
    top
        Sentences of each group that are shown, the most typical first.
    beside
        Runs to show beside. [default: the run's own vectors before it looks around]
    known
        The files have the meaning of the word, a tab and a sentence on each line: how far groups agree is told.
    sentences
        What is read at once: split, lines or flow as in pretrain; whole: documents.
    to
        Write a picture (.png, .svg), or a page with all sentences (.html).
    """
    from forebear.inference.run import Run
    from forebear.inspection.occurrences import find_occurrences, read_labeled_sense_texts, read_sense_texts
    from forebear.inspection.senses import analyze_occurrences

    if top < 0:
        raise InputError(f"--top is {top}", hint="give a number of sentences, or 0 for none")
    supported = ReadingOptions(encoding=reading.encoding, on_bad_bytes=reading.on_bad_bytes)
    if known and (reading != supported or sentences != "split"):
        hint = "leave it out, or leave out --senses"
        raise InputError("with --senses a line is a meaning, a tab and a sentence: how else to read is told", hint=hint)
    loaded_run = Run.open(run)
    other_runs = None if beside is None else [Run.open(folder) for folder in beside]
    layer_choice, read_texts = chosen_layers(layers), read_labeled_sense_texts if known else read_sense_texts
    with output.counter("documents") as progress:

        def texts() -> Iterator[SenseText]:
            for index, text in enumerate(read_texts(input_files, reading.text_format()), 1):
                yield text
                progress(index, 0)

        occurrences = find_occurrences(word, texts(), max_occurrences=most, sentences="whole" if known else sentences)
    analysis = analyze_occurrences(loaded_run, occurrences, layers=layer_choice, groups=groups, beside=other_runs)
    for analyzed_run in (loaded_run, *(other_runs or ())):
        output.note(analyzed_run.notes)
    result = {"run": loaded_run.name, "what": "senses"} | analysis.to_dict()

    def render(image_type: str) -> bytes | str:
        from forebear.inspection.embedding_visualization import plot_senses, senses_page

        title = f"{loaded_run.name}: {word}"
        return senses_page(analysis, title) if image_type == "html" else plot_senses(analysis, title, image_type)

    output.emit_with_image(result, lambda console: _print_senses(console, analysis, top), to, render)


def _print_senses(console: Console, analysis: SenseAnalysis, top: int) -> None:
    result = analysis.result
    title = f" in {len(result.occurrences):,} places, by {printable_cell(result.name)}"
    console.bold(analysis.word, f"{title}: {printable_cell(result.conclusion)}")
    for index, group in enumerate(result.groups):
        size = f"{len(group.members):,} of {len(result.occurrences):,}, mean cosine {group.cohesion:.3f}"
        size += printable_cell(analysis.label_counts(group.members))
        style = CLUSTER_STYLES[index % len(CLUSTER_STYLES)]
        console.print(f"\n[bold {style}]group {index + 1}[/]  {size}", soft_wrap=True)
        for occurrence in result.typical_occurrences(index, top):
            console.print(_highlight_word(occurrence, style, console.color_system is not None), soft_wrap=True)
    console.print()
    _print_comparison(console, analysis)
    if (baseline := result.clustering.baseline) is not None:
        silhouettes = (f"{choice.num_clusters}: {choice.silhouette:.2f}" for choice in result.clustering.candidates)
        baseline_note = f"clouds without groups have {baseline.silhouette:.2f} on average"
        console.dim(f"silhouettes by number of groups: {'  '.join(silhouettes)}; {baseline_note}")
    console.dim(*analysis.notes)


def _print_comparison(console: Console, analysis: SenseAnalysis) -> None:
    """Print a row for each run: its clusters, their silhouette and their agreement with gold senses."""
    table = Table("vectors of", ">groups", ">silhouette", ">mean cosine", "")
    for result in (analysis.result, *analysis.others):
        clustering = result.clustering
        values = (str(clustering.num_clusters), number_cell(clustering.silhouette, ".3f"), f"{result.similarity:.3f}")
        table.add_row(result.name, *values, result.note)
    console.print(table)
    if analysis.labels:
        table = Table("vectors of", ">groups", ">purity", ">by chance", ">Rand index", ">of joined groups")
        for result in (analysis.result, *analysis.others):
            for agreement in dict.fromkeys(result.agreement or ()):
                purities = (agreement.purity, agreement.shuffled_purity)
                values = (*purities, agreement.adjusted_rand, agreement.merged_adjusted_rand)
                table.add_row(result.name, str(agreement.num_clusters), *(f"{value:.3f}" for value in values))
        console.print(table)
        note = "joined: groups whose commonest meaning is the same are taken for one"
        console.dim(f"{note}; Rand index: 0 by chance, 1 at best")


def _highlight_word(occurrence: Occurrence, style: str, colors: bool) -> Text:
    """The sentence with its word in the cluster's color, or between « » without colors."""
    word = printable(occurrence.surface)
    sentence = Text("  " + printable(occurrence.sentence[: occurrence.start]))
    sentence.append(word if colors else f"«{word}»", style=f"bold {style}" if colors else "")
    return sentence.append(printable(occurrence.sentence[occurrence.end :]))


inspect = App(
    name="inspect",
    help="Look inside a run: why it says something, where it looks, what it makes of words, how far back it reaches.",
    result_action="return_value",
)
for _command in (attention, positions, next, neighbours, projection, norms, senses, layers, gradients, why):
    inspect.command(_command, name=_command.__name__)
