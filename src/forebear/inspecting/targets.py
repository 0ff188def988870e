"""What is to be explained: a label, a choice, a name or an answer, and the score whose causes are looked for.

The score is the log-odds of what is explained, ln p / (1 - p): it does not saturate as a probability does, and is the
same whatever is added to all logits. Of several words, or of a start and an end, the log-odds add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.tracing import written
from forebear.objectives.batch import NOTHING
from forebear.tasks.answering import NONE, Answer, Answering
from forebear.tasks.choice import Choice, Chosen
from forebear.tasks.classification import Classification, Classified
from forebear.tasks.examples import Asked
from forebear.tasks.rows import Rows
from forebear.tasks.tagging import FORBIDDEN, Tagging, Told
from forebear.tasks.tags import Legal
from forebear.tasks.task import Logits, Task

if TYPE_CHECKING:
    from torch import Tensor

Outputs = Mapping[str, "Tensor"]  # of each head, (S, …) for S copies of the example
Score = Callable[[Outputs], "Tensor"]  # → (S,)


@dataclass(frozen=True)
class Point:
    """A number that a head gives: of which example (label), row (choice) or token, for which answer; times `scale`."""

    head: str
    number: int
    answer: int | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Target:
    """What is explained.

    name         in words, and what the run says itself
    probability  of it; None where a number is told
    score        of a network's outputs: label (S, 1, answers), choice (S, rows), tag (S, T, tags), start, end (S, T)
    points       the logits that speak for it, plus `shift`: all that a linear model needs
    """

    name: str
    said: str
    probability: float | None
    score: Score
    points: tuple[Point, ...]
    shift: float = 0.0

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.head for point in self.points))


def target_of(
    task: Task, example: Any, rows: Rows, logits: Logits, of: str | None = None, at: str | int | None = None
) -> Target:
    """What is explained of an example: what the run says, or `of` instead; `at` a word, or the start or end."""
    (answer,) = task.answers([example], rows, logits)
    if at is not None and not isinstance(task, Tagging | Answering):
        raise BadInput(f"--at means nothing for {task.name}", remedy="leave it out; it is for tagging and answering")
    match task:
        case Classification():
            return _label(task, answer, of)
        case Choice():
            return _choice(task, answer, of)
        case Tagging():
            return _tags(task, answer, rows, logits, of, at)
        case Answering():
            return _answer(example, answer, rows, logits, of, at)
    raise BadInput(f"what {task.name} says cannot be explained yet")


def odds(scores: Tensor, one: int) -> Tensor:
    """(S, K) logits → (S,) ln p / (1 - p) of one of them."""
    others = [other for other in range(scores.shape[1]) if other != one]
    return scores[:, one] - scores[:, others].logsumexp(1)


def _label(task: Classification, answer: Classified, of: str | None) -> Target:
    if task.kind == "number":
        if of is not None:
            raise BadInput("--of means nothing where a number is told", remedy="leave it out")
        name = f"{answer.label:.4g}"
        points, centre, spread = (Point("label", 0, scale=task.spread),), task.centre, task.spread
        return Target(name, name, None, lambda out: out["label"][:, 0, 0] * spread + centre, points, centre)
    likeliest = max(answer.probabilities, key=lambda label: answer.probabilities[label])
    said = ", ".join(answer.label) if isinstance(answer.label, tuple) else str(answer.label)
    label = likeliest if of is None else of
    if label not in task.labels:
        raise BadInput(f"no label is named {label!r}", remedy=f"there are: {', '.join(task.labels)}")
    number, cold = task.labels.index(label), 1 / task.temperature

    def score(out: Outputs) -> Tensor:
        logits = out["label"][:, 0] * cold
        return logits[:, number] if task.kind == "several" else odds(logits, number)

    two = task.kind == "one" and len(task.labels) == 2  # then one logit is the other's negative: half of the odds
    points = (Point("label", 0, number, 2 * cold if two else cold),)
    return Target(label, said or "(none)", answer.probabilities[label], score, points)


def _choice(task: Choice, answer: Chosen, of: str | None) -> Target:
    number = answer.chosen
    if of is not None:
        names = [*answer.choices, *(str(one) for one in range(1, len(answer.choices) + 1))]
        if of not in names:
            remedy = f"give one of the choices, or its number from 1 to {len(answer.choices)}"
            raise BadInput(f"{of!r} is none of the choices", remedy=remedy)
        number = names.index(of) % len(answer.choices)
    cold = 1 / task.temperature
    said, name = answer.choices[answer.chosen], answer.choices[number]
    points = (Point("choice", number, scale=cold),)
    return Target(name, said, answer.probabilities[number], lambda out: odds(out["choice"] * cold, number), points)


def _tags(task: Tagging, answer: Told, rows: Rows, logits: Logits, of: str | None, at: str | int | None) -> Target:
    """Of a word its tag; of a name the tags of all its words."""
    first, last = _meant(answer, at)
    wanted = [_other_tag(task, tag, of, single=last - first == 1) for tag in answer.tags[first:last]]
    numbers = [task.tags.index(tag) for tag in wanted]
    assert rows.marks is not None
    places = np.full(len(answer.words), NOTHING)
    asked = np.flatnonzero(rows.marks != NOTHING)
    places[rows.marks[asked]] = asked
    learned = logits.get("moves")

    def score(out: Outputs) -> Tensor:
        scores = out["tag"][:, places.tolist()]
        if task.crf and learned is not None:
            scores = _chained(scores, task.legal, learned)
        return sum((odds(scores[:, first + n], tag) for n, tag in enumerate(numbers)), start=scores.new_zeros(()))

    text = written(answer.words[first:last])[0]
    p = answer.probabilities[range(first, last), numbers]
    points = tuple(Point("tag", int(places[first + n]), tag) for n, tag in enumerate(numbers))
    name, said = (f"{text}: {' '.join(one)}" for one in (wanted, answer.tags[first:last]))
    return Target(name, said, float(np.prod(p ** (1 / len(p)))), score, points)


def _meant(answer: Told, at: str | int | None) -> tuple[int, int]:
    """The words that are asked about: a name or a word by its text, a word by its number, or the surest name."""
    if at is None:
        if not answer.entities:
            raise BadInput("nothing was found in this text", remedy="say of which word the tag is meant: --at WORD")
        surest = max(answer.entities, key=lambda entity: entity.probability)
        return surest.first, surest.last
    named = [(entity.first, entity.last) for entity in answer.entities if entity.text == str(at)]
    alike = [(number, number + 1) for number, word in enumerate(answer.words) if word == str(at)]
    found = [] if isinstance(at, int) else named or alike
    if len(found) > 1:
        numbers = ", ".join(str(first + 1) for first, _ in found)
        raise BadInput(f"{at!r} stands here {len(found)} times", remedy=f"give the number of its word: {numbers}")
    if found:
        return found[0]
    if str(at).isdecimal() and 1 <= int(at) <= len(answer.words):
        return int(at) - 1, int(at)
    remedy = f"give a word or a name of the text, or the number of a word, from 1 to {len(answer.words)}"
    raise BadInput(f"there is no word {at!r}", remedy=remedy)


def _other_tag(task: Tagging, tag: str, of: str | None, *, single: bool) -> str:
    """The tag itself; or `of`: another tag for a single word, or the same part of a name of another kind."""
    if of is None:
        return tag
    if task.is_plain:
        if of not in task.tags:
            raise BadInput(f"no tag {of!r} was learned", remedy=f"there are: {', '.join(task.tags)}")
        return of
    part = tag.partition("-")[0]
    named = of if single and of in task.tags else f"{'S' if part == 'O' else part}-{of}"
    if named not in task.tags:
        kinds = sorted({one.partition("-")[2] for one in task.tags if one != "O"})
        more = " (or a tag such as B-…, or O, for a single word)" if single else ""
        raise BadInput(f"nothing of the kind {of!r} was learned", remedy=f"there are: {', '.join(kinds)}{more}")
    return named


def _chained(scores: Tensor, legal: Legal, learned: Sequence[np.ndarray]) -> Tensor:
    """(S, N, K) emissions → what a CRF makes of them: ln P of each label at each word, up to a constant."""
    import torch

    allowed = zip(legal, learned, strict=True)
    moves, start, end = (scores.new_tensor(np.where(may, one, FORBIDDEN)) for may, one in allowed)
    words = scores.unbind(1)
    forwards, backwards = [words[0] + start], [end.expand_as(words[0])]
    for emission in words[1:]:
        forwards.append((forwards[-1][:, :, None] + moves).logsumexp(1) + emission)
    for emission in reversed(words[1:]):
        backwards.append((moves + (emission + backwards[-1])[:, None]).logsumexp(2))
    return torch.stack(forwards, 1) + torch.stack(backwards[::-1], 1)


def _answer(example: Asked, answer: Answer, rows: Rows, logits: Logits, of: str | None, at: str | int | None) -> Target:
    """Start and end of an answer, or one of them, in the window that finds it likeliest."""
    if at not in (None, "start", "end"):
        raise BadInput(f"--at is {at!r}", remedy="give start or end; without it both are explained")
    if of is not None and (not of.strip() or of.strip() not in example.passage):
        raise BadInput(f"{of!r} does not stand in the passage", remedy="give --of a part of the passage, word for word")
    said = answer.text.strip()  # pieces of bytes take the space before them with them
    name, begin = said, NOTHING
    if of is not None:
        name = of.strip()
        begin = example.passage.find(name)
    elif answer.best is not None:
        begin = answer.best.start + len(answer.text) - len(answer.text.lstrip())
    found = max(_places(rows, logits, begin, begin + len(name)), default=None)
    if found is None:
        raise BadInput(f"{name!r} does not fit into one window", remedy="give a shorter part of the passage")
    sure, row, first, last = found
    whole = range(*_row_ends(rows, row))
    places = {"start": first, "end": last} if at is None else {str(at): first if at == "start" else last}

    def score(out: Outputs) -> Tensor:
        sums = [odds(out[head][:, whole.start : whole.stop], place - whole.start) for head, place in places.items()]
        return sum(sums[1:], start=sums[0])

    if at is not None:
        other = _log_softmax(logits[str(at)][row])
        sure = float(other[places[str(at)] - whole.start])
    part = f"{at} of " if at is not None else ""
    names = [part + (one or "(no answer)") for one in (name, said)]
    points = tuple(Point(head, place) for head, place in places.items())
    return Target(names[0], names[1], float(np.exp(sure)), score, points)


def _places(rows: Rows, logits: Logits, begin: int, end: int) -> Iterator[tuple[float, int, int, int]]:
    """(ln P, row, token of the start, token of the end) of these characters of the passage, in every row that has them;
    without a begin those of "no answer"."""
    for row in rows.rows_of(0):
        at, marks = _row_ends(rows, row)[0], rows.marks_of(row)
        start, stop = (_log_softmax(logits[head][row]) for head in ("start", "end"))
        firsts, lasts = np.array([NONE]), np.array([NONE])
        if begin != NOTHING:
            held = np.flatnonzero((marks[:, 0] < end) & (marks[:, 1] > begin) & (marks[:, 0] != NOTHING))
            if not len(held) or marks[held[0], 0] > begin or marks[held[-1], 1] < end:
                continue
            # Of the tokens that are the bytes of one character, any may have been meant.
            firsts = np.flatnonzero(marks[:, 0] == marks[held[0], 0])
            lasts = np.flatnonzero(marks[:, 1] == marks[held[-1], 1])
        first, last = int(firsts[start[firsts].argmax()]), int(lasts[stop[lasts].argmax()])
        yield float(start[first] + stop[last]), row, at + first, at + last


def _row_ends(rows: Rows, row: int) -> tuple[int, int]:
    """Where a row begins and ends among all tokens."""
    end = int(rows.lengths[: row + 1].sum())
    return end - int(rows.lengths[row]), end


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores.astype(np.float64) - scores.max()
    return shifted - np.log(np.exp(shifted).sum())
