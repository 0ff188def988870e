"""Attention maps of a run: computation, views of selected heads, attention rollout and the strongest edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from forebear.data.unicode import replace_surrogates
from forebear.errors import InputError
from forebear.inference.predictor_protocols import non_finite_error
from forebear.inspection.token_labels import resolve_number, token_labels

if TYPE_CHECKING:
    from forebear.data.tokenizers.tokenizer import Tokenizer
    from forebear.inference.run import Run

Kind = Literal["self", "masked", "cross"]
ATTENTION_NAMES: dict[Kind, str] = {
    "self": "self-attention",
    "masked": "masked self-attention",
    "cross": "attention to the source",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention weights of all layers and heads for one input.

    weights      (layers, heads, n, m) from each of n query tokens to each of m key tokens; each row sums to 1
    rows         the n query tokens
    columns      the m key tokens: the same as the rows, unless the kind is "cross"
    kind         "self" (bidirectional), "masked" (causal) or "cross" (decoder to encoder)
    text_starts  index of the first token of each text but the first
    """

    weights: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    kind: Kind
    name: str
    text_starts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.weights.shape[2:] != (len(self.rows), len(self.columns)) or 0 in self.weights.shape:
            raise ValueError(f"weights of {self.weights.shape} for {len(self.rows)} × {len(self.columns)} tokens")
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
        """(n, m) True where attention is allowed."""
        all_pairs = np.ones(self.weights.shape[2:], bool)
        return np.tril(all_pairs) if self.kind == "masked" else all_pairs

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "kind": self.kind, "layers": self.layers, "heads": self.heads}
        columns = {"columns": list(self.columns)} if self.kind == "cross" else {}
        return data | {"rows": list(self.rows)} | columns | {"borders": list(self.text_starts)}


def attention_maps(run: Run, text: str, text_b: str | None = None, *, bare: bool = False) -> list[AttentionMap]:
    """Attention maps of a text, or of two texts in one sequence."""
    return compute_attention_maps(run, [text] if text_b is None else [text, text_b], bare=bare)


