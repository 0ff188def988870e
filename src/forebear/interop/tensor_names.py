"""Conversion of tensor names between Hugging Face and forebear by the rules of an architecture, with a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import InputError, join_errors

if TYPE_CHECKING:
    from torch import Tensor

OLD_SUFFIXES = {"gamma": "weight", "beta": "bias"}  # LayerNorm in old checkpoints
BLOCK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
TASK_HEAD_NAMES = r"(classifier|qa_outputs|score|multiple_choice_head)\..+"
UNUSED_HEAD_NOTE = "read by a head that is not there"
UNUSED_TASK_NOTE = "of a head for a task that is not imported"


@dataclass(frozen=True)
class TensorNameRule:
    """One of our tensors and its Hugging Face names, several if ours stacks them. `*` is the block number.

    is_transposed    stored as [in, out] instead of [out, in]
    head             the head it belongs to; "" is the encoder
    is_shared        a layer that task heads also use: its presence does not imply that of the head
    has_offset_rows  theirs has extra rows before the first of ours
    """

    our_name: str
    hf_names: tuple[str, ...]
    is_transposed: bool = False
    head: str = ""
    is_shared: bool = False
    has_offset_rows: bool = False


@dataclass(frozen=True)
class TensorNameMap:
    """All tensor names of one architecture.

    title          display name
    prefix         prefix of encoder names in models with heads
    tied           names of tied copies → the name of the original
    ignored_names  patterns of names that may occur but are not used here → the reason
    """

    title: str
    prefix: str
    rules: tuple[TensorNameRule, ...]
    tied: Mapping[str, str] = field(default_factory=dict)
    ignored_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.head for rule in self.rules if rule.head))

    def expand_rules(self, depth: int) -> tuple[TensorNameRule, ...]:
        """The rules, those with `*` repeated for each block."""
        rules = []
        for rule in self.rules:
            for block in map(str, range(depth if "*" in rule.our_name else 1)):
                hf_names = tuple(name.replace("*", block) for name in rule.hf_names)
                rules.append(replace(rule, our_name=rule.our_name.replace("*", block), hf_names=hf_names))
        return tuple(rules)

    def without_prefix(self, name: str) -> str:
        """A name without the prefix, old suffixes replaced."""
        name = name.removeprefix(self.prefix)
        stem, dot, suffix = name.rpartition(".")
        return stem + dot + OLD_SUFFIXES.get(suffix, suffix)

    def count_matches(self, names: Sequence[str]) -> tuple[int, int]:
        """How many of this architecture's name patterns occur, and how many names have its prefix."""
        patterns = {BLOCK_NUMBER.sub("*", self.without_prefix(name)) for name in names}
        known_patterns = {BLOCK_NUMBER.sub("*", name) for rule in self.rules for name in rule.hf_names}
        return len(patterns & known_patterns), sum(name.startswith(self.prefix) for name in names)


@dataclass(frozen=True)
class NameMappingReport:
    """The names of an imported file that were matched, `missing` (by head) or skipped (by reason)."""

    title: str
    num_matched: int
    heads: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skipped_tensors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "architecture": self.title,
            "matched": self.num_matched,
            "heads": list(self.heads),
            "missing": {head: list(names) for head, names in self.missing.items()},
            "left_out": {reason: list(names) for reason, names in self.skipped_tensors.items()},
        }

    def notes(self) -> list[str]:
        """The report as messages."""
        notes = [f"{self.num_matched:,} names are those of {self.title}, and were read"]
        for head, names in self.missing.items():
            notes.append(f"it has no head {head!r}, because these are missing: {join_errors(names, 4)}")
        for reason, names in self.skipped_tensors.items():
            notes.append(f"left out ({reason}): {join_errors(names, 4)}")
        return notes


