"""Predict every token twice: from those before it, and from those behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from forebear.objectives.batch import NOTHING, Batch, Moment
from forebear.objectives.next_token import NextToken

if TYPE_CHECKING:
    from forebear.text.portion import Portion


@dataclass(frozen=True)
class BothDirections:
    """The windows of `NextToken`, each with the token that follows its last: `next` asks for what follows a token, and
    `previous` for what stands before it, of all neighbours in a window.

    context  tokens of a window that have one behind them
    end      the id that stands between documents
    """

    context: int
    end: int

    def steps(self, source: Portion, size: int) -> int:
        return self._windows.steps(source, size)

    def batch(self, source: Portion, size: int, moment: Moment) -> Batch:
        seen, following, _ = self._windows.windows(source, size, moment)
        asked = following != NOTHING
        none = np.full((len(seen), 1), NOTHING)
        last = np.where(asked[:, -1:], following[:, -1:], self.end)  # a window at the end of the text may be short
        inputs = {
            "tokens": np.concatenate((seen, last), 1).ravel(),
            "lengths": np.full(len(seen), seen.shape[1] + 1, np.int64),
        }
        targets = {
            "next": np.concatenate((following, none), 1).ravel(),
            "previous": np.concatenate((none, np.where(asked, seen, NOTHING)), 1).ravel(),
        }
        return Batch(inputs, targets)

    def check(self, source: Portion) -> None:
        self._windows.check(source)

    @property
    def _windows(self) -> NextToken:
        return NextToken(self.context, self.end)
