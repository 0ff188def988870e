"""One-hot vectors: as many numbers as there are words, all of them zero but one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from forebear.errors import ForebearError
from forebear.objectives.batch import Batch
from forebear.vectors.table import WordTable


class UnitMatrix:
    """(N, N) ones on the diagonal and zeros elsewhere, of which only the rows that are asked for ever exist."""

    dtype = np.dtype(np.float32)

    def __init__(self, size: int) -> None:
        self.shape = size, size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> np.ndarray:
        numbers = np.arange(len(self))[which]
        return (np.arange(len(self)) == np.asarray(numbers)[..., None]).astype(self.dtype)

    def cosines(self, units: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
        """(Q, n) of vectors of length 1 with some of the rows: each says what the vectors have at its place."""
        return units[:, rows]

    @property
    def lengths(self) -> np.ndarray:
        return np.ones(len(self), self.dtype)


class OneHotModel:
    """Learns which words there are and how often, and nothing about any of them.

    vocabulary  how many ids there are
    never       ids that are no words
    """

    heads = ()
    remembered_count = 0
    nothing: float | None = None  # what vectors lose that know nothing, where that is known
    loss = "there is none: nothing is predicted"
    descent = "no descent: words are counted"

    def __init__(self, *, vocabulary: int, never: Iterable[int]) -> None:
        self.known = np.ones(vocabulary, bool)
        self.known[list(never)] = False
        self.counts = np.zeros(vocabulary, np.int64)
        self.notes: list[str] = []

    @property
    def width(self) -> int:
        return int(np.count_nonzero(self.known))

    @property
    def parameter_count(self) -> int:
        """Nothing is learned: the place of a word in the vocabulary is its vector."""
        return 0

    def meet(self, source: object, given: object = None) -> None:
        """Needs to know nothing before."""

    def begin(self, seed: int) -> None:
        self.counts[:] = 0

    def go_on_from(self, given: Mapping[str, np.ndarray]) -> None:
        """Counts on from what was counted in another text, of all our words or of the first of them."""
        self.counts[: len(given["counts"])] += given["counts"]

    def sweep(self, batch: Batch, **how: object) -> None:
        """Counts the words of a batch."""
        self.counts += np.bincount(batch.inputs["tokens"], minlength=len(self.counts))

    def examine(self, batch: Batch) -> tuple[float, int]:
        return 0.0, 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        if set(arrays) != {"counts"} or arrays["counts"].shape != self.counts.shape:
            raise ForebearError(f"one-hot vectors of {len(self.counts):,} tokens are loaded from their counts alone")
        self.counts = np.asarray(arrays["counts"], np.int64)

    def remembered(self) -> dict[str, np.ndarray]:
        return {}

    def table(self, tokens: Sequence[str]) -> WordTable:
        ids = np.flatnonzero(self.known)
        rows: Any = UnitMatrix(len(ids))
        return WordTable([tokens[i] for i in ids.tolist()], rows, self.counts[ids])

    def describe(self) -> dict[str, Any]:
        return {"words": self.width, "seen": int(self.counts.sum())}
