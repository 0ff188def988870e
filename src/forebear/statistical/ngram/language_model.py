"""N-gram language model: counting, smoothing on demand, scoring and saving."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import ForebearError, InputError
from forebear.numerics import require_names
from forebear.statistical.disk_backed_arrays import save_arrays
from forebear.statistical.ngram.backoff import BackoffTable, split_rows
from forebear.statistical.ngram.counts import NgramCounter, NgramCounts, write_rows
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.index import MIN_COMPILED_NGRAMS, NgramIndex
from forebear.statistical.ngram.smoothing import (
    Discounts,
    LogProbLevels,
    NgramConfig,
    min_count_for,
    prune_ngrams,
    to_log_probs,
    uniform_probs,
)

MAX_LISTED_LENGTHS = 5  # n-gram lengths listed in a note
_LOCK = threading.RLock()  # guards what is computed on first use


class NgramModel:
    """P(token given the last order - 1 tokens), learned by counting; batching does not affect the result.

    order         tokens of the longest n-gram
    eos_id        begins every row as context, and ends it as a target
    excluded_ids  ids with probability 0; the others sum to 1
    smoothing     and k and prune: see `NgramConfig`
    """

    heads = ("next",)
    is_pseudo_likelihood = False  # scores are factors of the probability of a row
    max_length = None  # rows may have any length

    def __init__(
        self,
        *,
        order: int,
        vocab_size: int,
        eos_id: int,
        excluded_ids: Iterable[int] = (),
        smoothing: str = "kneser-ney",
        k: float = 1.0,
        prune: str = "",
    ) -> None:
        self.config = NgramConfig(order, smoothing, k, prune)
        self.eos_id = eos_id
        self.predictable = np.ones(vocab_size, bool)
        self.predictable[list(excluded_ids)] = False
        if not self.predictable[eos_id]:
            raise InputError(f"the end of a text (id {eos_id}) is among the tokens that are never predicted")
        self.counter = NgramCounter(vocab_size, order)
        self._load_arrays: Callable[[], Mapping[str, np.ndarray]] | None = None
        self._probabilities: BackoffTable | NgramStore | None = None
        self._ngrams: NgramIndex | None = None
        self._discounts: list[Discounts] = []
        self.store_file: Path | None = None  # file of a large table of probabilities; None: in memory

    @property
    def order(self) -> int:
        return self.config.order

    @property
    def vocab_size(self) -> int:
        return len(self.predictable)

    @property
    def is_imported(self) -> bool:
        """Whether the probabilities were imported, so that there are no counts."""
        return self.config.smoothing == "given"

    # -- training

    def add_batch(self, tokens: np.ndarray, lengths: np.ndarray, targets: np.ndarray) -> None:
        """Add a batch of rows [eos, w1 … wn], concatenated in `tokens`, with targets [w1 … wn, eos]."""
        if self.is_imported:
            message = "smoothing 'given' means probabilities from elsewhere: there are no counts to add to"
            raise InputError(message, hint="to count, choose --smoothing kneser-ney, add or none")
        if not len(lengths):
            return
        text = self.counter.reserve(len(tokens) + 2 * len(lengths))
        bad_position = write_rows(tokens, lengths, targets, self.eos_id, self.predictable, text)
        if bad_position >= 0:
            self.counter.discard_last(len(text))
            if bad_position >= len(tokens):
                raise ForebearError(f"n-grams are counted in whole rows, all asked for, between two ids {self.eos_id}")
            message = f"the text holds the id {targets[bad_position]}, which this model never predicts"
            raise InputError(message, hint="prepare the text with the tokenizer of this run")
        self._invalidate()

    def _invalidate(self) -> None:
        self._probabilities, self._ngrams = None, None

    @property
    def counts(self) -> NgramCounts:
        """All counts so far."""
        with _LOCK:
            if self._load_arrays is not None:
                self.counter.reset(NgramCounts.load(self._load_arrays(), vocab_size=self.vocab_size, order=self.order))
                self._load_arrays = None  # assigned last, so that an interrupt loses no counts
            return self.counter.counts

    @property
    def ngrams(self) -> NgramIndex:
        """The n-grams with probabilities."""
        with _LOCK:
            if self._ngrams is None:
                if not self.is_imported:
                    self._ngrams = prune_ngrams(self.counts, self.config.min_count_by_length)
                elif self._load_arrays is not None:
                    self._ngrams = NgramIndex.load(self._load_arrays(), vocab_size=self.vocab_size, order=self.order)
                else:
                    table = self.probabilities()
                    assert isinstance(table, BackoffTable)
                    self._ngrams = table.ngrams
            return self._ngrams

    def probabilities(self) -> BackoffTable | NgramStore:
        """The probabilities, estimated on first use and cached until more is counted."""
        if self._probabilities is not None:
            return self._probabilities
        with _LOCK:
            if self._probabilities is None:
                if self.is_imported:
                    raise ForebearError("this n-gram model was not given its probabilities yet")
                uniform = self._uniform_log_probs()
                if sum(map(len, self.ngrams.last_tokens)) > MIN_COMPILED_NGRAMS:
                    args = self._levels, uniform, self._store_info, self.store_file, self.counter.pool
                    self._probabilities = NgramStore.build(self.ngrams, *args)
                else:
                    self._probabilities = BackoffTable.from_levels(self.ngrams, self._levels(), uniform)
            return self._probabilities

    def _levels(self) -> LogProbLevels:
        return self.config.levels(self.counts, self.predictable, self.eos_id, self._discounts, self.counter.pool)

    def _uniform_log_probs(self) -> np.ndarray | None:
        """With add-k, the log-probabilities of tokens unseen after a context, instead of back-off."""
        return to_log_probs(uniform_probs(self.predictable)) if self.config.smoothing == "add" else None

    def _store_info(self) -> dict[str, Any]:
        """Metadata stored with a table of probabilities, so that counts need not be loaded."""
        if self.is_imported:
            return {}
        return {
            "tokens": int(self.counts.counts[0].sum()),
            "discounts": [asdict(discounts) for discounts in self._discounts],
        }

    def _model_info(self) -> dict[str, Any]:
        table = self.probabilities()
        return table.metadata if isinstance(table, NgramStore) else self._store_info()

    # -- saved state

    def arrays(self) -> dict[str, np.ndarray]:
        """The complete state; equal counts give equal bytes, however they were batched."""
        if not self.is_imported:
            return self.counts.arrays()
        table = self.probabilities()
        assert isinstance(table, BackoffTable)
        return table.arrays()

    def save(self, file: Path) -> None:
        """Write the state to a file without a copy in memory."""
        if self.is_imported:
            save_arrays(file, {name: (array, array.dtype) for name, array in self.arrays().items()})
        else:
            save_arrays(file, self.counts.storage_layout())

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load such a state; raise ForebearError for a missing, extra, misshapen or unsorted array."""
        values = ["logs", "backoffs"] if self.is_imported else ["counts"]
        names = {f"{values[0]}.{n}" for n in range(1, self.order + 1)}
        names |= {f"words.{n + 1}" for n in range(1, self.order)}
        names |= {f"{name}.{n}" for name in ("continuations", *values[1:]) for n in range(1, self.order)}
        require_names(f"an n-gram model of order {self.order}", arrays, names)
        self._invalidate()
        if self.is_imported:
            self._probabilities = BackoffTable.load(arrays, vocab_size=self.vocab_size, order=self.order)
        else:
            self.counter.reset(NgramCounts.load(arrays, vocab_size=self.vocab_size, order=self.order))

    def use_store(self, table: NgramStore, load_arrays: Callable[[], Mapping[str, np.ndarray]]) -> None:
        """Use an existing table of probabilities; `load_arrays` loads the counts when they are needed."""
        fits = table.order == self.order and table.sizes[0] == self.vocab_size
        if not fits or bool(len(table.uniform_log_probs)) != (self.config.smoothing == "add"):
            raise ForebearError("is a table of another model", file=table.file, hint="remove it")
        self._probabilities, self._load_arrays = table, load_arrays

    def build_store(self, file: Path) -> NgramStore | None:
        """Write the probabilities to a hash table file; None for models too small to benefit."""
        if sum(map(len, self.ngrams.last_tokens)) <= MIN_COMPILED_NGRAMS:
            return None
        table = self._probabilities
        if isinstance(table, NgramStore) and table.file == file:
            return table
        if isinstance(table, BackoffTable):
            self._probabilities = NgramStore.build(
                table.ngrams, table.levels, table.uniform_log_probs, self._store_info, file, self.counter.pool
            )
        else:
            self.store_file, self._probabilities = file, None
            self.probabilities()
        assert isinstance(self._probabilities, NgramStore)
        return self._probabilities

    def load_probabilities(
        self, ngrams: Sequence[np.ndarray], log_probs: Sequence[np.ndarray], backoffs: Sequence[np.ndarray]
    ) -> None:
        """Fill a model with smoothing "given" from an ARPA file or `to_arpa`."""
        if not self.is_imported or len(ngrams) != self.order:
            description = f"an n-gram model of order {self.order} and smoothing {self.config.smoothing!r}"
            raise ForebearError(f"{description} does not take these probabilities")
        self._invalidate()
        self._probabilities = BackoffTable.from_model(ngrams, log_probs, backoffs, self.vocab_size)

    def to_arpa(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """For n = 1, 2, …, the n-grams (size, n), log P, and back-off weights except for the highest order."""
        table = self._probabilities
        if not isinstance(table, BackoffTable):
            if self.is_imported and self._load_arrays is not None:
                table = BackoffTable.load(self._load_arrays(), vocab_size=self.vocab_size, order=self.order)
            else:
                table = BackoffTable.from_levels(self.ngrams, self._levels(), self._uniform_log_probs())
        return table.to_arpa(self.predictable)

    # -- prediction

    def score(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each row, log P(row[i] given row[:i]) for i = 1, 2, …"""
        tokens, lengths = self._flatten_rows(rows)
        return split_rows(self.score_flat(tokens, lengths), lengths)

    def score_with_lengths(self, rows: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """`score`, and the length of the longest n-gram of the model that ends at each token."""
        tokens, lengths = self._flatten_rows(rows)
        match_lengths = np.empty(len(tokens), np.uint8)
        log_probs = self.probabilities().score(tokens, lengths, self.eos_id, match_lengths)
        return split_rows(log_probs, lengths), split_rows(match_lengths, lengths)

    def score_flat(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """`score` for concatenated rows; the first token of each row gets its unigram log-probability."""
        return self.probabilities().score(tokens, lengths, self.eos_id)

    def next_log_probs(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """(B, V) log P(next token given the row)."""
        table, log_probs = self.probabilities(), np.empty((len(rows), self.vocab_size))
        for row_log_probs, row in zip(log_probs, rows, strict=True):
            context = self.context_of(row)
            if isinstance(table, NgramStore):
                table.next_log_probs(self.ngrams, context, row_log_probs)
            else:
                table.next_log_probs(context, row_log_probs)
        return log_probs

    def context_of(self, row: np.ndarray) -> np.ndarray:
        """The last tokens of a row that affect the next one."""
        context, _ = self._flatten_rows([row[max(0, len(row) - self.order + 1) :]])
        eos_positions = np.flatnonzero(context == self.eos_id)
        return context[eos_positions[-1] :] if len(eos_positions) else context

    def start_decoding(self, rows: Sequence[np.ndarray], max_new_tokens: int) -> NgramDecodingState:
        return NgramDecodingState(self, rows)

    def _flatten_rows(self, rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Concatenated rows, and their lengths."""
        lengths = np.array([len(row) for row in rows], np.int64)
        tokens = np.concatenate([np.zeros(0, np.int64), *map(np.asarray, rows)]).astype(np.int64)
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocab_size:
            raise InputError(f"a row holds ids outside 0 to {self.vocab_size - 1}")
        return tokens, lengths

    # -- metadata

    @property
    def num_parameters(self) -> int:
        """Number of n-grams."""
        return sum(self.probabilities().sizes)

    @property
    def notes(self) -> list[str]:
        """Warnings about how the probabilities were estimated."""
        if self.config.smoothing == "none":
            return ["without smoothing, what never followed a context is impossible; a new context is cut shorter"]
        discounts, sizes = self._model_info().get("discounts", ()), self.probabilities().sizes
        unreliable = [
            f"{n} ({discount['taken'][0]:.3g})"
            for n, (discount, size) in enumerate(zip(discounts, sizes, strict=False), start=1)
            if discount["way"] != "modified" and size
        ]
        if not unreliable:
            return []
        lengths_text = ", ".join(unreliable[:MAX_LISTED_LENGTHS]) + (", …" if unreliable[MAX_LISTED_LENGTHS:] else "")
        message = "Kneser–Ney's three discounts cannot be told from so few counts, and one is taken from all"
        return [f"{message}: of n-grams of length {lengths_text}; usual for little or repetitive text"]

    def describe(self) -> dict[str, Any]:
        """Metadata as JSON values."""
        metadata: dict[str, Any] = {
            "order": self.order,
            "smoothing": self.config.smoothing,
            "vocabulary": self.vocab_size,
            "predictable": int(np.count_nonzero(self.predictable)),
            "ngrams": self.probabilities().sizes,
        }
        info = self._model_info()
        if "tokens" in info:
            metadata["tokens"] = info["tokens"]
        if self.config.smoothing == "add":
            metadata["k"] = self.config.add_k
        if min_counts := self.config.min_count_by_length:
            metadata["least_counts"] = [min_count_for(min_counts, n) for n in range(1, self.order + 1)]
        if info.get("discounts"):
            metadata["discounts"] = [
                {"order": n, "way": discount["way"], "taken": list(discount["taken"]), "seen": list(discount["seen"])}
                for n, discount in enumerate(info["discounts"], start=1)
            ]
        return metadata | {"notes": self.notes}


class NgramDecodingState:
    """The last tokens of the rows being continued."""

    def __init__(self, model: NgramModel, rows: Sequence[np.ndarray]) -> None:
        self.model = model
        self.rows = [np.asarray(row, np.int64) for row in rows]

    def next_logits(self) -> np.ndarray:
        return self.model.next_log_probs(self.rows).astype(np.float32)

    def append(self, ids: np.ndarray) -> None:
        max_context = max(self.model.order - 1, 1)
        self.rows = [np.append(row, token)[-max_context:] for row, token in zip(self.rows, ids.tolist(), strict=True)]

    def select(self, rows: np.ndarray) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]
