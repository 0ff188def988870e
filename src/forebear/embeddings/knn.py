"""The nearest rows of a matrix of vectors by cosine: exact, in blocks, or by an index that gives most of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebear.embeddings.word_table import IdentityMatrix
from forebear.errors import ForebearError

BLOCK_BYTES = 1 << 22  # numbers of the matrix taken up at once: bounds memory, changes no result
ASKED = 256  # vectors whose neighbours are looked for at once
COSINE_DIGITS = 6  # of a cosine; those that agree so far are equal, and the earlier row comes first
MIN_NORM = 1e-12
PROBED = 200  # rows by which it is measured how many of the nearest an index finds


@dataclass(frozen=True)
class KNNResult:
    """For each vector that was asked about: which rows are nearest, the nearest first, and their cosines."""

    rows: np.ndarray  # (asked, top)
    cosines: np.ndarray  # (asked, top)


def nearest_rows(asked: np.ndarray, matrix: np.ndarray, top: int, lengths: np.ndarray | None = None) -> KNNResult:
    """The `top` rows of the (N, D) matrix that are nearest to each of the asked (Q, D), or all where there are fewer.

    The matrix may lie on the disk: it is read block by block. A row of zeros has the cosine 0 to everything. `lengths`
    are those of its rows, where they are known.
    """
    top = min(top, len(matrix))
    parts = [_of_some(_scaled(asked[at : at + ASKED]), matrix, top, lengths) for at in range(0, len(asked), ASKED)]
    if not parts:
        return KNNResult(np.empty((0, top), np.int64), np.empty((0, top), np.float32))
    return KNNResult(np.concatenate([part.rows for part in parts]), np.concatenate([part.cosines for part in parts]))


def _of_some(units: np.ndarray, matrix: np.ndarray, top: int, lengths: np.ndarray | None) -> KNNResult:
    rows, cosines = np.empty((len(units), 0), np.int64), np.empty((len(units), 0), np.float32)
    for part in cosine_blocks(matrix):
        found = np.round(cosine_block(units, matrix, part, lengths), COSINE_DIGITS)
        here, near = top_rows(np.broadcast_to(np.arange(part.start, part.stop), found.shape), found, top)
        rows, cosines = top_rows(np.hstack((rows, here)), np.hstack((cosines, near)), top)  # earlier rows stand first
    return KNNResult(rows, cosines)


def row_blocks(matrix: np.ndarray) -> Iterator[slice]:
    """Its rows, as many at a time as may be in memory."""
    step = max(1, BLOCK_BYTES // matrix.shape[1])
    for at in range(0, len(matrix), step):
        yield slice(at, min(at + step, len(matrix)))


def cosine_blocks(matrix: np.ndarray | IdentityMatrix) -> Iterator[slice]:
    """Rows whose cosines are asked for at once: a block, or all of them where they are never made."""
    return iter([slice(0, len(matrix))]) if isinstance(matrix, IdentityMatrix) else row_blocks(matrix)


def cosine_block(
    units: np.ndarray, matrix: np.ndarray | IdentityMatrix, part: slice | np.ndarray, lengths: np.ndarray | None = None
) -> np.ndarray:
    """(Q, n) the cosines of vectors of length 1 with a part of the rows.

    A matrix may say itself what the `cosines` of its rows are: then they need not exist.
    """
    if isinstance(matrix, IdentityMatrix):
        return matrix.cosines(units, part)
    rows = np.asarray(matrix[part], np.float32)
    return units @ rows.T / (row_norms(rows) if lengths is None else lengths[part])


def row_norms(matrix: np.ndarray | IdentityMatrix) -> np.ndarray:
    """(N,) the lengths of all rows; that of a row of zeros is the smallest there is."""
    if isinstance(matrix, IdentityMatrix):
        return matrix.lengths
    found = (np.asarray(matrix[part], np.float32) for part in row_blocks(matrix))
    squares = [np.einsum("nd,nd->n", rows, rows) for rows in found]
    return np.maximum(np.sqrt(np.concatenate(squares)), MIN_NORM) if squares else np.empty(0, np.float32)


def top_rows(rows: np.ndarray, cosines: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The `top` of each line, the largest first; of equals those that stand first. Equals stand in their order."""
    kept = []
    for line in cosines:
        if len(line) > top:
            least = np.partition(line, len(line) - top)[len(line) - top]
            places = np.flatnonzero(line >= least)  # a few more than `top` where some are equal
        else:
            places = np.arange(len(line))
        kept.append(places[np.argsort(-line[places], kind="stable")][:top])
    chosen = np.array(kept)
    return np.take_along_axis(rows, chosen, 1), np.take_along_axis(cosines, chosen, 1)


def _scaled(vectors: np.ndarray) -> np.ndarray:
    found = np.asarray(vectors, np.float32)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), MIN_NORM)


class HNSWIndex:
    """A graph over the rows of a matrix (usearch's HNSW): finds most of the nearest, looking at few."""

    def __init__(self, matrix: np.ndarray, file: Path | None = None) -> None:
        """Made, or taken from the `file` if it is there; made once, it is kept there."""
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
        for part in row_blocks(matrix):
            self._graph.add(np.arange(part.start, part.stop), _scaled(matrix[part]))
        if file is not None:
            aside = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_native_id()}.tmp")
            self._graph.save(str(aside))
            aside.replace(file)

    def search(self, asked: np.ndarray, top: int) -> KNNResult:
        """As `nearest`, but some may be missing. Cosines are computed anew, so what is found has its exact place."""
        top = min(top, len(self.matrix))
        if not len(asked):
            return nearest_rows(asked, self.matrix, top)
        units = _scaled(asked)
        found = self._graph.search(units, top)
        rows = np.sort(np.asarray(found.keys, np.int64).reshape(len(units), -1), axis=1)
        pairs = zip(rows, units, strict=True)
        cosines = np.concatenate([cosine_block(unit[None], self.matrix, near) for near, unit in pairs])
        return KNNResult(*top_rows(rows, np.round(cosines, COSINE_DIGITS), top))

    def recall(self, top: int) -> float:
        """The share of the exact nearest that it finds, measured on evenly chosen rows of the matrix itself."""
        top = min(top, len(self.matrix))
        asked = np.asarray(self.matrix[:: max(1, len(self.matrix) // PROBED)][:PROBED])
        exact, found = nearest_rows(asked, self.matrix, top), self.search(asked, top)
        # One that is as near as the last of the exact is no mistake: copies of a text are as good as each other.
        return float(np.mean(found.cosines >= exact.cosines[:, -1:]))
