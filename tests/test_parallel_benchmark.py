"""The benchmark of several processes runs, and its losses agree: a bounded smoke test."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_parallel_benchmark_runs():
    command = [sys.executable, ROOT / "benchmarks" / "parallel.py", "--tiny", "--rounds", "1"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("tokens/s") == 4
    assert "two processes over gloo" in done.stdout
