"""Previews of word-vector training: context windows, negative samples, Huffman paths and co-occurrences."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebear.experiments.preview import preview_batch
from small_runs import small_pretrain_plan, small_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(small_text())
    return tmp_path / "text.txt"


def test_word2vec_preview_shows_context_windows_and_negative_samples(file: Path):
    preview = preview_batch(small_pretrain_plan("word2vec", file, sample=0.0, negatives=4), rows=1)
    assert preview.windows is not None
    tokens = preview.rows[0].tokens
    for position, window in enumerate(preview.windows[: len(tokens)]):
        assert window["word"] == tokens[position]
        assert set(window["around"]) <= set(tokens[max(0, position - 3) : position + 4])
        assert len(window["drawn"]) <= 4
        assert window["word"] not in window["drawn"]
    assert any(len(window["drawn"]) == 4 for window in preview.windows)
    assert len({len(window["around"]) for window in preview.windows}) > 1  # the window size is sampled for each word


def test_hierarchical_softmax_preview_shows_unique_paths(file: Path):
    preview = preview_batch(small_pretrain_plan("word2vec", file, output="tree"))
    assert preview.windows is not None
    assert all(
        window["drawn"] == [] and set(window["turns"]) <= {"l", "r"} and window["turns"] for window in preview.windows
    )
    paths = {window["word"]: window["turns"] for window in preview.windows}
    assert len(set(paths.values())) == len(paths)


def test_glove_preview_shows_weighted_cooccurrences(file: Path):
    preview = preview_batch(small_pretrain_plan("glove", file))
    assert preview.together is not None
    assert preview.windows is None
    for pair in preview.together:
        assert pair["count"] > 0
        assert 0 < pair["weight"] <= 1


def test_preview_of_other_models_has_neither_windows_nor_cooccurrences(file: Path):
    preview = preview_batch(small_pretrain_plan("ngram", file))
    assert preview.windows is preview.together is None
