"""Distill a run into a smaller one: plan the student, train it on the teacher's outputs, and compare their cost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from forebear.data.corpus.corpus import Corpus
from forebear.data.io.atomic import atomic_write, explain_disk_errors, file_digest
from forebear.data.io.sources import PathLike, find_sources
from forebear.data.io.text_blocks import TextBlocks
from forebear.data.io.text_formats import TextFormat, numbered_lines
from forebear.data.io.text_ledger import Ledger
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.labeled.load import read_labeled
from forebear.data.source import TextSource, is_corpus
from forebear.data.tokenizers.char_ids import base_tokenizer
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.experiments import plan as planning
from forebear.experiments import training_run
from forebear.experiments.adapt_defaults import adaptation_recipe, adaptation_tokenizer, choose_adaptation
from forebear.experiments.run_evaluation import measure_on_examples, measure_on_text
from forebear.experiments.training_run import output_folder, replace_run
from forebear.experiments.unused_settings import check_unused_settings, flag_name
from forebear.experiments.warm_start import InitFrom, open_finished
from forebear.inference import task_predictions
from forebear.inference.run import Run
from forebear.models.spec import ModelSpec
from forebear.objectives.input_format import TaskEncoderConfig
from forebear.registry import LINEAGE, model_name
from forebear.tasks.classification import Classification
from forebear.tasks.multiple_choice import MultipleChoice
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task_batches import ExampleRows
from forebear.training.build_learner import build_task_model
from forebear.training.distillation_targets import (
    TEACHER_SUFFIX,
    DistillationConfig,
    DistillationObjective,
    Teacher,
    mask_labels,
)
from forebear.training.run_folder import RunFolder
from forebear.training.settings import BUDGETS, Recipe, merge_recipe
from forebear.training.trainer import TrainingCallback

DEPTH_DIVISORS = (2, 3, 4)  # tried first for a smaller student
HALVED_FIELDS = (("width",), ("width", "depth"), ("width", "depth", "table"))  # fields to halve, tried next in turn
SHAPE_FIELDS = ("width", "depth", "heads", "inner", "table")  # with any of them given, nothing is halved
TOKEN_HEADS = ("next", "token")  # heads of causal and masked language models
RECIPE_FIELDS = frozenset(field.name for field in fields(Recipe))
SOFT_TARGETS_FILE = "teacher.safetensors"  # in the run folder during training
StudentPlan = planning.PretrainPlan | planning.AdaptPlan


@dataclass(frozen=True, eq=False)
class DistillPlan:
    """A planned distillation.

    student            the plan of training the student alone, on text or on examples
    init_from_teacher  whether it starts with layers of the teacher
    extra_texts        unlabeled examples, with soft targets only
    settings           the arguments of `plan_distillation`, to plan it again
    """

    teacher: InitFrom
    distillation: DistillationConfig
    student: StudentPlan
    init_from_teacher: bool
    extra_texts: tuple[Any, ...]
    settings: dict[str, Any]
    notes: tuple[str, ...]

    @cached_property
    def corpus(self) -> Corpus | None:
        """The corpus of a language model; None for a task."""
        if isinstance(self.student, planning.AdaptPlan):
            return None
        return cast("Corpus", self.student.prepare_corpus())  # students are not translation models

    @property
    def request(self) -> dict[str, Any]:
        """Everything that the result depends on, as JSON."""
        distillation = {"teacher": self.teacher.run, "weights": self.teacher.weights, **asdict(self.distillation)}
        distillation |= {"layers": "every-second" if self.init_from_teacher else "none", "given": self.settings}
        if isinstance(self.student, planning.AdaptPlan):
            request = self.student.request
        else:
            assert self.corpus is not None
            request = {"beginning": None, **self.student.request(self.corpus)}
        return json.loads(json.dumps({**request, "distilled": distillation}))


def plan_distillation(
    teacher: PathLike,
    data: Sequence[str] = (),
    *,
    config: DistillationConfig,
    student: str | None = None,
    size: str | None = None,
    layers: str | None = None,
    texts: PathLike | None = None,
    text_format: TextFormat | None = None,
    task_encoder: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> DistillPlan:
    """Plan a distillation; the arguments are those of `distill`.

    `config` has the weights of the losses, `task_encoder` the fields of `Adaptation` for that above word vectors.
    """
    teacher_run = open_finished(teacher)
    if teacher_run.spec.learns_from == "pairs":
        message = "translates: language models are distilled, and those that do a task"
        hint = f"make it smaller by: forebear quantise {teacher_run.path} --to SMALL"
        raise InputError(message, file=teacher_run.path, hint=hint)
    settings = {name: value for name, value in (settings or {}).items() if value is not None}
    is_model_name = student is None or (student in LINEAGE and not Path(student).is_dir())
    init_from = None if is_model_name else InitFrom.for_run(str(student))
    if init_from is not None and (size or layers):
        raise InputError("--size and --layers mean nothing beside a run: it has its own", hint="leave them out")
    task_encoder = {name: value for name, value in (task_encoder or {}).items() if value is not None}
    if task_encoder and teacher_run.task is None:
        raise InputError(f"{flag_name(next(iter(task_encoder)))} is for tasks", hint="leave it out")
    base_plan = _plan_student(teacher_run, init_from, student, size, settings, data, text_format)
    init_from_teacher = _should_init_from_teacher(teacher_run, base_plan, layers)
    arguments: dict[str, Any] = {
        "data": [os.path.abspath(path) for path in data],
        "student": student if init_from is None else init_from.run,
        "size": size,
        "layers": layers,
        "texts": texts and os.path.abspath(texts),
        "settings": settings,
        "reading": text_format and asdict(text_format),
    }
    arguments |= {"reader": task_encoder} if task_encoder else {}
    student_plan, extra_texts = base_plan, ()
    if teacher_run.task is not None:
        student_plan = _plan_task_student(teacher_run, base_plan, init_from_teacher, data, settings, task_encoder)
        extra_texts = _read_unlabeled(teacher_run, texts, config)
        arguments["read"] = texts and file_digest(Path(texts))
    elif texts:
        raise InputError("--texts are for tasks: a language model is taught on all text", hint="give it as TEXT")
    if isinstance(student_plan, planning.AdaptPlan):
        spec, tokenizer = student_plan.spec, student_plan.tokenizer
        network = build_task_model(spec, tokenizer, student_plan.task, student_plan.adaptation)
    else:
        network = student_plan.spec.build(student_plan.tokenizer)
    _check_compatible(teacher_run, student_plan, network, config)
    notes = [_size_note(teacher_run, student_plan, network)]
    if init_from_teacher:
        notes.append("it begins with the teacher's own layers, evenly chosen")
    elif init_from is None:
        notes.append("it begins from nothing: one that is pre-trained (--student RUN) may learn far more")
    teacher_init = InitFrom.of(teacher_run)
    return DistillPlan(teacher_init, config, student_plan, init_from_teacher, extra_texts, arguments, tuple(notes))


def _plan_student(
    teacher_run: RunFolder,
    init_from: InitFrom | None,
    student: str | None,
    size: str | None,
    settings: Mapping[str, Any],
    data: Sequence[str],
    text_format: TextFormat | None,
) -> planning.PretrainPlan:
    """The student as a plan of pre-training on text; for a task only its shape is used."""
    if teacher_run.task is not None:
        if text_format is not None:
            raise InputError("how text is read means nothing to a task", hint="leave out --documents and the like")
        data, source = (), TextSource(())
        settings = {name: value for name, value in settings.items() if name not in RECIPE_FIELDS}
    elif not data:
        raise InputError("a language model is taught on text", hint=f"forebear distil {teacher_run.path} TEXT…")
    elif is_corpus(TextSource(tuple(data))):
        source = TextSource(())
    else:
        teacher_source = (teacher_run.metadata.get("data") or {}).get("source")
        source = TextSource(()) if teacher_source is None else TextSource.from_dict(teacher_source)
        source = replace(source, reading=text_format or TextFormat())
    if init_from is not None:
        name = init_from.folder.metadata["milestone"]
        if teacher_run.task is not None and (model_settings := [field for field in settings if field != "dropout"]):
            message = f"{flag_name(model_settings[0])} means nothing beside a run: it has its own"
            raise InputError(message, hint="leave it out")
        return planning.plan_pretraining(name, data, source=source, settings=settings, init_from=init_from)
    model = teacher_run.metadata["milestone"]
    is_same_model = student in (None, model)
    if teacher_run.spec.learning == "counting" and (teacher_run.task is None or is_same_model):
        message = f"{model} counts: it is small already"
        raise InputError(message, file=teacher_run.path, hint="distil a run of a network")
    base_fields: dict[str, Any] = {}
    if is_same_model and size is None:
        has_shape = any(name in settings for name in SHAPE_FIELDS)
        base_spec = teacher_run.spec if has_shape else smaller_spec(teacher_run.spec, teacher_run.tokenizer)
        base_fields = {name: value for name, value in asdict(base_spec).items() if name not in base_spec.unused_fields}
    plan = planning.plan_pretraining(
        student or model,
        data,
        size=size,
        tokenizer=base_tokenizer(teacher_run.tokenizer),
        source=source,
        recipe={"fields": base_fields},
        settings=settings,
    )
    if plan.spec.learning == "counting":
        raise InputError(f"{student} counts, and hears only the truth", hint="choose a network as the student")
    return plan


def _size_note(teacher_run: RunFolder, student: StudentPlan, network: Any) -> str:
    """A note on the size of the student relative to its teacher, and on their different fields."""
    student_size = network.num_parameters
    teacher_size = teacher_run.metadata.get("parameters") or Run(teacher_run).num_parameters
    teacher_fields = teacher_run.metadata["fields"]
    changed = [f"{name} {value}" for name, value in asdict(student.spec).items() if teacher_fields.get(name) != value]
    description = student.init_from.run if student.init_from else ", ".join(changed) or "as the teacher"
    warning = "; it is the larger of the two: --size or --width make it smaller" if student_size > teacher_size else ""
    size_text = f"{student_size:,} parameters, {student_size / teacher_size:.0%} of the teacher's"
    return f"the student ({description}) has {size_text}{warning}"


def smaller_spec(spec: ModelSpec, tokenizer: Tokenizer) -> ModelSpec:
    """The same model with at most half the parameters: fewer layers, or half the hidden size, or both."""
    values = asdict(spec)
    depth, overrides = values.get("depth"), list[dict[str, Any]]()
    if depth is not None:
        overrides += [{"depth": depth // divisor} for divisor in DEPTH_DIVISORS if depth % divisor == 0]
    for names in HALVED_FIELDS:
        halved = {name: max(1, values[name] // 2) for name in names if name in values}
        if "width" in halved:  # also halve the number of heads, to keep their size
            halved |= {name: max(1, values[name] // 2) for name in ("heads", "inner") if values.get(name)}
            halved["width"] -= halved["width"] % halved.get("heads", 1)
        overrides.append(halved)
    max_parameters = num_encoder_parameters(spec, tokenizer) / 2
    for override in overrides:
        candidate = replace(spec, **override)
        if num_encoder_parameters(candidate, tokenizer) <= max_parameters:
            return candidate
    return replace(spec, **overrides[-1])


def num_encoder_parameters(spec: ModelSpec, tokenizer: Tokenizer) -> int:
    """The number of parameters of the encoder with the pre-training heads."""
    return spec.build_task_encoder(tokenizer, TaskEncoderConfig()).num_parameters


def _should_init_from_teacher(teacher_run: RunFolder, plan: planning.PretrainPlan, layers: str | None) -> bool:
    """Whether the student can and should start with layers of the teacher."""
    teacher, student = asdict(teacher_run.spec), asdict(plan.spec)
    can_copy_layers = (
        plan.init_from is None
        and type(plan.spec) is type(teacher_run.spec)
        and all(student[name] == teacher[name] for name in student if name not in ("depth", "context", "dropout"))
        and "depth" in student
        and teacher["depth"] % student["depth"] == 0
        and student["context"] <= teacher["context"]
    )
    if layers == "every-second" and not can_copy_layers:
        message = "the teacher's layers do not fit the student"
        raise InputError(message, hint="they do where only --depth is smaller, and divides the teacher's")
    return can_copy_layers and layers != "none"


def _plan_task_student(
    teacher_run: RunFolder,
    base_plan: planning.PretrainPlan,
    init_from_teacher: bool,
    data_files: Sequence[str],
    settings: Mapping[str, Any],
    task_encoder_options: Mapping[str, Any],
) -> planning.AdaptPlan:
    """The student as a plan of adapting it to the teacher's task."""
    if "labelled" not in teacher_run.metadata:
        hint = "adapt a run here, and distil that"
        raise InputError("was imported: nobody knows what it learned from", file=teacher_run.path, hint=hint)
    source = LabeledSource.from_dict(teacher_run.metadata["labelled"]["source"])
    if len(data_files) > 1:
        hint = "give one, or none for those the teacher learned from"
        raise InputError(f"{len(data_files)} files of examples", hint=hint)
    if data_files:
        source = replace(source, train=data_files[0], dev=None, test=None)
    for path in source.split_paths().values():
        if not Path(path).is_file():
            raise InputError("these examples are not there", file=path, hint="give others: forebear distil RUN DATA")
    data, spec, init_from, task = read_labeled(source), base_plan.spec, base_plan.init_from, teacher_run.task
    assert task is not None
    if isinstance(task, SequenceTagging):  # the student learns the teacher's marginals of single words
        task = replace(task, crf=False)
    elif isinstance(task, Classification | MultipleChoice):
        task = replace(task, temperature=1.0)
    recipe_settings = {name: value for name, value in settings.items() if name in RECIPE_FIELDS}
    check_unused_settings(model_name(spec), "descending", recipe_settings)
    options = {"balanced": teacher_run.adaptation.balanced, "read": teacher_run.adaptation.read}
    options |= {"reader": teacher_run.adaptation.reader} if spec.needs_task_encoder else {}
    adaptation = choose_adaptation(spec, init_from, len(data.train), {**options, **task_encoder_options})
    tokenizer = spec.task_tokenizer(base_tokenizer(teacher_run.tokenizer))
    if init_from is not None:
        tokenizer = adaptation_tokenizer(spec, init_from, adaptation, source.task, data)
    from_scratch = init_from is None and not init_from_teacher
    recipe = adaptation_recipe(spec, tokenizer, task, adaptation, data, recipe_settings, from_scratch=from_scratch)
    return planning.AdaptPlan(spec, base_plan.size, tokenizer, init_from, source, data, task, adaptation, recipe)


