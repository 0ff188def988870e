"""Reading and writing Hugging Face transformers folders: config.json, weights and tokenizer files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError
from forebear.interop import hf_tasks, tensor_names
from forebear.interop.foreign_files import read_json_object
from forebear.interop.hf_architectures import (
    ACTIVATIONS,
    ALBERT,
    ARCHITECTURES,
    ERNIE,
    ERNIE_TASK_EMBEDDING,
    TOKEN_BIAS,
    TOKEN_EMBEDDING,
    Architecture,
)
from forebear.interop.hf_tasks import adaptation_from_config, task_config, task_from_config

if TYPE_CHECKING:
    from torch import Tensor

# --- config.json ---

REFETCH_HINT = "fetch the whole folder again"


def from_hf_config(architecture: Architecture, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Convert config.json to our settings; raises InputError, which names the key, for unsupported values."""
    hint = f"give the folder of a plain {architecture.name_map.title}"
    hf_tasks.require_supported(config, architecture.supported_values, file, hint)
    settings = {**architecture.defaults, **config}
    invalid_error = partial(InputError, file=file, hint=REFETCH_HINT)
    for name, default in architecture.defaults.items():
        value = settings[name]
        if isinstance(default, int) and not (type(value) is int and value > 0):
            raise invalid_error(f"{name} is {value!r}, not a whole number above 0")
        if isinstance(default, float) and not (isinstance(value, int | float) and 0 <= value < 1):
            raise invalid_error(f"{name} is {value!r}, not a number from 0 to below 1")
    if len({settings[name] for name in architecture.dropouts}) > 1:
        unequal = ", ".join(f"{name} {settings[name]}" for name in architecture.dropouts)
        raise InputError(f"{unequal}: here one dropout serves all", file=file, hint="make them equal in the file")
    ffn_size = settings.get(architecture.ffn_key) or 0
    if type(ffn_size) is not int or ffn_size < 0:
        raise invalid_error(f"{architecture.ffn_key} is {ffn_size!r}, not a whole number")
    fields = {spec_field: settings[hf_key] for spec_field, hf_key in architecture.fields.items()}
    fields["inner"] = 0 if ffn_size == 4 * fields["width"] else ffn_size  # 0: four times the width
    fields["dropout"] = settings[architecture.dropouts[0]]
    if architecture.offset_positions:
        fields["context"] -= position_offset(architecture, config, file)
        if fields["context"] < 1:
            raise invalid_error("it has no positions but those before the first")
    if architecture.activation_key:
        activation = settings.get(architecture.activation_key, architecture.default_activation)
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            hint = f"give a model that has one of: {', '.join(ACTIVATIONS)}"
            raise InputError(f"{architecture.activation_key} is {activation!r}", file=file, hint=hint)
        fields["activation"] = ACTIVATIONS[activation]
    return fields


def to_hf_config(
    architecture: Architecture, fields: Mapping[str, Any], vocab_size: int, class_name: str, position_offset: int
) -> dict[str, Any]:
    """Convert our settings to config.json for a class; raises InputError for settings that it cannot express."""
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": [class_name],
        "vocab_size": vocab_size,
    }
    config |= {hf_key: fields[spec_field] for spec_field, hf_key in architecture.fields.items()}
    config |= dict.fromkeys(architecture.dropouts, fields["dropout"])
    config |= {key: values[0] for key, values in architecture.supported_values.items() if values[0] not in (None, {})}
    ffn_default, hf_model = 4 * fields["width"], f"{architecture.name_map.title} of transformers"
    if architecture.ffn_key:
        config[architecture.ffn_key] = fields["inner"] or (None if architecture.is_decoder else ffn_default)
    elif fields["inner"] not in (0, ffn_default):
        message = f"inner is {fields['inner']}, and {hf_model} always has {ffn_default}"
        raise InputError(message, hint="train with --inner 0 to write it so")
    if architecture.activation_key:
        names = (hf_name for hf_name, our_name in ACTIVATIONS.items() if our_name == fields["activation"])
        config[architecture.activation_key] = next(names)
    if architecture.offset_positions:
        config["max_position_embeddings"] += position_offset
    for key, supported in architecture.supported_values.items():
        if config.get(key, supported[0]) not in supported:
            message = f"{key} would be {config[key]!r}, and {hf_model} has {supported[0]!r}"
            raise InputError(message, hint="it cannot be written so; a model of the same fields as theirs can")
    return config | {"dtype": "float32"}


