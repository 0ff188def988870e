"""Unusual texts, full disks and killed processes while n-grams are counted."""

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
from forebear.experiments import training_run
from forebear.statistical.ngram import counts
from forebear.training.run_folder import RunFolder
from small_runs import small_pretrain_plan, small_text, weights_digest

SPILLED_COUNTS = {"batch": 40, "order": 5, "max_memory": 1, "save_every": 3600.0}  # several shards of counts on disk


@pytest.fixture
def small_count_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MIN_TEXT_TOKENS", 40)


def test_counts_spilled_to_disk_equal_counts_in_memory(small_count_parts: None, tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    in_memory = {name: value for name, value in SPILLED_COUNTS.items() if name not in ("max_memory", "batch")}
    runs = [
        training_run.run_pretraining(small_pretrain_plan("ngram", tmp_path / "text.txt", **settings), tmp_path / name)
        for name, settings in (("parts", SPILLED_COUNTS), ("whole", in_memory))
    ]
    assert weights_digest(runs[0]) == weights_digest(runs[1])
    assert not list((tmp_path / "parts").glob(".counts*"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("free_kb", [40, 90, 150])
def test_full_disk_while_merging_counts_is_reported_and_training_resumes(
    free_kb: int,
    small_count_parts: None,
    tmp_path: Path,
    small_disk: Path,  # noqa: F811
):
    (tmp_path / "text.txt").write_text(small_text(400), encoding="utf-8")
    expected = training_run.run_pretraining(
        small_pretrain_plan("ngram", tmp_path / "text.txt", **SPILLED_COUNTS), tmp_path / "whole"
    )
    fill(small_disk, free_kb << 10)
    with pytest.raises(ForebearError, match="No space left") as raised:
        training_run.run_pretraining(
            small_pretrain_plan("ngram", tmp_path / "text.txt", **SPILLED_COUNTS), small_disk / "run"
        )
    assert "free some space" in raised.value.hint
    (small_disk / "filler").unlink()
    run = training_run.run_pretraining(
        small_pretrain_plan("ngram", tmp_path / "text.txt", **SPILLED_COUNTS), small_disk / "run"
    )
    assert weights_digest(run) == weights_digest(expected)
    assert not list(run.path.glob(".counts*"))


@pytest.mark.slow
def test_killed_ngram_training_with_spilled_counts_resumes_bit_for_bit(tmp_path: Path):
    """Tokens counted since the last save are counted again, and no temporary files remain."""
    (tmp_path / "text.txt").write_text(small_text(400), encoding="utf-8")
    settings = {**SPILLED_COUNTS, "save_every": 0.001, "batch": 16}
    program = f"""
import sys
from pathlib import Path
from forebear.statistical.ngram import counts
from forebear.experiments import training_run
from small_runs import small_pretrain_plan
counts.MIN_TEXT_TOKENS = 40
plan = small_pretrain_plan("ngram", Path({str(tmp_path / "text.txt")!r}), **{settings!r})
training_run.run_pretraining(plan, Path(sys.argv[1]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", program, tmp_path / "killed"], env=environment)

    kills = 0
    while kills < 4:
        child, deadline = start(), time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
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
    assert start().wait() == 0
    expected = training_run.run_pretraining(
        small_pretrain_plan("ngram", tmp_path / "text.txt", **settings), tmp_path / "whole"
    )
    killed = RunFolder.open(tmp_path / "killed")
    assert killed.is_finished
    assert weights_digest(killed) == weights_digest(expected)
    assert not list(killed.path.glob(".counts*"))


@pytest.mark.sample(10)
@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell", "stupid", "add", "none"])
@pytest.mark.parametrize(
    "text_content",
    ["one", "one\n\none\n\none", "a b\n\nc", "the " * 3000, "好"],
    ids=["word", "same", "few", "repeated", "han"],
)
def test_ngram_probabilities_sum_to_one_for_tiny_and_repetitive_texts(
    text_content: str, smoothing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Orders longer than any sentence, a single word, one word repeated."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(text_content, encoding="utf-8")
    run = fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", order=10, held_out=0, smoothing=smoothing)
    log_probs = run.predictor.next_log_probs([np.array([run.tokenizer.special_roles["end"]])])
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-6)
    assert run.measure(tmp_path / "text.txt").perplexity >= 1 - 1e-6


@pytest.mark.parametrize("text_content", ["", " \n\n \n"])
def test_pretrain_ngram_refuses_empty_text(text_content: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text_content, encoding="utf-8")
    with pytest.raises(InputError, match=r"no text|empty"):
        fb.pretrain("ngram", tmp_path / "text.txt", to=tmp_path / "run", held_out=0)


def test_ngram_counts_and_scores_sentence_of_a_million_words():
    from forebear.statistical.ngram.language_model import NgramModel

    rng = np.random.default_rng(0)
    token_ids = rng.zipf(1.4, 1_000_000).clip(max=999).astype(np.int64) + 1
    model = NgramModel(order=4, vocab_size=1001, eos_id=0)
    model.add_batch(np.append([0], token_ids), np.array([len(token_ids) + 1]), np.append(token_ids, 0))
    assert model.counts.counts[0].sum() == len(token_ids) + 1
    (log_probs,) = model.score([np.append([0], token_ids)])
    assert np.isfinite(log_probs).all()
