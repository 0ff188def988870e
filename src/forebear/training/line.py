"""The line between the first process of a group and the others that it started: words one way, answers the other."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Protocol

from forebear.data.io.child_processes import child_environment, python_command
from forebear.errors import ForebearError

SERVE = "import sys; from forebear.training.following import serve; serve(*map(int, sys.argv[1:]))"
PATIENCE = 10  # seconds that a process may take to end, once it was told to
REMEDY = "often a lack of memory: the same command goes on from the last checkpoint, also with fewer --processes"

Merge = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Fault:
    """What is answered when something went wrong."""

    error: Exception


class Line(Protocol):
    """`rank` is the number of this process, of `size`; the first is 0, and decides. `local` is its number, of `near`,
    on this machine."""

    rank: int
    size: int
    local: int
    near: int

    def agreed(self, mine: Any, merge: Merge) -> Any:
        """What the first process makes of what all have to say, in their order; nobody goes on before."""
        ...


class Teller(Line, Protocol):
    """The first process's end."""

    def tell(self, words: Sequence[Any]) -> None:
        """A word for each of the others, in their order."""
        ...

    def answers(self) -> list[Any]:
        """One of each of the others; an error where one failed, or is no more."""
        ...

    def cause(self, error: Exception) -> Exception:
        """Why something failed that all do together, as far as it can be known here."""
        ...


class Hearer(Line, Protocol):
    """The end of any other."""

    def hear(self) -> Any: ...

    def answer(self, thing: Any) -> None: ...


class Leader:
    """Starts the others as fresh interpreters, each at the end of a pipe of its own.

    A session of their own keeps Ctrl-C from them: they hear of that from here. If this process dies, they end.
    """

    rank = local = 0

    def __init__(self, size: int) -> None:
        self.size = self.near = size
        self.processes: list[subprocess.Popen[bytes]] = []
        self.connections: list[Connection] = []
        environment = child_environment()
        for rank in range(1, size):
            ours, theirs = Pipe()
            process = subprocess.Popen(
                python_command(SERVE, theirs.fileno(), rank, size),
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)

    def tell(self, words: Sequence[Any]) -> None:
        for number, word in enumerate(words):
            try:
                self.connections[number].send_bytes(pickle.dumps(word, protocol=5))
            except OSError:
                raise self._death(number) from None

    def answers(self) -> list[Any]:
        found: dict[int, Any] = {}
        while missing := [one for number, one in enumerate(self.connections) if number not in found]:
            for connection in wait(missing):
                assert isinstance(connection, Connection)
                number = self.connections.index(connection)
                found[number] = self._received(number)
        return [found[number] for number in sorted(found)]

    def agreed(self, mine: Any, merge: Merge) -> Any:
        found = merge([mine, *self.answers()])
        self.tell([found] * (self.size - 1))
        return found

    def lend(self, handle: int) -> None:
        """Gives the others an open file."""
        for connection, process in zip(self.connections, self.processes, strict=True):
            send_handle(connection, handle, process.pid)

    def cause(self, error: Exception) -> Exception:
        for connection in wait(self.connections, timeout=1):
            assert isinstance(connection, Connection)
            try:
                self._received(self.connections.index(connection))
            except Exception as told:  # noqa: BLE001 - whatever one of them died of, that is the cause
                return told
        return error

    def close(self) -> None:
        """Ends the others: they hear that there is nothing more, or that nobody is there."""
        with suppress(ForebearError):
            self.tell([None] * (self.size - 1))
        self._ended(PATIENCE)

    def kill(self) -> None:
        """Ends the others at once, whatever they do."""
        self._ended(0)

    def _ended(self, patience: float) -> None:
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
            process.kill()
            process.wait()
        for connection in self.connections:
            connection.close()

    def _received(self, number: int) -> Any:
        try:
            answer = pickle.loads(self.connections[number].recv_bytes())
        except (EOFError, OSError):
            raise self._death(number) from None
        if isinstance(answer, Fault):
            raise answer.error
        return answer

    def _death(self, number: int) -> ForebearError:
        how = "is lost"
        with suppress(subprocess.TimeoutExpired):
            code = self.processes[number].wait(PATIENCE)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return ForebearError(f"process {number + 1} (of 0 to {self.size - 1}) {how}: all have stopped", hint=REMEDY)


class Follower:
    """The other end, in a process that was started."""

    def __init__(self, pipe: int, rank: int, size: int) -> None:
        self.rank, self.size, self.connection = rank, size, Connection(pipe)
        self.local, self.near = rank, size
        threading.Thread(target=_end_with, args=[pipe], daemon=True).start()

    def hear(self) -> Any:
        return pickle.loads(self.connection.recv_bytes())

    def answer(self, thing: Any) -> None:
        self.connection.send_bytes(pickle.dumps(thing, protocol=5))

    def agreed(self, mine: Any, merge: Merge) -> Any:
        self.answer(mine)
        return self.hear()

    def borrowed(self) -> int:
        """The file that the first process lends."""
        return recv_handle(self.connection)


def _end_with(pipe: int) -> None:
    """Ends this process when the other end of its pipe is closed, also in the middle of a long step."""
    poll = select.poll()
    poll.register(pipe, getattr(select, "POLLRDHUP", select.POLLHUP))
    poll.poll()
    os._exit(1)
