"""Interfaces of encoders, embeddings and token heads, and the hidden states that an encoder returns.

Shape letters, used throughout `nn`:
    B sequences of a batch · n tokens of one sequence · T tokens of all sequences, packed without padding
    D hidden size · H heads · d = D / H, the size of a head · V vocabulary size
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from forebear.nn.bptt_state import BPTTState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forebear.data.tokenizers.char_ids import CharIds


Lengths = Tensor | Sequence[int]  # of the B sequences


def to_lengths(lengths: Lengths) -> tuple[int, ...]:
    return tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)


def supervised_tokens(target: Tensor) -> Tensor:
    """(n,) indices of the tokens with a target."""
    return (target >= 0).nonzero().squeeze(1)


@dataclass(frozen=True)
class States:
    """`layers[0]` is the embedding, `layers[-1]` the input of the heads; each is (T, D), of one size except for NNLM.

    If only some tokens are needed, the last layer may be computed for those alone: `positions` are their ascending
    indices, and the last layer is (len(positions), D). If an example consists of several sequences, `groups` (B,) is
    the ascending example index of each, from 0.
    """

    layers: list[Tensor]
    lengths: tuple[int, ...]  # of the B sequences; their sum is T
    positions: Tensor | None = None
    groups: Tensor | None = None

    @property
    def last(self) -> Tensor:
        return self.layers[-1]

    def last_at(self, token_indices: Tensor) -> Tensor:
        """(n, D) last-layer vectors of these tokens."""
        return self.last[token_indices if self.positions is None else torch.searchsorted(self.positions, token_indices)]


class TokenVectors(nn.Module):
    """Interface of embeddings: a vector for each token."""

    vocab_size: int
    width: int
    char_ids: CharIds | None = None  # character ids, if vectors are computed from characters
    placing: str = "none"  # position encoding, see `InputEmbedding`


class Encoder(nn.Module):
    """Base class of encoders, with defaults for optional features.

    depth       number of layers above the embedding
    width       size of the last layer
    sees        "past" (causal), "all" (bidirectional), or "text" for task encoders
    max_length  longest sequence; None: unlimited
    """

    depth: int
    width: int
    sees: str
    max_length: int | None
    embedding: TokenVectors | None  # no default: a class attribute would hide the registered module
    boundary_ids: tuple[int, int] | None = None  # start and end tokens of a text, if the encoder needs them
    bptt_state: BPTTState | None = None  # state carried from one training step to the next
    has_attention: bool = False  # whether `attention_maps` is available
    has_decoder: bool = False  # whether its states are the decoder's

    @property
    def widths(self) -> tuple[int, ...]:
        """Sizes of all layers; only layers of equal size can be mixed."""
        return (self.width,) * (self.depth + 1)

    def state_size(self, length: int) -> int | None:
        """Numbers stored per sequence of this length during decoding; None: only the keys and values of attention."""
        return None

    def attention_maps(self, *args: Any, **kwargs: Any) -> Any:
        """Attention weights, if the encoder `has_attention`."""
        raise NotImplementedError

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and the first `num_layers` layers."""
        raise NotImplementedError


class EncoderDecoderBase(Encoder):
    """An encoder of the source and a decoder of the target, stored as `reader` and `writer`.

    The states are the decoder's, so that the same heads can be used as with other encoders.
    """

    has_decoder = True
    sees = "past"
    embedding = None  # there are two
    reader: Any
    writer: Any

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.reader, self.writer = encoder, decoder

    @property
    def width(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.width

    @property
    def depth(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.depth

    @property
    def max_length(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.writer.embedding.positions


class TokenHead(nn.Module):
    """A head with an output for each token, trained at the supervised ones."""

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        """(n,) indices of the tokens whose last-layer vectors are needed for the target, or for inference if it is
        None; None means all tokens.
        """
        return None if target is None else supervised_tokens(target)
