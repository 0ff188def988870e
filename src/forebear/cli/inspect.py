"""`forebear inspect`: the ways of looking inside a run; here `why`, which words speak for what it says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from forebear.cli.inspect_attention import attention
from forebear.cli.inspect_gradients import gradients
from forebear.cli.inspect_layers import layers
from forebear.cli.inspect_next import next  # noqa: A004 - the command's name
from forebear.cli.inspect_positions import positions
from forebear.cli.inspect_senses import senses
from forebear.cli.inspect_words import neighbours, norms, projection
from forebear.cli.many import Given, plain, printable
from forebear.cli.printing import Speaking, table
from forebear.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from forebear.inspecting.attributing import Why, Word
    from forebear.using.run import Run

WIDTH = 16  # of a bar to either side
FAINT, STRONG = 0.08, 0.6  # of the strongest word: less is not coloured, more has light letters
# Weak and strong, so that letters can be read on dark and on light terminals.
FOR, AGAINST = ((219, 233, 255), (31, 95, 208)), ((255, 227, 214), (194, 65, 12))

inspect = App(
    name="inspect",
    help="Look inside a run: why it says something, where it looks, what it makes of words, how far back it reaches.",
    result_action="return_value",
)
inspect.command(attention)
inspect.command(positions)
inspect.command(next)
inspect.command(neighbours)
inspect.command(projection)
inspect.command(norms)
inspect.command(senses)
inspect.command(layers)
inspect.command(gradients)


@inspect.command
def why(
    run: Path,
    texts: Given = None,
    /,
    *,
    of: str | None = None,
    at: str | None = None,
    method: Literal["integrated", "gradients"] = "integrated",
    top: int = 20,
    html: Path | None = None,
    speaking: Speaking = Speaking(),
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
    from forebear.inspecting.attributing import why as explain
    from forebear.using.run import Run

    using = Run.open(run)
    if top < 0:
        raise BadInput(f"--top is {top}", remedy="give a number of rows, or 0 for none")
    given = list(_examples(using, list(texts or ())))
    told = []
    for number, text in enumerate(given, 1):
        try:
            told.append(explain(using, text, of=of, at=at, method=method))
        except BadInput as error:
            error.line = error.line or (number if len(given) > 1 and error.file is None else None)
            raise
    speaking.note(using.notes)
    facts: dict[str, Any] = {"run": using.name, "what": "why", "texts": [one.facts() for one in told]}
    if html is not None:
        _write(told, using.name, html)
        facts["html"] = str(html)
    speaking.tell(facts, lambda console: _draw_all(console, told, top, html))


def _examples(run: Run, texts: list[str]) -> Iterator[str | Sequence[str]]:
    """As many texts together as the task takes."""
    if not texts:
        raise BadInput("there is no text", remedy='forebear inspect why RUN "a text"')
    name = run.task.name if run.task is not None else ""
    if name == "choice":
        yield texts
    elif name in ("pairs", "answering"):
        if len(texts) % 2:
            both = "pairs of texts" if name == "pairs" else "questions and their passages"
            raise BadInput(f"this run is about {both}, and one text is left over", remedy="give two texts, or four …")
        yield from zip(texts[::2], texts[1::2], strict=True)
    else:
        yield from texts


def _write(told: list[Why], run: str, file: Path) -> None:
    from forebear.inspecting.page import page
    from forebear.text.aside import disk_told, written_aside

    if file.is_dir() or not file.absolute().parent.is_dir():
        what = "is a folder" if file.is_dir() else "the folder of this file does not exist"
        raise BadInput(what, file=file, remedy="name a file in a folder that exists, such as why.html")
    with disk_told(file), written_aside(file) as aside:
        aside.write(page(told, run).encode("utf-8"))


def _draw_all(console: Console, told: list[Why], top: int, html: Path | None) -> None:
    for one in told:
        _draw(console, one, top)
    if html is not None:
        console.print(f"page: {html}", markup=False, soft_wrap=True)


def _draw(console: Console, told: Why, top: int) -> None:
    sure = "" if told.probability is None else f" {told.probability:.1%}"
    other = f", the run itself says {plain(told.said)}" if told.said != told.target else ""
    console.print(f"[bold]{plain(told.target)}[/]{sure}{other}", soft_wrap=True)
    for number, part in enumerate(told.parts):
        label = f"{part}: " if len(told.parts) > 1 else ""
        console.print(_coloured(told, number, label, colours=console.color_system is not None), soft_wrap=True)
    shown = told.strongest(top)
    if shown:
        made = table("word", ">adds", ">against", "for")
        for word in shown:
            made.add_row(plain(word.text), f"{word.attribution:+.4f}", *_bars(word.attribution / told.most))
        console.print(made)
    if told.features and top:
        made = table("n-gram", "where", ">adds")
        for one in told.features[:top]:
            made.add_row(plain(one.text), plain(one.where), f"{one.value:+.4f}")
        console.print(made)
    unread = sum(not word.read for word in told.words)
    more = f" {unread:,} words do not fit into a row and were not read." if unread else ""
    console.print(f"{told.about}{more}\n", markup=False, soft_wrap=True, style="dim")


def _bars(share: float) -> tuple[str, str]:
    bar = "█" * max(1, round(abs(share) * WIDTH)) if share else ""
    return (bar, "") if share < 0 else ("", bar)


def _coloured(told: Why, number: int, label: str, *, colours: bool) -> Text:
    """A text with its words coloured; where there are no colours, signs stand behind the strong ones."""
    from rich.text import Text

    text, done, made = told.texts[number], 0, Text(label)
    for word in (word for word in told.words if word.of == number):
        made.append(printable(text[done : word.start]))
        strength = abs(word.attribution) / told.most
        made.append(printable(word.text), style=_style(word, strength) if colours else "")
        signs = min(3, int(strength * 4)) if not colours else 0
        made.append(f"({('+' if word.attribution > 0 else '-') * signs})" if signs else "")
        done = word.end
    return made.append(printable(text[done:]))


def _style(word: Word, strength: float) -> str:
    if not word.read:
        return "dim"
    if strength < FAINT:
        return ""
    weak, strong = FOR if word.attribution > 0 else AGAINST
    mixed = (round(a + (b - a) * strength) for a, b in zip(weak, strong, strict=True))
    return f"{'#ffffff' if strength > STRONG else '#000000'} on rgb({','.join(map(str, mixed))})"
