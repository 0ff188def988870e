"""A run continues texts by what is likeliest as a whole: found by beam search, or one of the choices that are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.using import beams as beam
from forebear.using.asking import ask
from forebear.using.continuing import Continuation, Generated
from forebear.using.following import BLANK
from forebear.using.generating import BATCH, stops
from forebear.using.prompts import going_on
from forebear.using.sampling import Permitted, at_least_one
from forebear.using.texts import end_of, row_of

if TYPE_CHECKING:
    from forebear.text.tokenizer import Tokenizer
    from forebear.using.asking import Prompted
    from forebear.using.beams import Hypothesis
    from forebear.using.predicting import Predictor

IMPOSSIBLE = beam.Hypothesis((), -math.inf, -math.inf, ended=True)  # the run holds no continuation possible
BYTES = 4  # of a character, at most: tokens that may spell it together


def searched(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompts: str | Sequence[str],
    *,
    beams: int,
    best: int = 1,
    length_penalty: float = 1.0,
    length: int = 100,
    stop: str | Sequence[str] = (),
    batch: int = BATCH,
) -> list[Generated]:
    """The `best` continuations of each prompt by up to `length` tokens, the best first; nothing is random.

    They are compared by log P / tokens^length_penalty, the end being a token too; see `beams`. A single beam takes
    the likeliest token each time, and has nothing to compare.
    """
    at_least_one(length=length, batch=batch)
    beam.check(beams, best, length_penalty)
    if beams == 1 and length_penalty != 1:
        raise BadInput("a length penalty changes nothing with one beam", remedy="search with more, or leave it out")
    prompts, until = [prompts] if isinstance(prompts, str) else list(prompts), stops(stop)
    end, permitted = end_of(tokenizer), Permitted.by(tokenizer, predictor.vocabulary)
    given = [tokenizer.encode(prompt).ids.astype(np.int64) for prompt in prompts]
    at_once, told = max(1, batch // beams), []
    for first in range(0, len(prompts), at_once):
        mine = given[first : first + at_once]
        found = beam.search(
            predictor.read([row_of(ids, end, ends=False) for ids in mine], length),
            len(mine),
            end=end,
            beams=beams,
            best=best,
            lengths=[length] * len(mine),
            penalty=length_penalty,
            permitted=permitted.of_rows,
            over=_stopped(tokenizer, mine, until) if until else None,
        )
        for prompt, ids, hypotheses in zip(prompts[first:], mine, found, strict=False):
            told += [_written(tokenizer, prompt, ids, until, *one) for one in enumerate(hypotheses or [IMPOSSIBLE])]
    return told


def _stopped(
    tokenizer: Tokenizer, prompts: Sequence[np.ndarray], stop: tuple[str, ...]
) -> Callable[[int, np.ndarray], bool]:
    """Whether tokens spell a stop string at their end. Only as many are read as it may consist of."""
    most = BYTES * (max(map(len, stop)) + 1)

    def over(source: int, ids: np.ndarray) -> bool:
        before = prompts[source] if len(ids) <= most else ids[-most - 1 : -most]
        text = Continuation(tokenizer, before, stop)
        for token in ids[-most:].tolist():
            text.take(token)
        return text.stopped

    return over


def _written(
    tokenizer: Tokenizer, prompt: str, given: np.ndarray, stop: tuple[str, ...], rank: int, found: Hypothesis
) -> Generated:
    text = Continuation(tokenizer, given, stop)
    for token in found.ids:
        text.take(token)
    text.finish()
    ended = "stop" if text.stopped else "end" if found.ended else "length"
    return Generated(prompt, rank, text.text, found.ids, ended, found.log_probability, found.score)


def chosen(
    predictor: Predictor, tokenizer: Tokenizer, prompts: str | Sequence[str], *, choices: Sequence[str]
) -> list[Generated]:
    """Each prompt continued by the likeliest of the choices, with the shares of all: what `ask` answers, as a text."""
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    for number, prompt in enumerate(prompts, 1):
        if BLANK.search(prompt):
            remedy = "forebear ask RUN TEXT --choices fills blanks; what is generated stands at the end"
            raise BadInput("this text has a blank", line=number, remedy=remedy)
    answers = ask(predictor, tokenizer, prompts, choices=choices)
    return [_continued(tokenizer, *one) for one in zip(prompts, answers, strict=True)]


def _continued(tokenizer: Tokenizer, prompt: str, answer: Prompted) -> Generated:
    one = answer.best or answer.answers[0]
    spaced = one.whole.endswith(f" {one.name}") and not prompt[-1:].isspace()
    shares = tuple((each.name, each.probability) for each in answer.answers)
    text = " " * spaced + one.name
    ids = going_on(one.whole[: -len(text)], text, tokenizer).ids[-one.tokens :].tolist()
    return Generated(prompt, 0, text, tuple(ids), "choice", one.log_probability, one.score, shares)
