"""`forebear inspect`: the ways of looking inside a run; here `why`, which words speak for what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from forebear.cli.batch_io import TextArguments, printable, printable_cell
from forebear.cli.options import ReadingOptions
from forebear.cli.output import Output, image_format, make_table, text_bar, write_image
from forebear.cli.words import neighbours, norms, projection
from forebear.data.sentences import SentenceMode
from forebear.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.text import Text as Marked

    from forebear.inference.run import Run
    from forebear.inspection.attention import AttentionMap, AttentionView
    from forebear.inspection.attribution import Attribution, WordAttribution
    from forebear.inspection.gradient_distance import GradientReach
    from forebear.inspection.layer_weights import LayerWeights
    from forebear.inspection.logit_lens import LogitLens
    from forebear.inspection.occurrences import Occurrence, SenseText
    from forebear.inspection.position_embeddings import PositionTable
    from forebear.inspection.senses import SenseAnalysis

# `forebear inspect senses`: one word in many sentences, grouped by what a run makes of it there.


FORMS = ("png", "svg", "html")
STYLES = ("blue", "red", "green", "magenta", "yellow", "cyan", "bright_red", "bright_black")


def senses(
    run: Path,
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
    to: Path | None = None,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Output = Output(),
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
    run
        The run's folder: any with vectors.
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
    from forebear.inference.embed import parse_layers
    from forebear.inference.run import Run
    from forebear.inspection.occurrences import find_occurrences
    from forebear.inspection.senses import analyze_occurrences

    form = image_format(to, *FORMS)
    if top < 0:
        raise InputError(f"--top is {top}", hint="give a number of sentences, or 0 for none")
    using, others = Run.open(run), None if beside is None else [Run.open(one) for one in beside]
    chosen = None if layers is None else parse_layers(layers)
    texts = _texts(input_files, known, reading, sentences)
    with speaking.counter("documents") as look:
        found = find_occurrences(word, _counted(texts, look), most=most, sentences="whole" if known else sentences)
    told = analyze_occurrences(using, found, layers=chosen, groups=groups, beside=others)
    for one in (using, *(others or ())):
        speaking.note(one.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "senses"} | told.to_dict()
    if to is not None:
        from forebear.inspection.embedding_plots import plot_senses
        from forebear.inspection.senses_page import senses_page

        title = f"{using.name}: {word}"
        write_image(to, senses_page(told, title).encode() if form == "html" else plot_senses(told, title, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _inspect_senses_draw(console, told, top, to))


def _texts(files: list[str], known: bool, reading: ReadingOptions, sentences: SentenceMode) -> Iterator[SenseText]:
    from forebear.inspection.occurrences import read_labeled_sense_texts, read_sense_texts

    if not known:
        return read_sense_texts(files, reading.reading())
    usual = ReadingOptions(encoding=reading.encoding, on_bad_bytes=reading.on_bad_bytes)
    if reading != usual or sentences != "split":
        hint = "leave it out, or leave out --senses"
        raise InputError("with --senses a line is a meaning, a tab and a sentence: how else to read is told", hint=hint)
    return read_labeled_sense_texts(files, replace(usual).reading())


def _counted(texts: Iterable[SenseText], look: Any) -> Iterator[SenseText]:
    for number, text in enumerate(texts, 1):
        yield text
        look(number, 0)


def _inspect_senses_draw(console: Console, told: SenseAnalysis, top: int, to: Path | None) -> None:
    own = told.result
    places = f"[bold]{printable_cell(told.word)}[/] in {len(own.occurrences):,} places, by {printable_cell(own.name)}"
    console.print(f"{places}: {printable_cell(own.conclusion)}", soft_wrap=True)
    for number, group in enumerate(own.groups):
        size = f"{len(group.members):,} of {len(own.occurrences):,}, mean cosine {group.cohesion:.3f}"
        size += printable_cell(told.labels_of(group.members))
        console.print(f"\n[bold {_inspect_senses_style(number)}]group {number + 1}[/]  {size}", soft_wrap=True)
        for one in own.typical(number, top):
            console.print(marked(one, _inspect_senses_style(number), console.color_system is not None), soft_wrap=True)
    console.print()
    console.print(_compared(told))
    if told.labels:
        console.print(_agreed(told))
        about = (
            "joined: groups whose commonest meaning is the same are taken for one; Rand index: 0 by chance, 1 at best"
        )
        console.print(about, style="dim", soft_wrap=True)
    if own.clustering_result.baseline is not None:
        looked = "  ".join(f"{one.num_clusters}: {one.silhouette:.2f}" for one in own.clustering_result.candidates)
        chance = f"clouds without groups have {own.clustering_result.baseline.silhouette:.2f} on average"
        console.print(f"silhouettes by number of groups: {looked}; {chance}", style="dim", soft_wrap=True)
    for note in told.notes:
        console.print(printable_cell(note), style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


def _compared(told: SenseAnalysis) -> Any:
    """A row for each run: its groups, and how well they hang together."""
    made = make_table("vectors of", ">groups", ">silhouette", ">mean cosine", "")
    for one in (told.result, *told.others):
        silhouette = one.clustering_result.silhouette
        figures = ("" if silhouette is None else f"{silhouette:.3f}", f"{one.similarity:.3f}")
        made.add_row(
            printable_cell(one.name), str(one.clustering_result.num_clusters), *figures, printable_cell(one.note)
        )
    return made


def _agreed(told: SenseAnalysis) -> Any:
    """A row for each run and number of groups: how far they agree with known meanings."""
    made = make_table("vectors of", ">groups", ">purity", ">by chance", ">Rand index", ">of joined groups")
    for one in (told.result, *told.others):
        for agreement in dict.fromkeys(one.agreement or ()):
            figures = (agreement.purity, agreement.chance, agreement.rand, agreement.merged_groups)
            made.add_row(printable_cell(one.name), str(agreement.groups), *(f"{figure:.3f}" for figure in figures))
    return made


def _inspect_senses_style(number: int) -> str:
    return STYLES[number % len(STYLES)]


def marked(one: Occurrence, style: str, colours: bool) -> Marked:
    """The sentence, its word in the group's colour, or between signs where there are no colours."""
    from rich.text import Text as Marked

    before, behind = one.sentence[: one.start], one.sentence[one.end :]
    made = Marked("  " + printable(before))
    if colours:
        made.append(printable(one.surface), style=f"bold {style}")
    else:
        made.append(f"«{printable(one.surface)}»")
    return made.append(printable(behind))


