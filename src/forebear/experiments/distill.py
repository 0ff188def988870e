"""The student of a larger run: what it is, how it begins, and what it is taught on; everything is checked first."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.io.atomic import atomic_write, explain_disk_errors, file_digest
from forebear.data.io.files import TextBlocks, find_sources
from forebear.data.io.ledger import Ledger
from forebear.data.io.reader import TextFormat, numbered_lines
from forebear.data.labeled.examples import is_labeled
from forebear.data.labeled.source import LabeledSource, read_labeled
from forebear.data.source import TextSource, is_corpus
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.experiments import pipeline, plan
from forebear.experiments import plan as planning
from forebear.experiments.pipeline import output_folder, replace_run
from forebear.experiments.unused_settings import check_unused_settings
from forebear.experiments.warm_start import InitFrom
from forebear.inference import predict
from forebear.inference.measure import TextEvaluation
from forebear.inference.run import Run
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import TaskEncoderConfig
from forebear.registry import LINEAGE, model_name
from forebear.tasks.classification import Classification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import predict_logits
from forebear.tasks.task_batches import ExampleRows
from forebear.training.load_model import build_task_model
from forebear.training.run_folder import RunFolder
from forebear.training.settings import BUDGETS, Recipe, merge_recipe
from forebear.training.soft_targets import (
    TEACHER_TARGET,
    DistillationConfig,
    DistillationObjective,
    Teacher,
    without_labels,
)
from forebear.training.trainer import TrainingCallback

HALVES = (("width",), ("width", "depth"), ("width", "depth", "table"))  # what is halved, tried in turn
PARTS = (2, 3, 4)  # of the depth, before that
SHAPE = ("width", "depth", "heads", "inner", "table")  # who gives one of these has a size in mind
TOKEN_HEADS = ("next", "token")  # heads of language models
OF_TRAINING = frozenset(field.name for field in fields(Recipe))


@dataclass(frozen=True, eq=False)
class DistillPlan:
    """Who is to learn what from whom.

    student   what it would learn by itself: from text, or from examples
    inherits  whether it begins with layers of the teacher
    more      examples without labels, of which only the teacher says something
    given     the words it was planned with, to plan it again
    """

    teacher: InitFrom
    distillation: DistillationConfig
    student: planning.PretrainPlan | pipeline.AdaptPlan
    inherits: bool
    extra_texts: tuple[Any, ...]
    settings: dict[str, Any]
    notes: tuple[str, ...]

    def request(self, corpus: Corpus | None) -> dict[str, Any]:
        """Everything that the result depends on."""
        told = {"teacher": self.teacher.run, "weights": self.teacher.weights, **asdict(self.distillation)}
        told |= {"layers": "every-second" if self.inherits else "none", "given": self.settings}
        if isinstance(self.student, pipeline.AdaptPlan):
            own = self.student.request
        else:
            assert corpus is not None
            own: dict[str, Any] = {"milestone": model_name(self.student.spec), "corpus": corpus.key}
            own |= {"fields": asdict(self.student.spec), "recipe": self.student.recipe.to_dict()}
            own["beginning"] = None if self.student.init_from is None else asdict(self.student.init_from)
        return json.loads(json.dumps({**own, "distilled": told}))

    def corpus(self) -> Corpus | None:
        """The text of a language model."""
        if not isinstance(self.student, planning.PretrainPlan):
            return None
        return cast("Corpus", self.student.prepare_corpus())  # no student learns from pairs


def plan_distillation(
    teacher: str,
    data: Sequence[str] = (),
    *,
    how: DistillationConfig,
    student: str | None = None,
    size: str | None = None,
    layers: str | None = None,
    texts: str | None = None,
    reading: TextFormat | None = None,
    reader: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> DistillPlan:
    """`student` is a run or a milestone; `settings` are the recipe's and the milestone's own fields.

    `reader` are those fields of Adaptation that tell what reads vectors of words, where they are all the student has.
    """
    run = RunFolder.open(teacher)
    run.require_trainable()
    if "weights" not in run.metadata:
        raise InputError("is not finished", file=run.path, hint=f"finish it first: {run.resume_command}")
    if run.spec.learns_from == "pairs":
        what = "translates: language models are distilled, and those that do a task"
        raise InputError(what, file=run.path, hint=f"make it smaller by: forebear quantise {run.path} --to SMALL")
    settings = {name: value for name, value in (settings or {}).items() if value is not None}
    named = student is None or (student in LINEAGE and not Path(student).is_dir())
    beginning = None if named else InitFrom.for_run(str(student))
    if beginning is not None and (size or layers):
        raise InputError("--size and --layers mean nothing beside a run: it has its own", hint="leave them out")
    reader = {name: value for name, value in (reader or {}).items() if value is not None}
    if reader and run.task is None:
        raise InputError(f"--{next(iter(reader)).replace('_', '-')} is for tasks", hint="leave it out")
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
        given["read"] = texts and file_digest(Path(texts))
    elif texts:
        raise InputError("--texts are for tasks: a language model is taught on all text", hint="give it as TEXT")
    _checked(run, own, how)
    notes = [_weighed(run, own, beginning)]
    if inherits:
        notes.append("it begins with the teacher's own layers, evenly chosen")
    elif beginning is None:
        notes.append("it begins from nothing: one that is pre-trained (--student RUN) may learn far more")
    parent = InitFrom(str(run.path.absolute()), run.metadata["weights"]["sha256"])
    return DistillPlan(parent, how, own, inherits, more, given, tuple(notes))


def _student(
    run: RunFolder,
    beginning: InitFrom | None,
    student: str | None,
    size: str | None,
    settings: Mapping[str, Any],
    data: Sequence[str],
    reading: TextFormat | None,
) -> planning.PretrainPlan:
    """The student as it would learn from text, read as the teacher's was; to a task only its shape matters."""
    told = (run.metadata.get("data") or {}).get("source")
    source = TextSource(()) if told is None else replace(TextSource.from_dict(told), paths=())
    source = replace(source, reading=reading or TextFormat())
    if run.task is not None:
        if reading is not None:
            raise InputError("how text is read means nothing to a task", hint="leave out --documents and the like")
        data, source = (), TextSource(())
        settings = {name: value for name, value in settings.items() if name not in OF_TRAINING}
    elif not data:
        raise InputError("a language model is taught on text", hint=f"forebear distil {run.path} TEXT…")
    elif is_corpus(TextSource(tuple(data))):
        source = TextSource(())
    if beginning is not None:
        name = beginning.folder.metadata["milestone"]
        if run.task is not None and (shapes := [field for field in settings if field != "dropout"]):
            what = f"--{shapes[0].replace('_', '-')} means nothing beside a run: it has its own"
            raise InputError(what, hint="leave it out")
        return planning.plan_pretraining(name, data, source=source, settings=settings, beginning=beginning)
    own, shaped = run.metadata["milestone"], any(name in settings for name in SHAPE)
    if run.spec.learning == "counting" and (run.task is None or student in (None, own)):
        raise InputError(f"{own} counts: it is small already", file=run.path, hint="distil a run of a network")
    base: dict[str, Any] = {}
    if student in (None, own) and size is None:
        like = run.spec if shaped else smaller(run.spec, run.tokenizer)
        base = {name: value for name, value in asdict(like).items() if name not in like.unused_fields}
    more: dict[str, Any] = {"tokenizer": base_tokenizer(run.tokenizer), "recipe": {"fields": base}, "source": source}
    made = planning.plan_pretraining(student or own, data, size=size, settings=settings, **more)
    if made.spec.learning == "counting":
        raise InputError(f"{student} counts, and hears only the truth", hint="choose a network as the student")
    return made


