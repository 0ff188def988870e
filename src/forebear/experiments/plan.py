"""What is to be trained, on what, and how: sizes, fields, recipe files and flags, and which of them wins."""

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
from forebear.data.io.reader import TextFormat
from forebear.data.labeled.examples import example_texts
from forebear.data.labeled.source import LabeledData, LabeledSource, read_labeled
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
from forebear.data.tokenizers.train import extend_vocabulary, missing_words
from forebear.errors import InputError
from forebear.experiments.unused_settings import (
    check_unused_entities,
    check_unused_fields,
    check_unused_settings,
    settings_kind,
)
from forebear.experiments.warm_start import InitFrom
from forebear.models.spec import ModelSpec
from forebear.registry import LINEAGE, model_name, model_spec, suggest
from forebear.settings.units import parse_count
from forebear.tasks.task import Task, task_class
from forebear.training.adaptation import Adaptation
from forebear.training.load_model import uses_full_batch
from forebear.training.run_folder import RunFolder
from forebear.training.settings import BUDGETS, Recipe, merge_recipe

# Whether a milestone can learn from what it is given: plain text, or texts and their translations.


def has_field(milestone: str | None, name: str) -> bool:
    """Whether a milestone has a field of this name: the `pairs` of BERT, for one, are another thing than parallel
    text."""
    return milestone in LINEAGE and name in {field.name for field in fields(model_spec(milestone))}


def validate_parallel(milestone: str, kind: type[ModelSpec], source: TextSource, of_target: Mapping[str, Any]) -> None:
    """An error where the text, or what is said about it, is none that this milestone learns from."""
    if kind.learns_from == "pairs":
        if source.paths and not source.pairs:
            what = f"{milestone} learns from texts and their translations"
            hint = f"give two files, line by line, a table or JSONL: forebear pretrain {milestone} --pairs A B"
            raise InputError(what, file=source.paths[0], hint=hint)
        _only_pairs(source)
        return
    if kind.learns_from == "tags" and source.paths:
        what = f"{milestone} learns from words with their tags, not from plain text"
        raise InputError(what, file=source.paths[0], hint=f"forebear pretrain {milestone} FILE, of word/tag or CoNLL")
    if source.pairs:
        what = f"{milestone} learns from plain text: --pairs means nothing to it"
        raise InputError(what, hint=f"forebear pretrain {milestone} TEXT…, or choose transformer")
    given = [f"--target-{name}" for name, value in of_target.items() if value is not None]
    given += ["--columns"] if source.columns else []
    if given:
        raise InputError(f"{given[0]} means nothing without --pairs", hint="leave it out")


def _only_pairs(source: TextSource) -> None:
    """What says how plain text is read means nothing to pairs."""
    if source.paths and is_corpus(source):
        what = "is a corpus of plain text"
        raise InputError(what, file=source.paths[0], hint="give the parallel text itself: --pairs A B")
    plain = TextFormat(encoding=source.reading.encoding, on_bad_bytes=source.reading.on_bad_bytes)
    if replace(source, paths=(), columns="", pairs=True) != TextSource((), plain, pairs=True):
        what = "--documents, --format, --field, --column, --sentences and what concerns words mean nothing to --pairs"
        raise InputError(what, hint="leave them out; --columns names the two sides in one file")


SLOWER = 0.3  # of the usual rate, where training goes on from weights that know something already
DEFAULT_TIME = 300.0  # seconds, where nothing says how long
OPTIONS = ("to", "size", "tokenizer", "vocabulary", "recipe", "resume", "overwrite", "sentences", "segment", "workers")
OPTIONS += ("from", "add_words", "entities", "pairs", "columns", "target_tokenizer", "target_vocabulary")
OPTIONS += ("processes", "shard")
ERROR_POLICIES = ("on_bad_rows", "on_bad_tags")  # of files of words and tags, which are read elsewhere
OF_LINES = (
    "the text is cut into words already, so it is taken as programs for n-grams take it: spaces part words, each "
)
OF_LINES += "line is a text, and all of it is counted (otherwise: --tokenizer words, --unit document, --held-out 0.05)"
RECIPE_FILE_KEYS = ("milestone", "size", "tokenizer", "vocabulary")  # what stands at the top of a recipe file


