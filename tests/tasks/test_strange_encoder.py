"""An encoder of another kind serves every task, in every way of adapting, without a change to any of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forebear.inference.run import Run
from forebear.inspection.attribution import attribute
from forebear.registry import LINEAGE, LineageEntry
from labelled_texts import TASKS, adapted

sys.path.insert(0, str(Path(__file__).parents[1]))  # the table of milestones names modules


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch):
    place = "a_strange_encoder:Strange"
    monkeypatch.setitem(LINEAGE, "strange", LineageEntry("strange", "Strange", 2026, "nobody", "a test", place))
    # what it was pre-trained for is nobody's business here
    monkeypatch.setattr("forebear.experiments.adapt_defaults._pretraining_heads", lambda spec, init_from: ())


@pytest.mark.parametrize("task", TASKS)
def test_it_serves_every_task(task: str, tmp_path: Path):
    run = Run.open(adapted("strange", task, tmp_path, steps=5).path)
    assert run.task.verb in run.capabilities
    assert run.metadata["metrics"]["dev"][run.task.score] >= 0


@pytest.mark.parametrize("how", ["freeze", "features"])
def test_it_may_stay_as_it_is(how: str, tmp_path: Path):
    more = {"freeze_layers": 1} if how == "freeze" else {}
    made = adapted("strange", "classification", tmp_path, steps=3, how=how, **more)
    assert made.is_finished


def test_it_learns(tmp_path: Path):
    made = adapted("strange", "tagging", tmp_path, count=150, steps=120)
    assert made.metadata["metrics"]["dev"]["f1"] > 0.5


def test_it_can_be_asked_why(tmp_path: Path):
    run = Run.open(adapted("strange", "classification", tmp_path, steps=5).path)
    told = attribute(run, "The cat sat on the mat.")
    assert [word.text for word in told.words if word.text.strip()]
    assert abs(told.gap) <= 0.02 * max(abs(told.score - told.baseline), 0.1)
