"""GloVe: a vector for each word such that products of vectors are logs of how often the words stand together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.kernels import glove as kernels
from forebear.objectives.batch import Batch
from forebear.text.portion import Portion
from forebear.vectors.phrases import Phrases
from forebear.vectors.table import WordTable

SIDES = ("words", "contexts")
TOGETHER = 1 << 16  # entries examined at once


class GloveModel:
    """w·c + b + b' for any two words, of which the second has vectors of its own; moved by AdaGrad, entry by entry.

    vocabulary  how many ids there are
    never       ids that are no words: their vectors are 0
    width       numbers in a vector
    """

    heads = ("together",)
    loss = "half the squared error of the log of a count, weighted"
    descent = "AdaGrad, entry by entry"

    def __init__(self, *, vocabulary: int, never: Iterable[int] = (), width: int) -> None:
        if width < 1:
            raise BadInput(f"vectors of {width} numbers", remedy="choose a width of 1 or more, such as 100")
        self.vocabulary, self.width, self.never = vocabulary, width, frozenset(never)
        self._tables = {side: self._empty() for side in SIDES}
        self.counts = np.zeros(vocabulary, np.int64)

    def _empty(self) -> np.ndarray:
        table = np.zeros((self.vocabulary, kernels.columns_of(self.width)), np.float32)
        self._squares(table)[0][:] = 1
        self._squares(table)[1][:] = 1
        return table

    def _values(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vectors and biases."""
        return table[:, : self.width], table[:, 2 * self.width]

    def _squares(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """AdaGrad's sums of squared steps, of vectors and of biases."""
        return table[:, self.width : 2 * self.width], table[:, 2 * self.width + 1]

    # -- learning

    def meet(self, source: Portion, given: Mapping[str, np.ndarray] | None = None) -> None:
        """Counts the words of the text to learn from; those of an earlier text are `given` with its vectors."""
        self.counts = Phrases.none(self.vocabulary).counted(source)
        if given is not None:
            self.counts[: len(given["counts"])] += given["counts"]

    def begin(self, seed: int) -> None:
        """Small numbers drawn by chance, the same for the same seed, and none for what is no word."""
        rng = np.random.default_rng(seed)
        for side in SIDES:
            table = self._tables[side] = self._empty()
            drawn = (rng.random((self.vocabulary, self.width + 1), np.float32) - np.float32(0.5)) / self.width
            drawn[list(self.never)] = 0
            vectors, biases = self._values(table)
            vectors[:], biases[:] = drawn[:, :-1], drawn[:, -1]

    def sweep(
        self,
        batch: Batch,
        *,
        rate: float,
        moment: tuple[int, int] = (0, 0),
        threads: int = 1,
        deterministic: bool = False,
    ) -> float:
        """Learns from each entry in turn; their mean loss, ½ f (w·c + b + b' - log x)², each before it was learned."""
        given = _entries(batch)
        return kernels.sweep(*given, *self._tables.values(), rate) / max(1, len(given[0]))

    def examine(self, batch: Batch) -> tuple[float, int]:
        """The sum of the losses of these entries in double precision, and how many there are.

        A shorter text has smaller counts. How long it is is not asked: one number, the same for all entries, is taken
        from the errors so that it explains as much of them as it can.
        """
        rows, columns, logs, weights = _entries(batch)
        words, contexts = (self._values(table) for table in self._tables.values())
        sums = np.zeros(3)  # of weights, of weighted errors, of weighted squared errors
        for at in range(0, len(rows), TOGETHER):
            mine, theirs = rows[at : at + TOGETHER], columns[at : at + TOGETHER]
            products = np.einsum("ij,ij->i", words[0][mine].astype(np.float64), contexts[0][theirs])
            errors = products + words[1][mine] + contexts[1][theirs] - logs[at : at + TOGETHER]
            share = weights[at : at + TOGETHER].astype(np.float64)
            sums += share.sum(), share @ errors, share @ errors**2
        return float(sums[2] - sums[1] ** 2 / max(sums[0], 1e-30)) / 2, len(rows)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """Vectors and biases of words as rows and as columns, and how often each word was seen."""
        return self._told(self._values) | {"counts": self.counts}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra or misshapen array is refused by its name."""
        own = dict(arrays)
        counts = own.pop("counts", None)
        if counts is None or counts.shape != self.counts.shape:
            raise ForebearError(f"the state of a GloVe model lacks the counts of its {self.vocabulary:,} words")
        self._take(own, self._values)
        self.counts = counts

    def remembered(self) -> dict[str, np.ndarray]:
        """What else is needed to go on: the squared steps of each number."""
        return {f"{name}.squares": array for name, array in self._told(self._squares).items()}

    def remember(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._take(arrays, self._squares, ".squares")

    def go_on_from(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Begins with vectors that were learned before, of all our words or of the first of them; paces as at first."""
        here = self._told(self._values)
        for name, array in here.items():
            if arrays[name].shape[1:] != array.shape[1:]:
                raise ForebearError("the vectors to go on from have another width", remedy="leave out --width")
            array[: len(arrays[name])] = arrays[name]
        self._take(here, self._values)

    def _told(self, which: Any, suffix: str = "") -> dict[str, np.ndarray]:
        told = {}
        for side, table in self._tables.items():
            vectors, biases = which(table)
            told |= {f"{side}{suffix}": vectors.copy(), f"{side}.biases{suffix}": biases.copy()}
        return told

    def _take(self, arrays: Mapping[str, np.ndarray], which: Any, suffix: str = "") -> None:
        here = {name: array for table in self._tables.items() for name, array in self._places(*table, which, suffix)}
        for what, odd in (("lacks", set(here) - set(arrays)), ("has, but should not,", set(arrays) - set(here))):
            if odd:
                raise ForebearError(f"the state of a GloVe model {what} {sorted(odd)}")
        for name, place in here.items():
            if arrays[name].shape != place.shape or arrays[name].dtype.kind != "f":
                told = f"{arrays[name].dtype} {list(arrays[name].shape)}"
                raise ForebearError(f"{name!r} holds {told}, and should hold float32 {list(place.shape)}")
        for name, place in here.items():
            place[:] = arrays[name]

    def _places(self, side: str, table: np.ndarray, which: Any, suffix: str) -> list[tuple[str, np.ndarray]]:
        vectors, biases = which(table)
        return [(f"{side}{suffix}", vectors), (f"{side}.biases{suffix}", biases)]

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) the vector of each word: those of the word as a row and as a column, added up."""
        words, contexts = (self._values(table)[0] for table in self._tables.values())
        return words + contexts

    def table(self, tokens: Sequence[str]) -> WordTable:
        """Of every word that was seen."""
        rows = np.array([row for row in np.flatnonzero(self.counts).tolist() if row not in self.never], np.int64)
        rows = rows[np.argsort(-self.counts[rows], kind="stable")]
        return WordTable([tokens[int(row)] for row in rows], self.matrix[rows], self.counts[rows])

    @property
    def parameter_count(self) -> int:
        return len(SIDES) * self.vocabulary * (self.width + 1)

    @property
    def remembered_count(self) -> int:
        """One for each parameter."""
        return self.parameter_count

    @property
    def notes(self) -> list[str]:
        return []

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {"vocabulary": self.vocabulary, "words": self.vocabulary - len(self.never), "width": self.width}


def _entries(batch: Batch) -> tuple[np.ndarray, ...]:
    inputs = batch.inputs
    return inputs["tokens"], inputs["beside"], batch.targets["together"], inputs["weights"]
