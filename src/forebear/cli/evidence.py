"""The evidence behind a probability, as sentences that a person reads from the longest context to the shortest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forebear.cli.many import plain

if TYPE_CHECKING:
    from rich.console import Console

    from forebear.statistics.evidence import Evidence, Step

TOO_RARE = "too rare for this model (--prune)"


def draw_evidence(console: Console, found: Evidence, token: str, end: int) -> None:
    """Prints the lines of one token; `end` is the id with which a text begins."""
    for line in lines(found, token, end):
        console.print(plain(line), soft_wrap=True, highlight=False)


def lines(found: Evidence, token: str, end: int) -> Iterator[str]:
    """`token: 2 of the 3 times after …`, below it what shorter contexts add, and the sum where there are several."""
    told = [(_sentence(found, place, end), step.part) for place, step in enumerate(found.steps)]
    if found.rest:
        told.append((f"it is one of {found.among:,} tokens{_weighed(found.rest)}", found.even))
    added = 0
    for number, (sentence, part) in enumerate(told):
        before = f"{token}: " if number == 0 else "  + " if part and added else "    "
        yield f"{before}{sentence} → {part:.4g}" if part else f"{before}{sentence}"
        added += part > 0
    if added > 1:
        yield f"  = {found.probability:.4g}"


def _sentence(found: Evidence, place: int, end: int) -> str:
    step = found.steps[place]
    last = place + 1 == len(found.steps)
    onward = "" if last else f"; backed off to {_name(found.steps[place + 1], end)}"
    if step.seen is None:
        return _listed(step, end) + onward
    if step.context and not step.seen:
        return f"{_name(step, end)} was never seen{onward}"
    if not step.is_known:
        return f"{_name(step, end)} was seen {_often(step.seen)}: {TOO_RARE}{onward}"
    where = _where(step, end)
    if not step.is_listed and step.times:
        return f"{_times(step)} {where}{_followers(step)}: {TOO_RARE}{onward}"
    if not step.is_listed:
        never = "something else the only time" if step.seen == 1 else f"never in the {step.seen:,} times"
        return f"{never} {where}{_followers(step)}{onward}"
    return f"{_times(step)} {where}{_followed(found, step)}{_taken(found, step)}{_weighed(step.weight)}"


def _times(step: Step) -> str:
    if step.seen == 1:
        return "the only time"
    return f"{step.times:,} of the {step.seen:,} times"


def _followed(found: Evidence, step: Step) -> str:
    return _followers(step) if found.smoothing in ("witten-bell", "kneser-ney") and step.context else ""


def _followers(step: Step) -> str:
    if step.seen == 1:
        return ""
    return f" ({step.followers:,} different token{'' if step.followers == 1 else 's'})"


def _taken(found: Evidence, step: Step) -> str:
    """What was made of the count."""
    told = ""
    if (step.counted, step.of) != (step.times, step.seen):
        told = f", by different tokens before it: {step.counted:,} of {step.of:,}"
    if step.pruned:
        told += f", {step.pruned:,} of them pruned"
    if step.discount:
        told += f", less {step.discount:.4g}"
    if found.smoothing == "stupid" and step.times and step.seen and step.share:
        told += f", ÷ {step.times / step.seen / step.share:.4g}, to which all after it sum"
    if found.smoothing == "add":
        told += f", with {found.k:g} more for each of {found.among:,} tokens"
    return told


def _weighed(weight: float) -> str:
    return "" if weight == 1 else f", × {weight:.4g} left"


def _listed(step: Step, end: int) -> str:
    """Of probabilities from elsewhere."""
    if step.log is not None:
        return f"log10 P {_where(step, end)} is {step.log / math.log(10):.6g}{_weighed(step.weight)}"
    if not step.is_known:
        return f"{_name(step, end)} is not listed"
    backoff = 0.0 if step.backoff is None else step.backoff / math.log(10)
    return f"not listed {_where(step, end)}, which hands on log10 {backoff:.6g}"


def _often(times: int | None) -> str:
    return "one time" if times == 1 else f"{times:,} times"


def _where(step: Step, end: int) -> str:
    if not step.context:
        return "in all"
    return _name(step, end) if step.context == (end,) else f"after {_name(step, end)}"


def _name(step: Step, end: int) -> str:
    """The context in words. What begins with the end of a text is its beginning."""
    if not step.context:
        return "the token alone"
    begins = step.context[0] == end
    words = " ".join(step.words[begins:])
    if any(character.isascii() and not character.isspace() for character in words):
        words = f"‘{words}’"  # told apart from the sentence that it stands in
    return "at the beginning of a text" if begins and not words else words + (" at the beginning" if begins else "")
