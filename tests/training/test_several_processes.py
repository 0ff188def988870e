"""Two processes make the steps that one makes of two parts, bit for bit; sharded ones, but for the last digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from forebear.errors import ForebearError
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.objectives.batch import IGNORE_INDEX, Batch
from forebear.training.distributed import AllReduceSync, GradientSync, MultiProcessLearner, ShardedSync
from forebear.training.gradient import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe
from forebear.training.shared_memory import SharedMemorySync
from forebear.training.worker_processes import WorkerPool

EXACT = [SharedMemorySync, AllReduceSync]
WAYS = [*EXACT, ShardedSync]
FIELDS: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "context": 12}
STEPS = 6


@pytest.fixture(scope="module")
def line() -> Iterator[WorkerPool]:
    """A second process, for all tests of this file: it may learn one thing after another."""
    made = WorkerPool(2)
    yield made
    made.close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    assert [process.poll() for process in made.processes] == [0]


def learner(milestone: Any = GPT2Spec, *, dropout: float = 0.0, **recipe: Any) -> GradientLearner:
    torch.set_num_threads(1)
    tokenizer: Any = SimpleNamespace(vocab_size=40)
    made = milestone(**FIELDS, dropout=dropout)
    settings = Recipe(steps=1, threads=1, **({"clip": 1e6} | recipe))
    return GradientLearner(made.build(tokenizer), settings, DeviceConfig("cpu", 1, "float32"))


def batch(step: int, milestone: Any = GPT2Spec, rows: int = 7) -> Batch:
    """Rows of very different lengths."""
    rng = np.random.default_rng([step, rows])
    lengths = rng.integers(2, FIELDS["context"] + 1, rows)
    tokens, target = rng.integers(5, 40, (2, lengths.sum()))
    inputs = {"tokens": tokens, "lengths": lengths}
    target[rng.random(len(target)) < 0.4] = IGNORE_INDEX
    if milestone is GPT2Spec:
        return Batch(inputs, {"next": target})
    inputs["segments"] = rng.integers(0, 2, len(tokens))
    return Batch(inputs, {"token": target, "pair": rng.integers(0, 2, rows)})


def taught(one: Any, milestone: Any = GPT2Spec, rows: int = 7, first: int = 0) -> list[dict[str, float]]:
    return [one.step(batch(step, milestone, rows), step, 0.7) for step in range(first, first + STEPS)]


def saved(one: Any, folder: Path) -> dict[str, torch.Tensor]:
    """All that it knows, as it would go into a checkpoint."""
    folder.mkdir()
    one.save(folder)
    return {f"{file.name}/{name}": value for file in folder.iterdir() for name, value in load_file(file).items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def close(one: Any, other: Any) -> bool:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)
    return True


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", EXACT)
@pytest.mark.parametrize("milestone", [GPT2Spec, BertSpec])
def test_two_processes_are_one_that_divides_its_steps(
    line: WorkerPool, tmp_path: Path, way: type[GradientSync], milestone: Any
):
    """Weights, moments, losses and held-out losses, with dropout too."""
    alone = learner(milestone, dropout=0.1, accumulate=2)
    led = MultiProcessLearner(learner(milestone, dropout=0.1), line, way)
    alone.initialize()
    led.initialize()
    assert taught(led, milestone) == taught(alone, milestone)
    assert led.evaluate(batch(99, milestone)) == alone.evaluate(batch(99, milestone))
    assert same(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))
    assert taught(led, milestone, first=STEPS) == taught(alone, milestone, first=STEPS)  # and on, after a look


@pytest.mark.sample(1)
@pytest.mark.parametrize("milestone", [GPT2Spec, BertSpec])
def test_sharded_processes_nearly_are(line: WorkerPool, tmp_path: Path, milestone: Any):
    """A slice of a vector ends elsewhere, and its last numbers are rounded otherwise."""
    alone = learner(milestone, dropout=0.1, accumulate=2)
    led = MultiProcessLearner(learner(milestone, dropout=0.1), line, ShardedSync)
    alone.initialize()
    led.initialize()
    assert close(taught(led, milestone), taught(alone, milestone))
    assert close(led.evaluate(batch(99, milestone)), alone.evaluate(batch(99, milestone)))
    assert close(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))
    assert close(taught(led, milestone, first=STEPS), taught(alone, milestone, first=STEPS))


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_clipped_as_by_one(line: WorkerPool, tmp_path: Path, way: type[GradientSync]):
    """Norms of shards are added up in another order."""
    alone, led = learner(clip=0.01, accumulate=2), MultiProcessLearner(learner(clip=0.01), line, way)
    for one in (alone, led):
        one.initialize()
        one.step(batch(0), 0, 1.0)
    as_good = close if way is ShardedSync else same
    assert as_good(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))


@pytest.mark.parametrize("way", WAYS)
def test_what_several_save_one_goes_on_with_and_back(line: WorkerPool, tmp_path: Path, way: type[GradientSync]):
    alone, first, last = learner(accumulate=2), learner(accumulate=2), MultiProcessLearner(learner(), line, way)
    alone.initialize()
    taught(alone)
    taught(alone, first=STEPS)
    led = MultiProcessLearner(learner(), line, way)
    led.initialize()
    taught(led)
    saved(led, tmp_path / "two")
    first.load(tmp_path / "two")
    taught(first, first=STEPS)
    assert same(saved(first, tmp_path / "then-one"), saved(alone, tmp_path / "alone"))
    last = MultiProcessLearner(learner(), line, way)
    last.load(tmp_path / "two")
    taught(last, first=STEPS)
    assert same(saved(last, tmp_path / "then-two"), saved(alone, tmp_path / "alone-too"))


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_one_row_leaves_nothing_to_do_for_the_others(
    line: WorkerPool, tmp_path: Path, way: type[GradientSync]
):
    alone, led = learner(), MultiProcessLearner(learner(), line, way)
    alone.initialize()
    led.initialize()
    assert taught(led, rows=1) == taught(alone, rows=1)
    assert led.evaluate(batch(9, rows=1)) == alone.evaluate(batch(9, rows=1))
    assert same(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))


@pytest.mark.parametrize("way", WAYS)
def test_a_step_that_is_no_number_is_taken_by_none(line: WorkerPool, tmp_path: Path, way: type[GradientSync]):
    led = MultiProcessLearner(learner(), line, way)
    led.initialize()
    before = saved(led, tmp_path / "before")
    assert np.isnan(led.step(replace(batch(0), weights={"next": float("nan")}), 0, 1.0)["next"])
    assert same(saved(led, tmp_path / "after"), before)
    assert np.isfinite(led.step(batch(0), 0, 1.0)["next"])


@pytest.mark.parametrize("way", WAYS)
def test_what_is_frozen_stays(line: WorkerPool, tmp_path: Path, way: type[GradientSync]):
    made = [learner(accumulate=2), learner()]
    for one in made:
        for parameter in one.model.encoder.embedding.parameters():
            parameter.requires_grad_(False)
    alone, led = made[0], MultiProcessLearner(made[1], line, way)
    alone.initialize()
    led.initialize()
    assert taught(led) == taught(alone)
    assert same(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))


class Small:
    """A memory that holds so many tokens of a batch at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
        whole, self.refused = GradientLearner._losses, 0

        def losses(learner: GradientLearner, given: Batch) -> dict[str, torch.Tensor]:
            if given.num_target_tokens > tokens:
                self.refused += 1
                torch.empty(1 << 60)  # what torch itself says
            return whole(learner, given)

        monkeypatch.setattr(GradientLearner, "_losses", losses)


