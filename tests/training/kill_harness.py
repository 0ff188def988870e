"""Trains in child processes that are killed at random moments, also inside a save, until one of them finishes.

    kill_harness.py MODEL TEXT FOLDER KILLS SEED [quick]

MODEL is a name of the lineage, crf-tags (a CRF tagger) or bert-tags (a small BERT adapted to tagging).
Prints JSON: the number of kills, how many were inside a save, and the number of distinct steps resumed from.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forebear.training import trainer
from forebear.training.checkpoint import Checkpoint, CheckpointStore
from forebear.training.run_folder import RunFolder
from forebear.training.trainer import ProgressReport, TrainingCallback


def training_function(name: str, text: Path, *, quick: bool) -> Callable[..., RunFolder]:
    """A function that trains the model into a folder, for a few steps if quick."""
    if not name.endswith("-tags"):
        from forebear.experiments import training_run
        from small_runs import settings_for_kills, small_pretrain_plan

        def pretrain(to: Path, callback: TrainingCallback | None = None, **changes: Any) -> RunFolder:
            pretrain_plan = small_pretrain_plan(name, text, **settings_for_kills(name, quick=quick) | changes)
            return training_run.run_pretraining(pretrain_plan, to, callback=callback)

        return pretrain
    from adapted_runs import adapt_small_run
    from small_runs import train_small_run

    parent: str | Path = "crf"
    steps = 21 if quick else 60
    if name == "bert-tags":
        parent = train_small_run("bert", text.parent, to="bert", steps=2, context=48).path
    intervals = (
        {"save_every": 0.001, "crf": True, "evaluate_every": 5} if name == "bert-tags" else {"save_every": 0.001}
    )

    def adapt(to: Path, callback: TrainingCallback | None = None, **changes: Any) -> RunFolder:
        return adapt_small_run(
            parent, "tagging", text.parent, to=to.name, callback=callback, **{"steps": steps, **intervals, **changes}
        )

    return adapt


def main(name: str, text: str, folder: str, kills: int, seed: int, *, quick: bool) -> None:
    if name not in ("ngram", "hmm", "crf-tags", "word2vec", "glove", "onehot"):
        import torch

        torch.set_num_threads(1)
    trainer.SAVE_INTERVAL_FACTOR = 2  # otherwise a child trains for long between saves, and a kill discards most of it
    train = training_function(name, Path(text), quick=quick)
    train(Path(f"{folder}-before"), steps=3)  # loads libraries and compiles kernels once, before the forks
    rng, kills_done, kills_in_save = random.Random(seed), 0, 0
    resumed_steps: set[int] = set()
    checkpoints = CheckpointStore(Path(folder) / "checkpoints")
    marker = Path(f"{folder}-in-save")
    while True:
        marker.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            train(Path(folder), SaveAndWait((kills_done + 1) / (kills + 1), marker) if kills_done < kills else None)
            os._exit(0)
        if kills_done < kills:
            if kills_done % 3 == 1:  # a third of the kills is inside a save, however busy the machine is
                wait_for_save(marker)
            else:
                wait_random_moment(rng, checkpoints)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            print(json.dumps({"kills": kills_done, "inside": kills_in_save, "steps": len(resumed_steps)}))
            return
        kills_done += 1
        kills_in_save += any(checkpoints.folder.glob(".*.tmp")) or any(checkpoints.folder.glob(".*.old"))
        resumed_steps |= {checkpoint.step for checkpoint in checkpoints.list_all()[-1:]}


class SaveAndWait(TrainingCallback):
    """Keeps the child alive until it is killed, also on a busy machine.

    After a share of the steps, the child saves at once, creates the file `marker` and waits inside that save.
    """

    def __init__(self, share: float, marker: Path) -> None:
        self.share, self.marker, self.reached = share, marker, False
        save = CheckpointStore.save

        def save_and_hold(
            store: CheckpointStore, step: int, state: dict[str, Any], write: Callable[[Path], None]
        ) -> Checkpoint:
            return save(store, step, state, lambda path: self.hold(write, path))

        CheckpointStore.save = save_and_hold

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.share * (report.total or 0):
            self.reached, trainer.SAVE_INTERVAL_FACTOR = True, 0

    def hold(self, write: Callable[[Path], None], path: Path) -> None:
        write(path)
        while self.reached:
            self.marker.touch()
            signal.pause()


def wait_for_save(marker: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not marker.exists():
        time.sleep(0.002)


def wait_random_moment(rng: random.Random, checkpoints: CheckpointStore) -> None:
    """Waits for a random time: none, or until the next checkpoint; then often until the next save starts."""
    steps_before, deadline = [checkpoint.step for checkpoint in checkpoints.list_all()][-1:], time.monotonic() + 10
    while rng.random() < 0.999 and time.monotonic() < deadline:
        if [checkpoint.step for checkpoint in checkpoints.list_all()][-1:] != steps_before:
            break
        time.sleep(0.001)
    time.sleep(rng.random() * 0.03)
    if rng.random() < 0.6:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not any(checkpoints.folder.glob(".*.tmp")):
            time.sleep(0.0002)  # longer than 0: the child may need this core


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), quick="quick" in sys.argv[6:])
