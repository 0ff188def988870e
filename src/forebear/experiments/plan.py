"""Plan a pre-training or an adaptation: merge size, fields, recipe file and settings, and validate them."""

from __future__ import annotations

import contextlib
import difflib
import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from forebear.data.corpus.corpus import TOKENIZER_FILE, Corpus
from forebear.data.corpus.parallel import TARGET_TOKENIZER_FILE, ParallelCorpus, TokenizerPair
from forebear.data.io.sources import PathLike
from forebear.data.io.text_formats import TextFormat
from forebear.data.labeled.labeled_source import LabeledSource
from forebear.data.labeled.load import LabeledData, read_labeled
from forebear.data.source import (
    TOKENIZER_KINDS,
    ProgressFn,
    TextSource,
    TokenizerPairOptions,
    is_corpus,
    is_pretokenized,
    prepare_parallel_corpus,
    prepare_source,
)
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError
from forebear.experiments.adapt_defaults import adaptation_recipe, adaptation_tokenizer, choose_adaptation
from forebear.experiments.unused_settings import check_unused_fields, check_unused_settings, flag_name, learner_kind_for
from forebear.experiments.warm_start import InitFrom, open_finished
from forebear.models.spec import ModelSpec
from forebear.registry import LINEAGE, model_name, model_spec, suggest
from forebear.settings.units import parse_count
from forebear.tasks.task import Task, task_class
from forebear.training.adaptation import Adaptation
from forebear.training.build_learner import uses_full_batch
from forebear.training.settings import BUDGETS, Recipe, merge_recipe


def has_field(model: str | None, name: str) -> bool:
    """Whether a model has a field of this name, such as BERT's `pairs` (its sentence-pair task, not parallel text)."""
    return model in LINEAGE and name in {field.name for field in fields(model_spec(model))}


def validate_parallel(
    model: str, spec_class: type[ModelSpec], source: TextSource, target_options: Mapping[str, Any]
) -> None:
    """Raise InputError for text, or options of text, that this model cannot be trained on."""
    if spec_class.learns_from == "pairs":
        if source.paths and not source.pairs:
            message = f"{model} learns from texts and their translations"
            hint = f"give two files, line by line, a table or JSONL: forebear pretrain {model} --pairs A B"
            raise InputError(message, file=source.paths[0], hint=hint)
        if source.paths and is_corpus(source):
            message = "is a corpus of plain text"
            raise InputError(message, file=source.paths[0], hint="give the parallel text itself: --pairs A B")
        plain_format = TextFormat(encoding=source.reading.encoding, on_bad_bytes=source.reading.on_bad_bytes)
        if replace(source, paths=(), columns="", pairs=True) != TextSource((), plain_format, pairs=True):
            options = "--documents, --format, --field, --column, --sentences and what concerns words"
            hint = "leave them out; --columns names the two sides in one file"
            raise InputError(f"{options} mean nothing to --pairs", hint=hint)
        return
    if spec_class.learns_from == "tags" and source.paths:
        message = f"{model} learns from words with their tags, not from plain text"
        raise InputError(message, file=source.paths[0], hint=f"forebear pretrain {model} FILE, of word/tag or CoNLL")
    if source.pairs:
        message = f"{model} learns from plain text: --pairs means nothing to it"
        raise InputError(message, hint=f"forebear pretrain {model} TEXT…, or choose transformer")
    flags = [f"--target-{name}" for name, value in target_options.items() if value is not None]
    flags += ["--columns"] if source.columns else []
    if flags:
        raise InputError(f"{flags[0]} means nothing without --pairs", hint="leave it out")


CONTINUED_RATE_FACTOR = 0.3  # of the default rate, in continued pre-training
DEFAULT_TIME = 300.0  # seconds, without a budget
COMMAND_OPTIONS = (
    *("to", "size", "tokenizer", "vocabulary", "recipe", "resume", "overwrite", "sentences", "segment", "workers"),
    *("from", "add_words", "entities", "pairs", "columns", "target_tokenizer", "target_vocabulary"),
    *("processes", "shard"),
)
ERROR_POLICIES = ("on_bad_rows", "on_bad_tags")  # options of tagged files
PRETOKENIZED_NOTE = (
    "the text is cut into words already, so it is taken as programs for n-grams take it: spaces part words, each line"
    " is a text, and all of it is counted (otherwise: --tokenizer words, --unit document, --held-out 0.05)"
)
RECIPE_FILE_KEYS = ("milestone", "size", "tokenizer", "vocabulary")  # at the top level of a recipe file


