"""Hugging Face architectures (GPT, GPT-2, BERT, ERNIE, RoBERTa, ALBERT): tensor names and keys of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from forebear.interop.tensor_names import UNUSED_HEAD_NOTE, TensorNameMap, TensorNameRule

TOKEN_EMBEDDING = "encoder.embedding.token.weight"  # our tensors, with a row per token and per position
POSITION_EMBEDDING = "encoder.embedding.position.weight"
TOKEN_BIAS = "heads.token.bias"
ATTENTION_PROJECTIONS = ("query", "key", "value")  # stacked in ours
CONSTANT_BUFFER_NOTE = "a constant that old versions saved, no weight"
# Activations: Hugging Face name → ours.
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu-tanh", "relu": "relu"}
ACTIVATIONS |= {"gelu_python": "gelu", "gelu_pytorch_tanh": "gelu-tanh"}


@dataclass(frozen=True)
class Architecture:
    """One architecture of Hugging Face transformers.

    model               our model name
    model_type          its name in config.json
    classes             class name by its heads; the first has all of them
    fields              our settings → keys of config.json
    defaults            defaults of config.json keys
    dropouts            keys of dropout rates; our models have one rate for all
    ffn_key             key of the feed-forward size; "" means always four times the width
    activation_key      key of the activation, if it can be chosen
    default_activation  activation if config.json has none
    supported_values    key → values that our models support; the first is the default
    tied_heads          heads without own tensors: their weight is the token embedding
    sentence_task       the task of the pair head
    offset_positions    position ids start after the padding token's id, as in RoBERTa
    """

    model: str
    model_type: str
    name_map: TensorNameMap
    classes: Mapping[tuple[str, ...], str]
    fields: Mapping[str, str]
    defaults: Mapping[str, int | float]
    dropouts: tuple[str, ...]
    ffn_key: str = ""
    activation_key: str = ""
    default_activation: str = "gelu"
    supported_values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tied_heads: tuple[str, ...] = ()
    sentence_task: str = "none"
    offset_positions: bool = False

    @property
    def is_decoder(self) -> bool:
        """Whether it is a causal language model; the others are BERT and its successors."""
        return "next" in self.tied_heads


def layer_rules(
    our_name: str, *hf_names: str, is_transposed: bool = False, head: str = "", is_shared: bool = False
) -> tuple[TensorNameRule, TensorNameRule]:
    """The weight and the bias of one layer."""
    weights, biases = (tuple(f"{name}.{part}" for name in hf_names) for part in ("weight", "bias"))
    weight_rule = TensorNameRule(f"{our_name}.weight", weights, is_transposed, head, is_shared)
    return weight_rule, TensorNameRule(f"{our_name}.bias", biases, False, head, is_shared)


# --- Decoders: GPT, GPT-2 ---

DECODER_BLOCK_RULES = (
    *layer_rules("encoder.blocks.*.attention_norm", "h.*.ln_1"),
    *layer_rules("encoder.blocks.*.attention.query_key_value", "h.*.attn.c_attn", is_transposed=True),
    *layer_rules("encoder.blocks.*.attention.output", "h.*.attn.c_proj", is_transposed=True),
    *layer_rules("encoder.blocks.*.feedforward_norm", "h.*.ln_2"),
    *layer_rules("encoder.blocks.*.expand", "h.*.mlp.c_fc", is_transposed=True),
    *layer_rules("encoder.blocks.*.contract", "h.*.mlp.c_proj", is_transposed=True),
)
IGNORED_MASKS = {r"h\.\d+\.attn\.(bias|masked_bias)": CONSTANT_BUFFER_NOTE}
GPT_FIELDS = {"width": "n_embd", "depth": "n_layer", "heads": "n_head", "context": "n_positions"}
GPT_FIELDS |= {"epsilon": "layer_norm_epsilon"}
GPT_DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
GPT_DEFAULTS: dict[str, int | float] = {"n_embd": 768, "n_layer": 12, "n_head": 12, "layer_norm_epsilon": 1e-5}
GPT_DEFAULTS |= dict.fromkeys(GPT_DROPOUTS, 0.1)
COMMON_VALUES: dict[str, tuple[Any, ...]] = {
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),  # remote code, which is never run
}


def _decoder_names(title: str, token_name: str, position_name: str, *final_norm: TensorNameRule) -> TensorNameMap:
    names = {TOKEN_EMBEDDING: f"{token_name}.weight", POSITION_EMBEDDING: f"{position_name}.weight"}
    embeddings = (TensorNameRule(our_name, (name,)) for our_name, name in names.items())
    rules, tied = (*embeddings, *DECODER_BLOCK_RULES, *final_norm), {"lm_head.weight": names[TOKEN_EMBEDDING]}
    return TensorNameMap(title, "transformer.", rules, tied, IGNORED_MASKS)


GPT_NAMES = _decoder_names("GPT", "tokens_embed", "positions_embed")
GPT = Architecture(
    model="gpt",
    model_type="openai-gpt",
    name_map=replace(GPT_NAMES, ignored_names=IGNORED_MASKS | {"position_ids": CONSTANT_BUFFER_NOTE}),
    classes={(): "OpenAIGPTLMHeadModel"},
    fields=GPT_FIELDS,
    defaults=GPT_DEFAULTS | {"n_positions": 512},
    dropouts=GPT_DROPOUTS,
    supported_values=COMMON_VALUES | {"afn": ("gelu",)},  # the tanh approximation, in this architecture only
    tied_heads=("next",),
)

GPT2 = replace(
    GPT,
    model="gpt2",
    model_type="gpt2",
    name_map=_decoder_names("GPT-2", "wte", "wpe", *layer_rules("encoder.final_norm", "ln_f")),
    classes={(): "GPT2LMHeadModel"},
    defaults=GPT_DEFAULTS | {"n_positions": 1024},
    ffn_key="n_inner",
    supported_values=COMMON_VALUES
    | {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
)

# --- Encoders: BERT, ERNIE, RoBERTa, ALBERT ---

EMBEDDING_RULES = (
    TensorNameRule(TOKEN_EMBEDDING, ("embeddings.word_embeddings.weight",)),
    TensorNameRule("encoder.embedding.segment.weight", ("embeddings.token_type_embeddings.weight",)),
    *layer_rules("encoder.embedding.norm", "embeddings.LayerNorm"),
)
POSITION_RULE = TensorNameRule(POSITION_EMBEDDING, ("embeddings.position_embeddings.weight",))
ENCODER_BLOCK_RULES = (
    *layer_rules(
        "encoder.blocks.*.attention.query_key_value",
        *(f"encoder.layer.*.attention.self.{part}" for part in ATTENTION_PROJECTIONS),
    ),
    *layer_rules("encoder.blocks.*.attention.output", "encoder.layer.*.attention.output.dense"),
    *layer_rules("encoder.blocks.*.attention_norm", "encoder.layer.*.attention.output.LayerNorm"),
    *layer_rules("encoder.blocks.*.expand", "encoder.layer.*.intermediate.dense"),
    *layer_rules("encoder.blocks.*.contract", "encoder.layer.*.output.dense"),
    *layer_rules("encoder.blocks.*.feedforward_norm", "encoder.layer.*.output.LayerNorm"),
)
IGNORED_BUFFERS = {r"embeddings\.(position_ids|token_type_ids)": CONSTANT_BUFFER_NOTE}
BERT_FIELDS = {"width": "hidden_size", "depth": "num_hidden_layers", "heads": "num_attention_heads"}
BERT_FIELDS |= {"context": "max_position_embeddings", "epsilon": "layer_norm_eps"}
BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
BERT_DEFAULTS: dict[str, int | float] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
BERT_DEFAULTS |= {"max_position_embeddings": 512, "layer_norm_eps": 1e-12, "intermediate_size": 3072}
BERT_DEFAULTS |= dict.fromkeys(BERT_DROPOUTS, 0.1)
ENCODER_VALUES = COMMON_VALUES | {
    "type_vocab_size": (2,),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


def _token_head(output_layer: str, transform: str, norm: str) -> tuple[TensorNameRule, ...]:
    return (
        TensorNameRule(TOKEN_BIAS, (f"{output_layer}.bias",), head="token"),
        *layer_rules("heads.token.transform", transform, head="token"),
        *layer_rules("heads.token.transform_norm", norm, head="token"),
    )


def _pair_head(pooler: str, classifier: str) -> tuple[TensorNameRule, ...]:
    return (
        *layer_rules("heads.pair.pool", pooler, head="pair", is_shared=True),
        *layer_rules("heads.pair.choose", classifier, head="pair"),
    )


def _tied_decoder(output_layer: str) -> dict[str, str]:
    return {
        f"{output_layer}.decoder.weight": "embeddings.word_embeddings.weight",
        f"{output_layer}.decoder.bias": f"{output_layer}.bias",
    }


def _classes(name: str) -> dict[tuple[str, ...], str]:
    return {
        ("token", "pair"): f"{name}ForPreTraining",
        ("token",): f"{name}ForMaskedLM",
        ("pair",): f"{name}ForNextSentencePrediction",
        (): f"{name}Model",
    }


BERT = Architecture(
    model="bert",
    model_type="bert",
    name_map=TensorNameMap(
        "BERT",
        "bert.",
        (
            *EMBEDDING_RULES,
            POSITION_RULE,
            *ENCODER_BLOCK_RULES,
            *_token_head("cls.predictions", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
            *_pair_head("pooler.dense", "cls.seq_relationship"),
        ),
        _tied_decoder("cls.predictions"),
        IGNORED_BUFFERS,
    ),
    classes=_classes("Bert"),
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    ffn_key="intermediate_size",
    activation_key="hidden_act",
    supported_values=ENCODER_VALUES,
    sentence_task="next",
)

ERNIE_TASK_EMBEDDING = "embeddings.task_type_embeddings.weight"  # of ERNIE 2 and 3: one vector per pre-training task
ERNIE = replace(
    BERT,
    model="ernie",
    model_type="ernie",
    name_map=replace(
        BERT.name_map,
        title="ERNIE",
        prefix="ernie.",
        ignored_names=IGNORED_BUFFERS
        | {ERNIE_TASK_EMBEDDING: "vectors for tasks, which this model does not add to its input"},
    ),
    classes=_classes("Ernie"),
)

ROBERTA = replace(
    BERT,
    model="roberta",
    model_type="roberta",
    name_map=TensorNameMap(
        "RoBERTa",
        "roberta.",
        (
            *EMBEDDING_RULES,
            replace(POSITION_RULE, has_offset_rows=True),
            *ENCODER_BLOCK_RULES,
            *_token_head("lm_head", "lm_head.dense", "lm_head.layer_norm"),
        ),
        _tied_decoder("lm_head"),
        IGNORED_BUFFERS | {r"pooler\.dense\.(weight|bias)": UNUSED_HEAD_NOTE},
    ),
    classes={("token",): "RobertaForMaskedLM", (): "RobertaModel"},
    # Their LM head always uses the exact GELU, whatever the blocks use.
    supported_values=ENCODER_VALUES | {"type_vocab_size": (1,), "hidden_act": ("gelu", "gelu_python")},
    sentence_task="none",
    offset_positions=True,
)

ALBERT_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = replace(
    BERT,
    model="albert",
    model_type="albert",
    name_map=TensorNameMap(
        "ALBERT",
        "albert.",
        (
            *EMBEDDING_RULES,
            POSITION_RULE,
            *layer_rules("encoder.project", "encoder.embedding_hidden_mapping_in"),
            *layer_rules(
                "encoder.blocks.0.attention.query_key_value",
                *(f"{ALBERT_LAYER}.attention.{part}" for part in ATTENTION_PROJECTIONS),
            ),
            *layer_rules("encoder.blocks.0.attention.output", f"{ALBERT_LAYER}.attention.dense"),
            *layer_rules("encoder.blocks.0.attention_norm", f"{ALBERT_LAYER}.attention.LayerNorm"),
            *layer_rules("encoder.blocks.0.expand", f"{ALBERT_LAYER}.ffn"),
            *layer_rules("encoder.blocks.0.contract", f"{ALBERT_LAYER}.ffn_output"),
            *layer_rules("encoder.blocks.0.feedforward_norm", f"{ALBERT_LAYER}.full_layer_layer_norm"),
            *_token_head("predictions", "predictions.dense", "predictions.LayerNorm"),
            *_pair_head("pooler", "sop_classifier.classifier"),
        ),
        _tied_decoder("predictions"),
        IGNORED_BUFFERS,
    ),
    classes=_classes("Albert") | {("pair",): "AlbertModel"},
    fields=BERT_FIELDS | {"table": "embedding_size"},
    defaults=BERT_DEFAULTS
    | {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "embedding_size": 128}
    | dict.fromkeys(BERT_DROPOUTS, 0.0),
    default_activation="gelu_new",
    supported_values=ENCODER_VALUES | {"num_hidden_groups": (1,), "inner_group_num": (1,)},
    sentence_task="order",
)

ARCHITECTURES = {architecture.model: architecture for architecture in (GPT, BERT, GPT2, ERNIE, ROBERTA, ALBERT)}
