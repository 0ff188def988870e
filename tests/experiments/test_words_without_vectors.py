"""Adapting word vectors reports and records how many words of the examples have no vector."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forebear.data.labeled.labeled_source import labeled_source
from forebear.experiments import training_run
from forebear.training.run_folder import RunFolder
from small_runs import NoteRecorder, train_small_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train_small_run("word2vec", folder, to="plain", steps=3)
    train_small_run("word2vec", folder, to="parts", steps=3, subwords=True)
    train_small_run("onehot", folder, to="onehot", steps=1)
    return folder


def adapted_with_notes(parent: Path, folder: Path, text: str, **options: Any) -> tuple[RunFolder, list[str]]:
    """A run adapted to forty examples that end with this text, and its notes on words without vectors."""
    file = folder / "examples.tsv"
    rows = [f"{'the ' * n}{('cat', 'dog')[n % 2]} ran {text.format(n)}\t{('good', 'bad')[n % 2]}\n" for n in range(40)]
    file.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    source, _ = labeled_source(str(file), task="classification")
    notes = NoteRecorder()
    plan = training_run.plan_adaptation(str(parent), source, how=options, settings={"steps": 2, "threads": 1})
    run = training_run.run_adaptation(plan, folder / "adapted", callback=notes)
    return run, [note for note in notes.messages if "no vector" in note]


def test_words_without_vectors_are_counted_as_new_or_unknown(runs: Path, tmp_path: Path):
    run, (note,) = adapted_with_notes(runs / "plain", tmp_path, "beyond Paris x{}y")
    metadata = RunFolder.open(run.path).metadata
    rows = metadata["labelled"]["sides"]["train"]["count"]
    words = metadata["without_vectors"]["words"]
    assert (metadata["without_vectors"]["begun"], metadata["without_vectors"]["unknown"]) == (2 * rows, rows)
    assert metadata["without_vectors"]["named"][:2] == ["Paris", "beyond"]
    assert metadata["without_vectors"]["named"][2].startswith("x")
    share = f"{3 * rows / words:.1%} of the words of the training examples"
    assert note.startswith(f"{share} ({3 * rows} of {words}, such as Paris, beyond")
    assert note.endswith(f"{2 * rows} begin with one by chance, {rows} are one unknown word")
    assert note in metadata["notes"]


def test_frozen_word_vectors_get_no_new_rows(runs: Path, tmp_path: Path):
    run, (note,) = adapted_with_notes(runs / "plain", tmp_path, "beyond Paris", how="freeze")
    assert run.metadata["without_vectors"]["begun"] == 0
    assert "Paris" in note
    assert note.endswith("are one unknown word")


def test_subwords_give_every_word_a_vector(runs: Path, tmp_path: Path):
    run, notes = adapted_with_notes(runs / "parts", tmp_path, "beyond Paris")
    assert run.metadata["without_vectors"]["begun"] == run.metadata["without_vectors"]["unknown"] == 0
    assert notes == []


def test_words_unknown_to_onehot_are_noted(runs: Path, tmp_path: Path):
    _, (note,) = adapted_with_notes(runs / "onehot", tmp_path, "beyond Paris")
    assert "such as Paris, beyond" in note


def test_no_note_where_every_word_has_a_vector(runs: Path, tmp_path: Path):
    run, notes = adapted_with_notes(runs / "plain", tmp_path, "to the river")
    assert notes == []
    assert run.metadata["without_vectors"]["named"] == []