@dataclass(frozen=True)
class PretrainPlan:
    """A planned pre-training: everything that the result depends on."""

    spec: ModelSpec
    size: str | None
    source: TextSource
    tokenizer: str | Tokenizer | TokenizerPair | None  # None: the default kind of the model
    vocab_size: int | None
    recipe: Recipe
    init_from: InitFrom | None = None  # None: from scratch
    target_tokenizer: str | None = None  # of translation models, if it differs
    target_vocab_size: int | None = None
    notes: tuple[str, ...] = ()  # for the user: defaults that were changed for this text

    def prepare_corpus(
        self,
        *,
        workers: int | None = None,
        learning_progress: ProgressFn | None = None,
        progress: ProgressFn | None = None,
    ) -> Corpus | ParallelCorpus:
        """The tokenized corpus, from the cache or prepared now."""
        options: dict[str, Any] = {"default": self.spec.tokenizer, "held_out": self.recipe.held_out, "workers": workers}
        options |= {"learning_progress": learning_progress, "progress": progress}
        with self.error_context():
            if self.source.pairs:
                assert not isinstance(self.tokenizer, Tokenizer)
                target_options = self.target_tokenizer, self.target_vocab_size
                tokenizers = TokenizerPairOptions(self.tokenizer, self.vocab_size, *target_options)
                return prepare_parallel_corpus(self.source, tokenizers, **options)
            assert not isinstance(self.tokenizer, TokenizerPair)
            min_count = self.spec.min_word_count
            options |= {"min_count": min_count, "vocab_size": self.vocab_size}
            options["required_roles"] = self.spec.required_roles
            corpus = prepare_source(self.source, self.tokenizer, **options)
            if min_count is not None and corpus.tokenizer.vocab_size <= len(corpus.tokenizer.special_ids):
                message = f"no word of this text is seen {min_count} times"
                raise InputError(message, hint="give more text, or --min-count 1")
            return corpus

    def request(self, corpus: Corpus | ParallelCorpus) -> dict[str, Any]:
        """Everything that the result depends on, as JSON, for comparison with run.json."""
        request = {"milestone": model_name(self.spec), "fields": asdict(self.spec)}
        request |= {"recipe": self.recipe.to_dict(), "corpus": corpus.key}
        if self.init_from is not None:
            request["beginning"] = asdict(self.init_from) | {"words": list(self.init_from.words)}
        return request

    @contextlib.contextmanager
    def error_context(self) -> Iterator[None]:
        """Add the first text file to errors that name no file."""
        try:
            yield
        except InputError as error:
            if error.file is None and self.source.paths:
                error.file = self.source.paths[0]
            raise

    def command_line(self, to: Path) -> str:
        """The command line of this training."""
        spec_class, init_from = type(self.spec), self.init_from
        size = self.size or spec_class.size
        tokenizer, target_tokenizer = self.tokenizer, self.target_tokenizer
        if init_from is not None:  # the tokenizer is that of the run
            tokenizer = None
        elif isinstance(tokenizer, Tokenizer | TokenizerPair):
            has_target_tokenizer = isinstance(tokenizer, TokenizerPair) and not tokenizer.is_shared
            target_tokenizer = to / TARGET_TOKENIZER_FILE if has_target_tokenizer else target_tokenizer
            tokenizer = to / TOKENIZER_FILE
        options: dict[str, Any] = {
            "size": None if size == spec_class.size else size,
            "tokenizer": tokenizer,
            "vocabulary": self.vocab_size,
            "target_tokenizer": target_tokenizer,
            "target_vocabulary": self.target_vocab_size,
        }
        source, default_source = asdict(replace(self.source, paths=())), asdict(TextSource(()))
        for values, defaults in (
            (asdict(self.spec), asdict(spec_class(**spec_class.sizes.get(size, {})))),
            (self.recipe.to_dict(), _default_recipe(self.spec).to_dict()),
            (source.pop("reading"), default_source.pop("reading")),
            (source, default_source),
        ):
            options |= {name: value for name, value in values.items() if value != defaults.get(name)}
        options.pop("pairs", None)
        if init_from is not None:
            options |= {"from": init_from.run, "add_words": init_from.words_file}
        pairs_flag = ["--pairs"] if self.source.pairs else []
        arguments = ["forebear", "pretrain", model_name(self.spec), *pairs_flag, *self.source.paths]
        for name, value in (options | {"to": to}).items():
            if value is not None:
                arguments += [flag_name(name)] if value is True and name == "segment" else [flag_name(name), str(value)]
        return shlex.join(arguments)


