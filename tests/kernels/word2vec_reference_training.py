"""Small texts for word2vec's kernels, and training on them by the reference implementation."""

from __future__ import annotations

import numpy as np

from forebear.embeddings.word2vec import word2vec_variant
from forebear.kernels import word2vec_reference as reference
from forebear.kernels.vector_tables import aligned_table
from forebear.kernels.word2vec_sampling import hash_seed, hash_seeds, keep_probabilities, next_random
from forebear.kernels.word2vec_training import Word2VecVariant

VOCABULARY = 30
ROW_LENGTHS = np.array([1, 150, 2, 97])


def small_text(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Words by falling frequency; some are next to themselves, so that a window contains a row twice."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum(rng.geometric(0.15, ROW_LENGTHS.sum()) - 1, VOCABULARY - 1).astype(np.int32)
    tokens[40:44] = 3
    return tokens, ROW_LENGTHS


def small_variant(
    *, mean: bool, negatives: int, subwords: bool, sample: float = 0.05, window: int = 4
) -> tuple[Word2VecVariant, np.ndarray]:
    """A variant to train on the text, and the keep probability of each word; that of word 5 is 0."""
    tokens, _ = small_text()
    counts = np.bincount(tokens, minlength=VOCABULARY)
    allowed = np.arange(VOCABULARY) != 5
    keep_probs = keep_probabilities(counts, sample, allowed)
    rng = np.random.default_rng(9)
    rows = [[word, *rng.integers(VOCABULARY, VOCABULARY + 8, word % 4)] for word in range(VOCABULARY)]
    subword_table = np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int32)
    variant = word2vec_variant(
        counts, allowed, keep_probs=keep_probs, window=window, mean=mean, negatives=negatives, power=0.75,
        subwords=subword_table if subwords else None,
    )  # fmt: skip
    return variant, keep_probs


def small_tables(width: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs so large that every term of an update is visible."""
    rng = np.random.default_rng(seed)
    tables = aligned_table(VOCABULARY + 8, width), aligned_table(VOCABULARY, width)
    for table in tables:
        table[:, :width] = rng.normal(size=(len(table), width)) / np.sqrt(width)
    return tables


def subsample_reference(tokens: np.ndarray, lengths: np.ndarray, keep_probs: np.ndarray, rng_key: tuple[int, int]):
    """Subsampled words and the ends of rows, one word at a time."""
    state, kept_tokens, ends, rows = hash_seed(*rng_key), [], [], np.split(tokens, np.cumsum(lengths)[:-1])
    for row in rows:
        for word in row.tolist():
            if keep_probs[word]:
                state = next_random(state)
                if state >> 32 < keep_probs[word]:
                    kept_tokens.append(word)
        ends.append(len(kept_tokens))
    return np.array(kept_tokens, np.int32), np.array(ends)


def train_reference(
    inputs: np.ndarray,
    outputs: np.ndarray,
    variant: Word2VecVariant,
    keep_probs: np.ndarray,
    rate: float,
    rng_key: tuple[int, int],
    in_step: bool,
) -> float:
    """Trains in place by the reference implementation, as `train_word2vec` does; the sum of the losses."""
    tokens, ends = subsample_reference(*small_text(), keep_probs, rng_key)
    starts, group_size = (
        variant.deterministic_parts(rate, tokens, VOCABULARY) if in_step else variant.hogwild_parts(rate, len(tokens))
    )
    states = hash_seeds(rng_key, len(starts) - 1).tolist()
    part_windows = []
    for part, state in enumerate(states):
        first, last = starts[part], starts[part + 1]
        windows = reference.training_windows(
            tokens, ends, first, last, state, variant.window, variant.targets, len(variant.target_block)
        )
        part_windows.append(windows)
    if variant.has_wide_window(rate) and not variant.use_mean:
        part_windows = [
            [
                few_words
                for window in windows
                for few_words in split_context(window, variant.context_words_at_once(rate))
            ]
            for windows in part_windows
        ]
    if in_step:
        part_groups = [part_windows[start : start + group_size] for start in range(0, len(part_windows), group_size)]
        groups_of_windows = [[[window for windows in group for window in windows]] for group in part_groups]
    else:
        groups_of_windows = [
            [windows[start : start + group_size] for start in range(0, len(windows), group_size)]
            for windows in part_windows
        ]
    return sum(train_groups(inputs, outputs, groups, variant, rate) for groups in groups_of_windows)


def split_context(window: reference.TrainingWindow, max_words: int) -> list[reference.TrainingWindow]:
    """The window with only a few of its context words at a time."""
    starts = range(0, max(len(window.context_ids), 1), max_words)
    return [reference.TrainingWindow(window.context_ids[start : start + max_words], window.blocks) for start in starts]


def train_groups(inputs: np.ndarray, outputs: np.ndarray, groups: list, variant: Word2VecVariant, rate: float) -> float:
    """Trains on groups of windows, one group after the other; the sum of the losses."""
    loss = 0.0
    vectors = inputs if variant.subwords is None else reference.subword_vectors(inputs, variant.subwords)
    before = vectors.copy()
    for windows in groups:
        loss += sum(reference.window_loss(vectors, outputs, window, variant.use_mean) for window in windows)
        reference.train_windows(vectors, outputs, windows, rate, variant.use_mean)
    if variant.subwords is not None:
        reference.apply_subword_updates(inputs, variant.subwords, vectors - before)
    return loss
