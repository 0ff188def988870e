"""A network that looks at the last few words through a window: their vectors, one after the other, and one layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forebear.nn.encoder import Encoder, States, TokenVectors
from forebear.nn.layers import deferred_embedding, deferred_linear, embedding_lookup
from forebear.nn.softmax import AdaptiveSoftmax


@dataclass(frozen=True)
class NNLMStates(States):
    """`windows` (T, k · m) are the vectors of the k words that each token's window holds, for the rows of the last
    layer."""

    windows: Tensor | None = None

    def select_windows(self, numbers: Tensor) -> Tensor:
        """The windows of the tokens with these numbers."""
        assert self.windows is not None
        return self.windows[numbers if self.positions is None else torch.searchsorted(self.positions, numbers)]


class WordEmbedding(TokenVectors):
    """The matrix Q: a vector for each word, whatever stands around it.

    Its numbers begin with this `spread`, and are read `scale` times as large as they are.
    """

    def __init__(self, vocabulary: int, width: int, *, spread: float | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.vocabulary, self.width, self.scale = vocabulary, width, scale
        self.token = deferred_embedding(vocabulary, width, spread=spread)

    def forward(self, tokens: Tensor) -> Tensor:
        """(T,) → (T, m)."""
        vectors = self.token(tokens)
        return vectors if self.scale == 1.0 else vectors * self.scale


class NNLMEncoder(Encoder):
    """An encoder: each token's state is tanh(d + H x), where x are the vectors of it and of the words before it.

    Where a row begins, and where `end` stands in it, another document begins: what would lie before is not looked at,
    and `end` stands in its place. So a row of any length can be read, and of any beginning that is as long as a window.

    window  k, how many words are looked at: the last one and those before it
    inner   units of the layer
    """

    sees, depth, max_length = "past", 1, None  # rows of any length can be read
    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, *, window: int, inner: int, end: int) -> None:
        super().__init__()
        self.embedding, self.window, self.width, self.end = embedding, window, inner, end  # pyright: ignore[reportIncompatibleVariableOverride]
        self.hidden = deferred_linear(window * embedding.width, inner)

    @property
    def widths(self) -> tuple[int, int]:
        """Of its two layers, which can be mixed only where they are equal."""
        return self.embedding.width, self.width

    def lower_parameters(self, layers: int) -> Iterator[nn.Parameter]:
        """The parameters of the embedding and, with the one layer, of that."""
        yield from self.embedding.parameters()
        if layers:
            yield from self.hidden.parameters()

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | Sequence[int],
        segments: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> NNLMStates:
        """`positions` are the numbers, rising, of the tokens that the last layer is wanted of; None: of all."""
        rows = tuple(lengths.tolist() if isinstance(lengths, Tensor) else lengths)
        vectors = self.embedding(tokens)
        windows = self.window_positions(tokens, rows)
        x = self.window_vectors(
            torch.cat((vectors, self.start_vector(tokens))), windows if positions is None else windows[positions]
        )
        return NNLMStates([vectors, self.hidden_layer(x)], rows, positions, windows=x)

    def window_positions(self, tokens: Tensor, lengths: Sequence[int]) -> Tensor:
        """(T, k) where the words of each token's window stand, the token itself last; T: no longer in its document."""
        count, device = len(tokens), tokens.device
        positions = torch.arange(count, device=device)
        sizes = torch.tensor(lengths, device=device)
        starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes, output_size=count)
        starts = torch.where(tokens == self.end, positions, starts).cummax(0).values
        indices = positions[:, None] - torch.arange(self.window - 1, -1, -1, device=device)
        return torch.where(indices >= starts[:, None], indices, count)

    def start_vector(self, tokens: Tensor) -> Tensor:
        """(1, m) what stands before the beginning of a document."""
        return self.embedding.token(tokens.new_full((1,), self.end))

    def window_vectors(self, vectors: Tensor, places: Tensor) -> Tensor:
        """(N, k) places among vectors → (N, k · m): those that belong together, one after the other."""
        return embedding_lookup(vectors, places.flatten()).view(len(places), -1)

    def hidden_layer(self, x: Tensor) -> Tensor:
        """(N, k · m) → (N, h)."""
        return torch.tanh(self.hidden(x))


class NNLMHead(nn.Module):
    """Which word comes next? softmax(b + W x + U tanh(d + H x)), without W x where it is not `direct`.

    U and W are one matrix here, [U W], that scores a state and its window beside each other.
    """

    def __init__(self, softmax: AdaptiveSoftmax, *, direct: bool) -> None:
        super().__init__()
        self.softmax, self.direct = softmax, direct

    @property
    def vocab_size(self) -> int:
        return self.softmax.vocabulary

    def forward(self, states: NNLMStates) -> Tensor:
        """(T, V) scores: log P up to a constant."""
        return self.softmax(self.read(states.last, states.windows))

    def loss(self, states: NNLMStates, target: Tensor) -> Tensor:
        """The sum over asked positions; others cost nothing."""
        supervised = (target >= 0).nonzero().squeeze(1)
        return self.softmax.cost(
            self.read(states.last_at(supervised), states.select_windows(supervised)), target[supervised]
        )

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None if target is None else (target >= 0).nonzero().squeeze(1)

    def read(self, hidden: Tensor, windows: Tensor | None) -> Tensor:
        """What is scored: (N, h), and beside it the windows where they are connected directly."""
        if not self.direct:
            return hidden
        assert windows is not None
        return torch.cat((hidden, windows.to(hidden.dtype)), 1)
