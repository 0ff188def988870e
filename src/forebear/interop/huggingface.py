"""Folders of Hugging Face transformers, in and out: one table of names for each milestone, read both ways, strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from forebear.errors import BadInput, several

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
AGAIN = "fetch the whole folder again"
TABLE = "encoder.embedding.token.weight"  # of our names, the one with a row for each entry of the vocabulary


class Theirs(NamedTuple):
    """What a tensor is called there; `turned` if it is stored [in, out] instead of [out, in]."""

    name: str
    turned: bool = False


def _pair(ours: str, theirs: str, *, turned: bool = False) -> dict[str, Theirs]:
    """The weight and the bias of one layer."""
    return {f"{ours}.weight": Theirs(f"{theirs}.weight", turned), f"{ours}.bias": Theirs(f"{theirs}.bias")}


# ours: theirs. `*` is the number of a block.
GPT2: dict[str, Theirs] = {
    TABLE: Theirs("wte.weight"),
    "encoder.embedding.position.weight": Theirs("wpe.weight"),
    **_pair("encoder.blocks.*.attention_norm", "h.*.ln_1"),
    **_pair("encoder.blocks.*.attention.query_key_value", "h.*.attn.c_attn", turned=True),
    **_pair("encoder.blocks.*.attention.output", "h.*.attn.c_proj", turned=True),
    **_pair("encoder.blocks.*.feedforward_norm", "h.*.ln_2"),
    **_pair("encoder.blocks.*.expand", "h.*.mlp.c_fc", turned=True),
    **_pair("encoder.blocks.*.contract", "h.*.mlp.c_proj", turned=True),
    **_pair("encoder.final_norm", "ln_f"),
}
PREFIX, TIED = "transformer.", "lm_head.weight"  # the table is both wte and lm_head
BLOCK = re.compile(r"h\.(\d+)\.")
MASKS = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # constants that old versions saved with the weights

# ours: theirs, of the numbers in config.json.
FIELDS = {"width": "n_embd", "depth": "n_layer", "heads": "n_head", "context": "n_positions"}
FIELDS |= {"epsilon": "layer_norm_epsilon"}
DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
DEFAULTS = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "layer_norm_epsilon": 1e-5}
DEFAULTS |= dict.fromkeys(DROPOUTS, 0.1)
# What GPT-2 can be told to be over there and cannot be here; left out of the file, it is the first of these.
BUILT: dict[str, tuple[Any, ...]] = {
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


def milestone_of(folder: Path) -> str:
    """Which of our milestones the folder holds, by what its config.json calls itself."""
    kind = _config(folder).get("model_type")
    if kind != "gpt2":
        raise BadInput(f"model_type {kind!r} cannot be imported", file=folder / CONFIG, remedy="give a folder of: gpt2")
    return kind


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The milestone's fields, and the weights under our names in float32, of a folder that transformers wrote."""
    milestone_of(folder)
    fields, tensors = fields_of(_config(folder), folder / CONFIG), _stored(folder)
    blocks = {int(found[1]) for name in tensors if (found := BLOCK.match(name.removeprefix(PREFIX)))}
    if fields["depth"] > max(blocks, default=-1) + 1:
        what = f"n_layer is {fields['depth']:,}, and the weights have {len(blocks):,} blocks"
        raise BadInput(what, file=folder / CONFIG, remedy=AGAIN)
    return fields, into_ours(tensors, depth=fields["depth"], file=folder)


def without_padding(tensors: dict[str, Tensor], vocabulary: int) -> tuple[dict[str, Tensor], list[str]]:
    """The weights without entries of the table that only round it up, and a word about them if there are any."""
    idle = len(tensors[TABLE]) - vocabulary
    if idle <= 0:
        return tensors, []
    note = f"its table has {idle:,} entries more than its tokenizer has tokens: they are left out"
    return tensors | {TABLE: tensors[TABLE][:vocabulary].clone()}, [note]


def write_folder(
    folder: Path, fields: Mapping[str, Any], tensors: Mapping[str, Tensor], specials: Mapping[str, tuple[int, str]]
) -> None:
    """Everything that transformers wants but tokenizer.json, which the caller copies there.

    `specials` are our roles with their ids and tokens; what ends a text also begins it.
    """
    from safetensors.torch import save_file

    theirs = into_theirs(tensors, depth=fields["depth"])
    vocabulary = len(tensors[TABLE])
    folder.mkdir(parents=True, exist_ok=True)
    save_file(theirs, folder / WEIGHTS, metadata={"format": "pt"})
    ids = {"bos_token_id": specials["end"][0], "eos_token_id": specials["end"][0]}
    if "padding" in specials:
        ids["pad_token_id"] = specials["padding"][0]
    _write(folder / CONFIG, config_of(fields, vocabulary) | ids)
    _write(folder / "generation_config.json", ids)
    called = {"end": ("bos_token", "eos_token"), "unknown": ("unk_token",), "padding": ("pad_token",)}
    called |= {"mask": ("mask_token",)}
    tokens = {name: specials[role][1] for role, names in called.items() if role in specials for name in names}
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": fields["context"]}
    _write(folder / "tokenizer_config.json", facts | {"clean_up_tokenization_spaces": False} | tokens)


