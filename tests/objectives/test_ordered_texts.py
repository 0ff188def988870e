"""Whole texts in order: each sentence or document once an epoch, for any batch size."""

from __future__ import annotations

import numpy as np
import pytest

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import BatchKey
from forebear.objectives.ordered_texts import WholeTexts

STORY = "The cat sat. It was warm!\nA dog came.\n\n他走了。她也走了！\n\nThe end\n\n" + "far and " * 20 + "wide.\n\nSo"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Subset:
    folder = tmp_path_factory.mktemp("every_text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOREBEAR_CACHE", str(folder / "cache"))
        (folder / "story.txt").write_text(STORY, encoding="utf-8")
        corpus = prepare_corpus([folder / "story.txt"], train_tokenizer("words", [STORY]), to=folder / "corpus")
        return Subset(corpus, np.stack((corpus.documents[:-1], corpus.documents[1:]), axis=1))


def expected_rows(source: Subset, unit: str, end: int) -> list[list[int]]:
    corpus = source.corpus
    sentences = [range(first, last) for first, last in source.units.tolist()]
    if unit == "sentence":
        texts = [corpus.sentence_ids(number) for sentence_range in sentences for number in sentence_range]
    else:
        texts = [
            np.concatenate([corpus.sentence_ids(number) for number in sentence_range]) for sentence_range in sentences
        ]
    return [[end, *text.tolist(), end] for text in texts]


def rows_of(objective: WholeTexts, source: Subset, size: int, step: int) -> list[list[int]]:
    batch = objective.batch(source, size, BatchKey(seed=step, step=step))
    tokens, targets, lengths = batch.inputs["tokens"], batch.targets["next"], batch.inputs["lengths"]
    assert len(tokens) == len(targets) == lengths.sum()
    inputs = [row.tolist() for row in np.split(tokens, np.cumsum(lengths))[:-1]]
    target_rows = [row.tolist() for row in np.split(targets, np.cumsum(lengths))[:-1]]
    assert [row[1:] for row in inputs] == [row[:-1] for row in target_rows]
    return [[*row, target_row[-1]] for row, target_row in zip(inputs, target_rows, strict=True)]


@pytest.mark.parametrize("unit", ["sentence", "document"])
@pytest.mark.parametrize("size", [1, 3, 7, 30, 1000])
def test_whole_texts_contain_every_unit_once_an_epoch(source: Subset, unit: str, size: int):
    end = source.corpus.tokenizer.special_roles["end"]
    objective = WholeTexts(unit, end)
    steps = objective.steps(source, size)
    batches = [rows_of(objective, source, size, step) for step in range(steps)]
    assert [row for batch in batches for row in batch] == expected_rows(source, unit, end)
    assert rows_of(objective, source, size, steps) == batches[0]  # the next epoch
    if size == 7:
        assert [] in batches  # after a unit longer than a batch
    if size == 1000:
        assert steps == 1


def test_whole_texts_of_a_subset(source: Subset):
    end = source.corpus.tokenizer.special_roles["end"]
    subset = Subset(source.corpus, source.units[[3, 0]])
    for unit in ("sentence", "document"):
        assert rows_of(WholeTexts(unit, end), subset, 1000, 0) == expected_rows(subset, unit, end)


def test_whole_texts_of_empty_subset_are_empty(source: Subset):
    empty, objective = Subset(source.corpus, source.units[:0]), WholeTexts("sentence", 1)
    assert objective.steps(empty, 10) == 1
    assert rows_of(objective, empty, 10, 0) == []


def test_whole_texts_refuse_unknown_unit():
    with pytest.raises(InputError, match="'page'"):
        WholeTexts("page", 1)
