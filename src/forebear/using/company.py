"""How well word vectors know the company of words: a true neighbour is told from a word that stands elsewhere."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from forebear.text.portion import Portion
    from forebear.text.tokenizer import Tokenizer
    from forebear.vectors.table import WordTable

WINDOW = 5  # words to either side that are neighbours
PAIRS = 50_000  # that are looked at, at most
AT_ONCE, TRIES = 4, 5  # places drawn at once for each pair that is wanted, and how many times: most are thinned out
SPARE = 1.02  # of pairs that are wanted: some have no other word
FREQUENT = 1e-4  # share of the text from which on words are thinned out, as word2vec does: they say little
BLOCK = 1 << 22  # numbers of vectors taken up at once
SMALLEST = 1e-12


@dataclass(frozen=True)
class Company:
    """Of so many pairs of neighbours in a text, the share whose vectors are nearer than those of a word and another
    word's neighbour. Half of them are by chance; where both are equally near, half a pair is counted.

    All words are drawn from the same text, so that frequent words are no help, and seldom such as are everywhere.
    """

    told_apart: float | None  # None: there was no pair
    pairs: int
    tokens: int
    bytes: int
    documents: int
    unknown_rate: float
    seconds: float
    learned_from: int | None = None  # documents of files that the run has learned from, where that is known
    learned_bytes: int | None = None  # of those

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def company(table: WordTable, tokenizer: Tokenizer, portion: Portion, *, seed: int = 0) -> Company:
    """What a table of words knows of a text."""
    began = time.monotonic()
    rows = np.full(tokenizer.size, -1, np.int64)
    known = table.rows
    for number, token in enumerate(tokenizer.tokens()):
        if number not in tokenizer.specials:
            rows[number] = known.get(token, -1)
    words, others, elsewhere = _neighbours(portion, rows, np.random.default_rng(seed))
    made = Company(
        None,
        len(words),
        portion.tokens,
        portion.bytes,
        len(portion),
        _unknown(portion, rows),
        time.monotonic() - began,
    )
    if not len(words):
        return made
    step = max(1, BLOCK // table.matrix.shape[1])
    right = 0.0
    for at in range(0, len(words), step):
        mine, theirs, drawn = (_scaled(table.matrix[array[at : at + step]]) for array in (words, others, elsewhere))
        near, far = (np.einsum("ij,ij->i", mine, one) for one in (theirs, drawn))
        right += float(np.count_nonzero(near > far)) + 0.5 * float(np.count_nonzero(near == far))
    return replace(made, told_apart=right / len(words), seconds=time.monotonic() - began)


def _neighbours(portion: Portion, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The rows of words, drawn from all of a text, of a neighbour of each, and of another word's neighbour."""
    kept: np.ndarray | None = None
    found: list[np.ndarray] = []
    many, least = 0, min(PAIRS, portion.tokens)
    for _ in range(TRIES):
        words, others = _drawn(portion, rows, rng, least * AT_ONCE)
        if kept is None:
            kept = _kept(words, rows.max(initial=-1) + 1)
        fine = (words >= 0) & (others >= 0) & (words != others)
        fine &= rng.random(len(words)) < kept[words] * kept[others]
        found.append(np.stack((words[fine], others[fine])))
        many += found[-1].shape[1]
        if many > least * SPARE:
            break
    words, others = np.concatenate(found, 1)
    elsewhere = np.roll(others, 1)  # pairs are in no order: the one before is any other
    fine = (elsewhere != words) & (elsewhere != others)
    return words[fine][:PAIRS], others[fine][:PAIRS], elsewhere[fine][:PAIRS]


def _drawn(portion: Portion, rows: np.ndarray, rng: np.random.Generator, many: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of words from anywhere, and of a word beside each; fewer where a text ends."""
    at = rng.integers(portion.tokens, size=many)
    away = rng.integers(1, WINDOW + 1, size=many) * rng.choice([-1, 1], size=many)
    unit = np.searchsorted(portion.token_ends, at, side="right")
    ends = portion.token_ends[unit]
    begins = ends - (portion.spans[unit, 1] - portion.spans[unit, 0])
    inside = (at + away >= begins) & (at + away < ends)
    places = (portion.spans[unit, 1] - (ends - at))[inside]  # in the corpus
    words, others = (rows[portion.corpus.ids[places + by]] for by in (0, away[inside]))
    return words, others


def _kept(words: np.ndarray, size: int) -> np.ndarray:
    """How often each row is looked at, from how often it was drawn."""
    shares = np.bincount(words[words >= 0], minlength=size) / max(1, len(words))
    return np.sqrt(FREQUENT / np.maximum(shares, FREQUENT)) if size else np.zeros(1)


def _unknown(portion: Portion, rows: np.ndarray) -> float:
    """The share of tokens that have no vector."""
    tokens, _ = portion.stretch(0, min(portion.tokens, BLOCK))
    return float(np.mean(rows[tokens] < 0))


def _scaled(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))  # a fifth of the time of np.linalg.norm
    return vectors / np.maximum(lengths, SMALLEST)[:, None]
