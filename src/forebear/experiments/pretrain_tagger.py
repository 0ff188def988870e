"""Plan `pretrain` on tagged text, for models trained on tags: an adaptation to tagging from scratch."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from forebear.data.io.sources import PathLike, find_sources
from forebear.data.io.text_formats import TextFormat
from forebear.data.labeled.detect_format import TAGGED_FORMAT_HELP, FileHead
from forebear.data.labeled.labeled_source import labeled_source
from forebear.data.source import TextSource
from forebear.errors import InputError
from forebear.experiments import plan, training_run
from forebear.experiments.plan import ERROR_POLICIES, split_settings
from forebear.registry import LINEAGE, model_spec
from forebear.training.run_folder import RunFolder

TAGS_DETECTED_NOTE = "the words of this file have their tags with them, so"


def is_tagged_training(model: str | None, texts: Sequence[str], text_format: TextFormat) -> bool:
    """Whether this model is trained as a tagger on these files of this --format."""
    if model not in LINEAGE:
        return False
    spec_class = model_spec(model)
    if spec_class.learns_from == "tags" or not spec_class.learns_tags:
        return spec_class.learns_from == "tags"
    if text_format.format != "auto" or not texts or not os.path.isfile(texts[0]):  # pipes can be read only once
        return text_format.format == "tagged"
    source = next(find_sources(texts[:1]))
    try:
        is_text = text_format.format_of(source) == "text"
        return is_text and FileHead.read(source, text_format.encoding, "replace").tag_columns() is not None
    except InputError:  # raised again when the text is read
        return False


def implied_task(start: PathLike, data: PathLike) -> str | None:
    """The task of a model or run that can only be trained on tags; None: it depends on the examples."""
    name = os.fspath(start)
    if re.search(r"\.(?:[tc]sv|jsonl?)(?:\.gz|\.zst)?$", os.fspath(data).lower()):  # not a tagged file
        return None
    if name in LINEAGE and not os.path.isdir(name):
        spec_class = model_spec(name)
    elif os.path.exists(name):
        spec_class = type(RunFolder.open(name).spec)
    else:  # reported when the run is opened
        return None
    return "tagging" if spec_class.learns_from == "tags" else None


def resume_any(folder: PathLike, **options: Any) -> RunFolder:
    """Resume a run of `pretrain`, which may be a tagger."""
    run = RunFolder.open(folder)
    is_tagging_run = run.task is not None and run.metadata.get("parent") is None and run.spec.learns_tags
    return (training_run.resume_adaptation if is_tagging_run else training_run.resume_pretraining)(folder, **options)


def plan_tagging(
    model: str,
    texts: Sequence[str],
    source: TextSource,
    *,
    size: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    unused: Mapping[str, Any] | None = None,
) -> tuple[plan.AdaptPlan, list[str]]:
    """The plan of `adapt MODEL FILE --task tagging`, and notes on what was detected of the file.

    `settings` are fields of the model, settings of the recipe, and policies on errors in the file; `unused` are options
    without effect: a value raises InputError.
    """
    recipe_file = dict(recipe or {})
    plan.check_recipe_model(recipe_file, model)
    spec_class, text_format = model_spec(model), source.reading
    is_detected = spec_class.learns_from == "text" and text_format.format == "auto"
    hint = "leave it out, or have the file learned as it stands: --format text" if is_detected else "leave it out"
    _reject_text_options(model, source, hint, {"tokenizer": recipe_file.get("tokenizer"), **(unused or {})})
    if len(texts) != 1:
        message = f"{len(texts)} files: {model} learns from one file of words and their tags"
        raise InputError(message, hint="join them into one")
    settings = dict(settings or {})
    error_policies = {name: settings.pop(name) for name in ERROR_POLICIES if name in settings}
    model_fields, recipe_settings = split_settings(model, spec_class, settings)
    recipe_settings = {**recipe_file.get("recipe", {}), **recipe_settings}
    held_out = recipe_settings.pop("held_out", None)
    all_fields = {**recipe_file.get("fields", {}), **model_fields}
    if unused_fields := [name for name in all_fields if spec_class.learns_from == "text"]:
        message = f"--{unused_fields[0]} means nothing to {model} where tags teach it: its states are the tags"
        raise InputError(message, hint=hint)
    size = size or recipe_file.get("size")
    try:
        examples, notes = labeled_source(
            texts[0],
            task="tagging",
            form=_file_format(model, texts[0], text_format),
            dev_share=None if held_out is None else _parse_fraction(held_out),
            **error_policies,
        )
        adapt_plan = plan.plan_adaptation(model, examples, settings=recipe_settings, size=size, fields=all_fields)
    except InputError as error:
        if "--dev" in error.hint or "--test" in error.hint:  # options of adapt
            error.hint += f" (of forebear adapt {model} {texts[0]} --task tagging)"
        raise
    return adapt_plan, [f"{TAGS_DETECTED_NOTE} {model} learns to tag (as text: --format text)"] * is_detected + notes


def _file_format(model: str, path: str, text_format: TextFormat) -> dict[str, Any]:
    """The format options of the file. Raise InputError for plain text."""
    format_options = {"encoding": text_format.encoding}
    if text_format.format not in ("auto", "text", "tagged"):
        return format_options
    file_head = FileHead.read(next(find_sources([path])), text_format.encoding, text_format.on_bad_bytes)
    looks_like_columns = file_head.detect_kind("tagging")[0] == "conll"  # a word and its tag on each line
    if text_format.format == "tagged":
        return format_options if looks_like_columns and not file_head.is_prose else {**format_options, "kind": "tagged"}
    if looks_like_columns and file_head.is_prose:
        message = f"this looks like plain text, and {model} learns from words with their tags"
        raise InputError(message, file=path, hint=f"{TAGGED_FORMAT_HELP}; for plain text choose ngram")
    return format_options


def _parse_fraction(value: Any) -> float:
    try:
        fraction = float(value)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction < 1:
        raise InputError(f"--held-out is {value}", hint="give a share between 0 and 1, such as 0.1")
    return fraction


def _reject_text_options(model: str, source: TextSource, hint: str, unused: Mapping[str, Any]) -> None:
    """Raise InputError for options of plain text, which have no effect on tagged text."""
    default_source, text_format = TextSource(()), source.reading
    options = {
        "pairs": source.pairs,
        "columns": source.columns,
        "segment": source.segment,
        "sentences": source.sentences != default_source.sentences,
        "user-dict": source.user_dict,
        "documents": text_format.documents != default_source.reading.documents,
        "entities": source.entities,
        **unused,
    }
    for name, value in options.items():
        if value:
            message = f"--{name} means nothing to {model}, which learns from words and their tags"
            raise InputError(message, hint=hint)
