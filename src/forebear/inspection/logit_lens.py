"""Logit lens: the head's prediction from every layer's state, as if it were the last (nostalgebraist 2020).

States pass through the encoder's final LayerNorm, if it has one, and the head. The last layer gives the model's actual
prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.inference.next_tokens import TokenCandidate
from forebear.inference.predictor_protocols import eos_id, make_row, reject_nan
from forebear.inspection.token_labels import label_notes, next_label, resolve_number, token_labels
from forebear.reports.plotting import (
    ACCENT,
    BLUE,
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

    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.run import Run


@dataclass(frozen=True)
class LensLayer:
    """The prediction of a layer.

    layer        0 is the embedding
    probability  of the final prediction in this layer; `rank` is its rank, from 1
    entropy      in bits
    divergence   Kullback–Leibler divergence of the final distribution from this one, in bits
    candidates   most probable tokens
    """

    layer: int
    probability: float
    rank: int
    entropy: float
    divergence: float
    candidates: tuple[TokenCandidate, ...]

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {"candidates": [candidate.to_dict() for candidate in self.candidates]}


@dataclass(frozen=True)
class LogitLens:
    """Predictions for one position, layer by layer.

    tokens    labels of the input tokens
    position  from which the token is predicted, counted from 1
    head      "next" (the following token) or "token" (the masked token)
    """

    text: str
    tokens: tuple[str, ...]
    position: int
    head: str
    layers: tuple[LensLayer, ...]

    @property
    def predicted_token(self) -> TokenCandidate:
        """The most probable token of the last layer."""
        return self.layers[-1].candidates[0]

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "place": self.position,
            "head": self.head,
            "chosen": self.predicted_token.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
        }


def logit_lens(run: Run, text: str, *, at: int | None = None, top: int = 5) -> LogitLens:
    """Predictions of every layer for the next or a masked token.

    Args:
        run: A Transformer that predicts tokens.
        text: The text, with blanks for masked language models.
        at: Predict after this token (from 1, or from the end; default: the last), or this mask (default: the first).
        top: Candidates per layer.
    """
    if top < 1:
        raise InputError(f"--top is {top}", hint="ask for at least 1 candidate")
    if run.folder.spec.learning == "counting":
        raise InputError("counts: it has no layers", file=run.folder.path, hint="look at a network (gpt2, bert, …)")
    from forebear.nn.transformer import Transformer

    if "translation" in run.heads:
        message, hint = "translates: what comes next depends on a source", "look at inspect attention"
        raise InputError(message, file=run.folder.path, hint=hint)
    if not isinstance(run.encoder, Transformer):  # word vectors have no encoder
        message, hint = "has one layer, which is what predicts", "look at a Transformer (gpt2, bert, …)"
        raise InputError(message, file=run.folder.path, hint=hint)
    if "next" in run.heads:
        head, (row, position) = "next", _next_position(run, text, at)
    elif "token" in run.heads:
        head, (row, position) = "token", _masked_position(run, text, at)
    else:
        hint = f"look at a run that predicts tokens; this one can be asked to: {', '.join(run.capabilities)}"
        raise InputError("predicts no tokens", file=run.folder.path, hint=hint)
    row_ids = row.tolist()
    preceding_ids = row_ids[: position + 1] if head == "next" else row_ids[:position]
    layers = _lens_layers(run.tokenizer, _layer_log_probs(run, head, row, position), preceding_ids, top)
    return LogitLens(text, token_labels(run.tokenizer, row_ids), position + 1, head, tuple(layers))


def _next_position(run: Run, text: str, token_number: int | None) -> tuple[np.ndarray, int]:
    """Token ids up to the position, limited to the context, and the position."""
    from forebear.nn.kv_cache import context_start

    row = make_row(run.tokenizer.encode(replace_surrogates(text)).ids, eos_id(run.tokenizer), ends=False)
    if token_number is not None:
        row = row[: resolve_number(token_number, len(row) - 1, "token") + 1]
    context = run.model.encoder.max_length
    assert context is not None
    row = row[context_start(len(row), context) :]
    return row, len(row) - 1


def _masked_position(run: Run, text: str, mask_number: int | None) -> tuple[np.ndarray, int]:
    """Token ids of the text, and the position of the mask."""
    from forebear.inference.fill import mask_blanks, no_blank_error

    masked_lm = run.masked_lm
    row, positions = mask_blanks(text, run.tokenizer, masked_lm.mask_id)
    if not len(positions):
        raise no_blank_error(run.tokenizer, masked_lm.mask_id)
    if len(row) > masked_lm.max_text_tokens:
        message = f"{len(row):,} tokens do not fit into a row of {masked_lm.max_text_tokens:,}"
        raise InputError(message, hint="give a shorter text")
    resolved_number = resolve_number(1 if mask_number is None else mask_number, len(positions), "hidden token")
    return np.concatenate(([masked_lm.start_id], row, [masked_lm.end_id])).astype(np.int64), int(
        positions[resolved_number - 1]
    ) + 1


def _layer_log_probs(run: Run, head: str, row: np.ndarray, position: int) -> list[np.ndarray]:
    """(V,) log P of every token from each layer, the embedding first."""
    import torch

    from forebear.nn.encode_rows import encode_rows
    from forebear.nn.encoder import States
    from forebear.nn.inference_mode import inference_mode
    from forebear.nn.transformer import Transformer

    model = run.model.eval()
    assert isinstance(model.encoder, Transformer)
    norm = model.encoder.final_norm
    with inference_mode():
        layers = encode_rows(model, [row]).layers
        layer_scores = []
        for index, layer in enumerate(layers):
            state = layer[position : position + 1]
            if norm is not None and index < len(layers) - 1:  # the last layer is normalized already
                state = norm(state)
            logits = model.heads[head](States([state], (1,)))
            layer_scores.append(torch.log_softmax(logits.float(), -1)[0].cpu().double().numpy())
    return [reject_nan(scores) for scores in layer_scores]


def _lens_layers(
    tokenizer: Tokenizer, scores: list[np.ndarray], preceding_ids: list[int], top: int
) -> Iterator[LensLayer]:
    """The prediction of each layer from its log probabilities, after the preceding tokens."""
    final_log_probs, predicted_id = scores[-1], int(scores[-1].argmax())
    is_likely = np.exp(final_log_probs) > 0
    for index, log_probs in enumerate(scores):
        probabilities = np.exp(log_probs)
        is_possible = probabilities > 0
        entropy = -float((probabilities[is_possible] * log_probs[is_possible]).sum()) / math.log(2)
        log_ratios = final_log_probs[is_likely] - log_probs[is_likely]
        divergence = float((np.exp(final_log_probs[is_likely]) * log_ratios).sum()) / math.log(2)
        candidates = []
        for token_id in np.argsort(-log_probs[: tokenizer.vocab_size], kind="stable")[:top].tolist():
            token, label = tokenizer.id_to_token(token_id), next_label(tokenizer, preceding_ids, token_id)
            candidates.append(TokenCandidate(token, token_id, label, math.exp(log_probs[token_id])))
        probability, rank = math.exp(log_probs[predicted_id]), int((log_probs > log_probs[predicted_id]).sum()) + 1
        yield LensLayer(index, probability, rank, entropy, max(divergence, 0.0), tuple(candidates))


# --- Figure: candidates of every layer, probability, entropy and divergence ---


def plot_logit_lens(lens: LogitLens, title: str, file_format: str) -> bytes:
    names = [[shorten_label(candidate.text, 10) for candidate in layer.candidates] for layer in lens.layers]
    token_label = lens.tokens[lens.position - 1]
    with plot_style([title, "“”", token_label, lens.predicted_token.text, *chain.from_iterable(names)]):
        columns = len(names[0])
        figure = new_figure(0.85 * columns + 5.2, 0.46 * len(names) + 1.7)
        width_ratios = (0.85 * columns, 1.7, 1.7)
        candidate_axes, probability_axes, entropy_axes = figure.subplots(1, 3, width_ratios=width_ratios, sharey=True)
        _plot_candidates(candidate_axes, lens, names)
        predicted = shorten_label(lens.predicted_token.text)
        layers = [layer.layer for layer in lens.layers]
        probabilities = [100 * layer.probability for layer in lens.layers]
        entropies, divergences = ([getattr(layer, name) for layer in lens.layers] for name in ("entropy", "divergence"))
        style: Any = {"ms": 3.5, "clip_on": False, "zorder": 3}
        kl_style: Any = {"marker": "s", "color": ACCENT, "ls": "--"} | style
        probability_axes.plot(probabilities, layers, marker="o", color=BLUE, **style)
        probability_axes.set(xlim=(0, max(probabilities) * 1.1), xlabel=f"how sure of “{predicted}” (%)")
        entropy_axes.plot(entropies, layers, marker="o", color=SOFT, label="entropy: how unsure", **style)
        entropy_axes.plot(divergences, layers, label="KL: how far from the end", **kl_style)
        entropy_axes.set(xlabel="bits", xlim=(0, max(*entropies, *divergences, 0.1) * 1.1))
        legend = entropy_axes.get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower right", ncols=2, frameon=False, fontsize=8)
        for axes in (probability_axes, entropy_axes):
            axes.locator_params(axis="x", nbins=4)
            axes.grid(axis="both", color="#eceae6", lw=0.6)
            axes.tick_params(length=0, labelleft=False)
            axes.spines[["top", "right"]].set_visible(False)
        subject = f"comes after “{shorten_label(token_label)}”" if lens.head == "next" else "is hidden"
        figure.suptitle(f"{title}\nwhat {subject}, if each layer were the last", fontsize=11)
        return figure_bytes(figure, file_format)


def _plot_candidates(axes: Axes, lens: LogitLens, names: list[list[str]]) -> None:
    """Candidates by rank, colored by probability; the final prediction is framed."""
    from matplotlib.patches import Rectangle

    probabilities = np.array([[candidate.probability for candidate in layer.candidates] for layer in lens.layers])
    axes.imshow(probabilities, cmap=blue_colormap(), vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for row, (layer, layer_names) in enumerate(zip(lens.layers, names, strict=True)):
        for column, (candidate, name) in enumerate(zip(layer.candidates, layer_names, strict=True)):
            color = "white" if candidate.probability > 0.55 else INK
            axes.text(column, row - 0.04, name, ha="center", va="bottom", fontsize=8.5, color=color)
            probability_text = f"{candidate.probability:.1%}"
            axes.text(column, row + 0.1, probability_text, ha="center", va="top", fontsize=6.5, color=color)
            if candidate.id == lens.predicted_token.id:
                frame = Rectangle((column - 0.47, row - 0.44), 0.94, 0.88, fill=False, edgecolor=ACCENT, lw=1.2)
                axes.add_patch(frame)
    axes.set_yticks(range(len(names)), ["embedding", *(f"layer {layer.layer}" for layer in lens.layers[1:])])
    axes.set_xticks(range(len(names[0])), [str(rank + 1) for rank in range(len(names[0]))])
    notes = label_notes([*chain.from_iterable(names)])
    axes.set_xlabel("; ".join(["likeliest first", "framed: what is said in the end", *notes]))
    axes.tick_params(length=0)
