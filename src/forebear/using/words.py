"""Words by their vectors alone: the table of a run, whichever way it was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forebear.errors import BadInput
from forebear.vectors.table import WordTable

if TYPE_CHECKING:
    from forebear.using.opened import Opened

TABLE = "encoder.embedding.token.weight"  # of networks, by its name among their weights


def table_of(run: Opened) -> WordTable:
    """A vector for each word that the run knows; an error for one whose tokens are no words."""
    tokenizer, path = run.tokenizer, run.folder.path
    if tokenizer.kind != "words":
        remedy = "give texts to search: --among FILE; or train with --tokenizer words"
        raise BadInput(f"its tokens are {tokenizer.kind}, not words", file=path, remedy=remedy)
    if run.folder.milestone.learning == "sweeping" and run.task is None:
        return run.network.table(tokenizer.tokens())
    if run.folder.milestone.learning == "counting":
        raise BadInput("counts, and has no vectors", file=path, remedy=f"it can be asked to: {', '.join(run.verbs)}")
    ids = np.array([i for i in range(tokenizer.size) if i not in tokenizer.specials], np.int64)
    matrix = dict(run.network.named_parameters())[TABLE].detach().float().numpy()
    return WordTable([tokenizer.token(int(i)) for i in ids], matrix[ids])
