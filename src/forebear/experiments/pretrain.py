"""The Python API of training: pretrain, adapt, resume, rerun, load and import_run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Unpack

from forebear.data.io.sources import PathLike
from forebear.data.io.text_formats import TextFormat
from forebear.data.labeled.labeled_source import labeled_source
from forebear.data.source import TextSource
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.experiments import training_run
from forebear.experiments.plan import RECIPE_FILE_KEYS, has_field, plan_adaptation, plan_pretraining
from forebear.experiments.pretrain_tagger import implied_task, is_tagged_training, plan_tagging, resume_any
from forebear.experiments.warm_start import resolve_initial_run
from forebear.inference.run import Run
from forebear.interop import convert
from forebear.interop.word_vectors import VectorFileOptions
from forebear.training.adaptation import Adaptation
from forebear.training.process_group import ProcessGroup, launch_processes
from forebear.training.settings import read_recipe
from forebear.training.trainer import TrainingCallback

FORMAT_OPTIONS = ("text_columns", "label_column", "choice_columns", "several", "number", "header", "kind", "encoding")
READ_OPTIONS = ("dev_share", "on_bad_rows", "on_bad_tags")
TASK_OPTIONS = ("crf", "ordered")


def pretrain(
    milestone: str,
    texts: PathLike | Sequence[PathLike] = (),
    *,
    pairs: PathLike | Sequence[PathLike] | None = None,
    columns: str = "",
    to: PathLike | None = None,
    size: str | None = None,
    tokenizer: PathLike | Tokenizer | None = None,
    vocabulary: int | None = None,
    target_tokenizer: PathLike | None = None,
    target_vocabulary: int | None = None,
    recipe: PathLike | None = None,
    overwrite: bool = False,
    documents: str = "blank",
    format: str = "auto",  # noqa: A002 - the command line's word
    field: str = "text",
    column: str = "",
    encoding: str = "utf-8",
    on_bad_bytes: str = "fail",
    sentences: str = "split",
    segment: bool = False,
    user_dict: PathLike | None = None,
    entities: PathLike | None = None,
    from_run: PathLike | None = None,
    add_words: PathLike | None = None,
    workers: int | None = None,
    processes: int | None = None,
    shard: bool = False,
    callback: TrainingCallback | None = None,
    **settings: Any,
) -> Run:
    """Train a model on text files, as `forebear pretrain` does, with the same options.

    A folder that holds the same run is resumed, or opened if it is finished. Some models, such as crf, are trained on
    tagged text; then the run is a tagger, as of `adapt`, with the settings on_bad_rows="skip" and
    on_bad_tags="repair".

    Args:
        milestone: The name of the model.
        texts: Text files, folders, or a prepared corpus.
        pairs: Parallel text instead, for translation models: two aligned files, or one with both sides in `columns`.
        to: The run folder; by default in runs/.
        from_run: A run to continue training from.
        add_words: A file of words to add to its vocabulary.
        settings: Settings of the recipe (time="5m", steps=, tokens=, epochs=, batch=, rate=, seed=, …) and fields of
            the model (width=, depth=, order=, …).

    Returns:
        The finished run.
    """
    if pairs is not None and isinstance(pairs, str) and has_field(milestone, "pairs"):
        settings["pairs"], pairs = pairs, None  # BERT's field of this name
    callback = callback or TrainingCallback()
    with _launch_group(processes, shard) as group:
        text_format = TextFormat(documents, format, field, column, encoding, on_bad_bytes)  # pyright: ignore[reportArgumentType]
        dictionary, entities_file = (None if file is None else os.fspath(file) for file in (user_dict, entities))
        segments = segment or dictionary is not None or entities_file is not None
        source = TextSource((), text_format, sentences, segments, dictionary, entities_file, pairs is not None, columns)
        files = texts if pairs is None else pairs
        files = [os.fspath(path) for path in ([files] if isinstance(files, str | os.PathLike) else files)]
        recipe_file = read_recipe(os.fspath(recipe), RECIPE_FILE_KEYS) if recipe is not None else None
        options: dict[str, Any] = {"size": size, "source": source, "recipe": recipe_file, "settings": settings}
        running: dict[str, Any] = {"overwrite": overwrite, "callback": callback, "group": group}
        if is_tagged_training(milestone, files, text_format):
            unused = {"tokenizer": tokenizer, "vocabulary": vocabulary, "from": from_run, "add-words": add_words}
            tag_plan, notes = plan_tagging(milestone, files, **options, unused=unused)
            for note in notes:
                callback.on_note(note)
            return Run(training_run.run_adaptation(tag_plan, to, **running))
        plan = plan_pretraining(
            milestone,
            files,
            **options,
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            target_tokenizer=target_tokenizer,
            target_vocabulary=target_vocabulary,
            init_from=resolve_initial_run(from_run, add_words),
        )
        run = training_run.run_pretraining(plan, to, workers=workers, **running)
    return Run(run)


@contextmanager
def _launch_group(processes: int | None, shard: bool) -> Iterator[ProcessGroup]:
    """The processes that train; exits if this process was one of the workers."""
    with launch_processes(processes, shard=shard) as group:
        if group is None:
            raise SystemExit(0)
        yield group


def resume(
    folder: PathLike, *, processes: int | None = None, shard: bool = False, callback: TrainingCallback | None = None
) -> Run:
    """Resume an interrupted run."""
    with _launch_group(processes, shard) as group:
        return Run(resume_any(folder, callback=callback, group=group))


def rerun(folder: PathLike, *, to: PathLike, overwrite: bool = False, callback: TrainingCallback | None = None) -> Run:
    """Repeat a finished pre-training run step by step in another folder."""
    return Run(training_run.repeat_run(folder, to, overwrite=overwrite, callback=callback))


def load(folder: PathLike) -> Run:
    """Open a trained or imported run."""
    return Run.open(folder)


def import_run(
    source: PathLike,
    *,
    to: PathLike,
    heads: int | None = None,
    task: str | None = None,
    **vectors: Unpack[VectorFileOptions],
) -> Run:
    """Import a model: a Hugging Face folder or hub name, an ARPA file, OpenAI's GPT files, or word vectors.

    Args:
        source: The files.
        to: The run folder.
        heads: Number of attention heads, for OpenAI's files, which do not record it.
        task: Whether a classifier is for single texts or pairs ("classification", "pairs"); "none" drops its head.
        vectors: Options of word vectors: form, limit (number of words), on_bad_bytes.
    """
    return Run(convert.import_model(os.fspath(source), os.fspath(to), heads=heads, task=task, **vectors))


def adapt(
    run: PathLike | Run,
    data: PathLike,
    *,
    to: PathLike | None = None,
    task: str | None = None,
    dev: PathLike | None = None,
    test: PathLike | None = None,
    size: str | None = None,
    overwrite: bool = False,
    processes: int | None = None,
    shard: bool = False,
    callback: TrainingCallback | None = None,
    **settings: Any,
) -> Run:
    """Adapt a run, or a model from scratch, to a task on labeled examples, as `forebear adapt` does.

    Args:
        run: A run, its folder, or the name of a model.
        data: The training set.
        to: The run folder; by default in runs/.
        task: The task; by default detected from the data.
        dev: The dev set; by default held out from the training set.
        test: The test set.
        settings: Those of `Adaptation` (how, freeze_layers, layer_decay, read, …), of the task (crf, ordered), of
            reading (label_column, on_bad_rows, …) and of training (epochs, time, rate, seed, …), named as in the CLI.

    Returns:
        The adapted run.
    """
    callback = callback or TrainingCallback()
    with _launch_group(processes, shard) as group:
        dropout = settings.pop("dropout", None)  # of the encoder; heads have their own
        task_settings = {"dropout" if name == "head_dropout" else name: value for name, value in settings.items()}
        adaptation_fields = [field.name for field in fields(Adaptation)]
        format_options, read_options, options, adaptation = (
            {name: task_settings.pop(name) for name in names if name in task_settings}
            for names in (FORMAT_OPTIONS, READ_OPTIONS, TASK_OPTIONS, adaptation_fields)
        )
        files = {split: None if path is None else os.fspath(path) for split, path in (("dev", dev), ("test", test))}
        start = str(run.folder.path) if isinstance(run, Run) else os.fspath(run)
        task = task or implied_task(start, data)
        source, notes = labeled_source(os.fspath(data), task=task, form=format_options, **files, **read_options)
        for note in notes:
            callback.on_note(note)
        plan = plan_adaptation(
            start, source, how=adaptation, options=options, settings=task_settings, size=size, dropout=dropout
        )
        return Run(training_run.run_adaptation(plan, to, overwrite=overwrite, callback=callback, group=group))
