"""The benchmark of several processes runs on a tiny model, and its losses agree."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_parallel_benchmark_runs():
    command = [sys.executable, ROOT / "benchmarks" / "parallel.py", "--tiny", "--rounds", "1"]
    process = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("tokens/s") == 4
    assert "two processes over gloo" in process.stdout