@dataclass(frozen=True)
class PretrainPlan:
    """What is to be trained, on what, and how; everything that a run's result depends on."""

    spec: ModelSpec
    size: str | None
    source: TextSource
    tokenizer: str | Tokenizer | TokenizerPair | None  # None: of the kind that the milestone is used with
    vocab_size: int | None
    recipe: Recipe
    init_from: InitFrom | None = None  # None: from nothing
    target_tokenizer: str | None = None  # of translations, where it is another
    target_vocab_size: int | None = None
    notes: tuple[str, ...] = ()  # what was decided that a person may want otherwise

    def prepare_corpus(
        self,
        *,
        workers: int | None = None,
        learning_progress: ProgressFn | None = None,
        progress: ProgressFn | None = None,
    ) -> Corpus | ParallelCorpus:
        """Its text, cut into tokens: as it was prepared before, or now."""
        with self.error_context():
            if self.source.pairs:
                assert not isinstance(self.tokenizer, Tokenizer)
                return prepare_parallel_corpus(
                    self.source,
                    TokenizerPairOptions(
                        self.tokenizer, self.vocab_size, self.target_tokenizer, self.target_vocab_size
                    ),
                    default=self.spec.tokenizer,
                    held_out=self.recipe.held_out,
                    workers=workers,
                    learning_progress=learning_progress,
                    progress=progress,
                )
            assert not isinstance(self.tokenizer, TokenizerPair)
            corpus = prepare_source(
                self.source,
                self.tokenizer,
                default=self.spec.tokenizer,
                needs=self.spec.needs,
                least_count=self.spec.least_count,
                vocabulary=self.vocab_size,
                held_out=self.recipe.held_out,
                workers=workers,
                learning_progress=learning_progress,
                progress=progress,
            )
            least, tokenizer = self.spec.least_count, corpus.tokenizer
            if least is not None and tokenizer.vocab_size <= len(tokenizer.special_ids):
                raise InputError(f"no word of this text is seen {least} times", hint="give more text, or --min-count 1")
            return corpus

    @contextlib.contextmanager
    def error_context(self) -> Iterator[None]:
        """What is wrong in here, and names no place, is wrong with this text."""
        try:
            yield
        except InputError as error:
            if error.file is None and self.source.paths:
                error.file = self.source.paths[0]
            raise

    def _written_tokenizer(self, to: Path) -> str | Path | None:
        if self.init_from is not None:  # it comes with the run
            return None
        return to / TOKENIZER_FILE if isinstance(self.tokenizer, Tokenizer | TokenizerPair) else self.tokenizer

    def _written_target(self, to: Path) -> str | Path | None:
        if self.init_from is None and isinstance(self.tokenizer, TokenizerPair) and not self.tokenizer.is_shared:
            return to / TARGET_TOKENIZER_FILE
        return self.target_tokenizer

    def command_line(self, to: Path) -> str:
        """What to write on a command line for the same."""
        kind = type(self.spec)
        size = self.size or kind.size
        usual_fields, usual_recipe = asdict(kind(**kind.sizes.get(size, {}))), _recipe_of(self.spec).to_dict()
        usual_source = asdict(TextSource(()))
        source = asdict(replace(self.source, paths=()))
        changed = {
            "size": None if size == kind.size else size,
            "tokenizer": self._written_tokenizer(to),
            "vocabulary": self.vocab_size,
            "target_tokenizer": self._written_target(to),
            "target_vocabulary": self.target_vocab_size,
            **_changed(asdict(self.spec), usual_fields),
            **_changed(self.recipe.to_dict(), usual_recipe),
            **_changed(source.pop("reading"), usual_source.pop("reading")),
            **_changed(source, usual_source),
            "from": None if self.init_from is None else self.init_from.run,
            "add_words": None if self.init_from is None else self.init_from.words_file,
            "to": to,
        }
        changed.pop("pairs", None)
        marked = ["--pairs"] if self.source.pairs else []
        words = ["forebear", "pretrain", model_name(self.spec), *marked, *self.source.paths]
        for name, value in changed.items():
            if value is not None:
                flag = f"--{_dashed(name)}"
                words += [flag] if value is True and name == "segment" else [flag, str(value)]
        return shlex.join(words)