def _read_unlabeled(teacher_run: RunFolder, texts: PathLike | None, config: DistillationConfig) -> tuple[Any, ...]:
    """Unlabeled examples from the lines of a file; texts of one example are separated by tabs."""
    if texts is None:
        return ()
    if not config.share:
        raise InputError("--texts are for the teacher to judge, and --share 0 does not listen", hint="leave one out")
    teacher, examples = Run(teacher_run), []
    parsers: dict[str, Callable[[list[str]], Sequence[Any]]] = {
        "classify": lambda columns: task_predictions.text_examples(teacher, [tuple(columns)]),  # pyright: ignore[reportArgumentType]
        "tag": lambda columns: task_predictions.word_examples(teacher, " ".join(columns)),
        "answer": lambda columns: task_predictions.question_examples(*columns),
        "choose": lambda columns: task_predictions.choice_examples(columns[0], columns[1:]),
    }
    assert teacher_run.task is not None
    for source in find_sources([texts]):
        for line_number, line, _ in numbered_lines(TextBlocks(source, "utf-8", "fail", Ledger())):
            columns = line.strip().split("\t")
            if columns == [""]:
                continue
            try:
                examples += parsers[teacher_run.task.verb](columns)
            except (InputError, TypeError) as error:
                message = getattr(error, "message", f"is no example for {teacher_run.task.name}")
                hint = "write a text a line, with tabs between those that belong together"
                raise InputError(message, file=source.name, line=line_number, hint=hint) from error
    return tuple(examples)


