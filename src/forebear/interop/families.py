"""The architectures of Hugging Face transformers that are milestones here: their tensors' names and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forebear.interop.names import LENT, Row, Table

TABLE = "encoder.embedding.token.weight"  # of our names, those with a row for each entry of the vocabulary
TOKEN_BIAS = "heads.token.bias"
ATTENTION = ("query", "key", "value")  # stacked in ours
CONSTANT = "a constant that old versions saved, no weight"
# theirs: ours, of the names of curves
CURVES = {"gelu": "gelu", "gelu_new": "gelu-tanh", "relu": "relu", "gelu_python": "gelu"}
CURVES |= {"gelu_pytorch_tanh": "gelu-tanh"}


@dataclass(frozen=True)
class Family:
    """One architecture.

    milestone  its name here
    kind       its name there: model_type
    classes    the name of the class there by the heads that it has, the first with all of them
    fields     ours: theirs, of the numbers in config.json
    defaults   of the numbers that a config may leave out
    dropouts   theirs; one serves for all here
    inner      what the width inside the feed-forward layer is called; none: it is always four times the width
    curve      what the activation is called, if it can be chosen
    usual      the activation where a config leaves it out
    built      what it can be told to be there, and the values that are built here; if left out, it is the first
    always     heads without tensors of their own
    pairs      what its pair head asks: our word for it
    late       positions begin after the row of the padding token
    """

    milestone: str
    kind: str
    table: Table
    classes: Mapping[tuple[str, ...], str]
    fields: Mapping[str, str]
    defaults: Mapping[str, int | float]
    dropouts: tuple[str, ...]
    inner: str = ""
    curve: str = ""
    usual: str = "gelu"
    built: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    always: tuple[str, ...] = ()
    pairs: str = "none"
    late: bool = False


def layer(ours: str, *theirs: str, turned: bool = False, head: str = "", lent: bool = False) -> tuple[Row, Row]:
    """The weight and the bias of one layer."""
    weights, biases = (tuple(f"{name}.{part}" for name in theirs) for part in ("weight", "bias"))
    return Row(f"{ours}.weight", weights, turned, head, lent), Row(f"{ours}.bias", biases, False, head, lent)


# -- those that look back

DECODER_BLOCK = (
    *layer("encoder.blocks.*.attention_norm", "h.*.ln_1"),
    *layer("encoder.blocks.*.attention.query_key_value", "h.*.attn.c_attn", turned=True),
    *layer("encoder.blocks.*.attention.output", "h.*.attn.c_proj", turned=True),
    *layer("encoder.blocks.*.feedforward_norm", "h.*.ln_2"),
    *layer("encoder.blocks.*.expand", "h.*.mlp.c_fc", turned=True),
    *layer("encoder.blocks.*.contract", "h.*.mlp.c_proj", turned=True),
)
MASKS = {r"h\.\d+\.attn\.(bias|masked_bias)": CONSTANT}
GPT_FIELDS = {"width": "n_embd", "depth": "n_layer", "heads": "n_head", "context": "n_positions"}
GPT_FIELDS |= {"epsilon": "layer_norm_epsilon"}
GPT_DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
GPT_DEFAULTS: dict[str, int | float] = {"n_embd": 768, "n_layer": 12, "n_head": 12, "layer_norm_epsilon": 1e-5}
GPT_DEFAULTS |= dict.fromkeys(GPT_DROPOUTS, 0.1)
PLAIN: dict[str, tuple[Any, ...]] = {
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "auto_map": (None,),  # code of its own, which is never run
}

GPT = Family(
    milestone="gpt",
    kind="openai-gpt",
    table=Table(
        "GPT",
        "transformer.",
        (
            Row(TABLE, ("tokens_embed.weight",)),
            Row("encoder.embedding.position.weight", ("positions_embed.weight",)),
            *DECODER_BLOCK,
        ),
        copies={"lm_head.weight": "tokens_embed.weight"},
        idle=MASKS | {"position_ids": CONSTANT},
    ),
    classes={(): "OpenAIGPTLMHeadModel"},
    fields=GPT_FIELDS,
    defaults=GPT_DEFAULTS | {"n_positions": 512},
    dropouts=GPT_DROPOUTS,
    built=PLAIN | {"afn": ("gelu",)},  # by which they mean the one with a tanh, in this architecture only
    always=("next",),
)

GPT2 = Family(
    milestone="gpt2",
    kind="gpt2",
    table=Table(
        "GPT-2",
        "transformer.",
        (
            Row(TABLE, ("wte.weight",)),
            Row("encoder.embedding.position.weight", ("wpe.weight",)),
            *DECODER_BLOCK,
            *layer("encoder.final_norm", "ln_f"),
        ),
        copies={"lm_head.weight": "wte.weight"},
        idle=MASKS,
    ),
    classes={(): "GPT2LMHeadModel"},
    fields=GPT_FIELDS,
    defaults=GPT_DEFAULTS | {"n_positions": 1024},
    dropouts=GPT_DROPOUTS,
    inner="n_inner",
    built=PLAIN
    | {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    always=("next",),
)

# -- those that look both ways

EMBEDDING = (
    Row(TABLE, ("embeddings.word_embeddings.weight",)),
    Row("encoder.embedding.segment.weight", ("embeddings.token_type_embeddings.weight",)),
    *layer("encoder.embedding.norm", "embeddings.LayerNorm"),
)
POSITION = Row("encoder.embedding.position.weight", ("embeddings.position_embeddings.weight",))
ENCODER_BLOCK = (
    *layer(
        "encoder.blocks.*.attention.query_key_value",
        *(f"encoder.layer.*.attention.self.{part}" for part in ATTENTION),
    ),
    *layer("encoder.blocks.*.attention.output", "encoder.layer.*.attention.output.dense"),
    *layer("encoder.blocks.*.attention_norm", "encoder.layer.*.attention.output.LayerNorm"),
    *layer("encoder.blocks.*.expand", "encoder.layer.*.intermediate.dense"),
    *layer("encoder.blocks.*.contract", "encoder.layer.*.output.dense"),
    *layer("encoder.blocks.*.feedforward_norm", "encoder.layer.*.output.LayerNorm"),
)
BERT_HEADS = (
    Row(TOKEN_BIAS, ("cls.predictions.bias",), head="token"),
    *layer("heads.token.transform", "cls.predictions.transform.dense", head="token"),
    *layer("heads.token.transform_norm", "cls.predictions.transform.LayerNorm", head="token"),
    *layer("heads.pair.pool", "pooler.dense", head="pair", lent=True),
    *layer("heads.pair.choose", "cls.seq_relationship", head="pair"),
)
BERT_COPIES = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
PLACES = {r"embeddings\.(position_ids|token_type_ids)": CONSTANT}
BERT_FIELDS = {"width": "hidden_size", "depth": "num_hidden_layers", "heads": "num_attention_heads"}
BERT_FIELDS |= {"context": "max_position_embeddings", "epsilon": "layer_norm_eps"}
BERT_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
BERT_DEFAULTS: dict[str, int | float] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
BERT_DEFAULTS |= {"max_position_embeddings": 512, "layer_norm_eps": 1e-12, "intermediate_size": 3072}
BERT_DEFAULTS |= dict.fromkeys(BERT_DROPOUTS, 0.1)
BOTH_WAYS = PLAIN | {
    "type_vocab_size": (2,),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


def _classes(name: str) -> dict[tuple[str, ...], str]:
    return {
        ("token", "pair"): f"{name}ForPreTraining",
        ("token",): f"{name}ForMaskedLM",
        ("pair",): f"{name}ForNextSentencePrediction",
        (): f"{name}Model",
    }


BERT = Family(
    milestone="bert",
    kind="bert",
    table=Table("BERT", "bert.", (*EMBEDDING, POSITION, *ENCODER_BLOCK, *BERT_HEADS), BERT_COPIES, PLACES),
    classes=_classes("Bert"),
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    inner="intermediate_size",
    curve="hidden_act",
    built=BOTH_WAYS,
    pairs="next",
)

TASKS = "embeddings.task_type_embeddings.weight"  # of ERNIE 2 and 3: a vector for each of the tasks it was trained on
ERNIE = Family(
    milestone="ernie",
    kind="ernie",
    table=Table(
        "ERNIE",
        "ernie.",
        (*EMBEDDING, POSITION, *ENCODER_BLOCK, *BERT_HEADS),
        BERT_COPIES,
        PLACES | {TASKS: "vectors for tasks, which this model does not add to its input"},
    ),
    classes=_classes("Ernie"),
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    inner="intermediate_size",
    curve="hidden_act",
    built=BOTH_WAYS,
    pairs="next",
)

ROBERTA = Family(
    milestone="roberta",
    kind="roberta",
    table=Table(
        "RoBERTa",
        "roberta.",
        (
            *EMBEDDING,
            Row(POSITION.ours, POSITION.theirs, late=True),
            *ENCODER_BLOCK,
            Row(TOKEN_BIAS, ("lm_head.bias",), head="token"),
            *layer("heads.token.transform", "lm_head.dense", head="token"),
            *layer("heads.token.transform_norm", "lm_head.layer_norm", head="token"),
        ),
        {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
        PLACES | {r"pooler\.dense\.(weight|bias)": LENT},
    ),
    classes={("token",): "RobertaForMaskedLM", (): "RobertaModel"},
    fields=BERT_FIELDS,
    defaults=BERT_DEFAULTS,
    dropouts=BERT_DROPOUTS,
    inner="intermediate_size",
    curve="hidden_act",
    # Their head for tokens always has the exact GELU, whatever the blocks have.
    built=BOTH_WAYS | {"type_vocab_size": (1,), "hidden_act": ("gelu", "gelu_python")},
    late=True,
)

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = Family(
    milestone="albert",
    kind="albert",
    table=Table(
        "ALBERT",
        "albert.",
        (
            *EMBEDDING,
            POSITION,
            *layer("encoder.project", "encoder.embedding_hidden_mapping_in"),
            *layer("encoder.blocks.0.attention.query_key_value", *(f"{LAYER}.attention.{part}" for part in ATTENTION)),
            *layer("encoder.blocks.0.attention.output", f"{LAYER}.attention.dense"),
            *layer("encoder.blocks.0.attention_norm", f"{LAYER}.attention.LayerNorm"),
            *layer("encoder.blocks.0.expand", f"{LAYER}.ffn"),
            *layer("encoder.blocks.0.contract", f"{LAYER}.ffn_output"),
            *layer("encoder.blocks.0.feedforward_norm", f"{LAYER}.full_layer_layer_norm"),
            Row(TOKEN_BIAS, ("predictions.bias",), head="token"),
            *layer("heads.token.transform", "predictions.dense", head="token"),
            *layer("heads.token.transform_norm", "predictions.LayerNorm", head="token"),
            *layer("heads.pair.pool", "pooler", head="pair", lent=True),
            *layer("heads.pair.choose", "sop_classifier.classifier", head="pair"),
        ),
        {
            "predictions.decoder.weight": "embeddings.word_embeddings.weight",
            "predictions.decoder.bias": "predictions.bias",
        },
        PLACES,
    ),
    classes=_classes("Albert") | {("pair",): "AlbertModel"},
    fields=BERT_FIELDS | {"table": "embedding_size"},
    defaults=BERT_DEFAULTS
    | {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384, "embedding_size": 128}
    | dict.fromkeys(BERT_DROPOUTS, 0.0),
    dropouts=BERT_DROPOUTS,
    inner="intermediate_size",
    curve="hidden_act",
    usual="gelu_new",
    built=BOTH_WAYS | {"num_hidden_groups": (1,), "inner_group_num": (1,)},
    pairs="order",
)

FAMILIES = {family.milestone: family for family in (GPT, BERT, GPT2, ERNIE, ROBERTA, ALBERT)}
