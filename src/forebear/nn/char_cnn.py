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
PROJECTION_INIT_SCALE = 8.0  # word vectors are similar at first: a larger scale separates them
HIGHWAY_GATE_BIAS = -2.0  # highway gates start mostly closed (carry)


class Highway(nn.Module):
    """A highway layer (Srivastava et al. 2015): a gate mixes the transformed input with the input itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry, self.transform = deferred_linear(width, width), deferred_linear(width, width)
        set_initial_values(self.carry, bias=torch.full((width,), HIGHWAY_GATE_BIAS))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), gate)


class CharCNNEmbedding(TokenVectors):
    """Embedding computed from characters: (T,) tokens → (T, D).

    char_ids      character ids of the vocabulary
    width         D
    char_size     size of a character vector
    filters       (width, number) of the filters of each width
    num_highways  number of highway layers
    """

    char_ids: CharIds

    def __init__(
        self,
        char_ids: CharIds,
        width: int,
        *,
        char_size: int,
        filters: Sequence[tuple[int, int]],
        num_highways: int,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.char_ids, self.width, self.activation = char_ids, width, activation  # pyright: ignore[reportIncompatibleVariableOverride]
        self.filter_widths = [filter_width for filter_width, _ in filters]
        self.character = deferred_embedding(NUM_SYMBOLS, char_size, init_std=1.0)
        self.filters = nn.ModuleList(deferred_linear(size * char_size, count) for size, count in filters)
        num_features = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(num_features) for _ in range(num_highways))
        self.project = deferred_linear(num_features, width, scale=PROJECTION_INIT_SCALE)

    @property
    def vocab_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.char_ids.size

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.is_meta:  # only shapes matter: any token may be a different word
            return self.embed_words(np.zeros((len(tokens), self.char_ids.max_symbols), np.int64))
        words, word_index = torch.unique(tokens, return_inverse=True)
        return self.embed_words(self.char_ids.char_rows(words.cpu().numpy())).index_select(0, word_index)

    @in_inference_mode
    def word_table(self, token_ids: np.ndarray) -> np.ndarray:
        """(N, D) vectors of the tokens with these ids, computed in batches."""
        starts = range(0, len(token_ids), MAX_WORDS_PER_BATCH)
        id_batches = [token_ids[start : start + MAX_WORDS_PER_BATCH] for start in starts]
        vectors = [self.embed_words(self.char_ids.char_rows(ids)).float().cpu().numpy() for ids in id_batches]
        return np.concatenate(vectors) if vectors else np.empty((0, self.width), np.float32)

    @in_inference_mode
    def embed_word(self, word: str) -> np.ndarray:
        """(D,) vector of a word given as text, in the vocabulary or not."""
        return self.embed_words(self.char_ids.encode_word(word)[None])[0].float().cpu().numpy()

    def embed_words(self, char_ids: np.ndarray) -> Tensor:
        """(N, max word length) character ids → (N, D)."""
        used_positions = (char_ids != CHAR_PADDING).any(0).nonzero()[0]
        # Beyond the longest word all windows are equal, so one of them is enough.
        num_positions = min(char_ids.shape[1], int(used_positions[-1]) + 1 + max(self.filter_widths))
        device = self.character.weight.device
        char_tensor = torch.from_numpy(char_ids[:, :num_positions].astype(np.int64)).to(device)
        x = self.character(char_tensor.flatten()).view(*char_tensor.shape, -1)  # (N, L, symbol)
        features = [
            self._max_over_positions(x, filter_width, layer)
            for filter_width, layer in zip(self.filter_widths, self.filters, strict=True)
        ]
        x = ACTIVATIONS[self.activation](torch.cat(features, 1))
        for highway in self.highways:
            x = highway(x)
        return self.project(x)

    @staticmethod
    def _max_over_positions(x: Tensor, filter_width: int, filters: nn.Module) -> Tensor:
        """(N, count) maximum of each filter over a word.

        The activation is monotonic, so it is applied after the maximum: there are far fewer words than positions.
        """
        windows = x.unfold(1, filter_width, 1).transpose(2, 3)  # (N, L - k + 1, k, symbol), k is the filter width
        return filters(windows.flatten(2).flatten(0, 1)).view(len(x), windows.shape[1], -1).amax(1)  # pyright: ignore
