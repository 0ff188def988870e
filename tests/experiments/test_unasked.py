"""A text of single sentences has no two halves: who asks about them in its paper is compared without that."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from forebear.experiments.comparison import trials
from forebear.experiments.comparison.compare import compare
from forebear.experiments.plan import plan_pretraining
from forebear.training.run_folder import RunFolder
from labels import lines, write
from small_runs import text


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """Documents of one sentence each."""
    path = tmp_path / "single.txt"
    path.write_text("\n\n".join(line.split("\t")[0] for line in lines(150, 5)), encoding="utf-8")
    return path


def test_only_a_question_that_cannot_be_asked_is_left_out(single: Path, tmp_path: Path):
    (tmp_path / "two.txt").write_text(text(), encoding="utf-8")
    for file, milestone, pairs in (
        (single, "bert", "none"),
        (single, "albert", "none"),
        (single, "gpt", "none"),
        (tmp_path / "two.txt", "bert", "next"),
        (tmp_path / "two.txt", "albert", "order"),
    ):
        what = plan_pretraining(milestone, [str(file)], settings={"held_out": 0.1})
        found, reason = trials.without_impossible_pair_task(what, what.prepare_corpus())
        assert found.spec.pairs == pairs
        assert ("two sentences" in reason) == (pairs == "none" and milestone != "gpt")
        assert replace(found, spec=what.spec) == what


@pytest.mark.slow
def test_a_comparison_of_texts_says_so(single: Path, tmp_path: Path):
    found = compare(single, to=tmp_path / "c", only=["bert"], time=1, threads=1)
    assert found.find_row("bert").error == ""
    assert "Pre-trained without the question about two halves of a row: BERT; no two" in found.facts["note"]
    page = (tmp_path / "c" / "comparison.html").read_text()
    assert page.count("without the question about two halves") == 1
    facts = RunFolder.open(tmp_path / "c" / "runs" / "bert-0").metadata
    assert facts["fields"]["pairs"] == "none"
    assert facts["notes"][-1].endswith("no question about two halves was asked")


@pytest.mark.slow
def test_a_comparison_on_a_task_says_so(single: Path, tmp_path: Path):
    task = ("classification", write(tmp_path / "train.tsv", 60))
    words = {"only": ["bert"], "time": 1, "adapt_time": 0.5, "threads": 1, "to": tmp_path / "c"}
    found = compare(single, task=task, **words)
    assert found.find_row("bert").error == ""
    assert sum("without the question about two halves" in remark for remark in found.remarks) == 1
    again = compare(single, task=task, **words)
    assert again.remarks == found.remarks
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["remarks"] == list(found.remarks)