# `forebear inspect attention`: where tokens look, in the terminal, as a picture and as a page.


STRONGEST = 8  # edges below a map
Switch = Annotated[bool, Parameter(negative="", show_default=False)]


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
    to: Path | None = None,
    speaking: Output = Output(),
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
    form = image_format(to, "png", "svg", "html")
    using, given = Run.open(run), list(texts or ())
    maps = _parts(using, compute_attention_maps(using, given, bare=bare), part, to, rollout=rollout)
    speaking.note(using.notes)
    views = [attention_view(one, layer, head, rollout=rollout) for one in maps]
    both = [(one, MAX_EDGES if top is None and one.is_long else top) for one in views]
    facts: dict[str, Any] = {"run": using.name, "what": "attention", "texts": given}
    facts["maps"] = [one.to_dict(most) for one, most in both]
    written = [] if to is None else _inspect_attention_write(to, form, both, using.name, given)
    facts |= {"to": written} if written else {}
    speaking.emit(facts, lambda console: _inspect_attention_draw_all(console, both, written))


def _parts(
    using: Run, maps: list[AttentionMap], part: str | None, to: Path | None, *, rollout: bool
) -> list[AttentionMap]:
    """Of a run that translates, what was asked for; by itself a picture shows how a translation looks at its source."""
    from forebear.inspection.attention import ATTENTION_KINDS

    if "translation" not in using.heads:
        if part is not None:
            raise InputError(f"--part {part} is for runs that translate", hint="leave it out")
        return [one for one in maps if not rollout or one.kind != "cross"]
    if len(maps) == 1 and (rollout or part in ("source", "target")):
        what = "nothing looks within the source or the translation, which are read token by token"
        raise InputError(what, hint="leave out --rollout" if rollout else f"leave out --part {part}")
    if rollout and part == "cross":
        raise InputError("a source is not rolled out into a translation", hint="--part source or --part target")
    if part is None and to is not None and to.suffix != ".html":
        part = "source" if rollout else "cross"
    chosen = maps if part is None else [maps[ATTENTION_KINDS.index(part)]]
    return [one for one in chosen if not rollout or one.kind != "cross"]


