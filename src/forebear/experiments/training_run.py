"""Run a pre-training or an adaptation: set up, train, measure, write the card; resume or repeat a run."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forebear.capabilities import head_capabilities
from forebear.data.corpus.corpus import LEDGER_FILE, TOKENIZER_FILE, Corpus
from forebear.data.corpus.parallel import ParallelCorpus, ParallelSubset, TokenizerPair
from forebear.data.corpus.subset import CorpusSplit, Subset
from forebear.data.io.atomic import explain_disk_errors
from forebear.data.io.sources import PathLike
from forebear.data.labeled.examples import example_texts, is_labeled
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.labeled.load import read_labeled, unicode_mismatch_notes
from forebear.data.source import ProgressFn, TextSource, reopen_corpus, reopen_parallel_corpus
from forebear.data.tokenizers.char_ids import NUM_WORD_MARKERS, CharIds, truncation_stats
from forebear.data.tokenizers.tokenizer_json import preprocessing_steps
from forebear.errors import InputError
from forebear.experiments.adapt_defaults import MAX_EVAL_EXAMPLES
from forebear.experiments.plan import AdaptPlan, PretrainPlan
from forebear.experiments.plan import plan_adaptation as plan_adaptation
from forebear.experiments.preview import pipeline_stages
from forebear.experiments.run_evaluation import MAX_EVAL_BYTES, baseline_notes, leakage_notes, task_metrics
from forebear.experiments.warm_start import MAX_SEARCHED_TEXTS, InitFrom, pretrained_rows, vector_coverage
from forebear.models.spec import ModelSpec
from forebear.objectives.objective import FirstPassObjective, Objective
from forebear.objectives.seq2seq import SequenceToSequence
from forebear.registry import model_name
from forebear.statistical.disk_backed_arrays import tune_malloc
from forebear.tasks.baselines import task_baseline
from forebear.tasks.task import predict_logits
from forebear.tasks.task_batches import ExampleEpochs, ExampleRows, FullBatch
from forebear.training import diagnostics
from forebear.training.build_learner import balanced_label_weights, learner_for, task_learner, uses_full_batch
from forebear.training.card import write_model_card
from forebear.training.learner import Learner
from forebear.training.ngram_store import spill_to_run_folder
from forebear.training.process_group import SINGLE_PROCESS, ProcessGroup
from forebear.training.run_folder import RUN_FILE, RunFolder
from forebear.training.settings import BUDGETS, Recipe, merge_recipe
from forebear.training.trainer import Trainer, TrainingCallback

if TYPE_CHECKING:
    from torch import Tensor

# --- Output folder ---


def output_folder(
    request: dict[str, Any], to: PathLike | None, default_name: str, overwrite: bool
) -> tuple[Path, RunFolder | None, RunFolder | None]:
    """The folder of a run, the same run in it (to be resumed), and another run in it (to be replaced).

    Without `to` it is a folder of this name in runs/, with a number if that holds another run.
    """
    base_folder, number = Path("runs") / default_name if to is None else Path(to), 1
    while True:
        folder = base_folder if number == 1 else base_folder.with_name(f"{base_folder.name}-{number}")
        number += 1
        if not folder.exists() or (folder.is_dir() and all(_is_leftover(item.name) for item in folder.iterdir())):
            return folder, None, None
        try:
            existing = RunFolder.open(folder)
        except InputError:
            if to is None:
                continue
            raise InputError("exists and is no run", file=folder, hint="choose another folder with --to") from None
        if existing.metadata.get("asked") == request:
            return folder, existing, None
        if to is not None and overwrite:
            return folder, None, existing
        if to is not None:
            hint = "add --overwrite to replace it, or choose another folder with --to"
            raise InputError("holds another run", file=folder, hint=hint)


def _is_leftover(name: str) -> bool:
    """Whether a process that was killed before it wrote run.json may have left this file."""
    return name in (TOKENIZER_FILE, LEDGER_FILE) or (name.startswith(".") and name.endswith(".tmp"))


@contextlib.contextmanager
def replace_run(existing: RunFolder | None) -> Iterator[None]:
    """Rename a run while another one is created in its folder; restore it if that fails."""
    if existing is None:
        yield
        return
    backup = existing.path.with_name(f".{existing.path.name}.replaced")
    with existing.lock():
        if (backup / RUN_FILE).is_file():  # of an earlier replacement that was killed
            shutil.rmtree(backup)
        existing.path.rename(backup)
        try:
            yield
        except BaseException:
            shutil.rmtree(existing.path, ignore_errors=True)
            backup.rename(existing.path)
            raise
        shutil.rmtree(backup, ignore_errors=True)


FINISHED_NOTE = "this run is finished already: nothing was trained"
MAX_EVAL_PAIRS = 500  # held-out pairs in the final measurement of translation


def run_pretraining(
    plan: PretrainPlan,
    to: PathLike | None = None,
    *,
    overwrite: bool = False,
    workers: int | None = None,
    command: str | None = None,
    callback: TrainingCallback | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
    corpus: Corpus | ParallelCorpus | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Train a planned pre-training run; a folder with the same run is resumed, or returned if the run is finished.

    Without `to` the folder is one in runs/. The text is prepared by `workers` processes, unless `corpus` is given;
    `learning_progress` is that of training the tokenizer. `command` is the command line, for the card.
    """
    callback, name = callback or TrainingCallback(), model_name(plan.spec)
    group.validate(name, plan.spec.learning, is_stateful=plan.spec.is_stateful)
    if plan.spec.learning == "counting":
        tune_malloc()
        if plan.recipe.time is not None and not plan.spec.counts_again:
            callback.on_note(f"{name} counts every text once, however long that takes: --time is not heeded")
    corpus = corpus or plan.prepare_corpus(workers=workers, learning_progress=learning_progress, progress=progress)
    request = plan.request(corpus)
    folder, run_to_resume, run_to_replace = output_folder(request, to, name, overwrite)
    if run_to_resume is not None and run_to_resume.is_finished:
        callback.on_note(FINISHED_NOTE)
        return run_to_resume
    recipe = plan.recipe if run_to_resume is None else run_to_resume.recipe_for(group.size)
    with plan.error_context():  # before anything is written, as most errors occur here
        setup = PretrainSetup.from_plan(plan.spec, corpus, recipe, plan.init_from, progress)
    if run_to_resume is not None:
        return train_run(run_to_resume, setup, callback, group)
    for note in plan.notes:
        callback.on_note(note)
    for stage in pipeline_stages(plan, corpus, setup.split, setup.objective, setup.learner, with_loss=False):
        callback.on_stage(stage.number, stage.name, stage.words)
    with replace_run(run_to_replace):
        metadata = new_metadata(plan, request, folder, command, corpus)
        run = RunFolder.create(folder, metadata, corpus.tokenizer, corpus.ledger.to_dict() | setup.truncation_stats)
    return train_run(run, setup, callback, group)


