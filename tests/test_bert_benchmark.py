"""The BERT benchmark runs on a tiny model: it stops where our losses differ from the peer's."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_bert_benchmark_runs(tmp_path):
    environment = os.environ | {"FOREBEAR_DATA": str(tmp_path), "OMP_NUM_THREADS": "1"}  # the demo's text, everywhere
    command = [sys.executable, str(ROOT / "benchmarks" / "bert.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ours/theirs") == 1
    assert "making a batch takes" in done.stdout
