"""What config.json of transformers tells of a task, and what it has to be told: labels, what is asked, dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput, several
from forebear.interop.task_heads import TASKS, TaskHead

if TYPE_CHECKING:
    from torch import Tensor

PROBLEMS = {"one": "single_label_classification", "several": "multi_label_classification", "number": "regression"}
WITHOUT = "import it without its head: --task none"
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


def config_for(head: TaskHead, task: Mapping[str, Any], dropout: float, language: float) -> dict[str, Any]:
    """What config.json has more for this task."""
    facts: dict[str, Any] = {name: values[0] for name, values in head.built.items()}
    facts |= {head.dropout: dropout} if head.dropout else {}
    labels = task.get("tags") or task.get("labels") or (["LABEL_0"] if head.shape == "label" else [])
    if labels:
        facts["id2label"] = {str(number): label for number, label in enumerate(labels)}
        facts["label2id"] = {label: number for number, label in enumerate(labels)}
        facts["num_labels"] = len(labels)
    if head.shape == "label":
        facts["problem_type"] = PROBLEMS[task["kind"]]
    own = {name: value for name, value in task.items() if name in OWN}
    return facts | {MINE: {"task": own} | ({"language": language} if head.speaks else {})}


def task_of(head: TaskHead, config: Mapping[str, Any], tensors: Mapping[str, Tensor], file: Path) -> dict[str, Any]:
    """The task in our words, as far as the files tell; what cannot be done here is refused."""
    for name, built in head.built.items():
        if config.get(name, built[0]) not in built:
            raise BadInput(f"{name} is {config[name]!r}; here it can only be {built[0]!r}", file=file, remedy=WITHOUT)
    answers = len(tensors[f"heads.{head.shape}.choose.weight"])
    own = _own(head, config, file)
    if head.shape == "tag":
        return {"name": "tagging", **own, "tags": labels_of(config, answers, file)}
    if head.shape != "label":
        wanted = {"place": 2, "choice": 1}[head.shape]
        if answers != wanted:
            what = f"its head gives {answers} numbers, and here it can only be {wanted}"
            raise BadInput(what, file=file, remedy=WITHOUT)
        return {"name": "answering" if head.shape == "place" else "choice", **own}
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
        raise BadInput(what, file=file, remedy="correct it in the file")
    labels = [str(told[str(number)]) for number in range(count)]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise BadInput(f"id2label has labels twice: {several(twice)}", file=file, remedy="correct it in the file")
    return labels


def dropout_of(head: TaskHead, config: Mapping[str, Any], usual: float, file: Path) -> float:
    """Of the head; as that of the encoder where nothing is said."""
    told = config.get(head.dropout) if head.dropout else None
    told = usual if told is None else told
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < 1:
        what = f"{head.dropout} is {told!r}, not a number from 0 to below 1"
        raise BadInput(what, file=file, remedy="correct it in the file")
    return float(told)


def language_of(head: TaskHead, config: Mapping[str, Any]) -> float:
    """How much the next token counted beside the task; 0 where it was not asked."""
    if not head.speaks:
        return 0.0
    mine = config.get(MINE)
    told = mine.get("language") if isinstance(mine, dict) else None
    return float(told) if isinstance(told, int | float) and math.isfinite(told) and told >= 0 else LANGUAGE


def remarks(task: Mapping[str, Any], context: int, *, looks_back: bool, pads: bool, spaced: bool) -> list[str]:
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
        raise BadInput(what, file=file, remedy=WITHOUT)
    return kind


def _own(head: TaskHead, config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What a run that was exported told of its task; nothing of any other."""
    mine = config.get(MINE)
    told = mine.get("task") if isinstance(mine, dict) else None
    if told is None:
        return {}
    right = (
        isinstance(told, dict)
        and TASKS.get(str(told.get("name"))) == head.shape
        and all(
            name in OWN and type(value) in OWN[name] and (name == "threshold" or type(value) is not int or value > 0)
            for name, value in told.items()
        )
    )
    if not right:
        remedy = f"take {MINE!r} out of the file, or export it again"
        raise BadInput(f"what {MINE!r} tells of its task is not to be understood", file=file, remedy=remedy)
    return told
