"""From a run and labelled examples to a run that does the task: read, encode, train, choose the best, measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.lineage import name_of
from forebear.tasks.every_example import AllExamples, EveryExample
from forebear.tasks.examples import is_labelled, texts_of
from forebear.tasks.figures.words_metric import of_words_unseen
from forebear.tasks.predicting import predicted
from forebear.tasks.rows import Rows
from forebear.tasks.tagging import Tagging
from forebear.tasks.task import Task
from forebear.text.aside import disk_told
from forebear.text.blueprint import stages
from forebear.training.adapted import balanced, learner_for_task, searches
from forebear.training.card import write_card
from forebear.training.folder import RunFolder
from forebear.training.labelled import LabelledSource, in_other_forms, read_labelled
from forebear.training.learner import Learner
from forebear.training.together import ALONE, Together
from forebear.training.trainer import Trainer, Watcher
from forebear.using.ancestry import learned_already
from forebear.using.baselines import Baseline, baseline
from forebear.using.beginning import Beginning
from forebear.using.places import place, replaced
from forebear.using.task_plans import JUDGED, Plan, plan
from forebear.using.words_without_vectors import LOOKED_AT, WithoutVectors

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Plan", "adapt", "plan", "resume"]

WIDE = "１"  # what nfkc makes 1 of


def adapt(
    what: Plan,
    to: str | Path | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: Watcher | None = None,
    group: Together = ALONE,
) -> RunFolder:
    """Adapts what was planned into a folder; a folder that holds the same, begun or finished, is gone on with."""
    watcher = watcher or Watcher()
    group.check(name_of(what.milestone), what.milestone.learns_tasks_by)
    asked = what.asked
    wanted = Path(to) if to is not None else Path("runs") / f"{asked['milestone']}-{what.task.name}"
    folder, there = place(wanted, asked, to is None, overwrite)
    goes_on = there is not None and there.facts.get("asked") == asked
    if there is not None and goes_on and there.finished:
        watcher.note("this run is finished already: nothing was trained")
        return there
    recipe = there.recipe_for(group.size) if there is not None and goes_on else what.recipe
    ready = Ready.of(replace(what, recipe=recipe))
    if there is not None and goes_on:
        return trained(there, ready, watcher, group)
    with replaced(there):
        run = RunFolder.begin(folder, first_facts(what, asked, folder, command), what.tokenizer, None)
    return trained(run, ready, watcher, group)


def first_facts(what: Plan, asked: dict[str, Any], folder: Path, command: str | None) -> dict[str, Any]:
    """What a run says of itself when it begins."""
    return {
        "name": folder.name,
        "milestone": asked["milestone"],
        "size": what.size,
        "fields": asked["fields"],
        "parent": None if what.beginning is None else what.beginning.run,
        "task": asked["task"],
        "adaptation": asked["adaptation"],
        "recipe": asked["recipe"],
        "labelled": {"source": asked["examples"], "digests": asked["digests"], "sides": what.data.facts},
        "data": None,
        "asked": asked,
        "command": command,
    }


def resume(folder: str | Path, *, watcher: Watcher | None = None, group: Together = ALONE) -> RunFolder:
    """Goes on with an adaptation that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.may_learn()
    watcher = watcher or Watcher()
    if run.finished:
        watcher.note("this run is finished already: nothing was trained")
        return run
    if "distilled" in run.facts:
        remedy = f"go on with it by: {run.going_on}"
        raise BadInput("was distilled: it needs its teacher to go on", file=run.path, remedy=remedy)
    if run.task is None:
        raise BadInput("was not adapted to a task", file=run.path, remedy=f"go on with it by: {run.going_on}")
    source = LabelledSource.from_json(run.facts["labelled"]["source"])
    for side, path in source.files().items():
        if not Path(path).is_file():
            raise BadInput(f"the {side} examples of this run are gone", file=path, remedy="put them back")
    if source.digests() != run.facts["labelled"]["digests"]:
        remedy = "put the old files back, or adapt anew with the new ones"
        raise BadInput("the examples of this run have changed since it began", file=source.train, remedy=remedy)
    parent = run.facts["parent"]
    begun = run.checkpoints.good()[0] is not None  # then the run it began with is needed no more
    beginning = Beginning(parent, run.facts["asked"]["beginning"]) if parent and not begun else None
    what = Plan(
        run.milestone,
        run.facts["size"],
        run.tokenizer,
        beginning,
        source,
        read_labelled(source),
        run.task,
        run.adaptation,
        run.recipe_for(group.size),
    )
    group.check(run.facts["milestone"], run.milestone.learns_tasks_by)
    return trained(run, Ready.of(what), watcher, group)


