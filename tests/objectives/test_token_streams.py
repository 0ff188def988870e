"""Token streams: each token is supervised once an epoch, and each stream continues where it ended a step before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import FIRST, MASK, corpus_of

from forebear.data.corpus.subset import Subset
from forebear.errors import InputError
from forebear.objectives import next_token
from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.objectives.next_token import TokenStreams

END = MASK
TEXTS = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=6)


def document_ring(source: Subset) -> list[int]:
    """The documents in order, each followed by an end token. All other tokens differ."""
    corpus = source.corpus
    return [
        token for number in range(len(source)) for token in [*corpus.ids[slice(*source.spans[number])].tolist(), END]
    ]


def epoch_batches(objective: TokenStreams, source: Subset, size: int, seed: int, epoch: int):
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 2))
def test_token_streams_supervise_every_adjacent_pair_once_an_epoch(documents, context, size, seed, epoch):
    source = corpus_of(documents).all_documents()
    text = document_ring(source)
    supervised = []
    for batch in epoch_batches(TokenStreams(context, END), source, size, seed, epoch):
        assert batch.inputs["lengths"].sum() == batch.num_target_tokens
        assert batch.supervised_counts()["next"] > 0  # every step has supervised positions
        pairs = zip(batch.inputs["tokens"].tolist(), batch.targets["next"].tolist(), strict=True)
        supervised += [pair for pair in pairs if pair[1] != IGNORE_INDEX]
    expected = zip(text, [*text[1:], text[0]], strict=True)  # the last document's end precedes the first token
    assert sorted(supervised) == sorted(expected)


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 2))
def test_token_stream_continues_where_it_ended(documents, context, size, seed, epoch):
    """The windows of a stream, concatenated, are contiguous text; each target is the next input token."""
    source = corpus_of(documents).all_documents()
    text = document_ring(source)
    doubled = text + text + text
    batches = epoch_batches(TokenStreams(context, END), source, size, seed, epoch)
    rows = len(batches[0].inputs["lengths"])
    stream_tokens: list[list[int]] = [[] for _ in range(rows)]
    for number, batch in enumerate(batches):
        assert batch.inputs["streams"].tolist() == list(range(rows))
        assert len(set(batch.inputs["lengths"].tolist())) == 1
        assert batch.inputs["lengths"][0] <= context
        assert batch.inputs["fresh"].dtype == bool
        assert number or batch.inputs["fresh"].all()
        tokens, targets = (array.reshape(rows, -1) for array in (batch.inputs["tokens"], batch.targets["next"]))
        for row in range(rows):
            stream_tokens[row] += tokens[row].tolist()
            is_supervised = targets[row] != IGNORE_INDEX
            assert is_supervised[: is_supervised.sum()].all()  # unsupervised positions come last
            inner_targets = targets[row, :-1][is_supervised[:-1]]
            assert (inner_targets == tokens[row, 1:][is_supervised[:-1]]).all()
    for stream in stream_tokens:
        assert any(doubled[start : start + len(stream)] == stream for start in range(len(text)))


@given(TEXTS, st.integers(1, 30), st.integers(1, 60))
def test_token_stream_windows_are_full_and_batches_within_size(documents, context, size):
    source = corpus_of(documents).all_documents()
    total = len(document_ring(source))
    batches = epoch_batches(TokenStreams(context, END), source, size, 0, 0)
    widths = [int(batch.inputs["lengths"][0]) for batch in batches]
    assert widths[:-1] == [min(context, total)] * (len(widths) - 1)
    assert all(batch.num_target_tokens <= max(size, min(context, total)) for batch in batches)


def test_token_stream_batch_is_determined_by_seed_and_step_and_epochs_differ():
    source, objective = corpus_of([[40], [30, 20], [7]]).all_documents(), TokenStreams(5, END)
    steps = objective.steps(source, 20)
    first, repeated = (objective.batch(source, 20, BatchKey(3, 2)) for _ in range(2))
    for name in first.inputs:
        assert np.array_equal(first.inputs[name], repeated.inputs[name])
    first_tokens = [objective.batch(source, 20, BatchKey(3, epoch * steps)).inputs["tokens"][0] for epoch in range(6)]
    assert len(set(first_tokens)) > 3


def test_streams_are_reset_at_the_fresh_rate():
    source, objective = corpus_of([[500], [500]]).all_documents(), TokenStreams(4, END)
    batches = epoch_batches(objective, source, 80, 0, 0)
    fresh = np.array([batch.inputs["fresh"] for batch in batches[1:]])
    assert fresh.shape[1] == 20
    assert fresh.mean() == pytest.approx(next_token.FRESH_RATE, abs=0.05)
    assert len(set(fresh.argmax(1).tolist())) > 3  # not always the same stream


def test_split_of_stream_batch_keeps_streams_and_fresh_flags():
    source = corpus_of([[50]]).all_documents()
    batch = TokenStreams(4, END).batch(source, 20, BatchKey(0, 1))
    parts = batch.split(3)
    assert [len(part.inputs["streams"]) for part in parts] == [len(part.inputs["lengths"]) for part in parts]
    for name in batch.inputs:
        assert np.array_equal(np.concatenate([part.inputs[name] for part in parts]), batch.inputs[name])


def test_text_shorter_than_the_window_is_refused_with_hint():
    source = corpus_of([[20]]).all_documents()
    assert FIRST in source.corpus.ids
    TokenStreams(20, END).check(source)
    with pytest.raises(InputError, match="longer than the whole text") as caught:
        TokenStreams(21, END).check(source)
    assert "--context 2" in str(caught.value.hint)
    assert "--state fresh" in str(caught.value.hint)
