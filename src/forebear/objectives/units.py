"""What is hidden as one: a token, a word, a group of words, a name; never a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from forebear.errors import BadInput
from forebear.objectives.batch import NOTHING, Batch
from forebear.text.portion import ranges
from forebear.text.segmentation import has_han

if TYPE_CHECKING:
    from forebear.text.portion import Portion
    from forebear.text.tokenizer import Tokenizer


FEW = 0.05  # share of Chinese characters up to which a text is none
SAMPLE = 1000  # documents, and tokens of each, that are looked at for them


class Division(NamedTuple):
    """Where units begin, and which of them are hidden before any other.

    begins   (T,) True where a token begins a unit; tokens that are not of the text are units of their own
    leading  (T,) True for tokens of units that come first; None: all are alike
    """

    begins: np.ndarray
    leading: np.ndarray | None = None


class Units(Protocol):
    """A way of dividing rows into what is hidden as one."""

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division: ...


@dataclass(frozen=True)
class EveryToken:
    """Each token by itself (BERT)."""

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division:
        return Division(np.ones(batch.tokens, bool))


@dataclass(frozen=True)
class WholeWords:
    """All pieces of a word: those of WordPiece that continue it, or all characters of a Chinese word."""

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division:
        return Division(word_begins(batch, source))


@dataclass(frozen=True)
class WordGroups:
    """Neighbouring words, n of them with a chance in proportion to 1/n, from `least` to `most`.

    A group never goes across punctuation or the end of a sentence.
    """

    most: int
    least: int = 1

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division:
        begins = word_begins(batch, source)
        words = np.flatnonzero(begins)
        sizes = np.arange(self.least, self.most + 1)
        chances = 1 / sizes
        drawn = rng.choice(sizes, len(words), p=chances / chances.sum())
        alone = (_places(batch) == NOTHING) | punctuation(source.corpus.tokenizer)[batch.inputs["tokens"]]
        borders = alone[words] | _first_of_sentences(batch, source)[words]
        borders[1:] |= alone[words[:-1]]
        stops = np.append(np.flatnonzero(borders), len(words))
        own = stops[np.searchsorted(stops, np.arange(len(words)), side="right")]
        after = np.minimum(np.arange(len(words)) + drawn, own).tolist()
        chosen, at = [], 0
        while at < len(words):
            chosen.append(at)
            at = after[at]
        begins[:] = False
        begins[words[chosen]] = True
        return Division(begins)


@dataclass(frozen=True)
class Names:
    """Names of persons, places and organisations, whole and before anything else; the rest word by word.

    Where the corpus knows no names, it is words alone.
    """

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division:
        begins = word_begins(batch, source)
        known = source.corpus.entities
        if known is None:
            return Division(begins)
        places = _places(batch)
        told = np.where(places != NOTHING, known[np.maximum(places, 0)], 0)
        goes_on = (told == 2) & (places == np.append(NOTHING - 1, places[:-1] + 1))
        return Division((begins | (told == 1)) & ~goes_on, told > 0)


@dataclass(frozen=True)
class InTurns:
    """One way after the other, `steps` steps each, then from the beginning (ERNIE's stages)."""

    ways: tuple[Units, ...]
    steps: int

    def divided(self, batch: Batch, source: Portion, step: int, rng: np.random.Generator) -> Division:
        return self.ways[step // self.steps % len(self.ways)].divided(batch, source, step, rng)


def word_begins(batch: Batch, source: Portion) -> np.ndarray:
    """(T,) True where a token begins a word, by the corpus's segmentation or by the pieces' own marks."""
    places, corpus = _places(batch), source.corpus
    inside = places != NOTHING
    begins = np.ones(batch.tokens, bool)
    if corpus.words is not None:
        begins[inside] = corpus.words[places[inside]]
    elif _tells_words(source):
        begins[inside] = ~corpus.tokenizer.continues[batch.inputs["tokens"][inside]]
    else:
        what = f"this corpus does not tell where words start, and its {corpus.tokenizer.kind} do not either"
        raise BadInput(what, file=corpus.folder, remedy="prepare the text again with --segment")
    begins[1:] |= places[1:] != places[:-1] + 1  # what does not go on in the text begins anew
    return begins


@lru_cache(maxsize=8)
def _tells_words(source: Portion) -> bool:
    """Whether the tokens themselves tell where words begin: WordPiece does, but not in a text that is Chinese."""
    tokenizer = source.corpus.tokenizer
    if tokenizer.kind != "wordpiece":
        return tokenizer.kind == "words"
    spans = source.spans[:: -(-len(source) // SAMPLE)]
    places = ranges(spans[:, 0], np.minimum(spans[:, 1] - spans[:, 0], SAMPLE))
    han = np.fromiter(map(has_han, tokenizer.tokens()), bool, tokenizer.size)
    return float(han[source.corpus.ids[places]].mean()) < FEW


@lru_cache(maxsize=8)
def punctuation(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) True for tokens without a letter or a digit; a part of a character is none."""

    def is_mark(number: int) -> bool:
        text = tokenizer.decode([number], specials=True)
        return "\ufffd" not in text and not any(c.isalnum() for c in text)

    return np.fromiter(map(is_mark, range(tokenizer.size)), bool, tokenizer.size)


def _first_of_sentences(batch: Batch, source: Portion) -> np.ndarray:
    """(T,) True for tokens that begin a sentence."""
    places, starts = _places(batch), source.corpus.sentences
    return starts[np.searchsorted(starts, places)] == places


def _places(batch: Batch) -> np.ndarray:
    assert batch.places is not None, "rows that are hidden in must tell where their tokens stand"
    return batch.places
