"""`forebear measure`: how well a run predicts a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from forebear.cli.batch_io import open_run, printable_cell, refuse_overwriting_input, require_output_folder
from forebear.cli.options import ReadingOptions
from forebear.cli.output import Output, count_phrase, make_table, text_bar
from forebear.embeddings.lexicon import AnalogyMethod
from forebear.errors import InputError, join_faults

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.data.corpus.parallel import ParallelFormat
    from forebear.data.io.reader import TextFormat
    from forebear.embeddings.evaluation import AnalogyAccuracy, AnalogyEval, SimilarityEval
    from forebear.inference.measure import TaskEvaluation
    from forebear.inference.run import Run

# How good word vectors are, for people: agreement with what people say of pairs, and analogies by section.


@Parameter(name="*", group=Group("Words"))
@dataclass(frozen=True)
class WordEvalOptions:
    """Files by which word vectors are measured."""

    words: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Files of pairs with how alike people find them (word, word and number), or of analogies (four words a line,
    sections begin with a colon). What is missing from the vocabulary is told."""
    most_frequent: int | None = None
    "Analogies: so many words may be answers; 0 for all. [default: 30000]"
    method: AnalogyMethod | None = None
    "Analogies: add (b - a + c), or multiply cosines. [default: add]"

    def alone(self, given: dict[str, Any], reading: ReadingOptions) -> None:
        """Refuses what concerns texts: it means nothing to files of words."""
        for name, value in given.items():
            if value:
                hint = "measure with words and with texts one after the other"
                raise InputError(f"{name} and --words do not go together", hint=hint)
        if replace(reading, encoding=ReadingOptions.encoding) != ReadingOptions():
            hint = "leave the others out"
            raise InputError("files of words are read as they are: only --encoding matters", hint=hint)

    def none(self, texts: list[str] | None) -> list[str]:
        """The texts to measure with, where there are no files of words."""
        for flag, value in (("--most-frequent", self.most_frequent), ("--method", self.method)):
            if value is not None:
                raise InputError(f"{flag} is about analogies", hint="name them: --words FILE")
        if texts is None:
            hint = "forebear measure RUN TEXT…, or RUN --words FILE…"
            raise InputError("there is nothing to measure with", hint=hint)
        return texts


NO_WORD_OPTIONS = WordEvalOptions()


def measure_words_command(run: Path, options: WordEvalOptions, encoding: str, speaking: Output) -> None:
    """Measures a run's vectors by files of words and tells what was found."""
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval

    using = open_run(run, "similarity", speaking)
    how: dict[str, Any] = {"most_frequent": options.most_frequent, "method": options.method or "add"}
    found = using.measure_words(options.words or [], encoding=encoding, **how)
    pairs = [one for one in found if isinstance(one, SimilarityEval)]
    solved = [one for one in found if isinstance(one, AnalogyEval)]
    for flag, value in (("--most-frequent", options.most_frequent), ("--method", options.method)):
        if value is not None and not solved:
            raise InputError(f"{flag} is about analogies, and these files have pairs", hint="leave it out")
    facts = {"run": using.name, "files": [one.to_dict() for one in found]}
    speaking.emit(
        facts, lambda console: (_draw_pairs(console, pairs), [_measured_words_draw(console, one) for one in solved])
    )


def _draw_pairs(console: Console, found: Sequence[SimilarityEval]) -> None:
    from forebear.embeddings.evaluation import MISSING_PAIRS_NOTE

    if not found:
        return
    made = make_table("file of pairs", ">covered", ">Spearman", ">Pearson", ">Spearman, all", ">Pearson, all")
    for one in found:
        figures = (one.spearman, one.pearson, one.spearman_all, one.pearson_all)
        cells = ("none" if value is None else f"{value:.4f}" for value in figures)
        made.add_row(printable_cell(Path(one.file).name), f"{one.covered:,} of {one.pairs:,}", *cells)
    console.print(made)
    console.print(MISSING_PAIRS_NOTE, style="dim", soft_wrap=True)
    for one in found:
        if one.headings:
            told = f"{Path(one.file).name}: its first line is taken for headings: {one.headings[:80]!r}"
            console.print(told, style="yellow", markup=False, soft_wrap=True)
        if one.undefined:
            told = f"{Path(one.file).name}: none: {one.undefined}"
            console.print(told, style="yellow", markup=False, soft_wrap=True)
        _draw_missing(console, one.file, one.missing, one.note)
        if one.composed:
            own = "1 word has a vector" if one.composed == 1 else f"{one.composed:,} words have vectors"
            told = f"{Path(one.file).name}: {own} composed of parts, for want of one in the vocabulary"
            console.print(told, style="dim", markup=False, soft_wrap=True)


