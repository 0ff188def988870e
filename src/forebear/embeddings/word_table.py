"""Tables of word vectors: lookup, vectors loaded from elsewhere, and one-hot vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from forebear.data.unicode import code_points, is_han
from forebear.errors import ForebearError, InputError
from forebear.numerics import require_names
from forebear.objectives.batch import Batch

# --- Word vectors ---

COMMON_WORDS = 100  # most frequent words, mostly function words
MIN_LETTERS, MIN_HAN_LETTERS = 5, 2  # minimum length of a content word
EXAMPLE_CANDIDATES = 1000  # words searched for an example
Compose = Callable[[str], "np.ndarray | None"]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors, however they were trained.

    words    the word of each row, by descending frequency if known; unique
    matrix   (N, D) float32; may be memory-mapped
    counts   (N,) word counts, or None if unknown
    compose  returns a vector for an out-of-vocabulary word (from its subwords), or None
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
        """The vector of a word as written."""
        return np.asarray(self.matrix[self.rows[word]], np.float32)

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, width {self.matrix.shape[1]:,})"

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    def row_of(self, word: str) -> int | None:
        """The row of a word as written, otherwise lowercased."""
        row = self.rows.get(word)
        return self.rows.get(word.lower()) if row is None else row

    @property
    def example(self) -> str | None:
        """A frequent content word for examples: not one of the most frequent words, and longer than function words."""
        for start in (COMMON_WORDS, 0):
            candidates = [word for word in self.words[start : start + EXAMPLE_CANDIDATES] if word.isalpha()]
            min_letters = {
                word: MIN_HAN_LETTERS if is_han(code_points(word)).all() else MIN_LETTERS for word in candidates
            }
            long = (word for word in candidates if len(word) >= min_letters[word])
            if (example := next(long, candidates[0] if candidates else None)) is not None:
                return example
        return self.words[0] if self.words else None

    def vector(self, word: str) -> np.ndarray | None:
        """(D,) the vector of a word: its row, or composed from its subwords; None if there is none."""
        row = self.row_of(word)
        if row is not None:
            return np.asarray(self.matrix[row], np.float32)
        return None if self.compose is None else self.compose(word)


# --- Pretrained vectors ---


class _UntrainedModel:
    """Word vectors that are not trained; `excluded_ids` are not words."""

    heads = ()
    training_state_size = 0
    nothing: float | None = None  # loss of untrained vectors, if known
    loss = "there is none: nothing is predicted"

    def __init__(self, *, vocab_size: int, excluded_ids: Iterable[int]) -> None:
        self.is_word = np.ones(vocab_size, bool)
        self.is_word[list(excluded_ids)] = False
        self.notes: list[str] = []

    def training_state(self) -> dict[str, np.ndarray]:
        return {}


class PretrainedVectors(_UntrainedModel):
    """Fixed vectors of a given width, loaded from elsewhere; ids that are not words get zeros."""

    update_rule = "no descent: the vectors are from elsewhere"

    def __init__(self, *, vocab_size: int, excluded_ids: Iterable[int], width: int) -> None:
        if width < 1:
            raise InputError(f"width is {width}", hint="give 1 or more")
        super().__init__(vocab_size=vocab_size, excluded_ids=excluded_ids)
        self.vocab_size, self.width = vocab_size, width
        self._vectors: np.ndarray | None = None  # of words only, by id
        self.counts: np.ndarray | None = None

    def set_vectors(self, vectors: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Set the (N, width) vectors of all words by id, and their counts if known."""
        num_words = int(np.count_nonzero(self.is_word))
        expected = {"vectors": (vectors, (num_words, self.width), "f"), "counts": (counts, (num_words,), "i")}
        for name, (array, shape, kind) in expected.items():
            if array is not None and (array.shape != shape or array.dtype.kind != kind):
                actual = f"{array.dtype} {list(array.shape)}, and should be {list(shape)}"
                raise ForebearError(f"{name} of {num_words:,} given words are {actual}")
        self._vectors, self.counts = np.asarray(vectors, np.float32), counts
        vars(self).pop("matrix", None)

    @property
    def vectors(self) -> np.ndarray:
        """(N, width) vectors of words only."""
        if self._vectors is None:
            raise ForebearError("this model was not given its vectors yet")
        return self._vectors

    # -- training

    def run_first_pass(self, source: object, earlier: object = None) -> NoReturn:
        """Raise InputError: fixed vectors cannot be trained."""
        hint = "to learn, begin from nothing, with --output negatives or tree"
        raise InputError("output 'given' means vectors from elsewhere: there is nothing to learn", hint=hint)

    # -- state

    def arrays(self) -> dict[str, np.ndarray]:
        """Vectors of words, and their counts if known."""
        return {"vectors": self.vectors} | ({} if self.counts is None else {"counts": self.counts})

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load such a state; raise ForebearError for a missing, extra or misshapen array."""
        names = {"vectors", "counts"} if "counts" in arrays else {"vectors"}
        require_names("given vectors", arrays, names)
        self.set_vectors(arrays["vectors"], arrays.get("counts"))

    # -- results

    @cached_property
    def matrix(self) -> np.ndarray:
        """(V, width) vectors by id."""
        rows = np.zeros((self.vocab_size, self.width), np.float32)
        rows[self.is_word] = self.vectors
        return rows

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """All words, by id."""
        return WordVectors([tokens[i] for i in np.flatnonzero(self.is_word).tolist()], self.vectors, self.counts)

    @property
    def num_parameters(self) -> int:
        return self.vectors.size

    def describe(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {"output": "given", "vocabulary": self.vocab_size, "words": len(self.vectors), "width": self.width}


# --- One-hot vectors ---


class IdentityMatrix:
    """(N, N) identity matrix that creates rows on demand."""

    dtype = np.dtype(np.float32)

    def __init__(self, size: int) -> None:
        self.shape = size, size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        selected = np.arange(len(self))[index]
        return (np.arange(len(self)) == np.asarray(selected)[..., None]).astype(self.dtype)

    def cosines(self, unit_queries: np.ndarray, rows: slice | np.ndarray) -> np.ndarray:
        """(Q, n) cosines of unit vectors with some rows, which are columns of the queries."""
        return unit_queries[:, rows]

    @property
    def norms(self) -> np.ndarray:
        return np.ones(len(self), self.dtype)


class OnehotModel(_UntrainedModel):
    """One-hot vectors: only word counts are learned."""

    update_rule = "no descent: words are counted"

    def __init__(self, *, vocab_size: int, excluded_ids: Iterable[int]) -> None:
        super().__init__(vocab_size=vocab_size, excluded_ids=excluded_ids)
        self.counts = np.zeros(vocab_size, np.int64)

    @property
    def width(self) -> int:
        return int(np.count_nonzero(self.is_word))

    @property
    def num_parameters(self) -> int:
        """0: one-hot vectors have no parameters."""
        return 0

    def run_first_pass(self, source: object, earlier: object = None) -> None:
        """Nothing to do."""

    def initialize(self, seed: int) -> None:
        self.counts[:] = 0

    def warm_start(self, earlier: Mapping[str, np.ndarray]) -> None:
        """Continue from the counts of an earlier run."""
        self.counts[: len(earlier["counts"])] += earlier["counts"]

    def train_batch(self, batch: Batch, **options: object) -> None:
        """Count the words of a batch."""
        self.counts += np.bincount(batch.inputs["tokens"], minlength=len(self.counts))

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        return 0.0, 0

    def arrays(self) -> dict[str, np.ndarray]:
        return {"counts": self.counts}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        if set(arrays) != {"counts"} or arrays["counts"].shape != self.counts.shape:
            raise ForebearError(f"one-hot vectors of {len(self.counts):,} tokens are loaded from their counts alone")
        self.counts = np.asarray(arrays["counts"], np.int64)

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        ids = np.flatnonzero(self.is_word)
        rows: Any = IdentityMatrix(len(ids))
        return WordVectors([tokens[i] for i in ids.tolist()], rows, self.counts[ids])

    def describe(self) -> dict[str, Any]:
        return {"words": self.width, "seen": int(self.counts.sum())}
