"""Random models of transformers, and batches for both libraries: padded there, packed rows here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from forebear.interop.hf_architectures import ARCHITECTURES
from forebear.interop.tensor_names import to_hf_names
from forebear.nn.model import Model
from forebear.registry import model_spec

VOCABULARY, LENGTHS = 37, (9, 4, 9, 13)
SPECIALS = {"padding": (1, "<pad>"), "start": (0, "<s>"), "end": (2, "</s>"), "unknown": (3, "<unk>")}
SPECIALS |= {"mask": (4, "<mask>")}
BIDIRECTIONAL_CONFIG = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40}
BIDIRECTIONAL_CONFIG |= {"max_position_embeddings": 20, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CAUSAL_CONFIG = {"n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 20}
CAUSAL_CONFIG |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
# By the class in transformers: its config class and values.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "OpenAIGPTLMHeadModel": ("OpenAIGPTConfig", CAUSAL_CONFIG),
    "GPT2LMHeadModel": ("GPT2Config", CAUSAL_CONFIG | {"n_inner": 50, "layer_norm_epsilon": 1e-4}),
    "BertForPreTraining": ("BertConfig", BIDIRECTIONAL_CONFIG),
    "BertForMaskedLM": ("BertConfig", BIDIRECTIONAL_CONFIG | {"hidden_act": "relu"}),
    "BertForNextSentencePrediction": ("BertConfig", BIDIRECTIONAL_CONFIG | {"hidden_act": "gelu_new"}),
    "BertModel": ("BertConfig", BIDIRECTIONAL_CONFIG),
    "ErnieForPreTraining": ("ErnieConfig", BIDIRECTIONAL_CONFIG | {"hidden_act": "relu"}),
    "ErnieForMaskedLM": ("ErnieConfig", BIDIRECTIONAL_CONFIG),
    "RobertaForMaskedLM": ("RobertaConfig", BIDIRECTIONAL_CONFIG | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "RobertaModel": ("RobertaConfig", BIDIRECTIONAL_CONFIG | {"type_vocab_size": 1}),
    "AlbertForPreTraining": ("AlbertConfig", BIDIRECTIONAL_CONFIG | {"embedding_size": 10}),
    "AlbertForMaskedLM": ("AlbertConfig", BIDIRECTIONAL_CONFIG | {"embedding_size": 10, "hidden_act": "gelu"}),
    "AlbertModel": ("AlbertConfig", BIDIRECTIONAL_CONFIG | {"embedding_size": 10}),
}
OUTPUT_NAMES = {  # by our head: names of the output in transformers, of which the first present one is used
    "next": ("logits",),
    "token": ("prediction_logits", "logits"),
    "pair": ("seq_relationship_logits", "sop_logits", "logits"),
    "": ("last_hidden_state",),
}


def random_peer(name: str, **changes: Any) -> Any:
    """A random model of transformers, with weights so large that every part affects the output."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    torch.manual_seed(1)
    config, values = PEERS[name]
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    peer = getattr(transformers, name)(getattr(transformers, config)(**values | ids | changes))
    with torch.no_grad():
        for value in peer.parameters():
            value.copy_(value * 12 if value.dim() > 1 else value + 0.2 * torch.randn_like(value))
    return peer.eval()


def build_model(model_name: str, fields: Mapping[str, Any], vocabulary: int = VOCABULARY) -> Model:
    tokenizer: Any = SimpleNamespace(vocab_size=vocabulary)
    return model_spec(model_name)(**fields).build(tokenizer)


