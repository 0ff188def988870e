"""Which settings mean nothing to whom: they are refused, since who gives one believes that it changes something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forebear.errors import BadInput
from forebear.milestones.milestone import Milestone
from forebear.training.recipe import OF_DESCENT, OF_TORCH

KEPT = ("threads", "patience")  # that mean something to a search for the best weights
IDLE = {
    "counting": (("deterministic", *OF_DESCENT), "which counts"),
    "only counts": (("deterministic", "threads", "max_memory", *OF_DESCENT), "which counts"),
    "recounting": (
        ("deterministic", "max_memory", *(name for name in OF_DESCENT if name != "patience")),
        "which counts",
    ),
    "searching": (
        (*(name for name in OF_DESCENT if name not in KEPT), "batch", "deterministic", "max_memory"),
        "whose best weights are searched for with all examples at once",
    ),
    "sweeping": ((*OF_TORCH, "max_memory"), "which has no network"),
    "descending": (("deterministic", "max_memory"), "which always ends alike with as many threads"),
}


def way_of(kind: type[Milestone]) -> str:
    """How it learns, as far as settings are concerned: what only counts is all alike."""
    if kind.learns_from == "tags":
        return kind.learns_tags_by
    return "recounting" if kind.counts_again else "only counts" if kind.only_counts else kind.learning


def heeded(milestone: str, way: str, given: Mapping[str, Any]) -> None:
    """An error where a setting of the recipe would change nothing."""
    names, why = IDLE[way]
    for name in names:
        if given.get(name) is not None:
            raise BadInput(f"{_flag(name)} means nothing to {milestone}, {why}", remedy="leave it out")
    if way in ("counting", "only counts") and given.get("epochs") is not None and float(given["epochs"]) > 1:
        raise BadInput(f"--epochs {given['epochs']}: {milestone} counts every text once", remedy="leave it out")


def fields_heeded(milestone: Milestone, given: Iterable[str]) -> None:
    """An error where a field was given that means nothing beside another."""
    for name in given:
        if (other := milestone.idle_fields.get(name)) is not None:
            what = f"{_flag(name)} means nothing beside {_flag(other)} {getattr(milestone, other)}"
            raise BadInput(what, remedy=f"leave it out, or choose another {_flag(other)}")


def names_heeded(name: str, milestone: Milestone, entities: str | None) -> None:
    """An error where names were given to who makes no use of them."""
    if entities is not None and not milestone.wants_names:
        what = f"--entities means nothing to {name}, which hides no names"
        raise BadInput(what, remedy="leave it out, or choose ernie")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
