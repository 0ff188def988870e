"""What word vectors will be learned from, seen before: windows and drawn words, as the loops draw them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebear.experiments.preview import preview_batch
from small_runs import plan, text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(text())
    return tmp_path / "text.txt"


def test_windows_are_words_and_those_around_them(file: Path):
    told = preview_batch(plan("word2vec", file, sample=0.0, negatives=4), rows=1)
    assert told.windows is not None
    row = told.rows[0].tokens
    for place, one in enumerate(told.windows[: len(row)]):
        assert one["word"] == row[place]
        assert set(one["around"]) <= set(row[max(0, place - 3) : place + 4])
        assert len(one["drawn"]) <= 4
        assert one["word"] not in one["drawn"]
    assert any(len(one["drawn"]) == 4 for one in told.windows)
    assert len({len(one["around"]) for one in told.windows}) > 1  # how far is drawn anew for each


def test_a_tree_is_told_by_turns(file: Path):
    told = preview_batch(plan("word2vec", file, output="tree"))
    assert told.windows is not None
    assert all(one["drawn"] == [] and set(one["turns"]) <= {"l", "r"} and one["turns"] for one in told.windows)
    paths = {one["word"]: one["turns"] for one in told.windows}
    assert len(set(paths.values())) == len(paths)


def test_words_that_stand_together(file: Path):
    told = preview_batch(plan("glove", file))
    assert told.together is not None
    assert told.windows is None
    for one in told.together:
        assert one["count"] > 0
        assert 0 < one["weight"] <= 1


def test_other_milestones_have_neither(file: Path):
    told = preview_batch(plan("ngram", file))
    assert told.windows is told.together is None
