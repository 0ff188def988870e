"""Attention: self-attention within a sequence, and cross-attention to the encoder's states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.attention_scores import DotProductScore, attend_with_scores
from forebear.nn.layers import DeferredLinear, deferred_linear


class SelfAttention(nn.Module):
    """Multi-head self-attention with one fused query/key/value projection."""

    def __init__(
        self, hidden_size: int, num_heads: int, *, is_causal: bool, dropout: float = 0.0, output_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.heads, self.is_causal, self.dropout = num_heads, is_causal, nn.Dropout(dropout)
        self.query_key_value = deferred_linear(hidden_size, 3 * hidden_size)
        self.output = deferred_linear(hidden_size, hidden_size, scale=output_scale)

    def forward(self, x: Tensor, lengths: tuple[int, ...], positions: Tensor | None = None) -> Tensor:
        """(T, D) → (T, D), or only for the query `positions`, which attend to all tokens of their sequence."""
        dropout = self.dropout.p if self.training else 0.0
        if positions is not None:
            return self.output(self._attend_at_positions(x, lengths, positions, dropout))
        context = attend(self.query_key_value(x), lengths, self.heads, is_causal=self.is_causal, dropout=dropout)
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
        bounds = torch.searchsorted(positions, ends).tolist()  # number of positions before the end of each sequence
        counts = [end - begin for begin, end in pairwise([0, *bounds])]
        return attend_queries_to_keys(queries, keys_values, lengths, counts, self.heads, dropout=dropout)

    def attention_weights(self, x: Tensor, lengths: tuple[int, ...]) -> list[Tensor]:
        """(H, n, n) attention weights of each sequence: rows are queries, columns are keys."""
        return attend_reference(self.query_key_value(x), lengths, self.heads, is_causal=self.is_causal)[1]


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
        return self.output(attend_queries_to_keys(queries, keys_values, memory_lengths, lengths, self.heads))

    def attention_weights(
        self, x: Tensor, lengths: tuple[int, ...], memory: Tensor, memory_lengths: tuple[int, ...]
    ) -> list[Tensor]:
        """(H, n, m) weights of each sequence, from each target token to each source token."""
        sequences = zip(self.query(x).split(lengths), self.key_value(memory).split(memory_lengths), strict=True)
        weights = []
        for query, key_value in sequences:
            key, value = key_value.view(len(key_value), 2, self.heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, m, d)
            query_heads = query.view(len(query), self.heads, -1).transpose(0, 1)
            weights.append(attend_with_scores(DotProductScore()(query_heads, key), value)[1])
        return weights


def attend(
    query_key_value: Tensor, lengths: tuple[int, ...], num_heads: int, *, is_causal: bool, dropout: float = 0.0
) -> Tensor:
    """(T, 3·D) → (T, D). Neighboring sequences of equal length share one call; nothing is padded."""
    groups = [(length, len(list(equal))) for length, equal in groupby(lengths)]
    sizes = [length * count for length, count in groups]
    chunks = query_key_value.split(sizes) if len(groups) > 1 else [query_key_value]
    outputs = []
    for chunk, (length, count) in zip(chunks, groups, strict=True):
        query, key, value = chunk.view(count, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        context = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=is_causal)
        outputs.append(context.transpose(1, 2).reshape(count * length, -1))
    return torch.cat(outputs) if len(outputs) > 1 else outputs[0]


def attend_queries_to_keys(
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
    groups = [(*shape, len(list(equal))) for shape, equal in groupby(zip(query_counts, lengths, strict=True))]
    query_chunks = queries.split([count * rows for count, _, rows in groups])
    key_value_chunks = keys_values.split([length * rows for _, length, rows in groups])
    outputs = []
    for query, key_value, (count, length, rows) in zip(query_chunks, key_value_chunks, groups, strict=True):
        if count:
            key, value = key_value.view(rows, length, 2, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
            query_heads = query.view(rows, count, num_heads, -1).transpose(1, 2)
            context = functional.scaled_dot_product_attention(query_heads, key, value, dropout_p=dropout)
            outputs.append(context.transpose(1, 2).reshape(rows * count, -1))
    return torch.cat(outputs) if outputs else queries


def attend_reference(
    query_key_value: Tensor, lengths: tuple[int, ...], num_heads: int, *, is_causal: bool
) -> tuple[Tensor, list[Tensor]]:
    """Reference implementation of `attend`, one sequence at a time: (T, D) output, (H, n, n) weights of each."""
    score, outputs, weights = DotProductScore(), [], []
    for row in query_key_value.split(lengths):
        query, key, value = row.view(len(row), 3, num_heads, -1).permute(1, 2, 0, 3).unbind(0)  # (H, n, d)
        causal_mask = torch.ones(len(row), len(row), dtype=torch.bool, device=row.device).tril()
        context, row_weights = attend_with_scores(score(query, key), value, causal_mask if is_causal else None)
        outputs.append(context.transpose(0, 1).reshape(len(row), -1))
        weights.append(row_weights)
    return torch.cat(outputs), weights
