"""N-gram model as a memory-mapped hash table: building it part by part, opening it, and looking n-grams up."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from forebear.data.io.arrays import map_safetensors, release_pages, safetensors_header
from forebear.data.io.atomic import atomic_write
from forebear.errors import ForebearError
from forebear.kernels.jit import compile_kernel
from forebear.kernels.ngram_layout import HIGHEST_ORDER_NGRAMS_PER_LINE, NGRAMS_PER_LINE, SPARE_LINES, WORDS_PER_LINE
from forebear.statistical.array_pool import UNBOUNDED_POOL, ArrayPool
from forebear.statistical.ngram.backoff import PROBABILITY_TOLERANCE
from forebear.statistical.ngram.index import NgramIndex
from forebear.statistical.ngram.smoothing import PROGRESS_NGRAMS, LogProbLevels

FORMAT = "forebear-ngrams/3"
FILL_FACTOR = 0.6  # load factor: the higher, the more often a second line is read
NGRAMS_PER_HASH_BLOCK = 1 << 15  # n-grams hashed at once
# Minimum lines of a part, and maximum parts of a level: the longest n-grams come last, when there is more memory.
MIN_PART_LINES, MAX_PARTS, MAX_HIGHEST_ORDER_PARTS = 1 << 17, 5, 3
NO_DIGEST, NO_CHECKSUM = "0" * 64, "-" * 24  # placeholders in the header until both are known


def stamp_store(file: Path, weights: str) -> None:
    """Record the digest of the weights from which a table was made, in its reserved field."""
    with open(file, "r+b") as stream:
        size = int.from_bytes(stream.read(8), "little")
        offset = stream.read(size).index(NO_DIGEST.encode())
        stream.seek(8 + offset)
        stream.write(weights.encode())
        stream.flush()
        os.fsync(stream.fileno())


class StoreChecksum:
    """Checksum of a table, updated part by part."""

    def __init__(self) -> None:
        self._sums = np.zeros(WORDS_PER_LINE, np.uint64)

    def add(self, lines: np.ndarray) -> None:
        from forebear.kernels.ngram_table import checksum_kernel

        compile_kernel(checksum_kernel)(lines, self._sums)

    def hexdigest(self, *others: np.ndarray) -> str:
        """As long as NO_CHECKSUM."""
        crc = 0
        for array in others:
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        return f"{int(np.bitwise_xor.reduce(self._sums)):016x}{crc:08x}"


class HashCollision(Exception):
    """Two n-grams have the same hash."""


class NgramStoreBuilder:
    """Builds a table level by level; a level is inserted when its back-offs are known, with the next level."""

    def __init__(self, ngrams: NgramIndex, uniform_log_probs: np.ndarray | None, salt: int, pool: ArrayPool) -> None:
        self.ngrams, self.salt, self.pool = ngrams, salt, pool
        self.even = np.zeros(0, np.float32) if uniform_log_probs is None else uniform_log_probs.astype(np.float32)
        self.sizes = [ngrams.count(n) for n in range(1, ngrams.order + 1)]
        self.begins, self.far = np.zeros(ngrams.order + 2, np.int64), np.zeros(ngrams.order + 1, np.int64)
        self.begins[3:] = np.cumsum([self._num_lines(n) for n in range(2, ngrams.order + 1)])
        self.single = np.zeros((ngrams.vocabulary, 2), np.float32)

    def _num_lines(self, n: int) -> int:
        """Lines for the n-grams of n tokens."""
        ngrams_per_line = NGRAMS_PER_LINE if n < self.ngrams.order else HIGHEST_ORDER_NGRAMS_PER_LINE
        return int(self.sizes[n - 1] / (FILL_FACTOR * ngrams_per_line)) + 1 + SPARE_LINES

    def build_in_memory(self, levels: LogProbLevels) -> np.ndarray:
        """All lines."""
        lines, first_line = self.pool.zeros((int(self.begins[-1]), WORDS_PER_LINE), np.uint64), 0
        for part in self._parts(levels):
            lines[first_line : first_line + len(part)] = part
            first_line += len(part)
        return lines

    def write(self, file: IO[bytes], levels: LogProbLevels, about: Callable[[], dict[str, Any]]) -> None:
        """Write a safetensors file; the sizes are known, so each part is written as soon as it is built."""
        first_level = next(levels)  # `about` is complete only after the first level
        shapes = {
            "lines": ("U64", (int(self.begins[-1]), WORDS_PER_LINE)),
            "single": ("F32", self.single.shape),
            "begins": ("I64", self.begins.shape),
            "far": ("I64", self.far.shape),
            "even": ("F32", self.even.shape),
        }
        metadata = json.dumps({"sizes": self.sizes, "about": about(), "salt": self.salt})
        fields = {"format": FORMAT, "weights": NO_DIGEST, "sum": NO_CHECKSUM, "ngrams": metadata}
        header, sums = safetensors_header(shapes, fields), StoreChecksum()
        file.write(header)
        for part in self._parts(chain([first_level], levels)):
            file.write(part.data)
            sums.add(part)
        arrays = self.single, self.begins, self.far, self.even
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
        file.seek(header.index(NO_CHECKSUM.encode()))
        file.write(sums.hexdigest(*arrays).encode())

    def _parts(self, levels: LogProbLevels) -> Iterator[np.ndarray]:
        """The lines of bigrams, trigrams, …; each part is valid until the next."""
        from forebear.kernels.ngram_table import hash_tokens_kernel

        no_backoffs, order = np.zeros(0, np.float32), self.ngrams.order
        logs, hashes = no_backoffs, np.zeros(0, np.uint64)  # of n-grams one and two tokens shorter than the level's
        for n, level in enumerate(levels, start=1):
            if n == 2:
                self.single[:, 1] = level.backoffs
            elif n > 2:
                hashes = self._hash_level(n - 1, hashes)
                yield from self._fill_parts(n - 1, lambda known=hashes: [(0, known)], logs, level.backoffs)
            logs = level.log_probs
            del level  # frees its back-offs while the next level is computed
            if n == 1:
                self.single[:, 0] = logs
                ids = np.arange(self.ngrams.vocabulary, dtype=np.int32)
                hashes = compile_kernel(hash_tokens_kernel)(ids, np.uint64(self.salt))
        if order > 1:  # nothing continues these, so their hashes are needed only part by part
            yield from self._fill_parts(order, lambda: self._hash_level_parts(order, hashes), logs, no_backoffs)

    def _hash_level(self, n: int, shorter_hashes: np.ndarray) -> np.ndarray:
        """Hashes of the n-grams of n tokens, from those one shorter, which are released."""
        hashes = self.pool.empty(self.ngrams.count(n), np.uint64)
        for first_ngram, part in self._hash_level_parts(n, shorter_hashes):
            hashes[first_ngram : first_ngram + len(part)] = part
            release_pages(hashes)
        self.pool.release(shorter_hashes)
        return hashes

    def _hash_level_parts(self, n: int, shorter_hashes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """The same in parts, each valid until the next, with the number of its first n-gram."""
        from forebear.kernels.ngram_table import hash_level_kernel

        arrays = shorter_hashes, self.ngrams.continuations[n - 2], self.ngrams.words[n - 2]
        buffer = np.empty(max(NGRAMS_PER_HASH_BLOCK, int(arrays[1].max(initial=0))), np.uint64)
        context = 0
        first_ngram = 0
        while context < len(shorter_hashes):
            context, end = compile_kernel(hash_level_kernel)(*arrays, buffer, context, first_ngram)
            yield first_ngram, buffer[: end - first_ngram]
            if end // PROGRESS_NGRAMS > first_ngram // PROGRESS_NGRAMS:
                release_pages(*arrays)
            first_ngram = end

    def _fill_parts(
        self, n: int, hashes: Callable[[], Iterable[tuple[int, np.ndarray]]], logs: np.ndarray, backoffs: np.ndarray
    ) -> Iterator[np.ndarray]:
        """The lines of one level in parts that fit into the cache; the spare lines of one are the first of the next."""
        from forebear.kernels.ngram_table import fill_table_kernel, has_duplicates_kernel

        num_lines = self._num_lines(n)
        num_home_lines = num_lines - SPARE_LINES  # lines that an n-gram can hash to
        parts = MAX_PARTS if n < self.ngrams.order else MAX_HIGHEST_ORDER_PARTS
        lines_per_part = max(MIN_PART_LINES, SPARE_LINES, -(-num_home_lines // parts))
        lines = self.pool.zeros((min(lines_per_part, num_home_lines) + SPARE_LINES, WORDS_PER_LINE), np.uint64)
        fill_counts = np.zeros(len(lines), np.uint8)
        for begin in range(0, num_home_lines, lines_per_part):
            part_lines = min(lines_per_part, num_home_lines - begin)
            part_arrays = lines[: part_lines + SPARE_LINES], fill_counts[: part_lines + SPARE_LINES]
            for first_ngram, chunk in hashes():
                bits = (values[first_ngram : first_ngram + len(chunk)].view(np.uint32) for values in (logs, backoffs))
                max_probe = compile_kernel(fill_table_kernel)(
                    *part_arrays, begin, num_lines, chunk, *bits, n == self.ngrams.order
                )
                if max_probe < 0:
                    raise HashCollision
                self.far[n] = max(int(self.far[n]), max_probe)
                release_pages(chunk, logs, backoffs)
            if compile_kernel(has_duplicates_kernel)(*part_arrays):
                raise HashCollision
            yield lines[:part_lines]
            for array in (lines, fill_counts):
                array[:SPARE_LINES], array[SPARE_LINES:] = array[part_lines : part_lines + SPARE_LINES].copy(), 0
        yield lines[:SPARE_LINES]
        self.pool.release(logs, backoffs, lines)


# --- The finished table ---

MAX_SALTS = 8  # salts that are tried: among a billion n-grams, one table in fifty has a 64-bit collision
REBUILD_HINT = "remove it: it is made again from the run's weights"


@dataclass(frozen=True, eq=False)
class NgramStore:
    """Log-probabilities and back-off weights by hash; the reference is `BackoffTable`.

    single   (V, 2) float32, of single tokens by their ids
    lines    (lines, 8) uint64, of longer n-grams, in the layout of `kernels.ngram_table`
    begins   (order + 2,) where the lines of n-grams of n tokens begin
    far      (order + 1,) how many lines from its own an n-gram of n tokens is at most
    even     (V,) or empty, `uniform_log_prob` of `BackoffTable`
    sizes    number of n-grams of each length
    about    metadata of the model, as JSON values
    """

    single: np.ndarray
    lines: np.ndarray
    begins: np.ndarray
    far: np.ndarray
    even: np.ndarray
    sizes: list[int]
    about: dict[str, Any]
    salt: int = 0
    file: Path | None = None

    @property
    def order(self) -> int:
        return len(self.sizes)

    @property
    def _line_arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.lines.reshape(-1), self.begins, self.far

    def score(self, tokens: np.ndarray, lengths: np.ndarray, end: int, matched: np.ndarray | None = None) -> np.ndarray:
        """As `BackoffTable.score`."""
        from forebear.kernels import ngram_score, ngram_table

        log_probs = np.empty(len(tokens))
        matched_lengths = np.zeros(len(tokens) if matched is not None else 0, np.uint8)
        tokens, lengths = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(lengths, np.int64)
        arrays = self.single, *self._line_arrays, self.even, log_probs, matched_lengths
        buffers = ngram_score.scoring_buffers(self.order)
        kernel = compile_kernel(ngram_score.score_ngrams_kernel, bare=True, beside=(ngram_table,))
        kernel(tokens, lengths, end, self.order, np.uint64(self.salt), *arrays, *buffers)
        if matched is not None:
            matched[:] = matched_lengths
        if not (log_probs <= PROBABILITY_TOLERANCE).all():
            raise self._corrupt_error("holds what is no logarithm of a probability")
        return log_probs

    def next_log_probs(self, ngrams: NgramIndex, context: np.ndarray, log_probs: np.ndarray) -> None:
        """As `BackoffTable.next_log_probs`; `ngrams` has the tokens that were seen after the context."""
        from forebear.kernels import ngram_table as kernels

        log_probs[:] = self.single[:, 0]
        for n in range(1, len(context) + 1):
            tokens = np.ascontiguousarray(context[len(context) - n :], np.int32)
            ngram_id = ngrams.index_of(tokens)
            if ngram_id < 0:
                break
            context_hash = self._hash(tokens)
            if len(self.even):
                log_probs[:] = self.even
            if n == 1:
                log_probs += self.single[tokens[0], 1]
            else:
                log_probs += compile_kernel(kernels.backoff_weight_kernel)(
                    context_hash, n, self.order, *self._line_arrays
                )
            words = np.ascontiguousarray(ngrams.words[n - 1][ngrams.continuation_range(n, ngram_id)], np.int32)
            seen_log_probs, args = np.empty(len(words)), (n + 1, self.order, *self._line_arrays)
            compile_kernel(kernels.lookup_log_probs_kernel)(context_hash, words, *args, seen_log_probs)
            log_probs[words] = seen_log_probs
        if not (log_probs <= PROBABILITY_TOLERANCE).all():
            raise self._corrupt_error("does not hold what was counted")

    def lookup(self, tokens: np.ndarray) -> tuple[float, float] | None:
        """As `BackoffTable.lookup`."""
        from forebear.kernels import ngram_table as kernels

        n, tokens = len(tokens), np.ascontiguousarray(tokens, np.int32)
        if n == 1:
            log_prob, backoff = self.single[tokens[0]].tolist()
            return log_prob, backoff if self.order > 1 else 0.0
        log_probs, args = np.empty(1), (n, self.order, *self._line_arrays)
        compile_kernel(kernels.lookup_log_probs_kernel)(self._hash(tokens[:-1]), tokens[-1:], *args, log_probs)
        if np.isnan(log_probs[0]):
            return None
        is_highest_order = n == self.order
        backoff = 0.0 if is_highest_order else compile_kernel(kernels.backoff_weight_kernel)(self._hash(tokens), *args)
        return float(log_probs[0]), float(backoff)

    def _hash(self, tokens: np.ndarray) -> np.uint64:
        from forebear.kernels.ngram_table import hash_ngram_kernel

        return np.uint64(compile_kernel(hash_ngram_kernel)(tokens, np.uint64(self.salt)))

    def _corrupt_error(self, message: str) -> ForebearError:
        return ForebearError(message, file=self.file, hint=REBUILD_HINT if self.file else "train again")

    # -- making

    @classmethod
    def build(
        cls,
        ngrams: NgramIndex,
        levels: Callable[[], LogProbLevels],
        uniform_log_probs: np.ndarray | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        file: Path | None = None,
        pool: ArrayPool = UNBOUNDED_POOL,
    ) -> NgramStore:
        """From probabilities level by level, in memory or in a file; `about` is called after the first level."""
        for salt in range(MAX_SALTS):
            try:
                builder = NgramStoreBuilder(ngrams, uniform_log_probs, salt, pool)
                if file is None:
                    lines = builder.build_in_memory(levels())
                    arrays = builder.single, lines, builder.begins, builder.far, builder.even, builder.sizes
                    return cls(*arrays, about(), salt)
                with atomic_write(file) as stream:
                    builder.write(stream, levels(), about)
                return cls.open(file)
            except HashCollision:
                continue
        raise ForebearError("the n-grams cannot be told apart by their hashes")

    @classmethod
    def open(cls, file: Path, weights: str | None = None) -> NgramStore:
        """Maps the file, unread. With `weights`, it must have been made from weights of this digest."""
        try:
            header, arrays = map_safetensors(file)
            metadata = json.loads(header["ngrams"])
            store = cls(**{name: arrays[name] for name in _ARRAY_NAMES}, **metadata, file=file)
            is_valid = header["format"] == FORMAT and weights in (None, header["weights"]) and store._is_consistent()
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ForebearError("is no table of n-grams, or a damaged one", file=file, hint=REBUILD_HINT) from error
        if not is_valid:
            raise ForebearError("is a table of other n-grams, or a damaged one", file=file, hint=REBUILD_HINT)
        return store

    def verify(self) -> None:
        """Reads all of it: an error if it is not what was written."""
        assert self.file is not None
        sums = StoreChecksum()
        sums.add(self.lines)
        header, _ = map_safetensors(self.file)
        if header["sum"] != sums.hexdigest(self.single, self.begins, self.far, self.even):
            raise self._corrupt_error("was damaged on the disk")

    def _is_consistent(self) -> bool:
        order, begins, far = self.order, np.asarray(self.begins), np.asarray(self.far)
        return (
            order >= 1
            and self.single.shape == (self.sizes[0], 2)
            and self.lines.ndim == 2
            and self.lines.shape[1] == WORDS_PER_LINE
            and begins.shape == (order + 2,)
            and far.shape == (order + 1,)
            and int(begins[0]) == 0
            and bool((np.diff(begins)[2:] > SPARE_LINES).all())
            and bool((np.diff(begins)[:2] == 0).all())
            and int(begins[-1]) == len(self.lines)
            and bool((far >= 0).all() and (far < SPARE_LINES).all())
            and len(self.even) in (0, self.sizes[0])
        )


_ARRAY_NAMES = ("lines", "single", "begins", "far", "even")