@dataclass(frozen=True, eq=False)
class Ready:
    """Everything that training needs beside its folder: the sides as rows, an objective and a learner."""

    what: Plan
    train: Rows
    held_out: Rows
    judged: Rows  # those of held_out that are looked at on the way
    objective: EveryExample | AllExamples
    learner: Learner
    notes: list[str]
    lacked: WithoutVectors | None = None  # where vectors of words were given

    @classmethod
    def of(cls, what: Plan) -> Ready:
        layout = what.milestone.layout(what.tokenizer)
        train = what.task.rows(what.data.train, what.tokenizer, layout, learning=True)
        dev = what.data.dev
        held_out = what.task.rows(dev, what.tokenizer, layout)
        judged = held_out if len(dev) <= JUDGED else what.task.rows(dev[:JUDGED], what.tokenizer, layout)
        notes = list(what.data.notes)
        normalised, _ = stages(what.tokenizer.blueprint["normalizer"], None)
        if what.task.name == "tagging" and normalised(WIDE) == WIDE:
            notes += in_other_forms(what.data)
        if train.cut:
            share = train.cut / (train.cut + int(train.sizes.sum()))
            notes.append(
                f"{train.cut:,} tokens ({share:.1%}) do not fit into rows of {layout.context} and are not read"
            )
        given, lacked = _given(what, train)
        notes += lacked.notes() if lacked is not None else []
        weights = balanced(what.task, what.data.train) if what.adaptation.balanced else None
        learner = learner_for_task(
            what.milestone,
            what.tokenizer,
            what.task,
            what.adaptation,
            what.recipe,
            given=given,
            weights=weights,
        )
        objective = EveryExample(what.adaptation.language, alike=_goes_word_by_word(what, learner))
        objective = AllExamples() if searches(what.milestone, what.task) else objective
        objective.check(train)
        return cls(what, train, held_out, judged, objective, learner, notes, lacked)

    def judge(self) -> tuple[dict[str, float], float]:
        """The task's figure on held-out examples, and how far it is from perfect."""
        task, examples = self.what.task, self.what.data.dev[:JUDGED]
        answers = task.answers(examples, self.judged, predicted(self.learner.network, self.judged))
        score = float(task.measured(examples, answers)[task.score])
        return {task.score: score}, 1.0 - score


def _goes_word_by_word(what: Plan, learner: Learner) -> bool:
    if what.milestone.learning == "counting":  # without torch
        return False
    from forebear.networks.recurrence import Recurrence

    return any(isinstance(module, Recurrence) for module in learner.network.modules())


def _given(what: Plan, train: Rows) -> tuple[dict[str, Tensor] | None, WithoutVectors | None]:
    """The tensors of the run to begin with; and what it has no vectors for, where vectors of words are all it has."""
    beginning = what.beginning
    if beginning is None or beginning.folder.milestone.learning == "counting":
        return None, None
    if beginning.folder.milestone.wants_reader:
        from forebear.using.given_words import given_words

        given = given_words(beginning.folder, what.tokenizer, what.recipe.seed)
        texts = [text for example in what.data.train[:LOOKED_AT] for text in texts_of(example)]
        return given.tensors, WithoutVectors.of(train.tokens, given.known, what.tokenizer, texts)
    from safetensors.torch import load_file

    return load_file(beginning.folder.weights()[0]), None


