"""Training killed by SIGKILL at random moments, also inside a save, resumes bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kill_harness import training_function

from forebear.training.run_folder import RunFolder
from small_runs import small_text, weights_digest

# One model of each learner and of each kind of network; others save nothing different. (test_contract.py interrupts
# all of them.)
MODELS = [
    "ngram",
    "onehot",
    "hmm",
    "nnlm",
    "lstm",
    "word2vec",
    "glove",
    "seq2seq_attention",
    "transformer",
    "elmo",
    "bert",
]
MODELS += ["gpt2"]
LEARNER_SAMPLE = ["ngram", "hmm", "gpt2", "word2vec", "crf-tags", "bert-tags"]  # one of each learner


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "crf-tags", "bert-tags"])
def test_training_killed_24_times_resumes_bit_for_bit(name: str, tmp_path: Path):
    counts = kill_and_compare(24, name, 400, tmp_path)
    assert counts["inside"] >= 5
    assert counts["steps"] >= 3


@pytest.mark.parametrize("name", LEARNER_SAMPLE)
def test_training_killed_6_times_resumes_bit_for_bit(name: str, tmp_path: Path):
    counts = kill_and_compare(6, name, 60, tmp_path, "quick")
    assert counts["inside"] >= 2
    assert counts["steps"] >= 2


def kill_and_compare(kills: int, name: str, documents: int, folder: Path, *options: str) -> dict[str, int]:
    """Kills a run repeatedly, compares its end with an uninterrupted run, and returns the counts of kills."""
    (folder / "text.txt").write_text(small_text(documents), encoding="utf-8")
    tests_folder = Path(__file__).parent
    process = subprocess.run(
        [
            sys.executable,
            tests_folder / "kill_harness.py",
            name,
            folder / "text.txt",
            folder / "killed",
            str(kills),
            "7",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr
    complete = training_function(name, folder / "text.txt", quick=bool(options))(folder / "whole")
    counts = json.loads(process.stdout.splitlines()[-1])
    assert counts["kills"] == kills
    killed = RunFolder.open(folder / "killed")
    assert killed.is_finished
    assert weights_digest(killed) == weights_digest(complete)
    metrics, expected = (_without_seconds(run.metadata["metrics"]) for run in (killed, complete))
    assert metrics == expected
    assert not list((folder / "killed" / "checkpoints").glob(".*"))
    return counts


def _without_seconds(metrics: Any) -> Any:
    if not isinstance(metrics, dict):
        return metrics
    return {name: _without_seconds(value) for name, value in metrics.items() if name != "seconds"}
