"""Raise errors for settings and fields that have no effect on a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forebear.errors import InputError
from forebear.models.spec import ModelSpec
from forebear.training.settings import GRADIENT_SETTINGS, TORCH_SETTINGS

USED_BY_LBFGS = ("threads", "patience")  # settings of gradient descent that L-BFGS also uses
UNUSED_BY_LEARNER = {
    "counting": (("deterministic", *GRADIENT_SETTINGS), "which counts"),
    "only counts": (("deterministic", "threads", "max_memory", *GRADIENT_SETTINGS), "which counts"),
    "recounting": (
        ("deterministic", "max_memory", *(name for name in GRADIENT_SETTINGS if name != "patience")),
        "which counts",
    ),
    "searching": (
        (*(name for name in GRADIENT_SETTINGS if name not in USED_BY_LBFGS), "batch", "deterministic", "max_memory"),
        "whose best weights are searched for with all examples at once",
    ),
    "sweeping": ((*TORCH_SETTINGS, "max_memory"), "which has no network"),
    "descending": (("deterministic", "max_memory"), "which always ends alike with as many threads"),
}


def learner_kind_for(spec_class: type[ModelSpec]) -> str:
    """The kind of learner of a model, a key of UNUSED_BY_LEARNER."""
    if spec_class.learns_from == "tags":
        return spec_class.learns_tags_by
    return (
        "recounting" if spec_class.counts_again else "only counts" if spec_class.is_untrained else spec_class.learning
    )


def check_unused_settings(model: str, learner_kind: str, settings: Mapping[str, Any]) -> None:
    """Raise InputError for a training setting that has no effect."""
    names, reason = UNUSED_BY_LEARNER[learner_kind]
    for name in names:
        if settings.get(name) is not None:
            raise InputError(f"{flag_name(name)} means nothing to {model}, {reason}", hint="leave it out")
    counts_once, epochs = learner_kind in ("counting", "only counts"), settings.get("epochs")
    if counts_once and epochs is not None and float(epochs) > 1:
        raise InputError(f"--epochs {epochs}: {model} counts every text once", hint="leave it out")


def check_unused_fields(spec: ModelSpec, names: Iterable[str]) -> None:
    """Raise InputError for a field that has no effect with the value of another field."""
    for name in names:
        if (other_field := spec.unused_fields.get(name)) is not None:
            other = flag_name(other_field)
            message = f"{flag_name(name)} means nothing beside {other} {getattr(spec, other_field)}"
            raise InputError(message, hint=f"leave it out, or choose another {other}")


def flag_name(name: str) -> str:
    """The command-line option of a setting."""
    return f"--{name.replace('_', '-')}"
