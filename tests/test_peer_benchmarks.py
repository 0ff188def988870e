"""The benchmarks next to their peers (transformers, gensim, hmmlearn, torch.nn) run, and stop where results differ."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "cases", "message"),
    [
        ("gpt2", 1, "of sgemm"),
        ("generate", 10, "of memory"),
        ("bert", 1, "making a batch takes"),
        ("tasks", 3, "of sgemm"),
        ("translate", 1, "of sgemm"),
        ("seq2seq", 7, "100.0% are the same"),
        ("hmm", 3, "of its states the same"),
        ("word2vec", 8, "two threads, in step"),
        ("recurrent", 15, "held-out tokens"),
        ("crf", 7, "all best paths are the same"),
    ],
)
def test_peer_benchmark_runs_and_results_agree(name, cases, message, tmp_path):
    environment = os.environ | {"FOREBEAR_DATA": str(tmp_path), "OMP_NUM_THREADS": "1"}  # the demo's text, everywhere
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--quick"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("ours/theirs") == cases
    assert message in process.stdout
