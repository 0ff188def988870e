"""Gradients weigh what was asked, however a step is divided; evaluation draws no chance; all follows the clock."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebear.data.source import reopen_corpus
from forebear.experiments import pipeline
from forebear.models.gpt2 import GPT2Spec
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.next_token import NextToken
from forebear.training.checkpoint import CheckpointStore
from forebear.training.gradient import DeviceConfig, GradientLearner
from forebear.training.run_folder import MetricsLog
from forebear.training.settings import Recipe
from forebear.training.trainer import ProgressReport, Trainer
from small_runs import Notes, tokenizer, trained, weights


def learner(dropout: float = 0.0, **recipe: int) -> GradientLearner:
    milestone = GPT2Spec(width=16, depth=1, heads=2, context=8, dropout=dropout)
    made = GradientLearner(
        milestone.build(tokenizer()), Recipe(steps=1, clip=1e9, **recipe), DeviceConfig("cpu", 1, "float32")
    )
    made.initialize()
    return made


def uneven() -> Batch:
    """Rows of very different lengths, of which most asks come from the last."""
    lengths = np.array([1, 2, 8])
    tokens = np.arange(11) % 7 + 5
    targets = np.where(np.arange(11) < 2, IGNORE_INDEX, (tokens + 1) % 12)
    return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def test_a_divided_step_has_the_gradient_of_the_whole():
    """Seen in the optimiser's first moment, a tenth of the gradient: Adam's step itself would hide any scale."""
    whole, divided = learner(accumulate=1), learner(accumulate=3)
    losses = [one.step(uneven(), 0, 1.0)["next"] for one in (whole, divided)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, moment in whole.optimizer.state["exp_avg"].items():
        other = divided.optimizer.state["exp_avg"][name]
        assert moment.numpy() == pytest.approx(other.numpy(), rel=1e-3, abs=1e-7), name
        assert float(moment.abs().max()) > 0


def test_evaluation_draws_no_chance():
    one = learner(dropout=0.5)
    assert one.evaluate(uneven()) == one.evaluate(uneven())
    one.step(uneven(), 0, 0.0)
    assert one.evaluate(uneven()) == learner(dropout=0.0).evaluate(uneven())


def test_the_log_is_cut_back_to_where_a_run_goes_on(tmp_path: Path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (10, 20, 30):
        log.add(step=step, losses={"next": float("nan")})
    with open(log.path, "a") as file:
        file.write('{"step": 40, "los')
    log.truncate(20)
    assert list(log.read_lines()) == [{"step": 10, "losses": {"next": None}}, {"step": 20, "losses": {"next": None}}]
    assert log.path.read_text().count("\n") == 2


def test_saves_follow_the_clock(tmp_path: Path):
    """Without evaluations to save at, there are checkpoints if and only if their time has come."""

    def saved(name: str, every: float) -> bool:
        class Looking(Notes):
            there = False

            def on_progress(self, report: ProgressReport) -> None:
                self.there = self.there or bool(CheckpointStore(tmp_path / name / "checkpoints").list_all())

        looking = Looking()
        trained("gpt2", tmp_path, to=name, watcher=looking, steps=40, evaluate_every=1000, save_every=every)
        return looking.there

    assert saved("often", 1e-6)
    assert not saved("never", 1000)


def test_trying_is_a_part_of_the_time_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where steps take long, as of a large model, the trial must not come on top."""

    def slow(self: GradientLearner, batch: Batch) -> float:
        time.sleep(1.5)
        return 0.01

    monkeypatch.setattr(GradientLearner, "time_step", slow)
    run = trained("gpt2", tmp_path, time=2)
    first = next(MetricsLog(run.path / "metrics.jsonl").read_lines())
    assert first["seconds"] > 1.5  # the clock ran
    assert run.metadata["seconds"] < 3


def test_long_steps_are_tried_once(monkeypatch: pytest.MonkeyPatch):
    tried: list[float] = []
    made = learner()
    made.device = DeviceConfig("cpu", 2, "float32")
    monkeypatch.setattr(GradientLearner, "_time_one_step", lambda self, batch: tried.append(1.0) or 1.0)
    for seconds, count in ((10.0, 1), (10_000.0, 6)):
        made.recipe = Recipe(time=seconds)
        assert made.time_step(uneven()) == 1.0
        assert len(tried) == count
        tried.clear()


@pytest.mark.slow
def test_what_was_only_tried_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Steps of the trial leave nothing in the weights nor in the optimiser."""
    run = trained("gpt2", tmp_path, time=1.5, threads=1)
    again = pipeline.repeat_run(run.path, tmp_path / "again")
    assert weights(again) == weights(run)


def test_held_out_losses_are_weighed_by_what_was_asked(tmp_path: Path):
    """A learner for which every token costs two nats costs two nats a token, also where a batch is not full."""

    class Two:
        def evaluate(self, batch: Batch) -> dict[str, float]:
            return {"next": 2.0 * batch.supervised_counts()["next"]}

    run = trained("gpt2", tmp_path, steps=1)
    split = reopen_corpus(run.metadata["data"], run.tokenizer).split(run.recipe.held_out)
    objective = NextToken(13, run.tokenizer.special_roles["end"])  # more than divides the text
    trainer = Trainer(run, Two(), objective, split)  # pyright: ignore[reportArgumentType]
    batches = [trainer.objective.batch(split.held_out, 100, BatchKey(0, number)) for number in range(10)]
    assert any(batch.supervised_counts()["next"] < batch.num_target_tokens for batch in batches)
    trainer.recipe = replace(run.recipe, batch=100)
    assert trainer.evaluate() == pytest.approx({"next": 2.0})
