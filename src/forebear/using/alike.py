"""Words that are spelled like another: what a person may have meant who asks for one that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LOOKED_AT = 200_000  # words of a vocabulary, the first: they are the frequent ones, and the rest would take long
LEAST = 0.4  # of the pairs of letters that two words have, so many they must share


def alike(word: str, words: Sequence[str], most: int = 5) -> list[str]:
    """Those that share most pairs of neighbouring letters with it, borders and capitals aside; the earlier first."""
    own, length = set(_pairs(word)), len(word)
    found: list[tuple[float, int]] = []
    for number, other in enumerate(words[:LOOKED_AT]):
        if abs(len(other) - length) <= max(1, length // 3):
            pairs = set(_pairs(other))
            share = 2 * len(own & pairs) / (len(own) + len(pairs))
            if share >= LEAST:
                found.append((-share, number))
    return [words[number] for _, number in sorted(found)[:most]]


def _pairs(word: str) -> Iterator[str]:
    """Two letters at a time, of which the first and the last may be the word's border."""
    letters = f"\0{word.casefold()}\0"
    return (letters[at : at + 2] for at in range(len(letters) - 1))
