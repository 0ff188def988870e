"""The student of a larger run: what it is, how it begins, and what it is taught on; everything is checked first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from forebear.errors import BadInput
from forebear.lineage import LINEAGE, name_of
from forebear.milestones.milestone import Milestone
from forebear.objectives.layout import Reader
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification
from forebear.tasks.tagging import Tagging
from forebear.text.blocks import Blocks
from forebear.text.corpus import Corpus
from forebear.text.ledger import Ledger
from forebear.text.reading import Reading
from forebear.text.records import numbered_lines
from forebear.text.sources import find
from forebear.text.tokenizer import Tokenizer
from forebear.text.unlisted import plain
from forebear.training.adapted import network_for
from forebear.training.checkpoint import digest
from forebear.training.corpora import TextSource, is_corpus
from forebear.training.folder import RunFolder
from forebear.training.labelled import LabelledSource, read_labelled
from forebear.training.recipe import Recipe
from forebear.training.soft_targets import Distillation
from forebear.using import adapting, doing, planning, task_plans
from forebear.using.beginning import Beginning
from forebear.using.heeding import heeded
from forebear.using.run import Run

HALVES = (("width",), ("width", "depth"), ("width", "depth", "table"))  # what is halved, tried in turn
PARTS = (2, 3, 4)  # of the depth, before that
SHAPE = ("width", "depth", "heads", "inner", "table")  # who gives one of these has a size in mind
OF_TOKENS = ("next", "token")  # heads of language models
OF_TRAINING = frozenset(field.name for field in fields(Recipe))


@dataclass(frozen=True, eq=False)
class Plan:
    """Who is to learn what from whom.

    student   what it would learn by itself: from text, or from examples
    inherits  whether it begins with layers of the teacher
    more      examples without labels, of which only the teacher says something
    given     the words it was planned with, to plan it again
    """

    teacher: Beginning
    how: Distillation
    student: planning.Plan | adapting.Plan
    inherits: bool
    more: tuple[Any, ...]
    given: dict[str, Any]
    notes: tuple[str, ...]

    def asked(self, corpus: Corpus | None) -> dict[str, Any]:
        """Everything that the result depends on."""
        told = {"teacher": self.teacher.run, "weights": self.teacher.weights, **asdict(self.how)}
        told |= {"layers": "every-second" if self.inherits else "none", "given": self.given}
        if isinstance(self.student, adapting.Plan):
            own = self.student.asked
        else:
            assert corpus is not None
            own: dict[str, Any] = {"milestone": name_of(self.student.milestone), "corpus": corpus.key}
            own |= {"fields": asdict(self.student.milestone), "recipe": self.student.recipe.to_json()}
            own["beginning"] = None if self.student.beginning is None else asdict(self.student.beginning)
        return json.loads(json.dumps({**own, "distilled": told}))

    def corpus(self) -> Corpus | None:
        """The text of a language model."""
        if not isinstance(self.student, planning.Plan):
            return None
        return cast("Corpus", self.student.corpus())  # no student learns from pairs


def plan(
    teacher: str,
    data: Sequence[str] = (),
    *,
    how: Distillation,
    student: str | None = None,
    size: str | None = None,
    layers: str | None = None,
    texts: str | None = None,
    reading: Reading | None = None,
    reader: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """`student` is a run or a milestone; `settings` are the recipe's and the milestone's own fields.

    `reader` are those fields of Adaptation that tell what reads vectors of words, where they are all the student has.
    """
    run = RunFolder.open(teacher)
    run.may_learn()
    if "weights" not in run.facts:
        raise BadInput("is not finished", file=run.path, remedy=f"finish it first: {run.going_on}")
    if run.milestone.learns_from == "pairs":
        what = "translates: language models are distilled, and those that do a task"
        raise BadInput(what, file=run.path, remedy=f"make it smaller by: forebear quantise {run.path} --to SMALL")
    settings = {name: value for name, value in (settings or {}).items() if value is not None}
    named = student is None or (student in LINEAGE and not Path(student).is_dir())
    beginning = None if named else Beginning.of(str(student))
    if beginning is not None and (size or layers):
        raise BadInput("--size and --layers mean nothing beside a run: it has its own", remedy="leave them out")
    reader = {name: value for name, value in (reader or {}).items() if value is not None}
    if reader and run.task is None:
        raise BadInput(f"--{next(iter(reader)).replace('_', '-')} is for tasks", remedy="leave it out")
    made = _student(run, beginning, student, size, settings, data, reading)
    inherits = _inherits(run, made, layers)
    given = {
        "data": [os.path.abspath(one) for one in data],
        "student": student if beginning is None else beginning.run,
        "size": size,
        "layers": layers,
        "texts": texts and os.path.abspath(texts),
        "settings": settings,
        "reading": reading and asdict(reading),
    } | ({"reader": reader} if reader else {})
    own, more = made, ()
    if run.task is not None:
        own = _adapted(run, made, beginning, inherits, data, settings, reader)
        more = _unlabelled(run, texts, how)
        given["read"] = texts and digest(Path(texts))
    elif texts:
        raise BadInput("--texts are for tasks: a language model is taught on all text", remedy="give it as TEXT")
    _checked(run, own, how)
    notes = [_weighed(run, own, beginning)]
    if inherits:
        notes.append("it begins with the teacher's own layers, evenly chosen")
    elif beginning is None:
        notes.append("it begins from nothing: one that is pre-trained (--student RUN) may learn far more")
    parent = Beginning(str(run.path.absolute()), run.facts["weights"]["sha256"])
    return Plan(parent, how, own, inherits, more, given, tuple(notes))


def _student(
    run: RunFolder,
    beginning: Beginning | None,
    student: str | None,
    size: str | None,
    settings: Mapping[str, Any],
    data: Sequence[str],
    reading: Reading | None,
) -> planning.Plan:
    """The student as it would learn from text, read as the teacher's was; to a task only its shape matters."""
    told = (run.facts.get("data") or {}).get("source")
    source = TextSource(()) if told is None else replace(TextSource.from_json(told), paths=())
    source = replace(source, reading=reading or Reading())
    if run.task is not None:
        if reading is not None:
            raise BadInput("how text is read means nothing to a task", remedy="leave out --documents and the like")
        data, source = (), TextSource(())
        settings = {name: value for name, value in settings.items() if name not in OF_TRAINING}
    elif not data:
        raise BadInput("a language model is taught on text", remedy=f"forebear distil {run.path} TEXT…")
    elif is_corpus(TextSource(tuple(data))):
        source = TextSource(())
    if beginning is not None:
        name = beginning.folder.facts["milestone"]
        if run.task is not None and (shapes := [field for field in settings if field != "dropout"]):
            what = f"--{shapes[0].replace('_', '-')} means nothing beside a run: it has its own"
            raise BadInput(what, remedy="leave it out")
        return planning.plan(name, data, source=source, settings=settings, beginning=beginning)
    own, shaped = run.facts["milestone"], any(name in settings for name in SHAPE)
    if run.milestone.learning == "counting" and (run.task is None or student in (None, own)):
        raise BadInput(f"{own} counts: it is small already", file=run.path, remedy="distil a run of a network")
    base: dict[str, Any] = {}
    if student in (None, own) and size is None:
        like = run.milestone if shaped else smaller(run.milestone, run.tokenizer)
        base = {name: value for name, value in asdict(like).items() if name not in like.idle_fields}
    more: dict[str, Any] = {"tokenizer": plain(run.tokenizer), "recipe": {"fields": base}, "source": source}
    made = planning.plan(student or own, data, size=size, settings=settings, **more)
    if made.milestone.learning == "counting":
        raise BadInput(f"{student} counts, and hears only the truth", remedy="choose a network as the student")
    return made


