"""Vectors of words in the service of a task: what every milestone that has nothing else gives as its encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forebear.objectives.layout import Layout, Reader

if TYPE_CHECKING:
    from forebear.networks.model import Model

LAYOUT = Layout(segments=True)  # texts as they are; which of two a word belongs to is told
WIDTH = 100  # of vectors that are learned with the task, where nothing says how wide they are


def read_words(vocabulary: int, width: int | None, reader: Reader) -> Model:
    """A network without heads: a table of so many vectors, and what reads them."""
    from forebear.networks.model import Model
    from forebear.networks.reader import WordReader
    from forebear.networks.window import Words

    words = Words(vocabulary, width or reader.width or WIDTH)
    how: dict[str, Any] = {"reader": reader.kind, "pairs": reader.pairs, "dropout": reader.dropout}
    return Model(WordReader(words, width=reader.width or words.width, **how), {})
