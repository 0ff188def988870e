"""Full and read-only disks: the error names the cause, no checkpoint is lost, and the run resumes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import forebear as fb
from forebear.errors import ForebearError
from forebear.experiments import training_run
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import NEURAL_MODELS, SAMPLE_MODELS, small_pretrain_plan, small_text, train_small_run, weights_digest

DISK = 2 << 20


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(small_text(), encoding="utf-8")
    return file


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", mount_point]).returncode:
        pytest.skip("cannot mount a file system of its own here")
    yield mount_point
    subprocess.run(["umount", "-l", mount_point], check=True)


def fill(disk: Path, room: int = 0) -> None:
    """Fills the disk but for `room` bytes."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    os.truncate(filler, filler.stat().st_size - room)


def test_training_on_a_full_disk_keeps_checkpoint_and_resumes(text_file: Path, small_disk: Path):
    """With more space, the run ends bit for bit like an uninterrupted one."""
    changes = {"steps": 40, "evaluate_every": 6, "keep": 1}
    complete = train_small_run("gpt2", text_file.parent, to="whole", **changes)

    class FillDiskAtStep20(TrainingCallback):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == 20:
                fill(small_disk)

    with pytest.raises(ForebearError, match="No space left") as raised:
        training_run.run_pretraining(
            small_pretrain_plan("gpt2", text_file, **changes), small_disk / "run", callback=FillDiskAtStep20()
        )
    assert raised.value.exit_code == 1
    assert "free some space" in raised.value.hint
    run = RunFolder.open(small_disk / "run")
    assert run.checkpoints.newest_valid()[0] is not None
    (small_disk / "filler").unlink()
    assert weights_digest(training_run.resume_pretraining(run.path)) == weights_digest(complete)


@pytest.mark.sample(5)
@pytest.mark.parametrize("free_kb", [0, 16, 48, 96, 160, 300, 450, 600, 900])
@pytest.mark.parametrize("name", SAMPLE_MODELS)
def test_disk_full_at_any_stage_is_reported_and_training_resumes(
    name: str, free_kb: int, text_file: Path, small_disk: Path, tmp_path: Path
):
    """Too few kilobytes for the start, a checkpoint, the final weights or the card."""
    complete = train_small_run(name, tmp_path, to="whole")
    fill(small_disk, free_kb << 10)
    failure = None
    try:
        training_run.run_pretraining(small_pretrain_plan(name, text_file), small_disk / "run")
    except ForebearError as error:
        failure = error
    assert failure is not None or free_kb > (200 if name in NEURAL_MODELS else 30)
    assert failure is None or ("No space left" in failure.message and "free some space" in failure.hint)
    (small_disk / "filler").unlink()
    run = training_run.run_pretraining(small_pretrain_plan(name, text_file), small_disk / "run")
    assert run.is_finished
    assert weights_digest(run) == weights_digest(complete)
    assert not [item.name for item in run.path.rglob("*") if item.name.endswith((".tmp", ".old"))]


def test_pretrain_on_read_only_disk_suggests_another_folder(text_file: Path, small_disk: Path):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(ForebearError, match="Read-only") as raised:
        training_run.run_pretraining(small_pretrain_plan("ngram", text_file), small_disk / "run")
    assert "--to" in raised.value.hint


def test_import_of_word_vectors_on_full_disk_leaves_no_files(small_disk: Path, tmp_path: Path):
    file = tmp_path / "words.txt"
    file.write_text("".join(f"word{row} {row / 7:.6f} {' '.join(['0.5'] * 99)}\n" for row in range(4000)))
    fill(small_disk, 100_000)
    with pytest.raises(ForebearError, match="No space left on device") as raised:
        fb.import_run(file, to=small_disk / "run")
    assert "free some space" in raised.value.hint
    assert {path.name for path in small_disk.iterdir()} == {"filler"}


def test_full_cache_disk_error_names_the_cache_folder(
    small_disk: Path, text_file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FOREBEAR_CACHE", str(small_disk / "cache"))
    fill(small_disk)
    with pytest.raises(ForebearError, match="No space left on device") as raised:
        training_run.run_pretraining(small_pretrain_plan("ngram", text_file), text_file.parent / "run")
    assert "FOREBEAR_CACHE" in raised.value.hint
