"""A run that was adapted to the examples before: its score is flattered, which is said, and it has no pre-training."""

from pathlib import Path

import pytest

from forebear.data.labeled.source import labeled_source
from forebear.experiments import pipeline
from forebear.experiments.comparison.compare import compare
from forebear.experiments.comparison.verdict import contamination_notes
from labels import lines, write
from small_runs import trained


@pytest.mark.slow
def test_a_run_that_learned_from_the_examples_is_remarked(tmp_path: Path):
    (tmp_path / "text.txt").write_text("\n\n".join(line.split("\t")[0] for line in lines(60, 5)), encoding="utf-8")
    train, test = write(tmp_path / "train.tsv", 60), write(tmp_path / "test.tsv", 20, seed=1)
    begun = trained("bert", tmp_path, steps=4, to="begun", context=32, pairs="none")
    source, _ = labeled_source(str(train), task="classification")
    what = pipeline.plan_adaptation(str(begun.path), source, settings={"steps": 2, "threads": 1})
    pipeline.run_adaptation(what, tmp_path / "knows")
    words = {"task": ("auto", train), "runs": [tmp_path / "knows", tmp_path / "begun"], "adapt_time": 0.2, "threads": 1}
    found = compare(to=tmp_path / "c", **words)
    assert [row.error for row in found.rows] == ["", "", ""]
    (told,) = [remark for remark in found.remarks if "already" in remark]
    assert told == (
        f"The run that BERT (knows) begins with has learned from {train} already:"
        " its scores on held-out parts of that say too much."
    )
    assert told.split("(")[0] in (tmp_path / "c" / "comparison.html").read_text()
    assert found.find_row("knows").mean("pretraining") is None
    assert found.find_row("begun").mean("pretraining") == begun.metadata["seconds"]
    apart = compare(to=tmp_path / "d", **{**words, "runs": [tmp_path / "knows"]}, test=test, dev=test)
    assert not any("already" in remark for remark in apart.remarks)


def test_the_words():
    assert contamination_notes({"A": [], "B": []}) == []
    assert "from x.tsv and y.tsv already" in contamination_notes({"A": ["x.tsv", "y.tsv"]})[0]
