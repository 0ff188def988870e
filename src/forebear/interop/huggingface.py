"""Folders of Hugging Face transformers, in and out: config.json and the weights of every architecture known here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError
from forebear.interop import hf_tasks, tensor_names
from forebear.interop.hf_tasks import head_dropout, lm_weight, task_config, task_from_config
from forebear.interop.tensor_names import (
    ALBERT,
    CURVES,
    ERNIE,
    FAMILIES,
    TASKS,
    TOKEN_BIAS,
    TOKEN_TABLE,
    Architecture,
)

if TYPE_CHECKING:
    from torch import Tensor

# The config.json of transformers and our fields: each from the other; what is not built here is refused by name.


REFETCH_HINT = "fetch the whole folder again"


def from_hf_config(family: Architecture, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Our fields of their config; what it asks for and is not built here is refused by its name."""
    for name, built in family.built.items():
        if config.get(name, built[0]) not in built:
            what = f"{name} is {config[name]!r}; here it can only be {built[0]!r}"
            raise InputError(what, file=file, hint=f"give the folder of a plain {family.name_map.title}")
    told = {**family.defaults, **config}
    for name, default in family.defaults.items():
        value = told[name]
        if isinstance(default, int) and not (type(value) is int and value > 0):
            raise InputError(f"{name} is {value!r}, not a whole number above 0", file=file, hint=REFETCH_HINT)
        if isinstance(default, float) and not (isinstance(value, int | float) and 0 <= value < 1):
            raise InputError(f"{name} is {value!r}, not a number from 0 to below 1", file=file, hint=REFETCH_HINT)
    if len({told[name] for name in family.dropouts}) > 1:
        differ = ", ".join(f"{name} {told[name]}" for name in family.dropouts)
        raise InputError(f"{differ}: here one dropout serves all", file=file, hint="make them equal in the file")
    fields = {ours: told[theirs] for ours, theirs in family.fields.items()}
    fields |= {"inner": _inner(family, told, fields["width"], file), "dropout": told[family.dropouts[0]]}
    if family.offset_positions:
        fields["context"] -= position_offset(family, config, file)
        if fields["context"] < 1:
            raise InputError("it has no positions but those before the first", file=file, hint=REFETCH_HINT)
    if family.activation_key:
        curve = told.get(family.activation_key, family.default_activation)
        if not isinstance(curve, str) or curve not in CURVES:
            known = ", ".join(CURVES)
            raise InputError(
                f"{family.activation_key} is {curve!r}", file=file, hint=f"give a model that has one of: {known}"
            )
        fields["activation"] = CURVES[curve]
    return fields


def to_hf_config(
    family: Architecture, fields: Mapping[str, Any], vocabulary: int, name: str, before: int
) -> dict[str, Any]:
    """Their config of our fields, for the class of this name; what they cannot be told is refused."""
    facts: dict[str, Any] = {"model_type": family.kind, "architectures": [name], "vocab_size": vocabulary}
    facts |= {theirs: fields[ours] for ours, theirs in family.fields.items()}
    facts |= dict.fromkeys(family.dropouts, fields["dropout"])
    facts |= {setting: values[0] for setting, values in family.built.items() if values[0] not in (None, {})}
    wide = 4 * fields["width"]
    if family.ffn_key:
        facts[family.ffn_key] = (fields["inner"] or None) if family.implicit_heads else (fields["inner"] or wide)
    elif fields["inner"] not in (0, wide):
        what = f"inner is {fields['inner']}, and {family.name_map.title} of transformers always has {wide}"
        raise InputError(what, hint="train with --inner 0 to write it so")
    if family.activation_key:
        facts[family.activation_key] = next(theirs for theirs, ours in CURVES.items() if ours == fields["activation"])
    if family.offset_positions:
        facts["max_position_embeddings"] += before
    for setting, built in family.built.items():
        if facts.get(setting, built[0]) not in built:
            what = (
                f"{setting} would be {facts[setting]!r}, and {family.name_map.title} of transformers has {built[0]!r}"
            )
            raise InputError(what, hint="it cannot be written so; a model of the same fields as theirs can")
    return facts | {"dtype": "float32"}