def _weighed(run: RunFolder, student: planning.Plan | adapting.Plan, beginning: Beginning | None) -> str:
    """How large the student is beside its teacher, and what of it is other than there."""
    network = _network(student, run.tokenizer)
    own, theirs = network.parameter_count, run.facts.get("parameters") or Run(run).parameters
    values = asdict(student.milestone).items()
    changed = {name: value for name, value in values if run.facts["fields"].get(name) != value}
    how = ", ".join(f"{name} {value}" for name, value in changed.items()) or "as the teacher"
    how = how if beginning is None else beginning.run
    larger = "; it is the larger of the two: --size or --width make it smaller" if own > theirs else ""
    return f"the student ({how}) has {own:,} parameters, {own / theirs:.0%} of the teacher's{larger}"


def _network(student: planning.Plan | adapting.Plan, tokenizer: Tokenizer) -> Any:
    """What the student is, still without values."""
    if isinstance(student, adapting.Plan):
        return network_for(student.milestone, student.tokenizer, student.task, student.adaptation)
    return student.milestone.network(tokenizer)


def smaller(milestone: Milestone, tokenizer: Tokenizer) -> Milestone:
    """At most half the parameters: fewer layers if a fourth of them is few enough, or half the width, or both."""
    own, most = asdict(milestone), parameters(milestone, tokenizer) / 2
    tries = [{"depth": own["depth"] // by} for by in PARTS if "depth" in own and own["depth"] % by == 0]
    made = [replace(milestone, **fields) for fields in (*tries, *(_halved(own, names) for names in HALVES))]
    return next((small for small in made if parameters(small, tokenizer) <= most), made[-1])


def _halved(own: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    """Half of these fields, of what follows from them, and of heads, so that these stay as wide."""
    made = {name: max(1, own[name] // 2) for name in names if name in own}
    if "width" in made:
        made |= {name: max(1, own[name] // 2) for name in ("heads", "inner") if own.get(name)}
        made["width"] -= made["width"] % made.get("heads", 1)
    return made


def parameters(milestone: Milestone, tokenizer: Tokenizer) -> int:
    """Of its encoder, with the heads it is pre-trained with."""
    return milestone.task_network(tokenizer, Reader()).parameter_count


def _inherits(run: RunFolder, made: planning.Plan, layers: str | None) -> bool:
    """Whether the student can begin with layers of the teacher, and is to."""
    theirs, own = asdict(run.milestone), asdict(made.milestone)
    other = [name for name in own if name not in ("depth", "context", "dropout") and own[name] != theirs.get(name)]
    can = made.beginning is None and type(made.milestone) is type(run.milestone) and not other
    can = can and "depth" in own and theirs["depth"] % own["depth"] == 0 and own["context"] <= theirs["context"]
    if layers == "every-second" and not can:
        what = "the teacher's layers do not fit the student"
        raise BadInput(what, remedy="they do where only --depth is smaller, and divides the teacher's")
    return can and layers != "none"


def _adapted(
    run: RunFolder,
    made: planning.Plan,
    beginning: Beginning | None,
    inherits: bool,
    data: Sequence[str],
    settings: Mapping[str, Any],
    reader: Mapping[str, Any],
) -> adapting.Plan:
    """The student as it would be adapted to the teacher's task by itself."""
    if "labelled" not in run.facts:
        remedy = "adapt a run here, and distil that"
        raise BadInput("was imported: nobody knows what it learned from", file=run.path, remedy=remedy)
    source = LabelledSource.from_json(run.facts["labelled"]["source"])
    if len(data) > 1:
        raise BadInput(f"{len(data)} files of examples", remedy="give one, or none for those the teacher learned from")
    if data:
        source = replace(source, train=data[0], dev=None, test=None)
    for path in source.files().values():
        if not Path(path).is_file():
            raise BadInput("these examples are not there", file=path, remedy="give others: forebear distil RUN DATA")
    found = read_labelled(source)
    task = run.task
    assert task is not None
    if isinstance(task, Tagging):  # a CRF's opinion goes into the scores of single words
        task = replace(task, crf=False)
    elif isinstance(task, Classification | Choice):
        task = replace(task, temperature=1.0)
    own = {name: value for name, value in settings.items() if name in OF_TRAINING}
    heeded(name_of(made.milestone), "descending", own)
    how = {"balanced": run.adaptation.balanced, "read": run.adaptation.read}
    how |= {"reader": run.adaptation.reader} if made.milestone.wants_reader else {}
    adaptation = task_plans.adaptation_for(made.milestone, beginning, len(found.train), {**how, **reader})
    tokenizer = made.milestone.reading(plain(run.tokenizer))
    if beginning is not None:
        tokenizer = task_plans.tokenizer_for(made.milestone, beginning, adaptation, source.task, found)
    fresh = beginning is None and not inherits
    recipe = task_plans.recipe_for(made.milestone, tokenizer, task, adaptation, found, own, fresh=fresh)
    return adapting.Plan(made.milestone, made.size, tokenizer, beginning, source, found, task, adaptation, recipe)


def _unlabelled(run: RunFolder, texts: str | None, how: Distillation) -> tuple[Any, ...]:
    """The lines of a file as examples; texts that belong together have tabs between them."""
    if texts is None:
        return ()
    if not how.share:
        raise BadInput("--texts are for the teacher to judge, and --share 0 does not listen", remedy="leave one out")
    using, made = Run(run), []
    for source in find([texts]):
        for number, line, _ in numbered_lines(Blocks(source, "utf-8", "fail", Ledger())):
            try:
                made += _example(using, line.strip().split("\t")) if line.strip() else []
            except (BadInput, TypeError) as error:
                what = error.what if isinstance(error, BadInput) else f"is no example for {run.facts['task']['name']}"
                remedy = "write a text a line, with tabs between those that belong together"
                raise BadInput(what, file=source.name, line=number, remedy=remedy) from error
    return tuple(made)


def _example(run: Run, parts: Sequence[str]) -> Sequence[Any]:
    assert run.task is not None
    match run.task.verb:
        case "classify":
            return doing.labelled(run, [tuple(parts)])  # pyright: ignore[reportArgumentType]
        case "tag":
            return doing.tagged(run, " ".join(parts))
        case "answer":
            return doing.asked(*parts)
    return doing.choices(parts[0], parts[1:])


def _checked(run: RunFolder, student: planning.Plan | adapting.Plan, how: Distillation) -> None:
    """An error where the student cannot be compared with the teacher as it is asked to be."""
    from forebear.networks.heads import TokenHead
    from forebear.training.distilling import insides

    if run.task is not None and run.task.name != "answering" and not how.matched:
        return
    tokenizer: Any = run.tokenizer if student.tokenizer is None else student.tokenizer
    network, teacher = _network(student, tokenizer), Run(run).network
    shared = {*OF_TOKENS} & {*network.heads} & {*teacher.heads}
    if run.task is None and not shared:
        has = ", ".join(teacher.heads) or "none"
        what = f"the student has the heads {', '.join(network.heads)}, the teacher {has}: none predicts tokens in both"
        raise BadInput(what, file=run.path, remedy="choose a student and a teacher that predict the same")
    heads = [one.heads[name] for one in (network, teacher) for name in shared]
    if run.task is None and not all(isinstance(head, TokenHead) for head in heads):
        what = "only a Transformer that predicts tokens can teach them, and only to another"
        raise BadInput(what, file=run.path, remedy="choose such a teacher and such a student, or distil a task")
    theirs, own = run.milestone.layout(run.tokenizer), student.milestone.layout(tokenizer)
    if tokenizer.digest != run.tokenizer.digest or replace(own, context=None) != replace(theirs, context=None):
        what = "the student cuts or lays out text otherwise than the teacher: tokens cannot be compared one by one"
        raise BadInput(what, remedy="take a student with the teacher's tokenizer, and of its kind")
    if theirs.context is not None and (own.context is None or own.context > theirs.context):
        what = f"the student reads rows of {own.context} tokens, the teacher of {theirs.context}"
        raise BadInput(what, remedy=f"--context {theirs.context}")
    insides(how, network.encoder, teacher.encoder)
