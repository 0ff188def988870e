"""A network with a window and a head `next`, asked for probabilities: all it remembers of a row are its last words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forebear.errors import BadInput
from forebear.networks.batching import AT_ONCE, tensor
from forebear.networks.cross_entropy import parts_of
from forebear.networks.model import Model
from forebear.networks.window import Window, WindowHead


class WindowPredictor:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside."""

    pseudo = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, Window) or not isinstance(head, WindowHead):
            remedy = "ask one that was trained to, such as nnlm"
            raise BadInput("this model does not predict the next word through a window", remedy=remedy)
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def vocabulary(self) -> int:
        return self.head.vocabulary

    @property
    def context(self) -> None:
        """Rows of any length can be read: what lies too far back is simply not looked at."""
        return

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given the window before it."""
        seen = [np.asarray(row)[:-1] for row in rows if len(row) > 1]
        if not seen:
            return [np.empty(0, np.float32) for _ in rows]
        words = self.words(seen)
        targets = tensor(self.model, np.concatenate([np.asarray(row)[1:] for row in rows]))
        parts = zip(words.split(AT_ONCE), targets.split(AT_ONCE), strict=True)
        told = torch.cat([self.head.softmax.log_probabilities(self._read(part), target) for part, target in parts])
        ends = np.cumsum([max(0, len(row) - 1) for row in rows])[:-1]
        return np.split(told.float().cpu().numpy(), ends)

    @torch.inference_mode()
    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        return torch.log_softmax(torch.from_numpy(self.scores(self.last(rows))), -1).numpy()

    def read(self, rows: Sequence[np.ndarray], room: int) -> WindowRows:
        return WindowRows(self, rows)

    def last(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(B, k) the words of each row's last window."""
        tails = [np.asarray(row)[-self.encoder.window :] for row in rows]
        return self.words(tails)[np.cumsum([len(tail) for tail in tails]) - 1]

    def words(self, rows: Sequence[np.ndarray]) -> Tensor:
        """(T, k) the words of each token's window."""
        tokens = tensor(self.model, np.concatenate(rows))
        places = self.encoder.places(tokens, [len(row) for row in rows])
        return torch.cat((tokens, tokens.new_full((1,), self.encoder.end)))[places]

    @torch.inference_mode()
    def scores(self, words: Tensor) -> np.ndarray:
        """(N, k) words → (N, V) what follows: log P up to a constant."""
        found = np.empty((len(words), self.vocabulary), np.float32)
        for part in parts_of(len(words), self.vocabulary):
            found[part] = self.head.softmax(self._read(words[part])).float().cpu().numpy()
        return found

    def _read(self, words: Tensor) -> Tensor:
        """(N, k) words → what the head scores."""
        x = self.encoder.embedding(words.flatten()).view(len(words), -1)
        return self.head.read(self.encoder.layer(x), x)


class WindowRows:
    """Rows that are being continued (a `Reader`): only their last windows matter."""

    def __init__(self, predictor: WindowPredictor, rows: Sequence[np.ndarray]) -> None:
        self._predictor, self._words = predictor, predictor.last(rows)

    def next(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.scores(self._words)

    def take(self, ids: np.ndarray) -> None:
        taken = torch.from_numpy(np.asarray(ids, np.int64)).to(self._words.device)[:, None]
        self._words = torch.cat((self._words[:, 1:], taken), 1)
        self._words[taken.squeeze(1) == self._predictor.encoder.end] = self._predictor.encoder.end

    def keep(self, rows: np.ndarray) -> None:
        self._words = self._words[torch.from_numpy(np.arange(len(self._words))[np.asarray(rows)])]
