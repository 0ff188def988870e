"""What stands in the blanks of a text: tables of single blanks, and the whole text filled as well as it can be."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import sound
from forebear.using.following import BLANK, fitting, shown
from forebear.using.texts import no_numbers

if TYPE_CHECKING:
    from forebear.networks.restorer import Restorer
    from forebear.text.tokenizer import Tokenizer

MOST = 64  # tokens that may be hidden in one text


@dataclass(frozen=True)
class Filler:
    """A token that may stand in a blank."""

    token: str
    id: int
    text: str
    probability: float

    def facts(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "text": self.text, "probability": self.probability}


@dataclass(frozen=True)
class Filled:
    """A text with blanks: for each hidden token the likeliest ones, all others still hidden, and the whole text.

    The whole is filled token by token, the surest place first, each seeing those that are filled already. Its
    `log_probability` is the sum over these steps.
    """

    text: str
    whole: str
    chosen: tuple[Filler, ...]
    log_probability: float
    blanks: tuple[tuple[Filler, ...], ...]

    def facts(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "whole": self.whole,
            "log_probability": self.log_probability,
            "chosen": [filler.facts() for filler in self.chosen],
            "blanks": [[filler.facts() for filler in one] for one in self.blanks],
        }


@dataclass(frozen=True)
class _Gap:
    """A blank: where it stands in the text, and how many tokens it hides."""

    start: int
    end: int
    count: int


def fill(restorer: Restorer, tokenizer: Tokenizer, text: str, *, top: int = 5, tokens: int = 1) -> Filled:
    """Fills every blank: ____ hides so many `tokens`, and so does the tokenizer's own mask ([MASK], <mask>).

    Masks that touch one another are one blank of several tokens: [MASK][MASK] is a Chinese word of two characters.
    """
    for name, number in (("top", top), ("tokens", tokens)):
        if number < 1:
            raise BadInput(f"{name} is {number}", remedy="give at least 1")
    text = sound(text)
    gaps = _gaps(text, tokenizer.token(restorer.mask), tokens)
    count = sum(gap.count for gap in gaps)
    if not count:
        remedy = f"write ____ or {tokenizer.token(restorer.mask)} where something is to be found"
        raise BadInput("the text has no blank", remedy=remedy)
    if count > MOST:
        raise BadInput(f"{count} tokens are hidden", remedy=f"hide at most {MOST} in one text")
    row, places = _row(text, gaps, tokenizer, restorer.mask)
    allowed = _allowed(text, gaps, tokenizer)
    told = _told(restorer, row, allowed)
    tables = [_table(scores, tokenizer, top) for scores in told]
    chosen, log_probability = _best(restorer, row, places, allowed)
    fillers = [Filler(tokenizer.token(i), i, shown(tokenizer, i), p) for i, p in chosen]
    return Filled(
        text, _whole(text, gaps, chosen, tokenizer), tuple(fillers), log_probability, tuple(map(tuple, tables))
    )


def hidden(text: str, tokenizer: Tokenizer, mask: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of a text in which ____ and the mask's own name hide a token each, and the places of those hidden."""
    text = sound(text)
    return _row(text, _gaps(text, tokenizer.token(mask), 1), tokenizer, mask)


def _gaps(text: str, mask: str, tokens: int) -> list[_Gap]:
    touching = re.finditer(f"(?:{re.escape(mask)})+", text)
    masks = [(found.start(), found.end(), found[0].count(mask)) for found in touching]
    lines = [(found.start(), found.end(), tokens) for found in BLANK.finditer(text)]
    return [_Gap(*gap) for gap in sorted(masks + lines)]


def _row(text: str, gaps: list[_Gap], tokenizer: Tokenizer, mask: int) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the text with the mask in its blanks, and the places of the masks."""
    parts: list[np.ndarray] = []
    at = 0
    for gap in gaps:
        before = text[at : gap.start]
        if tokenizer.kind == "bytepair" and before.endswith(" "):  # there a space belongs to what follows it
            before = before[:-1]
        parts += [tokenizer.encode(before).ids, np.full(gap.count, mask)]
        at = gap.end
    parts.append(tokenizer.encode(text[at:]).ids)
    row = np.concatenate(parts).astype(np.int64)
    return row, np.flatnonzero(row == mask)


def _allowed(text: str, gaps: list[_Gap], tokenizer: Tokenizer) -> list[np.ndarray]:
    """(V,) for each hidden token, True for those that may stand there.

    The first of a blank must begin as the text before it asks for; what comes after it may begin or go on.
    """
    ordinary = np.ones(tokenizer.size, bool)
    ordinary[list(tokenizer.specials)] = False
    made = []
    for gap in gaps:
        first = np.zeros(tokenizer.size, bool)
        first[fitting(text[: gap.start], tokenizer)] = True
        made += [first if first.any() else ordinary, *[ordinary] * (gap.count - 1)]
    return made


def _told(restorer: Restorer, row: np.ndarray, allowed: list[np.ndarray]) -> np.ndarray:
    """(hidden, V) log P of what may stand in each hidden place, shared out among that."""
    scores = np.asarray(restorer.fill([row])[0], np.float64)
    if np.isnan(scores).any():
        raise no_numbers()
    scores = np.where(np.stack(allowed), scores, -np.inf)
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def _table(scores: np.ndarray, tokenizer: Tokenizer, top: int) -> Iterator[Filler]:
    for i in np.argsort(-scores, kind="stable")[:top].tolist():
        if scores[i] > -np.inf:
            yield Filler(tokenizer.token(i), i, shown(tokenizer, i), math.exp(scores[i]))


def _best(
    restorer: Restorer, row: np.ndarray, places: np.ndarray, allowed: list[np.ndarray]
) -> tuple[list[tuple[int, float]], float]:
    """(id, probability) of each hidden token in the order of the text, and the log-probability of all."""
    row, left, total = row.copy(), list(range(len(places))), 0.0
    chosen: list[tuple[int, float]] = [(-1, 0.0)] * len(places)
    while left:
        scores = _told(restorer, row, [allowed[number] for number in left])
        surest = int(scores.max(axis=1).argmax())
        token = int(scores[surest].argmax())
        number = left.pop(surest)
        row[places[number]] = token
        chosen[number] = (token, math.exp(scores[surest, token]))
        total += float(scores[surest, token])
    return chosen, total


def _whole(text: str, gaps: list[_Gap], chosen: list[tuple[int, float]], tokenizer: Tokenizer) -> str:
    """The text with its blanks filled."""
    made, at, number = [], 0, 0
    for gap in gaps:
        ids = [token for token, _ in chosen[number : number + gap.count]]
        filled = tokenizer.decode(ids).strip()
        if tokenizer.prefix and tokenizer.continues[ids[0]]:
            filled = filled.removeprefix(tokenizer.prefix)
        made += [text[at : gap.start], filled]
        at, number = gap.end, number + gap.count
    return "".join([*made, text[at:]])
