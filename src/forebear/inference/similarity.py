"""Which sentences of a file are nearest to a text: by the cosine of their vectors, which are made once and kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forebear.data.io.atomic import cache_folder
from forebear.embeddings.knn import COSINE_DIGITS, HNSWIndex, KNNResult, nearest_rows
from forebear.embeddings.lexicon import ONEHOT_NOTE, lexicon_notes, unit_rows
from forebear.errors import InputError
from forebear.inference.embed import embed_texts, has_word_vectors, is_word_table, resolve_embedding_options
from forebear.training.checkpoint import file_digest

if TYPE_CHECKING:
    from forebear.inference.run import LoadedRun

TOGETHER = 2048  # texts that are sorted by length and read at once
CLOSE = 0.999  # the least cosine of two vectors that one run makes of one text
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class SentenceNeighbor:
    """A text of those that were searched, its number from 1 (the line of a file), and its cosine."""

    text: str
    line: int
    cosine: float


@dataclass(frozen=True)
class SentenceNeighbors:
    """A text and its nearest ones, the nearest first."""

    text: str
    nearest: tuple[SentenceNeighbor, ...]

    def to_dict(self) -> dict[str, Any]:
        told = [{"text": one.text, "line": one.line, "cosine": round(one.cosine, 6)} for one in self.nearest]
        return {"text": self.text, "nearest": told}


class SentenceIndex:
    """Texts to be searched, and their vectors: given, kept from before, or made now.

    Whatever gives vectors to texts can be searched so: `matrix` has a row for each text.
    """

    def __init__(self, texts: Sequence[str], matrix: np.ndarray, kept: Path | None = None) -> None:
        self.texts, self.matrix, self._kept = texts, matrix, kept

    @cached_property
    def index(self) -> HNSWIndex:
        return HNSWIndex(self.matrix, None if self._kept is None else self._kept.with_suffix(".usearch"))

    def search(
        self, texts: Sequence[str], vectors: np.ndarray, top: int, *, approximate: bool = False
    ) -> list[SentenceNeighbors]:
        """The `top` nearest of each text, which has this vector."""
        if top < 1:
            raise InputError(f"--top is {top}", hint="ask for at least one neighbour")
        found: KNNResult = self.index.search(vectors, top) if approximate else nearest_rows(vectors, self.matrix, top)
        made = []
        for text, rows, cosines in zip(texts, found.rows.tolist(), found.cosines.tolist(), strict=True):
            near = (
                SentenceNeighbor(self.texts[int(row)], row + 1, cosine)
                for row, cosine in zip(rows, cosines, strict=True)
            )
            made.append(SentenceNeighbors(text, tuple(near)))
        return made


def sentence_neighbors(
    run: LoadedRun,
    texts: str | Sequence[str],
    among: str | os.PathLike[str] | Sequence[str],
    *,
    top: int = 5,
    approximate: bool = False,
    vectors: str | os.PathLike[str] | None = None,
    **how: Any,
) -> list[SentenceNeighbors]:
    """The `top` nearest of each text `among` texts, or among the lines of a file (see `searched`)."""
    asked = [texts] if isinstance(texts, str) else list(texts)
    found = index_sentences(
        run, read_lines(among) if isinstance(among, str | os.PathLike) else among, vectors=vectors, **how
    )
    return found.search(asked, embed_texts(run, asked, **how).vectors, top, approximate=approximate)


def reject_search_options(how: Mapping[str, Any]) -> None:
    """Refuses what says how texts are searched, where none are."""
    for name, value in how.items():
        if value is not None:
            hint = "leave it out, or name a file to search: --among FILE"
            raise InputError(f"--{name} is for searching texts, and these are words", hint=hint)


def read_lines(file: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file (also .gz, .zst)."""
    from forebear.data.io.files import TextBlocks, find_sources
    from forebear.data.io.ledger import Ledger
    from forebear.data.io.reader import numbered_lines

    for source in find_sources([file]):
        for _, line, _ in numbered_lines(TextBlocks(source, encoding, "fail", Ledger())):
            yield line.removesuffix("\r")


