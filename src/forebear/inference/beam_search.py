"""Beam search over any decoding state, with length penalty and stopping criteria as in transformers.

At each step, the 2 · beams most probable continuations of a source are considered. Finished ones among the first
`beams` are stored, and the best `beams` of the others continue. The score of a hypothesis is log P / length^penalty,
where length includes the end token: 0 compares sums, 1 means, and larger values prefer longer texts.
The search of a source ends when `beams` hypotheses are finished and, by `stopping`,
    "full"        immediately
    "unlikely"    no active beam scores higher at its current length than the worst finished hypothesis
    "impossible"  no active beam could score higher at any length
These correspond to `early_stopping` True, False and "never" in transformers, with identical results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from forebear.errors import InputError, require_choice
from forebear.inference.sampling import log_normalizers, require_positive

if TYPE_CHECKING:
    from forebear.inference.predictor_protocols import DecodingState

Stopping = Literal["full", "unlikely", "impossible"]
MaskLogits = Callable[[np.ndarray], np.ndarray]

MAX_LENGTH_PENALTY = 50  # larger exponents overflow
VOCAB_STRIPES = 64  # stripes of the vocabulary for pre-selection


@dataclass(frozen=True)
class Hypothesis:
    """A continuation: its tokens without the end token, their log-probability with it, and whether it ended."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    is_finished: bool


