"""What of an attention map is looked at: some of its heads, their mean, a roll-out; and the strongest edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.tokenizers.char_level import replace_surrogates
from forebear.errors import InputError
from forebear.inference.predictor import non_finite_error
from forebear.inspection.token_labels import token_labels

if TYPE_CHECKING:
    from forebear.inference.run import Run

# Where tokens look: the attention weights of every layer and head of a text, as plain values.


Kind = Literal["self", "masked", "cross"]
ATTENTION_NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "attention to the source",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
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
    word_borders: tuple[int, ...] = ()

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
    def visible_mask(self) -> np.ndarray:
        """(n, m) True where a token may look at all."""
        everywhere = np.ones(self.weights.shape[2:], bool)
        return np.tril(everywhere) if self.kind == "masked" else everywhere

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name, "kind": self.kind, "layers": self.layers, "heads": self.heads}
        columns = {"columns": list(self.columns)} if self.kind == "cross" else {}
        return told | {"rows": list(self.rows)} | columns | {"borders": list(self.word_borders)}


def attention_maps(run: Run, text: str, text_b: str | None = None, *, bare: bool = False) -> list[AttentionMap]:
    """Where the tokens of a text, or of two that stand in one row, look."""
    return compute_attention_maps(run, [text] if text_b is None else [text, text_b], bare=bare)


def compute_attention_maps(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[AttentionMap]:
    """All maps of a run for one text, or two that stand in one row as its milestone lays them out; of one that
    translates, those of `translated_maps`.

    bare  nothing stands around or between the texts, no [CLS] and no [SEP]
    """
    if "translation" in run.heads:
        return seq2seq_attention_maps(run, texts, bare=bare)
    encoder = run.encoder
    if encoder is None or not encoder.has_attention:
        hint = f"look at a Transformer (gpt2, bert, …); this run can be asked to: {', '.join(run.capabilities)}"
        raise InputError("has no attention", file=run.folder.path, hint=hint)
    import torch

    from forebear.nn.transformer import Transformer

    assert isinstance(encoder, Transformer)
    tokens, segments = _row(run, texts, bare)
    known = encoder.embedding.segment is not None
    run.model.eval()
    with torch.inference_mode():
        inputs = [torch.from_numpy(array.astype(np.int64)).to(run.model.device) for array in (tokens, segments)]
        found = encoder.attention_maps(inputs[0], [len(tokens)], inputs[1] if known else None)
        weights = np.empty((len(found), *found[0][0].shape), np.float32)
        for number, (layer,) in enumerate(found):
            weights[number] = layer.float().cpu().numpy()
    if not np.isfinite(weights).all():
        raise non_finite_error()
    names = token_labels(run.tokenizer, tokens.tolist())
    borders = tuple((np.flatnonzero(np.diff(segments)) + 1).tolist())
    kind: Kind = "masked" if encoder.sees == "past" else "self"
    return [AttentionMap(weights, names, names, kind, ATTENTION_NAMES[kind], borders)]


def _row(run: Run, texts: Sequence[str], bare: bool) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and for each the number of its text."""
    if not 1 <= len(texts) <= 2:
        raise InputError(f"{len(texts)} texts came", hint="give one text, or two that stand in one row")
    layout = run.folder.spec.input_format(run.tokenizer)
    cuts = [_ids(run, text) for text in texts]
    if not all(map(len, cuts)):
        raise InputError("a text has no tokens", hint="write some text")
    if bare:
        if not layout.before + layout.after + layout.between:
            raise InputError("--bare changes nothing: this milestone puts nothing around texts", hint="leave it away")
        layout = replace(layout, before=(), between=(), after=())
    elif run.task is None and "next" in run.heads and len(texts) == 1:
        layout = replace(layout, after=())  # as `next` and `score` read it: that it ends is not known yet
    tokens, segments = layout.make_row(*cuts)
    if layout.max_length is not None and len(tokens) > layout.max_length:
        what = f"{len(tokens):,} tokens do not fit into the context of {layout.max_length:,}"
        raise InputError(what, hint="give a shorter text")
    return tokens, segments


def _ids(run: Run, text: str) -> np.ndarray:
    """A text's tokens; where the run finds what is hidden, ____ and its mask hide one."""
    if "token" not in run.heads:
        return run.tokenizer.encode(replace_surrogates(text)).ids
    from forebear.inference.fill import mask_blanks

    return mask_blanks(text, run.tokenizer, run.tokenizer.special_roles["mask"])[0].astype(np.int32)


HeadChoice = int | Literal["mean"]
LONG = 60  # tokens; a square of more cells is no picture any more
MAX_EDGES = 40  # of a long text


