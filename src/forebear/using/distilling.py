"""From a trained run to a smaller one that it teaches, and what that costs and keeps, side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.tasks.examples import is_labelled
from forebear.tasks.predicting import predicted
from forebear.tasks.rows import Rows
from forebear.text.aside import disk_told, written_aside
from forebear.text.corpus import Corpus
from forebear.text.reading import Reading
from forebear.training.folder import RunFolder
from forebear.training.recipe import BUDGETS, recipe_from
from forebear.training.soft_targets import TAUGHT, Distillation, Taught, Teacher, unlabelled
from forebear.training.trainer import Watcher
from forebear.using import adapting, pretraining
from forebear.using.measuring import Measured
from forebear.using.places import place, replaced
from forebear.using.run import Run
from forebear.using.students import OF_TOKENS, Plan, plan

PathLike = str | os.PathLike[str]
SOFT = "teacher.safetensors"  # what the teacher says of every example, as long as a run learns from it
TIMED = 30  # texts


def distil(
    teacher: PathLike,
    data: PathLike | Sequence[PathLike] = (),
    *,
    to: PathLike | None = None,
    student: PathLike | None = None,
    size: str | None = None,
    layers: str | None = None,
    texts: PathLike | None = None,
    temperature: float = 2.0,
    share: float = 0.5,
    hidden: float = 0.0,
    attention: float = 0.0,
    compare: bool = False,
    reading: Reading | None = None,
    reader: str | None = None,
    reader_width: int | None = None,
    overwrite: bool = False,
    command: str | None = None,
    watcher: Watcher | None = None,
    **settings: Any,
) -> Run:
    """A smaller run, taught by a larger one; facts["price"] sets the two side by side, as `forebear distil` does.

    `data` are texts for a language model; for a task a file of examples, by default those the teacher learned from,
    and `texts` a file of more without labels. `student` is a run or a milestone, by default the teacher's, smaller.
    Where all that the student has is vectors of words, `reader` (mean, convolution, recurrent) is what reads them.
    `settings` are the recipe's (time="5m", epochs=, …) and the milestone's own fields (width=, depth=, …). With
    `compare` the same student is also trained without the teacher, into a folder beside it.
    """
    given = [data] if isinstance(data, str | os.PathLike) else data
    what = plan(
        os.fspath(teacher),
        [os.fspath(one) for one in given],
        how=Distillation(float(temperature), float(share), float(hidden), float(attention)),
        student=None if student is None else os.fspath(student),
        size=size,
        layers=layers,
        texts=None if texts is None else os.fspath(texts),
        reading=reading,
        reader={"reader": reader, "reader_width": reader_width},
        settings=settings,
    )
    run = distilled(what, to, overwrite=overwrite, command=command, watcher=watcher)
    alone = _alone(what, run, overwrite=overwrite, watcher=watcher) if compare else None
    return priced(what, run, alone)


def resume(folder: PathLike, *, watcher: Watcher | None = None) -> Run:
    """Goes on with a distillation that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.may_learn()
    told = run.facts.get("distilled")
    if told is None:
        raise BadInput("was not distilled", file=run.path, remedy=f"go on with it by: {run.going_on}")
    given = {name: value for name, value in told["given"].items() if name != "read"}
    how = Distillation(**{one.name: told[one.name] for one in fields(Distillation)})
    given["reading"] = given["reading"] and Reading(**given["reading"])
    what = plan(told["teacher"], given.pop("data"), how=how, **given)
    if what.asked(what.corpus()) != run.facts["asked"]:
        remedy = "put back what it was, or distil anew into another folder"
        raise BadInput("its teacher or what it learns from has changed since it began", file=run.path, remedy=remedy)
    return priced(what, distilled(what, folder, watcher=watcher), None)


def distilled(
    what: Plan,
    to: PathLike | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: Watcher | None = None,
) -> RunFolder:
    """Trains what was planned into a folder; a folder that holds the same, begun or finished, is gone on with."""
    watcher, corpus = watcher or Watcher(), what.corpus()
    asked = what.asked(corpus)
    wanted = Path(to) if to is not None else Path("runs") / f"{Path(what.teacher.run).name}-distilled"
    folder, there = place(wanted, asked, to is None, overwrite)
    run = there if there is not None and there.facts.get("asked") == asked else None
    if run is not None and run.finished:
        watcher.note("this run is finished already: nothing was trained")
        return run
    student = replace(what.student, recipe=what.student.recipe if run is None else run.recipe)
    what = replace(what, student=student)
    ready = _ready(what, corpus)  # before anything is written: most mistakes show here
    if run is None:
        with replaced(there):
            ledger = None if corpus is None else corpus.ledger.to_json()
            tokenizer = what.student.tokenizer if corpus is None else corpus.tokenizer
            run = RunFolder.begin(folder, _told(what, corpus, asked, folder, command), tokenizer, ledger)  # pyright: ignore[reportArgumentType]
    if corpus is None:
        adapting.trained(run, _with_examples(what, ready, run), watcher)
        (run.path / SOFT).unlink(missing_ok=True)
    else:
        pretraining.trained(run, _with_text(what, ready), watcher)
    return run