def position_offset(architecture: Architecture, config: Mapping[str, Any], file: Path) -> int:
    """The number of rows before the first position: RoBERTa counts positions from the padding token's id."""
    if not architecture.offset_positions:
        return 0
    pad_id = config.get("pad_token_id", 1)
    if type(pad_id) is not int or pad_id < 0:
        raise InputError(f"pad_token_id is {pad_id!r}, not the number of a token", file=file, hint=REFETCH_HINT)
    return pad_id + 1


CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE = "config.json", "model.safetensors", "model.safetensors.index.json"
NAME_MAPS = tuple(architecture.name_map for architecture in ARCHITECTURES.values())
SpecialTokens = Mapping[str, tuple[int, str]]  # role → id and token


@dataclass(frozen=True, eq=False)
class ImportedCheckpoint:
    """An imported checkpoint: model name, settings, tensors by our names and heads.

    task        settings of the fine-tuning task that the files contain
    adaptation  its `language` (LM weight) and `dropout`
    """

    model: str
    fields: dict[str, Any]
    tensors: dict[str, Tensor]
    heads: tuple[str, ...]
    report: tensor_names.NameMappingReport
    task: dict[str, Any] | None = None
    adaptation: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskExport:
    """The fine-tuning task of a run to be exported, the dropout of its head and the weight of the LM loss."""

    task: Mapping[str, Any]
    dropout: float = 0.1
    lm_weight: float = 0.0


def model_name_of(folder: Path) -> str:
    """The name of our model for a folder, by the model_type in its config.json."""
    return _architecture_of(folder, _read_config(folder)).model


def read_huggingface(folder: Path, *, tasks: bool = True) -> ImportedCheckpoint:
    """Read a transformers folder, in float32; with tasks=False, task heads are skipped."""
    config, file = _read_config(folder), folder / CONFIG_FILE
    architecture = _architecture_of(folder, config)
    fields, tensors = from_hf_config(architecture, config, file), _load_tensors(folder, config, architecture)
    if architecture is ERNIE:
        _check_ernie_tasks(config, tensors, folder)
    class_name = _model_class(config, architecture) if tasks else ""
    task_head = next((head for head in hf_tasks.TASK_HEADS[architecture.model] if head.class_name == class_name), None)
    our_tensors, report = tensor_names.to_our_names(
        architecture.name_map if task_head is None else task_head.name_map(architecture),
        tensors,
        depth=_num_blocks(architecture, fields["depth"], tensors, folder),
        num_offset_rows=position_offset(architecture, config, file),
        alternatives=tuple(candidate for candidate in NAME_MAPS if candidate is not architecture.name_map),
        file=folder,
    )
    if architecture is ALBERT and fields["table"] == fields["width"]:
        our_tensors = _drop_projection(our_tensors, folder)
    if not architecture.is_decoder:
        fields["pairs"] = architecture.sentence_task if "pair" in report.heads else "none"
    if task_head is None or not report.heads:
        heads = (*architecture.tied_heads, *report.heads)
        return ImportedCheckpoint(architecture.model, fields, our_tensors, heads, report)
    task = task_from_config(task_head, config, our_tensors, file)
    adaptation = adaptation_from_config(task_head, config, fields["dropout"], file)
    heads = (*task_head.heads, *(architecture.tied_heads if adaptation["language"] else ()))
    report, our_tensors = replace(report, heads=heads), hf_tasks.split_start_end(our_tensors)
    return ImportedCheckpoint(architecture.model, fields, our_tensors, heads, report, task, adaptation)


def trim_vocabulary(
    tensors: dict[str, Tensor], vocab_size: int, file: Path | None = None
) -> tuple[dict[str, Tensor], list[str]]:
    """Drop weight rows beyond the vocabulary, with a note on them; raise InputError if there are too few rows."""
    num_rows = len(tensors[TOKEN_EMBEDDING])
    num_extra = num_rows - vocab_size
    if num_extra < 0:
        message = f"its tokenizer has {vocab_size:,} tokens, and its table only {num_rows:,} entries"
        raise InputError(message, file=file, hint="the two do not belong together: take both from the same publisher")
    if not num_extra:
        return tensors, []
    note = f"its table has {num_extra:,} entries more than its tokenizer has tokens: they are left out"
    trimmed = {name: tensors[name][:vocab_size].clone() for name in (TOKEN_EMBEDDING, TOKEN_BIAS) if name in tensors}
    return tensors | trimmed, [note]