def fields_of(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Our fields of their config; what it asks for and is not built here is refused by its name."""
    for name, built in BUILT.items():
        if config.get(name, built[0]) not in built:
            what = f"{name} is {config[name]!r}; here it can only be {built[0]!r}"
            raise BadInput(what, file=file, remedy="give the folder of a plain GPT-2 language model")
    told = DEFAULTS | dict(config)
    for name, default in DEFAULTS.items():
        value = told[name]
        if isinstance(default, int) and not (type(value) is int and value > 0):
            raise BadInput(f"{name} is {value!r}, not a whole number above 0", file=file, remedy=AGAIN)
        if isinstance(default, float) and not (isinstance(value, int | float) and 0 <= value < 1):
            raise BadInput(f"{name} is {value!r}, not a number from 0 to below 1", file=file, remedy=AGAIN)
    if len({told[name] for name in DROPOUTS}) > 1:
        differ = ", ".join(f"{name} {told[name]}" for name in DROPOUTS)
        raise BadInput(f"{differ}: here one dropout serves all three", file=file, remedy="make them equal in the file")
    fields = {ours: told[theirs] for ours, theirs in FIELDS.items()}
    inner = told.get("n_inner") or 0
    if type(inner) is not int or inner < 0:
        raise BadInput(f"n_inner is {inner!r}, not a whole number", file=file, remedy=AGAIN)
    return fields | {"inner": 0 if inner == 4 * fields["width"] else inner, "dropout": told[DROPOUTS[0]]}


def config_of(fields: Mapping[str, Any], vocabulary: int) -> dict[str, Any]:
    """Their config of our fields."""
    facts = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": vocabulary}
    facts |= {theirs: fields[ours] for ours, theirs in FIELDS.items()}
    facts |= dict.fromkeys(DROPOUTS, fields["dropout"])
    facts |= {"n_inner": fields["inner"] or None, "activation_function": BUILT["activation_function"][0]}
    return facts | {"tie_word_embeddings": True, "dtype": "float32"}


def names(depth: int) -> dict[str, Theirs]:
    """The table, written out for so many blocks."""
    written: dict[str, Theirs] = {}
    for ours, theirs in GPT2.items():
        for number in range(depth) if "*" in ours else (0,):
            block = str(number)
            written[ours.replace("*", block)] = theirs._replace(name=theirs.name.replace("*", block))
    return written


def into_ours(theirs: Mapping[str, Tensor], *, depth: int, file: Path | None = None) -> dict[str, Tensor]:
    """Their tensors under our names, turned as ours are; each of them must be known and none may lack."""
    import torch

    bare = {name.removeprefix(PREFIX): tensor for name, tensor in theirs.items()}
    tied = bare.pop(TIED, None)
    known = names(depth)
    wanted = {row.name for row in known.values()}
    faults = [f"{name} is missing" for name in sorted(wanted - bare.keys())]
    faults += [f"{name} is not known" for name in sorted(bare.keys() - wanted) if not MASKS.fullmatch(name)]
    strange = {name: tensor.dtype for name, tensor in bare.items() if name in wanted and not tensor.is_floating_point()}
    faults += [f"{name} is of {dtype}, not of floating point" for name, dtype in strange.items()]
    if not faults and bare["wte.weight"].dim() != 2:
        faults = [f"wte.weight has the shape {tuple(bare['wte.weight'].shape)}"]
    if not faults:
        faults = [f"{name} holds what is no number" for name in sorted(wanted) if not torch.isfinite(bare[name]).all()]
    if not faults and tied is not None and not torch.equal(tied, bare["wte.weight"]):
        faults = [f"{TIED} is not the same table as wte.weight, as it is in GPT-2"]
    if faults:
        remedy = "give the folder of a whole GPT-2 language model, not of one adapted to another task"
        raise BadInput(f"not GPT-2's weights: {several(faults)}", file=file, remedy=remedy)
    return {
        ours: (bare[row.name].T if row.turned else bare[row.name]).to(torch.float32).contiguous()
        for ours, row in known.items()
    }


def into_theirs(ours: Mapping[str, Tensor], *, depth: int) -> dict[str, Tensor]:
    """Our tensors under their names; the tied table is stored once, as they do."""
    known = names(depth)
    if differ := sorted(known.keys() ^ ours.keys()):
        raise BadInput(f"not the tensors of a GPT-2 of {depth} blocks: {several(differ)}")
    return {
        PREFIX + row.name: (ours[name].T if row.turned else ours[name]).detach().cpu().contiguous()
        for name, row in known.items()
    }


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        remedy = "give a folder that transformers' save_pretrained wrote"
        raise BadInput("there is no config.json", file=folder, remedy=remedy)
    return _facts(folder / CONFIG)


def _facts(file: Path) -> dict[str, Any]:
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"this is not JSON: {error}", file=file, remedy=AGAIN) from None
    if not isinstance(facts, dict):
        raise BadInput("this is not an object", file=file, remedy=AGAIN)
    return facts


def _stored(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder, in one file or in several; mapped, not read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _files(folder):
        try:
            tensors |= load_file(file)
        except FileNotFoundError:
            raise BadInput("this file is missing", file=file, remedy=AGAIN) from None
        except SafetensorError as error:
            remedy = "fetch the file again"
            raise BadInput(f"this is not a whole safetensors file ({error})", file=file, remedy=remedy) from None
    return tensors


def _files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        where = _facts(folder / INDEX).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
            raise BadInput("this is not an index: it has no weight_map of files", file=folder / INDEX, remedy=AGAIN)
        named = sorted(set(where.values()))
        if any(Path(name).name != name for name in named):
            raise BadInput("it names files outside its folder", file=folder / INDEX, remedy=AGAIN)
        return [folder / name for name in named]
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise BadInput(
            "the weights are pickled, and a pickle can run code when it is opened",
            file=folder,
            remedy="convert them where you trust them: GPT2LMHeadModel.from_pretrained(OLD).save_pretrained(NEW)",
        )
    raise BadInput(f"there is no {WEIGHTS}", file=folder, remedy="give a folder that save_pretrained wrote")


def _write(path: Path, facts: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
