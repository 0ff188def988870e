"""From a person's text to what a run trains on, and back to the same from what the run says of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.corpus.corpus import CORPUS_FILE, Corpus
from forebear.data.corpus.prepare import PROGRESS_BYTES, SinglePassText, prepare_corpus
from forebear.data.entities import EntityDictionary
from forebear.data.io.atomic import cache_folder
from forebear.data.io.files import find_sources
from forebear.data.io.reader import TextFormat
from forebear.data.segmentation import Segmenter
from forebear.data.source import TOKENIZER_KINDS, WHITESPACE, TokenizerTrainingOptions, tokenizer_for
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.tokenizer_json import ROBERTA_SPECIALS
from forebear.errors import ForebearError, InputError

ProgressFn = Callable[[int, int], object]
MAX_VOCAB_SIZE = 1 << 28  # entries, more than any text has words


@dataclass(frozen=True)
class TextSource:
    """Text and how to take it: everything that decides what a corpus of it holds, beside the tokenizer."""

    paths: tuple[str, ...]
    reading: TextFormat = field(default_factory=TextFormat)
    sentences: str = "split"
    segment: bool = False
    user_dict: str | None = None
    entities: str | None = None
    pairs: bool = False  # texts and their translations, side by side
    columns: str = ""  # of the two sides, where they stand in one file

    def segmenter(self) -> Segmenter | None:
        if self.user_dict is not None:
            return Segmenter.from_file(self.user_dict)
        return Segmenter() if self.segment or self.entities is not None else None

    def entity_dictionary(self) -> EntityDictionary | None:
        """The dictionary of entities, if there is one; where there is, words are found too."""
        return EntityDictionary.from_file(self.entities) if self.entities is not None else None

    def to_dict(self) -> dict[str, Any]:
        told = {**asdict(self), "paths": [os.path.abspath(path) for path in self.paths]}
        files = {name: os.path.abspath(told[name]) for name in ("user_dict", "entities") if told[name] is not None}
        return {**told, **files}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> TextSource:
        known = {one.name for one in fields(cls)}
        rest = {name: value for name, value in told.items() if name in known - {"paths", "reading"}}
        return cls(tuple(told["paths"]), TextFormat(**told["reading"]), **rest)


def is_corpus(source: TextSource) -> bool:
    """Whether this is no text but a corpus that was prepared before."""
    return len(source.paths) == 1 and (Path(source.paths[0]) / CORPUS_FILE).is_file()


def prepare_source(
    source: TextSource,
    tokenizer: str | os.PathLike[str] | Tokenizer | None,
    *,
    default: str = "bytepair",
    needs: Sequence[str] = (),
    least_count: int | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.0,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> Corpus:
    """The corpus of this text with this tokenizer: a kind, learned from it, or a file; None: the default kind.

    `needs` are the roles of special tokens that one learned now must have; with a `least_count`, words have every word
    that occurs so often. A corpus is taken as it is, if it has what is asked for.
    """
    if is_corpus(source):
        corpus = Corpus.open(source.paths[0])
        _agree(corpus, tokenizer, vocabulary)
        return corpus
    segmenter, names = source.segmenter(), source.entity_dictionary()
    tokenizer, once = tokenizer or default, None
    if not isinstance(tokenizer, Tokenizer):
        size = vocabulary
        if vocabulary is None:
            size = suggest_vocab_size(
                str(tokenizer), sum(found.file_stamp()[2] for found in find_sources(source.paths))
            )
        learning = (
            TokenizerTrainingOptions(size=size) if str(tokenizer) in TOKENIZER_KINDS else TokenizerTrainingOptions()
        )
        if tokenizer == WHITESPACE or (tokenizer == "words" and least_count is not None):
            learning = replace(learning, size=MAX_VOCAB_SIZE if size is None else size, min_count=least_count or 1)
        if tokenizer == "bytepair" and "mask" in needs:  # by itself it has a single special token, as in GPT-2
            learning = replace(learning, specials=ROBERTA_SPECIALS)
        if tokenizer == WHITESPACE and segmenter is None and source.reading.format != "tagged" and workers in (None, 1):
            once = SinglePassText(source.reading, source.sentences, PROGRESS_BYTES)  # pyright: ignore[reportArgumentType] - as below
        tokenizer = tokenizer_for(
            tokenizer, source.paths, source.reading, learning, segmenter, learning_progress, held_out, once
        )
    return prepare_corpus(
        source.paths,
        tokenizer,
        reading=source.reading,
        sentences=source.sentences,  # pyright: ignore[reportArgumentType] - prepare checks it
        segmenter=segmenter,
        entities=names,
        workers=workers,
        progress=progress,
        once=once,
    )


def _agree(corpus: Corpus, tokenizer: str | os.PathLike[str] | Tokenizer | None, vocabulary: int | None) -> None:
    """An error where a corpus was cut otherwise than is now asked for."""
    own = corpus.tokenizer
    if tokenizer is None or tokenizer == own.kind:
        same = True
    elif tokenizer in TOKENIZER_KINDS:
        same = False
    else:
        asked = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        same = asked.digest == own.digest
    if not same or vocabulary not in (None, own.vocab_size):
        what = f"this corpus was cut by another tokenizer ({own.kind}, {own.vocab_size:,} entries)"
        hint = "give the text instead; or leave --tokenizer and --vocabulary out, to take it as it is"
        raise InputError(what, file=corpus.folder, hint=hint)


def suggest_vocab_size(kind: str, size: int) -> int | None:
    """How many pieces a text of this size can teach: twice the root of its bytes, between five hundred and 32,000."""
    return int(min(32_000, max(512, 2 * size**0.5))) if kind in ("bytepair", "wordpiece") else None


def reopen_corpus(data: Mapping[str, Any], tokenizer: Tokenizer) -> Corpus:
    """The corpus that a run was begun with: where it was, or in the cache, or made again from the same text."""
    if (there := _there(data)) is not None:
        return there
    source = reopen_source(data)
    return require_unchanged(prepare_source(source, tokenizer), source, data)


def reopen_source(data: Mapping[str, Any]) -> TextSource:
    """The text that a run was begun with, if it is still where it was."""
    source = TextSource.from_dict(data["source"])
    for path in source.paths:
        if not os.path.exists(path):
            raise InputError(
                "the text of this run is gone, and so is its corpus", file=path, hint="put the text back where it was"
            )
    return source


def require_unchanged(corpus: Any, source: TextSource, data: Mapping[str, Any]) -> Any:
    """The corpus, if it is still the one that a run was begun with."""
    if corpus.key != data["corpus"]:
        raise InputError(
            "the text of this run has changed since it began",
            file=source.paths[0],
            hint="put the old text back, or train a new run on the new text",
        )
    return corpus


def _there(data: Mapping[str, Any]) -> Corpus | None:
    """The corpus of a run as it still stands on disk."""
    for folder in (Path(data["folder"]), cache_folder() / "corpora" / data["corpus"][:32]):
        with suppress(ForebearError):
            corpus = Corpus.open(folder)
            if corpus.key == data["corpus"]:
                return corpus
    return None


def trained_documents(data: Mapping[str, Any], held_out: float, corpus: Corpus) -> np.ndarray | None:
    """Which documents of a corpus a run has learned from, if only from their beginning; None where nobody knows."""
    there = _there(data)
    if there is None:
        return None
    taught = np.isin(there.documents[:-1], there.split(held_out).train.units[:, 0])
    return np.isin(corpus.hashes, there.hashes[taught])