def _measured_words_draw(console: Console, found: AnalogyEval) -> None:
    from forebear.embeddings.evaluation import MISSING_ANALOGIES_NOTE

    made = make_table(
        "analogies", ">right", ">covered", ">accuracy", ">accuracy, all", title=printable_cell(Path(found.file).name)
    )
    for section, right in found.sections:
        made.add_row(printable_cell(section.name or "(no name)"), *_cells(right))
    for kind, right in found.by_kind.items() if len(found.by_kind) > 1 else ():
        made.add_row(kind, *_cells(right), style="bold")
    made.add_row("in all", *_cells(found.overall), style="bold")
    console.print(made)
    way = "b - a + c" if found.method == "add" else "products of cosines"
    console.print(
        f"answered with the {found.words:,} most frequent words, by {way}; {MISSING_ANALOGIES_NOTE}",
        style="dim",
        soft_wrap=True,
    )
    _draw_missing(console, found.file, found.missing, found.note)


def _cells(right: AnalogyAccuracy) -> tuple[str, ...]:
    accuracy = "none" if right.accuracy is None else f"{right.accuracy:.2%}"
    return f"{right.num_correct:,}", f"{right.num_covered:,} of {right.total:,}", accuracy, f"{right.accuracy_all:.2%}"


def _draw_missing(console: Console, file: str, missing: Sequence[str], why: str, most: int = 8) -> None:
    if missing:
        more = ", …" * (len(missing) > most)
        count = "1 word is" if len(missing) == 1 else f"{len(missing):,} words are"
        told = f"{Path(file).name}: {count} missing: {', '.join(missing[:most])}{more}"
        console.print(told, style="dim", markup=False, soft_wrap=True)
    if why:
        console.print(f"{Path(file).name}: {why}", style="yellow", markup=False, soft_wrap=True)