def _changed(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value != usual.get(name)}


def plan_pretraining(
    milestone: str,
    texts: Sequence[str],
    *,
    size: str | None = None,
    tokenizer: str | os.PathLike[str] | Tokenizer | TokenizerPair | None = None,
    vocabulary: int | None = None,
    target_tokenizer: str | os.PathLike[str] | None = None,
    target_vocabulary: int | None = None,
    source: TextSource | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    beginning: InitFrom | None = None,
) -> PretrainPlan:
    """`settings` are fields of the milestone and of the recipe: they win over `recipe`, and that over the defaults.

    With a `beginning`, fields and tokenizer are those of the run to begin with.
    """
    kind = model_spec(milestone)
    written = dict(recipe or {})
    if beginning is not None:
        written, tokenizer = _continued(beginning, milestone, written, size, tokenizer or vocabulary), None
    if written.get("milestone", milestone) != milestone:
        told = written["milestone"]
        raise InputError(f"the recipe is for {told}, not for {milestone}", hint=f"forebear pretrain {told} …")
    own, given = split_settings(milestone, kind, settings or {})
    source = replace(source or TextSource(()), paths=tuple(map(str, texts)))
    notes: tuple[str, ...] = ()
    free = beginning is None and not (tokenizer or written.get("tokenizer"))
    if free and "unit" not in {**written.get("fields", {}), **own} and _is_of_lines(kind, source):
        notes, tokenizer, source = (OF_LINES,), "spaces", replace(source, sentences="lines")
        own, given = {**own, "unit": "sentence"}, {"held_out": 0.0, **written.get("recipe", {}), **given}
    size = size or written.get("size") or (kind.size if beginning is None else None) or None
    made = build_model_spec(milestone, kind, size, {**written.get("fields", {}), **own})
    check_unused_fields(made, [*(recipe or {}).get("fields", {}), *own])
    check_unused_settings(milestone, settings_kind(kind), {**written.get("recipe", {}), **given})
    slower = beginning is not None and kind.learning == "descending"  # new rows of a table must learn as fast as any
    own_rate = {"rate": SLOWER * made.default_recipe()["rate"]} if slower else {}
    recipe_made = _recipe_of(made, own_rate, written.get("recipe", {}), given)
    if beginning is not None and made.least_count is not None and beginning.words_file is None and texts:
        beginning = beginning.grown(source, made.least_count, recipe_made.held_out)
    tokenizer = tokenizer or written.get("tokenizer") or (beginning.tokenizers if beginning else None)
    vocabulary = _entries(tokenizer, vocabulary or written.get("vocabulary"))
    _examined(milestone, kind, recipe_made)
    validate_parallel(milestone, kind, source, {"tokenizer": target_tokenizer, "vocabulary": target_vocabulary})
    if is_corpus(source) and replace(source, paths=()) != TextSource(()):
        what = "is a corpus already: how to read text and to find sentences was decided when it was prepared"
        raise InputError(what, file=source.paths[0], hint="leave out those options, or give the text instead")
    check_unused_entities(milestone, made, source.entities)
    if made.needs_word_boundaries and not is_corpus(source):
        source = replace(source, segment=True)
    return PretrainPlan(
        made,
        _size_of(made),
        source,
        os.fspath(tokenizer) if isinstance(tokenizer, os.PathLike) else tokenizer,
        vocabulary,
        recipe_made,
        beginning,
        os.fspath(target_tokenizer) if target_tokenizer is not None else None,
        None if target_vocabulary is None else parse_count(target_vocabulary, "target_vocabulary"),
        notes,
    )