def _check_compatible(teacher_run: RunFolder, student: StudentPlan, network: Any, config: DistillationConfig) -> None:
    """Raise InputError for a student whose outputs or layers cannot be compared with the teacher's."""
    from forebear.nn.heads import LMHead
    from forebear.training.distillation import layer_distillations

    if teacher_run.task is not None and teacher_run.task.name != "answering" and not config.layer_losses:
        return
    tokenizer: Any = student.tokenizer
    teacher = Run(teacher_run).network
    if teacher_run.task is None:
        shared_heads = {*TOKEN_HEADS} & {*network.heads} & {*teacher.heads}
        if not shared_heads:
            message = f"the student has the heads {', '.join(network.heads)}, the teacher "
            message += f"{', '.join(teacher.heads) or 'none'}: none predicts tokens in both"
            hint = "choose a student and a teacher that predict the same"
            raise InputError(message, file=teacher_run.path, hint=hint)
        if not all(isinstance(model.heads[name], LMHead) for model in (network, teacher) for name in shared_heads):
            message = "only a Transformer that predicts tokens can teach them, and only to another"
            hint = "choose such a teacher and such a student, or distil a task"
            raise InputError(message, file=teacher_run.path, hint=hint)
    teacher_format = teacher_run.spec.input_format(teacher_run.tokenizer)
    student_format = student.spec.input_format(tokenizer)
    max_length, teacher_max_length = student_format.max_length, teacher_format.max_length
    has_same_format = replace(student_format, max_length=teacher_max_length) == teacher_format
    if tokenizer.digest != teacher_run.tokenizer.digest or not has_same_format:
        message = "the student cuts or lays out text otherwise than the teacher: tokens cannot be compared one by one"
        raise InputError(message, hint="take a student with the teacher's tokenizer, and of its kind")
    if teacher_max_length is not None and (max_length is None or max_length > teacher_max_length):
        message = f"the student reads rows of {max_length} tokens, the teacher of {teacher_max_length}"
        raise InputError(message, hint=f"--context {teacher_max_length}")
    layer_distillations(config, network.encoder, teacher.encoder)