@dataclass(frozen=True)
class Rows:
    """Sequences of unequal length, and their targets."""

    tokens: Tensor  # (T,) all rows, one after the other
    segments: Tensor  # (T,)
    lengths: tuple[int, ...]
    token_targets: Tensor  # (T,) -1: no target
    pairs: Tensor  # (B,)

    @classmethod
    def random(cls, lengths: tuple[int, ...] = LENGTHS, *, segments: int = 2, vocabulary: int = VOCABULARY) -> Rows:
        draw = torch.Generator().manual_seed(2)
        size = sum(lengths)
        token_targets = torch.randint(0, vocabulary, (size,), generator=draw)
        token_targets[torch.rand(size, generator=draw) < 0.5] = -1
        return cls(
            torch.randint(5, vocabulary, (size,), generator=draw),
            torch.randint(0, segments, (size,), generator=draw),
            lengths,
            token_targets,
            torch.randint(0, 2, (len(lengths),), generator=draw),
        )

    @property
    def inputs(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "lengths": torch.tensor(self.lengths), "segments": self.segments}

    def targets(self, heads: Any) -> dict[str, Tensor]:
        return {head: self.pairs if head == "pair" else self.token_targets for head in heads}

    def single(self, row: int) -> Rows:
        """One sequence alone."""
        part = slice(sum(self.lengths[:row]), sum(self.lengths[: row + 1]))
        values = (self.tokens[part], self.segments[part], self.lengths[row : row + 1])
        return Rows(*values, self.token_targets[part], self.pairs[row : row + 1])

    def padded(self) -> dict[str, Tensor]:
        """Inputs for transformers: padded to one length, with an attention mask."""
        packed = {
            "input_ids": self.tokens,
            "token_type_ids": self.segments,
            "attention_mask": torch.ones_like(self.tokens),
        }
        pad_values = {"input_ids": 1, "token_type_ids": 0, "attention_mask": 0}
        return {
            name: pad_sequence(list(values.split(self.lengths)), batch_first=True, padding_value=pad_values[name])
            for name, values in packed.items()
        }


def peer_outputs(peer: Any, rows: Rows, heads: Any) -> dict[str, Tensor]:
    """Outputs of transformers for the padded rows, without those at padding."""
    inputs = rows.padded()
    mask = inputs["attention_mask"].bool()
    if peer.config.model_type in ("gpt2", "openai-gpt"):
        del inputs["token_type_ids"]  # has another meaning there
    outputs = peer(**inputs)
    by_head = {head: next(outputs[name] for name in OUTPUT_NAMES[head] if name in outputs) for head in heads}
    return {head: value if head == "pair" else value[mask] for head, value in by_head.items()}


def model_outputs(model: Model, rows: Rows, heads: Any) -> dict[str, Tensor]:
    inputs = model_inputs(model, rows)
    return {"": model.encoder(**inputs).last} if heads == ("",) else model.logits(inputs)


def model_inputs(model: Any, rows: Rows) -> dict[str, Tensor]:
    """The inputs that this model takes."""
    inputs = rows.inputs
    if model.encoder.embedding.segment is None:
        del inputs["segments"]
    return inputs


def peer_gradients(peer: Any, rows: Rows, heads: Any) -> dict[str, Tensor]:
    """Gradients of the mean losses, by the parameter names of transformers."""
    peer.zero_grad()
    answers, targets = peer_outputs(peer, rows, heads), rows.targets(heads)
    sum(cross_entropy(answers[head], targets[head], ignore_index=-1) for head in heads).backward()  # pyright: ignore
    return {name: value.grad for name, value in peer.named_parameters() if value.grad is not None}


def model_gradients(model: Model, model_name: str, rows: Rows, num_offset_rows: int, depth: int) -> dict[str, Tensor]:
    """The same gradients of our model, by the parameter names of transformers."""
    model.zero_grad()
    targets = rows.targets(model.heads)
    losses = model(model_inputs(model, rows), targets)
    sum(loss / (targets[head] >= 0).sum() for head, loss in losses.items()).backward()  # pyright: ignore
    gradients = {
        name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in model.named_parameters()
    }
    return to_hf_names(ARCHITECTURES[model_name].name_map, gradients, depth=depth, num_offset_rows=num_offset_rows)
