"""Both neighbours of every token: each pair of the text is asked once an epoch in either direction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from small_corpora import MASK, corpus_of, rows_of
from test_streams import TEXTS, ring

from forebear.objectives.batch import IGNORE_INDEX, BatchKey
from forebear.objectives.next_token import BidirectionalLM, NextToken

END = MASK


def rows(objective: BidirectionalLM, source, size: int, seed: int, epoch: int = 0):
    """The rows of an epoch: tokens, what follows, what stands before."""
    windows = -(-len(ring(source)) // min(objective.max_length, len(ring(source))))
    step, found = 0, []
    steps = objective.steps(source, size)
    assert steps == NextToken(objective.max_length, END).steps(source, size)
    while len(found) < (epoch + 1) * windows:  # a batch may have rows of the next epoch
        batch = objective.batch(source, size, BatchKey(seed, step))
        arrays = batch.inputs["tokens"], batch.targets["next"], batch.targets["previous"]
        found += zip(*(rows_of(array, batch.inputs["lengths"]) for array in arrays), strict=True)
        step += 1
    return found[epoch * windows : (epoch + 1) * windows]


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9), st.integers(0, 1))
def test_each_pair_of_neighbours_is_asked_once_in_either_direction(documents, context, size, seed, epoch):
    source = corpus_of(documents).all_documents()
    text = ring(source)
    following, before = [], []
    for tokens, after, previous in rows(BidirectionalLM(context, END), source, size, seed, epoch):
        following += [pair for pair in zip(tokens, after, strict=True) if pair[1] != IGNORE_INDEX]
        before += [pair for pair in zip(previous, tokens, strict=True) if pair[0] != IGNORE_INDEX]
    true = sorted(zip(text, [*text[1:], text[0]], strict=True))
    assert sorted(following) == true
    assert sorted(before) == true


@given(TEXTS, st.integers(1, 30), st.integers(1, 60), st.integers(0, 9))
def test_a_row_is_a_stretch_of_the_text_and_asks_for_what_stands_in_it(documents, context, size, seed):
    """What is asked is there to be read by the other direction, and by that alone: a target is the row's next, or its
    one before."""
    source = corpus_of(documents).all_documents()
    text = ring(source)
    doubled = text + text + text
    for tokens, after, previous in rows(BidirectionalLM(context, END), source, size, seed):
        assert len(tokens) == min(context, len(text)) + 1
        asked = sum(one != IGNORE_INDEX for one in after)
        assert after == tokens[1 : asked + 1] + [IGNORE_INDEX] * (len(tokens) - asked)
        assert previous == [IGNORE_INDEX] + tokens[:asked] + [IGNORE_INDEX] * (len(tokens) - asked - 1)
        whole = tokens if asked == len(tokens) - 1 else tokens[:-1]  # a short window has an end behind it
        assert any(doubled[at : at + len(whole)] == whole for at in range(len(text)))
        assert whole is tokens or tokens[-1] == END


def test_a_batch_is_a_function_of_seed_and_step():
    source, objective = corpus_of([[40], [30, 20], [7]]).all_documents(), BidirectionalLM(5, END)
    one, same, other = (objective.batch(source, 20, BatchKey(3, step)) for step in (2, 2, 3))
    assert one.inputs["tokens"].tolist() == same.inputs["tokens"].tolist() != other.inputs["tokens"].tolist()