def new_metadata(
    plan: PretrainPlan | AdaptPlan,
    request: dict[str, Any],
    folder: Path,
    command: str | None,
    corpus: Corpus | ParallelCorpus | None = None,
) -> dict[str, Any]:
    """The entries of run.json of a new run."""
    metadata = {"name": folder.name, **{name: request[name] for name in ("milestone", "fields", "recipe")}}
    metadata |= {"size": plan.size, "asked": request, "command": command}
    metadata["parent"] = None if plan.init_from is None else plan.init_from.run
    if isinstance(plan, AdaptPlan):
        metadata |= {name: request[name] for name in ("task", "adaptation")}
        labelled = {"source": request["examples"], "digests": request["digests"], "sides": plan.labeled_data.metadata}
        return metadata | {"labelled": labelled, "data": None}
    assert corpus is not None
    data = {"source": plan.source.to_dict(), "corpus": corpus.key, "folder": str(corpus.folder.absolute())}
    data |= {name: corpus.metadata["counts"][name] for name in ("documents", "tokens", "bytes")}
    command = command or plan.command_line(folder)
    return metadata | {"beginning": request.get("beginning"), "data": data, "command": command}


def _open_resumable(folder: PathLike, callback: TrainingCallback) -> RunFolder:
    """Open a run to resume, with a note if it is already finished."""
    run = RunFolder.open(folder)
    run.require_trainable()
    if run.is_finished:
        callback.on_note(FINISHED_NOTE)
    elif "distilled" in run.metadata:
        hint = f"go on with it by: {run.resume_command}"
        raise InputError("was distilled: it needs its teacher to go on", file=run.path, hint=hint)
    return run


