"""Our networks are the published ones: the same logits, gradients and texts as transformers, in both directions."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from forebear.interop.huggingface import into_ours, into_theirs, read_folder, write_folder
from forebear.milestones.gpt2 import Gpt2
from forebear.networks.model import Model
from forebear.networks.predictor import NetworkPredictor

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

SHAPES: dict[str, dict[str, Any]] = {
    "square": {"vocab_size": 97, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 32},
    "deep": {"vocab_size": 61, "n_embd": 24, "n_layer": 6, "n_head": 3, "n_positions": 64, "layer_norm_epsilon": 1e-4},
    "odd": {"vocab_size": 130, "n_embd": 60, "n_layer": 2, "n_head": 5, "n_positions": 40, "n_inner": 100},
}
NO_CHANCE = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def peer_of(shape: str):
    """A random GPT-2 of transformers, with weights so large that every part of it matters to the answer."""
    torch.manual_seed(1)
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    peer = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SHAPES[shape], **NO_CHANCE, **ids)).eval()
    with torch.no_grad():
        for value in peer.parameters():
            value.copy_(value * 6 if value.dim() > 1 else value + 0.2 * torch.randn_like(value))
    return peer


def model_of(fields: dict[str, Any], vocabulary: int) -> Model:
    tokenizer: Any = SimpleNamespace(size=vocabulary)
    return Gpt2(**fields).network(tokenizer)


def texts(shape: str, rows: int = 4, length: int = 20) -> torch.Tensor:
    vocabulary = SHAPES[shape]["vocab_size"]
    return torch.randint(1, vocabulary, (rows, length), generator=torch.Generator().manual_seed(2))


def logits_of(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    rows, length = tokens.shape
    found = model.answers({"tokens": tokens.flatten(), "lengths": torch.tensor([length] * rows)})["next"]
    return found.view(rows, length, -1)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_imported_gpt2_has_the_same_logits(shape: str, tmp_path: Path):
    peer, tokens = peer_of(shape), texts(shape)
    peer.save_pretrained(tmp_path)
    fields, tensors = read_folder(tmp_path)
    model = model_of(fields, peer.config.vocab_size).load(tensors).eval()
    wanted = peer(tokens).logits
    assert float(wanted.detach().abs().max()) > 1  # answers that a wrong part would change
    torch.testing.assert_close(logits_of(model, tokens), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_exported_gpt2_opens_there_and_continues_alike(shape: str, tmp_path: Path):
    tokens = texts(shape, rows=3, length=9)
    numbers = SHAPES[shape]
    fields = {"width": numbers["n_embd"], "depth": numbers["n_layer"], "heads": numbers["n_head"]}
    fields |= {"context": numbers["n_positions"], "inner": numbers.get("n_inner", 0), "dropout": 0.1, "epsilon": 1e-5}
    model = model_of(fields, numbers["vocab_size"]).initialise(3).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(8 if value.dim() > 1 else 1)
    write_folder(tmp_path, fields, model.tensors(), {"end": (0, "<|endoftext|>")})
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(logits_of(model, tokens), peer(tokens).logits, rtol=0, atol=1e-4)
    length = 16
    asked = {"do_sample": False, "max_new_tokens": length, "min_new_tokens": length}
    theirs = peer.generate(tokens, attention_mask=torch.ones_like(tokens), suppress_tokens=[0], **asked)[:, 9:]
    reader, found = NetworkPredictor(model).read(list(tokens.numpy()), length), []
    for _ in range(length):
        scores = reader.next()
        scores[:, 0] = -np.inf  # the end, which the peer was told to leave out too
        found.append(scores.argmax(1))
        reader.take(found[-1])
    assert np.stack(found, 1).tolist() == theirs.tolist()


def test_an_exported_tokenizer_folder_is_whole(tmp_path: Path):
    """With tokenizer.json beside it, transformers opens the folder and reads a text as we do."""
    from forebear.text.training import train

    tokenizer = train("bytepair", ["the cat sat on the mat and the dog sat on the log"] * 5, size=300)
    model = Gpt2(width=16, depth=1, heads=2, context=32)
    fields = {name: getattr(model, name) for name in ("width", "depth", "heads", "context", "inner", "dropout")}
    specials = {role: (number, tokenizer.token(number)) for role, number in tokenizer.roles.items()}
    tensors = model.network(tokenizer).initialise(0).tensors()
    write_folder(tmp_path, fields | {"epsilon": model.epsilon}, tensors, specials)
    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "the dog sat. 猫!"
    assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode(text).ids.tolist()
    assert theirs.eos_token_id == tokenizer.roles["end"]
    assert theirs.decode(tokenizer.encode(text).ids) == text


def test_a_step_of_training_has_the_same_gradients():
    shape = "odd"
    peer, tokens = peer_of(shape).train(), texts(shape)
    tensors = into_ours({name: value.clone() for name, value in peer.state_dict().items()}, depth=2)
    fields = {"width": 60, "depth": 2, "heads": 5, "context": 40, "inner": 100}
    model = model_of(fields, 130).load(tensors).train()
    targets = tokens.roll(-1, 1)
    targets[:, -1] = -1
    loss = torch.nn.functional.cross_entropy(peer(tokens).logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
    loss.backward()
    inputs = {"tokens": tokens.flatten(), "lengths": torch.tensor([20] * 4)}
    ours = model(inputs, {"next": targets.flatten()})["next"] / (4 * 19)
    ours.backward()
    assert ours.item() == pytest.approx(loss.item(), rel=1e-5)
    gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    wanted = {name: value.grad for name, value in peer.named_parameters()}
    found = into_theirs(gradients, depth=2)
    assert found.keys() == wanted.keys() - {"lm_head.weight"}
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-3, atol=1e-5, msg=name)
