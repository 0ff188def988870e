"""Folders of Hugging Face transformers, in and out: config.json and the weights of every architecture known here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.interop import names, task_heads
from forebear.interop.configs import AGAIN, before_of, config_of, fields_of
from forebear.interop.families import ALBERT, ERNIE, FAMILIES, TABLE, TASKS, TOKEN_BIAS, Family
from forebear.interop.task_configs import config_for, dropout_of, language_of, task_of

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
TABLES = tuple(family.table for family in FAMILIES.values())
Specials = Mapping[str, tuple[int, str]]  # our roles with their ids and tokens


@dataclass(frozen=True, eq=False)
class Found:
    """What another program's files hold, in our words: a milestone's name and fields, its weights and its heads.

    task        what it was adapted to, as far as the files tell
    adaptation  and how: `language` and `dropout`
    """

    milestone: str
    fields: dict[str, Any]
    tensors: dict[str, Tensor]
    heads: tuple[str, ...]
    report: names.Report
    task: dict[str, Any] | None = None
    adaptation: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Adapted:
    """A task that a run to be written was adapted to, in our words, its head's dropout, and what `next` counted."""

    task: Mapping[str, Any]
    dropout: float = 0.1
    language: float = 0.0


def milestone_of(folder: Path) -> str:
    """Which of our milestones the folder holds, by what its config.json calls itself."""
    return _family_of(folder, _config(folder)).milestone


def read_folder(folder: Path, *, tasks: bool = True) -> Found:
    """The model of a folder that transformers wrote, in float32; without `tasks`, a head for one is left out."""
    config, file = _config(folder), folder / CONFIG
    family = _family_of(folder, config)
    fields, tensors = fields_of(family, config, file), _stored(folder, config, family)
    before, depth = before_of(family, config, file), _depth(family, fields["depth"], tensors, folder)
    if family is ERNIE:
        _check_tasks(config, tensors, folder)
    adapted = task_heads.opened_by(family.milestone, _class_of(config, family)) if tasks else None
    table = family.table if adapted is None else adapted.table(family)
    others = tuple(other for other in TABLES if other is not family.table)
    ours, report = names.into_ours(table, tensors, depth=depth, before=before, others=others, file=folder)
    if family is ALBERT and fields["table"] == fields["width"]:
        ours = _unprojected(ours, folder)
    if family.curve:
        fields["pairs"] = family.pairs if "pair" in report.heads else "none"
    if adapted is None or not report.heads:
        return Found(family.milestone, fields, ours, (*family.always, *report.heads), report)
    task, language = task_of(adapted, config, ours, file), language_of(adapted, config)
    how = {"dropout": dropout_of(adapted, config, fields["dropout"], file), "language": language}
    heads = (*adapted.heads, *(family.always if language else ()))
    report = replace(report, heads=heads)
    return Found(family.milestone, fields, task_heads.parted(ours), heads, report, task, how)


def fitted(
    tensors: dict[str, Tensor], vocabulary: int, file: Path | None = None
) -> tuple[dict[str, Tensor], list[str]]:
    """The weights without entries that only round the table up, and a word about them; too few are an error."""
    idle = len(tensors[TABLE]) - vocabulary
    if idle < 0:
        what = f"its tokenizer has {vocabulary:,} tokens, and its table only {len(tensors[TABLE]):,} entries"
        raise BadInput(what, file=file, remedy="the two do not belong together: take both from the same publisher")
    if not idle:
        return tensors, []
    note = f"its table has {idle:,} entries more than its tokenizer has tokens: they are left out"
    cut = {name: tensors[name][:vocabulary].clone() for name in (TABLE, TOKEN_BIAS) if name in tensors}
    return tensors | cut, [note]


def write_folder(
    folder: Path,
    milestone: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    specials: Specials,
    adapted: Adapted | None = None,
) -> list[str]:
    """Config and weights as transformers wants them; returns what had to be left out."""
    from safetensors.torch import save_file

    family = FAMILIES[milestone]
    config, theirs = written(milestone, fields, tensors, specials, adapted)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(theirs, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / CONFIG, config)
    if adapted is not None:
        return []
    if family.always:
        write_json(folder / "generation_config.json", _ids(family, specials))
    lost = [head for head in names.heads_of(tensors) if head not in family.table.heads]
    return [f"{family.table.title} of transformers has no head for {head!r}: it is left out" for head in lost]


