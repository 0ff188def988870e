"""Kill it any time: SIGKILL at random moments, also inside a save; the end is that of an unbroken run, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forebear.training.folder import RunFolder
from small_runs import text, to_be_killed, trained, weights

KILLS = 24
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


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_run_killed_many_times_ends_where_an_unbroken_one_does(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text(400), encoding="utf-8")
    whole = trained(name, tmp_path, to="whole", **to_be_killed(name))
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, here / "killer.py", name, tmp_path / "text.txt", tmp_path / "killed", str(KILLS), "7"],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout.splitlines()[-1])
    assert counted["kills"] == KILLS
    assert counted["inside"] >= 5
    assert counted["places"] >= 3
    killed = RunFolder.open(tmp_path / "killed")
    assert killed.finished
    assert weights(killed) == weights(whole)
    told, expected = ({**run.facts["metrics"]["held_out"], "seconds": 0} for run in (killed, whole))
    assert told == expected
    assert not list((tmp_path / "killed" / "checkpoints").glob(".*"))
