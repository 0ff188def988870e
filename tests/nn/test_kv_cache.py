"""Incremental decoding with a KV cache gives the logits of reading each sequence anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import VOCABULARY, decoder_model, inputs, rows_of

from forebear.errors import ForebearError
from forebear.nn import encode_rows, kv_cache, softmax, weight_packing
from forebear.nn.heads import LMHead
from forebear.nn.kv_cache import IncrementalDecoder, context_start, long_text_windows
from forebear.nn.layers import DeferredLinear
from forebear.nn.next_token_predictors import TransformerPredictor

CONTEXT = 24


def read_whole(model, row: list[int]) -> np.ndarray:
    """The reference: no cache, no batch."""
    visible = row[context_start(len(row), CONTEXT) :]
    with torch.inference_mode():
        return model.logits(inputs([visible]))["next"][-1].numpy()


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return torch.log_softmax(torch.from_numpy(scores), -1).numpy()


LOOSE_ATOL = 1e-4  # processors with AMX differ by 5e-5 to 6e-5 in one of 212 scores


def check_decoding(model, rows: list[np.ndarray], steps: int, room: int, drop: dict[int, list[int]], atol=5e-5) -> None:
    """Decodes greedily; the logits of every step must equal the reference."""
    decoding = TransformerPredictor(model).start_decoding(rows, room)
    texts = [row.tolist() for row in rows]
    for step in range(steps):
        scores = decoding.next_logits()
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, [read_whole(model, text) for text in texts], atol=atol)
        next_ids = scores.argmax(1)
        decoding.append(next_ids)
        texts = [[*text, int(token)] for text, token in zip(texts, next_ids, strict=True)]
        if step in drop:
            decoding.select(np.array(drop[step]))
            texts = [texts[row] for row in drop[step]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoding_sequences_of_unequal_lengths_equals_full_forward(norm):
    check_decoding(decoder_model(norm=norm), rows_of(5, 12, 1, 5), 8, 10, {}, atol=LOOSE_ATOL)


def test_decoding_with_shared_layers_equals_full_forward():
    check_decoding(decoder_model(shared=True, depth=3), rows_of(5), 8, 8, {})


@pytest.mark.parametrize("placing", ["sinusoid", "none"])
def test_decoding_with_other_positions_and_scaled_embeddings(placing):
    check_decoding(decoder_model(placing=placing, scale=0.5), rows_of(5, 9), 8, 8, {})


class Doubled(DeferredLinear):
    """A subclass whose output is not the product with its weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Halved(LMHead):
    def logits_from(self, x: torch.Tensor) -> torch.Tensor:
        return super().logits_from(x) / 2


@pytest.mark.parametrize("count", [1, 3])
def test_decoding_calls_overridden_layers_and_heads(count):
    """Such layers, like the quantized ones, are called instead of copied."""
    model = decoder_model()
    before = TransformerPredictor(model).start_decoding(rows_of(*range(4, 4 + count)), 4).next_logits()
    for block in model.encoder.blocks:
        block.attention.query_key_value.__class__ = block.contract.__class__ = Doubled
    model.heads["next"].__class__ = Halved
    check_decoding(model, rows_of(*range(4, 4 + count)), 4, 4, {})
    decoding = TransformerPredictor(model).start_decoding(rows_of(*range(4, 4 + count)), 4)
    assert abs(decoding.next_logits() - before).max() > 0.1


def test_decoding_continues_after_dropping_and_reordering_sequences():
    check_decoding(decoder_model(), rows_of(4, 9, 2, 7, 6), 9, 9, {1: [0, 2, 3, 4], 3: [3, 0, 1], 5: [2]})


def test_decoding_beyond_maximum_length_drops_older_half_per_sequence():
    rows = rows_of(3, CONTEXT, CONTEXT + 1, 60, 20)
    check_decoding(decoder_model(context=CONTEXT), rows, 50, 50, {30: [0, 1, 3, 4], 40: [1]}, atol=LOOSE_ATOL)


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    selections=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=12),
    norm=st.sampled_from(["pre", "post"]),
)
def test_decoding_with_sequences_repeated_reordered_and_dropped_at_every_step(lengths, selections, norm):
    """As beam search does, also beyond the maximum length.

    A sequence mixed up with another has logits that are off by whole numbers.
    """
    selected_rows, count = {}, len(lengths)
    for step, rows in enumerate(selections):
        selected_rows[step], count = [row % count for row in rows], len(rows)
    check_decoding(
        decoder_model(norm=norm, context=CONTEXT), rows_of(*lengths), len(selections) + 2, 4, selected_rows, 1e-3
    )


def test_cache_select_copies_only_differing_positions(monkeypatch):
    decoding = TransformerPredictor(decoder_model()).start_decoding(rows_of(9), 8)
    decoding.select(np.array([0, 0, 0]))
    decoding.append(np.array([1, 2, 1]))
    decoding.next_logits()
    differences = []
    plain_differences = kv_cache.TransformerDecodingState._first_differences
    monkeypatch.setattr(
        kv_cache.TransformerDecodingState,
        "_first_differences",
        lambda *args: differences.append(plain_differences(*args)) or differences[-1],
    )
    decoding.select(np.array([1, 1, 0]))  # the first gets token 2, the third becomes the old first
    assert differences == [[9, 10]]


