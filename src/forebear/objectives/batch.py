"""What a learner is given: inputs and named targets without padding, and the moment from which all chance follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

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

    inputs   `lengths` (B,) says how long each row is; `tokens` and others (T,) have an entry for each token; where an
             example is several rows, `groups` (B,) numbers the example of each, rising from 0; where each row has
             another text to look at, `source` has its tokens and `source_lengths` (B,) says how many
    targets  one for each token (T,), row (B,) or example; NOTHING, or what is no number, asks for nothing; a target
             may be several numbers
    places   (T,) where each token stands in the corpus, NOTHING for those that the objective put in; None: not told
    weights  how much the loss of a target counts; 1 where nothing is said
    """

    inputs: Arrays
    targets: Arrays
    places: np.ndarray | None = None
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return len(self.inputs["tokens"])

    @property
    def shown(self) -> int:
        """All tokens in it, those of sources too: what budgets and speeds count."""
        return self.tokens + len(self.inputs.get("source", ()))

    def asked(self) -> dict[str, int]:
        """How many answers each target wants: what losses are divided by."""
        return {name: int(np.count_nonzero(is_asked(target))) for name, target in self.targets.items()}

    def parts(self, count: int) -> list[Batch]:
        """The same rows in so many batches (or fewer, if there are fewer examples), each of about as many tokens.

        The rows of one example stay together.
        """
        if count == 1:
            return [self]
        lengths = self.inputs["lengths"]
        groups = self.inputs.get("groups", np.arange(len(lengths)))
        first_rows = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(lengths))  # of each example
        ends, read = (np.concatenate(([0], np.cumsum(of))) for of in (lengths, self.inputs.get("source_lengths", [])))
        examples = len(first_rows) - 1
        cuts = even_cuts(ends[first_rows], min(count, examples))

        def cut(arrays: Arrays, first: int, last: int) -> Arrays:
            rows = slice(first_rows[first], first_rows[last])
            of_length = {ends[-1]: slice(ends[rows.start], ends[rows.stop]), examples: slice(first, last)}
            of_length[len(lengths)] = rows
            taken = {name: array[of_length[len(array)]] for name, array in arrays.items() if name != "source"}
            taken |= {"source": arrays["source"][read[rows.start] : read[rows.stop]]} if "source" in arrays else {}
            return taken | ({"groups": taken["groups"] - first} if "groups" in taken else {})

        pairs = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
        return [Batch(cut(self.inputs, *pair), cut(self.targets, *pair), weights=self.weights) for pair in pairs]


def even_cuts(ends: np.ndarray, count: int) -> np.ndarray:
    """(count + 1,) where to cut a row of examples into so many parts that are about equally long; none is empty.

    `ends` tells where each example begins, and at last where all of them end.
    """
    wanted = ends[-1] * np.arange(1, count) / count
    after = np.searchsorted(ends, wanted)
    nearest = after - (wanted - ends[after - 1] < ends[after] - wanted)
    least = np.arange(1, count)  # each part has an example of its own
    nearest = np.maximum.accumulate(nearest - least) + least
    return np.concatenate(([0], np.clip(nearest, least, len(ends) - 1 - count + least), [len(ends) - 1]))


def is_asked(target: np.ndarray) -> np.ndarray:
    """Which entries of a target ask for something: of those that are several numbers, the first tells."""
    first = target if target.ndim == 1 else target[:, 0]
    return ~np.isnan(first) if first.dtype.kind == "f" else first != NOTHING


@runtime_checkable
class Prepared(Protocol):
    """An objective that must go through the whole text before it can make its first batch."""

    def prepare(self, source: Any, progress: Callable[[int, int], object] | None = None) -> None: ...


@runtime_checkable
class Shows(Protocol):
    """An objective whose batches are not made of tokens: of what else."""

    shows: ClassVar[str]


def counted_in(objective: object) -> str:
    """What the batches of an objective are made of, where one says how many: tokens, unless it says otherwise."""
    return objective.shows if isinstance(objective, Shows) else "tokens"


class Objective(Protocol):
    """What is predicted from what. Its source is a portion of a corpus, or rows of labelled examples."""

    def steps(self, source: Any, size: int) -> int:
        """How many batches of about `size` tokens show everything once."""
        ...

    def batch(self, source: Any, size: int, moment: Moment) -> Batch:
        """Batch number `moment.step` of about `size` tokens."""
        ...

    def check(self, source: Any) -> None:
        """An error with the remedy where this cannot be learned from such a text."""
        ...