def _weighed(run: RunFolder, student: planning.PretrainPlan | pipeline.AdaptPlan, beginning: InitFrom | None) -> str:
    """How large the student is beside its teacher, and what of it is other than there."""
    network = _network(student, run.tokenizer)
    own, theirs = network.num_parameters, run.metadata.get("parameters") or Run(run).num_parameters
    values = asdict(student.spec).items()
    changed = {name: value for name, value in values if run.metadata["fields"].get(name) != value}
    how = ", ".join(f"{name} {value}" for name, value in changed.items()) or "as the teacher"
    how = how if beginning is None else beginning.run
    larger = "; it is the larger of the two: --size or --width make it smaller" if own > theirs else ""
    return f"the student ({how}) has {own:,} parameters, {own / theirs:.0%} of the teacher's{larger}"


def _network(student: planning.PretrainPlan | pipeline.AdaptPlan, tokenizer: Tokenizer) -> Any:
    """What the student is, still without values."""
    if isinstance(student, pipeline.AdaptPlan):
        return build_task_model(student.spec, student.tokenizer, student.task, student.adaptation)
    return student.spec.build(tokenizer)


def smaller(milestone: ModelSpec, tokenizer: Tokenizer) -> ModelSpec:
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


def parameters(milestone: ModelSpec, tokenizer: Tokenizer) -> int:
    """Of its encoder, with the heads it is pre-trained with."""
    return milestone.build_task_encoder(tokenizer, TaskEncoderConfig()).num_parameters