def plan_pretraining(
    model: str,
    texts: Sequence[str],
    *,
    size: str | None = None,
    tokenizer: PathLike | Tokenizer | TokenizerPair | None = None,
    vocabulary: int | None = None,
    target_tokenizer: PathLike | None = None,
    target_vocabulary: int | None = None,
    source: TextSource | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    init_from: InitFrom | None = None,
) -> PretrainPlan:
    """Plan a pre-training on text files, folders, or one prepared corpus.

    `settings`, fields of the model and of the recipe, take precedence over `recipe`, the content of a recipe file, and
    both over the defaults. `tokenizer` is a kind, a file or a tokenizer, `vocabulary` the size of one to be trained;
    `target_tokenizer` is that of translations, if different. With `init_from`, fields and tokenizer are the run's.
    """
    spec_class = model_spec(model)
    recipe_file = dict(recipe or {})
    if init_from is not None:
        recipe_file, tokenizer = _merge_run_fields(init_from, model, recipe_file, size, tokenizer or vocabulary), None
    check_recipe_model(recipe_file, model)
    model_fields, recipe_settings = split_settings(model, spec_class, settings or {})
    file_fields, file_recipe = recipe_file.get("fields", {}), recipe_file.get("recipe", {})
    source = replace(source or TextSource(()), paths=tuple(map(str, texts)))
    notes: tuple[str, ...] = ()
    has_default_tokenizer = init_from is None and not (tokenizer or recipe_file.get("tokenizer"))
    has_default_unit = "unit" not in {**file_fields, **model_fields}
    if has_default_tokenizer and has_default_unit and _is_pretokenized_lines(spec_class, source):
        notes, tokenizer, source = (PRETOKENIZED_NOTE,), "spaces", replace(source, sentences="lines")
        model_fields["unit"] = "sentence"
        recipe_settings = {"held_out": 0.0, **file_recipe, **recipe_settings}
    size = size or recipe_file.get("size") or (spec_class.size if init_from is None else None) or None
    spec = build_model_spec(model, spec_class, size, {**file_fields, **model_fields})
    check_unused_fields(spec, [*(recipe or {}).get("fields", {}), *model_fields])
    check_unused_settings(model, learner_kind_for(spec_class), {**file_recipe, **recipe_settings})
    # not for word vectors, as those of new words need the full learning rate
    is_continued = init_from is not None and spec_class.learning == "descending"
    rate_default = {"rate": CONTINUED_RATE_FACTOR * spec.default_recipe()["rate"]} if is_continued else {}
    merged_recipe = _default_recipe(spec, rate_default, file_recipe, recipe_settings)
    if init_from is not None and spec.min_word_count is not None and init_from.words_file is None and texts:
        init_from = init_from.with_new_words(source, spec.min_word_count, merged_recipe.held_out)
    tokenizer = tokenizer or recipe_file.get("tokenizer") or (init_from.tokenizers if init_from else None)
    vocabulary = _parse_vocab_size(tokenizer, vocabulary or recipe_file.get("vocabulary"))
    if not merged_recipe.held_out and not spec_class.takes_lines:
        message = f"--held-out 0: how well {model} has learned is told by text that it has not seen"
        raise InputError(message, hint="give a share above 0, such as 0.05")
    validate_parallel(model, spec_class, source, {"tokenizer": target_tokenizer, "vocabulary": target_vocabulary})
    if is_corpus(source) and replace(source, paths=()) != TextSource(()):
        message = "is a corpus already: how to read text and to find sentences was decided when it was prepared"
        raise InputError(message, file=source.paths[0], hint="leave out those options, or give the text instead")
    if source.entities is not None and not spec.uses_entities:
        message = f"--entities means nothing to {model}, which hides no names"
        raise InputError(message, hint="leave it out, or choose ernie")
    if spec.needs_word_boundaries and not is_corpus(source):
        source = replace(source, segment=True)
    size_name = next((name for name, preset in spec_class.sizes.items() if spec_class(**preset) == spec), None)
    return PretrainPlan(
        spec,
        size_name,
        source,
        os.fspath(tokenizer) if isinstance(tokenizer, os.PathLike) else tokenizer,
        vocabulary,
        merged_recipe,
        init_from,
        os.fspath(target_tokenizer) if target_tokenizer is not None else None,
        None if target_vocabulary is None else parse_count(target_vocabulary, "target_vocabulary"),
        notes,
    )


