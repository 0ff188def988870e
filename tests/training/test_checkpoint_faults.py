"""Every write, sync, rename and removal of a save and of a run's end fails once: the old or the new state loads."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fault_injection import Crash, FaultKind, FaultyDisk, inject_disk_fault

from forebear.data.io.atomic import file_digest
from forebear.errors import ForebearError
from forebear.experiments import training_run
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback
from small_runs import sample_params, train_small_run, weights_digest

FAULTS: list[FaultKind] = ["error", "crash", "power cut"]


def save(checkpoints: CheckpointStore, step: int) -> None:
    """Saves a checkpoint and prunes the older ones, as training does."""

    def write(folder: Path) -> None:
        (folder / "one").write_bytes(f"one of {step} ".encode() * 100)
        (folder / "two").write_bytes(f"two of {step} ".encode() * 100)

    checkpoints.save(step, {"step": step}, write)
    checkpoints.prune(1, set())


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("damaged", [False, True])
def test_save_failing_at_any_operation_leaves_old_or_new_checkpoint(fault: FaultKind, damaged: bool, tmp_path: Path):
    operations: set[str] = set()
    for fault_index in count():
        checkpoints = CheckpointStore(tmp_path / str(fault_index))
        save(checkpoints, 1)
        if damaged:  # a damaged checkpoint of the new step is there and must be replaced
            checkpoints.save(2, {"step": 2}, lambda folder: (folder / "one").write_text("one") and None)
            (checkpoints.folder / "00000002" / "one").write_text("two")
        with inject_disk_fault(checkpoints.folder, fault_index, fault) as disk, suppress(Crash, OSError):
            save(checkpoints, 2)
        newest, faults = checkpoints.newest_valid_and_errors()
        assert newest is not None, disk.operations
        assert newest.step in (1, 2)
        assert damaged or not faults, (disk.operations, faults)
        assert newest.load_state() == {"step": newest.step}
        assert (newest.folder / "two").read_bytes() == f"two of {newest.step} ".encode() * 100
        save(checkpoints, 2)
        assert [item.name for item in checkpoints.folder.iterdir()] == ["00000002"]
        assert checkpoints.list_all()[0].find_corruption() is None
        operations |= set(disk.operations)
        if not disk.fault_reached:
            break
    assert fault_index > 15
    assert operations >= {"mkdir", "begin to write", "end to write", "open", "write", "sync", "replace", "rename"}
    assert operations >= {"unlink", "rmdir"}  # of the replaced checkpoint


class FailAtStep(TrainingCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.step:
            raise RuntimeError("broken off")


def run_failed_before_last_step(name: str, folder: Path) -> tuple[RunFolder, RunFolder]:
    """A finished run, and the same run that failed one step before its end, after a checkpoint."""
    changes: dict[str, Any] = {"batch": 400, "save_every": 1e-9}
    if name != "ngram":
        changes = {"steps": 11, "width": 8, "depth": 1, "heads": 1, "evaluate_every": 10, "batch": 16}
    complete = train_small_run(name, folder, to="whole", **changes)
    last_step = complete.metadata["step"]
    with pytest.raises(RuntimeError):
        train_small_run(
            name,
            folder,
            to="broken",
            callback=FailAtStep(last_step - 1),
            evaluate_every=last_step - 1,
            **without_evaluation_interval(changes),
        )
    return complete, RunFolder.open(folder / "broken")


def without_evaluation_interval(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != "evaluate_every"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", sample_params(["ngram", "gpt2"], ["ngram"]))
def test_run_end_failing_at_any_operation_resumes_bit_for_bit(name: str, fault: FaultKind, tmp_path: Path):
    complete, interrupted = run_failed_before_last_step(name, tmp_path)
    checkpoint = interrupted.checkpoints.newest_valid()[0]
    assert checkpoint is not None
    valid_digests = {file_digest(checkpoint.folder / "weights.safetensors"), weights_digest(complete)}
    for fault_index in count():
        run = tmp_path / f"at-{fault_index}"
        shutil.copytree(interrupted.path, run)
        disk = resume_with_fault(run, fault_index, fault)
        weights_file, _ = RunFolder.open(run).verified_weights()
        assert file_digest(weights_file) in valid_digests, disk.operations
        resumed = training_run.resume_pretraining(run)
        assert resumed.is_finished
        assert weights_digest(resumed) == weights_digest(complete)
        assert file_digest(run / "weights.safetensors") == weights_digest(complete)
        assert not [item.name for item in run.rglob("*") if item.name.endswith(".old")]
        shutil.rmtree(run)
        if not disk.fault_reached:
            break
    assert fault_index > 40


def resume_with_fault(run: Path, fault_index: int, fault: FaultKind) -> FaultyDisk:
    with inject_disk_fault(run, fault_index, fault) as disk, suppress(Crash, ForebearError, OSError):
        training_run.resume_pretraining(run)
    return disk
