"""Words that are spelled like another: what a person may have meant who asks for one that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

LOOKED_AT = 200_000  # words of a vocabulary, the first: they are the frequent ones, and the rest would take long
SLIPS = 2  # of the hand: a letter too few, too many, another, or two that changed places
SHORT = 4  # letters; of fewer, two slips leave hardly any
LONGEST = 40  # letters of what is a word
LEAST = 0.4  # of the pairs of letters that two words have, so many they must share


def alike(word: str, words: Sequence[str], most: int = 5) -> list[str]:
    """Those the fewest slips away, if they are one or two; or else those that share most pairs of neighbouring letters.

    Capitals aside; of equals the earlier, which are the more frequent, come first.
    """
    own = word.casefold()
    if not 0 < len(own) <= LONGEST:
        return []
    reach = SLIPS if len(own) >= SHORT else 1
    folded, lengths = _folded(tuple(words[:LOOKED_AT]))
    away = np.abs(lengths - len(own))
    near = np.flatnonzero((away <= reach) & (lengths > 0))
    slips = slips_between(own, [folded[number] for number in near.tolist()])
    fewest = int(slips.min(initial=LONGEST))
    if fewest <= min(reach, len(own) - 1):
        return [words[int(number)] for number in near[slips == fewest][:most]]
    near = np.flatnonzero((away <= max(1, len(own) // 3)) & (lengths > 0))
    shares = shares_of_pairs(own, [folded[number] for number in near.tolist()])
    order = np.argsort(-shares, kind="stable")[:most]
    return [words[int(number)] for number in near[order[shares[order] >= LEAST]]]


@lru_cache(maxsize=1)
def _folded(words: tuple[str, ...]) -> tuple[list[str], np.ndarray]:
    """Words without capitals, and how long they are; kept, as who has one slip may have many."""
    folded = [word.casefold() for word in words]
    return folded, np.fromiter(map(len, folded), np.int64, len(folded))


def slips_between(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) how many slips turn the word into each of the others (optimal string alignment), all of them at once."""
    letters = _letters(others)
    row = np.repeat(np.arange(len(letters) + 1, dtype=np.int8)[:, None], len(others), axis=1)
    before, known = row, {letter: letters == ord(letter) for letter in set(word)}
    for at, letter in enumerate(word):
        last, before, row = before, row, np.empty_like(row)
        row[0] = at + 1
        for to in range(len(letters)):
            row[to + 1] = np.minimum(np.minimum(before[to + 1], row[to]) + 1, before[to] + ~known[letter][to])
            if at and to:
                changed = known[word[at - 1]][to] & known[letter][to - 1]
                np.minimum(row[to + 1], last[to - 1] + 1, out=row[to + 1], where=changed)
    return row[[len(other) for other in others], np.arange(len(others))]


def shares_of_pairs(word: str, others: Sequence[str]) -> np.ndarray:
    """(N,) the share of neighbouring letters that the word has in common with each; borders are letters too."""
    own, letters = f"\0{word}\0", _letters(others)
    border = np.zeros((1, len(others)), np.uint32)
    letters = np.concatenate([border, letters, border])
    common = np.zeros(len(others), np.int64)
    for first, second in {own[at : at + 2] for at in range(len(own) - 1)}:
        common += ((letters[:-1] == ord(first)) & (letters[1:] == ord(second))).any(0)
    return 2 * common / (len(word) + 1 + np.fromiter(map(len, others), np.int64, len(others)) + 1)


def _letters(words: Sequence[str]) -> np.ndarray:
    """(L, N) the letters of each word, zeros where it has ended."""
    if not words:
        return np.zeros((0, 0), np.uint32)
    return np.ascontiguousarray(np.array(words).view(np.uint32).reshape(len(words), -1).T)
