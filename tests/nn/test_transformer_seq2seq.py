"""Incremental seq2seq decoding equals teacher forcing, whatever sequences are kept and in any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import rows_of
from test_encoder_decoder import CONTEXT, VOCABULARY, encoder_decoder, inputs

from forebear.errors import InputError
from forebear.nn.seq2seq import TransformerSeq2Seq

START = 3


def teacher_forced_logits(model, source: np.ndarray, target_ids: list[int]) -> np.ndarray:
    """Logits after these tokens, from the full sequence at once."""
    rows = [torch.tensor([START, *target_ids])]
    with torch.inference_mode():
        return model.logits(inputs([torch.from_numpy(source)], rows))["translation"][-1].numpy()


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4), norm=st.sampled_from(["post", "pre"]), data=st.data()
)
def test_seq2seq_decoding_equals_teacher_forcing(lengths, norm, data):
    model = encoder_decoder(norm, joint=False)
    sources = rows_of(*lengths, seed=len(lengths))
    decoding = TransformerSeq2Seq(model).start_decoding(sources, START, 8)
    rows: list[tuple[int, list[int]]] = [(number, []) for number in range(len(sources))]
    for _ in range(data.draw(st.integers(1, 5))):
        batch_logits = decoding.next_logits()
        for (number, target_ids), logits in zip(rows, batch_logits, strict=True):
            np.testing.assert_allclose(
                logits, teacher_forced_logits(model, sources[number], target_ids), rtol=1e-4, atol=1e-4
            )
        selected = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))
        ids = [data.draw(st.integers(0, data.draw(st.sampled_from([0, VOCABULARY - 1])))) for _ in selected]
        decoding.select(np.array(selected))
        decoding.append(np.array(ids))
        rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(selected, ids, strict=True)]


def check_decoding(model, sources: list[np.ndarray], steps: list[tuple[list[int], list[int]]]) -> None:
    """Selects and extends sequences step by step; all logits must equal teacher forcing."""
    decoding = TransformerSeq2Seq(model).start_decoding(sources, START, 8)
    rows: list[tuple[int, list[int]]] = [(number, []) for number in range(len(sources))]
    for selected, ids in steps:
        decoding.next_logits()
        decoding.select(np.array(selected))
        decoding.append(np.array(ids))
        rows = [(rows[row][0], [*rows[row][1], token]) for row, token in zip(selected, ids, strict=True)]
        for (number, target_ids), logits in zip(rows, decoding.next_logits(), strict=True):
            np.testing.assert_allclose(
                logits, teacher_forced_logits(model, sources[number], target_ids), rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equal_target_tokens_of_different_sources_stay_separate(norm):
    """A sequence that replaces another takes over its source and cache, though their tokens are equal."""
    steps = [([0, 1, 2], [5, 5, 5]), ([0, 1, 2], [7, 7, 7]), ([1, 1, 2], [9, 9, 9]), ([2, 0], [9, 9])]
    check_decoding(encoder_decoder(norm, joint=False), rows_of(4, 9, 6), steps)


def test_seq2seq_decoding_with_sources_dropped_and_repeated():
    steps = [([0, 0, 1, 1, 2, 3], [4, 5, 6, 7, 8, 9]), ([2, 3, 2, 5], [1, 2, 3, 4]), ([3, 0, 3, 0, 1], [5, 5, 6, 7, 8])]
    check_decoding(
        encoder_decoder("post", joint=False), rows_of(3, 12, 7, 5), [*steps, ([4], [2]), ([0, 0, 0], [1, 2, 3])]
    )


def test_translation_may_fill_the_maximum_length_and_no_more():
    model, sources = encoder_decoder("pre", joint=True), rows_of(5, 2)
    decoding = TransformerSeq2Seq(model).start_decoding(sources, START, 3)  # decodes more steps than reserved
    targets = rows_of(CONTEXT - 1, CONTEXT - 1, seed=9)
    for ids in np.stack(targets, 1):
        decoding.next_logits()
        decoding.append(ids)
    for source, tokens, logits in zip(sources, targets, decoding.next_logits(), strict=True):
        np.testing.assert_allclose(logits, teacher_forced_logits(model, source, tokens.tolist()), rtol=1e-4, atol=1e-4)
    decoding.append(np.array([1, 1]))
    with pytest.raises(InputError, match=f"longer than the context of {CONTEXT}"):
        decoding.next_logits()


def test_seq2seq_append_two_tokens_and_select_no_sequence():
    model, sources = encoder_decoder("post", joint=False), rows_of(5)
    decoding = TransformerSeq2Seq(model).start_decoding(sources, START, 4)
    decoding.append(np.array([8]))
    decoding.append(np.array([2]))
    np.testing.assert_allclose(
        decoding.next_logits()[0], teacher_forced_logits(model, sources[0], [8, 2]), rtol=1e-4, atol=1e-4
    )
    decoding.select(np.array([], np.int64))
    assert decoding.next_logits().shape == (0, VOCABULARY)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_seq2seq_scores_equal_teacher_forcing_in_any_batch(norm):
    model = encoder_decoder(norm, joint=True)
    sources, targets = rows_of(5, 9, 1, 9, seed=1), rows_of(3, 1, 7, 4, seed=2)
    batched = TransformerSeq2Seq(model).score(sources, targets, START)
    for source, target, scores in zip(sources, targets, batched, strict=True):
        (alone,) = TransformerSeq2Seq(model).score([source], [target], START)
        np.testing.assert_allclose(scores, alone, rtol=1e-5, atol=1e-5)
        for position, token in enumerate(target):
            logits = torch.from_numpy(teacher_forced_logits(model, source, target[:position].tolist()))
            assert scores[position] == pytest.approx(float(torch.log_softmax(logits, -1)[token]), abs=1e-4)
