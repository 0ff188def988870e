"""Adapting a table of words says how many words of the examples have no vector in it, and keeps what it said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forebear.data.labeled.source import labeled_source
from forebear.experiments import pipeline
from forebear.training.run_folder import RunFolder
from small_runs import Notes, trained


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    trained("word2vec", folder, to="plain", steps=3)
    trained("word2vec", folder, to="parts", steps=3, subwords=True)
    trained("onehot", folder, to="onehot", steps=1)
    return folder


def told(run: Path, folder: Path, text: str, **how: Any) -> tuple[RunFolder, list[str]]:
    """What is said of forty examples that all end with this text."""
    file = folder / "examples.tsv"
    rows = [f"{'the ' * n}{('cat', 'dog')[n % 2]} ran {text.format(n)}\t{('good', 'bad')[n % 2]}\n" for n in range(40)]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    source, _ = labeled_source(str(file), task="classification")
    notes = Notes()
    what = pipeline.plan_adaptation(str(run), source, how=how, settings={"steps": 2, "threads": 1})
    made = pipeline.run_adaptation(what, folder / "adapted", watcher=notes)
    return made, [note for note in notes.words if "no vector" in note]


def test_words_that_begin_by_chance_and_words_that_are_unknown(runs: Path, tmp_path: Path):
    made, (note,) = told(runs / "plain", tmp_path, "beyond Paris x{}y")
    facts = RunFolder.open(made.path).metadata
    rows = facts["labelled"]["sides"]["train"]["count"]
    words = facts["without_vectors"]["words"]
    assert (facts["without_vectors"]["begun"], facts["without_vectors"]["unknown"]) == (2 * rows, rows)
    assert facts["without_vectors"]["named"][:2] == ["Paris", "beyond"]
    assert facts["without_vectors"]["named"][2].startswith("x")
    share = f"{3 * rows / words:.1%} of the words of the training examples"
    assert note.startswith(f"{share} ({3 * rows} of {words}, such as Paris, beyond")
    assert note.endswith(f"{2 * rows} begin with one by chance, {rows} are one unknown word")
    assert note in facts["notes"]


def test_frozen_vectors_get_no_new_rows(runs: Path, tmp_path: Path):
    made, (note,) = told(runs / "plain", tmp_path, "beyond Paris", how="freeze")
    assert made.metadata["without_vectors"]["begun"] == 0
    assert "Paris" in note
    assert note.endswith("are one unknown word")


def test_letter_groups_are_vectors_too(runs: Path, tmp_path: Path):
    made, notes = told(runs / "parts", tmp_path, "beyond Paris")
    assert made.metadata["without_vectors"]["begun"] == made.metadata["without_vectors"]["unknown"] == 0
    assert notes == []


def test_places_of_words_are_counted_alike(runs: Path, tmp_path: Path):
    _, (note,) = told(runs / "onehot", tmp_path, "beyond Paris")
    assert "such as Paris, beyond" in note


def test_nothing_is_said_where_nothing_lacks(runs: Path, tmp_path: Path):
    made, notes = told(runs / "plain", tmp_path, "to the river")
    assert notes == []
    assert made.metadata["without_vectors"]["named"] == []
