"""A linear-chain conditional random field (CRF) layer: loss with closed-form gradient, marginals and Viterbi decoding.

Sequences are packed without padding. Internally they are ordered by time, the longest first: all first words, then all
second words, and so on. The sequences that continue at a step are then always a prefix of those of the step before.

K labels · N words of all sequences · the score of a path is start + emissions + transitions + end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from forebear.nn.inference_mode import in_inference_mode

FORBIDDEN_SCORE = -1e4  # finite, so that a gold path that breaks the scheme has a finite loss and no NaN gradient
MIN_WEIGHT = 1e-300  # smaller weights are clamped before the logarithm


class CRFLayer(nn.Module):
    """A CRF with learned transition, start and end scores.

    allowed_transitions  (K, K) bool: whether label `column` may follow label `row`
    allowed_starts       (K,) bool: whether a sequence may start with the label
    allowed_ends         (K,) bool: whether it may end with it
    """

    def __init__(self, allowed_transitions: np.ndarray, allowed_starts: np.ndarray, allowed_ends: np.ndarray) -> None:
        super().__init__()
        num_labels = len(allowed_transitions)
        self.transition_bias = nn.Parameter(torch.empty(num_labels, num_labels, device="meta"))
        self.start_bias = nn.Parameter(torch.empty(num_labels, device="meta"))
        self.end_bias = nn.Parameter(torch.empty(num_labels, device="meta"))
        # Derived from the label names, hence neither learned nor saved.
        self._mask_scores = tuple(
            np.where(allowed, 0.0, FORBIDDEN_SCORE) for allowed in (allowed_transitions, allowed_starts, allowed_ends)
        )
        self._mask_tensors: tuple[Tensor, ...] = ()

    def loss(self, emissions: Tensor, lengths: Sequence[int], tags: Tensor) -> Tensor:
        """Negative log-likelihood of the tags (N,), summed over sequences; `emissions` are (N, K)."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        time_ordered = _to_double(emissions)[order.words]
        negative_log_likelihood: Any = _CRFLossFunction.apply(
            time_ordered, *self._transition_scores(time_ordered), tags[order.words], order
        )
        return negative_log_likelihood.to(torch.promote_types(emissions.dtype, torch.float32))

    @in_inference_mode
    def marginals(self, emissions: Tensor, lengths: Sequence[int]) -> Tensor:
        """(N, K) marginal probability of each label of each word."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        time_ordered = _to_double(emissions)[order.words]
        transitions, start, end = self._transition_scores(time_ordered)
        prefix_scores, _ = _forward_scores(time_ordered, transitions, start, order)
        marginals = torch.empty_like(time_ordered)
        marginals[order.words] = (prefix_scores + _backward_scores(time_ordered, transitions, end, order)).softmax(1)
        return marginals

    @in_inference_mode
    def viterbi(self, emissions: Tensor, lengths: Sequence[int]) -> list[np.ndarray]:
        """The most probable labels of each sequence."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        time_ordered = _to_double(emissions)[order.words]
        transitions, start, end = self._transition_scores(time_ordered)
        backpointers = torch.zeros(time_ordered.shape, dtype=torch.int64, device=time_ordered.device)
        score = time_ordered[: order.num_rows] + start
        final_scores = score.clone()
        for offset, num_rows in order.later_steps():
            score, backpointers[offset : offset + num_rows] = (score[:num_rows, :, None] + transitions).max(1)
            score = score + time_ordered[offset : offset + num_rows]
            final_scores[:num_rows] = score
        return order.backtrace((final_scores + end).argmax(1).cpu().numpy(), backpointers.cpu().numpy())

    def _transition_scores(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Learned scores plus masks of forbidden ones: transitions, start, end."""
        if not self._mask_tensors or (self._mask_tensors[0].device, self._mask_tensors[0].dtype) != (
            like.device,
            like.dtype,
        ):
            self._mask_tensors = tuple(torch.from_numpy(scores).to(like) for scores in self._mask_scores)
        transition_mask, start_mask, end_mask = self._mask_tensors
        return (
            self.transition_bias.to(like) + transition_mask,
            self.start_bias.to(like) + start_mask,
            self.end_bias.to(like) + end_mask,
        )


@dataclass(frozen=True)
class _CRFTimeOrder:
    """Time order of the words of packed sequences, and the start of each time step."""

    words: Tensor  # word indices in time order
    sizes: tuple[int, ...]  # number of sequences at each time step
    offsets: np.ndarray  # start of each time step
    ranks: np.ndarray  # rank of each sequence by length, longest 0
    lengths: np.ndarray  # of each sequence

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> _CRFTimeOrder:
        row_lengths = np.array([int(length) for length in lengths], np.int64)
        ranks = np.empty(len(row_lengths), np.int64)
        ranks[np.argsort(-row_lengths, kind="stable")] = np.arange(len(row_lengths))
        sizes = np.cumsum(np.bincount(row_lengths, minlength=1)[::-1])[::-1][1:]  # rows longer than 0, 1, …
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        time_step = np.arange(row_lengths.sum()) - np.repeat(np.cumsum(row_lengths) - row_lengths, row_lengths)
        words = np.empty(len(time_step), np.int64)
        words[offsets[time_step] + np.repeat(ranks, row_lengths)] = np.arange(len(time_step))
        return cls(torch.from_numpy(words).to(device), tuple(sizes.tolist()), offsets, ranks, row_lengths)

    @property
    def num_rows(self) -> int:
        """Number of non-empty sequences."""
        return self.sizes[0] if self.sizes else 0

    def later_steps(self) -> list[tuple[int, int]]:
        """(start, number of sequences) of every time step but the first."""
        return list(zip(self.offsets[1:-1].tolist(), self.sizes[1:], strict=True))

    def previous_words(self, device: torch.device) -> Tensor:
        """(N - num_rows,) packed position of the previous word, for all words that are not first."""
        distances = np.repeat(np.array(self.sizes[:-1], np.int64), np.array(self.sizes[1:], np.int64))
        return torch.from_numpy(self.num_rows + np.arange(len(distances)) - distances).to(device)

    def last_words(self, device: torch.device) -> Tensor:
        """(num_rows,) packed position of each sequence's last word, the longest sequence first."""
        lengths = np.sort(self.lengths)[::-1][: self.num_rows]
        return torch.from_numpy(self.offsets[lengths - 1] + np.arange(self.num_rows)).to(device)

    def backtrace(self, last_labels: np.ndarray, backpointers: np.ndarray) -> list[np.ndarray]:
        """Follow the backpointers from the `last_labels`; labels of each sequence in the original order."""
        current, labels = last_labels.copy(), np.empty(len(backpointers), np.int64)
        words = self.words.cpu().numpy()
        for start, num_rows in reversed(self.later_steps()):
            labels[words[start : start + num_rows]] = current[:num_rows]
            current[:num_rows] = backpointers[np.arange(start, start + num_rows), current[:num_rows]]
        labels[words[: self.num_rows]] = current
        return np.split(labels, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []


class _CRFLossFunction(torch.autograd.Function):
    """The loss with its gradient in closed form: expected minus observed counts.

    Autograd through every step would store (N, K, K) values and take longer.
    """

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor, tags: Tensor, order: _CRFTimeOrder
    ):
        previous, last_words = order.previous_words(tags.device), order.last_words(tags.device)
        alpha, maxima = _forward_scores(emissions, transitions, start, order)
        path_scores = emissions.gather(1, tags[:, None]).squeeze(1)
        path_scores = path_scores + torch.cat(
            [start[tags[: order.num_rows]], transitions[tags[previous], tags[order.num_rows :]]]
        )
        ctx.save_for_backward(emissions, transitions, end, tags, alpha, previous, last_words)
        ctx.order = order
        # Differences are summed word by word: the difference of two large sums would lose precision.
        return (maxima - path_scores).sum() + ((alpha[last_words] + end).logsumexp(1) - end[tags[last_words]]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        emissions, transitions, end, tags, alpha, previous, last_words = ctx.saved_tensors
        order: _CRFTimeOrder = ctx.order
        beta = _backward_scores(emissions, transitions, end, order)
        difference = (alpha + beta).softmax(1)
        difference[torch.arange(len(tags), device=tags.device), tags] -= 1
        transition_grad = _expected_transitions(alpha[previous], transitions, (emissions + beta)[order.num_rows :])
        grad = torch.ones(len(previous), dtype=transitions.dtype, device=transitions.device)
        transition_grad.index_put_((tags[previous], tags[order.num_rows :]), -grad, accumulate=True)
        grads = (difference, transition_grad, difference[: order.num_rows].sum(0), difference[last_words].sum(0))
        return (*(gradients[0] * grad for grad in grads), None, None)


def _forward_scores(
    emissions: Tensor, transitions: Tensor, start: Tensor, order: _CRFTimeOrder
) -> tuple[Tensor, Tensor]:
    """(N, K) log weight of all prefixes that end in each label, minus (N,) the maximum of the word.

    Maxima are subtracted at each step: the scores of a long sequence would otherwise lose precision.
    """
    alpha, maxima, weights = torch.empty_like(emissions), torch.empty_like(emissions[:, 0]), transitions.exp()
    score = emissions[: order.num_rows] + start
    for offset, num_rows in [(0, order.num_rows), *order.later_steps()]:
        if offset:
            score = _apply_transitions(score[:num_rows], weights) + emissions[offset : offset + num_rows]
        maximum = score.amax(1)
        score = score - maximum[:, None]
        alpha[offset : offset + num_rows], maxima[offset : offset + num_rows] = score, maximum
    return alpha, maxima


def _backward_scores(emissions: Tensor, transitions: Tensor, end: Tensor, order: _CRFTimeOrder) -> Tensor:
    """(N, K) log weight of all suffixes after each label, up to a constant per word."""
    beta, weights = torch.empty_like(emissions), transitions.exp().t()
    beta[order.last_words(emissions.device)] = end
    for (start, num_rows), (previous_start, _) in reversed(
        [*zip(order.later_steps(), [(0, order.num_rows), *order.later_steps()], strict=False)]
    ):
        score = emissions[start : start + num_rows] + beta[start : start + num_rows]
        beta[previous_start : previous_start + num_rows] = _apply_transitions(
            score - score.amax(1, keepdim=True), weights
        )
    return beta


def _apply_transitions(scores: Tensor, weights: Tensor) -> Tensor:
    """(rows, K) ln Σ_j e^score_j weight_jk; the largest score of each row is 0."""
    return scores.exp().mm(weights).clamp_(min=_min_weight(scores)).log_()


def _expected_transitions(scores_before: Tensor, transitions: Tensor, scores_after: Tensor) -> Tensor:
    """(K, K) expected number of transitions, given the scores before and after each of them."""
    before, after = ((scores - scores.amax(1, keepdim=True)).exp() for scores in (scores_before, scores_after))
    weights = transitions.exp()
    total = ((before @ weights) * after).sum(1, keepdim=True)
    return weights * ((before / total.clamp_(min=_min_weight(total))).t() @ after)


def _min_weight(like: Tensor) -> float:
    return max(MIN_WEIGHT, torch.finfo(like.dtype).tiny)


def _to_double(emissions: Tensor) -> Tensor:
    """Double precision, which products of very small weights need; single precision on Apple's GPUs, which lack it."""
    return emissions.float() if emissions.device.type == "mps" else emissions.double()
