"""From parallel text to what a run trains on: the two sides, their tokenizers, and both corpora."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.characters import codes_of, is_han
from forebear.text.choosing import KINDS, Learning, tokenizer_for
from forebear.text.encoding import content_hash
from forebear.text.pairs import ParallelCorpus, apart_by
from forebear.text.parallel import PairReading, TwoFiles, two_files
from forebear.text.preparing import Progress, prepare
from forebear.text.reading import Reading
from forebear.text.sides import Sides
from forebear.text.tokenizer import Tokenizer
from forebear.training.corpora import TextSource, source_again, unchanged, vocabulary_for

LINES = Reading(documents="lines", format="text")
LOOKED_AT = 200_000  # characters of each side by which its script is judged
MOSTLY = 0.3  # of characters: from there on a text is Chinese, whatever names and numbers stand in it


@dataclass(frozen=True)
class Cutting:
    """How the sides are cut: a kind or a file for either; without one for the target, one for both where they share a
    script."""

    tokenizer: str | Sides | None = None
    vocabulary: int | None = None
    target_tokenizer: str | None = None
    target_vocabulary: int | None = None


def parallel_corpus(
    source: TextSource,
    cutting: Cutting,
    *,
    default: str,
    held_out: float,
    workers: int | None = None,
    learning_progress: Progress | None = None,
    progress: Progress | None = None,
) -> ParallelCorpus:
    """The corpus of these pairs: as it was prepared before, or now."""
    reading = PairReading(source.columns, source.reading.encoding, source.reading.on_bad_bytes)
    files = two_files(source.paths, reading)
    sides = cutting.tokenizer
    if not isinstance(sides, Sides):
        sides = _learned(files, cutting, default, held_out, learning_progress)
    one, two = (
        prepare([path], tokenizer, reading=LINES, sentences="whole", workers=workers, progress=progress)
        for path, tokenizer in zip(files.paths, (sides.source, sides.target), strict=True)
    )
    return ParallelCorpus(files, one, two)


def parallel_again(data: Mapping[str, Any], sides: Sides, held_out: float) -> ParallelCorpus:
    """The pairs that a run was begun with, if they are still what they were."""
    source = source_again(data)
    corpus = parallel_corpus(source, Cutting(sides), default="", held_out=held_out)
    return unchanged(corpus, source, data)


def _learned(files: TwoFiles, cutting: Cutting, default: str, held_out: float, progress: Progress | None) -> Sides:
    """Tokenizers for both sides, learned from the pairs that teach, or read from files."""
    chinese = [_is_chinese(path) for path in files.paths]
    usual = ["characters" if is_chinese else default for is_chinese in chinese]
    one, two = cutting.tokenizer, cutting.target_tokenizer
    assert not isinstance(one, Sides)
    joint = two is None and cutting.target_vocabulary is None and (one is not None or usual[0] == usual[1])
    with tempfile.TemporaryDirectory(prefix="forebear-pairs-") as folder:
        taught = _taught(files, held_out, Path(folder))
        if joint:
            made = _tokenizer(one or usual[0], taught, cutting.vocabulary, progress)
            return Sides(made, made)
        return Sides(
            _tokenizer(one or usual[0], taught[:1], cutting.vocabulary, progress),
            _tokenizer(two or one or usual[1], taught[1:], cutting.target_vocabulary or cutting.vocabulary, progress),
        )


def _tokenizer(kind: str, paths: Sequence[str], vocabulary: int | None, progress: Progress | None) -> Tokenizer:
    if kind in KINDS:
        size = vocabulary or vocabulary_for(kind, sum(Path(path).stat().st_size for path in paths))
        learning = Learning(size=size)
        if kind == "wordpiece":  # what is written must come out as people write it
            learning = replace(learning, lower=False)
        return tokenizer_for(kind, paths, LINES, learning, progress=progress)
    if vocabulary is not None:
        what = f"--vocabulary {vocabulary} means nothing beside a tokenizer that is not learned"
        raise BadInput(what, remedy="leave it out")
    return tokenizer_for(kind, paths, LINES)


def _taught(files: TwoFiles, held_out: float, folder: Path) -> list[str]:
    """The two sides without the pairs that will examine, as files."""
    with open(files.paths[0], encoding="utf-8") as lines:
        hashes = np.fromiter((content_hash(line) for line in lines), np.uint64, files.count)
    apart = apart_by(hashes, held_out)[0]
    made = []
    for path in files.paths:
        made.append(str(folder / Path(path).name))
        with open(path, encoding="utf-8") as lines, open(made[-1], "w", encoding="utf-8") as kept:
            kept.writelines(line for line, examines in zip(lines, apart, strict=True) if not examines)
    return made


def _is_chinese(path: str) -> bool:
    with open(path, encoding="utf-8") as file:
        codes = codes_of(file.read(LOOKED_AT))
    return bool(is_han(codes).mean() > MOSTLY)
