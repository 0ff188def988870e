"""Word vectors to and from other programs: a run around the vectors of a file, and a run's words as such a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from forebear.interop import word_vectors
from forebear.interop.word_vectors_files import Progress
from forebear.lineage import milestone_named
from forebear.text import words
from forebear.text.blueprint import NAMES
from forebear.text.segmentation import Segmenter, has_han
from forebear.text.tokenizer import Tokenizer
from forebear.using.founding import founded

if TYPE_CHECKING:
    from forebear.training.folder import RunFolder
    from forebear.using.run import Run

LARGE = 100_000_000  # bytes of a file, of which a person wants to know before
PACKED = (".gz", ".zst")
MUCH = 1 << 25  # bytes of a file; of fewer, numpy is done before numba is loaded


class Vectors(TypedDict, total=False):
    """What may be asked of a file of word vectors: see `word_vectors.read`."""

    form: str | None
    limit: int
    on_bad_bytes: str
    progress: Progress


def imported_vectors(path: Path, target: Path, **how: Unpack[Vectors]) -> RunFolder:
    """A run around the vectors of a file, each of its words a token."""
    parse = None
    if path.is_file() and path.stat().st_size >= MUCH:
        from forebear.kernels.decimals import parsed as parse
    read = word_vectors.read(path, parse=parse, **how)
    tokenizer, notes = _tokenizer_of(read.words, path)
    milestone = milestone_named("word2vec")(width=read.matrix.shape[1], output="given")  # pyright: ignore[reportCallIssue]
    network = milestone.network(tokenizer)
    network.give(read.matrix, read.counts)

    def write(file: Path) -> None:
        from safetensors.numpy import save_file

        save_file(network.arrays(), file)

    told = {"imported": str(path), "notes": [*read.notes, *notes], "parameters": network.parameter_count}
    return founded(target, milestone, "word2vec", tokenizer, write, told)


def _tokenizer_of(names: Sequence[str], path: Path) -> tuple[Tokenizer, list[str]]:
    """A tokenizer that knows exactly these words, and what is to be said of it.

    A file does not tell how its text was cut, nor what was done to it before. So it is cut as words are here; where no
    word has a capital letter, none is looked for.
    """
    specials = {role: _free(NAMES[role], names) for role in ("unknown", "end")}
    lower = all(name == name.lower() for name in names) and any(name != name.upper() for name in names)
    chinese = any(map(has_han, names))
    blueprint = words.blueprint(
        [*specials.values(), *names],
        specials=specials,
        normalise=("lower",) if lower else (),
        split="punctuation",
        segmenter=Segmenter() if chinese else None,
        facts={"source": path.name},
    )
    cut = "at white space and punctuation" + (", Chinese by rjieba" if chinese else "")
    letters = ", all in small letters as in the file" if lower else ""
    notes = [f"text is cut {cut}{letters}: words that were cut otherwise are found by name only"]
    if marks := [mark for mark in NAMES["unknown"] if mark in names]:
        notes.append(f"{marks[0]} is a word like others: text that the file does not know has no vector")
    return Tokenizer(blueprint, file=path), notes


def _free(usual: Sequence[str], names: Sequence[str]) -> str:
    """A name for a special token that no word of the file has: what is in the file is a word."""
    taken = set(names)
    name = next((name for name in usual if name not in taken), usual[0])
    while name in taken:
        name = f"<{name}>"
    return name


def told_before_writing(run: Run, form: str, target: Path) -> str:
    """What a person should know before a large file of vectors is written; nothing of one that is small."""
    table = run.words
    count, width = table.matrix.shape
    size = word_vectors.expected_size(form, table.words, table.matrix)
    if size < LARGE or target.suffix in PACKED:
        return ""
    told = f"about {size / 1e6:,.0f} MB will be written: {count:,} words of {width:,} numbers"
    if not isinstance(table.matrix, np.ndarray):
        way = f"--format word2vec --to {target.stem}.gz" if form == "safetensors" else f"--to {target.name}.gz"
        return f"{told}, all of them 0 but one; packed it is far smaller: {way}"
    binary = word_vectors.expected_size("safetensors", table.words, table.matrix)
    smaller = f"; --format safetensors takes {binary / 1e6:,.0f} MB" if binary < 0.8 * size else ""
    return f"{told}{smaller}"


def exported_vectors(run: Run, form: str, target: Path) -> list[str]:
    """Writes the words of a run and their vectors; returns what is to be said of the file."""
    table = run.words
    notes = word_vectors.write(target, form, table.words, table.matrix, table.counts)
    if table.compose is not None:
        notes.append(
            "vectors of words that are not in it cannot be composed of the file: it holds those of whole words"
        )
    return notes
