"""Texts that are odd, disks that fill and processes that are killed while n-grams are counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_full_disk import fill, small_disk  # noqa: F401 - a fixture

import forebear as fb
from forebear.errors import ForebearError, InputError
from forebear.experiments import pipeline
from forebear.statistical.ngram import counts
from forebear.training.run_folder import RunFolder
from small_runs import plan, text, weights

MANY = {"batch": 40, "order": 5, "max_memory": 1, "save_every": 3600.0}  # parts of counts, each on the disk


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MIN_TEXT_TOKENS", 40)


def test_counts_that_were_joined_on_the_disk_are_those_of_memory(parts: None, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text(), encoding="utf-8")
    plain = {name: value for name, value in MANY.items() if name not in ("max_memory", "batch")}
    runs = [
        pipeline.run_pretraining(plan("ngram", tmp_path / "text.txt", **how), tmp_path / name)
        for name, how in (("parts", MANY), ("whole", plain))
    ]
    assert weights(runs[0]) == weights(runs[1])
    assert not list((tmp_path / "parts").glob(".counts*"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("room", [40, 90, 150])
def test_a_disk_that_fills_while_counts_are_joined(
    room: int,
    parts: None,
    tmp_path: Path,
    small_disk: Path,  # noqa: F811
):
    (tmp_path / "text.txt").write_text(text(400), encoding="utf-8")
    whole = pipeline.run_pretraining(plan("ngram", tmp_path / "text.txt", **MANY), tmp_path / "whole")
    fill(small_disk, room << 10)
    with pytest.raises(ForebearError, match="No space left") as raised:
        pipeline.run_pretraining(plan("ngram", tmp_path / "text.txt", **MANY), small_disk / "run")
    assert "free some space" in raised.value.hint
    (small_disk / "filler").unlink()
    run = pipeline.run_pretraining(plan("ngram", tmp_path / "text.txt", **MANY), small_disk / "run")
    assert weights(run) == weights(whole)
    assert not list(run.path.glob(".counts*"))


@pytest.mark.slow
def test_killed_while_counts_are_on_the_disk(tmp_path: Path):
    """What was counted since the last save is counted again, and nothing of it is left behind."""
    (tmp_path / "text.txt").write_text(text(400), encoding="utf-8")
    settings = {**MANY, "save_every": 0.001, "batch": 16}
    program = f"""
import sys
from pathlib import Path
from forebear.statistical.ngram import counts as tallyingg
from forebear.experiments import pipeline as pretrainingning
from small_runs import plan
tallying.FEWEST = 40
pretraining.pretrain(plan("ngram", Path({str(tmp_path / "text.txt")!r}), **{settings!r}), Path(sys.argv[1]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def started() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", program, tmp_path / "killed"], env=environment)

    kills = 0
    while kills < 4:
        child, until = started(), time.monotonic() + 60
        while child.poll() is None and time.monotonic() < until:
            if list((tmp_path / "killed").glob(".counts-*")):
                time.sleep(0.05 * kills)
                break
            time.sleep(0.002)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
        if (tmp_path / "killed" / "run.json").exists() and RunFolder.open(tmp_path / "killed").is_finished:
            break
    assert kills
    assert started().wait() == 0
    whole = pipeline.run_pretraining(plan("ngram", tmp_path / "text.txt", **settings), tmp_path / "whole")
    killed = RunFolder.open(tmp_path / "killed")
    assert killed.is_finished
    assert weights(killed) == weights(whole)
    assert not list(killed.path.glob(".counts*"))


@pytest.mark.sample(10)
@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell", "stupid", "add", "none"])
@pytest.mark.parametrize(
    "words",
    ["one", "one\n\none\n\none", "a b\n\nc", "the " * 3000, "好"],
    ids=["word", "same", "few", "repeated", "han"],
)
def test_odd_texts(words: str, smoothing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Orders longer than any sentence, a single word, one word again and again: probabilities stay such."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(words, encoding="utf-8")
    run = fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", order=10, held_out=0, smoothing=smoothing)
    told = run.predictor.next_log_probs([np.array([run.tokenizer.special_roles["end"]])])
    assert np.exp(told).sum() == pytest.approx(1, abs=1e-6)
    assert run.measure(tmp_path / "text.txt").perplexity >= 1 - 1e-6


@pytest.mark.parametrize("words", ["", " \n\n \n"])
def test_no_text(words: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(words, encoding="utf-8")
    with pytest.raises(InputError, match=r"no text|empty"):
        fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", held_out=0)


def test_a_sentence_of_a_million_words():
    from forebear.statistical.ngram.language_model import NgramModel

    rng = np.random.default_rng(0)
    words = rng.zipf(1.4, 1_000_000).clip(max=999).astype(np.int64) + 1
    model = NgramModel(order=4, vocabulary=1001, end=0)
    model.add_batch(np.append([0], words), np.array([len(words) + 1]), np.append(words, 0))
    assert model.counts.counts[0].sum() == len(words) + 1
    (told,) = model.score([np.append([0], words)])
    assert np.isfinite(told).all()
