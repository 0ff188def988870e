"""Output heads: language modeling, classification, multiple choice, tagging and answer spans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from forebear.nn.embedding import InputEmbedding
from forebear.nn.encoder import States, TokenHead, supervised_tokens
from forebear.nn.layers import (
    ACTIVATIONS,
    DeferredEmbedding,
    Initializable,
    deferred_layer_norm,
    deferred_linear,
    set_initial_values,
)
from forebear.nn.nnlm import WordEmbedding
from forebear.nn.scalar_mix import ScalarMix
from forebear.nn.softmax import sampled_softmax_loss, summed_cross_entropy, target_log_probs, zipf_probabilities

if TYPE_CHECKING:
    from forebear.nn.crf import CRFLayer


class LMHead(TokenHead, Initializable):
    """Scores every token of the vocabulary with the weights of the input embedding (tied).

    Args:
        embedding: The embedding whose weights are shared.
        width: Size of the states, if it differs from the embedding's (ALBERT).
        bias: Add a bias per token.
        transform: Activation of a dense layer with LayerNorm before the output, as in BERT.
        smoothing: Label smoothing in training, as in the Transformer.
        num_samples: Number of classes of the sampled softmax in training; 0 is the full softmax.
        sorted_by_frequency: Ids are sorted by descending frequency: biases start at the log of Zipf's law.
    """

    def __init__(
        self,
        embedding: InputEmbedding | WordEmbedding,
        *,
        width: int | None = None,
        bias: bool = False,
        transform: str | None = None,
        epsilon: float = 1e-5,
        smoothing: float = 0.0,
        num_samples: int = 0,
        sorted_by_frequency: bool = False,
    ) -> None:
        super().__init__()
        self.smoothing, self.num_samples = smoothing, num_samples if num_samples < embedding.vocab_size else 0
        self._shared_embedding = (embedding,)  # in a tuple, so that its weight is not registered twice
        self.bias = nn.Parameter(torch.empty(embedding.vocab_size, device="meta")) if bias else None
        if sorted_by_frequency:
            set_initial_values(self, bias=zipf_probabilities(embedding.vocab_size).log())
        self.activation = transform
        self.transform = deferred_linear(width or embedding.width, embedding.width) if transform else None
        self.transform_norm = deferred_layer_norm(embedding.width, epsilon) if transform else None

    @property
    def vocab_size(self) -> int:
        return self._shared_embedding[0].vocab_size

    @property
    def embedding(self) -> DeferredEmbedding:
        """The shared embedding table; a quantized one cannot be trained."""
        return self._shared_embedding[0].token

    @property
    def weight(self) -> Tensor:
        """(V, D) weights of the embedding."""
        return self.embedding.weight

    def forward(self, states: States) -> Tensor:
        """(T, V) logits."""
        return self.logits_from(self.transform_states(states.last))

    def logits_from(self, x: Tensor) -> Tensor:
        """(T, D), the output of `transform_states` → (T, V) logits."""
        return self.embedding.logits(x, self.bias)

    def log_probs(self, x: Tensor, target: Tensor) -> Tensor:
        """(N,) log P of these tokens, given last-layer vectors (N, D)."""
        return target_log_probs(self.logits_from, self.transform_states(x), target, self.vocab_size)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Cross-entropy summed over supervised positions."""
        positions = supervised_tokens(target)
        x = states.last if len(positions) == len(states.last) == len(target) else states.last_at(positions)
        if type(self.embedding) is not DeferredEmbedding:
            return -self.log_probs(x, target[positions]).sum()
        if self.num_samples and self.training:
            return sampled_softmax_loss(
                self.transform_states(x), self.weight, self.bias, target[positions], self.num_samples
            )
        smoothing = self.smoothing if self.training else 0.0
        return summed_cross_entropy(self.transform_states(x), self.weight, self.bias, target[positions], smoothing)

    def transform_states(self, x: Tensor) -> Tensor:
        if self.transform is None or self.transform_norm is None or self.activation is None:
            return x
        return self.transform_norm(ACTIVATIONS[self.activation](self.transform(x)))