def _inherits(run: RunFolder, made: planning.PretrainPlan, layers: str | None) -> bool:
    """Whether the student can begin with layers of the teacher, and is to."""
    theirs, own = asdict(run.spec), asdict(made.spec)
    other = [name for name in own if name not in ("depth", "context", "dropout") and own[name] != theirs.get(name)]
    can = made.init_from is None and type(made.spec) is type(run.spec) and not other
    can = can and "depth" in own and theirs["depth"] % own["depth"] == 0 and own["context"] <= theirs["context"]
    if layers == "every-second" and not can:
        what = "the teacher's layers do not fit the student"
        raise InputError(what, hint="they do where only --depth is smaller, and divides the teacher's")
    return can and layers != "none"


def _adapted(
    run: RunFolder,
    made: planning.PretrainPlan,
    beginning: InitFrom | None,
    inherits: bool,
    data: Sequence[str],
    settings: Mapping[str, Any],
    reader: Mapping[str, Any],
) -> pipeline.AdaptPlan:
    """The student as it would be adapted to the teacher's task by itself."""
    if "labelled" not in run.metadata:
        hint = "adapt a run here, and distil that"
        raise InputError("was imported: nobody knows what it learned from", file=run.path, hint=hint)
    source = LabeledSource.from_dict(run.metadata["labelled"]["source"])
    if len(data) > 1:
        raise InputError(f"{len(data)} files of examples", hint="give one, or none for those the teacher learned from")
    if data:
        source = replace(source, train=data[0], dev=None, test=None)
    for path in source.files().values():
        if not Path(path).is_file():
            raise InputError("these examples are not there", file=path, hint="give others: forebear distil RUN DATA")
    found = read_labeled(source)
    task = run.task
    assert task is not None
    if isinstance(task, SequenceTagging):  # a CRF's opinion goes into the scores of single words
        task = replace(task, crf=False)
    elif isinstance(task, Classification | MultipleChoice):
        task = replace(task, temperature=1.0)
    own = {name: value for name, value in settings.items() if name in OF_TRAINING}
    check_unused_settings(model_name(made.spec), "descending", own)
    how = {"balanced": run.adaptation.balanced, "read": run.adaptation.read}
    how |= {"reader": run.adaptation.reader} if made.spec.needs_task_encoder else {}
    adaptation = plan.choose_adaptation(made.spec, beginning, len(found.train), {**how, **reader})
    tokenizer = made.spec.task_tokenizer(base_tokenizer(run.tokenizer))
    if beginning is not None:
        tokenizer = plan.adaptation_tokenizer(made.spec, beginning, adaptation, source.task, found)
    fresh = beginning is None and not inherits
    recipe = plan.adaptation_recipe(made.spec, tokenizer, task, adaptation, found, own, fresh=fresh)
    return pipeline.AdaptPlan(made.spec, made.size, tokenizer, beginning, source, found, task, adaptation, recipe)