def _entries(tokenizer: Any, vocabulary: Any) -> int | None:
    """How many entries a tokenizer is to have that is learned; an error where it is none, or is not learned."""
    if not isinstance(tokenizer, str | os.PathLike | Tokenizer | TokenizerPair | None):
        raise InputError(f"--tokenizer is {tokenizer!r}", hint="name a kind, such as bytepair, or a file")
    if vocabulary is None:
        return None
    entries = parse_count(vocabulary, "vocabulary")
    if tokenizer is not None and tokenizer not in TOKENIZER_KINDS:
        what = f"--vocabulary {entries} means nothing beside a tokenizer that is not learned"
        raise InputError(what, hint="leave it out")
    return entries


def _examined(milestone: str, kind: type[ModelSpec], recipe: Recipe) -> None:
    """An error where nothing is held out, and something must be."""
    if not recipe.held_out and not kind.takes_lines:
        what = f"--held-out 0: how well {milestone} has learned is told by text that it has not seen"
        raise InputError(what, hint="give a share above 0, such as 0.05")


def _is_of_lines(kind: type[ModelSpec], source: TextSource) -> bool:
    """Whether this is text that other programs take line by line, for a milestone that takes it so too."""
    if (
        not kind.takes_lines
        or not source.paths
        or is_corpus(source)
        or source != TextSource(source.paths, source.reading)
    ):
        return False
    return source.reading.documents == "blank" and is_pretokenized(source.paths, source.reading)


def _continued(
    beginning: InitFrom, milestone: str, written: dict[str, Any], size: str | None, cutting: object
) -> dict[str, Any]:
    """What a recipe file says, over the fields of the run that is gone on from; an error where they contradict."""
    run = beginning.folder
    own = run.metadata["milestone"]
    if own != milestone:
        raise InputError(f"is a run of {own}, not of {milestone}", file=run.path, hint=f"forebear pretrain {own} …")
    for name, value in (("size", size or written.get("size")), ("tokenizer or --vocabulary", cutting)):
        if value is not None:
            what = f"--{name} means nothing beside --from: that of the run is taken"
            raise InputError(what, hint="leave it out")
    return {**written, "fields": {**run.metadata["fields"], **written.get("fields", {})}}


def _size_of(milestone: ModelSpec) -> str | None:
    """The name of the size that has these fields; None where they are one's own."""
    kind = type(milestone)
    return next((name for name, own in kind.sizes.items() if kind(**own) == milestone), None)


def _recipe_of(milestone: ModelSpec, *layers: Mapping[str, Any]) -> Recipe:
    """The milestone's own recipe, and whatever is laid over it."""
    own = milestone.default_recipe()
    default = {} if any(name in own for name in BUDGETS) else {"time": DEFAULT_TIME}
    return merge_recipe(default, own, *layers)


