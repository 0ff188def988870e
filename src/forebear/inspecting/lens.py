"""How a prediction forms: what the head would say of every layer's state, as if that layer were the last.

("Logit lens", nostalgebraist 2020.) Where the encoder has a norm at its end, each state passes through it, and through
the head's own layer. The last layer's answer is the run's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.labels import following, labels
from forebear.text.characters import sound
from forebear.using.texts import end_of, no_numbers, row_of

if TYPE_CHECKING:
    from forebear.using.run import Run


@dataclass(frozen=True)
class Said:
    """A token and how probable it is; `text` is how a person reads it."""

    token: str
    id: int
    text: str
    probability: float

    def facts(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "text": self.text, "probability": self.probability}


@dataclass(frozen=True)
class Layer:
    """What a layer would say.

    number       0 is the embedding
    candidates   the likeliest tokens
    probability  of the token that is the likeliest in the end, and its rank here, from 1
    entropy      in bits: how unsure it is
    divergence   in bits: Kullback and Leibler's, of what is said in the end from what is said here
    """

    number: int
    candidates: tuple[Said, ...]
    probability: float
    rank: int
    entropy: float
    divergence: float

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"layer": self.number, "probability": self.probability, "rank": self.rank}
        told |= {"entropy": self.entropy, "divergence": self.divergence}
        return told | {"candidates": [one.facts() for one in self.candidates]}


@dataclass(frozen=True)
class Lens:
    """How what is said of one place forms, layer by layer.

    tokens  those that were read, as labels
    place   which of them was asked, from 1
    head    "next": what comes after it; "token": what is hidden there
    """

    text: str
    tokens: tuple[str, ...]
    place: int
    head: str
    layers: tuple[Layer, ...]

    @property
    def chosen(self) -> Said:
        """What is the likeliest in the end."""
        return self.layers[-1].candidates[0]

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.text, "tokens": list(self.tokens), "place": self.place}
        told |= {"head": self.head, "chosen": self.chosen.facts()}
        return told | {"layers": [layer.facts() for layer in self.layers]}


def lens(run: Run, text: str, *, at: int | None = None, top: int = 5) -> Lens:
    """What every layer would say comes next, or is hidden.

    at   after which token of the text, from 1 or from the end, by itself the last; where tokens are hidden, which of
         those, by itself the first
    top  candidates of each layer
    """
    if top < 1:
        raise BadInput(f"--top is {top}", remedy="ask for at least 1 candidate")
    if run.folder.milestone.learning == "counting":
        raise BadInput("counts: it has no layers", file=run.folder.path, remedy="look at a network (gpt2, bert, …)")
    from forebear.networks.transformer import Transformer

    if "translation" in run.heads:
        what, remedy = "translates: what comes next depends on a source", "look at inspect attention"
        raise BadInput(what, file=run.folder.path, remedy=remedy)
    if not isinstance(run.model.encoder, Transformer):
        what, remedy = "has one layer, which is what predicts", "look at a Transformer (gpt2, bert, …)"
        raise BadInput(what, file=run.folder.path, remedy=remedy)
    if "next" in run.heads:
        head, (row, place) = "next", _following(run, text, at)
    elif "token" in run.heads:
        head, (row, place) = "token", _hidden(run, text, at)
    else:
        remedy = f"look at a run that predicts tokens; this one can be asked to: {', '.join(run.verbs)}"
        raise BadInput("predicts no tokens", file=run.folder.path, remedy=remedy)
    scores = _scores(run, head, row, place)
    read = row.tolist()
    before = read[: place + 1] if head == "next" else read[:place]
    chosen = int(scores[-1].argmax())
    layers = (_layer(run, number, one, scores[-1], (chosen, before), top) for number, one in enumerate(scores))
    return Lens(text, labels(run.tokenizer, read), place + 1, head, tuple(layers))


def _following(run: Run, text: str, at: int | None) -> tuple[np.ndarray, int]:
    """The row up to the place, as far as the context reaches; what comes later is not seen anyway."""
    from forebear.networks.windows import beginning

    row = row_of(run.tokenizer.encode(sound(text)).ids, end_of(run.tokenizer), ends=False)
    if at is not None:
        row = row[: _counted(at, len(row) - 1, "token") + 1]
    context = run.model.encoder.context
    assert context is not None
    row = row[beginning(len(row), context) :]
    return row, len(row) - 1


def _hidden(run: Run, text: str, at: int | None) -> tuple[np.ndarray, int]:
    from forebear.using.filling import hidden

    restorer = run.restorer
    row, places = hidden(text, run.tokenizer, restorer.mask)
    if not len(places):
        remedy = f"write ____ or {run.tokenizer.token(restorer.mask)} where something is to be found"
        raise BadInput("the text has no blank", remedy=remedy)
    if len(row) > restorer.room:
        raise BadInput(f"{len(row):,} tokens do not fit into a row of {restorer.room:,}", remedy="give a shorter text")
    number = _counted(1 if at is None else at, len(places), "hidden token")
    return np.concatenate(([restorer.start], row, [restorer.end])).astype(np.int64), int(places[number - 1]) + 1


def _counted(at: int, count: int, what: str) -> int:
    number = at if at > 0 else count + 1 + at
    if at == 0 or not 1 <= number <= count:
        raise BadInput(f"there is no {what} {at}", remedy=f"give 1 to {count}, or -1 (the last) to -{count}")
    return number


def _scores(run: Run, head: str, row: np.ndarray, place: int) -> list[np.ndarray]:
    """(V,) log P of every token by each layer, the embedding first."""
    import torch

    from forebear.networks.batching import states_of
    from forebear.networks.states import States
    from forebear.networks.transformer import Transformer

    model = run.model.eval()
    assert isinstance(model.encoder, Transformer)
    norm = model.encoder.final_norm
    with torch.inference_mode():
        layers = states_of(model, [row]).layers
        found = []
        for number, layer in enumerate(layers):
            x = layer[place : place + 1]
            x = norm(x) if norm is not None and number < len(layers) - 1 else x  # the last has passed it already
            logits = model.heads[head](States([x], (1,)))
            found.append(torch.log_softmax(logits.float(), -1)[0].cpu().double().numpy())
    if any(np.isnan(scores).any() for scores in found):
        raise no_numbers()
    return found


def _layer(
    run: Run, number: int, scores: np.ndarray, final: np.ndarray, asked: tuple[int, list[int]], top: int
) -> Layer:
    """`asked`: the token that is said in the end, and those that stand before it."""
    tokenizer, (chosen, before) = run.tokenizer, asked
    best = np.argsort(-scores[: tokenizer.size], kind="stable")[:top].tolist()
    told = (Said(tokenizer.token(i), i, following(tokenizer, before, i), math.exp(scores[i])) for i in best)
    possible, likely = np.exp(scores) > 0, np.exp(final) > 0
    entropy = -float((np.exp(scores[possible]) * scores[possible]).sum()) / math.log(2)
    divergence = float((np.exp(final[likely]) * (final[likely] - scores[likely])).sum()) / math.log(2)
    rank = int((scores > scores[chosen]).sum()) + 1
    return Layer(number, tuple(told), math.exp(scores[chosen]), rank, entropy, max(divergence, 0.0))
