"""Word vectors from characters: convolutions over the bytes of a word, max-pooling and highway layers.

A word has the same vector in every context, so each distinct word of a batch is computed once, and characters beyond
the longest word are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from forebear.data.tokenizers.char_ids import CHAR_PADDING, NUM_SYMBOLS, CharIds
from forebear.nn.encoder import TokenVectors
from forebear.nn.inference_mode import in_inference_mode
from forebear.nn.layers import deferred_embedding, deferred_linear, set_initial_values

MAX_WORDS_PER_BATCH = 1024  # words per batch when the whole vocabulary is embedded
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
PROJECTION_INIT_SCALE = 8.0  # words look alike: their differences must not start too small
HIGHWAY_GATE_BIAS = -2.0  # highway gates start mostly closed (carry)


class Highway(nn.Module):
    """A highway layer (Srivastava et al. 2015): a gate mixes the transformed input with the input itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry, self.transform = deferred_linear(width, width), deferred_linear(width, width)
        set_initial_values(self.carry, bias=torch.full((width,), HIGHWAY_GATE_BIAS))

    def forward(self, x: Tensor) -> Tensor:
        new = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), new)


class CharCNNEmbedding(TokenVectors):
    """Embedding computed from characters: (T,) tokens → (T, D).

    spelling  character ids of the vocabulary
    width     D
    symbol    size of a character vector
    filters   (span, number) of each group of filters
    highways  number of highway layers
    """

    spelling: CharIds

    def __init__(
        self,
        spelling: CharIds,
        width: int,
        *,
        symbol: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.spelling, self.width, self.activation = spelling, width, activation  # pyright: ignore[reportIncompatibleVariableOverride]
        self.spans = [span for span, _ in filters]
        self.character = deferred_embedding(NUM_SYMBOLS, symbol, spread=1.0)
        self.filters = nn.ModuleList(deferred_linear(span * symbol, count) for span, count in filters)
        inner = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(inner) for _ in range(highways))
        self.project = deferred_linear(inner, width, scale=PROJECTION_INIT_SCALE)

    @property
    def vocabulary(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.spelling.size

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.is_meta:  # only shapes matter: any token may be a different word
            return self.embed_words(np.zeros((len(tokens), self.spelling.max_symbols), np.int64))
        words, word_index = torch.unique(tokens, return_inverse=True)
        return self.embed_words(self.spelling.char_rows(words.cpu().numpy())).index_select(0, word_index)

    @in_inference_mode
    def word_table(self, numbers: np.ndarray) -> np.ndarray:
        """(N, D) vectors of the tokens with these ids, computed in batches."""
        parts = [numbers[start : start + MAX_WORDS_PER_BATCH] for start in range(0, len(numbers), MAX_WORDS_PER_BATCH)]
        vectors = [self.embed_words(self.spelling.char_rows(ids)).float().cpu().numpy() for ids in parts]
        return np.concatenate(vectors) if vectors else np.empty((0, self.width), np.float32)

    @in_inference_mode
    def char_rows(self, word: str) -> np.ndarray:
        """(D,) vector of a word given as text, in the vocabulary or not."""
        return self.embed_words(self.spelling.encode_word(word)[None])[0].float().cpu().numpy()

    def embed_words(self, symbols: np.ndarray) -> Tensor:
        """(N, max word length) character ids → (N, D)."""
        used = (symbols != CHAR_PADDING).any(0).nonzero()[0]
        # Beyond the longest word all windows are equal, so one of them is enough.
        needed = min(symbols.shape[1], int(used[-1]) + 1 + max(self.spans))
        device = self.character.weight.device
        rows = torch.from_numpy(symbols[:, :needed].astype(np.int64)).to(device)
        x = self.character(rows.flatten()).view(*rows.shape, -1)  # (N, L, symbol)
        features = [
            self._max_over_positions(x, span, layer) for span, layer in zip(self.spans, self.filters, strict=True)
        ]
        x = ACTIVATIONS[self.activation](torch.cat(features, 1))
        for highway in self.highways:
            x = highway(x)
        return self.project(x)

    @staticmethod
    def _max_over_positions(x: Tensor, span: int, filters: nn.Module) -> Tensor:
        """(N, count) maximum of each filter over a word.

        The activation is monotonic, so it is applied after the maximum: there are far fewer words than positions.
        """
        windows = x.unfold(1, span, 1).transpose(2, 3)  # (N, L - span + 1, span, symbol)
        return filters(windows.flatten(2).flatten(0, 1)).view(len(x), windows.shape[1], -1).amax(1)  # pyright: ignore
