"""The HTML report of a task comparison: valid, self-contained, escaped, with the numbers of the comparison."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from task_comparisons import ALL_MODELS, BEST, BROKEN, LINEAR, comparison, row, trial
from test_comparison_report import HOSTILE_TEXT, parse_page, table_body_cells
from test_task_verdict import ablation_comparison

from forebear.experiments.comparison.cost_plot import COST_AXES, plot_task_comparison, task_plot_scale
from forebear.experiments.comparison.report import task_comparison_page
from forebear.experiments.comparison.results import TaskBaseline, TaskTrial


def test_task_report_shows_headline_scores_and_remarks():
    html = task_comparison_page(replace(ALL_MODELS, remarks=("Mind this.",)))
    words = " ".join(parse_page(html).text)
    for phrase in ("Bert does best", "900 examples to learn from, 500 to be tested on", "is Gpt: 2 MB", "Mind this."):
        assert phrase in words
    assert "forebear classify tasks/bert-0 …" in words
    linear, small, best, failed = table_body_cells(html)
    assert linear[2] == "80.0"
    assert best[2].startswith("89.9 ± 0.1")
    assert "best" in best[1].split()
    assert "best" not in small[1].split()
    assert failed[2] == "killed by SIGKILL"
    assert "majority" in html


def test_task_report_shows_published_findings_for_ablations():
    words = " ".join(parse_page(task_comparison_page(ablation_comparison())).text)
    assert "What papers found" in words
    assert "sees the past" in words
    assert "What papers found" not in task_comparison_page(ALL_MODELS)


def test_task_report_loads_nothing_from_the_network():
    html = task_comparison_page(ALL_MODELS)
    assert "default-src 'none'" in html
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|\ssrc=|\shref=", html)


def test_task_report_escapes_all_values():
    hostile_row = row(
        "bert",
        2000,
        trial(0.5, 9, 1.0, size=HOSTILE_TEXT, run=HOSTILE_TEXT, error=HOSTILE_TEXT),
        title=HOSTILE_TEXT,
        differs=HOSTILE_TEXT,
        papers=HOSTILE_TEXT,
    )
    failed_row = row("gpt", 2001, TaskTrial(0, error=HOSTILE_TEXT), title=HOSTILE_TEXT)
    metadata = {
        "machine": HOSTILE_TEXT,
        "command": HOSTILE_TEXT,
        "forebear": HOSTILE_TEXT,
        "when": HOSTILE_TEXT,
        "files": {"train": HOSTILE_TEXT},
    }
    settings = {"budget": HOSTILE_TEXT, "adapting_budget": HOSTILE_TEXT, "seeds": [0, 1]}
    baselines = (TaskBaseline(HOSTILE_TEXT, 0.49, HOSTILE_TEXT),)
    hostile_comparison = comparison(
        hostile_row, failed_row, facts=metadata, settings=settings, baselines=baselines, remarks=(HOSTILE_TEXT,)
    )
    html = task_comparison_page(
        replace(hostile_comparison, texts=(HOSTILE_TEXT,), task=HOSTILE_TEXT, figure=HOSTILE_TEXT, verb=HOSTILE_TEXT)
    )
    parse_page(html)
    assert html.count("<script>") == 1
    assert "alert('x')</script>" not in html


@pytest.mark.parametrize("rows", [(), (LINEAR,), (BROKEN,), (row("bert", 1, trial(0.0, 1, 0.001)),)])
def test_task_report_of_empty_or_failed_comparisons_is_valid(rows):
    html = task_comparison_page(comparison(*rows, finished=False))
    parse_page(html)
    assert "not finished" in html


@pytest.mark.parametrize("cost_axis", COST_AXES)
def test_task_cost_plot_is_valid_svg_with_all_trials(cost_axis):
    root = ElementTree.fromstring(plot_task_comparison(ALL_MODELS, cost_axis))
    names = [element.text for element in root.iter("text")]
    assert {"Ngram", "Gpt", "Bert"} <= set(names)
    means = [element for element in root.iter("circle") if element.get("class") == "mean"]
    assert len(means) == 3
    scale = task_plot_scale(ALL_MODELS, cost_axis)
    for scored_trial in (scored_trial for scored_row in ALL_MODELS.scored_rows for scored_trial in scored_row.trials):
        assert 52 < scale.x(getattr(scored_trial, cost_axis.name)) < 832
        assert 20 < scale.y(100 * scored_trial.high) < scale.y(100 * scored_trial.low) < 474
    assert len([element for element in root.iter("circle") if element.get("class") == "seed"]) == 2
    assert "majority" not in names  # far below: it would flatten the plot
    assert "majority" in plot_task_comparison(
        comparison(LINEAR, BEST, baselines=(TaskBaseline("majority", 0.75, ""),)), cost_axis
    )
