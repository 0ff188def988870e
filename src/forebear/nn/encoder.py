"""What an encoder gives back: a vector for every token in its context, at every layer.

Letters for shapes, here and in the whole room:
    B rows of a batch · n tokens of one row · T tokens of all rows, one after the other, with nothing between them
    D width · H heads · d = D / H, the width of a head · V vocabulary
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forebear.data.tokenizers.char_ids import CharIds


@dataclass(frozen=True)
class States:
    """`layers[0]` is the embedding, `layers[-1]` what heads read; each is (T, D), of one width but for `Window`'s.

    Where only some tokens are asked about, the last layer may have been computed for those alone: `kept` are their
    numbers, rising, and the last layer is (len(kept), D). Where an example is several rows, `groups` (B,) numbers the
    example of each, rising from 0.
    """

    layers: list[Tensor]
    lengths: tuple[int, ...]  # of the B rows; their sum is T
    positions: Tensor | None = None
    groups: Tensor | None = None

    @property
    def last(self) -> Tensor:
        return self.layers[-1]

    def last_at(self, numbers: Tensor) -> Tensor:
        """(n, D) the last layer's vectors of the tokens with these numbers."""
        return self.last[numbers if self.positions is None else torch.searchsorted(self.positions, numbers)]


class TokenVectors(nn.Module):
    """An embedding: a vector for each token. What not every one has is nothing here."""

    vocabulary: int
    width: int
    spelling: CharIds | None = None  # how tokens are written, where their vectors are made of that
    placing: str = "none"  # how places in a row are told, see `Embedding`


class Encoder(nn.Module):
    """What turns inputs into states. What not every encoder has is nothing here.

    depth    layers above the embedding
    width    of the last layer
    sees     "past", "all", or of a reader of words "text"
    max_length  the longest row; None: rows of any length can be read
    """

    depth: int
    width: int
    sees: str
    max_length: int | None
    embedding: TokenVectors | None  # has no value here: it would stand before what a module registers
    borders: tuple[int, int] | None = None  # the tokens that begin and end a text, where it is told them
    carried: BPTTState | None = None  # what a step of training hands to the next beside the weights
    has_attention: bool = False  # whether it tells where tokens look (`attention`)
    has_decoder: bool = False  # whether its states are those of what is written, from a source

    @property
    def widths(self) -> tuple[int, ...]:
        """Of its layers, which can be mixed only where they are equal."""
        return (self.width,) * (self.depth + 1)

    def state_size(self, length: int) -> int | None:
        """Numbers that are kept of a row of this length while it is continued; None: not other than by attention."""
        return None

    def attention_maps(self, *given: Any, **named: Any) -> Any:
        """Where tokens look, of an encoder that `has_attention`."""
        raise NotImplementedError

    def lower_parameters(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and of the first so many layers."""
        raise NotImplementedError


# States that a step of training hands to the next: text that is cut into windows is read on where a window ended.


State = tuple[Tensor, ...]


class BPTTState:
    """The states in which streams of text were left, by their numbers.

    What a step leaves counts from the next step on (`settle`): its parts may be made in any order, or once more.
    """

    def __init__(self) -> None:
        self._held: list[list[Tensor]] = []  # of each layer, the parts of its state: (streams, ·)
        self._left: list[list[Tensor]] = []

    def states_for(self, streams: Tensor, fresh: Tensor, zeros: Sequence[State]) -> list[State]:
        """What rows of these streams begin with: nothing, where they are fresh or were never read."""
        if not self._held:
            return list(zeros)
        is_continued = (~fresh.bool())[:, None]
        return [
            tuple(torch.where(is_continued, tensors[streams], zero) for tensors, zero in zip(parts, layer, strict=True))
            for parts, layer in zip(self._held, zeros, strict=True)
        ]

    def stage(self, streams: Tensor, states: Sequence[State]) -> None:
        """What rows of these streams ended with."""
        num_streams = int(streams.max()) + 1
        if not self._left:
            self._left = [[part.new_zeros(0, part.shape[1]) for part in layer] for layer in states]
        for tensors, layer in zip(self._left, states, strict=True):
            for number, part in enumerate(layer):
                if len(tensors[number]) < num_streams:
                    padding = part.new_zeros(num_streams - len(tensors[number]), part.shape[1])
                    tensors[number] = torch.cat((tensors[number], padding))
                tensors[number][streams] = part.detach()

    def commit(self) -> None:
        """The step was made: from now on what it left is what the next begins with."""
        if self._left:
            self._held, self._left = self._left, []

    def clear(self) -> None:
        self._held, self._left = [], []

    def state_tensors(self) -> dict[str, Tensor]:
        """All of it by name, to be saved."""
        return {
            f"{layer}.{number}": part for layer, parts in enumerate(self._held) for number, part in enumerate(parts)
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.clear()
        for name in sorted(tensors, key=lambda name: tuple(map(int, name.split(".")))):
            layer = int(name.split(".")[0])
            self._held += [[] for _ in range(layer + 1 - len(self._held))]
            self._held[layer].append(tensors[name].clone())


# The mixture of all layers that a task learns for itself (ELMo, Peters et al. 2018): γ Σ softmax(s)_j · layer_j.


class ScalarMix(nn.Module):
    """Begins as the plain mean of the layers from `first` up to `depth`: both its parameters begin at zero.

    `normed`: each layer is first brought to the mean 0 and the spread 1, over all its numbers of each token, so that a
    weight says how much of a layer there is.
    """

    def __init__(self, depth: int, *, normed: bool = False, first: int = 0) -> None:
        super().__init__()
        self.normed, self.first = normed, first
        self.layer_bias = nn.Parameter(torch.empty(depth + 1 - first, device="meta"))  # s
        self.gain_bias = nn.Parameter(torch.empty(1, device="meta"))  # γ - 1

    @property
    def weights(self) -> Tensor:
        """Of the layers, the lowest first; their sum is 1."""
        return torch.softmax(self.layer_bias, 0)

    def forward(self, states: States, numbers: Tensor) -> Tensor:
        """(n, D) for the tokens with these numbers."""
        layers = [layer[numbers] for layer in states.layers[self.first : -1]] + [states.last_at(numbers)]
        layers = [functional.layer_norm(layer, layer.shape[1:]) for layer in layers] if self.normed else layers
        mixed = torch.einsum("l,lnd->nd", self.weights, torch.stack(layers))
        return (1 + self.gain_bias) * mixed
