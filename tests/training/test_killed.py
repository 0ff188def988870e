"""Kill it any time: SIGKILL at random moments, also inside a save; the end is that of an unbroken run, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from killer import learning

from forebear.training.run_folder import RunFolder
from small_runs import text, weights

# One of each way of learning, and of each kind of network: others differ from these in nothing that is saved. (All are
# interrupted in test_contract.py.)
KINDS = [
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
KINDS += ["gpt2"]
WAYS = ["ngram", "hmm", "gpt2", "word2vec", "crf-tags", "bert-tags"]  # one of each way of learning


@pytest.mark.slow
@pytest.mark.parametrize("name", [*KINDS, "crf-tags", "bert-tags"])
def test_a_run_killed_many_times_ends_where_an_unbroken_one_does(name: str, tmp_path: Path):
    counted = killed_as_often(24, name, 400, tmp_path)
    assert counted["inside"] >= 5
    assert counted["places"] >= 3


@pytest.mark.parametrize("name", WAYS)
def test_a_run_killed_six_times_ends_where_an_unbroken_one_does(name: str, tmp_path: Path):
    counted = killed_as_often(6, name, 60, tmp_path, "quick")
    assert counted["inside"] >= 1
    assert counted["places"] >= 2


def killed_as_often(kills: int, name: str, documents: int, folder: Path, *how: str) -> dict[str, int]:
    """Kills a run so many times and compares its end with that of an unbroken one; tells where it was killed."""
    (folder / "text.txt").write_text(text(documents), encoding="utf-8")
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, here / "killer.py", name, folder / "text.txt", folder / "killed", str(kills), "7", *how],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    whole = learning(name, folder / "text.txt", quick=bool(how))(folder / "whole")
    counted = json.loads(done.stdout.splitlines()[-1])
    assert counted["kills"] == kills
    killed = RunFolder.open(folder / "killed")
    assert killed.is_finished
    assert weights(killed) == weights(whole)
    told, expected = (_without_seconds(run.metadata["metrics"]) for run in (killed, whole))
    assert told == expected
    assert not list((folder / "killed" / "checkpoints").glob(".*"))
    return counted


def _without_seconds(figures: Any) -> Any:
    if not isinstance(figures, dict):
        return figures
    return {name: _without_seconds(value) for name, value in figures.items() if name != "seconds"}
