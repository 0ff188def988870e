"""Why a run says what it says of a text: how much each word speaks for it, or against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.targets import Target, target_of
from forebear.inspecting.tracing import Traced, trace
from forebear.tasks.examples import Asked, Choices, Example, Labelled, Tagged
from forebear.tasks.predicting import predicted
from forebear.tasks.task import Logits

if TYPE_CHECKING:
    from forebear.inspecting.shares import Feature
    from forebear.using.run import Run

Method = Literal["integrated", "gradients"]
HIDING = ("mask", "unknown", "end")  # the first of these roles that a tokenizer has stands for hidden words


@dataclass(frozen=True)
class Word:
    """A word: where it stands (characters of the text with the number `of`), and how much it speaks for the target.

    `read` is False where it did not fit into a row, and could not speak at all.
    """

    text: str
    of: int
    start: int
    end: int
    attribution: float
    read: bool = True

    def facts(self) -> dict[str, Any]:
        told = {"text": self.text, "of": self.of, "start": self.start, "end": self.end}
        return told | {"attribution": round(self.attribution, 6)} | ({} if self.read else {"read": False})


@dataclass(frozen=True)
class Why:
    """What speaks for a prediction, word by word.

    texts        what was given, and what each is: `parts`
    target       what is explained, and what the run says itself
    probability  of the target; None where it is a number
    words        in the order of the texts
    elsewhere    what speaks for it that is no word: tokens around texts, white space; of a linear model its figures
    method       integrated, gradients, or weights (of a linear model)
    score        what is explained: log-odds in nats, the logit of a linear model, or the number itself
    baseline     the same where every word is hidden, and what hides them; None: there is none
    gap          what the words and `elsewhere` miss of score - baseline
    steps        on the way from the baseline
    features     the n-grams and figures of a linear model, the weightiest first
    """

    texts: tuple[str, ...]
    parts: tuple[str, ...]
    target: str
    said: str
    probability: float | None
    words: tuple[Word, ...]
    elsewhere: float
    method: str
    score: float
    baseline: float | None = None
    hidden: str | None = None
    gap: float | None = None
    steps: int | None = None
    features: tuple[Feature, ...] = ()

    def strongest(self, count: int | None = None) -> list[Word]:
        """The words that say most, for or against."""
        return sorted(self.words, key=lambda word: -abs(word.attribution))[:count]

    @property
    def most(self) -> float:
        """What the strongest word says: by this colours are measured."""
        return max((abs(word.attribution) for word in self.words), default=0.0) or 1.0

    @property
    def about(self) -> str:
        """How the figures were found, and what they add up to, in one sentence."""
        what = "the score" if self.method == "weights" else "the log-odds"
        what = what if self.probability is not None else "the number"
        if self.baseline is None:
            return f"Gradient × input at {what} {self.score:+.4g}: a first look, whose sum means nothing."
        way = f"{what} from {self.baseline:+.4g} to {self.score:+.4g}"
        others = f", all else {self.elsewhere:+.4g}" if self.elsewhere else ""
        sums = f"words add {sum(word.attribution for word in self.words):+.4g}{others}"
        if self.method == "weights":
            return f"Weights of a linear model, from no words to these: {way}; {sums}, exactly."
        how = f"Integrated gradients in {self.steps} steps, from the same text with every word hidden ({self.hidden})"
        return f"{how}: {way}; {sums}, and miss {self.gap or 0:+.2g}."

    def facts(self) -> dict[str, Any]:
        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 6)

        return {
            "texts": list(self.texts),
            "target": self.target,
            "said": self.said,
            "probability": rounded(self.probability),
            "method": self.method,
            "score": rounded(self.score),
            "baseline": rounded(self.baseline),
            "hidden": self.hidden,
            "gap": rounded(self.gap),
            "steps": self.steps,
            "words": [word.facts() for word in self.words],
            "elsewhere": rounded(self.elsewhere),
        } | ({"features": [feature.facts() for feature in self.features]} if self.features else {})


def why(
    run: Run,
    text: str | Sequence[str],
    *,
    of: str | None = None,
    at: str | int | None = None,
    method: Method = "integrated",
) -> Why:
    """Which words speak for what a run says of a text, or against it.

    text    one text; of pairs both; a question and its passage; a beginning and all choices; for tagging also words
    of      another label, choice (or its number), kind of name or tag, or part of the passage than the run says
    at      of tagging the word, its number (from 1) or the name that is meant, by itself the surest name; of answering
            "start" or "end", by itself both
    method  integrated: integrated gradients; gradients: gradient × input, far cheaper and far rougher. A linear model
            is told exactly by its weights, whatever the method
    """
    if method not in get_args(Method):
        raise BadInput(f"--method is {method!r}", remedy=f"there are: {', '.join(get_args(Method))}")
    task = run.task
    if task is None:
        what = "was not adapted to a task: it says nothing that could be explained"
        remedy = f"adapt it first (forebear adapt); it can be asked to: {', '.join(run.verbs)}"
        raise BadInput(what, file=run.folder.path, remedy=remedy)
    example = _example(run, text)
    traced = trace(task, example, run.tokenizer, run.folder.milestone.layout(run.tokenizer))
    logits = predicted(run.network, traced.rows)
    target = target_of(task, example, traced.rows, logits, of, at)
    told = _explained(run, traced, target, logits, method)
    return Why(texts=traced.texts, parts=_parts(example), **told)


def _example(run: Run, text: str | Sequence[str]) -> Example:
    """What was given, as the task's own kind of example; an error where it is too little or too much."""
    from forebear.using import doing

    name = run.task.name if run.task else ""
    if not isinstance(text, str):
        text = list(text)
    if name == "tagging":
        given = doing.tagged(run, [text])
        if not given[0].words or not all(given[0].words):
            raise BadInput("this text has no words", remedy="give some text")
        return given[0]
    parts = [text] if isinstance(text, str) else text
    if not parts or not all(part.strip() for part in parts):
        raise BadInput("a text is empty", remedy="write some text")
    if name == "answering":
        if len(parts) != 2:
            raise BadInput(f"{len(parts)} texts came", remedy="give a question and its passage")
        return doing.asked(parts[0], parts[1])[0]
    if name == "choice":
        return doing.choices(parts[0], parts[1:])[0]
    wanted = 1 if run.task is None else run.task.texts
    if len(parts) != wanted:
        told, remedy = ("pairs of texts", "give two") if wanted == 2 else ("single texts", "give one")
        raise BadInput(f"this run is about {told}, and {len(parts)} came", remedy=remedy)
    return (doing.labelled(run, parts) if wanted == 1 else doing.labelled(run, [(parts[0], parts[1])]))[0]


