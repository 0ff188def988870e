"""`forebear generate`: a run continues texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, STDIN, Given, Line, ManyOptions, counting, opened
from forebear.cli.printing import Speaking

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.generating import Generated
    from forebear.using.run import Run


def generate(
    run: Path,
    prompts: Given = None,
    /,
    *,
    length: int = 100,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float = 0.95,
    repetition_penalty: float = 1.0,
    stop: Annotated[list[str] | None, Parameter(negative="")] = None,
    seed: int = 0,
    samples: int = 1,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
) -> None:
    """Continue texts with a run; a single one is written as it comes.

    The same seed gives the same text, whatever other prompts are continued with it.

    ```
    forebear generate runs/gpt2 "Once upon a time" --length 200
    forebear generate runs/gpt2 "他说" --temperature 0 --stop 。
    forebear generate runs/gpt2 --in prompts.txt --out texts.jsonl --samples 3 --seed 7
    ```

    Parameters
    ----------
    run
        The run's folder.
    prompts
        How the texts begin, each argument by itself; none: a text from its start; - for the lines of standard input.
    length
        The most tokens to add.
    temperature
        0 takes the likeliest token each time; 1 draws as the run believes; above, more evenly.
    top_k
        Draw from the k likeliest tokens only. [default: from all]
    top_p
        Draw from the fewest tokens only that together have this probability; 1: from all.
    repetition_penalty
        Above 1, tokens already said become less likely.
    stop
        End before this string; may be given several times.
    seed
        Another seed, another text.
    samples
        Texts for each prompt.
    """
    using = opened(run, "generate", speaking)
    how: dict[str, Any] = {"length": length, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    how |= {"repetition_penalty": repetition_penalty, "stop": stop or (), "seed": seed}
    streams = many == ONE and len(prompts or [""]) == 1 and samples == 1 and prompts != [STDIN]
    with counting(speaking, "tokens") as count:
        if streams and not (speaking.json or speaking.quiet):
            _stream(using, (prompts or [""])[0], how, count)
            return
        lines = [Line("")] if many.input_file is None and not prompts else many.lines(prompts)
        told = 0

        def ask(group: list[str]) -> list[Generated]:
            nonlocal told
            from forebear.using.generating import generate as generated

            answers = generated(using.predictor, using.tokenizer, group, samples=samples, **how)
            told += len(answers)
            count(sum(len(answer.ids) for answer in answers))
            return answers

        answers: list[Generated] = many.answer(lines, ask, lambda answer: answer.facts())
    facts = {"run": using.name, "settings": {**how, "stop": list(how["stop"]), "samples": samples}}
    if many.output_file is not None:
        said = f"{told:,} texts: {many.output_file}"
        facts |= {"texts": told, "out": str(many.output_file)}
        speaking.tell(facts, lambda console: console.print(said, soft_wrap=True, markup=False))
    else:
        facts |= {"texts": [answer.facts() for answer in answers]}
        speaking.tell(facts, lambda console: _draw(console, answers, samples))


def _stream(using: Run, prompt: str, how: dict[str, Any], count: Any) -> None:
    """Prompt and continuation as it comes; every call of `hear` is at least one token, `ids` has them all."""
    from forebear.using.generating import generate as generated

    using.stream(prompt, **how)  # refuses what is wrong before we write anything
    sys.stdout.write(_harmless(prompt))
    after_space = prompt[-1:].isspace()

    def hear(_: int, piece: str) -> None:
        nonlocal after_space
        sys.stdout.write(_harmless(piece[1:] if after_space and piece[:1] == " " else piece))
        sys.stdout.flush()
        after_space = False

    (answer,) = generated(using.predictor, using.tokenizer, prompt, hear=hear, **how)
    sys.stdout.write("\n")
    sys.stdout.flush()
    count(len(answer.ids))


def _draw(console: Console, answers: list[Generated], samples: int) -> None:
    for at, answer in enumerate(answers):
        if len(answers) > 1:
            which = f", sample {answer.sample + 1}" if samples > 1 else ""
            console.rule(f"{at // samples + 1}{which}", align="left", style="dim")
        console.print(_harmless(answer.whole), markup=False, soft_wrap=True)


def _harmless(text: str) -> str:
    """What a run says may hold control characters; none of them reaches the terminal but line ends and tabs."""
    return "".join("\ufffd" if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 else c for c in text)
