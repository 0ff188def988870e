"""Which sentences of a file are nearest to a text: by the cosine of their vectors, which are made once and kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.errors import BadInput
from forebear.text.aside import cache
from forebear.training.checkpoint import digest
from forebear.using.embedding import matrix_of, settled
from forebear.using.nearest import Index, Nearest, nearest
from forebear.using.words import is_table

if TYPE_CHECKING:
    from forebear.using.opened import Opened

TOGETHER = 2048  # texts that are sorted by length and read at once
CLOSE = 0.999  # the least cosine of two vectors that one run makes of one text
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Neighbour:
    """A text of those that were searched, its number from 1 (the line of a file), and its cosine."""

    text: str
    number: int
    cosine: float


@dataclass(frozen=True)
class Neighbours:
    """A text and its nearest ones, the nearest first."""

    text: str
    nearest: tuple[Neighbour, ...]

    def facts(self) -> dict[str, Any]:
        told = [{"text": one.text, "line": one.number, "cosine": round(one.cosine, 6)} for one in self.nearest]
        return {"text": self.text, "nearest": told}


class Searched:
    """Texts to be searched, and their vectors: given, kept from before, or made now.

    Whatever gives vectors to texts can be searched so: `matrix` has a row for each text.
    """

    def __init__(self, texts: Sequence[str], matrix: np.ndarray, kept: Path | None = None) -> None:
        self.texts, self.matrix, self._kept = texts, matrix, kept

    @cached_property
    def index(self) -> Index:
        return Index(self.matrix, None if self._kept is None else self._kept.with_suffix(".usearch"))

    def near(
        self, texts: Sequence[str], vectors: np.ndarray, top: int, *, approximate: bool = False
    ) -> list[Neighbours]:
        """The `top` nearest of each text, which has this vector."""
        if top < 1:
            raise BadInput(f"--top is {top}", remedy="ask for at least one neighbour")
        found: Nearest = self.index.nearest(vectors, top) if approximate else nearest(vectors, self.matrix, top)
        made = []
        for text, rows, cosines in zip(texts, found.rows.tolist(), found.cosines.tolist(), strict=True):
            near = (Neighbour(self.texts[int(row)], row + 1, cosine) for row, cosine in zip(rows, cosines, strict=True))
            made.append(Neighbours(text, tuple(near)))
        return made


def neighbours(
    run: Opened,
    texts: str | Sequence[str],
    among: str | os.PathLike[str] | Sequence[str],
    *,
    top: int = 5,
    approximate: bool = False,
    vectors: str | os.PathLike[str] | None = None,
    **how: Any,
) -> list[Neighbours]:
    """The `top` nearest of each text `among` texts, or among the lines of a file (see `searched`)."""
    asked = [texts] if isinstance(texts, str) else list(texts)
    found = searched(run, lines_of(among) if isinstance(among, str | os.PathLike) else among, vectors=vectors, **how)
    return found.near(asked, matrix_of(run, asked, **how).vectors, top, approximate=approximate)


def own_words(how: Mapping[str, Any]) -> None:
    """Refuses what says how texts are searched, where none are."""
    for name, value in how.items():
        if value is not None:
            remedy = "leave it out, or name a file to search: --among FILE"
            raise BadInput(f"--{name} is for searching texts, and these are words", remedy=remedy)


def lines_of(file: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file (also .gz, .zst)."""
    from forebear.text.blocks import Blocks
    from forebear.text.ledger import Ledger
    from forebear.text.records import numbered_lines
    from forebear.text.sources import find

    for source in find([file]):
        for _, line, _ in numbered_lines(Blocks(source, encoding, "fail", Ledger())):
            yield line.removesuffix("\r")


def searched(
    run: Opened,
    among: Iterable[str],
    *,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Searched:
    """The texts with the vectors that the run gives them: from a file of `vectors`, from the cache, or made now.

    `how` is what `embed` takes. What is made is kept by what the texts say, the run's weights and how.
    """
    texts = list(among)
    if not texts:
        raise BadInput("there is no text to search", remedy="give a file with a text a line: --among FILE")
    how["zeros"] = is_table(run)  # what a table knows no word of is near to nothing, and keeps its number
    if vectors is not None:
        return Searched(texts, _given(run, texts, vectors, how))
    file = cache() / "vectors" / f"{_key(run, texts, how)}.npy"
    from forebear.using.vector_files import read_vectors, write_vectors

    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_vectors(file, _made(run, texts, how, progress))
    return Searched(texts, read_vectors(file), file)


def _made(run: Opened, texts: list[str], how: dict[str, Any], progress: Progress | None) -> Iterator[np.ndarray]:
    for at in range(0, len(texts), TOGETHER):
        try:
            yield matrix_of(run, texts[at : at + TOGETHER], **how).vectors
        except BadInput as error:
            error.line = None if error.line is None else at + error.line
            raise
        if progress is not None:
            progress(min(at + TOGETHER, len(texts)), len(texts))


def _given(run: Opened, texts: list[str], file: str | os.PathLike[str], how: dict[str, Any]) -> np.ndarray:
    """The vectors of a file, if they are those of these texts: as many, as wide, and alike in three places."""
    from forebear.using.vector_files import read_vectors

    found = read_vectors(file)
    if len(found) != len(texts):
        remedy = "make them of this file: forebear embed RUN --in FILE --out vectors.npy"
        raise BadInput(f"holds {len(found):,} vectors, and there are {len(texts):,} texts", file=file, remedy=remedy)
    places = sorted({0, len(texts) // 2, len(texts) - 1})
    own = matrix_of(run, [texts[place] for place in places], **how).vectors
    if own.shape[1] != found.shape[1]:
        remedy = "give the run with which they were made"
        raise BadInput(f"vectors are {found.shape[1]} wide, those of this run {own.shape[1]}", file=file, remedy=remedy)
    for place, vector in zip(places, own, strict=True):
        same = nearest(vector[None], found[place : place + 1], 1).cosines[0, 0] >= CLOSE
        if not same and (vector.any() or found[place].any()):
            what = f"vector {place + 1:,} is not what this run makes of that text"
            remedy = "give the run, --layers, --pooling and the file with which they were made, or leave --vectors out"
            raise BadInput(what, file=file, remedy=remedy)
    return found


def _key(run: Opened, texts: list[str], how: dict[str, Any]) -> str:
    """A name for these vectors: a digest of all they depend on."""
    own = [digest(run.folder.weights()[0]), run.tokenizer.digest, settled(run, **how)]
    key = hashlib.sha256(json.dumps(own, sort_keys=True).encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:32]
