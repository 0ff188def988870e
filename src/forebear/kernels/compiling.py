"""Loops as machine code, made where there is much to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

MUCH = 1 << 19  # products of numbers; below, a whole fit in numpy takes no longer than loading numba does


@cache
def compiled(loops: Callable[..., np.ndarray], allowed: frozenset[str] = frozenset()) -> Callable[..., np.ndarray]:
    """Machine code for these loops; kept on disk where that is possible, so that it is made once.

    `allowed` is what the compiler may do to sums of numbers: take them in another order (reassoc), round once instead
    of twice (contract). It does the same every time.
    """
    import numba

    fast: Any = set(allowed) or False
    try:
        return numba.njit(loops, cache=True, fastmath=fast, nogil=True)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(loops, fastmath=fast, nogil=True)
