"""Compilation of kernels with numba: on demand, cached on disk, safe against interrupts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from forebear.interrupts import deferred_interrupts

COMPILE_THRESHOLD = 1 << 19  # products; with fewer, a whole fit in numpy takes no longer than loading numba


@cache
def compile_kernel(
    loops: Callable[..., Any],
    allowed: frozenset[str] = frozenset(),
    *,
    bare: bool = False,
    beside: tuple[ModuleType, ...] = (),
) -> Callable[..., Any]:
    """Compile loops with numba and cache the machine code on disk where possible.

    Args:
        loops: The Python function.
        allowed: Floating-point freedoms of the compiler, such as "reassoc" (sum in another order) and "contract" (fused
            multiply-add). The result is deterministic all the same.
        bare: The loops allocate no arrays, so reference counting is switched off.
        beside: Modules whose functions are inlined into the loops. The cached code is stale when one of their files or
            the file of the loops changes.
    """
    import numba

    options: Any = {"fastmath": set(allowed) or False, "nogil": True}
    if bare:
        options |= {"_nrt": False, "no_cfunc_wrapper": True}
    try:
        kernel = numba.njit(loops, cache=True, **options)
    except RuntimeError:  # no folder to keep it in
        return without_interrupts(numba.njit(loops, **options))
    without_interrupts(kernel)
    disk_cache: Any = getattr(kernel, "_cache", None)
    cache_file: Any = getattr(disk_cache, "_cache_file", None)
    if beside and hasattr(cache_file, "_source_stamp"):  # numba's check for stale code
        cache_file._source_stamp = (cache_file._source_stamp, *map(_file_stamp, beside))
    if hasattr(disk_cache, "load_overload"):
        disk_cache.load_overload = _notify_on_miss(disk_cache.load_overload)
    return kernel


def without_interrupts(kernel: Any) -> Any:
    """Make a dispatcher compile without being interrupted: Ctrl-C waits until the compilation is over."""
    compile_signature = kernel.compile

    def deferred_compile(*args: Any) -> Any:
        with deferred_interrupts():
            return compile_signature(*args)

    kernel.compile = deferred_compile
    return kernel


@contextlib.contextmanager
def on_compile(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` once before the first kernel is compiled within the block, if any has to be."""
    _LISTENERS.append(callback)
    try:
        yield
    finally:
        if callback in _LISTENERS:
            _LISTENERS.remove(callback)


_LISTENERS: list[Callable[[], object]] = []


def _notify_on_miss(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap numba's lookup in the disk cache so that listeners are called on a cache miss."""

    def load_overload(*args: Any) -> Any:
        overload = load(*args)
        while overload is None and _LISTENERS:
            try:
                callback = _LISTENERS.pop()
            except IndexError:  # another thread was first
                break
            callback()
        return overload

    return load_overload


def inline_kernel(loops: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is inlined into bare kernels."""
    import numba

    options: Any = {"nogil": True, "_nrt": False, "forceinline": True}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(loops, **options)


def _file_stamp(module: ModuleType) -> tuple[float, int]:
    """Modification time and size of a module's file."""
    status = os.stat(module.__file__ or "")
    return status.st_mtime, status.st_size
