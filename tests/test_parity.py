"""Our networks are the published ones: the same logits, gradients and texts as transformers, in both directions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forebear.interop.huggingface import read_huggingface, write_huggingface
from forebear.interop.tensor_names import ARCHITECTURES
from forebear.nn.causal_lm import TransformerCausalLM
from forebear.nn.model import Model
from forebear.registry import model_spec
from peers import (
    PEERS,
    SPECIALS,
    VOCABULARY,
    Rows,
    model_of,
    our_answers,
    our_pulls,
    peer_of,
    their_answers,
    their_pulls,
)

transformers = pytest.importorskip("transformers")

WHOLE = {name: numbers for name, (_, numbers) in PEERS.items() if not name.endswith(("tModel", "aModel"))}
SMALL: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "context": 20, "inner": 40}
EXPORTED: dict[str, tuple[str, dict[str, Any]]] = {  # the class that should open it there: milestone, fields
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
    return Rows.drawn(lengths, segments=1 if name.startswith("Roberta") else 2)


def drawn(milestone: str, fields: dict[str, Any]) -> Model:
    """One of ours, with values as large as a peer's."""
    model, draw = model_of(milestone, fields).initialize(3).eval(), torch.Generator().manual_seed(4)
    with torch.no_grad():
        for value in model.parameters():
            random = torch.randn(value.shape, generator=draw)
            value.copy_(0.24 * random if value.dim() > 1 else value + 0.2 * random)
    return model


@pytest.mark.parametrize("name", PEERS)
def test_imported_models_have_the_same_logits(name: str, tmp_path: Path):
    """Padded in a batch there; here all rows together, and each alone."""
    peer, rows = peer_of(name), rows_for(name)
    peer.save_pretrained(tmp_path)
    found = read_huggingface(tmp_path)
    heads = found.heads or ("",)
    model = model_of(found.model, found.fields).with_heads(found.heads).load(found.tensors).eval()
    wanted = their_answers(peer, rows, heads)
    answers = our_answers(model, rows, heads)
    assert answers.keys() == wanted.keys()
    for head, value in wanted.items():
        assert float(value.detach().abs().max()) > 0.2  # answers that a wrong part would change
        torch.testing.assert_close(answers[head], value, rtol=0, atol=1e-4)
        alone = [our_answers(model, rows.one(row), heads)[head] for row in range(len(rows.lengths))]
        torch.testing.assert_close(torch.cat(alone), value, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", WHOLE)
def test_a_step_of_training_has_the_same_gradients(name: str, tmp_path: Path):
    peer, rows = peer_of(name), rows_for(name)
    peer.save_pretrained(tmp_path)
    found = read_huggingface(tmp_path)
    model = model_of(found.model, found.fields).with_heads(found.heads).load(found.tensors)
    wanted = their_pulls(peer, rows, found.heads)
    before = 2 if name.startswith("Roberta") else 0
    pulls = our_pulls(model, found.model, rows, before, found.fields["depth"])
    tied = {name for name in wanted if "lm_head.weight" in name or ".decoder." in name}
    assert pulls.keys() == wanted.keys() - tied
    assert max(float(value.abs().max()) for value in pulls.values()) > 0.01
    for part, value in pulls.items():
        torch.testing.assert_close(value, wanted[part], rtol=0, atol=1e-4, msg=part)


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_models_open_there_and_answer_alike(name: str, tmp_path: Path):
    milestone, fields = EXPORTED[name]
    network = drawn(milestone, fields)
    whole = asdict(model_spec(milestone)(**fields))
    assert write_huggingface(tmp_path, milestone, whole, network.tensors(), SPECIALS) == []
    peer, told = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    assert peer.config.architectures == [name]
    rows, heads = rows_for(name), tuple(network.heads)
    wanted = their_answers(peer.eval(), rows, heads)
    for head, value in our_answers(network, rows, heads).items():
        torch.testing.assert_close(value, wanted[head], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["OpenAIGPTLMHeadModel", "GPT2LMHeadModel"])
def test_exported_models_continue_alike(name: str, tmp_path: Path):
    milestone, fields = EXPORTED[name]
    model = drawn(milestone, fields | {"context": 40})
    whole = asdict(model_spec(milestone)(**fields | {"context": 40}))
    write_huggingface(tmp_path, milestone, whole, model.tensors(), {"end": (0, "<|endoftext|>")})
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens = rows_for(name, (9, 9, 9)).tokens.view(3, 9)
    length = 16
    asked = {"do_sample": False, "max_new_tokens": length, "min_new_tokens": length, "pad_token_id": 0}
    theirs = peer.generate(tokens, attention_mask=torch.ones_like(tokens), suppress_tokens=[0], **asked)[:, 9:]
    reader, found = TransformerCausalLM(model).start_decoding(list(tokens.numpy()), length), []
    for _ in range(length):
        scores = reader.next_logits()
        scores[:, 0] = -np.inf  # the end, which the peer was told to leave out too
        found.append(scores.argmax(1))
        reader.append(found[-1])
    assert np.stack(found, 1).tolist() == theirs.tolist()


def test_roberta_counts_positions_from_the_padding_token(tmp_path: Path):
    """Of any number: the first row of ours is the one after it, there and back."""
    peer = peer_of("RobertaForMaskedLM", pad_token_id=4)
    peer.save_pretrained(tmp_path / "theirs")
    found = read_huggingface(tmp_path / "theirs")
    assert found.fields["context"] == 15
    table = peer.state_dict()["roberta.embeddings.position_embeddings.weight"]
    assert torch.equal(found.tensors["encoder.embedding.position.weight"], table[5:])
    fields = asdict(model_spec("roberta")(**found.fields))
    write_huggingface(tmp_path / "ours", "roberta", fields, found.tensors, SPECIALS | {"padding": (4, "<pad>")})
    again = transformers.RobertaForMaskedLM.from_pretrained(tmp_path / "ours")
    assert again.config.max_position_embeddings == 20
    assert torch.equal(again.state_dict()["roberta.embeddings.position_embeddings.weight"][5:], table[5:])
    assert not again.state_dict()["roberta.embeddings.position_embeddings.weight"][:5].any()


def test_every_family_is_compared():
    kinds = {peer_of(name).config.model_type for name in PEERS}
    assert kinds == {family.model_type for family in ARCHITECTURES.values()}
    assert VOCABULARY > 5
