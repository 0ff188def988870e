"""Text of single-sentence documents has no sentence pairs: models are compared without their sentence-pair task."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from forebear.experiments.comparison import trials
from forebear.experiments.comparison.compare import compare
from forebear.experiments.plan import plan_pretraining
from forebear.training.run_folder import RunFolder
from review_files import review_lines, write_reviews
from small_runs import small_text


@pytest.fixture
def single_sentences(tmp_path: Path) -> Path:
    """Documents of one sentence each."""
    path = tmp_path / "single.txt"
    path.write_text("\n\n".join(line.split("\t")[0] for line in review_lines(150, 5)), encoding="utf-8")
    return path


def test_sentence_pair_task_is_dropped_only_without_sentence_pairs(single_sentences: Path, tmp_path: Path):
    (tmp_path / "two.txt").write_text(small_text(), encoding="utf-8")
    for file, model, pairs in (
        (single_sentences, "bert", "none"),
        (single_sentences, "albert", "none"),
        (single_sentences, "gpt", "none"),
        (tmp_path / "two.txt", "bert", "next"),
        (tmp_path / "two.txt", "albert", "order"),
    ):
        plan = plan_pretraining(model, [str(file)], settings={"held_out": 0.1})
        adjusted, reason = trials.drop_unsupported_pair_task(plan, plan.prepare_corpus())
        assert adjusted.spec.pairs == pairs
        assert ("two sentences" in reason) == (pairs == "none" and model != "gpt")
        assert replace(adjusted, spec=plan.spec) == plan


@pytest.mark.slow
def test_language_model_comparison_notes_the_dropped_sentence_pair_task(single_sentences: Path, tmp_path: Path):
    comparison = compare(single_sentences, to=tmp_path / "c", only=["bert"], time=1, threads=1)
    assert comparison.find_row("bert").error == ""
    assert "Pre-trained without the question about two halves of a row: BERT; no two" in comparison.facts["note"]
    page = (tmp_path / "c" / "comparison.html").read_text()
    assert page.count("without the question about two halves") == 1
    metadata = RunFolder.open(tmp_path / "c" / "runs" / "bert-0").metadata
    assert metadata["fields"]["pairs"] == "none"
    assert metadata["notes"][-1].endswith("no question about two halves was asked")


@pytest.mark.slow
def test_task_comparison_notes_the_dropped_sentence_pair_task(single_sentences: Path, tmp_path: Path):
    task = ("classification", write_reviews(tmp_path / "train.tsv", 60))
    options = {"only": ["bert"], "time": 1, "adapt_time": 0.5, "threads": 1, "to": tmp_path / "c"}
    comparison = compare(single_sentences, task=task, **options)
    assert comparison.find_row("bert").error == ""
    assert sum("without the question about two halves" in remark for remark in comparison.remarks) == 1
    repeated = compare(single_sentences, task=task, **options)
    assert repeated.remarks == comparison.remarks
    assert json.loads((tmp_path / "c" / "comparison.json").read_text())["remarks"] == list(comparison.remarks)
