"""Heads of tasks in Hugging Face transformers: by the class that has them, their tensors' names and ours."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.labeled import tag_schemes
from forebear.errors import InputError, join_faults
from forebear.interop.tensor_names import (
    FAMILIES,
    UNUSED_HEAD_NOTE,
    Architecture,
    TensorNameMap,
    TensorNameRule,
    layer_rules,
)
from forebear.objectives.input_format import InputFormat
from forebear.tasks.classification import ORDERED_PAIR_WORDS
from forebear.tasks.task import Task, task_from_json
from forebear.training.adaptation import Adaptation

if TYPE_CHECKING:
    from torch import Tensor

    from forebear.inference.run import Run
    from forebear.interop.huggingface import ForeignCheckpoint, TaskExport
    from forebear.nn.model import Model

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
class TaskHeadMapping:
    """What answers tasks of one shape in one architecture.

    name     of the class there
    shape    what is answered: a label, a tag for each token, the place of an answer, a choice
    dropout  what the head's is called in config.json; none: it has none
    built    what config.json can tell of it, and the values that are built here; if left out, it is the first
    zeros    tensors of theirs that mean nothing: left out when read, written as zeros
    speaks   it has the head for the next token too
    """

    name: str
    kind: str
    rows: tuple[TensorNameRule, ...]
    dropout: str = "classifier_dropout"
    built: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    zero_tensors: tuple[str, ...] = ()
    has_lm_head: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Ours."""
        return ("start", "end") if self.kind == "place" else (self.kind,)

    def name_map(self, family: Architecture) -> TensorNameMap:
        """The names of the encoder and of this head; those of other heads may be there, and are left out."""
        own = family.name_map
        encoder = tuple(row for row in own.rows if not row.head)
        known = {name for row in encoder for name in row.theirs}
        idle = {re.escape(copy): BESIDE for copy, name in own.tied.items() if name not in known}
        for row in own.rows:
            idle |= {re.escape(name): UNUSED_HEAD_NOTE if row.lent else BESIDE for name in row.theirs if row.head}
        idle |= {re.escape(name): SAME_FOR_ALL for name in self.zero_tensors}
        copies = {copy: name for copy, name in own.tied.items() if name in known}
        return replace(own, rows=(*encoder, *self.rows), tied=copies, ignored_names={**idle, **own.ignored_names})


def _of_both_ways(milestone: str, pooler: str, dropout: str = "classifier_dropout") -> tuple[TaskHeadMapping, ...]:
    def reads_first(shape: str, pool: str, choose: str) -> tuple[TensorNameRule, ...]:
        lent = pool == pooler
        pooled = layer_rules(f"heads.{shape}.pool", pool, head=shape, lent=lent)
        return (*pooled, *layer_rules(f"heads.{shape}.choose", choose, head=shape))

    label = (pooler, "classifier") if milestone != "roberta" else ("classifier.dense", "classifier.out_proj")
    rows = {
        "label": reads_first("label", *label),
        "tag": layer_rules("heads.tag.choose", "classifier", head="tag"),
        "place": layer_rules("heads.place.choose", "qa_outputs", head="place"),
        "choice": reads_first("choice", pooler, "classifier"),
    }
    return tuple(
        TaskHeadMapping(f"{TITLES[milestone]}{ENDINGS[shape]}", shape, own, dropout) for shape, own in rows.items()
    )


def _of_looking_back(milestone: str) -> tuple[TaskHeadMapping, ...]:
    """A label is softmax(hW) of the last token there too, without a bias; so is a choice, whose bias means nothing."""
    title = TITLES[milestone]
    summary = {"summary_type": ("cls_index", "last"), "summary_use_proj": (True,), "summary_activation": (None, "")}
    label = TensorNameRule("heads.label.choose.weight", ("score.weight",), head="label")
    choice = TensorNameRule("heads.choice.choose.weight", (f"{SUMMARY}.weight",), head="choice")
    return (
        TaskHeadMapping(f"{title}{ENDINGS['label']}", "label", (label,), ""),
        TaskHeadMapping(
            f"{title}DoubleHeadsModel",
            "choice",
            (choice,),
            "summary_first_dropout",
            built=summary | {"summary_proj_to_labels": (True,)},
            zero_tensors=(f"{SUMMARY}.bias",),
            has_lm_head=True,
        ),
    )