def to_our_names(
    name_map: TensorNameMap,
    hf_tensors: Mapping[str, Tensor],
    *,
    depth: int,
    num_offset_rows: int = 0,
    alternatives: Sequence[TensorNameMap] = (),
    file: Path | None = None,
) -> tuple[dict[str, Tensor], NameMappingReport]:
    """Convert Hugging Face tensors to our names and shapes, in float32; an error names all mismatches.

    `num_offset_rows` are extra rows at the beginning of tensors with offset rows. `alternatives` are other
    architectures that an error may suggest.
    """
    import torch

    original_names = {name_map.without_prefix(name): name for name in hf_tensors}
    tensors = {bare_name: hf_tensors[name] for bare_name, name in original_names.items()}
    rules, present, missing = _rules_present(name_map, tensors, depth)
    expected = {name for rule in rules for name in rule.hf_names}
    tied = {tied_name: name for tied_name, name in name_map.tied.items() if tied_name in tensors and name in expected}
    for tied_name, name in tied.items():
        tensors.setdefault(name, tensors[tied_name])
        original_names.setdefault(name, original_names[tied_name])
    shared = {name for rule in name_map.rules if rule.is_shared for name in rule.hf_names} - expected
    ignored, unknown = _group_ignored(name_map, tensors.keys() - expected - tied.keys(), shared)
    faults = [f"{name} is missing" for name in sorted(expected - tensors.keys())]
    faults += [f"{name} is not known" for name in unknown]
    if len(original_names) < len(hf_tensors):
        duplicates = sorted(name for name in hf_tensors if original_names[name_map.without_prefix(name)] != name)
        faults += [f"{name} is there twice, with and without {name_map.prefix}" for name in duplicates]
    for name in sorted(expected & tensors.keys()):
        if not tensors[name].is_floating_point():
            faults.append(f"{name} is of {tensors[name].dtype}, not of floating point")
        elif not torch.isfinite(tensors[name]).all():
            faults.append(f"{name} holds what is no number")
    faults = faults or _wrong_shapes(rules, tensors, num_offset_rows)
    if not faults:
        faults = [
            f"{tied_name} is not the same as {name}"
            for tied_name, name in tied.items()
            if tensors[tied_name].dtype != tensors[name].dtype or not torch.equal(tensors[tied_name], tensors[name])
        ]
    if faults:
        raise _mismatch_error(name_map, faults, list(hf_tensors), alternatives, file)
    our_tensors = {}
    for rule in rules:
        stacked_tensors = [tensors[name].T if rule.is_transposed else tensors[name] for name in rule.hf_names]
        stacked = stacked_tensors[0] if len(stacked_tensors) == 1 else torch.cat(stacked_tensors)
        stacked = stacked[num_offset_rows:] if rule.has_offset_rows else stacked
        our_tensors[rule.our_name] = stacked.to(torch.float32).contiguous()
    skipped = {reason: tuple(original_names[name] for name in names) for reason, names in ignored.items()}
    num_matched = len({original_names[name] for name in (*expected, *tied)})
    return our_tensors, NameMappingReport(name_map.title, num_matched, present, missing, skipped)


def to_hf_names(
    name_map: TensorNameMap,
    our_tensors: Mapping[str, Tensor],
    *,
    depth: int,
    num_offset_rows: int = 0,
    has_prefix: bool = True,
) -> dict[str, Tensor]:
    """Convert our tensors to Hugging Face names; tied weights are stored once, as there."""
    import torch

    heads = head_names(our_tensors)
    rules = tuple(rule for rule in name_map.expand_rules(depth) if not rule.head or rule.head in heads)
    if unequal := sorted({rule.our_name for rule in rules} ^ our_tensors.keys()):
        raise InputError(f"not the tensors of {name_map.title} with {depth} blocks: {join_errors(unequal)}")
    hf_tensors: dict[str, Tensor] = {}
    for rule in rules:
        prefix = name_map.prefix if has_prefix and (rule.is_shared or not rule.head) else ""
        tensor = our_tensors[rule.our_name].detach().cpu()
        if rule.has_offset_rows:
            tensor = torch.cat((tensor.new_zeros(num_offset_rows, *tensor.shape[1:]), tensor))
        for name, part in zip(rule.hf_names, tensor.chunk(len(rule.hf_names)), strict=True):
            hf_tensors[prefix + name] = (part.T if rule.is_transposed else part).contiguous()
    return hf_tensors


