"""Model card of a run (card.md): results, model, data, training, environment, and the command that reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebear.data.io.atomic import atomic_write
from forebear.registry import LINEAGE, model_spec
from forebear.training.run_folder import CARD_FILE, RunFolder
from forebear.training.settings import GRADIENT_SETTINGS

# Prefixes of metrics that are pseudo-likelihoods in bidirectional models.
PSEUDO_METRICS = ("bits", "perplexity", "nats")


def write_model_card(run: RunFolder) -> None:
    with atomic_write(run.path / CARD_FILE) as file:
        file.write(render_model_card(run.metadata).encode())


def render_model_card(metadata: Mapping[str, Any]) -> str:
    entry = LINEAGE[metadata["milestone"]]
    unused_fields = model_spec(metadata["milestone"])(**metadata["fields"]).unused_fields
    fields = {name: value for name, value in metadata["fields"].items() if name not in unused_fields}
    results = _metric_rows(metadata) | {"seconds of training": metadata.get("seconds"), "steps": metadata.get("step")}
    sections = [
        f"# {entry.title} · {metadata['name']}",
        f"{entry.authors}, {entry.year}: {entry.idea}.",
        "## How well it does" if "task" in metadata else "## How well it predicts",
        _table(results),
        "## What it is",
        _table({"size": metadata.get("size"), **fields, "parameters": metadata.get("parameters")}),
    ]
    if task := metadata.get("task"):
        rows = {name: ", ".join(value) if isinstance(value, list) else value for name, value in task.items()}
        rows |= {**metadata.get("adaptation", {}), "from": metadata.get("parent")}
        sections += ["## What it was adapted to", _table(rows)]
    if quantization := metadata.get("quantised"):
        rows = {}
        for name, value in quantization.items():
            label = name.replace("_", " ")
            if isinstance(value, Mapping):
                rows |= {f"{label}, {value_name}": metric for value_name, metric in value.items()}
            else:
                rows[label] = value
        sections += ["## What its small integers cost", _table({**rows, "made of": metadata.get("parent")})]
    sections += [
        "## What it was made from",
        _table(_data_rows(metadata)),
        "## How it was trained",
        _table(_training_rows(metadata)),
        "## With what",
        _table(metadata["versions"] | metadata["hardware"] | {"began": metadata["began"]}),
    ]
    if notes := metadata.get("notes"):
        sections += ["## Remarks", "\n".join(f"- {note}" for note in notes)]
    if command := metadata.get("command"):
        sections += ["## Again", f"```\n{command}\n```"]
    return "\n\n".join(sections) + "\n"


def _metric_rows(metadata: Mapping[str, Any]) -> dict[str, Any]:
    if "task" in metadata:
        baseline = metadata.get("baseline")
        return {
            f"{name.replace('_', ' ')}, {split}": value
            for split, metrics in metadata.get("metrics", {}).items()
            for name, value in metrics.items()
            if isinstance(value, int | float)
        } | ({f"{baseline['name']}, {baseline['side']}": baseline["score"]} if baseline else {})
    held_out = metadata.get("metrics", {}).get("held_out", {})
    names = "told_apart loss bleu chrf pairs bits_per_byte perplexity nats_per_token unknown_rate documents bytes"
    rows = {f"{name.replace('_', ' ')}, held out": held_out[name] for name in names.split() if name in held_out}
    rows |= {f"signature of {name}": value for name, value in held_out.get("signatures", {}).items()}
    if not held_out.get("pseudo"):
        return rows
    masked_rows = {
        "hidden tokens found, held out": held_out["accuracy"],
        "found by always saying the commonest": held_out["guess"],
        "questions about two halves answered": held_out["pair_accuracy"],
    }
    return masked_rows | {
        f"pseudo-{name}" if name.startswith(PSEUDO_METRICS) else name: value for name, value in rows.items()
    }


def _data_rows(metadata: Mapping[str, Any]) -> dict[str, Any]:
    data, tokenizer = metadata.get("data") or {}, metadata["tokenizer"]
    labeled_data = metadata.get("labelled") or {}
    examples = {f"{split} examples": counts.get("count") for split, counts in labeled_data.get("sides", {}).items()}
    files = {f"{split} file": labeled_data["source"][split] for split in labeled_data.get("digests", {})}
    text_rows = {name: data[name] for name in ("documents", "tokens", "bytes", "corpus") if name in data}
    if split := data.get("split"):
        counts = f"{split['train']:,} tokens to learn from, {split['held_out']:,} held out"
        text_rows["split"] = f"{counts}, by {split['by']}"
    paths = (data.get("source") or {}).get("paths")
    return {
        **files,
        **examples,
        **({"text": ", ".join(paths)} if paths else {}),
        **text_rows,
        "tokenizer": f"{tokenizer['kind']}, {tokenizer['size']:,} entries",
    }


def _training_rows(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The training settings and the schedule; counting models have no learning rate and the like."""
    settings: dict[str, Any] = metadata["recipe"]
    if "task" not in metadata and model_spec(metadata["milestone"]).learning == "counting":
        return {name: value for name, value in settings.items() if name not in GRADIENT_SETTINGS}
    schedule = metadata.get("pace", {})
    labels = {"warmup": "steps of warm-up", "fall": "the rate falls from step", "total": "steps in all"}
    return settings | {labels[name]: schedule[name] for name in labels if schedule.get(name) is not None}


def _table(values: Mapping[str, Any]) -> str:
    rows = [f"| {name} | {_format_value(value)} |" for name, value in values.items() if value is not None]
    return "\n".join(["| | |", "|---|---|", *rows])


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.5g}"
