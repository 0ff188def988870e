"""The benchmark of sentence vectors runs on a tiny model: it stops where our vectors and a peer's differ."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_encode_benchmark_runs(tmp_path):
    pytest.importorskip("transformers")
    environment = os.environ | {"FOREBEAR_DATA": str(tmp_path), "OMP_NUM_THREADS": "1"}  # the demo's text, everywhere
    command = [sys.executable, str(ROOT / "benchmarks" / "encode.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ours/theirs") + done.stdout.count("not installed") == 6
    assert done.stdout.count("of sgemm") >= 2
    assert "the vectors differ by" in done.stdout
