"""What is to be trained, on what, and how: sizes, fields, recipe files and flags, and which of them wins."""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from forebear.errors import BadInput
from forebear.lineage import milestone_named, name_of, nearest
from forebear.milestones.milestone import Milestone
from forebear.text.choosing import KINDS
from forebear.text.corpus import TOKENIZER, Corpus
from forebear.text.pairs import ParallelCorpus
from forebear.text.sides import TARGET_TOKENIZER, Sides
from forebear.text.tokenised import is_tokenised
from forebear.text.tokenizer import Tokenizer
from forebear.training.corpora import Progress, TextSource, corpus_of, is_corpus
from forebear.training.parallel_corpora import Cutting, parallel_corpus
from forebear.training.recipe import BUDGETS, Recipe, amount, recipe_from
from forebear.using.beginning import Beginning
from forebear.using.heeding import fields_heeded, heeded, names_heeded, way_of
from forebear.using.pair_plans import fits

SLOWER = 0.3  # of the usual rate, where training goes on from weights that know something already
DEFAULT_TIME = 300.0  # seconds, where nothing says how long
OPTIONS = ("to", "size", "tokenizer", "vocabulary", "recipe", "resume", "overwrite", "sentences", "segment", "workers")
OPTIONS += ("from", "add_words", "entities", "pairs", "columns", "target_tokenizer", "target_vocabulary")
OPTIONS += ("processes", "shard")
FAULTS = ("on_bad_rows", "on_bad_tags")  # of files of words and tags, which are read elsewhere
OF_LINES = (
    "the text is cut into words already, so it is taken as programs for n-grams take it: spaces part words, each "
)
OF_LINES += "line is a text, and all of it is counted (otherwise: --tokenizer words, --unit document, --held-out 0.05)"
WRITTEN = ("milestone", "size", "tokenizer", "vocabulary")  # what stands at the top of a recipe file


@dataclass(frozen=True)
class Plan:
    """What is to be trained, on what, and how; everything that a run's result depends on."""

    milestone: Milestone
    size: str | None
    source: TextSource
    tokenizer: str | Tokenizer | Sides | None  # None: of the kind that the milestone is used with
    vocabulary: int | None
    recipe: Recipe
    beginning: Beginning | None = None  # None: from nothing
    target_tokenizer: str | None = None  # of translations, where it is another
    target_vocabulary: int | None = None
    notes: tuple[str, ...] = ()  # what was decided that a person may want otherwise

    def corpus(
        self,
        *,
        workers: int | None = None,
        learning_progress: Progress | None = None,
        progress: Progress | None = None,
    ) -> Corpus | ParallelCorpus:
        """Its text, cut into tokens: as it was prepared before, or now."""
        with self.about():
            if self.source.pairs:
                assert not isinstance(self.tokenizer, Tokenizer)
                return parallel_corpus(
                    self.source,
                    Cutting(self.tokenizer, self.vocabulary, self.target_tokenizer, self.target_vocabulary),
                    default=self.milestone.tokenizer,
                    held_out=self.recipe.held_out,
                    workers=workers,
                    learning_progress=learning_progress,
                    progress=progress,
                )
            assert not isinstance(self.tokenizer, Sides)
            corpus = corpus_of(
                self.source,
                self.tokenizer,
                default=self.milestone.tokenizer,
                needs=self.milestone.needs,
                least_count=self.milestone.least_count,
                vocabulary=self.vocabulary,
                held_out=self.recipe.held_out,
                workers=workers,
                learning_progress=learning_progress,
                progress=progress,
            )
            least, tokenizer = self.milestone.least_count, corpus.tokenizer
            if least is not None and tokenizer.size <= len(tokenizer.specials):
                raise BadInput(f"no word of this text is seen {least} times", remedy="give more text, or --min-count 1")
            return corpus

    @contextlib.contextmanager
    def about(self) -> Iterator[None]:
        """What is wrong in here, and names no place, is wrong with this text."""
        try:
            yield
        except BadInput as error:
            if error.file is None and self.source.paths:
                error.file = self.source.paths[0]
            raise

    def _written_tokenizer(self, to: Path) -> str | Path | None:
        if self.beginning is not None:  # it comes with the run
            return None
        return to / TOKENIZER if isinstance(self.tokenizer, Tokenizer | Sides) else self.tokenizer

    def _written_target(self, to: Path) -> str | Path | None:
        if self.beginning is None and isinstance(self.tokenizer, Sides) and not self.tokenizer.joint:
            return to / TARGET_TOKENIZER
        return self.target_tokenizer

    def command(self, to: Path) -> str:
        """What to write on a command line for the same."""
        kind = type(self.milestone)
        size = self.size or kind.size
        usual_fields, usual_recipe = asdict(kind(**kind.sizes.get(size, {}))), _recipe_of(self.milestone).to_json()
        usual_source = asdict(TextSource(()))
        source = asdict(replace(self.source, paths=()))
        changed = {
            "size": None if size == kind.size else size,
            "tokenizer": self._written_tokenizer(to),
            "vocabulary": self.vocabulary,
            "target_tokenizer": self._written_target(to),
            "target_vocabulary": self.target_vocabulary,
            **_changed(asdict(self.milestone), usual_fields),
            **_changed(self.recipe.to_json(), usual_recipe),
            **_changed(source.pop("reading"), usual_source.pop("reading")),
            **_changed(source, usual_source),
            "from": None if self.beginning is None else self.beginning.run,
            "add_words": None if self.beginning is None else self.beginning.words_file,
            "to": to,
        }
        changed.pop("pairs", None)
        marked = ["--pairs"] if self.source.pairs else []
        words = ["forebear", "pretrain", name_of(self.milestone), *marked, *self.source.paths]
        for name, value in changed.items():
            if value is not None:
                flag = f"--{_dashed(name)}"
                words += [flag] if value is True and name == "segment" else [flag, str(value)]
        return shlex.join(words)


