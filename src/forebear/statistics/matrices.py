"""Features of many texts as one matrix: few of very many (sparse), or all of a few (dense)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forebear.kernels.sparse import product, transposed_product

BLOCK = 1 << 16  # rows of a dense matrix that are made exact (float64) at a time


class Matrix(Protocol):
    """A row for each text, word or place; a column for each feature."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def times(self, dense: np.ndarray) -> np.ndarray:
        """(R, C) this matrix times one of (F, C)."""
        ...

    def turned_times(self, dense: np.ndarray) -> np.ndarray:
        """(F, C) this matrix, rows as columns, times one of (R, C)."""
        ...

    def squares(self) -> np.ndarray:
        """(F,) the sum of the squares in each column."""
        ...

    def row(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns and the values of one row."""
        ...


@dataclass(frozen=True, eq=False)
class Sparse:
    """Row r has the entries indptr[r] to indptr[r + 1]: a column (int32) and a value (float32) each.

    A column may occur twice in a row; its values then add up.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.width

    def times(self, dense: np.ndarray) -> np.ndarray:
        return product(self.indptr, self.indices, self.values, dense)

    def turned_times(self, dense: np.ndarray) -> np.ndarray:
        return transposed_product(self.indptr, self.indices, self.values, dense, self.width)

    def squares(self) -> np.ndarray:
        return np.bincount(self.indices, np.square(self.values, dtype=np.float64), self.width)

    def row(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        entries = slice(self.indptr[number], self.indptr[number + 1])
        return self.indices[entries], self.values[entries]

    def averaged(self, groups: np.ndarray) -> Sparse:
        """A row for each group, the mean of its rows; `groups` (R,) numbers the group of each row, rising from 0."""
        firsts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(groups))
        sizes = np.diff(firsts)
        entries = np.diff(self.indptr[firsts])
        values = self.values / np.repeat(sizes, entries).astype(np.float32)
        return Sparse(self.indptr[firsts], self.indices, values, self.width)


@dataclass(frozen=True, eq=False)
class Dense:
    """`values` (R, F) float32."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def times(self, dense: np.ndarray) -> np.ndarray:
        told = np.empty((len(self.values), dense.shape[1]))
        for begin in range(0, len(told), BLOCK):
            told[begin : begin + BLOCK] = self.values[begin : begin + BLOCK].astype(np.float64) @ dense
        return told

    def turned_times(self, dense: np.ndarray) -> np.ndarray:
        told = np.zeros((self.values.shape[1], dense.shape[1]))
        for begin in range(0, len(dense), BLOCK):
            told += self.values[begin : begin + BLOCK].astype(np.float64).T @ dense[begin : begin + BLOCK]
        return told

    def squares(self) -> np.ndarray:
        return np.square(self.values, dtype=np.float64).sum(axis=0)

    def row(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.values.shape[1]), self.values[number]


@dataclass(frozen=True, eq=False)
class Beside:
    """Two matrices of as many rows, side by side."""

    left: Sparse
    right: Dense

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.left.width + self.right.shape[1]

    def times(self, dense: np.ndarray) -> np.ndarray:
        return self.left.times(dense[: self.left.width]) + self.right.times(dense[self.left.width :])

    def turned_times(self, dense: np.ndarray) -> np.ndarray:
        return np.concatenate([self.left.turned_times(dense), self.right.turned_times(dense)])

    def squares(self) -> np.ndarray:
        return np.concatenate([self.left.squares(), self.right.squares()])

    def row(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        columns, values = self.left.row(number)
        further, figures = self.right.row(number)
        return np.append(columns, further + self.left.width), np.append(values, figures)


def joined(parts: list[Sparse], width: int) -> Sparse:
    """The rows of all parts, one after the other."""
    sizes = [np.diff(part.indptr) for part in parts]
    return Sparse(
        np.concatenate(([0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes])))),
        np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
        width,
    )
