"""The n-gram benchmark runs on a small text, and compares with KenLM where it is installed."""

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
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stderr
    assert "ours    text" in process.stdout
    assert "perplexity: ours" in process.stdout
    assert "million words a second: ours, text" in process.stdout
