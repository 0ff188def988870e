"""What is to be explained: a label, a choice, a name or an answer, and the score whose causes are looked for.

The score is the log-odds of what is explained, ln p / (1 - p): it does not saturate as a probability does, and is the
same whatever is added to all logits. Of several words, or of a start and an end, the log-odds add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING
from forebear.tasks import tags as iobes
from forebear.tasks.answering import NONE, Answer, Answering
from forebear.tasks.choice import Choice, Chosen
from forebear.tasks.classification import Classification, Classified
from forebear.tasks.examples import Asked
from forebear.tasks.rows import Rows
from forebear.tasks.tagging import FORBIDDEN, Tagging, Told
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
    said = answer.label if isinstance(answer.label, str) else ", ".join(answer.label)  # pyright: ignore[reportArgumentType]
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


def _tags(
    task: Tagging, answer: Told, rows: Rows, logits: Logits, of: str | None, at: str | int | None
) -> Target:
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
            scores = _chained(scores, task.tags, learned)
        return sum((odds(scores[:, first + at], tag) for at, tag in enumerate(numbers)), start=scores.new_zeros(()))

    text = "".join(_spaced(answer.words[first:last]))
    p = answer.probabilities[range(first, last), numbers]
    points = tuple(Point("tag", int(places[first + at]), tag) for at, tag in enumerate(numbers))
    name, said = (f"{text}: {' '.join(one)}" for one in (wanted, answer.tags[first:last]))
    return Target(name, said, float(np.exp(np.log(np.maximum(p, 1e-300)).mean())), score, points)


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
    part = tag.partition("-")[0]
    named = of if single and of in task.tags else f"{'S' if part == 'O' else part}-{of}"
    if named not in task.tags:
        kinds = sorted({one.partition("-")[2] for one in task.tags if one != "O"})
        more = " (or a tag such as B-…, or O, for a single word)" if single else ""
        raise BadInput(f"nothing of the kind {of!r} was learned", remedy=f"there are: {', '.join(kinds)}{more}")
    return named


def _chained(scores: Tensor, labels: Sequence[str], learned: Sequence[np.ndarray]) -> Tensor:
    """(S, N, K) emissions → what a CRF makes of them: ln P of each label at each word, up to a constant."""
    allowed = zip(iobes.legal(labels), learned, strict=True)
    moves, start, end = (scores.new_tensor(np.where(may, one, FORBIDDEN)) for may, one in allowed)
    words = scores.unbind(1)
    forwards, backwards = [words[0] + start], [end.expand_as(words[0])]
    for emission in words[1:]:
        forwards.append((forwards[-1][:, :, None] + moves).logsumexp(1) + emission)
    for emission in reversed(words[1:]):
        backwards.append((moves + (emission + backwards[-1])[:, None]).logsumexp(2))
    both = [one + other for one, other in zip(forwards, reversed(backwards), strict=True)]
    return scores.new_empty(0) if not both else type(scores).__call__ if False else _stacked(both)


def _stacked(parts: list[Tensor]) -> Tensor:
    import torch

    return torch.stack(parts, dim=1)