# --- Training the student ---


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
    callback: TrainingCallback | None = None,
    **settings: Any,
) -> Run:
    """Distill a run into a smaller one, as `forebear distil` does; metadata["price"] compares the two.

    Args:
        teacher: A finished run.
        data: Texts for a language model; for a task a file of examples, by default those of the teacher.
        to: The run folder; by default in runs/.
        student: A run or the name of a model; by default a smaller model of the teacher's kind.
        texts: A file of unlabeled examples, for a task.
        compare: Also train the same student without the teacher, in a folder next to it.
        reader: Task encoder (mean, convolution, recurrent) if the student has word vectors only.
        settings: Settings of the recipe (time="5m", epochs=, …) and fields of the model (width=, depth=, …).
    """
    plan = plan_distillation(
        teacher,
        [os.fspath(path) for path in ([data] if isinstance(data, str | os.PathLike) else data)],
        config=DistillationConfig(float(temperature), float(share), float(hidden), float(attention)),
        student=None if student is None else os.fspath(student),
        size=size,
        layers=layers,
        texts=texts,
        text_format=reading,
        task_encoder={"reader": reader, "reader_width": reader_width},
        settings=settings,
    )
    run = run_distillation(plan, to, overwrite=overwrite, command=command, callback=callback)
    baseline = _train_baseline(plan, run, overwrite=overwrite, callback=callback) if compare else None
    return record_comparison(plan, run, baseline)


