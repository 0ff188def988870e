"""Masked LM: masks tokens of another objective's sequences, by token, whole word, word n-gram, or entity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from forebear.data.corpus.subset import concat_ranges
from forebear.data.segmentation import has_han
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.objective import Objective

if TYPE_CHECKING:
    from forebear.data.corpus.subset import Subset
    from forebear.data.tokenizers.tokenizer import Tokenizer

# --- Masking units: tokens, words, word n-grams, entities ---


MAX_HAN_FRACTION = 0.05  # fraction of tokens with Chinese characters below which a text is not Chinese
MAX_SAMPLED = 1000  # documents, and tokens of each, that are sampled for that fraction


class UnitBoundaries(NamedTuple):
    """Where masking units start, and which are masked first.

    Attributes:
        starts: (T,) True where a token starts a unit; inserted tokens are units of their own.
        has_priority: (T,) True for tokens of units that are masked first; None: no unit has priority.
    """

    starts: np.ndarray
    has_priority: np.ndarray | None = None


class MaskingUnits(Protocol):
    """A division of sequences into units that are masked as a whole."""

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries: ...


@dataclass(frozen=True)
class SingleTokens:
    """Single tokens (BERT)."""

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return UnitBoundaries(np.ones(batch.num_target_tokens, bool))


@dataclass(frozen=True)
class WholeWords:
    """Whole words: all WordPiece subwords of a word, or all characters of a segmented Chinese word."""

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return UnitBoundaries(word_starts(batch, source))


@dataclass(frozen=True)
class WordNgrams:
    """Word n-grams; n is sampled from `min_words` to `max_words` with probability proportional to 1/n (ALBERT).

    An n-gram never crosses punctuation or the end of a sentence.
    """

    max_words: int
    min_words: int = 1

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        starts = word_starts(batch, source)
        words = np.flatnonzero(starts)
        sizes = np.arange(self.min_words, self.max_words + 1)
        weights = 1 / sizes
        sampled_sizes = rng.choice(sizes, len(words), p=weights / weights.sum())
        is_punctuation = punctuation(source.corpus.tokenizer)[batch.inputs["tokens"]]
        is_separate = (_corpus_positions(batch) == IGNORE_INDEX) | is_punctuation
        boundaries = is_separate[words] | _sentence_starts(batch, source)[words]
        boundaries[1:] |= is_separate[words[:-1]]
        stops = np.append(np.flatnonzero(boundaries), len(words))
        limits = stops[np.searchsorted(stops, np.arange(len(words)), side="right")]
        next_words = np.minimum(np.arange(len(words)) + sampled_sizes, limits).tolist()
        unit_words, word = [], 0
        while word < len(words):
            unit_words.append(word)
            word = next_words[word]
        starts[:] = False
        starts[words[unit_words]] = True
        return UnitBoundaries(starts)


@dataclass(frozen=True)
class EntityUnits:
    """Whole entities first, then words (ERNIE); words only if the corpus has no entity annotation."""

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        starts = word_starts(batch, source)
        entities = source.corpus.entities
        if entities is None:
            return UnitBoundaries(starts)
        positions = _corpus_positions(batch)
        entity_flags = np.where(positions != IGNORE_INDEX, entities[np.maximum(positions, 0)], 0)
        continues = (entity_flags == 2) & (positions == np.append(IGNORE_INDEX - 1, positions[:-1] + 1))
        return UnitBoundaries((starts | (entity_flags == 1)) & ~continues, entity_flags > 0)


@dataclass(frozen=True)
class AlternatingUnits:
    """Several kinds of units in rotation, `steps_per_unit` steps each (ERNIE's stages)."""

    units: tuple[MaskingUnits, ...]
    steps_per_unit: int

    def unit_boundaries(self, batch: Batch, source: Subset, step: int, rng: np.random.Generator) -> UnitBoundaries:
        return self.units[step // self.steps_per_unit % len(self.units)].unit_boundaries(batch, source, step, rng)


def word_starts(batch: Batch, source: Subset) -> np.ndarray:
    """(T,) True where a token starts a word, by the corpus's segmentation or by WordPiece prefixes."""
    positions, corpus = _corpus_positions(batch), source.corpus
    in_text = positions != IGNORE_INDEX
    starts = np.ones(batch.num_target_tokens, bool)
    if corpus.words is not None:
        starts[in_text] = corpus.words[positions[in_text]]
    elif _tokens_mark_words(source):
        starts[in_text] = ~corpus.tokenizer.continuation_mask[batch.inputs["tokens"][in_text]]
    else:
        message = f"this corpus does not tell where words start, and its {corpus.tokenizer.kind} do not either"
        raise InputError(message, file=corpus.folder, hint="prepare the text again with --segment")
    starts[1:] |= positions[1:] != positions[:-1] + 1  # a gap in the text starts a new word
    return starts


@lru_cache(maxsize=8)
def _tokens_mark_words(source: Subset) -> bool:
    """Whether tokens mark word starts themselves, as WordPiece does except in Chinese text."""
    tokenizer = source.corpus.tokenizer
    if tokenizer.kind != "wordpiece":
        return tokenizer.kind == "words"
    spans = source.spans[:: -(-len(source) // MAX_SAMPLED)]
    positions = concat_ranges(spans[:, 0], np.minimum(spans[:, 1] - spans[:, 0], MAX_SAMPLED))
    is_han_token = np.fromiter(map(has_han, tokenizer.vocabulary()), bool, tokenizer.vocab_size)
    return float(is_han_token[source.corpus.ids[positions]].mean()) < MAX_HAN_FRACTION


@lru_cache(maxsize=8)
def punctuation(tokenizer: Tokenizer) -> np.ndarray:
    """(V,) True for tokens without letters and digits; bytes of a character do not count."""

    def is_punctuation(token_id: int) -> bool:
        text = tokenizer.decode([token_id], specials=True)
        return "\ufffd" not in text and not any(character.isalnum() for character in text)

    return np.fromiter(map(is_punctuation, range(tokenizer.vocab_size)), bool, tokenizer.vocab_size)


def _sentence_starts(batch: Batch, source: Subset) -> np.ndarray:
    """(T,) True for tokens that start a sentence."""
    positions, starts = _corpus_positions(batch), source.corpus.sentences
    return starts[np.searchsorted(starts, positions)] == positions


def _corpus_positions(batch: Batch) -> np.ndarray:
    assert batch.positions is not None, "masking units need the corpus position of each token"
    return batch.positions


MASKING_RNG_STREAM = 2
CHECK_TOKENS = 4096  # tokens of the batch that checks a text


@dataclass(frozen=True)
class MaskedTokens:
    """Masked LM: a fraction of each sequence is selected unit by unit, except special tokens.

    Of the selected units, `mask_fraction` becomes the mask token and `random_fraction` uniformly sampled ordinary
    tokens; the rest stays unchanged (80/10/10 by default).

    Attributes:
        base_objective: The objective whose sequences are masked; its targets are kept.
        units: Masking units.
        mask_id: Id of the mask token.
        vocab_size: Vocabulary size.
        special_ids: Ids that are never masked and never sampled.
        mask_rate: Fraction of tokens that are predicted.
        mask_fraction: Fraction of selected units that become the mask token.
        random_fraction: Fraction of selected units that become random tokens.
    """

    base_objective: Objective
    units: MaskingUnits
    mask_id: int
    vocab_size: int
    special_ids: frozenset[int]
    mask_rate: float = 0.15
    mask_fraction: float = 0.8
    random_fraction: float = 0.1

    def steps(self, source: Subset, batch_size: int) -> int:
        return self.base_objective.steps(source, batch_size)

    def check(self, source: Subset) -> None:
        self.base_objective.check(source)
        self.batch(source, CHECK_TOKENS, BatchKey(0, 0))  # raises if units, such as words, are unknown

    def batch(self, source: Subset, batch_size: int, key: BatchKey) -> Batch:
        batch, rng = self.base_objective.batch(source, batch_size, key), key.rng(MASKING_RNG_STREAM)
        tokens, lengths = batch.inputs["tokens"], batch.inputs["lengths"]
        starts, has_priority = self.units.unit_boundaries(batch, source, key.step, rng)
        unit_ids = np.cumsum(starts) - 1  # (T,) unit of each token
        unit_starts = np.flatnonzero(starts)
        is_special = np.zeros(len(unit_starts), bool)
        is_special[unit_ids[_special_mask(self.special_ids, self.vocab_size)[tokens]]] = True
        row_ids = np.repeat(np.arange(len(lengths)), lengths)[unit_starts]
        rank = np.zeros(len(unit_starts)) if has_priority is None else np.where(has_priority[unit_starts], 0.0, 1.0)
        selected = self._select_units(row_ids, np.bincount(unit_ids), is_special, rank, len(lengths), rng)
        is_target = selected[unit_ids]
        masked = self._mask_tokens(tokens, is_target, rng.random(len(unit_starts))[unit_ids], rng)
        targets = {"token": np.where(is_target, tokens, IGNORE_INDEX), **batch.targets}
        return Batch({**batch.inputs, "tokens": masked}, targets, batch.positions)

    def _mask_tokens(
        self, tokens: np.ndarray, is_target: np.ndarray, draws: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Replace targets by the mask token or a random token, or keep them, by their `draws` from [0, 1)."""
        masked_tokens = np.where(is_target & (draws < self.mask_fraction), self.mask_id, tokens)
        is_random = is_target & (draws >= self.mask_fraction) & (draws < self.mask_fraction + self.random_fraction)
        ordinary_ids = np.flatnonzero(~_special_mask(self.special_ids, self.vocab_size))
        masked_tokens[is_random] = ordinary_ids[rng.integers(0, len(ordinary_ids), np.count_nonzero(is_random))]
        return masked_tokens

    def _select_units(
        self,
        row_ids: np.ndarray,
        sizes: np.ndarray,
        is_special: np.ndarray,
        rank: np.ndarray,
        num_rows: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """(units,) True for the units to mask: of each sequence, in random order, until the mask rate is reached.

        The unit that would exceed it is taken with the probability that makes the rate right on average.
        """
        sizes = np.where(is_special, 0, sizes)
        quota = self.mask_rate * np.bincount(row_ids, sizes, num_rows)
        order = np.lexsort((rng.random(len(row_ids)) + rank + 2 * is_special, row_ids))
        cumulative = np.cumsum(sizes[order])
        first_units = np.searchsorted(row_ids, np.arange(num_rows))  # first unit of each sequence
        preceding_tokens = np.append(0, cumulative)[first_units]
        remaining = (quota + preceding_tokens)[row_ids[order]] - (cumulative - sizes[order])  # before each unit
        selected = np.zeros(len(row_ids), bool)
        selected[order] = remaining >= sizes[order] * np.where(remaining < sizes[order], rng.random(len(row_ids)), 1.0)
        return selected & ~is_special


@lru_cache(maxsize=8)
def _special_mask(special_ids: frozenset[int], vocab_size: int) -> np.ndarray:
    mask = np.zeros(vocab_size, bool)
    mask[list(special_ids)] = True
    return mask
