"""Tensor names of each Hugging Face architecture, mapped to ours and back, with a report of every name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError, join_errors

if TYPE_CHECKING:
    from torch import Tensor

OLD_SUFFIXES = {"gamma": "weight", "beta": "bias"}  # LayerNorm in old checkpoints
BLOCK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
TASK_HEAD_NAMES = r"(classifier|qa_outputs|score|multiple_choice_head)\..+"
UNUSED_HEAD_NOTE = "read by a head that is not there"
UNUSED_TASK_NOTE = "of a head for a task that is not imported"


@dataclass(frozen=True)
class TensorNameRule:
    """One of our tensors and its Hugging Face names, several if ours stacks them. `*` is the block number.

    is_transposed    stored as [in, out] instead of [out, in]
    head             the head it belongs to; "" is the encoder
    is_shared        a layer that task heads use too: its presence alone does not mean that the head is there
    has_offset_rows  theirs has extra rows before the first of ours
    """

    our_name: str
    hf_names: tuple[str, ...]
    is_transposed: bool = False
    head: str = ""
    is_shared: bool = False
    has_offset_rows: bool = False


@dataclass(frozen=True)
class TensorNameMap:
    """All tensor names of one architecture.

    title          display name
    prefix         prefix of encoder names in models with heads
    tied           names of tied copies → the name of the original
    ignored_names  patterns of names that may occur and are not used here → the reason
    """

    title: str
    prefix: str
    rules: tuple[TensorNameRule, ...]
    tied: Mapping[str, str] = field(default_factory=dict)
    ignored_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.head for rule in self.rules if rule.head))

    def expand_rules(self, depth: int) -> tuple[TensorNameRule, ...]:
        """The rules, those with `*` repeated for each block."""
        rules = []
        for rule in self.rules:
            for block in map(str, range(depth if "*" in rule.our_name else 1)):
                hf_names = tuple(name.replace("*", block) for name in rule.hf_names)
                rules.append(replace(rule, our_name=rule.our_name.replace("*", block), hf_names=hf_names))
        return tuple(rules)

    def without_prefix(self, name: str) -> str:
        """A name without the prefix, old suffixes replaced."""
        name = name.removeprefix(self.prefix)
        stem, dot, suffix = name.rpartition(".")
        return stem + dot + OLD_SUFFIXES.get(suffix, suffix)

    def count_matches(self, names: Sequence[str]) -> tuple[int, int]:
        """How many of this architecture's name patterns occur, and how many names have its prefix."""
        patterns = {BLOCK_NUMBER.sub("*", self.without_prefix(name)) for name in names}
        own_patterns = {BLOCK_NUMBER.sub("*", name) for rule in self.rules for name in rule.hf_names}
        return len(patterns & own_patterns), sum(name.startswith(self.prefix) for name in names)


@dataclass(frozen=True)
class NameMappingReport:
    """What happened to each name of an imported file: `missing` by head, `skipped_tensors` by reason."""

    title: str
    num_matched: int
    heads: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped_tensors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "architecture": self.title,
            "matched": self.num_matched,
            "heads": list(self.heads),
            "missing": {head: list(names) for head, names in self.missing.items()},
            "left_out": {reason: list(names) for reason, names in self.skipped_tensors.items()},
        }

    def notes(self) -> list[str]:
        """The report as messages."""
        notes = [f"{self.num_matched:,} names are those of {self.title}, and were read"]
        for head, names in self.missing.items():
            notes.append(f"it has no head {head!r}, because these are missing: {join_errors(names, 4)}")
        for reason, names in self.skipped_tensors.items():
            notes.append(f"left out ({reason}): {join_errors(names, 4)}")
        return notes


