"""Masking: the mask rate, the 80/10/10 corruption, and special tokens, counted over many batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, FIRST, MASK, PAD, SEP, UNK, corpus_of, random_documents

from forebear.data.corpus.subset import Subset
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.masked_tokens import (
    AlternatingUnits,
    EntityUnits,
    MaskedTokens,
    MaskingUnits,
    SingleTokens,
    UnitBoundaries,
    WholeWords,
    WordNgrams,
)
from forebear.objectives.sentence_pairs import DocSentences, NextSentence, SentenceOrder

SPECIALS = frozenset((PAD, UNK, CLS, SEP, MASK))
ORDINARY = 400  # ordinary words of the vocabulary


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    result = train_tokenizer("words", [" ".join([*(f"w{n}" for n in range(ORDINARY - 2)), ".", ","])], min_count=1)
    assert result.vocab_size == ORDINARY + len(SPECIALS)
    assert result.special_ids == SPECIALS
    return result


@pytest.fixture(scope="module")
def source(tokenizer: Tokenizer) -> Subset:
    """Words of one or several tokens, some unknown; some words are entities."""
    rng = np.random.default_rng(0)
    documents = random_documents(rng, 250, longest=25)
    total = sum(map(sum, documents))
    ids = rng.integers(FIRST, tokenizer.vocab_size, total)
    ids[rng.random(total) < 0.02] = UNK
    words = rng.random(total) < 0.6
    words[np.cumsum([0, *(length for document in documents for length in document)])[:-1]] = True
    entities = (words & (rng.random(total) < 0.08)).astype(np.uint8)
    for position in range(1, total):
        if entities[position - 1] and not words[position]:
            entities[position] = 2
    return corpus_of(documents, ids=ids, words=words, entities=entities, tokenizer=tokenizer).all_documents()


UNITS: dict[str, MaskingUnits] = {
    "tokens": SingleTokens(),
    "words": WholeWords(),
    "groups": WordNgrams(3),
    "names": EntityUnits(),
    "turns": AlternatingUnits((WholeWords(), WordNgrams(3, 2), EntityUnits()), 2),
}


def masking_objective(
    units: MaskingUnits, size: int, *, kind: type[DocSentences] = NextSentence, context: int = 64, **options: float
):
    return MaskedTokens(kind(context, CLS, SEP), units, MASK, size, SPECIALS, **options)


def masked_and_original(objective: MaskedTokens, source: Subset, key: BatchKey, size: int = 3000):
    """A batch, the same batch before masking, and its unit boundaries."""
    batch, original = objective.batch(source, size, key), objective.base_objective.batch(source, size, key)
    boundaries = objective.units.unit_boundaries(original, source, key.step, key.rng(2))
    return batch, original, boundaries


def maskable(original: Batch, boundaries: UnitBoundaries) -> np.ndarray:
    """(T,) True for tokens of units without special tokens."""
    is_maskable = np.ones(original.num_target_tokens, bool)
    edges = [*np.flatnonzero(boundaries.starts).tolist(), original.num_target_tokens]
    for begin, end in pairwise(edges):
        is_maskable[begin:end] = not SPECIALS & set(original.inputs["tokens"][begin:end].tolist())
    return is_maskable


def row_numbers(batch: Batch) -> np.ndarray:
    return np.repeat(np.arange(len(batch.inputs["lengths"])), batch.inputs["lengths"])


# -- unmasked tokens


@pytest.mark.parametrize("unit_type", UNITS)
@pytest.mark.parametrize("kind", [DocSentences, NextSentence, SentenceOrder])
def test_masking_changes_supervised_tokens_only(
    source: Subset, tokenizer: Tokenizer, unit_type: str, kind: type[DocSentences]
):
    objective = masking_objective(UNITS[unit_type], tokenizer.vocab_size, kind=kind)
    for step in (0, 2, 4, 777):
        batch, original, _ = masked_and_original(objective, source, BatchKey(5, step))
        supervised = batch.targets["token"] != IGNORE_INDEX
        assert supervised.any()
        original_tokens, tokens = original.inputs["tokens"], batch.inputs["tokens"]
        assert np.array_equal(tokens[~supervised], original_tokens[~supervised])
        assert np.array_equal(batch.targets["token"][supervised], original_tokens[supervised])
        assert not np.isin(original_tokens[supervised], list(SPECIALS)).any()
        assert not np.isin(tokens[supervised], list(SPECIALS - {MASK})).any()
        assert (
            tokens[np.isin(original_tokens, list(SPECIALS))]
            == original_tokens[np.isin(original_tokens, list(SPECIALS))]
        ).all()
        for name in original.inputs.keys() - {"tokens"}:
            assert np.array_equal(batch.inputs[name], original.inputs[name])
        for name in original.targets:
            assert np.array_equal(batch.targets[name], original.targets[name])
        assert batch.targets.keys() == {"token", *original.targets}
        assert np.array_equal(np.asarray(batch.positions), np.asarray(original.positions))
        assert tokens.dtype == original_tokens.dtype


@given(
    seed=st.integers(0, 10**6), share=st.floats(0.01, 0.99), unit_type=st.sampled_from(["tokens", "words", "groups"])
)
def test_special_tokens_in_the_text_are_never_masked(tokenizer: Tokenizer, seed: int, share: float, unit_type: str):
    """Even in a text full of them, for any mask rate."""
    rng = np.random.default_rng(seed)
    documents = random_documents(rng, 6)
    total = sum(map(sum, documents))
    ids = np.where(
        rng.random(total) < 0.5, rng.integers(0, FIRST, total), rng.integers(FIRST, tokenizer.vocab_size, total)
    )
    corpus = corpus_of(documents, ids=ids, words=rng.random(total) < 0.5, tokenizer=tokenizer)
    objective = masking_objective(UNITS[unit_type], tokenizer.vocab_size, context=30, mask_rate=share)
    batch, original, boundaries = masked_and_original(objective, corpus.all_documents(), BatchKey(seed, 3))
    supervised = batch.targets["token"] != IGNORE_INDEX
    assert not (supervised & ~maskable(original, boundaries)).any()
    assert np.array_equal(batch.targets["token"][supervised], original.inputs["tokens"][supervised])


def test_sequences_without_maskable_tokens_are_left_unmasked(tokenizer: Tokenizer):
    """A document of unknown tokens, one of a single token, an ordinary one; and many of a single token."""
    ids = np.array([UNK] * 6 + [FIRST] + list(range(FIRST, FIRST + 20)))
    corpus = corpus_of([[6], [1], [20]], ids=ids, tokenizer=tokenizer)
    objective = masking_objective(SingleTokens(), tokenizer.vocab_size, kind=DocSentences, context=30)
    unknown_only = Subset(corpus, corpus.all_documents().units[:1])
    batch = objective.batch(unknown_only, 100, BatchKey(0, 0))
    assert batch.supervised_counts() == {"token": 0}
    assert batch.inputs["tokens"].tolist() == [CLS, *[UNK] * 6, SEP]
    singles = corpus_of([[1]] * 4000, ids=np.full(4000, FIRST), tokenizer=tokenizer).all_documents()
    num_supervised = objective.batch(singles, 10**6, BatchKey(0, 0)).supervised_counts()["token"]
    assert abs(num_supervised / 4000 - 0.15) < 3 * (0.15 * 0.85 / 4000) ** 0.5  # on average, also for single tokens
    for step in range(100):
        batch = objective.batch(corpus.all_documents(), 1000, BatchKey(1, step))
        supervised_rows = row_numbers(batch)[batch.targets["token"] != IGNORE_INDEX]
        unmaskable_rows = [
            number
            for number, position in enumerate(np.cumsum(batch.inputs["lengths"]) - 2)
            if batch.inputs["tokens"][position] == UNK
        ]
        assert not set(supervised_rows.tolist()) & set(unmaskable_rows)


# -- mask rate


@pytest.mark.parametrize("unit_type", UNITS)
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_mask_rate_counts_only_maskable_tokens(source: Subset, tokenizer: Tokenizer, unit_type: str, share: float):
    """Of each sequence's maskable tokens, within three standard errors over all sequences."""
    objective = masking_objective(UNITS[unit_type], tokenizer.vocab_size, mask_rate=share)
    differences = []
    for step in range(30):
        batch, original, boundaries = masked_and_original(objective, source, BatchKey(1, step))
        rows, is_maskable = row_numbers(batch), maskable(original, boundaries)
        num_supervised = np.bincount(rows, batch.targets["token"] != IGNORE_INDEX)
        expected = share * np.bincount(rows, is_maskable)
        differences += (num_supervised - expected).tolist()
        if unit_type == "tokens":
            assert (np.abs(num_supervised - expected) < 1).all()
    assert abs(np.mean(differences)) < 3 * np.std(differences) / len(differences) ** 0.5
    assert len(differences) > 800