def _parts(example: Example) -> tuple[str, ...]:
    """What each text of an example is."""
    match example:
        case Labelled():
            return ("text",) if len(example.texts) == 1 else ("first", "second")
        case Tagged():
            return ("text",)
        case Asked():
            return ("question", "passage")
        case Choices():
            return ("text", *(f"choice {number}" for number in range(1, len(example.choices) + 1)))


def _explained(run: Run, traced: Traced, target: Target, logits: Logits, method: Method) -> dict[str, Any]:
    told: dict[str, Any] = {"target": target.name, "said": target.said, "probability": target.probability}
    if run.encoder is None:
        from forebear.inspecting.shares import weighed

        linear = weighed(run.network, traced, target, logits, run.tokenizer)
        values, elsewhere = traced.added_up(linear.values)
        told |= {"method": "weights", "score": linear.score, "baseline": linear.baseline, "gap": 0.0}
        told |= {"elsewhere": elsewhere + linear.elsewhere, "features": linear.features, "hidden": "no words"}
        return told | {"words": _words(traced, values)}
    from forebear.inspecting.gradients import attributed

    roles = run.tokenizer.roles
    hidden = next((roles[role] for role in HIDING if role in roles), None)
    inputs = traced.rows.batch([0]).inputs
    found = attributed(run.network, inputs, target, traced.inside, hidden, method)
    values, elsewhere = traced.added_up(found.values)
    told |= {"method": method, "score": found.score, "baseline": found.baseline, "gap": found.gap}
    told |= {"steps": found.steps, "elsewhere": elsewhere, "words": _words(traced, values)}
    if found.baseline is not None:
        told["hidden"] = "zeros" if hidden is None else run.tokenizer.token(hidden)
    return told


def _words(traced: Traced, values: np.ndarray) -> tuple[Word, ...]:
    rows = zip(traced.words, values.tolist(), traced.read.tolist(), strict=True)
    return tuple(
        Word(traced.texts[at.of][at.start : at.end], at.of, at.start, at.end, value, read) for at, value, read in rows
    )