class PoolerHead(nn.Module):
    """Classifies a sequence from its first token ([CLS]) through a tanh layer: BERT's "pooler"."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.pool, self.choose = deferred_linear(width, width), deferred_linear(width, num_classes)

    def forward(self, states: States) -> Tensor:
        """(B, num_classes) logits."""
        first = states.last_at(first_token_indices(states.lengths, states.last.device))
        return self.choose(torch.tanh(self.pool(first)))

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Cross-entropy summed over labeled sequences."""
        is_supervised = target >= 0
        first = states.last_at(first_token_indices(states.lengths, target.device)[is_supervised])
        logits = self.choose(torch.tanh(self.pool(first)))
        return functional.cross_entropy(logits.float(), target[is_supervised], reduction="sum")

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor:
        first = first_token_indices(lengths, self.choose.weight.device)
        return first if target is None else first[target >= 0]


def first_token_indices(lengths: Sequence[int], device: torch.device) -> Tensor:
    """(B,) index of each sequence's first token."""
    return torch.tensor(list(accumulate(lengths, initial=0))[:-1], device=device)


# --- Task heads ---


LabelType = Literal["one", "several", "number"]


class _TaskHead(nn.Module):
    """Base of task heads; their input is the last layer or a scalar mix of all layers, with dropout."""

    def __init__(self, mixture: ScalarMix | None, dropout: float) -> None:
        super().__init__()
        self.mixture, self.dropout = mixture, nn.Dropout(dropout)

    def vectors_at(self, states: States, token_indices: Tensor) -> Tensor:
        """(n, D) vectors of these tokens."""
        return states.last_at(token_indices) if self.mixture is None else self.mixture(states, token_indices)

    def all_vectors(self, states: States) -> Tensor:
        """(T, D) vectors of all tokens."""
        if self.mixture is None:
            return states.last
        return self.mixture(states, torch.arange(sum(states.lengths), device=states.last.device))

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None


