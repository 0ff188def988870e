"""Loops as machine code, made where there is much to do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from forebear.interrupts import deferred_interrupts

COMPILE_THRESHOLD = 1 << 19  # products of numbers; below, a whole fit in numpy takes no longer than loading numba does


@cache
def compile_kernel(
    loops: Callable[..., Any],
    allowed: frozenset[str] = frozenset(),
    *,
    bare: bool = False,
    beside: tuple[ModuleType, ...] = (),
) -> Callable[..., Any]:
    """Machine code for these loops; kept on disk where that is possible, so that it is made once.

    `allowed` is what the compiler may do to sums of numbers: take them in another order (reassoc), round once instead
    of twice (contract). It does the same every time. `bare` loops make no arrays, and lose no time with counting who
    still needs one. What is kept is made anew when the loops' own file changes, or one of those modules beside it.
    """
    import numba

    how: Any = {"fastmath": set(allowed) or False, "nogil": True} | (
        {"_nrt": False, "no_cfunc_wrapper": True} if bare else {}
    )
    try:
        made = numba.njit(loops, cache=True, **how)
    except RuntimeError:  # no folder to keep it in
        return without_interrupts(numba.njit(loops, **how))
    without_interrupts(made)
    store: Any = getattr(made, "_cache", None)
    kept: Any = getattr(store, "_cache_file", None)
    if beside and hasattr(kept, "_source_stamp"):  # by which numba knows whether what it kept is still good
        kept._source_stamp = (kept._source_stamp, *map(_stamp, beside))
    if hasattr(store, "load_overload"):
        store.load_overload = _heard(store.load_overload)
    return made


def without_interrupts(made: Any) -> Any:
    """The same function; Ctrl-C waits until it is compiled, which Python and LLVM do in turns."""
    compile_whole = made.compile

    def deferring(*given: Any) -> Any:
        with deferred_interrupts():
            return compile_whole(*given)

    made.compile = deferring
    return made


@contextlib.contextmanager
def on_compile(tell: Callable[[], object]) -> Iterator[None]:
    """`tell` is called when loops have to be compiled, before that is done; once, however many there are."""
    _LISTENERS.append(tell)
    try:
        yield
    finally:
        if tell in _LISTENERS:
            _LISTENERS.remove(tell)


_LISTENERS: list[Callable[[], object]] = []


def _heard(load: Callable[..., Any]) -> Callable[..., Any]:
    """What is kept on disk, as `load` finds it; listeners hear of it where it finds none."""

    def found(*given: Any) -> Any:
        kept = load(*given)
        while kept is None and _LISTENERS:
            try:
                tell = _LISTENERS.pop()
            except IndexError:  # another thread was first
                break
            tell()
        return kept

    return found


def inline_kernel(loops: Callable[..., Any]) -> Callable[..., Any]:
    """A part of larger, bare loops, which becomes machine code within each of them."""
    import numba

    how: Any = {"nogil": True, "_nrt": False, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(loops, **how)


def _stamp(module: ModuleType) -> tuple[float, int]:
    """What changes when a module's file does."""
    facts = os.stat(module.__file__ or "")
    return facts.st_mtime, facts.st_size
