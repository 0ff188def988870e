"""Random models of transformers, and batches for both sides: padded there, rows one after the other here."""

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

from forebear.interop.tensor_names import ARCHITECTURES, to_hf_names
from forebear.nn.model import Model
from forebear.registry import model_spec

VOCABULARY, LENGTHS = 37, (9, 4, 9, 13)
SPECIALS = {"padding": (1, "<pad>"), "start": (0, "<s>"), "end": (2, "</s>"), "unknown": (3, "<unk>")}
SPECIALS |= {"mask": (4, "<mask>")}
BOTH_WAYS = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40}
BOTH_WAYS |= {"max_position_embeddings": 20, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BACK = {"n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 20}
BACK |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
# By the class there: what its config is called, and numbers.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "OpenAIGPTLMHeadModel": ("OpenAIGPTConfig", BACK),
    "GPT2LMHeadModel": ("GPT2Config", BACK | {"n_inner": 50, "layer_norm_epsilon": 1e-4}),
    "BertForPreTraining": ("BertConfig", BOTH_WAYS),
    "BertForMaskedLM": ("BertConfig", BOTH_WAYS | {"hidden_act": "relu"}),
    "BertForNextSentencePrediction": ("BertConfig", BOTH_WAYS | {"hidden_act": "gelu_new"}),
    "BertModel": ("BertConfig", BOTH_WAYS),
    "ErnieForPreTraining": ("ErnieConfig", BOTH_WAYS | {"hidden_act": "relu"}),
    "ErnieForMaskedLM": ("ErnieConfig", BOTH_WAYS),
    "RobertaForMaskedLM": ("RobertaConfig", BOTH_WAYS | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "RobertaModel": ("RobertaConfig", BOTH_WAYS | {"type_vocab_size": 1}),
    "AlbertForPreTraining": ("AlbertConfig", BOTH_WAYS | {"embedding_size": 10}),
    "AlbertForMaskedLM": ("AlbertConfig", BOTH_WAYS | {"embedding_size": 10, "hidden_act": "gelu"}),
    "AlbertModel": ("AlbertConfig", BOTH_WAYS | {"embedding_size": 10}),
}
ANSWERS = {  # ours: theirs, of what they call an answer; the first that there is
    "next": ("logits",),
    "token": ("prediction_logits", "logits"),
    "pair": ("seq_relationship_logits", "sop_logits", "logits"),
    "": ("last_hidden_state",),
}


def peer_of(name: str, **numbers: Any) -> Any:
    """A random model, with weights so large that every part of it matters to the answer."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    torch.manual_seed(1)
    config, own = PEERS[name]
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    peer = getattr(transformers, name)(getattr(transformers, config)(**own | ids | numbers))
    with torch.no_grad():
        for value in peer.parameters():
            value.copy_(value * 12 if value.dim() > 1 else value + 0.2 * torch.randn_like(value))
    return peer.eval()


def model_of(milestone: str, fields: Mapping[str, Any], vocabulary: int = VOCABULARY) -> Model:
    tokenizer: Any = SimpleNamespace(vocab_size=vocabulary)
    return model_spec(milestone)(**fields).build(tokenizer)


@dataclass(frozen=True)
class Rows:
    """Rows of unequal length, and what is asked of them."""

    tokens: Tensor  # (T,) all rows, one after the other
    segments: Tensor  # (T,)
    lengths: tuple[int, ...]
    asked: Tensor  # (T,) -1 asks for nothing
    pairs: Tensor  # (B,)

    @classmethod
    def drawn(cls, lengths: tuple[int, ...] = LENGTHS, *, segments: int = 2, vocabulary: int = VOCABULARY) -> Rows:
        draw = torch.Generator().manual_seed(2)
        size = sum(lengths)
        asked = torch.randint(0, vocabulary, (size,), generator=draw)
        asked[torch.rand(size, generator=draw) < 0.5] = -1
        return cls(
            torch.randint(5, vocabulary, (size,), generator=draw),
            torch.randint(0, segments, (size,), generator=draw),
            lengths,
            asked,
            torch.randint(0, 2, (len(lengths),), generator=draw),
        )

    @property
    def inputs(self) -> dict[str, Tensor]:
        return {"tokens": self.tokens, "lengths": torch.tensor(self.lengths), "segments": self.segments}

    def targets(self, heads: Any) -> dict[str, Tensor]:
        return {head: self.pairs if head == "pair" else self.asked for head in heads}

    def one(self, row: int) -> Rows:
        """One of them alone."""
        part = slice(sum(self.lengths[:row]), sum(self.lengths[: row + 1]))
        values = (self.tokens[part], self.segments[part], self.lengths[row : row + 1])
        return Rows(*values, self.asked[part], self.pairs[row : row + 1])

    def padded(self) -> dict[str, Tensor]:
        """As transformers wants them: of one length, with a mask."""
        cut = {
            "input_ids": self.tokens,
            "token_type_ids": self.segments,
            "attention_mask": torch.ones_like(self.tokens),
        }
        filling = {"input_ids": 1, "token_type_ids": 0, "attention_mask": 0}
        return {
            name: pad_sequence(list(values.split(self.lengths)), batch_first=True, padding_value=filling[name])
            for name, values in cut.items()
        }


def their_answers(peer: Any, rows: Rows, heads: Any) -> dict[str, Tensor]:
    """What they answer to the padded rows, without what they answer to padding."""
    given = rows.padded()
    mask = given["attention_mask"].bool()
    if peer.config.model_type in ("gpt2", "openai-gpt"):
        del given["token_type_ids"]  # by which they mean something else
    found = peer(**given)
    told = {head: next(found[name] for name in ANSWERS[head] if name in found) for head in heads}
    return {head: value if head == "pair" else value[mask] for head, value in told.items()}


def our_answers(model: Model, rows: Rows, heads: Any) -> dict[str, Tensor]:
    inputs = inputs_for(model, rows)
    return {"": model.encoder(**inputs).last} if heads == ("",) else model.logits(inputs)


def inputs_for(model: Any, rows: Rows) -> dict[str, Tensor]:
    """Those that this model takes."""
    inputs = rows.inputs
    if model.encoder.embedding.segment is None:
        del inputs["segments"]
    return inputs


def their_pulls(peer: Any, rows: Rows, heads: Any) -> dict[str, Tensor]:
    """The gradient of the mean losses, by their names."""
    peer.zero_grad()
    answers, targets = their_answers(peer, rows, heads), rows.targets(heads)
    sum(cross_entropy(answers[head], targets[head], ignore_index=-1) for head in heads).backward()  # pyright: ignore
    return {name: value.grad for name, value in peer.named_parameters() if value.grad is not None}


def our_pulls(model: Model, milestone: str, rows: Rows, before: int, depth: int) -> dict[str, Tensor]:
    """The same of ours, under their names."""
    model.zero_grad()
    targets = rows.targets(model.heads)
    losses = model(inputs_for(model, rows), targets)
    sum(loss / (targets[head] >= 0).sum() for head, loss in losses.items()).backward()  # pyright: ignore
    pulls = {
        name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in model.named_parameters()
    }
    return to_hf_names(ARCHITECTURES[milestone].name_map, pulls, depth=depth, num_offset_rows=before)
