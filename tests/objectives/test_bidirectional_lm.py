"""The bidirectional LM objective: each adjacent pair of tokens is supervised once an epoch in each direction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from small_corpora import MASK, corpus_of, rows_of
from test_token_streams import TEXTS, document_ring

from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.objectives.next_token import BidirectionalLM, NextToken

END = MASK


def epoch_rows(objective: BidirectionalLM, source, size: int, seed: int, epoch: int = 0):
    """The sequences of an epoch: tokens, next tokens, previous tokens."""
    windows = -(-len(document_ring(source)) // min(objective.max_length, len(document_ring(source))))
    step, rows = 0, []
    steps = objective.steps(source, size)
    assert steps == NextToken(objective.max_length, END).steps(source, size)
    while len(rows) < (epoch + 1) * windows:  # a batch may hold sequences of the next epoch
        batch = objective.batch(source, size, BatchKey(seed, step))
        arrays = batch.inputs["tokens"], batch.targets["next"], batch.targets["previous"]
        rows += zip(*(rows_of(array, batch.inputs["lengths"]) for array in arrays), strict=True)
        step += 1
    return rows[epoch * windows : (epoch + 1) * windows]


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 1))
def test_bilm_supervises_each_adjacent_pair_once_per_direction(documents, context, size, seed, epoch):
    source = corpus_of(documents).all_documents()
    text = document_ring(source)
    following, preceding = [], []
    for tokens, after, previous in epoch_rows(BidirectionalLM(context, END), source, size, seed, epoch):
        following += [pair for pair in zip(tokens, after, strict=True) if pair[1] != IGNORE_INDEX]
        preceding += [pair for pair in zip(previous, tokens, strict=True) if pair[0] != IGNORE_INDEX]
    expected = sorted(zip(text, [*text[1:], text[0]], strict=True))
    assert sorted(following) == expected
    assert sorted(preceding) == expected


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9))
def test_bilm_targets_are_neighbors_within_a_contiguous_sequence(documents, context, size, seed):
    """Each target is in the sequence, as the next or the previous token, and is read by the other direction only."""
    source = corpus_of(documents).all_documents()
    text = document_ring(source)
    doubled = text + text + text
    for tokens, after, previous in epoch_rows(BidirectionalLM(context, END), source, size, seed):
        assert len(tokens) == min(context, len(text)) + 1
        num_supervised = sum(target != IGNORE_INDEX for target in after)
        assert after == tokens[1 : num_supervised + 1] + [IGNORE_INDEX] * (len(tokens) - num_supervised)
        assert previous == [IGNORE_INDEX] + tokens[:num_supervised] + [IGNORE_INDEX] * (
            len(tokens) - num_supervised - 1
        )
        # a short window is followed by an end token
        stream_tokens = tokens if num_supervised == len(tokens) - 1 else tokens[:-1]
        assert any(doubled[start : start + len(stream_tokens)] == stream_tokens for start in range(len(text)))
        assert stream_tokens is tokens or tokens[-1] == END


def test_bilm_batch_is_determined_by_seed_and_step():
    source, objective = corpus_of([[40], [30, 20], [7]]).all_documents(), BidirectionalLM(5, END)
    first, repeated, next_batch = (objective.batch(source, 20, BatchKey(3, step)) for step in (2, 2, 3))
    assert first.inputs["tokens"].tolist() == repeated.inputs["tokens"].tolist() != next_batch.inputs["tokens"].tolist()
