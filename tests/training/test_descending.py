"""Gradients weigh what was asked, however a step is divided; evaluation draws no chance; all follows the clock."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebear.milestones.gpt2 import Gpt2
from forebear.objectives.batch import NOTHING, Batch, Moment
from forebear.objectives.next_token import NextToken
from forebear.training.checkpoint import Checkpoints
from forebear.training.corpora import corpus_again
from forebear.training.descending import Descending
from forebear.training.device import Device
from forebear.training.metrics import Metrics
from forebear.training.recipe import Recipe
from forebear.training.trainer import Report, Trainer
from forebear.using import pretraining
from small_runs import Notes, tokenizer, trained, weights


def learner(dropout: float = 0.0, **recipe: int) -> Descending:
    milestone = Gpt2(width=16, depth=1, heads=2, context=8, dropout=dropout)
    made = Descending(milestone.network(tokenizer()), Recipe(steps=1, clip=1e9, **recipe), Device("cpu", 1, "float32"))
    made.begin()
    return made


def uneven() -> Batch:
    """Rows of very different lengths, of which most asks come from the last."""
    lengths = np.array([1, 2, 8])
    tokens = np.arange(11) % 7 + 5
    targets = np.where(np.arange(11) < 2, NOTHING, (tokens + 1) % 12)
    return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def test_a_divided_step_has_the_gradient_of_the_whole():
    """Seen in the optimiser's first moment, a tenth of the gradient: Adam's step itself would hide any scale."""
    whole, divided = learner(accumulate=1), learner(accumulate=3)
    losses = [one.step(uneven(), 0, 1.0)["next"] for one in (whole, divided)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, moment in whole.optimiser.state["exp_avg"].items():
        other = divided.optimiser.state["exp_avg"][name]
        assert moment.numpy() == pytest.approx(other.numpy(), rel=1e-3, abs=1e-7), name
        assert float(moment.abs().max()) > 0


def test_evaluation_draws_no_chance():
    one = learner(dropout=0.5)
    assert one.examine(uneven()) == one.examine(uneven())
    one.step(uneven(), 0, 0.0)
    assert one.examine(uneven()) == learner(dropout=0.0).examine(uneven())


def test_the_log_is_cut_back_to_where_a_run_goes_on(tmp_path: Path):
    log = Metrics(tmp_path / "metrics.jsonl")
    for step in (10, 20, 30):
        log.add(step=step, losses={"next": float("nan")})
    with open(log.file, "a") as file:
        file.write('{"step": 40, "los')
    log.cut(20)
    assert list(log.read()) == [{"step": 10, "losses": {"next": None}}, {"step": 20, "losses": {"next": None}}]
    assert log.file.read_text().count("\n") == 2


def test_saves_follow_the_clock(tmp_path: Path):
    """Without evaluations to save at, there are checkpoints if and only if their time has come."""

    def saved(name: str, every: float) -> bool:
        class Looking(Notes):
            there = False

            def report(self, report: Report) -> None:
                self.there = self.there or bool(Checkpoints(tmp_path / name / "checkpoints").all())

        looking = Looking()
        trained("gpt2", tmp_path, to=name, watcher=looking, steps=40, evaluate_every=1000, save_every=every)
        return looking.there

    assert saved("often", 1e-6)
    assert not saved("never", 1000)


def test_trying_is_a_part_of_the_time_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where steps take long, as of a large model, the trial must not come on top."""

    def slow(self: Descending, batch: Batch) -> float:
        time.sleep(1.5)
        return 0.01

    monkeypatch.setattr(Descending, "tried", slow)
    run = trained("gpt2", tmp_path, time=2)
    first = next(Metrics(run.path / "metrics.jsonl").read())
    assert first["seconds"] > 1.5  # the clock ran
    assert run.facts["seconds"] < 3


def test_long_steps_are_tried_once(monkeypatch: pytest.MonkeyPatch):
    tried: list[float] = []
    made = learner()
    made.device = Device("cpu", 2, "float32")
    monkeypatch.setattr(Descending, "_timed", lambda self, batch: tried.append(1.0) or 1.0)
    for seconds, count in ((10.0, 1), (10_000.0, 6)):
        made.recipe = Recipe(time=seconds)
        assert made.tried(uneven()) == 1.0
        assert len(tried) == count
        tried.clear()


def test_what_was_only_tried_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Steps of the trial leave nothing in the weights nor in the optimiser."""
    run = trained("gpt2", tmp_path, time=1.5, threads=1)
    again = pretraining.again(run.path, tmp_path / "again")
    assert weights(again) == weights(run)


def test_held_out_losses_are_weighed_by_what_was_asked(tmp_path: Path):
    """A learner for which every token costs two nats costs two nats a token, also where a batch is not full."""

    class Two:
        def examine(self, batch: Batch) -> dict[str, float]:
            return {"next": 2.0 * batch.asked()["next"]}

    run = trained("gpt2", tmp_path, steps=1)
    split = corpus_again(run.facts["data"], run.tokenizer).split(run.recipe.held_out)
    objective = NextToken(13, run.tokenizer.roles["end"])  # more than divides the text
    trainer = Trainer(run, Two(), objective, split)  # pyright: ignore[reportArgumentType]
    batches = [trainer.objective.batch(split.held_out, 100, Moment(0, number)) for number in range(10)]
    assert any(batch.asked()["next"] < batch.tokens for batch in batches)
    trainer.recipe = replace(run.recipe, batch=100)
    assert trainer.examine() == pytest.approx({"next": 2.0})