def _unlabelled(run: RunFolder, texts: str | None, how: DistillationConfig) -> tuple[Any, ...]:
    """The lines of a file as examples; texts that belong together have tabs between them."""
    if texts is None:
        return ()
    if not how.share:
        raise InputError("--texts are for the teacher to judge, and --share 0 does not listen", hint="leave one out")
    using, made = Run(run), []
    for source in find_sources([texts]):
        for number, line, _ in numbered_lines(TextBlocks(source, "utf-8", "fail", Ledger())):
            try:
                made += _example(using, line.strip().split("\t")) if line.strip() else []
            except (InputError, TypeError) as error:
                what = (
                    error.message
                    if isinstance(error, InputError)
                    else f"is no example for {run.metadata['task']['name']}"
                )
                hint = "write a text a line, with tabs between those that belong together"
                raise InputError(what, file=source.name, line=number, hint=hint) from error
    return tuple(made)


def _example(run: Run, parts: Sequence[str]) -> Sequence[Any]:
    assert run.task is not None
    match run.task.verb:
        case "classify":
            return predict.labeled_examples(run, [tuple(parts)])  # pyright: ignore[reportArgumentType]
        case "tag":
            return predict.tagged_examples(run, " ".join(parts))
        case "answer":
            return predict.question_examples(*parts)
    return predict.choice_examples(parts[0], parts[1:])


def _checked(run: RunFolder, student: planning.PretrainPlan | pipeline.AdaptPlan, how: DistillationConfig) -> None:
    """An error where the student cannot be compared with the teacher as it is asked to be."""
    from forebear.nn.heads import LMHead
    from forebear.training.distillation import layer_distillations

    if run.task is not None and run.task.name != "answering" and not how.layer_losses:
        return
    tokenizer: Any = run.tokenizer if student.tokenizer is None else student.tokenizer
    network, teacher = _network(student, tokenizer), Run(run).network
    shared = {*TOKEN_HEADS} & {*network.heads} & {*teacher.heads}
    if run.task is None and not shared:
        has = ", ".join(teacher.heads) or "none"
        what = f"the student has the heads {', '.join(network.heads)}, the teacher {has}: none predicts tokens in both"
        raise InputError(what, file=run.path, hint="choose a student and a teacher that predict the same")
    heads = [one.heads[name] for one in (network, teacher) for name in shared]
    if run.task is None and not all(isinstance(head, LMHead) for head in heads):
        what = "only a Transformer that predicts tokens can teach them, and only to another"
        raise InputError(what, file=run.path, hint="choose such a teacher and such a student, or distil a task")
    theirs, own = run.spec.input_format(run.tokenizer), student.spec.input_format(tokenizer)
    if tokenizer.digest != run.tokenizer.digest or replace(own, max_length=None) != replace(theirs, max_length=None):
        what = "the student cuts or lays out text otherwise than the teacher: tokens cannot be compared one by one"
        raise InputError(what, hint="take a student with the teacher's tokenizer, and of its kind")
    if theirs.max_length is not None and (own.max_length is None or own.max_length > theirs.max_length):
        what = f"the student reads rows of {own.max_length} tokens, the teacher of {theirs.max_length}"
        raise InputError(what, hint=f"--context {theirs.max_length}")
    layer_distillations(how, network.encoder, teacher.encoder)


# From a trained run to a smaller one that it teaches, and what that costs and keeps, side by side.


PathLike = str | os.PathLike[str]
SOFT = "teacher.safetensors"  # what the teacher says of every example, as long as a run learns from it
TIMED = 30  # texts


