"""A softmax that is learned from a sample: each step weighs the right words against some drawn by chance.

Words are drawn as text has them, frequent ones (small ids) more often, by Zipf's law. A word that is often drawn would
be pushed down too often: so each score is lowered by the logarithm of how likely its word was to be there (Bengio and
Senécal 2003; Jean et al. 2015). It is another objective than the likelihood, near to it where many are drawn; what a
model says is always the exact softmax.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sampled_cost(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, tries: int) -> Tensor:
    """Σ over (N,) targets, each among about `tries` of the (V, D) weights; x are (N, D)."""
    vocabulary = len(weight)
    drawn = torch.unique(zipf(tries, vocabulary, x.device))
    rows = torch.cat((drawn, target))
    vectors = weight.index_select(0, rows)
    others, right = vectors.split([len(drawn), len(target)])
    extra = -log_chance(rows, vocabulary, tries)
    extra = extra if bias is None else extra + bias[rows]
    of_others, of_right = extra.split([len(drawn), len(target)])
    scores = torch.addmm(of_others, x, others.t())
    scores = scores.masked_fill(drawn == target[:, None], -torch.inf)  # the right word is no wrong one too
    truth = (x * right).sum(1) + of_right
    return (torch.logaddexp(torch.logsumexp(scores.float(), 1), truth.float()) - truth.float()).sum()


def zipf(count: int, vocabulary: int, device: torch.device) -> Tensor:
    """(count,) ids, P(id) = log((id + 2) / (id + 1)) / log(V + 1): the smaller the likelier."""
    chance = torch.rand(count, device=device, dtype=torch.float64)
    found = torch.exp(chance * math.log(vocabulary + 1)).long() - 1
    return found.clamp(0, vocabulary - 1)


def zipf_shares(vocabulary: int) -> Tensor:
    """(V,) the P of every id: about what each word's share of a text is, before anything is known of that text."""
    return _once(torch.arange(vocabulary), vocabulary)


def log_chance(ids: Tensor, vocabulary: int, tries: int) -> Tensor:
    """log P that an id is drawn at least once in so many tries."""
    return torch.log(-torch.expm1(tries * torch.log1p(-_once(ids, vocabulary)))).float()


def _once(ids: Tensor, vocabulary: int) -> Tensor:
    return torch.log1p(1 / (ids.double() + 1)) / math.log(vocabulary + 1)
