"""Hide some tokens of another objective's rows, and ask which they were: BERT's cloze, and those of its kin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from forebear.objectives.batch import NOTHING, Batch, Moment, Objective
from forebear.objectives.units import Units

if TYPE_CHECKING:
    from forebear.text.portion import Portion

HIDING = 2  # the purpose of what is drawn here
LOOK = 4096  # tokens


@dataclass(frozen=True)
class MaskedTokens:
    """Of every row a share is hidden, unit by unit, whole or not at all; special tokens never are.

    Of the units that are asked for, the share `masked` becomes the mask token and the share `random` other tokens,
    drawn evenly from all ordinary ones; the rest stays as it is, so that what is seen can never be trusted.

    inner       whose rows these are; its own targets stay
    units       what is hidden as one
    mask        the id that hides
    vocabulary  how many ids there are
    specials    ids that are never hidden, and never drawn
    share       of a row's tokens that are asked for
    """

    inner: Objective
    units: Units
    mask: int
    vocabulary: int
    specials: frozenset[int]
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def steps(self, source: Portion, size: int) -> int:
        return self.inner.steps(source, size)

    def check(self, source: Portion) -> None:
        self.inner.check(source)
        self.batch(source, LOOK, Moment(0, 0))  # whether units can be told, of words above all

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        shown, rng = self.inner.batch(source, size, moment), moment.rng(HIDING)
        tokens, lengths = shown.inputs["tokens"], shown.inputs["lengths"]
        begins, leading = self.units.divided(shown, source, moment.step, rng)
        unit = np.cumsum(begins) - 1  # (T,) the number of the unit of each token
        first = np.flatnonzero(begins)
        never = np.zeros(len(first), bool)
        never[unit[_special(self.specials, self.vocabulary)[tokens]]] = True
        row = np.repeat(np.arange(len(lengths)), lengths)[first]
        after = np.zeros(len(first)) if leading is None else np.where(leading[first], 0.0, 1.0)
        chosen = self._chosen(row, np.bincount(unit), never, after, len(lengths), rng)
        fate = rng.random(len(first))
        asked = chosen[unit]
        targets = np.where(asked, tokens, NOTHING)
        seen = tokens.copy()
        seen[asked & (fate < self.masked)[unit]] = self.mask
        other = np.flatnonzero(asked & ((fate >= self.masked) & (fate < self.masked + self.random))[unit])
        ordinary = np.flatnonzero(~_special(self.specials, self.vocabulary))
        seen[other] = ordinary[rng.integers(0, len(ordinary), len(other))]
        return Batch({**shown.inputs, "tokens": seen}, {"token": targets, **shown.targets}, shown.places)

    def _chosen(
        self,
        row: np.ndarray,
        sizes: np.ndarray,
        never: np.ndarray,
        after: np.ndarray,
        rows: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """(units,) True for those to hide: of each row as many, in the order of chance, as make up the share.

        The unit that would exceed it is taken with the chance that makes the share right in the mean.
        """
        sizes = np.where(never, 0, sizes)
        quota = self.share * np.bincount(row, sizes, rows)
        order = np.lexsort((rng.random(len(row)) + after + 2 * never, row))
        upto = np.cumsum(sizes[order])
        begun = np.searchsorted(row, np.arange(rows))  # the first unit of each row
        spent = np.append(0, upto)[begun]
        left = (quota + spent)[row[order]] - (upto - sizes[order])  # of the share, before each unit
        taken = np.zeros(len(row), bool)
        taken[order] = left >= sizes[order] * np.where(left < sizes[order], rng.random(len(row)), 1.0)
        return taken & ~never


@lru_cache(maxsize=8)
def _special(specials: frozenset[int], vocabulary: int) -> np.ndarray:
    found = np.zeros(vocabulary, bool)
    found[list(specials)] = True
    return found
