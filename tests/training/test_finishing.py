"""The last moments of a run: killed between any two of them, it still ends with the best weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forebear.experiments import pipeline
from forebear.training.checkpoint import CheckpointStore
from forebear.training.run_folder import RunFolder
from small_runs import trained, weights

# A rate that stays too high: the loss jumps about, and the best checkpoint is not the last.
CHANGES: dict[str, Any] = {"steps": 120, "rate": 2e-2, "evaluate_every": 10, "fall": 1000, "keep": 1}


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = trained("gpt2", tmp_path_factory.mktemp("whole"), **CHANGES)
    assert run.metadata["best_step"] < run.metadata["step"]
    return run


@pytest.mark.sample(2)
@pytest.mark.parametrize("moment", range(8))
def test_a_kill_at_the_end_changes_nothing(
    moment: int, whole: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`moment` counts the calls that change the folder once the last checkpoint stands."""
    last, left = tmp_path / "run" / "checkpoints" / f"{CHANGES['steps']:08d}", [moment]

    def dangerous(function: Any) -> Any:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if last.exists():
                left[0] -= 1
                if left[0] == -1:
                    raise Killed
            return function(self, *arguments, **named)

        return call

    for owner, name in (
        (RunFolder, "publish_checkpoint"),
        (RunFolder, "save"),
        (CheckpointStore, "prune"),
        (CheckpointStore, "clean_up"),
    ):
        monkeypatch.setattr(owner, name, dangerous(getattr(owner, name)))
    try:
        trained("gpt2", tmp_path, **CHANGES)
    except Killed:
        pipeline.resume_pretraining(tmp_path / "run")
    assert left[0] < moment
    run = RunFolder.open(tmp_path / "run")
    assert run.is_finished
    assert weights(run) == weights(whole)
    assert run.metadata["best_step"] == whole.metadata["best_step"]
