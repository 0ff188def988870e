"""What a learner is given: inputs and named targets without padding, and the moment from which all chance follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from forebear.text.portion import Portion

NOTHING = -1  # a target that asks for nothing

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Moment:
    """When a batch is drawn. All its randomness is a function of this alone, so that a broken run can go on."""

    seed: int
    step: int

    def rng(self, purpose: int = 0) -> np.random.Generator:
        """Objectives that are nested in one another draw for different purposes, so that neither disturbs the other."""
        return np.random.default_rng([self.seed, self.step, purpose])


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, one after the other, with nothing between them.

    inputs   `lengths` (B,) says how long each row is; `tokens` and all others (T,) have an entry for each token
    targets  (T,) one for each token or (B,) one for each row; NOTHING asks for nothing
    places   (T,) where each token stands in the corpus, NOTHING for those that the objective put in; None: not told
    """

    inputs: Arrays
    targets: Arrays
    places: np.ndarray | None = None

    @property
    def tokens(self) -> int:
        return len(self.inputs["tokens"])

    def asked(self) -> dict[str, int]:
        """How many answers each target wants: what losses are divided by."""
        return {name: int(np.count_nonzero(target != NOTHING)) for name, target in self.targets.items()}

    def parts(self, count: int) -> list[Batch]:
        """The same rows in so many batches (or fewer, if there are fewer rows), for memory that is too small."""
        lengths = self.inputs["lengths"]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        cuts = np.linspace(0, len(lengths), min(count, len(lengths)) + 1).round().astype(int)

        def cut(arrays: Arrays, first: int, last: int) -> Arrays:
            rows, tokens = slice(first, last), slice(ends[first], ends[last])
            by_row = {name: len(array) == len(lengths) for name, array in arrays.items()}
            return {name: array[rows if by_row[name] else tokens] for name, array in arrays.items()}

        pairs = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
        return [Batch(cut(self.inputs, *pair), cut(self.targets, *pair)) for pair in pairs]


class Objective(Protocol):
    """What is predicted from what."""

    def steps(self, source: Portion, size: int) -> int:
        """How many batches of about `size` tokens show everything once."""
        ...

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        """Batch number `moment.step` of about `size` tokens."""
        ...

    def check(self, source: Portion) -> None:
        """An error with the remedy where this cannot be learned from such a text."""
        ...