def to_our_names(
    name_map: TensorNameMap,
    hf_tensors: Mapping[str, Tensor],
    *,
    depth: int,
    num_offset_rows: int = 0,
    alternatives: Sequence[TensorNameMap] = (),
    file: Path | None = None,
) -> tuple[dict[str, Tensor], NameMappingReport]:
    """Convert Hugging Face tensors to our names and shapes, in float32; an error names all that do not fit.

    `num_offset_rows` are extra rows at the beginning of tensors with offset rows. `alternatives` are other
    architectures that an error may suggest.
    """
    import torch

    original_names = {name_map.without_prefix(name): name for name in hf_tensors}
    tensors = {bare_name: hf_tensors[name] for bare_name, name in original_names.items()}
    rules, present, missing = _rules_present(name_map, tensors, depth)
    expected = {name for rule in rules for name in rule.hf_names}
    tied = {tied_name: name for tied_name, name in name_map.tied.items() if tied_name in tensors and name in expected}
    for tied_name, name in tied.items():
        tensors.setdefault(name, tensors[tied_name])
        original_names.setdefault(name, original_names[tied_name])
    shared = {name for rule in name_map.rules if rule.is_shared for name in rule.hf_names} - expected
    ignored, unknown = _group_ignored(name_map, tensors.keys() - expected - tied.keys(), shared)
    faults = [f"{name} is missing" for name in sorted(expected - tensors.keys())]
    faults += [f"{name} is not known" for name in unknown]
    if len(original_names) < len(hf_tensors):
        duplicates = sorted(name for name in hf_tensors if original_names[name_map.without_prefix(name)] != name)
        faults += [f"{name} is there twice, with and without {name_map.prefix}" for name in duplicates]
    for name in sorted(expected & tensors.keys()):
        if not tensors[name].is_floating_point():
            faults.append(f"{name} is of {tensors[name].dtype}, not of floating point")
        elif not torch.isfinite(tensors[name]).all():
            faults.append(f"{name} holds what is no number")
    faults = faults or _wrong_shapes(rules, tensors, num_offset_rows)
    if not faults:
        faults = [
            f"{tied_name} is not the same as {name}"
            for tied_name, name in tied.items()
            if tensors[tied_name].dtype != tensors[name].dtype or not torch.equal(tensors[tied_name], tensors[name])
        ]
    if faults:
        raise _mismatch_error(name_map, faults, list(hf_tensors), alternatives, file)
    our_tensors = {}
    for rule in rules:
        stacked_tensors = [tensors[name].T if rule.is_transposed else tensors[name] for name in rule.hf_names]
        stacked = stacked_tensors[0] if len(stacked_tensors) == 1 else torch.cat(stacked_tensors)
        stacked = stacked[num_offset_rows:] if rule.has_offset_rows else stacked
        our_tensors[rule.our_name] = stacked.to(torch.float32).contiguous()
    skipped = {reason: tuple(original_names[name] for name in names) for reason, names in ignored.items()}
    num_matched = len({original_names[name] for name in (*expected, *tied)})
    return our_tensors, NameMappingReport(name_map.title, num_matched, present, missing, skipped)


def to_hf_names(
    name_map: TensorNameMap,
    our_tensors: Mapping[str, Tensor],
    *,
    depth: int,
    num_offset_rows: int = 0,
    has_prefix: bool = True,
) -> dict[str, Tensor]:
    """Convert our tensors to Hugging Face names; tied weights are stored once, as there."""
    import torch

    heads = head_names(our_tensors)
    rules = tuple(rule for rule in name_map.expand_rules(depth) if not rule.head or rule.head in heads)
    if unequal := sorted({rule.our_name for rule in rules} ^ our_tensors.keys()):
        raise InputError(f"not the tensors of {name_map.title} with {depth} blocks: {join_errors(unequal)}")
    hf_tensors: dict[str, Tensor] = {}
    for rule in rules:
        prefix = name_map.prefix if has_prefix and (rule.is_shared or not rule.head) else ""
        tensor = our_tensors[rule.our_name].detach().cpu()
        if rule.has_offset_rows:
            tensor = torch.cat((tensor.new_zeros(num_offset_rows, *tensor.shape[1:]), tensor))
        for name, part in zip(rule.hf_names, tensor.chunk(len(rule.hf_names)), strict=True):
            hf_tensors[prefix + name] = (part.T if rule.is_transposed else part).contiguous()
    return hf_tensors


def head_names(names: Iterable[str]) -> tuple[str, ...]:
    """The heads among our tensor names."""
    return tuple(dict.fromkeys(name.split(".")[1] for name in names if name.startswith("heads.")))


def closest_architecture(names: Sequence[str], name_maps: Sequence[TensorNameMap]) -> TensorNameMap | None:
    """The architecture that matches most names; None if no name matches."""
    closest = max(name_maps, key=lambda name_map: name_map.count_matches(names), default=None)
    return closest if closest is not None and closest.count_matches(names)[0] else None


def _mismatch_error(
    name_map: TensorNameMap, faults: list[str], names: list[str], others: Sequence[TensorNameMap], file: Path | None
) -> InputError:
    """Lists the faults and suggests a better matching architecture."""
    own_matches, closest = name_map.count_matches(names), closest_architecture(names, [name_map, *others])
    message = f"not {name_map.title}'s weights: {join_errors(faults)}"
    if not own_matches[0]:
        message = f"none of its names is one of {name_map.title}'s"
    hint = f"give the folder of a whole {name_map.title}, as save_pretrained wrote it"
    if closest is not None and closest.count_matches(names) > own_matches:
        message += f"; these look like {closest.title}'s"
        hint += f", or correct model_type in its config.json if it is {closest.title}"
    return InputError(message, file=file, hint=hint)


