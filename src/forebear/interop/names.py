"""Tables of names: what our tensors are called in another program's files, read both ways, strictly, with a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from forebear.errors import BadInput, several

if TYPE_CHECKING:
    from torch import Tensor

OLD = {".gamma": ".weight", ".beta": ".bias"}  # what LayerNorm's two were called at first
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
TASK = r"(classifier|qa_outputs|score|multiple_choice_head)\..+"
LENT = "read by a head that is not there"
OF_TASKS = "of a head for a task that is not imported"


@dataclass(frozen=True)
class Row:
    """One of our tensors and its names there, where it may be in parts that are stacked. `*` is a block's number.

    turned  stored [in, out] instead of [out, in]
    head    that it belongs to; none: the encoder
    lent    a layer that heads of tasks read too: there without the rest of its head, it is no head
    late    theirs has some rows before the first of ours
    """

    ours: str
    theirs: tuple[str, ...]
    turned: bool = False
    head: str = ""
    lent: bool = False
    late: bool = False


@dataclass(frozen=True)
class Table:
    """All names of one architecture.

    title   what people call it
    prefix  before the encoder's names wherever there are heads beside it
    copies  names of tensors that are stored a second time: the copy, and the name that it repeats
    idle    patterns of names that may be there and mean nothing here, and why
    """

    title: str
    prefix: str
    rows: tuple[Row, ...]
    copies: Mapping[str, str] = field(default_factory=dict)
    idle: Mapping[str, str] = field(default_factory=dict)

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.head for row in self.rows if row.head))

    def written(self, depth: int) -> tuple[Row, ...]:
        """The rows, with those of blocks written out for so many of them."""
        found: list[Row] = []
        for row in self.rows:
            for number in map(str, range(depth) if "*" in row.ours + row.theirs[0] else (0,)):
                theirs = tuple(name.replace("*", number) for name in row.theirs)
                found.append(Row(row.ours.replace("*", number), theirs, row.turned, row.head, row.lent, row.late))
        return tuple(found)

    def bare(self, name: str) -> str:
        """A name without the prefix, and as it is called today."""
        name = name.removeprefix(self.prefix)
        for old, new in OLD.items():
            if name.endswith(old):
                return name.removesuffix(old) + new
        return name

    def likeness(self, names: Sequence[str]) -> tuple[int, int]:
        """How many kinds of its names are among these, and how many of these have its prefix."""
        kinds = {NUMBER.sub("*", self.bare(name)) for name in names}
        own = {NUMBER.sub("*", name) for row in self.rows for name in row.theirs}
        return len(kinds & own), sum(name.startswith(self.prefix) for name in names)


@dataclass(frozen=True)
class Report:
    """What became of the names in another program's file; `missing` is by head, `left_out` by reason."""

    title: str
    matched: int
    heads: tuple[str, ...]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        return {
            "architecture": self.title,
            "matched": self.matched,
            "heads": list(self.heads),
            "missing": {head: list(names) for head, names in self.missing.items()},
            "left_out": {why: list(names) for why, names in self.left_out.items()},
        }

    def notes(self) -> list[str]:
        """The same for people, a line for each thing."""
        told = [f"{self.matched:,} names are those of {self.title}, and were read"]
        for head, names in self.missing.items():
            told.append(f"it has no head {head!r}, because these are missing: {several(names, 4)}")
        for why, names in self.left_out.items():
            told.append(f"left out ({why}): {several(names, 4)}")
        return told


def into_ours(
    table: Table,
    theirs: Mapping[str, Tensor],
    *,
    depth: int,
    before: int = 0,
    others: Sequence[Table] = (),
    file: Path | None = None,
) -> tuple[dict[str, Tensor], Report]:
    """Their tensors under our names, shaped as ours are, in float32; every name of theirs must be accounted for.

    before  rows that a late one of theirs has before the first of ours
    others  architectures that names may be of which are not of this one, for the error
    """
    import torch

    spelled = {table.bare(name): name for name in theirs}
    bare = {short: theirs[name] for short, name in spelled.items()}
    rows, present, missing = _present(table, bare, depth)
    wanted = {name for row in rows for name in row.theirs}
    copies = {copy: name for copy, name in table.copies.items() if copy in bare and name in wanted}
    for copy, name in copies.items():
        bare.setdefault(name, bare[copy])
        spelled.setdefault(name, spelled[copy])
    lent = {name for row in table.rows if row.lent for name in row.theirs} - wanted
    left_out = _left_out(table, bare.keys() - wanted - copies.keys(), lent)
    faults = [f"{name} is missing" for name in sorted(wanted - bare.keys())]
    accounted = wanted | copies.keys() | {name for names in left_out.values() for name in names}
    faults += [f"{name} is not known" for name in sorted(bare.keys() - accounted)]
    if len(spelled) < len(theirs):
        twice = sorted(name for name in theirs if spelled[table.bare(name)] != name)
        faults += [f"{name} is there twice, with and without {table.prefix}" for name in twice]
    faults += _strange({name: bare[name] for name in sorted(wanted & bare.keys())})
    faults = faults or _misshapen(rows, bare, before)
    if not faults:
        faults = [f"{copy} is not the same as {name}" for copy, name in copies.items() if not _same(bare, copy, name)]
    if faults:
        _refuse(table, faults, list(theirs), others, file)

    def shaped(row: Row) -> Tensor:
        parts = [bare[name].T if row.turned else bare[name] for name in row.theirs]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        return (whole[before:] if row.late else whole).to(torch.float32).contiguous()

    named = {why: tuple(spelled[name] for name in names) for why, names in left_out.items()}
    matched = len({spelled[name] for name in wanted} | {spelled[copy] for copy in copies})
    return {row.ours: shaped(row) for row in rows}, Report(table.title, matched, present, missing, named)


