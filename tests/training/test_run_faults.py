"""Invalid input, damaged files and concurrent processes: each error names cause and hint, and no work is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forebear.cli.main import main
from forebear.data.io.atomic import file_digest
from forebear.errors import ForebearError, InputError
from forebear.experiments import training_run
from forebear.inference.run import Run
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import (
    NEURAL_MODELS,
    SAMPLE_MODELS,
    NoteRecorder,
    open_small_run,
    small_pretrain_plan,
    small_text,
    train_small_run,
    weights_digest,
)


class CrashAtStep(TrainingCallback):
    """Ends training with an exception at a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.step:
            raise RuntimeError("crash")


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    return tmp_path / "text.txt"


def exit_code_and_errors(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().err


# -- invalid commands


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "gtp2", "{book}"], "did you mean gpt2"),
        (["pretrain", "gpt2", "{book}", "--widht", "8"], "did you mean --width"),
        (["pretrain", "gpt2", "{book}", "--tim", "5m"], "did you mean --time"),
        (["pretrain", "gpt2", "{book}", "--size", "tinny"], "did you mean tiny"),
        (["pretrain", "gpt2", "{book}", "--width", "wide"], "--width is 'wide'"),
        (["pretrain", "gpt2", "{book}", "--heads", "5", "--width", "32"], "cannot be"),
        (["pretrain", "ngram", "{book}", "--order", "0"], "order"),
        (["pretrain", "ngram", "{book}", "--smoothing", "magic"], "magic"),
        (["pretrain", "gpt2"], "what to train on what"),
        (["pretrain", "gpt2", "nowhere.txt"], "nowhere.txt"),
        (["pretrain", "gpt2", "{book}", "--time", "soon"], "no duration"),
        (["pretrain", "gpt2", "{book}", "--device", "abacus"], "abacus"),
        (
            ["pretrain", "gpt2", "{book}", "--context", "100000", "--tokenizer", "characters"],
            "longer than the whole text",
        ),
        (["pretrain", "gpt2", "{book}", "--vocabulary", "100"], "size is 100"),
        (["pretrain", "--resume", "nowhere"], "there is no such run"),
        (["pretrain", "gpt2", "--resume", "nowhere"], "takes everything"),
        (["score", "nowhere", "a"], "there is no such run"),
        (["generate", "{folder}", "a"], "is no run"),
        (["export", "{folder}", "--format", "arpa", "--to", "x"], "is no run"),
        (["import", "{folder}", "--to", "x"], "config.json"),
    ],
)
def test_invalid_command_exits_with_2_and_a_hint(
    arguments: list[str],
    message: str,
    text_file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(text_file.parent)
    command = [argument.format(book=text_file, folder=text_file.parent) for argument in arguments]
    code, errors = exit_code_and_errors(capsys, *command)
    assert (code, message in errors) == (2, True), errors
    assert "Traceback" not in errors


def test_word_vocabulary_is_no_larger_than_the_text_can_fill(text_file: Path):
    run = training_run.run_pretraining(
        small_pretrain_plan("gpt2", text_file, tokenizer="words", steps=2), text_file.parent / "run"
    )
    assert run.metadata["tokenizer"]["size"] < 200


def test_output_folder_with_other_content_is_refused_unless_overwritten(text_file: Path):
    train_small_run("ngram", text_file.parent)
    with pytest.raises(InputError, match="holds another run"):
        train_small_run("ngram", text_file.parent, order=2)
    (text_file.parent / "stranger").mkdir()
    (text_file.parent / "stranger" / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="is no run"):
        train_small_run("ngram", text_file.parent, to="stranger")
    assert (text_file.parent / "stranger" / "diary.txt").read_text() == "mine"
    overwritten = training_run.run_pretraining(
        small_pretrain_plan("ngram", text_file, order=2), text_file.parent / "run", overwrite=True
    )
    assert overwritten.spec.order == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_finished_run_is_opened_instead_of_trained_again(text_file: Path):
    first = train_small_run("ngram", text_file.parent)
    modified = (first.path / "weights.safetensors").stat().st_mtime_ns
    assert weights_digest(train_small_run("ngram", text_file.parent)) == weights_digest(first)
    assert (first.path / "weights.safetensors").stat().st_mtime_ns == modified


def test_resume_refuses_changed_text_and_rerun_missing_text(text_file: Path):
    with pytest.raises(RuntimeError):
        train_small_run("gpt2", text_file.parent, callback=CrashAtStep(20))
    corpus = Path(RunFolder.open(text_file.parent / "run").metadata["data"]["folder"])
    shutil.rmtree(corpus)
    text_file.write_text(small_text() + "\nOne more line.\n", encoding="utf-8")
    with pytest.raises(InputError, match="has changed since it began"):
        training_run.resume_pretraining(text_file.parent / "run")
    text_file.write_text(small_text(), encoding="utf-8")
    assert training_run.resume_pretraining(text_file.parent / "run").is_finished  # the corpus is prepared again
    text_file.unlink()
    shutil.rmtree(corpus)
    with pytest.raises(InputError, match="is gone"):
        training_run.repeat_run(text_file.parent / "run", text_file.parent / "again")


# -- weights


def test_missing_extra_or_misshapen_weight_tensor_is_named(text_file: Path):
    import torch
    from safetensors.torch import load_file, save_file

    run = train_small_run("gpt2", text_file.parent, steps=2)
    file = run.path / "weights.safetensors"
    valid_tensors = load_file(file)
    name = "encoder.blocks.1.expand.weight"
    wrong_tensors = {
        f"{name} is missing": {key: value for key, value in valid_tensors.items() if key != name},
        "a.stranger": valid_tensors | {"a.stranger": torch.zeros(2)},
        f"{name} has the shape": valid_tensors | {name: torch.zeros(3, 2)},
    }
    for message, tensors in wrong_tensors.items():
        save_file(tensors, file)
        run.update(weights={"sha256": file_digest(file), "bytes": file.stat().st_size, "step": 2})
        with pytest.raises(ForebearError, match="do not fit") as raised:
            Run.open(run.path).score("the")
        assert message in str(raised.value)
        assert str(file) in str(raised.value)


def test_missing_or_extra_ngram_count_array_is_named(text_file: Path):
    import numpy as np
    from safetensors.numpy import load_file, save_file

    run = train_small_run("ngram", text_file.parent)
    file = run.path / "weights.safetensors"
    valid_arrays = load_file(file)
    for message, arrays in {
        "counts.2": {key: value for key, value in valid_arrays.items() if key != "counts.2"},
        "stranger": valid_arrays | {"stranger": np.zeros(2)},
    }.items():
        save_file(arrays, file)
        run.update(weights={"sha256": file_digest(file), "bytes": file.stat().st_size, "step": 2})
        with pytest.raises(ForebearError) as raised:
            Run.open(run.path).score("the")
        assert message in str(raised.value)


# -- damaged checkpoints


def truncate_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 0x40
    file.write_bytes(data)


DAMAGES = {
    "weights cut short": lambda folder: truncate_file(folder / "weights.safetensors"),
    "a bit of the weights turned": lambda folder: flip_bit(folder / "weights.safetensors"),
    "weights gone": lambda folder: (folder / "weights.safetensors").unlink(),
    "manifest cut short": lambda folder: truncate_file(folder / "manifest.json"),
    "manifest gone": lambda folder: (folder / "manifest.json").unlink(),
    "state emptied": lambda folder: (folder / "state.json").write_text(""),
    "state of another run": lambda folder: (folder / "state.json").write_text('{"position": {}}'),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SAMPLE_MODELS)
def test_resume_skips_damaged_checkpoint(name: str, damage: str, text_file: Path):
    changes = {"evaluate_every": 4, "keep": 3} | ({"steps": 30} if name in NEURAL_MODELS else {"batch": 10})
    complete = train_small_run(name, text_file.parent, to="whole", **changes)
    with pytest.raises(RuntimeError):
        train_small_run(name, text_file.parent, to="torn", callback=CrashAtStep(20), **changes)
    damaged = RunFolder.open(text_file.parent / "torn")
    newest = damaged.checkpoints.list_all()[-1]
    DAMAGES[damage](newest.folder)
    notes = NoteRecorder()
    resumed = training_run.resume_pretraining(damaged.path, callback=notes)
    assert any(str(newest.folder) in note and "fell back to step" in note for note in notes.messages), notes.messages
    assert weights_digest(resumed) == weights_digest(complete)


def test_resume_without_valid_checkpoint_names_damaged_files(text_file: Path):
    with pytest.raises(RuntimeError):
        train_small_run("gpt2", text_file.parent, callback=CrashAtStep(30), steps=40, evaluate_every=4, keep=2)
    run = RunFolder.open(text_file.parent / "run")
    for checkpoint in run.checkpoints.list_all():
        flip_bit(checkpoint.folder / "weights.safetensors")
    with pytest.raises(ForebearError, match="no checkpoint of this run is whole") as raised:
        training_run.resume_pretraining(run.path)
    for checkpoint in run.checkpoints.list_all():
        assert str(checkpoint.folder / "weights.safetensors") in str(raised.value)


def test_damaged_final_weights_fall_back_to_checkpoint(text_file: Path):
    run = open_small_run("gpt2", text_file.parent, steps=4)
    log_prob = run.score("the cat")[0].log_prob
    file = run.folder.path / "weights.safetensors"
    with open(file, "r+b") as damaged_file:  # in place, as a failing disk does it
        damaged_file.truncate(file.stat().st_size - 5)
    reopened = Run.open(run.folder.path)
    assert reopened.score("the cat")[0].log_prob == log_prob
    assert any("used the checkpoint of step 4 instead" in note for note in reopened.notes)
    shutil.rmtree(run.folder.path / "checkpoints")
    with pytest.raises(ForebearError, match="no checkpoint to fall back to"):
        Run.open(run.folder.path).score("the cat")


def test_truncated_run_json_is_reported(text_file: Path):
    run = train_small_run("ngram", text_file.parent)
    (run.path / "run.json").write_text('{"form')
    with pytest.raises(ForebearError, match=r"run\.json: cannot be read"):
        Run.open(run.path)


# -- processes


def test_second_process_training_the_same_run_is_refused(text_file: Path):
    """The first process is not disturbed."""
    errors: list[str] = []

    class ResumeAtStep20(TrainingCallback):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == 20:
                code = "import sys; from forebear.experiments.training_run import *; resume_pretraining(sys.argv[1])"
                process = subprocess.run(
                    [sys.executable, "-c", code, text_file.parent / "run"], capture_output=True, text=True, timeout=100
                )
                errors.append(process.stderr)

    run = train_small_run("gpt2", text_file.parent, callback=ResumeAtStep20(), steps=30)
    assert run.is_finished
    assert "another process is training this run" in errors[0]
    assert weights_digest(run) == weights_digest(train_small_run("gpt2", text_file.parent, to="alone", steps=30))


def test_damaged_best_checkpoint_is_replaced_by_the_last(text_file: Path):
    """The best checkpoint is damaged during training; a note says that the last one is kept."""
    changes = {"steps": 120, "rate": 2e-2, "evaluate_every": 10, "fall": 1000}
    best_step = train_small_run("gpt2", text_file.parent, to="whole", **changes).metadata["best_step"]

    class DamageBestCheckpoint(NoteRecorder):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == best_step + 10:
                flip_bit(text_file.parent / "run" / "checkpoints" / f"{best_step:08d}" / "weights.safetensors")

    notes = DamageBestCheckpoint()
    run = train_small_run("gpt2", text_file.parent, callback=notes, **changes)
    assert run.metadata["best_step"] == 120
    assert any("the last one is kept instead" in note for note in notes.messages)


def test_ngram_run_with_infinite_held_out_loss_keeps_last_checkpoint(text_file: Path):
    run = train_small_run("ngram", text_file.parent, smoothing="none", batch=20, evaluate_every=4)
    assert run.metadata["weights"]["step"] == run.metadata["step"] > 8
    assert "Infinity" not in (run.path / "run.json").read_text()


def test_same_command_resumes_with_recorded_number_of_threads(text_file: Path):
    changes = {"threads": None, "steps": 40, "evaluate_every": 10}
    with pytest.raises(RuntimeError):
        train_small_run("gpt2", text_file.parent, callback=CrashAtStep(20), **changes)
    run = RunFolder.open(text_file.parent / "run")
    run.update(recipe=run.metadata["recipe"] | {"threads": 1})
    assert train_small_run("gpt2", text_file.parent, **changes).metadata["recipe"]["threads"] == 1
    import torch

    assert torch.get_num_threads() == 1


def test_run_killed_before_run_json_was_written_starts_again(text_file: Path):
    (text_file.parent / "run").mkdir()
    (text_file.parent / "run" / "tokenizer.json").write_text("half")
    assert train_small_run("ngram", text_file.parent).is_finished
