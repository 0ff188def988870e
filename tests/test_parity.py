"""Our networks equal the published ones: the same logits, gradients and texts as transformers, in both directions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forebear.interop.hf_architectures import ARCHITECTURES
from forebear.interop.huggingface import read_huggingface, write_huggingface
from forebear.nn.model import Model
from forebear.nn.next_token_predictors import TransformerPredictor
from forebear.registry import model_spec
from hf_peers import (
    PEERS,
    SPECIALS,
    VOCABULARY,
    Rows,
    build_model,
    model_gradients,
    model_outputs,
    peer_gradients,
    peer_outputs,
    random_peer,
)

transformers = pytest.importorskip("transformers")

WITH_HEADS = {name: numbers for name, (_, numbers) in PEERS.items() if not name.endswith(("tModel", "aModel"))}
SMALL: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "context": 20, "inner": 40}
EXPORTED: dict[str, tuple[str, dict[str, Any]]] = {  # class in transformers: model, fields
    "OpenAIGPTLMHeadModel": ("gpt", SMALL | {"inner": 0}),
    "GPT2LMHeadModel": ("gpt2", SMALL),
    "BertForPreTraining": ("bert", SMALL | {"activation": "gelu-tanh"}),
    "BertForMaskedLM": ("bert", SMALL | {"pairs": "none"}),
    "ErnieForPreTraining": ("ernie", SMALL),
    "RobertaForMaskedLM": ("roberta", SMALL),
    "AlbertForPreTraining": ("albert", SMALL | {"table": 10}),
    "AlbertForMaskedLM": ("albert", SMALL | {"table": 24, "pairs": "none"}),  # nothing to project
}


def rows_for(name: str, lengths: tuple[int, ...] = (9, 4, 9, 13)) -> Rows:
    return Rows.random(lengths, segments=1 if name.startswith("Roberta") else 2)


def random_model(model_name: str, fields: dict[str, Any]) -> Model:
    """A random model of ours, with weights as large as a peer's."""
    model, draw = build_model(model_name, fields).initialize(3).eval(), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            random = torch.randn(value.shape, generator=draw)
            value.copy_(0.24 * random if value.dim() > 1 else value + 0.2 * random)
    return model


@pytest.mark.parametrize("name", PEERS)
def test_imported_models_have_the_same_logits(name: str, tmp_path: Path):
    """Padded batches in transformers; here all rows together, and each alone."""
    peer, rows = random_peer(name), rows_for(name)
    peer.save_pretrained(tmp_path)
    checkpoint = read_huggingface(tmp_path)
    heads = checkpoint.heads or ("",)
    model = (
        build_model(checkpoint.model, checkpoint.fields).with_heads(checkpoint.heads).load(checkpoint.tensors).eval()
    )
    expected = peer_outputs(peer, rows, heads)
    answers = model_outputs(model, rows, heads)
    assert answers.keys() == expected.keys()
    for head, value in expected.items():
        assert float(value.detach().abs().max()) > 0.2  # large enough to show an error of any part
        torch.testing.assert_close(answers[head], value, rtol=0, atol=1e-4)
        alone = [model_outputs(model, rows.single(row), heads)[head] for row in range(len(rows.lengths))]
        torch.testing.assert_close(torch.cat(alone), value, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", WITH_HEADS)
def test_imported_models_have_the_same_gradients(name: str, tmp_path: Path):
    peer, rows = random_peer(name), rows_for(name)
    peer.save_pretrained(tmp_path)
    checkpoint = read_huggingface(tmp_path)
    model = build_model(checkpoint.model, checkpoint.fields).with_heads(checkpoint.heads).load(checkpoint.tensors)
    expected = peer_gradients(peer, rows, checkpoint.heads)
    num_offset_rows = 2 if name.startswith("Roberta") else 0
    gradients = model_gradients(model, checkpoint.model, rows, num_offset_rows, checkpoint.fields["depth"])
    tied = {name for name in expected if "lm_head.weight" in name or ".decoder." in name}
    assert gradients.keys() == expected.keys() - tied
    assert max(float(value.abs().max()) for value in gradients.values()) > 0.01
    for parameter, value in gradients.items():
        torch.testing.assert_close(value, expected[parameter], rtol=0, atol=1e-4, msg=parameter)


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_models_have_the_same_logits_in_transformers(name: str, tmp_path: Path):
    model_name, fields = EXPORTED[name]
    network = random_model(model_name, fields)
    spec_fields = asdict(model_spec(model_name)(**fields))
    assert write_huggingface(tmp_path, model_name, spec_fields, network.tensors(), SPECIALS) == []
    peer, loading_info = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(loading_info.values()), loading_info
    assert peer.config.architectures == [name]
    rows, heads = rows_for(name), tuple(network.heads)
    expected = peer_outputs(peer.eval(), rows, heads)
    for head, value in model_outputs(network, rows, heads).items():
        torch.testing.assert_close(value, expected[head], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["OpenAIGPTLMHeadModel", "GPT2LMHeadModel"])
def test_exported_models_generate_the_same_text_in_transformers(name: str, tmp_path: Path):
    model_name, fields = EXPORTED[name]
    model = random_model(model_name, fields | {"context": 40})
    spec_fields = asdict(model_spec(model_name)(**fields | {"context": 40}))
    write_huggingface(tmp_path, model_name, spec_fields, model.tensors(), {"end": (0, "<|endoftext|>")})
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens = rows_for(name, (9, 9, 9)).tokens.view(3, 9)
    length = 16
    options = {"do_sample": False, "max_new_tokens": length, "min_new_tokens": length, "pad_token_id": 0}
    expected = peer.generate(tokens, attention_mask=torch.ones_like(tokens), suppress_tokens=[0], **options)[:, 9:]
    decoder, generated = TransformerPredictor(model).start_decoding(list(tokens.numpy()), length), []
    for _ in range(length):
        scores = decoder.next_logits()
        scores[:, 0] = -np.inf  # the end token, suppressed in the peer too
        generated.append(scores.argmax(1))
        decoder.append(generated[-1])
    assert np.stack(generated, 1).tolist() == expected.tolist()


def test_roberta_counts_positions_from_the_padding_token(tmp_path: Path):
    """For any padding id: our first row is the one after it, on import and export."""
    peer = random_peer("RobertaForMaskedLM", pad_token_id=4)
    peer.save_pretrained(tmp_path / "theirs")
    checkpoint = read_huggingface(tmp_path / "theirs")
    assert checkpoint.fields["context"] == 15
    table = peer.state_dict()["roberta.embeddings.position_embeddings.weight"]
    assert torch.equal(checkpoint.tensors["encoder.embedding.position.weight"], table[5:])
    fields = asdict(model_spec("roberta")(**checkpoint.fields))
    write_huggingface(tmp_path / "ours", "roberta", fields, checkpoint.tensors, SPECIALS | {"padding": (4, "<pad>")})
    exported = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "ours")
    assert exported.config.max_position_embeddings == 20
    assert torch.equal(exported.state_dict()["roberta.embeddings.position_embeddings.weight"][5:], table[5:])
    assert not exported.state_dict()["roberta.embeddings.position_embeddings.weight"][:5].any()


def test_every_family_is_compared():
    kinds = {random_peer(name).config.model_type for name in PEERS}
    assert kinds == {family.model_type for family in ARCHITECTURES.values()}
    assert VOCABULARY > 5