def test_every_position_is_masked_equally_often(tokenizer: Tokenizer):
    corpus = corpus_of([[21]] * 200, ids=np.tile(np.arange(FIRST, FIRST + 21), 200), tokenizer=tokenizer)
    objective = masking_objective(SingleTokens(), tokenizer.vocab_size, kind=DocSentences)
    mask_counts, count = np.zeros(23), 0
    for step in range(40):
        batch = objective.batch(corpus.all_documents(), 10**6, BatchKey(2, step))
        mask_counts += (batch.targets["token"] != IGNORE_INDEX).reshape(200, 23).sum(axis=0)
        count += 200
    assert mask_counts[0] == mask_counts[-1] == 0
    assert (np.abs(mask_counts[1:-1] / count - 0.15) < 4 * (0.15 * 0.85 / count) ** 0.5).all()


# -- corruption


@pytest.mark.parametrize("unit_type", ["words", "groups", "names"])
def test_masking_unit_is_masked_randomized_or_kept_as_a_whole(source: Subset, tokenizer: Tokenizer, unit_type: str):
    """80% mask, 10% random, 10% unchanged, counted in units; a random token equal to the original is unchanged."""
    objective, outcomes, mixed = masking_objective(UNITS[unit_type], tokenizer.vocab_size), [], 0
    for step in range(40):
        batch, original, boundaries = masked_and_original(objective, source, BatchKey(9, step))
        original_tokens, tokens, supervised = (
            original.inputs["tokens"],
            batch.inputs["tokens"],
            batch.targets["token"] != IGNORE_INDEX,
        )
        edges = [*np.flatnonzero(boundaries.starts).tolist(), batch.num_target_tokens]
        for begin, end in pairwise(edges):
            assert supervised[begin:end].all() == supervised[begin:end].any()
            if supervised[begin]:
                masked, kept = (tokens == MASK)[begin:end], (tokens == original_tokens)[begin:end]
                assert masked.all() == masked.any()
                outcomes.append("masked" if masked[0] else "kept" if kept.all() else "random")
                mixed += not masked[0] and bool(kept.any()) and not bool(kept.all())
    count = len(outcomes)
    for outcome, share in (("masked", 0.8), ("random", 0.1), ("kept", 0.1)):
        assert abs(outcomes.count(outcome) / count - share) < 3 * (share * (1 - share) / count) ** 0.5
    assert mixed <= 0.01 * count  # a random token equals the original once in 400
    assert count > 2000


