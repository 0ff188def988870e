"""From a person's text to what a run trains on, and back to the same from what the run says of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput, ForebearError
from forebear.text.aside import cache
from forebear.text.blueprint import ROBERTA
from forebear.text.choosing import KINDS, SPACES, Learning, tokenizer_for
from forebear.text.corpus import FACTS, Corpus
from forebear.text.entities import Names
from forebear.text.once import Once
from forebear.text.preparing import SOON, prepare
from forebear.text.reading import Reading
from forebear.text.segmentation import Segmenter
from forebear.text.sources import find
from forebear.text.tokenizer import Tokenizer

Progress = Callable[[int, int], object]
EVERY_WORD = 1 << 28  # entries, more than any text has words


@dataclass(frozen=True)
class TextSource:
    """Text and how to take it: everything that decides what a corpus of it holds, beside the tokenizer."""

    paths: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
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

    def names(self) -> Names | None:
        """The dictionary of entities, if there is one; where there is, words are found too."""
        return Names.from_file(self.entities) if self.entities is not None else None

    def to_json(self) -> dict[str, Any]:
        told = {**asdict(self), "paths": [os.path.abspath(path) for path in self.paths]}
        files = {name: os.path.abspath(told[name]) for name in ("user_dict", "entities") if told[name] is not None}
        return {**told, **files}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> TextSource:
        known = {one.name for one in fields(cls)}
        rest = {name: value for name, value in told.items() if name in known - {"paths", "reading"}}
        return cls(tuple(told["paths"]), Reading(**told["reading"]), **rest)


def is_corpus(source: TextSource) -> bool:
    """Whether this is no text but a corpus that was prepared before."""
    return len(source.paths) == 1 and (Path(source.paths[0]) / FACTS).is_file()


def corpus_of(
    source: TextSource,
    tokenizer: str | os.PathLike[str] | Tokenizer | None,
    *,
    default: str = "bytepair",
    needs: Sequence[str] = (),
    least_count: int | None = None,
    vocabulary: int | None = None,
    held_out: float = 0.0,
    workers: int | None = None,
    learning_progress: Progress | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """The corpus of this text with this tokenizer: a kind, learned from it, or a file; None: the default kind.

    `needs` are the roles of special tokens that one learned now must have; with a `least_count`, words have every word
    that occurs so often. A corpus is taken as it is, if it has what is asked for.
    """
    if is_corpus(source):
        corpus = Corpus.open(source.paths[0])
        _agree(corpus, tokenizer, vocabulary)
        return corpus
    segmenter, names = source.segmenter(), source.names()
    tokenizer, once = tokenizer or default, None
    if not isinstance(tokenizer, Tokenizer):
        size = vocabulary
        if vocabulary is None:
            size = vocabulary_for(str(tokenizer), sum(found.stamp()[2] for found in find(source.paths)))
        learning = Learning(size=size) if str(tokenizer) in KINDS else Learning()
        if tokenizer == SPACES or (tokenizer == "words" and least_count is not None):
            learning = replace(learning, size=EVERY_WORD if size is None else size, min_count=least_count or 1)
        if tokenizer == "bytepair" and "mask" in needs:  # by itself it has a single special token, as in GPT-2
            learning = replace(learning, specials=ROBERTA)
        if tokenizer == SPACES and segmenter is None and source.reading.format != "tagged" and workers in (None, 1):
            once = Once(source.reading, source.sentences, SOON)  # pyright: ignore[reportArgumentType] - as below
        tokenizer = tokenizer_for(
            tokenizer, source.paths, source.reading, learning, segmenter, learning_progress, held_out, once
        )
    return prepare(
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
    elif tokenizer in KINDS:
        same = False
    else:
        asked = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
        same = asked.digest == own.digest
    if not same or vocabulary not in (None, own.size):
        what = f"this corpus was cut by another tokenizer ({own.kind}, {own.size:,} entries)"
        remedy = "give the text instead; or leave --tokenizer and --vocabulary out, to take it as it is"
        raise BadInput(what, file=corpus.folder, remedy=remedy)


def vocabulary_for(kind: str, size: int) -> int | None:
    """How many pieces a text of this size can teach: twice the root of its bytes, between five hundred and 32,000."""
    return int(min(32_000, max(512, 2 * size**0.5))) if kind in ("bytepair", "wordpiece") else None


def corpus_again(data: Mapping[str, Any], tokenizer: Tokenizer) -> Corpus:
    """The corpus that a run was begun with: where it was, or in the cache, or made again from the same text."""
    if (there := _there(data)) is not None:
        return there
    source = source_again(data)
    return unchanged(corpus_of(source, tokenizer), source, data)


def source_again(data: Mapping[str, Any]) -> TextSource:
    """The text that a run was begun with, if it is still where it was."""
    source = TextSource.from_json(data["source"])
    for path in source.paths:
        if not os.path.exists(path):
            raise BadInput(
                "the text of this run is gone, and so is its corpus", file=path, remedy="put the text back where it was"
            )
    return source


def unchanged(corpus: Any, source: TextSource, data: Mapping[str, Any]) -> Any:
    """The corpus, if it is still the one that a run was begun with."""
    if corpus.key != data["corpus"]:
        raise BadInput(
            "the text of this run has changed since it began",
            file=source.paths[0],
            remedy="put the old text back, or train a new run on the new text",
        )
    return corpus


def _there(data: Mapping[str, Any]) -> Corpus | None:
    """The corpus of a run as it still stands on disk."""
    for folder in (Path(data["folder"]), cache() / "corpora" / data["corpus"][:32]):
        with suppress(ForebearError):
            corpus = Corpus.open(folder)
            if corpus.key == data["corpus"]:
                return corpus
    return None


def learned_from(data: Mapping[str, Any], held_out: float, corpus: Corpus) -> np.ndarray | None:
    """Which documents of a corpus a run has learned from, if only from their beginning; None where nobody knows."""
    there = _there(data)
    if there is None:
        return None
    taught = np.isin(there.documents[:-1], there.split(held_out).train.units[:, 0])
    return np.isin(corpus.hashes, there.hashes[taught])
