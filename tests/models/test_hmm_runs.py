"""HMM runs: epochs, short budgets, tiny texts, and tagging."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from adapted_runs import adapt_small_run
from forebear.cli.main import main
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.training.run_folder import MetricsLog
from small_runs import NoteRecorder, open_small_run, train_small_run, weights_digest

SENTENCES = ["我/r 爱/v 北京/ns 。/w", "他/r 爱/v 上海/ns 。/w", "我们/r 去/v 武汉/ns 。/w", "她/r 去/v 天津/ns ！/w"]


def losses(run: Path) -> list[float]:
    return [
        line["losses"]["next"] for line in MetricsLog(run / "metrics.jsonl").read_lines() if "next" in line["losses"]
    ]


def test_hmm_training_loss_falls_every_epoch(tmp_path: Path):
    run = train_small_run("hmm", tmp_path, epochs=12, batch=10**6)
    epoch_losses = losses(run.path)
    assert len(epoch_losses) == 12
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(epoch_losses))
    assert epoch_losses[-1] < 0.8 * epoch_losses[0]


def test_hmm_weights_are_independent_of_batch_size(tmp_path: Path):
    small_batches, large_batches = (
        train_small_run("hmm", tmp_path, to=str(size), epochs=3, batch=size) for size in (300, 10**6)
    )
    assert weights_digest(small_batches) == weights_digest(large_batches)
    assert small_batches.metadata["step"] > large_batches.metadata["step"] == 3


def test_hmm_weights_depend_on_the_seed(tmp_path: Path):
    assert weights_digest(train_small_run("hmm", tmp_path, to="1", seed=1)) != weights_digest(
        train_small_run("hmm", tmp_path, to="2", seed=2)
    )


def test_hmm_budget_below_one_epoch_gives_a_usable_model(tmp_path: Path):
    notes = NoteRecorder()
    run = Run(train_small_run("hmm", tmp_path, steps=2, batch=100, callback=notes))
    assert run.network.iterations == 1
    assert any("a part of it" in note for note in run.metadata["notes"])
    assert run.metadata["metrics"]["held_out"]["nats_per_token"] < np.log(run.tokenizer.vocab_size)


def test_hmm_patience_stops_early(tmp_path: Path):
    run = train_small_run("hmm", tmp_path, epochs=500, patience=2, batch=10**6)
    assert run.metadata["step"] < 500
    assert run.metadata["best_step"] <= run.metadata["step"]
    assert any(note.startswith("stopped early") for note in run.metadata["notes"])


@pytest.mark.parametrize("setting", [{"rate": 0.1}, {"clip": 1.0}, {"deterministic": True}])
def test_hmm_refuses_settings_without_effect(setting: dict[str, float], tmp_path: Path):
    with pytest.raises(InputError, match="means nothing to hmm"):
        train_small_run("hmm", tmp_path, **setting)


@pytest.mark.parametrize(
    "text", ["word\n\nword", "word word word\n\n" * 400, "a\n\nb\n\n" * 30], ids=["one", "again", "short"]
)
def test_hmm_trains_on_tiny_texts(text: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text)
    run = open_small_run("hmm", tmp_path, epochs=3)
    assert np.isfinite(run.score(["word a zebra"])[0].log_prob)
    assert run.generate("", length=5, seed=1)


def test_hmm_adapted_to_tagging_is_still_a_language_model(tmp_path: Path):
    run = Run(adapt_small_run("hmm", "tagging", tmp_path, count=300, **dict.fromkeys(("steps", "threads"))))
    assert run.heads == ("tag", "next")
    assert run.metadata["metrics"]["dev"]["f1"] > 0.6
    assert {"tag", "score", "next", "generate"} <= set(run.capabilities)
    assert np.isfinite(run.score(["the zebra"])[0].log_prob)


def test_hmm_pretrained_on_tagged_text_tags_and_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "tagged.txt"
    file.write_text("\n".join(SENTENCES + [sentence.replace("爱", "到") for sentence in SENTENCES] + SENTENCES[::-1]))
    output = str(tmp_path / "run")
    assert main(["pretrain", "hmm", str(file), "--format", "tagged", "--to", output, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["tag", output, "我 去 重庆 。", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["tags"] == ["r", "v", "ns", "w"]
    assert main(["measure", output, str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8
