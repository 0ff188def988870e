"""How much each word speaks for what a linear model says: exactly the weights of the n-grams that it is part of.

The score is the logit above the mean of all labels' (of two labels times two: the log-odds). Weights that were learned
with a penalty have no common part, so that the mean changes nothing but what there is without any word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forebear.inspecting.targets import Point, Target
from forebear.inspecting.tracing import Traced
from forebear.objectives.batch import Arrays
from forebear.statistics.linear import LinearModel
from forebear.tasks.task import Logits
from forebear.text.tokenizer import Tokenizer

SIDES = {"first": (0,), "second": (1,), "both": (0, 1), "text": (0, 1)}  # where n-grams of texts are found


@dataclass(frozen=True)
class Feature:
    """What a linear model looks at: an n-gram as text, or "" for a figure; where it stands, or the figure's name; and
    what it adds to the score."""

    text: str
    where: str
    value: float

    def facts(self) -> dict[str, Any]:
        return {"text": self.text, "where": self.where, "value": round(self.value, 6)}


@dataclass(frozen=True, eq=False)
class Weighed:
    """values (T,) of tokens; what no token can be blamed for; the score, what it is without any word; all features."""

    values: np.ndarray
    elsewhere: float
    score: float
    baseline: float
    features: tuple[Feature, ...]


def weighed(network: Any, traced: Traced, target: Target, logits: Logits, tokenizer: Tokenizer) -> Weighed:
    """An n-gram's share is divided alike among its tokens, wherever they stand; that of a figure is no token's."""
    inputs = traced.rows.batch([0]).inputs
    values, elsewhere, score, told = np.zeros(len(traced.owners)), 0.0, target.shift, 0.0
    features: dict[tuple[tuple[int, ...], str], float] = {}
    for point in target.points:
        score += point.scale * _logit(logits, point, centred=network.kind in ("label", "tag"))
        for share in network.weights_of(inputs, point.number, head=point.head, answer=point.answer):
            value = share.value * point.scale
            skipped = network.skipped if isinstance(network, LinearModel) else ()
            places = _places(share, traced, inputs, point.head, point.number, skipped)
            width = max(1, len(places))
            for place in places:
                if place is None:
                    elsewhere += value / width
                else:
                    values[place] += value / width
            elsewhere += 0.0 if places else value
            told += value
            key = (share.tokens, share.where)
            features[key] = features.get(key, 0.0) + value
    named = (Feature(_text(tokenizer, tokens), where, value) for (tokens, where), value in features.items())
    ordered = sorted(named, key=lambda one: -abs(one.value))
    return Weighed(values, elsewhere, score, score - told, tuple(ordered))


def _logit(logits: Logits, point: Point, *, centred: bool) -> float:
    """The logit; `centred`: above the mean of all answers', as what they have in common says nothing."""
    if point.head == "choice":
        return float(logits["choice"][0][point.number])
    found = logits["label"][0] if point.head == "label" else np.concatenate(logits[point.head])[point.number]
    if point.head in ("start", "end"):
        return float(found)
    return float(found[point.answer or 0] - (found.mean() if centred else 0.0))


def _places(share: Any, traced: Traced, inputs: Arrays, head: str, number: int, skipped: Any) -> list[int | None]:
    """The tokens that a feature is made of; None for one that lies outside of the row; none for a figure."""
    if share.at is not None:
        begin, end = _row_of(inputs, number)
        return [number + one if begin <= number + one < end else None for one in share.at]
    if not share.tokens:
        return []
    if head in ("tag", "start", "end"):
        asked = not share.where.lstrip("+-").isdigit()  # else it is how far the feature is from the token
        return list(_asked(share, traced, inputs, number) if asked else _around(share, inputs, number))
    rows = [number] if head == "choice" else range(len(inputs["lengths"]))
    ends = np.cumsum(inputs["lengths"])
    wanted, places = np.array(share.tokens), []
    for row in rows:
        here = np.arange(ends[row] - inputs["lengths"][row], ends[row])
        here = here[~np.isin(inputs["tokens"][here], np.asarray(skipped))]
        for side in SIDES[share.where]:
            own = here[traced.rows.segments[here] == side]
            if len(own) >= len(wanted):
                windows = np.lib.stride_tricks.sliding_window_view(own, len(wanted))
                matching = (inputs["tokens"][windows] == wanted).all(axis=1)
                places += windows[matching].ravel().tolist()
    return places


def _row_of(inputs: Arrays, number: int) -> tuple[int, int]:
    """Where the row of a token begins and ends."""
    ends = np.cumsum(inputs["lengths"])
    row = int(np.searchsorted(ends, number, side="right"))
    return int(ends[row] - inputs["lengths"][row]), int(ends[row])


def _asked(share: Any, traced: Traced, inputs: Arrays, number: int) -> Iterator[int]:
    """Of a word of the question: wherever it stands there."""
    begin, end = _row_of(inputs, number)
    for place in range(begin, end):
        if traced.rows.segments[place] == 0 and (int(inputs["tokens"][place]),) == share.tokens:
            yield place


def _around(share: Any, inputs: Arrays, number: int) -> Iterator[int | None]:
    """Of a feature around a word: its last token stands so far from the word as its name says."""
    begin, end = _row_of(inputs, number)
    for back, token in enumerate(reversed(share.tokens)):
        place = number + int(share.where) - back
        yield place if begin <= place < end and int(inputs["tokens"][place]) == token else None


def _text(tokenizer: Tokenizer, tokens: tuple[int, ...]) -> str:
    """An n-gram as a person reads it; what lies outside of the text is a dot."""
    parts = [tokenizer.decode([token]).strip() or tokenizer.token(token) if token >= 0 else "·" for token in tokens]
    return " ".join(parts)
