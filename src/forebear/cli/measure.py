"""`forebear measure`: evaluate a run on text, a task, translations or word files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from forebear.cli.batch_io import RunArgument, TextArguments, check_output_file, open_run
from forebear.cli.options import ReadingOptions
from forebear.cli.output import Console, Output, Table, count_phrase, number_cell, printable_cell, text_bar, write_file
from forebear.embeddings.lexicon import AnalogyMethod
from forebear.errors import InputError, join_errors

if TYPE_CHECKING:
    from forebear.data.corpus.parallel import ParallelFormat
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval
    from forebear.inference.measure import TaskEvaluation
    from forebear.inference.run import Run


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

    def reject_analogy_options(self, reason: str, hint: str) -> None:
        """Raise InputError for analogy options, which have no effect without analogies."""
        for flag, value in (("--most-frequent", self.most_frequent), ("--method", self.method)):
            if value is not None:
                raise InputError(f"{flag} is about analogies{reason}", hint=hint)


def measure_words_command(run: Path, options: WordEvalOptions, encoding: str, output: Output) -> None:
    """Evaluate word vectors on word files and print the result."""
    from forebear.embeddings.evaluation import AnalogyEval, SimilarityEval

    loaded_run = open_run(run, "similarity", output)
    eval_options: dict[str, Any] = {"most_frequent": options.most_frequent, "method": options.method or "add"}
    evaluations = loaded_run.measure_words(options.words or [], encoding=encoding, **eval_options)
    pairs = [evaluation for evaluation in evaluations if isinstance(evaluation, SimilarityEval)]
    analogies = [evaluation for evaluation in evaluations if isinstance(evaluation, AnalogyEval)]
    if not analogies:
        options.reject_analogy_options(", and these files have pairs", "leave it out")

    def draw(console: Console) -> None:
        if pairs:
            _print_pairs(console, pairs)
        for evaluation in analogies:
            _print_analogies(console, evaluation)

    output.emit({"run": loaded_run.name, "files": [evaluation.to_dict() for evaluation in evaluations]}, draw)


def _print_pairs(console: Console, evaluations: Sequence[SimilarityEval]) -> None:
    from forebear.embeddings.evaluation import MISSING_PAIRS_NOTE

    table = Table("file of pairs", ">covered", ">Spearman", ">Pearson", ">Spearman, all", ">Pearson, all")
    for evaluation in evaluations:
        correlations = (evaluation.spearman, evaluation.pearson, evaluation.spearman_all, evaluation.pearson_all)
        cells = (number_cell(value, ".4f", "none") for value in correlations)
        table.add_row(Path(evaluation.file).name, f"{evaluation.covered:,} of {evaluation.pairs:,}", *cells)
    console.print(table)
    console.dim(MISSING_PAIRS_NOTE)
    for evaluation in evaluations:
        name = Path(evaluation.file).name
        if evaluation.headings:
            console.plain(f"{name}: its first line is taken for headings: {evaluation.headings[:80]!r}", style="yellow")
        if evaluation.undefined:
            console.plain(f"{name}: none: {evaluation.undefined}", style="yellow")
        _print_missing(console, evaluation)
        if evaluation.composed:
            subject = count_phrase(evaluation.composed, "word has a vector", "words have vectors")
            console.plain(f"{name}: {subject} composed of parts, for want of one in the vocabulary", style="dim")


def _print_analogies(console: Console, evaluation: AnalogyEval) -> None:
    from forebear.embeddings.evaluation import MISSING_ANALOGIES_NOTE

    columns = ("analogies", ">right", ">covered", ">accuracy", ">accuracy, all")
    table = Table(*columns, title=printable_cell(Path(evaluation.file).name))
    results = [(section.name or "(no name)", accuracy, "") for section, accuracy in evaluation.sections]
    if len(evaluation.by_kind) > 1:
        results += [(kind, accuracy, "bold") for kind, accuracy in evaluation.by_kind.items()]
    for name, result, style in (*results, ("in all", evaluation.overall, "bold")):
        counts = (f"{result.num_correct:,}", f"{result.num_covered:,} of {result.total:,}")
        accuracies = (number_cell(result.accuracy, ".2%", "none"), f"{result.accuracy_all:.2%}")
        table.add_row(name, *counts, *accuracies, style=style)
    console.print(table)
    formula = "b - a + c" if evaluation.method == "add" else "products of cosines"
    console.dim(f"answered with the {evaluation.words:,} most frequent words, by {formula}; {MISSING_ANALOGIES_NOTE}")
    _print_missing(console, evaluation)


def _print_missing(console: Console, evaluation: AnalogyEval | SimilarityEval, limit: int = 8) -> None:
    name, missing = Path(evaluation.file).name, evaluation.missing
    if missing:
        ellipsis = ", …" * (len(missing) > limit)
        subject = count_phrase(len(missing), "word is", "words are")
        console.plain(f"{name}: {subject} missing: {', '.join(missing[:limit])}{ellipsis}", style="dim")
    if evaluation.note:
        console.plain(f"{name}: {evaluation.note}", style="yellow")


TEXT_METRICS = (  # name in the result, label, digits
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
MASKED_LM_METRICS = (
    ("accuracy", "hidden tokens found", 4),
    ("guess", "found by always saying the commonest", 4),
    ("pair_accuracy", "questions about two halves answered", 4),
    ("asked", "tokens hidden", 0),
)
TASK_METRICS = ("accuracy", "accuracy_unknown", "sentence_accuracy", "exact_match", "f1", "precision", "recall")
TASK_METRICS += ("macro_f1", "micro_f1", "weighted_f1", "mcc", "pearson", "spearman", "rmse", "mae", "chance")
MAX_CONFUSION_LABELS = 12  # labels whose confusion matrix fits on a screen
TRANSLATION_METRICS = (
    ("bleu", "BLEU", 2),
    ("chrf", "chrF", 2),
    ("perplexity", "perplexity of the references, by its own tokens", 2),
    ("nats_per_token", "nats per token", 4),
    ("pairs", "pairs", 0),
    ("beams", "beams", 0),
    ("seconds", "seconds", 2),
)


def measure(
    run: RunArgument,
    texts: TextArguments = None,
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
    words: WordEvalOptions = WordEvalOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: Output = Output(),
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

    for file in (errors, out):
        check_output_file(file, texts or ())
    translation_options: dict[str, Any] = {"--columns": columns, "--beams": beams, "--out": out}
    if words.words is not None:
        options = {"texts": texts, "--limit": limit, "--workers": workers, "--errors": errors, "--columns": columns}
        options |= {"--on-bad-rows": on_bad_rows != "fail", "--on-bad-tags": on_bad_tags != "fail"}
        options |= translation_options | {"--with": beside, "--tune": tune}
        if conflicts := [name for name, value in options.items() if value]:
            hint = "measure with words and with texts one after the other"
            raise InputError(f"{conflicts[0]} and --words do not go together", hint=hint)
        if replace(reading, encoding=ReadingOptions.encoding) != ReadingOptions():
            message = "files of words are read as they are: only --encoding matters"
            raise InputError(message, hint="leave the others out")
        measure_words_command(run, words, reading.encoding, output)
        return
    words.reject_analogy_options("", "name them: --words FILE")
    if texts is None:
        hint = "forebear measure RUN TEXT…, or RUN --words FILE…"
        raise InputError("there is nothing to measure with", hint=hint)
    loaded_run = open_run(run, "measure", output)
    if tune is not None and not beside:
        raise InputError("--tune weighs several runs, and this is one", hint="name others with --with RUN")
    if beside and (loaded_run.task is not None or "next" not in loaded_run.heads):
        message, hint = "does not predict the next token, and cannot be mixed", "leave out --with"
        raise InputError(message, file=loaded_run.folder.path, hint=hint)
    if loaded_run.task is not None:
        measure_task_command(loaded_run, texts, errors, output, on_bad_rows=on_bad_rows, on_bad_tags=on_bad_tags)
        return
    max_items = None if limit is None else parse_count(limit, "limit")
    if "translation" in loaded_run.heads:
        from forebear.data.corpus.parallel import ParallelFormat

        parallel_format = ParallelFormat(columns, reading.encoding, reading.on_bad_bytes)
        beams = 4 if beams is None else beams
        measure_translation_command(loaded_run, texts, parallel_format, output, beams=beams, limit=max_items, out=out)
        return
    if flags := [flag for flag, value in translation_options.items() if value]:
        message, file = f"{flags[0]} is for runs that translate", loaded_run.folder.path
        raise InputError(message, file=file, hint="leave it out")
    if errors is not None:
        raise InputError("--errors lists mistakes at a task, and this run has none", hint="leave it out")
    runs = [loaded_run, *(open_run(folder, "measure", output) for folder in beside or ())]
    with output.progress("preparing") as prepare_progress, output.progress("measuring") as progress:
        options = {"workers": workers, "reading": reading.text_format()}
        options |= {"preparing": prepare_progress, "progress": progress}
        if beside:
            from forebear.inference.interpolation import evaluate_interpolation

            result = evaluate_interpolation(runs, texts, tune=tune, limit=max_items, **options).to_dict()
            individual_metrics = zip(runs, result["alone"], strict=True)
            result["alone"] = [{"run": run.name, **metrics} for run, metrics in individual_metrics]
            draw = _print_interpolation
        else:
            result = {"run": loaded_run.name, **loaded_run.measure(texts, limit=limit, **options).to_dict()}
            draw = _print_neighbor_eval if "told_apart" in result else _print_text_eval
    output.emit(result, lambda console: draw(console, result))


def training_overlap_note(metrics: dict[str, Any], subject: str) -> str:
    """A note on text that was training data, in documents and as a fraction of bytes."""
    fraction = metrics["learned_bytes"] / max(1, metrics["bytes"])
    documents = f"{metrics['learned_from']:,} of these documents ({fraction:.1%} of the text)"
    return f"{documents} are text that {subject} learned from: no test of it"


def _print_neighbor_eval(console: Console, metrics: dict[str, Any]) -> None:
    table = Table("", ">")
    accuracy = number_cell(metrics["told_apart"], ".2%", "there are none")
    table.add_row("neighbours told from words that stand elsewhere (by chance 50%)", accuracy, style="bold")
    descriptions = {"pairs": "pairs of neighbours", "tokens": "words of the text", "bytes": "bytes of text"}
    for name, description in descriptions.items():
        table.add_row(description, f"{metrics[name]:,}")
    table.add_row("words without a vector", f"{metrics['unknown_rate']:.2%}")
    console.print(table)
    if metrics["learned_from"]:
        console.warn(training_overlap_note(metrics, "the run"))


def _print_text_eval(console: Console, metrics: dict[str, Any]) -> None:
    """Print perplexity and related metrics, with notes on their limits."""
    table = Table("", ">")
    for name, label, digits in [*(MASKED_LM_METRICS if metrics["pseudo"] else ()), *TEXT_METRICS]:
        if name in ("accuracy", "guess", "pair_accuracy", "ngram_length") and metrics[name] is None:
            continue
        if name == "perplexity_known" and (metrics["pseudo"] or not metrics["unknown_tokens"]):
            continue
        value = number_cell(metrics[name], f",.{digits}f", "infinite")
        table.add_row(label.format(metrics["unit"]), value, style="bold" if name == "bits_per_byte" else "")
    table.add_row("unknown tokens", f"{metrics['unknown_tokens']:,} ({metrics['unknown_rate']:.2%})")
    console.print(table)
    if metrics["pseudo"]:
        note = "each hidden token is told by both its sides: compare these bits with other runs of its kind only"
        console.warn(f"pseudo-likelihood: {note}")
    if metrics["learned_from"]:
        console.warn(training_overlap_note(metrics, "the run"))
    if metrics["units"] != metrics["documents"] and not metrics["pseudo"]:
        note = f"each {metrics['unit']} is scored by itself, as the run learned them, and pays for its end"
        console.warn(f"{note}: compare its perplexity with that of other such runs only")
    if metrics["forgotten"]:
        console.warn(f"the run's tokenizer does not keep {' and '.join(metrics['forgotten'])}: that is not counted")
    if metrics["impossible_tokens"]:
        note = f"{metrics['impossible_tokens']:,} of {metrics['tokens']:,} tokens have the probability 0 for this run"
        note += ", so the text as a whole is impossible to it; a run with smoothing holds nothing impossible"
        console.warn(note)


def measure_task_command(
    run: Run, files: list[str], errors: Path | None, output: Output, *, on_bad_rows: str, on_bad_tags: str
) -> None:
    """Evaluate a run on a file of examples and print the result."""
    from forebear.inference.measure import evaluate_task, write_mispredictions

    if len(files) != 1:
        raise InputError(f"{len(files)} files of examples", hint="give one file at a time")
    with output.counter("examples") as progress:
        options: dict[str, Any] = {"on_bad_rows": on_bad_rows, "on_bad_tags": on_bad_tags}
        evaluation = evaluate_task(run, files[0], progress=progress, **options)
    result = {"run": run.name, **evaluation.to_dict()}
    if errors is not None:
        write_mispredictions(evaluation, errors)
        result["errors"] = str(errors)
    output.emit(result, lambda console: _print_task_eval(console, evaluation, errors))


def _task_scores(metrics: dict[str, Any]) -> list[tuple[str, float]]:
    return [(name, metrics[name]) for name in TASK_METRICS if isinstance(metrics.get(name), float)]


def metrics_headline(metrics: dict[str, Any]) -> str:
    """The metrics of a task in one line."""
    scores = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in _task_scores(metrics))
    return f"{scores} ({count_phrase(metrics.get('examples', 0), 'example')})"


def _print_task_eval(console: Console, evaluation: TaskEvaluation, errors: Path | None) -> None:
    metrics = evaluation.metrics
    table = Table("", ">")
    for name, value in _task_scores(metrics):
        table.add_row(name.replace("_", " "), f"{value:.4f}", style="bold" if name == evaluation.score else "")
    table.add_row("examples", f"{metrics.get('examples', 0):,}")
    console.print(table)
    if per_class := metrics.get("per_class") or metrics.get("per_kind"):
        table = Table("label", ">precision", ">recall", ">f1", ">examples")
        for label, record in per_class.items():
            cells = (f"{record[name]:.4f}" for name in ("precision", "recall", "f1"))
            table.add_row(label, *cells, f"{record['support']:,}")
        console.print(table)
    labels = list(metrics.get("per_class") or ())
    if metrics.get("confusion") and len(labels) <= MAX_CONFUSION_LABELS:
        table = Table("is ╲ said", *(f">{printable_cell(label)}" for label in labels), title="Confusion")
        for label, row in zip(labels, metrics["confusion"], strict=True):
            table.add_row(label, *(f"{count:,}" if count else "·" for count in row))
        console.print(table)
    if evaluation.calibration is not None:  # accuracy by confidence: equal for a calibrated model
        title = f"Calibration error {evaluation.calibration['calibration_error']:.4f}"
        table = Table("confidence", ">examples", ">right", "", title=title)
        for values in evaluation.calibration["bins"]:
            if values["count"]:
                interval, accuracy = f"{values['from']:.1f} to {values['to']:.1f}", values["accuracy"]
                table.add_row(interval, f"{values['count']:,}", f"{accuracy:.3f}", text_bar(accuracy, 20))
        console.print(table)
    if evaluation.num_unlabeled:
        console.warn(f"rows without a label, left out: {evaluation.num_unlabeled:,}")
    if unseen := metrics.get("unseen"):
        labels = printable_cell(join_errors([str(label) for label in unseen]))
        console.warn(f"labels that the run never learned: {labels}")
    if (leakage := evaluation.leakage) is not None and leakage.num_exact:
        overlap = f"{leakage.num_exact:,} of these examples have a {leakage.description} that the run learned from"
        console.warn(f"{overlap}: no test of it")
    for note in evaluation.notes:
        console.warn(printable_cell(note))
    location = f"all in {errors}" if errors is not None else "--errors FILE lists them"
    console.plain(f"{count_phrase(len(evaluation.mispredictions), 'example')} with mistakes ({location})")
    for misprediction in evaluation.mispredictions[:3]:
        record = misprediction.to_dict()
        text = " / ".join(record["texts"])
        gold = " | ".join(dict.fromkeys(record["wanted"].split(" | ")))  # annotators often give the same answer
        comparison = f"{gold or 'nothing'} taken for {record['said'] or 'nothing'}"
        console.plain(f"  {comparison}: {text[:100]}")


def _print_interpolation(console: Console, result: dict[str, Any]) -> None:
    mixture = result["mixture"]
    table = Table("run", ">weight", ">bits per byte", ">perplexity", ">nats per token")
    rows = [(row["run"], row["weight"], row, "") for row in result["alone"]]
    for name, weight, metrics, style in (*rows, ("together", 1.0, mixture, "bold")):
        specs = (("bits_per_byte", ",.4f"), ("perplexity", ",.2f"), ("nats_per_token", ",.4f"))
        cells = (number_cell(metrics[metric], spec, "infinite") for metric, spec in specs)
        table.add_row(name, f"{weight:.4f}", *cells, style=style)
    console.print(table)
    tokens = f"{mixture['tokens']:,} tokens of {mixture['bytes']:,} bytes in {mixture['documents']:,} documents"
    weights = "found by text for tuning" if result["tuned_tokens"] else "equal: --tune FILE finds better ones"
    console.print(f"[dim]{tokens}; weights {weights}[/]", soft_wrap=True)
    if mixture["learned_from"]:
        console.warn(training_overlap_note(mixture, "a run"))


def measure_translation_command(
    run: Run,
    texts: list[str],
    parallel_format: ParallelFormat,
    output: Output,
    *,
    beams: int,
    limit: int | None,
    out: Path | None,
) -> None:
    """Translate the sources of parallel texts and compare with the references."""
    from itertools import islice

    from forebear.data.io.text_ledger import Ledger
    from forebear.inference.translate import evaluate_translations

    ledger = Ledger()
    pairs = list(islice(parallel_format.read_pairs(texts, ledger), limit))
    with output.progress("translating") as progress:
        sources, references = [source for _, source, _ in pairs], [reference for _, _, reference in pairs]
        evaluation = evaluate_translations(run, sources, references, beams=beams, progress=progress)
    if out is not None:
        write_file(out, b"".join(translation.text.encode() + b"\n" for translation in evaluation.translations))
    dropped = {reason: entry.count for reason, entry in ledger.drops.items()}
    result = {"run": run.name, **evaluation.to_dict(), "dropped": dropped}

    def draw(console: Console) -> None:
        table = Table("", ">")
        for name, label, digits in TRANSLATION_METRICS:
            table.add_row(label, f"{result[name]:,.{digits}f}", style="bold" if name == "bleu" else "")
        console.print(table)
        for label, signature in zip(("BLEU", "chrF"), result["signatures"].values(), strict=False):
            console.plain(f"{label}: {signature}", style="dim")
        for example in result["examples"]:
            console.plain(f"\n{example['source']}")
            console.plain(f"  {example['translation']}", style="bold")
            console.plain(f"  {example['reference']}", style="dim")
        for reason, count in result["dropped"].items():
            console.print(f"[yellow]{count:,} pairs were left out: {reason}[/]")

    output.emit(result, draw)