def _parse_vocab_size(tokenizer: Any, vocabulary: Any) -> int | None:
    """The vocabulary size of a tokenizer to be trained. Raise InputError if the tokenizer is not to be trained."""
    if not isinstance(tokenizer, str | os.PathLike | Tokenizer | TokenizerPair | None):
        raise InputError(f"--tokenizer is {tokenizer!r}", hint="name a kind, such as bytepair, or a file")
    if vocabulary is None:
        return None
    vocab_size = parse_count(vocabulary, "vocabulary")
    if tokenizer is not None and tokenizer not in TOKENIZER_KINDS:
        message = f"--vocabulary {vocab_size} means nothing beside a tokenizer that is not learned"
        raise InputError(message, hint="leave it out")
    return vocab_size


def _is_pretokenized_lines(spec_class: type[ModelSpec], source: TextSource) -> bool:
    """Whether the text is pre-tokenized with a sentence per line, and read so by default for this model."""
    if not (spec_class.takes_lines and source.paths) or is_corpus(source):
        return False
    is_default = source == TextSource(source.paths, source.reading) and source.reading.documents == "blank"
    return is_default and is_pretokenized(source.paths, source.reading)


def _merge_run_fields(
    init_from: InitFrom, model: str, recipe_file: dict[str, Any], size: str | None, tokenizer_option: object
) -> dict[str, Any]:
    """The recipe file merged with the fields of the run that training continues from."""
    run = init_from.folder
    if (run_model := run.metadata["milestone"]) != model:
        message = f"is a run of {run_model}, not of {model}"
        raise InputError(message, file=run.path, hint=f"forebear pretrain {run_model} …")
    for name, value in (("size", size or recipe_file.get("size")), ("tokenizer or --vocabulary", tokenizer_option)):
        if value is not None:
            raise InputError(f"--{name} means nothing beside --from: that of the run is taken", hint="leave it out")
    return {**recipe_file, "fields": {**run.metadata["fields"], **recipe_file.get("fields", {})}}


def check_recipe_model(recipe_file: Mapping[str, Any], model: str) -> None:
    """Raise InputError for the recipe file of another model."""
    if (recipe_model := recipe_file.get("milestone", model)) != model:
        message = f"the recipe is for {recipe_model}, not for {model}"
        raise InputError(message, hint=f"forebear pretrain {recipe_model} …")


def _default_recipe(spec: ModelSpec, *layers: Mapping[str, Any]) -> Recipe:
    """The default recipe of the model, overridden by these layers."""
    model_defaults = spec.default_recipe()
    default = {} if any(name in model_defaults for name in BUDGETS) else {"time": DEFAULT_TIME}
    return merge_recipe(default, model_defaults, *layers)


