"""How a token is written: capitals and digits tell of names that nobody has seen before."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

SHAPES = (
    "other",
    "outside",
    "within a word",
    "small",
    "Capital",
    "CAPITALS",
    "mIXED",
    "digits",
    "l3tt3rs",
    "mark",
    "stop",
)
STOPS = frozenset("。！？!?.…")  # marks that end a sentence
WITHIN = "##"  # before pieces that go on with a word
SPACE = "\u0120"  # before pieces of bytes that begin one


def shapes_of(tokens: Iterable[str]) -> np.ndarray:
    """(V + 1,) the number of each token's shape; the last is for what lies outside of a row."""
    return np.array([*map(_shape, tokens), SHAPES.index("outside")], np.int64)


def _shape(token: str) -> int:
    return SHAPES.index(_named(token.removeprefix(SPACE)))


def _named(token: str) -> str:
    if token.startswith(WITHIN) and len(token) > len(WITHIN):
        return "within a word"
    if token.isdigit():
        return "digits"
    if not any(character.isalnum() for character in token):
        return "stop" if token and STOPS.issuperset(token) else "mark"
    if not token.isalpha():
        return "l3tt3rs" if any(character.isdigit() for character in token) else "other"
    if token == token.lower():  # scripts without capitals are neither small nor large
        return "other" if token == token.upper() else "small"
    if token[0].isupper() and token[1:] == token[1:].lower():
        return "Capital"
    return "CAPITALS" if token == token.upper() else "mIXED"
