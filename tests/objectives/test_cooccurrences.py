"""The co-occurrence objective of GloVe: every entry once an epoch, in an order determined by seed and epoch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebear.data.corpus.subset import Subset
from forebear.errors import InputError
from forebear.objectives import cooccurrence
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.cooccurrence import Cooccurrences
from small_subsets import random_documents, subset_of

WORDS = 60
OBJECTIVE = Cooccurrences(
    vocab_size=WORDS, ignored_ids=frozenset({0}), window=3, text_unit="document", x_max=4.0, alpha=0.75
)


@pytest.fixture(scope="module")
def source() -> Subset:
    return subset_of(random_documents(WORDS, 4000))


def entries(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.inputs["tokens"].tolist(), batch.inputs["beside"].tolist(), strict=True))


def epoch_entries(source: Subset, size: int, seed: int, number: int) -> list[tuple[int, int]]:
    steps = OBJECTIVE.steps(source, size)
    return [
        pair
        for step in range(number * steps, (number + 1) * steps)
        for pair in entries(OBJECTIVE.batch(source, size, BatchKey(seed, step)))
    ]


@pytest.mark.parametrize("size", [1, 7, 100, 10**6])
def test_cooccurrences_contain_every_entry_once_an_epoch(source: Subset, size: int, monkeypatch: pytest.MonkeyPatch):
    if size == 1:
        monkeypatch.setattr(cooccurrence, "NUM_BLOCKS", 64)
    table = OBJECTIVE.counts(source)
    if size == 1:  # only a part: single entries take long
        source = Subset(source.corpus, source.units[:2])
        table = OBJECTIVE.counts(source)
    actual = epoch_entries(source, size, seed=1, number=2)
    assert len(actual) == len(table)
    assert set(actual) == set(zip(table.rows.tolist(), table.columns.tolist(), strict=True))
    assert OBJECTIVE.steps(source, size) == -(-len(table) // size)


def test_cooccurrence_order_is_determined_by_seed_and_epoch(source: Subset):
    orders = [epoch_entries(source, 500, seed, number) for seed, number in ((0, 0), (0, 1), (1, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[1] == epoch_entries(source, 500, 0, 1)
    assert orders[1] == epoch_entries(source, 10**6, 0, 1), (
        "how many are shown at a time changes nothing about their order"
    )


def test_cooccurrence_batch_has_log_counts_and_weights(source: Subset):
    batch, table = OBJECTIVE.batch(source, 200, BatchKey(3, 1)), OBJECTIVE.counts(source)
    counts = dict(
        zip(zip(table.rows.tolist(), table.columns.tolist(), strict=True), table.counts.tolist(), strict=True)
    )
    expected_counts = np.array([counts[pair] for pair in entries(batch)])
    assert np.allclose(batch.targets["together"], np.log(expected_counts), atol=1e-6)
    assert np.allclose(batch.inputs["weights"], np.minimum(1, (expected_counts / 4) ** 0.75), rtol=1e-5)
    assert {array.dtype for array in (batch.inputs["weights"], batch.targets["together"])} == {np.dtype(np.float32)}
    assert batch.inputs["lengths"].tolist() == [200]
    assert batch.supervised_counts() == {"together": 200}
    assert batch.num_target_tokens == batch.num_tokens == 200
    assert (expected_counts >= 4).any()
    assert (expected_counts < 1).any()


def test_cooccurrences_omit_ignored_ids(source: Subset):
    batch = OBJECTIVE.batch(source, 10**6, BatchKey(0, 0))
    assert batch.inputs["tokens"].min() > 0
    assert batch.inputs["beside"].min() > 0


def test_cooccurrences_of_tiny_and_empty_texts(monkeypatch: pytest.MonkeyPatch):
    one_word = subset_of([[[5, 5, 5]]])
    OBJECTIVE.check(one_word)
    assert entries(OBJECTIVE.batch(one_word, 10, BatchKey(0, 3))) == [(5, 5)]
    for empty in ([[[5]]], [[[0, 5, 0]]], [[[5]], [[6]]]):
        empty_source = subset_of(empty)
        assert OBJECTIVE.steps(empty_source, 10) == 1
        assert OBJECTIVE.batch(empty_source, 10, BatchKey(0, 0)).num_target_tokens == 0, "of held-out text it may be"
        with pytest.raises(InputError, match="no document of this text has two words"):
            OBJECTIVE.check(empty_source)
    monkeypatch.setattr(cooccurrence, "CHUNK_TOKENS", 1)  # co-occurring words may be in different chunks
    two_sentences = subset_of([[[5], [6]]])
    OBJECTIVE.check(two_sentences)
    with pytest.raises(InputError, match="no sentence"):
        replace(OBJECTIVE, text_unit="sentence").check(two_sentences)


def test_cooccurrence_first_pass_reports_progress(source: Subset):
    progress_calls: list[tuple[int, int]] = []
    replace(OBJECTIVE, window=4).run_first_pass(source, lambda *progress_values: progress_calls.append(progress_values))
    assert progress_calls[-1] == (2 * source.num_tokens, 2 * source.num_tokens)
    with pytest.raises(InputError, match="unit"):
        replace(OBJECTIVE, text_unit="page")