def _changed(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value != usual.get(name)}


def plan(
    milestone: str,
    texts: Sequence[str],
    *,
    size: str | None = None,
    tokenizer: str | os.PathLike[str] | Tokenizer | Sides | None = None,
    vocabulary: int | None = None,
    target_tokenizer: str | os.PathLike[str] | None = None,
    target_vocabulary: int | None = None,
    source: TextSource | None = None,
    recipe: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    beginning: Beginning | None = None,
) -> Plan:
    """`settings` are fields of the milestone and of the recipe: they win over `recipe`, and that over the defaults.

    With a `beginning`, fields and tokenizer are those of the run to begin with.
    """
    kind = milestone_named(milestone)
    written = dict(recipe or {})
    if beginning is not None:
        written, tokenizer = _continued(beginning, milestone, written, size, tokenizer or vocabulary), None
    if written.get("milestone", milestone) != milestone:
        told = written["milestone"]
        raise BadInput(f"the recipe is for {told}, not for {milestone}", remedy=f"forebear pretrain {told} …")
    own, given = shared_out(milestone, kind, settings or {})
    source = replace(source or TextSource(()), paths=tuple(map(str, texts)))
    notes: tuple[str, ...] = ()
    free = beginning is None and not (tokenizer or written.get("tokenizer"))
    if free and "unit" not in {**written.get("fields", {}), **own} and _is_of_lines(kind, source):
        notes, tokenizer, source = (OF_LINES,), "spaces", replace(source, sentences="lines")
        own, given = {**own, "unit": "sentence"}, {"held_out": 0.0, **written.get("recipe", {}), **given}
    size = size or written.get("size") or (kind.size if beginning is None else None) or None
    made = built(milestone, kind, size, {**written.get("fields", {}), **own})
    fields_heeded(made, [*(recipe or {}).get("fields", {}), *own])
    heeded(milestone, way_of(kind), {**written.get("recipe", {}), **given})
    slower = beginning is not None and kind.learning == "descending"  # new rows of a table must learn as fast as any
    own_rate = {"rate": SLOWER * made.recipe()["rate"]} if slower else {}
    recipe_made = _recipe_of(made, own_rate, written.get("recipe", {}), given)
    if beginning is not None and made.least_count is not None and beginning.words_file is None and texts:
        beginning = beginning.grown(source, made.least_count, recipe_made.held_out)
    tokenizer = tokenizer or written.get("tokenizer") or (beginning.tokenizers if beginning else None)
    vocabulary = _entries(tokenizer, vocabulary or written.get("vocabulary"))
    _examined(milestone, kind, recipe_made)
    fits(milestone, kind, source, {"tokenizer": target_tokenizer, "vocabulary": target_vocabulary})
    if is_corpus(source) and replace(source, paths=()) != TextSource(()):
        what = "is a corpus already: how to read text and to find sentences was decided when it was prepared"
        raise BadInput(what, file=source.paths[0], remedy="leave out those options, or give the text instead")
    names_heeded(milestone, made, source.entities)
    if made.wants_words and not is_corpus(source):
        source = replace(source, segment=True)
    return Plan(
        made,
        _size_of(made),
        source,
        os.fspath(tokenizer) if isinstance(tokenizer, os.PathLike) else tokenizer,
        vocabulary,
        recipe_made,
        beginning,
        os.fspath(target_tokenizer) if target_tokenizer is not None else None,
        None if target_vocabulary is None else amount(target_vocabulary, "target_vocabulary"),
        notes,
    )


