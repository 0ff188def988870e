"""States into answers: one class for each shape of answer, computed only where something is asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.networks.activation import ACTIVATIONS
from forebear.networks.cross_entropy import log_probabilities, summed_cross_entropy
from forebear.networks.embedding import Embedding
from forebear.networks.initial import Initial, Table, begins_with, layer_norm, linear
from forebear.networks.sampled import sampled_cost, zipf_shares
from forebear.networks.states import States
from forebear.networks.window import Words


class TokenHead(nn.Module, Initial):
    """Which token? Scores every entry of the vocabulary by the vectors with which the embedding reads them.

    `transform` names the activation of a layer in between, followed by a norm, as in BERT: it leads from
    states of another `width` to the embedding's, as in ALBERT. `bias` gives each token one of its own. In training,
    `smoothing` of what is right is divided among all tokens, as in the Transformer, and it may be learned from so many
    `sampled` ones at each step. `falling` says that ids are given by falling count: then biases begin so.
    """

    def __init__(
        self,
        embedding: Embedding | Words,
        *,
        width: int | None = None,
        bias: bool = False,
        transform: str | None = None,
        epsilon: float = 1e-5,
        smoothing: float = 0.0,
        sampled: int = 0,
        falling: bool = False,
    ) -> None:
        super().__init__()
        self.smoothing, self.draws = smoothing, sampled if sampled < embedding.vocabulary else 0
        self._read_by = (embedding,)  # in a tuple, so that its weight is not registered here a second time
        self.bias = nn.Parameter(torch.empty(embedding.vocabulary, device="meta")) if bias else None
        if falling:
            begins_with(self, bias=zipf_shares(embedding.vocabulary).log())
        self.activation = transform
        self.transform = linear(width or embedding.width, embedding.width) if transform else None
        self.transform_norm = layer_norm(embedding.width, epsilon) if transform else None

    @property
    def vocabulary(self) -> int:
        return self._read_by[0].vocabulary

    @property
    def table(self) -> Table:
        """The embedding's own; where it is one of small integers, it only reads."""
        return self._read_by[0].token

    @property
    def weight(self) -> Tensor:
        """(V, D) the embedding's own."""
        return self.table.weight

    def forward(self, states: States) -> Tensor:
        """(T, V) logits."""
        return self.scored(self.transformed(states.last))

    def scored(self, x: Tensor) -> Tensor:
        """(T, D) that were `transformed` → (T, V) logits."""
        return self.table.scores(x, self.bias)

    def log_probabilities(self, x: Tensor, target: Tensor) -> Tensor:
        """(N,) log P of these tokens by the last vectors (N, D)."""
        return log_probabilities(self.scored, self.transformed(x), target, self.vocabulary)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """The sum over asked positions; others cost nothing."""
        asked = (target >= 0).nonzero().squeeze(1)
        x = states.last if len(asked) == len(states.last) == len(target) else states.at(asked)
        if type(self.table) is not Table:
            return -self.log_probabilities(x, target[asked]).sum()
        if self.draws and self.training:
            return sampled_cost(self.transformed(x), self.weight, self.bias, target[asked], self.draws)
        smoothing = self.smoothing if self.training else 0.0
        return summed_cross_entropy(self.transformed(x), self.weight, self.bias, target[asked], smoothing)

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        """(n,) the numbers of the tokens whose last vectors a target asks for, or the head where there is none; None:
        of all."""
        return None if target is None else (target >= 0).nonzero().squeeze(1)

    def transformed(self, x: Tensor) -> Tensor:
        if self.transform is None or self.transform_norm is None or self.activation is None:
            return x
        return self.transform_norm(ACTIVATIONS[self.activation](self.transform(x)))


class TextHead(nn.Module):
    """Which of a few answers, of a row as a whole? Reads the vector of its first token, through one layer and a tanh.

    That layer is BERT's "pooler"; the first token, [CLS], stands for nothing but the row.
    """

    def __init__(self, width: int, answers: int) -> None:
        super().__init__()
        self.pool, self.choose = linear(width, width), linear(width, answers)

    def forward(self, states: States) -> Tensor:
        """(B, answers) logits."""
        return self.choose(torch.tanh(self.pool(states.at(firsts(states.lengths, states.last.device)))))

    def loss(self, states: States, target: Tensor) -> Tensor:
        """The sum over rows that are asked."""
        asked = target >= 0
        first = states.at(firsts(states.lengths, target.device)[asked])
        logits = self.choose(torch.tanh(self.pool(first)))
        return functional.cross_entropy(logits.float(), target[asked], reduction="sum")

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor:
        first = firsts(lengths, self.choose.weight.device)
        return first if target is None else first[target >= 0]


def firsts(lengths: Sequence[int], device: torch.device) -> Tensor:
    """(B,) the number of each row's first token."""
    return torch.tensor(list(accumulate(lengths, initial=0))[:-1], device=device)
