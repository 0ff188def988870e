"""GloVe: a vector for each word such that products of vectors are logs of how often the words stand together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np

from forebear.data.corpus.subset import Subset
from forebear.embeddings.phrases import PhraseTable
from forebear.embeddings.word_table import WordVectors
from forebear.errors import ForebearError, InputError
from forebear.kernels.glove_table import glove_table, padded_width
from forebear.objectives.batch import Batch, shuffled_positions

SIDES = ("words", "contexts")
FEW = 1 << 14  # entries for which threads are not worth their while


class GloveModel:
    """w·c + b + b' for any two words, of which the second has vectors of its own; moved by AdaGrad, entry by entry.

    vocabulary  how many ids there are
    never       ids that are no words: their vectors are 0
    width       numbers in a vector
    """

    heads = ("together",)
    nothing: float | None = None  # what vectors lose that know nothing, where that is known
    loss = "half the squared error of the log of a count, weighted; of held-out text, from the line that fits it best"
    update_rule = "AdaGrad, entry by entry"

    def __init__(self, *, vocabulary: int, never: Iterable[int] = (), width: int) -> None:
        if width < 1:
            raise InputError(f"vectors of {width} numbers", hint="choose a width of 1 or more, such as 100")
        self.vocabulary, self.width, self.never = vocabulary, width, frozenset(never)
        self._room = padded_width(width)
        self._tables = {side: glove_table(vocabulary, self._room) for side in SIDES}
        self.counts = np.zeros(vocabulary, np.int64)

    def _values(self, side: str) -> dict[str, np.ndarray]:
        """Vectors and biases of a side, to read or to fill."""
        whole = self._tables[side]
        return {f"{side}.vectors": whole[:, : self.width], f"{side}.biases": whole[:, 2 * self._room]}

    def _squares(self, side: str) -> dict[str, np.ndarray]:
        """AdaGrad's sums of squared steps, of vectors and of biases."""
        whole = self._tables[side]
        squares = {"vectors": whole[:, self._room : self._room + self.width], "biases": whole[:, 2 * self._room + 1]}
        return {f"{side}.{name}.squares": part for name, part in squares.items()}

    # -- learning

    def prepass(self, source: Subset, given: Mapping[str, np.ndarray] | None = None) -> None:
        """Counts the words of the text to learn from; those of an earlier text are `given` with its vectors."""
        self.counts = PhraseTable.empty(self.vocabulary).count(source)
        if given is not None:
            self.counts[: len(given["counts"])] += given["counts"]

    def initialize(self, seed: int) -> None:
        """Small numbers drawn by chance, the same for the same seed, and none for what is no word."""
        rng = np.random.default_rng(seed)
        for side in SIDES:
            self._tables[side] = glove_table(self.vocabulary, self._room)
            for place in self._values(side).values():
                place[:] = (rng.random(place.shape, np.float32) - np.float32(0.5)) / self.width
                place[list(self.never)] = 0

    def train_batch(
        self,
        batch: Batch,
        *,
        rate: float,
        moment: tuple[int, int] = (0, 0),
        threads: int = 1,
        deterministic: bool = False,
    ) -> float:
        """Learns from each entry in turn; their mean loss, ½ f (w·c + b + b' - log x)², each before it was learned.

        Threads at work at the same time share no word, and wait for each other before they do: the same bits come about
        whatever their number, and `deterministic` costs nothing more.
        """
        from forebear.kernels import glove as kernels

        given = _entries(batch)
        order, starts = kernels.group_blocks(given[0], given[1], self.vocabulary)
        sweep, told = kernels.glove_sweeper(self._room), np.zeros(kernels.ROW_GROUPS**2)
        turns, threads = np.arange(len(told)).reshape(kernels.ROW_GROUPS, -1), min(threads, kernels.ROW_GROUPS)
        turns = turns[shuffled_positions(np.arange(len(turns)), len(turns), seed=moment[0], epoch=moment[1])]

        def learn(blocks: np.ndarray) -> None:
            sweep(order, starts, blocks, *given, *self._tables.values(), rate, told)

        if threads == 1 or len(order) < FEW:
            learn(turns.ravel())
        else:
            _in_turns(learn, _dealt(turns, np.diff(starts), threads))
        return float(told.sum()) / max(1, len(order))

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """The sum of the losses of these entries in double precision, and how many there are.

        In a shorter text all counts are lower by about the same factor, and nearer to each other: of the rare pairs
        only those stand in it that happened to be more frequent than they are. That is no error of the vectors, and
        whoever knows the counts of the longer text by heart would lose more by it than who knows little. So what is
        predicted is measured by the line that fits these entries best: text of any length can examine.
        """
        from forebear.kernels import glove as kernels

        given = _entries(batch)
        moments = kernels.batch_moments(*given, *self._tables.values(), self._room)
        whole, told, logs, told_squared, both, logs_squared = moments
        if not whole:
            return 0.0, len(given[0])
        varied, common, asked = (
            total - one * other / whole
            for total, one, other in ((told_squared, told, told), (both, told, logs), (logs_squared, logs, logs))
        )
        slope = max(0.0, common / varied) if varied > 0 else 0.0  # what goes the wrong way tells nothing
        return max(0.0, 0.5 * (asked - slope * common)), len(given[0])

    # -- its state

    def arrays(self) -> dict[str, np.ndarray]:
        """Vectors and biases, of words as rows and as columns, and how often each word was seen."""
        return {name: np.ascontiguousarray(part) for name, part in self._places().items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes such a state; a missing, extra or misshapen array is refused by its name."""
        self._take(arrays, self._places())

    def _places(self) -> dict[str, np.ndarray]:
        return {name: part for side in SIDES for name, part in self._values(side).items()} | {"counts": self.counts}

    def training_state(self) -> dict[str, np.ndarray]:
        """What else is needed to go on: the squared steps of each number, added up."""
        return {name: np.ascontiguousarray(part) for side in SIDES for name, part in self._squares(side).items()}

    def load_training_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._take(arrays, {name: part for side in SIDES for name, part in self._squares(side).items()})

    def warm_start(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Begins with vectors that were learned before, of all our words or of the first of them, with full steps."""
        for side in SIDES:
            for name, place in self._values(side).items():
                if arrays[name].shape[1:] != place.shape[1:]:
                    raise ForebearError("the vectors to go on from have another width", hint="leave out --width")
                place[: len(arrays[name])] = arrays[name]

    def _take(self, arrays: Mapping[str, np.ndarray], places: dict[str, np.ndarray]) -> None:
        for what, odd in (("lacks", set(places) - set(arrays)), ("has, but should not,", set(arrays) - set(places))):
            if odd:
                raise ForebearError(f"the state of a GloVe model {what} {sorted(odd)}")
        for name, place in places.items():
            if arrays[name].shape != place.shape or arrays[name].dtype != place.dtype:
                kinds = [f"{array.dtype} {list(array.shape)}" for array in (arrays[name], place)]
                raise ForebearError(f"{name!r} of a GloVe model is {kinds[0]}, not {kinds[1]}")
        for name, place in places.items():
            place[:] = arrays[name]

    # -- what it says

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) the vector of each word: those of the word as a row and as a column, added up."""
        words, contexts = (whole[:, : self.width] for whole in self._tables.values())
        return words + contexts

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """Of every word that was seen."""
        rows = np.array([row for row in np.flatnonzero(self.counts).tolist() if row not in self.never], np.int64)
        rows = rows[np.argsort(-self.counts[rows], kind="stable")]
        return WordVectors([tokens[int(row)] for row in rows], self.matrix[rows], self.counts[rows])

    @property
    def training_state_size(self) -> int:
        """One for each parameter."""
        return self.num_parameters

    @property
    def num_parameters(self) -> int:
        return len(SIDES) * self.vocabulary * (self.width + 1)

    @property
    def notes(self) -> list[str]:
        return []

    def describe(self) -> dict[str, Any]:
        """Facts as JSON values."""
        return {"vocabulary": self.vocabulary, "words": self.vocabulary - len(self.never), "width": self.width}


def _entries(batch: Batch) -> tuple[np.ndarray, ...]:
    inputs = batch.inputs
    return inputs["tokens"], inputs["beside"], batch.targets["together"], inputs["weights"]


def _dealt(turns: np.ndarray, sizes: np.ndarray, threads: int) -> list[list[np.ndarray]]:
    """What each thread has to do in each turn: the largest blocks first, always to who has least."""
    shares: list[list[np.ndarray]] = [[] for _ in range(threads)]
    for turn in turns:
        mine, held = [[] for _ in range(threads)], [0] * threads
        for block in turn[np.argsort(-sizes[turn], kind="stable")].tolist():
            least = held.index(min(held))
            mine[least].append(block)
            held[least] += int(sizes[block])
        for share, blocks in zip(shares, mine, strict=True):
            share.append(np.array(blocks, turns.dtype))
    return shares


def _in_turns(learn: Callable[[np.ndarray], None], shares: list[list[np.ndarray]]) -> None:
    """Threads that begin each turn together."""
    barrier = Barrier(len(shares))

    def work(share: list[np.ndarray]) -> None:
        try:
            for blocks in share:
                learn(blocks)
                barrier.wait()
        except BaseException:
            barrier.abort()  # or the others would wait for ever
            raise

    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(work, shares))
