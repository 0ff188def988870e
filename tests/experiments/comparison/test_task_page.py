"""The page of a comparison on a task: whole, closed to the network, escaped, and saying what the comparison says."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from task_comparisons import ALL, BEST, BROKEN, LINEAR, comparison, row, trial
from test_page import EVIL, cells, parsed
from test_task_verdict import ablated

from forebear.experiments.comparison.cost_plot import COST_AXES, plot_task_comparison, task_plot_scale
from forebear.experiments.comparison.report import task_comparison_page
from forebear.experiments.comparison.results import TaskBaseline, TaskTrial


def test_the_page_says_what_the_comparison_says():
    made = task_comparison_page(replace(ALL, remarks=("Mind this.",)))
    words = " ".join(parsed(made).text)
    for told in ("Bert does best", "900 examples to learn from, 500 to be tested on", "is Gpt: 2 MB", "Mind this."):
        assert told in words
    assert "forebear classify tasks/bert-0 …" in words
    linear, small, best, broken = cells(made)
    assert linear[2] == "80.0"
    assert best[2].startswith("89.9 ± 0.1")
    assert "best" in best[1].split()
    assert "best" not in small[1].split()
    assert broken[2] == "killed by SIGKILL"
    assert "majority" in made


def test_variants_have_what_papers_found():
    words = " ".join(parsed(task_comparison_page(ablated())).text)
    assert "What papers found" in words
    assert "sees the past" in words
    assert "What papers found" not in task_comparison_page(ALL)


def test_the_page_needs_nothing_from_elsewhere():
    made = task_comparison_page(ALL)
    assert "default-src 'none'" in made
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|\ssrc=|\shref=", made)


def test_everything_is_escaped():
    wild = row("bert", 2000, trial(0.5, 9, 1.0, size=EVIL, run=EVIL, error=EVIL), title=EVIL, differs=EVIL, papers=EVIL)
    broken = row("gpt", 2001, TaskTrial(0, error=EVIL), title=EVIL)
    facts = {"machine": EVIL, "command": EVIL, "forebear": EVIL, "when": EVIL, "files": {"train": EVIL}}
    settings = {"budget": EVIL, "adapting_budget": EVIL, "seeds": [0, 1]}
    sticks = (TaskBaseline(EVIL, 0.49, EVIL),)
    made = comparison(wild, broken, facts=facts, settings=settings, baselines=sticks, remarks=(EVIL,))
    told = task_comparison_page(replace(made, texts=(EVIL,), task=EVIL, figure=EVIL, verb=EVIL))
    parsed(told)
    assert told.count("<script>") == 1
    assert "alert('x')</script>" not in told


@pytest.mark.parametrize("rows", [(), (LINEAR,), (BROKEN,), (row("bert", 1, trial(0.0, 1, 0.001)),)])
def test_pages_of_little_are_whole(rows):
    made = task_comparison_page(comparison(*rows, finished=False))
    parsed(made)
    assert "not finished" in made


@pytest.mark.parametrize("price", COST_AXES)
def test_the_plot_is_sound_and_holds_everything(price):
    root = ElementTree.fromstring(plot_task_comparison(ALL, price))
    names = [element.text for element in root.iter("text")]
    assert {"Ngram", "Gpt", "Bert"} <= set(names)
    means = [element for element in root.iter("circle") if element.get("class") == "mean"]
    assert len(means) == 3
    scale = task_plot_scale(ALL, price)
    for one in (one for told in ALL.scored_rows for one in told.trials):
        assert 52 < scale.x(getattr(one, price.name)) < 832
        assert 20 < scale.y(100 * one.high) < scale.y(100 * one.low) < 474
    assert len([element for element in root.iter("circle") if element.get("class") == "seed"]) == 2
    assert "majority" not in names  # far below: it would flatten the picture
    assert "majority" in plot_task_comparison(
        comparison(LINEAR, BEST, baselines=(TaskBaseline("majority", 0.75, ""),)), price
    )
