"""Import by name from the Hub, against a local stand-in: what is requested and cached, and offline use."""

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
    """One repository with one commit, which records the paths requested of it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubRequestHandler)
        self.requested_paths: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class HubRequestHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._respond(body=False)

    def do_GET(self) -> None:
        self._respond(body=True)

    def _respond(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.server.requested_paths.append(path)
        files = [
            {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
            for name, content in FILES.items()
        ]
        model_info = {"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
        if path == "/api/models/org/tiny/revision/main":
            self._send(json.dumps(model_info).encode(), {"Content-Type": "application/json"}, body)
        elif path == f"/api/models/org/tiny/tree/{COMMIT}":
            self._send(json.dumps(files).encode(), {"Content-Type": "application/json"}, body)
        elif path.startswith("/org/tiny/resolve/") and (name := path.rpartition("/")[2]) in FILES:
            self._send(FILES[name], {"ETag": f'"{_etag(FILES[name])}"', "X-Repo-Commit": COMMIT}, body)
        else:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print no access log."""


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def run_import_command(name: str, to: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a child process: the Hub library reads its environment when it is imported."""
    program = "import sys; from forebear.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "import", name, "--to", str(to), "--json"]
    unrelated = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    child_environment = unrelated | {"FOREBEAR_CACHE": str(to.parent / "cache"), "NO_PROXY": "*"} | environment
    return subprocess.run(command, capture_output=True, text=True, env=child_environment, timeout=120)


@pytest.mark.slow
def test_hub_model_is_downloaded_once_and_then_imported_offline(hub: Hub, tmp_path: Path):
    home = str(tmp_path / "home")
    completed = run_import_command("org/tiny", tmp_path / "run", HF_ENDPOINT=hub.address, HF_HOME=home)
    assert completed.returncode == 0, completed.stderr
    output = json.loads(completed.stdout)
    assert (output["milestone"], output["heads"], output["imported"]) == ("bert", ["token", "pair"], "org/tiny")
    assert output["tokenizer"]["size"] == len(VOCABULARY)
    fetched = {path.rpartition("/")[2] for path in hub.requested_paths if "/resolve/" in path}
    assert fetched == {"config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"}  # never the pickle
    hub.requested_paths.clear()
    offline = {"HF_ENDPOINT": hub.address, "HF_HOME": home, "HF_HUB_OFFLINE": "1"}
    completed = run_import_command("org/tiny", tmp_path / "again", **offline)
    assert (completed.returncode, hub.requested_paths) == (0, []), completed.stderr
    assert json.loads(completed.stdout)["weights"] == output["weights"]


def test_missing_hub_model_and_unreachable_hub_are_errors_with_a_hint(hub: Hub, tmp_path: Path):
    home = str(tmp_path / "home")
    for name, environment in (
        ("org/other", {"HF_ENDPOINT": hub.address}),
        ("org/tiny", {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "1"}),
        ("org/tiny", {"HF_ENDPOINT": "http://127.0.0.1:1"}),
    ):
        completed = run_import_command(name, tmp_path / "run", HF_HOME=home, **environment)
        assert completed.returncode == 2, (name, completed.stderr)
        assert "neither a file nor a folder here, nor to be had from the hub" in completed.stderr
        assert "Traceback" not in completed.stderr
        assert not (tmp_path / "run").exists()