def position_offset(family: Architecture, config: Mapping[str, Any], file: Path) -> int:
    """How many rows of positions come before the first: RoBERTa counts on from the padding token."""
    if not family.offset_positions:
        return 0
    padding = config.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise InputError(f"pad_token_id is {padding!r}, not the number of a token", file=file, hint=REFETCH_HINT)
    return padding + 1


def _inner(family: Architecture, told: Mapping[str, Any], width: int, file: Path) -> int:
    """0 where it is four times the width, as everywhere here."""
    inner = told.get(family.ffn_key) or 0 if family.ffn_key else 0
    if type(inner) is not int or inner < 0:
        raise InputError(f"{family.ffn_key} is {inner!r}, not a whole number", file=file, hint=REFETCH_HINT)
    return 0 if inner == 4 * width else inner


CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TABLES = tuple(family.name_map for family in FAMILIES.values())
SpecialTokens = Mapping[str, tuple[int, str]]  # our roles with their ids and tokens


@dataclass(frozen=True, eq=False)
class ForeignCheckpoint:
    """What another program's files hold, in our words: a milestone's name and fields, its weights and its heads.

    task        what it was adapted to, as far as the files tell
    adaptation  and how: `language` and `dropout`
    """

    model: str
    fields: dict[str, Any]
    tensors: dict[str, Tensor]
    heads: tuple[str, ...]
    report: tensor_names.NameMappingReport
    task: dict[str, Any] | None = None
    adaptation: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskExport:
    """A task that a run to be written was adapted to, in our words, its head's dropout, and what `next` counted."""

    task: Mapping[str, Any]
    dropout: float = 0.1
    lm_weight: float = 0.0


def milestone_of(folder: Path) -> str:
    """Which of our milestones the folder holds, by what its config.json calls itself."""
    return _family_of(folder, _config(folder)).model


def read_huggingface(folder: Path, *, tasks: bool = True) -> ForeignCheckpoint:
    """The model of a folder that transformers wrote, in float32; without `tasks`, a head for one is left out."""
    config, file = _config(folder), folder / CONFIG
    family = _family_of(folder, config)
    fields, tensors = from_hf_config(family, config, file), _stored(folder, config, family)
    before, depth = position_offset(family, config, file), _depth(family, fields["depth"], tensors, folder)
    if family is ERNIE:
        _check_tasks(config, tensors, folder)
    adapted = hf_tasks.head_for_class(family.model, _class_of(config, family)) if tasks else None
    table = family.name_map if adapted is None else adapted.name_map(family)
    others = tuple(other for other in TABLES if other is not family.name_map)
    ours, report = tensor_names.to_our_names(table, tensors, depth=depth, before=before, others=others, file=folder)
    if family is ALBERT and fields["table"] == fields["width"]:
        ours = _unprojected(ours, folder)
    if family.activation_key:
        fields["pairs"] = family.sentence_task if "pair" in report.heads else "none"
    if adapted is None or not report.heads:
        return ForeignCheckpoint(family.model, fields, ours, (*family.implicit_heads, *report.heads), report)
    task, language = task_from_config(adapted, config, ours, file), lm_weight(adapted, config)
    how = {"dropout": head_dropout(adapted, config, fields["dropout"], file), "language": language}
    heads = (*adapted.heads, *(family.implicit_heads if language else ()))
    report = replace(report, heads=heads)
    return ForeignCheckpoint(family.model, fields, hf_tasks.split_start_end(ours), heads, report, task, how)


