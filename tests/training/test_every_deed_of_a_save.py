"""Every write, sync, rename and removal of a save and of a run's end fails once: the old state stands, or the new."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from breaking_disk import BreakingDisk, Crash, Way, breaking

from forebear.data.io.atomic import file_digest
from forebear.errors import ForebearError
from forebear.experiments import pipeline
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import sampled, trained, weights

WAYS: list[Way] = ["error", "crash", "power cut"]


def save(checkpoints: CheckpointStore, step: int) -> None:
    """A new state in place of the oldest, as training saves one."""

    def write(folder: Path) -> None:
        (folder / "one").write_bytes(f"one of {step} ".encode() * 100)
        (folder / "two").write_bytes(f"two of {step} ".encode() * 100)

    checkpoints.save(step, {"step": step}, write)
    checkpoints.prune(1, set())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_save_that_fails_anywhere_leaves_the_old_state_or_the_new(way: Way, damaged: bool, tmp_path: Path):
    deeds: set[str] = set()
    for at in count():
        checkpoints = CheckpointStore(tmp_path / str(at))
        save(checkpoints, 1)
        if damaged:  # a state of the new step is there, and has to go
            checkpoints.save(2, {"step": 2}, lambda folder: (folder / "one").write_text("one") and None)
            (checkpoints.folder / "00000002" / "one").write_text("two")
        with breaking(checkpoints.folder, at, way) as disk, suppress(Crash, OSError):
            save(checkpoints, 2)
        newest, wrong = checkpoints.newest_valid_and_errors()
        assert newest is not None, disk.deeds
        assert newest.step in (1, 2)
        assert damaged or not wrong, (disk.deeds, wrong)
        assert newest.load_state() == {"step": newest.step}
        assert (newest.folder / "two").read_bytes() == f"two of {newest.step} ".encode() * 100
        save(checkpoints, 2)
        assert [item.name for item in checkpoints.folder.iterdir()] == ["00000002"]
        assert checkpoints.list_all()[0].find_corruption() is None
        deeds |= set(disk.deeds)
        if not disk.broke:
            break
    assert at > 15
    assert deeds >= {"mkdir", "begin to write", "end to write", "open", "write", "sync", "replace", "rename"}
    assert deeds >= {"unlink", "rmdir"}  # what is replaced


class Ending(TrainingCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.step:
            raise RuntimeError("broken off")


def almost_at_its_end(name: str, folder: Path) -> tuple[RunFolder, RunFolder]:
    """A finished run, and the same broken off with a checkpoint, one step before its end."""
    changes: dict[str, Any] = {"batch": 400, "save_every": 1e-9}
    if name != "ngram":
        changes = {"steps": 11, "width": 8, "depth": 1, "heads": 1, "evaluate_every": 10, "batch": 16}
    whole = trained(name, folder, to="whole", **changes)
    last = whole.metadata["step"]
    with pytest.raises(RuntimeError):
        trained(name, folder, to="broken", watcher=Ending(last - 1), evaluate_every=last - 1, **changes_but(changes))
    return whole, RunFolder.open(folder / "broken")


def changes_but(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != "evaluate_every"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sampled(["ngram", "gpt2"], ["ngram"]))
def test_an_end_of_a_run_that_fails_anywhere_is_reached_again(name: str, way: Way, tmp_path: Path):
    whole, begun = almost_at_its_end(name, tmp_path)
    old = begun.checkpoints.newest_valid()[0]
    assert old is not None
    either = {file_digest(old.folder / "weights.safetensors"), weights(whole)}
    for at in count():
        run = tmp_path / f"at-{at}"
        shutil.copytree(begun.path, run)
        disk = failing(run, at, way)
        found, _ = RunFolder.open(run).verified_weights()
        assert file_digest(found) in either, disk.deeds
        again = pipeline.resume_pretraining(run)
        assert again.is_finished
        assert weights(again) == weights(whole)
        assert file_digest(run / "weights.safetensors") == weights(whole)
        assert not [item.name for item in run.rglob("*") if item.name.endswith(".old")]
        shutil.rmtree(run)
        if not disk.broke:
            break
    assert at > 40


def failing(run: Path, at: int, way: Way) -> BreakingDisk:
    with breaking(run, at, way) as disk, suppress(Crash, ForebearError, OSError):
        pipeline.resume_pretraining(run)
    return disk
