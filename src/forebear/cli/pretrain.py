"""`forebear pretrain`: train a model on text."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.options import (
    ProcessOptions,
    ReadingOptions,
    ReplaceRun,
    ResumedRun,
    SentenceOptions,
    TaggedTextOptions,
    TrainedVocabSize,
    command_line,
    given_options,
)
from forebear.cli.output import Console, Output, count_phrase, format_clock, number_cell, training_progress
from forebear.errors import InputError

if TYPE_CHECKING:
    from forebear.training.run_folder import RunFolder


@Parameter(name="*")
@dataclass(frozen=True)
class TrainingOptions:
    """How long and how fast to learn; what is left out is chosen for the milestone and its size."""

    time: str | None = None
    """How long: 30s, 5m, 2h. [default: 5m, unless --steps, --tokens or --epochs is given; n-grams and word vectors: the
    epochs that forebear explain tells]"""
    steps: str | None = None
    "How many steps, instead of --time."
    tokens: str | None = None
    "How many tokens to learn from (200k, 1.5M; of GloVe: entries of its table), instead of --time."
    epochs: float | None = None
    "How many times to show the whole text, instead of --time."
    batch: str | None = None
    "Tokens in a step; of GloVe: entries of its table."
    accumulate: int | None = None
    "Parts a step is computed in, where memory is too small; without dropout the result is the same."
    rate: float | None = None
    "The highest learning rate."
    warmup: int | None = None
    "Steps in which the rate rises."
    schedule: str | None = None
    "line: the rate stays, then falls to nothing; root: it falls as 1/√step after the warmup, as in the Transformer."
    cooldown: float | None = None
    "The last share of the run, in which the rate falls to nothing."
    decay: float | None = None
    "Weight decay of matrices."
    memory: float | None = None
    "Adam's memory of squared gradients (β₂)."
    clip: float | None = None
    "The longest gradient."
    held_out: float | None = None
    "The share of the text that examines instead of teaching."
    evaluate_every: int | None = None
    "Steps between looks at the held-out text. [default: ever more seldom]"
    patience: int | None = None
    "Stop after so many looks without improvement. [default: never]"
    save_every: str | None = None
    "Time between checkpoints."
    keep: int | None = None
    "How many of the newest checkpoints to keep, beside the best."
    seed: int | None = None
    "Where all chance comes from."
    device: str | None = None
    "cpu, cuda or mps. [default: the fastest there is]"
    threads: int | None = None
    "Threads of the processor. [default: the cores; given --time, what a short trial finds fastest]"
    max_memory: str | None = None
    "N-grams: bytes that counting may take (500M, 4G); what is beyond goes to the disk. [default: 2G]"
    deterministic: Annotated[bool | None, Parameter(negative="")] = None
    "Word vectors: end in the same bits whatever the number of threads, at a price in speed. [default: no]"
    precision: str | None = None
    "float32 or bfloat16. [default: bfloat16 where the device has it]"


@Parameter(name="*")
@dataclass(frozen=True)
class ParallelOptions:
    """Texts and their translations, for transformer."""

    pairs: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    """Instead of texts: two files whose lines are translations of each other, from the first to the second; or one
    .tsv, .csv or .jsonl with both sides."""
    columns: Annotated[str, Parameter(show_default=False)] = ""
    "The two sides in such a file: by name or field (de,en), or by number (1,2). [default: the first two]"
    target_tokenizer: str | None = None
    "Another tokenizer for the second side. [default: one for both, unless one of them is Chinese]"
    target_vocabulary: int | None = None
    "Entries of the second side's own vocabulary."


MAX_WRITTEN_PERPLEXITY = 1e12  # larger values are written in exponent notation


def pretrain(
    milestone: str | None = None,
    /,
    *texts: str,
    to: Path | None = None,
    size: str | None = None,
    tokenizer: str | None = None,
    vocabulary: TrainedVocabSize = None,
    recipe: Path | None = None,
    resume: ResumedRun = None,
    from_run: Annotated[Path | None, Parameter(name="--from")] = None,
    add_words: Path | None = None,
    overwrite: ReplaceRun = False,
    sentences: SentenceOptions = SentenceOptions(),
    workers: int | None = None,
    processes: ProcessOptions = ProcessOptions(),
    parallel: ParallelOptions = ParallelOptions(),
    training: TrainingOptions = TrainingOptions(),
    reading: ReadingOptions = ReadingOptions(),
    tags: TaggedTextOptions = TaggedTextOptions(),
    output: Output = Output(),
    **fields: str,
) -> None:
    """Train a milestone on your text; Ctrl-C saves, and the same command (or --resume) goes on.

    Fields of the milestone are options too (--width, --depth, --order, …): forebear explain MILESTONE lists them.

    ```
    forebear pretrain gpt2 book.txt --time 5m --to runs/book
    forebear pretrain ngram book.txt --order 5
    forebear pretrain crf peoples-daily-tagged.txt --to runs/speech
    forebear pretrain gpt2 红楼梦.txt --tokenizer characters --width 192 --depth 6 --steps 2000
    forebear pretrain gpt2 book.txt --recipe recipes/17-gpt2.toml --rate 5e-4
    forebear pretrain bert news.txt --from runs/published-bert --add-words terms.txt
    forebear pretrain transformer --pairs train.de train.en --to runs/de-en
    forebear pretrain transformer --pairs cmn.tsv --columns 1,2 --to runs/en-zh
    forebear pretrain --resume runs/book --processes 2
    ```

    Parameters
    ----------
    milestone
        One of forebear lineage.
    texts
        Text files (also .gz, .zst), folders, quoted globs, - for standard input; or a corpus of forebear prepare.
    to
        The run folder. [default: runs/MILESTONE]
    size
        A size by name; forebear explain MILESTONE lists them.
    tokenizer
        words, characters, wordpiece or bytepair, learned from this text; or a tokenizer.json or vocab.txt. For text
        whose words spaces part already: `forebear tokenizer train --kind words --split spaces`, and its file here.
    recipe
        A TOML file with settings; options given here win.
    from_run
        Begin with the weights, the fields and the tokenizer of this run, trained here or imported.
    add_words
        Words to add to the vocabulary of --from, a line each; their vectors begin as the mean of their pieces'.
    workers
        Processes that prepare the text. [default: one, and soon as many as there are cores]
    fields
        A field of the milestone by its name, such as --width 64 or --order 3.
    """
    from forebear.experiments.plan import RECIPE_FILE_KEYS, has_field, plan_pretraining
    from forebear.experiments.pretrain_tagger import is_tagged_training, plan_tagging, resume_any
    from forebear.experiments.training_run import run_adaptation, run_pretraining
    from forebear.experiments.warm_start import resolve_initial_run
    from forebear.training.process_group import launch_processes
    from forebear.training.settings import read_recipe

    settings, pairs = given_options(training, tags, **fields), parallel.pairs
    if pairs is not None and has_field(milestone, "pairs"):  # a setting of BERT
        settings["pairs"], pairs = " ".join(pairs), None
    recipe_settings = read_recipe(recipe, RECIPE_FILE_KEYS) if recipe else None
    source = reading.source(sentences, pairs=pairs is not None, columns=parallel.columns)
    plan_options: dict[str, Any] = {"size": size, "source": source, "recipe": recipe_settings, "settings": settings}
    with launch_processes(processes.processes, shard=processes.shard) as group, training_progress(output) as callback:
        if group is None:
            return
        if resume is not None:
            arguments = [*filter(None, [milestone]), *texts, *(pairs or ())]
            if conflicting := arguments + [f"--{name.replace('_', '-')}" for name in settings]:
                message = f"--resume takes everything from the run's folder, but {conflicting[0]} is given too"
                raise InputError(message, hint="leave out the rest, or train a new run with these settings")
            run = resume_any(resume, callback=callback, group=group)
        elif milestone is None or not (texts or pairs):
            raise InputError("what to train on what?", hint="forebear pretrain MILESTONE TEXT…, or --resume RUN")
        elif is_tagged_training(milestone, texts, source.reading):
            unused = {"tokenizer": tokenizer, "vocabulary": vocabulary, "from": from_run, "add-words": add_words}
            plan, notes = plan_tagging(milestone, texts, **plan_options, unused=unused)
            for note in notes:
                callback.on_note(note)
            options: dict[str, Any] = {"overwrite": overwrite, "group": group, "command": command_line()}
            run = run_adaptation(plan, to=to, **options, callback=callback)
        else:
            if texts and pairs:
                raise InputError(f"{texts[0]} beside --pairs", hint="give plain text, or pairs")
            plan_options |= {"tokenizer": tokenizer, "vocabulary": vocabulary}
            plan_options |= {
                "target_tokenizer": parallel.target_tokenizer,
                "init_from": resolve_initial_run(from_run, add_words),
            }
            plan_options["target_vocabulary"] = parallel.target_vocabulary
            plan = plan_pretraining(milestone, texts or tuple(pairs or ()), **plan_options)
            options = {"overwrite": overwrite, "workers": workers, "group": group, "command": command_line()}
            learning = output.progress("learning the tokenizer")
            with learning as learning_progress, output.progress("preparing") as progress:
                options |= {"callback": callback, "learning_progress": learning_progress, "progress": progress}
                run = run_pretraining(plan, to=to, **options)
    output.emit({"folder": str(run.path), **run.metadata}, lambda console: _print_run(console, run))


def _print_run(console: Console, run: RunFolder) -> None:
    from forebear.cli.adapt import print_adaptation
    from forebear.experiments.explain_model import model_capabilities

    if run.task is not None:  # trained on tagged words
        print_adaptation(console, run)
        return
    metadata = run.metadata
    steps = f"{count_phrase(metadata['step'], 'step')} in {format_clock(metadata['seconds'])}"
    size = f"{metadata['parameters']:,} parameters, {steps}"
    best_step = metadata.get("best_step", metadata["step"])
    best_note = f"; the best weights, of step {best_step:,}, are kept" if best_step != metadata["step"] else ""
    console.print(f"[bold]{metadata['milestone']}[/]: {size}{best_note}")
    if scores := _held_out_scores(metadata.get("metrics", {}).get("held_out", {})):
        console.print(f"held out: [bold]{scores}")
    console.plain(f"run: {run.path}")
    capabilities, _ = model_capabilities(metadata["milestone"])
    verbs = ("generate", "fill", "translate", "neighbours")
    first_command = next((verb for verb in verbs if verb in capabilities), "runs")
    command_words = [word for word in (first_command, str(run.path), metadata.get("example")) if word]
    console.plain(f"what now: forebear {shlex.join(command_words)}  ({', '.join(capabilities)})")


def _held_out_scores(held_out: dict[str, Any]) -> str:
    """Metrics on held-out text with markup, the main metric first; empty if it was not measured."""
    value = held_out.get("perplexity")
    perplexity = number_cell(value, ",.2f" if (value or 0) < MAX_WRITTEN_PERPLEXITY else ".3g", missing="without end")
    if held_out.get("pseudo"):
        accuracy = f"{held_out['accuracy']:.1%} of hidden tokens found (the commonest: {held_out['guess']:.1%})"
        pairs = held_out["pair_accuracy"]
        pair_accuracy = "" if pairs is None else f", {pairs:.1%} of questions about two halves answered"
        return f"{accuracy}[/]{pair_accuracy}, pseudo-perplexity {perplexity}"
    if "bleu" in held_out:
        chrf = f"chrF {held_out['chrf']:.1f} on {held_out['pairs']:,} pairs"
        return f"BLEU {held_out['bleu']:.1f}[/], {chrf}, perplexity {perplexity}"
    if held_out.get("told_apart") is not None:
        score = f"{held_out['told_apart']:.1%} of neighbours told from words that stand elsewhere[/] (by chance 50%)"
        return score + (f", loss {held_out['loss']:.4f}" if held_out["loss"] else "")
    if held_out.get("bits_per_byte") is not None:
        per_token = f"perplexity {perplexity}, {held_out['nats_per_token']:.4f} nats a token"
        return f"{held_out['bits_per_byte']:.4f} bits per byte[/], {per_token}"
    return ""
