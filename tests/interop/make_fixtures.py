"""Writes tests/interop/fixtures: tiny models of transformers, and what they answer and how they would learn.

Run it where transformers is: PYTHONPATH=tests python tests/interop/make_fixtures.py
The folders are as save_pretrained wrote them, in half precision; `expected.safetensors` has the rows, the logits of
each head without padding, and some gradients. So parity is checked where transformers is not.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from forebear.interop.huggingface import read_huggingface
from peers import Rows, peer_of, their_answers, their_pulls

FIXTURES = Path(__file__).parent / "fixtures"
VOCABULARY, LENGTHS = 17, (5, 3, 8)
BOTH_WAYS = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
BOTH_WAYS |= {"max_position_embeddings": 10, "vocab_size": VOCABULARY}
BACK = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 10, "vocab_size": VOCABULARY}
MADE = {
    "gpt": ("OpenAIGPTLMHeadModel", BACK),
    "gpt2": ("GPT2LMHeadModel", BACK | {"n_inner": 12}),
    "bert": ("BertForPreTraining", BOTH_WAYS),
    "ernie": ("ErnieForPreTraining", BOTH_WAYS),
    "roberta": ("RobertaForMaskedLM", BOTH_WAYS),
    "albert": ("AlbertForPreTraining", BOTH_WAYS | {"embedding_size": 4}),
}
PULLED = ("query", "c_attn", "position", "embed", "dense.bias", "LayerNorm.weight", "ln_1.weight", "ffn.weight")


def make(milestone: str) -> None:
    name, numbers = MADE[milestone]
    folder = FIXTURES / milestone
    shutil.rmtree(folder, ignore_errors=True)
    peer = peer_of(name, **numbers)
    peer.half().save_pretrained(folder)
    peer.float()  # with the values that were saved
    for file in folder.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    heads = read_huggingface(folder).heads
    rows = Rows.drawn(LENGTHS, segments=config.get("type_vocab_size", 1), vocabulary=VOCABULARY)
    held = {"tokens": rows.tokens, "segments": rows.segments, "asked": rows.asked, "pairs": rows.pairs}
    held |= {f"logits/{head}": value.detach() for head, value in their_answers(peer, rows, heads).items()}
    pulls = their_pulls(peer, rows, heads)
    held |= {f"pull/{part}": value for part, value in pulls.items() if any(word in part for word in PULLED)}
    save_file({part: value.contiguous() for part, value in held.items()}, folder / "expected.safetensors")


if __name__ == "__main__":
    for milestone in MADE:
        make(milestone)
