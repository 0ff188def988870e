"""From text to a trained run: tokenizer, corpus, split, training, measurement, card; and the same again, or onwards."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.data.corpus.corpus import LEDGER_FILE, TOKENIZER_FILE, Corpus
from forebear.data.corpus.parallel import ParallelCorpus, ParallelSubset, TokenizerPair
from forebear.data.corpus.subset import CorpusSplit, Subset
from forebear.data.io.atomic import explain_disk_errors
from forebear.data.labeled.examples import example_texts, is_labeled
from forebear.data.labeled.source import LabeledSource, count_form_mismatches, read_labeled
from forebear.data.source import ProgressFn, TextSource, reopen_corpus, reopen_parallel_corpus
from forebear.data.tokenizers.char_ids import NUM_WORD_MARKERS, truncation_stats
from forebear.data.tokenizers.tokenizer_json import preprocessing_steps
from forebear.errors import InputError
from forebear.experiments.evaluator import already_trained_on
from forebear.experiments.plan import MAX_EVAL_EXAMPLES, AdaptPlan, PretrainPlan, plan_adaptation
from forebear.experiments.preview import pipeline_stages
from forebear.experiments.warm_start import MAX_TEXTS, InitFrom, VectorCoverage
from forebear.heads import head_capabilities
from forebear.models.spec import ModelSpec
from forebear.objectives.batch import Objective, PrepassObjective
from forebear.objectives.seq2seq import SequenceToSequence
from forebear.registry import model_name
from forebear.statistical.array_pool import tune_malloc
from forebear.tasks.baselines import TaskBaseline, task_baseline
from forebear.tasks.metrics import oov_tagging_accuracy
from forebear.tasks.tagging import SequenceTagging
from forebear.tasks.task import Task, predict_logits
from forebear.tasks.task_batches import ExampleEpochs, ExampleRows, FullBatch
from forebear.training import diagnostics
from forebear.training.card import write_card
from forebear.training.learners import Learner
from forebear.training.load_model import (
    balanced_label_weights,
    learner_for,
    prepass,
    spill_to_run_folder,
    task_learner,
    uses_full_batch,
)
from forebear.training.run_folder import RUN_FILE, RunFolder
from forebear.training.settings import BUDGETS, Recipe, merge_recipe
from forebear.training.trainer import Trainer, TrainingCallback
from forebear.training.worker_processes import SINGLE_PROCESS, ProcessGroup

if TYPE_CHECKING:
    from torch import Tensor

    from forebear.nn.encoder import TokenVectors

# Where a run goes: a free folder, one that holds the same run already, or one that is to be replaced.


def output_folder(folder: Path, asked: dict[str, Any], free: bool, overwrite: bool) -> tuple[Path, RunFolder | None]:
    """Where the run goes, and the run that is there: this one, or one to be replaced.

    A place of our own choice gets a number if it is taken.
    """
    number = 1
    while True:
        at = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if not at.exists() or (at.is_dir() and all(_begun(item.name) for item in at.iterdir())):
            return at, None
        try:
            there = RunFolder.open(at)
        except InputError:
            if not free:
                raise InputError("exists and is no run", file=at, hint="choose another folder with --to") from None
            there = None
        if there is not None and (there.metadata.get("asked") == asked or (overwrite and not free)):
            return at, there
        if not free:
            hint = "add --overwrite to replace it, or choose another folder with --to"
            raise InputError("holds another run", file=at, hint=hint)
        number += 1


def _begun(name: str) -> bool:
    """Whether a file may be left by a run that was killed before it was one."""
    return name in (TOKENIZER_FILE, LEDGER_FILE) or (name.startswith(".") and name.endswith(".tmp"))


@contextlib.contextmanager
def replace_run(there: RunFolder | None) -> Iterator[None]:
    """While another run begins in its place, the old one stands aside; it comes back if that fails."""
    if there is None:
        yield
        return
    aside = there.path.with_name(f".{there.path.name}.replaced")
    with there.lock():
        if (aside / RUN_FILE).is_file():  # of an earlier replacement that was killed
            shutil.rmtree(aside)
        there.path.rename(aside)
        try:
            yield
        except BaseException:
            shutil.rmtree(there.path, ignore_errors=True)
            aside.rename(there.path)
            raise
        shutil.rmtree(aside, ignore_errors=True)


MEASURED_CHARACTERS = 1_000_000  # bytes of held-out text that the final measurement reads
TRANSLATED = 500  # held-out pairs that it translates


def run_pretraining(
    what: PretrainPlan,
    to: str | Path | None = None,
    *,
    overwrite: bool = False,
    workers: int | None = None,
    command: str | None = None,
    parent: str | None = None,
    watcher: TrainingCallback | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
    corpus: Corpus | ParallelCorpus | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Trains what was planned into a folder; a folder that holds the same run, begun or finished, is gone on with.

    `corpus` is the text as it is already prepared, where that is known.
    """
    group.validate(model_name(what.spec), what.spec.learning, is_stateful=what.spec.is_stateful)
    if what.spec.learning == "counting":
        tune_malloc()
        if what.recipe.time is not None and not what.spec.counts_again:
            name = model_name(what.spec)
            (watcher or TrainingCallback()).on_note(
                f"{name} counts every text once, however long that takes: --time is not heeded"
            )
    corpus = corpus or what.prepare_corpus(workers=workers, learning_progress=learning_progress, progress=progress)
    asked = {
        "milestone": model_name(what.spec),
        "fields": asdict(what.spec),
        "recipe": what.recipe.to_dict(),
        "corpus": corpus.key,
    }
    if what.init_from is not None:
        asked["beginning"] = asdict(what.init_from) | {"words": list(what.init_from.words)}
    wanted = Path(to) if to is not None else Path("runs") / asked["milestone"]
    folder, there = output_folder(wanted, asked, to is None, overwrite)
    goes_on = there is not None and there.metadata.get("asked") == asked
    if there is not None and goes_on and there.is_finished:
        (watcher or TrainingCallback()).on_note("this run is finished already: nothing was trained")
        return there
    recipe = there.recipe_for(group.size) if there is not None and goes_on else what.recipe
    with what.error_context():
        split = corpus.split(recipe.held_out)
        # before anything is written: most mistakes show here
        ready = PretrainSetup.from_plan(what.spec, corpus, recipe, split, what.init_from, progress)
    if there is not None and goes_on:
        return train_run(there, ready, watcher, group)
    watcher = watcher or TrainingCallback()
    for note in what.notes:
        watcher.on_note(note)
    for stage in pipeline_stages(what, corpus, split, ready.objective, ready.learner, try_loss=False):
        watcher.on_stage(stage.number, stage.name, stage.words)
    with replace_run(there):
        facts = pretrain_metadata(what, corpus, asked, folder, command, parent)
        run = RunFolder.create(folder, facts, corpus.tokenizer, corpus.ledger.to_dict() | ready.truncation_stats)
    return train_run(run, ready, watcher, group)


