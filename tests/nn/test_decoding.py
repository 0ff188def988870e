"""Rows continued token by token answer as if each were read whole, alone, every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from building import VOCABULARY, decoder_model, inputs, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.errors import ForebearError
from forebear.nn import encode_rows, kv_cache, softmax, weight_packing
from forebear.nn.causal_lm import TransformerCausalLM
from forebear.nn.heads import LMHead
from forebear.nn.kv_cache import IncrementalDecoder, context_start, long_text_windows
from forebear.nn.layers import DeferredLinear

CONTEXT = 24


def read_whole(model, row: list[int]) -> np.ndarray:
    """The reference: no cache, no batch."""
    seen = row[context_start(len(row), CONTEXT) :]
    with torch.inference_mode():
        return model.logits(inputs([seen]))["next"][-1].numpy()


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return torch.log_softmax(torch.from_numpy(scores), -1).numpy()


LOOSE = 1e-4  # where processors with AMX differ by 5e-5 to 6e-5 in one score of 212


def follow_along(model, rows: list[np.ndarray], steps: int, room: int, drop: dict[int, list[int]], atol=5e-5) -> None:
    """Generate greedily; every score of every step must be the reference's."""
    reader = TransformerCausalLM(model).start_decoding(rows, room)
    texts = [row.tolist() for row in rows]
    for step in range(steps):
        scores = reader.next_logits()
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, [read_whole(model, text) for text in texts], atol=atol)
        chosen = scores.argmax(1)
        reader.append(chosen)
        texts = [[*text, int(token)] for text, token in zip(texts, chosen, strict=True)]
        if step in drop:
            reader.select(np.array(drop[step]))
            texts = [texts[row] for row in drop[step]]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_rows_of_unequal_lengths(norm):
    follow_along(decoder_model(norm=norm), rows_of(5, 12, 1, 5), 8, 10, {}, atol=LOOSE)


def test_one_row_and_one_block_for_every_depth():
    follow_along(decoder_model(shared=True, depth=3), rows_of(5), 8, 8, {})


@pytest.mark.parametrize("placing", ["sinusoid", "none"])
def test_waves_and_scaled_vectors(placing):
    follow_along(decoder_model(placing=placing, scale=0.5), rows_of(5, 9), 8, 8, {})