def split_settings(
    milestone: str, kind: type[ModelSpec], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the milestone, and settings of the recipe."""
    own = [field.name for field in fields(kind)]
    names = [*own, *(field.name for field in fields(Recipe))]
    for name in settings:
        if name in ERROR_POLICIES:
            what = f"--{_dashed(name)} is for words with their tags, and {milestone} learns from plain text here"
            raise InputError(what, hint="leave it out")
        if name not in names:
            near = difflib.get_close_matches(name, [*names, *OPTIONS], n=1, cutoff=0.7)
            hint = f"did you mean --{_dashed(near[0])}?" if near else f"its own are: --{', --'.join(map(_dashed, own))}"
            raise InputError(f"--{_dashed(name)} is no setting of {milestone} or of training", hint=hint)
    given = {name: value for name, value in settings.items() if value is not None}
    return (
        {name: value for name, value in given.items() if name in own},
        {name: value for name, value in given.items() if name not in own},
    )


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def build_model_spec(milestone: str, kind: type[ModelSpec], size: str | None, own: Mapping[str, Any]) -> ModelSpec:
    """The milestone in this size, with these fields; values may be written as on the command line."""
    if size is not None and size not in kind.sizes:
        raise InputError(f"{milestone} has no size {size!r}", hint=suggest(str(size), kind.sizes))
    kinds = {field.name: str(field.type) for field in fields(kind)}
    for name in own:
        if name not in kinds:
            raise InputError(f"{milestone} has no field {name!r}", hint=suggest(name, kinds))
    values = {name: _typed(name, kinds[name], value) for name, value in own.items()}
    if values.get("output") == "given":
        hint = "choose --output negatives or tree; forebear import reads vectors from elsewhere"
        raise InputError("--output given is that of imported vectors: there is nothing to learn", hint=hint)
    if values.get("smoothing") == "given":
        hint = "choose --smoothing kneser-ney; forebear import reads ARPA files from elsewhere"
        raise InputError("--smoothing given is that of imported n-grams: there is nothing to count", hint=hint)
    return kind(**{**kind.sizes.get(size or "", {}), **values})


def _typed(name: str, kind: str, value: Any) -> Any:
    """A field as it is written on a command line, in a file or in Python, as what it stands for."""
    try:
        if kind == "bool" and isinstance(value, str):
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[value.lower()]
        made = {"int": int, "float": float}.get(kind, str)(value) if isinstance(value, str) else value
        made = float(made) if kind == "float" and type(made) is int else made
        if type(made).__name__ != kind or (kind == "float" and not math.isfinite(made)):
            raise ValueError
    except (ValueError, KeyError) as error:
        raise InputError(f"--{_dashed(name)} is {value!r}", hint=f"give a value of type {kind}") from error
    return made


# What is to be adapted to what, and how: a run or a milestone, labelled examples, and defaults that suit both.


EXAMPLES, MORE = 16, 32  # in a step, about; more where everything is learned from nothing
LEAST_STEPS = 300  # that a task wants, even where examples are few
EPOCHS = (3, 40)  # the fewest and the most, where nothing says how long
LOOKS, LOOKING = 12, 0.1  # at held-out examples, in the course of a run; and about the most of its time they take
MAX_EVAL_EXAMPLES = 2000  # held-out examples that are looked at on the way
TEACHING = 3  # what a token costs that teaches, beside one that is only read
OFTEN = 2  # how often a word without a vector must stand in the examples to get one
EVERY_WORD = 1 << 20  # entries of a vocabulary of words that were cut before
OF_READERS, OF_VECTORS = 3e-3, 1e-2  # rates of what reads vectors of words, and of a head that reads them as they are
FROZEN_STEPS = 2000  # the fewest where such vectors stay as they are: a step costs little, and they are not forgotten
OF_HEADS = 2e-3  # the rate where only a head learns
MILDER = 0.7  # what fine-tuning may take of the rate of learning from nothing, at most
LANGUAGE = 0.5  # what the language model counts beside the task, in GPT's paper
MANY = 20_000  # examples from which on it helps: with fewer it did not, there and here, and costs as much as the rest


@dataclass(frozen=True, eq=False)
class AdaptPlan:
    """What is to be adapted to what, and how; everything that the result depends on."""

    spec: ModelSpec
    size: str | None
    tokenizer: Tokenizer
    init_from: InitFrom | None  # None: from nothing, to see what pre-training is worth
    source: LabeledSource
    labeled_data: LabeledData
    task: Task
    adaptation: Adaptation
    recipe: Recipe

    @property
    def request(self) -> dict[str, Any]:
        """As JSON gives it back, so that it can be compared with what a folder says."""
        told = {
            "milestone": model_name(self.spec),
            "fields": asdict(self.spec),
            "beginning": None if self.init_from is None else self.init_from.weights,
            "task": self.task.to_dict(),
            "adaptation": self.adaptation.to_dict(),
            "examples": self.source.to_dict(),
            "digests": self.source.digests(),
            "recipe": self.recipe.to_dict(),
        }
        return json.loads(json.dumps(told))


def plan_adaptation(
    begin: str,
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
    """`begin` is a run's folder or a milestone's name; `how` and `options` are fields of Adaptation and of the task.

    `fields` are those of a milestone that begins from nothing.
    `dropout` is the encoder's while it is adapted, or that of what reads it; None: as it is in the run.
    """
    if begin in LINEAGE and not Path(begin).is_dir():
        kind, beginning = model_spec(begin), None
        named = size or kind.size or None
        milestone = build_model_spec(begin, kind, named, fields or {})
    else:
        beginning = _beginning(begin)
        milestone, named = beginning.folder.spec, beginning.folder.metadata.get("size")
        if size is not None:
            raise InputError("--size means nothing beside a run: it has its own", hint="leave it out")
    if milestone.learns_from == "pairs":
        what, hint = "translates: tasks are learned by those that read one text", "choose another, such as bert"
        raise InputError(what, file=begin, hint=hint)
    if milestone.learns_from == "tags" and source.task != "tagging":
        what = f"{model_name(milestone)} learns to tag words and nothing else; these examples are of {source.task}"
        hint = "give words with their tags, or choose another milestone, such as ngram"
        raise InputError(what, file=source.train, hint=hint)
    reads_features = (how or {}).get("how") == "features"
    if dropout is not None and (milestone.learning == "counting" or reads_features):
        nothing = "where the encoder only gives features" if reads_features else "to a model that counts"
        raise InputError(f"--dropout means nothing {nothing}", hint="leave it out")
    if dropout is not None and _reads_by_reader(milestone, beginning, how or {}):
        how = {**(how or {}), "reader_dropout": dropout}
    elif dropout is not None or (reads_features and milestone.dropout is not None):
        milestone = replace(milestone, dropout=dropout or 0.0)  # pyright: ignore[reportCallIssue]
    data = data or read_labeled(source)
    given = {**({"scheme": data.scheme} if data.scheme else {}), **(options or {})}
    if milestone.learns_tags and source.task == "tagging":
        given["crf"] = True  # it is a chain by itself
    task = task_class(source.task).from_examples(data.train, **given)
    adaptation = choose_adaptation(milestone, beginning, len(data.train), how or {})
    tokenizer = adaptation_tokenizer(milestone, beginning, adaptation, source.task, data)
    way = "only counts" if milestone.learning == "counting" else "descending"
    check_unused_settings(
        model_name(milestone), "searching" if uses_full_batch(milestone, task) else way, settings or {}
    )
    for flag, why in _idle(task, adaptation, settings or {}, counts=milestone.learning == "counting"):
        raise InputError(f"--{flag} means nothing here: {why}", hint="leave it out")
    recipe = adaptation_recipe(milestone, tokenizer, task, adaptation, data, settings or {}, fresh=beginning is None)
    return AdaptPlan(milestone, named, tokenizer, beginning, source, data, task, adaptation, recipe)


def _beginning(run: str) -> InitFrom:
    if not Path(run).exists():
        what = "there is no such run, and no milestone of that name"
        raise InputError(what, file=run, hint=f"{suggest(run, LINEAGE)} (forebear runs lists the runs)")
    folder = RunFolder.open(run)
    folder.require_trainable()
    if "weights" not in folder.metadata:
        raise InputError("is not finished", file=run, hint=f"finish it first: {folder.resume_command}")
    return InitFrom(str(folder.path.absolute()), folder.metadata["weights"]["sha256"])


def choose_adaptation(
    milestone: ModelSpec, beginning: InitFrom | None, examples: int, given: Mapping[str, Any]
) -> Adaptation:
    """What was asked for, and otherwise what suits the milestone and so many examples."""
    told = {name: value for name, value in given.items() if value is not None}
    if not told.get("mixture_norm"):
        told.pop("mixture_norm", None)
    predicts = milestone.learning == "descending" and "next" in _heads(milestone, beginning)
    predicts = predicts and not milestone.char_level and not told.get("reader")  # no letters can be predicted
    if told.get("language") and not predicts:
        what = "--language is for encoders that predict the next token, such as gpt"
        raise InputError(what, hint="leave it out")
    told = _with_reader(milestone, beginning, told)
    helps = predicts and beginning is not None and examples >= MANY and told.get("how", "finetune") == "finetune"
    usual = LANGUAGE if helps else 0.0
    return Adaptation(**{"language": usual, **told})


def _reads_by_reader(milestone: ModelSpec, beginning: InitFrom | None, given: Mapping[str, Any]) -> bool:
    """Whether a small network stands above what was pre-trained, and reads it."""
    if milestone.needs_task_encoder or not milestone.accepts_task_encoder:
        return milestone.needs_task_encoder
    known = None if beginning is None or beginning.folder.task is None else beginning.folder.adaptation.reader
    return (given.get("reader") or known) is not None


def _with_reader(milestone: ModelSpec, beginning: InitFrom | None, told: dict[str, Any]) -> dict[str, Any]:
    """What reads vectors of words, where they are all there is: as in the run, if it was adapted before."""
    given = [name for name in told if name.startswith(("reader", "mixture"))]
    if milestone.accepts_task_encoder and not milestone.needs_task_encoder:
        known = beginning.folder.adaptation.to_dict() if beginning is not None and beginning.folder.task else {}
        own = {name: value for name, value in known.items() if name.startswith(("reader", "mixture"))}
        told = {**own, **told}
        return {"mixture": "before", **told} if told.get("reader") else told
    if not milestone.needs_task_encoder:
        if given:
            what = f"--{given[0].replace('_', '-')} means nothing to {model_name(milestone)}, which has an encoder of its own"
            raise InputError(what, hint="leave it out, or begin with vectors of words, such as a run of word2vec")
        return told
    if mixing := [name for name in given if name.startswith("mixture")]:
        what = (
            f"--{mixing[0].replace('_', '-')} means nothing to {model_name(milestone)}: vectors of words are one layer"
        )
        raise InputError(what, hint="leave it out, or begin with a recurrent run, such as elmo")
    known = beginning.folder.adaptation.to_dict() if beginning is not None and beginning.folder.task is not None else {}
    if told.get("freeze_layers") and not known:
        what = f"--freeze-layers {told['freeze_layers']}: what reads the vectors has learned nothing yet"
        raise InputError(what, hint="--how freeze alone keeps the vectors as they are")
    own = {name: value for name, value in known.items() if name in ("reader", "reader_width")}
    return {"reader": "mean", **own, **told}


def _idle(
    task: Task, adaptation: Adaptation, settings: Mapping[str, Any], *, counts: bool
) -> Iterator[tuple[str, str]]:
    """Settings that would change nothing, with why: who gives one believes that it does."""
    if settings.get("held_out") is not None:
        yield "held-out", "--dev-share says how many examples are held out"
    for field in fields(Adaptation) if counts else ():
        if field.name != "balanced" and getattr(adaptation, field.name) != field.default:
            flag = "head-dropout" if field.name == "dropout" else field.name.replace("_", "-")
            yield flag, "a model that counts has no layers to adapt"
    if adaptation.balanced and not task.labels:
        yield "balanced", "it is for examples with labels"
    if adaptation.balanced and counts and task.is_multi_label:
        yield "balanced", "where labels are several at once, only a network weighs them"
    if adaptation.read is not None and not task.pools_rows:
        yield "read", "it is for texts that are judged as a whole; here every word is"


def _heads(milestone: ModelSpec, beginning: InitFrom | None) -> Sequence[str]:
    from forebear.experiments.explain import sample_batch

    told = beginning.folder.metadata.get("heads") if beginning else None
    return told if told is not None else tuple(sample_batch(milestone)[0].targets)


def adaptation_tokenizer(
    milestone: ModelSpec, beginning: InitFrom | None, adaptation: Adaptation, task: str, data: LabeledData
) -> Tokenizer:
    """The run's own, or one that is learned from the examples.

    Where vectors of words learn with the task, words of the examples that have none get one.
    """
    if beginning is None or (task == "tagging" and milestone.learns_tags):  # whose words are those that were tagged
        return milestone.task_tokenizer(_learned_tokenizer(milestone, task, data))
    if not milestone.needs_task_encoder or adaptation.how != "finetune":
        return milestone.task_tokenizer(beginning.tokenizer)
    texts = [text for example in data.train for text in example_texts(example)]
    return extend_vocabulary(beginning.tokenizer, missing_words(beginning.tokenizer, texts, OFTEN), found=True)[0]


def _learned_tokenizer(milestone: ModelSpec, task: str, data: LabeledData) -> Tokenizer:
    """Without a run: one of the milestone's usual kind, learned from the examples to learn from."""
    from forebear.data.source import suggest_vocab_size
    from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
    from forebear.data.tokenizers.train import train_tokenizer

    texts = [text for example in data.train for text in example_texts(example)]
    kind = milestone.tokenizer
    more: dict[str, Any] = {}
    if task == "tagging" and milestone.learns_tags:
        return train_tokenizer("words", texts, split="spaces", segmenter=None, size=EVERY_WORD)
    if task == "tagging" and milestone.learning == "counting":
        kind, more["lower"] = "wordpiece", False  # parts and capitals of names that nobody has seen before
    if kind == "bytepair" and "mask" in milestone.needs:
        more["specials"] = ROBERTA_SPECIALS
    size = suggest_vocab_size(kind, sum(len(text.encode("utf-8", "replace")) for text in texts))
    return train_tokenizer(kind, texts, size=size, **more)


def finetuning_rate(width: int, most: float) -> float:
    """BERT-base's for its width. Narrow networks bear far more: of 2e-4 to 2e-3, 1e-3 did best at a width of 128."""
    return min(2e-5 * (768 / width) ** (2.2 if width < 768 else 1), most)


def _rate(milestone: ModelSpec, adaptation: Adaptation, *, fresh: bool) -> float:
    if adaptation.reader is not None:
        return OF_VECTORS if adaptation.how == "features" else OF_READERS
    usual = milestone.default_recipe()["rate"]
    if fresh or adaptation.how == "features":
        return usual if fresh else OF_HEADS
    return finetuning_rate(milestone.width, MILDER * usual)  # pyright: ignore[reportAttributeAccessIssue]


def adaptation_recipe(
    milestone: ModelSpec,
    tokenizer: Tokenizer,
    task: Task,
    adaptation: Adaptation,
    data: LabeledData,
    settings: Mapping[str, Any],
    *,
    fresh: bool,
) -> Recipe:
    """Defaults that suit the encoder's width and the number of examples, and whatever a person says instead."""
    layout = milestone.input_format(tokenizer)
    rows = task.encode(data.train[: 20 * MORE], tokenizer, layout, learning=True)
    mean = float(rows.example_lengths.mean()) if len(rows) else 1.0  # tokens of an example, in all its windows
    if uses_full_batch(milestone, task):
        every = max(1, round(2 * mean * len(data.train)))  # tokens, about
        return merge_recipe({"batch": every, **milestone.default_recipe()}, settings)
    if milestone.learning == "counting":
        return merge_recipe({"batch": max(1, round(2 * mean * len(data.train))), "epochs": 1}, settings)
    rate = _rate(milestone, adaptation, fresh=fresh)
    batch = max(
        1, round((MORE if fresh else EXAMPLES) * min(mean, layout.max_length or mean))
    )  # a long text is one row
    if adaptation.reader is not None:
        batch = max(1, round(MORE * mean))
    own: dict[str, Any] = {"rate": rate, "batch": batch, "decay": 0.01, "memory": 0.98}
    batch = merge_recipe(own, {name: value for name, value in settings.items() if name == "batch"}).batch
    epoch = max(1, round(mean * len(data.train) / batch))
    least = LEAST_STEPS if adaptation.reader is None or adaptation.how == "finetune" else FROZEN_STEPS
    own["epochs"] = float(min(max(EPOCHS[0], -(-least // epoch)), EPOCHS[1]))
    made = merge_recipe(own, settings)
    if made.evaluate_every is None:
        steps = made.steps or round((made.epochs or 0) * epoch) or 4 * epoch
        looks = min(LOOKS, max(1, steps // 10))  # at ten steps or more apart: they too take their time
        look = mean * min(len(data.dev), MAX_EVAL_EXAMPLES) / made.batch / TEACHING  # of a step
        made = replace(made, evaluate_every=max(1, steps // looks, round(look / LOOKING)))
    return made
