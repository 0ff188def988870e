"""Streams of text: every token is asked exactly once an epoch, and each row goes on where it ended a step before."""

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


def ring(source: Subset) -> list[int]:
    """The documents one after the other, each with its end. All tokens differ but for the ends."""
    corpus = source.corpus
    return [
        token for number in range(len(source)) for token in [*corpus.ids[slice(*source.spans[number])].tolist(), END]
    ]


def epoch_of(objective: TokenStreams, source: Subset, size: int, seed: int, epoch: int):
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 2))
def test_an_epoch_asks_for_every_token_once_behind_its_true_neighbour(documents, context, size, seed, epoch):
    source = corpus_of(documents).all_documents()
    text = ring(source)
    asked = []
    for batch in epoch_of(TokenStreams(context, END), source, size, seed, epoch):
        assert batch.inputs["lengths"].sum() == batch.num_target_tokens
        assert batch.supervised_counts()["next"] > 0  # no step has nothing to learn from
        pairs = zip(batch.inputs["tokens"].tolist(), batch.targets["next"].tolist(), strict=True)
        asked += [pair for pair in pairs if pair[1] != IGNORE_INDEX]
    true = zip(text, [*text[1:], text[0]], strict=True)  # the last document's end stands before the first token
    assert sorted(asked) == sorted(true)


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 2))
def test_a_row_goes_on_where_it_ended_a_step_before(documents, context, size, seed, epoch):
    """All that a row sees in an epoch, put together, is a stretch of the text; what it is asked for is seen next."""
    source = corpus_of(documents).all_documents()
    text = ring(source)
    doubled = text + text + text
    batches = epoch_of(TokenStreams(context, END), source, size, seed, epoch)
    rows = len(batches[0].inputs["lengths"])
    seen: list[list[int]] = [[] for _ in range(rows)]
    for number, batch in enumerate(batches):
        assert batch.inputs["streams"].tolist() == list(range(rows))
        assert len(set(batch.inputs["lengths"].tolist())) == 1
        assert batch.inputs["lengths"][0] <= context
        assert batch.inputs["fresh"].dtype == bool
        assert number or batch.inputs["fresh"].all()
        tokens, targets = (one.reshape(rows, -1) for one in (batch.inputs["tokens"], batch.targets["next"]))
        for row in range(rows):
            seen[row] += tokens[row].tolist()
            own = targets[row] != IGNORE_INDEX
            assert own[: own.sum()].all()  # what is not asked lies behind all that is
            inner = targets[row, :-1][own[:-1]]
            assert (inner == tokens[row, 1:][own[:-1]]).all()
    for stretch in seen:
        assert any(doubled[at : at + len(stretch)] == stretch for at in range(len(text)))


@given(TEXTS, st.integers(1, 30), st.integers(1, 60))
def test_windows_are_as_long_as_can_be_and_batches_about_as_large_as_asked(documents, context, size):
    source = corpus_of(documents).all_documents()
    total = len(ring(source))
    batches = epoch_of(TokenStreams(context, END), source, size, 0, 0)
    widths = [int(batch.inputs["lengths"][0]) for batch in batches]
    assert widths[:-1] == [min(context, total)] * (len(widths) - 1)
    assert all(batch.num_target_tokens <= max(size, min(context, total)) for batch in batches)


def test_a_batch_is_a_function_of_seed_and_step_and_epochs_begin_elsewhere():
    source, objective = corpus_of([[40], [30, 20], [7]]).all_documents(), TokenStreams(5, END)
    steps = objective.steps(source, 20)
    one, same = (objective.batch(source, 20, BatchKey(3, 2)) for _ in range(2))
    for name in one.inputs:
        assert np.array_equal(one.inputs[name], same.inputs[name])
    begins = [objective.batch(source, 20, BatchKey(3, epoch * steps)).inputs["tokens"][0] for epoch in range(6)]
    assert len(set(begins)) > 3


def test_some_windows_begin_anew_by_chance():
    source, objective = corpus_of([[500], [500]]).all_documents(), TokenStreams(4, END)
    batches = epoch_of(objective, source, 80, 0, 0)
    fresh = np.array([batch.inputs["fresh"] for batch in batches[1:]])
    assert fresh.shape[1] == 20
    assert fresh.mean() == pytest.approx(next_token.FRESH_RATE, abs=0.05)
    assert len(set(fresh.argmax(1).tolist())) > 3  # not always the same row


def test_parts_keep_streams_and_what_is_fresh_together():
    source = corpus_of([[50]]).all_documents()
    batch = TokenStreams(4, END).batch(source, 20, BatchKey(0, 1))
    parts = batch.split(3)
    assert [len(part.inputs["streams"]) for part in parts] == [len(part.inputs["lengths"]) for part in parts]
    for name in batch.inputs:
        assert np.array_equal(np.concatenate([part.inputs[name] for part in parts]), batch.inputs[name])


def test_a_text_shorter_than_a_window_is_refused_with_a_remedy():
    source = corpus_of([[20]]).all_documents()
    assert FIRST in source.corpus.ids
    TokenStreams(20, END).check(source)
    with pytest.raises(InputError, match="longer than the whole text") as caught:
        TokenStreams(21, END).check(source)
    assert "--context 2" in str(caught.value.hint)
    assert "--state fresh" in str(caught.value.hint)
