"""What `import forebear` offers: the command line's words as functions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Unpack

from forebear.data.io.reader import TextFormat
from forebear.data.labeled.source import labeled_source
from forebear.data.source import TextSource
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.experiments import pipeline
from forebear.experiments.plan import RECIPE_FILE_KEYS, AdaptPlan, has_field, plan_pretraining
from forebear.experiments.tag_plans import implied_task, is_tagged_training, plan_tagging, resume_any
from forebear.experiments.warm_start import init_from
from forebear.inference.run import Run
from forebear.interop import convert
from forebear.interop.word_vectors import VectorFileOptions
from forebear.training.adaptation import Adaptation
from forebear.training.settings import read_recipe
from forebear.training.trainer import TrainingCallback
from forebear.training.worker_processes import ProcessGroup, launch_processes

PathLike = str | os.PathLike[str]
FORM = ("text_columns", "label_column", "choice_columns", "several", "number", "header", "kind", "encoding")
READ = ("dev_share", "on_bad_rows", "on_bad_tags")
OPTIONS = ("crf", "ordered")


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
    watcher: TrainingCallback | None = None,
    **settings: Any,
) -> Run:
    """Trains a milestone on text files and returns the run, as `forebear pretrain` does, with the same words.

    `settings` are the recipe's (time="5m", steps=, tokens=, epochs=, batch=, rate=, seed=, …) and the milestone's own
    fields (width=, depth=, order=, …). A folder that holds the same run already is gone on with, or opened if finished.
    Words with their tags teach some milestones, such as crf: what comes of it is a run that tags, as of `adapt`; then
    on_bad_rows="skip" and on_bad_tags="repair" are settings too.
    `pairs`, instead of texts, are two files line by line, or one with both sides in `columns`, for `transformer`.
    `from_run` is a run whose weights to begin with, and `add_words` a file of words for its vocabulary.
    """
    if pairs is not None and isinstance(pairs, str) and has_field(milestone, "pairs"):
        settings["pairs"], pairs = pairs, None  # BERT's, which are another thing
    with _together(processes, shard) as group:
        reading = TextFormat(documents, format, field, column, encoding, on_bad_bytes)  # pyright: ignore[reportArgumentType]
        dictionary, names = (None if file is None else os.fspath(file) for file in (user_dict, entities))
        finds = segment or dictionary is not None or names is not None
        source = TextSource((), reading, sentences, finds, dictionary, names, pairs is not None, columns)
        files = _paths(texts if pairs is None else pairs)
        written = read_recipe(os.fspath(recipe), RECIPE_FILE_KEYS) if recipe is not None else None
        how: dict[str, Any] = {"size": size, "source": source, "recipe": written, "settings": settings}
        place = os.fspath(to) if to is not None else None
        if is_tagged_training(milestone, files, reading):
            idle = {"tokenizer": tokenizer, "vocabulary": vocabulary, "from": from_run, "add-words": add_words}
            return _taught(plan_tagging(milestone, files, **how, idle=idle), place, overwrite, watcher, group)
        what = plan_pretraining(
            milestone,
            files,
            **how,
            tokenizer=tokenizer,
            vocabulary=vocabulary,
            target_tokenizer=target_tokenizer,
            target_vocabulary=target_vocabulary,
            beginning=init_from(from_run, add_words),
        )
        run = pipeline.run_pretraining(what, place, overwrite=overwrite, workers=workers, watcher=watcher, group=group)
    return Run(run)


def _paths(given: PathLike | Sequence[PathLike]) -> list[str]:
    return [os.fspath(one) for one in ([given] if isinstance(given, str | os.PathLike) else given)]


def _taught(
    planned: tuple[AdaptPlan, list[str]],
    to: str | None,
    overwrite: bool,
    watcher: TrainingCallback | None,
    group: ProcessGroup,
) -> Run:
    """By words and their tags: what `adapt` does from nothing."""
    what, notes = planned
    for note in notes:
        (watcher or TrainingCallback()).on_note(note)
    return Run(pipeline.run_adaptation(what, to, overwrite=overwrite, watcher=watcher, group=group))


@contextmanager
def _together(processes: int | None, shard: bool) -> Iterator[ProcessGroup]:
    """The processes that train; where this is not the first of them, its work is then done, and it ends."""
    with launch_processes(processes, shard=shard) as group:
        if group is None:
            raise SystemExit(0)
        yield group


def resume(
    folder: PathLike, *, processes: int | None = None, shard: bool = False, watcher: TrainingCallback | None = None
) -> Run:
    """Goes on with a run that was broken off."""
    with _together(processes, shard) as group:
        return Run(resume_any(folder, watcher=watcher, group=group))


def rerun(folder: PathLike, *, to: PathLike, overwrite: bool = False, watcher: TrainingCallback | None = None) -> Run:
    """Makes a finished run again, step by step, into another folder."""
    return Run(pipeline.repeat_run(os.fspath(folder), os.fspath(to), overwrite=overwrite, watcher=watcher))


def load(folder: PathLike) -> Run:
    """A run that was trained or imported before."""
    return Run.open(folder)


def import_run(
    source: PathLike,
    *,
    to: PathLike,
    heads: int | None = None,
    task: str | None = None,
    **vectors: Unpack[VectorFileOptions],
) -> Run:
    """A run from another program's files: a Hugging Face folder or hub name, an ARPA file, OpenAI's GPT, word vectors.

    `heads` is how many attention heads OpenAI's files are for, which do not say it. `task` says whether a classifier is
    for single texts or pairs ("classification", "pairs"), or that its head is to be left out ("none"). Word vectors
    take the words of `forebear import`: form, limit (how many words), on_bad_bytes.
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
    watcher: TrainingCallback | None = None,
    **settings: Any,
) -> Run:
    """Teaches a run (or a milestone, from nothing) a task from labelled examples, as `forebear adapt` does.

    Settings are those of Adaptation (how, freeze_layers, layer_decay, read, …), of the task (crf, ordered), of reading
    (label_column, on_bad_rows, …) and of training (epochs, time, rate, seed, …), by the command line's names.
    """
    with _together(processes, shard) as group:
        dropout = settings.pop("dropout", None)  # the encoder's; that of heads is another
        given = {"dropout" if name == "head_dropout" else name: value for name, value in settings.items()}
        own = [field.name for field in fields(Adaptation)]
        form, read, options, how = (
            {name: given.pop(name) for name in names if name in given} for names in (FORM, READ, OPTIONS, own)
        )
        files = {side: None if path is None else os.fspath(path) for side, path in (("dev", dev), ("test", test))}
        begin = str(run.folder.path) if isinstance(run, Run) else os.fspath(run)
        task = task or implied_task(begin, data)
        source, notes = labeled_source(os.fspath(data), task=task, form=form, **files, **read)
        for note in notes:
            (watcher or TrainingCallback()).on_note(note)
        what = pipeline.plan_adaptation(
            begin, source, how=how, options=options, settings=given, size=size, dropout=dropout
        )
        place = None if to is None else os.fspath(to)
        return Run(pipeline.run_adaptation(what, place, overwrite=overwrite, watcher=watcher, group=group))
