"""N-gram model as a memory-mapped hash table: building, opening, and looking up n-grams."""

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
from forebear.kernels.ngram_layout import (
    BUCKET_SIZE,
    HIGHEST_ORDER_PER_BUCKET,
    NGRAMS_PER_BUCKET,
    SPARE_BUCKETS,
    NgramTable,
)
from forebear.statistical.disk_backed_arrays import UNBOUNDED_POOL, ArrayPool
from forebear.statistical.ngram.backoff import PROBABILITY_TOLERANCE
from forebear.statistical.ngram.index import NgramIndex
from forebear.statistical.ngram.smoothing import NGRAMS_PER_PAGE_RELEASE, LogProbLevels

FORMAT = "forebear-ngrams/3"
FILL_FACTOR = 0.6  # load factor: the higher, the more often a second bucket is read
NGRAMS_PER_HASH_BLOCK = 1 << 15  # n-grams hashed at once
# Minimum buckets of a part, and maximum parts of a level: the longest n-grams come last, when there is more memory.
MIN_PART_BUCKETS, MAX_PARTS, MAX_HIGHEST_ORDER_PARTS = 1 << 17, 5, 3
NO_DIGEST, NO_CHECKSUM = "0" * 64, "-" * 24  # placeholders in the header until both are known


def stamp_store(file: Path, weights: str) -> None:
    """Record the digest of the weights from which a table was built, in its reserved field."""
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
        self._sums = np.zeros(BUCKET_SIZE, np.uint64)

    def add(self, buckets: np.ndarray) -> None:
        from forebear.kernels.ngram_table import checksum_kernel

        compile_kernel(checksum_kernel)(buckets, self._sums)

    def hexdigest(self, *others: np.ndarray) -> str:
        """As long as NO_CHECKSUM."""
        crc = 0
        for array in others:
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        return f"{int(np.bitwise_xor.reduce(self._sums)):016x}{crc:08x}"


class HashCollision(Exception):
    """Two n-grams have the same hash."""


