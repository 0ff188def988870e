"""A run that is killed between any two writes of its end still ends with the best weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forebear.experiments import training_run
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from small_runs import train_small_run, weights_digest

# A learning rate that stays too high: the loss oscillates, and the best checkpoint is not the last.
CHANGES: dict[str, Any] = {"steps": 120, "rate": 2e-2, "evaluate_every": 10, "fall": 1000, "keep": 1}


class Killed(BaseException):
    """Not caught by any handler, like SIGKILL."""


@pytest.fixture(scope="module")
def complete_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = train_small_run("gpt2", tmp_path_factory.mktemp("whole"), **CHANGES)
    assert run.metadata["best_step"] < run.metadata["step"]
    return run


@pytest.mark.sample(2)
@pytest.mark.parametrize("call_index", range(8))
def test_run_killed_at_its_end_keeps_best_weights(
    call_index: int, complete_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`call_index` counts the calls that change the folder after the last checkpoint."""
    last_checkpoint, calls_left = tmp_path / "run" / "checkpoints" / f"{CHANGES['steps']:08d}", [call_index]

    def killing(function: Any) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if last_checkpoint.exists():
                calls_left[0] -= 1
                if calls_left[0] == -1:
                    raise Killed
            return function(self, *arguments, **named)

        return call

    for owner, name in (
        (RunFolder, "publish_checkpoint"),
        (RunFolder, "save"),
        (CheckpointStore, "prune"),
        (CheckpointStore, "clean_up"),
    ):
        monkeypatch.setattr(owner, name, killing(getattr(owner, name)))
    try:
        train_small_run("gpt2", tmp_path, **CHANGES)
    except Killed:
        training_run.resume_pretraining(tmp_path / "run")
    assert calls_left[0] < call_index
    run = RunFolder.open(tmp_path / "run")
    assert run.is_finished
    assert weights_digest(run) == weights_digest(complete_run)
    assert run.metadata["best_step"] == complete_run.metadata["best_step"]
