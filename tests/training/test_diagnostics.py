"""Diagnostics of failed training, early stopping, and interrupts that name the resume command."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebear.cli.main import main
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.source import TextSource
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import ForebearError
from forebear.experiments import plan as planning
from forebear.experiments import training_run
from forebear.training.diagnostics import Diagnostics, NonFiniteLossError, unigram_entropy
from forebear.training.run_folder import RunFolder, list_runs
from small_runs import NoteRecorder, small_pretrain_plan, small_text, train_small_run


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    return tmp_path / "text.txt"


def test_nan_loss_names_step_and_learning_rate(text_file: Path):
    with pytest.raises(ForebearError, match=r"the loss is nan at step \d+, with a rate of") as raised:
        train_small_run("gpt2", text_file.parent, rate=1e12, clip=1e12, warmup=0, steps=50)
    assert "--rate" in raised.value.hint
    (line,) = list_runs(text_file.parent)
    assert line.state == "failed"
    assert line.reason == raised.value.message


def test_unigram_entropy_gives_unseen_words_the_count_of_singletons(tmp_path: Path):
    """Trained on a b a c: b, c and the end occur once, so three unknown words are expected."""
    (tmp_path / "text.txt").write_text("a b a c", encoding="utf-8")
    (tmp_path / "asked.txt").write_text("a d", encoding="utf-8")
    tokenizer = train_tokenizer("words", ["a b a c"], min_count=1)
    documents = [
        prepare_corpus([tmp_path / name], tokenizer, to=tmp_path / name[:4], workers=1).all_documents()
        for name in ("text.txt", "asked.txt")
    ]
    end, unknown = tokenizer.special_roles["end"], tokenizer.special_roles["unknown"]
    counts = {"a": 2, "b": 1, "c": 1, "end": 1, "unknown": 3}
    total = sum(counts.values()) + tokenizer.vocab_size
    expected = -sum(math.log((counts[token] + 1) / total) for token in ("a", "unknown", "end")) / 3
    assert unigram_entropy(*documents, tokenizer.vocab_size, end, unknown) == pytest.approx(expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_tagged_text_read_as_plain_text_is_noted(tmp_path: Path, kind: str):
    lines = small_text().replace(".", " .").split("\n")
    (tmp_path / "text.txt").write_text("\n".join(" ".join(f"{word}/n" for word in line.split()) for line in lines))
    for reading in (TextFormat(), TextFormat(format="tagged")):
        notes = NoteRecorder()
        training_run.run_pretraining(
            planning.plan_pretraining(
                "ngram", [str(tmp_path / "text.txt")], tokenizer=kind, source=TextSource((), reading)
            ),
            tmp_path / reading.format,
            callback=notes,
        )
        assert any("--format tagged" in message for message in notes.messages) == (reading.format != "tagged")


@pytest.mark.slow
def test_loss_above_unigram_baseline_is_noted(text_file: Path):
    notes = NoteRecorder()
    train_small_run("gpt2", text_file.parent, callback=notes, rate=3.0, warmup=1, steps=150, tokenizer="characters")
    assert any("above that of token frequencies" in message for message in notes.messages), notes.messages


@pytest.mark.slow
def test_overfitting_is_noted(text_file: Path):
    notes = NoteRecorder()
    train_small_run("gpt2", text_file.parent, callback=notes, steps=400, rate=1e-2, evaluate_every=25, width=64)
    assert any("learned by heart" in message for message in notes.messages), notes.messages


@pytest.mark.slow
def test_early_stopping_keeps_best_checkpoint(text_file: Path):
    run = train_small_run("gpt2", text_file.parent, steps=2000, rate=1e-2, evaluate_every=20, patience=2, width=64)
    assert run.metadata["step"] < 2000
    assert run.metadata["best_step"] == run.metadata["step"] - 2 * 20
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    held_out_losses = {line["step"]: line["held_out"]["next"] for line in lines if "held_out" in line}
    assert min(held_out_losses, key=lambda step: held_out_losses[step]) == run.metadata["best_step"]


def test_text_of_unknown_tokens_only_is_refused(tmp_path: Path):
    (tmp_path / "text.txt").write_text("一二三。四五六。七八九。" * 30, encoding="utf-8")
    from forebear.data.tokenizers.train import train_tokenizer

    train_tokenizer("words", ["only english here"]).save(tmp_path / "english.json")
    with pytest.raises(ForebearError, match="every token of this text is unknown"):
        training_run.run_pretraining(
            small_pretrain_plan("ngram", tmp_path / "text.txt", tokenizer=str(tmp_path / "english.json")),
            tmp_path / "r",
        )


def test_duplicate_documents_are_noted(tmp_path: Path):
    (tmp_path / "text.txt").write_text((small_text() + "\n") * 2, encoding="utf-8")
    notes = NoteRecorder()
    train_small_run("ngram", tmp_path, callback=notes)
    assert any("repeat another word for word" in message for message in notes.messages)


@pytest.mark.slow
def test_interrupted_command_prints_resume_command(text_file: Path):
    """A real Ctrl-C to the real command."""
    command = [sys.executable, "-c", "from forebear.cli.main import run; run()", "pretrain", "gpt2", str(text_file)]
    command += [
        "--to",
        str(text_file.parent / "run"),
        "--steps",
        "100000",
        "--width",
        "32",
        "--depth",
        "2",
        "--heads",
        "2",
    ]
    command += ["--context", "16", "--batch", "64", "--threads", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = text_file.parent / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not (metrics.exists() and metrics.read_text().count("\n") > 2):
        time.sleep(0.05)
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"forebear pretrain --resume {text_file.parent / 'run'}" in errors
    assert RunFolder.open(text_file.parent / "run").metadata["state"] == "interrupted"


@pytest.mark.sample(1)
@pytest.mark.parametrize("steps", [1, 5])
def test_non_finite_evaluation_is_never_the_best(steps: int, tmp_path: Path):
    """The first step ruins the weights; only the evaluation shows it."""
    with pytest.raises(ForebearError, match=r"the loss is (nan|inf)") as raised:
        train_small_run("gpt2", tmp_path, steps=steps, rate=1e30, evaluate_every=1, warmup=0)
    assert "--rate" in raised.value.hint
    run = RunFolder.open(tmp_path / "run")
    assert run.metadata["state"] == "failed"
    assert run.checkpoints.list_all() == []
    assert "NaN" not in (run.path / "run.json").read_text()


def test_run_ending_above_unigram_baseline_notes_underfitting(tmp_path: Path):
    notes = NoteRecorder()
    run = train_small_run("gpt2", tmp_path, steps=2, rate=1e-5, callback=notes)
    assert any("little is learned" in message for message in notes.messages)
    assert any("little is learned" in message for message in run.metadata["notes"])


def test_lstm_with_far_too_high_learning_rate_names_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    arguments = [tmp_path / "text.txt", "--rate", 1000, "--steps", 35, "--size", "tiny", "--to", tmp_path / "run"]
    assert main(["pretrain", "lstm", *map(str, arguments), "--threads", "1"]) == 0
    printed = capsys.readouterr()
    assert "the rate is far too high" in printed.err
    assert "perplexity without end" in printed.out


BUSY_PROGRAM = """
import hashlib
from forebear.training.trainer import SignalGuard
with SignalGuard():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes, with Python's lock let go of, as in a step of a network
"""


@pytest.mark.slow
def test_second_interrupt_ends_a_long_step():
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY_PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    start = time.monotonic()
    for _ in range(2):
        process.send_signal(2)
        time.sleep(2)  # signals that a loaded machine delivers within half a second count as one
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, time.monotonic() - start < 15) == (130, True)
    assert "what was saved before is whole" in errors


def test_check_vectors_warns_of_bad_loss_and_fails_on_divergence():
    warnings: list[str] = []
    diagnostics = Diagnostics(None, 0, 10, lambda kind, message: warnings.append(message), typical_lr=0.025)
    diagnostics.check_vectors(3, 4.0, 4.16, 0.025)
    assert warnings == []
    diagnostics.check_vectors(3, 5.0, 4.16, 0.025)
    assert "the rate is too high" in warnings[0]
    with pytest.raises(NonFiniteLossError, match=r"the held-out loss is 1e\+20 at step 3") as raised:
        diagnostics.check_vectors(3, 1e20, 4.16, 0.5)
    assert raised.value.hint == "a lower rate: --rate 0.025 --overwrite"
