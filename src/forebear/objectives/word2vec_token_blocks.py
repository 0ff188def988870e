"""Blocks of consecutive tokens, for learners that sample context windows (word2vec) or count words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from forebear.data.corpus.subset import Subset
from forebear.errors import InputError
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.ordered_texts import require_text_unit
from forebear.objectives.shuffle import shuffled_positions


@lru_cache(maxsize=2)
def _epoch_order(steps: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch's blocks."""
    return shuffled_positions(np.arange(steps), steps, seed=seed, epoch=epoch)


@dataclass(frozen=True)
class TokenBlocks:
    """Blocks of `batch_size` tokens, each once per epoch, in random order.

    Sequences are the units of a block; windows do not cross units. Window sizes and negative samples are sampled by the
    learner, as there are too many pairs to materialize.

    Attributes:
        text_unit: Unit of a sequence: "sentence" or "document".
    """

    text_unit: str

    def __post_init__(self) -> None:
        require_text_unit(self.text_unit)

    def steps(self, source: Subset, batch_size: int) -> int:
        return max(1, -(-source.num_tokens // batch_size))

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        steps = self.steps(source, batch_size)
        epoch, index = divmod(key.step, steps)
        block = int(_epoch_order(steps, key.seed, epoch)[index])
        return self._token_range(source, block * batch_size, min((block + 1) * batch_size, source.num_tokens))

    def check(self, source: Subset) -> None:
        units = source.by_sentence() if self.text_unit == "sentence" else source
        if not len(units) or (units.spans[:, 1] - units.spans[:, 0]).max() < 2:
            hint = "give more text, or part it less finely (--documents, --unit document)"
            raise InputError(f"no {self.text_unit} of this text has two words side by side", hint=hint)

    def _token_range(self, source: Subset, start: int, end: int) -> Batch:
        """Tokens `start` to `end` of the source as sequences; the first and the last may be parts of units."""
        units = source.by_sentence() if self.text_unit == "sentence" else source
        tokens, sizes = units.token_slice(start, end)
        return Batch({"tokens": tokens, "lengths": sizes}, {"around": tokens})


# --- Word frequencies only ---


@dataclass(frozen=True)
class WordFrequencies:
    """The blocks of `TokenBlocks`, without targets."""

    def steps(self, source: Subset, batch_size: int) -> int:
        return TokenBlocks("document").steps(source, batch_size)

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        return Batch(TokenBlocks("document").batch(source, batch_size, key).inputs, {})

    def check(self, source: Subset) -> None:
        """Every text has words."""