def test_single_tokens_are_corrupted_80_10_10(source: Subset, tokenizer: Tokenizer):
    objective, outcomes = masking_objective(SingleTokens(), tokenizer.vocab_size), np.zeros(3)
    for step in range(40):
        batch = objective.batch(source, 3000, BatchKey(9, step))
        supervised = batch.targets["token"] != IGNORE_INDEX
        tokens, target = batch.inputs["tokens"][supervised], batch.targets["token"][supervised]
        outcomes += [(tokens == MASK).sum(), ((tokens != MASK) & (tokens != target)).sum(), (tokens == target).sum()]
    same_by_chance = 0.1 / ORDINARY
    for outcome, share in zip(
        outcomes / outcomes.sum(), (0.8, 0.1 - same_by_chance, 0.1 + same_by_chance), strict=True
    ):
        assert abs(outcome - share) < 3 * (share * (1 - share) / outcomes.sum()) ** 0.5


def test_random_replacements_are_uniform_and_never_special(source: Subset, tokenizer: Tokenizer):
    objective = masking_objective(
        SingleTokens(), tokenizer.vocab_size, mask_rate=0.9, mask_fraction=0.0, random_fraction=1.0
    )
    counts = np.zeros(tokenizer.vocab_size)
    for step in range(8):
        batch = objective.batch(source, 3000, BatchKey(3, step))
        supervised = batch.targets["token"] != IGNORE_INDEX
        counts += np.bincount(batch.inputs["tokens"][supervised], minlength=tokenizer.vocab_size)
        unchanged = (batch.inputs["tokens"] == batch.targets["token"])[supervised].mean()
        assert unchanged < 0.02  # the token itself may be drawn
    assert counts[:FIRST].sum() == 0
    expected = counts.sum() / ORDINARY
    chi = ((counts[FIRST:] - expected) ** 2 / expected).sum()
    assert abs(chi - (ORDINARY - 1)) < 4 * (2 * (ORDINARY - 1)) ** 0.5