def distill(
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
    reading: TextFormat | None = None,
    reader: str | None = None,
    reader_width: int | None = None,
    overwrite: bool = False,
    command: str | None = None,
    watcher: TrainingCallback | None = None,
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
    what = plan_distillation(
        os.fspath(teacher),
        [os.fspath(one) for one in given],
        how=DistillationConfig(float(temperature), float(share), float(hidden), float(attention)),
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


def resume_distillation(folder: PathLike, *, watcher: TrainingCallback | None = None) -> Run:
    """Goes on with a distillation that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.require_trainable()
    told = run.metadata.get("distilled")
    if told is None:
        raise InputError("was not distilled", file=run.path, hint=f"go on with it by: {run.resume_command}")
    given = {name: value for name, value in told["given"].items() if name != "read"}
    how = DistillationConfig(**{one.name: told[one.name] for one in fields(DistillationConfig)})
    given["reading"] = given["reading"] and TextFormat(**given["reading"])
    what = plan_distillation(told["teacher"], given.pop("data"), how=how, **given)
    if what.request(what.corpus()) != run.metadata["asked"]:
        hint = "put back what it was, or distil anew into another folder"
        raise InputError("its teacher or what it learns from has changed since it began", file=run.path, hint=hint)
    return priced(what, distilled(what, folder, watcher=watcher), None)


def distilled(
    what: DistillPlan,
    to: PathLike | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: TrainingCallback | None = None,
) -> RunFolder:
    """Trains what was planned into a folder; a folder that holds the same, begun or finished, is gone on with."""
    watcher, corpus = watcher or TrainingCallback(), what.corpus()
    asked = what.request(corpus)
    wanted = Path(to) if to is not None else Path("runs") / f"{Path(what.teacher.run).name}-distilled"
    folder, there = output_folder(wanted, asked, to is None, overwrite)
    run = there if there is not None and there.metadata.get("asked") == asked else None
    if run is not None and run.is_finished:
        watcher.on_note("this run is finished already: nothing was trained")
        return run
    student = replace(what.student, recipe=what.student.recipe if run is None else run.recipe)
    what = replace(what, student=student)
    ready = _ready(what, corpus)  # before anything is written: most mistakes show here
    if run is None:
        with replace_run(there):
            ledger = None if corpus is None else corpus.ledger.to_dict()
            tokenizer = what.student.tokenizer if corpus is None else corpus.tokenizer
            run = RunFolder.create(folder, _told(what, corpus, asked, folder, command), tokenizer, ledger)  # pyright: ignore[reportArgumentType]
    if corpus is None:
        pipeline.train_adaptation(run, _with_examples(what, ready, run), watcher)
        (run.path / SOFT).unlink(missing_ok=True)
    else:
        pipeline.train_run(run, _with_text(what, ready), watcher)
    return run


def _ready(what: DistillPlan, corpus: Corpus | None) -> Any:
    """What training without a teacher would need, and what is to be said of this one."""
    student = what.student
    if isinstance(student, pipeline.AdaptPlan):
        ready = pipeline.AdaptSetup.from_plan(student)
    else:
        assert corpus is not None
        with student.error_context():
            split = corpus.split(student.recipe.held_out)
            ready = pipeline.PretrainSetup.from_plan(student.spec, corpus, student.recipe, split, student.init_from)
    return replace(ready, notes=[*what.notes, *ready.notes])


def _told(
    what: DistillPlan, corpus: Corpus | None, asked: dict[str, Any], folder: Path, command: str | None
) -> dict[str, Any]:
    student = what.student
    if isinstance(student, pipeline.AdaptPlan):
        told = pipeline.adapt_metadata(student, asked, folder, command)
    else:
        assert corpus is not None
        told = pipeline.pretrain_metadata(student, corpus, asked, folder, command, None)
    return told | {"parent": what.teacher.run, "distilled": asked["distilled"], "command": command}


def _with_text(what: DistillPlan, ready: Any) -> Any:
    """Every token that is asked for is also asked of the teacher, when its turn comes."""
    from forebear.training.distillation import TokenDistillation, layer_distillations

    how, network = what.distillation, ready.learner.model
    teacher = Run(what.teacher.folder).network
    heads = layer_distillations(how, network.encoder, teacher.encoder)
    mixed = tuple(name for name in TOKEN_HEADS if how.share and name in network.heads and name in teacher.heads)
    heads |= {name + TEACHER_TARGET: TokenDistillation(network.heads[name], teacher.heads[name], how) for name in mixed}
    objective = DistillationObjective(
        ready.objective, ready.split.train, mixed, tuple(how.layer_losses), how.layer_losses
    )
    return replace(ready, objective=objective, learner=_learner(what, ready.learner, heads, teacher))


def _with_examples(what: DistillPlan, ready: Any, run: RunFolder) -> Any:
    """What the teacher says of all examples is asked once, and learned from as often as the truth."""
    from forebear.training.distillation import LogitDistillation, layer_distillations

    how, student = what.distillation, what.student
    assert isinstance(student, pipeline.AdaptPlan)
    teacher, network = Run(what.teacher.folder), ready.learner.model
    examples, rows = [*student.labeled_data.train, *what.extra_texts], ready.train
    if what.extra_texts:
        layout = student.spec.input_format(student.tokenizer)
        rows = student.task.encode(examples, student.tokenizer, layout, learning=True)
        rows = without_labels(rows, len(student.labeled_data.train))
    heads = layer_distillations(how, network.encoder, teacher.network.encoder) if how.layer_losses else {}
    weights = dict(how.layer_losses)
    if how.share:
        soft = _soft(run, teacher, examples, rows)
        heads |= {
            name + TEACHER_TARGET: LogitDistillation(network.heads[name], how.temperature) for name in rows.targets
        }
        weights |= dict.fromkeys(rows.targets, 1 - how.share) | dict.fromkeys(soft, how.share)
        rows = replace(rows, targets={**rows.targets, **soft})
    learner = _learner(what, ready.learner, heads, teacher.network if how.layer_losses else None)
    return replace(
        ready,
        train=rows,
        objective=DistillationObjective(ready.objective, rows, (), tuple(how.layer_losses), weights),
        learner=learner,
    )


def _soft(run: RunFolder, teacher: Run, examples: Sequence[Any], rows: ExampleRows) -> dict[str, np.ndarray]:
    """The teacher's targets, kept beside the run: other threads would find other last bits when it is gone on with."""
    from safetensors.numpy import load, save

    file = run.path / SOFT
    if not file.exists():
        network = teacher.network
        if teacher.encoder is not None and "next" in teacher.heads:  # nobody asks that of it here
            own = teacher.model
            network = type(own)(own.encoder, {n: one for n, one in own.heads.items() if n != "next"})
        assert teacher.task is not None
        layout = teacher.folder.spec.input_format(teacher.tokenizer)
        found = Teacher(network, teacher.task, teacher.tokenizer, layout).targets_for(examples, rows)
        with explain_disk_errors(file), atomic_write(file) as aside:
            aside.write(save(found))
    return load(file.read_bytes())


def _learner(what: DistillPlan, learner: Any, heads: Mapping[str, Any], teacher: Any) -> Any:
    """With what is learned from the teacher beside the truth; without, the one that was there."""
    from safetensors.torch import load_file

    from forebear.training.distillation import DistillationLearner, StudentModel, inherit_layers

    given = learner.given
    if what.inherits:
        theirs = what.teacher.folder.spec.depth
        assert theirs is not None
        depths = learner.model.encoder.depth, theirs
        given = inherit_layers(load_file(what.teacher.folder.verified_weights()[0]), learner.model, depths)
    if not heads:
        learner.given = given
        return learner
    student = StudentModel(learner.model, heads, teacher)
    return DistillationLearner(student, learner.recipe, learner.device, given, learner.shares)


# -- the price


def _alone(what: DistillPlan, run: RunFolder, *, overwrite: bool, watcher: TrainingCallback | None) -> RunFolder:
    """The same student from the same beginning with the same budget, on the truth alone, into a folder beside it."""
    student = what.student
    recipe = student.recipe
    if what.extra_texts and recipe.epochs is not None:  # there are fewer examples: as many steps
        rest = {name: value for name, value in recipe.to_dict().items() if name not in BUDGETS}
        recipe = merge_recipe(rest, {"steps": run.metadata["pace"]["total"]})
    what = replace(
        what,
        distillation=what.distillation.soft_targets_only(),
        extra_texts=(),
        student=replace(student, recipe=recipe),
        notes=(),
    )
    watcher = watcher or TrainingCallback()
    watcher.on_note("now the same student without the teacher")
    return distilled(what, run.path.with_name(f"{run.path.name}-alone"), overwrite=overwrite, watcher=watcher)


def priced(what: DistillPlan, run: RunFolder, alone: RunFolder | None) -> Run:
    """The student, with what it costs and keeps beside the teacher entered in its facts."""
    folders = {"teacher": what.teacher.folder, "student": run} | ({"student alone": alone} if alone else {})
    corpus, rows = what.corpus(), []
    for who, folder in folders.items():
        one = Run(folder)
        file = folder.verified_weights()[0]
        told = {"who": who, "run": str(folder.path), "parameters": one.num_parameters}
        figures = _on_examples(one, what.student) if corpus is None else _on_text(one, corpus, what.student.recipe)
        rows.append({**told, "megabytes": round(file.stat().st_size / 1e6, 3), **figures})
    for row in rows:
        of = {side: (row[side], rows[0][side]) for side in ("dev", "test", "held_out") if row.get(side) is not None}
        own, best = next(reversed(of.values()), (None, None))
        lower = row["score"] == "bits_per_byte"
        row["kept"] = None if not own or not best else best / own if lower else own / best
    run.update(price=rows)
    return Run(run)


def _on_examples(run: Run, student: Any) -> dict[str, Any]:
    """The figure of the task on each side that has labels, and how long a text takes by itself."""
    task, layout = run.task, run.folder.spec.input_format(run.tokenizer)
    assert task is not None
    told: dict[str, Any] = {"score": task.score}
    for side in ("dev", "test"):
        examples = [one for one in getattr(student.labeled_data, side) if is_labeled(one)]
        if examples:
            rows = task.encode(examples, run.tokenizer, layout)
            answers = task.predictions(examples, rows, predict_logits(run.network, rows))
            told[side] = float(task.evaluate(examples, answers)[task.score])
    seconds = []
    for example in student.labeled_data.dev[:TIMED]:
        began = time.perf_counter()
        rows = task.encode([example], run.tokenizer, layout)
        task.predictions([example], rows, predict_logits(run.network, rows))
        seconds.append(time.perf_counter() - began)
    return told | {"milliseconds": round(1000 * median(seconds), 3) if seconds else None}


def _on_text(run: Run, corpus: Corpus, recipe: Any) -> dict[str, Any]:
    """Bits per byte of held-out text, or the share of hidden tokens found."""
    held_out = corpus.split(recipe.held_out).held_out.first(pipeline.MEASURED_CHARACTERS)
    found = run.measure(held_out)
    assert isinstance(found, TextEvaluation)  # a student that was taught text predicts it
    seconds = found.seconds if found.seconds > 1 else min(run.measure(held_out).seconds for _ in range(3))
    score = "accuracy" if found.is_pseudo_likelihood else "bits_per_byte"
    milliseconds = round(1000 * seconds / max(1, found.units), 3)  # a short time is measured again: the first is slow
    return {"score": score, "held_out": found.to_dict()[score], "milliseconds": milliseconds}
