"""A run chooses among labels, continuations or words for a blank without having been trained to: a prompt is enough.

Labels are calibrated by default (Zhao et al. 2021; Holtzman et al. 2021): what speaks for a label is divided by what
would without the text. How common a word is, or how well it fits the template, says nothing of the text, and in small
runs decides everything otherwise. Choices are not: how likely they are in themselves is part of what is asked.
What speaks for an answer is told in `likelihoods`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.using.following import BLANK
from forebear.using.likelihoods import Likelihood, finds_hidden, likelihoods
from forebear.using.measuring import finite
from forebear.using.prompts import (
    CHINESE,
    ENGLISH,
    Fitted,
    Frame,
    Labels,
    Option,
    Shots,
    Template,
    fitted,
    fitted_behind,
    is_chinese,
    options_of,
    told_apart,
)

if TYPE_CHECKING:
    from forebear.networks.restorer import Restorer
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.predicting import Predictor

Per = Literal["total", "token", "byte"]
Framed = tuple[Frame, tuple[str, ...]]  # and the words for its place

TOGETHER = 256  # texts shown at once: bounds memory, changes no result
EQUAL = 1e-6  # probabilities that differ by less are equal: a network's own rounding is not far below
CLOSING = frozenset(",.;:!?)]}%”»…")  # stands at a word without a space
WIDE = "\u2e80"  # from here on scripts are written without spaces


@dataclass(frozen=True)
class Weighed:
    """An answer and what speaks for it; natural logarithms.

    log_probability  of the answer's words and what follows them, of all its wordings together
    neutral          the same without the text, where it was calibrated
    score            what is compared: the first, per token or byte if so asked, less the second likewise
    probability      the share of exp(score) among all answers
    whole            the text with its likeliest wording in place, of which `tokens` and `bytes` were counted
    unknown          tokens of that wording that the run's vocabulary lacks
    """

    name: str
    wording: str
    whole: str
    probability: float
    score: float
    log_probability: float
    neutral: float | None
    tokens: int
    bytes: int
    unknown: int

    @property
    def bits_per_byte(self) -> float:
        """Of an answer with one wording."""
        return -self.log_probability / math.log(2) / self.bytes

    def facts(self) -> dict[str, Any]:
        """As JSON values; what is infinite is null."""
        told: dict[str, Any] = {"name": self.name, "probability": self.probability, "score": finite(self.score)}
        told |= {"log_probability": finite(self.log_probability), "wording": self.wording, "whole": self.whole}
        told |= {"tokens": self.tokens, "bytes": self.bytes, "unknown_tokens": self.unknown}
        return told if self.neutral is None else {**told, "neutral": finite(self.neutral)}


@dataclass(frozen=True)
class Prompted:
    """A text and all answers in the order in which they were given.

    `cut` tokens of the text had no room; `shots` examples stood before it. `pseudo`: tokens were told by both sides.
    """

    text: str
    answers: tuple[Weighed, ...]
    cut: int
    shots: int
    pseudo: bool

    @property
    def best(self) -> Weighed | None:
        """The likeliest, the first of equals; None where all are impossible."""
        first = max(self.answers, key=lambda answer: answer.probability)
        return first if first.probability > 0 else None

    @property
    def is_tied(self) -> bool:
        """Whether no answer is likelier than another."""
        shares = [answer.probability for answer in self.answers]
        return self.best is not None and max(shares) - min(shares) < EQUAL

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        best = self.best
        told: dict[str, Any] = {"text": self.text, "answer": None if best is None else best.name}
        told |= {"tied": self.is_tied, "cut_tokens": self.cut, "shots": self.shots, "pseudo": self.pseudo}
        return {**told, "answers": [answer.facts() for answer in self.answers]}


def ask(
    scorer: Predictor | Restorer,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    labels: Labels | None = None,
    choices: Sequence[str] | None = None,
    template: str | None = None,
    shots: Shots = (),
    calibrate: bool | None = None,
    neutral: str | None = None,
    per: Per = "total",
) -> list[Prompted]:
    """Which of the labels, or of the choices, each text is best completed by.

    Labels stand in a template with {text} and {label}, behind as many examples (text, label) as have room. Several
    words may stand for one label: it is as likely as all of them together. Choices continue the text, or fill its
    blank (____). `neutral` is what stands for the text when calibrating: nothing, or what you say.

    A text too long for the run's context loses what lies farthest from the answer; `cut` says how many tokens.
    """
    if (labels is None) == (choices is None):
        what = "neither labels nor choices" if labels is None else "both labels and choices"
        raise BadInput(f"{what} to choose from", remedy='give --labels "good,bad", or --choices "this one" "that one"')
    if per not in get_args(Per):
        raise BadInput(f"per is {per!r}", remedy=f"choose one of {', '.join(get_args(Per))}")
    calibrated = labels is not None if calibrate is None else calibrate
    if neutral is not None and not calibrated:
        raise BadInput("a neutral text changes nothing without calibration", remedy="add --calibrate, or leave it out")
    without = sound(neutral or "") if calibrated else None
    if labels is None:
        if template is not None or shots:
            raise BadInput("choices take no template and no examples", remedy="write the text out, or give --labels")
        options = told_apart([Option(name, (name,)) for name in choices or ()], "choice", "an argument for each")
        asker = _Asker(scorer, tokenizer, options, _placing(scorer, tokenizer, options), (), without, per)
    else:
        options = options_of(labels)
        made = _template(template, options)
        _checked(shots, options)
        wordings = tuple(sound(word) for option in options for word in option.wordings)
        shown = made.shown(shots, {option.name: option.wordings[0] for option in options})
        asker = _Asker(scorer, tokenizer, options, lambda text: (made.frame(text), wordings), shown, without, per)
    texts = [sound(text) for text in ([texts] if isinstance(texts, str) else texts)]
    groups = range(0, len(texts), TOGETHER)
    return [answer for first in groups for answer in asker.chosen(texts[first : first + TOGETHER], first + 1)]


def _template(written: str | None, options: Sequence[Option]) -> Template:
    """As given, or in the language of the labels: it is their words that must fit in."""
    chinese = is_chinese(*(word for option in options for word in option.wordings))
    return Template.of(written if written is not None else CHINESE if chinese else ENGLISH)


def _checked(shots: Shots, options: Sequence[Option]) -> None:
    names = [option.name for option in options]
    for number, (text, label) in enumerate(shots, 1):
        if label not in names:
            what = f"example {number} ({text[:40]!r}) has {label!r}, which is none of the labels"
            raise BadInput(what, remedy=f"there are: {', '.join(names)}")


def _placing(scorer: Predictor | Restorer, tokenizer: Tokenizer, options: Sequence[Option]) -> Callable[[str], Framed]:
    """Finds the blank of a text (____, or the mask of a run that has one), or else the place behind it."""
    names = tuple(sound(option.name) for option in options)
    mask = f"|(?:{re.escape(tokenizer.token(scorer.mask))})+" if finds_hidden(scorer) else ""
    pattern = re.compile(f"{BLANK.pattern}{mask}")

    def placed(text: str) -> Framed:
        blanks = list(pattern.finditer(text))
        if len(blanks) > 1:
            raise BadInput(f"the text has {len(blanks)} blanks", remedy="fill one at a time: leave one ____ in it")
        if blanks:
            return Frame(left=text[: blanks[0].start()], right=text[blanks[0].end() :]), names
        return Frame(left=text, goes_on=not finds_hidden(scorer)), tuple(
            " " * _is_apart(text, name) + name for name in names
        )

    return placed


def _is_apart(text: str, words: str) -> bool:
    """Whether a space belongs between the two."""
    before, after = text[-1:], words[0]
    return not (before.isspace() or after.isspace() or after in CLOSING or max(before, after) >= WIDE)


@dataclass
class _Asker:
    """Texts become frames, frames likelihoods, and these shares."""

    scorer: Predictor | Restorer
    tokenizer: Tokenizer
    options: tuple[Option, ...]
    framed: Callable[[str], Framed]
    shots: Sequence[str]
    without: str | None  # what stands for the text when calibrating
    per: Per
    absent: dict[tuple[object, ...], list[Likelihood]] = field(default_factory=dict)

    @property
    def limit(self) -> int | None:
        """Tokens of text that it sees at once."""
        return self.scorer.room if finds_hidden(self.scorer) else self.scorer.context

    @property
    def _firsts(self) -> list[int]:
        """The number of each option's first wording among all."""
        return [0, *accumulate(len(option.wordings) for option in self.options[:-1])]

    def chosen(self, texts: Sequence[str], first: int) -> list[Prompted]:
        """The answers to some texts, the first of which has this number."""
        asked = [self._fitted(text, number) for number, text in enumerate(texts, first)]
        needed = {_key(fit): fit for fit in asked if self.without is not None and _key(fit) not in self.absent}
        neutral = [self._emptied(fit) for fit in needed.values()]
        told = likelihoods(self.scorer, self.tokenizer, [*asked, *neutral])
        self.absent |= dict(zip(needed, told[len(asked) :], strict=True))
        return [self._shared(*one) for one in zip(texts, asked, told, strict=False)]

    def _fitted(self, text: str, number: int) -> Fitted:
        try:
            if not text.strip():
                raise BadInput("this text is empty", remedy="leave it out, or write some text")
            return fitted_behind(self.shots, *self.framed(text), self.tokenizer, self.limit)
        except BadInput as error:
            error.line = number
            raise

    def _emptied(self, fit: Fitted) -> Fitted:
        """The same examples and words around what stands for the text."""
        frame, _ = self.framed(self.without or "")
        return fitted(frame.after("".join(self.shots[: fit.shots])), fit.wordings, self.tokenizer, self.limit)

    def _shared(self, text: str, fit: Fitted, told: Sequence[Likelihood]) -> Prompted:
        absent = None if self.without is None else self.absent[_key(fit)]
        logs, values = self._of_options(told), self._of_options(told, self.per)
        neutral = None if absent is None else self._of_options(absent)
        scores = values if absent is None else values - self._divisors(absent)
        total = float(np.logaddexp.reduce(scores))
        shares = np.exp(scores - total) if total > -math.inf else np.zeros(len(scores))
        answers = []
        for number, (option, first) in enumerate(zip(self.options, self._firsts, strict=True)):
            best = max(range(len(option.wordings)), key=lambda n: told[first + n].log_probability)
            one, whole = told[first + best], fit.frame.whole(fit.wordings[first + best])
            numbers = (float(shares[number]), float(scores[number]), float(logs[number]))
            without = None if neutral is None else float(neutral[number])
            counted = (one.tokens, one.bytes, one.unknown)
            answers.append(Weighed(option.name, option.wordings[best], whole, *numbers, without, *counted))
        return Prompted(text, tuple(answers), fit.cut, fit.shots, self.scorer.pseudo)

    def _of_options(self, told: Sequence[Likelihood], per: Per = "total") -> np.ndarray:
        """(options,) the logarithm of what all words of each have together."""
        counts = {"total": lambda one: 1, "token": lambda one: one.tokens, "byte": lambda one: one.bytes}
        values = np.array([one.log_probability / counts[per](one) for one in told])
        return np.logaddexp.reduceat(values, self._firsts)

    def _divisors(self, absent: Sequence[Likelihood]) -> np.ndarray:
        found = self._of_options(absent, self.per)
        if (found == -math.inf).any():
            name = self.options[int(np.argmin(found))].name
            what = f"without the text {name!r} is impossible for this run, and nothing can be divided by that"
            raise BadInput(what, remedy="leave calibration out (--no-calibrate), or ask a run that smooths")
        return found


def _key(fit: Fitted) -> tuple[object, ...]:
    """What decides which likelihoods a text's own are divided by."""
    return fit.wordings, fit.shots