@dataclass(frozen=True, eq=False)
class AttentionPanel:
    """One square of weights (n, m): a head's, numbered from 1 as layers are; the mean of a layer's; a roll-out."""

    layer: int
    head: int | Literal["mean", "roll-out"]
    weights: np.ndarray

    @property
    def title(self) -> str:
        if self.head == "roll-out":
            return f"roll-out to layer {self.layer}"
        return f"layer {self.layer}, " + ("mean of its heads" if self.head == "mean" else f"head {self.head}")

    def to_dict(self) -> dict[str, Any]:
        return {"layer": self.layer, "head": self.head}


@dataclass(frozen=True)
class AttentionEdge:
    """One token looks at another so much; both are numbered from 1."""

    panel: AttentionPanel
    row: int
    column: int
    weight: float

    def to_dict(self, of: AttentionMap) -> dict[str, Any]:
        told = {"from": self.row + 1, "to": self.column + 1, "tokens": [of.rows[self.row], of.columns[self.column]]}
        return self.panel.to_dict() | told | {"weight": round(self.weight, 6)}


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Panels of a map, `across` of them side by side."""

    attention_map: AttentionMap
    panels: tuple[AttentionPanel, ...]
    across: int

    @property
    def is_long(self) -> bool:
        return max(self.attention_map.weights.shape[2:]) > LONG

    @property
    def description(self) -> str:
        """What all panels have in common."""
        if len(self.panels) == 1:
            return self.panels[0].title
        layers, heads = {one.layer for one in self.panels}, {one.head for one in self.panels}
        if len(layers) == 1:
            return f"all {len(heads)} heads of layer {self.panels[0].layer}"
        if len(heads) > 1:
            return f"{len(layers)} layers × {len(heads)} heads"
        head = self.panels[0].head
        return f"{'the mean of all heads' if head == 'mean' else f'head {head}'} in each of {len(layers)} layers"

    def summary(self, panel: AttentionPanel) -> str:
        """What tells a panel from its neighbours."""
        layers, heads = {one.layer for one in self.panels}, {one.head for one in self.panels}
        if len(layers) == 1:
            return f"head {panel.head}"
        return f"layer {panel.layer}" if len(heads) == 1 else f"layer {panel.layer} · head {panel.head}"

    @property
    def axis_labels(self) -> tuple[str, str]:
        """What stands at the rows and at the columns: one sentence, from the ones to the others."""
        if self.panels[0].head == "roll-out":
            return "in each token …", "… there is so much of these"
        if self.attention_map.kind == "cross":
            return "to write each token …", "… it looks at these of the source"
        return "from each token …", "… to those it looks at"

    def strongest_edges(self, top: int) -> list[AttentionEdge]:
        """The strongest of each panel, so that one does not hide all others: `top` in all, at least one of each.

        The first token of a masked map can only look at itself, which says nothing.
        """
        each = max(1, top // len(self.panels))
        found = [self._strongest(panel, each + 1) for panel in self.panels]
        shared = [edge for edges in found for edge in edges[:each]]
        more = sorted((edge for edges in found for edge in edges[each:]), key=lambda edge: -edge.weight)
        shared += more[: max(0, top - len(shared))]
        return sorted(shared, key=lambda edge: -edge.weight)[:top]

    def _strongest(self, panel: AttentionPanel, count: int) -> list[AttentionEdge]:
        skipped = int(self.attention_map.kind == "masked")
        flat = np.ascontiguousarray(panel.weights[skipped:]).ravel()  # what is not seen weighs nothing
        best = np.argpartition(-flat, count - 1)[:count] if count < len(flat) else np.arange(len(flat))
        best = best[np.lexsort((best, -flat[best]))]
        places = (divmod(int(at), panel.weights.shape[1]) for at in best)
        found = zip(places, flat[best].tolist(), strict=True)
        return [AttentionEdge(panel, row + skipped, column, weight) for (row, column), weight in found if weight > 0]

    def to_dict(self, top: int | None) -> dict[str, Any]:
        """As JSON values: all weights, or the strongest edges."""
        told = self.attention_map.to_dict()
        if top is not None:
            return told | {"edges": [edge.to_dict(self.attention_map) for edge in self.strongest_edges(top)]}
        weights = ((panel, np.round(panel.weights.astype(np.float64), 6).tolist()) for panel in self.panels)
        return told | {"panels": [panel.to_dict() | {"weights": values} for panel, values in weights]}


def attention_view(
    of: AttentionMap, layer: int | None = None, head: HeadChoice | None = None, *, rollout: bool = False
) -> AttentionView:
    """A layer's heads, one head of all layers, one of one, or all; both are numbered from 1, or from the end by -1, …

    rollout  what reaches a layer, by itself the last, from the tokens at the beginning
    """
    if rollout:
        if head is not None:
            raise InputError("a roll-out is made of all heads", hint="leave --head away")
        upto = of.layers if layer is None else _number(layer, of.layers, "layer")
        return AttentionView(of, (AttentionPanel(upto, "roll-out", rolled_out(of, upto)),), 1)
    layers = range(1, of.layers + 1) if layer is None else [_number(layer, of.layers, "layer")]
    heads: list[HeadChoice] = ["mean"] if head == "mean" else list(range(1, of.heads + 1))
    if isinstance(head, int):
        heads = [_number(head, of.heads, "head")]
    panels = tuple(_panel(of, one, other) for one in layers for other in heads)
    across = len(heads) if len(layers) > 1 and len(heads) > 1 else round(len(panels) ** 0.5 + 0.4)
    return AttentionView(of, panels, across)


def _panel(of: AttentionMap, layer: int, head: HeadChoice) -> AttentionPanel:
    weights = of.weights[layer - 1]
    return AttentionPanel(layer, head, weights.mean(0) if head == "mean" else weights[head - 1])


def _number(given: int, count: int, what: str) -> int:
    """From 1; from the end where it is negative."""
    number = given if given > 0 else count + 1 + given
    if given == 0 or not 1 <= number <= count:
        raise InputError(f"there is no {what} {given}", hint=f"{what}s are 1 to {count}, or -1 (the last) to -{count}")
    return number


def rolled_out(of: AttentionMap, layer: int | None = None) -> np.ndarray:
    """(n, n) how much of each token at the beginning is in each after so many layers, by itself after all."""
    *_, found = islice(attention_rollouts(of), layer)
    return found


def attention_rollouts(of: AttentionMap) -> Iterator[np.ndarray]:
    """(n, n) what of each token at the beginning is in each after every layer, if attention were all there is.

    (Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers.) Half of what a layer gives is taken to be what
    came in, since it is added; the other half is mixed by the mean of its heads; layers are multiplied.
    """
    if of.kind == "cross":
        raise InputError("attention to a source is not rolled out", hint="roll out self-attention")
    total = itself = np.eye(len(of.rows))
    for weights in of.weights:
        step = 0.5 * weights.mean(0, dtype=np.float64) + 0.5 * itself
        total = step / step.sum(1, keepdims=True) @ total
        yield total


# Where the tokens of a translation look: in the text that is translated, and in what is written already.


ATTENTION_KINDS = ("cross", "source", "target")  # in this order


def seq2seq_attention_maps(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[AttentionMap]:
    """Three maps: of a translation to its source, within the source, and within the translation; the first alone of
    what is recurrent, where nothing else looks.

    The translation is the second text, or the best that the run finds. A row of the first map is the token that is
    about to be written: what it looks at is what it is written from.
    """
    import torch

    if bare:
        raise InputError("--bare means nothing to a run that translates", hint="leave it out")
    if not 1 <= len(texts) <= 2:
        raise InputError(f"{len(texts)} texts came", hint="give a text, or a text and a translation of it")
    sides, encoder = run.folder.tokenizer_pair, run.model.encoder
    if not encoder.has_attention:
        what = "has no attention: a source is read into one vector, and never looked at again"
        raise InputError(what, file=run.folder.path, hint="look at a run of seq2seq_attention or transformer")
    written = texts[1] if len(texts) == 2 else run.translate(texts[0])[0].text
    ends = [side.special_roles["end"] for side in (sides.source, sides.target)]
    source, target = (
        np.append(side.encode(replace_surrogates(text)).ids, end).astype(np.int64)
        for side, text, end in zip((sides.source, sides.target), (texts[0], written), ends, strict=True)
    )
    for ids in (source, target):
        if len(ids) == 1:
            raise InputError("a text has no tokens", hint="write some text")
        if encoder.max_length is not None and len(ids) > encoder.max_length:
            what = f"{len(ids):,} tokens do not fit into the context of {encoder.max_length:,}"
            raise InputError(what, hint="give a shorter text")
    seen = np.concatenate((ends[1:], target[:-1]))
    run.model.eval()
    with torch.inference_mode():
        rows, read = (torch.from_numpy(ids).to(run.model.device) for ids in (seen, source))
        found = encoder.attention_maps(rows, [len(seen)], read, [len(source)])
    both = (("source", sides.source, source), ("seen", sides.target, seen), ("written", sides.target, target))
    names: dict[str, Any] = {
        name: token_labels(side, ids.tolist(), side.special_roles["end"]) for name, side, ids in both
    }
    weights = {name: np.stack([layer[0].float().cpu().numpy() for layer in layers]) for name, layers in found.items()}
    cross = AttentionMap(weights["cross"], names["written"], names["source"], "cross", ATTENTION_NAMES["cross"])
    if "read" not in weights:
        return [cross]
    return [
        cross,
        AttentionMap(
            weights["read"], names["source"], names["source"], "self", f"{ATTENTION_NAMES['self']} of the source"
        ),
        AttentionMap(
            weights["written"],
            names["seen"],
            names["seen"],
            "masked",
            f"{ATTENTION_NAMES['masked']} of the translation",
        ),
    ]
