"""Ctrl-C as a question: the loop finishes its step, saves and says how to go on; a second one ends it at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption(contextlib.AbstractContextManager["Interruption"]):
    """Watches for SIGINT and SIGTERM while it is open; elsewhere than in the main thread nothing can be watched."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._restore()

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            handler: Callable[..., Any] | int | None = before
            signal.signal(number, handler)
        self._before = {}
