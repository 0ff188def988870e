"""Which settings mean nothing to whom: they are refused, since who gives one believes that it changes something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forebear.errors import InputError
from forebear.models.spec import ModelSpec
from forebear.training.settings import GRADIENT_SETTINGS, TORCH_SETTINGS

KEPT = ("threads", "patience")  # that mean something to a search for the best weights
UNUSED_BY_LEARNER = {
    "counting": (("deterministic", *GRADIENT_SETTINGS), "which counts"),
    "only counts": (("deterministic", "threads", "max_memory", *GRADIENT_SETTINGS), "which counts"),
    "recounting": (
        ("deterministic", "max_memory", *(name for name in GRADIENT_SETTINGS if name != "patience")),
        "which counts",
    ),
    "searching": (
        (*(name for name in GRADIENT_SETTINGS if name not in KEPT), "batch", "deterministic", "max_memory"),
        "whose best weights are searched for with all examples at once",
    ),
    "sweeping": ((*TORCH_SETTINGS, "max_memory"), "which has no network"),
    "descending": (("deterministic", "max_memory"), "which always ends alike with as many threads"),
}


def settings_kind(kind: type[ModelSpec]) -> str:
    """How it learns, as far as settings are concerned: what only counts is all alike."""
    if kind.learns_from == "tags":
        return kind.learns_tags_by
    return "recounting" if kind.counts_again else "only counts" if kind.only_counts else kind.learning


def check_unused_settings(milestone: str, way: str, given: Mapping[str, Any]) -> None:
    """An error where a setting of the recipe would change nothing."""
    names, why = UNUSED_BY_LEARNER[way]
    for name in names:
        if given.get(name) is not None:
            raise InputError(f"{_flag(name)} means nothing to {milestone}, {why}", hint="leave it out")
    if way in ("counting", "only counts") and given.get("epochs") is not None and float(given["epochs"]) > 1:
        raise InputError(f"--epochs {given['epochs']}: {milestone} counts every text once", hint="leave it out")


def check_unused_fields(milestone: ModelSpec, given: Iterable[str]) -> None:
    """An error where a field was given that means nothing beside another."""
    for name in given:
        if (other := milestone.unused_fields.get(name)) is not None:
            what = f"{_flag(name)} means nothing beside {_flag(other)} {getattr(milestone, other)}"
            raise InputError(what, hint=f"leave it out, or choose another {_flag(other)}")


def check_unused_entities(name: str, milestone: ModelSpec, entities: str | None) -> None:
    """An error where names were given to who makes no use of them."""
    if entities is not None and not milestone.uses_entities:
        what = f"--entities means nothing to {name}, which hides no names"
        raise InputError(what, hint="leave it out, or choose ernie")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