def _entries(tokenizer: Any, vocabulary: Any) -> int | None:
    """How many entries a tokenizer is to have that is learned; an error where it is none, or is not learned."""
    if not isinstance(tokenizer, str | os.PathLike | Tokenizer | Sides | None):
        raise BadInput(f"--tokenizer is {tokenizer!r}", remedy="name a kind, such as bytepair, or a file")
    if vocabulary is None:
        return None
    entries = amount(vocabulary, "vocabulary")
    if tokenizer is not None and tokenizer not in KINDS:
        what = f"--vocabulary {entries} means nothing beside a tokenizer that is not learned"
        raise BadInput(what, remedy="leave it out")
    return entries


def _examined(milestone: str, kind: type[Milestone], recipe: Recipe) -> None:
    """An error where nothing is held out, and something must be."""
    if not recipe.held_out and not kind.takes_lines:
        what = f"--held-out 0: how well {milestone} has learned is told by text that it has not seen"
        raise BadInput(what, remedy="give a share above 0, such as 0.05")


def _is_of_lines(kind: type[Milestone], source: TextSource) -> bool:
    """Whether this is text that other programs take line by line, for a milestone that takes it so too."""
    if (
        not kind.takes_lines
        or not source.paths
        or is_corpus(source)
        or source != TextSource(source.paths, source.reading)
    ):
        return False
    return source.reading.documents == "blank" and is_tokenised(source.paths, source.reading)


def _continued(
    beginning: Beginning, milestone: str, written: dict[str, Any], size: str | None, cutting: object
) -> dict[str, Any]:
    """What a recipe file says, over the fields of the run that is gone on from; an error where they contradict."""
    run = beginning.folder
    own = run.facts["milestone"]
    if own != milestone:
        raise BadInput(f"is a run of {own}, not of {milestone}", file=run.path, remedy=f"forebear pretrain {own} …")
    for name, value in (("size", size or written.get("size")), ("tokenizer or --vocabulary", cutting)):
        if value is not None:
            what = f"--{name} means nothing beside --from: that of the run is taken"
            raise BadInput(what, remedy="leave it out")
    return {**written, "fields": {**run.facts["fields"], **written.get("fields", {})}}


def _size_of(milestone: Milestone) -> str | None:
    """The name of the size that has these fields; None where they are one's own."""
    kind = type(milestone)
    return next((name for name, own in kind.sizes.items() if kind(**own) == milestone), None)


def _recipe_of(milestone: Milestone, *layers: Mapping[str, Any]) -> Recipe:
    """The milestone's own recipe, and whatever is laid over it."""
    own = milestone.recipe()
    default = {} if any(name in own for name in BUDGETS) else {"time": DEFAULT_TIME}
    return recipe_from(default, own, *layers)


def shared_out(
    milestone: str, kind: type[Milestone], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the milestone, and settings of the recipe."""
    own = [field.name for field in fields(kind)]
    names = [*own, *(field.name for field in fields(Recipe))]
    for name in settings:
        if name in FAULTS:
            what = f"--{_dashed(name)} is for words with their tags, and {milestone} learns from plain text here"
            raise BadInput(what, remedy="leave it out")
        if name not in names:
            near = difflib.get_close_matches(name, [*names, *OPTIONS], n=1, cutoff=0.7)
            remedy = (
                f"did you mean --{_dashed(near[0])}?" if near else f"its own are: --{', --'.join(map(_dashed, own))}"
            )
            raise BadInput(f"--{_dashed(name)} is no setting of {milestone} or of training", remedy=remedy)
    given = {name: value for name, value in settings.items() if value is not None}
    return (
        {name: value for name, value in given.items() if name in own},
        {name: value for name, value in given.items() if name not in own},
    )


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def built(milestone: str, kind: type[Milestone], size: str | None, own: Mapping[str, Any]) -> Milestone:
    """The milestone in this size, with these fields; values may be written as on the command line."""
    if size is not None and size not in kind.sizes:
        raise BadInput(f"{milestone} has no size {size!r}", remedy=nearest(str(size), kind.sizes))
    kinds = {field.name: str(field.type) for field in fields(kind)}
    for name in own:
        if name not in kinds:
            raise BadInput(f"{milestone} has no field {name!r}", remedy=nearest(name, kinds))
    values = {name: _typed(name, kinds[name], value) for name, value in own.items()}
    if values.get("output") == "given":
        remedy = "choose --output negatives or tree; forebear import reads vectors from elsewhere"
        raise BadInput("--output given is that of imported vectors: there is nothing to learn", remedy=remedy)
    if values.get("smoothing") == "given":
        remedy = "choose --smoothing kneser-ney; forebear import reads ARPA files from elsewhere"
        raise BadInput("--smoothing given is that of imported n-grams: there is nothing to count", remedy=remedy)
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
        raise BadInput(f"--{_dashed(name)} is {value!r}", remedy=f"give a value of type {kind}") from error
    return made
