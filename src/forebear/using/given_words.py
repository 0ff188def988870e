"""The vectors of a run's words as the first layer of a task's network: a row for each token, known or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forebear.text.tokenizer import Tokenizer
from forebear.training.folder import RunFolder
from forebear.using.run import Run
from forebear.using.words import TABLE

if TYPE_CHECKING:
    from torch import Tensor


def given_words(folder: RunFolder, tokenizer: Tokenizer, seed: int) -> dict[str, Tensor]:
    """The table by its name in the network, for a tokenizer that may know more words than the run's.

    A word that the run has no vector for, not even in small letters or from its parts, begins by chance, spread as all
    others are; the unknown word and what is no word begin as the mean of all. One-hot vectors are as wide as the
    vocabulary and have no place in a narrower table: all of that begins by chance.
    """
    import torch

    run = Run(folder)
    words = run.network.table(run.tokenizer.tokens())
    if not isinstance(words.matrix, np.ndarray):
        return {}
    mean, spread = words.matrix.mean(0, dtype=np.float64), words.matrix.std(0, dtype=np.float64)
    found = np.random.default_rng(seed).normal(mean, spread, (tokenizer.size, len(mean))).astype(np.float32)
    for number, token in enumerate(tokenizer.tokens()):
        if (vector := words.vector(token)) is not None:
            found[number] = vector
    found[list(tokenizer.specials)] = mean
    return {TABLE: torch.from_numpy(found)}