def write_huggingface(
    folder: Path,
    model: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    special_tokens: SpecialTokens,
    task_export: TaskExport | None = None,
) -> list[str]:
    """Write config.json and weights for transformers; returns notes on heads that were omitted."""
    from safetensors.torch import save_file

    architecture = ARCHITECTURES[model]
    config, hf_tensors = to_hf_checkpoint(model, fields, tensors, special_tokens, task_export)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(hf_tensors, folder / WEIGHTS_FILE, metadata={"format": "pt"})
    write_hf_json(folder / CONFIG_FILE, config)
    if task_export is not None:
        return []
    if architecture.is_decoder:
        write_hf_json(folder / "generation_config.json", _special_token_ids(architecture, special_tokens))
    return [
        f"{architecture.name_map.title} of transformers has no head for {head!r}: it is left out"
        for head in tensor_names.head_names(tensors)
        if head not in architecture.name_map.heads
    ]


def to_hf_checkpoint(
    model: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    special_tokens: SpecialTokens,
    task_export: TaskExport | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Convert our settings and tensors to config.json and Hugging Face tensors, without unsupported heads."""
    architecture, head = ARCHITECTURES[model], None
    name_map, title = architecture.name_map, architecture.name_map.title
    if task_export is not None:
        head = hf_tasks.head_for_task(model, task_export.task["name"])
        name_map = head.name_map(architecture)
        tensors = hf_tasks.join_start_end(hf_tasks.bake_temperature(tensors, task_export.task, fields["depth"]))
    dropped_prefixes = tuple(f"heads.{name}." for name in {*tensor_names.head_names(tensors)} - {*name_map.heads})
    exported = {name: value for name, value in tensors.items() if not name.startswith(dropped_prefixes)}
    if head is None:
        heads = set(tensor_names.head_names(exported))
        class_name = next(name for class_heads, name in architecture.classes.items() if set(class_heads) == heads)
    else:
        class_name = head.class_name
    num_offset_rows = 0
    if architecture.offset_positions:
        if "padding" not in special_tokens:
            message = f"its vocabulary has no token for padding, from which {title} counts positions"
            raise InputError(message, hint="train with a tokenizer that has one, such as --tokenizer bytepair")
        num_offset_rows = special_tokens["padding"][0] + 1
    config = to_hf_config(architecture, fields, len(tensors[TOKEN_EMBEDDING]), class_name, num_offset_rows)
    config |= _special_token_ids(architecture, special_tokens)
    if architecture is ALBERT and fields["table"] == fields["width"]:
        exported |= _identity_projection(fields["width"])
    has_prefix = architecture.is_decoder or not class_name.endswith("Model")
    hf_tensors = tensor_names.to_hf_names(
        name_map, exported, depth=fields["depth"], num_offset_rows=num_offset_rows, has_prefix=has_prefix
    )
    if head is not None and task_export is not None:
        config |= task_config(head, task_export.task, task_export.dropout, task_export.lm_weight)
        hf_tensors |= {name: exported[TOKEN_EMBEDDING].new_zeros(1) for name in head.zero_tensors}
    return config, hf_tensors


def write_hf_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _special_token_ids(architecture: Architecture, special_tokens: SpecialTokens) -> dict[str, int | None]:
    """Special token ids for config.json; decoders use one token for both the beginning and the end of a text."""
    roles = {"bos": "end" if architecture.is_decoder else "start", "eos": "end", "pad": "padding"}
    ids = {f"{name}_token_id": special_tokens.get(role, (None,))[0] for name, role in roles.items()}
    return {name: value for name, value in ids.items() if value is not None or not architecture.is_decoder}


# --- Special cases of single architectures ---


def _check_ernie_tasks(config: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Reject ERNIE with task embeddings: it adds the vector of task 0 to every token by default."""
    task_embeddings = [
        tensor for name, tensor in tensors.items() if ERNIE.name_map.without_prefix(name) == ERNIE_TASK_EMBEDDING
    ]
    if config.get("use_task_id") and (not task_embeddings or bool(task_embeddings[0][:1].count_nonzero())):
        message = "use_task_id is true: a vector for the task is added to each token, and there is no place for it here"
        hint = "give an ERNIE without tasks, such as ernie-1.0"
        raise InputError(message, file=folder / CONFIG_FILE, hint=hint)


def _identity_projection(width: int) -> dict[str, Tensor]:
    """An identity for Hugging Face's ALBERT, which always projects its embedding; results stay the same to the bit."""
    import torch

    return {"encoder.project.weight": torch.eye(width), "encoder.project.bias": torch.zeros(width)}


def _drop_projection(tensors: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Remove ALBERT's projection if the embedding is as wide as the blocks; it must be an identity."""
    import torch

    for name, identity in _identity_projection(len(tensors["encoder.project.bias"])).items():
        if not torch.equal(tensors[name], identity):
            message = "embedding_size equals hidden_size, and there still is a projection between them"
            raise InputError(message, file=folder, hint="give an ALBERT whose embedding is narrower than its blocks")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("encoder.project.")}


# --- Reading files ---


def _architecture_of(folder: Path, config: Mapping[str, Any]) -> Architecture:
    model_type = config.get("model_type")
    for architecture in ARCHITECTURES.values():
        if architecture.model_type == model_type:
            return architecture
    hint = f"give a folder of: {', '.join(architecture.model_type for architecture in ARCHITECTURES.values())}"
    if model_type is not None:
        raise InputError(f"model_type {model_type!r} cannot be imported", file=folder / CONFIG_FILE, hint=hint)
    message = "it does not say model_type"
    closest = tensor_names.closest_architecture(list(_load_tensors(folder, config, None)), NAME_MAPS)
    for architecture in ARCHITECTURES.values():
        if architecture.name_map is closest:
            message += f"; the weights look like {architecture.name_map.title}'s"
            hint = f'add "model_type": "{architecture.model_type}" to it, if that is right'
    raise InputError(message, file=folder / CONFIG_FILE, hint=hint)


def _num_blocks(architecture: Architecture, config_depth: int, tensors: Mapping[str, Tensor], folder: Path) -> int:
    """The number of blocks in config.json, checked against the weights."""
    block_prefixes = {rule.hf_names[0].split("*")[0] for rule in architecture.name_map.rules if "*" in rule.hf_names[0]}
    if not block_prefixes:  # all layers share one block
        return 1
    (block_prefix,) = block_prefixes
    names = (architecture.name_map.without_prefix(name) for name in tensors)
    blocks = {name.removeprefix(block_prefix).split(".")[0] for name in names if name.startswith(block_prefix)}
    if blocks and config_depth > len(blocks):
        message = f"{architecture.fields['depth']} is {config_depth:,}, and the weights have {len(blocks):,} blocks"
        raise InputError(message, file=folder / CONFIG_FILE, hint=REFETCH_HINT)
    return min(config_depth, len(blocks) + 1)


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG_FILE).is_file():
        hint = "give a folder that transformers' save_pretrained wrote, or one with an ELMo's options.json"
        raise InputError("there is no config.json", file=folder, hint=hint)
    return read_json_object(folder / CONFIG_FILE, REFETCH_HINT)


