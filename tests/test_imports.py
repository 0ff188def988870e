"""The command line starts fast because it loads few modules: modules are counted, not seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from small_runs import open_small_run

HEAVY = {
    "h5py", "huggingface_hub", "matplotlib", "numba", "numpy", "rjieba", "sacrebleu",
    "safetensors", "scipy", "tokenizers", "torch", "transformers", "zstandard",
}  # fmt: skip

PROGRAM = """
import json, sys
arguments = json.loads(sys.argv[1])
try:
    from forebear.cli.main import main
    status = main(arguments)
except SystemExit as stop:
    status = stop.code
print("\\n" + json.dumps([status or 0, sorted(sys.modules)]))
"""


def modules_loaded_by(arguments: list[str], program: str = PROGRAM, folder: Path | None = None) -> set[str]:
    """The modules in memory after `forebear ARGUMENTS`, which has to succeed."""
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    process = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, cwd=folder)
    assert process.returncode == 0, process.stderr
    status, modules = json.loads(process.stdout.splitlines()[-1])
    assert status == 0, process.stdout + process.stderr
    return set(modules)


def test_help_loads_no_heavy_module():
    assert modules_loaded_by(["--help"]) & HEAVY == set()


def test_loaded_heavy_module_is_detected():
    program = PROGRAM.replace("from forebear.cli.main import main", "import numpy; main = bool")
    assert "numpy" in modules_loaded_by([], program)


def test_pretrain_and_score_load_no_unneeded_scipy_module(tmp_path: Path):
    """numba loads scipy's linear algebra where scipy is installed, and nothing else of scipy."""
    (tmp_path / "text.txt").write_text("the sailor drank tea\n\nthe doctor drank cocoa\n\n" * 20, encoding="utf-8")
    for command in (["pretrain", "ngram", "text.txt"], ["score", "runs/ngram", "the sailor"]):
        loaded = modules_loaded_by(command, folder=tmp_path)
        assert "numpy" in loaded
        assert loaded & {"scipy.cluster", "scipy.spatial", "scipy.stats", "scipy.optimize"} == set()


def test_opening_a_network_loads_no_compiler(tmp_path: Path):
    """Learners and their loops are needed for training only."""
    open_small_run("gpt2", tmp_path, steps=1)
    loaded = modules_loaded_by(["next", "run", "the sailor"], folder=tmp_path)
    assert "torch" in loaded
    assert loaded & {"numba", "llvmlite", "scipy", "h5py", "matplotlib"} == set()
