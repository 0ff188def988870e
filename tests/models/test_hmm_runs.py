"""The hidden Markov model as a run: iterations, a short time, words without a text to learn from, and tags."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from forebear.cli.main import main
from forebear.errors import InputError
from forebear.inference.run import Run
from forebear.training.run_folder import MetricsLog
from labelled_texts import adapted
from small_runs import Notes, opened, trained, weights

SENTENCES = ["我/r 爱/v 北京/ns 。/w", "他/r 爱/v 上海/ns 。/w", "我们/r 去/v 武汉/ns 。/w", "她/r 去/v 天津/ns ！/w"]


def losses(run: Path) -> list[float]:
    return [
        line["losses"]["next"] for line in MetricsLog(run / "metrics.jsonl").read_lines() if "next" in line["losses"]
    ]


def test_every_epoch_makes_the_text_more_probable(tmp_path: Path):
    run = trained("hmm", tmp_path, epochs=12, batch=10**6)
    told = losses(run.path)
    assert len(told) == 12
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(told))
    assert told[-1] < 0.8 * told[0]


def test_batches_of_any_size_end_in_the_same_weights(tmp_path: Path):
    one, other = (trained("hmm", tmp_path, to=str(size), epochs=3, batch=size) for size in (300, 10**6))
    assert weights(one) == weights(other)
    assert one.metadata["step"] > other.metadata["step"] == 3


def test_another_seed_is_another_model(tmp_path: Path):
    assert weights(trained("hmm", tmp_path, to="1", seed=1)) != weights(trained("hmm", tmp_path, to="2", seed=2))


def test_time_that_is_up_before_all_was_seen_leaves_a_model(tmp_path: Path):
    heard = Notes()
    run = Run(trained("hmm", tmp_path, steps=2, batch=100, watcher=heard))
    assert run.network.iterations == 1
    assert any("a part of it" in note for note in run.metadata["notes"])
    assert run.metadata["metrics"]["held_out"]["nats_per_token"] < np.log(run.tokenizer.vocab_size)


def test_it_stops_where_held_out_text_gets_no_better(tmp_path: Path):
    run = trained("hmm", tmp_path, epochs=500, patience=2, batch=10**6)
    assert run.metadata["step"] < 500
    assert run.metadata["best_step"] <= run.metadata["step"]
    assert any(note.startswith("stopped early") for note in run.metadata["notes"])


@pytest.mark.parametrize("given", [{"rate": 0.1}, {"clip": 1.0}, {"deterministic": True}])
def test_what_means_nothing_to_it_is_refused(given: dict[str, float], tmp_path: Path):
    with pytest.raises(InputError, match="means nothing to hmm"):
        trained("hmm", tmp_path, **given)


@pytest.mark.parametrize(
    "text", ["word\n\nword", "word word word\n\n" * 400, "a\n\nb\n\n" * 30], ids=["one", "again", "short"]
)
def test_texts_with_hardly_anything_in_them(text: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(text)
    run = opened("hmm", tmp_path, epochs=3)
    assert np.isfinite(run.score(["word a zebra"])[0].log_prob)
    assert run.generate("", length=5, seed=1)


def test_it_tags_names_and_is_still_a_language_model(tmp_path: Path):
    run = Run(adapted("hmm", "tagging", tmp_path, count=300, **dict.fromkeys(("steps", "threads"))))
    assert run.heads == ("tag", "next")
    assert run.metadata["metrics"]["dev"]["f1"] > 0.6
    assert {"tag", "score", "next", "generate"} <= set(run.capabilities)
    assert np.isfinite(run.score(["the zebra"])[0].log_prob)


def test_words_and_tags_through_pretrain(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "tagged.txt"
    file.write_text("\n".join(SENTENCES + [one.replace("爱", "到") for one in SENTENCES] + SENTENCES[::-1]))
    to = str(tmp_path / "run")
    assert main(["pretrain", "hmm", str(file), "--format", "tagged", "--to", to, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["tag", to, "我 去 重庆 。", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["tags"] == ["r", "v", "ns", "w"]
    assert main(["measure", to, str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8