def resume_distillation(folder: PathLike, *, callback: TrainingCallback | None = None) -> Run:
    """Resume an interrupted distillation."""
    run = RunFolder.open(folder)
    run.require_trainable()
    entry = run.metadata.get("distilled")
    if entry is None:
        raise InputError("was not distilled", file=run.path, hint=f"go on with it by: {run.resume_command}")
    arguments = {name: value for name, value in entry["given"].items() if name != "read"}
    config = DistillationConfig(**{field.name: entry[field.name] for field in fields(DistillationConfig)})
    text_format, task_encoder = arguments.pop("reading"), arguments.pop("reader", None)
    arguments |= {"text_format": text_format and TextFormat(**text_format), "task_encoder": task_encoder}
    plan = plan_distillation(entry["teacher"], arguments.pop("data"), config=config, **arguments)
    if plan.request != run.metadata["asked"]:
        hint = "put back what it was, or distil anew into another folder"
        raise InputError("its teacher or what it learns from has changed since it began", file=run.path, hint=hint)
    return record_comparison(plan, run_distillation(plan, folder, callback=callback), None)


def run_distillation(
    plan: DistillPlan,
    to: PathLike | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    callback: TrainingCallback | None = None,
) -> RunFolder:
    """Train a planned student; a folder with the same run is resumed, or returned if the run is finished."""
    callback, corpus, request = callback or TrainingCallback(), plan.corpus, plan.request
    folder, run, run_to_replace = output_folder(request, to, f"{Path(plan.teacher.run).name}-distilled", overwrite)
    if run is not None and run.is_finished:
        callback.on_note(training_run.FINISHED_NOTE)
        return run
    student = plan.student if run is None else replace(plan.student, recipe=run.recipe)
    # before anything is written, as most errors occur here
    if isinstance(student, planning.AdaptPlan):
        setup: Any = training_run.AdaptSetup.from_plan(student)
    else:
        assert corpus is not None
        with student.error_context():
            setup = training_run.PretrainSetup.from_plan(student.spec, corpus, student.recipe, student.init_from)
    setup = replace(setup, notes=[*plan.notes, *setup.notes])
    if run is None:
        with replace_run(run_to_replace):
            tokenizer: Any = student.tokenizer if corpus is None else corpus.tokenizer
            metadata = training_run.new_metadata(student, request, folder, command, corpus)
            metadata |= {"parent": plan.teacher.run, "distilled": request["distilled"], "command": command}
            run = RunFolder.create(folder, metadata, tokenizer, None if corpus is None else corpus.ledger.to_dict())
    setup = _distill_on_examples(plan, setup, run) if corpus is None else _distill_on_text(plan, setup)
    training_run.train_run(run, setup, callback)
    (run.path / SOFT_TARGETS_FILE).unlink(missing_ok=True)
    return run


