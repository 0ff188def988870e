"""Tasks of runs that are exchanged with transformers: what a folder is for, and what it has to be told of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.interop.task_configs import WITHOUT, remarks
from forebear.objectives.layout import Layout
from forebear.tasks import tags
from forebear.tasks.adaptation import Adaptation
from forebear.tasks.pairs import ORDERED
from forebear.tasks.task import Task, task_from

if TYPE_CHECKING:
    from forebear.interop.huggingface import Adapted, Found
    from forebear.networks.model import Model
    from forebear.using.run import Run

ALONE = ("classification", "tagging")  # tasks whose rows are of one text; others' are of two


def task_of(found: Found, wanted: str | None, path: Path, notes: list[str]) -> Task | None:
    """What a folder is for; `wanted` says whether a classifier is of texts or of pairs, which no folder tells."""
    told = None if found.task is None else dict(found.task)
    if wanted in ("classification", "pairs") and (told is None or "labels" not in told):
        raise BadInput(f"it has no head for {wanted}", file=path, remedy="leave out --task")
    if told is None:
        return None
    if "tags" in told:
        told |= _tags(told, path)
    if "labels" in told:
        ordered = any(mark in label.lower() for label in told["labels"] for mark in ORDERED)
        if wanted is None and "windows" not in told:  # which one that was exported from here tells
            wanted = "pairs" if ordered else "classification"
            notes.append(f"taken for a classifier of {'pairs of' if ordered else 'single'} texts; else give --task")
        told["name"] = wanted or told["name"]
        if told["name"] == "pairs":
            told.setdefault("ordered", ordered)
        else:
            told.pop("ordered", None)
    return task_from(told)


def _tags(told: dict[str, Any], path: Path) -> dict[str, Any]:
    """Their tags with our letters for the first word, one inside, the last and the only one, and their scheme."""
    theirs: list[str] = told["tags"]
    ours = [tags.ROLES.get(tag[:1], tag[:1]) + tag[1:] for tag in theirs]
    try:
        tags.legal(ours)
    except BadInput as error:
        what = f"its labels are no tags of names: {error.what}"
        remedy = f"name them so in id2label of its config.json, or {WITHOUT}"
        raise BadInput(what, file=path, remedy=remedy) from None
    letters = {tag[0] for tag in theirs} - {"O"}
    scheme = next((name for name, four in tags.LETTERS.items() if letters == {*four, "B"}), "IOBES")
    return {"tags": ours, "scheme": told.get("scheme", scheme)}


def with_heads(
    network: Model, task: Task, found: Found, layout: Layout, path: Path
) -> tuple[Model, dict[str, dict[str, Any]]]:
    """The encoder with the heads of a task, still without values, and what a run says of its task."""
    _check_rows(path, layout, 1 if task.name in ALONE else 2)
    adaptation = Adaptation(dropout=found.adaptation["dropout"], language=found.adaptation["language"])
    told = {"task": task.to_json(), "adaptation": adaptation.to_json()}
    return adaptation.network(network, task, layout), told


def _check_rows(folder: Path, layout: Layout, texts: int) -> None:
    """An error where their tokenizer makes other rows for a task than are made here, and other answers by that.

    Vocabularies without a tokenizer.json are laid out as the papers say, but for GPT's, of which programs mark nothing.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        if layout.read == "last":
            what = "it has no tokenizer.json with marks around texts, and here its last mark is read"
            raise BadInput(what, file=folder, remedy=WITHOUT)
        return
    from tokenizers import Tokenizer as Rust

    rust: Any = Rust.from_file(str(file))
    rust.no_padding()
    rust.no_truncation()
    bare = np.array(rust.encode("a", add_special_tokens=False).ids, np.int32)
    theirs, (ours, segments) = rust.encode(*"aa"[:texts]), layout.row(*[bare] * texts)
    if theirs.ids != ours.tolist() or (layout.segments and theirs.type_ids != segments.tolist()):
        wanted = " ".join(str(rust.id_to_token(number)) for number in ours.tolist())
        what = f"its rows are {' '.join(theirs.tokens)}, and here they are {wanted}: it would answer otherwise"
        raise BadInput(what, file=file, remedy=WITHOUT)


def adapted(run: Run) -> tuple[Adapted | None, list[str]]:
    """The task that a run was adapted to, and what is to be said of it; what cannot be written so is refused."""
    from forebear.interop.huggingface import Adapted

    if run.task is None:
        return None, []
    how, path = run.folder.adaptation, run.folder.path
    if how.how == "features":
        what = "its head reads a mixture of all layers, which no class of transformers does"
        raise BadInput(what, file=path, remedy="adapt with --how finetune or --how freeze to write it so")
    layout, task = run.folder.milestone.layout(run.tokenizer), run.task.to_json()
    if how.read not in (None, layout.read) and run.task.name not in ("tagging", "answering"):
        words = {"first": "the first token", "last": "the last token", "mean": "the mean"}
        what = f"its head reads {words[how.read]} of a row, and the classes of transformers {words[layout.read]}"
        raise BadInput(what, file=path, remedy="adapt without --read to write it so")
    if run.task.crf:
        what = "its tags are judged together by a CRF, which no class of transformers does"
        raise BadInput(what, file=path, remedy="adapt without --crf to write it so")
    told = remarks(
        task,
        run.facts["fields"]["context"],
        looks_back=layout.both_orders,
        pads="padding" in run.tokenizer.roles,
        spaced=run.tokenizer.kind == "bytepair",
    )
    return Adapted(task, how.dropout, how.language), told