class NgramStoreBuilder:
    """Builds a table level by level; a level is inserted with the next one, which has its back-off weights."""

    def __init__(self, ngrams: NgramIndex, uniform_log_probs: np.ndarray | None, salt: int, pool: ArrayPool) -> None:
        self.ngrams, self.salt, self.pool = ngrams, salt, pool
        self.uniform_log_probs = np.asarray(() if uniform_log_probs is None else uniform_log_probs, np.float32)
        self.sizes = [ngrams.num_ngrams(n) for n in range(1, ngrams.order + 1)]
        self.offsets, self.max_probe = np.zeros(ngrams.order + 2, np.int64), np.zeros(ngrams.order + 1, np.int64)
        self.offsets[3:] = np.cumsum([self._num_buckets(n) for n in range(2, ngrams.order + 1)])
        self.unigrams = np.zeros((ngrams.vocab_size, 2), np.float32)

    def _num_buckets(self, n: int) -> int:
        """Lines for the n-grams of n tokens."""
        ngrams_per_bucket = NGRAMS_PER_BUCKET if n < self.ngrams.order else HIGHEST_ORDER_PER_BUCKET
        return int(self.sizes[n - 1] / (FILL_FACTOR * ngrams_per_bucket)) + 1 + SPARE_BUCKETS

    def build_in_memory(self, levels: LogProbLevels) -> np.ndarray:
        """Build all buckets."""
        buckets, first_bucket = self.pool.zeros((int(self.offsets[-1]), BUCKET_SIZE), np.uint64), 0
        for part in self._parts(levels):
            buckets[first_bucket : first_bucket + len(part)] = part
            first_bucket += len(part)
        return buckets

    def write(self, file: IO[bytes], levels: LogProbLevels, get_metadata: Callable[[], dict[str, Any]]) -> None:
        """Write a safetensors file; sizes are known in advance, so each part is written when it is built."""
        first_level = next(levels)  # the metadata is complete only after the first level
        shapes = {
            "lines": ("U64", (int(self.offsets[-1]), BUCKET_SIZE)),
            "single": ("F32", self.unigrams.shape),
            "begins": ("I64", self.offsets.shape),
            "far": ("I64", self.max_probe.shape),
            "even": ("F32", self.uniform_log_probs.shape),
        }
        info = json.dumps({"sizes": self.sizes, "about": get_metadata(), "salt": self.salt})
        fields = {"format": FORMAT, "weights": NO_DIGEST, "sum": NO_CHECKSUM, "ngrams": info}
        header, sums = safetensors_header(shapes, fields), StoreChecksum()
        file.write(header)
        for part in self._parts(chain([first_level], levels)):
            file.write(part.data)
            sums.add(part)
        arrays = self.unigrams, self.offsets, self.max_probe, self.uniform_log_probs
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
        file.seek(header.index(NO_CHECKSUM.encode()))
        file.write(sums.hexdigest(*arrays).encode())

    def _parts(self, levels: LogProbLevels) -> Iterator[np.ndarray]:
        """The buckets of bigrams, trigrams, … in parts; each part is valid until the next."""
        from forebear.kernels.ngram_table import hash_tokens_kernel

        no_backoffs, order = np.zeros(0, np.float32), self.ngrams.order
        logs, hashes = no_backoffs, np.zeros(0, np.uint64)  # of n-grams one and two tokens shorter
        for n, level in enumerate(levels, start=1):
            if n == 2:
                self.unigrams[:, 1] = level.backoffs
            elif n > 2:
                hashes = self._hash_level(n - 1, hashes)
                yield from self._fill_parts(n - 1, lambda chunk=hashes: [(0, chunk)], logs, level.backoffs)
            logs = level.log_probs
            del level  # frees its back-off weights while the next level is computed
            if n == 1:
                self.unigrams[:, 0] = logs
                ids = np.arange(self.ngrams.vocab_size, dtype=np.int32)
                hashes = compile_kernel(hash_tokens_kernel)(ids, np.uint64(self.salt))
        if order > 1:  # the highest order: no level extends these hashes, so they are computed part by part
            yield from self._fill_parts(order, lambda: self._hash_level_parts(order, hashes), logs, no_backoffs)

    def _hash_level(self, n: int, shorter_hashes: np.ndarray) -> np.ndarray:
        """Hashes of the n-grams of n tokens, from those of the (n-1)-grams, which are released."""
        hashes = self.pool.empty(self.ngrams.num_ngrams(n), np.uint64)
        for first_ngram, part in self._hash_level_parts(n, shorter_hashes):
            hashes[first_ngram : first_ngram + len(part)] = part
            release_pages(hashes)
        self.pool.release(shorter_hashes)
        return hashes

    def _hash_level_parts(self, n: int, shorter_hashes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """`_hash_level` in parts, each valid until the next, with the id of its first n-gram."""
        from forebear.kernels.ngram_table import hash_level_kernel

        arrays = shorter_hashes, self.ngrams.num_continuations[n - 2], self.ngrams.last_tokens[n - 2]
        buffer = np.empty(max(NGRAMS_PER_HASH_BLOCK, int(arrays[1].max(initial=0))), np.uint64)
        context = first_ngram = 0
        while context < len(shorter_hashes):
            context, end = compile_kernel(hash_level_kernel)(*arrays, buffer, context, first_ngram)
            yield first_ngram, buffer[: end - first_ngram]
            if end // NGRAMS_PER_PAGE_RELEASE > first_ngram // NGRAMS_PER_PAGE_RELEASE:
                release_pages(*arrays)
            first_ngram = end

    def _fill_parts(
        self, n: int, hashes: Callable[[], Iterable[tuple[int, np.ndarray]]], logs: np.ndarray, backoffs: np.ndarray
    ) -> Iterator[np.ndarray]:
        """The buckets of one level in parts that fit into the cache; overflow of one part begins the next."""
        from forebear.kernels.ngram_table import fill_table_kernel, has_duplicates_kernel

        num_buckets = self._num_buckets(n)
        num_home_buckets = num_buckets - SPARE_BUCKETS  # buckets that an n-gram can hash to
        parts = MAX_PARTS if n < self.ngrams.order else MAX_HIGHEST_ORDER_PARTS
        buckets_per_part = max(MIN_PART_BUCKETS, SPARE_BUCKETS, -(-num_home_buckets // parts))
        max_buckets = min(buckets_per_part, num_home_buckets) + SPARE_BUCKETS
        buckets = self.pool.zeros((max_buckets, BUCKET_SIZE), np.uint64)
        fill_counts = np.zeros(len(buckets), np.uint8)
        for begin in range(0, num_home_buckets, buckets_per_part):
            part_buckets = min(buckets_per_part, num_home_buckets - begin)
            part_arrays = buckets[: part_buckets + SPARE_BUCKETS], fill_counts[: part_buckets + SPARE_BUCKETS]
            for first_ngram, chunk in hashes():
                bits = (values[first_ngram : first_ngram + len(chunk)].view(np.uint32) for values in (logs, backoffs))
                max_probe = compile_kernel(fill_table_kernel)(
                    *part_arrays, begin, num_buckets, chunk, *bits, n == self.ngrams.order
                )
                if max_probe < 0:
                    raise HashCollision
                self.max_probe[n] = max(int(self.max_probe[n]), max_probe)
                release_pages(chunk, logs, backoffs)
            if compile_kernel(has_duplicates_kernel)(*part_arrays):
                raise HashCollision
            yield buckets[:part_buckets]
            for array, part in zip((buckets, fill_counts), part_arrays, strict=True):
                array[:SPARE_BUCKETS], array[SPARE_BUCKETS:] = part[part_buckets:].copy(), 0
        yield buckets[:SPARE_BUCKETS]
        self.pool.release(logs, backoffs, buckets)


# --- The finished table ---

MAX_SALTS = 8  # salts tried: with a billion n-grams, one table in fifty has a 64-bit hash collision
REBUILD_HINT = "remove it: it is made again from the run's weights"


@dataclass(frozen=True, eq=False)
class NgramStore:
    """Log-probabilities and back-off weights by hash; the reference is `BackoffTable`.

    unigrams           (V, 2) float32, log-probability and log back-off weight of each id
    buckets            (buckets, 8) uint64, the longer n-grams, in the layout of `kernels.ngram_table`
    offsets            (order + 2,) the first bucket of the n-grams of each length
    max_probe          (order + 1,) maximum probe distance of n-grams of each length, in buckets
    uniform_log_probs  (V,) or empty, as in `BackoffTable`
    sizes              number of n-grams of each length
    metadata           of the model, as JSON values
    """

    unigrams: np.ndarray
    buckets: np.ndarray
    offsets: np.ndarray
    max_probe: np.ndarray
    uniform_log_probs: np.ndarray
    sizes: list[int]
    metadata: dict[str, Any]
    salt: int = 0
    file: Path | None = None

    @property
    def order(self) -> int:
        return len(self.sizes)

    @property
    def _table(self) -> NgramTable:
        return NgramTable(self.buckets.reshape(-1), self.offsets, self.max_probe)

    def score(
        self, tokens: np.ndarray, lengths: np.ndarray, eos_id: int, match_lengths: np.ndarray | None = None
    ) -> np.ndarray:
        """As `BackoffTable.score`."""
        from forebear.kernels import ngram_score, ngram_table

        log_probs = np.empty(len(tokens))
        out_match_lengths = np.zeros(0, np.uint8) if match_lengths is None else match_lengths
        tokens, lengths = np.ascontiguousarray(tokens, np.int32), np.ascontiguousarray(lengths, np.int64)
        arrays = self.unigrams, self._table, self.uniform_log_probs, log_probs, out_match_lengths
        kernel = compile_kernel(ngram_score.score_ngrams_kernel, allocates=False, inlined_modules=(ngram_table,))
        kernel(
            tokens, lengths, eos_id, self.order, np.uint64(self.salt), *arrays, ngram_score.scoring_buffers(self.order)
        )
        if not (log_probs <= PROBABILITY_TOLERANCE).all():
            raise self._corrupt_error("holds what is no logarithm of a probability")
        return log_probs

    def next_log_probs(self, ngrams: NgramIndex, context: np.ndarray, log_probs: np.ndarray) -> None:
        """As `BackoffTable.next_log_probs`; `ngrams` lists the continuations of the context."""
        from forebear.kernels import ngram_table as kernels

        log_probs[:] = self.unigrams[:, 0]
        for n in range(1, len(context) + 1):
            tokens = np.ascontiguousarray(context[len(context) - n :], np.int32)
            ngram_id = ngrams.index_of(tokens)
            if ngram_id < 0:
                break
            context_hash = self._hash(tokens)
            if len(self.uniform_log_probs):
                log_probs[:] = self.uniform_log_probs
            if n == 1:
                log_probs += self.unigrams[tokens[0], 1]
            else:
                log_probs += compile_kernel(kernels.backoff_weight_kernel)(context_hash, n, self.order, self._table)
            words = np.ascontiguousarray(ngrams.last_tokens[n - 1][ngrams.continuation_range(n, ngram_id)], np.int32)
            listed_log_probs, args = np.empty(len(words)), (n + 1, self.order, self._table)
            compile_kernel(kernels.lookup_log_probs_kernel)(context_hash, words, *args, listed_log_probs)
            log_probs[words] = listed_log_probs
        if not (log_probs <= PROBABILITY_TOLERANCE).all():
            raise self._corrupt_error("does not hold what was counted")

    def lookup(self, tokens: np.ndarray) -> tuple[float, float] | None:
        """As `BackoffTable.lookup`."""
        from forebear.kernels import ngram_table as kernels

        n, tokens = len(tokens), np.ascontiguousarray(tokens, np.int32)
        if n == 1:
            log_prob, backoff = self.unigrams[tokens[0]].tolist()
            return log_prob, backoff if self.order > 1 else 0.0
        log_probs, args = np.empty(1), (n, self.order, self._table)
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

    # -- building and opening

    @classmethod
    def build(
        cls,
        ngrams: NgramIndex,
        levels: Callable[[], LogProbLevels],
        uniform_log_probs: np.ndarray | None = None,
        get_metadata: Callable[[], dict[str, Any]] = dict,
        file: Path | None = None,
        pool: ArrayPool = UNBOUNDED_POOL,
    ) -> NgramStore:
        """From probabilities level by level, in memory or in a file; `get_metadata` is called after the first level."""
        for salt in range(MAX_SALTS):
            try:
                builder = NgramStoreBuilder(ngrams, uniform_log_probs, salt, pool)
                if file is None:
                    buckets = builder.build_in_memory(levels())
                    table = builder.unigrams, buckets, builder.offsets, builder.max_probe, builder.uniform_log_probs
                    return cls(*table, builder.sizes, get_metadata(), salt)
                with atomic_write(file) as stream:
                    builder.write(stream, levels(), get_metadata)
                return cls.open(file)
            except HashCollision:
                continue
        raise ForebearError("the n-grams cannot be told apart by their hashes")

    @classmethod
    def open(cls, file: Path, weights: str | None = None) -> NgramStore:
        """Map the file without reading it. With `weights`, it must have been built from weights of this digest."""
        try:
            header, arrays = map_safetensors(file)
            info = json.loads(header["ngrams"])
            tables = (arrays[key] for key in _FILE_KEYS)
            store = cls(*tables, sizes=info["sizes"], metadata=info["about"], salt=info["salt"], file=file)
            is_valid = header["format"] == FORMAT and weights in (None, header["weights"]) and store._is_consistent()
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ForebearError("is no table of n-grams, or a damaged one", file=file, hint=REBUILD_HINT) from error
        if not is_valid:
            raise ForebearError("is a table of other n-grams, or a damaged one", file=file, hint=REBUILD_HINT)
        return store

    def verify(self) -> None:
        """Read the whole file; raise ForebearError unless its checksum matches."""
        assert self.file is not None
        sums = StoreChecksum()
        sums.add(self.buckets)
        header, _ = map_safetensors(self.file)
        if header["sum"] != sums.hexdigest(self.unigrams, self.offsets, self.max_probe, self.uniform_log_probs):
            raise self._corrupt_error("was damaged on the disk")

    def _is_consistent(self) -> bool:
        order, offsets, max_probe = self.order, np.asarray(self.offsets), np.asarray(self.max_probe)
        return (
            order >= 1
            and self.unigrams.shape == (self.sizes[0], 2)
            and self.buckets.ndim == 2
            and self.buckets.shape[1] == BUCKET_SIZE
            and offsets.shape == (order + 2,)
            and max_probe.shape == (order + 1,)
            and int(offsets[0]) == 0
            and bool((np.diff(offsets)[2:] > SPARE_BUCKETS).all())
            and bool((np.diff(offsets)[:2] == 0).all())
            and int(offsets[-1]) == len(self.buckets)
            and bool((max_probe >= 0).all() and (max_probe < SPARE_BUCKETS).all())
            and len(self.uniform_log_probs) in (0, self.sizes[0])
        )


_FILE_KEYS = ("single", "lines", "begins", "far", "even")  # arrays of the file, in the order of the fields
