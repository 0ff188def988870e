"""Arrays that lie in files: what was read or written of them takes memory until somebody says that it need not."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def _file_of(array: Any) -> np.memmap | None:
    """What an array that lies in a file is a part of."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array


def let_go(*arrays: np.ndarray) -> None:
    """Says that what was read or written of these is not wanted soon: what lies in files takes no memory then.

    The system would take it back by itself when memory is short, but until then it counts as ours.
    """
    for array in arrays:
        if (file := _file_of(array)) is not None:
            file._mmap.madvise(mmap.MADV_DONTNEED)  # pyright: ignore[reportAttributeAccessIssue] - numpy's, undeclared
