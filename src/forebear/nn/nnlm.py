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

    def select_windows(self, token_indices: Tensor) -> Tensor:
        """Windows of these tokens."""
        assert self.windows is not None
        indices = token_indices if self.positions is None else torch.searchsorted(self.positions, token_indices)
        return self.windows[indices]


class WordEmbedding(TokenVectors):
    """An embedding table, initialized with standard deviation `init_std`; outputs are multiplied by `scale`."""

    def __init__(self, vocab_size: int, width: int, *, init_std: float | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.vocab_size, self.width, self.scale = vocab_size, width, scale
        self.token = deferred_embedding(vocab_size, width, init_std=init_std)

    def forward(self, tokens: Tensor) -> Tensor:
        """(T,) → (T, m)."""
        vectors = self.token(tokens)
        return vectors if self.scale == 1.0 else vectors * self.scale


class NNLMEncoder(Encoder):
    """Hidden layer tanh(d + H x) over the concatenated vectors x of a token and the words before it.

    A new document starts at the start of a sequence and at each `end_id` token; the window does not cross it, and
    `end_id` fills the missing positions. So sequences of any length can be encoded.

    window  k, the number of words in the window, including the last one
    inner   hidden size
    end_id  id of the end-of-text token
    """

    sees, depth, max_length = "past", 1, None  # sequences of any length can be encoded
    embedding: WordEmbedding

    def __init__(self, embedding: WordEmbedding, *, window: int, inner: int, end_id: int) -> None:
        super().__init__()
        self.embedding, self.window, self.width, self.end_id = embedding, window, inner, end_id  # pyright: ignore[reportIncompatibleVariableOverride]
        self.hidden = deferred_linear(window * embedding.width, inner)

    @property
    def widths(self) -> tuple[int, int]:
        """Sizes of both layers; only layers of equal size can be mixed."""
        return self.embedding.width, self.width

    def lower_parameters(self, num_layers: int) -> Iterator[nn.Parameter]:
        """Parameters of the embedding and, with the one layer, of the hidden layer."""
        yield from self.embedding.parameters()
        if num_layers:
            yield from self.hidden.parameters()

    def forward(
        self, tokens: Tensor, lengths: Lengths, segments: Tensor | None = None, positions: Tensor | None = None
    ) -> NNLMStates:
        """`positions` are the ascending indices of the tokens that need the last layer; None: all."""
        rows = to_lengths(lengths)
        vectors = self.embedding(tokens)
        windows = self.window_positions(tokens, rows)
        windows = windows if positions is None else windows[positions]
        x = self.window_vectors(torch.cat((vectors, self.start_vector(tokens))), windows)
        return NNLMStates([vectors, self.hidden_layer(x)], rows, positions, windows=x)

    def window_positions(self, tokens: Tensor, lengths: Sequence[int]) -> Tensor:
        """(T, k) positions of the tokens of each token's window, itself last; T for positions before its document."""
        num_tokens, device = len(tokens), tokens.device
        positions = torch.arange(num_tokens, device=device)
        row_lengths = torch.tensor(lengths, device=device)
        starts = (row_lengths.cumsum(0) - row_lengths).repeat_interleave(row_lengths, output_size=num_tokens)
        starts = torch.where(tokens == self.end_id, positions, starts).cummax(0).values
        indices = positions[:, None] - torch.arange(self.window - 1, -1, -1, device=device)
        return torch.where(indices >= starts[:, None], indices, num_tokens)

    def start_vector(self, tokens: Tensor) -> Tensor:
        """(1, m) vector that fills positions before a document."""
        return self.embedding.token(tokens.new_full((1,), self.end_id))

    def window_vectors(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """(N, k) positions into vectors → (N, k · m) concatenated."""
        return embedding_lookup(vectors, positions.flatten()).view(len(positions), -1)

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
        return self.softmax.vocab_size

    def forward(self, states: NNLMStates) -> Tensor:
        """(T, V) log P up to a constant."""
        return self.softmax(self.softmax_inputs(states.last, states.windows))

    def loss(self, states: NNLMStates, target: Tensor) -> Tensor:
        """Cross-entropy summed over supervised positions."""
        supervised = supervised_tokens(target)
        return self.softmax.loss(
            self.softmax_inputs(states.last_at(supervised), states.select_windows(supervised)), target[supervised]
        )

    def softmax_inputs(self, hidden: Tensor, windows: Tensor | None) -> Tensor:
        """The input of the softmax: (N, h), with the windows appended if they are directly connected."""
        if not self.direct:
            return hidden
        assert windows is not None
        return torch.cat((hidden, windows.to(hidden.dtype)), 1)
