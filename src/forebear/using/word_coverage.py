"""Why words of a file have no vector in a table: another language, other capitals, or too little text."""

from __future__ import annotations

from collections.abc import Sequence

from forebear.text.segmentation import has_han
from forebear.vectors.table import WordTable

FEW = 0.5  # of a file's words; where more are missing, it is said why
LOOKED_AT = 5000  # words of a table, the first: they are the frequent ones
MOSTLY, HARDLY = 0.5, 0.02  # shares of words
MANY = 0.1  # of the missing words


def why_missing(table: WordTable, missing: Sequence[str], asked: int) -> str:
    """What is likely the matter where most of the `asked` words are missing, and what to do; nothing where few are."""
    if len(missing) <= FEW * asked:
        return ""
    own, theirs = _chinese(table.words[:LOOKED_AT]), _chinese(missing)
    if theirs >= MOSTLY and own <= HARDLY:
        return "the file's words are Chinese, and the run's are not: measure it with a file of its own language"
    if theirs <= HARDLY and own >= MOSTLY:
        return "the run's words are Chinese, and the file's are not: measure it with a file of its own language"
    folded = {word.casefold(): word for word in reversed(table.words)}
    other = [folded[word.casefold()] for word in missing if word.casefold() in folded]
    if len(other) >= MANY * len(missing):
        shown = ", ".join(other[:3]) + (", …" if len(other) > 3 else "")
        remedy = "train on text in small letters: forebear prepare TEXT --tokenizer words --lower --to CORPUS"
        return f"{len(other):,} of the missing words are there with other capitals ({shown}): {remedy}"
    return f"the run knows {len(table.words):,} words: more text, or a lower --min-count, gives more of them a vector"


def _chinese(words: Sequence[str]) -> float:
    """The share of words with a Chinese character."""
    return sum(map(has_han, words)) / max(1, len(words))
