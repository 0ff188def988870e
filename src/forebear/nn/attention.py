"""Attention: a token looks at its own row, at all of it or only at what is before it, or at the row of another text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.layers import DeferredLinear, deferred_linear

# Attention as such: how alike are a query and a key, and what is mixed from the values when that is known.
#
# All four similarities are (…, m, d) queries and (…, n, d) keys → (…, m, n) scores; the two widths may differ unless
# it is said that they must not. In formulas q is a query, k a key, both as columns.
# What a similarity makes of the keys alone (`keyed`) can be found once, and be given to `scores` with any queries.


class DotProductScore(nn.Module):
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


class BilinearScore(nn.Module):
    """qᵀWk: what is alike is learned (Luong). `scaled` as above, no step of learning changes it too much at once."""

    def __init__(self, queries: int, keys: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.scaled = scaled
        self.between = deferred_linear(keys, queries, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.between(keys)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        scores = queries @ keyed.transpose(-2, -1)
        return scores * queries.shape[-1] ** -0.5 if self.scaled else scores


class ConcatScore(nn.Module):
    """w·[q; k], a linear map to one number.

    It is one number for the query plus one for the key, so a softmax over keys takes the query's away: every query
    weighs the keys alike. That is why the perceptron bends the sum before it is one number.
    """

    def __init__(self, queries: int, keys: int) -> None:
        super().__init__()
        self.query, self.key = deferred_linear(queries, 1, bias=False), deferred_linear(keys, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.key(keys).transpose(-2, -1)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        return self.query(queries) + keyed


class AdditiveScore(nn.Module):
    """vᵀtanh(Wq + Uk), `inner` numbers wide in between (Bahdanau)."""

    def __init__(self, queries: int, keys: int, inner: int) -> None:
        super().__init__()
        self.query, self.key = deferred_linear(queries, inner, bias=False), deferred_linear(keys, inner, bias=False)
        self.score = deferred_linear(inner, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries, self.keyed(keys))

    def keyed(self, keys: Tensor) -> Tensor:
        return self.key(keys)

    def scores(self, queries: Tensor, keyed: Tensor) -> Tensor:
        both = self.query(queries)[..., :, None, :] + keyed[..., None, :, :]  # (…, m, n, inner)
        return self.score(both.tanh_()).squeeze(-1)  # in place: it is the largest of all that is held


def attend_with_scores(scores: Tensor, values: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(…, m, n) scores and (…, n, d) values → (…, m, d) values mixed by (…, m, n) weights, and these weights.

    `allowed` is false where a query must not look; of each query's keys at least one is allowed. What is forbidden is
    taken away before the softmax, so that the weights of the rest are again a whole.
    """
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ values, weights


