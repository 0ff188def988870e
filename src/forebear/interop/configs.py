"""The config.json of transformers and our fields: each from the other; what is not built here is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.interop.families import CURVES, Family

AGAIN = "fetch the whole folder again"


def fields_of(family: Family, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Our fields of their config; what it asks for and is not built here is refused by its name."""
    for name, built in family.built.items():
        if config.get(name, built[0]) not in built:
            what = f"{name} is {config[name]!r}; here it can only be {built[0]!r}"
            raise BadInput(what, file=file, remedy=f"give the folder of a plain {family.table.title}")
    told = {**family.defaults, **config}
    for name, default in family.defaults.items():
        value = told[name]
        if isinstance(default, int) and not (type(value) is int and value > 0):
            raise BadInput(f"{name} is {value!r}, not a whole number above 0", file=file, remedy=AGAIN)
        if isinstance(default, float) and not (isinstance(value, int | float) and 0 <= value < 1):
            raise BadInput(f"{name} is {value!r}, not a number from 0 to below 1", file=file, remedy=AGAIN)
    if len({told[name] for name in family.dropouts}) > 1:
        differ = ", ".join(f"{name} {told[name]}" for name in family.dropouts)
        raise BadInput(f"{differ}: here one dropout serves all", file=file, remedy="make them equal in the file")
    fields = {ours: told[theirs] for ours, theirs in family.fields.items()}
    fields |= {"inner": _inner(family, told, fields["width"], file), "dropout": told[family.dropouts[0]]}
    if family.late:
        fields["context"] -= before_of(family, config, file)
        if fields["context"] < 1:
            raise BadInput("it has no positions but those before the first", file=file, remedy=AGAIN)
    if family.curve:
        curve = told.get(family.curve, family.usual)
        if not isinstance(curve, str) or curve not in CURVES:
            known = ", ".join(CURVES)
            raise BadInput(f"{family.curve} is {curve!r}", file=file, remedy=f"give a model that has one of: {known}")
        fields["activation"] = CURVES[curve]
    return fields


def config_of(family: Family, fields: Mapping[str, Any], vocabulary: int, name: str, before: int) -> dict[str, Any]:
    """Their config of our fields, for the class of this name; what they cannot be told is refused."""
    facts: dict[str, Any] = {"model_type": family.kind, "architectures": [name], "vocab_size": vocabulary}
    facts |= {theirs: fields[ours] for ours, theirs in family.fields.items()}
    facts |= dict.fromkeys(family.dropouts, fields["dropout"])
    facts |= {setting: values[0] for setting, values in family.built.items() if values[0] not in (None, {})}
    wide = 4 * fields["width"]
    if family.inner:
        facts[family.inner] = (fields["inner"] or None) if family.always else (fields["inner"] or wide)
    elif fields["inner"] not in (0, wide):
        what = f"inner is {fields['inner']}, and {family.table.title} of transformers always has {wide}"
        raise BadInput(what, remedy="train with --inner 0 to write it so")
    if family.curve:
        facts[family.curve] = next(theirs for theirs, ours in CURVES.items() if ours == fields["activation"])
    if family.late:
        facts["max_position_embeddings"] += before
    for setting, built in family.built.items():
        if facts.get(setting, built[0]) not in built:
            what = f"{setting} would be {facts[setting]!r}, and {family.table.title} of transformers has {built[0]!r}"
            raise BadInput(what, remedy="it cannot be written so; a model of the same fields as theirs can")
    return facts | {"dtype": "float32"}


def before_of(family: Family, config: Mapping[str, Any], file: Path) -> int:
    """How many rows of positions come before the first: RoBERTa counts on from the padding token."""
    if not family.late:
        return 0
    padding = config.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise BadInput(f"pad_token_id is {padding!r}, not the number of a token", file=file, remedy=AGAIN)
    return padding + 1


def _inner(family: Family, told: Mapping[str, Any], width: int, file: Path) -> int:
    """0 where it is four times the width, as everywhere here."""
    inner = told.get(family.inner) or 0 if family.inner else 0
    if type(inner) is not int or inner < 0:
        raise BadInput(f"{family.inner} is {inner!r}, not a whole number", file=file, remedy=AGAIN)
    return 0 if inner == 4 * width else inner
