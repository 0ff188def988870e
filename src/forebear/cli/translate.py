"""`forebear translate`: texts in another language."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.cli.many import ONE, Given, ManyOptions, counting, opened
from forebear.cli.printing import Speaking, counted
from forebear.errors import BadInput
from forebear.using.translating import Division

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.using.translating import Translated


def translate(
    run: Path,
    texts: Given = None,
    /,
    *,
    beams: int = 4,
    best: int = 1,
    length_penalty: float = 1.0,
    length: int | None = None,
    sentences: Division = "whole",
    many: ManyOptions = ONE,
    speaking: Speaking = Speaking(),
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
    using = opened(run, "translate", speaking)
    how: dict[str, Any] = {"beams": beams, "best": best, "penalty": length_penalty, "length": length}
    how |= {"sentences": sentences}
    output = many.output_file
    as_text = output is not None and output.suffix not in (".jsonl", ".json")
    if as_text and best > 1:
        raise BadInput(f"--best {best} does not fit into {output}, a line each", remedy="write to a .jsonl file")
    count = cut = unknown = divided = 0

    def ask(group: list[str]) -> list[Translated]:
        nonlocal count, cut, unknown, divided
        done = 0  # of this group, as far as was told

        def look(now: int, _: int) -> None:
            nonlocal done
            told(min(now, len(group)) - done)
            done = max(done, min(now, len(group)))

        made = using.translate(group, **how, progress=look)
        count, cut = count + len(made), cut + sum(not one.ended for one in made)
        unknown += sum(one.unknown > 0 for one in made)
        divided += sum(one.parts > 1 for one in made) if sentences == "whole" else 0
        told(len(made) - done)
        return made

    with counting(speaking, "texts") as told:
        write = (lambda one: one.text) if as_text else (lambda one: one.facts())
        answers: list[Translated] = many.answer(many.lines(texts), ask, write)
    if not count:
        raise BadInput("there is no text to translate", remedy='forebear translate RUN "a text", or --in FILE')
    told_of = ((unknown, "with words that the run does not know"), (divided, "too long for it: read in parts"))
    notes = [f"{number:,} {'text' if number == 1 else 'texts'} {what}" for number, what in told_of if number]
    for note in () if speaking.quiet else notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201
    facts: dict[str, Any] = {"run": using.name, "settings": how, "notes": [*using.notes, *notes]}
    if output is not None:
        facts |= {"texts": count, "cut_off": cut, "out": str(output)}
        longest = f"; {cut:,} reached the greatest length" if cut else ""
        said = f"{counted(count, 'text')} translated: {output}{longest}"
        speaking.tell(facts, lambda console: console.print(said, soft_wrap=True, markup=False))
        return
    facts |= {"texts": [answer.facts() for answer in answers]}
    speaking.tell(facts, lambda console: [_draw(console, answer) for answer in answers])


def _draw(console: Console, answer: Translated) -> None:
    if len(answer.versions) == 1:
        console.print(answer.text, markup=False, soft_wrap=True)
        return
    console.print(answer.source, markup=False, soft_wrap=True, style="dim")
    for version in answer.versions:
        console.print(f"{version.score:8.3f}  {version.text}", markup=False, soft_wrap=True)
