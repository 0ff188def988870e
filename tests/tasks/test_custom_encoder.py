"""A custom encoder works with every task and every adaptation method without a change to either."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from adapted_runs import TASKS, adapt_small_run
from forebear.inference.run import Run
from forebear.inspection.attribution import attribute
from forebear.registry import LINEAGE, LineageEntry

sys.path.insert(0, str(Path(__file__).parents[1]))  # the lineage names modules


@pytest.fixture(autouse=True)
def lineage_entry(monkeypatch: pytest.MonkeyPatch):
    module_path = "custom_encoder_model:GRUSpec"
    monkeypatch.setitem(LINEAGE, "strange", LineageEntry("strange", "Strange", 2026, "nobody", "a test", module_path))
    # its pre-training heads are not needed here
    monkeypatch.setattr("forebear.experiments.adapt_defaults._pretraining_heads", lambda spec, init_from: ())


@pytest.mark.parametrize("task", TASKS)
def test_custom_encoder_adapts_to_every_task(task: str, tmp_path: Path):
    run = Run.open(adapt_small_run("strange", task, tmp_path, steps=5).path)
    assert run.task.verb in run.capabilities
    assert run.metadata["metrics"]["dev"][run.task.metric] >= 0


@pytest.mark.parametrize("how", ["freeze", "features"])
def test_custom_encoder_can_be_frozen(how: str, tmp_path: Path):
    options = {"freeze_layers": 1} if how == "freeze" else {}
    folder = adapt_small_run("strange", "classification", tmp_path, steps=3, how=how, **options)
    assert folder.is_finished


def test_custom_encoder_learns_tagging(tmp_path: Path):
    folder = adapt_small_run("strange", "tagging", tmp_path, count=150, steps=120)
    assert folder.metadata["metrics"]["dev"]["f1"] > 0.5


def test_custom_encoder_supports_attribution(tmp_path: Path):
    run = Run.open(adapt_small_run("strange", "classification", tmp_path, steps=5).path)
    attribution = attribute(run, "The cat sat on the mat.")
    assert [word.text for word in attribution.words if word.text.strip()]
    assert abs(attribution.gap) <= 0.02 * max(abs(attribution.score - attribution.baseline), 0.1)
