"""Heads of tasks in Hugging Face transformers: by the class that has them, their tensors' names and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.interop.families import FAMILIES, Family, layer
from forebear.interop.names import LENT, Row, Table

if TYPE_CHECKING:
    from torch import Tensor

BESIDE = "of a head beside that of the task, which its class does not read"
SAME_FOR_ALL = "added to the score of every choice alike, it chooses none"
SUMMARY = "multiple_choice_head.summary"
NORM = "encoder.final_norm.bias", "encoder.blocks.{}.feedforward_norm.bias"  # whichever stands last, GPT-2's or GPT's
TASKS = {"classification": "label", "pairs": "label", "tagging": "tag", "answering": "place", "choice": "choice"}
# By what is answered: how the names of their classes end.
ENDINGS = {"label": "ForSequenceClassification", "tag": "ForTokenClassification"}
ENDINGS |= {"place": "ForQuestionAnswering", "choice": "ForMultipleChoice"}
TITLES = {
    "gpt": "OpenAIGPT",
    "bert": "Bert",
    "gpt2": "GPT2",
    "ernie": "Ernie",
    "roberta": "Roberta",
    "albert": "Albert",
}


@dataclass(frozen=True)
class TaskHead:
    """What answers tasks of one shape in one architecture.

    name     of the class there
    shape    what is answered: a label, a tag for each token, the place of an answer, a choice
    dropout  what the head's is called in config.json; none: it has none
    built    what config.json can tell of it, and the values that are built here; if left out, it is the first
    zeros    tensors of theirs that mean nothing: left out when read, written as zeros
    speaks   it has the head for the next token too
    """

    name: str
    shape: str
    rows: tuple[Row, ...]
    dropout: str = "classifier_dropout"
    built: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    zeros: tuple[str, ...] = ()
    speaks: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Ours."""
        return ("start", "end") if self.shape == "place" else (self.shape,)

    def table(self, family: Family) -> Table:
        """The names of the encoder and of this head; those of other heads may be there, and are left out."""
        own = family.table
        encoder = tuple(row for row in own.rows if not row.head)
        known = {name for row in encoder for name in row.theirs}
        idle = {re.escape(copy): BESIDE for copy, name in own.copies.items() if name not in known}
        for row in own.rows:
            idle |= {re.escape(name): LENT if row.lent else BESIDE for name in row.theirs if row.head}
        idle |= {re.escape(name): SAME_FOR_ALL for name in self.zeros}
        copies = {copy: name for copy, name in own.copies.items() if name in known}
        return replace(own, rows=(*encoder, *self.rows), copies=copies, idle={**idle, **own.idle})


def _of_both_ways(milestone: str, pooler: str, dropout: str = "classifier_dropout") -> tuple[TaskHead, ...]:
    def reads_first(shape: str, pool: str, choose: str) -> tuple[Row, ...]:
        lent = pool == pooler
        pooled = layer(f"heads.{shape}.pool", pool, head=shape, lent=lent)
        return (*pooled, *layer(f"heads.{shape}.choose", choose, head=shape))

    label = (pooler, "classifier") if milestone != "roberta" else ("classifier.dense", "classifier.out_proj")
    rows = {
        "label": reads_first("label", *label),
        "tag": layer("heads.tag.choose", "classifier", head="tag"),
        "place": layer("heads.place.choose", "qa_outputs", head="place"),
        "choice": reads_first("choice", pooler, "classifier"),
    }
    return tuple(TaskHead(f"{TITLES[milestone]}{ENDINGS[shape]}", shape, own, dropout) for shape, own in rows.items())


