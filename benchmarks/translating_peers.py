"""A run that translates, as transformers' Marian and as a model of CTranslate2: the same weights under other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forebear.inference.run import Run


def marian(run: Run) -> Any:
    """transformers' MarianMTModel with this run's weights. It wants a token to pad with: one is put behind the rest."""
    from transformers import MarianConfig, MarianMTModel

    fields, sides = run.folder.spec, run.folder.tokenizer_pair
    if not sides.is_shared or fields.norm != "post":
        raise SystemExit("peers have one vocabulary and norms after each layer: give a run of that kind")
    end, pad = sides.target.special_roles["end"], sides.target.vocab_size
    config = MarianConfig(
        vocab_size=pad + 1,
        d_model=fields.width,
        encoder_layers=fields.depth,
        decoder_layers=fields.depth,
        encoder_attention_heads=fields.heads,
        decoder_attention_heads=fields.heads,
        encoder_ffn_dim=fields.inner,
        decoder_ffn_dim=fields.inner,
        max_position_embeddings=fields.context,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=end,
        forced_eos_token_id=None,
        decoder_start_token_id=end,
    )
    model = MarianMTModel(config).eval()
    theirs = model.state_dict()
    ours = run.network.tensors()
    table = torch.cat((ours["encoder.reader.embedding.token.weight"], torch.zeros(1, fields.width)))
    waves = run.network.encoder.reader.embedding.position.weight
    named: dict[str, Tensor] = {"final_logits_bias": torch.zeros(1, pad + 1)}
    for name in theirs:
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            named[name] = table
        elif name.endswith("embed_positions.weight"):
            named[name] = waves
    for half, own in (("encoder", "reader"), ("decoder", "writer")):
        for number in range(fields.depth):
            mine, other = f"encoder.{own}.blocks.{number}", f"model.{half}.layers.{number}"
            named |= _layer(ours, mine, other, crosses=half == "decoder")
    model.load_state_dict(named)
    return model


def _layer(ours: dict[str, Tensor], mine: str, other: str, *, crosses: bool) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        query, key, value = ours[f"{mine}.attention.query_key_value.{kind}"].chunk(3)
        parts = {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value}
        parts["self_attn.out_proj"] = ours[f"{mine}.attention.output.{kind}"]
        parts["self_attn_layer_norm"] = ours[f"{mine}.attention_norm.{kind}"]
        if crosses:
            key, value = ours[f"{mine}.cross.key_value.{kind}"].chunk(2)
            parts |= {"encoder_attn.q_proj": ours[f"{mine}.cross.query.{kind}"], "encoder_attn.k_proj": key}
            parts |= {"encoder_attn.v_proj": value, "encoder_attn.out_proj": ours[f"{mine}.cross.output.{kind}"]}
            parts["encoder_attn_layer_norm"] = ours[f"{mine}.cross_norm.{kind}"]
        parts |= {"fc1": ours[f"{mine}.expand.{kind}"], "fc2": ours[f"{mine}.contract.{kind}"]}
        parts["final_layer_norm"] = ours[f"{mine}.feedforward_norm.{kind}"]
        named |= {f"{other}.{name}.{kind}": tensor for name, tensor in parts.items()}
    return named


def ctranslate2_model(run: Run, folder: Path, threads: int, compute: str) -> Any:
    """CTranslate2's Translator of this run, whose tokens are the numbers of ours."""
    import ctranslate2
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    fields, sides = run.folder.spec, run.folder.tokenizer_pair
    spec = TransformerSpec.from_config(
        (fields.depth, fields.depth),
        fields.heads,
        pre_norm=False,
        no_final_norm=True,
        activation=Activation.RELU,
    )
    tensors = {name: tensor.numpy() for name, tensor in run.network.tensors().items()}
    table = tensors["encoder.reader.embedding.token.weight"]
    waves = run.network.encoder.reader.embedding.position.weight.numpy()
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = True
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = waves
    for half, own in ((spec.encoder, "reader"), (spec.decoder, "writer")):
        for number, layer in enumerate(half.layer):
            mine = f"encoder.{own}.blocks.{number}"
            _filled(layer.self_attention.linear[0], tensors, f"{mine}.attention.query_key_value")
            _filled(layer.self_attention.linear[1], tensors, f"{mine}.attention.output")
            _normed(layer.self_attention.layer_norm, tensors, f"{mine}.attention_norm")
            if own == "writer":
                names = ("query", "key_value", "output")
                for linear, name in zip(layer.attention.linear, names, strict=True):
                    _filled(linear, tensors, f"{mine}.cross.{name}")
                _normed(layer.attention.layer_norm, tensors, f"{mine}.cross_norm")
            _filled(layer.ffn.linear_0, tensors, f"{mine}.expand")
            _filled(layer.ffn.linear_1, tensors, f"{mine}.contract")
            _normed(layer.ffn.layer_norm, tensors, f"{mine}.feedforward_norm")
    words = [str(number) for number in range(sides.target.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    end = str(sides.target.special_roles["end"])
    spec.config.bos_token = spec.config.eos_token = spec.config.decoder_start_token = end
    spec.config.unk_token = words[
        (sides.target.special_roles["end"] + 1) % len(words)
    ]  # it wants one; nothing is unknown
    spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = fields.layer_norm_eps
    spec.validate()
    spec.optimize(quantization="int8" if compute == "int8" else None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), "cpu", compute_type=compute, inter_threads=1, intra_threads=threads)


def _filled(linear: Any, tensors: dict[str, np.ndarray], name: str) -> None:
    linear.weight, linear.bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _normed(norm: Any, tensors: dict[str, np.ndarray], name: str) -> None:
    norm.gamma, norm.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