_TAG, _PLACE = (
    TaskHeadMapping(f"GPT2{ENDINGS['tag']}", "tag", layer_rules("heads.tag.choose", "classifier", head="tag")),
    TaskHeadMapping(
        f"GPT2{ENDINGS['place']}", "place", layer_rules("heads.place.choose", "qa_outputs", head="place"), ""
    ),
)
HEADS: dict[str, tuple[TaskHeadMapping, ...]] = {
    "gpt": _of_looking_back("gpt"),
    "bert": _of_both_ways("bert", "pooler.dense"),
    "gpt2": (*_of_looking_back("gpt2"), _TAG, _PLACE),
    "ernie": _of_both_ways("ernie", "pooler.dense"),
    "roberta": _of_both_ways("roberta", "pooler.dense"),
    "albert": _of_both_ways("albert", "pooler", "classifier_dropout_prob"),
}


def head_for_class(milestone: str, name: str) -> TaskHeadMapping | None:
    """The head that a class of this name has; None where it has none for a task."""
    return next((head for head in HEADS[milestone] if head.name == name), None)


def head_for_task(milestone: str, task: str) -> TaskHeadMapping:
    """The head for this task of ours; an error where transformers has none."""
    for head in HEADS[milestone]:
        if head.kind == TASKS[task]:
            return head
    title = FAMILIES[milestone].name_map.title
    able = ", ".join(name for name, shape in TASKS.items() if shape in {head.kind for head in HEADS[milestone]})
    what = f"{title} of transformers has no class for {task}"
    raise InputError(what, hint=f"it has classes for: {able}; adapt another milestone to write {task}")


# -- values


