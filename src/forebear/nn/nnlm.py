"""The NNLM: concatenated vectors of the last words, one hidden layer, and optional direct connections to the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from forebear.nn.encoder import Encoder, Lengths, States, TokenHead, TokenVectors, supervised_tokens, to_lengths
from forebear.nn.layers import deferred_embedding, deferred_linear, embedding_lookup
from forebear.nn.softmax import AdaptiveSoftmax


@dataclass(frozen=True)
class NNLMStates(States):
    """States with `windows` (T, k · m): concatenated vectors of each token's window, at the last layer's positions."""

    windows: Tensor | None = None

    def select_windows(self, numbers: Tensor) -> Tensor:
        """Windows of these tokens."""
        assert self.windows is not None
        return self.windows[numbers if self.positions is None else torch.searchsorted(self.positions, numbers)]


class WordEmbedding(TokenVectors):
    """An embedding table (the matrix Q), initialized with standard deviation `spread`; outputs are multiplied by
    `scale`.
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
    """Hidden layer tanh(d + H x) over the concatenated vectors x of a token and the words before it.

    A new document starts at the start of a sequence and at each `end` token; the window does not cross it, and `end`
    fills the missing places. So sequences of any length can be encoded.

    window  k, the number of words in the window, including the last one
    inner   hidden size
    end     id of the end-of-text token
    """

    sees, depth, max_length = "past", 1, None  # rows of any length can be read
    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, *, window: int, inner: int, end: int) -> None:
        super().__init__()
        self.embedding, self.window, self.width, self.end = embedding, window, inner, end  # pyright: ignore[reportIncompatibleVariableOverride]
        self.hidden = deferred_linear(window * embedding.width, inner)

    @property
    def widths(self) -> tuple[int, int]:
        """Sizes of both layers; only layers of equal size can be mixed."""
        return self.embedding.width, self.width

    def lower_parameters(self, layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and, with the one layer, of the hidden layer."""
        yield from self.embedding.parameters()
        if layers:
            yield from self.hidden.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> NNLMStates:
        """`positions` are the ascending indices of the tokens that need the last layer; None: all."""
        rows = to_lengths(lengths)
        vectors = self.embedding(tokens)
        windows = self.window_positions(tokens, rows)
        x = self.window_vectors(
            torch.cat((vectors, self.start_vector(tokens))), windows if positions is None else windows[positions]
        )
        return NNLMStates([vectors, self.hidden_layer(x)], rows, positions, windows=x)

    def window_positions(self, tokens: Tensor, lengths: Sequence[int]) -> Tensor:
        """(T, k) position of each word of each token's window, the token itself last; T: before its document."""
        count, device = len(tokens), tokens.device
        positions = torch.arange(count, device=device)
        sizes = torch.tensor(lengths, device=device)
        starts = (sizes.cumsum(0) - sizes).repeat_interleave(sizes, output_size=count)
        starts = torch.where(tokens == self.end, positions, starts).cummax(0).values
        indices = positions[:, None] - torch.arange(self.window - 1, -1, -1, device=device)
        return torch.where(indices >= starts[:, None], indices, count)

    def start_vector(self, tokens: Tensor) -> Tensor:
        """(1, m) vector that fills places before a document."""
        return self.embedding.token(tokens.new_full((1,), self.end))

    def window_vectors(self, vectors: Tensor, places: Tensor) -> Tensor:
        """(N, k) positions into vectors → (N, k · m) concatenated."""
        return embedding_lookup(vectors, places.flatten()).view(len(places), -1)

    def hidden_layer(self, x: Tensor) -> Tensor:
        """(N, k · m) → (N, h)."""
        return torch.tanh(self.hidden(x))


class NNLMHead(TokenHead):
    """softmax(b + W x + U tanh(d + H x)); W x only if `direct`.

    U and W are stored as one matrix [U W], applied to the concatenated hidden layer and window.
    """

    def __init__(self, softmax: AdaptiveSoftmax, *, direct: bool) -> None:
        super().__init__()
        self.softmax, self.direct = softmax, direct

    @property
    def vocab_size(self) -> int:
        return self.softmax.vocabulary

    def forward(self, states: NNLMStates) -> Tensor:
        """(T, V) log P up to a constant."""
        return self.softmax(self.read(states.last, states.windows))

    def loss(self, states: NNLMStates, target: Tensor) -> Tensor:
        """Cross-entropy summed over supervised positions."""
        supervised = supervised_tokens(target)
        return self.softmax.loss(
            self.read(states.last_at(supervised), states.select_windows(supervised)), target[supervised]
        )

    def read(self, hidden: Tensor, windows: Tensor | None) -> Tensor:
        """The input of the softmax: (N, h), with the windows appended if they are directly connected."""
        if not self.direct:
            return hidden
        assert windows is not None
        return torch.cat((hidden, windows.to(hidden.dtype)), 1)
