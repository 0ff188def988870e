"""Semantic search over sentences with cached embeddings; text similarity and odd one out; evaluation on word files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from forebear.data.io.atomic import cache_folder, file_digest
from forebear.data.io.sources import ProgressFn
from forebear.data.io.text_formats import read_lines
from forebear.embeddings.evaluation import (
    MAX_ANALOGY_WORDS,
    AnalogyEval,
    AnalogySet,
    SimilarityEval,
    analogy_eval,
    read_word_eval_file,
    similarity_eval,
    table_similarity_eval,
)
from forebear.embeddings.knn import COSINE_DIGITS, HNSWIndex, KNNResult, nearest_rows
from forebear.embeddings.lexicon import ONEHOT_NOTE, AnalogyMethod, lexicon_notes
from forebear.errors import InputError, require_choice
from forebear.inference.embed import embed_texts, has_word_vectors, is_word_table, resolve_embedding_options
from forebear.numerics import unit_rows

if TYPE_CHECKING:
    from forebear.inference.run import LoadedRun

BATCH_TEXTS = 2048  # texts sorted by length and embedded together
MIN_SAME_COSINE = 0.999  # minimum cosine of two embeddings of the same text by the same run


@dataclass(frozen=True)
class SentenceNeighbor:
    """A search result: text, line number (from 1), and cosine."""

    text: str
    line: int
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "line": self.line, "cosine": round(self.cosine, 6)}


@dataclass(frozen=True)
class SentenceNeighbors:
    """A query and its results, nearest first."""

    text: str
    nearest: tuple[SentenceNeighbor, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "nearest": [neighbor.to_dict() for neighbor in self.nearest]}


class SentenceIndex:
    """Searchable texts, each with its embedding as a row of `matrix`."""

    def __init__(self, texts: Sequence[str], matrix: np.ndarray, vector_file: Path | None = None) -> None:
        self.texts, self.matrix, self._vector_file = texts, matrix, vector_file

    @cached_property
    def index(self) -> HNSWIndex:
        return HNSWIndex(self.matrix, None if self._vector_file is None else self._vector_file.with_suffix(".usearch"))

    def search(
        self, texts: Sequence[str], vectors: np.ndarray, top: int, *, approximate: bool = False
    ) -> list[SentenceNeighbors]:
        """The `top` nearest texts of each query, given its vector."""
        if top < 1:
            raise InputError(f"--top is {top}", hint="ask for at least one neighbour")
        matches: KNNResult = self.index.search(vectors, top) if approximate else nearest_rows(vectors, self.matrix, top)
        results = []
        for text, rows, cosines in zip(texts, matches.rows.tolist(), matches.cosines.tolist(), strict=True):
            nearest = zip(rows, cosines, strict=True)
            neighbors = (SentenceNeighbor(self.texts[int(row)], row + 1, cosine) for row, cosine in nearest)
            results.append(SentenceNeighbors(text, tuple(neighbors)))
        return results


def sentence_neighbors(
    run: LoadedRun,
    texts: str | Sequence[str],
    corpus_texts: str | os.PathLike[str] | Sequence[str],
    *,
    top: int = 5,
    approximate: bool = False,
    vectors: str | os.PathLike[str] | None = None,
    **options: Any,
) -> list[SentenceNeighbors]:
    """The `top` nearest neighbors of each text among other texts or the lines of a file (see `index_sentences`)."""
    queries = [texts] if isinstance(texts, str) else list(texts)
    searched_texts = read_lines(corpus_texts) if isinstance(corpus_texts, str | os.PathLike) else corpus_texts
    index = index_sentences(run, searched_texts, vectors=vectors, **options)
    return index.search(queries, embed_texts(run, queries, **options).vectors, top, approximate=approximate)


def reject_search_options(options: Mapping[str, Any]) -> None:
    """Raise InputError for options of text search, which have no effect on word search."""
    for name, value in options.items():
        if value is not None:
            hint = "leave it out, or name a file to search: --among FILE"
            raise InputError(f"--{name} is for searching texts, and these are words", hint=hint)


def index_sentences(
    run: LoadedRun,
    corpus_texts: Iterable[str],
    *,
    vectors: str | os.PathLike[str] | None = None,
    progress: ProgressFn | None = None,
    **options: Any,
) -> SentenceIndex:
    """Embed texts for search, or load their embeddings from a file of `vectors` or from the cache.

    `options` are those of `embed`. The cache key depends on the texts, the weights of the run, and the options.
    """
    texts = list(corpus_texts)
    if not texts:
        raise InputError("there is no text to search", hint="give a file with a text a line: --among FILE")
    options["zeros"] = is_word_table(run)  # texts without known words get zeros, so that rows match line numbers
    if vectors is not None:
        return SentenceIndex(texts, _read_matching_vectors(run, texts, vectors, options))
    path = cache_folder() / "vectors" / f"{_cache_key(run, texts, options)}.npy"
    from forebear.data.io.arrays import read_vectors, write_vectors

    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_vectors(path, _embed_batches(run, texts, options, progress))
    return SentenceIndex(texts, read_vectors(path), path)


def _embed_batches(
    run: LoadedRun, texts: list[str], options: dict[str, Any], progress: ProgressFn | None
) -> Iterator[np.ndarray]:
    for start in range(0, len(texts), BATCH_TEXTS):
        try:
            yield embed_texts(run, texts[start : start + BATCH_TEXTS], **options).vectors
        except InputError as error:
            error.line = None if error.line is None else start + error.line
            raise
        if progress is not None:
            progress(min(start + BATCH_TEXTS, len(texts)), len(texts))


def _read_matching_vectors(
    run: LoadedRun, texts: list[str], file: str | os.PathLike[str], options: dict[str, Any]
) -> np.ndarray:
    """Load embeddings from a file, checked against the texts by number, width, and three samples."""
    from forebear.data.io.arrays import read_vectors

    vectors = read_vectors(file)
    if len(vectors) != len(texts):
        hint = "make them of this file: forebear embed RUN --in FILE --out vectors.npy"
        raise InputError(f"holds {len(vectors):,} vectors, and there are {len(texts):,} texts", file=file, hint=hint)
    sampled = sorted({0, len(texts) // 2, len(texts) - 1})
    expected = embed_texts(run, [texts[index] for index in sampled], **options).vectors
    if expected.shape[1] != vectors.shape[1]:
        hint = "give the run with which they were made"
        message = f"vectors are {vectors.shape[1]} wide, those of this run {expected.shape[1]}"
        raise InputError(message, file=file, hint=hint)
    for index, vector in zip(sampled, expected, strict=True):
        is_same = nearest_rows(vector[None], vectors[index : index + 1], 1).cosines[0, 0] >= MIN_SAME_COSINE
        if not is_same and (vector.any() or vectors[index].any()):
            message = f"vector {index + 1:,} is not what this run makes of that text"
            hint = "give the run, --layers, --pooling and the file with which they were made, or leave --vectors out"
            raise InputError(message, file=file, hint=hint)
    return vectors


def _cache_key(run: LoadedRun, texts: list[str], options: dict[str, Any]) -> str:
    """The cache key of embeddings: a digest of all they depend on."""
    weights, resolved = file_digest(run.folder.verified_weights()[0]), resolve_embedding_options(run, **options)
    key = hashlib.sha256(json.dumps([weights, run.tokenizer.digest, resolved], sort_keys=True).encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "little") + data)
    return key.hexdigest()[:32]


# --- Similarity and odd one out ---

MIN_OUTLIER_TEXTS = 3
EQUAL_MEAN_TOLERANCE = 1.5 * 10**-COSINE_DIGITS  # means closer than this (rounding) are ties


@dataclass(frozen=True)
class Similarity:
    """Two texts and their cosine, from word vectors ("words") or text embeddings ("texts")."""

    texts: tuple[str, str]
    cosine: float
    vector_kind: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        cosine = round(self.cosine, COSINE_DIGITS)
        return {"texts": list(self.texts), "cosine": cosine, "by": self.vector_kind, "notes": list(self.notes)}


@dataclass(frozen=True)
class OutlierResult:
    """The text that is least similar to the others, and the mean cosine of each text with the others."""

    outlier: str | None  # None: all are equally similar
    texts: tuple[str, ...]
    cosines: tuple[float, ...]
    vector_kind: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        pairs = zip(self.texts, self.cosines, strict=True)
        texts = [{"text": text, "cosine": round(cosine, COSINE_DIGITS)} for text, cosine in pairs]
        return {"odd": self.outlier, "texts": texts, "by": self.vector_kind, "notes": list(self.notes)}


def text_similarities(run: LoadedRun, pairs: Sequence[tuple[str, str]], **options: Any) -> list[Similarity]:
    """Cosine of each pair, from word vectors if both texts are words; errors carry the number of the pair.

    With any of the options of `embed`, texts are embedded instead.
    """
    run.require("similarity")
    uses_words = [_uses_word_table(run, pair, options) for pair in pairs]
    text_pair_indices = [index for index, is_words in enumerate(uses_words) if not is_words]
    with _with_pair_number(pairs, [index for index in text_pair_indices for _ in pairs[index]]):
        text_vectors = iter(_text_vectors(run, [text for index in text_pair_indices for text in pairs[index]], options))
    results = []
    for index, (pair, is_words) in enumerate(zip(pairs, uses_words, strict=True)):
        with _with_pair_number(pairs, [index, index]):
            (first_vector, second_vector), notes = (
                _word_vectors(run, pair) if is_words else ((next(text_vectors), next(text_vectors)), ())
            )
        results.append(Similarity(pair, float(first_vector @ second_vector), "words" if is_words else "texts", notes))
    return results


def find_outlier(run: LoadedRun, texts: Sequence[str], **options: Any) -> OutlierResult:
    """The text with the lowest mean cosine to the others; the first of ties, or none if all are tied."""
    run.require("odd-one-out")
    if len(texts) < MIN_OUTLIER_TEXTS:
        raise InputError(f"of {len(texts)} texts none is the odd one", hint=f"give at least {MIN_OUTLIER_TEXTS}")
    uses_words = _uses_word_table(run, texts, options)
    unit_vectors, notes = _word_vectors(run, texts) if uses_words else (_text_vectors(run, texts, options), ())
    sums = (unit_vectors @ unit_vectors.T).sum(1, where=~np.eye(len(texts), dtype=bool))
    means = np.round(sums / (len(texts) - 1), COSINE_DIGITS)
    outlier = texts[int(means.argmin())] if means.max() - means.min() > EQUAL_MEAN_TOLERANCE else None
    return OutlierResult(outlier, tuple(texts), tuple(means.tolist()), "words" if uses_words else "texts", notes)


def _uses_word_table(run: LoadedRun, texts: Sequence[str], options: dict[str, Any]) -> bool:
    """Whether to use word vectors: for word tables, and for networks if every text is a known word."""
    if any(value is not None for value in options.values()):
        return False
    return is_word_table(run) or (has_word_vectors(run) and all(run.lexicon.row_of(text) is not None for text in texts))


def _word_vectors(run: LoadedRun, texts: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Unit vectors of words from the word table, and notes."""
    matches = run.lexicon.find_all(texts)
    is_distinct = len({match.rows for match in matches}) > 1
    extra_notes = (ONEHOT_NOTE,) if run.lexicon.is_onehot and is_distinct else ()
    return unit_rows(np.stack([match.vector for match in matches])), (*lexicon_notes(matches), *extra_notes)


