"""Words of character-level models have vectors, and so neighbors, whether they were seen in training or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebear.inference.run import Run
from small_runs import small_text, train_small_run


@pytest.mark.parametrize("name", ["cnn_rnn", "elmo"])
def test_unseen_words_of_character_level_models_have_neighbors(name: str, tmp_path: Path):
    (tmp_path / "text.txt").write_text(small_text(), encoding="utf-8")
    run = Run.open(train_small_run(name, tmp_path, tokenizer="words", steps=3).path)
    known, unseen = run.neighbours(["river", "rivers"], top=3)
    assert known.note == ""
    assert unseen.note == "not in the vocabulary: from its parts"
    assert unseen.nearest[0].word == "river"  # nothing else is written so much alike
    assert np.abs(run.vector("rivers") - run.vector("river")).max() > 1e-3
    (embedded,) = run.embed(["rivers"], words=True, layers=0, normalise=False)
    assert embedded.words is not None
    width = len(run.vector("rivers"))
    np.testing.assert_allclose(embedded.words[0].vector[:width], run.vector("rivers"), atol=1e-5)