def _distill_on_text(plan: DistillPlan, setup: Any) -> Any:
    """Add the teacher, which predicts the supervised tokens of each batch."""
    from forebear.training.distillation import TokenDistillation, layer_distillations

    config, network, teacher = plan.distillation, setup.learner.model, Run(plan.teacher.folder).network
    distillation_heads = layer_distillations(config, network.encoder, teacher.encoder)
    shared_heads = tuple(name for name in TOKEN_HEADS if name in network.heads and name in teacher.heads)
    mixed_targets = shared_heads if config.share else ()
    for name in mixed_targets:
        distillation_heads[name + TEACHER_SUFFIX] = TokenDistillation(network.heads[name], teacher.heads[name], config)
    train, weights = setup.split.train, config.layer_losses
    objective = DistillationObjective(setup.objective, train, mixed_targets, tuple(weights), weights)
    learner = _distillation_learner(plan, setup.learner, distillation_heads, teacher)
    return replace(setup, objective=objective, learner=learner)


def _distill_on_examples(plan: DistillPlan, setup: Any, run: RunFolder) -> Any:
    """Add soft targets, which the teacher predicts once for all examples."""
    from forebear.training.distillation import LogitDistillation, layer_distillations

    config, student = plan.distillation, plan.student
    assert isinstance(student, planning.AdaptPlan)
    teacher, network, layer_losses = Run(plan.teacher.folder), setup.learner.model, config.layer_losses
    layer_teacher = teacher.network if layer_losses else None
    examples, rows = [*student.labeled_data.train, *plan.extra_texts], setup.train
    if plan.extra_texts:
        input_format = student.spec.input_format(student.tokenizer)
        rows = student.task.encode(examples, student.tokenizer, input_format, is_training=True)
        rows = mask_labels(rows, len(student.labeled_data.train))
    distillation_heads, weights = {}, dict(layer_losses)
    if layer_teacher is not None:
        distillation_heads = layer_distillations(config, network.encoder, layer_teacher.encoder)
    if config.share:
        soft_targets = _load_soft_targets(run, teacher, examples, rows)
        for name in rows.targets:
            distillation_heads[name + TEACHER_SUFFIX] = LogitDistillation(network.heads[name], config.temperature)
        weights |= dict.fromkeys(rows.targets, 1 - config.share) | dict.fromkeys(soft_targets, config.share)
        rows = replace(rows, targets={**rows.targets, **soft_targets})
    objective = DistillationObjective(setup.objective, rows, (), tuple(layer_losses), weights)
    learner = _distillation_learner(plan, setup.learner, distillation_heads, layer_teacher)
    return replace(setup, train=rows, objective=objective, learner=learner)