def beam_search(
    state: DecodingState,
    num_sources: int,
    *,
    eos_id: int,
    beams: int,
    lengths: Sequence[int],
    best: int = 1,
    penalty: float = 1.0,
    stopping: Stopping = "unlikely",
    mask_logits: MaskLogits | None = None,
    ends_text: Callable[[int, np.ndarray], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Find the `best` continuations of each source, best first; fewer if fewer are possible.

    Args:
        state: Decoding state with one row per source; up to `beams` rows are continued for each.
        lengths: Maximum number of tokens for each source, end token included.
        mask_logits: Sets (rows, V) logits of forbidden tokens to -inf; probabilities are not renormalized.
        ends_text: Whether the generated tokens (n,) of a source end its text, as a stop string does.
    """
    validate_beams(beams, best, penalty)
    require_choice("stopping", stopping, get_args(Stopping))
    if len(lengths) != num_sources or min(lengths, default=1) < 1:
        raise InputError(f"lengths {list(lengths)} for {num_sources} sources", hint="give each 1 token or more")
    max_lengths = np.array(lengths, np.int64)
    finished = [_FinishedHypotheses(beams, penalty) for _ in range(num_sources)]
    row_sources, log_probs, tokens = np.arange(num_sources), np.zeros(num_sources), np.zeros((num_sources, 0), np.int64)
    while len(row_sources):
        rows, ids, new_log_probs = _top_continuations(state.next_logits(), mask_logits, 2 * beams)
        candidate_log_probs = log_probs[rows] + new_log_probs
        order = np.lexsort((-candidate_log_probs, row_sources[rows]))  # stable: ties by row, then by id
        order = order[_ranks(row_sources[rows[order]]) < 2 * beams]
        rows, ids, candidate_log_probs = rows[order], ids[order], candidate_log_probs[order]
        candidate_sources, sequences = row_sources[rows], np.column_stack((tokens[rows], ids))
        length, is_ended = sequences.shape[1], ids == eos_id
        if ends_text is not None:
            candidates = zip(candidate_sources.tolist(), sequences, strict=True)
            is_ended |= np.array([ends_text(source, sequence) for source, sequence in candidates], bool)
        is_last = is_ended | (max_lengths[candidate_sources] == length)
        for index in np.flatnonzero(is_last & (_ranks(candidate_sources) < beams)).tolist():
            token_ids, log_prob = sequences[index, : length - (ids[index] == eos_id)], float(candidate_log_probs[index])
            finished[candidate_sources[index]].add(token_ids, log_prob, length, is_finished=bool(is_ended[index]))
        remaining = np.flatnonzero(~is_last)
        remaining = remaining[_ranks(candidate_sources[remaining]) < beams]
        best_remaining = remaining[_ranks(candidate_sources[remaining]) == 0]
        active_sources, best_log_probs = candidate_sources[best_remaining], candidate_log_probs[best_remaining].tolist()
        is_done = [
            finished[source].is_complete(best_log_prob, length, lengths[source], stopping)
            for source, best_log_prob in zip(active_sources.tolist(), best_log_probs, strict=True)
        ]
        remaining = remaining[~np.isin(candidate_sources[remaining], active_sources[is_done])]
        remaining = remaining[_stable_order(rows[remaining], row_sources, candidate_sources[remaining])]
        if len(remaining) and not np.array_equal(rows[remaining], np.arange(len(row_sources))):
            state.select(rows[remaining])
        if len(remaining):
            state.append(ids[remaining])
        row_sources = candidate_sources[remaining]
        log_probs = candidate_log_probs[remaining]
        tokens = sequences[remaining]
    return [source_hypotheses.hypotheses[:best] for source_hypotheses in finished]


def validate_beams(beams: int, best: int, penalty: float) -> None:
    """Raise InputError for invalid search options."""
    require_positive(beams=beams, best=best)
    if best > beams:
        raise InputError(f"the best {best} of {beams} beams", hint=f"search with at least {best} beams")
    if not abs(penalty) <= MAX_LENGTH_PENALTY:
        raise InputError(f"the length penalty is {penalty}", hint="choose 0 for none, 1 for the mean of the tokens")


@dataclass
class _FinishedHypotheses:
    """The best `beams` finished hypotheses of one source, best first."""

    beams: int
    penalty: float
    hypotheses: list[Hypothesis] = field(default_factory=list)

    def add(self, ids: np.ndarray, log_prob: float, length: int, *, is_finished: bool) -> None:
        hypothesis = Hypothesis(tuple(ids.tolist()), log_prob, log_prob / length**self.penalty, is_finished)
        self.hypotheses = sorted([*self.hypotheses, hypothesis], key=lambda item: -item.score)[: self.beams]

    def is_complete(self, log_prob: float, length: int, max_length: int, stopping: Stopping) -> bool:
        """Whether the search can stop, given the log-probability and length of the best active beam."""
        if len(self.hypotheses) < self.beams or stopping == "full":
            return len(self.hypotheses) == self.beams
        final_length = max_length if stopping == "impossible" and self.penalty > 0 else length
        return log_prob / final_length**self.penalty <= self.hypotheses[-1].score


def _top_continuations(
    scores: np.ndarray, mask_logits: MaskLogits | None, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, ids and log-probabilities of at least the top `count` possible continuations of each row.

    Maxima over stripes of the vocabulary give a lower bound: no score below the count-th largest maximum can be among
    the top `count`, so only a few candidates are sorted.
    """
    normalizers = log_normalizers(scores)
    allowed = scores if mask_logits is None else mask_logits(scores)
    vocab_size, stripe_size = allowed.shape[1], allowed.shape[1] // VOCAB_STRIPES
    threshold = np.full((len(allowed), 1), -np.inf)
    if stripe_size > count:
        stripe_maxima = allowed[:, : stripe_size * VOCAB_STRIPES].reshape(-1, VOCAB_STRIPES, stripe_size).max(axis=1)
        threshold = np.partition(stripe_maxima, stripe_size - count, axis=1)[:, stripe_size - count, None]
    flat_indices = np.flatnonzero(allowed >= threshold)
    log_probs = allowed.reshape(-1)[flat_indices].astype(np.float64)
    flat_indices, log_probs = flat_indices[log_probs > -np.inf], log_probs[log_probs > -np.inf]
    rows = flat_indices // vocab_size
    return rows, flat_indices - rows * vocab_size, log_probs - normalizers[rows]


def _stable_order(parents: np.ndarray, parent_sources: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """An order of the new rows, by source, in which the first child of a parent keeps its position if possible.

    So the decoding state moves only rows that are replaced. `parents` is the parent row of each new row, `sources` the
    source of each new row, `parent_sources` that of each parent row.
    """
    order_positions = np.full(len(parents), -1)
    starts, ends = np.searchsorted(sources, sources), np.searchsorted(sources, sources, side="right")
    parent_ranks = _ranks(parent_sources)[parents]
    _, first_children = np.unique(parents, return_index=True)
    staying = first_children[starts[first_children] + parent_ranks[first_children] < ends[first_children]]
    order_positions[staying] = starts[staying] + parent_ranks[staying]
    order_positions[order_positions < 0] = np.setdiff1d(np.arange(len(parents)), order_positions[staying])
    return np.argsort(order_positions)


def _ranks(groups: np.ndarray) -> np.ndarray:
    """0, 1, 2, … within each run of equal numbers."""
    indices = np.arange(len(groups))
    is_start = np.concatenate(([True], groups[1:] != groups[:-1])) if len(groups) else np.zeros(0, bool)
    return indices - np.maximum.accumulate(np.where(is_start, indices, 0))
