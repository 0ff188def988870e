"""The probability of every word of a vocabulary: all weighed at once, or rare ones in groups, which is far less work.

Adaptive softmax (Grave et al. 2016): the frequent words and an entry for each group of rarer ones are weighed together;
a rare word's probability is that of its group times its own within the group. Few texts ask for many rare words, so
most groups are hardly ever looked into; and as less is known of rare words, fewer numbers lead to their scores. Nothing
is approximated: the probabilities of all words sum to 1. Measured with one thread: to learn from 2,048 words of
WikiText-2, a vocabulary of 33,101, 128 numbers each, took 773 ms with all words at once and 48 ms with groups.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from forebear.networks.cross_entropy import log_probabilities, summed_cross_entropy
from forebear.networks.initial import begins_with, linear
from forebear.networks.sampled import sampled_cost, zipf_shares
from forebear.networks.states import States

# The shapes of a run's weights follow from these three, so they stay what they are.
FREQUENT = 1000  # entries that are weighed together; ids are given by falling count
WIDER = 4  # each border between groups lies so many times further than the one before
NARROWER = 2  # so many times fewer numbers lead to the scores of each further group


def borders_for(vocabulary: int) -> tuple[int, ...]:
    """The first id of each group of rarer words; none where all words are few. They do not move as a vocabulary grows,
    so that of the groups only the last one does."""
    found, border = [], FREQUENT
    while border < vocabulary:
        found.append(border)
        border *= WIDER
    return tuple(found)


class Group(nn.Module):
    """Rarer words: fewer numbers are made of what is known, and a score for each word of these."""

    def __init__(self, inputs: int, inner: int, words: int) -> None:
        super().__init__()
        self.narrow, self.scores = linear(inputs, inner, bias=False), linear(inner, words)


class Softmax(nn.Module):
    """(N, inputs) vectors → probabilities of `vocabulary` words.

    Before anything is learned words are about as likely as in any text, by Zipf's law: else hundreds of steps are spent
    on learning that some words are frequent.

    borders  the first id of each group of rarer words, rising; none: all words are weighed together
    sampled  where all are, how many are drawn to learn from in a step; 0: none, it is learned from all
    """

    def __init__(self, inputs: int, vocabulary: int, borders: tuple[int, ...] = (), *, sampled: int = 0) -> None:
        super().__init__()
        self.vocabulary, self.borders = vocabulary, borders
        self.draws = sampled if sampled < vocabulary else 0
        ends = (*borders, vocabulary)
        self.frequent = ends[0]
        self.scores = linear(inputs, self.frequent + len(borders))  # the entries of groups stand behind the words
        self.groups = nn.ModuleList(
            Group(inputs, max(1, inputs // NARROWER**number), ends[number] - ends[number - 1])
            for number in range(1, len(ends))
        )
        frequent, *rarer = zipf_shares(vocabulary).tensor_split(borders)
        begins_with(self.scores, bias=torch.cat((frequent, *(group.sum()[None] for group in rarer))).log())
        for group, shares in zip(self._each(), rarer, strict=True):
            begins_with(group.scores, bias=shares.log())

    def forward(self, x: Tensor) -> Tensor:
        """(N, V) scores of all words: their log P up to a constant."""
        if not self.borders:
            return self.scores(x)
        first = self.scores(x).log_softmax(1)
        found = [first[:, : self.frequent]]
        for number, group in enumerate(self._each()):
            within = group.scores(group.narrow(x)).log_softmax(1)
            found.append(first[:, self.frequent + number, None] + within)
        return torch.cat(found, 1)

    def log_probabilities(self, x: Tensor, target: Tensor) -> Tensor:
        """(N,) log P of these words."""
        first, groups = self._asked(target)
        found = log_probabilities(self.scores, x, first, self.frequent + len(self.borders))
        for group, (mine, words) in zip(self._each(), groups, strict=True):
            scored, size = partial(_narrowed, group), group.scores.out_features
            found[mine] += log_probabilities(scored, x[mine], words, size)
        return found

    def cost(self, x: Tensor, target: Tensor) -> Tensor:
        """Σ −log P of these words; what it costs to find grows with the groups that are asked for."""
        if self.draws and self.training:
            return sampled_cost(x, self.scores.weight, self.scores.bias, target, self.draws)
        first, groups = self._asked(target)
        total = summed_cross_entropy(x, self.scores.weight, self.scores.bias, first)
        for group, (mine, words) in zip(self._each(), groups, strict=True):
            inside = group.narrow(x[mine])
            total = total + summed_cross_entropy(inside, group.scores.weight, group.scores.bias, words)
        return total

    def _asked(self, target: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """What is asked of the frequent words and groups, and of each group by which rows, and which of its words."""
        if not self.borders:
            return target, []
        group = torch.bucketize(target, torch.tensor(self.borders, device=target.device), right=True)
        first = torch.where(group > 0, self.frequent - 1 + group, target)
        rows = [(group == number).nonzero().squeeze(1) for number in range(1, len(self.borders) + 1)]
        return first, [(mine, target[mine] - border) for mine, border in zip(rows, self.borders, strict=True)]

    def _each(self) -> list[Group]:
        return [group for group in self.groups if isinstance(group, Group)]


def _narrowed(group: Group, x: Tensor) -> Tensor:
    return group.scores(group.narrow(x))


class SoftmaxHead(nn.Module):
    """Which word? Reads the states through a softmax of its own, or one that another head `has` already.

    first  where in a state the numbers begin that it reads: two that read another half may share a softmax
    """

    def __init__(self, softmax: Softmax, *, first: int = 0, shared: bool = False) -> None:
        super().__init__()
        self.first = first
        self._read_by = (softmax,)  # in a tuple, so that what is shared is not registered a second time
        if not shared:
            self.softmax = softmax

    @property
    def vocabulary(self) -> int:
        return self._read_by[0].vocabulary

    def forward(self, states: States) -> Tensor:
        """(T, V) scores: log P up to a constant."""
        return self.scored(self._half(states.last))

    def loss(self, states: States, target: Tensor) -> Tensor:
        """The sum over asked positions; others cost nothing."""
        asked = (target >= 0).nonzero().squeeze(1)
        return self._read_by[0].cost(self._half(states.at(asked)), target[asked])

    def wanted(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None if target is None else (target >= 0).nonzero().squeeze(1)

    def transformed(self, x: Tensor) -> Tensor:
        return x

    def scored(self, x: Tensor) -> Tensor:
        """(N, inputs) → (N, V)."""
        return self._read_by[0](x)

    def log_probabilities(self, x: Tensor, target: Tensor) -> Tensor:
        """(N,) log P of these words."""
        return self._read_by[0].log_probabilities(x, target)

    def _half(self, x: Tensor) -> Tensor:
        width = self._read_by[0].scores.in_features
        return x if x.shape[1] == width else x[:, self.first : self.first + width]