def test_a_step_too_large_for_memory_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    divided, small = learner(accumulate=4), learner()
    divided.initialize()
    small.initialize()
    expected = taught(divided)
    memory = Small(monkeypatch, max(part.num_target_tokens for step in range(STEPS) for part in batch(step).split(4)))
    assert taught(small)[1:] == expected[1:]
    assert memory.refused == 2  # in one, in two; from then on in four
    assert same(saved(small, tmp_path / "small"), saved(divided, tmp_path / "divided"))
    assert small.notes == [
        "memory is too small for a step in 1 part: from now on it is made in 2",
        "memory is too small for a step in 2 parts: from now on it is made in 4",
    ]


@pytest.mark.parametrize("way", [SharedMemorySync, AllReduceSync])
def test_all_divide_what_is_too_large_for_one(
    line: WorkerPool, way: type[GradientSync], monkeypatch: pytest.MonkeyPatch
):
    """Only the first process lacks memory; the other has to do its part anew."""
    whole, led = learner(), MultiProcessLearner(learner(), line, way)
    whole.initialize()
    led.initialize()
    expected = taught(whole)
    memory = Small(monkeypatch, max(part.num_target_tokens for step in range(STEPS) for part in batch(step).split(4)))
    found = taught(led)
    assert [one["next"] for one in found] == pytest.approx([one["next"] for one in expected], rel=1e-4)
    assert memory.refused == 1
    assert led.notes == ["memory is too small for a step in 2 parts: from now on it is made in 4"]


def test_memory_too_small_for_anything_is_said(monkeypatch: pytest.MonkeyPatch):
    one = learner()
    one.initialize()
    Small(monkeypatch, 0)
    with pytest.raises(ForebearError, match="a single example at a time"):
        one.step(batch(0), 0, 1.0)


def test_other_failures_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch):
    def losses(learner: GradientLearner, given: Batch) -> dict[str, torch.Tensor]:
        return {"next": torch.ones(2, 3, requires_grad=True) @ torch.ones(2, 3)}

    monkeypatch.setattr(GradientLearner, "_losses", losses)
    one = learner()
    one.initialize()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        one.step(batch(0), 0, 1.0)
    assert one.notes == []


@pytest.mark.slow
def test_three_add_up_in_their_order_and_a_failure_of_one_is_told(tmp_path: Path):
    three = WorkerPool(3)
    try:
        alone, led = learner(accumulate=3), MultiProcessLearner(learner(), three, SharedMemorySync)
        alone.initialize()
        led.initialize()
        assert taught(led) == taught(alone)
        assert same(saved(led, tmp_path / "led"), saved(alone, tmp_path / "alone"))
        three.send(["what nobody understands"] * 2)
        with pytest.raises(ForebearError, match=r"in process [12]: nobody knows what to do"):
            three.receive_answers()
    finally:
        three.close(0)