class SelfAttention(nn.Module):
    """Query, key and value come from one product; what the heads found is mixed by another."""

    def __init__(
        self, width: int, heads: int, *, past_only: bool, dropout: float = 0.0, output_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.heads, self.past_only, self.dropout = heads, past_only, nn.Dropout(dropout)
        self.query_key_value = deferred_linear(width, 3 * width)
        self.output = deferred_linear(width, width, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], kept: Tensor | None = None) -> Tensor:
        """(T, D) → (T, D), or only for the tokens that are `kept`: they look at all, and no other looks."""
        dropout = self.dropout.p if self.training else 0.0
        if kept is not None:
            return self.output(self._kept(x, lengths, kept, dropout))
        mixed = attend(self.query_key_value(x), lengths, self.heads, past_only=self.past_only, dropout=dropout)
        return self.output(mixed)

    def _kept(self, x: Tensor, lengths: tuple[int, ...], kept: Tensor, dropout: float) -> Tensor:
        width, layer = x.shape[1], self.query_key_value
        if type(layer) is DeferredLinear:
            queries = functional.linear(x[kept], layer.weight[:width], layer.bias[:width])
            keys_values = functional.linear(x, layer.weight[width:], layer.bias[width:])
        else:  # it multiplies in its own way, and whole
            both = layer(x)
            queries, keys_values = both[kept, :width], both[:, width:]
        ends = torch.tensor(lengths, device=x.device).cumsum(0)
        upto = torch.searchsorted(kept, ends).tolist()  # how many of those kept stand before the end of each row
        counts = [end - begin for begin, end in pairwise([0, *upto])]
        return attend_from(queries, keys_values, lengths, counts, self.heads, dropout=dropout)

    def attention_weights(self, x: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
        """Where each row looks: (H, n, n) weights, from each token (down) to each (across)."""
        return attend_plainly(self.query_key_value(x), lengths, self.heads, past_only=self.past_only)[1]


class CrossAttention(nn.Module):
    """The tokens of a text that is being written look at all of the text that was read: the `memory` of it."""

    def __init__(self, width: int, heads: int, *, output_scale: float = 1.0) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value = deferred_linear(width, width), deferred_linear(width, 2 * width)
        self.output = deferred_linear(width, width, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, D) and the (S, D) that are looked at → (T, D)."""
        queries, keys_values = self.query(x), self.key_value(memory)
        return self.output(attend_from(queries, keys_values, memory_lengths, lengths, self.heads))

    def attention_weights(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> list[Tensor]:
        """Where each row looks: (H, n, m) weights, from each token of what is written to each of what was read."""
        parts = zip(self.query(x).split(lengths), self.key_value(memory).split(memory_lengths), strict=True)
        found = []
        for query, both in parts:
            key, value = both.view(len(both), 2, self.heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, m, d)
            asking = query.view(len(query), self.heads, -1).transpose(0, 1)
            found.append(attend_with_scores(DotProductScore()(asking, key), value, None)[1])
        return found


def attend(
    query_key_value: Tensor, lengths: tuple[int, ...], heads: int, *, past_only: bool, dropout: float = 0.0
) -> Tensor:
    """(T, 3·D) → (T, D). Neighbouring rows of equal length are one call; no row sees another, and nothing is padded."""
    runs = [(length, len(list(rows))) for length, rows in groupby(lengths)]
    parts = query_key_value.split([length * count for length, count in runs]) if len(runs) > 1 else [query_key_value]
    found = []
    for part, (length, count) in zip(parts, runs, strict=True):
        query, key, value = part.view(count, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=past_only)
        found.append(mixed.transpose(1, 2).reshape(count * length, -1))
    return torch.cat(found) if len(found) > 1 else found[0]


def attend_from(
    queries: Tensor,
    keys_values: Tensor,
    lengths: tuple[int, ...],
    counts: Sequence[int],
    heads: int,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """Some tokens, `counts` of them for each row, look at all of it: (A, D) and (T, 2·D) → (A, D).

    Neighbouring rows that are alike in both are one call.
    """
    runs = [(*shape, len(list(rows))) for shape, rows in groupby(zip(counts, lengths, strict=True))]
    asking = queries.split([count * rows for count, _, rows in runs])
    looked_at = keys_values.split([length * rows for _, length, rows in runs])
    found = []
    for query, part, (count, length, rows) in zip(asking, looked_at, runs, strict=True):
        if count:
            key, value = part.view(rows, length, 2, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            one = query.view(rows, count, heads, -1).transpose(1, 2)
            mixed = functional.scaled_dot_product_attention(one, key, value, dropout_p=dropout)
            found.append(mixed.transpose(1, 2).reshape(rows * count, -1))
    return torch.cat(found) if found else queries


def attend_plainly(
    query_key_value: Tensor, lengths: tuple[int, ...], heads: int, *, past_only: bool
) -> tuple[Tensor, list[Tensor]]:
    """`attend` by its definition, row by row: the same (T, D), and the (H, n, n) weights of each row."""
    similarity, found, maps = DotProductScore(), [], []
    for part in query_key_value.split(lengths):
        query, key, value = part.view(len(part), 3, heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, n, d)
        past = torch.ones(len(part), len(part), dtype=torch.bool, device=part.device).tril()
        mixed, weights = attend_with_scores(similarity(query, key), value, past if past_only else None)
        found.append(mixed.transpose(0, 1).reshape(len(part), -1))
        maps.append(weights)
    return torch.cat(found), maps
