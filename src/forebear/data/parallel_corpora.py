"""From parallel text to what a run trains on: the two sides, their tokenizers, and both corpora."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forebear.data.corpora import TextSource, reopen_source, require_unchanged, suggest_vocab_size
from forebear.data.corpus.encode import content_hash
from forebear.data.corpus.parallel import (
    AlignedFiles,
    ParallelCorpus,
    ParallelFormat,
    TokenizerPair,
    held_out_pairs,
    read_parallel,
)
from forebear.data.corpus.prepare import ProgressFn, prepare_corpus
from forebear.data.io.reader import TextFormat
from forebear.data.source import TOKENIZER_KINDS, TokenizerTrainingOptions, tokenizer_for
from forebear.data.tokenizers.char_level import code_points, is_han
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.errors import InputError

LINES = TextFormat(documents="lines", format="text")
PARALLEL_CORPORA_LOOKED_AT = 200_000  # characters of each side by which its script is judged
MOSTLY = 0.3  # of characters: from there on a text is Chinese, whatever names and numbers stand in it


@dataclass(frozen=True)
class TokenizerPairOptions:
    """How the sides are cut: a kind or a file for either; without one for the target, one for both where they share a
    script."""

    source_tokenizer: str | TokenizerPair | None = None
    source_vocab_size: int | None = None
    target_tokenizer: str | None = None
    target_vocab_size: int | None = None


def prepare_parallel_corpus(
    source: TextSource,
    cutting: TokenizerPairOptions,
    *,
    default: str,
    held_out: float,
    workers: int | None = None,
    learning_progress: ProgressFn | None = None,
    progress: ProgressFn | None = None,
) -> ParallelCorpus:
    """The corpus of these pairs: as it was prepared before, or now."""
    reading = ParallelFormat(source.columns, source.reading.encoding, source.reading.on_bad_bytes)
    files = read_parallel(source.paths, reading)
    sides = cutting.source_tokenizer
    if not isinstance(sides, TokenizerPair):
        sides = _parallel_corpora_learned(files, cutting, default, held_out, learning_progress)
    one, two = (
        prepare_corpus([path], tokenizer, reading=LINES, sentences="whole", workers=workers, progress=progress)
        for path, tokenizer in zip(files.paths, (sides.source, sides.target), strict=True)
    )
    return ParallelCorpus(files, one, two)


def reopen_parallel_corpus(data: Mapping[str, Any], sides: TokenizerPair, held_out: float) -> ParallelCorpus:
    """The pairs that a run was begun with, if they are still what they were."""
    source = reopen_source(data)
    corpus = prepare_parallel_corpus(source, TokenizerPairOptions(sides), default="", held_out=held_out)
    return require_unchanged(corpus, source, data)


def _parallel_corpora_learned(
    files: AlignedFiles, cutting: TokenizerPairOptions, default: str, held_out: float, progress: ProgressFn | None
) -> TokenizerPair:
    """Tokenizers for both sides, learned from the pairs that teach, or read from files."""
    chinese = [_is_chinese(path) for path in files.paths]
    usual = ["characters" if is_chinese else default for is_chinese in chinese]
    one, two = cutting.source_tokenizer, cutting.target_tokenizer
    assert not isinstance(one, TokenizerPair)
    joint = two is None and cutting.target_vocab_size is None and (one is not None or usual[0] == usual[1])
    with tempfile.TemporaryDirectory(prefix="forebear-pairs-") as folder:
        taught = _taught(files, held_out, Path(folder))
        if joint:
            made = _tokenizer(one or usual[0], taught, cutting.source_vocab_size, progress)
            return TokenizerPair(made, made)
        return TokenizerPair(
            _tokenizer(one or usual[0], taught[:1], cutting.source_vocab_size, progress),
            _tokenizer(
                two or one or usual[1], taught[1:], cutting.target_vocab_size or cutting.source_vocab_size, progress
            ),
        )


def _tokenizer(kind: str, paths: Sequence[str], vocabulary: int | None, progress: ProgressFn | None) -> Tokenizer:
    if kind in TOKENIZER_KINDS:
        size = vocabulary or suggest_vocab_size(kind, sum(Path(path).stat().st_size for path in paths))
        learning = TokenizerTrainingOptions(size=size)
        if kind == "wordpiece":  # what is written must come out as people write it
            learning = replace(learning, lower=False)
        return tokenizer_for(kind, paths, LINES, learning, progress=progress)
    if vocabulary is not None:
        what = f"--vocabulary {vocabulary} means nothing beside a tokenizer that is not learned"
        raise InputError(what, hint="leave it out")
    return tokenizer_for(kind, paths, LINES)


def _taught(files: AlignedFiles, held_out: float, folder: Path) -> list[str]:
    """The two sides without the pairs that will examine, as files."""
    with open(files.paths[0], encoding="utf-8") as lines:
        hashes = np.fromiter((content_hash(line) for line in lines), np.uint64, files.count)
    apart = held_out_pairs(hashes, held_out)[0]
    made = []
    for path in files.paths:
        made.append(str(folder / Path(path).name))
        with open(path, encoding="utf-8") as lines, open(made[-1], "w", encoding="utf-8") as kept:
            kept.writelines(line for line, examines in zip(lines, apart, strict=True) if not examines)
    return made


def _is_chinese(path: str) -> bool:
    with open(path, encoding="utf-8") as file:
        codes = code_points(file.read(PARALLEL_CORPORA_LOOKED_AT))
    return bool(is_han(codes).mean() > MOSTLY)
