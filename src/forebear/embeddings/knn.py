"""Nearest rows of a matrix by cosine: exact search in blocks, or approximate search with an HNSW index."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebear.embeddings.word_table import IdentityMatrix
from forebear.errors import ForebearError
from forebear.numerics import unit_rows

VALUES_PER_BLOCK = 1 << 22  # values of the matrix per block: bounds memory, does not affect results
QUERY_BLOCK = 256  # queries per block
COSINE_DIGITS = 6  # decimals; cosines equal to this precision are ties, and the earlier row comes first
MIN_NORM = 1e-12
RECALL_SAMPLE = 200  # rows on which the recall of an index is measured


@dataclass(frozen=True)
class KNNResult:
    """The nearest rows of each query, nearest first, and their cosines."""

    rows: np.ndarray  # (queries, k)
    cosines: np.ndarray  # (queries, k)


def nearest_rows(queries: np.ndarray, matrix: np.ndarray, k: int, norms: np.ndarray | None = None) -> KNNResult:
    """The `k` nearest rows of the (N, D) matrix for each of the (Q, D) queries.

    The matrix may be memory-mapped: it is read block by block. The cosine with a zero row is 0. `norms` are the row
    norms, if known.
    """
    k = min(k, len(matrix))
    blocks = [
        _search_block(unit_rows(np.asarray(queries[start : start + QUERY_BLOCK], np.float32)), matrix, k, norms)
        for start in range(0, len(queries), QUERY_BLOCK)
    ]
    if not blocks:
        return KNNResult(np.empty((0, k), np.int64), np.empty((0, k), np.float32))
    rows = np.concatenate([block.rows for block in blocks])
    return KNNResult(rows, np.concatenate([block.cosines for block in blocks]))


def _search_block(unit_queries: np.ndarray, matrix: np.ndarray, k: int, norms: np.ndarray | None) -> KNNResult:
    rows, cosines = np.empty((len(unit_queries), 0), np.int64), np.empty((len(unit_queries), 0), np.float32)
    for block in cosine_blocks(matrix):
        block_cosines = np.round(cosine_block(unit_queries, matrix, block, norms), COSINE_DIGITS)
        block_rows = np.broadcast_to(np.arange(block.start, block.stop), block_cosines.shape)
        block_rows, block_cosines = top_rows(block_rows, block_cosines, k)
        rows, cosines = np.hstack((rows, block_rows)), np.hstack((cosines, block_cosines))
        rows, cosines = top_rows(rows, cosines, k)  # earlier rows come first
    return KNNResult(rows, cosines)


def row_blocks(matrix: np.ndarray) -> Iterator[slice]:
    """Slices of rows of at most VALUES_PER_BLOCK values."""
    step = max(1, VALUES_PER_BLOCK // matrix.shape[1])
    for start in range(0, len(matrix), step):
        yield slice(start, min(start + step, len(matrix)))


def cosine_blocks(matrix: np.ndarray | IdentityMatrix) -> Iterator[slice]:
    """Slices of rows whose cosines are computed together; all rows of an identity matrix, which is not stored."""
    return iter([slice(0, len(matrix))]) if isinstance(matrix, IdentityMatrix) else row_blocks(matrix)


def cosine_block(
    unit_queries: np.ndarray,
    matrix: np.ndarray | IdentityMatrix,
    selection: slice | np.ndarray,
    norms: np.ndarray | None = None,
) -> np.ndarray:
    """(Q, n) cosines of unit vectors with some rows; for an identity matrix, without creating them."""
    if isinstance(matrix, IdentityMatrix):
        return matrix.cosines(unit_queries, selection)
    rows = np.asarray(matrix[selection], np.float32)
    return unit_queries @ rows.T / (row_norms(rows) if norms is None else norms[selection])


def row_norms(matrix: np.ndarray | IdentityMatrix) -> np.ndarray:
    """(N,) norms of all rows, at least MIN_NORM."""
    if isinstance(matrix, IdentityMatrix):
        return matrix.norms
    blocks = (np.asarray(matrix[block], np.float32) for block in row_blocks(matrix))
    squares = [np.einsum("nd,nd->n", rows, rows) for rows in blocks]
    return np.maximum(np.sqrt(np.concatenate(squares)), MIN_NORM) if squares else np.empty(0, np.float32)


def top_rows(rows: np.ndarray, cosines: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The `k` largest cosines of each query and their rows; ties keep their order."""
    selected = []
    for query_cosines in cosines:
        if len(query_cosines) > k:
            threshold = np.partition(query_cosines, len(query_cosines) - k)[len(query_cosines) - k]
            columns = np.flatnonzero(query_cosines >= threshold)  # more than `k` if there are ties
        else:
            columns = np.arange(len(query_cosines))
        selected.append(columns[np.argsort(-query_cosines[columns], kind="stable")][:k])
    order = np.array(selected)
    return np.take_along_axis(rows, order, 1), np.take_along_axis(cosines, order, 1)


class HNSWIndex:
    """Approximate nearest neighbors over the rows of a matrix: usearch's HNSW graph."""

    def __init__(self, matrix: np.ndarray, file: Path | None = None) -> None:
        """Load the index from `file` if it exists; otherwise build it and save it there."""
        try:
            from usearch.index import Index as Graph  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            hint = "pip install 'forebear[usearch]', or leave --approximate out: exact search needs nothing"
            raise ForebearError("--approximate needs usearch, which is not installed", hint=hint) from error
        self.matrix = matrix
        self._graph = Graph(ndim=matrix.shape[1], metric="cos", dtype="f32")
        if file is not None and file.is_file():
            self._graph.load(str(file))
            return
        for block in row_blocks(matrix):
            self._graph.add(np.arange(block.start, block.stop), unit_rows(np.asarray(matrix[block], np.float32)))
        if file is not None:
            temp_file = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
            self._graph.save(str(temp_file))
            temp_file.replace(file)

    def search(self, queries: np.ndarray, k: int) -> KNNResult:
        """Like `nearest_rows`, but some may be missing. Cosines are recomputed exactly, so the order is exact."""
        k = min(k, len(self.matrix))
        if not len(queries):
            return nearest_rows(queries, self.matrix, k)
        unit_queries = unit_rows(np.asarray(queries, np.float32))
        matches = self._graph.search(unit_queries, k)
        rows = np.sort(np.asarray(matches.keys, np.int64).reshape(len(unit_queries), -1), axis=1)
        pairs = zip(rows, unit_queries, strict=True)
        cosines = np.concatenate([cosine_block(unit[None], self.matrix, candidates) for candidates, unit in pairs])
        return KNNResult(*top_rows(rows, np.round(cosines, COSINE_DIGITS), k))

    def recall(self, k: int) -> float:
        """Recall against exact search, measured on evenly spaced rows of the matrix itself."""
        k = min(k, len(self.matrix))
        queries = np.asarray(self.matrix[:: max(1, len(self.matrix) // RECALL_SAMPLE)][:RECALL_SAMPLE])
        exact, approximate = nearest_rows(queries, self.matrix, k), self.search(queries, k)
        # A row as near as the last exact one counts as found: duplicates are interchangeable.
        return float(np.mean(approximate.cosines >= exact.cosines[:, -1:]))
