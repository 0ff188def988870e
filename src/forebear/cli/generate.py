"""`forebear generate`: a run continues texts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from forebear.cli.many import ONE, STDIN, Given, Line, ManyOptions, counting, listed, opened, plain
from forebear.cli.printing import Speaking, bar, counted, table

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.continuing import Generated
    from forebear.using.run import Run

SHOWN = 20  # choices in a table


@Parameter(name="*")
@dataclass(frozen=True)
class Chance:
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
class Search:
    """Searched for, or chosen: nothing is drawn."""

    beams: int | None = None
    "Keep so many continuations at each step, to find one that is likely as a whole; 1: the likeliest token each time."
    best: int | None = None
    "Tell so many of those that the beams found, the best first. [default: 1]"
    length_penalty: float | None = None
    "Beams are compared by log P / tokens^this: 0 by the sum, 1 by the mean; higher for longer texts. [default: 1]"
    choices: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None
    "Continue by the likeliest of these, each an argument, or the lines of one file."


BY_CHANCE, NO_SEARCH = Chance(), Search()


def generate(
    run: Path,
    prompts: Given = None,
    /,
    *,
    length: Annotated[int | None, Parameter(show_default=False)] = None,
    stop: Annotated[list[str] | None, Parameter(negative="")] = None,
    chance: Chance = BY_CHANCE,
    search: Search = NO_SEARCH,
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
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
    run
        The run's folder.
    prompts
        How the texts begin, each argument by itself; none: a text from its start; - for the lines of standard input.
    length
        The most tokens to add. [default: 100]
    stop
        End before this string; may be given several times.
    """
    from forebear.using.writing import settled, way, write

    said = {"length": length, "stop": stop, **vars(chance), **vars(search), "choices": listed(search.choices)}
    how = {name: value for name, value in said.items() if value is not None}
    meant = way(how)
    using = opened(run, "generate", speaking)
    single = many == ONE and len(prompts or [""]) == 1 and prompts != [STDIN]
    streams = single and not meant and how.get("samples", 1) == 1
    with counting(speaking, "tokens") as count:
        if streams and not (speaking.json or speaking.quiet):
            _stream(using, (prompts or [""])[0], {name: how[name] for name in how if name != "samples"}, count)
            return
        lines = [Line("")] if many.input_file is None and not prompts else many.lines(prompts)
        told = 0

        def ask(group: list[str]) -> list[Generated]:
            nonlocal told
            answers = write(using.predictor, using.tokenizer, group, **how)
            told += len(answers)
            count(sum(len(answer.ids) for answer in answers))
            return answers

        answers: list[Generated] = many.answer(lines, ask, lambda answer: answer.facts())
    facts: dict[str, Any] = {"run": using.name, "settings": settled(how)}
    if many.output_file is not None:
        done = f"{counted(told, 'text')}: {many.output_file}"
        facts |= {"texts": told, "out": str(many.output_file)}
        speaking.tell(facts, lambda console: console.print(done, soft_wrap=True, markup=False))
    else:
        facts |= {"texts": [answer.facts() for answer in answers]}
        speaking.tell(facts, lambda console: _draw(console, answers))


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
    if not len(answer.ids):
        print("the run ends the text here: another --seed or a higher --temperature may go on", file=sys.stderr)  # noqa: T201


def _draw(console: Console, answers: list[Generated]) -> None:
    prompt, several = 0, any(answer.sample for answer in answers)
    for answer in answers:
        prompt += answer.sample == 0
        if len(answers) > 1:
            ranked = "" if answer.score is None else f"rank {answer.sample + 1}: score {answer.score:.3f}"
            which = f", {ranked or f'sample {answer.sample + 1}'}" if several else ""
            console.rule(f"{prompt}{which}", align="left", style="dim")
        console.print(_harmless(answer.whole), markup=False, soft_wrap=True)
        if answer.choices:
            _draw_choices(console, answer)


def _draw_choices(console: Console, answer: Generated) -> None:
    made = table("choice", ">P", "")
    for name, share in sorted(answer.choices, key=lambda choice: -choice[1])[:SHOWN]:
        made.add_row(plain(name), f"{share:.2%}", bar(share, 20))
    console.print(made)


def _harmless(text: str) -> str:
    """What a run says may hold control characters; none of them reaches the terminal but line ends and tabs."""
    return "".join("\ufffd" if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 else c for c in text)
