"""Feature matrices of texts, words or tokens: sparse, dense, with repeated rows, and side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forebear.kernels.matrix_product import (
    dense_product,
    dense_transposed_product,
    sparse_product,
    sparse_transposed_product,
)


class FeatureMatrix(Protocol):
    """A row for each text, word or position; a column for each feature."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def multiply(self, dense: np.ndarray) -> np.ndarray:
        """(R, C) this matrix times one of (F, C)."""
        ...

    def transposed_multiply(self, dense: np.ndarray) -> np.ndarray:
        """(F, C) the transposed matrix times one of (R, C)."""
        ...

    def column_square_sums(self) -> np.ndarray:
        """(F,) sum of squares of each column."""
        ...

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The columns and the values of one row."""
        ...


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """CSR matrix: row r has the entries indptr[r] to indptr[r + 1], each a column (int32) and a value (float32).

    Values of a repeated column add up.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.width

    def multiply(self, dense: np.ndarray) -> np.ndarray:
        return sparse_product(self.indptr, self.indices, self.values, dense)

    def transposed_multiply(self, dense: np.ndarray) -> np.ndarray:
        return sparse_transposed_product(self.indptr, self.indices, self.values, dense, self.width)

    def column_square_sums(self) -> np.ndarray:
        return np.bincount(self.indices, np.square(self.values, dtype=np.float64), self.width)

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        entries = slice(self.indptr[row], self.indptr[row + 1])
        return self.indices[entries], self.values[entries]

    def average_groups(self, groups: np.ndarray) -> SparseMatrix:
        """The mean row of each group; `groups` (R,) is the group of each row, ascending from 0."""
        starts = np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(groups))
        sizes = np.diff(starts)
        entries = np.diff(self.indptr[starts])
        values = self.values / np.repeat(sizes, entries).astype(np.float32)
        return SparseMatrix(self.indptr[starts], self.indices, values, self.width)


@dataclass(frozen=True, eq=False)
class DenseMatrix:
    """`values` (R, F) float32."""

    values: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def multiply(self, dense: np.ndarray) -> np.ndarray:
        return dense_product(self.values, dense)

    def transposed_multiply(self, dense: np.ndarray) -> np.ndarray:
        return dense_transposed_product(self.values, dense)

    def column_square_sums(self) -> np.ndarray:
        return np.square(self.values, dtype=np.float64).sum(axis=0)

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.values.shape[1]), self.values[row]


@dataclass(frozen=True, eq=False)
class RowRepeat:
    """Row r is the row row_ids[r] of a smaller matrix."""

    base: SparseMatrix
    row_ids: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_ids), self.base.width

    def multiply(self, dense: np.ndarray) -> np.ndarray:
        return self.base.multiply(dense)[self.row_ids]

    def transposed_multiply(self, dense: np.ndarray) -> np.ndarray:
        base_sums = np.zeros((self.base.shape[0], dense.shape[1]))
        for index, column in enumerate(dense.T):
            base_sums[:, index] = np.bincount(self.row_ids, column, len(base_sums))
        return self.base.transposed_multiply(base_sums)

    def column_square_sums(self) -> np.ndarray:
        counts = np.bincount(self.row_ids, minlength=self.base.shape[0])
        squares = np.repeat(counts, np.diff(self.base.indptr)) * np.square(self.base.values, dtype=np.float64)
        return np.bincount(self.base.indices, squares, self.base.width)

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        return self.base.get_row(int(self.row_ids[row]))


@dataclass(frozen=True, eq=False)
class ColumnStack:
    """Matrices with the same rows, concatenated by columns."""

    parts: tuple[FeatureMatrix, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape[0], sum(part.shape[1] for part in self.parts)

    def multiply(self, dense: np.ndarray) -> np.ndarray:
        ends = np.cumsum([part.shape[1] for part in self.parts])[:-1]
        return sum(part.multiply(block) for part, block in zip(self.parts, np.split(dense, ends), strict=True))  # pyright: ignore

    def transposed_multiply(self, dense: np.ndarray) -> np.ndarray:
        return np.concatenate([part.transposed_multiply(dense) for part in self.parts])

    def column_square_sums(self) -> np.ndarray:
        return np.concatenate([part.column_square_sums() for part in self.parts])

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        columns, values, first_column = [], [], 0
        for part in self.parts:
            part_columns, row_values = part.get_row(row)
            columns.append(part_columns + first_column)
            values.append(row_values)
            first_column += part.shape[1]
        return np.concatenate(columns), np.concatenate(values)


def stack_rows(parts: list[SparseMatrix], width: int) -> SparseMatrix:
    """Concatenate the rows of the parts."""
    sizes = [np.diff(part.indptr) for part in parts]
    return SparseMatrix(
        np.concatenate(([0], np.cumsum(np.concatenate([np.zeros(0, np.int64), *sizes])))),
        np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
        width,
    )


def stack_repeated_rows(parts: list[RowRepeat], width: int) -> RowRepeat:
    """Concatenate the rows of the parts."""
    offsets = np.cumsum([0, *(part.base.shape[0] for part in parts)])
    row_ids = [part.row_ids + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    return RowRepeat(
        stack_rows([part.base for part in parts], width), np.concatenate([np.zeros(0, np.int64), *row_ids])
    )
