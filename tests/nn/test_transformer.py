"""The Transformer: independence of the batch, causality, dropout, and parity with BERT and ALBERT of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import decoder_model, inputs, rows_of

from forebear.errors import InputError
from forebear.nn.embedding import InputEmbedding
from forebear.nn.heads import LMHead
from forebear.nn.model import Model
from forebear.nn.transformer import Transformer


@settings(max_examples=15)
@given(st.lists(st.integers(1, 24), min_size=1, max_size=6))
def test_transformer_logits_are_independent_of_the_batch(lengths: list[int]):
    model, rows = decoder_model(), rows_of(*lengths)
    batched = model.logits(inputs(rows))["next"].split(lengths)
    for row, logits in zip(rows, batched, strict=True):
        torch.testing.assert_close(logits, model.logits(inputs([row]))["next"], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_causal_logits_do_not_depend_on_later_tokens(norm):
    model, (row,) = decoder_model(norm=norm), rows_of(12)
    other = row.copy()
    other[7:] = (other[7:] + 1) % 53
    before, after = (model.logits(inputs([ids]))["next"] for ids in (row, other))
    torch.testing.assert_close(before[:7], after[:7], rtol=0, atol=1e-6)
    assert not torch.allclose(before[7:], after[7:], atol=1e-2)


def test_sequence_longer_than_maximum_length_is_refused():
    with pytest.raises(InputError, match="a row of 25 tokens is longer than the context of 24"):
        decoder_model().logits(inputs(rows_of(3, 25)))


def test_transformer_dropout_acts_in_training_only():
    embedding = InputEmbedding(53, 32, positions=24, dropout=0.5)
    encoder = Transformer(
        embedding, depth=1, width=32, num_heads=4, inner=64, norm="pre", sees="past", activation="relu", dropout=0.5
    )
    model = Model(encoder, {"next": LMHead(embedding)}).initialize(0)
    rows = inputs(rows_of(8))
    assert model.is_random
    assert not decoder_model().is_random
    assert not torch.equal(model.train().logits(rows)["next"], model.logits(rows)["next"])
    assert torch.equal(model.eval().logits(rows)["next"], model.logits(rows)["next"])


def convert_weights(hf_weights: dict, blocks: dict[str, str], others: dict[str, str], depth: int) -> dict:
    weights = {name_ours: hf_weights[name] for name_ours, name in others.items()}
    for number in range(depth):
        for name_ours, name in blocks.items():
            for kind in ("weight", "bias"):
                parts = [hf_weights[f"{hf_name.replace('*', str(number))}.{kind}"] for hf_name in name.split(" + ")]
                weights[f"encoder.blocks.{number}.{name_ours}.{kind}"] = torch.cat(parts)
    return weights


def weight_and_bias(name_ours: str, hf_name: str) -> dict[str, str]:
    return {f"{name_ours}.{kind}": f"{hf_name}.{kind}" for kind in ("weight", "bias")}


def test_bert_logits_equal_transformers():
    """Features that GPT-2 lacks: segments, embedding norm, head transform, output bias."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    peer = BertForMaskedLM(BertConfig(vocab_size=53, max_position_embeddings=24, **sizes)).eval()
    for value in peer.parameters():
        torch.nn.init.normal_(value, std=0.3)
    layer = "bert.encoder.layer.*."
    blocks = {
        "attention.query_key_value": " + ".join(f"{layer}attention.self.{part}" for part in ("query", "key", "value")),
        "attention.output": f"{layer}attention.output.dense",
        "attention_norm": f"{layer}attention.output.LayerNorm",
        "expand": f"{layer}intermediate.dense",
        "contract": f"{layer}output.dense",
        "feedforward_norm": f"{layer}output.LayerNorm",
    }
    others = {
        "encoder.embedding.token.weight": "bert.embeddings.word_embeddings.weight",
        "encoder.embedding.position.weight": "bert.embeddings.position_embeddings.weight",
        "encoder.embedding.segment.weight": "bert.embeddings.token_type_embeddings.weight",
        "heads.token.bias": "cls.predictions.bias",
        **weight_and_bias("encoder.embedding.norm", "bert.embeddings.LayerNorm"),
        **weight_and_bias("heads.token.transform", "cls.predictions.transform.dense"),
        **weight_and_bias("heads.token.transform_norm", "cls.predictions.transform.LayerNorm"),
    }
    embedding = InputEmbedding(53, 32, positions=24, num_segments=2, norm=True, epsilon=1e-12)
    encoder = Transformer(
        embedding, depth=2, width=32, num_heads=4, inner=64, norm="post", sees="all", activation="gelu", epsilon=1e-12
    )
    head = LMHead(embedding, bias=True, transform="gelu", epsilon=1e-12)
    model = Model(encoder, {"token": head}).load(convert_weights(peer.state_dict(), blocks, others, 2)).eval()
    rows = rows_of(10, 7, 10)
    segments = torch.from_numpy(np.concatenate([np.arange(len(row)) > 4 for row in rows]).astype(np.int64))
    actual = model.logits(inputs(rows) | {"segments": segments})["token"].split([10, 7, 10])
    for row, row_segments, logits in zip(rows, segments.split([10, 7, 10]), actual, strict=True):
        expected = peer(torch.from_numpy(row)[None], token_type_ids=row_segments[None]).logits[0]
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_albert_logits_equal_transformers():
    from transformers import AlbertConfig, AlbertForMaskedLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    peer = AlbertForMaskedLM(
        AlbertConfig(vocab_size=53, embedding_size=16, max_position_embeddings=24, **sizes, hidden_act="gelu_new")
    ).eval()
    for value in peer.parameters():
        torch.nn.init.normal_(value, std=0.3)
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    blocks = {
        "attention.query_key_value": " + ".join(f"{layer}attention.{part}" for part in ("query", "key", "value")),
        "attention.output": f"{layer}attention.dense",
        "attention_norm": f"{layer}attention.LayerNorm",
        "expand": f"{layer}ffn",
        "contract": f"{layer}ffn_output",
        "feedforward_norm": f"{layer}full_layer_layer_norm",
    }
    others = {
        "encoder.embedding.token.weight": "albert.embeddings.word_embeddings.weight",
        "encoder.embedding.position.weight": "albert.embeddings.position_embeddings.weight",
        "encoder.embedding.segment.weight": "albert.embeddings.token_type_embeddings.weight",
        "heads.token.bias": "predictions.bias",
        **weight_and_bias("encoder.embedding.norm", "albert.embeddings.LayerNorm"),
        **weight_and_bias("encoder.project", "albert.encoder.embedding_hidden_mapping_in"),
        **weight_and_bias("heads.token.transform", "predictions.dense"),
        **weight_and_bias("heads.token.transform_norm", "predictions.LayerNorm"),
    }
    embedding = InputEmbedding(53, 16, positions=24, num_segments=2, norm=True, epsilon=1e-12)
    switches = {"norm": "post", "sees": "all", "activation": "gelu-tanh", "shared": True, "epsilon": 1e-12}
    encoder = Transformer(embedding, depth=3, width=32, num_heads=4, inner=64, **switches)
    head = LMHead(embedding, width=32, bias=True, transform="gelu-tanh", epsilon=1e-12)
    model = Model(encoder, {"token": head}).load(convert_weights(peer.state_dict(), blocks, others, 1)).eval()
    (row,) = rows_of(11)
    segments = torch.zeros(11, dtype=torch.long)
    actual = model.logits(inputs([row]) | {"segments": segments})["token"]
    expected = peer(torch.from_numpy(row)[None]).logits[0]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