def _load_tensors(folder: Path, config: Mapping[str, Any], architecture: Architecture | None) -> dict[str, Tensor]:
    """All tensors of the folder, from one file or several shards; memory-mapped."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _weight_files(folder, _model_class(config, architecture)):
        try:
            tensors |= load_file(file)
        except FileNotFoundError:
            raise InputError("this file is missing", file=file, hint=REFETCH_HINT) from None
        except SafetensorError as error:
            hint = "fetch the file again"
            raise InputError(f"this is not a whole safetensors file ({error})", file=file, hint=hint) from None
    return tensors


def _model_class(config: Mapping[str, Any], architecture: Architecture | None) -> str:
    """The name of the transformers class that opens the folder."""
    classes = config.get("architectures")
    if isinstance(classes, list) and classes and isinstance(classes[0], str) and classes[0].isidentifier():
        return classes[0]
    return next(iter(architecture.classes.values())) if architecture else "AutoModel"


def _weight_files(folder: Path, model_class: str) -> list[Path]:
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    if (folder / INDEX_FILE).is_file():
        weight_map = read_json_object(folder / INDEX_FILE, REFETCH_HINT).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            message = "this is not an index: it has no weight_map of files"
            raise InputError(message, file=folder / INDEX_FILE, hint=REFETCH_HINT)
        file_names = sorted(set(weight_map.values()))
        if any(Path(name).name != name for name in file_names):
            raise InputError("it names files outside its folder", file=folder / INDEX_FILE, hint=REFETCH_HINT)
        return [folder / name for name in file_names]
    conversion = f"where you trust them: {model_class}.from_pretrained(OLD).save_pretrained(NEW)"
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        message = "the weights are pickled, and a pickle can run code when it is opened"
        raise InputError(message, file=folder, hint=f"convert them {conversion}")
    hint = f"give a folder that save_pretrained wrote, or convert old weights {conversion}"
    raise InputError(f"there is no {WEIGHTS_FILE}", file=folder, hint=hint)


# --- Tokenizer files ---

# Our role of a special token → its names in Hugging Face's files.
CAUSAL_TOKEN_NAMES = {"end": ("bos_token", "eos_token")}
BERT_TOKEN_NAMES = {"start": ("cls_token",), "end": ("sep_token",)}
ROBERTA_TOKEN_NAMES = {"start": ("bos_token", "cls_token"), "end": ("eos_token", "sep_token")}
COMMON_TOKEN_NAMES = {"unknown": ("unk_token",), "padding": ("pad_token",), "mask": ("mask_token",)}


def write_tokenizer(
    folder: Path,
    model_name: str,
    tokenizer_json: Mapping[str, Any],
    special_tokens: SpecialTokens,
    max_length: int,
    *,
    add_special: bool = False,
) -> None:
    """Write tokenizer.json with this model's input format as post-processor, and its companion files.

    `add_special`: the post-processor of a decoder adds special tokens, which only tasks need.
    """
    architecture = ARCHITECTURES[model_name]
    token_names, input_names = CAUSAL_TOKEN_NAMES, ["input_ids", "attention_mask"]
    start_role, is_roberta = "end", architecture.offset_positions
    if not architecture.is_decoder:
        token_names = ROBERTA_TOKEN_NAMES if is_roberta else BERT_TOKEN_NAMES
        start_role, add_special = "start", {"start", "end"} <= special_tokens.keys()
        if not is_roberta:
            input_names.insert(1, "token_type_ids")
    if add_special:
        has_segments = "token_type_ids" in input_names
        template = template_post_processor(
            special_tokens[start_role], special_tokens["end"], has_segments=has_segments, double_separator=is_roberta
        )
        tokenizer_json = {**tokenizer_json, "post_processor": template}
    token_names = {**token_names, **COMMON_TOKEN_NAMES}
    tokens = {
        name: special_tokens[role][1] for role, names in token_names.items() if role in special_tokens for name in names
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json, ensure_ascii=False) + "\n", encoding="utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length}
    config |= {"clean_up_tokenization_spaces": False, "model_input_names": input_names}
    write_hf_json(folder / "tokenizer_config.json", config | tokens)
    write_hf_json(folder / "special_tokens_map.json", tokens)
    model = tokenizer_json["model"]
    if model["type"] == "WordPiece":
        lines = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def template_post_processor(
    start: tuple[int, str], end: tuple[int, str], *, has_segments: bool = False, double_separator: bool = False
) -> dict[str, Any]:
    """The post-processor for [CLS] A [SEP] and [CLS] A [SEP] B [SEP].

    `has_segments`: B has segment id 1. `double_separator`: two [SEP] between A and B, as in RoBERTa.
    """

    def template_piece(kind: str, name: str, segment: int = 0) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": segment}}

    segment_b, separator = int(has_segments), template_piece("SpecialToken", end[1])
    single_template = [template_piece("SpecialToken", start[1]), template_piece("Sequence", "A"), separator]
    pair_template = [*single_template, *[separator] * double_separator, template_piece("Sequence", "B", segment_b)]
    pair_template.append(template_piece("SpecialToken", end[1], segment_b))
    special_tokens = {token: {"id": token, "ids": [token_id], "tokens": [token]} for token_id, token in (start, end)}
    return {
        "type": "TemplateProcessing",
        "single": single_template,
        "pair": pair_template,
        "special_tokens": special_tokens,
    }
