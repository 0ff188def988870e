"""Vectors from elsewhere: nothing is learned here, and each word has what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from forebear.data.tokenizers.char_level import code_points, is_han
from forebear.errors import ForebearError, InputError
from forebear.objectives.batch import Batch

# A table of words: a vector for each, and what to do with a word that has none.


COMMON = 100  # the most frequent words, which mean little by themselves
MIN_LETTERS, MIN_HAN_LETTERS = 5, 2  # of a word that means something
EXAMPLE_CANDIDATES = 1000  # words among which there is one, if there is
Compose = Callable[[str], "np.ndarray | None"]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """What a run of word vectors leaves behind, however it was learned.

    words    the name of each row, by falling frequency where that is known; none twice
    matrix   (N, D) float32; it may lie on the disk
    counts   (N,) how often each word was seen; None where nobody knows
    compose  a vector for a word that is in no row (from its parts), or None; without it such words have no vector
    """

    words: Sequence[str]
    matrix: np.ndarray
    counts: np.ndarray | None = None
    compose: Compose | None = None

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.rows

    def __getitem__(self, word: str) -> np.ndarray:
        """The vector of a word as it is written."""
        return np.asarray(self.matrix[self.rows[word]], np.float32)

    def __repr__(self) -> str:
        return f"WordTable({len(self):,} words, width {self.matrix.shape[1]:,})"

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def row_of(self, word: str) -> int | None:
        """The row of a word as it is written, or else in small letters."""
        row = self.rows.get(word)
        return self.rows.get(word.lower()) if row is None else row

    @property
    def example(self) -> str | None:
        """A word to begin with: frequent, but none of those that every text has, and longer than those are."""
        for start in (COMMON, 0):
            candidates = [word for word in self.words[start : start + EXAMPLE_CANDIDATES] if word.isalpha()]
            long = (word for word in candidates if len(word) >= (MIN_HAN_LETTERS if _is_han(word) else MIN_LETTERS))
            if (example := next(long, candidates[0] if candidates else None)) is not None:
                return example
        return self.words[0] if self.words else None

    def vector(self, word: str) -> np.ndarray | None:
        """(D,) the vector of a word: its row, or what is composed of its parts; None where it has none."""
        row = self.row_of(word)
        if row is not None:
            return np.asarray(self.matrix[row], np.float32)
        return None if self.compose is None else self.compose(word)


def _is_han(word: str) -> bool:
    return bool(is_han(code_points(word)).all())


class PretrainedVectors:
    """A vector for each id that is a word; what is none has zeros, and is in no table.

    vocabulary  how many ids there are
    never       ids that are no words
    width       numbers in a vector
    """

    heads = ()
    training_state_size = 0
    nothing: float | None = None  # what vectors lose that know nothing, where that is known
    loss = "there is none: nothing is predicted"
    update_rule = "no descent: the vectors are from elsewhere"

    def __init__(self, *, vocabulary: int, never: Iterable[int], width: int) -> None:
        if width < 1:
            raise InputError(f"width is {width}", hint="give 1 or more")
        self.vocabulary, self.width = vocabulary, width
        self.known = np.ones(vocabulary, bool)
        self.known[list(never)] = False
        self.notes: list[str] = []
        self._vectors: np.ndarray | None = None  # of words only, in the order of their ids
        self.counts: np.ndarray | None = None

    def set_vectors(self, vectors: np.ndarray, counts: np.ndarray | None = None) -> None:
        """The vectors of all words (N, width) in the order of their ids, and how often each was seen, where known."""
        num_words = int(np.count_nonzero(self.known))
        expected = {"vectors": (vectors, (num_words, self.width), "f"), "counts": (counts, (num_words,), "i")}
        for name, (array, shape, kind) in expected.items():
            if array is not None and (array.shape != shape or array.dtype.kind != kind):
                description = f"{array.dtype} {list(array.shape)}"
                raise ForebearError(
                    f"{name} of {num_words:,} given words are {description}, and should be {list(shape)}"
                )
        self._vectors, self.counts = np.asarray(vectors, np.float32), counts
        vars(self).pop("matrix", None)

    @property
    def vectors(self) -> np.ndarray:
        """(N, width) of words only."""
        if self._vectors is None:
            raise ForebearError("this model was not given its vectors yet")
        return self._vectors

    # -- learning

    def prepass(self, source: object, given: object = None) -> NoReturn:
        """Refuses text: there is nothing that would tell how to go on."""
        hint = "to learn, begin from nothing, with --output negatives or tree"
        raise InputError("output 'given' means vectors from elsewhere: there is nothing to learn", hint=hint)

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole state: the vectors of words, and their counts where they are known."""
        return {"vectors": self.vectors} | ({} if self.counts is None else {"counts": self.counts})

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra or misshapen array is refused by its name."""
        names = {"vectors", "counts"} if "counts" in arrays else {"vectors"}
        for problem, odd in (("lacks", names - set(arrays)), ("has, but should not,", set(arrays) - names)):
            if odd:
                raise ForebearError(f"the state of given vectors {problem} {sorted(odd)}")
        self.set_vectors(arrays["vectors"], arrays.get("counts"))

    def training_state(self) -> dict[str, np.ndarray]:
        return {}

    # -- what it says

    @cached_property
    def matrix(self) -> np.ndarray:
        """(V, width) by id; made when it is first asked for."""
        rows = np.zeros((self.vocabulary, self.width), np.float32)
        rows[self.known] = self.vectors
        return rows

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """Of all words, in the order in which they were given."""
        return WordVectors([tokens[i] for i in np.flatnonzero(self.known).tolist()], self.vectors, self.counts)

    @property
    def num_parameters(self) -> int:
        return self.vectors.size

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {"output": "given", "vocabulary": self.vocabulary, "words": len(self.vectors), "width": self.width}


# One-hot vectors: as many numbers as there are words, all of them zero but one.


class IdentityMatrix:
    """(N, N) ones on the diagonal and zeros elsewhere, of which only the rows that are asked for ever exist."""

    dtype = np.dtype(np.float32)

    def __init__(self, size: int) -> None:
        self.shape = size, size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        selected = np.arange(len(self))[index]
        return (np.arange(len(self)) == np.asarray(selected)[..., None]).astype(self.dtype)

    def cosines(self, units: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
        """(Q, n) of vectors of length 1 with some of the rows: each says what the vectors have at its place."""
        return units[:, rows]

    @property
    def lengths(self) -> np.ndarray:
        return np.ones(len(self), self.dtype)


class OnehotModel:
    """Learns which words there are and how often, and nothing about any of them.

    vocabulary  how many ids there are
    never       ids that are no words
    """

    heads = ()
    training_state_size = 0
    nothing: float | None = None  # what vectors lose that know nothing, where that is known
    loss = "there is none: nothing is predicted"
    update_rule = "no descent: words are counted"

    def __init__(self, *, vocabulary: int, never: Iterable[int]) -> None:
        self.known = np.ones(vocabulary, bool)
        self.known[list(never)] = False
        self.counts = np.zeros(vocabulary, np.int64)
        self.notes: list[str] = []

    @property
    def width(self) -> int:
        return int(np.count_nonzero(self.known))

    @property
    def num_parameters(self) -> int:
        """Nothing is learned: the place of a word in the vocabulary is its vector."""
        return 0

    def prepass(self, source: object, given: object = None) -> None:
        """Needs to know nothing before."""

    def initialize(self, seed: int) -> None:
        self.counts[:] = 0

    def warm_start(self, given: Mapping[str, np.ndarray]) -> None:
        """Counts on from what was counted in another text, of all our words or of the first of them."""
        self.counts[: len(given["counts"])] += given["counts"]

    def train_batch(self, batch: Batch, **how: object) -> None:
        """Counts the words of a batch."""
        self.counts += np.bincount(batch.inputs["tokens"], minlength=len(self.counts))

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        return 0.0, 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        if set(arrays) != {"counts"} or arrays["counts"].shape != self.counts.shape:
            raise ForebearError(f"one-hot vectors of {len(self.counts):,} tokens are loaded from their counts alone")
        self.counts = np.asarray(arrays["counts"], np.int64)

    def training_state(self) -> dict[str, np.ndarray]:
        return {}

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        ids = np.flatnonzero(self.known)
        rows: Any = IdentityMatrix(len(ids))
        return WordVectors([tokens[i] for i in ids.tolist()], rows, self.counts[ids])

    def describe(self) -> dict[str, Any]:
        return {"words": self.width, "seen": int(self.counts.sum())}