def _ready(what: Plan, corpus: Corpus | None) -> Any:
    """What training without a teacher would need, and what is to be said of this one."""
    student = what.student
    if isinstance(student, adapting.Plan):
        ready = adapting.Ready.of(student)
    else:
        assert corpus is not None
        with student.about():
            split = corpus.split(student.recipe.held_out)
            ready = pretraining.Ready.of(student.milestone, corpus, student.recipe, split, student.beginning)
    return replace(ready, notes=[*what.notes, *ready.notes])


def _told(
    what: Plan, corpus: Corpus | None, asked: dict[str, Any], folder: Path, command: str | None
) -> dict[str, Any]:
    student = what.student
    if isinstance(student, adapting.Plan):
        told = adapting.first_facts(student, asked, folder, command)
    else:
        assert corpus is not None
        told = pretraining.first_facts(student, corpus, asked, folder, command, None)
    return told | {"parent": what.teacher.run, "distilled": asked["distilled"], "command": command}


def _with_text(what: Plan, ready: Any) -> Any:
    """Every token that is asked for is also asked of the teacher, when its turn comes."""
    from forebear.training.distilling import Mixed, insides

    how, network = what.how, ready.learner.network
    teacher = Run(what.teacher.folder).network
    heads = insides(how, network.encoder, teacher.encoder)
    mixed = tuple(name for name in OF_TOKENS if how.share and name in network.heads and name in teacher.heads)
    heads |= {name + TAUGHT: Mixed(network.heads[name], teacher.heads[name], how) for name in mixed}
    objective = Taught(ready.objective, ready.split.train, mixed, tuple(how.matched), how.matched)
    return replace(ready, objective=objective, learner=_learner(what, ready.learner, heads, teacher))


def _with_examples(what: Plan, ready: Any, run: RunFolder) -> Any:
    """What the teacher says of all examples is asked once, and learned from as often as the truth."""
    from forebear.training.distilling import Soft, insides

    how, student = what.how, what.student
    assert isinstance(student, adapting.Plan)
    teacher, network = Run(what.teacher.folder), ready.learner.network
    examples, rows = [*student.data.train, *what.more], ready.train
    if what.more:
        layout = student.milestone.layout(student.tokenizer)
        rows = student.task.rows(examples, student.tokenizer, layout, learning=True)
        rows = unlabelled(rows, len(student.data.train))
    heads = insides(how, network.encoder, teacher.network.encoder) if how.matched else {}
    weights = dict(how.matched)
    if how.share:
        soft = _soft(run, teacher, examples, rows)
        heads |= {name + TAUGHT: Soft(network.heads[name], how.temperature) for name in rows.targets}
        weights |= dict.fromkeys(rows.targets, 1 - how.share) | dict.fromkeys(soft, how.share)
        rows = replace(rows, targets={**rows.targets, **soft})
    learner = _learner(what, ready.learner, heads, teacher.network if how.matched else None)
    return replace(
        ready, train=rows, objective=Taught(ready.objective, rows, (), tuple(how.matched), weights), learner=learner
    )


def _soft(run: RunFolder, teacher: Run, examples: Sequence[Any], rows: Rows) -> dict[str, np.ndarray]:
    """The teacher's targets, kept beside the run: other threads would find other last bits when it is gone on with."""
    from safetensors.numpy import load, save

    file = run.path / SOFT
    if not file.exists():
        network = teacher.network
        if teacher.encoder is not None and "next" in teacher.heads:  # nobody asks that of it here
            own = teacher.model
            network = type(own)(own.encoder, {n: one for n, one in own.heads.items() if n != "next"})
        assert teacher.task is not None
        layout = teacher.folder.milestone.layout(teacher.tokenizer)
        found = Teacher(network, teacher.task, teacher.tokenizer, layout).says(examples, rows)
        with disk_told(file), written_aside(file) as aside:
            aside.write(save(found))
    return load(file.read_bytes())


