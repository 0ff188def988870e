"""How good word vectors are, for benchmarks: agreement with people about pairs of words, and analogies solved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from side_by_side import DATA

from forebear.embeddings.evaluation import MAX_ANALOGY_WORDS, AnalogySet, analogy_eval, read_word_eval_file
from forebear.embeddings.lexicon import Lexicon
from forebear.embeddings.word_table import WordVectors
from forebear.numerics import spearman

FILES = ("EN-WS-353-ALL.txt", "EN-MTurk-771.txt", "questions-words.txt")
CHINESE_FILES = ("zh-wordsim-240.txt", "zh-wordsim-297.txt", "CA8/morphological.txt", "CA8/semantic.txt")


def judged(words: Sequence[str], matrix: np.ndarray, files: Sequence[str] = FILES) -> list[float]:
    """For each file the rank correlation over the pairs that are known, or the share of known analogies solved."""
    table = WordVectors(list(words), np.asarray(matrix, np.float32))
    found = []
    for name in files:
        read = read_word_eval_file(DATA / "words" / name)
        if isinstance(read, AnalogySet):
            found.append(
                analogy_eval(Lexicon(table, lambda text: [text]), read, MAX_ANALOGY_WORDS, "add").overall.accuracy
                or 0.0
            )
            continue
        vectors = [[table.vector(word) for word in pair] for pair in read.pairs]
        known = [at for at, pair in enumerate(vectors) if all(vector is not None for vector in pair)]
        cosines = [_cosine(*vectors[at]) for at in known]
        found.append(float(spearman(np.array(cosines), np.asarray(read.scores)[known])))
    return found


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-12))
