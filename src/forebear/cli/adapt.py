"""`forebear adapt`: fine-tune a run on labeled examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Group, Parameter

from forebear.cli.measure import metrics_headline
from forebear.cli.options import LabeledDataOptions, ProcessOptions, ReplaceRun, ResumedRun, command_line, given_options
from forebear.cli.output import Console, Output, Switch, Table, count_phrase, format_clock, text_bar, training_progress
from forebear.cli.pretrain import TrainingOptions
from forebear.errors import InputError
from forebear.objectives.input_format import MixPosition, Pooling, TaskEncoderKind

if TYPE_CHECKING:
    from forebear.experiments.plan import AdaptPlan
    from forebear.training.run_folder import RunFolder

Task = Literal["classification", "pairs", "tagging", "answering", "choice"]
How = Literal["finetune", "freeze", "features", "prompt"]


@Parameter(name="*", group=Group("Adapting"))
@dataclass(frozen=True)
class AdaptOptions:
    """What of the network learns, and how."""

    how: How = "finetune"
    "finetune: all of it; freeze: not its lower layers; features: a head alone, on a mixture of layers; prompt: `ask`."
    freeze_layers: int | None = None
    "With --how freeze: layers that stay as they are, beside the embedding. [default: half of them]"
    layer_decay: float = 1.0
    "Each layer learns with this share of the rate of the one above it."
    read: Pooling | None = None
    "The vector that stands for a text: of its first token, its last, their mean, or the largest of each number.\
 [default: as in the paper]"
    language: float | None = None
    "What predicting the next token counts beside the task. [default: 0.5 for GPTs with 20,000 examples or more]"
    dropout: float | None = None
    "Share of numbers that the encoder, or a --reader above it, does not see in training. [default: the run's own]"
    head_dropout: float = 0.1
    "Share of numbers that the head does not see in training."
    balanced: Switch = False
    "Mistakes about rare labels count more, so that all labels count alike."
    crf: Switch = False
    "Tagging: judge the tags of a sentence together, by what may follow what."
    ordered: bool | None = None
    "Pairs: the first text is not to the second what the second is to the first. [default: by the labels' names]"
    reader: TaskEncoderKind | None = None
    "What reads word vectors, of which a run may have no more: each word alone, with its neighbours, with all. [mean]"
    reader_width: int | None = None
    "Numbers for each word in that network. [default: those of the vectors]"
    mixture: MixPosition | None = None
    "Where a recurrent encoder's layers, mixed as the task learns, stand: before a reader ([x; ELMo]), after it, both."
    mixture_norm: Switch = False
    "Bring layers to one scale before they are mixed."

    def adaptation_settings(self) -> dict[str, Any]:
        """The fields of `training.adaptation.Adaptation`."""
        other_options = ("crf", "ordered", "dropout", "head_dropout")
        values = {name: value for name, value in vars(self).items() if name not in other_options}
        return {**values, "dropout": self.head_dropout}

    def task_settings(self, task: str) -> dict[str, Any]:
        """The settings of the task."""
        settings = given_options(crf=self.crf or None, ordered=self.ordered)
        for name, task_of_option in (("crf", "tagging"), ("ordered", "pairs")):
            if name in settings and task != task_of_option:
                raise InputError(f"--{name} means nothing to {task}", hint=f"it is for {task_of_option}")
        return settings


def adapt(
    run: str | None = None,
    data: Path | None = None,
    /,
    *,
    to: Path | None = None,
    task: Task | None = None,
    dev: Path | None = None,
    test: Path | None = None,
    size: str | None = None,
    seeds: int | None = None,
    learning_curve: Switch = False,
    resume: ResumedRun = None,
    overwrite: ReplaceRun = False,
    processes: ProcessOptions = ProcessOptions(),
    adapt_options: AdaptOptions = AdaptOptions(),
    training: TrainingOptions = TrainingOptions(),
    examples: LabeledDataOptions = LabeledDataOptions(),
    output: Output = Output(),
) -> None:
    """Teach a run a task from your labelled examples; Ctrl-C saves, and the same command (or --resume) goes on.

    What the file holds is guessed, and said: TSV or CSV with or without a header, JSONL, SQuAD's JSON, CoNLL columns.

    ```
    forebear adapt runs/bert reviews.tsv --to runs/reviews
    forebear adapt runs/bert train.conll --test test.conll --crf
    forebear adapt runs/gpt pairs.tsv --task pairs --how freeze --freeze-layers 2
    forebear adapt ngram reviews.tsv
    forebear adapt --resume runs/reviews
    ```

    Parameters
    ----------
    run
        The run to adapt; or the name of a milestone, which then begins from nothing (ngram: a linear model of words).
    data
        The labelled examples to learn from.
    to
        The new run's folder. [default: runs/MILESTONE-TASK]
    task
        What the examples are of. [default: guessed from the file]
    dev
        Examples that choose the best weights. [default: a tenth of the data, by what they say]
    test
        Examples to measure at the end; they may lack labels.
    size
        Of a milestone that begins from nothing.
    seeds
        Adapt so many times, with other seeds; the best is kept, and the spread is told.
    learning_curve
        Adapt with fewer examples too, to see what more of them would bring.
    """
    from forebear.data.labeled.labeled_source import labeled_source
    from forebear.experiments import training_run
    from forebear.experiments.pretrain_tagger import implied_task
    from forebear.training.process_group import launch_processes

    with launch_processes(processes.processes, shard=processes.shard) as group, training_progress(output) as callback:
        if group is None:
            return
        if resume is not None:
            if run is not None or data is not None:
                raise InputError("--resume takes everything from the run's folder", hint="leave out the rest")
            result = training_run.resume_adaptation(resume, callback=callback, group=group)
        elif run is None or data is None:
            raise InputError("what to adapt to what?", hint="forebear adapt RUN DATA, or --resume RUN")
        else:
            splits = {name: None if file is None else str(file) for name, file in (("dev", dev), ("test", test))}
            source_options: dict[str, Any] = {"form": examples.detection_args(), **examples.settings(), **splits}
            source, notes = labeled_source(str(data), task=task or implied_task(run, data), **source_options)
            for note in notes:
                callback.on_note(note)
            plan_options: dict[str, Any] = {"how": adapt_options.adaptation_settings()}
            plan_options |= {"options": adapt_options.task_settings(source.task)}
            plan_options |= {"size": size, "dropout": adapt_options.dropout, "settings": given_options(training)}
            plan = training_run.plan_adaptation(run, source, **plan_options)
            run_options = {"overwrite": overwrite, "callback": callback, "group": group, "command": command_line()}
            result = _run_plan(plan, to, seeds, learning_curve, run_options)
    output.emit({"folder": str(result.path), **result.metadata}, lambda console: print_adaptation(console, result))


def _run_plan(
    plan: AdaptPlan, to: Path | None, seeds: int | None, with_learning_curve: bool, options: dict[str, Any]
) -> RunFolder:
    from forebear.experiments import adapt
    from forebear.experiments.training_run import run_adaptation

    if (with_learning_curve or seeds is not None) and to is None:
        raise InputError("several runs need a place", hint="name the folder with --to")
    if seeds is not None:
        adapt.check_seeds(plan, seeds)
    points = adapt.learning_curve(plan, to, **options) if with_learning_curve and to is not None else []
    if seeds is not None and to is not None:
        result = adapt.adapt_with_seeds(plan, to, seeds, **options)
    else:
        result = run_adaptation(plan, to, **options)
    if points:
        figures = {split: adapt.task_score(result, split) for split in result.metadata["metrics"]}
        result.update(learning_curve=[*points, {"examples": len(plan.labeled_data.train), **figures}])
    return result


def print_adaptation(console: Console, run: RunFolder) -> None:
    """Print the result: scores, baseline, seeds and learning curve."""
    from forebear.training.trainer import STOPPED_EARLY

    metadata, task = run.metadata, run.task
    assert task is not None
    steps = f"{count_phrase(metadata['step'], 'step')} in {format_clock(metadata['seconds'])}"
    console.print(f"[bold]{metadata['milestone']}[/] for {task.name}: {metadata['parameters']:,} parameters, {steps}")
    if early_note := next((note for note in metadata.get("notes", ()) if note.startswith(STOPPED_EARLY)), None):
        console.plain(early_note)
    elif metadata.get("best_step", metadata["step"]) != metadata["step"]:
        console.print(f"the weights of step {metadata['best_step']:,} are kept: they did best on held-out examples")
    for split, values in metadata["metrics"].items():
        console.print(f"{split}: {metrics_headline(values)}")
    if (baseline := metadata.get("baseline")) and baseline["score"]:
        score = f"{baseline['score']:.4f}, {baseline['meaning']}"
        console.print(f"{baseline['side']}, without a model: {score}", markup=False)
    for split, values in metadata.get("spread", {}).items():
        spread = f"{values['mean']:.4f} ± {values['deviation']:.4f}, from {values['least']:.4f} to {values['most']:.4f}"
        console.print(f"{split}, {len(metadata['seeds'])} seeds: {task.metric.replace('_', ' ')} {spread}")
    if points := metadata.get("learning_curve"):
        table = Table(">examples", *(f">{split}" for split in metadata["metrics"]), "", title="Learning curve")
        for point in points:
            scores = [point[split] for split in metadata["metrics"]]
            table.add_row(f"{point['examples']:,}", *(f"{score:.4f}" for score in scores), text_bar(scores[-1], 20))
        console.print(table)
    console.plain(f"run: {run.path}")
    console.plain(f"what now: forebear {task.verb} {run.path} …")