def trim_vocabulary(
    tensors: dict[str, Tensor], vocabulary: int, file: Path | None = None
) -> tuple[dict[str, Tensor], list[str]]:
    """The weights without entries that only round the table up, and a word about them; too few are an error."""
    idle = len(tensors[TOKEN_TABLE]) - vocabulary
    if idle < 0:
        what = f"its tokenizer has {vocabulary:,} tokens, and its table only {len(tensors[TOKEN_TABLE]):,} entries"
        raise InputError(what, file=file, hint="the two do not belong together: take both from the same publisher")
    if not idle:
        return tensors, []
    note = f"its table has {idle:,} entries more than its tokenizer has tokens: they are left out"
    cut = {name: tensors[name][:vocabulary].clone() for name in (TOKEN_TABLE, TOKEN_BIAS) if name in tensors}
    return tensors | cut, [note]


def write_huggingface(
    folder: Path,
    milestone: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    specials: SpecialTokens,
    adapted: TaskExport | None = None,
) -> list[str]:
    """Config and weights as transformers wants them; returns what had to be left out."""
    from safetensors.torch import save_file

    family = FAMILIES[milestone]
    config, theirs = written(milestone, fields, tensors, specials, adapted)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(theirs, folder / WEIGHTS, metadata={"format": "pt"})
    write_hf_json(folder / CONFIG, config)
    if adapted is not None:
        return []
    if family.implicit_heads:
        write_hf_json(folder / "generation_config.json", _ids(family, specials))
    lost = [head for head in tensor_names.head_names(tensors) if head not in family.name_map.heads]
    return [f"{family.name_map.title} of transformers has no head for {head!r}: it is left out" for head in lost]


def written(
    milestone: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    specials: SpecialTokens,
    adapted: TaskExport | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Their config and their tensors of ours, without heads that they do not have."""
    family = FAMILIES[milestone]
    head = None if adapted is None else hf_tasks.head_for_task(milestone, adapted.task["name"])
    table = family.name_map if head is None else head.name_map(family)
    if adapted is not None:
        tensors = hf_tasks.join_start_end(hf_tasks.bake_temperature(tensors, adapted.task, fields["depth"]))
    known = set(table.heads)
    kept = {name: value for name, value in tensors.items() if known.issuperset(tensor_names.head_names([name]))}
    heads, before = set(tensor_names.head_names(kept)), _rows_before(family, specials)
    name = head.name if head else next(name for own, name in family.classes.items() if set(own) == heads)
    config = to_hf_config(family, fields, len(tensors[TOKEN_TABLE]), name, before) | _ids(family, specials)
    if family is ALBERT and fields["table"] == fields["width"]:
        kept |= _projection(fields["width"])
    prefixed = bool(family.implicit_heads) or not name.endswith("Model")
    theirs = tensor_names.to_hf_names(table, kept, depth=fields["depth"], before=before, prefixed=prefixed)
    if head is not None and adapted is not None:
        config |= task_config(head, adapted.task, adapted.dropout, adapted.lm_weight)
        theirs |= {name: kept[TOKEN_TABLE].new_zeros(1) for name in head.zero_tensors}
    return config, theirs


def write_hf_json(path: Path, facts: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _ids(family: Architecture, specials: SpecialTokens) -> dict[str, int | None]:
    """The special tokens by their numbers; what looks back has one that both begins and ends a text."""
    roles = {
        "bos_token_id": "end" if family.implicit_heads else "start",
        "eos_token_id": "end",
        "pad_token_id": "padding",
    }
    ids = {name: specials[role][0] if role in specials else None for name, role in roles.items()}
    return {name: value for name, value in ids.items() if value is not None or not family.implicit_heads}


def _rows_before(family: Architecture, specials: SpecialTokens) -> int:
    if not family.offset_positions:
        return 0
    if "padding" not in specials:
        what = f"its vocabulary has no token for padding, from which {family.name_map.title} counts positions"
        raise InputError(what, hint="train with a tokenizer that has one, such as --tokenizer bytepair")
    return specials["padding"][0] + 1


# -- what single architectures want


def _check_tasks(config: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path) -> None:
    """ERNIE adds the vector of task 0 to every token of a text for which nobody names a task."""
    task = next((tensor for name, tensor in tensors.items() if ERNIE.name_map.without_prefix(name) == TASKS), None)
    if config.get("use_task_id") and (task is None or bool(task[:1].count_nonzero())):
        what = "use_task_id is true: a vector for the task is added to each token, and there is no place for it here"
        hint = "give an ERNIE without tasks, such as ernie-1.0"
        raise InputError(what, file=folder / CONFIG, hint=hint)


def _projection(width: int) -> dict[str, Tensor]:
    """ALBERT there always projects its embedding. Where ours does not, this changes nothing, to the bit."""
    import torch

    return {"encoder.project.weight": torch.eye(width), "encoder.project.bias": torch.zeros(width)}


def _unprojected(tensors: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Where the table is as wide as the blocks nothing is projected here: theirs must change nothing."""
    import torch

    for name, idle in _projection(len(tensors["encoder.project.bias"])).items():
        if not torch.equal(tensors[name], idle):
            what = "embedding_size equals hidden_size, and there still is a projection between them"
            raise InputError(what, file=folder, hint="give an ALBERT whose embedding is narrower than its blocks")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("encoder.project.")}