def written(
    milestone: str,
    fields: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    specials: Specials,
    adapted: Adapted | None = None,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Their config and their tensors of ours, without heads that they do not have."""
    family = FAMILIES[milestone]
    head = None if adapted is None else task_heads.answering(milestone, adapted.task["name"])
    table = family.table if head is None else head.table(family)
    if adapted is not None:
        tensors = task_heads.joined(task_heads.settled(tensors, adapted.task, fields["depth"]))
    known = set(table.heads)
    kept = {name: value for name, value in tensors.items() if known.issuperset(names.heads_of([name]))}
    heads, before = set(names.heads_of(kept)), _rows_before(family, specials)
    name = head.name if head else next(name for own, name in family.classes.items() if set(own) == heads)
    config = config_of(family, fields, len(tensors[TABLE]), name, before) | _ids(family, specials)
    if family is ALBERT and fields["table"] == fields["width"]:
        kept |= _projection(fields["width"])
    prefixed = bool(family.always) or not name.endswith("Model")
    theirs = names.into_theirs(table, kept, depth=fields["depth"], before=before, prefixed=prefixed)
    if head is not None and adapted is not None:
        config |= config_for(head, adapted.task, adapted.dropout, adapted.language)
        theirs |= {name: kept[TABLE].new_zeros(1) for name in head.zeros}
    return config, theirs


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _ids(family: Family, specials: Specials) -> dict[str, int | None]:
    """The special tokens by their numbers; what looks back has one that both begins and ends a text."""
    roles = {"bos_token_id": "end" if family.always else "start", "eos_token_id": "end", "pad_token_id": "padding"}
    ids = {name: specials[role][0] if role in specials else None for name, role in roles.items()}
    return {name: value for name, value in ids.items() if value is not None or not family.always}


def _rows_before(family: Family, specials: Specials) -> int:
    if not family.late:
        return 0
    if "padding" not in specials:
        what = f"its vocabulary has no token for padding, from which {family.table.title} counts positions"
        raise BadInput(what, remedy="train with a tokenizer that has one, such as --tokenizer bytepair")
    return specials["padding"][0] + 1


# -- what single architectures want


def _check_tasks(config: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path) -> None:
    """ERNIE adds the vector of task 0 to every token of a text for which nobody names a task."""
    task = next((tensor for name, tensor in tensors.items() if ERNIE.table.bare(name) == TASKS), None)
    if config.get("use_task_id") and (task is None or bool(task[:1].count_nonzero())):
        what = "use_task_id is true: a vector for the task is added to each token, and there is no place for it here"
        remedy = "give an ERNIE without tasks, such as ernie-1.0"
        raise BadInput(what, file=folder / CONFIG, remedy=remedy)


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
            raise BadInput(what, file=folder, remedy="give an ALBERT whose embedding is narrower than its blocks")
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("encoder.project.")}


# -- files


def _family_of(folder: Path, config: Mapping[str, Any]) -> Family:
    kind = config.get("model_type")
    for family in FAMILIES.values():
        if family.kind == kind:
            return family
    known = ", ".join(family.kind for family in FAMILIES.values())
    if kind is not None:
        what, remedy = f"model_type {kind!r} cannot be imported", f"give a folder of: {known}"
        raise BadInput(what, file=folder / CONFIG, remedy=remedy)
    near = names.nearest(list(_stored(folder, config, None)), TABLES)
    like = next((family for family in FAMILIES.values() if family.table is near), None)
    what = "it does not say model_type" + (f"; the weights look like {like.table.title}'s" if like else "")
    remedy = f'add "model_type": "{like.kind}" to it, if that is right' if like else f"give a folder of: {known}"
    raise BadInput(what, file=folder / CONFIG, remedy=remedy)


def _depth(family: Family, told: int, tensors: Mapping[str, Tensor], folder: Path) -> int:
    """How many blocks there are: those that the config tells, if the weights have them."""
    starts = {row.theirs[0].split("*")[0] for row in family.table.rows if "*" in row.theirs[0]}
    if not starts:  # one block for all depths
        return 1
    (start,) = starts
    bare = (family.table.bare(name) for name in tensors)
    blocks = {name.removeprefix(start).split(".")[0] for name in bare if name.startswith(start)}
    if blocks and told > len(blocks):
        what = f"{family.fields['depth']} is {told:,}, and the weights have {len(blocks):,} blocks"
        raise BadInput(what, file=folder / CONFIG, remedy=AGAIN)
    return min(told, len(blocks) + 1)


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).is_file():
        remedy = "give a folder that transformers' save_pretrained wrote, or one with an ELMo's options.json"
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


def _stored(folder: Path, config: Mapping[str, Any], family: Family | None) -> dict[str, Tensor]:
    """All tensors of the folder, in one file or in several; mapped, not read."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for file in _files(folder, _class_of(config, family)):
        try:
            tensors |= load_file(file)
        except FileNotFoundError:
            raise BadInput("this file is missing", file=file, remedy=AGAIN) from None
        except SafetensorError as error:
            remedy = "fetch the file again"
            raise BadInput(f"this is not a whole safetensors file ({error})", file=file, remedy=remedy) from None
    return tensors


def _class_of(config: Mapping[str, Any], family: Family | None) -> str:
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
            raise BadInput("this is not an index: it has no weight_map of files", file=folder / INDEX, remedy=AGAIN)
        named = sorted(set(where.values()))
        if any(Path(name).name != name for name in named):
            raise BadInput("it names files outside its folder", file=folder / INDEX, remedy=AGAIN)
        return [folder / name for name in named]
    convert = f"{opener}.from_pretrained(OLD).save_pretrained(NEW)"
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        raise BadInput(
            "the weights are pickled, and a pickle can run code when it is opened",
            file=folder,
            remedy=f"convert them where you trust them: {convert}",
        )
    remedy = f"give a folder that save_pretrained wrote, or convert old weights where you trust them: {convert}"
    raise BadInput(f"there is no {WEIGHTS}", file=folder, remedy=remedy)
