"""Vectors of texts by a run: by its network, in context, or by its table of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forebear.errors import BadInput
from forebear.using.vectors import AnyPooling, Embedded, Layers, Long, Matrix, embed, matrix
from forebear.using.words import is_table

if TYPE_CHECKING:
    from forebear.networks.model import Model
    from forebear.using.opened import Opened


def network_of(run: Opened) -> Model:
    """The run's network, if it has vectors."""
    if run.folder.milestone.learning == "counting":
        remedy = f"it can be asked to: {', '.join(run.verbs)}"
        raise BadInput("counts, and has no vectors", file=run.folder.path, remedy=remedy)
    return run.network


def matrix_of(run: Opened, texts: Sequence[str], **how: Any) -> Matrix:
    """`matrix` by a run: by its network, or by its table of words."""
    if is_table(run):
        return run.pooled.matrix(texts, **settled(run, **how))
    return matrix(network_of(run), run.tokenizer, texts, **settled(run, **how))


def embedded_by(run: Opened, texts: Sequence[str], *, words: bool = False, **how: Any) -> list[Embedded]:
    """`embed` by a run: by its network, or by its table of words."""
    if is_table(run):
        return run.pooled.embed(texts, words=words, **settled(run, **how))
    return embed(network_of(run), run.tokenizer, texts, words=words, **settled(run, **how))


def settled(
    run: Opened,
    *,
    layers: Layers | None = None,
    pooling: AnyPooling | None = None,
    long: Long | None = None,
    normalise: bool = True,
    zeros: bool = False,
) -> dict[str, Any]:
    """How vectors are made, where nothing else is asked for; what means nothing to a table of words is refused."""
    own: dict[str, Any] = {"pooling": "mean" if pooling is None else pooling, "normalise": normalise}
    if not is_table(run):
        if zeros:
            what = "zeros are for texts of which a table knows no word, and this is a network"
            raise BadInput(what, file=run.folder.path, remedy="leave out texts that are empty")
        return own | {"layers": -1 if layers is None else layers, "long": "windows" if long is None else long}
    for name, value in (("layers", layers), ("long", long)):
        if value is not None:
            what = f"--{name} means nothing to a table of words: it has no layers, and reads texts of any length"
            raise BadInput(what, file=run.folder.path, remedy="leave it out")
    return own | {"zeros": zeros}