ROWS = (  # name among the facts, in words, digits
    ("bits_per_byte", "bits per byte", 4),
    ("perplexity", "perplexity, by its own tokens", 2),
    ("perplexity_known", "perplexity without unknown tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("tokens", "tokens predicted, ends included", 0),
    ("bytes", "bytes of text", 0),
    ("documents", "documents", 0),
    ("units", "{}s scored, each by itself", 0),
    ("ngram_length", "tokens of the n-gram used, in the mean", 2),
    ("seconds", "seconds", 2),
)
OF_HIDDEN = (  # of runs that find hidden tokens
    ("accuracy", "hidden tokens found", 4),
    ("guess", "found by always saying the commonest", 4),
    ("pair_accuracy", "questions about two halves answered", 4),
    ("asked", "tokens hidden", 0),
)


def measure(
    run: Path,
    texts: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    limit: str | None = None,
    workers: int | None = None,
    beside: Annotated[list[Path] | None, Parameter(name="--with", consume_multiple=True, negative="")] = None,
    tune: str | None = None,
    errors: Path | None = None,
    columns: Annotated[str, Parameter(show_default=False)] = "",
    beams: int | None = None,
    out: Path | None = None,
    on_bad_rows: Literal["fail", "skip"] = "fail",
    on_bad_tags: Literal["fail", "repair"] = "fail",
    words: WordEvalOptions = NO_WORD_OPTIONS,
    reading: ReadingOptions = ReadingOptions(),
    speaking: Output = Output(),
) -> None:
    """Measure how well a run predicts a text (bits per byte), does its task, translates, or knows words.

    Bits per byte can be compared between all runs; what a vocabulary lacks is charged its spelling. Give text that
    the run has not seen. A run that was adapted to a task is given a file written as the one it learned from; one that
    translates, two files line by line or one with both sides. Word vectors are measured with --words.

    With other runs of the same tokenizer, what they say of every token is averaged: --tune finds their weights.

    ```
    forebear measure runs/gpt2 held-out.txt
    forebear measure runs/ngram 'news/**/*.txt' --documents files --limit 1M --json
    forebear measure runs/nnlm test.txt --with runs/ngram --tune valid.txt
    forebear measure runs/reviews test.tsv --errors mistakes.tsv
    forebear measure runs/de-en test.de test.en
    forebear measure runs/word2vec --words wordsim353.tsv questions-words.txt
    ```

    Parameters
    ----------
    run
        The run's folder.
    texts
        Text files (also .gz, .zst), folders, quoted globs, - for standard input; or a corpus of the run's tokenizer;
        for a run with a task, one file of labelled examples.
    limit
        Bytes of text to measure: 200k, 1M; of what translates, pairs. [default: all]
    workers
        Processes to use for preparing the text. [default: one, and soon as many as there are cores]
    beside
        Other runs to predict the text together with: the mean of their probabilities is measured too.
    tune
        Text, seen by none of them, on which the runs' weights in that mean are found. [default: all weigh the same]
    errors
        Tasks: write every mistake to this file, with its line, those the run was surest of first.
    columns
        Translating: the two sides in one file, by name or field (de,en) or by number (1,2).
    beams
        Translating: versions that are pursued at once. [default: 4]
    out
        Translating: write the translations to this file, a line each.
    on_bad_rows
        Tasks: rows that are no examples.
    on_bad_tags
        Tagging: tags that break their scheme.
    """
    from forebear.settings.units import parse_count

    require_output_folder(errors)
    require_output_folder(out)
    if words.words is not None:
        given = {"texts": texts, "--limit": limit, "--workers": workers, "--errors": errors, "--columns": columns}
        given |= {"--on-bad-rows": on_bad_rows != "fail", "--on-bad-tags": on_bad_tags != "fail"}
        words.alone(given | {"--beams": beams, "--out": out, "--with": beside, "--tune": tune}, reading)
        measure_words_command(run, words, reading.encoding, speaking)
        return
    texts = words.none(texts)
    for file in (errors, out):
        refuse_overwriting_input(file, texts)
    using = open_run(run, "measure", speaking)
    _mixable(using, beside, tune)
    if using.task is not None:
        measure_task_command(using, texts, errors, speaking, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)
        return
    _heeded("translation" in using.heads, {"--columns": columns, "--beams": beams, "--out": out}, using)
    most = None if limit is None else parse_count(limit, "limit")
    if "translation" in using.heads:
        from forebear.data.corpus.parallel import ParallelFormat

        pairs = ParallelFormat(columns, reading.encoding, reading.on_bad_bytes)
        measure_translation_command(
            using, texts, pairs, speaking, beams=4 if beams is None else beams, limit=most, out=out
        )
        return
    if errors is not None:
        raise InputError("--errors lists mistakes at a task, and this run has none", hint="leave it out")
    if beside:
        how: dict[str, Any] = {"limit": most, "workers": workers, "reading": reading.reading()}
        measure_interpolation_command(using, beside, texts, speaking, tune=tune, **how)
        return
    _told_of_texts(using, texts, speaking, limit, workers, reading)


def _told_of_texts(
    using: Run, texts: list[str], speaking: Output, limit: str | None, workers: int | None, reading: ReadingOptions
) -> None:
    with speaking.progress("preparing") as prepared, speaking.progress("measuring") as progress:
        measured = using.measure(
            texts, limit=limit, reading=reading.reading(), workers=workers, preparing=prepared, progress=progress
        )
    facts = {"run": using.name, **measured.to_dict()}
    draw = drawn_company if "told_apart" in facts else drawn
    speaking.emit(facts, lambda console: draw(console, facts))


def _mixable(using: Run, beside: list[Path] | None, tune: str | None) -> None:
    """Refuses to mix what predicts no token with others, and to weigh one alone."""
    if tune is not None and not beside:
        raise InputError("--tune weighs several runs, and this is one", hint="name others with --with RUN")
    if beside and (using.task is not None or "next" not in using.heads):
        what, hint = "does not predict the next token, and cannot be mixed", "leave out --with"
        raise InputError(what, file=using.folder.path, hint=hint)


def _heeded(translates: bool, given: dict[str, Any], using: Run) -> None:
    """What concerns translations means nothing to other runs."""
    for flag, value in given.items():
        if value and not translates:
            raise InputError(f"{flag} is for runs that translate", file=using.folder.path, hint="leave it out")


def training_overlap_note(facts: dict[str, Any], who: str) -> str:
    """Headings and the like may be many, and little text."""
    share = facts["learned_bytes"] / max(1, facts["bytes"])
    told = f"{facts['learned_from']:,} of these documents ({share:.1%} of the text)"
    return f"{told} are text that {who} learned from: no test of it"


def drawn_company(console: Console, facts: dict[str, Any]) -> None:
    """What word vectors know of a text, as a table."""
    made = make_table("", ">")
    share = "there are none" if facts["told_apart"] is None else f"{facts['told_apart']:.2%}"
    made.add_row("neighbours told from words that stand elsewhere (by chance 50%)", share, style="bold")
    for name, about in (("pairs", "pairs of neighbours"), ("tokens", "words of the text"), ("bytes", "bytes of text")):
        made.add_row(about, f"{facts[name]:,}")
    made.add_row("words without a vector", f"{facts['unknown_rate']:.2%}")
    console.print(made)
    if facts["learned_from"]:
        console.print(f"[yellow]{training_overlap_note(facts, 'the run')}[/]", soft_wrap=True)


def drawn(console: Console, facts: dict[str, Any]) -> None:
    """What was measured, as a table."""
    made = make_table("", ">")
    for name, about, digits in [*(OF_HIDDEN if facts["pseudo"] else ()), *ROWS]:
        if name in ("accuracy", "guess", "pair_accuracy", "ngram_length") and facts[name] is None:
            continue
        if name == "perplexity_known" and (facts["pseudo"] or not facts["unknown_tokens"]):
            continue
        value = "infinite" if facts[name] is None else f"{facts[name]:,.{digits}f}"
        made.add_row(about.format(facts["unit"]), value, style="bold" if name == "bits_per_byte" else "")
    rate = facts["unknown_rate"]
    made.add_row("unknown tokens", f"{facts['unknown_tokens']:,} ({rate:.2%})")
    console.print(made)
    if facts["pseudo"]:
        told = "each hidden token is told by both its sides: compare these bits with other runs of its kind only"
        console.print(f"[yellow]pseudo-likelihood: {told}[/]", soft_wrap=True)
    if facts["learned_from"]:
        console.print(f"[yellow]{training_overlap_note(facts, 'the run')}[/]", soft_wrap=True)
    if facts["units"] != facts["documents"] and not facts["pseudo"]:
        told = f"each {facts['unit']} is scored by itself, as the run learned them, and pays for its end"
        console.print(f"[yellow]{told}: compare its perplexity with that of other such runs only[/]", soft_wrap=True)
    if facts["forgotten"]:
        told = f"the run's tokenizer does not keep {' and '.join(facts['forgotten'])}: that is not counted"
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    if facts["impossible_tokens"]:
        told = (
            f"{facts['impossible_tokens']:,} of {facts['tokens']:,} tokens have the probability 0 for this run, so the "
            "text as a whole is impossible to it; a run with smoothing holds nothing impossible"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)


# How well a run does its task, for people: figures, per class and kind, confusion, how sure it may be, mistakes.


FIGURES = (
    "accuracy",
    "accuracy_unknown",
    "sentence_accuracy",
    "exact_match",
    "f1",
    "precision",
    "recall",
    "macro_f1",
    "micro_f1",
    "weighted_f1",
    "mcc",
)
FIGURES += ("pearson", "spearman", "rmse", "mae", "chance")
CONFUSED = 12  # labels whose confusion fits on a screen


def measure_task_command(
    run: Run, files: list[str], errors: Path | None, speaking: Output, *, on_bad_rows: str, on_bad_tags: str
) -> None:
    """Measures a run on a file of examples and tells what was found."""
    from forebear.inference.measure import evaluate_task, write_mispredictions

    if len(files) != 1:
        raise InputError(f"{len(files)} files of examples", hint="give one file at a time")
    with speaking.counter("examples") as progress:
        how: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
        found = evaluate_task(run, files[0], progress=progress, **how)
    facts = {"run": run.name, **found.to_dict()}
    if errors is not None:
        write_mispredictions(found, errors)
        facts["errors"] = str(errors)
    speaking.emit(facts, lambda console: _draw(console, found, errors))


def metrics_headline(told: dict[str, Any]) -> str:
    """The figures of a task in one line."""
    shown = [f"{name.replace('_', ' ')} {told[name]:.4f}" for name in FIGURES if isinstance(told.get(name), float)]
    return f"{', '.join(shown)} ({count_phrase(told.get('examples', 0), 'example')})"


def _draw(console: Console, found: TaskEvaluation, errors: Path | None) -> None:
    figures = found.metrics
    made = make_table("", ">")
    for name in FIGURES:
        if isinstance(figures.get(name), float):
            made.add_row(name.replace("_", " "), f"{figures[name]:.4f}", style="bold" if name == found.score else "")
    made.add_row("examples", f"{figures.get('examples', 0):,}")
    console.print(made)
    each = figures.get("per_class") or figures.get("per_kind") or {}
    if each:
        made = make_table("label", ">precision", ">recall", ">f1", ">examples")
        for label, told in each.items():
            cells = (f"{told[name]:.4f}" for name in ("precision", "recall", "f1"))
            made.add_row(printable_cell(label), *cells, f"{told['support']:,}")
        console.print(made)
    _confusion(console, figures)
    if found.calibration is not None:
        _reliability(console, found.calibration)
    if found.num_unlabeled:
        console.print(f"[yellow]rows without a label, left out: {found.num_unlabeled:,}[/]", soft_wrap=True)
    if unseen := figures.get("unseen"):
        told = printable_cell(join_faults([str(label) for label in unseen]))
        console.print(f"[yellow]labels that the run never learned: {told}[/]", soft_wrap=True)
    if (known := found.known_words) is not None and known.num_exact:
        told = (
            f"{known.num_exact:,} of these examples have a {known.description} that the run learned from: no test of it"
        )
        console.print(f"[yellow]{told}[/]", soft_wrap=True)
    for note in found.notes:
        console.print(f"[yellow]{printable_cell(note)}[/]", soft_wrap=True)
    where = f"all in {errors}" if errors is not None else "--errors FILE lists them"
    console.print(
        f"{count_phrase(len(found.mispredictions), 'example')} with mistakes ({where})", markup=False, soft_wrap=True
    )
    for mistake in found.mispredictions[:3]:
        told = mistake.to_dict()
        text = " / ".join(told["texts"])
        wanted = " | ".join(dict.fromkeys(told["wanted"].split(" | ")))  # people often found the same
        said = f"{wanted or 'nothing'} taken for {told['said'] or 'nothing'}"
        console.print(f"  {said}: {text[:100]}", markup=False, soft_wrap=True)


def _confusion(console: Console, figures: dict[str, Any]) -> None:
    rows, labels = figures.get("confusion"), list(figures.get("per_class") or ())
    if not rows or len(labels) > CONFUSED:
        return
    made = make_table("is ╲ said", *(f">{printable_cell(label)}" for label in labels), title="Confusion")
    for label, row in zip(labels, rows, strict=True):
        made.add_row(printable_cell(label), *(f"{count:,}" if count else "·" for count in row))
    console.print(made)


def _reliability(console: Console, told: dict[str, Any]) -> None:
    """Of answers given with some confidence, how many were right: as many, if probabilities are probabilities."""
    made = make_table(
        "confidence", ">examples", ">right", "", title=f"Calibration error {told['calibration_error']:.4f}"
    )
    for one in told["bins"]:
        if one["count"]:
            right = one["accuracy"]
            made.add_row(
                f"{one['from']:.1f} to {one['to']:.1f}", f"{one['count']:,}", f"{right:.3f}", text_bar(right, 20)
            )
    console.print(made)


# What `forebear measure --with` tells: several runs, each alone and their mixture.


def measure_interpolation_command(
    using: Run,
    others: Sequence[Path],
    texts: Sequence[str],
    speaking: Output,
    *,
    tune: str | None,
    limit: int | None,
    reading: TextFormat,
    workers: int | None,
) -> None:
    """Measures the runs together and prints what came of it."""
    from forebear.inference.ensemble import evaluate_interpolation

    runs = [using, *(open_run(folder, "measure", speaking) for folder in others)]
    how: dict[str, Any] = {"tune": tune, "limit": limit, "reading": reading, "workers": workers}
    with speaking.progress("preparing") as prepared, speaking.progress("measuring") as progress:
        found = evaluate_interpolation(runs, texts, preparing=prepared, progress=progress, **how)
    facts = found.to_dict()
    facts["alone"] = [{"run": run.name, **one} for run, one in zip(runs, facts["alone"], strict=True)]
    speaking.emit(facts, lambda console: _drawn(console, facts))


def _drawn(console: Console, facts: dict[str, Any]) -> None:
    from rich.markup import escape

    made = make_table("run", ">weight", ">bits per byte", ">perplexity", ">nats per token")
    for one in facts["alone"]:
        made.add_row(escape(one["run"]), f"{one['weight']:.4f}", *_figures(one))
    together = facts["mixture"]
    made.add_row("together", f"{1:.4f}", *_figures(together), style="bold")
    console.print(made)
    tokens = f"{together['tokens']:,} tokens of {together['bytes']:,} bytes in {together['documents']:,} documents"
    weights = "found by text for tuning" if facts["tuned_tokens"] else "equal: --tune FILE finds better ones"
    console.print(f"[dim]{tokens}; weights {weights}[/]", soft_wrap=True)
    if together["learned_from"]:
        console.print(f"[yellow]{training_overlap_note(together, 'a run')}[/]", soft_wrap=True)


def _figures(one: dict[str, Any]) -> list[str]:
    told = (("bits_per_byte", 4), ("perplexity", 2), ("nats_per_token", 4))
    return ["infinite" if one[name] is None else f"{one[name]:,.{digits}f}" for name, digits in told]


# What `forebear measure` tells of a run that translates: BLEU, chrF, perplexity, and a few examples.


TRANSLATED_ROWS = (  # name among the facts, in words, digits
    ("bleu", "BLEU", 2),
    ("chrf", "chrF", 2),
    ("perplexity", "perplexity of the references, by its own tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("pairs", "pairs", 0),
    ("beams", "beams", 0),
    ("seconds", "seconds", 2),
)


def measure_translation_command(
    using: Run,
    texts: Sequence[str],
    reading: ParallelFormat,
    speaking: Output,
    *,
    beams: int,
    limit: int | None,
    out: Path | None,
) -> None:
    """Translates the sources of these pairs and compares with what stands beside them."""
    from itertools import islice

    from forebear.data.io.atomic import atomic_write, explain_disk_errors
    from forebear.data.io.ledger import Ledger
    from forebear.inference.translate import evaluate_translations

    ledger = Ledger()
    pairs = list(islice(reading.read_pairs(list(texts), ledger), limit))
    with speaking.progress("translating") as progress:
        sources, references = [one for _, one, _ in pairs], [two for _, _, two in pairs]
        measured = evaluate_translations(using, sources, references, beams=beams, progress=progress)
    if out is not None:
        with explain_disk_errors(out), atomic_write(out) as file:
            file.writelines(one.text.encode() + b"\n" for one in measured.translations)
    dropped = {reason: listed.count for reason, listed in ledger.drops.items()}
    facts = {"run": using.name, **measured.to_dict(), "dropped": dropped}
    speaking.emit(facts, lambda console: _translated_drawn(console, facts))


def _translated_drawn(console: Console, facts: dict[str, Any]) -> None:
    made = make_table("", ">")
    for name, about, digits in TRANSLATED_ROWS:
        made.add_row(about, f"{facts[name]:,.{digits}f}", style="bold" if name == "bleu" else "")
    console.print(made)
    for (_, words, _), signature in zip(TRANSLATED_ROWS, facts["signatures"].values(), strict=False):
        console.print(f"{words}: {signature}", style="dim", markup=False, soft_wrap=True)
    for example in facts["examples"]:
        console.print(f"\n{example['source']}", markup=False, soft_wrap=True)
        console.print(f"  {example['translation']}", markup=False, soft_wrap=True, style="bold")
        console.print(f"  {example['reference']}", markup=False, soft_wrap=True, style="dim")
    for reason, count in facts["dropped"].items():
        console.print(f"[yellow]{count:,} pairs were left out: {reason}[/]")
