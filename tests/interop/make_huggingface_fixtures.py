"""Write tests/interop/fixtures: tiny models of transformers with their logits and gradients.

Run it where transformers is installed: PYTHONPATH=tests python tests/interop/make_huggingface_fixtures.py
The folders are as save_pretrained wrote them, in half precision; `expected.safetensors` has the batch, the logits of
each head without padding, and some gradients. So parity is checked where transformers is not installed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from forebear.interop.huggingface import read_huggingface
from hf_peers import Rows, peer_gradients, peer_outputs, random_peer

FIXTURES = Path(__file__).parent / "fixtures"
VOCABULARY, LENGTHS = 17, (5, 3, 8)
ENCODER_CONFIG = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
ENCODER_CONFIG |= {"max_position_embeddings": 10, "vocab_size": VOCABULARY}
DECODER_CONFIG = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 10, "vocab_size": VOCABULARY}
HF_MODELS = {
    "gpt": ("OpenAIGPTLMHeadModel", DECODER_CONFIG),
    "gpt2": ("GPT2LMHeadModel", DECODER_CONFIG | {"n_inner": 12}),
    "bert": ("BertForPreTraining", ENCODER_CONFIG),
    "ernie": ("ErnieForPreTraining", ENCODER_CONFIG),
    "roberta": ("RobertaForMaskedLM", ENCODER_CONFIG),
    "albert": ("AlbertForPreTraining", ENCODER_CONFIG | {"embedding_size": 4}),
}
GRADIENT_NAMES = ("query", "c_attn", "position", "embed", "dense.bias", "LayerNorm.weight", "ln_1.weight", "ffn.weight")


def write_fixture(model_name: str) -> None:
    class_name, config_values = HF_MODELS[model_name]
    folder = FIXTURES / model_name
    shutil.rmtree(folder, ignore_errors=True)
    hf_model = random_peer(class_name, **config_values)
    hf_model.half().save_pretrained(folder)
    hf_model.float()  # with the values that were saved
    for file in folder.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    heads = read_huggingface(folder).heads
    rows = Rows.random(LENGTHS, segments=config.get("type_vocab_size", 1), vocabulary=VOCABULARY)
    expected = {"tokens": rows.tokens, "segments": rows.segments, "asked": rows.token_targets, "pairs": rows.pairs}
    expected |= {f"logits/{head}": value.detach() for head, value in peer_outputs(hf_model, rows, heads).items()}
    gradients = peer_gradients(hf_model, rows, heads)
    expected |= {
        f"pull/{tensor_name}": value
        for tensor_name, value in gradients.items()
        if any(pattern in tensor_name for pattern in GRADIENT_NAMES)
    }
    save_file(
        {tensor_name: value.contiguous() for tensor_name, value in expected.items()}, folder / "expected.safetensors"
    )


if __name__ == "__main__":
    for model_name in HF_MODELS:
        write_fixture(model_name)