def split_settings(
    model: str, spec_class: type[ModelSpec], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the model, and settings of the recipe."""
    field_names = [field.name for field in fields(spec_class)]
    known_names = [*field_names, *(field.name for field in fields(Recipe))]
    for name in settings:
        if name in ERROR_POLICIES:
            message = f"{flag_name(name)} is for words with their tags, and {model} learns from plain text here"
            raise InputError(message, hint="leave it out")
        if name not in known_names:
            hint = f"its own are: {', '.join(map(flag_name, field_names))}"
            if close_matches := difflib.get_close_matches(name, [*known_names, *COMMAND_OPTIONS], n=1, cutoff=0.7):
                hint = f"did you mean {flag_name(close_matches[0])}?"
            raise InputError(f"{flag_name(name)} is no setting of {model} or of training", hint=hint)
    values = {name: value for name, value in settings.items() if value is not None}
    model_fields = {name: value for name, value in values.items() if name in field_names}
    return model_fields, {name: value for name, value in values.items() if name not in field_names}


def build_model_spec(
    model: str, spec_class: type[ModelSpec], size: str | None, model_fields: Mapping[str, Any]
) -> ModelSpec:
    """The model of this size with these fields; values may be strings, as on the command line."""
    if size is not None and size not in spec_class.sizes:
        raise InputError(f"{model} has no size {size!r}", hint=suggest(str(size), spec_class.sizes))
    field_types = {field.name: str(field.type) for field in fields(spec_class)}
    for name in model_fields:
        if name not in field_types:
            raise InputError(f"{model} has no field {name!r}", hint=suggest(name, field_types))
    values = {name: _parse_field(name, field_types[name], value) for name, value in model_fields.items()}
    if values.get("output") == "given":
        hint = "choose --output negatives or tree; forebear import reads vectors from elsewhere"
        raise InputError("--output given is that of imported vectors: there is nothing to learn", hint=hint)
    if values.get("smoothing") == "given":
        hint = "choose --smoothing kneser-ney; forebear import reads ARPA files from elsewhere"
        raise InputError("--smoothing given is that of imported n-grams: there is nothing to count", hint=hint)
    return spec_class(**{**spec_class.sizes.get(size or "", {}), **values})


def _parse_field(name: str, type_name: str, value: Any) -> Any:
    """Parse the value of a field from the command line, a file or Python."""
    try:
        if type_name == "bool" and isinstance(value, str):
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[value.lower()]
        parsed = {"int": int, "float": float}.get(type_name, str)(value) if isinstance(value, str) else value
        parsed = float(parsed) if type_name == "float" and type(parsed) is int else parsed
        if type(parsed).__name__ != type_name or (type_name == "float" and not math.isfinite(parsed)):
            raise ValueError
    except (ValueError, KeyError) as error:
        raise InputError(f"{flag_name(name)} is {value!r}", hint=f"give a value of type {type_name}") from error
    return parsed


# --- Adaptation ---


@dataclass(frozen=True, eq=False)
class AdaptPlan:
    """A planned adaptation: everything that the result depends on."""

    spec: ModelSpec
    size: str | None
    tokenizer: Tokenizer
    init_from: InitFrom | None  # None: from scratch
    source: LabeledSource
    labeled_data: LabeledData
    task: Task
    adaptation: Adaptation
    recipe: Recipe

    @property
    def request(self) -> dict[str, Any]:
        """The plan after a round trip through JSON, for comparison with run.json."""
        request = {
            "milestone": model_name(self.spec),
            "fields": asdict(self.spec),
            "beginning": None if self.init_from is None else self.init_from.weights,
            "task": self.task.to_dict(),
            "adaptation": self.adaptation.to_dict(),
            "examples": self.source.to_dict(),
            "digests": self.source.digests(),
            "recipe": self.recipe.to_dict(),
        }
        return json.loads(json.dumps(request))


def plan_adaptation(
    start: str,
    source: LabeledSource,
    *,
    how: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    size: str | None = None,
    dropout: float | None = None,
    data: LabeledData | None = None,
    fields: Mapping[str, Any] | None = None,
) -> AdaptPlan:
    """Plan an adaptation of `start`: a run folder, or the name of a model to be trained from scratch.

    `how` are fields of `Adaptation`, `options` those of the task, `settings` those of the recipe; `size` and `fields`
    are for a model from scratch. `dropout` is that of the encoder, or of the task encoder above it; None: as in the
    run. `data` are the examples, if already read.
    """
    how, settings = how or {}, settings or {}
    if start in LINEAGE and not Path(start).is_dir():
        spec_class, init_from = model_spec(start), None
        size_name = size or spec_class.size or None
        spec = build_model_spec(start, spec_class, size_name, fields or {})
    else:
        if not Path(start).exists():
            message = "there is no such run, and no milestone of that name"
            raise InputError(message, file=start, hint=f"{suggest(start, LINEAGE)} (forebear runs lists the runs)")
        init_from = InitFrom.of(open_finished(start))
        spec, size_name = init_from.folder.spec, init_from.folder.metadata.get("size")
        if size is not None:
            raise InputError("--size means nothing beside a run: it has its own", hint="leave it out")
    if spec.learns_from == "pairs":
        message, hint = "translates: tasks are learned by those that read one text", "choose another, such as bert"
        raise InputError(message, file=start, hint=hint)
    if spec.learns_from == "tags" and source.task != "tagging":
        message = f"{model_name(spec)} learns to tag words and nothing else; these examples are of {source.task}"
        hint = "give words with their tags, or choose another milestone, such as ngram"
        raise InputError(message, file=source.train, hint=hint)
    is_counting, uses_features = spec.learning == "counting", how.get("how") == "features"
    if dropout is not None and (is_counting or uses_features):
        where = "where the encoder only gives features" if uses_features else "to a model that counts"
        raise InputError(f"--dropout means nothing {where}", hint="leave it out")
    data = data or read_labeled(source)
    task_options = {**({"scheme": data.tag_scheme} if data.tag_scheme else {}), **(options or {})}
    if spec.learns_tags and source.task == "tagging":
        task_options["crf"] = True  # HMM and CRF model tag sequences
    task = task_class(source.task).from_examples(data.train, **task_options)
    adaptation = choose_adaptation(spec, init_from, len(data.train), how)
    if dropout is not None and adaptation.reader is not None:
        adaptation = replace(adaptation, reader_dropout=dropout)
    elif dropout is not None or (uses_features and spec.dropout is not None):
        spec = replace(spec, dropout=dropout or 0.0)  # pyright: ignore[reportCallIssue]
    tokenizer = adaptation_tokenizer(spec, init_from, adaptation, source.task, data)
    learner_kind = "only counts" if is_counting else "descending"
    check_unused_settings(model_name(spec), "searching" if uses_full_batch(spec, task) else learner_kind, settings)
    for flag, reason in _unused_options(task, adaptation, settings, is_counting=is_counting):
        raise InputError(f"--{flag} means nothing here: {reason}", hint="leave it out")
    recipe = adaptation_recipe(spec, tokenizer, task, adaptation, data, settings, from_scratch=init_from is None)
    return AdaptPlan(spec, size_name, tokenizer, init_from, source, data, task, adaptation, recipe)


def _unused_options(
    task: Task, adaptation: Adaptation, settings: Mapping[str, Any], *, is_counting: bool
) -> Iterator[tuple[str, str]]:
    """Flags of settings that have no effect, with the reason."""
    if settings.get("held_out") is not None:
        yield "held-out", "--dev-share says how many examples are held out"
    for field in fields(Adaptation) if is_counting else ():
        if field.name != "balanced" and getattr(adaptation, field.name) != field.default:
            flag = "head-dropout" if field.name == "dropout" else field.name.replace("_", "-")
            yield flag, "a model that counts has no layers to adapt"
    if adaptation.balanced and not task.labels:
        yield "balanced", "it is for examples with labels"
    if adaptation.balanced and is_counting and task.is_multi_label:
        yield "balanced", "where labels are several at once, only a network weighs them"
    if adaptation.read is not None and not task.pools_rows:
        yield "read", "it is for texts that are judged as a whole; here every word is"
