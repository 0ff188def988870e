"""The vectors of a run's words as the first layer of a task's network: a row for each token, known or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.text.tokenizer import Tokenizer
from forebear.training.folder import RunFolder
from forebear.using.run import Run
from forebear.using.words import TABLE
from forebear.vectors.table import WordTable

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Given:
    """Tensors for a network, and (V,) which tokens have their row from the run."""

    tensors: dict[str, Tensor]
    known: np.ndarray


def given_words(folder: RunFolder, tokenizer: Tokenizer, seed: int) -> Given:
    """What a run of word vectors gives to a network, for a tokenizer that may know more words than the run's.

    Where it was adapted before, that is also what reads them. One-hot vectors are as wide as the vocabulary and have
    no place in a narrower table: it begins by chance.
    """
    import torch

    run, found = Run(folder), {}
    if run.task is None:
        words = run.network.table(run.tokenizer.tokens())
        if not isinstance(words.matrix, np.ndarray):
            return Given({}, np.array([words.row(token) is not None for token in tokenizer.tokens()]))
    else:
        found = dict(run.network.tensors())
        words = WordTable(run.tokenizer.tokens(), found[TABLE].numpy())
    made, known = rows(words, tokenizer, seed)
    return Given(found | {TABLE: torch.from_numpy(made)}, known)


def rows(words: WordTable, tokenizer: Tokenizer, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(V, D) the vectors of all tokens, and (V,) whether they are known.

    A word that has none, not even in small letters or from its parts, begins by chance, spread as all others are; the
    unknown word and what is no word begin as the mean of all.
    """
    mean, spread = words.matrix.mean(0, dtype=np.float64), words.matrix.std(0, dtype=np.float64)
    found = np.random.default_rng(seed).normal(mean, spread, (tokenizer.size, len(mean))).astype(np.float32)
    found[list(tokenizer.specials)], known = mean, np.zeros(tokenizer.size, bool)
    for number, token in enumerate(tokenizer.tokens()):
        vector = None if number in tokenizer.specials and token not in words.rows else words.vector(token)
        if vector is not None:
            found[number], known[number] = vector, True
    return found, known