def _of_looking_back(milestone: str) -> tuple[TaskHead, ...]:
    """A label is softmax(hW) of the last token there too, without a bias; so is a choice, whose bias means nothing."""
    title = TITLES[milestone]
    summary = {"summary_type": ("cls_index", "last"), "summary_use_proj": (True,), "summary_activation": (None, "")}
    label = Row("heads.label.choose.weight", ("score.weight",), head="label")
    choice = Row("heads.choice.choose.weight", (f"{SUMMARY}.weight",), head="choice")
    return (
        TaskHead(f"{title}{ENDINGS['label']}", "label", (label,), ""),
        TaskHead(
            f"{title}DoubleHeadsModel",
            "choice",
            (choice,),
            "summary_first_dropout",
            built=summary | {"summary_proj_to_labels": (True,)},
            zeros=(f"{SUMMARY}.bias",),
            speaks=True,
        ),
    )


_TAG, _PLACE = (
    TaskHead(f"GPT2{ENDINGS['tag']}", "tag", layer("heads.tag.choose", "classifier", head="tag")),
    TaskHead(f"GPT2{ENDINGS['place']}", "place", layer("heads.place.choose", "qa_outputs", head="place"), ""),
)
HEADS: dict[str, tuple[TaskHead, ...]] = {
    "gpt": _of_looking_back("gpt"),
    "bert": _of_both_ways("bert", "pooler.dense"),
    "gpt2": (*_of_looking_back("gpt2"), _TAG, _PLACE),
    "ernie": _of_both_ways("ernie", "pooler.dense"),
    "roberta": _of_both_ways("roberta", "pooler.dense"),
    "albert": _of_both_ways("albert", "pooler", "classifier_dropout_prob"),
}


def opened_by(milestone: str, name: str) -> TaskHead | None:
    """The head that a class of this name has; None where it has none for a task."""
    return next((head for head in HEADS[milestone] if head.name == name), None)


def answering(milestone: str, task: str) -> TaskHead:
    """The head for this task of ours; an error where transformers has none."""
    for head in HEADS[milestone]:
        if head.shape == TASKS[task]:
            return head
    title = FAMILIES[milestone].table.title
    able = ", ".join(name for name, shape in TASKS.items() if shape in {head.shape for head in HEADS[milestone]})
    what = f"{title} of transformers has no class for {task}"
    raise BadInput(what, remedy=f"it has classes for: {able}; adapt another milestone to write {task}")


# -- values


def parted(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Start and end by themselves, which are the two rows of one layer there."""
    found = {name: one for name, one in tensors.items() if not name.startswith("heads.place.")}
    for name in tensors.keys() - found.keys():
        for row, head in enumerate(("start", "end")):
            found[name.replace("place", head, 1)] = tensors[name][row : row + 1].clone()
    return found


def joined(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Start and end as the two rows of one layer."""
    import torch

    found = {name: one for name, one in tensors.items() if not name.startswith(("heads.start.", "heads.end."))}
    for name, one in tensors.items():
        if name.startswith("heads.start."):
            found[name.replace("start", "place", 1)] = torch.cat((one, tensors[name.replace("start", "end", 1)]))
    return found


def settled(tensors: Mapping[str, Tensor], task: Mapping[str, Any], depth: int) -> dict[str, Tensor]:
    """Weights that answer with what is meant: logits by their temperature, numbers in their own units."""
    found = dict(tensors)
    scale, shift = 1.0 / task.get("temperature", 1.0), 0.0
    if task.get("kind") == "number":
        scale, shift = task["spread"], task["centre"]
    names = [name for name in found if re.fullmatch(r"heads\.(label|choice)\.choose\.(weight|bias)", name)]
    if scale != 1:
        found |= {name: found[name] * scale for name in names}
    if shift:
        (weight, *bias) = sorted(names, key=lambda name: name.endswith("bias"))
        moved = bias[0] if bias else next(name for one in NORM if (name := one.format(depth - 1)) in found)
        found[moved] = found[moved] + (shift if bias else _towards(found[weight][0], shift))
    return found


def _towards(weight: Tensor, shift: float) -> Tensor:
    """What a vector needs more of for a layer without a bias to answer so much more: the last norm can give it."""
    length = float(weight.double().square().sum())
    if not length:
        raise BadInput("its head has learned nothing", remedy="adapt it to examples first")
    return (weight.double() * (shift / length)).to(weight.dtype)
