"""Disks that are full or may not be written: the error says so, nothing is lost, and with room the run goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import forebear as fb
from forebear.errors import ForebearError
from forebear.experiments import pipeline
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import NEURAL, WAYS, plan, text, trained, weights

DISK = 2 << 20


@pytest.fixture
def book(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(text(), encoding="utf-8")
    return file


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", place]).returncode:
        pytest.skip("cannot mount a file system of its own here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path, room: int = 0) -> None:
    """Leaves so many bytes free."""
    filler = disk / "filler"
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    os.truncate(filler, filler.stat().st_size - room)


def test_a_full_disk(book: Path, small_disk: Path):
    """The error says so; the last checkpoint is whole, and with more room the run ends where an unbroken one does."""
    changes = {"steps": 40, "evaluate_every": 6, "keep": 1}
    whole = trained("gpt2", book.parent, to="whole", **changes)

    class Filling(TrainingCallback):
        def on_progress(self, report: ProgressReport) -> None:
            if report.step == 20:
                fill(small_disk)

    with pytest.raises(ForebearError, match="No space left") as raised:
        pipeline.run_pretraining(plan("gpt2", book, **changes), small_disk / "run", watcher=Filling())
    assert raised.value.exit_code == 1
    assert "free some space" in raised.value.hint
    run = RunFolder.open(small_disk / "run")
    assert run.checkpoints.newest_valid()[0] is not None
    (small_disk / "filler").unlink()
    assert weights(pipeline.resume_pretraining(run.path)) == weights(whole)


@pytest.mark.sample(5)
@pytest.mark.parametrize("room", [0, 16, 48, 96, 160, 300, 450, 600, 900])
@pytest.mark.parametrize("name", WAYS)
def test_wherever_the_disk_is_full(name: str, room: int, book: Path, small_disk: Path, tmp_path: Path):
    """So many kilobytes are free: too few for a beginning, for a checkpoint, for the final weights, for the card."""
    whole = trained(name, tmp_path, to="whole")
    fill(small_disk, room << 10)
    told = None
    try:
        pipeline.run_pretraining(plan(name, book), small_disk / "run")
    except ForebearError as error:
        told = error
    assert told is not None or room > (200 if name in NEURAL else 30)
    assert told is None or ("No space left" in told.message and "free some space" in told.hint)
    (small_disk / "filler").unlink()
    run = pipeline.run_pretraining(plan(name, book), small_disk / "run")
    assert run.is_finished
    assert weights(run) == weights(whole)
    assert not [item.name for item in run.path.rglob("*") if item.name.endswith((".tmp", ".old"))]


def test_a_read_only_place(book: Path, small_disk: Path):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(ForebearError, match="Read-only") as raised:
        pipeline.run_pretraining(plan("ngram", book), small_disk / "run")
    assert "--to" in raised.value.hint


def test_vectors_from_elsewhere_and_a_full_disk(small_disk: Path, tmp_path: Path):
    file = tmp_path / "words.txt"
    file.write_text("".join(f"word{row} {row / 7:.6f} {' '.join(['0.5'] * 99)}\n" for row in range(4000)))
    fill(small_disk, 100_000)
    with pytest.raises(ForebearError, match="No space left on device") as raised:
        fb.import_run(file, to=small_disk / "run")
    assert "free some space" in raised.value.hint
    assert {one.name for one in small_disk.iterdir()} == {"filler"}


def test_a_full_cache_is_called_so(small_disk: Path, book: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOREBEAR_CACHE", str(small_disk / "cache"))
    fill(small_disk)
    with pytest.raises(ForebearError, match="No space left on device") as raised:
        pipeline.run_pretraining(plan("ngram", book), book.parent / "run")
    assert "FOREBEAR_CACHE" in raised.value.hint
