"""Names on the hub, against a stand-in for it on this machine: what is asked for and kept, and without a network."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"
COMMIT = hashlib.sha1(b"tiny").hexdigest()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "##A", "##b"]
FILES = {
    "config.json": (FIXTURES / "bert" / "config.json").read_bytes(),
    "model.safetensors": (FIXTURES / "bert" / "model.safetensors").read_bytes(),
    "vocab.txt": "\n".join(VOCABULARY).encode(),
    "tokenizer_config.json": b'{"do_lower_case": true}',
    "pytorch_model.bin": b"a pickle",
    "README.md": b"# tiny",
}


class Hub(ThreadingHTTPServer):
    """One repository of one commit, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        files = [{"type": "file", "path": name, "size": len(held), "oid": _etag(held)} for name, held in FILES.items()]
        told = {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
        if path == "/api/models/org/tiny/revision/main":
            self._send(json.dumps(told).encode(), {"Content-Type": "application/json"}, body)
        elif path == f"/api/models/org/tiny/tree/{COMMIT}":
            self._send(json.dumps(files).encode(), {"Content-Type": "application/json"}, body)
        elif path.startswith("/org/tiny/resolve/") and (name := path.rpartition("/")[2]) in FILES:
            self._send(FILES[name], {"ETag": f'"{_etag(FILES[name])}"', "X-Repo-Commit": COMMIT}, body)
        else:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, held: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(held)))
        self.end_headers()
        if body:
            self.wfile.write(held)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _etag(held: bytes) -> str:
    return hashlib.sha1(held).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def imported(name: str, to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: the library reads these when it is loaded."""
    program = "import sys; from forebear.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "import", name, "--to", str(to), "--json"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    told = plain | {"FOREBEAR_CACHE": str(to.parent / "cache"), "NO_PROXY": "*"} | environment
    return subprocess.run(command, capture_output=True, text=True, env=told, timeout=120)


@pytest.mark.slow
def test_a_name_is_fetched_once_and_then_found_without_a_network(hub: Hub, tmp_path: Path):
    home = str(tmp_path / "home")
    done = imported("org/tiny", tmp_path / "run", HF_ENDPOINT=hub.address, HF_HOME=home)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["milestone"], told["heads"], told["imported"]) == ("bert", ["token", "pair"], "org/tiny")
    assert told["tokenizer"]["size"] == len(VOCABULARY)
    fetched = {path.rpartition("/")[2] for path in hub.asked if "/resolve/" in path}
    assert fetched == {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}  # never the pickle
    hub.asked.clear()
    away = {"HF_ENDPOINT": hub.address, "HF_HOME": home, "HF_HUB_OFFLINE": "1"}
    done = imported("org/tiny", tmp_path / "again", **away)
    assert (done.returncode, hub.asked) == (0, []), done.stderr
    assert json.loads(done.stdout)["weights"] == told["weights"]


def test_what_is_not_there_is_an_error_with_a_remedy(hub: Hub, tmp_path: Path):
    home = str(tmp_path / "home")
    for name, environment in (
        ("org/other", {"HF_ENDPOINT": hub.address}),
        ("org/tiny", {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "1"}),
        ("org/tiny", {"HF_ENDPOINT": "http://127.0.0.1:1"}),
    ):
        done = imported(name, tmp_path / "run", HF_HOME=home, **environment)
        assert done.returncode == 2, (name, done.stderr)
        assert "neither a file nor a folder here, nor to be had from the hub" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run").exists()