def head_names(names: Iterable[str]) -> tuple[str, ...]:
    """The heads among our tensor names."""
    return tuple(dict.fromkeys(name.split(".")[1] for name in names if name.startswith("heads.")))


def closest_architecture(names: Sequence[str], name_maps: Sequence[TensorNameMap]) -> TensorNameMap | None:
    """The architecture that matches most names; None if no name matches."""
    closest = max(name_maps, key=lambda name_map: name_map.count_matches(names), default=None)
    return closest if closest is not None and closest.count_matches(names)[0] else None


def _mismatch_error(
    name_map: TensorNameMap, faults: list[str], names: list[str], others: Sequence[TensorNameMap], file: Path | None
) -> InputError:
    """An error that lists the mismatches and suggests a better matching architecture."""
    num_matches, closest = name_map.count_matches(names), closest_architecture(names, [name_map, *others])
    message = f"not {name_map.title}'s weights: {join_errors(faults)}"
    if not num_matches[0]:
        message = f"none of its names is one of {name_map.title}'s"
    hint = f"give the folder of a whole {name_map.title}, as save_pretrained wrote it"
    if closest is not None and closest.count_matches(names) > num_matches:
        message += f"; these look like {closest.title}'s"
        hint += f", or correct model_type in its config.json if it is {closest.title}"
    return InputError(message, file=file, hint=hint)


def _rules_present(
    name_map: TensorNameMap, tensors: Mapping[str, Tensor], depth: int
) -> tuple[tuple[TensorNameRule, ...], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The rules of the encoder and the heads present, those heads, and the missing names of other heads.

    A head counts as present if any of its names is: an incomplete head is an error.
    """
    rules = name_map.expand_rules(depth)
    present, missing = [], {}
    for head in name_map.heads:
        head_tensors = [name for rule in rules if rule.head == head and not rule.is_shared for name in rule.hf_names]
        recognized = {*head_tensors, *(copy for copy, name in name_map.tied.items() if name in head_tensors)}
        if recognized & tensors.keys():
            present.append(head)
        else:
            missing[head] = tuple(head_tensors)
    return tuple(rule for rule in rules if not rule.head or rule.head in present), tuple(present), missing


def _group_ignored(
    name_map: TensorNameMap, names: set[str], shared: set[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The names that may be ignored, grouped by reason, and the others."""
    reasons = {re.escape(name): UNUSED_HEAD_NOTE for name in sorted(shared)}
    reasons |= {**name_map.ignored_names, TASK_HEAD_NAMES: UNUSED_TASK_NOTE}
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        reason = next((reason for pattern, reason in reasons.items() if re.fullmatch(pattern, name)), "")
        groups.setdefault(reason, []).append(name)
    return groups, groups.pop("", [])


def _wrong_shapes(rules: Sequence[TensorNameRule], tensors: Mapping[str, Tensor], num_offset_rows: int) -> list[str]:
    """Messages on shapes that cannot be transposed, stacked or split; the model checks the sizes later."""
    faults = []
    for rule in rules:
        shapes = {name: tuple(tensors[name].shape) for name in rule.hf_names}
        is_vector = rule.our_name.endswith(".bias") or "norm" in rule.our_name
        for name, shape in shapes.items():
            if len(shape) != (1 if is_vector else 2) or (rule.has_offset_rows and shape[0] <= num_offset_rows):
                faults.append(f"{name} has the shape {shape}")
        if len(set(shapes.values())) > 1:
            faults.append(f"{', '.join(shapes)} are not of one shape")
    return faults
