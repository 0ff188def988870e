"""The benchmark of n-grams runs on a small text; where KenLM is, both sides are compared in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_ngram_benchmark_runs(tmp_path):
    environment = os.environ | {"FOREBEAR_DATA": str(tmp_path)}  # the demo's text
    command = [sys.executable, str(ROOT / "benchmarks" / "ngram.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert "ours    text" in done.stdout
    assert "perplexity: ours" in done.stdout
    assert "million words a second: ours, text" in done.stdout
