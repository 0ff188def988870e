"""The four worked examples of fine-tuning: predictions and probabilities for sentences outside the training data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebear as fb
from worked_examples import TASK_QUERIES, write_worked_examples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_worked_examples(tmp_path_factory.mktemp("worked"))


def adapt_bert(task: str, files: dict[str, Path], tmp_path: Path, **options: Any) -> fb.Run:
    training_text = files[task].read_text(encoding="utf-8")
    assert "\t".join(TASK_QUERIES[task][0]) not in training_text  # the test example is not in the training data
    assert task != "answering" or TASK_QUERIES[task][0][1] not in training_text
    return fb.adapt("bert", files[task], task=task, to=tmp_path / task, threads=1, **options)


def test_sentence_pairs_are_classified_as_paraphrases(files: dict[str, Path], tmp_path: Path):
    run = adapt_bert("pairs", files, tmp_path)
    texts, expected = TASK_QUERIES["pairs"]
    (prediction,) = run.classify([texts])
    assert prediction.label == expected
    assert sum(prediction.probabilities.values()) == pytest.approx(1)
    (other,) = run.classify([("我很喜欢你", "我很讨厌你")])
    assert other.label == "different"


def test_scrambled_sentence_is_classified(files: dict[str, Path], tmp_path: Path):
    (prediction,) = adapt_bert("classification", files, tmp_path).classify(TASK_QUERIES["classification"][0][0])
    assert prediction.label == "scrambled"
    assert sum(prediction.probabilities.values()) == pytest.approx(1)


def test_question_about_the_temperature_is_answered(files: dict[str, Path], tmp_path: Path):
    (question, passage), expected = TASK_QUERIES["answering"]
    (prediction,) = adapt_bert("answering", files, tmp_path).answer(question, passage)
    assert prediction.text == expected
    assert passage[prediction.best.start :].startswith(expected)
    assert "".join(token for token, _, _ in prediction.token_table) == passage.replace(" ", "")
    starts, ends = (sum(row[column] for row in prediction.token_table) for column in (1, 2))
    assert 0.9 < starts <= 1.0001  # the rest is for the question and for "no answer"
    assert 0.9 < ends <= 1.0001


@pytest.mark.parametrize("crf", [False, True])
def test_entities_of_a_sentence_are_tagged(files: dict[str, Path], tmp_path: Path, crf: bool):
    run = adapt_bert("tagging", files, tmp_path, crf=crf)
    assert len(run.task.tags) == 13  # O, and B, I, E, S of three kinds
    (prediction,) = run.tag(TASK_QUERIES["tagging"][0][0])
    assert ", ".join(f"{entity.text} {entity.label}" for entity in prediction.entities) == TASK_QUERIES["tagging"][1]
    assert prediction.probabilities.shape == (11, 13)
    np.testing.assert_allclose(prediction.probabilities.sum(1), 1, atol=1e-6)
