"""A recurrent network with a head `next`, asked for probabilities: all it remembers of a row is its state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forebear.errors import BadInput
from forebear.networks.batching import AT_ONCE, batches, tensor
from forebear.networks.both_ways import BothWays
from forebear.networks.cross_entropy import parts_of
from forebear.networks.heads import TokenHead
from forebear.networks.model import Model
from forebear.networks.recurrence import State
from forebear.networks.recurrent import Recurrent
from forebear.networks.softmax import SoftmaxHead


class RecurrentPredictor:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside.

    Every row begins with nothing known, so that the same text always gets the same answer; it may be of any length, and
    is read in pieces.
    """

    pseudo = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, Recurrent | BothWays) or not isinstance(head, TokenHead | SoftmaxHead):
            remedy = "ask one that was trained to, such as lstm"
            raise BadInput("this model does not predict the next token by a state", remedy=remedy)
        self.model, self.encoder, self.head = model.eval(), encoder, head
        self._borders = encoder.borders if isinstance(encoder, BothWays) else None

    def _begun(self, row: np.ndarray) -> np.ndarray:
        """A row as this network begins texts: with the token that ends one everywhere else, perhaps not here."""
        if self._borders is None or self._borders[0] == self._borders[1] or row[0] != self._borders[1]:
            return np.asarray(row)
        return np.concatenate(([self._borders[0]], row[1:]))

    @property
    def vocabulary(self) -> int:
        return self.head.vocabulary

    @property
    def context(self) -> None:
        """Rows of any length can be read."""
        return

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given all before it."""
        found = [np.empty(max(0, len(row) - 1), np.float32) for row in rows]
        asked = [number for number, row in enumerate(rows) if len(row) > 1]
        for batch in batches([len(rows[number]) - 1 for number in asked]):
            mine = [asked[number] for number in batch]
            for begin, alive, states, _ in self._pieces([self._begun(rows[number])[:-1] for number in mine]):
                there = [found[number][begin : begin + size] for number, size in zip(mine, alive, strict=False)]
                targets = [
                    np.asarray(rows[number])[begin + 1 : begin + 1 + size]
                    for number, size in zip(mine, alive, strict=False)
                ]
                told = self.head.log_probabilities(states, tensor(self.model, np.concatenate(targets)))
                for place, part in zip(there, told.float().cpu().split(list(alive)), strict=True):
                    place[:] = part.numpy()
        return found

    @torch.inference_mode()
    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        return torch.log_softmax(torch.from_numpy(self.scores(self.last(rows)[0])), -1).numpy()

    def read(self, rows: Sequence[np.ndarray], room: int) -> RecurrentRows:
        return RecurrentRows(self, rows)

    @torch.inference_mode()
    def last(self, rows: Sequence[np.ndarray]) -> tuple[Tensor, list[State]]:
        """(B, D) what the head reads of each row's last token, and the states of all layers then."""
        like = next(one for one in self.model.parameters() if one.is_floating_point())  # others are small integers
        stack = self.encoder.layers
        x, states = like.new_empty(len(rows), stack.each()[-1].out), stack.zeros(len(rows), like)
        for batch in batches([len(row) for row in rows]):
            for _, alive, vectors, left in self._pieces([self._begun(rows[number]) for number in batch]):
                mine = torch.tensor(batch[: len(alive)])
                x[mine] = vectors[torch.tensor(alive).cumsum(0) - 1]
                for held, state in zip(states, left, strict=True):
                    for part, new in zip(held, state, strict=True):
                        part[mine] = new
        return x, states

    @torch.inference_mode()
    def scores(self, x: Tensor) -> np.ndarray:
        """(N, D) what the head reads → (N, V) log P up to a constant."""
        found = np.empty((len(x), self.vocabulary), np.float32)
        for part in parts_of(len(x), self.vocabulary):
            found[part] = self.head.scored(self.head.transformed(x[part])).float().cpu().numpy()
        return found

    def _pieces(self, rows: Sequence[np.ndarray]):
        """Rows, the longest first, read as far at a time as fills the processor: where a piece begins, how many tokens
        each row that is not over has in it, their (T, D) vectors, and the states that they are left in."""
        width = max(1, AT_ONCE // len(rows))
        states: list[State] | None = None
        for begin in range(0, len(rows[0]), width):
            parts = [row[begin : begin + width] for row in rows if len(row) > begin]
            if states is not None:
                states = [tuple(part[: len(parts)] for part in state) for state in states]
            alive = tuple(map(len, parts))
            vectors, states = self.encoder.read(tensor(self.model, np.concatenate(parts)), alive, states)
            yield begin, alive, vectors, states


class RecurrentRows:
    """Rows that are being continued (a `Reader`): only their states matter."""

    def __init__(self, predictor: RecurrentPredictor, rows: Sequence[np.ndarray]) -> None:
        self._predictor = predictor
        self._x, self._states = predictor.last(rows)

    def next(self) -> np.ndarray:
        """(B, V) scores of the next token."""
        return self._predictor.scores(self._x)

    @torch.inference_mode()
    def take(self, ids: np.ndarray) -> None:
        tokens = tensor(self._predictor.model, np.asarray(ids))
        if len(tokens):
            self._x, self._states = self._predictor.encoder.on(tokens, self._states)

    @torch.inference_mode()
    def keep(self, rows: np.ndarray) -> None:
        chosen = torch.from_numpy(np.arange(len(self._x))[np.asarray(rows)])
        self._x = self._x[chosen]
        self._states = [tuple(part[chosen] for part in state) for state in self._states]