def _learner(what: Plan, learner: Any, heads: Mapping[str, Any], teacher: Any) -> Any:
    """With what is learned from the teacher beside the truth; without, the one that was there."""
    from safetensors.torch import load_file

    from forebear.training.distilling import Distilling, Student, inherited

    given = learner.given
    if what.inherits:
        theirs = what.teacher.folder.milestone.depth
        assert theirs is not None
        depths = learner.network.encoder.depth, theirs
        given = inherited(load_file(what.teacher.folder.weights()[0]), learner.network, depths)
    if not heads:
        learner.given = given
        return learner
    student = Student(learner.network, heads, teacher)
    return Distilling(student, learner.recipe, learner.device, given, learner.shares)


# -- the price


def _alone(what: Plan, run: RunFolder, *, overwrite: bool, watcher: Watcher | None) -> RunFolder:
    """The same student from the same beginning with the same budget, on the truth alone, into a folder beside it."""
    student = what.student
    recipe = student.recipe
    if what.more and recipe.epochs is not None:  # there are fewer examples: as many steps
        rest = {name: value for name, value in recipe.to_json().items() if name not in BUDGETS}
        recipe = recipe_from(rest, {"steps": run.facts["pace"]["total"]})
    what = replace(what, how=what.how.alone(), more=(), student=replace(student, recipe=recipe), notes=())
    watcher = watcher or Watcher()
    watcher.note("now the same student without the teacher")
    return distilled(what, run.path.with_name(f"{run.path.name}-alone"), overwrite=overwrite, watcher=watcher)


def priced(what: Plan, run: RunFolder, alone: RunFolder | None) -> Run:
    """The student, with what it costs and keeps beside the teacher entered in its facts."""
    folders = {"teacher": what.teacher.folder, "student": run} | ({"student alone": alone} if alone else {})
    corpus, rows = what.corpus(), []
    for who, folder in folders.items():
        one = Run(folder)
        file = folder.weights()[0]
        told = {"who": who, "run": str(folder.path), "parameters": one.parameters}
        figures = _on_examples(one, what.student) if corpus is None else _on_text(one, corpus, what.student.recipe)
        rows.append({**told, "megabytes": round(file.stat().st_size / 1e6, 3), **figures})
    for row in rows:
        of = {side: (row[side], rows[0][side]) for side in ("dev", "test", "held_out") if row.get(side) is not None}
        own, best = next(reversed(of.values()), (None, None))
        lower = row["score"] == "bits_per_byte"
        row["kept"] = None if not own or not best else best / own if lower else own / best
    run.tell(price=rows)
    return Run(run)


def _on_examples(run: Run, student: Any) -> dict[str, Any]:
    """The figure of the task on each side that has labels, and how long a text takes by itself."""
    task, layout = run.task, run.folder.milestone.layout(run.tokenizer)
    assert task is not None
    told: dict[str, Any] = {"score": task.score}
    for side in ("dev", "test"):
        examples = [one for one in getattr(student.data, side) if is_labelled(one)]
        if examples:
            rows = task.rows(examples, run.tokenizer, layout)
            answers = task.answers(examples, rows, predicted(run.network, rows))
            told[side] = float(task.measured(examples, answers)[task.score])
    seconds = []
    for example in student.data.dev[:TIMED]:
        began = time.perf_counter()
        rows = task.rows([example], run.tokenizer, layout)
        task.answers([example], rows, predicted(run.network, rows))
        seconds.append(time.perf_counter() - began)
    return told | {"milliseconds": round(1000 * median(seconds), 3) if seconds else None}


def _on_text(run: Run, corpus: Corpus, recipe: Any) -> dict[str, Any]:
    """Bits per byte of held-out text, or the share of hidden tokens found."""
    held_out = corpus.split(recipe.held_out).held_out.first(pretraining.MEASURED)
    found = run.measure(held_out)
    assert isinstance(found, Measured)  # a student that was taught text predicts it
    seconds = found.seconds if found.seconds > 1 else min(run.measure(held_out).seconds for _ in range(3))
    score = "accuracy" if found.pseudo else "bits_per_byte"
    milliseconds = round(1000 * seconds / max(1, found.units), 3)  # a short time is measured again: the first is slow
    return {"score": score, "held_out": found.facts()[score], "milliseconds": milliseconds}