def _text_vectors(run: LoadedRun, texts: Sequence[str], options: dict[str, Any]) -> np.ndarray:
    """Unit vectors of text embeddings."""
    return unit_rows(embed_texts(run, texts, **options).vectors) if texts else np.empty((0, 1))


@contextmanager
def _with_pair_number(pairs: Sequence[object], pair_indices: Sequence[int]) -> Iterator[None]:
    """Set the line of errors to the number of the pair; `pair_indices` are the pairs of all texts, from 0."""
    try:
        yield
    except InputError as error:
        error.line = None if len(pairs) == 1 else pair_indices[(error.line or 1) - 1] + 1
        raise


# --- Files of word similarities and analogies ---


def evaluate_words(
    run: LoadedRun,
    files: Sequence[str | os.PathLike[str]],
    *,
    most_frequent: int | None = None,
    method: AnalogyMethod = "add",
    encoding: str = "utf-8",
) -> list[SimilarityEval | AnalogyEval]:
    """Evaluate the run's vectors on each file; all files are read before anything is computed."""
    run.require("similarity")
    require_choice("method", method, get_args(AnalogyMethod))
    if most_frequent is not None and most_frequent < 0:
        raise InputError(f"--most-frequent is {most_frequent}", hint="give a number of words, or 0 for all")
    eval_sets = [read_word_eval_file(file, encoding) for file in files]
    for eval_set in eval_sets:
        if isinstance(eval_set, AnalogySet) and not has_word_vectors(run):
            message = "analogies are answered from a table of words, and this run has none"
            hint = "give files of pairs, or a run whose tokens are words (--tokenizer words, word2vec, …)"
            raise InputError(message, file=eval_set.file, hint=hint)
    max_words = MAX_ANALOGY_WORDS if most_frequent is None else most_frequent
    results: list[SimilarityEval | AnalogyEval] = []
    for eval_set in eval_sets:
        if isinstance(eval_set, AnalogySet):
            results.append(analogy_eval(run.lexicon, eval_set, max_words, method))
        elif has_word_vectors(run):
            results.append(table_similarity_eval(run.word_table, eval_set))
        else:
            words = list(dict.fromkeys(chain.from_iterable(eval_set.pairs)))
            vectors = dict(zip(words, embed_texts(run, words).vectors, strict=True))
            results.append(similarity_eval(eval_set, vectors.get, "texts"))
    return results