class PooledHead(_TaskHead):
    """Pools each sequence into one vector: its first or last token, the mean, or the maximum (0 for an empty sequence).

    `dense` adds a tanh layer.
    """

    def __init__(
        self,
        width: int,
        num_classes: int,
        pooling: str,
        *,
        dense: bool,
        mixture: ScalarMix | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(mixture, dropout)
        self.pooling = pooling
        self.pool = deferred_linear(width, width) if dense else None
        # GPT's paper has softmax(hW) without a bias.
        self.choose = deferred_linear(width, num_classes, bias=pooling != "last")

    def pool_rows(self, states: States) -> Tensor:
        """(B, D)."""
        if self.pooling in ("first", "last"):
            return self.vectors_at(states, self._pooled_positions(states.lengths))
        x, lengths = self.all_vectors(states), torch.tensor(states.lengths, device=states.last.device)
        if self.pooling == "max":
            pooled = torch.segment_reduce(x, "max", lengths=lengths, unsafe=True)
            return pooled.masked_fill((lengths == 0)[:, None], 0.0)
        return group_means(x, torch.arange(len(lengths), device=x.device).repeat_interleave(lengths), len(lengths))

    def logits(self, x: Tensor) -> Tensor:
        """(n, D) → (n, num_classes)."""
        if self.pool is not None:
            x = torch.tanh(self.pool(x))
        return self.choose(self.dropout(x)).float()

    def supervised_positions(self, lengths: tuple[int, ...], target: Tensor | None) -> Tensor | None:
        return None if self.pooling in ("mean", "max") else self._pooled_positions(lengths)

    def _pooled_positions(self, lengths: tuple[int, ...]) -> Tensor:
        device = self.choose.weight.device
        first = first_token_indices(lengths, device)
        return first if self.pooling == "first" else first + torch.tensor(lengths, device=device) - 1


class LabelHead(PooledHead):
    """Single-label ("one") or multi-label ("several") classification, or regression ("number").

    An example has several sequences if two texts are encoded in both orders or a long text is split into windows; their
    vectors are averaged. `class_weights` are for the loss.
    """

    def __init__(
        self,
        width: int,
        num_classes: int,
        pooling: str,
        *,
        kind: LabelType = "one",
        dense: bool,
        mixture: ScalarMix | None = None,
        dropout: float = 0.0,
        class_weights: tuple[float, ...] | None = None,
    ) -> None:
        super().__init__(width, num_classes, pooling, dense=dense, mixture=mixture, dropout=dropout)
        self.kind, self.class_weights = kind, class_weights

    def forward(self, states: States) -> Tensor:
        """(examples, num_classes) logits, or values for regression."""
        x = self.pool_rows(states)
        if states.groups is not None and len(states.groups):
            x = group_means(x, states.groups, int(states.groups[-1]) + 1)
        return self.logits(x)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Loss summed over labeled examples; targets: (E,) label indices, (E, num_classes) 0 or 1, (E,) values."""
        logits = self(states)
        if self.kind == "number":
            is_supervised = ~torch.isnan(target)
            return functional.mse_loss(logits[is_supervised, 0], target[is_supervised], reduction="sum")
        weight = None if self.class_weights is None else torch.tensor(self.class_weights, device=logits.device)
        if self.kind == "one":
            is_supervised = target >= 0
            return functional.cross_entropy(
                logits[is_supervised], target[is_supervised], weight=weight, reduction="sum"
            )
        is_supervised = target[:, 0] >= 0
        labels = target[is_supervised].float()
        return functional.binary_cross_entropy_with_logits(
            logits[is_supervised], labels, pos_weight=weight, reduction="sum"
        )


class ChoiceHead(PooledHead):
    """Multiple choice: a score for each sequence, and a softmax over the sequences of an example."""

    def __init__(
        self, width: int, pooling: str, *, dense: bool, mixture: ScalarMix | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(width, 1, pooling, dense=dense, mixture=mixture, dropout=dropout)

    def forward(self, states: States) -> Tensor:
        """(B,) logits."""
        return self.logits(self.pool_rows(states)).squeeze(1)

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Targets are (E,) indices of the right sequence within the example."""
        assert states.groups is not None
        sizes = torch.bincount(states.groups)
        padded_scores = pad_scores(self(states), tuple(sizes.tolist()))
        is_supervised = target >= 0
        return functional.cross_entropy(padded_scores[is_supervised], target[is_supervised], reduction="sum")


class TagHead(TokenHead, _TaskHead):
    """A tag for each word, independently or jointly with a CRF."""

    def __init__(
        self,
        width: int,
        num_tags: int,
        *,
        crf: CRFLayer | None = None,
        mixture: ScalarMix | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(mixture, dropout)
        self.choose, self.crf = deferred_linear(width, num_tags), crf

    def forward(self, states: States) -> Tensor:
        """(T, num_tags) logits."""
        return self.choose(self.all_vectors(states)).float()

    def loss(self, states: States, target: Tensor) -> Tensor:
        positions = supervised_tokens(target)
        logits = self.choose(self.dropout(self.vectors_at(states, positions))).float()
        if self.crf is None:
            return functional.cross_entropy(logits, target[positions], reduction="sum")
        ends = torch.tensor(states.lengths, device=target.device).cumsum(0)
        word_counts = torch.bincount(torch.searchsorted(ends, positions, right=True), minlength=len(ends))
        return self.crf.loss(logits, tuple(word_counts.tolist()), target[positions])


class PointerHead(_TaskHead):
    """Selects a token of the sequence by a softmax over it (start or end of an answer, as in BERT)."""

    def __init__(self, width: int, *, mixture: ScalarMix | None = None, dropout: float = 0.0) -> None:
        super().__init__(mixture, dropout)
        self.choose = deferred_linear(width, 1)

    def forward(self, states: States) -> Tensor:
        """(T,) logits."""
        return self.choose(self.dropout(self.all_vectors(states))).squeeze(1).float()

    def loss(self, states: States, target: Tensor) -> Tensor:
        """Targets are (B,) positions within the sequence."""
        padded_scores, is_supervised = pad_scores(self(states), states.lengths), target >= 0
        return functional.cross_entropy(padded_scores[is_supervised], target[is_supervised], reduction="sum")


def pad_scores(scores: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """(n,) scores of packed sequences → (sequences, longest), padded with -inf."""
    rows = torch.nn.utils.rnn.pad_sequence(list(scores.split(list(lengths))), batch_first=True)
    positions = torch.arange(rows.shape[1], device=scores.device)
    is_padding = positions[None] >= torch.tensor(lengths, device=scores.device)[:, None]
    return rows.masked_fill(is_padding, float("-inf"))


def group_means(x: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """(n, D) → (num_groups, D): mean vector of each group."""
    sums = x.new_zeros(num_groups, x.shape[1]).index_add(0, groups, x)
    return sums / torch.bincount(groups, minlength=num_groups).clamp(min=1)[:, None]