def index_sentences(
    run: LoadedRun,
    among: Iterable[str],
    *,
    vectors: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> SentenceIndex:
    """The texts with the vectors that the run gives them: from a file of `vectors`, from the cache, or made now.

    `how` is what `embed` takes. What is made is kept by what the texts say, the run's weights and how.
    """
    texts = list(among)
    if not texts:
        raise InputError("there is no text to search", hint="give a file with a text a line: --among FILE")
    how["zeros"] = is_word_table(run)  # what a table knows no word of is near to nothing, and keeps its number
    if vectors is not None:
        return SentenceIndex(texts, _given(run, texts, vectors, how))
    file = cache_folder() / "vectors" / f"{_key(run, texts, how)}.npy"
    from forebear.data.io.safetensors import read_vectors, write_vectors

    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_vectors(file, _made(run, texts, how, progress))
    return SentenceIndex(texts, read_vectors(file), file)


def _made(run: LoadedRun, texts: list[str], how: dict[str, Any], progress: Progress | None) -> Iterator[np.ndarray]:
    for at in range(0, len(texts), TOGETHER):
        try:
            yield embed_texts(run, texts[at : at + TOGETHER], **how).vectors
        except InputError as error:
            error.line = None if error.line is None else at + error.line
            raise
        if progress is not None:
            progress(min(at + TOGETHER, len(texts)), len(texts))


def _given(run: LoadedRun, texts: list[str], file: str | os.PathLike[str], how: dict[str, Any]) -> np.ndarray:
    """The vectors of a file, if they are those of these texts: as many, as wide, and alike in three places."""
    from forebear.data.io.safetensors import read_vectors

    found = read_vectors(file)
    if len(found) != len(texts):
        hint = "make them of this file: forebear embed RUN --in FILE --out vectors.npy"
        raise InputError(f"holds {len(found):,} vectors, and there are {len(texts):,} texts", file=file, hint=hint)
    places = sorted({0, len(texts) // 2, len(texts) - 1})
    own = embed_texts(run, [texts[place] for place in places], **how).vectors
    if own.shape[1] != found.shape[1]:
        hint = "give the run with which they were made"
        raise InputError(f"vectors are {found.shape[1]} wide, those of this run {own.shape[1]}", file=file, hint=hint)
    for place, vector in zip(places, own, strict=True):
        same = nearest_rows(vector[None], found[place : place + 1], 1).cosines[0, 0] >= CLOSE
        if not same and (vector.any() or found[place].any()):
            what = f"vector {place + 1:,} is not what this run makes of that text"
            hint = "give the run, --layers, --pooling and the file with which they were made, or leave --vectors out"
            raise InputError(what, file=file, hint=hint)
    return found


def _key(run: LoadedRun, texts: list[str], how: dict[str, Any]) -> str:
    """A name for these vectors: a digest of all they depend on."""
    own = [file_digest(run.folder.verified_weights()[0]), run.tokenizer.digest, resolve_embedding_options(run, **how)]
    key = hashlib.sha256(json.dumps(own, sort_keys=True).encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:32]


# How alike words or texts are, and which is the odd one: by a run's own words, or by the texts in context.


LEAST = 3  # of two, neither is odd
SAME = 1.5 * 10**-COSINE_DIGITS  # means that differ by less, which is rounding, are equal


@dataclass(frozen=True)
class Similarity:
    """Two texts and the cosine of their vectors: of "words" by themselves, or of "texts" in context."""

    texts: tuple[str, str]
    cosine: float
    vector_kind: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"texts": list(self.texts), "cosine": round(self.cosine, COSINE_DIGITS)}
        return told | {"by": self.vector_kind, "notes": list(self.notes)}


@dataclass(frozen=True)
class OutlierResult:
    """The text that is least like the others, and of each the mean of its cosines with all others.

    odd  None where all are as far from the others
    """

    outlier: str | None
    texts: tuple[str, ...]
    cosines: tuple[float, ...]
    vector_kind: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        pairs = zip(self.texts, self.cosines, strict=True)
        told = [{"text": text, "cosine": round(cosine, COSINE_DIGITS)} for text, cosine in pairs]
        return {"odd": self.outlier, "texts": told, "by": self.vector_kind, "notes": list(self.notes)}


def text_similarities(run: LoadedRun, pairs: Sequence[tuple[str, str]], **how: Any) -> list[Similarity]:
    """How alike the two of each pair are, by themselves where both are words; a fault is one of the pair of its number.

    `how` is what `embed` takes: where something is asked of it, texts are embedded.
    """
    run.require("similarity")
    by_words = [_are_words(run, pair, how) for pair in pairs]
    others = [text for pair, words in zip(pairs, by_words, strict=True) if not words for text in pair]
    with _numbered(pairs, [number for number, words in enumerate(by_words, 1) if not words for _ in "ab"]):
        embedded = iter(_of_texts(run, others, how))
    made = []
    for number, (pair, words) in enumerate(zip(pairs, by_words, strict=True), 1):
        with _numbered(pairs, [number, number]):
            (first, second), notes = _of_words(run, pair) if words else ((next(embedded), next(embedded)), ())
        made.append(Similarity(pair, float(first @ second), "words" if words else "texts", notes))
    return made


def find_outlier(run: LoadedRun, texts: Sequence[str], **how: Any) -> OutlierResult:
    """The one whose cosines with all others have the lowest mean; of equals the first, and none where all are."""
    run.require("odd-one-out")
    if len(texts) < LEAST:
        raise InputError(f"of {len(texts)} texts none is the odd one", hint=f"give at least {LEAST}")
    words = _are_words(run, texts, how)
    units, notes = _of_words(run, texts) if words else (_of_texts(run, texts, how), ())
    means = np.round((units @ units.T).sum(1, where=~np.eye(len(texts), dtype=bool)) / (len(texts) - 1), COSINE_DIGITS)
    odd = texts[int(means.argmin())] if means.max() - means.min() > SAME else None
    return OutlierResult(odd, tuple(texts), tuple(means.tolist()), "words" if words else "texts", notes)


def _are_words(run: LoadedRun, texts: Sequence[str], how: dict[str, Any]) -> bool:
    """Whether a table tells these: a network is asked for its table only if each is a word that it knows."""
    if any(value is not None for value in how.values()):
        return False
    return is_word_table(run) or (has_word_vectors(run) and all(run.lexicon.row_of(text) is not None for text in texts))


def _of_words(run: LoadedRun, texts: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    found = run.lexicon.find_all(texts)
    different = len({one.rows for one in found}) > 1
    more = (ONEHOT_NOTE,) if run.lexicon.is_onehot and different else ()
    return unit_rows(np.stack([one.vector for one in found])), (*lexicon_notes(found), *more)


def _of_texts(run: LoadedRun, texts: Sequence[str], how: dict[str, Any]) -> np.ndarray:
    return unit_rows(embed_texts(run, texts, **how).vectors) if texts else np.empty((0, 1))


@contextmanager
def _numbered(pairs: Sequence[object], numbers: Sequence[int]) -> Iterator[None]:
    """A fault of text number n is one of the pair that has it."""
    try:
        yield
    except InputError as error:
        error.line = None if len(pairs) == 1 else numbers[(error.line or 1) - 1]
        raise
