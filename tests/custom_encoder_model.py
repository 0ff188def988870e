"""A model unlike any Transformer, for tests: word embeddings and a bidirectional GRU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from forebear.models.spec import ModelSpec
from forebear.nn.encoder import Encoder, States
from forebear.nn.layers import deferred_embedding
from forebear.nn.model import Model


class GRUEncoder(Encoder):
    """Layer 0: word embeddings; layer 1: both directions of a GRU, concatenated."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.width, self.depth = width, 1
        self.embedding = deferred_embedding(vocabulary, width)
        self.gru = nn.GRU(width, width // 2, bidirectional=True, batch_first=True, device="meta")

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        yield from self.embedding.parameters()
        if num_layers:
            yield from self.gru.parameters()

    def forward(self, tokens: Tensor, lengths: Tensor | Sequence[int], segments=None, positions=None) -> States:
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        x = self.embedding(tokens)
        packed = nn.utils.rnn.pack_sequence(list(x.split(list(rows))), enforce_sorted=False)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        last = torch.cat([row[:length] for row, length in zip(outputs, rows, strict=True)])
        return States([x, last], rows)


@dataclass(frozen=True)
class GRUSpec(ModelSpec):
    """Not a paper."""

    sizes: ClassVar[dict[str, dict[str, Any]]] = {"small": {}}
    size: ClassVar[str] = "small"
    tokenizer: ClassVar[str] = "wordpiece"

    width: int = 32
    dropout: float = 0.0

    def objective(self, tokenizer):
        raise NotImplementedError

    def build(self, tokenizer) -> Model:
        return Model(GRUEncoder(tokenizer.vocab_size, self.width), {})

    def default_recipe(self) -> dict[str, Any]:
        return {"rate": 5e-3}
