"""A linear-chain conditional random field: the labels of a row judged together, by what may follow what.

Rows lie one after the other without padding, as everywhere. Inside they are laid out by time, the longest first: all
first words, then all second ones, and so on. At each moment the rows that still go on are then the first few of those
that went on before, and nothing has to be padded or masked.

K labels · N words of all rows · scores add up along a row: its start, the emission of each word, moves, its end
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FORBIDDEN = -1e4  # finite, so that a row which people labelled so has a loss, and no gradient is NaN
LEAST = 1e-300  # what is rarer counts as this rare, so that its logarithm is a number


class CRFLayer(nn.Module):
    """Which labels, of all words of a row together? Learns a score for every move, and for every start and end.

    moves      (K, K) bool: whether the label of the column may follow that of the row
    start end  (K,) bool: whether a row may begin, and end, with it
    """

    def __init__(self, moves: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        super().__init__()
        labels = len(moves)
        self.transition_bias = nn.Parameter(torch.empty(labels, labels, device="meta"))
        self.start_bias = nn.Parameter(torch.empty(labels, device="meta"))
        self.end_bias = nn.Parameter(torch.empty(labels, device="meta"))
        # Follow from the labels' names, so that they are neither learned nor saved.
        self._costs = tuple(np.where(allowed, 0.0, FORBIDDEN) for allowed in (moves, start, end))
        self._placed: tuple[Tensor, ...] = ()

    def loss(self, emissions: Tensor, lengths: Sequence[int], tags: Tensor) -> Tensor:
        """−ln of the probability of these tags (N,), summed over rows; `emissions` are (N, K)."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _exact(emissions)[order.words]
        cost: Any = _CRFLossFunction.apply(laid_out, *self._scores(laid_out), tags[order.words], order)
        return cost.to(torch.promote_types(emissions.dtype, torch.float32))

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Sequence[int]) -> Tensor:
        """(N, K) the probability of each label of each word, over all ways to label its row."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _exact(emissions)[order.words]
        moves, start, end = self._scores(laid_out)
        before, _ = _forwards(laid_out, moves, start, order)
        found = torch.empty_like(laid_out)
        found[order.words] = (before + _backwards(laid_out, moves, end, order)).softmax(1)
        return found

    @torch.no_grad()
    def viterbi(self, emissions: Tensor, lengths: Sequence[int]) -> list[np.ndarray]:
        """The likeliest labels of each row."""
        order = _CRFTimeOrder.of(lengths, emissions.device)
        laid_out = _exact(emissions)[order.words]
        moves, start, end = self._scores(laid_out)
        came_from = torch.zeros(laid_out.shape, dtype=torch.int64, device=laid_out.device)
        score = laid_out[: order.rows] + start
        last = score.clone()
        for at, rows in order.later():
            score, came_from[at : at + rows] = (score[:rows, :, None] + moves).max(1)
            score = score + laid_out[at : at + rows]
            last[:rows] = score
        return order.traced((last + end).argmax(1).cpu().numpy(), came_from.cpu().numpy())

    def _scores(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of moves, starts and ends: what was learned, and what is forbidden."""
        if not self._placed or (self._placed[0].device, self._placed[0].dtype) != (like.device, like.dtype):
            self._placed = tuple(torch.from_numpy(cost).to(like) for cost in self._costs)
        moves, start, end = self._placed
        return self.transition_bias.to(like) + moves, self.start_bias.to(like) + start, self.end_bias.to(like) + end


@dataclass(frozen=True)
class _CRFTimeOrder:
    """Rows laid out by time: the numbers of their words in that order, and where each moment begins."""

    words: Tensor  # (N,) by time
    sizes: tuple[int, ...]  # how many rows have a first word, a second, …
    offsets: np.ndarray  # where each moment begins
    ranks: np.ndarray  # of each row, the longest being 0
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
        """How many have a word at all."""
        return self.sizes[0] if self.sizes else 0

    def later(self) -> list[tuple[int, int]]:
        """(where it begins, how many rows it has) of every moment but the first."""
        return list(zip(self.offsets[1:-1].tolist(), self.sizes[1:], strict=True))

    def before(self, device: torch.device) -> Tensor:
        """(N - rows,) where the word before stands, for all words that are not first."""
        back = np.repeat(np.array(self.sizes[:-1], np.int64), np.array(self.sizes[1:], np.int64))
        return torch.from_numpy(self.rows + np.arange(len(back)) - back).to(device)

    def lasts(self, device: torch.device) -> Tensor:
        """(rows,) where each row's last word stands, the longest row first."""
        lengths = np.sort(self.lengths)[::-1][: self.rows]
        return torch.from_numpy(self.offsets[lengths - 1] + np.arange(self.rows)).to(device)

    def traced(self, last: np.ndarray, came_from: np.ndarray) -> list[np.ndarray]:
        """Each row's labels, in the rows' own order, from the `last` ones back."""
        here, found = last.copy(), np.empty(len(came_from), np.int64)
        words = self.words.cpu().numpy()
        for at, rows in reversed(self.later()):
            found[words[at : at + rows]] = here[:rows]
            here[:rows] = came_from[np.arange(at, at + rows), here[:rows]]
        found[words[: self.rows]] = here
        return np.split(found, np.cumsum(self.lengths)[:-1]) if len(self.lengths) else []


