"""Heads for tasks: a label for a text or a pair, a choice, a tag for each word, the place where an answer begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.networks.heads import firsts
from forebear.networks.initial import linear
from forebear.networks.mixture import Mixture
from forebear.networks.states import States

if TYPE_CHECKING:
    from forebear.networks.crf import Crf

Kind = Literal["one", "several", "number"]


class _Reader(nn.Module):
    """What heads of tasks have in common: they read the last layer, or a mixture of all, through dropout."""

    def __init__(self, mixture: Mixture | None, dropout: float) -> None:
        super().__init__()
        self.mixture, self.dropout = mixture, nn.Dropout(dropout)

    def at(self, states: States, numbers: Tensor) -> Tensor:
        """(n, D) the vectors of the tokens with these numbers."""
        return states.at(numbers) if self.mixture is None else self.mixture(states, numbers)

    def all(self, states: States) -> Tensor:
        """(T, D) the vectors of all tokens."""
        if self.mixture is None:
            return states.last
        return self.mixture(states, torch.arange(sum(states.lengths), device=states.last.device))

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None


class RowReader(_Reader):
    """One vector for each row: of its first token, its last, the mean, or of each number the largest (of no token: 0).

    `dense`: through a layer and a tanh.
    """

    def __init__(
        self, width: int, answers: int, read: str, *, dense: bool, mixture: Mixture | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(mixture, dropout)
        self.read = read
        self.pool = linear(width, width) if dense else None
        self.choose = linear(width, answers, bias=read != "last")  # softmax(hW) and no more, in GPT's paper

    def rows(self, states: States) -> Tensor:
        """(B, D)."""
        if self.read in ("first", "last"):
            return self.at(states, self._places(states.lengths))
        x, lengths = self.all(states), torch.tensor(states.lengths, device=states.last.device)
        if self.read == "max":
            found = torch.segment_reduce(x, "max", lengths=lengths, unsafe=True)
            return found.masked_fill((lengths == 0)[:, None], 0.0)
        return averaged(x, torch.arange(len(lengths), device=x.device).repeat_interleave(lengths), len(lengths))

    def logits(self, x: Tensor) -> Tensor:
        """(n, D) → (n, answers)."""
        if self.pool is not None:
            x = torch.tanh(self.pool(x))
        return self.choose(self.dropout(x)).float()

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None if self.read in ("mean", "max") else self._places(lengths)

    def _places(self, lengths: tuple[int, ...]) -> Tensor:
        device = self.choose.weight.device
        first = firsts(lengths, device)
        return first if self.read == "first" else first + torch.tensor(lengths, device=device) - 1


class LabelHead(RowReader):
    """Which label ("one"), which labels ("several"), or what number? The rows of one example are averaged.

    An example is several rows where two texts are shown in both orders, and where a long text is read in windows.
    `weights` count mistakes about some labels more than about others.
    """

    def __init__(
        self,
        width: int,
        answers: int,
        read: str,
        *,
        kind: Kind = "one",
        dense: bool,
        mixture: Mixture | None = None,
        dropout: float = 0.0,
        weights: tuple[float, ...] | None = None,
    ) -> None:
        super().__init__(width, answers, read, dense=dense, mixture=mixture, dropout=dropout)
        self.kind, self.weights = kind, weights

    def forward(self, states: States) -> Tensor:
        """(examples, answers) logits, or numbers."""
        x = self.rows(states)
        if states.groups is not None and len(states.groups):
            x = averaged(x, states.groups, int(states.groups[-1]) + 1)
        return self.logits(x)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """The sum over examples that are asked; targets are (E,) numbers of labels, (E, answers) 0 or 1, or values."""
        logits = self(states)
        if self.kind == "number":
            asked = ~torch.isnan(target)
            return functional.mse_loss(logits[asked, 0], target[asked], reduction="sum")
        weight = None if self.weights is None else torch.tensor(self.weights, device=logits.device)
        if self.kind == "one":
            asked = target >= 0
            return functional.cross_entropy(logits[asked], target[asked], weight=weight, reduction="sum")
        asked = target[:, 0] >= 0
        right = target[asked].float()
        return functional.binary_cross_entropy_with_logits(logits[asked], right, pos_weight=weight, reduction="sum")


class ChoiceHead(RowReader):
    """Which of several rows? Each gets a score; the softmax is over the rows of one example."""

    def __init__(
        self, width: int, read: str, *, dense: bool, mixture: Mixture | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(width, 1, read, dense=dense, mixture=mixture, dropout=dropout)

    def forward(self, states: States) -> Tensor:
        """(B,) logits."""
        return self.logits(self.rows(states)).squeeze(1)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Targets are (E,) which row of the example it is, from 0."""
        assert states.groups is not None
        sizes = torch.bincount(states.groups)
        table = laid_out(self(states), tuple(sizes.tolist()))
        asked = target >= 0
        return functional.cross_entropy(table[asked], target[asked], reduction="sum")


class TagHead(_Reader):
    """Which tag has each word that is asked about? With a CRF the tags of a row are judged together."""

    def __init__(
        self,
        width: int,
        tags: int,
        *,
        crf: Crf | None = None,
        mixture: Mixture | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(mixture, dropout)
        self.choose, self.crf = linear(width, tags), crf

    def forward(self, states: States) -> Tensor:
        """(T, tags) logits."""
        return self.choose(self.all(states)).float()

    def loss(self, states: States, target: Tensor) -> Tensor:
        asked = (target >= 0).nonzero().squeeze(1)
        logits = self.choose(self.dropout(self.at(states, asked))).float()
        if self.crf is None:
            return functional.cross_entropy(logits, target[asked], reduction="sum")
        ends = torch.tensor(states.lengths, device=target.device).cumsum(0)
        words = torch.bincount(torch.searchsorted(ends, asked, right=True), minlength=len(ends))
        return self.crf.loss(logits, tuple(words.tolist()), target[asked])

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None if target is None else (target >= 0).nonzero().squeeze(1)


class PlaceHead(_Reader):
    """Which token of the row? One score each, and a softmax over the row (BERT's start and end of an answer)."""

    def __init__(self, width: int, *, mixture: Mixture | None = None, dropout: float = 0.0) -> None:
        super().__init__(mixture, dropout)
        self.choose = linear(width, 1)

    def forward(self, states: States) -> Tensor:
        """(T,) logits."""
        return self.choose(self.dropout(self.all(states))).squeeze(1).float()

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Targets are (B,) places in the row, from 0."""
        table, asked = laid_out(self(states), states.lengths), target >= 0
        return functional.cross_entropy(table[asked], target[asked], reduction="sum")


def laid_out(scores: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """(n,) scores of ragged rows → (rows, longest), with nothing to win beyond a row's end."""
    rows = torch.nn.utils.rnn.pad_sequence(list(scores.split(list(lengths))), batch_first=True)
    places = torch.arange(rows.shape[1], device=scores.device)
    beyond = places[None] >= torch.tensor(lengths, device=scores.device)[:, None]
    return rows.masked_fill(beyond, float("-inf"))


def averaged(x: Tensor, groups: Tensor, count: int) -> Tensor:
    """(n, D) → (count, D): the mean of the vectors of each group."""
    sums = x.new_zeros(count, x.shape[1]).index_add(0, groups, x)
    return sums / torch.bincount(groups, minlength=count).clamp(min=1)[:, None]
