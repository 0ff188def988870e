"""Show which words stand together, and how often: what GloVe learns from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Batch, Moment
from forebear.objectives.every_text import UNITS
from forebear.text.order import shuffled
from forebear.text.portion import Portion
from forebear.vectors.cooccurrence import MEMORY, Cooccurrences, counted
from forebear.vectors.counting import Progress, Text

STRETCHES = 1024  # about so many the entries are cut into, each shown as one
LEAST, MOST = 16, 4096  # entries of a stretch


@dataclass(frozen=True)
class Together:
    """Entries of the table that says which words stand together, each once an epoch: the log of its count is asked.

    The table is counted once, before the first batch. It is cut into stretches of entries that share words, and their
    order is another one in every epoch. A batch is one row: inputs `tokens` and `beside` (T,) are the two words of an
    entry, `weights` (T,) how much it matters; the target `together` (T,) is the log of its count.

    vocabulary  how many ids there are
    never       ids that are skipped, as if they did not stand in the text
    window      how many words away another one may be
    unit        what no window reaches beyond: a "sentence" or a "document"
    largest     from this count on all matter alike
    power       below, an entry matters as much as its share of `largest` to this power
    max_memory  bytes that counting may use
    """

    asks: ClassVar[tuple[str, ...]] = ("together",)  # known without counting
    shows: ClassVar[str] = "entries"  # of the table, and no tokens

    vocabulary: int
    never: frozenset[int]
    window: int
    unit: str
    largest: float
    power: float
    max_memory: int = MEMORY

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise BadInput(f"no unit of text is named {self.unit!r}", remedy=f"there are: {', '.join(UNITS)}")

    def prepare(self, source: Portion, progress: Progress | None = None) -> None:
        """Counts, if this text was not counted before."""
        self.counts(source, progress)

    def counts(self, source: Portion, progress: Progress | None = None) -> Cooccurrences:
        """The whole table."""
        settings = (self.vocabulary, self.never, self.window, self.unit, self.max_memory)
        if (known := _opened(source)).get(settings) is None:
            known[settings] = counted(
                source,
                vocabulary=self.vocabulary,
                window=self.window,
                unit=self.unit,
                never=self.never,
                max_memory=self.max_memory,
                progress=progress,
            )
        return known[settings]

    def steps(self, source: Portion, size: int) -> int:
        return max(1, -(-len(self.counts(source)) // size))

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        table = self.counts(source)
        epoch, number = divmod(moment.step, self.steps(source, size))
        begin, end = number * size, min((number + 1) * size, len(table))
        stretches = _stretches(len(table), begin, end, moment.seed, epoch)

        def taken(array: np.ndarray) -> np.ndarray:
            return np.concatenate([np.zeros(0, array.dtype), *(array[first:last] for first, last in stretches)])

        logs = taken(table.counts)
        np.log(logs, out=logs)
        # A power by way of logs, which numpy takes of many numbers at once.
        weights = logs * np.float32(self.power)
        weights -= np.float32(self.power * np.log(self.largest))
        np.exp(np.minimum(weights, 0, out=weights), out=weights)
        tokens = taken(table.rows)
        inputs = {"tokens": tokens, "lengths": np.array([len(tokens)]), "beside": taken(table.columns)}
        return Batch(inputs | {"weights": weights}, {"together": logs})

    def check(self, source: Portion) -> None:
        units, before = source.by_sentence() if self.unit == "sentence" else source, np.zeros(0, np.int32)
        for piece in Text(units, self.vocabulary, self.never).pieces():
            words = np.append(before, piece) >= 0
            if (words[1:] & words[:-1]).any():
                return
            before = piece[-1:]
        raise BadInput(f"no {self.unit} of this text has two words that stand together", remedy="give more text")


def _stretches(entries: int, begin: int, end: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """Where the entries number `begin` to `end` of this epoch's order stand in the table.

    Stretches are shuffled whole; what is left of the table behind the last of them comes last.
    """
    size = min(max(entries // STRETCHES, LEAST), MOST)
    whole = entries // size
    numbers = np.arange(begin // size, -(-end // size))
    starts = numbers * size
    inside = numbers < whole
    if inside.any():
        starts[inside] = size * shuffled(numbers[inside], whole, seed=seed, epoch=epoch)
    first = np.maximum(numbers * size, begin) - numbers * size
    last = np.minimum((numbers + 1) * size, end) - numbers * size
    return list(zip((starts + first).tolist(), (starts + last).tolist(), strict=True))


@lru_cache(maxsize=8)
def _opened(source: Portion) -> dict[tuple[object, ...], Cooccurrences]:
    """The tables of a text that are open."""
    return {}
