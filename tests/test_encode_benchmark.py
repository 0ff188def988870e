"""The benchmark of sentence vectors runs on a tiny model, and stops where our vectors differ from those of a peer."""

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
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("ours/theirs") + process.stdout.count("not installed") == 6
    assert process.stdout.count("of sgemm") >= 2
    assert "the vectors differ by" in process.stdout
