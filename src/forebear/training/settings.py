"""Training settings (the recipe) of any model: budget, optimizer, evaluation, machine; and recipe files."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from forebear.errors import InputError
from forebear.registry import suggest
from forebear.settings.units import parse_count, parse_duration

MIN_MEMORY = 1 << 20  # bytes; less is probably a missing unit
BUDGETS = ("time", "steps", "tokens", "epochs")
# Settings without effect on counting models, and on word vectors.
GRADIENT_SETTINGS = tuple("accumulate rate warmup schedule fall cooldown decay memory clip patience".split())
GRADIENT_SETTINGS += ("device", "precision")
TORCH_SETTINGS = ("accumulate", "decay", "memory", "clip", "patience", "device", "precision")
POSITIVE_SETTINGS = "batch accumulate rate clip evaluate_every patience keep threads max_memory".split()


@dataclass(frozen=True)
class Recipe:
    """Budget (at most one of time, steps, tokens, epochs), optimizer, evaluation, machine; None: chosen by forebear."""

    time: float | None = None  # time budget in seconds
    steps: int | None = None
    tokens: int | None = None  # training tokens
    epochs: float | None = None

    batch: int = 4096  # batch size: tokens per step (batch_tokens)
    accumulate: int = 1  # gradient accumulation: micro-batches per step
    rate: float = 1e-3  # peak learning rate (lr)
    warmup: int | None = None  # warmup steps
    schedule: str | None = None  # "root": inverse square root decay after the warmup; else constant, then cooldown
    fall: int | None = None  # cooldown_start: the step at which the learning rate starts to decay linearly to 0
    cooldown: float = 0.4  # fraction of the run with this decay, without `fall`
    decay: float = 0.1  # weight decay, of matrices
    memory: float = 0.99  # Adam's beta2 (β₂): a large one suits small batches
    clip: float = 1.0  # gradient clipping: the maximum gradient norm

    held_out: float = 0.05  # fraction of the text that is held out
    evaluate_every: int | None = None  # evaluation interval in steps; None: growing intervals
    patience: int | None = None  # early stopping after so many evaluations without improvement; None: never
    save_every: float = 60.0  # checkpoint interval in seconds
    keep: int = 2  # number of newest checkpoints that are kept, besides the best

    seed: int = 0  # random seed
    device: str | None = None
    threads: int | None = None
    max_memory: int | None = None  # bytes for counting n-grams; the rest is spilled to disk
    precision: str | None = None
    deterministic: bool | None = None  # word vectors: bit-identical with any number of threads

    def __post_init__(self) -> None:
        budgets = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(budgets) > 1:
            flags = " and ".join(f"--{name}" for name in budgets)
            raise InputError(f"{flags} contradict each other", hint="give one of --time, --steps, --tokens, --epochs")
        for name in (*BUDGETS, *POSITIVE_SETTINGS):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{_flag_name(name)} is {value}", hint="give a number above 0")
        for name, value in asdict(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{_flag_name(name)} is {value}", hint="give a finite number")
        if self.schedule not in (None, "line", "root"):
            raise InputError(f"--schedule is {self.schedule!r}", hint="choose line, or root (the Transformer paper's)")
        if self.schedule == "root" and self.fall is not None:
            raise InputError("--fall means nothing to --schedule root", hint="leave it out")
        if not 0 < self.cooldown <= 1:
            raise InputError(f"--cooldown is {self.cooldown}", hint="give a share between 0 and 1, such as 0.4")
        if not 0 <= self.held_out < 1:
            raise InputError(f"--held-out is {self.held_out}", hint="give a share between 0 and 1, such as 0.05")
        if not 0 < self.memory < 1:
            raise InputError(f"--memory is {self.memory}", hint="give a number between 0 and 1, such as 0.99")
        if self.fall is not None and (self.steps is None or self.fall < 0):
            raise InputError("--fall is a step of a run with so many --steps", hint="give --cooldown instead")
        if self.decay < 0 or (self.warmup or 0) < 0 or self.seed < 0:
            raise InputError("--decay, --warmup and --seed cannot be negative", hint="give 0 or more")

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def merge_recipe(*layers: Mapping[str, Any]) -> Recipe:
    """Merge layers of settings; later ones take precedence, and a later budget replaces any earlier one."""
    settings: dict[str, Any] = {}
    for layer in layers:
        values = {name: value for name, value in layer.items() if value is not None}
        if any(name in values for name in BUDGETS):
            settings = {name: value for name, value in settings.items() if name not in BUDGETS}
        settings |= values
    field_types = {field.name: str(field.type) for field in fields(Recipe)}
    for name in settings:
        if name not in field_types:
            raise InputError(f"a recipe has no setting {name!r}", hint=suggest(name, field_types))
    return Recipe(**{name: _parse_value(name, field_types[name], value) for name, value in settings.items()})


def _parse_value(name: str, field_type: str, value: Any) -> Any:
    """Parse a setting as written by the user ("5m", "2M", "0.1")."""
    if name in ("time", "save_every"):
        return parse_duration(value)
    if field_type.startswith("bool"):
        if not isinstance(value, bool):
            raise InputError(f"{_flag_name(name)} is {value!r}", hint="give true or false")
        return value
    not_a_number = InputError(f"{_flag_name(name)} is {value!r}", hint="give a number")
    if isinstance(value, bool) or ("str" not in field_type and not isinstance(value, str | int | float)):
        raise not_a_number
    if "int" in field_type:
        number = parse_count(value, name)
        if name == "max_memory" and isinstance(value, str) and 0 < number < MIN_MEMORY:
            is_unitless = value.strip().isdigit()
            hint = f"write it with its unit: {number}M, or 4G" if is_unitless else "give 1M or more, such as 500M or 4G"
            raise InputError(f"--max-memory is {number:,} bytes", hint=hint)
        return number
    if "float" in field_type:
        try:
            return float(value)
        except ValueError as error:
            raise not_a_number from error
    return str(value)


def _flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}" if " " not in name else name


def read_toml(file: str | Path, example: str) -> dict[str, Any]:
    """Read a TOML file of settings; `example` is the hint of its errors."""
    try:
        with open(file, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file, hint="give the path of a TOML file") from error
    except ValueError as error:
        raise InputError(f"not TOML: {error}", file=file, hint=example) from error


def read_recipe(file: str | Path, known_keys: Iterable[str]) -> dict[str, Any]:
    """Read a recipe file: TOML with `known_keys` at the top level and tables `fields` and `recipe`."""
    example = "write milestone = 'gpt2', size = 'tiny', and tables [fields] and [recipe]"
    content = read_toml(file, example)
    allowed_keys = [*known_keys, "fields", "recipe"]
    settings = [field.name for field in fields(Recipe)]
    for name, value in content.items():
        if name not in allowed_keys:
            hint = "put it under [recipe]" if name in settings else suggest(name, allowed_keys)
            raise InputError(f"a recipe file has no {name!r} at its top", file=file, hint=hint)
        if (name in ("fields", "recipe")) != isinstance(value, dict):
            raise InputError(f"{name!r} is not what it should be", file=file, hint=example)
    return content
