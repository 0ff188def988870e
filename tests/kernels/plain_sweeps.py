"""Small texts for word2vec's loops, and sweeps over them by the readable twin."""

from __future__ import annotations

import numpy as np

from forebear.embeddings.word2vec import word2vec_variant
from forebear.kernels import word2vec_reference as plainly
from forebear.kernels.layout import aligned_table
from forebear.kernels.word2vec_sampling import hash_seed, hash_seeds, keep_probabilities, next_random
from forebear.kernels.word2vec_threads import Word2VecVariant

VOCABULARY = 30
LENGTHS = np.array([1, 150, 2, 97])


def small_text(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Words by falling frequency, some of them beside themselves, so that windows name a row twice."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum(rng.geometric(0.15, LENGTHS.sum()) - 1, VOCABULARY - 1).astype(np.int32)
    tokens[40:44] = 3
    return tokens, LENGTHS


def small_way(
    *, mean: bool, negatives: int, spelled: bool, sample: float = 0.05, window: int = 4
) -> tuple[Word2VecVariant, np.ndarray]:
    """A way to learn from the text, and how often each word is looked at; word 5 never is."""
    tokens, _ = small_text()
    counts = np.bincount(tokens, minlength=VOCABULARY)
    allowed = np.arange(VOCABULARY) != 5
    kept = keep_probabilities(counts, sample, allowed)
    rng = np.random.default_rng(9)
    rows = [[word, *rng.integers(VOCABULARY, VOCABULARY + 8, word % 4)] for word in range(VOCABULARY)]
    spelling = np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int32)
    way = word2vec_variant(
        counts, allowed, keep_probs=kept, window=window, mean=mean, negatives=negatives, power=0.75,
        spelling=spelling if spelled else None,
    )  # fmt: skip
    return way, kept


def small_tables(width: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs so large that every term of a change can be seen."""
    rng = np.random.default_rng(seed)
    made = aligned_table(VOCABULARY + 8, width), aligned_table(VOCABULARY, width)
    for one in made:
        one[:, :width] = rng.normal(size=(len(one), width)) / np.sqrt(width)
    return made


def thinned_plainly(tokens: np.ndarray, lengths: np.ndarray, kept: np.ndarray, moment: tuple[int, int]):
    """The words that are looked at, and where rows end, one by one."""
    state, found, ends, rows = hash_seed(*moment), [], [], np.split(tokens, np.cumsum(lengths)[:-1])
    for row in rows:
        for word in row.tolist():
            if kept[word]:
                state = next_random(state)
                if state >> 32 < kept[word]:
                    found.append(word)
        ends.append(len(found))
    return np.array(found, np.int32), np.array(ends)


def swept_plainly(
    inputs: np.ndarray,
    outputs: np.ndarray,
    way: Word2VecVariant,
    kept: np.ndarray,
    rate: float,
    moment: tuple[int, int],
    step: bool,
) -> float:
    """What `swept` does, by the readable twin: in place; the sum of the losses."""
    tokens, ends = thinned_plainly(*small_text(), kept, moment)
    parts = way.deterministic_parts(rate, tokens, VOCABULARY) if step else way.hogwild_parts(rate, len(tokens))
    starts, together = parts
    states = hash_seeds(moment, len(starts) - 1).tolist()
    parts = []
    for number, state in enumerate(states):
        first, last = starts[number], starts[number + 1]
        found = plainly.training_windows(
            tokens, ends, first, last, state, way.window, way.targets, len(way.target_block)
        )
        parts.append(found)
    if way.has_wide_window(rate) and not way.use_mean:
        parts = [
            [some for window in found for some in apart(window, way.context_words_at_once(rate))] for found in parts
        ]
    if step:
        groups = [parts[at : at + together] for at in range(0, len(parts), together)]
        stretches = [[[window for found in group for window in found]] for group in groups]
    else:
        stretches = [[found[at : at + together] for at in range(0, len(found), together)] for found in parts]
    return sum(learned(inputs, outputs, stretch, way, rate) for stretch in stretches)


def apart(window: plainly.TrainingWindow, few: int) -> list[plainly.TrainingWindow]:
    """A few of the words around at a time."""
    places = range(0, max(len(window.around), 1), few)
    return [plainly.TrainingWindow(window.around[at : at + few], window.blocks) for at in places]


def learned(inputs: np.ndarray, outputs: np.ndarray, stretch: list, way: Word2VecVariant, rate: float) -> float:
    """A stretch of windows, a few at a time."""
    loss = 0.0
    vectors = inputs if way.spelling is None else plainly.subword_vectors(inputs, way.spelling)
    before = vectors.copy()
    for windows in stretch:
        loss += sum(plainly.window_loss(vectors, outputs, window, way.use_mean) for window in windows)
        plainly.train_windows(vectors, outputs, windows, rate, way.use_mean)
    if way.spelling is not None:
        plainly.apply_subword_updates(inputs, way.spelling, vectors - before)
    return loss