def compute_attention_maps(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[AttentionMap]:
    """Compute all attention maps of a run for one text, or for two in the model's input format.

    Args:
        run: The run; for translation models the result is that of `seq2seq_attention_maps`.
        texts: One text, or two texts.
        bare: Without special tokens such as [CLS] and [SEP].
    """
    if "translation" in run.heads:
        return seq2seq_attention_maps(run, texts, bare=bare)
    encoder = run.encoder
    if encoder is None or not encoder.has_attention:
        hint = f"look at a Transformer (gpt2, bert, …); this run can be asked to: {', '.join(run.capabilities)}"
        raise InputError("has no attention", file=run.folder.path, hint=hint)
    import torch

    from forebear.nn.inference_mode import inference_mode
    from forebear.nn.transformer import Transformer

    assert isinstance(encoder, Transformer)
    tokens, segments = _encode_texts(run, texts, bare)
    has_segments = encoder.embedding.segment is not None
    run.model.eval()
    with inference_mode():
        inputs = [torch.from_numpy(array.astype(np.int64)).to(run.model.device) for array in (tokens, segments)]
        layer_maps = encoder.attention_maps(inputs[0], [len(tokens)], inputs[1] if has_segments else None)
        weights = np.stack([layer.float().cpu().numpy() for (layer,) in layer_maps])
    if not np.isfinite(weights).all():
        raise non_finite_error()
    labels = token_labels(run.tokenizer, tokens.tolist())
    text_starts = tuple((np.flatnonzero(np.diff(segments)) + 1).tolist())
    kind: Kind = "masked" if encoder.sees == "past" else "self"
    return [AttentionMap(weights, labels, labels, kind, ATTENTION_NAMES[kind], text_starts)]


def _encode_texts(run: Run, texts: Sequence[str], bare: bool) -> tuple[np.ndarray, np.ndarray]:
    """Token ids, and for each the index of its text."""
    if not 1 <= len(texts) <= 2:
        raise InputError(f"{len(texts)} texts came", hint="give one text, or two that stand in one row")
    input_format = run.folder.spec.input_format(run.tokenizer)
    token_rows = [_encode_text(run, text) for text in texts]
    if not all(map(len, token_rows)):
        raise InputError("a text has no tokens", hint="write some text")
    if bare:
        if not input_format.before + input_format.after + input_format.between:
            raise InputError("--bare changes nothing: this milestone puts nothing around texts", hint="leave it away")
        input_format = replace(input_format, before=(), between=(), after=())
    elif run.task is None and "next" in run.heads and len(texts) == 1:
        input_format = replace(input_format, after=())  # as `next` and `score` encode it: the text may continue
    token_ids, segments = input_format.make_row(*token_rows)
    _require_fitting_length(token_ids, input_format.max_length)
    return token_ids, segments


def _require_fitting_length(token_ids: np.ndarray, max_length: int | None) -> None:
    if max_length is not None and len(token_ids) > max_length:
        message = f"{len(token_ids):,} tokens do not fit into the context of {max_length:,}"
        raise InputError(message, hint="give a shorter text")


def _encode_text(run: Run, text: str) -> np.ndarray:
    """Token ids of a text; for masked language models, ____ and the mask token become masks."""
    if "token" not in run.heads:
        return run.tokenizer.encode(replace_surrogates(text)).ids
    from forebear.inference.fill import mask_blanks

    return mask_blanks(text, run.tokenizer, run.tokenizer.special_roles["mask"])[0].astype(np.int32)


HeadChoice = int | Literal["mean"]
MAX_LEGIBLE_TOKENS = 60  # larger maps are not legible
MAX_EDGES = 40  # edges shown of long texts


@dataclass(frozen=True, eq=False)
class AttentionPanel:
    """One (n, m) matrix: a head (numbered from 1, as layers are), the mean of a layer's heads, or a rollout."""

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
    """An attention weight between two tokens, by index."""

    panel: AttentionPanel
    row: int
    column: int
    weight: float

    def to_dict(self, attention_map: AttentionMap) -> dict[str, Any]:
        tokens = [attention_map.rows[self.row], attention_map.columns[self.column]]
        data = {"from": self.row + 1, "to": self.column + 1, "tokens": tokens}
        return self.panel.to_dict() | data | {"weight": round(self.weight, 6)}


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Panels of an attention map in a grid of `num_columns` columns."""

    attention_map: AttentionMap
    panels: tuple[AttentionPanel, ...]
    num_columns: int

    @property
    def is_long(self) -> bool:
        return max(self.attention_map.weights.shape[2:]) > MAX_LEGIBLE_TOKENS

    @property
    def num_layers(self) -> int:
        return len({panel.layer for panel in self.panels})

    @property
    def num_heads(self) -> int:
        return len({panel.head for panel in self.panels})

    @property
    def max_weight(self) -> float:
        """The largest weight of all panels, for a common color scale."""
        return max(float(panel.weights.max()) for panel in self.panels)

    @property
    def description(self) -> str:
        """The layers and heads that the panels show."""
        first = self.panels[0]
        if len(self.panels) == 1:
            return first.title
        if self.num_layers == 1:
            return f"all {self.num_heads} heads of layer {first.layer}"
        if self.num_heads > 1:
            return f"{self.num_layers} layers × {self.num_heads} heads"
        head = "the mean of all heads" if first.head == "mean" else f"head {first.head}"
        return f"{head} in each of {self.num_layers} layers"

    def summary(self, panel: AttentionPanel) -> str:
        """A title that distinguishes a panel from the others."""
        if self.num_layers == 1:
            return f"head {panel.head}"
        return f"layer {panel.layer}" if self.num_heads == 1 else f"layer {panel.layer} · head {panel.head}"

    @property
    def axis_labels(self) -> tuple[str, str]:
        """Labels of the rows and the columns."""
        if self.panels[0].head == "roll-out":
            return "in each token …", "… there is so much of these"
        if self.attention_map.kind == "cross":
            return "to write each token …", "… it looks at these of the source"
        return "from each token …", "… to those it looks at"

    def strongest_edges(self, max_edges: int) -> list[AttentionEdge]:
        """The `max_edges` strongest edges, at least one of each panel.

        The first row of a causal map is skipped: the first token can only attend to itself.
        """
        per_panel = max(1, max_edges // len(self.panels))
        candidates = [self._strongest(panel, per_panel + 1) for panel in self.panels]
        selected = [edge for edges in candidates for edge in edges[:per_panel]]
        remaining = sorted((edge for edges in candidates for edge in edges[per_panel:]), key=lambda edge: -edge.weight)
        selected += remaining[: max(0, max_edges - len(selected))]
        return sorted(selected, key=lambda edge: -edge.weight)[:max_edges]

    def _strongest(self, panel: AttentionPanel, count: int) -> list[AttentionEdge]:
        num_skipped_rows = int(self.attention_map.kind == "masked")
        flat = np.ascontiguousarray(panel.weights[num_skipped_rows:]).ravel()  # masked weights are 0
        indices = np.argpartition(-flat, count - 1)[:count] if count < len(flat) else np.arange(len(flat))
        indices = indices[np.lexsort((indices, -flat[indices]))]
        rows, columns = np.divmod(indices, panel.weights.shape[1])
        edges = zip((rows + num_skipped_rows).tolist(), columns.tolist(), flat[indices].tolist(), strict=True)
        return [AttentionEdge(panel, row, column, weight) for row, column, weight in edges if weight > 0]

    def to_dict(self, max_edges: int | None) -> dict[str, Any]:
        """As JSON: all weights, or the `max_edges` strongest edges."""
        data = self.attention_map.to_dict()
        if max_edges is not None:
            return data | {"edges": [edge.to_dict(self.attention_map) for edge in self.strongest_edges(max_edges)]}
        weights = ((panel, np.round(panel.weights.astype(np.float64), 6).tolist()) for panel in self.panels)
        return data | {"panels": [panel.to_dict() | {"weights": values} for panel, values in weights]}


def attention_view(
    attention_map: AttentionMap, layer: int | None = None, head: HeadChoice | None = None, *, rollout: bool = False
) -> AttentionView:
    """One layer, one head, one head of one layer, or all; numbers start at 1, negative ones count from the end.

    Args:
        attention_map: The map to show.
        layer: Layer number; None: all layers.
        head: Head number, or "mean" for the mean of the heads; None: all heads.
        rollout: Attention rollout up to the layer (default: the last) instead of heads.
    """
    num_layers, num_heads = attention_map.layers, attention_map.heads
    if layer is not None:
        layer = resolve_number(layer, num_layers, "layer", "layers are")
    if rollout:
        if head is not None:
            raise InputError("a roll-out is made of all heads", hint="leave --head away")
        rollout_layer = layer or num_layers
        panel = AttentionPanel(rollout_layer, "roll-out", attention_rollout(attention_map, rollout_layer))
        return AttentionView(attention_map, (panel,), 1)
    layers = range(1, num_layers + 1) if layer is None else [layer]
    heads: list[HeadChoice] = ["mean"] if head == "mean" else list(range(1, num_heads + 1))
    if isinstance(head, int):
        heads = [resolve_number(head, num_heads, "head", "heads are")]
    panels = []
    for layer_number, head_choice in product(layers, heads):
        weights = attention_map.weights[layer_number - 1]
        weights = weights.mean(0) if head_choice == "mean" else weights[head_choice - 1]
        panels.append(AttentionPanel(layer_number, head_choice, weights))
    num_columns = len(heads) if len(layers) > 1 and len(heads) > 1 else round(len(panels) ** 0.5 + 0.4)
    return AttentionView(attention_map, tuple(panels), num_columns)


def attention_rollout(attention_map: AttentionMap, layer: int | None = None) -> np.ndarray:
    """(n, n) attention rollout after this many layers; by default after all."""
    *_, rollout = islice(attention_rollouts(attention_map), layer)
    return rollout


def attention_rollouts(attention_map: AttentionMap) -> Iterator[np.ndarray]:
    """(n, n) attention rollout after each layer (Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers).

    The matrix of a layer is half the identity (its residual connection) and half the mean of its heads; the matrices
    are multiplied.
    """
    if attention_map.kind == "cross":
        raise InputError("attention to a source is not rolled out", hint="roll out self-attention")
    rollout = identity = np.eye(len(attention_map.rows))
    for weights in attention_map.weights:
        layer_matrix = 0.5 * weights.mean(0, dtype=np.float64) + 0.5 * identity
        rollout = layer_matrix / layer_matrix.sum(1, keepdims=True) @ rollout
        yield rollout


# --- Encoder–decoder models ---

SEQ2SEQ_MAP_ORDER = ("cross", "source", "target")


def seq2seq_attention_maps(run: Run, texts: Sequence[str], *, bare: bool = False) -> list[AttentionMap]:
    """Three maps: cross-attention, encoder self-attention, decoder self-attention; only the first for recurrent models.

    The translation is the second text, or the run's best one; rows of the first map are the tokens to be generated.
    """
    import torch

    from forebear.nn.inference_mode import inference_mode

    if bare:
        raise InputError("--bare means nothing to a run that translates", hint="leave it out")
    if not 1 <= len(texts) <= 2:
        raise InputError(f"{len(texts)} texts came", hint="give a text, or a text and a translation of it")
    tokenizers, encoder = run.folder.tokenizer_pair, run.model.encoder
    if not encoder.has_attention:
        message = "has no attention: a source is read into one vector, and never looked at again"
        raise InputError(message, file=run.folder.path, hint="look at a run of seq2seq_attention or transformer")
    translation = texts[1] if len(texts) == 2 else run.translate(texts[0])[0].text
    source_row, target_row = (
        np.append(tokenizer.encode(replace_surrogates(text)).ids, tokenizer.special_roles["end"]).astype(np.int64)
        for tokenizer, text in ((tokenizers.source, texts[0]), (tokenizers.target, translation))
    )
    for ids in (source_row, target_row):
        if len(ids) == 1:
            raise InputError("a text has no tokens", hint="write some text")
        _require_fitting_length(ids, encoder.max_length)
    decoder_inputs = np.concatenate((target_row[-1:], target_row[:-1]))
    run.model.eval()
    with inference_mode():
        target_ids, source_ids = (torch.from_numpy(ids).to(run.model.device) for ids in (decoder_inputs, source_row))
        attention = encoder.attention_maps(target_ids, [len(decoder_inputs)], source_ids, [len(source_row)])
    weights = {name: np.stack([layer[0].float().cpu().numpy() for layer in maps]) for name, maps in attention.items()}

    def labels(tokenizer: Tokenizer, ids: np.ndarray) -> tuple[str, ...]:
        return token_labels(tokenizer, ids.tolist(), tokenizer.special_roles["end"])

    source_labels, target_labels = labels(tokenizers.source, source_row), labels(tokenizers.target, target_row)
    maps = [AttentionMap(weights["cross"], target_labels, source_labels, "cross", ATTENTION_NAMES["cross"])]
    if "read" in weights:
        input_labels = labels(tokenizers.target, decoder_inputs)
        names = (f"{ATTENTION_NAMES['self']} of the source", f"{ATTENTION_NAMES['masked']} of the translation")
        maps.append(AttentionMap(weights["read"], source_labels, source_labels, "self", names[0]))
        maps.append(AttentionMap(weights["written"], input_labels, input_labels, "masked", names[1]))
    return maps
