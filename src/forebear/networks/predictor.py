"""A network with a head `next`, asked for probabilities: of whole rows, of what follows them, or token by token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from forebear.errors import ForebearError
from forebear.networks.batching import batches, states_of, tensor
from forebear.networks.both_ways import BothWays
from forebear.networks.cross_entropy import parts_of
from forebear.networks.decoder import Decoder
from forebear.networks.decoding import Rows
from forebear.networks.heads import TokenHead
from forebear.networks.model import Model
from forebear.networks.recurrent import Recurrent
from forebear.networks.recurrent_predictor import RecurrentPredictor
from forebear.networks.states import States
from forebear.networks.transformer import Transformer
from forebear.networks.window import Window
from forebear.networks.window_predictor import WindowPredictor
from forebear.networks.windows import beginning, windows


def predictor_of(model: Model) -> NetworkPredictor | WindowPredictor | RecurrentPredictor:
    """What asks this model for the next token: it depends on what its encoder remembers."""
    if isinstance(model.encoder, Recurrent | BothWays):
        return RecurrentPredictor(model)
    return WindowPredictor(model) if isinstance(model.encoder, Window) else NetworkPredictor(model)


class NetworkPredictor:
    """What n-grams can be asked too (`using.predicting.Predictor`). Ids and numpy outside, torch inside.

    The model must not learn meanwhile: its weights are laid out anew when rows are first read token by token.
    """

    pseudo = False  # what it says of a text's tokens are factors of the text's probability

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("next")
        if not isinstance(encoder, Transformer) or encoder.sees != "past" or not isinstance(head, TokenHead):
            raise ForebearError(
                "this model does not predict the next token from those before it",
                remedy="ask one that was trained to, such as gpt2",
            )
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def vocabulary(self) -> int:
        return self.encoder.embedding.vocabulary

    @property
    def context(self) -> int:
        return self.encoder.context

    @torch.inference_mode()
    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """log P of each token of each row but its first, given those before it (as many as the context holds)."""
        parts = [(row, *window) for row, ids in enumerate(rows) for window in windows(len(ids), self.context)]
        found = [np.empty(max(0, len(ids) - 1), np.float32) for ids in rows]
        for batch in batches([end - begin for _, begin, _, end in parts]):
            chosen = [parts[number] for number in batch]
            states = states_of(self.model, [rows[row][begin:end] for row, begin, _, end in chosen])
            # Of a window that overlaps another only the new part is asked for; the vocabulary is the dear part.
            asked = [np.arange(first - 1 - begin, end - begin) for _, begin, first, end in chosen]
            starts = np.cumsum([0, *states.lengths[:-1]])
            where = np.concatenate([start + places for start, places in zip(starts, asked, strict=True)])
            targets = np.concatenate([rows[row][first : end + 1] for row, _, first, end in chosen])
            answers = self._log_probabilities(states.last[tensor(self.model, where)], tensor(self.model, targets))
            ends = np.cumsum([len(places) for places in asked])[:-1]
            for (row, _, first, end), answer in zip(chosen, np.split(answers, ends), strict=True):
                found[row][first - 1 : end] = answer
        return found

    @torch.inference_mode()
    def follow(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P of every token after each row."""
        cut = [ids[beginning(len(ids), self.context) :] for ids in rows]
        found = np.empty((len(rows), self.vocabulary), np.float32)
        for batch in batches([len(ids) for ids in cut]):
            states = states_of(self.model, [cut[number] for number in batch])
            last = states.last[tensor(self.model, np.cumsum(states.lengths) - 1)]
            for part in parts_of(len(batch), self.vocabulary):
                logits = self.head(States([last[part]], (1,) * len(batch[part])))
                found[batch[part]] = torch.log_softmax(logits.float(), -1).cpu().numpy()
        return found

    def read(self, rows: Sequence[np.ndarray], room: int) -> Rows:
        return Rows(self._decoder, rows, room)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.encoder, self.head)

    def _log_probabilities(self, x: Tensor, targets: Tensor) -> np.ndarray:
        found = self.head.log_probabilities(x, targets)
        return found.float().cpu().numpy()
