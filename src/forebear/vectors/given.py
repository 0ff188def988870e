"""Vectors from elsewhere: nothing is learned here, and each word has what it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.vectors.table import WordTable


class GivenVectors:
    """A vector for each id that is a word; what is none has zeros, and is in no table.

    vocabulary  how many ids there are
    never       ids that are no words
    width       numbers in a vector
    """

    heads = ()
    remembered_count = 0
    nothing: float | None = None  # what vectors lose that know nothing, where that is known
    loss = "there is none: nothing is predicted"
    descent = "no descent: the vectors are from elsewhere"

    def __init__(self, *, vocabulary: int, never: Iterable[int], width: int) -> None:
        if width < 1:
            raise BadInput(f"width is {width}", remedy="give 1 or more")
        self.vocabulary, self.width = vocabulary, width
        self.known = np.ones(vocabulary, bool)
        self.known[list(never)] = False
        self.notes: list[str] = []
        self._vectors: np.ndarray | None = None  # of words only, in the order of their ids
        self.counts: np.ndarray | None = None

    def give(self, vectors: np.ndarray, counts: np.ndarray | None = None) -> None:
        """The vectors of all words (N, width) in the order of their ids, and how often each was seen, where known."""
        words = int(np.count_nonzero(self.known))
        wanted = {"vectors": (vectors, (words, self.width), "f"), "counts": (counts, (words,), "i")}
        for name, (array, shape, kind) in wanted.items():
            if array is not None and (array.shape != shape or array.dtype.kind != kind):
                told = f"{array.dtype} {list(array.shape)}"
                raise ForebearError(f"{name} of {words:,} given words are {told}, and should be {list(shape)}")
        self._vectors, self.counts = np.asarray(vectors, np.float32), counts
        vars(self).pop("matrix", None)

    @property
    def vectors(self) -> np.ndarray:
        """(N, width) of words only."""
        if self._vectors is None:
            raise ForebearError("this model was not given its vectors yet")
        return self._vectors

    # -- learning

    def meet(self, source: object, given: object = None) -> NoReturn:
        """Refuses text: there is nothing that would tell how to go on."""
        remedy = "to learn, begin from nothing, with --output negatives or tree"
        raise BadInput("output 'given' means vectors from elsewhere: there is nothing to learn", remedy=remedy)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state: the vectors of words, and their counts where they are known."""
        return {"vectors": self.vectors} | ({} if self.counts is None else {"counts": self.counts})

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra or misshapen array is refused by its name."""
        names = {"vectors", "counts"} if "counts" in arrays else {"vectors"}
        for what, odd in (("lacks", names - set(arrays)), ("has, but should not,", set(arrays) - names)):
            if odd:
                raise ForebearError(f"the state of given vectors {what} {sorted(odd)}")
        self.give(arrays["vectors"], arrays.get("counts"))

    def remembered(self) -> dict[str, np.ndarray]:
        return {}

    # -- what it says

    @cached_property
    def matrix(self) -> np.ndarray:
        """(V, width) by id; made when it is first asked for."""
        rows = np.zeros((self.vocabulary, self.width), np.float32)
        rows[self.known] = self.vectors
        return rows

    def table(self, tokens: Sequence[str]) -> WordTable:
        """Of all words, in the order in which they were given."""
        return WordTable([tokens[i] for i in np.flatnonzero(self.known).tolist()], self.vectors, self.counts)

    @property
    def parameter_count(self) -> int:
        return self.vectors.size

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {"output": "given", "vocabulary": self.vocabulary, "words": len(self.vectors), "width": self.width}
