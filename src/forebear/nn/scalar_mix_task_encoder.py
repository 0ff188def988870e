"""Task encoder over [x; ELMo]: word vectors and a scalar mix of a pre-trained encoder's layers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from forebear.nn.encoder import Encoder, Lengths, States, TokenVectors
from forebear.nn.scalar_mix import ScalarMix
from forebear.nn.word_vector_task_encoders import (
    TASK_ENCODERS,
    DecomposableAttention,
    attend_other_text,
    split_text_lengths,
)


class ScalarMixEncoder(Encoder):
    """A task encoder over a pre-trained encoder `inner`, whose embedding layer is the word vectors x.

    kind          "mean", "convolution" or "recurrent"
    width         output size of the task encoder; None: that of x
    mix_position  where the mix is added: "before", the task encoder's input is [x; mix]; "after", its output is
                  [output; mix]; "both", with separate weights. Only layers of the last layer's size are mixed
    normalize     whether layers are normalized before mixing
    is_pair       whether sequences hold two texts to be compared
    """

    depth, sees = 1, "all"

    def __init__(
        self,
        inner: Encoder,
        *,
        kind: str,
        width: int | None,
        mix_position: str = "before",
        normalize: bool = False,
        is_pair: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inner, self.is_pair, self.dropout = inner, is_pair, nn.Dropout(dropout)
        assert inner.embedding is not None
        self.word_size = word_size = inner.embedding.width  # the embedding layer of a biLM is [x; x]
        output_size = width or 2 * ((word_size + 1) // 2)
        before, after = mix_position in ("before", "both"), mix_position in ("after", "both")
        layer_sizes = inner.widths
        first_layer = next(layer for layer in range(len(layer_sizes)) if {*layer_sizes[layer:]} == {inner.width})
        self.mixtures = nn.ModuleDict()
        for name, is_used in (("before", before), ("after", after)):
            if is_used:
                self.mixtures[name] = ScalarMix(inner.depth, normalize=normalize, first_layer=first_layer)
        self.input_size = input_size = word_size + (inner.width if before else 0)
        self.matching = DecomposableAttention(input_size, output_size) if is_pair else None
        self.body = TASK_ENCODERS[kind](output_size if is_pair else input_size, output_size)
        self.width = output_size + (inner.width if after else 0)

    @property
    def max_length(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.max_length

    @property
    def embedding(self) -> TokenVectors | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.embedding

    @property
    def boundary_ids(self) -> tuple[int, int] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.boundary_ids

    @property
    def widths(self) -> tuple[int, int]:
        return self.input_size, self.width

    def train(self, mode: bool = True) -> ScalarMixEncoder:
        """A frozen pre-trained encoder stays in evaluation mode (no dropout)."""
        super().train(mode)
        self.inner.train(mode and any(parameter.requires_grad for parameter in self.inner.parameters()))
        return self

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """The pre-trained encoder; all parameters if `num_layers` is 1."""
        yield from self.inner.parameters() if num_layers < 1 else self.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> States:
        states: States = self.inner(tokens, lengths)
        token_indices = torch.arange(len(tokens), device=tokens.device)
        mixed = {name: self.dropout(mixture(states, token_indices)) for name, mixture in self.mixtures.items()}
        x = self.dropout(states.layers[0][:, : self.word_size])
        x = torch.cat((x, mixed["before"]), 1) if "before" in mixed else x
        y, text_lengths = x, states.lengths
        if self.matching is not None:
            text_lengths = split_text_lengths(states.lengths, segments)
            y = self.matching(x, attend_other_text(x, text_lengths))
        y = self.body(y, tuple(length for length in text_lengths if length))
        return States([x, torch.cat((y, mixed["after"]), 1) if "after" in mixed else y], states.lengths)