class Doubled(DeferredLinear):
    """A layer of another class: what it does is not what its weight says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Halved(LMHead):
    def scored(self, x: torch.Tensor) -> torch.Tensor:
        return super().logits_from(x) / 2


@pytest.mark.parametrize("count", [1, 3])
def test_layers_and_heads_of_another_class_keep_their_own_way(count):
    """Such as those of small integers: they are called, not copied, whatever they hold."""
    model = decoder_model()
    plain = TransformerCausalLM(model).start_decoding(rows_of(*range(4, 4 + count)), 4).next_logits()
    for block in model.encoder.blocks:
        block.attention.query_key_value.__class__ = block.contract.__class__ = Doubled
    model.heads["next"].__class__ = Halved
    follow_along(model, rows_of(*range(4, 4 + count)), 4, 4, {})
    decoding = TransformerCausalLM(model).start_decoding(rows_of(*range(4, 4 + count)), 4)
    assert abs(decoding.next_logits() - plain).max() > 0.1


def test_ended_rows_are_dropped_in_any_order():
    follow_along(decoder_model(), rows_of(4, 9, 2, 7, 6), 9, 9, {1: [0, 2, 3, 4], 3: [3, 0, 1], 5: [2]})


def test_rows_beyond_the_context_forget_their_older_half_each_by_itself():
    rows = rows_of(3, CONTEXT, CONTEXT + 1, 60, 20)
    follow_along(decoder_model(context=CONTEXT), rows, 50, 50, {30: [0, 1, 3, 4], 40: [1]}, atol=LOOSE)


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    kept=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=12),
    norm=st.sampled_from(["pre", "post"]),
)
def test_rows_are_repeated_reordered_and_dropped_at_every_step(lengths, kept, norm):
    """As beams do: more rows than before, fewer, in circles; also beyond the context, where rows forget.

    A row that was mixed up with another has scores that are off by whole numbers.
    """
    kept_rows, count = {}, len(lengths)
    for step, rows in enumerate(kept):
        kept_rows[step], count = [row % count for row in rows], len(rows)
    follow_along(decoder_model(norm=norm, context=CONTEXT), rows_of(*lengths), len(kept) + 2, 4, kept_rows, 1e-3)


def test_only_what_differs_is_moved(monkeypatch):
    reader = TransformerCausalLM(decoder_model()).start_decoding(rows_of(9), 8)
    reader.select(np.array([0, 0, 0]))
    reader.append(np.array([1, 2, 1]))
    reader.next_logits()
    parting = []
    plain = kv_cache.TransformerDecodingState._first_differences
    monkeypatch.setattr(
        kv_cache.TransformerDecodingState,
        "_first_differences",
        lambda *args: parting.append(plain(*args)) or parting[-1],
    )
    reader.select(np.array([1, 1, 0]))  # the first takes the token 2, the third has what the first had
    assert parting == [[9, 10]]


def test_more_room_than_was_asked_for():
    follow_along(decoder_model(context=CONTEXT), rows_of(3, 6), 40, 2, {})


def test_taking_twice_and_keeping_none():
    model, (row,) = decoder_model(), rows_of(6)
    reader = TransformerCausalLM(model).start_decoding([row], 4)
    reader.append(np.array([3]))
    reader.append(np.array([8]))
    np.testing.assert_allclose(reader.next_logits()[0], read_whole(model, [*row.tolist(), 3, 8]), atol=5e-5)
    reader.select(np.array([], dtype=np.int64))
    assert reader.next_logits().shape == (0, VOCABULARY)


def test_samples_of_one_prompt_read_it_once(monkeypatch):
    read: list[int] = []
    plain = kv_cache.TransformerDecodingState._encode_texts

    def counted(self, texts, into):
        read.extend(map(len, texts))
        return plain(self, texts, into)

    monkeypatch.setattr(kv_cache.TransformerDecodingState, "_encode_texts", counted)
    monkeypatch.setattr(kv_cache, "MAX_PROMPT_TOKENS", 8)  # and prompts beyond what is read at once
    one, two = rows_of(7, 5)
    follow_along(decoder_model(), [one, two, one, one], 4, 4, {})
    assert read == [7, 5]


@pytest.mark.parametrize(
    "lay", [weight_packing.pack_for_vector, weight_packing.pack_for_matrix, weight_packing.pack_none]
)
@pytest.mark.parametrize("biased", [False, True])
def test_every_layout_is_the_same_product(lay, biased):
    torch.manual_seed(0)
    for outputs, inside in [(40, 24), (24, 40)]:
        weight, bias = torch.randn(outputs, inside), torch.randn(outputs) if biased else None
        multiply = lay(weight, bias)
        for rows in (1, 3, 70):
            x = torch.randn(rows, inside)
            wanted = torch.nn.functional.linear(x, weight, bias)
            torch.testing.assert_close(multiply(x), wanted, rtol=1e-5, atol=1e-5)


def test_without_packing_and_without_copies(monkeypatch):
    rows = rows_of(5, 3)
    monkeypatch.setattr(weight_packing, "can_pack", lambda weight: False)
    follow_along(decoder_model(), rows, 3, 3, {})
    monkeypatch.setattr(kv_cache, "MAX_COPIED_BYTES", 0)
    made = IncrementalDecoder((model := decoder_model()).encoder, model.heads["next"])
    assert made.packed_layers(1)[1].__code__ is weight_packing.pack_none(torch.zeros(1, 1), None).__code__
    follow_along(decoder_model(), rows, 3, 3, {})


@pytest.mark.parametrize(("length", "context"), [(1, 4), (2, 4), (5, 4), (6, 4), (30, 4), (31, 5), (9, 1), (8, 100)])
def test_windows_predict_every_token_once_from_at_least_half_a_context(length, context):
    told: dict[int, int] = {}
    for begin, first, end in long_text_windows(length, context):
        assert end - begin <= context
        for token in range(first, end + 1):
            assert token not in told
            told[token] = begin
    assert sorted(told) == list(range(1, length))
    for token, begin in told.items():
        assert begin == context_start(token, context)  # as it is when generated
        assert token - begin >= min(token, context // 2)


def test_scores_are_those_of_every_beginning(monkeypatch):
    monkeypatch.setattr(encode_rows, "BATCH_TOKENS", 40)
    model, rows = decoder_model(context=CONTEXT), rows_of(9, 1, 24, 25, 26, 70, 9)
    for row, found in zip(rows, TransformerCausalLM(model).score(rows), strict=True):
        wanted = [log_softmax(read_whole(model, row[:at].tolist()))[row[at]] for at in range(1, len(row))]
        np.testing.assert_allclose(found, np.array(wanted, np.float32), atol=5e-5)


def test_what_follows_is_a_distribution(monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ROWS", 1)
    monkeypatch.setattr(softmax, "MAX_SCORES", 3 * VOCABULARY)
    model, rows = decoder_model(context=CONTEXT), rows_of(9, 1, 24, 70)
    found = TransformerCausalLM(model).next_log_probs(rows)
    np.testing.assert_allclose(np.exp(found.astype(np.float64)).sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(found, [log_softmax(read_whole(model, row.tolist())) for row in rows], atol=5e-5)


def test_a_model_that_cannot_predict_is_refused():
    model = decoder_model()
    model.heads["token"] = model.heads.pop("next")
    with pytest.raises(ForebearError, match="does not predict the next token"):
        TransformerCausalLM(model)
