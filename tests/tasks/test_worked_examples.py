"""The four worked examples of using a pre-trained model: a few lines are learned, and others asked, with tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebear as fb
from worked_examples import ASKED, write_worked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_worked(tmp_path_factory.mktemp("worked"))


def adapted(task: str, files: dict[str, Path], tmp_path: Path, **how: Any) -> fb.Run:
    learned = files[task].read_text(encoding="utf-8")
    assert "\t".join(ASKED[task][0]) not in learned  # what is asked is not among what is learned
    assert task != "answering" or ASKED[task][0][1] not in learned
    return fb.adapt("bert", files[task], task=task, to=tmp_path / task, threads=1, **how)


def test_i_like_you_and_i_am_fond_of_you(files: dict[str, Path], tmp_path: Path):
    run = adapted("pairs", files, tmp_path)
    texts, wanted = ASKED["pairs"]
    (said,) = run.classify([texts])
    assert said.label == wanted
    assert sum(said.probabilities.values()) == pytest.approx(1)
    (other,) = run.classify([("我很喜欢你", "我很讨厌你")])
    assert other.label == "different"


def test_what_is_no_sentence(files: dict[str, Path], tmp_path: Path):
    (said,) = adapted("classification", files, tmp_path).classify(ASKED["classification"][0][0])
    assert said.label == "scrambled"
    assert sum(said.probabilities.values()) == pytest.approx(1)


def test_how_warm_it_is_today(files: dict[str, Path], tmp_path: Path):
    (question, passage), wanted = ASKED["answering"]
    (said,) = adapted("answering", files, tmp_path).answer(question, passage)
    assert said.text == wanted
    assert passage[said.best.start :].startswith(wanted)
    assert "".join(token for token, _, _ in said.token_table) == passage.replace(" ", "")
    starts, ends = (sum(row[place] for row in said.token_table) for place in (1, 2))
    assert 0.9 < starts <= 1.0001  # the rest is for the question and for "no answer"
    assert 0.9 < ends <= 1.0001


@pytest.mark.parametrize("crf", [False, True])
def test_einstein_speaks_in_berlin(files: dict[str, Path], tmp_path: Path, crf: bool):
    run = adapted("tagging", files, tmp_path, crf=crf)
    assert len(run.task.tags) == 13  # O, and B, I, E, S of three kinds
    (said,) = run.tag(ASKED["tagging"][0][0])
    assert ", ".join(f"{one.text} {one.label}" for one in said.entities) == ASKED["tagging"][1]
    assert said.probabilities.shape == (11, 13)
    np.testing.assert_allclose(said.probabilities.sum(1), 1, atol=1e-6)
