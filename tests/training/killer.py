"""Trains in child processes that are killed at random moments, also inside a save, until one of them finishes.

    killer.py MILESTONE TEXT FOLDER KILLS SEED [quick]

In place of a milestone, crf-tags means a CRF that learns tags, bert-tags a small BERT that is adapted to them.
Prints as JSON how many were killed, how many of them while saving, and at how many different steps they went on.
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


def learning(name: str, text: Path, *, quick: bool) -> Callable[..., RunFolder]:
    """What trains this into a folder, for a few steps only where it is asked."""
    if not name.endswith("-tags"):
        from forebear.experiments import pipeline
        from small_runs import plan, to_be_killed

        def pretrain(to: Path, watcher: TrainingCallback | None = None, **changes: Any) -> RunFolder:
            what = plan(name, text, **to_be_killed(name, quick=quick) | changes)
            return pipeline.run_pretraining(what, to, watcher=watcher)

        return pretrain
    from labelled_texts import adapted
    from small_runs import trained

    begin: str | Path = "crf"
    steps = 21 if quick else 60
    if name == "bert-tags":
        begin = trained("bert", text.parent, to="bert", steps=2, context=48).path
    often = {"save_every": 0.001, "crf": True, "evaluate_every": 5} if name == "bert-tags" else {"save_every": 0.001}

    def adapt(to: Path, watcher: TrainingCallback | None = None, **changes: Any) -> RunFolder:
        return adapted(
            begin, "tagging", text.parent, to=to.name, watcher=watcher, **{"steps": steps, **often, **changes}
        )

    return adapt


def main(name: str, text: str, folder: str, kills: int, seed: int, *, quick: bool) -> None:
    if name not in ("ngram", "hmm", "crf-tags", "word2vec", "glove", "onehot"):
        import torch

        torch.set_num_threads(1)
    trainer.SAVE_INTERVAL_FACTOR = 2  # else a child learns for long, and most of it in vain, until it saves again
    learn = learning(name, Path(text), quick=quick)
    learn(Path(f"{folder}-before"), steps=3)  # libraries are loaded and loops compiled once, before the forks
    chance, done, inside = random.Random(seed), 0, 0
    places: set[int] = set()
    checkpoints = CheckpointStore(Path(folder) / "checkpoints")
    while True:
        child = os.fork()
        if child == 0:
            learn(Path(folder), Leash((done + 1) / (kills + 1)) if done < kills else None)
            os._exit(0)
        if done < kills:
            _wait(chance, checkpoints)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            print(json.dumps({"kills": done, "inside": inside, "places": len(places)}))
            return
        done += 1
        inside += any(checkpoints.folder.glob(".*.tmp")) or any(checkpoints.folder.glob(".*.old"))
        places |= {one.step for one in checkpoints.list_all()[-1:]}


class Leash(TrainingCallback):
    """A killer that comes late, on a busy machine, must not find its child at the goal.

    Once the child has come a certain share of the way, it saves at once and waits inside that save for its end.
    """

    def __init__(self, share: float) -> None:
        self.share, self.reached = share, False
        save = CheckpointStore.save

        def saved(
            all_of_it: CheckpointStore, step: int, state: dict[str, Any], write: Callable[[Path], None]
        ) -> Checkpoint:
            return save(all_of_it, step, state, lambda place: self.hold(write, place))

        CheckpointStore.save = saved

    def on_progress(self, report: ProgressReport) -> None:
        if report.step >= self.share * (report.total or 0):
            self.reached, trainer.SAVE_INTERVAL_FACTOR = True, 0

    def hold(self, write: Callable[[Path], None], place: Path) -> None:
        write(place)
        while self.reached:
            signal.pause()


def _wait(chance: random.Random, checkpoints: CheckpointStore) -> None:
    """A moment at random: at once, or after the child has come a little further; then often the next save."""
    before, until = [one.step for one in checkpoints.list_all()][-1:], time.monotonic() + 10
    while chance.random() < 0.999 and time.monotonic() < until:
        if [one.step for one in checkpoints.list_all()][-1:] != before:
            break
        time.sleep(0.001)
    time.sleep(chance.random() * 0.03)
    if chance.random() < 0.6:
        until = time.monotonic() + 10
        while time.monotonic() < until and not any(checkpoints.folder.glob(".*.tmp")):
            time.sleep(0.0002)  # not for nothing: the child may need this very core


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), quick="quick" in sys.argv[6:])
