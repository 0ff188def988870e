"""Words that a vocabulary lacks, numbered by how they are written, for a network that reads spellings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forebear.text.blueprint import stages
from forebear.text.spelling import Spelling
from forebear.text.tokenizer import Pieces, Tokenizer
from forebear.text.tokens import Tokens


def numbered(
    tokenizer: Tokenizer, spelling: Spelling, texts: Sequence[str], ids: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """The ids of texts, so many of each, with a number of its own for each unknown word instead of the one for all.

    A word is spelled as the vocabulary's own are: in small letters where those are.
    """
    if tokenizer.unknown is None or not (ids == tokenizer.unknown).any():
        return ids
    found, ends = ids.astype(np.int64), np.cumsum(counts)
    normalised, _ = stages(tokenizer.blueprint["normalizer"], None)
    for text, begin, end in zip(texts, ends - counts, ends, strict=True):
        here = found[begin:end]
        lacking = np.flatnonzero(here == tokenizer.unknown)
        spans = tokenizer.encode(text).spans if len(lacking) else []
        for place in lacking.tolist():
            first, last = spans[place]
            here[place] = spelling.number(normalised(text[first:last]))
    return found


class SpellingTokenizer(Tokenizer):
    """A tokenizer whose unknown words have numbers of their own, behind its ids, in this spelling.

    For reading a text by a network that has the same spelling, which then knows every word.
    """

    def __init__(self, plain: Tokenizer, spelling: Spelling) -> None:
        vars(self).update(vars(plain))  # it is the same in all else
        self.plain, self.spelling = plain, spelling

    def __reduce__(self) -> tuple[Any, ...]:  # numbers hold in this process only
        return self.plain.__reduce__()

    def encode(self, text: str, *, specials: bool = False) -> Pieces:
        pieces = self.plain.encode(text, specials=specials)
        ids = numbered(self.plain, self.spelling, [text], pieces.ids, np.array([len(pieces.ids)]))
        return replace(pieces, ids=ids)

    def encode_all(
        self, texts: Sequence[str], ends: Sequence[Sequence[int]] | None = None, *, spans: bool = False
    ) -> Tokens:
        return self.plain.encode_all(texts, ends, spans=spans)

    def encode_lines(self, data: bytes, ends: np.ndarray) -> Tokens | None:
        return self.plain.encode_lines(data, ends)

    def encode_plainly(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.plain.encode_plainly(texts)

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = self.plain.encode_many(texts)
        return numbered(self.plain, self.spelling, texts, ids, counts), counts


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer itself, without numbers for what it lacks."""
    return tokenizer.plain if isinstance(tokenizer, SpellingTokenizer) else tokenizer
