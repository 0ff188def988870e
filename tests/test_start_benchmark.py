"""The start-up benchmark runs, and stops where the first token differs from the peer's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_start_benchmark_runs():
    command = [sys.executable, str(ROOT / "benchmarks" / "start.py"), "--rounds", "1"]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert process.returncode == 0, process.stderr
    assert "times as fast" in process.stdout
