"""Deferral of Ctrl-C, above all during the first import of large extension modules.

An interrupted import of torch, numba or NumPy leaves native code half initialized, and the next attempt crashes the
process. `guard_first_imports` makes the import machinery defer the interrupt, whichever module imports them first.
This module imports only sys, since the package loads it first of all.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

GUARDED = ("numpy", "numba", "torch")


class deferred_interrupts:  # noqa: N801 - used as a function
    """A context in which Ctrl-C is only recorded; KeyboardInterrupt is raised at its end.

    It has an effect only in the main thread, and only if SIGINT has Python's default handler.
    """

    def __enter__(self) -> None:
        import signal
        import threading

        self._is_pending, self._is_active = False, False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._is_active = True
            signal.signal(signal.SIGINT, self._record)

    def _record(self, *_: "Any") -> None:
        self._is_pending = True

    def __exit__(self, *_: "Any") -> None:
        if self._is_active:
            import signal

            if signal.getsignal(signal.SIGINT) == self._record:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._is_pending:
                raise KeyboardInterrupt


class _Finder:
    """A finder that delegates to the others and guards the first imports of the modules in GUARDED.

    imported  modules that were imported completely. Python drops a module that is interrupted just before its import
              ends, and executing it again would crash: the next import gets the same module.
    """

    def __init__(self) -> None:
        self.names = {name for name in GUARDED if name not in sys.modules}
        self.imported: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        if name not in self.names:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader, self)  # pyright: ignore[reportAttributeAccessIssue]
                    return spec
        return None


class _Loader:
    """Imports a module completely while it is being created.

    An exception in `exec_module` would make Python drop the module, and the next import execute it again. If the
    interrupt is raised in `create_module`, the module stays complete in `sys.modules`.
    """

    def __init__(self, loader: "Any", finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType":
        import gc
        from importlib import import_module

        name, imported = spec.name, self._finder.imported
        if name not in imported:
            collects_garbage = gc.isenabled()
            with deferred_interrupts():
                self._finder.names.discard(name)  # the import below is an ordinary one
                gc.disable()  # an import leaves no garbage, and looking for it takes a tenth of the time of torch's
                try:
                    imported[name] = import_module(name)
                finally:
                    self._finder.names.add(name)
                    if collects_garbage:
                        gc.enable()
        return imported[name]

    def exec_module(self, module: "ModuleType") -> None:
        """Only restore the loader: the module has already been executed."""
        module.__spec__.loader = self._loader  # pyright: ignore[reportOptionalMemberAccess]


def guard_first_imports() -> None:
    """Defer interrupts during the first imports of torch, numba and NumPy, wherever they happen."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        finder = _Finder()
        if finder.names:
            sys.meta_path.insert(0, finder)  # pyright: ignore[reportArgumentType]
