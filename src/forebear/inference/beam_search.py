"""Beam search: of many continuations at once, those whose whole is likeliest; for every reader of rows.

At each step the likeliest 2 · beams continuations of a source are looked at. Those of the first `beams` that are over
are put aside, and the best `beams` of the others go on. A text's score is log P / length^penalty, where the length
counts its tokens and its end: with 0 sums are compared, with 1 means, and above that the longer texts win.
The search of a source is over when `beams` texts are aside and, by `stopping`,
    "full"        at once
    "unlikely"    no row that goes on is better, at its present length, than the worst of them
    "impossible"  no row that goes on could become better at any length
These are `early_stopping` True, False and "never" of transformers, and give its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from forebear.errors import InputError
from forebear.inference.sampling import log_normalizers, require_positive

if TYPE_CHECKING:
    from forebear.inference.predictor import DecodingState

Stopping = Literal["full", "unlikely", "impossible"]
Permit = Callable[[np.ndarray], np.ndarray]

STRONGEST = 50  # a length raised to more has no number
STRIPES = 64  # parts of the vocabulary whose places are compared first


@dataclass(frozen=True)
class Hypothesis:
    """A continuation: its tokens without the end, log P of them and the end, and whether it ended by itself."""

    ids: tuple[int, ...]
    log_prob: float
    score: float
    is_finished: bool


def beam_search(
    reader: DecodingState,
    sources: int,
    *,
    end: int,
    beams: int,
    lengths: Sequence[int],
    best: int = 1,
    penalty: float = 1.0,
    stopping: Stopping = "unlikely",
    permitted: Permit | None = None,
    over: Callable[[int, np.ndarray], bool] | None = None,
) -> list[list[Hypothesis]]:
    """The `best` continuations of each source, the best first; fewer where fewer are possible.

    reader     begins with a row for each source; up to `beams` are continued for each, and none once it is done
    lengths    the most tokens for each source, its end included
    permitted  (rows, V) logits to the same with -inf where a token may not be said; P remains the reader's own
    over       whether these tokens (n,) of this source end it, as a stop string does
    """
    validate_beams(beams, best, penalty)
    if stopping not in get_args(Stopping):
        raise InputError(f"stopping is {stopping!r}", hint=f"choose one of {', '.join(get_args(Stopping))}")
    if len(lengths) != sources or min(lengths, default=1) < 1:
        raise InputError(f"lengths {list(lengths)} for {sources} sources", hint="give each 1 token or more")
    most, aside = np.array(lengths, np.int64), [_FinishedHypotheses(beams, penalty) for _ in range(sources)]
    of, totals, said = np.arange(sources), np.zeros(sources), np.zeros((sources, 0), np.int64)
    while len(of):
        rows, ids, logs = _likeliest(reader.next_logits(), permitted, 2 * beams)
        values = totals[rows] + logs
        order = np.lexsort((-values, of[rows]))  # stable: of equals the earlier row first, then the smaller id
        order = order[_ranks(of[rows[order]]) < 2 * beams]
        rows, ids, values = rows[order], ids[order], values[order]
        source, texts = of[rows], np.column_stack((said[rows], ids))
        length, ended = texts.shape[1], ids == end
        if over is not None:
            ended |= np.array([over(*one) for one in zip(source.tolist(), texts, strict=True)], bool)
        last = ended | (most[source] == length)
        for at in np.flatnonzero(last & (_ranks(source) < beams)).tolist():
            text = texts[at, : length - (ids[at] == end)]
            aside[source[at]].put(text, float(values[at]), length, ended=bool(ended[at]))
        on = np.flatnonzero(~last)
        on = on[_ranks(source[on]) < beams]
        firsts = on[_ranks(source[on]) == 0]
        done = [aside[source[at]].suffices(float(values[at]), length, int(most[source[at]]), stopping) for at in firsts]
        on = on[~np.isin(source[on], source[firsts[done]])]
        on = on[_settled(rows[on], of, source[on])]
        if len(on) and not np.array_equal(rows[on], np.arange(len(of))):
            reader.select(rows[on])
        if len(on):
            reader.append(ids[on])
        of, totals, said = source[on], values[on], texts[on]
    return [one.hypotheses[:best] for one in aside]


def validate_beams(beams: int, best: int, penalty: float) -> None:
    """Refuses what is no search, before anything is read."""
    require_positive(beams=beams, best=best)
    if best > beams:
        raise InputError(f"the best {best} of {beams} beams", hint=f"search with at least {best} beams")
    if not abs(penalty) <= STRONGEST:
        raise InputError(f"the length penalty is {penalty}", hint="choose 0 for none, 1 for the mean of the tokens")


@dataclass
class _FinishedHypotheses:
    """The texts of one source that are over: the best `beams` of them, best first."""

    beams: int
    penalty: float
    hypotheses: list[Hypothesis] = field(default_factory=list)

    def put(self, ids: np.ndarray, value: float, length: int, *, ended: bool) -> None:
        text = Hypothesis(tuple(ids.tolist()), value, value / length**self.penalty, ended)
        kept = sorted([*self.hypotheses, text], key=lambda one: -one.score)
        self.hypotheses = kept[: self.beams]

    def suffices(self, value: float, length: int, most: int, stopping: Stopping) -> bool:
        """Whether a row that goes on with this log P of so many tokens is no longer worth it."""
        if len(self.hypotheses) < self.beams or stopping == "full":
            return len(self.hypotheses) == self.beams
        reached = most if stopping == "impossible" and self.penalty > 0 else length
        return value / reached**self.penalty <= self.hypotheses[-1].score


def _likeliest(scores: np.ndarray, permitted: Permit | None, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, ids and log P of at least the `count` likeliest continuations of each row; impossible ones are left out.

    The vocabulary is cut into stripes that are laid over each other, and the largest of each place taken: below the
    count-th largest of these, nothing can be among the best. So nothing is sorted but a few.
    """
    whole = log_normalizers(scores)
    allowed = scores if permitted is None else permitted(scores)
    size, places = allowed.shape[1], allowed.shape[1] // STRIPES
    least = np.full((len(allowed), 1), -np.inf)
    if places > count:
        laid = allowed[:, : places * STRIPES].reshape(-1, STRIPES, places).max(axis=1)
        least = np.partition(laid, places - count, axis=1)[:, places - count, None]
    found = np.flatnonzero(allowed >= least)
    values = allowed.reshape(-1)[found].astype(np.float64)
    found, values = found[values > -np.inf], values[values > -np.inf]
    rows = found // size
    return rows, found - rows * size, values - whole[rows]


def _settled(parents: np.ndarray, of: np.ndarray, source: np.ndarray) -> np.ndarray:
    """An order of these rows, sources as before, in which the first of a parent stands where it stood if it can.

    So a reader has to move only what replaces another. `of` are the sources of the parents, `source` of the rows.
    """
    places = np.full(len(parents), -1)
    begins = np.searchsorted(source, source)  # where the rows of each row's source begin
    within = _ranks(of)[parents]
    ends = np.searchsorted(source, source, side="right")
    _, firsts = np.unique(parents, return_index=True)
    stay = firsts[begins[firsts] + within[firsts] < ends[firsts]]
    places[stay] = begins[stay] + within[stay]
    places[places < 0] = np.setdiff1d(np.arange(len(parents)), places[stay])
    return np.argsort(places)


def _ranks(groups: np.ndarray) -> np.ndarray:
    """0, 1, 2, … anew for each run of equal numbers."""
    here = np.arange(len(groups))
    begins = np.concatenate(([True], groups[1:] != groups[:-1])) if len(groups) else np.zeros(0, bool)
    return here - np.maximum.accumulate(np.where(begins, here, 0))
