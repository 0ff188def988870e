"""What a Transformer that was taught translations can be asked: how likely one is, and to write one token by token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from forebear.errors import ForebearError
from forebear.networks.batching import tensor
from forebear.networks.decoder import Decoder
from forebear.networks.decoding import Rows
from forebear.networks.encoder_decoder import EncoderDecoder
from forebear.networks.given_translations import scores_of
from forebear.networks.heads import TokenHead
from forebear.networks.memory import Memory
from forebear.networks.model import Model
from forebear.networks.recurrent_translation import RecurrentEncoderDecoder
from forebear.networks.recurrent_translator import RecurrentTranslator


def translator_of(model: Model) -> Translator | RecurrentTranslator:
    """What asks this model for translations: it depends on what its writer remembers."""
    recurrent = isinstance(model.encoder, RecurrentEncoderDecoder)
    return RecurrentTranslator(model) if recurrent else Translator(model)


class Translator:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile."""

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, EncoderDecoder) or not isinstance(head, TokenHead):
            raise ForebearError("this model does not translate", remedy="ask one that was trained to: transformer")
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def context(self) -> int:
        return self.encoder.context

    @torch.inference_mode()
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        return scores_of(self.model, self.head, sources, targets, start)

    @torch.inference_mode()
    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> Rows:
        """A row for each source, of which nothing is written yet but `start`; up to `room` tokens will be."""
        lengths = [len(source) for source in sources]
        read = self.encoder.reader(tensor(self.model, np.concatenate(sources)), lengths).last
        layers, _ = self._decoder.layers(len(sources))
        memory = Memory(layers, read, lengths, self._decoder.heads)
        rows = Rows(self._decoder, [np.empty(0, np.int64)] * len(sources), min(room, self.context), memory)
        rows.take(np.full(len(sources), start))
        return rows

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.encoder.writer, self.head)
