"""Hide some tokens of another objective's rows, and ask which they were: BERT's cloze, and those of its kin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.data.segmentation import has_han
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey, Objective

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.tokenizers.tokenizer import Tokenizer

# What is hidden as one: a token, a word, a group of words, a name; never a part of it.


FEW = 0.05  # share of Chinese characters up to which a text is none
SAMPLE = 1000  # documents, and tokens of each, that are looked at for them


class UnitBoundaries(NamedTuple):
    """Where units begin, and which of them are hidden before any other.

    begins   (T,) True where a token begins a unit; tokens that are not of the text are units of their own
    leading  (T,) True for tokens of units that come first; None: all are alike
    """

    starts: np.ndarray
    leading: np.ndarray | None = None


class MaskingUnits(Protocol):
    """A way of dividing rows into what is hidden as one."""

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries: ...


@dataclass(frozen=True)
class SingleTokens:
    """Each token by itself (BERT)."""

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return UnitBoundaries(np.ones(batch.num_target_tokens, bool))


@dataclass(frozen=True)
class WholeWords:
    """All pieces of a word: those of WordPiece that continue it, or all characters of a Chinese word."""

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return UnitBoundaries(word_starts(batch, source))


@dataclass(frozen=True)
class WordNgrams:
    """Neighbouring words, n of them with a chance in proportion to 1/n, from `least` to `most`.

    A group never goes across punctuation or the end of a sentence.
    """

    max_words: int
    min_words: int = 1

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        begins = word_starts(batch, source)
        words = np.flatnonzero(begins)
        sizes = np.arange(self.min_words, self.max_words + 1)
        chances = 1 / sizes
        drawn = rng.choice(sizes, len(words), p=chances / chances.sum())
        alone = (_places(batch) == IGNORE_INDEX) | punctuation(source.corpus.tokenizer)[batch.inputs["tokens"]]
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
        return UnitBoundaries(begins)


@dataclass(frozen=True)
class EntityUnits:
    """Names of persons, places and organisations, whole and before anything else; the rest word by word.

    Where the corpus knows no names, it is words alone.
    """

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        begins = word_starts(batch, source)
        known = source.corpus.entities
        if known is None:
            return UnitBoundaries(begins)
        places = _places(batch)
        told = np.where(places != IGNORE_INDEX, known[np.maximum(places, 0)], 0)
        goes_on = (told == 2) & (places == np.append(IGNORE_INDEX - 1, places[:-1] + 1))
        return UnitBoundaries((begins | (told == 1)) & ~goes_on, told > 0)


@dataclass(frozen=True)
class AlternatingUnits:
    """One way after the other, `steps` steps each, then from the beginning (ERNIE's stages)."""

    ways: tuple[MaskingUnits, ...]
    steps_per_unit: int

    def divided(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return self.ways[step // self.steps_per_unit % len(self.ways)].divided(batch, source, step, rng)


def word_starts(batch: Batch, source: Subset) -> np.ndarray:
    """(T,) True where a token begins a word, by the corpus's segmentation or by the pieces' own marks."""
    places, corpus = _places(batch), source.corpus
    inside = places != IGNORE_INDEX
    begins = np.ones(batch.num_target_tokens, bool)
    if corpus.words is not None:
        begins[inside] = corpus.words[places[inside]]
    elif _tells_words(source):
        begins[inside] = ~corpus.tokenizer.continuation_mask[batch.inputs["tokens"][inside]]
    else:
        what = f"this corpus does not tell where words start, and its {corpus.tokenizer.kind} do not either"
        raise InputError(what, file=corpus.folder, hint="prepare the text again with --segment")
    begins[1:] |= places[1:] != places[:-1] + 1  # what does not go on in the text begins anew
    return begins


@lru_cache(maxsize=8)
def _tells_words(source: Subset) -> bool:
    """Whether the tokens themselves tell where words begin: WordPiece does, but not in a text that is Chinese."""
    tokenizer = source.corpus.tokenizer
    if tokenizer.kind != "wordpiece":
        return tokenizer.kind == "words"
    spans = source.spans[:: -(-len(source) // SAMPLE)]
    places = concat_ranges(spans[:, 0], np.minimum(spans[:, 1] - spans[:, 0], SAMPLE))
    han = np.fromiter(map(has_han, tokenizer.vocabulary()), bool, tokenizer.vocab_size)
    return float(han[source.corpus.ids[places]].mean()) < FEW


@lru_cache(maxsize=8)
def punctuation(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) True for tokens without a letter or a digit; a part of a character is none."""

    def is_mark(number: int) -> bool:
        text = tokenizer.decode([number], specials=True)
        return "\ufffd" not in text and not any(c.isalnum() for c in text)

    return np.fromiter(map(is_mark, range(tokenizer.vocab_size)), bool, tokenizer.vocab_size)


def _first_of_sentences(batch: Batch, source: Subset) -> np.ndarray:
    """(T,) True for tokens that begin a sentence."""
    places, starts = _places(batch), source.corpus.sentences
    return starts[np.searchsorted(starts, places)] == places


def _places(batch: Batch) -> np.ndarray:
    assert batch.positions is not None, "rows that are hidden in must tell where their tokens stand"
    return batch.positions


HIDING = 2  # the purpose of what is drawn here
LOOK = 4096  # tokens


@dataclass(frozen=True)
class MaskedTokens:
    """Of every row a share is hidden, unit by unit, whole or not at all; special tokens never are.

    Of the units that are asked for, the share `masked` becomes the mask token and the share `random` other tokens,
    drawn evenly from all ordinary ones; the rest stays as it is, so that what is seen can never be trusted.

    inner       whose rows these are; its own targets stay
    units       what is hidden as one
    mask        the id that hides
    vocabulary  how many ids there are
    specials    ids that are never hidden, and never drawn
    share       of a row's tokens that are asked for
    """

    inner: Objective
    units: MaskingUnits
    mask: int
    vocabulary: int
    specials: frozenset[int]
    share: float = 0.15
    masked: float = 0.8
    random: float = 0.1

    def steps(self, source: Subset, size: int) -> int:
        return self.inner.steps(source, size)

    def check(self, source: Subset) -> None:
        self.inner.check(source)
        self.batch(source, LOOK, BatchKey(0, 0))  # whether units can be told, of words above all

    def batch(self, source: Subset, size: int, moment: BatchKey) -> Batch:
        shown, rng = self.inner.batch(source, size, moment), moment.rng(HIDING)
        tokens, lengths = shown.inputs["tokens"], shown.inputs["lengths"]
        begins, leading = self.units.divided(shown, source, moment.step, rng)
        unit = np.cumsum(begins) - 1  # (T,) the number of the unit of each token
        first = np.flatnonzero(begins)
        never = np.zeros(len(first), bool)
        never[unit[_special(self.specials, self.vocabulary)[tokens]]] = True
        row = np.repeat(np.arange(len(lengths)), lengths)[first]
        after = np.zeros(len(first)) if leading is None else np.where(leading[first], 0.0, 1.0)
        chosen = self._chosen(row, np.bincount(unit), never, after, len(lengths), rng)
        fate = rng.random(len(first))
        asked = chosen[unit]
        targets = np.where(asked, tokens, IGNORE_INDEX)
        seen = tokens.copy()
        seen[asked & (fate < self.masked)[unit]] = self.mask
        other = np.flatnonzero(asked & ((fate >= self.masked) & (fate < self.masked + self.random))[unit])
        ordinary = np.flatnonzero(~_special(self.specials, self.vocabulary))
        seen[other] = ordinary[rng.integers(0, len(ordinary), len(other))]
        return Batch({**shown.inputs, "tokens": seen}, {"token": targets, **shown.targets}, shown.positions)

    def _chosen(
        self,
        row: np.ndarray,
        sizes: np.ndarray,
        never: np.ndarray,
        after: np.ndarray,
        rows: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """(units,) True for those to hide: of each row as many, in the order of chance, as make up the share.

        The unit that would exceed it is taken with the chance that makes the share right in the mean.
        """
        sizes = np.where(never, 0, sizes)
        quota = self.share * np.bincount(row, sizes, rows)
        order = np.lexsort((rng.random(len(row)) + after + 2 * never, row))
        upto = np.cumsum(sizes[order])
        begun = np.searchsorted(row, np.arange(rows))  # the first unit of each row
        spent = np.append(0, upto)[begun]
        left = (quota + spent)[row[order]] - (upto - sizes[order])  # of the share, before each unit
        taken = np.zeros(len(row), bool)
        taken[order] = left >= sizes[order] * np.where(left < sizes[order], rng.random(len(row)), 1.0)
        return taken & ~never


@lru_cache(maxsize=8)
def _special(specials: frozenset[int], vocabulary: int) -> np.ndarray:
    found = np.zeros(vocabulary, bool)
    found[list(specials)] = True
    return found