def trained(run: RunFolder, ready: Ready, watcher: Watcher, group: Together = ALONE) -> RunFolder:
    with disk_told(run.path), run.held():
        run.facts = RunFolder.open(run.path).facts  # another process may have gone on with it meanwhile
        if run.finished:
            return run
        notes = [*ready.notes, *_flattered(run, ready.what.source)]
        for note in notes:
            watcher.note(note)
        if run.facts["state"] != "trained":
            without = {"without_vectors": ready.lacked.facts()} if ready.lacked is not None else {}
            run.tell(notes=notes, processes=group.size, **without)
            counting = run.milestone.learning == "counting" and not searches(run.milestone, ready.what.task)
            with group.learner(ready.learner) as learner:
                led = replace(ready, learner=learner)
                Trainer(run, learner, ready.objective, ready, once=counting, judge=led.judge, watcher=watcher).run()
        _measure(run, ready, watcher)
    return run


def _flattered(run: RunFolder, source: LabelledSource) -> list[str]:
    """That the run it begins with knows the examples by which it is judged."""
    if "distilled" in run.facts:  # its teacher held out the same ones
        return []
    files, parent = source.files(), run.facts.get("parent")
    found = dict.fromkeys(files[side] for side in learned_already(parent, source, run.facts["labelled"]["digests"]))
    return [
        f"the run it begins with has learned from {file} already: figures on held-out parts of it say too much"
        for file in found
    ]


def _no_better(what: Plan, blind: Baseline, figures: Mapping[str, Any]) -> list[str]:
    """That it does no better than what needs no learning, on the examples that were measured."""
    score = float(figures[what.task.score])
    nothing_to_find = figures.get("entities") == 0
    if score > blind.score or score == 1 or nothing_to_find:
        return []
    remedy = "more examples may help"
    if what.milestone.learning != "counting":
        remedy = "give it more time or examples, another --rate, or a run that was pre-trained longer"
    return [f"it does no better than this: {blind.meaning} ({blind.score:.3f}); {remedy}"]


def _figures(what: Plan, task: Task, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
    """The task's own, and of plain tags what only who has the training examples can say: how words it never saw do."""
    figures = task.measured(examples, answers)
    if not isinstance(task, Tagging) or not task.is_plain:
        return figures
    known = {word for example in what.data.train for word in example.words}
    return figures | of_words_unseen(examples, answers, known)


def _measure(run: RunFolder, ready: Ready, watcher: Watcher) -> None:
    """Calibrates on the held-out examples, measures on all sides that have labels; then the run is finished."""
    from forebear.using.run import Run

    opened = Run(run)
    what, network = ready.what, opened.network
    layout = what.milestone.layout(what.tokenizer)
    logits = predicted(network, ready.held_out)
    task = what.task.calibrated(what.data.dev, ready.held_out, logits)
    metrics = {"dev": _figures(what, task, what.data.dev, task.answers(what.data.dev, ready.held_out, logits))}
    tested = [example for example in what.data.test if is_labelled(example)]
    if tested:
        rows = task.rows(tested, what.tokenizer, layout)
        metrics["test"] = _figures(what, task, tested, task.answers(tested, rows, predicted(network, rows)))
    elif what.data.test:
        answer = f"they are answered by: forebear {task.verb} {run.path} --in {what.source.test}"
        watcher.note(f"the test examples have no labels: nothing is measured on them; {answer}")
    side, last = ("test", tested) if tested else ("dev", [one for one in what.data.dev if is_labelled(one)])
    blind = baseline(task, what.data.train, last)
    run.facts |= {"task": task.to_json(), "metrics": metrics, "parameters": network.parameter_count}
    run.facts["baseline"] = asdict(blind) | {"side": side}
    notes = [*opened.notes, *_no_better(what, blind, metrics[side])]
    for note in notes:
        watcher.note(note)
    run.facts["notes"] = [*run.facts.get("notes", []), *notes]
    write_card(run)
    run.tell(state="finished")  # last: what is finished is whole