# -- files


def _family_of(folder: Path, config: Mapping[str, Any]) -> Architecture:
    kind = config.get("model_type")
    for family in FAMILIES.values():
        if family.kind == kind:
            return family
    known = ", ".join(family.kind for family in FAMILIES.values())
    if kind is not None:
        what, hint = f"model_type {kind!r} cannot be imported", f"give a folder of: {known}"
        raise InputError(what, file=folder / CONFIG, hint=hint)
    near = tensor_names.closest_architecture(list(_stored(folder, config, None)), TABLES)
    like = next((family for family in FAMILIES.values() if family.name_map is near), None)
    what = "it does not say model_type" + (f"; the weights look like {like.name_map.title}'s" if like else "")
    hint = f'add "model_type": "{like.kind}" to it, if that is right' if like else f"give a folder of: {known}"
    raise InputError(what, file=folder / CONFIG, hint=hint)


def _depth(family: Architecture, told: int, tensors: Mapping[str, Tensor], folder: Path) -> int:
    """How many blocks there are: those that the config tells, if the weights have them."""
    starts = {row.theirs[0].split("*")[0] for row in family.name_map.rows if "*" in row.theirs[0]}
    if not starts:  # one block for all depths
        return 1
    (start,) = starts
    bare = (family.name_map.without_prefix(name) for name in tensors)
    blocks = {name.removeprefix(start).split(".")[0] for name in bare if name.startswith(start)}
    if blocks and told > len(blocks):
        what = f"{family.fields['depth']} is {told:,}, and the weights have {len(blocks):,} blocks"
        raise InputError(what, file=folder / CONFIG, hint=REFETCH_HINT)
    return min(told, len(blocks) + 1)


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        hint = "give a folder that transformers' save_pretrained wrote, or one with an ELMo's options.json"
        raise InputError("there is no config.json", file=folder, hint=hint)
    return _facts(folder / CONFIG)


def _facts(file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"this is not JSON: {error}", file=file, hint=REFETCH_HINT) from None
    if not isinstance(facts, dict):
        raise InputError("this is not an object", file=file, hint=REFETCH_HINT)
    return facts