def into_theirs(
    table: Table, ours: Mapping[str, Tensor], *, depth: int, before: int = 0, prefixed: bool = True
) -> dict[str, Tensor]:
    """Our tensors under their names; what they tie is stored once, as they do."""
    import torch

    heads = heads_of(ours)
    rows = tuple(row for row in table.written(depth) if not row.head or row.head in heads)
    if differ := sorted({row.ours for row in rows} ^ ours.keys()):
        raise BadInput(f"not the tensors of {table.title} with {depth} blocks: {several(differ)}")
    found: dict[str, Tensor] = {}
    for row in rows:
        prefix = table.prefix if prefixed and (row.lent or not row.head) else ""
        whole = ours[row.ours].detach().cpu()
        if row.late:
            whole = torch.cat((whole.new_zeros(before, *whole.shape[1:]), whole))
        for name, part in zip(row.theirs, whole.chunk(len(row.theirs)), strict=True):
            found[prefix + name] = (part.T if row.turned else part).contiguous()
    return found


def heads_of(ours: Iterable[str]) -> tuple[str, ...]:
    """The heads that tensors of these names belong to."""
    return tuple(dict.fromkeys(name.split(".")[1] for name in ours if name.startswith("heads.")))


def nearest(names: Sequence[str], tables: Sequence[Table]) -> Table | None:
    """The architecture that these names are most like; None where they are like none."""
    best = max(tables, key=lambda table: table.likeness(names), default=None)
    return best if best is not None and best.likeness(names)[0] else None


def _refuse(
    table: Table, faults: Sequence[str], names: Sequence[str], others: Sequence[Table], file: Path | None
) -> NoReturn:
    """An error that names the faults, and the architecture that the names look more like, if there is one."""
    own, near = table.likeness(names), nearest(names, [table, *others])
    what = f"not {table.title}'s weights: {several(faults)}"
    if not own[0]:
        what = f"none of its names is one of {table.title}'s"
    remedy = f"give the folder of a whole {table.title}, as save_pretrained wrote it"
    if near is not None and near.likeness(names) > own:
        what += f"; these look like {near.title}'s"
        remedy += f", or correct model_type in its config.json if it is {near.title}"
    raise BadInput(what, file=file, remedy=remedy)


def _present(
    table: Table, bare: Mapping[str, Tensor], depth: int
) -> tuple[tuple[Row, ...], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The rows of the encoder and of heads that are there, those heads, and what the others lack.

    A head of which some names are there is there: if it is torn, that is a fault.
    """
    rows = table.written(depth)
    present, missing = [], {}
    for head in table.heads:
        own = [name for row in rows if row.head == head and not row.lent for name in row.theirs]
        known = {*own, *(copy for copy, name in table.copies.items() if name in own)}
        if known & bare.keys():
            present.append(head)
        else:
            missing[head] = tuple(own)
    return tuple(row for row in rows if not row.head or row.head in present), tuple(present), missing


def _left_out(table: Table, names: set[str], lent: set[str]) -> dict[str, tuple[str, ...]]:
    """Those of the names that may be left out, by the reason."""
    reasons = {re.escape(name): LENT for name in sorted(lent)}
    reasons |= {**table.idle, TASK: OF_TASKS}
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        why = next((why for pattern, why in reasons.items() if re.fullmatch(pattern, name)), None)
        if why is not None:
            found.setdefault(why, []).append(name)
    return {why: tuple(members) for why, members in found.items()}


def _strange(tensors: Mapping[str, Tensor]) -> list[str]:
    """Tensors that are no numbers to compute with."""
    import torch

    faults = []
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            faults.append(f"{name} is of {tensor.dtype}, not of floating point")
        elif not torch.isfinite(tensor).all():
            faults.append(f"{name} holds what is no number")
    return faults


def _misshapen(rows: Sequence[Row], tensors: Mapping[str, Tensor], before: int) -> list[str]:
    """Tensors that cannot be turned, stacked or cut; whether they fit the model is for the model to say."""
    faults = []
    for row in rows:
        shapes = {name: tuple(tensors[name].shape) for name in row.theirs}
        flat = row.ours.endswith(".bias") or "norm" in row.ours
        for name, shape in shapes.items():
            if len(shape) != (1 if flat else 2) or (row.late and shape[0] <= before):
                faults.append(f"{name} has the shape {shape}")
        if len(set(shapes.values())) > 1:
            faults.append(f"{', '.join(shapes)} are not of one shape")
    return faults


def _same(tensors: Mapping[str, Tensor], copy: str, name: str) -> bool:
    import torch

    return tensors[copy].dtype == tensors[name].dtype and torch.equal(tensors[copy], tensors[name])