def test_masked_1_0_replaces_all_supervised_tokens_with_mask(source: Subset, tokenizer: Tokenizer):
    objective = masking_objective(SingleTokens(), tokenizer.vocab_size, mask_fraction=1.0, random_fraction=0.0)
    for step in range(5):
        batch = objective.batch(source, 3000, BatchKey(0, step))
        supervised = batch.targets["token"] != IGNORE_INDEX
        assert (batch.inputs["tokens"][supervised] == MASK).all()
        assert not (batch.inputs["tokens"][~supervised] == MASK).any()


def test_entities_are_masked_before_other_words(source: Subset, tokenizer: Tokenizer):
    """If all entities of a sequence fit into the mask rate, all are masked; otherwise nothing else is."""
    objective = masking_objective(EntityUnits(), tokenizer.vocab_size)
    entities = source.corpus.entities
    assert entities is not None
    row_counts = {"all": 0, "some": 0}
    for step in range(10):
        batch, original, boundaries = masked_and_original(objective, source, BatchKey(4, step))
        assert batch.positions is not None
        is_maskable, rows = maskable(original, boundaries), row_numbers(batch)
        is_entity = is_maskable & (batch.positions >= 0) & (entities[np.maximum(batch.positions, 0)] > 0)
        supervised = batch.targets["token"] != IGNORE_INDEX
        for row in range(len(batch.inputs["lengths"])):
            in_row = rows == row
            quota = 0.15 * (is_maskable & in_row).sum()
            if (is_entity & in_row).sum() <= quota - 1e-9:
                assert supervised[is_entity & in_row].all()
                row_counts["all"] += bool((is_entity & in_row).any())
            else:
                assert not (supervised & in_row & ~is_entity).any()
                row_counts["some"] += 1
    assert min(row_counts.values()) > 30


# -- batch keys


@pytest.mark.parametrize("unit_type", UNITS)
def test_masked_batch_is_determined_by_seed_and_step(source: Subset, tokenizer: Tokenizer, unit_type: str):
    objective = masking_objective(UNITS[unit_type], tokenizer.vocab_size)
    first, repeated = (objective.batch(source, 500, BatchKey(3, 8)) for _ in range(2))
    assert np.array_equal(first.inputs["tokens"], repeated.inputs["tokens"])
    assert np.array_equal(first.targets["token"], repeated.targets["token"])
    for key in (BatchKey(3, 9), BatchKey(4, 8)):
        other_batch = objective.batch(source, 500, key)
        assert not np.array_equal(first.targets["token"], other_batch.targets["token"])


def test_masking_is_dynamic_across_epochs(tokenizer: Tokenizer):
    corpus = corpus_of([[30]], ids=np.arange(FIRST, FIRST + 30), tokenizer=tokenizer)
    objective = masking_objective(SingleTokens(), tokenizer.vocab_size, kind=DocSentences)
    target_patterns = {
        tuple(objective.batch(corpus.all_documents(), 100, BatchKey(0, step)).targets["token"]) for step in range(50)
    }
    assert len(target_patterns) > 45


def test_masking_delegates_steps_and_check_to_base_objective(source: Subset, tokenizer: Tokenizer):
    objective = masking_objective(SingleTokens(), tokenizer.vocab_size)
    for size in (100, 1000):
        assert objective.steps(source, size) == objective.base_objective.steps(source, size)
    with pytest.raises(Exception, match="one document"):
        objective.check(corpus_of([[3, 3]]).all_documents())
    replace(objective, base_objective=DocSentences(64, CLS, SEP)).check(corpus_of([[3, 3]]).all_documents())