def test_decoding_more_steps_than_reserved():
    check_decoding(decoder_model(context=CONTEXT), rows_of(3, 6), 40, 2, {})


def test_append_two_tokens_and_select_no_sequence():
    model, (row,) = decoder_model(), rows_of(6)
    decoding = TransformerPredictor(model).start_decoding([row], 4)
    decoding.append(np.array([3]))
    decoding.append(np.array([8]))
    np.testing.assert_allclose(decoding.next_logits()[0], read_whole(model, [*row.tolist(), 3, 8]), atol=5e-5)
    decoding.select(np.array([], dtype=np.int64))
    assert decoding.next_logits().shape == (0, VOCABULARY)


def test_equal_prompts_are_encoded_once(monkeypatch):
    lengths_read: list[int] = []
    plain_encode = kv_cache.TransformerDecodingState._encode_texts

    def count_and_encode(self, texts, into):
        lengths_read.extend(map(len, texts))
        return plain_encode(self, texts, into)

    monkeypatch.setattr(kv_cache.TransformerDecodingState, "_encode_texts", count_and_encode)
    monkeypatch.setattr(kv_cache, "MAX_PROMPT_TOKENS", 8)  # prompts longer than one encoding batch
    one, two = rows_of(7, 5)
    check_decoding(decoder_model(), [one, two, one, one], 4, 4, {})
    assert lengths_read == [7, 5]


@pytest.mark.parametrize(
    "pack", [weight_packing.pack_for_vector, weight_packing.pack_for_matrix, weight_packing.pack_none]
)
@pytest.mark.parametrize("biased", [False, True])
def test_each_weight_packing_gives_the_same_product(pack, biased):
    torch.manual_seed(0)
    for outputs, inside in [(40, 24), (24, 40)]:
        weight, bias = torch.randn(outputs, inside), torch.randn(outputs) if biased else None
        multiply = pack(weight, bias)
        for rows in (1, 3, 70):
            x = torch.randn(rows, inside)
            expected = torch.nn.functional.linear(x, weight, bias)
            torch.testing.assert_close(multiply(x), expected, rtol=1e-5, atol=1e-5)


def test_decoding_without_packed_or_copied_weights(monkeypatch):
    rows = rows_of(5, 3)
    monkeypatch.setattr(weight_packing, "can_pack", lambda weight: False)
    check_decoding(decoder_model(), rows, 3, 3, {})
    monkeypatch.setattr(kv_cache, "MAX_COPIED_BYTES", 0)
    decoder = IncrementalDecoder((model := decoder_model()).encoder, model.heads["next"])
    assert decoder.packed_layers(1)[1].__code__ is weight_packing.pack_none(torch.zeros(1, 1), None).__code__
    check_decoding(decoder_model(), rows, 3, 3, {})


@pytest.mark.parametrize(("length", "context"), [(1, 4), (2, 4), (5, 4), (6, 4), (30, 4), (31, 5), (9, 1), (8, 100)])
def test_long_text_windows_predict_each_token_once_with_half_a_context(length, context):
    window_starts: dict[int, int] = {}
    for begin, first, end in long_text_windows(length, context):
        assert end - begin <= context
        for token in range(first, end + 1):
            assert token not in window_starts
            window_starts[token] = begin
    assert sorted(window_starts) == list(range(1, length))
    for token, begin in window_starts.items():
        assert begin == context_start(token, context)  # as in generation
        assert token - begin >= min(token, context // 2)


def test_score_equals_next_token_log_probs_of_every_prefix(monkeypatch):
    monkeypatch.setattr(encode_rows, "BATCH_TOKENS", 40)
    model, rows = decoder_model(context=CONTEXT), rows_of(9, 1, 24, 25, 26, 70, 9)
    for row, scores in zip(rows, TransformerPredictor(model).score(rows), strict=True):
        expected = [
            log_softmax(read_whole(model, row[:position].tolist()))[row[position]] for position in range(1, len(row))
        ]
        np.testing.assert_allclose(scores, np.array(expected, np.float32), atol=5e-5)


def test_next_log_probs_sum_to_one(monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 1)
    monkeypatch.setattr(softmax, "MAX_SCORES", 3 * VOCABULARY)
    model, rows = decoder_model(context=CONTEXT), rows_of(9, 1, 24, 70)
    log_probs = TransformerPredictor(model).next_log_probs(rows)
    np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(log_probs, [log_softmax(read_whole(model, row.tolist())) for row in rows], atol=5e-5)


def test_model_without_next_token_head_is_refused():
    model = decoder_model()
    model.heads["token"] = model.heads.pop("next")
    with pytest.raises(ForebearError, match="does not predict the next token"):
        TransformerPredictor(model)