class _CRFLossFunction(torch.autograd.Function):
    """The loss and its gradient in closed form: what is expected less what is there.

    Going back through every step would keep (N, K, K) numbers and take longer.
    """

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, moves: Tensor, start: Tensor, end: Tensor, tags: Tensor, order: _CRFTimeOrder
    ):
        before, lasts = order.before(tags.device), order.lasts(tags.device)
        forwards, levels = _forwards(emissions, moves, start, order)
        reached = emissions.gather(1, tags[:, None]).squeeze(1)
        reached = reached + torch.cat([start[tags[: order.rows]], moves[tags[before], tags[order.rows :]]])
        ctx.save_for_backward(emissions, moves, end, tags, forwards, before, lasts)
        ctx.order = order
        # Word by word, so that no difference of two large sums is taken.
        return (levels - reached).sum() + ((forwards[lasts] + end).logsumexp(1) - end[tags[lasts]]).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        emissions, moves, end, tags, forwards, before, lasts = ctx.saved_tensors
        order: _CRFTimeOrder = ctx.order
        backwards = _backwards(emissions, moves, end, order)
        surplus = (forwards + backwards).softmax(1)
        surplus[torch.arange(len(tags), device=tags.device), tags] -= 1
        at_moves = _expected(forwards[before], moves, (emissions + backwards)[order.rows :])
        one = torch.ones(len(before), dtype=moves.dtype, device=moves.device)
        at_moves.index_put_((tags[before], tags[order.rows :]), -one, accumulate=True)
        found = (surplus, at_moves, surplus[: order.rows].sum(0), surplus[lasts].sum(0))
        return (*(gradients[0] * one for one in found), None, None)


def _forwards(emissions: Tensor, moves: Tensor, start: Tensor, order: _CRFTimeOrder) -> tuple[Tensor, Tensor]:
    """(N, K) ln of the weight of all beginnings that end in a word's label, less (N,) the level of the word.

    Levels, the largest of a word, are taken out at once: over a long row they would swallow the digits.
    """
    found, levels, weights = torch.empty_like(emissions), torch.empty_like(emissions[:, 0]), moves.exp()
    score = emissions[: order.rows] + start
    for at, rows in [(0, order.rows), *order.later()]:
        if at:
            score = _moved(score[:rows], weights) + emissions[at : at + rows]
        level = score.amax(1)
        score = score - level[:, None]
        found[at : at + rows], levels[at : at + rows] = score, level
    return found, levels


def _backwards(emissions: Tensor, moves: Tensor, end: Tensor, order: _CRFTimeOrder) -> Tensor:
    """(N, K) ln of the weight of all ways on from a word's label, less a number of its own for each word."""
    found, weights = torch.empty_like(emissions), moves.exp().t()
    found[order.lasts(emissions.device)] = end
    for (at, rows), (earlier, _) in reversed([*zip(order.later(), [(0, order.rows), *order.later()], strict=False)]):
        score = emissions[at : at + rows] + found[at : at + rows]
        found[earlier : earlier + rows] = _moved(score - score.amax(1, keepdim=True), weights)
    return found


def _moved(scores: Tensor, weights: Tensor) -> Tensor:
    """(rows, K) ln Σ_j e^score_j weight_jk; the largest score of each row is 0."""
    return scores.exp().mm(weights).clamp_(min=_least(scores)).log_()


def _expected(left: Tensor, moves: Tensor, right: Tensor) -> Tensor:
    """(K, K) how often each move is expected between words of which these are the weights before and after it."""
    before, after = ((one - one.amax(1, keepdim=True)).exp() for one in (left, right))
    weights = moves.exp()
    total = ((before @ weights) * after).sum(1, keepdim=True)
    return weights * ((before / total.clamp_(min=_least(total))).t() @ after)


def _least(like: Tensor) -> float:
    return max(LEAST, torch.finfo(like.dtype).tiny)


def _exact(emissions: Tensor) -> Tensor:
    """Weights are multiplied here, of which only double precision holds those of long odds too."""
    return emissions.float() if emissions.device.type == "mps" else emissions.double()  # where there is none
