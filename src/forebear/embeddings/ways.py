"""How compiled loops are to learn word vectors, from how often each word occurs."""

from __future__ import annotations

import numpy as np

from forebear.embeddings.word2vec import HuffmanTree, huffman_tree
from forebear.kernels.windows import OutputTargets
from forebear.kernels.word2vec_sampling import negative_sample_stream, negative_sampling_probs
from forebear.kernels.word2vec_threads import Word2VecVariant

ALIKE = 8  # found by trial: texts of twenty words and of twenty thousand learn in step as well as freely


def word2vec_variant(
    counts: np.ndarray,
    allowed: np.ndarray,
    *,
    kept: np.ndarray,
    window: int,
    mean: bool,
    negatives: int,
    power: float,
    spelling: tuple[np.ndarray, np.ndarray] | None,
) -> Word2VecVariant:
    """`kept` as `thinning` makes it; without negatives, words are told by turns in Huffman's tree."""
    seen = counts * kept.astype(np.float64)
    seen = seen / max(seen.sum(), 1)
    none = np.zeros(0, np.int32)
    if negatives:
        stream = negative_sample_stream(counts, power, allowed)
        tree = HuffmanTree(np.zeros(len(counts) + 1, np.int64), none, none.astype(np.uint8))
        most = told = negatives + 1 if len(stream) else 0
        pulled = seen + negatives * negative_sampling_probs(counts, power, allowed)
    else:
        stream, tree = none, huffman_tree(counts, allowed)
        lengths = np.diff(tree.indptr)
        most, told = int(lengths.max(initial=0)), float(seen @ lengths)
        pulled = np.bincount(tree.path_nodes, np.repeat(seen, lengths), 1)
    alike = ALIKE if negatives else 0
    rows = max(busy(pulled, pulled, alike), told * busy(shared(seen, spelling), seen, alike))
    supply = OutputTargets(stream, negatives, tree.indptr, tree.path_nodes, tree.path_turns)
    return Word2VecVariant(window, mean, supply, most, spelling, rows * (1 if mean else window + 1), told)


def busy(pulled: np.ndarray, seen: np.ndarray, alike: float) -> float:
    """How often the row is pulled that is pulled most; or one that is seen by chance, so many times, if that is more.

    Where few words are all the text, no row is much busier than others, but all are pulled the same way: away from what
    is drawn.
    """
    return max(pulled.max(initial=0), alike * float(pulled @ seen) / max(seen.sum(), 1))


def shared(seen: np.ndarray, spelling: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """How often each word's vector is pulled: when it is seen, and in part when others with the same rows are."""
    if spelling is None:
        return seen
    indptr, rows = spelling
    lengths = np.diff(indptr)
    pulled = np.bincount(rows, np.repeat(seen, lengths))
    return np.add.reduceat(pulled[rows], indptr[:-1]) / lengths
