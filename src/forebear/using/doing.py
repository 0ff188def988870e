"""What a run that was adapted to a task says of texts: classify, tag, answer, choose; one by one or very many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from forebear.errors import BadInput
from forebear.tasks.examples import Asked, Choices, Labelled, Tagged
from forebear.tasks.files.forms import Bad
from forebear.tasks.files.slashed import parted
from forebear.tasks.predicting import Progress, predicted
from forebear.text.characters import sound

if TYPE_CHECKING:
    from forebear.tasks.tagging import Tagging
    from forebear.using.run import Run

TOGETHER = 1024  # examples that are sorted by length and answered at once


def done(run: Run, examples: Iterable[Any], progress: Progress | None = None) -> Iterator[Any]:
    """The answer to each example, in order; however many there are, only some are held at once."""
    task = run.task
    assert task is not None
    layout = run.folder.milestone.layout(run.tokenizer)
    waiting, count = iter(examples), 0
    while group := list(islice(waiting, TOGETHER)):
        rows = task.rows(group, run.tokenizer, layout)
        yield from task.answers(group, rows, predicted(run.network, rows))
        count += len(group)
        if progress is not None:
            progress(count, count)


def told(run: Run, examples: Iterable[Any], progress: Progress | None = None) -> Iterator[Any]:
    """The same for people: written as the examples that the run learned from."""
    assert run.task is not None
    return map(run.task.as_taught, done(run, examples, progress))


def labelled(run: Run, texts: str | Sequence[str] | Sequence[tuple[str, str]]) -> list[Labelled]:
    """Texts, or pairs of texts, as examples without a label; an error where it is the other that is wanted."""
    wanted: int = cast(Any, run.task).texts
    given = [texts] if isinstance(texts, str) else list(texts)
    if wanted == 2 and isinstance(texts, tuple) and len(texts) == 2 and all(isinstance(one, str) for one in texts):
        given = [cast(tuple[str, str], texts)]
    made = []
    for number, one in enumerate(given, 1):
        parts = (one,) if isinstance(one, str) else tuple(one)
        if len(parts) != wanted:
            told = "pairs of texts" if wanted == 2 else "single texts"
            remedy = 'give ("one", "other")' if wanted == 2 else "give one text at a time"
            raise BadInput(f"this run is about {told}, and {len(parts)} came{_which(number, given)}", remedy=remedy)
        if not all(part.strip() for part in parts):
            what = f"a text is empty{_which(number, given)}"
            raise BadInput(what, remedy="leave it out, or write some text")
        made.append(Labelled(tuple(map(sound, parts))))
    return made


def _which(number: int, given: Sequence[Any]) -> str:
    """Which of those given is meant, where there are several."""
    return f" (number {number} of {len(given)})" if len(given) > 1 else ""


def tagged(run: Run, texts: str | Sequence[str | Sequence[str]]) -> list[Tagged]:
    """Texts, or lists of words, as sentences without tags; word/tag as the run learned it, as its words."""
    given = [texts] if isinstance(texts, str) else list(texts)
    return [Tagged(_words(run, sound(one)) if isinstance(one, str) else tuple(map(sound, one))) for one in given]


def _words(run: Run, text: str) -> tuple[str, ...]:
    return untagged(run, text) or cast("Tagging", run.task).words(text)


def untagged(run: Run, text: str) -> tuple[str, ...] | None:
    """The words of a text whose every word has a tag with it, word/tag, as in what the run learned from; else None.

    A tag that the run does not know is none: and/or, km/s and 1/2 are words.
    """
    task, learned = cast("Tagging", run.task), run.facts.get("labelled")
    if learned is None or learned["source"]["form"]["kind"] != "tagged":
        return None
    try:
        words, tags = parted(text)
    except Bad:
        return None
    return words if tags and task.knows(tags) else None


def asked(question: str | Sequence[str], passage: str | Sequence[str]) -> list[Asked]:
    """Questions with their passages; one passage may serve all questions."""
    questions = [question] if isinstance(question, str) else list(question)
    passages = [passage] * len(questions) if isinstance(passage, str) else list(passage)
    if len(questions) != len(passages):
        what = f"{len(questions)} questions and {len(passages)} passages"
        raise BadInput(what, remedy="give one passage, or one for each question")
    for number, parts in enumerate(zip(questions, passages, strict=True), 1):
        if not all(part.strip() for part in parts):
            raise BadInput(f"a question or a passage is empty{_which(number, questions)}", remedy="give both")
    return [Asked(sound(one), sound(other)) for one, other in zip(questions, passages, strict=True)]


def choices(text: str, given: Sequence[str]) -> list[Choices]:
    if len(given) < 2 or not all(one.strip() for one in given):
        raise BadInput("there is nothing to choose from", remedy="give at least two choices, none of them empty")
    return [Choices(sound(text), tuple(map(sound, given)))]
