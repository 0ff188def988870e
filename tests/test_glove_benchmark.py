"""The GloVe benchmark runs on a small text and compares counts, and with Stanford's program where it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_glove_benchmark_runs(tmp_path):
    environment = os.environ | {"FOREBEAR_DATA": str(tmp_path), "GLOVE_BIN": "", "PATH": ""}  # the demo's text
    command = [sys.executable, str(ROOT / "benchmarks" / "glove.py"), "--quick", "--threads", "2"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("plain/ours") == 2
    assert "Stanford's program is not on PATH" in process.stdout
    assert "2 threads by the clock" in process.stdout
