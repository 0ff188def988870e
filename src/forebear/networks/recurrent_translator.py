"""What a recurrent network that was taught translations can be asked: how likely one is, and to write one by tokens.

A source is read once. What is kept of a row is the state of its layers, and of a source, for all rows that are written
from it, what attention makes of its states: the keys, and the values already multiplied by the matrix that mixes them
into the output. Each step of all rows is one product a layer, of weights that are laid out once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from forebear.errors import ForebearError
from forebear.networks.batching import tensor
from forebear.networks.given_translations import scores_of
from forebear.networks.heads import TokenHead
from forebear.networks.initial import Linear
from forebear.networks.layouts import Lay, Product, for_one_row, for_rows, product, vocabulary_product
from forebear.networks.memory import Sources
from forebear.networks.model import Model
from forebear.networks.recurrence import Lstm, State
from forebear.networks.recurrent_translation import LookingBack, RecurrentEncoderDecoder, RecurrentWriter
from forebear.networks.similarities import weighed

Gates = Callable[[Tensor, Tensor], Tensor]  # what comes in and the state h → (B, 4 · inner)


class RecurrentTranslator:
    """Ids and numpy outside, torch inside. The model must not learn meanwhile."""

    def __init__(self, model: Model) -> None:
        encoder, head = model.encoder, dict(model.heads.items()).get("translation")
        if not isinstance(encoder, RecurrentEncoderDecoder) or not isinstance(head, TokenHead):
            raise ForebearError("this model does not translate", remedy="ask one that was trained to: seq2seq")
        self.model, self.encoder, self.head = model.eval(), encoder, head

    @property
    def context(self) -> int:
        """Tokens of a source; what is written may be of any length."""
        return self.encoder.context

    @torch.inference_mode()
    def score(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], start: int) -> list[np.ndarray]:
        """log P of each token of each target given its source and those before it; `start` is seen before the first."""
        return scores_of(self.model, self.head, sources, targets, start)

    @torch.inference_mode()
    def begin(self, sources: Sequence[np.ndarray], start: int, room: int) -> RecurrentRows:
        """A row for each source, of which nothing is written yet but `start`; there is `room` for any number."""
        lengths = tuple(map(len, sources))
        memory, ends = self.encoder.reader(tensor(self.model, np.concatenate(sources)), lengths)
        look = self.encoder.writer.look
        rows = RecurrentRows(self._decoder, ends, None if look is None else LookedAt(look, memory, lengths))
        rows.take(np.full(len(sources), start))
        return rows

    @cached_property
    def _decoder(self) -> RecurrentDecoder:
        return RecurrentDecoder(self.encoder.writer, self.head)


class RecurrentDecoder:
    """A writer and its head, laid out for one token of many rows at a time. Made once, used for any number of rows."""

    def __init__(self, writer: RecurrentWriter, head: TokenHead) -> None:
        self.writer, self.head = writer, head

    def laid_out(self, rows: int) -> tuple[list[Gates], Product, Product]:
        """The layers in order, what leads from the last state to what is scored, and the product with the vocabulary,
        for so many rows at a time."""
        return self._for_one_row if rows == 1 else self._for_rows

    @cached_property
    def _for_one_row(self) -> tuple[list[Gates], Product, Product]:
        return self._laid_out(for_one_row)

    @cached_property
    def _for_rows(self) -> tuple[list[Gates], Product, Product]:
        return self._laid_out(for_rows)

    @torch.inference_mode()
    def _laid_out(self, lay: Lay) -> tuple[list[Gates], Product, Product]:
        writer = self.writer
        last = writer.narrow if writer.look is None else writer.look.own
        out = _same if last is None else product(last, lay)
        return [_gates(layer, lay) for layer in writer.layers], out, vocabulary_product(self.head, lay)


class RecurrentRows:
    """Rows that are being continued (a `Reader`)."""

    def __init__(self, decoder: RecurrentDecoder, states: Sequence[State], looked_at: LookedAt | None) -> None:
        self._decoder, self._looked_at = decoder, looked_at
        self._states = list(states)
        self._taken: np.ndarray | None = None

    def next(self) -> np.ndarray:
        """(B, V) logits of the next token."""
        with torch.inference_mode():
            self._step()
            h = self._states[-1][0]
            _, out, vocabulary = self._decoder.laid_out(len(h))
            x = out(h) if self._looked_at is None else torch.tanh(self._looked_at.found(h) + out(h))
            return vocabulary(self._decoder.head.transformed(x)).float().cpu().numpy()

    def take(self, ids: np.ndarray) -> None:
        with torch.inference_mode():
            self._step()
        self._taken = np.asarray(ids, dtype=np.int64)

    def keep(self, rows: np.ndarray) -> None:
        chosen = np.arange(len(self._states[0][0]))[np.asarray(rows)]
        self._taken = None if self._taken is None else self._taken[chosen]
        with torch.inference_mode():
            picked = torch.from_numpy(chosen).to(self._states[0][0].device)
            self._states = [tuple(part[picked] for part in state) for state in self._states]
            if self._looked_at is not None:
                self._looked_at.keep(chosen)

    def _step(self) -> None:
        """Reads the token that was taken last, if it was not read yet."""
        if self._taken is None:
            return
        layers, _, _ = self._decoder.laid_out(len(self._taken))
        ids = torch.from_numpy(self._taken).to(self._states[0][0].device)
        embedding = self._decoder.writer.embedding
        x, self._taken = embedding.token(ids) * embedding.scale, None
        for number, gates in enumerate(layers):
            h, c = self._states[number]
            i, f, g, o = gates(x, h).chunk(4, 1)
            c = torch.sigmoid(f).mul_(c).addcmul_(torch.sigmoid(i), torch.tanh(g))
            x = torch.sigmoid(o).mul_(torch.tanh(c))
            self._states[number] = x, c


class LookedAt:
    """What rows find in their sources, found once for each source as far as it can be."""

    def __init__(self, look: LookingBack, memory: Tensor, lengths: Sequence[int]) -> None:
        """`memory` (T, inner) of all tokens of the sources, which have these lengths."""
        self._look, self._sources = look, Sources(lengths, memory.device)
        here = self._sources.here
        self._allowed = None if here.all() else here[:, None].to(memory.device)  # (S, 1, m)
        self._keyed = look.similarity.keyed(self._sources.padded(memory))
        self._values = self._sources.padded(look.found(memory))  # (S, m, D)

    def found(self, h: Tensor) -> Tensor:
        """(B, inner) states → (B, D): what they find, and as it is added to the output."""
        scores = self._look.similarity.scores(self._sources.gathered(h), self._keyed)
        return self._sources.scattered(weighed(scores, self._values, self._allowed)[0])

    def keep(self, rows: np.ndarray) -> None:
        """As the rows themselves are kept; sources that have none left are forgotten."""
        left = self._sources.keep(rows)
        if left is not None:
            self._keyed, self._values = self._keyed[left], self._values[left]
            self._allowed = None if self._allowed is None else self._allowed[left]


def _gates(layer: nn.Module, lay: Lay) -> Gates:
    """Both products of a layer as one, where they are of the class we know."""
    assert isinstance(layer, Lstm)
    if type(layer.input) is Linear and type(layer.state) is Linear:
        both = lay(torch.cat((layer.input.weight, layer.state.weight), 1), layer.input.bias)
        return lambda x, h: both(torch.cat((x, h), 1))
    coming, going = product(layer.input, lay), product(layer.state, lay)
    return lambda x, h: coming(x) + going(h)


def _same(x: Tensor) -> Tensor:
    return x