def split_start_end(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Start and end by themselves, which are the two rows of one layer there."""
    found = {name: one for name, one in tensors.items() if not name.startswith("heads.place.")}
    for name in tensors.keys() - found.keys():
        for row, head in enumerate(("start", "end")):
            found[name.replace("place", head, 1)] = tensors[name][row : row + 1].clone()
    return found


def join_start_end(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Start and end as the two rows of one layer."""
    import torch

    found = {name: one for name, one in tensors.items() if not name.startswith(("heads.start.", "heads.end."))}
    for name, one in tensors.items():
        if name.startswith("heads.start."):
            found[name.replace("start", "place", 1)] = torch.cat((one, tensors[name.replace("start", "end", 1)]))
    return found


def bake_temperature(tensors: Mapping[str, Tensor], task: Mapping[str, Any], depth: int) -> dict[str, Tensor]:
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
        raise InputError("its head has learned nothing", hint="adapt it to examples first")
    return (weight.double() * (shift / length)).to(weight.dtype)


# What config.json of transformers tells of a task, and what it has to be told: labels, what is asked, dropout.


PROBLEMS = {"one": "single_label_classification", "several": "multi_label_classification", "number": "regression"}
WITHOUT_HEAD_REMEDY = "import it without its head: --task none"
MINE = "forebear"  # the key under which a run that was exported tells what transformers has no word for
OWN: dict[str, tuple[type, ...]] = {  # fields of tasks that may stand there; labels and kinds have words of theirs
    "name": (str,),
    "ordered": (bool,),
    "windows": (int,),
    "characters": (bool,),
    "scheme": (str,),
    "longest": (int,),
    "unanswered": (bool,),
    "threshold": (float, int),
    "top": (int,),
}
READ_AT_THE_END = ("classification", "pairs", "choice")
LANGUAGE = 0.5  # what the language model counted for beside the task, in GPT's paper


def task_config(head: TaskHeadMapping, task: Mapping[str, Any], dropout: float, language: float) -> dict[str, Any]:
    """What config.json has more for this task."""
    facts: dict[str, Any] = {name: values[0] for name, values in head.built.items()}
    facts |= {head.dropout: dropout} if head.dropout else {}
    labels = task.get("tags") or task.get("labels") or (["LABEL_0"] if head.kind == "label" else [])
    if labels:
        facts["id2label"] = {str(number): label for number, label in enumerate(labels)}
        facts["label2id"] = {label: number for number, label in enumerate(labels)}
        facts["num_labels"] = len(labels)
    if head.kind == "label":
        facts["problem_type"] = PROBLEMS[task["kind"]]
    own = {name: value for name, value in task.items() if name in OWN}
    return facts | {MINE: {"task": own} | ({"language": language} if head.has_lm_head else {})}


def task_from_config(
    head: TaskHeadMapping, config: Mapping[str, Any], tensors: Mapping[str, Tensor], file: Path
) -> dict[str, Any]:
    """The task in our words, as far as the files tell; what cannot be done here is refused."""
    for name, built in head.built.items():
        if config.get(name, built[0]) not in built:
            raise InputError(
                f"{name} is {config[name]!r}; here it can only be {built[0]!r}", file=file, hint=WITHOUT_HEAD_REMEDY
            )
    answers = len(tensors[f"heads.{head.kind}.choose.weight"])
    own = _own(head, config, file)
    if head.kind == "tag":
        return {"name": "tagging", **own, "tags": labels_of(config, answers, file)}
    if head.kind != "label":
        wanted = {"place": 2, "choice": 1}[head.kind]
        if answers != wanted:
            what = f"its head gives {answers} numbers, and here it can only be {wanted}"
            raise InputError(what, file=file, hint=WITHOUT_HEAD_REMEDY)
        return {"name": "answering" if head.kind == "place" else "choice", **own}
    kind = _kind(config, answers, file)
    labels = [] if kind == "number" else labels_of(config, answers, file)
    return {"name": "classification", **own, "labels": labels, "kind": kind}


def labels_of(config: Mapping[str, Any], count: int, file: Path) -> list[str]:
    """The names of so many labels; transformers calls them LABEL_0, LABEL_1, … where nobody has named them."""
    told = config.get("id2label")
    if told is None:
        return [f"LABEL_{number}" for number in range(count)]
    right = isinstance(told, dict) and all(isinstance(label, str | int) for label in told.values())
    if not right or {*told} != {str(number) for number in range(count)}:
        what = f"id2label does not name the {count} labels that the weights have, 0 to {count - 1}"
        raise InputError(what, file=file, hint="correct it in the file")
    labels = [str(told[str(number)]) for number in range(count)]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise InputError(f"id2label has labels twice: {join_faults(twice)}", file=file, hint="correct it in the file")
    return labels


def head_dropout(head: TaskHeadMapping, config: Mapping[str, Any], usual: float, file: Path) -> float:
    """Of the head; as that of the encoder where nothing is said."""
    told = config.get(head.dropout) if head.dropout else None
    told = usual if told is None else told
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < 1:
        what = f"{head.dropout} is {told!r}, not a number from 0 to below 1"
        raise InputError(what, file=file, hint="correct it in the file")
    return float(told)


def lm_weight(head: TaskHeadMapping, config: Mapping[str, Any]) -> float:
    """How much the next token counted beside the task; 0 where it was not asked."""
    if not head.has_lm_head:
        return 0.0
    mine = config.get(MINE)
    told = mine.get("language") if isinstance(mine, dict) else None
    return float(told) if isinstance(told, int | float) and math.isfinite(told) and told >= 0 else LANGUAGE


def export_notes(task: Mapping[str, Any], context: int, *, looks_back: bool, pads: bool, spaced: bool) -> list[str]:
    """What the files cannot say and a person who uses them there has to know.

    `spaced`: its tokens hold the space before a word.
    """
    told = []
    shape, long = task["name"], f"here a text of more than {context} tokens is read in windows"
    if shape == "classification" and task["windows"] > 1:
        told.append(f"{long} and their vectors averaged; there it has to be cut (truncation=True)")
    if shape == "tagging":
        each = ", each with the space before it" if spaced else ""
        told.append(f"words are cut one by one (is_split_into_words=True){each}; a word's tag is its first token's")
        told.append("here the likeliest tags that IOBES allows are told; there each token has its own")
    if shape in ("tagging", "answering"):
        told.append(f"{long}; there it has to be cut into windows (stride=)")
    if shape == "answering" and task["unanswered"]:
        bound = task["threshold"]
        told.append(f"no answer is told where the first token is likelier by {bound:.4g} nats than the best answer")
    if shape == "pairs" and looks_back and not task["ordered"]:
        told.append("here two texts are asked about in both orders; the mean of both logits there is the same")
    if looks_back and shape in READ_AT_THE_END and not pads:
        told.append("its vocabulary has no token for padding: ask for one row at a time, and never pad with its end")
    if looks_back and shape == "choice":
        told.append(
            "the score is read at the last token of a row: say where that is (mc_token_ids) where rows are padded"
        )
    return told


def _kind(config: Mapping[str, Any], answers: int, file: Path) -> str:
    told = config.get("problem_type")
    if told is None:
        return "number" if answers == 1 else "one"
    kind = next((kind for kind, problem in PROBLEMS.items() if problem == told), None)
    if kind is None or ((kind == "number") != (answers == 1) and kind != "several"):
        what = f"problem_type is {told!r} with {answers} answers, which cannot be done here"
        raise InputError(what, file=file, hint=WITHOUT_HEAD_REMEDY)
    return kind


def _own(head: TaskHeadMapping, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What a run that was exported told of its task; nothing of any other."""
    mine = config.get(MINE)
    told = mine.get("task") if isinstance(mine, dict) else None
    if told is None:
        return {}
    right = (
        isinstance(told, dict)
        and TASKS.get(str(told.get("name"))) == head.kind
        and all(
            name in OWN and type(value) in OWN[name] and (name == "threshold" or type(value) is not int or value > 0)
            for name, value in told.items()
        )
    )
    if not right:
        hint = f"take {MINE!r} out of the file, or export it again"
        raise InputError(f"what {MINE!r} tells of its task is not to be understood", file=file, hint=hint)
    return told


# Tasks of runs that are exchanged with transformers: what a folder is for, and what it has to be told of a run.


ALONE = ("classification", "tagging")  # tasks whose rows are of one text; others' are of two


def imported_task(found: ForeignCheckpoint, wanted: str | None, path: Path, notes: list[str]) -> Task | None:
    """What a folder is for; `wanted` says whether a classifier is of texts or of pairs, which no folder tells."""
    told = None if found.task is None else dict(found.task)
    if wanted in ("classification", "pairs") and (told is None or "labels" not in told):
        raise InputError(f"it has no head for {wanted}", file=path, hint="leave out --task")
    if told is None:
        return None
    if "tags" in told:
        told |= _tags(told, path)
    if "labels" in told:
        ordered = any(mark in label.lower() for label in told["labels"] for mark in ORDERED_PAIR_WORDS)
        if wanted is None and "windows" not in told:  # which one that was exported from here tells
            wanted = "pairs" if ordered else "classification"
            notes.append(f"taken for a classifier of {'pairs of' if ordered else 'single'} texts; else give --task")
        told["name"] = wanted or told["name"]
        if told["name"] == "pairs":
            told.setdefault("ordered", ordered)
        else:
            told.pop("ordered", None)
    return task_from_json(told)


def _tags(told: dict[str, Any], path: Path) -> dict[str, Any]:
    """Their tags with our letters for the first word, one inside, the last and the only one, and their scheme."""
    theirs: list[str] = told["tags"]
    ours = [tag_schemes.TAG_ROLES.get(tag[:1], tag[:1]) + tag[1:] for tag in theirs]
    try:
        tag_schemes.legal_transitions(ours)
    except InputError as error:
        what = f"its labels are no tags of names: {error.message}"
        hint = f"name them so in id2label of its config.json, or {WITHOUT_HEAD_REMEDY}"
        raise InputError(what, file=path, hint=hint) from None
    letters = {tag[0] for tag in theirs} - {"O"}
    scheme = next((name for name, four in tag_schemes.SCHEME_LETTERS.items() if letters == {*four, "B"}), "IOBES")
    return {"tags": ours, "scheme": told.get("scheme", scheme)}


def add_task_heads(
    network: Model, task: Task, found: ForeignCheckpoint, layout: InputFormat, path: Path
) -> tuple[Model, dict[str, dict[str, Any]]]:
    """The encoder with the heads of a task, still without values, and what a run says of its task."""
    _check_rows(path, layout, 1 if task.name in ALONE else 2)
    adaptation = Adaptation(dropout=found.adaptation["dropout"], language=found.adaptation["language"])
    told = {"task": task.to_dict(), "adaptation": adaptation.to_dict()}
    return adaptation.build_model(network, task, layout), told


def _check_rows(folder: Path, layout: InputFormat, texts: int) -> None:
    """An error where their tokenizer makes other rows for a task than are made here, and other answers by that.

    Vocabularies without a tokenizer.json are laid out as the papers say, but for GPT's, of which programs mark nothing.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        if layout.pooling == "last":
            what = "it has no tokenizer.json with marks around texts, and here its last mark is read"
            raise InputError(what, file=folder, hint=WITHOUT_HEAD_REMEDY)
        return
    from tokenizers import Tokenizer as Rust

    rust: Any = Rust.from_file(str(file))
    rust.no_padding()
    rust.no_truncation()
    bare = np.array(rust.encode("a", add_special_tokens=False).ids, np.int32)
    theirs, (ours, segments) = rust.encode(*"aa"[:texts]), layout.make_row(*[bare] * texts)
    if theirs.ids != ours.tolist() or (layout.segments and theirs.type_ids != segments.tolist()):
        wanted = " ".join(str(rust.id_to_token(number)) for number in ours.tolist())
        what = f"its rows are {' '.join(theirs.tokens)}, and here they are {wanted}: it would answer otherwise"
        raise InputError(what, file=file, hint=WITHOUT_HEAD_REMEDY)


def exported_task(run: Run) -> tuple[TaskExport | None, list[str]]:
    """The task that a run was adapted to, and what is to be said of it; what cannot be written so is refused."""
    from forebear.interop.huggingface import TaskExport

    if run.task is None:
        return None, []
    how, path = run.folder.adaptation, run.folder.path
    if how.how == "features":
        what = "its head reads a mixture of all layers, which no class of transformers does"
        raise InputError(what, file=path, hint="adapt with --how finetune or --how freeze to write it so")
    layout, task = run.folder.spec.input_format(run.tokenizer), run.task.to_dict()
    if how.read not in (None, layout.pooling) and run.task.name not in ("tagging", "answering"):
        words = {"first": "the first token", "last": "the last token", "mean": "the mean"}
        what = f"its head reads {words[how.read]} of a row, and the classes of transformers {words[layout.pooling]}"
        raise InputError(what, file=path, hint="adapt without --read to write it so")
    if run.task.crf:
        what = "its tags are judged together by a CRF, which no class of transformers does"
        raise InputError(what, file=path, hint="adapt without --crf to write it so")
    told = export_notes(
        task,
        run.metadata["fields"]["context"],
        looks_back=layout.both_orders,
        pads="padding" in run.tokenizer.special_roles,
        spaced=run.tokenizer.kind == "bytepair",
    )
    return TaskExport(task, how.dropout, how.language), told
