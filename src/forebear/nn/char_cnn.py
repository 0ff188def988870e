"""Vectors of words made of how they are written: filters slide over the symbols of a word, and highways follow.

The same word has the same vector wherever it stands, so of all tokens of a batch each word is read once, and no
further than the longest of them reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from forebear.data.tokenizers.char_ids import CHAR_MARKERS, NUM_SYMBOLS, CharIds
from forebear.nn.encoder import TokenVectors
from forebear.nn.layers import deferred_embedding, deferred_linear, set_initial_values

AT_ONCE = 1024  # words that are spelled together, where there are very many
ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
APART = 8.0  # words are written alike: what is different of them must begin as large as what is the same in all
AS_BEFORE = -2.0  # the gate of a highway begins so far closed that most goes through as it is


class Highway(nn.Module):
    """Of each number a part is new and the rest as before, and a gate says how much (Srivastava et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry, self.transform = deferred_linear(width, width), deferred_linear(width, width)
        set_initial_values(self.carry, bias=torch.full((width,), AS_BEFORE))

    def forward(self, x: Tensor) -> Tensor:
        new = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), new)


class CharCNNEmbedding(TokenVectors):
    """An embedding without a table of words: (T,) tokens → (T, D).

    spelling  how tokens are written
    width     D
    symbol    numbers in the vector of a symbol
    filters   (how many symbols it sees, how many there are) of each kind of filter
    highways  layers above them
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
        self.project = deferred_linear(inner, width, scale=APART)

    @property
    def vocabulary(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.spelling.size

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.is_meta:  # shapes without numbers: each may be another word
            return self.embed_words(np.zeros((len(tokens), self.spelling.longest), np.int64))
        words, which = torch.unique(tokens, return_inverse=True)
        return self.embed_words(self.spelling.char_rows(words.cpu().numpy())).index_select(0, which)

    @torch.inference_mode()
    def word_table(self, numbers: np.ndarray) -> np.ndarray:
        """(N, D) of the tokens with these numbers, some at a time."""
        parts = [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]
        found = [self.embed_words(self.spelling.char_rows(part)).float().cpu().numpy() for part in parts]
        return np.concatenate(found) if found else np.empty((0, self.width), np.float32)

    @torch.inference_mode()
    def char_rows(self, word: str) -> np.ndarray:
        """(D,) of a word as it is written, whether the vocabulary has it or not."""
        return self.embed_words(self.spelling.encode_word(word)[None])[0].float().cpu().numpy()

    def embed_words(self, symbols: np.ndarray) -> Tensor:
        """(N, longest) → (N, D)."""
        used = (symbols != CHAR_MARKERS).any(0).nonzero()[0]
        # Beyond all words every filter sees the same: one such place stands for all.
        needed = min(symbols.shape[1], int(used[-1]) + 1 + max(self.spans))
        device = self.character.weight.device
        rows = torch.from_numpy(symbols[:, :needed].astype(np.int64)).to(device)
        x = self.character(rows.flatten()).view(*rows.shape, -1)  # (N, L, symbol)
        found = [self._seen(x, span, one) for span, one in zip(self.spans, self.filters, strict=True)]
        x = ACTIVATIONS[self.activation](torch.cat(found, 1))
        for highway in self.highways:
            x = highway(x)
        return self.project(x)

    @staticmethod
    def _seen(x: Tensor, span: int, filters: nn.Module) -> Tensor:
        """(N, count) the most that each filter finds anywhere in a word. What follows rises with it, so it comes
        after: there are far fewer words than places."""
        places = x.unfold(1, span, 1).transpose(2, 3)  # (N, L - span + 1, span, symbol)
        return filters(places.flatten(2).flatten(0, 1)).view(len(x), places.shape[1], -1).amax(1)  # pyright: ignore
