"""Score functions of attention: dot product, bilinear (Luong), concat and additive (Bahdanau).

All four map (…, m, d) queries and (…, n, d) keys to (…, m, n) scores; sizes may differ unless stated otherwise. In the
formulas q is a query and k a key, both column vectors. `project_keys` depends on the keys alone, so its result can be
computed once and passed to `scores` with any queries.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from forebear.nn.layers import deferred_linear


class DotProductScore(nn.Module):
    """qᵀk, for queries and keys of equal size. `scaled` divides by √d, which brings the variance from d to 1."""

    def __init__(self, *, scaled: bool = True) -> None:
        super().__init__()
        self.scaled = scaled

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.project_keys(keys))

    def project_keys(self, keys: Tensor) -> Tensor:
        return keys

    def scores(self, queries: Tensor, projected_keys: Tensor) -> Tensor:
        scores = queries @ projected_keys.transpose(-2, -1)
        return scores * projected_keys.shape[-1] ** -0.5 if self.scaled else scores


class BilinearScore(nn.Module):
    """qᵀWk with learned W (Luong). `scaled` divides by √d, so that a training step changes the scores less."""

    def __init__(self, query_size: int, key_size: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        self.between = deferred_linear(key_size, query_size, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.project_keys(keys))

    def project_keys(self, keys: Tensor) -> Tensor:
        return self.between(keys)

    def scores(self, queries: Tensor, projected_keys: Tensor) -> Tensor:
        scores = queries @ projected_keys.transpose(-2, -1)
        return scores * queries.shape[-1] ** -0.5 if self.scaled else scores


class ConcatScore(nn.Module):
    """w·[q; k], a linear map to one score.

    The score is a sum of a query term and a key term, so the softmax over keys cancels the query term and every query
    gets the same weights. `AdditiveScore` avoids this with a tanh before the last map.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query, self.key = deferred_linear(query_size, 1, bias=False), deferred_linear(key_size, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.project_keys(keys))

    def project_keys(self, keys: Tensor) -> Tensor:
        return self.key(keys).transpose(-2, -1)

    def scores(self, queries: Tensor, projected_keys: Tensor) -> Tensor:
        return self.query(queries) + projected_keys


class AdditiveScore(nn.Module):
    """vᵀtanh(Wq + Uk) with hidden size `inner` (Bahdanau)."""

    def __init__(self, query_size: int, key_size: int, inner: int) -> None:
        super().__init__()
        self.query = deferred_linear(query_size, inner, bias=False)
        self.key = deferred_linear(key_size, inner, bias=False)
        self.score = deferred_linear(inner, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.project_keys(keys))

    def project_keys(self, keys: Tensor) -> Tensor:
        return self.key(keys)

    def scores(self, queries: Tensor, projected_keys: Tensor) -> Tensor:
        hidden = self.query(queries)[..., :, None, :] + projected_keys[..., None, :, :]  # (…, m, n, inner)
        return self.score(hidden.tanh_()).squeeze(-1)  # in place: the largest tensor here


def attend_with_scores(scores: Tensor, values: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(…, m, n) scores and (…, n, d) values → (…, m, d) weighted values, and the (…, m, n) weights.

    `allowed` is false where a query must not attend; each query needs at least one allowed key. Masked scores are set
    to -inf before the softmax, so the remaining weights sum to 1.
    """
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ values, weights
