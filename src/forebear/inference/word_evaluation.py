"""Word similarity and analogy files evaluated with the vectors of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from forebear.embeddings.evaluation import (
    MOST_FREQUENT,
    AnalogyEval,
    AnalogySet,
    SimilarityEval,
    WordPairSet,
    analogy_eval,
    read_word_eval_file,
    similarity_eval,
    table_similarity_eval,
)
from forebear.embeddings.lexicon import AnalogyMethod
from forebear.errors import InputError, require_choice
from forebear.inference.embed import embed_texts, has_word_vectors

if TYPE_CHECKING:
    from forebear.inference.run import LoadedRun


def evaluate_words(
    run: LoadedRun,
    files: Sequence[str | os.PathLike[str]],
    *,
    most_frequent: int | None = None,
    method: AnalogyMethod = "add",
    encoding: str = "utf-8",
) -> list[SimilarityEval | AnalogyEval]:
    """What each file says of the run's vectors; all are read before anything is computed."""
    run.require("similarity")
    require_choice("method", method, get_args(AnalogyMethod))
    if most_frequent is not None and most_frequent < 0:
        raise InputError(f"--most-frequent is {most_frequent}", hint="give a number of words, or 0 for all")
    contents = [read_word_eval_file(file, encoding) for file in files]
    for content in contents:
        if isinstance(content, AnalogySet) and not has_word_vectors(run):
            hint = "give files of pairs, or a run whose tokens are words (--tokenizer words, word2vec, …)"
            raise InputError("analogies are answered from a table of words, and this run has none", file=content.file,
                           hint=hint)  # fmt: skip
    max_words = MOST_FREQUENT if most_frequent is None else most_frequent
    return [
        analogy_eval(run.lexicon, content, max_words, method)
        if isinstance(content, AnalogySet)
        else _evaluate_pairs(run, content)
        for content in contents
    ]


def _evaluate_pairs(run: LoadedRun, pairs: WordPairSet) -> SimilarityEval:
    if has_word_vectors(run):
        return table_similarity_eval(run.word_table, pairs)
    words = list(dict.fromkeys(word for pair in pairs.pairs for word in pair))
    vectors = dict(zip(words, embed_texts(run, words).vectors, strict=True))
    return similarity_eval(pairs, vectors.get, "texts")