def pretrain_metadata(
    what: PretrainPlan,
    corpus: Corpus | ParallelCorpus,
    asked: dict[str, Any],
    folder: Path,
    command: str | None,
    parent: str | None,
) -> dict[str, Any]:
    """What a run says of itself when it begins."""
    return {
        "name": folder.name,
        "milestone": asked["milestone"],
        "size": what.size,
        "fields": asked["fields"],
        "parent": parent if what.init_from is None else what.init_from.run,
        "beginning": asked.get("beginning"),
        "recipe": asked["recipe"],
        "data": {
            "source": what.source.to_dict(),
            "corpus": corpus.key,
            "folder": str(corpus.folder.absolute()),
            **{name: corpus.metadata["counts"][name] for name in ("documents", "tokens", "bytes")},
        },
        "asked": asked,
        "command": command or what.command_line(folder),
    }


def resume_pretraining(
    folder: str | Path, *, watcher: TrainingCallback | None = None, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    """Goes on with a run that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.require_trainable()
    if run.is_finished:
        (watcher or TrainingCallback()).on_note("this run is finished already: nothing was trained")
        return run
    if "distilled" in run.metadata:
        hint = f"go on with it by: {run.resume_command}"
        raise InputError("was distilled: it needs its teacher to go on", file=run.path, hint=hint)
    if run.metadata.get("data") is None:
        what = "was imported, not trained here: there is nothing to go on with"
        raise InputError(what, file=run.path, hint="train a run of your own: forebear pretrain MILESTONE TEXT")
    corpus = _corpus_of(run)
    split = corpus.split(run.recipe.held_out)
    begun = run.checkpoints.newest_valid()[0] is not None  # then the run it began with is needed no more
    beginning = None if begun else InitFrom.from_dict(run.metadata.get("beginning"))
    group.validate(run.metadata["milestone"], run.spec.learning, is_stateful=run.spec.is_stateful)
    recipe = run.recipe_for(group.size)
    return train_run(run, PretrainSetup.from_plan(run.spec, corpus, recipe, split, beginning), watcher, group)


def repeat_run(
    folder: str | Path, to: str | Path, *, overwrite: bool = False, watcher: TrainingCallback | None = None
) -> RunFolder:
    """Repeats a finished run, step by step as it was, into another folder."""
    run = RunFolder.open(folder)
    run.require_trainable()
    if run.metadata.get("data") is None:
        raise InputError("was imported: there is no training to repeat", file=run.path, hint="repeat a run made here")
    if "distilled" in run.metadata or "task" in run.metadata:
        what = "only pre-training is repeated step by step; the same command makes this run again"
        raise InputError(what, file=run.path, hint=run.metadata.get("command") or "call it again")
    if not run.is_finished:
        hint = f"finish it first: forebear pretrain --resume {run.path}"
        raise InputError("only a finished run can be repeated", file=run.path, hint=hint)
    pace = run.metadata["pace"]
    settings = {name: value for name, value in run.metadata["recipe"].items() if name not in BUDGETS}
    exact = {"steps": pace["total"], "warmup": pace["warmup"], "fall": pace["fall"]}
    processes = run.metadata.get("processes", 1)  # one process adds up the parts of a step as several do
    exact["accumulate"] = -(-settings.get("accumulate", 1) // processes) * processes
    if run.spec.learning == "counting":
        exact = {"steps": run.metadata["step"]}
    what = PretrainPlan(
        run.spec,
        run.metadata["size"],
        TextSource.from_dict(run.metadata["data"]["source"]),
        run.tokenizers,
        None,
        merge_recipe(settings, exact),
        InitFrom.from_dict(run.metadata.get("beginning")),
    )
    corpus = _corpus_of(run)  # the text of then, or a word about its having changed
    return run_pretraining(
        what, to, overwrite=overwrite, command=run.metadata.get("command"), watcher=watcher, corpus=corpus
    )


def _corpus_of(run: RunFolder) -> Corpus | ParallelCorpus:
    """The text that a run learns, or learned, from."""
    sides = run.tokenizers
    if isinstance(sides, TokenizerPair):
        return reopen_parallel_corpus(run.metadata["data"], sides, run.recipe.held_out)
    return reopen_corpus(run.metadata["data"], sides)


@dataclass(frozen=True)
class PretrainSetup:
    """Everything that training needs beside its folder."""

    split: CorpusSplit
    objective: Objective
    learner: Learner
    unigram_loss: float | None
    notes: list[str]
    truncation_stats: dict[str, Any]  # of words that are longer than is read, for the ledger

    @classmethod
    def from_plan(
        cls,
        milestone: ModelSpec,
        corpus: Corpus | ParallelCorpus,
        recipe: Recipe,
        split: CorpusSplit,
        beginning: InitFrom | None,
        progress: ProgressFn | None = None,
    ) -> PretrainSetup:
        tokenizer: Any = corpus.tokenizer
        notes = list(diagnostics.text_warnings(corpus, milestone.least_count))
        if split.method == "position":
            notes.append(
                "there are too few documents to hold some out by what they say: the end of the text is held out"
            )
        objective = milestone.objective(tokenizer)
        objective.check(split.train)
        if isinstance(objective, PrepassObjective):
            for portion in (split.train, split.held_out):
                objective.prepass(portion, progress)
        notes += _told_of_pairs(corpus, split, objective)
        given, told = beginning.initial_tensors(milestone, tokenizer) if beginning else (None, [])
        learner = learner_for(milestone, tokenizer, recipe, given)
        descends = milestone.learning == "descending"
        cut, long = _cut_words(learner.model.encoder.embedding if descends else None, corpus)
        notes += long
        prepass(learner, objective, split.train)
        end = tokenizer.special_roles.get("end")
        unigram = None
        if end is not None and milestone.learning != "sweeping" and len(split.held_out):
            sides = split.train.targets_only, split.held_out.targets_only
            unigram = diagnostics.unigram_entropy(
                *sides, tokenizer.vocab_size, end, tokenizer.special_roles.get("unknown")
            )
        return cls(split, objective, learner, unigram, [*notes, *told], cut)


def _cut_words(embedding: TokenVectors | None, corpus: Corpus | ParallelCorpus) -> tuple[dict[str, Any], list[str]]:
    """Words that are longer than what is read of them, where they are read by how they are written."""
    spelling = None if embedding is None else embedding.spelling
    if spelling is None or not isinstance(corpus, Corpus):
        return {}, []
    found = truncation_stats(spelling, corpus.tokenizer.vocabulary(), corpus.ids)
    if not found["words"]:
        return {"spelling": found}, []
    most = spelling.longest - NUM_WORD_MARKERS
    what = f"{found['words']:,} words are longer than {most} bytes, and {found['tokens']:,} tokens of the text are such"
    return {"spelling": found}, [f"{what}: they are read as far as that (--longest reads more); ledger.json names some"]


def _told_of_pairs(corpus: Corpus | ParallelCorpus, split: CorpusSplit, objective: Objective) -> list[str]:
    """What of parallel text is not learned from, and why."""
    if not isinstance(objective, SequenceToSequence):
        return []
    notes = [f"{listed.count:,} pairs were left out: {reason}" for reason, listed in corpus.ledger.drops.items()]
    assert isinstance(split.train, ParallelSubset)
    if left := objective.num_too_long(split.train):
        what = f"{left:,} pairs have more than {objective.max_length - 1} tokens on a side and are not learned from"
        notes.append(f"{what}; a larger --context, or sentences instead of paragraphs, would keep them")
    return notes


def train_run(
    run: RunFolder, ready: PretrainSetup, watcher: TrainingCallback | None, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    watcher = watcher or TrainingCallback()
    with explain_disk_errors(run.path), run.lock():
        run.metadata = RunFolder.open(run.path).metadata  # another process may have gone on with it meanwhile
        if not run.is_finished:
            _finish(run, ready, watcher, group)
    return run


def _finish(run: RunFolder, ready: PretrainSetup, watcher: TrainingCallback, group: ProcessGroup) -> None:
    """Trains, measures and writes the card, whatever of that is not done yet."""
    for note in ready.notes:
        watcher.on_note(note)
    if run.metadata["state"] != "trained":
        split = ready.split
        shares = {"train": split.train.num_tokens, "held_out": split.held_out.num_tokens, "by": split.method}
        facts = {"notes": ready.notes, "unigram_nats": ready.unigram_loss, "processes": group.size}
        run.update(data=run.metadata["data"] | {"split": shares}, **facts)
        way = run.spec.learning
        again = run.spec.counts_again
        once = way == "counting" and not again
        once = once or not ready.learner.model.heads  # what is not predicted is not learned better
        how: dict[str, Any] = {
            "single_pass": once,
            "keep_last": way == "sweeping",
            "by_epoch": again,
            "unigram": ready.unigram_loss,
        }
        with spill_to_run_folder(ready.learner.model, run), group.wrap_learner(ready.learner) as learner:
            Trainer(run, learner, ready.objective, split, **how, watcher=watcher).run()
    run.checkpoints.prune(1, set())  # once more: a crash or a failing disk may have left some
    _measure(run, ready.split.held_out, watcher)


def _measure(run: RunFolder, held_out: Subset | ParallelSubset, watcher: TrainingCallback) -> None:
    """The final measurement on held-out text, the same documents for every milestone; then the run is finished."""
    from forebear.inference.run import Run
    from forebear.inference.translate import evaluate_translations

    opened = Run(run)
    facts: dict[str, Any] = {"parameters": opened.num_parameters}
    if not len(held_out):
        pass  # all of the text has taught
    elif isinstance(held_out, Subset) and run.spec.learning == "sweeping":
        told = opened.measure(held_out.first(MEASURED_CHARACTERS)).to_dict()
        facts["metrics"] = {"held_out": {"loss": run.metadata["held_out_loss"], **told}}
        facts["example"] = opened.word_table.example
    elif "measure" in head_capabilities(opened.heads, encodes=False):
        began = time.monotonic()
        if isinstance(held_out, ParallelSubset):
            measured = evaluate_translations(opened, *held_out.first(TRANSLATED).texts()).to_dict()
        else:
            measured = opened.measure(held_out.first(MEASURED_CHARACTERS)).to_dict()
        facts["metrics"] = {"held_out": measured}
        facts["measuring_seconds"] = round(time.monotonic() - began, 3)
    notes = [*opened.notes, *(opened.network.notes if run.spec.learning != "descending" else [])]
    for note in notes:
        watcher.on_note(note)
    run.metadata |= {**facts, "notes": [*run.metadata.get("notes", []), *notes]}
    write_card(run)
    run.update(state="finished")  # last: what is finished is whole


# From a run and labelled examples to a run that does the task: read, encode, train, choose the best, measure.


__all__ = ["AdaptPlan", "plan_adaptation", "resume_adaptation", "run_adaptation"]

WIDE = "１"  # what nfkc makes 1 of


def run_adaptation(
    what: AdaptPlan,
    to: str | Path | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    watcher: TrainingCallback | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Adapts what was planned into a folder; a folder that holds the same, begun or finished, is gone on with."""
    watcher = watcher or TrainingCallback()
    group.validate(model_name(what.spec), what.spec.task_learner)
    asked = what.request
    wanted = Path(to) if to is not None else Path("runs") / f"{asked['milestone']}-{what.task.name}"
    folder, there = output_folder(wanted, asked, to is None, overwrite)
    goes_on = there is not None and there.metadata.get("asked") == asked
    if there is not None and goes_on and there.is_finished:
        watcher.on_note("this run is finished already: nothing was trained")
        return there
    recipe = there.recipe_for(group.size) if there is not None and goes_on else what.recipe
    ready = AdaptSetup.from_plan(replace(what, recipe=recipe))
    if there is not None and goes_on:
        return train_adaptation(there, ready, watcher, group)
    with replace_run(there):
        run = RunFolder.create(folder, adapt_metadata(what, asked, folder, command), what.tokenizer, None)
    return train_adaptation(run, ready, watcher, group)


def adapt_metadata(what: AdaptPlan, asked: dict[str, Any], folder: Path, command: str | None) -> dict[str, Any]:
    """What a run says of itself when it begins."""
    return {
        "name": folder.name,
        "milestone": asked["milestone"],
        "size": what.size,
        "fields": asked["fields"],
        "parent": None if what.init_from is None else what.init_from.run,
        "task": asked["task"],
        "adaptation": asked["adaptation"],
        "recipe": asked["recipe"],
        "labelled": {"source": asked["examples"], "digests": asked["digests"], "sides": what.labeled_data.metadata},
        "data": None,
        "asked": asked,
        "command": command,
    }


def resume_adaptation(
    folder: str | Path, *, watcher: TrainingCallback | None = None, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    """Goes on with an adaptation that was broken off; the folder knows the rest."""
    run = RunFolder.open(folder)
    run.require_trainable()
    watcher = watcher or TrainingCallback()
    if run.is_finished:
        watcher.on_note("this run is finished already: nothing was trained")
        return run
    if "distilled" in run.metadata:
        hint = f"go on with it by: {run.resume_command}"
        raise InputError("was distilled: it needs its teacher to go on", file=run.path, hint=hint)
    if run.task is None:
        raise InputError("was not adapted to a task", file=run.path, hint=f"go on with it by: {run.resume_command}")
    source = LabeledSource.from_dict(run.metadata["labelled"]["source"])
    for side, path in source.files().items():
        if not Path(path).is_file():
            raise InputError(f"the {side} examples of this run are gone", file=path, hint="put them back")
    if source.digests() != run.metadata["labelled"]["digests"]:
        hint = "put the old files back, or adapt anew with the new ones"
        raise InputError("the examples of this run have changed since it began", file=source.train, hint=hint)
    parent = run.metadata["parent"]
    begun = run.checkpoints.newest_valid()[0] is not None  # then the run it began with is needed no more
    beginning = InitFrom(parent, run.metadata["asked"]["beginning"]) if parent and not begun else None
    what = AdaptPlan(
        run.spec,
        run.metadata["size"],
        run.tokenizer,
        beginning,
        source,
        read_labeled(source),
        run.task,
        run.adaptation,
        run.recipe_for(group.size),
    )
    group.validate(run.metadata["milestone"], run.spec.task_learner)
    return train_adaptation(run, AdaptSetup.from_plan(what), watcher, group)


@dataclass(frozen=True, eq=False)
class AdaptSetup:
    """Everything that training needs beside its folder: the sides as rows, an objective and a learner."""

    plan: AdaptPlan
    train: ExampleRows
    held_out: ExampleRows
    eval_examples: ExampleRows  # those of held_out that are looked at on the way
    objective: ExampleEpochs | FullBatch
    learner: Learner
    notes: list[str]
    lacked: VectorCoverage | None = None  # where vectors of words were given

    @classmethod
    def from_plan(cls, what: AdaptPlan) -> AdaptSetup:
        layout = what.spec.input_format(what.tokenizer)
        train = what.task.encode(what.labeled_data.train, what.tokenizer, layout, learning=True)
        dev = what.labeled_data.dev
        held_out = what.task.encode(dev, what.tokenizer, layout)
        judged = (
            held_out
            if len(dev) <= MAX_EVAL_EXAMPLES
            else what.task.encode(dev[:MAX_EVAL_EXAMPLES], what.tokenizer, layout)
        )
        notes = list(what.labeled_data.notes)
        normalised, _ = preprocessing_steps(what.tokenizer.spec["normalizer"], None)
        if what.task.name == "tagging" and normalised(WIDE) == WIDE:
            notes += count_form_mismatches(what.labeled_data)
        if train.num_truncated:
            share = train.num_truncated / (train.num_truncated + int(train.example_lengths.sum()))
            notes.append(
                f"{train.num_truncated:,} tokens ({share:.1%}) do not fit into rows of {layout.max_length} and are not read"
            )
        given, lacked = _given(what, train)
        notes += lacked.notes() if lacked is not None else []
        weights = balanced_label_weights(what.task, what.labeled_data.train) if what.adaptation.balanced else None
        learner = task_learner(
            what.spec,
            what.tokenizer,
            what.task,
            what.adaptation,
            what.recipe,
            pretrained=given,
            label_weights=weights,
        )
        objective = ExampleEpochs(what.adaptation.language, length_grouping=_goes_word_by_word(what, learner))
        objective = FullBatch() if uses_full_batch(what.spec, what.task) else objective
        objective.check(train)
        return cls(what, train, held_out, judged, objective, learner, notes, lacked)

    def evaluate(self) -> tuple[dict[str, float], float]:
        """The task's figure on held-out examples, and how far it is from perfect."""
        task, examples = self.plan.task, self.plan.labeled_data.dev[:MAX_EVAL_EXAMPLES]
        answers = task.predictions(examples, self.eval_examples, predict_logits(self.learner.model, self.eval_examples))
        score = float(task.evaluate(examples, answers)[task.score])
        return {task.score: score}, 1.0 - score


def _goes_word_by_word(what: AdaptPlan, learner: Learner) -> bool:
    if what.spec.learning == "counting":  # without torch
        return False
    from forebear.nn.recurrent import RecurrentLayer

    return any(isinstance(module, RecurrentLayer) for module in learner.model.modules())


def _given(what: AdaptPlan, train: ExampleRows) -> tuple[dict[str, Tensor] | None, VectorCoverage | None]:
    """The tensors of the run to begin with; and what it has no vectors for, where vectors of words are all it has."""
    beginning = what.init_from
    if beginning is None or beginning.folder.spec.learning == "counting":
        return None, None
    if beginning.folder.spec.needs_task_encoder:
        from forebear.experiments.warm_start import pretrained_rows

        given = pretrained_rows(beginning.folder, what.tokenizer, what.recipe.seed)
        texts = [text for example in what.labeled_data.train[:MAX_TEXTS] for text in example_texts(example)]
        return given.tensors, VectorCoverage.count(train.tokens, given.is_pretrained, what.tokenizer, texts)
    from safetensors.torch import load_file

    return load_file(beginning.folder.verified_weights()[0]), None


def train_adaptation(
    run: RunFolder, ready: AdaptSetup, watcher: TrainingCallback, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    with explain_disk_errors(run.path), run.lock():
        run.metadata = RunFolder.open(run.path).metadata  # another process may have gone on with it meanwhile
        if run.is_finished:
            return run
        notes = [*ready.notes, *_flattered(run, ready.plan.source)]
        for note in notes:
            watcher.on_note(note)
        if run.metadata["state"] != "trained":
            without = {"without_vectors": ready.lacked.to_dict()} if ready.lacked is not None else {}
            run.update(notes=notes, processes=group.size, **without)
            counting = run.spec.learning == "counting" and not uses_full_batch(run.spec, ready.plan.task)
            with group.wrap_learner(ready.learner) as learner:
                led = replace(ready, learner=learner)
                Trainer(run, learner, ready.objective, ready, single_pass=counting, judge=led.evaluate, watcher=watcher).run()
        run.checkpoints.prune(1, set())  # once more: a crash or a failing disk may have left some
        _adapting_measure(run, ready, watcher)
    return run


def _flattered(run: RunFolder, source: LabeledSource) -> list[str]:
    """That the run it begins with knows the examples by which it is judged."""
    if "distilled" in run.metadata:  # its teacher held out the same ones
        return []
    files, parent = source.files(), run.metadata.get("parent")
    found = dict.fromkeys(
        files[side] for side in already_trained_on(parent, source, run.metadata["labelled"]["digests"])
    )
    return [
        f"the run it begins with has learned from {file} already: figures on held-out parts of it say too much"
        for file in found
    ]


def _no_better(what: AdaptPlan, blind: TaskBaseline, figures: Mapping[str, Any]) -> list[str]:
    """That it does no better than what needs no learning, on the examples that were measured."""
    score = float(figures[what.task.score])
    nothing_to_find = figures.get("entities") == 0
    if score > blind.score or score == 1 or nothing_to_find:
        return []
    hint = "more examples may help"
    if what.spec.learning != "counting":
        hint = "give it more time or examples, another --rate, or a run that was pre-trained longer"
    return [f"it does no better than this: {blind.meaning} ({blind.score:.3f}); {hint}"]


def _figures(what: AdaptPlan, task: Task, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, Any]:
    """The task's own, and of plain tags what only who has the training examples can say: how words it never saw do."""
    figures = task.evaluate(examples, answers)
    if not isinstance(task, SequenceTagging) or not task.is_plain:
        return figures
    known = {word for example in what.labeled_data.train for word in example.words}
    return figures | oov_tagging_accuracy(examples, answers, known)


def _adapting_measure(run: RunFolder, ready: AdaptSetup, watcher: TrainingCallback) -> None:
    """Calibrates on the held-out examples, measures on all sides that have labels; then the run is finished."""
    from forebear.inference.run import Run

    opened = Run(run)
    what, network = ready.plan, opened.network
    layout = what.spec.input_format(what.tokenizer)
    logits = predict_logits(network, ready.held_out)
    task = what.task.calibrate(what.labeled_data.dev, ready.held_out, logits)
    metrics = {
        "dev": _figures(
            what, task, what.labeled_data.dev, task.predictions(what.labeled_data.dev, ready.held_out, logits)
        )
    }
    tested = [example for example in what.labeled_data.test if is_labeled(example)]
    if tested:
        rows = task.encode(tested, what.tokenizer, layout)
        metrics["test"] = _figures(what, task, tested, task.predictions(tested, rows, predict_logits(network, rows)))
    elif what.labeled_data.test:
        answer = f"they are answered by: forebear {task.verb} {run.path} --in {what.source.test}"
        watcher.on_note(f"the test examples have no labels: nothing is measured on them; {answer}")
    side, last = ("test", tested) if tested else ("dev", [one for one in what.labeled_data.dev if is_labeled(one)])
    blind = task_baseline(task, what.labeled_data.train, last)
    run.metadata |= {"task": task.to_dict(), "metrics": metrics, "parameters": network.num_parameters}
    run.metadata["baseline"] = asdict(blind) | {"side": side}
    notes = [*opened.notes, *_no_better(what, blind, metrics[side])]
    for note in notes:
        watcher.on_note(note)
    run.metadata["notes"] = [*run.metadata.get("notes", []), *notes]
    write_card(run)
    run.update(state="finished")  # last: what is finished is whole