def _load_soft_targets(
    run: RunFolder, teacher: Run, examples: Sequence[Any], rows: ExampleRows
) -> dict[str, np.ndarray]:
    """The teacher's targets, saved in the run folder, as recomputed ones would not be bit-identical on resuming."""
    from safetensors.numpy import load, save

    file = run.path / SOFT_TARGETS_FILE
    if not file.exists():
        network = teacher.network
        if teacher.encoder is not None and "next" in teacher.heads:  # its auxiliary language-model head
            model = teacher.model
            network = type(model)(model.encoder, {key: head for key, head in model.heads.items() if key != "next"})
        assert teacher.task is not None
        input_format = teacher.folder.spec.input_format(teacher.tokenizer)
        targets = Teacher(network, teacher.task, teacher.tokenizer, input_format).targets_for(examples, rows)
        with explain_disk_errors(file), atomic_write(file) as stream:
            stream.write(save(targets))
    return load(file.read_bytes())


def _distillation_learner(plan: DistillPlan, learner: Any, distillation_heads: Mapping[str, Any], teacher: Any) -> Any:
    """The learner with distillation heads, or the unchanged one without them."""
    from safetensors.torch import load_file

    from forebear.training.distillation import DistillationLearner, StudentModel, inherit_layers

    initial_tensors = learner.initial_tensors
    if plan.init_from_teacher:
        teacher_depth = plan.teacher.folder.spec.depth
        assert teacher_depth is not None
        depths = learner.model.encoder.depth, teacher_depth
        initial_tensors = inherit_layers(load_file(plan.teacher.folder.verified_weights()[0]), learner.model, depths)
    if not distillation_heads:
        learner.initial_tensors = initial_tensors
        return learner
    student = StudentModel(learner.model, distillation_heads, teacher)
    return DistillationLearner(student, learner.recipe, learner.device, initial_tensors, learner.lr_scales)


# --- Cost of teacher and student ---


def _train_baseline(
    plan: DistillPlan, run: RunFolder, *, overwrite: bool, callback: TrainingCallback | None
) -> RunFolder:
    """Train the same student with the same start and budget without the teacher, in a folder next to it."""
    recipe = plan.student.recipe
    if plan.extra_texts and recipe.epochs is not None:  # fewer examples: keep the number of steps
        other_settings = {name: value for name, value in recipe.to_dict().items() if name not in BUDGETS}
        recipe = merge_recipe(other_settings, {"steps": run.metadata["pace"]["total"]})
    plan = replace(
        plan,
        distillation=plan.distillation.without_distillation(),
        extra_texts=(),
        student=replace(plan.student, recipe=recipe),
        notes=(),
    )
    callback = callback or TrainingCallback()
    callback.on_note("now the same student without the teacher")
    return run_distillation(plan, run.path.with_name(f"{run.path.name}-alone"), overwrite=overwrite, callback=callback)


def record_comparison(plan: DistillPlan, run: RunFolder, baseline: RunFolder | None) -> Run:
    """Record size, speed and score of teacher and student in run.json of the student."""
    folders = {"teacher": plan.teacher.folder, "student": run} | ({"student alone": baseline} if baseline else {})
    corpus, rows = plan.corpus, []
    for role, folder in folders.items():
        loaded_run = Run(folder)
        row = {"who": role, "run": str(folder.path), "parameters": loaded_run.num_parameters}
        row["megabytes"] = round(folder.verified_weights()[0].stat().st_size / 1e6, 3)
        if corpus is None:
            assert isinstance(plan.student, planning.AdaptPlan)
            row |= measure_on_examples(loaded_run, plan.student)
        else:
            row |= measure_on_text(loaded_run, corpus, plan.student.recipe)
        rows.append(row)
    for row in rows:
        row["kept"] = None
        split = next((name for name in ("held_out", "test", "dev") if row.get(name) is not None), "")
        if row.get(split) and rows[0][split]:
            score, teacher_score = row[split], rows[0][split]
            row["kept"] = teacher_score / score if row["score"] == "bits_per_byte" else score / teacher_score
    run.update(price=rows)
    return Run(run)
