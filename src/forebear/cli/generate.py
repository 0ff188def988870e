"""`forebear generate` and `translate`: text generation and translation."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.batch_io import (
    STDIN_PATH,
    BatchInputOptions,
    InputLine,
    RunArgument,
    TextArguments,
    counting_progress,
    open_run,
    read_choices,
)
from forebear.cli.options import given_options
from forebear.cli.output import Console, Output, count_phrase, replace_controls, text_bar
from forebear.errors import InputError
from forebear.inference.translate import TranslationUnit

if TYPE_CHECKING:
    from forebear.inference.generated_text import GeneratedText
    from forebear.inference.run import Run
    from forebear.inference.translate import TranslatedText

MAX_SHOWN_CHOICES = 20  # choices in a table


@Parameter(name="*")
@dataclass(frozen=True)
class SamplingOptions:
    """Drawn by chance. None: not said, so that what would change nothing can be refused."""

    temperature: float | None = None
    "0 takes the likeliest token each time; 1 draws as the run believes; above, more evenly. [default: 0.8]"
    top_k: int | None = None
    "Draw from the k likeliest tokens only. [default: from all]"
    top_p: float | None = None
    "Draw from the fewest tokens only that together have this probability; 1: from all. [default: 0.95]"
    repetition_penalty: float | None = None
    "Above 1, tokens already said become less likely. [default: 1]"
    seed: int | None = None
    "Another seed, another text. [default: 0]"
    samples: int | None = None
    "Texts for each prompt, each drawn anew. [default: 1]"


@Parameter(name="*")
@dataclass(frozen=True)
class SearchOptions:
    """Searched for, or chosen: nothing is drawn."""

    beams: int | None = None
    "Keep so many continuations at each step, to find one that is likely as a whole; 1: the likeliest token each time."
    best: int | None = None
    "Tell so many of those that the beams found, the best first. [default: 1]"
    length_penalty: float | None = None
    "Beams are compared by log P / tokens^this: 0 by the sum, 1 by the mean; higher for longer texts. [default: 1]"
    choices: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    "Continue by the likeliest of these, each an argument, or the lines of one file."


def generate(
    run: RunArgument,
    prompts: TextArguments = None,
    /,
    *,
    length: Annotated[int | None, Parameter(show_default=False)] = None,
    stop: Annotated[list[str] | None, Parameter(negative="")] = None,
    sampling: SamplingOptions = SamplingOptions(),
    search: SearchOptions = SearchOptions(),
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
) -> None:
    """Continue texts with a run; a single one is written as it comes.

    The same seed gives the same text, whatever other prompts are continued with it. With --beams the continuation is
    searched for that is likeliest as a whole, with --choices the likeliest of those given is taken.

    ```
    forebear generate runs/gpt2 "Once upon a time" --length 200
    forebear generate runs/gpt2 "他说" --temperature 0 --stop 。
    forebear generate runs/gpt2 --in prompts.txt --out texts.jsonl --samples 3 --seed 7
    forebear generate runs/gpt2 "Once upon a time" --beams 4 --best 2 --length-penalty 0.8
    forebear generate runs/gpt2 "The capital of France is" --choices Paris Rome Berlin
    ```

    Parameters
    ----------
    prompts
        How the texts begin, each argument by itself; none: a text from its start; - for the lines of standard input.
    length
        The most tokens to add. [default: 100]
    stop
        End before this string; may be given several times.
    """
    from forebear.inference.generate import generate_texts, generation_method, resolve_generation_options

    search = replace(search, choices=read_choices(search.choices))
    options = given_options(sampling, search, length=length, stop=stop)
    method = generation_method(options)
    loaded_run = open_run(run, "generate", output)
    is_single_prompt = batch_input == BatchInputOptions() and len(prompts or [""]) == 1 and prompts != [STDIN_PATH]
    should_stream = is_single_prompt and not method and options.get("samples", 1) == 1
    with counting_progress(output, "tokens") as count_tokens:
        if should_stream and not (output.json or output.quiet):
            options.pop("samples", None)
            _stream(loaded_run, (prompts or [""])[0], options, count_tokens)
            return
        lines = [InputLine("")] if batch_input.input_file is None and not prompts else batch_input.valid_inputs(prompts)
        num_texts = 0

        def generate_batch(batch: list[str]) -> list[GeneratedText]:
            nonlocal num_texts
            answers = generate_texts(loaded_run.predictor, loaded_run.vocabulary_tokenizer, batch, **options)
            num_texts += len(answers)
            count_tokens(sum(len(answer.ids) for answer in answers))
            return answers

        answers: list[GeneratedText] = batch_input.run_batch(lines, generate_batch)
    result: dict[str, Any] = {"run": loaded_run.name, "settings": resolve_generation_options(options)}
    if batch_input.output_file is not None:
        batch_input.emit_written(result | {"texts": num_texts}, count_phrase(num_texts, "text"), output)
    else:
        result |= {"texts": [answer.to_dict() for answer in answers]}
        output.emit(result, lambda console: _print_generated(console, answers))


def _stream(loaded_run: Run, prompt: str, options: dict[str, Any], count_tokens: Any) -> None:
    """Print the prompt and streams its continuation; counts the generated tokens."""
    from forebear.inference.sampling import sample_texts

    loaded_run.stream(prompt, **options)  # raises errors about options before anything is written
    sys.stdout.write(replace_controls(prompt))
    after_space = prompt[-1:].isspace()

    def on_piece(_: int, piece: str) -> None:
        nonlocal after_space
        sys.stdout.write(replace_controls(piece[1:] if after_space and piece[:1] == " " else piece))
        sys.stdout.flush()
        after_space = False

    model = loaded_run.predictor, loaded_run.vocabulary_tokenizer
    (answer,) = sample_texts(*model, prompt, on_piece=on_piece, **options)
    print(flush=True)  # noqa: T201
    count_tokens(len(answer.ids))
    if not len(answer.ids):
        print("the run ends the text here: another --seed or a higher --temperature may go on", file=sys.stderr)  # noqa: T201


def _print_generated(console: Console, answers: list[GeneratedText]) -> None:
    prompt, has_samples = 0, any(answer.sample for answer in answers)
    for answer in answers:
        prompt += answer.sample == 0
        if len(answers) > 1:
            rank_label = "" if answer.score is None else f"rank {answer.sample + 1}: score {answer.score:.3f}"
            label = f", {rank_label or f'sample {answer.sample + 1}'}" if has_samples else ""
            console.rule(f"{prompt}{label}", align="left", style="dim")
        console.plain(replace_controls(answer.full_text))
        if answer.choices:
            top_choices = sorted(answer.choices, key=lambda choice: -choice[1])[:MAX_SHOWN_CHOICES]
            rows = ((name, f"{p:.2%}", text_bar(p, 20)) for name, p in top_choices)
            console.table("choice", ">P", "", rows=rows)


def translate(
    run: Path,
    texts: TextArguments = None,
    /,
    *,
    beams: int = 4,
    best: int = 1,
    length_penalty: float = 1.0,
    length: int | None = None,
    sentences: TranslationUnit = "whole",
    batch_input: BatchInputOptions = BatchInputOptions(),
    output: Output = Output(),
) -> None:
    """Translate texts with a run that learned from pairs; what comes of a text does not depend on the others.

    A file is translated line by line: --out FILE.txt has a translation a line (an empty one where the line is), .jsonl
    an object a line with all versions and their probabilities. --quiet prints translations and nothing else.

    ```
    forebear translate runs/de-en "Ein Hund läuft durch den Schnee."
    forebear translate runs/de-en "Zwei Männer spielen Schach." --beams 8 --best 3
    forebear translate runs/de-en --in letters.de --out letters.en --sentences split
    ```

    Parameters
    ----------
    run
        The run's folder: one that forebear pretrain transformer (or seq2seq) made.
    texts
        Texts, each by itself; - for the lines of standard input.
    beams
        Versions that are pursued at once; 1 takes the likeliest token each time.
    best
        Versions to tell, the best first.
    length_penalty
        1 compares versions by their mean log-probability a token, 0 by their sum; more favours longer ones.
    length
        The most tokens of a translation. [default: in proportion to the text]
    sentences
        split: each sentence of a text by itself; whole: only where the text is longer than the run's context.
    """
    loaded_run = open_run(run, "translate", output)
    options: dict[str, Any] = {"beams": beams, "best": best, "penalty": length_penalty, "length": length}
    options["sentences"] = sentences
    output_path = batch_input.output_file
    writes_text = output_path is not None and output_path.suffix not in (".jsonl", ".json")
    if writes_text and best > 1:
        raise InputError(f"--best {best} does not fit into {output_path}, a line each", hint="write to a .jsonl file")
    counts: Counter[str] = Counter()

    def translate_batch(batch: list[str]) -> list[TranslatedText]:
        num_reported = 0  # of this batch

        def on_progress(num_done: int, _: int) -> None:
            nonlocal num_reported
            count_texts(min(num_done, len(batch)) - num_reported)
            num_reported = max(num_reported, min(num_done, len(batch)))

        translations = loaded_run.translate(batch, **options, progress=on_progress)
        counts["texts"] += len(translations)
        counts["cut_off"] += sum(not translation.is_finished for translation in translations)
        counts["unknown"] += sum(translation.num_unknown > 0 for translation in translations)
        counts["split"] += sum(sentences == "whole" and translation.num_parts > 1 for translation in translations)
        count_texts(len(translations) - num_reported)
        return translations

    with counting_progress(output, "texts") as count_texts:
        write = (lambda answer: answer.text) if writes_text else (lambda answer: answer.to_dict())
        answers: list[TranslatedText] = batch_input.run_batch(batch_input.valid_inputs(texts), translate_batch, write)
    if not counts["texts"]:
        raise InputError("there is no text to translate", hint='forebear translate RUN "a text", or --in FILE')
    issues = {"unknown": "with words that the run does not know", "split": "too long for it: read in parts"}
    notes = [f"{count_phrase(counts[name], 'text')} {issue}" for name, issue in issues.items() if counts[name]]
    output.note(notes)
    result: dict[str, Any] = {"run": loaded_run.name, "settings": options, "notes": [*loaded_run.notes, *notes]}
    if output_path is not None:
        result |= {"texts": counts["texts"], "cut_off": counts["cut_off"], "out": str(output_path)}
        unfinished_note = f"; {counts['cut_off']:,} reached the greatest length" if counts["cut_off"] else ""
        size = count_phrase(counts["texts"], "text")
        output.emit_summary(result, f"{size} translated: {output_path}{unfinished_note}")
        return

    def draw(console: Console) -> None:
        for answer in answers:
            if len(answer.hypotheses) == 1:
                console.plain(answer.text)
                continue
            console.plain(answer.source, style="dim")
            for hypothesis in answer.hypotheses:
                console.plain(f"{hypothesis.score:8.3f}  {hypothesis.text}")

    output.emit(result | {"texts": [answer.to_dict() for answer in answers]}, draw)