def _rules_present(
    name_map: TensorNameMap, tensors: Mapping[str, Tensor], depth: int
) -> tuple[tuple[TensorNameRule, ...], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The rules of the encoder and the heads present, those heads, and the missing names of other heads.

    A head counts as present if any of its names is: an incomplete head is an error.
    """
    rules = name_map.expand_rules(depth)
    present, missing = [], {}
    for head in name_map.heads:
        head_tensors = [name for rule in rules if rule.head == head and not rule.is_shared for name in rule.hf_names]
        recognized = {*head_tensors, *(copy for copy, name in name_map.tied.items() if name in head_tensors)}
        if recognized & tensors.keys():
            present.append(head)
        else:
            missing[head] = tuple(head_tensors)
    return tuple(rule for rule in rules if not rule.head or rule.head in present), tuple(present), missing


def _group_ignored(
    name_map: TensorNameMap, names: set[str], shared: set[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The names that may be ignored, grouped by reason, and the others."""
    reasons = {re.escape(name): UNUSED_HEAD_NOTE for name in sorted(shared)}
    reasons |= {**name_map.ignored_names, TASK_HEAD_NAMES: UNUSED_TASK_NOTE}
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        reason = next((reason for pattern, reason in reasons.items() if re.fullmatch(pattern, name)), "")
        groups.setdefault(reason, []).append(name)
    unknown = groups.pop("", [])
    return groups, unknown


def _wrong_shapes(rules: Sequence[TensorNameRule], tensors: Mapping[str, Tensor], num_offset_rows: int) -> list[str]:
    """Faults of shapes that cannot be transposed, stacked or split; the model checks the sizes later."""
    faults = []
    for rule in rules:
        shapes = {name: tuple(tensors[name].shape) for name in rule.hf_names}
        is_vector = rule.our_name.endswith(".bias") or "norm" in rule.our_name
        for name, shape in shapes.items():
            if len(shape) != (1 if is_vector else 2) or (rule.has_offset_rows and shape[0] <= num_offset_rows):
                faults.append(f"{name} has the shape {shape}")
        if len(set(shapes.values())) > 1:
            faults.append(f"{', '.join(shapes)} are not of one shape")
    return faults


# --- Architectures: tensor names and config.json of each ---

TOKEN_TABLE = "encoder.embedding.token.weight"  # our tensors with a row per vocabulary entry
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
    classes             class name by the heads that it has; the first has all of them
    fields              our settings → keys of config.json
    defaults            defaults of config.json keys
    dropouts            keys of dropout rates; our models have one rate for all
    ffn_key             key of the feed-forward size; "" means always four times the width
    activation_key      key of the activation, if it can be chosen
    default_activation  activation if config.json has none
    supported_values    key → values that our models support; the first is the default
    implicit_heads      heads without tensors
    sentence_task       the task of the pair head
    offset_positions    positions start after the padding token's row
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
    implicit_heads: tuple[str, ...] = ()
    sentence_task: str = "none"
    offset_positions: bool = False


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

POSITION_TABLE = "encoder.embedding.position.weight"


def _decoder_names(title: str, token_table: str, position_table: str, *final_norm: TensorNameRule) -> TensorNameMap:
    names = {TOKEN_TABLE: f"{token_table}.weight", POSITION_TABLE: f"{position_table}.weight"}
    tables = (TensorNameRule(our_name, (name,)) for our_name, name in names.items())
    rules, tied = (*tables, *DECODER_BLOCK_RULES, *final_norm), {"lm_head.weight": names[TOKEN_TABLE]}
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
    implicit_heads=("next",),
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
    TensorNameRule(TOKEN_TABLE, ("embeddings.word_embeddings.weight",)),
    TensorNameRule("encoder.embedding.segment.weight", ("embeddings.token_type_embeddings.weight",)),
    *layer_rules("encoder.embedding.norm", "embeddings.LayerNorm"),
)
POSITION_RULE = TensorNameRule(POSITION_TABLE, ("embeddings.position_embeddings.weight",))
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

ERNIE_TASK_TABLE = "embeddings.task_type_embeddings.weight"  # of ERNIE 2 and 3: a vector per pre-training task
ERNIE = replace(
    BERT,
    model="ernie",
    model_type="ernie",
    name_map=replace(
        BERT.name_map,
        title="ERNIE",
        prefix="ernie.",
        ignored_names=IGNORED_BUFFERS
        | {ERNIE_TASK_TABLE: "vectors for tasks, which this model does not add to its input"},
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

ARCHITECTURES = {family.model: family for family in (GPT, BERT, GPT2, ERNIE, ROBERTA, ALBERT)}
