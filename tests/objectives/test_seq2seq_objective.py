"""The seq2seq objective: every pair once an epoch, correct sources and targets, similar lengths in a batch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.data.corpus.parallel import ParallelSubset
from forebear.errors import InputError
from forebear.objectives.batch import BatchKey
from forebear.objectives.seq2seq import SequenceToSequence

END, OTHER = 900, 901


def parallel_subset(lengths: list[tuple[int, int]]) -> ParallelSubset:
    """Pairs whose tokens show their pair number."""
    sides = []
    for side in range(2):
        sizes = np.array([pair[side] for pair in lengths])
        ends = np.cumsum(sizes)
        spans = np.stack((ends - sizes, ends), axis=1)
        ids = np.repeat(np.arange(len(lengths)) * 2 + side, sizes)
        sides.append(SimpleNamespace(corpus=SimpleNamespace(ids=ids), spans=spans))
    return ParallelSubset(*sides, lines=np.arange(len(lengths)))


def pair_numbers(batch) -> list[int]:
    """The pair numbers of a batch, each checked token by token."""
    inputs, numbers = batch.inputs, []
    sources = np.split(inputs["source"], np.cumsum(inputs["source_lengths"])[:-1])
    rows, targets = (
        np.split(array, np.cumsum(inputs["lengths"])[:-1]) for array in (inputs["tokens"], batch.targets["translation"])
    )
    for source, row, target in zip(sources, rows, targets, strict=True):
        number = source[0] // 2
        assert (source[:-1] == 2 * number).all()
        assert source[-1] == END
        assert (target[:-1] == 2 * number + 1).all()
        assert target[-1] == OTHER
        assert row.tolist() == [OTHER, *target[:-1]]
        numbers.append(int(number))
    return numbers


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=200),
    st.integers(4, 300),
    st.integers(0, 5),
)
def test_seq2seq_contains_every_fitting_pair_once_an_epoch(lengths, size, seed):
    source, objective = parallel_subset(lengths), SequenceToSequence(9, END, OTHER)
    fits = [number for number, pair in enumerate(lengths) if max(pair) <= 8]
    assert objective.num_too_long(source) == len(lengths) - len(fits)
    if not fits:
        with pytest.raises(InputError, match="no pair has at most 8 tokens"):
            objective.check(source)
        return
    objective.check(source)
    steps = objective.steps(source, size)
    for epoch in range(2):
        batches = [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]
        assert all(len(batch.inputs["lengths"]) for batch in batches)
        assert sorted(number for batch in batches for number in pair_numbers(batch)) == fits


def test_seq2seq_batches_have_about_the_size_and_similar_lengths():
    rng = np.random.default_rng(0)
    source, objective = (
        parallel_subset([tuple(pair) for pair in rng.integers(3, 60, (5000, 2)).tolist()]),
        SequenceToSequence(99, 0, 1),
    )
    batches = [objective.batch(source, 4096, BatchKey(0, step)) for step in range(objective.steps(source, 4096))]
    sizes = [batch.num_tokens for batch in batches]
    assert max(sizes) < 1.1 * 4096
    assert min(sizes) > 0.9 * 4096
    assert np.mean([np.ptp(batch.inputs["lengths"]) for batch in batches]) < 3
    assert np.ptp([batch.inputs["lengths"].mean() for batch in batches[:10]]) > 10  # batches are not sorted by length


def test_split_of_seq2seq_batch_keeps_pairs():
    source, objective = parallel_subset([(3, 4), (5, 5), (5, 5), (1, 2), (7, 1)]), SequenceToSequence(9, END, OTHER)
    batch = objective.make_batch(source, np.arange(5))
    for count in (2, 3, 5, 9):
        parts = batch.split(count)
        assert [number for part in parts for number in pair_numbers(part)] == [0, 1, 2, 3, 4]
        assert sum(part.num_tokens for part in parts) == batch.num_tokens
