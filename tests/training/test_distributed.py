"""Two processes equal one with two accumulated micro-batches, bit for bit; sharded ones up to rounding."""

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
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe
from forebear.training.shared_memory import SharedMemorySync
from forebear.training.worker_processes import WorkerPool

EXACT_SYNCS = [SharedMemorySync, AllReduceSync]
SYNCS = [*EXACT_SYNCS, ShardedSync]
FIELDS: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "context": 12}
STEPS = 6


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    """A second process for all tests of this file."""
    pool = WorkerPool(2)
    yield pool
    pool.close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    assert [process.poll() for process in pool.processes] == [0]


def learner(spec_class: Any = GPT2Spec, *, dropout: float = 0.0, **recipe: Any) -> GradientLearner:
    torch.set_num_threads(1)
    tokenizer: Any = SimpleNamespace(vocab_size=40)
    spec = spec_class(**FIELDS, dropout=dropout)
    settings = Recipe(steps=1, threads=1, **({"clip": 1e6} | recipe))
    return GradientLearner(spec.build(tokenizer), settings, DeviceConfig("cpu", 1, "float32"))


def batch(step: int, spec_class: Any = GPT2Spec, rows: int = 7) -> Batch:
    """Sequences of very different lengths."""
    rng = np.random.default_rng([step, rows])
    lengths = rng.integers(2, FIELDS["context"] + 1, rows)
    tokens, target = rng.integers(5, 40, (2, lengths.sum()))
    inputs = {"tokens": tokens, "lengths": lengths}
    target[rng.random(len(target)) < 0.4] = IGNORE_INDEX
    if spec_class is GPT2Spec:
        return Batch(inputs, {"next": target})
    inputs["segments"] = rng.integers(0, 2, len(tokens))
    return Batch(inputs, {"token": target, "pair": rng.integers(0, 2, rows)})


def train_steps(
    trained_learner: Any, spec_class: Any = GPT2Spec, rows: int = 7, first: int = 0
) -> list[dict[str, float]]:
    return [trained_learner.step(batch(step, spec_class, rows), step, 0.7) for step in range(first, first + STEPS)]


