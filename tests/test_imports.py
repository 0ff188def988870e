"""The command line starts fast because it loads little: modules are counted, not seconds."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {
    "h5py", "huggingface_hub", "matplotlib", "numba", "numpy", "rjieba", "sacrebleu",
    "safetensors", "tokenizers", "torch", "transformers", "zstandard",
}  # fmt: skip

PROGRAM = """
import json, sys
arguments = json.loads(sys.argv[1])
try:
    from forebear.cli.main import main
    status = main(arguments)
except SystemExit as stop:
    status = stop.code
print("\\n" + json.dumps([status or 0, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def loaded_by(arguments: list[str], program: str = PROGRAM) -> set[str]:
    """The top-level modules in memory after `forebear ARGUMENTS`, which has to succeed."""
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, done.stderr
    status, modules = json.loads(done.stdout.splitlines()[-1])
    assert status == 0, done.stdout + done.stderr
    return set(modules)


def test_help_loads_nothing_heavy():
    assert loaded_by(["--help"]) & HEAVY == set()


def test_a_heavy_module_would_be_seen():
    program = PROGRAM.replace("from forebear.cli.main import main", "import numpy; main = bool")
    assert "numpy" in loaded_by([], program)
