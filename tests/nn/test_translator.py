"""Writing token by token against the whole network at once: the same logits, whatever rows are kept, in any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from building import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_encoder_decoder import CONTEXT, VOCABULARY, inputs, ours

from forebear.errors import InputError
from forebear.nn.seq2seq import TransformerSeq2Seq

START = 3


def wanted(model, source: np.ndarray, written: list[int]) -> np.ndarray:
    """Logits after these tokens, from the whole at once: what teaching sees."""
    rows = [torch.tensor([START, *written])]
    with torch.inference_mode():
        return model.logits(inputs([torch.from_numpy(source)], rows))["translation"][-1].numpy()


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), norm=st.sampled_from(["post", "pre"]), data=st.data()
)
def test_step_by_step_is_teaching(lengths, norm, data):
    model = ours(norm, joint=False)
    sources = rows_of(*lengths, seed=len(lengths))
    reader = TransformerSeq2Seq(model).begin(sources, START, 8)
    rows: list[tuple[int, list[int]]] = [(number, []) for number in range(len(sources))]
    for _ in range(data.draw(st.integers(1, 5))):
        found = reader.next_logits()
        for (number, written), logits in zip(rows, found, strict=True):
            np.testing.assert_allclose(logits, wanted(model, sources[number], written), rtol=1e-4, atol=1e-4)
        kept = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))
        ids = [data.draw(st.integers(0, data.draw(st.sampled_from([0, VOCABULARY - 1])))) for _ in kept]
        reader.select(np.array(kept))
        reader.append(np.array(ids))
        rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(kept, ids, strict=True)]


def follow_along(model, sources: list[np.ndarray], steps: list[tuple[list[int], list[int]]]) -> None:
    """Rows that are kept and the tokens they take, step by step; every answer must be teaching's."""
    reader = TransformerSeq2Seq(model).begin(sources, START, 8)
    rows: list[tuple[int, list[int]]] = [(number, []) for number in range(len(sources))]
    for kept, ids in steps:
        reader.next_logits()
        reader.select(np.array(kept))
        reader.append(np.array(ids))
        rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(kept, ids, strict=True)]
        for (number, written), logits in zip(rows, reader.next_logits(), strict=True):
            np.testing.assert_allclose(logits, wanted(model, sources[number], written), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equal_tokens_of_other_sources_are_not_equal(norm):
    """A row that takes another's place takes all of it, though the tokens of both are the same."""
    same = [([0, 1, 2], [5, 5, 5]), ([0, 1, 2], [7, 7, 7]), ([1, 1, 2], [9, 9, 9]), ([2, 0], [9, 9])]
    follow_along(ours(norm, joint=False), rows_of(4, 9, 6), same)


def test_sources_are_dropped_while_others_have_more_rows():
    steps = [([0, 0, 1, 1, 2, 3], [4, 5, 6, 7, 8, 9]), ([2, 3, 2, 5], [1, 2, 3, 4]), ([3, 0, 3, 0, 1], [5, 5, 6, 7, 8])]
    follow_along(ours("post", joint=False), rows_of(3, 12, 7, 5), [*steps, ([4], [2]), ([0, 0, 0], [1, 2, 3])])


def test_a_translation_may_fill_the_context_and_no_more():
    model, sources = ours("pre", joint=True), rows_of(5, 2)
    reader = TransformerSeq2Seq(model).begin(sources, START, 3)  # and has more room than was asked for
    written = rows_of(CONTEXT - 1, CONTEXT - 1, seed=9)
    for ids in np.stack(written, 1):
        reader.next_logits()
        reader.append(ids)
    for source, tokens, logits in zip(sources, written, reader.next_logits(), strict=True):
        np.testing.assert_allclose(logits, wanted(model, source, tokens.tolist()), rtol=1e-4, atol=1e-4)
    reader.append(np.array([1, 1]))
    with pytest.raises(InputError, match=f"longer than the context of {CONTEXT}"):
        reader.next_logits()


def test_taking_twice_and_keeping_none():
    model, sources = ours("post", joint=False), rows_of(5)
    reader = TransformerSeq2Seq(model).begin(sources, START, 4)
    reader.append(np.array([8]))
    reader.append(np.array([2]))
    np.testing.assert_allclose(reader.next_logits()[0], wanted(model, sources[0], [8, 2]), rtol=1e-4, atol=1e-4)
    reader.select(np.array([], np.int64))
    assert reader.next_logits().shape == (0, VOCABULARY)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_scores_are_those_of_teaching_and_of_no_batch(norm):
    model = ours(norm, joint=True)
    sources, targets = rows_of(5, 9, 1, 9, seed=1), rows_of(3, 1, 7, 4, seed=2)
    together = TransformerSeq2Seq(model).score(sources, targets, START)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = TransformerSeq2Seq(model).score([source], [target], START)
        np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-5)
        for place, token in enumerate(target):
            logits = torch.from_numpy(wanted(model, source, target[:place].tolist()))
            assert found[place] == pytest.approx(float(torch.log_softmax(logits, -1)[token]), abs=1e-4)
