"""Attention: score functions, self-attention within a sequence and cross-attention to the encoder's states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.layers import DeferredLinear, deferred_linear

# --- Score functions ---
#
# All four map (…, m, d) queries and (…, n, d) keys to (…, m, n) scores; sizes may differ unless stated otherwise.
# In the formulas q is a query and k a key, both column vectors. `project_keys` depends on the keys alone, so its result
# can be computed once and passed to `scores` with any queries.


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
    """qᵀWk with learned W (Luong). `scaled` divides by √d, so that one training step does not change the scores too
    much.
    """

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


class SelfAttention(nn.Module):
    """Multi-head self-attention with one fused query/key/value projection."""

    def __init__(
        self, hidden_size: int, num_heads: int, *, past_only: bool, dropout: float = 0.0, output_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.heads, self.past_only, self.dropout = num_heads, past_only, nn.Dropout(dropout)
        self.query_key_value = deferred_linear(hidden_size, 3 * hidden_size)
        self.output = deferred_linear(hidden_size, hidden_size, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], positions: Tensor | None = None) -> Tensor:
        """(T, D) → (T, D), or only for the query `positions`, which attend to all tokens of their sequence."""
        dropout = self.dropout.p if self.training else 0.0
        if positions is not None:
            return self.output(self._attend_at_positions(x, lengths, positions, dropout))
        context = attend(self.query_key_value(x), lengths, self.heads, past_only=self.past_only, dropout=dropout)
        return self.output(context)

    def _attend_at_positions(self, x: Tensor, lengths: tuple[int, ...], positions: Tensor, dropout: float) -> Tensor:
        width, layer = x.shape[1], self.query_key_value
        if type(layer) is DeferredLinear:
            queries = functional.linear(x[positions], layer.weight[:width], layer.bias[:width])
            keys_values = functional.linear(x, layer.weight[width:], layer.bias[width:])
        else:  # another layer class (quantized): no slices of its weight
            projected = layer(x)
            queries, keys_values = projected[positions, :width], projected[:, width:]
        ends = torch.tensor(lengths, device=x.device).cumsum(0)
        position_bounds = torch.searchsorted(
            positions, ends
        ).tolist()  # number of those positions before the end of each sequence
        counts = [end - begin for begin, end in pairwise([0, *position_bounds])]
        return attend_to_memory(queries, keys_values, lengths, counts, self.heads, dropout=dropout)

    def attention_weights(self, x: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
        """(H, n, n) attention weights of each sequence: rows are queries, columns are keys."""
        return attend_reference(self.query_key_value(x), lengths, self.heads, past_only=self.past_only)[1]


class CrossAttention(nn.Module):
    """Attention of decoder tokens to the encoder states (`memory`)."""

    def __init__(self, hidden_size: int, num_heads: int, *, output_scale: float = 1.0) -> None:
        super().__init__()
        self.heads = num_heads
        self.query = deferred_linear(hidden_size, hidden_size)
        self.key_value = deferred_linear(hidden_size, 2 * hidden_size)
        self.output = deferred_linear(hidden_size, hidden_size, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]) -> Tensor:
        """(T, D) queries and (S, D) memory → (T, D)."""
        queries, keys_values = self.query(x), self.key_value(memory)
        return self.output(attend_to_memory(queries, keys_values, memory_lengths, lengths, self.heads))

    def attention_weights(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> list[Tensor]:
        """(H, n, m) weights of each sequence, from each target token to each source token."""
        rows = zip(self.query(x).split(lengths), self.key_value(memory).split(memory_lengths), strict=True)
        maps = []
        for query, key_value in rows:
            key, value = key_value.view(len(key_value), 2, self.heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, m, d)
            query_heads = query.view(len(query), self.heads, -1).transpose(0, 1)
            maps.append(attend_with_scores(DotProductScore()(query_heads, key), value, None)[1])
        return maps


def attend(
    query_key_value: Tensor, lengths: tuple[int, ...], num_heads: int, *, past_only: bool, dropout: float = 0.0
) -> Tensor:
    """(T, 3·D) → (T, D). Neighboring sequences of equal length share one call; nothing is padded."""
    runs = [(length, len(list(rows))) for length, rows in groupby(lengths)]
    chunks = query_key_value.split([length * count for length, count in runs]) if len(runs) > 1 else [query_key_value]
    outputs = []
    for chunk, (length, count) in zip(chunks, runs, strict=True):
        query, key, value = chunk.view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        context = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=past_only)
        outputs.append(context.transpose(1, 2).reshape(count * length, -1))
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def attend_to_memory(
    queries: Tensor,
    keys_values: Tensor,
    lengths: tuple[int, ...],
    query_counts: Sequence[int],
    num_heads: int,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """`query_counts` query tokens of each sequence attend to all of it: (A, D) and (T, 2·D) → (A, D).

    Neighboring sequences with the same count and length share one call.
    """
    runs = [(*shape, len(list(rows))) for shape, rows in groupby(zip(query_counts, lengths, strict=True))]
    query_chunks = queries.split([count * rows for count, _, rows in runs])
    memory_chunks = keys_values.split([length * rows for _, length, rows in runs])
    outputs = []
    for query, key_value, (count, length, rows) in zip(query_chunks, memory_chunks, runs, strict=True):
        if count:
            key, value = key_value.view(rows, length, 2, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            query_heads = query.view(rows, count, num_heads, -1).transpose(1, 2)
            context = functional.scaled_dot_product_attention(query_heads, key, value, dropout_p=dropout)
            outputs.append(context.transpose(1, 2).reshape(rows * count, -1))
    return torch.cat(outputs) if outputs else queries


def attend_reference(
    query_key_value: Tensor, lengths: tuple[int, ...], num_heads: int, *, past_only: bool
) -> tuple[Tensor, list[Tensor]]:
    """Reference implementation of `attend`, one sequence at a time: the (T, D) output and the (H, n, n) weights of
    each.
    """
    similarity, outputs, maps = DotProductScore(), [], []
    for row in query_key_value.split(lengths):
        query, key, value = row.view(len(row), 3, num_heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, n, d)
        causal_mask = torch.ones(len(row), len(row), dtype=torch.bool, device=row.device).tril()
        context, weights = attend_with_scores(similarity(query, key), value, causal_mask if past_only else None)
        outputs.append(context.transpose(0, 1).reshape(len(row), -1))
        maps.append(weights)
    return torch.cat(outputs), maps
