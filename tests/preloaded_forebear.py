"""A `forebear` command with preloaded libraries: each call is a fork of one process that waits for calls.

    preloaded_forebear.py SOCKET                waits for calls
    preloaded_forebear.py SOCKET WORD WORD …    calls `forebear WORD WORD …`, with its own folder, environment, streams

Nothing of forebear itself is preloaded, so that each command still has to import what it needs.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

# The first call of each command runs the installed program; marks in the folder show which were called.
PROGRAM = """\
#!/bin/sh
mkdir "{folder}/called-$1" 2> /dev/null && exec "{installed}" "$@"
exec "{python}" -I -S "{file}" "{folder}/calls" "$@"
"""


@contextlib.contextmanager
def preloaded_programs(folder: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """A folder with such a program `forebear`, to put first on PATH; its processes end with the block."""
    programs = folder / "programs"
    programs.mkdir()
    python, installed = Path(sys.executable), Path(sys.executable).parent / "forebear"
    script = PROGRAM.format(folder=folder, installed=installed, python=python, file=Path(__file__).resolve())
    (programs / "forebear").write_text(script)
    (programs / "forebear").chmod(0o755)
    command = [sys.executable, __file__, str(folder / "calls")]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True) as server:
        try:
            deadline = time.monotonic() + 120
            while not (folder / "calls").exists():
                assert server.poll() is None, "the process that waits for calls has ended"
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield programs
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def serve(socket_path: str) -> None:
    import numba  # noqa: F401
    import tokenizers  # noqa: F401
    import torch  # noqa: F401

    gc.freeze()  # none of this is garbage: a child need not look through it, which would copy its pages
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{socket_path}.new")
        listener.listen(8)
        os.rename(f"{socket_path}.new", socket_path)  # visible only when it accepts calls
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return answer(caller)
            caller.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def answer(caller: socket.socket) -> None:
    """Runs a command in a process of its own, and sends its exit status to the caller."""
    message, streams, _, _ = socket.recv_fds(caller, 1 << 16, 3)
    while chunk := caller.recv(1 << 16):
        message += chunk
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        caller.sendall(str(status if status >= 0 else 128 - status).encode())  # as a shell reports a signal
        os._exit(0)
    caller.close()
    words, folder, environment = json.loads(message)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    sys.argv = ["forebear", *words]
    from forebear.cli.main import run

    run()


def call(socket_path: str, words: list[str]) -> int:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(socket_path)
        message = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
        sent = socket.send_fds(server, [message], [0, 1, 2])
        server.sendall(message[sent:])
        server.shutdown(socket.SHUT_WR)
        return int(server.recv(16))


if __name__ == "__main__":
    sys.exit(call(sys.argv[1], sys.argv[2:]) if sys.argv[2:] else serve(sys.argv[1]))
