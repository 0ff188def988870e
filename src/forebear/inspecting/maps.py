"""Where tokens look: the attention weights of every layer and head of a text, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.errors import BadInput
from forebear.inspecting.labels import labels
from forebear.text.characters import sound
from forebear.using.texts import no_numbers

if TYPE_CHECKING:
    from forebear.using.run import Run

Kind = Literal["self", "masked", "cross"]
NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "attention to the source",
}


@dataclass(frozen=True, eq=False)
class Map:
    """Where tokens look.

    weights  (layers, heads, n, m) from each of n tokens to each of m; each row sums to 1
    rows     the n tokens that look
    columns  the m tokens that are looked at: the same ones, unless the kind is "cross"
    kind     "self": each sees all; "masked": itself and those before it; "cross": a target's tokens see a source's
    borders  the numbers of tokens with which a further text begins
    """

    weights: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    kind: Kind
    name: str
    borders: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.weights.shape[2:] != (len(self.rows), len(self.columns)) or 0 in self.weights.shape:
            told = f"weights of {self.weights.shape} for {len(self.rows)} × {len(self.columns)} tokens"
            raise ValueError(told)
        if self.kind != "cross" and len(self.rows) != len(self.columns):
            raise ValueError(f"{self.kind} attention is square, not {len(self.rows)} × {len(self.columns)}")

    @property
    def layers(self) -> int:
        return self.weights.shape[0]

    @property
    def heads(self) -> int:
        return self.weights.shape[1]

    @property
    def seen(self) -> np.ndarray:
        """(n, m) True where a token may look at all."""
        everywhere = np.ones(self.weights.shape[2:], bool)
        return np.tril(everywhere) if self.kind == "masked" else everywhere

    def facts(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name, "kind": self.kind, "layers": self.layers, "heads": self.heads}
        columns = {"columns": list(self.columns)} if self.kind == "cross" else {}
        return told | {"rows": list(self.rows)} | columns | {"borders": list(self.borders)}


def attention(run: Run, text: str, text_b: str | None = None, *, bare: bool = False) -> list[Map]:
    """Where the tokens of a text, or of two that stand in one row, look."""
    return maps_of(run, [text] if text_b is None else [text, text_b], bare=bare)


def maps_of(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[Map]:
    """All maps of a run for one text, or two that stand in one row as its milestone lays them out; of one that
    translates, those of `translated_maps`.

    bare  nothing stands around or between the texts, no [CLS] and no [SEP]
    """
    if "translation" in run.heads:
        from forebear.inspecting.translated_maps import translated_maps

        return translated_maps(run, texts, bare=bare)
    encoder = run.encoder
    if encoder is None or not encoder.has_attention:
        remedy = f"look at a Transformer (gpt2, bert, …); this run can be asked to: {', '.join(run.verbs)}"
        raise BadInput("has no attention", file=run.folder.path, remedy=remedy)
    import torch

    from forebear.networks.transformer import Transformer

    assert isinstance(encoder, Transformer)
    tokens, segments = _row(run, texts, bare)
    known = encoder.embedding.segment is not None
    run.model.eval()
    with torch.inference_mode():
        inputs = [torch.from_numpy(array.astype(np.int64)).to(run.model.device) for array in (tokens, segments)]
        found = encoder.attention(inputs[0], [len(tokens)], inputs[1] if known else None)
        weights = np.empty((len(found), *found[0][0].shape), np.float32)
        for number, (layer,) in enumerate(found):
            weights[number] = layer.float().cpu().numpy()
    if not np.isfinite(weights).all():
        raise no_numbers()
    names = labels(run.tokenizer, tokens.tolist())
    borders = tuple((np.flatnonzero(np.diff(segments)) + 1).tolist())
    kind: Kind = "masked" if encoder.sees == "past" else "self"
    return [Map(weights, names, names, kind, NAMES[kind], borders)]


def _row(run: Run, texts: Sequence[str], bare: bool) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and for each the number of its text."""
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"{len(texts)} texts came", remedy="give one text, or two that stand in one row")
    layout = run.folder.milestone.layout(run.tokenizer)
    cuts = [_ids(run, text) for text in texts]
    if not all(map(len, cuts)):
        raise BadInput("a text has no tokens", remedy="write some text")
    if bare:
        if not layout.before + layout.behind + layout.between:
            raise BadInput("--bare changes nothing: this milestone puts nothing around texts", remedy="leave it away")
        layout = replace(layout, before=(), between=(), behind=())
    elif run.task is None and "next" in run.heads and len(texts) == 1:
        layout = replace(layout, behind=())  # as `next` and `score` read it: that it ends is not known yet
    tokens, segments = layout.row(*cuts)
    if layout.context is not None and len(tokens) > layout.context:
        what = f"{len(tokens):,} tokens do not fit into the context of {layout.context:,}"
        raise BadInput(what, remedy="give a shorter text")
    return tokens, segments


def _ids(run: Run, text: str) -> np.ndarray:
    """A text's tokens; where the run finds what is hidden, ____ and its mask hide one."""
    if "token" not in run.heads:
        return run.tokenizer.encode(sound(text)).ids
    from forebear.using.filling import hidden

    return hidden(text, run.tokenizer, run.tokenizer.roles["mask"])[0].astype(np.int32)