def resume_pretraining(
    folder: PathLike, *, callback: TrainingCallback | None = None, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    """Resume an interrupted pre-training run."""
    callback = callback or TrainingCallback()
    run = _open_resumable(folder, callback)
    if run.is_finished:
        return run
    if run.metadata.get("data") is None:
        message = "was imported, not trained here: there is nothing to go on with"
        raise InputError(message, file=run.path, hint="train a run of your own: forebear pretrain MILESTONE TEXT")
    corpus, recipe = reopen_run_corpus(run), run.recipe_for(group.size)
    group.validate(run.metadata["milestone"], run.spec.learning, is_stateful=run.spec.is_stateful)
    init_from = None if run.checkpoints.newest_valid()[0] else InitFrom.from_dict(run.metadata.get("beginning"))
    return train_run(run, PretrainSetup.from_plan(run.spec, corpus, recipe, init_from), callback, group)


def repeat_run(
    folder: PathLike, to: PathLike, *, overwrite: bool = False, callback: TrainingCallback | None = None
) -> RunFolder:
    """Repeat a finished pre-training run step by step in another folder."""
    run = RunFolder.open(folder)
    run.require_trainable()
    if run.metadata.get("data") is None:
        raise InputError("was imported: there is no training to repeat", file=run.path, hint="repeat a run made here")
    if "distilled" in run.metadata or "task" in run.metadata:
        message = "only pre-training is repeated step by step; the same command makes this run again"
        raise InputError(message, file=run.path, hint=run.metadata.get("command") or "call it again")
    if not run.is_finished:
        hint = f"finish it first: forebear pretrain --resume {run.path}"
        raise InputError("only a finished run can be repeated", file=run.path, hint=hint)
    settings = {name: value for name, value in run.metadata["recipe"].items() if name not in BUDGETS}
    if run.spec.learning == "counting":
        exact_settings = {"steps": run.metadata["step"]}
    else:
        schedule, processes = run.metadata["pace"], run.metadata.get("processes", 1)
        exact_settings = {"steps": schedule["total"], "warmup": schedule["warmup"], "fall": schedule["fall"]}
        # one process sums as many micro-batches as all processes did
        exact_settings["accumulate"] = -(-settings.get("accumulate", 1) // processes) * processes
    source = TextSource.from_dict(run.metadata["data"]["source"])
    init_from = InitFrom.from_dict(run.metadata.get("beginning"))
    recipe = merge_recipe(settings, exact_settings)
    plan = PretrainPlan(run.spec, run.metadata["size"], source, run.tokenizers, None, recipe, init_from)
    corpus, command = reopen_run_corpus(run), run.metadata.get("command")
    return run_pretraining(plan, to, overwrite=overwrite, command=command, callback=callback, corpus=corpus)


def reopen_run_corpus(run: RunFolder) -> Corpus | ParallelCorpus:
    """Open the corpus of a run. Raise InputError if the text has changed."""
    tokenizers = run.tokenizers
    if isinstance(tokenizers, TokenizerPair):
        return reopen_parallel_corpus(run.metadata["data"], tokenizers, run.recipe.held_out)
    return reopen_corpus(run.metadata["data"], tokenizers)


@dataclass(frozen=True)
class PretrainSetup:
    """Data, objective and learner of a pre-training, with notes for the user."""

    split: CorpusSplit
    objective: Objective
    learner: Learner
    unigram_loss: float | None
    notes: list[str]
    truncation_stats: dict[str, Any]  # words longer than the model reads, for the ledger

    @classmethod
    def from_plan(
        cls,
        spec: ModelSpec,
        corpus: Corpus | ParallelCorpus,
        recipe: Recipe,
        init_from: InitFrom | None,
        progress: ProgressFn | None = None,
    ) -> PretrainSetup:
        tokenizer: Any = corpus.tokenizer
        split = corpus.split(recipe.held_out)
        notes = list(diagnostics.text_warnings(corpus, spec.min_word_count))
        if split.method == "position":
            reason = "there are too few documents to hold some out by what they say"
            notes.append(f"{reason}: the end of the text is held out")
        objective = spec.objective(tokenizer)
        objective.check(split.train)
        if isinstance(objective, FirstPassObjective):
            for subset in (split.train, split.held_out):
                objective.run_first_pass(subset, progress)
        notes += _dropped_pairs_notes(corpus, split, objective)
        initial_tensors, init_notes = init_from.initial_tensors(spec, tokenizer) if init_from else (None, [])
        learner = learner_for(spec, tokenizer, recipe, initial_tensors)
        truncation, truncation_notes = {}, []
        if spec.learning == "descending" and isinstance(corpus, Corpus):
            truncation, truncation_notes = _truncated_words(learner.model.encoder.embedding.char_ids, corpus)
        learner.run_first_pass(objective, split.train)
        eos_id, unk_id = (tokenizer.special_roles.get(role) for role in ("end", "unknown"))
        unigram_loss = None
        if eos_id is not None and spec.learning != "sweeping" and len(split.held_out):
            subsets = split.train.targets_only, split.held_out.targets_only
            unigram_loss = diagnostics.unigram_entropy(*subsets, tokenizer.vocab_size, eos_id, unk_id)
        return cls(split, objective, learner, unigram_loss, [*notes, *truncation_notes, *init_notes], truncation)

    def train_model(self, run: RunFolder, callback: TrainingCallback, group: ProcessGroup) -> None:
        split, learning = self.split, run.spec.learning
        split_stats = {"train": split.train.num_tokens, "held_out": split.held_out.num_tokens, "by": split.method}
        run.update(data=run.metadata["data"] | {"split": split_stats}, unigram_nats=self.unigram_loss)
        counts_once = learning == "counting" and not run.spec.counts_again
        with spill_to_run_folder(self.learner.model, run), group.wrap_learner(self.learner) as learner:
            Trainer(
                run,
                learner,
                self.objective,
                split,
                single_pass=counts_once or not self.learner.model.heads,  # without a head nothing can improve
                keep_last=learning == "sweeping",
                by_epoch=run.spec.counts_again,
                unigram_loss=self.unigram_loss,
                callback=callback,
            ).run()

    def measure(self, run: RunFolder, callback: TrainingCallback) -> tuple[dict[str, Any], list[str]]:
        """The final measurement on held-out text, the same documents for every model."""
        from forebear.inference.run import Run
        from forebear.inference.translate import evaluate_translations

        opened_run, held_out = Run(run), self.split.held_out
        results: dict[str, Any] = {"parameters": opened_run.num_parameters}
        if not len(held_out):
            pass  # there is no held-out text
        elif isinstance(held_out, Subset) and run.spec.learning == "sweeping":
            metrics = opened_run.measure(held_out.first(MAX_EVAL_BYTES)).to_dict()
            results["metrics"] = {"held_out": {"loss": run.metadata["held_out_loss"], **metrics}}
            results["example"] = opened_run.word_table.example
        elif "measure" in head_capabilities(opened_run.heads, encodes=False):
            start = time.monotonic()
            if isinstance(held_out, ParallelSubset):
                evaluation = evaluate_translations(opened_run, *held_out.first(MAX_EVAL_PAIRS).texts())
            else:
                evaluation = opened_run.measure(held_out.first(MAX_EVAL_BYTES))
            results["metrics"] = {"held_out": evaluation.to_dict()}
            results["measuring_seconds"] = round(time.monotonic() - start, 3)
        return results, [*opened_run.notes, *(opened_run.network.notes if run.spec.learning != "descending" else [])]


def _truncated_words(char_ids: CharIds | None, corpus: Corpus) -> tuple[dict[str, Any], list[str]]:
    """Statistics of words longer than a character-level model reads, and a note on them."""
    if char_ids is None:
        return {}, []
    stats = truncation_stats(char_ids, corpus.tokenizer.vocabulary(), corpus.ids)
    message = f"{stats['words']:,} words are longer than {char_ids.max_symbols - NUM_WORD_MARKERS} bytes, "
    message += f"and {stats['tokens']:,} tokens of the text are such: they are read as far as that "
    message += "(--longest reads more); ledger.json names some"
    return {"spelling": stats}, [message] if stats["words"] else []


def _dropped_pairs_notes(corpus: Corpus | ParallelCorpus, split: CorpusSplit, objective: Objective) -> list[str]:
    """Notes on dropped pairs of parallel text."""
    if not isinstance(objective, SequenceToSequence):
        return []
    notes = [f"{items.count:,} pairs were left out: {reason}" for reason, items in corpus.ledger.drops.items()]
    assert isinstance(split.train, ParallelSubset)
    if num_too_long := objective.num_too_long(split.train):
        limit = objective.max_length - 1
        message = f"{num_too_long:,} pairs have more than {limit} tokens on a side and are not learned from"
        notes.append(f"{message}; a larger --context, or sentences instead of paragraphs, would keep them")
    return notes


# --- Adaptation to a task ---

FULLWIDTH_ONE = "１"  # NFKC maps it to "1"


def run_adaptation(
    plan: AdaptPlan,
    to: PathLike | None = None,
    *,
    overwrite: bool = False,
    command: str | None = None,
    callback: TrainingCallback | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> RunFolder:
    """Train a planned adaptation; a folder with the same run is resumed, or returned if the run is finished."""
    callback, name, request = callback or TrainingCallback(), model_name(plan.spec), plan.request
    group.validate(name, plan.spec.task_learner)

    folder, run_to_resume, run_to_replace = output_folder(request, to, f"{name}-{plan.task.name}", overwrite)
    if run_to_resume is not None and run_to_resume.is_finished:
        callback.on_note(FINISHED_NOTE)
        return run_to_resume
    recipe = plan.recipe if run_to_resume is None else run_to_resume.recipe_for(group.size)
    setup = AdaptSetup.from_plan(replace(plan, recipe=recipe))
    if run_to_resume is not None:
        return train_run(run_to_resume, setup, callback, group)
    with replace_run(run_to_replace):
        run = RunFolder.create(folder, new_metadata(plan, request, folder, command), plan.tokenizer, None)
    return train_run(run, setup, callback, group)


def resume_adaptation(
    folder: PathLike, *, callback: TrainingCallback | None = None, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    """Resume an interrupted adaptation."""
    callback = callback or TrainingCallback()
    run = _open_resumable(folder, callback)
    if run.is_finished:
        return run
    if run.task is None:
        raise InputError("was not adapted to a task", file=run.path, hint=f"go on with it by: {run.resume_command}")
    source = LabeledSource.from_dict(run.metadata["labelled"]["source"])
    for split, path in source.split_paths().items():
        if not Path(path).is_file():
            raise InputError(f"the {split} examples of this run are gone", file=path, hint="put them back")
    if source.digests() != run.metadata["labelled"]["digests"]:
        hint = "put the old files back, or adapt anew with the new ones"
        raise InputError("the examples of this run have changed since it began", file=source.train, hint=hint)
    parent, size, recipe = run.metadata["parent"], run.metadata["size"], run.recipe_for(group.size)
    needs_parent = parent and not run.checkpoints.newest_valid()[0]
    init_from = InitFrom(parent, run.metadata["asked"]["beginning"]) if needs_parent else None
    data = read_labeled(source)
    plan = AdaptPlan(run.spec, size, run.tokenizer, init_from, source, data, run.task, run.adaptation, recipe)
    group.validate(run.metadata["milestone"], run.spec.task_learner)
    return train_run(run, AdaptSetup.from_plan(plan), callback, group)


@dataclass(frozen=True, eq=False)
class AdaptSetup:
    """Encoded splits, objective and learner of an adaptation, with notes for the user."""

    plan: AdaptPlan
    train: ExampleRows
    held_out: ExampleRows
    eval_examples: ExampleRows  # the part of held_out that is evaluated during training
    objective: ExampleEpochs | FullBatch
    learner: Learner
    notes: list[str]
    vector_coverage: dict[str, Any] | None = None  # words without a pre-trained vector

    @classmethod
    def from_plan(cls, plan: AdaptPlan) -> AdaptSetup:
        task, tokenizer, data = plan.task, plan.tokenizer, plan.labeled_data
        input_format = plan.spec.input_format(tokenizer)
        train = task.encode(data.train, tokenizer, input_format, is_training=True)
        held_out = eval_rows = task.encode(data.dev, tokenizer, input_format)
        if len(data.dev) > MAX_EVAL_EXAMPLES:
            eval_rows = task.encode(data.dev[:MAX_EVAL_EXAMPLES], tokenizer, input_format)
        notes = list(data.notes)
        normalize, _ = preprocessing_steps(tokenizer.spec["normalizer"], None)
        if task.name == "tagging" and normalize(FULLWIDTH_ONE) == FULLWIDTH_ONE:
            notes += unicode_mismatch_notes(data)
        if train.num_truncated:
            truncated_fraction = train.num_truncated / (train.num_truncated + int(train.example_lengths.sum()))
            message = f"{train.num_truncated:,} tokens ({truncated_fraction:.1%}) do not fit "
            notes.append(f"{message}into rows of {input_format.max_length} and are not read")
        pretrained, coverage, coverage_notes = _pretrained_tensors(plan, train)
        notes += coverage_notes
        label_weights = balanced_label_weights(task, data.train) if plan.adaptation.balanced else None
        learner = task_learner(
            plan.spec, tokenizer, task, plan.adaptation, plan.recipe, pretrained=pretrained, label_weights=label_weights
        )
        if uses_full_batch(plan.spec, task):
            objective = FullBatch()
        else:
            objective = ExampleEpochs(plan.adaptation.language, length_grouping=_is_recurrent(plan, learner))
        objective.check(train)
        return cls(plan, train, held_out, eval_rows, objective, learner, notes, coverage)

    def evaluate(self) -> tuple[dict[str, float], float]:
        """The task metric on held-out examples, and 1 minus it, which is minimized."""
        task, examples = self.plan.task, self.plan.labeled_data.dev[:MAX_EVAL_EXAMPLES]
        logits = predict_logits(self.learner.model, self.eval_examples)
        predictions = task.predictions(examples, self.eval_examples, logits)
        score = float(task.evaluate(examples, predictions)[task.metric])
        return {task.metric: score}, 1.0 - score

    def train_model(self, run: RunFolder, callback: TrainingCallback, group: ProcessGroup) -> None:
        if self.vector_coverage is not None:
            run.update(without_vectors=self.vector_coverage)
        single_pass = run.spec.learning == "counting" and not uses_full_batch(run.spec, self.plan.task)
        with group.wrap_learner(self.learner) as learner:
            options: dict[str, Any] = {"evaluate_task": replace(self, learner=learner).evaluate, "callback": callback}
            Trainer(run, learner, self.objective, self, single_pass=single_pass, **options).run()

    def measure(self, run: RunFolder, callback: TrainingCallback) -> tuple[dict[str, Any], list[str]]:
        """Calibrate on the dev set, and measure on all labeled splits."""
        from forebear.inference.run import Run

        opened_run, plan, data = Run(run), self.plan, self.plan.labeled_data
        network = opened_run.network
        logits = predict_logits(network, self.held_out)
        task = plan.task.calibrate(data.dev, self.held_out, logits)
        metrics = {"dev": task_metrics(plan, task, data.dev, task.predictions(data.dev, self.held_out, logits))}
        split, eval_examples = "test", [example for example in data.test if is_labeled(example)]
        if eval_examples:
            rows = task.encode(eval_examples, plan.tokenizer, plan.spec.input_format(plan.tokenizer))
            predictions = task.predictions(eval_examples, rows, predict_logits(network, rows))
            metrics["test"] = task_metrics(plan, task, eval_examples, predictions)
        else:
            split, eval_examples = "dev", [example for example in data.dev if is_labeled(example)]
            if data.test:
                command = f"they are answered by: forebear {task.verb} {run.path} --in {plan.source.test}"
                callback.on_note(f"the test examples have no labels: nothing is measured on them; {command}")
        baseline = task_baseline(task, data.train, eval_examples)
        entries = {"task": task.to_dict(), "metrics": metrics, "parameters": network.num_parameters}
        entries["baseline"] = asdict(baseline) | {"side": split}
        return entries, [*opened_run.notes, *baseline_notes(plan, baseline, metrics[split])]


def _is_recurrent(plan: AdaptPlan, learner: Learner) -> bool:
    if plan.spec.learning == "counting":  # without torch
        return False
    from forebear.nn.recurrent import RecurrentLayer

    return any(isinstance(module, RecurrentLayer) for module in learner.model.modules())


def _pretrained_tensors(
    plan: AdaptPlan, train: ExampleRows
) -> tuple[dict[str, Tensor] | None, dict[str, Any] | None, list[str]]:
    """The pre-trained tensors; for word vectors also the words without a vector, and a note on them."""
    init_from = plan.init_from
    if init_from is None or init_from.folder.spec.learning == "counting":
        return None, None, []
    if init_from.folder.spec.needs_task_encoder:
        tensors, is_pretrained = pretrained_rows(init_from.folder, plan.tokenizer, plan.recipe.seed)
        texts = [text for example in plan.labeled_data.train[:MAX_SEARCHED_TEXTS] for text in example_texts(example)]
        return tensors, *vector_coverage(train.tokens, is_pretrained, plan.tokenizer, texts)
    from safetensors.torch import load_file

    return load_file(init_from.folder.verified_weights()[0]), None, []


# --- Training and measurement ---


def train_run(
    run: RunFolder, setup: PretrainSetup | AdaptSetup, callback: TrainingCallback, group: ProcessGroup = SINGLE_PROCESS
) -> RunFolder:
    """Train unless already trained, then measure and write the card."""
    with explain_disk_errors(run.path), run.lock():
        run.metadata = RunFolder.open(run.path).metadata  # another process may have resumed it
        if run.is_finished:
            return run
        notes = [*setup.notes, *(leakage_notes(run, setup.plan.source) if isinstance(setup, AdaptSetup) else ())]
        for note in notes:
            callback.on_note(note)
        if run.metadata["state"] != "trained":
            run.update(notes=notes, processes=group.size)
            setup.train_model(run, callback, group)
        run.checkpoints.prune(1, set())  # again: a crash or a failing disk may have left some
        entries, new_notes = setup.measure(run, callback)
        for note in new_notes:
            callback.on_note(note)
        run.metadata |= {**entries, "notes": [*run.metadata.get("notes", []), *new_notes]}
        write_model_card(run)
        run.update(state="finished")  # last: a finished run is complete
    return run