def _stored(folder: Path, config: Mapping[str, Any], family: Architecture | None) -> dict[str, Tensor]:
    """All tensors of the folder, in one file or in several; mapped, not read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _files(folder, _class_of(config, family)):
        try:
            tensors |= load_file(file)
        except FileNotFoundError:
            raise InputError("this file is missing", file=file, hint=REFETCH_HINT) from None
        except SafetensorError as error:
            hint = "fetch the file again"
            raise InputError(f"this is not a whole safetensors file ({error})", file=file, hint=hint) from None
    return tensors


def _class_of(config: Mapping[str, Any], family: Architecture | None) -> str:
    """The class there that opens the folder."""
    told = config.get("architectures")
    if isinstance(told, list) and told and isinstance(told[0], str) and told[0].isidentifier():
        return told[0]
    return next(iter(family.classes.values())) if family else "AutoModel"


def _files(folder: Path, opener: str) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        where = _facts(folder / INDEX).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
            raise InputError(
                "this is not an index: it has no weight_map of files", file=folder / INDEX, hint=REFETCH_HINT
            )
        named = sorted(set(where.values()))
        if any(Path(name).name != name for name in named):
            raise InputError("it names files outside its folder", file=folder / INDEX, hint=REFETCH_HINT)
        return [folder / name for name in named]
    convert = f"{opener}.from_pretrained(OLD).save_pretrained(NEW)"
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise InputError(
            "the weights are pickled, and a pickle can run code when it is opened",
            file=folder,
            hint=f"convert them where you trust them: {convert}",
        )
    hint = f"give a folder that save_pretrained wrote, or convert old weights where you trust them: {convert}"
    raise InputError(f"there is no {WEIGHTS}", file=folder, hint=hint)


# What transformers wants of a tokenizer beside its model: the marks around a text, and its special tokens by name.


# our roles: what they are called there
LOOKING_BACK = {"end": ("bos_token", "eos_token")}
BOTH_WAYS = {"start": ("cls_token",), "end": ("sep_token",)}
ROBERTA = {"start": ("bos_token", "cls_token"), "end": ("eos_token", "sep_token")}
COMMON = {"unknown": ("unk_token",), "padding": ("pad_token",), "mask": ("mask_token",)}


def write_tokenizer(
    folder: Path,
    milestone: str,
    blueprint: Mapping[str, Any],
    specials: SpecialTokens,
    context: int,
    *,
    marked: bool = False,
) -> None:
    """tokenizer.json with the marks that this milestone puts around a text, and the files beside it.

    One that looks back puts marks around texts for tasks only: then they are `marked`.
    """
    family = FAMILIES[milestone]
    called, given = LOOKING_BACK, ["input_ids", "attention_mask"]
    if family.implicit_heads:
        if marked:
            blueprint = {**blueprint, "post_processor": marks(specials["end"], specials["end"])}
    else:
        called = ROBERTA if family.offset_positions else BOTH_WAYS
        if {"start", "end"} <= specials.keys():
            around = marks(
                specials["start"], specials["end"], segments=not family.offset_positions, twice=family.offset_positions
            )
            blueprint = {**blueprint, "post_processor": around}
        if not family.offset_positions:
            given.insert(1, "token_type_ids")
    called = {**called, **COMMON}
    tokens = {name: specials[role][1] for role, named in called.items() if role in specials for name in named}
    (folder / "tokenizer.json").write_text(json.dumps(blueprint, ensure_ascii=False) + "\n", encoding="utf-8")
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": context}
    facts |= {"clean_up_tokenization_spaces": False, "model_input_names": given}
    write_hf_json(folder / "tokenizer_config.json", facts | tokens)
    write_hf_json(folder / "special_tokens_map.json", tokens)
    model = blueprint["model"]
    if model["type"] == "WordPiece":
        lines = sorted(model["vocab"], key=model["vocab"].__getitem__)
        (folder / "vocab.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def marks(
    start: tuple[int, str], end: tuple[int, str], *, segments: bool = False, twice: bool = False
) -> dict[str, Any]:
    """[CLS] A [SEP] and [CLS] A [SEP] B [SEP], with `segments` B of segment 1; `twice`, as RoBERTa: two between."""

    def mark(special: tuple[int, str], segment: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": special[1], "type_id": segment}}

    def text(name: str, segment: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single, second = [mark(start), text("A"), mark(end)], int(segments)
    pair = [*single, *([mark(end)] if twice else []), text("B", second), mark(end, second)]
    known = {token: {"id": token, "ids": [number], "tokens": [token]} for number, token in (start, end)}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": known}
