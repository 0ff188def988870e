"""Ctrl-C as a question: the loop finishes its step, saves and says how to go on; a second one ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
APART = 0.5  # seconds between two signals that were meant as two


class Interruption(contextlib.AbstractContextManager["Interruption"]):
    """Watches for SIGINT and SIGTERM while it is open; elsewhere than in the main thread nothing can be watched.

    Python tells of a signal only between two of its own instructions, and a step of a large network is one for minutes.
    So a thread listens too: it hears the second signal even then. Everything saved is whole, so the end may be sudden.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._ears: tuple[socket.socket, socket.socket] | None = None
        self._heard_before = -1  # another's ear, such as that of an event loop

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in SIGNALS}
            self._ears = socket.socketpair()
            self._ears[1].setblocking(False)
            self._heard_before = signal.set_wakeup_fd(self._ears[1].fileno(), warn_on_full_buffer=False)
            threading.Thread(target=_listen, args=(self._ears[0],), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            handler: Callable[..., Any] | int | None = before
            signal.signal(number, handler)
        if self._ears is not None:
            signal.set_wakeup_fd(self._heard_before)
            self._ears[1].close()  # the thread hears that, and ends

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def _listen(ear: socket.socket) -> None:
    first = None
    with ear:
        while heard := ear.recv(1):
            if heard[0] not in SIGNALS:
                continue
            if first is not None and time.monotonic() - first > APART:
                os.write(2, b"\nforebear: ended at once, without saving; what was saved before is whole\n")
                os._exit(128 + heard[0])
            first = first or time.monotonic()
