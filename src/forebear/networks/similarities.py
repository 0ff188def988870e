"""Attention as such: how alike are a query and a key, and what is mixed from the values when that is known.

All four similarities are (…, m, d) queries and (…, n, d) keys → (…, m, n) scores; the two widths may differ unless
it is said that they must not. In formulas q is a query, k a key, both as columns.
What a similarity makes of the keys alone (`keyed`) can be found once, and be given to `scores` with any queries.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from forebear.networks.initial import linear


class Dot(nn.Module):
    """qᵀk, of equal widths. Unscaled its variance is the width; `scaled` by the root of that, it is 1."""

    def __init__(self, *, scaled: bool = True) -> None:
        super().__init__()
        self.scaled = scaled

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return keys

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        scores = queries @ keyed.transpose(-2, -1)
        return scores * keyed.shape[-1] ** -0.5 if self.scaled else scores


class Bilinear(nn.Module):
    """qᵀWk: what is alike is learned (Luong). `scaled` as above, no step of learning changes it too much at once."""

    def __init__(self, queries: int, keys: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        self.between = linear(keys, queries, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.between(keys)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        scores = queries @ keyed.transpose(-2, -1)
        return scores * queries.shape[-1] ** -0.5 if self.scaled else scores


class Concatenated(nn.Module):
    """w·[q; k], a linear map to one number.

    It is one number for the query plus one for the key, so a softmax over keys takes the query's away: every query
    weighs the keys alike. That is why the perceptron bends the sum before it is one number.
    """

    def __init__(self, queries: int, keys: int) -> None:
        super().__init__()
        self.query, self.key = linear(queries, 1, bias=False), linear(keys, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.key(keys).transpose(-2, -1)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        return self.query(queries) + keyed


class Perceptron(nn.Module):
    """vᵀtanh(Wq + Uk), `inner` numbers wide in between (Bahdanau)."""

    def __init__(self, queries: int, keys: int, inner: int) -> None:
        super().__init__()
        self.query, self.key = linear(queries, inner, bias=False), linear(keys, inner, bias=False)
        self.score = linear(inner, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.key(keys)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        both = self.query(queries)[..., :, None, :] + keyed[..., None, :, :]  # (…, m, n, inner)
        return self.score(both.tanh_()).squeeze(-1)  # in place: it is the largest of all that is held


def weighed(scores: Tensor, values: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(…, m, n) scores and (…, n, d) values → (…, m, d) values mixed by (…, m, n) weights, and these weights.

    `allowed` is false where a query must not look; of each query's keys at least one is allowed. What is forbidden is
    taken away before the softmax, so that the weights of the rest are again a whole.
    """
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ values, weights
