"""A model over padded batches, as other programs want it: the same weights, rows of one length, a mask; for export.

Only its shape differs from the model's own way (ragged rows, nothing padded); a test and every export compare the two.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.errors import BadInput
from forebear.networks.answers import ChoiceHead, LabelHead, PlaceHead, RowReader, TagHead
from forebear.networks.heads import TextHead, TokenHead
from forebear.networks.mixture import Mixture
from forebear.networks.model import Model
from forebear.networks.states import States
from forebear.networks.transformer import Block, Transformer

STATES = "last_hidden_state"


class Padded(nn.Module):
    """(B, n) ids, a mask that is 1 where there is text and 0 behind it, segments → the states, each head's logits."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        if not isinstance(model.encoder, Transformer):
            raise BadInput("only a Transformer can be given padded rows", remedy="export another run")
        self.model = model
        self.encoder: Transformer = model.encoder
        self.inputs = ["input_ids", "attention_mask"]
        self.inputs += ["token_type_ids"] if self.encoder.embedding.segment is not None else []
        heads = list(model.heads)
        self.outputs = [STATES, *(["logits"] if len(heads) == 1 else [f"{name}_logits" for name in heads])]

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor | None = None) -> tuple[Tensor, ...]:
        layers = self.layers(ids, mask.bool(), segments)
        return (layers[-1], *(of_head(head, layers, mask.bool()) for head in self.model.heads.values()))

    def layers(self, ids: Tensor, mask: Tensor, segments: Tensor | None) -> list[Tensor]:
        """(B, n, D) of each layer, the embedding first; what stands where the mask is 0 means nothing."""
        encoder, embedding = self.encoder, self.encoder.embedding
        length = ids.shape[1]
        x = functional.embedding(ids, embedding.token.weight)
        if embedding.placing != "none":
            x = x + embedding.position.weight[:length]
        if embedding.segment is not None and segments is not None:
            x = x + functional.embedding(segments, embedding.segment.weight)
        x = x if embedding.norm is None else embedding.norm(x)
        seen = mask[:, None, None, :]
        if encoder.sees == "past":
            places = torch.arange(length, device=ids.device)
            seen = seen & (places[None, :] <= places[:, None])
        found = [x if encoder.project is None else encoder.project(x)]
        for number in range(encoder.depth):
            block = encoder.blocks[number % len(encoder.blocks)]
            assert isinstance(block, Block)
            found.append(_through(block, found[-1], seen))
        if encoder.final_norm is not None:
            found[-1] = encoder.final_norm(found[-1])
        return found


def _through(block: Block, x: Tensor, seen: Tensor) -> Tensor:
    """One block, as `Block.forward` for rows that are not padded."""
    if block.norm_place == "pre":
        x = x + _attended(block, block.attention_norm(x), seen)
        return x + block.feedforward(block.feedforward_norm(x))
    x = block.attention_norm(x + _attended(block, x, seen))
    return block.feedforward_norm(x + block.feedforward(x))


def _attended(block: Block, x: Tensor, seen: Tensor) -> Tensor:
    attention = block.attention
    rows, length, width = x.shape
    parts = attention.query_key_value(x).view(rows, length, 3, attention.heads, width // attention.heads)
    query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    return attention.output(mixed.transpose(1, 2).reshape(rows, length, width))


def of_head(head: nn.Module, layers: list[Tensor], mask: Tensor) -> Tensor:
    """The logits of one head: (B, n, …) of one that answers tokens, (B, …) of one that answers rows."""
    if isinstance(head, TokenHead):
        return head(States(layers, ()))
    if isinstance(head, TextHead):
        return head.choose(torch.tanh(head.pool(layers[-1][:, 0])))
    if not isinstance(head, LabelHead | ChoiceHead | TagHead | PlaceHead):
        raise BadInput(f"a head of the kind {type(head).__name__} cannot be exported", remedy="export another run")
    x = layers[-1] if head.mixture is None else _mixed(head.mixture, layers)
    if isinstance(head, RowReader):
        logits = head.logits(_row(x, mask, head.read))
        return logits.squeeze(1) if isinstance(head, ChoiceHead) else logits
    return head.choose(x) if isinstance(head, TagHead) else head.choose(x).squeeze(2)


def _row(x: Tensor, mask: Tensor, read: str) -> Tensor:
    """(B, n, D) → (B, D): the first vector, the last one of text, the mean, or of each number the largest."""
    if read == "first":
        return x[:, 0]
    inside = mask[:, :, None].to(x.dtype)
    if read == "max":
        return x.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
    if read == "mean":
        return (x * inside).sum(1) / inside.sum(1)
    after = functional.pad(mask[:, 1:], (0, 1))  # a token is the last if none follows it
    return (x * (mask & ~after)[:, :, None].to(x.dtype)).sum(1)


def _mixed(mixture: Mixture, layers: list[Tensor]) -> Tensor:
    weights = mixture.weights
    return (1 + mixture.gain_bias) * sum(weights[number] * layer for number, layer in enumerate(layers))
