"""The gradient learner: gradient accumulation, evaluation without dropout, saves by time, weighting of losses."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebear.data.source import reopen_corpus
from forebear.experiments import training_run
from forebear.models.gpt2 import GPT2Spec
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.next_token import NextToken
from forebear.training.checkpoint import CheckpointStore
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.run_folder import MetricsLog
from forebear.training.settings import Recipe
from forebear.training.trainer import ProgressReport, Trainer
from small_runs import NoteRecorder, small_tokenizer, train_small_run, weights_digest


def learner(dropout: float = 0.0, **recipe: int) -> GradientLearner:
    spec = GPT2Spec(width=16, depth=1, heads=2, context=8, dropout=dropout)
    result = GradientLearner(
        spec.build(small_tokenizer()), Recipe(steps=1, clip=1e9, **recipe), DeviceConfig("cpu", 1, "float32")
    )
    result.initialize()
    return result


def uneven_batch() -> Batch:
    """Sequences of very different lengths; most supervised positions are in the last."""
    lengths = np.array([1, 2, 8])
    tokens = np.arange(11) % 7 + 5
    targets = np.where(np.arange(11) < 2, IGNORE_INDEX, (tokens + 1) % 12)
    return Batch({"tokens": tokens, "lengths": lengths}, {"next": targets})


def test_gradient_accumulation_gives_the_gradient_of_the_full_batch():
    """Compares Adam's first moment (a tenth of the gradient): the update itself would hide any scale."""
    full, accumulated = learner(accumulate=1), learner(accumulate=3)
    losses = [model_learner.step(uneven_batch(), 0, 1.0)["next"] for model_learner in (full, accumulated)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, first_moment in full.optimizer.state["exp_avg"].items():
        accumulated_moment = accumulated.optimizer.state["exp_avg"][name]
        assert first_moment.numpy() == pytest.approx(accumulated_moment.numpy(), rel=1e-3, abs=1e-7), name
        assert float(first_moment.abs().max()) > 0


def test_evaluate_applies_no_dropout():
    dropout_learner = learner(dropout=0.5)
    assert dropout_learner.evaluate(uneven_batch()) == dropout_learner.evaluate(uneven_batch())
    dropout_learner.step(uneven_batch(), 0, 0.0)
    assert dropout_learner.evaluate(uneven_batch()) == learner(dropout=0.0).evaluate(uneven_batch())


def test_metrics_log_is_truncated_to_the_resumed_step(tmp_path: Path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (10, 20, 30):
        log.add(step=step, losses={"next": float("nan")})
    with open(log.path, "a") as file:
        file.write('{"step": 40, "los')
    log.truncate(20)
    assert list(log.read_lines()) == [{"step": 10, "losses": {"next": None}}, {"step": 20, "losses": {"next": None}}]
    assert log.path.read_text().count("\n") == 2


def test_checkpoints_are_saved_when_save_every_has_passed(tmp_path: Path):
    """Without evaluations, only the elapsed time causes a save."""

    def saves_while_training(name: str, every: float) -> bool:
        class CheckpointNotes(NoteRecorder):
            has_checkpoint = False

            def on_progress(self, report: ProgressReport) -> None:
                self.has_checkpoint = self.has_checkpoint or bool(
                    CheckpointStore(tmp_path / name / "checkpoints").list_all()
                )

        notes = CheckpointNotes()
        train_small_run("gpt2", tmp_path, to=name, callback=notes, steps=40, evaluate_every=1000, save_every=every)
        return notes.has_checkpoint

    assert saves_while_training("often", 1e-6)
    assert not saves_while_training("never", 1000)


def test_timing_of_a_step_counts_towards_the_time_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A trial step of a large model takes long and must not add to the budget."""

    def slow_time_step(self: GradientLearner, batch: Batch) -> float:
        time.sleep(1.5)
        return 0.01

    monkeypatch.setattr(GradientLearner, "time_step", slow_time_step)
    run = train_small_run("gpt2", tmp_path, time=2)
    first_line = next(MetricsLog(run.path / "metrics.jsonl").read_lines())
    assert first_line["seconds"] > 1.5  # the clock ran
    assert run.metadata["seconds"] < 3


def test_time_step_repeats_only_short_steps(monkeypatch: pytest.MonkeyPatch):
    step_times: list[float] = []
    model_learner = learner()
    model_learner.device = DeviceConfig("cpu", 2, "float32")
    monkeypatch.setattr(GradientLearner, "_time_one_step", lambda self, batch: step_times.append(1.0) or 1.0)
    for seconds, count in ((10.0, 1), (10_000.0, 6)):
        model_learner.recipe = Recipe(time=seconds)
        assert model_learner.time_step(uneven_batch()) == 1.0
        assert len(step_times) == count
        step_times.clear()


@pytest.mark.slow
def test_timing_a_step_leaves_weights_and_optimizer_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Repeating the run without the trial gives the same weights."""
    run = train_small_run("gpt2", tmp_path, time=1.5, threads=1)
    repeated = training_run.repeat_run(run.path, tmp_path / "again")
    assert weights_digest(repeated) == weights_digest(run)


def test_held_out_loss_is_weighted_by_supervised_positions(tmp_path: Path):
    """A learner with a loss of 2 nats per token has a held-out loss of 2, also where a batch is not full."""

    class TwoNatsLearner:
        def evaluate(self, batch: Batch) -> dict[str, float]:
            return {"next": 2.0 * batch.supervised_counts()["next"]}

    run = train_small_run("gpt2", tmp_path, steps=1)
    split = reopen_corpus(run.metadata["data"], run.tokenizer).split(run.recipe.held_out)
    objective = NextToken(13, run.tokenizer.special_roles["end"])  # does not divide the length of the text
    trainer = Trainer(run, TwoNatsLearner(), objective, split)  # pyright: ignore[reportArgumentType]
    batches = [trainer.objective.batch(split.held_out, 100, BatchKey(0, number)) for number in range(10)]
    assert any(batch.supervised_counts()["next"] < batch.num_target_tokens for batch in batches)
    trainer.recipe = replace(run.recipe, batch=100)
    assert trainer.evaluate() == pytest.approx({"next": 2.0})
