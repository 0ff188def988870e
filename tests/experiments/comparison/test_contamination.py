"""Runs adapted to the same examples before: their scores are marked as too high."""

from pathlib import Path

import pytest

from forebear.data.labeled.labeled_source import labeled_source
from forebear.experiments import training_run
from forebear.experiments.comparison.compare import compare
from forebear.experiments.comparison.verdict import contamination_notes
from review_files import review_lines, write_reviews
from small_runs import train_small_run


@pytest.mark.slow
def test_run_already_adapted_to_the_examples_is_remarked(tmp_path: Path):
    (tmp_path / "text.txt").write_text(
        "\n\n".join(line.split("\t")[0] for line in review_lines(60, 5)), encoding="utf-8"
    )
    train, test = write_reviews(tmp_path / "train.tsv", 60), write_reviews(tmp_path / "test.tsv", 20, seed=1)
    pretrained = train_small_run("bert", tmp_path, steps=4, to="begun", context=32, pairs="none")
    source, _ = labeled_source(str(train), task="classification")
    plan = training_run.plan_adaptation(str(pretrained.path), source, settings={"steps": 2, "threads": 1})
    training_run.run_adaptation(plan, tmp_path / "knows")
    arguments = {
        "task": ("auto", train),
        "runs": [tmp_path / "knows", tmp_path / "begun"],
        "adapt_time": 0.2,
        "threads": 1,
    }
    comparison = compare(to=tmp_path / "c", **arguments)
    assert [row.error for row in comparison.rows] == ["", "", ""]
    (contamination_remark,) = [remark for remark in comparison.remarks if " already:" in remark]
    assert contamination_remark == (
        f"The run that BERT (knows) begins with has learned from {train} already:"
        " its scores on held-out parts of that say too much."
    )
    assert contamination_remark.split("(")[0] in (tmp_path / "c" / "comparison.html").read_text()
    assert comparison.find_row("knows").mean("pretraining") is None
    assert comparison.find_row("begun").mean("pretraining") == pretrained.metadata["seconds"]
    comparison_on_other_examples = compare(
        to=tmp_path / "d", **{**arguments, "runs": [tmp_path / "knows"]}, test=test, dev=test
    )
    assert not any(" already:" in remark for remark in comparison_on_other_examples.remarks)


def test_contaminated_rows_name_the_training_files():
    assert contamination_notes({"A": [], "B": []}) == []
    assert "from x.tsv and y.tsv already" in contamination_notes({"A": ["x.tsv", "y.tsv"]})[0]
