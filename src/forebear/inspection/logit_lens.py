"""How a prediction forms: what the head would say of every layer's state, as if that layer were the last.

("Logit lens", nostalgebraist 2020.) Where the encoder has a norm at its end, each state passes through it, and through
the head's own layer. The last layer's answer is the run's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError
from forebear.inference.predictor import eos_id, make_row, non_finite_error
from forebear.inspection.token_labels import label_notes, next_label, token_labels
from forebear.reports.plotting import (
    ACCENT,
    INK,
    SOFT,
    blue_colormap,
    figure_bytes,
    new_figure,
    plot_style,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from forebear.inference.run import Run


@dataclass(frozen=True)
class LensToken:
    """A token and how probable it is; `text` is how a person reads it."""

    token: str
    id: int
    text: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "text": self.text, "probability": self.probability}


@dataclass(frozen=True)
class LensLayer:
    """What a layer would say.

    number       0 is the embedding
    candidates   the likeliest tokens
    probability  of the token that is the likeliest in the end, and its rank here, from 1
    entropy      in bits: how unsure it is
    divergence   in bits: Kullback and Leibler's, of what is said in the end from what is said here
    """

    layer: int
    candidates: tuple[LensToken, ...]
    probability: float
    rank: int
    entropy: float
    divergence: float

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"layer": self.layer, "probability": self.probability, "rank": self.rank}
        told |= {"entropy": self.entropy, "divergence": self.divergence}
        return told | {"candidates": [one.to_dict() for one in self.candidates]}


@dataclass(frozen=True)
class LogitLens:
    """How what is said of one place forms, layer by layer.

    tokens  those that were read, as labels
    place   which of them was asked, from 1
    head    "next": what comes after it; "token": what is hidden there
    """

    text: str
    tokens: tuple[str, ...]
    position: int
    head: str
    layers: tuple[LensLayer, ...]

    @property
    def predicted_token(self) -> LensToken:
        """What is the likeliest in the end."""
        return self.layers[-1].candidates[0]

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"text": self.text, "tokens": list(self.tokens), "place": self.position}
        told |= {"head": self.head, "chosen": self.predicted_token.to_dict()}
        return told | {"layers": [layer.to_dict() for layer in self.layers]}


def logit_lens(run: Run, text: str, *, at: int | None = None, top: int = 5) -> LogitLens:
    """What every layer would say comes next, or is hidden.

    at   after which token of the text, from 1 or from the end, by itself the last; where tokens are hidden, which of
         those, by itself the first
    top  candidates of each layer
    """
    if top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least 1 candidate")
    if run.folder.spec.learning == "counting":
        raise InputError("counts: it has no layers", file=run.folder.path, hint="look at a network (gpt2, bert, …)")
    from forebear.nn.transformer import Transformer

    if "translation" in run.heads:
        what, hint = "translates: what comes next depends on a source", "look at inspect attention"
        raise InputError(what, file=run.folder.path, hint=hint)
    if not isinstance(run.model.encoder, Transformer):
        what, hint = "has one layer, which is what predicts", "look at a Transformer (gpt2, bert, …)"
        raise InputError(what, file=run.folder.path, hint=hint)
    if "next" in run.heads:
        head, (row, place) = "next", _following(run, text, at)
    elif "token" in run.heads:
        head, (row, place) = "token", _hidden(run, text, at)
    else:
        hint = f"look at a run that predicts tokens; this one can be asked to: {', '.join(run.capabilities)}"
        raise InputError("predicts no tokens", file=run.folder.path, hint=hint)
    scores = _scores(run, head, row, place)
    read = row.tolist()
    before = read[: place + 1] if head == "next" else read[:place]
    chosen = int(scores[-1].argmax())
    layers = (_layer(run, number, one, scores[-1], (chosen, before), top) for number, one in enumerate(scores))
    return LogitLens(text, token_labels(run.tokenizer, read), place + 1, head, tuple(layers))


def _following(run: Run, text: str, at: int | None) -> tuple[np.ndarray, int]:
    """The row up to the place, as far as the context reaches; what comes later is not seen anyway."""
    from forebear.nn.kv_cache import context_start

    row = make_row(run.tokenizer.encode(replace_surrogates(text)).ids, eos_id(run.tokenizer), ends=False)
    if at is not None:
        row = row[: _counted(at, len(row) - 1, "token") + 1]
    context = run.model.encoder.max_length
    assert context is not None
    row = row[context_start(len(row), context) :]
    return row, len(row) - 1


def _hidden(run: Run, text: str, at: int | None) -> tuple[np.ndarray, int]:
    from forebear.inference.fill import mask_blanks

    restorer = run.masked_lm
    row, places = mask_blanks(text, run.tokenizer, restorer.mask)
    if not len(places):
        hint = f"write ____ or {run.tokenizer.id_to_token(restorer.mask)} where something is to be found"
        raise InputError("the text has no blank", hint=hint)
    if len(row) > restorer.max_text_tokens:
        raise InputError(
            f"{len(row):,} tokens do not fit into a row of {restorer.max_text_tokens:,}", hint="give a shorter text"
        )
    number = _counted(1 if at is None else at, len(places), "hidden token")
    return np.concatenate(([restorer.start], row, [restorer.end])).astype(np.int64), int(places[number - 1]) + 1


def _counted(at: int, count: int, what: str) -> int:
    number = at if at > 0 else count + 1 + at
    if at == 0 or not 1 <= number <= count:
        raise InputError(f"there is no {what} {at}", hint=f"give 1 to {count}, or -1 (the last) to -{count}")
    return number


def _scores(run: Run, head: str, row: np.ndarray, place: int) -> list[np.ndarray]:
    """(V,) log P of every token by each layer, the embedding first."""
    import torch

    from forebear.nn.encode_rows import encode_rows
    from forebear.nn.encoder import States
    from forebear.nn.transformer import Transformer

    model = run.model.eval()
    assert isinstance(model.encoder, Transformer)
    norm = model.encoder.final_norm
    with torch.inference_mode():
        layers = encode_rows(model, [row]).layers
        found = []
        for number, layer in enumerate(layers):
            x = layer[place : place + 1]
            x = norm(x) if norm is not None and number < len(layers) - 1 else x  # the last has passed it already
            logits = model.heads[head](States([x], (1,)))
            found.append(torch.log_softmax(logits.float(), -1)[0].cpu().double().numpy())
    if any(np.isnan(scores).any() for scores in found):
        raise non_finite_error()
    return found


def _layer(
    run: Run, number: int, scores: np.ndarray, final: np.ndarray, asked: tuple[int, list[int]], top: int
) -> LensLayer:
    """`asked`: the token that is said in the end, and those that stand before it."""
    tokenizer, (chosen, before) = run.tokenizer, asked
    best = np.argsort(-scores[: tokenizer.vocab_size], kind="stable")[:top].tolist()
    told = (LensToken(tokenizer.id_to_token(i), i, next_label(tokenizer, before, i), math.exp(scores[i])) for i in best)
    possible, likely = np.exp(scores) > 0, np.exp(final) > 0
    entropy = -float((np.exp(scores[possible]) * scores[possible]).sum()) / math.log(2)
    divergence = float((np.exp(final[likely]) * (final[likely] - scores[likely])).sum()) / math.log(2)
    rank = int((scores > scores[chosen]).sum()) + 1
    return LensLayer(number, tuple(told), math.exp(scores[chosen]), rank, entropy, max(divergence, 0.0))


# How a prediction forms, as a picture: the likeliest tokens of every layer, and how sure it is of the last one's.


def plot_logit_lens(lens: LogitLens, title: str, form: str) -> bytes:
    names = [[shorten_label(one.text, 10) for one in layer.candidates] for layer in lens.layers]
    asked = lens.tokens[lens.position - 1]
    with plot_style([title, "“”", asked, lens.predicted_token.text, *(name for line in names for name in line)]):
        columns = len(names[0])
        figure = new_figure(0.85 * columns + 5.2, 0.46 * len(names) + 1.7)
        left, middle, right = figure.subplots(1, 3, width_ratios=(0.85 * columns, 1.7, 1.7), sharey=True)
        _candidates(left, lens, names)
        said = shorten_label(lens.predicted_token.text)
        layers = [layer.layer for layer in lens.layers]
        sure = [100 * layer.probability for layer in lens.layers]
        unsure, further = ([getattr(layer, name) for layer in lens.layers] for name in ("entropy", "divergence"))
        how: Any = {"ms": 3.5, "clip_on": False, "zorder": 3}
        middle.plot(sure, layers, marker="o", color="#1c4f9c", **how)
        middle.set(xlim=(0, max(sure) * 1.1), xlabel=f"how sure of “{said}” (%)")
        right.plot(unsure, layers, marker="o", color=SOFT, label="entropy: how unsure", **how)
        right.plot(further, layers, marker="s", color=ACCENT, ls="--", label="KL: how far from the end", **how)
        right.set(xlabel="bits", xlim=(0, max(*unsure, *further, 0.1) * 1.1))
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False, fontsize=8)
        for axes in (middle, right):
            axes.locator_params(axis="x", nbins=4)
            axes.grid(axis="both", color="#eceae6", lw=0.6)
            axes.tick_params(length=0, labelleft=False)
            axes.spines[["top", "right"]].set_visible(False)
        after = f"comes after “{shorten_label(asked)}”" if lens.head == "next" else "is hidden"
        figure.suptitle(f"{title}\nwhat {after}, if each layer were the last", fontsize=11)
        return figure_bytes(figure, form)


def _candidates(axes: Axes, lens: LogitLens, names: list[list[str]]) -> None:
    """The likeliest first, coloured by how likely they are; what is said in the end is framed."""
    from matplotlib.patches import Rectangle

    shares = np.array([[one.probability for one in layer.candidates] for layer in lens.layers])
    axes.imshow(shares, cmap=blue_colormap(), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for row, (layer, line) in enumerate(zip(lens.layers, names, strict=True)):
        for column, (one, name) in enumerate(zip(layer.candidates, line, strict=True)):
            colour = "white" if one.probability > 0.55 else INK
            axes.text(column, row - 0.04, name, ha="center", va="bottom", fontsize=8.5, color=colour)
            axes.text(column, row + 0.1, f"{one.probability:.1%}", ha="center", va="top", fontsize=6.5, color=colour)
            if one.id == lens.predicted_token.id:
                frame = Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, fill=False, edgecolor=ACCENT, lw=1.2)
                axes.add_patch(frame)
    axes.set_yticks(range(len(names)), ["embedding", *(f"layer {layer.layer}" for layer in lens.layers[1:])])
    axes.set_xticks(range(len(names[0])), [str(rank + 1) for rank in range(len(names[0]))])
    notes = label_notes([name for line in names for name in line])
    axes.set_xlabel("; ".join(["likeliest first", "framed: what is said in the end", *notes]))
    axes.tick_params(length=0)