def _inspect_attention_write(
    to: Path, form: str, views: list[tuple[AttentionView, int | None]], run: str, texts: list[str]
) -> list[str]:
    """One page for all maps, or a picture of each: several are numbered."""
    from forebear.reports.plotting import title_quote

    title = f"{run}: " + " | ".join(map(title_quote, texts))
    if form == "html":
        from forebear.inspection.attention_plots import attention_page

        write_image(to, attention_page(views, title).encode())
        return [str(to)]
    from forebear.inspection.attention_plots import plot_attention

    files = [to] if len(views) == 1 else [to.with_stem(f"{to.stem}-{number + 1}") for number in range(len(views))]
    made = [plot_attention(one, title, form, most) for one, most in views]
    for file, content in zip(files, made, strict=True):
        write_image(file, content)
    return [str(file) for file in files]


def _inspect_attention_draw_all(
    console: Console, views: list[tuple[AttentionView, int | None]], written: list[str]
) -> None:
    for one, most in views:
        _inspect_attention_draw(console, one, most)
    for file in written:
        console.print(f"written: {file}", markup=False, soft_wrap=True)


def _inspect_attention_draw(console: Console, view: AttentionView, top: int | None) -> None:
    from forebear.inspection.token_labels import label_notes

    of = view.attention_map
    tokens = f"{len(of.rows):,} tokens" + (f" that look at {len(of.columns):,}" if of.kind == "cross" else "")
    shape = f"{of.layers} layer{'s' * (of.layers > 1)} of {of.heads} head{'s' * (of.heads > 1)}"
    console.print(f"[bold]{of.name}[/], {shape}, {tokens}")
    for note in label_notes((*of.rows, *of.columns)):
        console.print(note, style="dim")
    if top is None:
        _draw_maps(console, view)
    several = len(view.panels) > 1
    console.print("the strongest edges" if several else f"the strongest edges of {view.panels[0].title}")
    made = make_table(*([">layer", ">head"] if several else []), ">", "token", "looks at", ">", ">weight")
    for edge in view.strongest_edges(top or STRONGEST):
        where = [str(edge.panel.layer), str(edge.panel.head)] if several else []
        ends = (
            str(edge.row + 1),
            printable_cell(of.rows[edge.row]),
            printable_cell(of.columns[edge.column]),
            str(edge.column + 1),
        )
        made.add_row(*where, *ends, f"{edge.weight:.3f}")
    console.print(made)


def _draw_maps(console: Console, view: AttentionView) -> None:
    """One map with its numbers; of several small ones, one for each layer where all heads of all were asked for."""
    from forebear.cli.output import heat, maps_side_by_side, small_heatmap
    from forebear.inspection.attention import attention_view as chosen

    of, colours = view.attention_map, console.color_system is not None
    if len(view.panels) == 1:
        console.print(f"{view.panels[0].title}: {view.axis_labels[0]} (down) {view.axis_labels[1]} (across)")
        how = {"width": console.width, "colours": colours, "borders": of.word_borders}
        lines = heat(of.rows, of.columns, view.panels[0].weights, of.visible_mask, **how)
    else:
        heads = {panel.head for panel in view.panels}
        layers = {panel.layer for panel in view.panels}
        everything = len(heads) > 1 and len(layers) > 1
        shown = chosen(of, head="mean") if everything else view
        most = max(float(panel.weights.max()) for panel in shown.panels)
        told = [
            (shown.summary(one), list(small_heatmap(one.weights, of.visible_mask, colours=colours, most=most)))
            for one in shown.panels
        ]
        lines = maps_side_by_side(told, width=console.width)
        same = "down those that look, across those they look at"
        sides = [("down", of.rows), ("across", of.columns)] if of.kind == "cross" else [(same, of.rows)]
        for side, names in sides:
            console.print(f"{side}: {printable_cell(' '.join(names))}", soft_wrap=True)
        if everything:
            more = "--layer N shows the heads of one layer, --layer N --head N one with its numbers"
            console.print(f"the mean of each layer's heads ({more})", style="dim")
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


