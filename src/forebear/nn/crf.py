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

    moves      (K, K) bool: whether label `column` may follow label `row`
    start end  (K,) bool: whether a sequence may start, and end, with the label
    """

    def __init__(self, moves: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        super().__init__()
        labels = len(moves)
        self.transition_bias = nn.Parameter(torch.empty(labels, labels, device="meta"))
        self.start_bias = nn.Parameter(torch.empty(labels, device="meta"))
        self.end_bias = nn.Parameter(torch.empty(labels, device="meta"))
        # Derived from the label names, so neither learned nor saved.
        self._mask_scores = tuple(np.where(allowed, 0.0, FORBIDDEN_SCORE) for allowed in (moves, start, end))
        self._mask_tensors: tuple[Tensor, ...] = ()

    def loss(self, emissions: Tensor, lengths: Sequence[int], tags: Tensor) -> Tensor:
        """Negative log-likelihood of the tags (N,), summed over sequences; `emissions` are (N, K)."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _to_double(emissions)[order.words]
        cost: Any = _CRFLossFunction.apply(laid_out, *self._transition_scores(laid_out), tags[order.words], order)
        return cost.to(torch.promote_types(emissions.dtype, torch.float32))

    @in_inference_mode
    def marginals(self, emissions: Tensor, lengths: Sequence[int]) -> Tensor:
        """(N, K) marginal probability of each label of each word."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _to_double(emissions)[order.words]
        moves, start, end = self._transition_scores(laid_out)
        before, _ = _forward_scores(laid_out, moves, start, order)
        marginals = torch.empty_like(laid_out)
        marginals[order.words] = (before + _backward_scores(laid_out, moves, end, order)).softmax(1)
        return marginals

    @in_inference_mode
    def viterbi(self, emissions: Tensor, lengths: Sequence[int]) -> list[np.ndarray]:
        """The most probable labels of each sequence."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _to_double(emissions)[order.words]
        moves, start, end = self._transition_scores(laid_out)
        backpointers = torch.zeros(laid_out.shape, dtype=torch.int64, device=laid_out.device)
        score = laid_out[: order.rows] + start
        last = score.clone()
        for at, rows in order.later_steps():
            score, backpointers[at : at + rows] = (score[:rows, :, None] + moves).max(1)
            score = score + laid_out[at : at + rows]
            last[:rows] = score
        return order.backtrace((last + end).argmax(1).cpu().numpy(), backpointers.cpu().numpy())

    def _transition_scores(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Learned scores plus masks of forbidden ones: transitions, start, end."""
        if not self._mask_tensors or (self._mask_tensors[0].device, self._mask_tensors[0].dtype) != (
            like.device,
            like.dtype,
        ):
            self._mask_tensors = tuple(torch.from_numpy(cost).to(like) for cost in self._mask_scores)
        moves, start, end = self._mask_tensors
        return self.transition_bias.to(like) + moves, self.start_bias.to(like) + start, self.end_bias.to(like) + end


@dataclass(frozen=True)
class _CRFTimeOrder:
    """Time order of the words of packed sequences, and where each time step begins."""

    words: Tensor  # word indices in time order
    sizes: tuple[int, ...]  # number of sequences at each time step
    offsets: np.ndarray  # start of each time step
    ranks: np.ndarray  # rank of each sequence by length, longest 0
    lengths: np.ndarray  # of each row

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> _CRFTimeOrder:
        size = np.array([int(length) for length in lengths], np.int64)
        ranks = np.empty(len(size), np.int64)
        ranks[np.argsort(-size, kind="stable")] = np.arange(len(size))
        sizes = np.cumsum(np.bincount(size, minlength=1)[::-1])[::-1][1:]  # rows longer than 0, 1, …
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        moment = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        words = np.empty(len(moment), np.int64)
        words[offsets[moment] + np.repeat(ranks, size)] = np.arange(len(moment))
        return cls(torch.from_numpy(words).to(device), tuple(sizes.tolist()), offsets, ranks, size)

    @property
    def rows(self) -> int:
        """Number of non-empty sequences."""
        return self.sizes[0] if self.sizes else 0

    def later_steps(self) -> list[tuple[int, int]]:
        """(start, number of sequences) of every time step but the first."""
        return list(zip(self.offsets[1:-1].tolist(), self.sizes[1:], strict=True))

    def previous_words(self, device: torch.device) -> Tensor:
        """(N - rows,) place of the previous word, for all words that are not first."""
        back = np.repeat(np.array(self.sizes[:-1], np.int64), np.array(self.sizes[1:], np.int64))
        return torch.from_numpy(self.rows + np.arange(len(back)) - back).to(device)

    def last_words(self, device: torch.device) -> Tensor:
        """(rows,) place of each sequence's last word, the longest sequence first."""
        lengths = np.sort(self.lengths)[::-1][: self.rows]
        return torch.from_numpy(self.offsets[lengths - 1] + np.arange(self.rows)).to(device)

    def backtrace(self, last: np.ndarray, backpointers: np.ndarray) -> list[np.ndarray]:
        """Follow the backpointers from the `last` labels; labels of each sequence in the original order."""
        current, labels = last.copy(), np.empty(len(backpointers), np.int64)
        words = self.words.cpu().numpy()
        for start, rows in reversed(self.later_steps()):
            labels[words[start : start + rows]] = current[:rows]
            current[:rows] = backpointers[np.arange(start, start + rows), current[:rows]]
        labels[words[: self.rows]] = current
        return np.split(labels, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []


class _CRFLossFunction(torch.autograd.Function):
    """The loss with its gradient in closed form: expected minus observed counts.

    Autograd through every step would store (N, K, K) values and take longer.
    """

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, moves: Tensor, start: Tensor, end: Tensor, tags: Tensor, order: _CRFTimeOrder
    ):
        previous, lasts = order.previous_words(tags.device), order.last_words(tags.device)
        alpha, levels = _forward_scores(emissions, moves, start, order)
        path_scores = emissions.gather(1, tags[:, None]).squeeze(1)
        path_scores = path_scores + torch.cat([start[tags[: order.rows]], moves[tags[previous], tags[order.rows :]]])
        ctx.save_for_backward(emissions, moves, end, tags, alpha, previous, lasts)
        ctx.order = order
        # Summed word by word, so that no difference of two large sums is taken.
        return (levels - path_scores).sum() + ((alpha[lasts] + end).logsumexp(1) - end[tags[lasts]]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        emissions, moves, end, tags, alpha, previous, lasts = ctx.saved_tensors
        order: _CRFTimeOrder = ctx.order
        beta = _backward_scores(emissions, moves, end, order)
        difference = (alpha + beta).softmax(1)
        difference[torch.arange(len(tags), device=tags.device), tags] -= 1
        transition_grad = _expected_transitions(alpha[previous], moves, (emissions + beta)[order.rows :])
        grad = torch.ones(len(previous), dtype=moves.dtype, device=moves.device)
        transition_grad.index_put_((tags[previous], tags[order.rows :]), -grad, accumulate=True)
        grads = (difference, transition_grad, difference[: order.rows].sum(0), difference[lasts].sum(0))
        return (*(gradients[0] * grad for grad in grads), None, None)


def _forward_scores(emissions: Tensor, moves: Tensor, start: Tensor, order: _CRFTimeOrder) -> tuple[Tensor, Tensor]:
    """(N, K) log weight of all prefixes that end in each label, minus (N,) the maximum of the word.

    Maxima are subtracted at each step: over a long sequence their sum would swallow the digits.
    """
    alpha, levels, weights = torch.empty_like(emissions), torch.empty_like(emissions[:, 0]), moves.exp()
    score = emissions[: order.rows] + start
    for at, rows in [(0, order.rows), *order.later_steps()]:
        if at:
            score = _apply_transitions(score[:rows], weights) + emissions[at : at + rows]
        level = score.amax(1)
        score = score - level[:, None]
        alpha[at : at + rows], levels[at : at + rows] = score, level
    return alpha, levels


def _backward_scores(emissions: Tensor, moves: Tensor, end: Tensor, order: _CRFTimeOrder) -> Tensor:
    """(N, K) log weight of all suffixes after each label, up to a constant per word."""
    beta, weights = torch.empty_like(emissions), moves.exp().t()
    beta[order.last_words(emissions.device)] = end
    for (start, rows), (earlier, _) in reversed(
        [*zip(order.later_steps(), [(0, order.rows), *order.later_steps()], strict=False)]
    ):
        score = emissions[start : start + rows] + beta[start : start + rows]
        beta[earlier : earlier + rows] = _apply_transitions(score - score.amax(1, keepdim=True), weights)
    return beta


def _apply_transitions(scores: Tensor, weights: Tensor) -> Tensor:
    """(rows, K) ln Σ_j e^score_j weight_jk; the largest score of each row is 0."""
    return scores.exp().mm(weights).clamp_(min=_min_weight(scores)).log_()


def _expected_transitions(left: Tensor, moves: Tensor, right: Tensor) -> Tensor:
    """(K, K) expected number of transitions, given the scores before and after each of them."""
    before, after = ((scores - scores.amax(1, keepdim=True)).exp() for scores in (left, right))
    weights = moves.exp()
    total = ((before @ weights) * after).sum(1, keepdim=True)
    return weights * ((before / total.clamp_(min=_min_weight(total))).t() @ after)


def _min_weight(like: Tensor) -> float:
    return max(MIN_WEIGHT, torch.finfo(like.dtype).tiny)


def _to_double(emissions: Tensor) -> Tensor:
    """Double precision, which the products of very small weights need."""
    return (
        emissions.float() if emissions.device.type == "mps" else emissions.double()
    )  # Apple's GPUs have no double precision
