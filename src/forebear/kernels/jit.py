"""Compilation of kernel functions with numba: on demand, cached on disk, safe against interrupts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

from forebear.interrupts import deferred_interrupts

COMPILE_THRESHOLD = 1 << 19  # multiplications; with fewer, fitting in numpy takes no longer than loading numba


@cache
def compile_kernel(
    function: Callable[..., Any],
    fastmath: frozenset[str] = frozenset(),
    *,
    allocates: bool = True,
    inlined_modules: tuple[ModuleType, ...] = (),
) -> Callable[..., Any]:
    """Compile a function with numba and cache the machine code on disk where possible.

    Args:
        function: The Python function.
        fastmath: LLVM fast-math flags, such as "reassoc" (sum in another order) and "contract" (fused multiply-add).
            The result is still deterministic.
        allocates: Whether the function allocates arrays. If not, reference counting is switched off.
        inlined_modules: Modules whose functions are inlined. The cached code is stale when one of their files or the
            file of the function changes.
    """
    import numba

    options: Any = {"fastmath": set(fastmath) or False, "nogil": True}
    if not allocates:
        options |= {"_nrt": False, "no_cfunc_wrapper": True}
    try:
        kernel = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no writable cache folder
        return without_interrupts(numba.njit(function, **options))
    without_interrupts(kernel)
    disk_cache: Any = getattr(kernel, "_cache", None)
    cache_file: Any = getattr(disk_cache, "_cache_file", None)
    if inlined_modules and hasattr(cache_file, "_source_stamp"):  # numba's check for stale code
        cache_file._source_stamp = (cache_file._source_stamp, *map(_file_stamp, inlined_modules))
    if hasattr(disk_cache, "load_overload"):
        disk_cache.load_overload = _notify_on_miss(disk_cache.load_overload)
    return kernel


def without_interrupts(kernel: Any) -> Any:
    """Delay Ctrl-C while this dispatcher compiles."""
    compile_signature = kernel.compile

    def deferred_compile(*args: Any) -> Any:
        with deferred_interrupts():
            return compile_signature(*args)

    kernel.compile = deferred_compile
    return kernel


@contextlib.contextmanager
def on_compile(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` once before the first kernel that has to be compiled within the block."""
    _LISTENERS.append(callback)
    try:
        yield
    finally:
        if callback in _LISTENERS:
            _LISTENERS.remove(callback)


_LISTENERS: list[Callable[[], object]] = []


def _notify_on_miss(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap numba's lookup in the disk cache to call the listeners on a cache miss."""

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


def inline_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is inlined into kernels and allocates no arrays."""
    import numba

    options: Any = {"nogil": True, "_nrt": False, "forceinline": True}
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(function, **options)


def _file_stamp(module: ModuleType) -> tuple[float, int]:
    """Modification time and size of a module's file."""
    status = os.stat(module.__file__ or "")
    return status.st_mtime, status.st_size
