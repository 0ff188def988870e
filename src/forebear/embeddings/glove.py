"""GloVe: word vectors whose dot products approximate log co-occurrence counts, trained with AdaGrad."""

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
from forebear.kernels.vector_tables import glove_table, padded_width
from forebear.numerics import require_state
from forebear.objectives.batch import Batch
from forebear.objectives.shuffle import shuffled_positions

TABLES = ("words", "contexts")
MIN_THREADED_ENTRIES = 1 << 14  # with fewer entries, threads cost more than they gain


class GloveModel:
    """Predicts log counts as w·c + b + b', with separate word and context vectors; AdaGrad entry by entry.

    excluded_ids  ids that are not words: their vectors stay 0
    width         embedding size
    """

    heads = ("together",)
    nothing: float | None = None  # loss of untrained vectors, if known
    loss = "half the squared error of the log of a count, weighted; of held-out text, from the line that fits it best"
    update_rule = "AdaGrad, entry by entry"

    def __init__(self, *, vocab_size: int, excluded_ids: Iterable[int] = (), width: int) -> None:
        if width < 1:
            raise InputError(f"vectors of {width} numbers", hint="choose a width of 1 or more, such as 100")
        self.vocab_size, self.width, self.excluded_ids = vocab_size, width, frozenset(excluded_ids)
        self._padded_width = padded_width(width)
        self._tables = {name: glove_table(vocab_size, self._padded_width) for name in TABLES}
        self.counts = np.zeros(vocab_size, np.int64)

    def _views(self, first_column: int, bias_column: int, suffix: str = "") -> dict[str, np.ndarray]:
        """Views of the vectors and the biases of both tables."""
        views: dict[str, np.ndarray] = {}
        for name, table in self._tables.items():
            views[f"{name}.vectors{suffix}"] = table[:, first_column : first_column + self.width]
            views[f"{name}.biases{suffix}"] = table[:, bias_column]
        return views

    def _parameters(self) -> dict[str, np.ndarray]:
        return self._views(0, 2 * self._padded_width)

    def _squared_steps(self) -> dict[str, np.ndarray]:
        """AdaGrad's sums of squared gradients."""
        return self._views(self._padded_width, 2 * self._padded_width + 1, ".squares")

    # -- training

    def run_first_pass(self, source: Subset, earlier: Mapping[str, np.ndarray] | None = None) -> None:
        """Count the words of the training text, on top of the counts of an earlier run."""
        self.counts = PhraseTable.empty(self.vocab_size).count(source)
        if earlier is not None:
            self.counts[: len(earlier["counts"])] += earlier["counts"]

    def initialize(self, seed: int) -> None:
        """Initialize with small random numbers from the seed; ids that are not words get zeros."""
        rng = np.random.default_rng(seed)
        self._tables = {name: glove_table(self.vocab_size, self._padded_width) for name in TABLES}
        for array in self._parameters().values():
            array[:] = (rng.random(array.shape, np.float32) - np.float32(0.5)) / self.width
            array[list(self.excluded_ids)] = 0

    def train_batch(
        self,
        batch: Batch,
        *,
        rate: float,
        rng_key: tuple[int, int] = (0, 0),
        threads: int = 1,
        deterministic: bool = False,
    ) -> float:
        """Train on each entry in turn; returns their mean loss ½ f (w·c + b + b' - log x)², each before its update.

        Blocks of one turn share no word and threads synchronize between turns, so results are bit-identical for any
        number of threads, and `deterministic` has no effect.
        """
        from forebear.kernels import glove as kernels

        entries = _entries(batch)
        order, starts = kernels.group_blocks(entries[0], entries[1], self.vocab_size)
        adagrad_pass, losses = kernels.compile_adagrad_pass(self._padded_width), np.zeros(kernels.ROW_GROUPS**2)
        turns, threads = np.arange(len(losses)).reshape(kernels.ROW_GROUPS, -1), min(threads, kernels.ROW_GROUPS)
        turns = turns[shuffled_positions(np.arange(len(turns)), len(turns), seed=rng_key[0], epoch=rng_key[1])]

        def train_blocks(blocks: np.ndarray) -> None:
            adagrad_pass(order, starts, blocks, *entries, *self._tables.values(), rate, losses)

        if threads == 1 or len(order) < MIN_THREADED_ENTRIES:
            train_blocks(turns.ravel())
        else:
            _run_turns(train_blocks, _assign_blocks(turns, np.diff(starts), threads))
        return float(losses.sum()) / max(1, len(order))

    def evaluate(self, batch: Batch) -> tuple[float, int]:
        """Summed loss of these entries in double precision, and their number.

        In a shorter text, all counts are lower by about the same factor and closer together: rare pairs appear in it
        only if they happen to be more frequent there. That is not an error of the vectors. So predictions are first
        mapped by the regression line on these entries, and held-out text may have any length.
        """
        from forebear.kernels import glove as kernels

        entries = _entries(batch)
        moments = kernels.batch_moments(*entries, *self._tables.values(), self._padded_width)
        total_weight, predicted, log_counts, predicted_squared, products, log_counts_squared = moments
        if not total_weight:
            return 0.0, len(entries[0])
        variance = predicted_squared - predicted**2 / total_weight
        covariance = products - predicted * log_counts / total_weight
        log_variance = log_counts_squared - log_counts**2 / total_weight
        slope = max(0.0, covariance / variance) if variance > 0 else 0.0  # a negative correlation is no prediction
        return max(0.0, 0.5 * (log_variance - slope * covariance)), len(entries[0])

    # -- state

    def arrays(self) -> dict[str, np.ndarray]:
        """Vectors and biases of words and of contexts, and word counts."""
        return {name: np.ascontiguousarray(array) for name, array in self._state_arrays().items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load such a state; raise ForebearError for a missing, extra or misshapen array."""
        self._assign_arrays(arrays, self._state_arrays())

    def _state_arrays(self) -> dict[str, np.ndarray]:
        return self._parameters() | {"counts": self.counts}

    def training_state(self) -> dict[str, np.ndarray]:
        """AdaGrad's accumulators, needed to resume."""
        return {name: np.ascontiguousarray(array) for name, array in self._squared_steps().items()}

    def load_training_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._assign_arrays(arrays, self._squared_steps())

    def warm_start(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Start from trained vectors of all words, or of the first of them, with fresh AdaGrad accumulators."""
        for name, array in self._parameters().items():
            if arrays[name].shape[1:] != array.shape[1:]:
                raise ForebearError("the vectors to go on from have another width", hint="leave out --width")
            array[: len(arrays[name])] = arrays[name]

    def _assign_arrays(self, arrays: Mapping[str, np.ndarray], targets: dict[str, np.ndarray]) -> None:
        require_state("GloVe model", arrays, targets)
        for name, target in targets.items():
            target[:] = arrays[name]

    # -- results

    @property
    def matrix(self) -> np.ndarray:
        """(V, width) word plus context vectors."""
        words, contexts = (table[:, : self.width] for table in self._tables.values())
        return words + contexts

    def word_table(self, tokens: Sequence[str]) -> WordVectors:
        """Vectors of the words that occur, by descending frequency."""
        rows = np.array([row for row in np.flatnonzero(self.counts).tolist() if row not in self.excluded_ids], np.int64)
        rows = rows[np.argsort(-self.counts[rows], kind="stable")]
        return WordVectors([tokens[int(row)] for row in rows], self.matrix[rows], self.counts[rows])

    @property
    def training_state_size(self) -> int:
        """One accumulator for each parameter."""
        return self.num_parameters

    @property
    def num_parameters(self) -> int:
        return len(TABLES) * self.vocab_size * (self.width + 1)

    @property
    def notes(self) -> list[str]:
        return []

    def describe(self) -> dict[str, Any]:
        """Settings as JSON values."""
        return {"vocabulary": self.vocab_size, "words": self.vocab_size - len(self.excluded_ids), "width": self.width}


def _entries(batch: Batch) -> tuple[np.ndarray, ...]:
    inputs = batch.inputs
    return inputs["tokens"], inputs["beside"], batch.targets["together"], inputs["weights"]


def _assign_blocks(turns: np.ndarray, sizes: np.ndarray, threads: int) -> list[list[np.ndarray]]:
    """Blocks of each thread in each turn: the largest first, each to the least loaded thread."""
    assignments: list[list[np.ndarray]] = [[] for _ in range(threads)]
    for turn in turns:
        turn_blocks, loads = [[] for _ in range(threads)], [0] * threads
        for block in turn[np.argsort(-sizes[turn], kind="stable")].tolist():
            lightest = loads.index(min(loads))
            turn_blocks[lightest].append(block)
            loads[lightest] += int(sizes[block])
        for assignment, blocks in zip(assignments, turn_blocks, strict=True):
            assignment.append(np.array(blocks, turns.dtype))
    return assignments


def _run_turns(train: Callable[[np.ndarray], None], assignments: list[list[np.ndarray]]) -> None:
    """Run threads that synchronize before each turn."""
    barrier = Barrier(len(assignments))

    def run_thread(assignment: list[np.ndarray]) -> None:
        try:
            for blocks in assignment:
                train(blocks)
                barrier.wait()
        except BaseException:
            barrier.abort()  # otherwise the others would wait forever
            raise

    with ThreadPoolExecutor(len(assignments)) as pool:
        list(pool.map(run_thread, assignments))