# `forebear inspect gradients`: how far back a run can learn from, several runs side by side.


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
    speaking: Output = Output(),
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
    from forebear.inference.run import Run
    from forebear.inspection.gradient_distance import gradient_reach as looked_at

    form = image_format(to, "png", "svg")
    if (text is None) == (input_files is None):
        what = "there is no text" if text is None else "there are two texts, --text and --in"
        raise InputError(what, hint='give --in FILE, or --text "a long text"')
    using = [Run.open(folder) for folder in runs]
    texts = [text] if text is not None else _documents(input_files or [], reading)
    found = looked_at(using, texts, far=far)
    for run in using:
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "gradients", "runs": [one.to_dict() for one in found]}
    if to is not None:
        from forebear.inspection.gradient_distance import plot_gradient_reach

        write_image(to, plot_gradient_reach(found, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _inspect_gradients_draw(console, found, to))


def _documents(files: list[str], reading: ReadingOptions) -> list[str]:
    """As many as are enough."""
    from forebear.inspection.gradient_distance import MAX_CHARACTERS
    from forebear.inspection.occurrences import read_sense_texts

    made, size = [], 0
    for document in read_sense_texts(files, reading.reading()):
        made.append(document.text)
        size += len(document.text)
        if size >= MAX_CHARACTERS:
            break
    return made


def _inspect_gradients_draw(console: Console, found: list[GradientReach], to: Path | None) -> None:
    furthest = max(one.max_distance for one in found)
    told = [distance for distance in DISTANCES if distance < furthest] + [furthest]
    made = make_table(
        ">tokens back", *(cell for one in found for cell in (f">{printable_cell(one.name)}", ">of its own"))
    )
    for distance in told:
        cells = []
        for one in found:
            there = distance <= one.max_distance
            cells += [f"{one.magnitudes[distance]:.2e}", f"{one.relative[distance]:.2e}"] if there else ["", ""]
        made.add_row(str(distance), *cells)
    console.print(made)
    for one in found:
        limit = f" ({one.limit})" if one.limit else ""
        console.print(f"[bold]{printable_cell(one.name)}[/] {one.conclusion}{limit}", soft_wrap=True)
    about = "of its own: of what it is at the token itself, 0 tokens back"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


# `forebear inspect layers`: which layers a task reads, by the mixture of them that it has learned.


INSPECT_LAYERS_WIDTH = 24  # of a bar


def layers(
    runs: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    to: Path | None = None,
    speaking: Output = Output(),
) -> None:
    """Show how much each layer weighs in the mixture that a task has learned to read; several runs side by side.

    ```
    forebear inspect layers runs/names
    forebear inspect layers runs/names runs/reviews runs/answers --to layers.png
    ```

    ELMo's way: a task reads γ · Σ w · layer, where the weights w are a softmax and sum to 1. They begin even. The more
    a layer weighs, the more the task takes of it; unless layers are brought to one scale before (adapt --mixture-norm),
    one whose numbers are larger says more with the same weight.

    Parameters
    ----------
    runs
        Folders of runs that were adapted with --how features, or whose recurrent encoder has a --reader.
    to
        Write a picture (.png, .svg).
    """
    from forebear.inference.run import Run
    from forebear.inspection.layer_weights import layer_weights as looked_at

    form = image_format(to, "png", "svg")
    found: list[LayerWeights] = []
    for folder in runs:
        run = Run.open(folder)
        found += looked_at(run)
        speaking.note(run.notes)
    facts: dict[str, Any] = {"what": "layers", "mixtures": [one.to_dict() for one in found]}
    if to is not None:
        from forebear.inspection.layer_weights import plot_layer_weights

        write_image(to, plot_layer_weights(found, form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _inspect_layers_draw(console, found, to))


def _inspect_layers_draw(console: Console, found: list[LayerWeights], to: Path | None) -> None:
    from forebear.inspection.layer_weights import layer_names

    most = max(weight for one in found for weight in one.weights)
    for one in found:
        task = f", {printable_cell(one.task)}" if one.task else ""
        told = f"[bold]{printable_cell(one.run)}[/]{task}, {printable_cell(one.position)}: γ {one.gain:.3f}"
        console.print(told, soft_wrap=True)
        made = make_table("layer", ">weight", "", ">of an even share")
        for name, weight in reversed(list(zip(layer_names(one), one.weights, strict=True))):
            made.add_row(
                name,
                f"{weight:.4f}",
                text_bar(weight / most, INSPECT_LAYERS_WIDTH),
                f"{weight / one.uniform_weight:.2f} ×",
            )
        console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


# `forebear inspect next`: how a prediction forms, layer by layer.


def next(  # noqa: A001 - the command's name
    run: Path,
    text: str,
    /,
    *,
    at: int | None = None,
    top: int = 5,
    to: Path | None = None,
    speaking: Output = Output(),
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
    from forebear.inference.run import Run
    from forebear.inspection.logit_lens import logit_lens

    form = image_format(to, "png", "svg")
    using = Run.open(run)
    found = logit_lens(using, text, at=at, top=top)
    speaking.note(using.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "next"} | found.to_dict()
    if to is not None:
        from forebear.inspection.logit_lens import plot_logit_lens
        from forebear.reports.plotting import title_quote

        write_image(to, plot_logit_lens(found, f"{using.name}: {title_quote(text)}", form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _inspect_next_draw(console, found, to))


def _inspect_next_draw(console: Console, found: LogitLens, to: Path | None) -> None:
    asked = printable_cell(found.tokens[found.position - 1])
    where = f"after {asked}" if found.head == "next" else f"in place of {asked}"
    console.print(f"[bold]{printable_cell(found.text)}[/]  {where} ({found.position}), in the end: "
                  f"[bold]{printable_cell(found.predicted_token.text)}[/]", soft_wrap=True)  # fmt: skip
    made = make_table(">layer", "likeliest", ">P of the last", ">rank", ">entropy", ">KL to the end")
    for layer in found.layers:
        told = "  ".join(f"{printable_cell(one.text)} [dim]{one.probability:.1%}[/]" for one in layer.candidates)
        figures = (f"{layer.probability:.2%}", f"{layer.rank:,}", f"{layer.entropy:.2f}", f"{layer.divergence:.2f}")
        made.add_row(str(layer.layer), told, *figures)
    console.print(made)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


# `forebear inspect positions`: what a run, or the sinusoid, knows of places in a row.


SHOWN = 24  # positions of a map in the terminal


def positions(
    run: Path | None = None,
    /,
    *,
    width: int | None = None,
    count: Annotated[int | None, Parameter(name="--positions")] = None,
    to: Path | None = None,
    speaking: Output = Output(),
) -> None:
    """Show a table of positions, how alike they are, and that a step further is a linear map.

    ```
    forebear inspect positions
    forebear inspect positions --width 64 --positions 100 --to waves.png
    forebear inspect positions runs/bert --to learned.svg
    ```

    In the sinusoid a step of k positions turns each pair of dimensions by an angle of its own, wherever it is taken:
    the map is known beforehand, and its largest error is told. A learned table promises nothing of the kind: the best
    map by least squares is tried at positions it was not fitted to, beside a sinusoid and random numbers of the size.

    Parameters
    ----------
    run
        The run's folder: any with a Transformer. [default: none, the sinusoid of the Transformer]
    width
        Without a run: numbers in the vector of a position. [default: 128]
    count
        So many positions. [default: 64; of a run all it has]
    to
        Write a picture (.png, .svg).
    """
    from forebear.inference.run import Run
    from forebear.inspection.position_embeddings import position_table as looked_at

    form = image_format(to, "png", "svg")
    using = None if run is None else Run.open(run)
    found = looked_at(using, width=width, count=count)
    speaking.note(using.notes if using is not None else ())
    facts: dict[str, Any] = {"what": "positions"} | found.to_dict()
    if to is not None:
        from forebear.inspection.position_embeddings import plot_positions

        rows, wide = found.table.shape
        whose = "the Transformer's sinusoid" if using is None else f"{found.name} ({found.kind})"
        write_image(to, plot_positions(found, f"positions of {whose}: {rows:,}, each a vector of {wide:,}", form))
        facts["to"] = str(to)
    speaking.emit(facts, lambda console: _inspect_positions_draw(console, found, to))


def _inspect_positions_draw(console: Console, found: PositionTable, to: Path | None) -> None:
    import numpy as np

    from forebear.cli.output import small_heatmap

    count, width = found.table.shape
    console.print(f"[bold]{found.kind}[/] positions: {count:,}, each a vector of {width:,}")
    shown = np.unique(np.linspace(0, count - 1, min(count, SHOWN)).round().astype(int))
    cosines = np.clip(found.cosines[np.ix_(shown, shown)], 0, 1)
    console.print(f"cosines between {len(shown)} of them, from 0 (or less) to 1" if len(shown) < count else "cosines")
    colours = console.color_system is not None
    names = [str(number) for number in shown.tolist()]
    for line in small_heatmap(cosines, np.ones_like(cosines, bool), colours=colours, rows=names, most=1.0):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    turns = found.kind == "sinusoid"
    own = (">rotation's largest error", ">best map misses") if turns else (">best map misses", ">a sinusoid's")
    made = make_table(">positions further", *own, ">of random numbers", ">mean cosine")
    by_distance = found.by_distance
    for step in found.steps:
        first = f"{step.map_error:.2%}" if step.rotation_error is None else f"{step.rotation_error:.1e}"
        cells = (first, f"{step.sinusoid_error:.2%}", f"{step.noise_error:.2%}", f"{by_distance[step.step]:.3f}")
        made.add_row(str(step.step), *cells)
    console.print(made)
    about = "misses: the share of variance that the best linear map misses at positions it was not fitted to"
    console.print(about, style="dim", soft_wrap=True)
    if to is not None:
        console.print(f"written: {to}", markup=False, soft_wrap=True)


WIDTH = 16  # of a bar to either side
FAINT, STRONG = 0.08, 0.6  # of the strongest word: less is not coloured, more has light letters
# Weak and strong, so that letters can be read on dark and on light terminals.
FOR, AGAINST = ((219, 233, 255), (31, 95, 208)), ((255, 227, 214), (194, 65, 12))

inspect = App(
    name="inspect",
    help="Look inside a run: why it says something, where it looks, what it makes of words, how far back it reaches.",
    result_action="return_value",
)
inspect.command(attention, name="attention")
inspect.command(positions, name="positions")
inspect.command(next, name="next")
inspect.command(neighbours, name="neighbours")
inspect.command(projection, name="projection")
inspect.command(norms, name="norms")
inspect.command(senses, name="senses")
inspect.command(layers, name="layers")
inspect.command(gradients, name="gradients")


@inspect.command(name="why")
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
    speaking: Output = Output(),
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
    from forebear.inspection.attribution import attribute as explain

    using = Run.open(run)
    if top < 0:
        raise InputError(f"--top is {top}", hint="give a number of rows, or 0 for none")
    given = list(_examples(using, list(texts or ())))
    told = []
    for number, text in enumerate(given, 1):
        try:
            told.append(explain(using, text, of=of, at=at, method=method))
        except InputError as error:
            error.line = error.line or (number if len(given) > 1 and error.file is None else None)
            raise
    speaking.note(using.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "why", "texts": [one.to_dict() for one in told]}
    if html is not None:
        _write(told, using.name, html)
        facts["html"] = str(html)
    speaking.emit(facts, lambda console: _draw_all(console, told, top, html))


def _examples(run: Run, texts: list[str]) -> Iterator[str | Sequence[str]]:
    """As many texts together as the task takes."""
    if not texts:
        raise InputError("there is no text", hint='forebear inspect why RUN "a text"')
    name = run.task.name if run.task is not None else ""
    if name == "choice":
        yield texts
    elif name in ("pairs", "answering"):
        if len(texts) % 2:
            both = "pairs of texts" if name == "pairs" else "questions and their passages"
            raise InputError(f"this run is about {both}, and one text is left over", hint="give two texts, or four …")
        yield from zip(texts[::2], texts[1::2], strict=True)
    else:
        yield from texts


def _write(told: list[Attribution], run: str, file: Path) -> None:
    from forebear.data.io.atomic import atomic_write, explain_disk_errors
    from forebear.inspection.attribution import attribution_page

    if file.is_dir() or not file.absolute().parent.is_dir():
        what = "is a folder" if file.is_dir() else "the folder of this file does not exist"
        raise InputError(what, file=file, hint="name a file in a folder that exists, such as why.html")
    with explain_disk_errors(file), atomic_write(file) as aside:
        aside.write(attribution_page(told, run).encode("utf-8"))


def _draw_all(console: Console, told: list[Attribution], top: int, html: Path | None) -> None:
    for one in told:
        _draw(console, one, top)
    if html is not None:
        console.print(f"page: {html}", markup=False, soft_wrap=True)


def _draw(console: Console, told: Attribution, top: int) -> None:
    sure = "" if told.probability is None else f" {told.probability:.1%}"
    other = f", the run itself says {printable_cell(told.said)}" if told.said != told.target else ""
    console.print(f"[bold]{printable_cell(told.target)}[/]{sure}{other}", soft_wrap=True)
    for number, part in enumerate(told.parts):
        label = f"{part}: " if len(told.parts) > 1 else ""
        console.print(_coloured(told, number, label, colours=console.color_system is not None), soft_wrap=True)
    shown = told.strongest(top)
    if shown:
        made = make_table("word", ">adds", ">against", "for")
        for word in shown:
            made.add_row(
                printable_cell(word.text), f"{word.attribution:+.4f}", *_bars(word.attribution / told.strongest_value)
            )
        console.print(made)
    if told.features and top:
        made = make_table("n-gram", "where", ">adds")
        for one in told.features[:top]:
            made.add_row(printable_cell(one.text), printable_cell(one.position), f"{one.value:+.4f}")
        console.print(made)
    unread = sum(not word.is_visible for word in told.words)
    more = f" {unread:,} words do not fit into a row and were not read." if unread else ""
    console.print(f"{told.description}{more}\n", markup=False, soft_wrap=True, style="dim")


def _bars(share: float) -> tuple[str, str]:
    bar = "█" * max(1, round(abs(share) * WIDTH)) if share else ""
    return (bar, "") if share < 0 else ("", bar)


def _coloured(told: Attribution, number: int, label: str, *, colours: bool) -> Text:
    """A text with its words coloured; where there are no colours, signs stand behind the strong ones."""
    from rich.text import Text

    text, done, made = told.texts[number], 0, Text(label)
    for word in (word for word in told.words if word.text_index == number):
        made.append(printable(text[done : word.start]))
        strength = abs(word.attribution) / told.strongest_value
        made.append(printable(word.text), style=_style(word, strength) if colours else "")
        signs = min(3, int(strength * 4)) if not colours else 0
        made.append(f"({('+' if word.attribution > 0 else '-') * signs})" if signs else "")
        done = word.end
    return made.append(printable(text[done:]))


def _style(word: WordAttribution, strength: float) -> str:
    if not word.is_visible:
        return "dim"
    if strength < FAINT:
        return ""
    weak, strong = FOR if word.attribution > 0 else AGAINST
    mixed = (round(a + (b - a) * strength) for a, b in zip(weak, strong, strict=True))
    return f"{'#ffffff' if strength > STRONG else '#000000'} on rgb({','.join(map(str, mixed))})"
