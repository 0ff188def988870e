"""The ledger of all text: the input, output and drops of each stage, with location and reason; it must balance."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from forebear.errors import ForebearError

STAGES = ("read", "clean", "write", "sentences", "tokens")  # in the order of processing
LEDGER_UNITS = ("documents", "sentences", "characters", "bytes", "tokens")
MAX_EXAMPLES = 20  # items listed for a reason; counts are always exact, and `on_drop` gets every item


class LedgerError(ForebearError):
    """The ledger does not balance: text was lost or added. Always a bug in forebear, never a problem of the input."""


def utf8_size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


@dataclass
class LedgerStage:
    """One step: it outputs or drops every unit of its input, and may output new ones (sentences, tokens)."""

    inputs: Counter[str] = field(default_factory=Counter)
    outputs: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)

    def add_in(self, **units: int) -> None:
        self.inputs.update(units)

    def add_out(self, **units: int) -> None:
        self.outputs.update(units)


@dataclass
class ReasonCount:
    """Items with the same reason: their number, and the first few of them."""

    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, item: dict[str, Any], count: int = 1) -> None:
        self.count += count
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(item)

    def merge(self, other: ReasonCount) -> None:
        self.count += other.count
        self.examples += other.examples[: MAX_EXAMPLES - len(self.examples)]


class Ledger:
    """The stages, the files that were read, dropped items, repaired bytes and skipped files."""

    def __init__(self, on_drop: Callable[[dict[str, Any]], object] | None = None) -> None:
        self.stages: dict[str, LedgerStage] = {}
        self.drops: dict[str, ReasonCount] = {}
        self.repaired: dict[str, ReasonCount] = {}
        self.skipped_files: dict[str, ReasonCount] = {}
        self.files: Counter[str] = Counter()
        self.position = 0  # bytes of the files read so far, for progress
        self.on_drop = on_drop
        self._digest = hashlib.sha256()

    def stage(self, name: str) -> LedgerStage:
        if name not in self.stages:
            stages = self.stages | {name: LedgerStage()}
            self.stages = {stage_name: stages[stage_name] for stage_name in STAGES if stage_name in stages}
        return self.stages[name]

    def drop(self, stage: str, reason: str, *, file: str, line: int, excerpt: str = "", **units: int) -> None:
        self.stage(stage).dropped.setdefault(reason, Counter()).update(units)
        item = {"stage": stage, "reason": reason, "file": file, "line": line, **units, "excerpt": excerpt[:80]}
        self.drops.setdefault(reason, ReasonCount()).add(item)
        if self.on_drop:
            self.on_drop(item)

    def record_markup(self, reason: str, text: str, retained: str = "", stage: str = "read") -> None:
        """Record the difference of `text` and `retained`, which belongs to the file format: blank lines, tags."""
        self.record_markup_counts(reason, len(text) - len(retained), utf8_size(text) - utf8_size(retained), stage)

    def record_markup_counts(self, reason: str, characters: int, bytes: int, stage: str = "read") -> None:  # noqa: A002
        if characters or bytes:
            entry, units = self.stage(stage), {"characters": characters, "bytes": bytes}
            entry.add_in(**units)
            entry.dropped.setdefault(reason, Counter()).update(units)

    def record_repair(self, file: str, byte: int, count: int, action: str) -> None:
        """Record undecodable bytes with their offset."""
        item = {"file": file, "byte": byte, "bytes": count}
        self.repaired.setdefault(action, ReasonCount()).add(item, count)
        if self.on_drop:
            self.on_drop({"stage": "read", "reason": f"bad bytes {action}", **item})

    def record_skipped_file(self, file: str, reason: str) -> None:
        self.skipped_files.setdefault(reason, ReasonCount()).add({"file": file})

    def add_source(self, num_bytes: int, num_decompressed: int, digest: bytes) -> None:
        self.files.update(files=1, bytes=num_bytes, unpacked=num_decompressed)
        self._digest.update(digest)

    @property
    def fingerprint(self) -> str:
        """The digest of all files read; equal to `sources_digest` unless a file changed while it was read."""
        return self._digest.hexdigest()

    def merge(self, other: Ledger) -> None:
        """Add the entries of another ledger, such as a worker's."""
        for name, other_stage in other.stages.items():
            stage = self.stage(name)
            stage.inputs.update(other_stage.inputs)
            stage.outputs.update(other_stage.outputs)
            for reason, counts in other_stage.dropped.items():
                stage.dropped.setdefault(reason, Counter()).update(counts)
        for items, other_items in zip(self._items().values(), other._items().values(), strict=True):
            for reason, added in other_items.items():
                items.setdefault(reason, ReasonCount()).merge(added)
        self.files.update(other.files)

    def verify(self) -> None:
        """Raise LedgerError unless every stage balances and its output is exactly the input of the next one."""
        for name, stage in self.stages.items():
            for unit, count in stage.inputs.items():
                if missing := count - stage.outputs[unit] - sum(counts[unit] for counts in stage.dropped.values()):
                    raise LedgerError(f"the ledger does not add up: {name} lost {missing:,} of {count:,} {unit}")
        for previous, next_stage in pairwise(self.stages):
            outputs, inputs = self.stages[previous].outputs, self.stages[next_stage].inputs
            for unit in outputs.keys() & inputs.keys():
                if outputs[unit] != inputs[unit]:
                    difference = f"{previous} gave {outputs[unit]:,} {unit}, {next_stage} took {inputs[unit]:,}"
                    raise LedgerError(f"the ledger does not add up: {difference}")

    def rows(self) -> Iterator[tuple[str, str, Counter[str]]]:
        """The rows of the printed table: (stage, description, counts)."""
        for name, stage in self.stages.items():
            yield name, "in", stage.inputs
            for reason, counts in stage.dropped.items():
                yield name, f"− {reason}", counts
            yield name, "out", stage.outputs

    def _items(self) -> dict[str, dict[str, ReasonCount]]:
        """The dropped, repaired and skipped items, by their keys in ledger.json."""
        return {"dropped": self.drops, "mended_bytes": self.repaired, "files_set_aside": self.skipped_files}

    def to_dict(self) -> dict[str, Any]:
        stages = {
            name: {
                "taken": dict(stage.inputs),
                "given": dict(stage.outputs),
                "dropped": {reason: dict(counts) for reason, counts in stage.dropped.items()},
            }
            for name, stage in self.stages.items()
        }
        items = {
            key: {reason: vars(entry).copy() for reason, entry in entries.items()}
            for key, entries in self._items().items()
        }
        return {"files": dict(self.files), "stages": stages, **items}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Ledger:
        ledger = cls()
        ledger.files.update(fields["files"])
        for name, counts in fields["stages"].items():
            dropped = {reason: Counter(units) for reason, units in counts["dropped"].items()}
            ledger.stages[name] = LedgerStage(Counter(counts["taken"]), Counter(counts["given"]), dropped)
        for key, items in ledger._items().items():
            items.update({reason: ReasonCount(**stored) for reason, stored in fields[key].items()})
        return ledger

    def __str__(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
