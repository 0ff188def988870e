"""Show every word with those around it, stretch by stretch: what word vectors are learned from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Batch, Moment
from forebear.objectives.every_text import UNITS
from forebear.text.order import shuffled
from forebear.text.portion import Portion


@lru_cache(maxsize=2)
def _order(steps: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch's stretches."""
    return shuffled(np.arange(steps), steps, seed=seed, epoch=epoch)


@dataclass(frozen=True)
class Around:
    """The text is cut into stretches of `size` tokens, each shown once an epoch, in an order of the epoch's own.

    Rows are the units of a stretch: no word is seen from another unit. Which of its neighbours a word is asked for, and
    beside which others, is drawn where it is learned: there are too many to write down.

    unit  what a row is: "sentence" or "document"
    """

    unit: str

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise BadInput(f"no unit of text is named {self.unit!r}", remedy=f"there are: {', '.join(UNITS)}")

    def steps(self, source: Portion, size: int) -> int:
        return max(1, -(-source.tokens // size))

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        steps = self.steps(source, size)
        epoch, number = divmod(moment.step, steps)
        place = int(_order(steps, moment.seed, epoch)[number])
        return self._stretch(source, place * size, min((place + 1) * size, source.tokens))

    def check(self, source: Portion) -> None:
        units = source.by_sentence() if self.unit == "sentence" else source
        if not len(units) or (units.spans[:, 1] - units.spans[:, 0]).max() < 2:
            remedy = "give more text, or part it less finely (--documents, --unit document)"
            raise BadInput(f"no {self.unit} of this text has two words side by side", remedy=remedy)

    def _stretch(self, source: Portion, begin: int, end: int) -> Batch:
        """The tokens from `begin` to `end` of all that teach, as rows: the first and the last may be parts of units."""
        units = source.by_sentence() if self.unit == "sentence" else source
        tokens, sizes = units.stretch(begin, end)
        return Batch({"tokens": tokens, "lengths": sizes}, {"around": tokens})
