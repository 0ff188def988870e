"""How well a run finds hidden tokens: the same unit as for all others, but of a likelihood that is none."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import Moment
from forebear.objectives.masked_tokens import MaskedTokens
from forebear.objectives.units import EveryToken
from forebear.using.measuring import Measured, Progress, is_cut_by

if TYPE_CHECKING:
    from forebear.networks.restorer import Restorer
    from forebear.text.portion import Portion
    from forebear.text.tokenizer import Tokenizer

BATCH = 4096  # tokens


def measure_hidden(
    restorer: Restorer,
    tokenizer: Tokenizer,
    objective: MaskedTokens,
    portion: Portion,
    *,
    progress: Progress | None = None,
) -> Measured:
    """Hides the run's share of the tokens, one by one and all behind the mask, and asks for them.

    Every row of the text is read once; what hidden tokens cost in the mean is taken for the cost of all. It is no
    probability of the text, because each token is told by tokens on both sides: the figures are marked `pseudo` and
    stand beside those of runs that are measured alike, whatever units these were trained to hide.
    """
    is_cut_by(portion, tokenizer)
    began = time.monotonic()
    asking = replace(objective, units=EveryToken(), masked=1.0, random=0.0)
    steps = asking.steps(portion, BATCH)
    nats, right, pairs, seen = 0.0, 0, [], np.zeros(tokenizer.size, np.int64)
    for step in range(steps):
        batch = asking.batch(portion, BATCH, Moment(0, step))
        told = restorer.examine(batch.inputs, batch.targets)
        nats -= float(told["token"].astype(np.float64).sum())
        right += int(told["right"].sum())
        seen += np.bincount(batch.targets["token"][batch.targets["token"] >= 0], minlength=tokenizer.size)
        pairs.append(told.get("pair", np.empty(0, bool)))
        if progress is not None:
            progress(portion.bytes * (step + 1) // steps, portion.bytes)
    asked = int(seen.sum())
    if not asked:
        raise BadInput("there is too little text to hide anything in", remedy="give more text")
    answered = np.concatenate(pairs)
    unknown = 0
    if tokenizer.unknown is not None:
        unknown = sum(
            int(np.count_nonzero(portion.corpus.ids[first:last] == tokenizer.unknown))
            for first, last in portion.spans.tolist()
        )
    tokens = portion.tokens - unknown
    return Measured(
        nats=nats / asked * tokens,
        tokens=tokens,
        units=len(portion),
        documents=len(portion),
        bytes=portion.bytes,
        unknown_tokens=unknown,
        unknown_bytes=portion.unknown_bytes,
        impossible=0,
        seconds=time.monotonic() - began,
        forgotten=tokenizer.forgets,
        pseudo=True,
        asked=asked,
        accuracy=right / asked,
        guess=float(seen.max()) / asked,
        pair_accuracy=float(answered.mean()) if len(answered) else None,
    )