def saved_tensors(trained_learner: Any, folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint."""
    folder.mkdir()
    trained_learner.save(folder)
    return {f"{file.name}/{name}": value for file in folder.iterdir() for name, value in load_file(file).items()}


def equal_tensors(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def nearly_equal(first: Any, second: Any) -> bool:
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-7)
    return True


@pytest.mark.sample(1)
@pytest.mark.parametrize("sync", EXACT_SYNCS)
@pytest.mark.parametrize("spec_class", [GPT2Spec, BertSpec])
def test_two_processes_equal_one_with_gradient_accumulation(
    worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync], spec_class: Any
):
    """Weights, optimizer moments, losses and held-out losses, also with dropout."""
    single = learner(spec_class, dropout=0.1, accumulate=2)
    distributed = MultiProcessLearner(learner(spec_class, dropout=0.1), worker_pool, sync)
    single.initialize()
    distributed.initialize()
    assert train_steps(distributed, spec_class) == train_steps(single, spec_class)
    assert distributed.evaluate(batch(99, spec_class)) == single.evaluate(batch(99, spec_class))
    assert equal_tensors(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))
    # training continues after an evaluation
    assert train_steps(distributed, spec_class, first=STEPS) == train_steps(single, spec_class, first=STEPS)


@pytest.mark.sample(1)
@pytest.mark.parametrize("spec_class", [GPT2Spec, BertSpec])
def test_sharded_processes_nearly_equal_one_process(worker_pool: WorkerPool, tmp_path: Path, spec_class: Any):
    """Shards cut vectors at other elements, so the last ones are rounded differently."""
    single = learner(spec_class, dropout=0.1, accumulate=2)
    distributed = MultiProcessLearner(learner(spec_class, dropout=0.1), worker_pool, ShardedSync)
    single.initialize()
    distributed.initialize()
    assert nearly_equal(train_steps(distributed, spec_class), train_steps(single, spec_class))
    assert nearly_equal(distributed.evaluate(batch(99, spec_class)), single.evaluate(batch(99, spec_class)))
    assert nearly_equal(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))
    assert nearly_equal(train_steps(distributed, spec_class, first=STEPS), train_steps(single, spec_class, first=STEPS))


@pytest.mark.parametrize("sync", SYNCS)
def test_gradient_clipping_equals_that_of_one_process(
    worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync]
):
    """Norms of shards are summed in another order."""
    single, distributed = learner(clip=0.01, accumulate=2), MultiProcessLearner(learner(clip=0.01), worker_pool, sync)
    for each_learner in (single, distributed):
        each_learner.initialize()
        each_learner.step(batch(0), 0, 1.0)
    compare = nearly_equal if sync is ShardedSync else equal_tensors
    assert compare(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))


@pytest.mark.parametrize("sync", SYNCS)
def test_checkpoint_of_two_processes_resumes_in_one_and_in_two(
    worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync]
):
    single, resumed_by_one, resumed_by_two = (
        learner(accumulate=2),
        learner(accumulate=2),
        MultiProcessLearner(learner(), worker_pool, sync),
    )
    single.initialize()
    train_steps(single)
    train_steps(single, first=STEPS)
    distributed = MultiProcessLearner(learner(), worker_pool, sync)
    distributed.initialize()
    train_steps(distributed)
    saved_tensors(distributed, tmp_path / "two")
    resumed_by_one.load(tmp_path / "two")
    train_steps(resumed_by_one, first=STEPS)
    assert equal_tensors(
        saved_tensors(resumed_by_one, tmp_path / "then-one"), saved_tensors(single, tmp_path / "alone")
    )
    resumed_by_two = MultiProcessLearner(learner(), worker_pool, sync)
    resumed_by_two.load(tmp_path / "two")
    train_steps(resumed_by_two, first=STEPS)
    assert equal_tensors(
        saved_tensors(resumed_by_two, tmp_path / "then-two"), saved_tensors(single, tmp_path / "alone-too")
    )


@pytest.mark.parametrize("sync", SYNCS)
def test_batch_of_one_sequence_is_trained_by_two_processes(
    worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync]
):
    single, distributed = learner(), MultiProcessLearner(learner(), worker_pool, sync)
    single.initialize()
    distributed.initialize()
    assert train_steps(distributed, rows=1) == train_steps(single, rows=1)
    assert distributed.evaluate(batch(9, rows=1)) == single.evaluate(batch(9, rows=1))
    assert equal_tensors(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))


@pytest.mark.parametrize("sync", SYNCS)
def test_non_finite_step_is_skipped_by_all_processes(worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync]):
    distributed = MultiProcessLearner(learner(), worker_pool, sync)
    distributed.initialize()
    before = saved_tensors(distributed, tmp_path / "before")
    assert np.isnan(distributed.step(replace(batch(0), weights={"next": float("nan")}), 0, 1.0)["next"])
    assert equal_tensors(saved_tensors(distributed, tmp_path / "after"), before)
    assert np.isfinite(distributed.step(batch(0), 0, 1.0)["next"])


@pytest.mark.parametrize("sync", SYNCS)
def test_frozen_parameters_stay_unchanged_in_all_processes(
    worker_pool: WorkerPool, tmp_path: Path, sync: type[GradientSync]
):
    learners = [learner(accumulate=2), learner()]
    for each_learner in learners:
        for parameter in each_learner.model.encoder.embedding.parameters():
            parameter.requires_grad_(False)
    single, distributed = learners[0], MultiProcessLearner(learners[1], worker_pool, sync)
    single.initialize()
    distributed.initialize()
    assert train_steps(distributed) == train_steps(single)
    assert equal_tensors(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))


class LimitedMemory:
    """Raises out of memory for parts of a batch with more than `tokens` tokens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
        plain_losses, self.refused = GradientLearner._losses, 0

        def losses(learner: GradientLearner, part: Batch) -> dict[str, torch.Tensor]:
            if part.num_target_tokens > tokens:
                self.refused += 1
                torch.empty(1 << 60)  # raises torch's own error
            return plain_losses(learner, part)

        monkeypatch.setattr(GradientLearner, "_losses", losses)


def test_step_out_of_memory_is_accumulated_in_smaller_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    accumulated, limited = learner(accumulate=4), learner()
    accumulated.initialize()
    limited.initialize()
    expected = train_steps(accumulated)
    memory = LimitedMemory(
        monkeypatch, max(part.num_target_tokens for step in range(STEPS) for part in batch(step).split(4))
    )
    assert train_steps(limited)[1:] == expected[1:]
    assert memory.refused == 2  # refused as one part and as two; accepted as four
    assert equal_tensors(saved_tensors(limited, tmp_path / "small"), saved_tensors(accumulated, tmp_path / "divided"))
    assert limited.notes == [
        "memory is too small for a step in 1 part: from now on it is made in 2",
        "memory is too small for a step in 2 parts: from now on it is made in 4",
    ]


@pytest.mark.parametrize("sync", [SharedMemorySync, AllReduceSync])
def test_all_processes_split_a_step_that_is_out_of_memory_in_one(
    worker_pool: WorkerPool, sync: type[GradientSync], monkeypatch: pytest.MonkeyPatch
):
    """Only the first process lacks memory; the other repeats its part."""
    single, distributed = learner(), MultiProcessLearner(learner(), worker_pool, sync)
    single.initialize()
    distributed.initialize()
    expected = train_steps(single)
    memory = LimitedMemory(
        monkeypatch, max(part.num_target_tokens for step in range(STEPS) for part in batch(step).split(4))
    )
    actual = train_steps(distributed)
    assert [losses["next"] for losses in actual] == pytest.approx([losses["next"] for losses in expected], rel=1e-4)
    assert memory.refused == 1
    assert distributed.notes == ["memory is too small for a step in 2 parts: from now on it is made in 4"]


def test_memory_too_small_for_one_example_is_an_error(monkeypatch: pytest.MonkeyPatch):
    limited = learner()
    limited.initialize()
    LimitedMemory(monkeypatch, 0)
    with pytest.raises(ForebearError, match="a single example at a time"):
        limited.step(batch(0), 0, 1.0)


def test_other_runtime_errors_are_not_treated_as_out_of_memory(monkeypatch: pytest.MonkeyPatch):
    def losses(learner: GradientLearner, part: Batch) -> dict[str, torch.Tensor]:
        return {"next": torch.ones(2, 3, requires_grad=True) @ torch.ones(2, 3)}

    monkeypatch.setattr(GradientLearner, "_losses", losses)
    failing = learner()
    failing.initialize()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        failing.step(batch(0), 0, 1.0)
    assert failing.notes == []


@pytest.mark.slow
def test_three_processes_equal_accumulation_and_report_worker_errors(tmp_path: Path):
    pool = WorkerPool(3)
    try:
        single, distributed = learner(accumulate=3), MultiProcessLearner(learner(), pool, SharedMemorySync)
        single.initialize()
        distributed.initialize()
        assert train_steps(distributed) == train_steps(single)
        assert equal_tensors(saved_tensors(distributed, tmp_path / "led"), saved_tensors(single, tmp_path / "alone"))
        pool.send(["what nobody understands"] * 2)
        with pytest.raises(ForebearError, match=r"in process [12]: nobody knows what to do"):
            pool.receive_answers()
    finally:
        pool.close(0)
