"""A run for people: card.md, with everything needed to judge it and to make it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebear.data.io.atomic import atomic_write
from forebear.registry import LINEAGE, model_spec
from forebear.training.run_folder import CARD_FILE, RunFolder
from forebear.training.settings import GRADIENT_SETTINGS

PSEUDO = ("bits", "perplexity", "nats")  # figures that are none of the text where tokens are told by both sides


def write_card(run: RunFolder) -> None:
    with atomic_write(run.path / CARD_FILE) as file:
        file.write(card(run.metadata).encode())


def card(facts: Mapping[str, Any]) -> str:
    entry = LINEAGE[facts["milestone"]]
    parts = [
        f"# {entry.title} · {facts['name']}",
        f"{entry.authors}, {entry.year}: {entry.idea}.",
        "## How well it does" if "task" in facts else "## How well it predicts",
        _table({**_measured(facts), "seconds of training": facts.get("seconds"), "steps": facts.get("step")}),
        "## What it is",
        _table({"size": facts.get("size"), **_fields(facts), "parameters": facts.get("parameters")}),
        *_task(facts),
        *_integers(facts),
        "## What it was made from",
        _table(_data(facts)),
        "## How it was trained",
        _table(_recipe(facts)),
        "## With what",
        _table(facts["versions"] | facts["hardware"] | {"began": facts["began"]}),
    ]
    if notes := facts.get("notes"):
        parts += ["## Remarks", "\n".join(f"- {note}" for note in notes)]
    if command := facts.get("command"):
        parts += ["## Again", f"```\n{command}\n```"]
    return "\n\n".join(parts) + "\n"


def _task(facts: Mapping[str, Any]) -> list[str]:
    """What it was adapted to and how, where it was."""
    if "task" not in facts:
        return []
    shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in facts["task"].items()}
    return ["## What it was adapted to", _table({**shown, **facts.get("adaptation", {}), "from": facts.get("parent")})]


def _integers(facts: Mapping[str, Any]) -> list[str]:
    """What it cost to make small integers of the weights, where they are."""
    if "quantised" not in facts:
        return []
    shown = {}
    for name, value in facts["quantised"].items():
        sides = value.items() if isinstance(value, Mapping) else [("", value)]
        shown |= {f"{name.replace('_', ' ')}, {side}" if side else name.replace("_", " "): one for side, one in sides}
    return ["## What its small integers cost", _table({**shown, "made of": facts.get("parent")})]


def _measured(facts: Mapping[str, Any]) -> dict[str, Any]:
    if "task" in facts:
        blind = facts.get("baseline")
        return {
            f"{name.replace('_', ' ')}, {side}": value
            for side, figures in facts.get("metrics", {}).items()
            for name, value in figures.items()
            if isinstance(value, int | float)
        } | ({f"{blind['name']}, {blind['side']}": blind["score"]} if blind else {})
    told = facts.get("metrics", {}).get("held_out", {})
    names = (
        "told_apart",
        "loss",
        "bleu",
        "chrf",
        "pairs",
        "bits_per_byte",
        "perplexity",
        "nats_per_token",
        "unknown_rate",
        "documents",
        "bytes",
    )
    shown = {f"{name.replace('_', ' ')}, held out": told[name] for name in names if name in told}
    shown |= {f"signature of {name}": value for name, value in told.get("signatures", {}).items()}
    if not told.get("pseudo"):
        return shown
    own = {
        "hidden tokens found, held out": told["accuracy"],
        "found by always saying the commonest": told["guess"],
        "questions about two halves answered": told["pair_accuracy"],
    }
    return own | {f"pseudo-{name}" if name.startswith(PSEUDO) else name: value for name, value in shown.items()}


def _data(facts: Mapping[str, Any]) -> dict[str, Any]:
    data, tokenizer = facts.get("data") or {}, facts["tokenizer"]
    labelled = facts.get("labelled") or {}
    examples = {f"{side} examples": told.get("count") for side, told in labelled.get("sides", {}).items()}
    files = {f"{side} file": labelled["source"][side] for side in labelled.get("digests", {})}
    told = {name: data[name] for name in ("documents", "tokens", "bytes", "corpus") if name in data}
    if split := data.get("split"):
        counts = f"{split['train']:,} tokens to learn from, {split['held_out']:,} held out"
        told["split"] = f"{counts}, by {split['by']}"
    paths = (data.get("source") or {}).get("paths")
    return {
        **files,
        **examples,
        **({"text": ", ".join(paths)} if paths else {}),
        **told,
        "tokenizer": f"{tokenizer['kind']}, {tokenizer['size']:,} entries",
    }


def _fields(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The milestone's own numbers, without those that mean nothing beside the others."""
    idle = model_spec(facts["milestone"])(**facts["fields"]).unused_fields
    return {name: value for name, value in facts["fields"].items() if name not in idle}


def _recipe(facts: Mapping[str, Any]) -> dict[str, Any]:
    """How it was trained; to who counts, there is no rate and nothing of what belongs to it."""
    if "task" in facts or model_spec(facts["milestone"]).learning != "counting":
        return facts["recipe"] | _pace(facts)
    return {name: value for name, value in facts["recipe"].items() if name not in GRADIENT_SETTINGS}


def _pace(facts: Mapping[str, Any]) -> dict[str, Any]:
    """When the rate rose and fell, as it was decided on the way."""
    pace = facts.get("pace", {})
    words = {"warmup": "steps of warm-up", "fall": "the rate falls from step", "total": "steps in all"}
    return {words[name]: pace[name] for name in words if pace.get(name) is not None}


def _table(values: Mapping[str, Any]) -> str:
    rows = [f"| {name} | {_shown(value)} |" for name, value in values.items() if value is not None]
    return "\n".join(["| | |", "|---|---|", *rows])


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.5g}"
