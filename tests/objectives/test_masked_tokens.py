"""Hiding: how much, what becomes of it, and never what is special; counted over many batches."""

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
ORDINARY = 400  # tokens of the vocabulary that are words


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    made = train_tokenizer("words", [" ".join([*(f"w{n}" for n in range(ORDINARY - 2)), ".", ","])], min_count=1)
    assert made.vocab_size == ORDINARY + len(SPECIALS)
    assert made.special_ids == SPECIALS
    return made


@pytest.fixture(scope="module")
def source(tokenizer: Tokenizer) -> Subset:
    """Words of one token and of several, some of them unknown; some words are names."""
    rng = np.random.default_rng(0)
    documents = random_documents(rng, 250, longest=25)
    total = sum(map(sum, documents))
    ids = rng.integers(FIRST, tokenizer.vocab_size, total)
    ids[rng.random(total) < 0.02] = UNK
    words = rng.random(total) < 0.6
    words[np.cumsum([0, *(length for document in documents for length in document)])[:-1]] = True
    entities = (words & (rng.random(total) < 0.08)).astype(np.uint8)
    for place in range(1, total):
        if entities[place - 1] and not words[place]:
            entities[place] = 2
    return corpus_of(documents, ids=ids, words=words, entities=entities, tokenizer=tokenizer).all_documents()


WAYS: dict[str, MaskingUnits] = {
    "tokens": SingleTokens(),
    "words": WholeWords(),
    "groups": WordNgrams(3),
    "names": EntityUnits(),
    "turns": AlternatingUnits((WholeWords(), WordNgrams(3, 2), EntityUnits()), 2),
}


def hiding(units: MaskingUnits, size: int, *, kind: type[DocSentences] = NextSentence, context: int = 64, **how: float):
    return MaskedTokens(kind(context, CLS, SEP), units, MASK, size, SPECIALS, **how)


def told(objective: MaskedTokens, source: Subset, moment: BatchKey, size: int = 3000):
    """A batch, the same without anything hidden, and the number of each token's unit."""
    batch, shown = objective.batch(source, size, moment), objective.inner.batch(source, size, moment)
    division = objective.units.unit_boundaries(shown, source, moment.step, moment.rng(2))
    return batch, shown, division


def hideable(shown: Batch, division: UnitBoundaries) -> np.ndarray:
    """(T,) True for tokens of units without anything special, unit by unit."""
    able = np.ones(shown.num_target_tokens, bool)
    begins = [*np.flatnonzero(division.starts).tolist(), shown.num_target_tokens]
    for begin, end in pairwise(begins):
        able[begin:end] = not SPECIALS & set(shown.inputs["tokens"][begin:end].tolist())
    return able


def row_numbers(batch: Batch) -> np.ndarray:
    return np.repeat(np.arange(len(batch.inputs["lengths"])), batch.inputs["lengths"])


# -- what is never touched


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [DocSentences, NextSentence, SentenceOrder])
def test_rows_are_the_same_but_for_what_is_asked(
    source: Subset, tokenizer: Tokenizer, way: str, kind: type[DocSentences]
):
    objective = hiding(WAYS[way], tokenizer.vocab_size, kind=kind)
    for step in (0, 2, 4, 777):
        batch, shown, _ = told(objective, source, BatchKey(5, step))
        asked = batch.targets["token"] != IGNORE_INDEX
        assert asked.any()
        before, seen = shown.inputs["tokens"], batch.inputs["tokens"]
        assert np.array_equal(seen[~asked], before[~asked])
        assert np.array_equal(batch.targets["token"][asked], before[asked])
        assert not np.isin(before[asked], list(SPECIALS)).any()
        assert not np.isin(seen[asked], list(SPECIALS - {MASK})).any()
        assert (seen[np.isin(before, list(SPECIALS))] == before[np.isin(before, list(SPECIALS))]).all()
        for name in shown.inputs.keys() - {"tokens"}:
            assert np.array_equal(batch.inputs[name], shown.inputs[name])
        for name in shown.targets:
            assert np.array_equal(batch.targets[name], shown.targets[name])
        assert batch.targets.keys() == {"token", *shown.targets}
        assert np.array_equal(np.asarray(batch.positions), np.asarray(shown.positions))
        assert seen.dtype == before.dtype


@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 0.99), way=st.sampled_from(["tokens", "words", "groups"]))
def test_special_tokens_in_a_text_are_never_hidden(tokenizer: Tokenizer, seed: int, share: float, way: str):
    """Even a text that is full of them, whatever the share."""
    rng = np.random.default_rng(seed)
    documents = random_documents(rng, 6)
    total = sum(map(sum, documents))
    ids = np.where(
        rng.random(total) < 0.5, rng.integers(0, FIRST, total), rng.integers(FIRST, tokenizer.vocab_size, total)
    )
    corpus = corpus_of(documents, ids=ids, words=rng.random(total) < 0.5, tokenizer=tokenizer)
    objective = hiding(WAYS[way], tokenizer.vocab_size, context=30, share=share)
    batch, shown, division = told(objective, corpus.all_documents(), BatchKey(seed, 3))
    asked = batch.targets["token"] != IGNORE_INDEX
    assert not (asked & ~hideable(shown, division)).any()
    assert np.array_equal(batch.targets["token"][asked], shown.inputs["tokens"][asked])


def test_rows_in_which_nothing_can_be_hidden(tokenizer: Tokenizer):
    """A document of unknown tokens, one of a single token, an ordinary one; and many of a single token."""
    ids = np.array([UNK] * 6 + [FIRST] + list(range(FIRST, FIRST + 20)))
    corpus = corpus_of([[6], [1], [20]], ids=ids, tokenizer=tokenizer)
    objective = hiding(SingleTokens(), tokenizer.vocab_size, kind=DocSentences, context=30)
    alone = Subset(corpus, corpus.all_documents().units[:1])
    batch = objective.batch(alone, 100, BatchKey(0, 0))
    assert batch.supervised_counts() == {"token": 0}
    assert batch.inputs["tokens"].tolist() == [CLS, *[UNK] * 6, SEP]
    singles = corpus_of([[1]] * 4000, ids=np.full(4000, FIRST), tokenizer=tokenizer).all_documents()
    asked = objective.batch(singles, 10**6, BatchKey(0, 0)).supervised_counts()["token"]
    assert abs(asked / 4000 - 0.15) < 3 * (0.15 * 0.85 / 4000) ** 0.5  # in the mean even of one token
    for step in range(100):
        batch = objective.batch(corpus.all_documents(), 1000, BatchKey(1, step))
        asked_rows = row_numbers(batch)[batch.targets["token"] != IGNORE_INDEX]
        hopeless = [
            number
            for number, place in enumerate(np.cumsum(batch.inputs["lengths"]) - 2)
            if batch.inputs["tokens"][place] == UNK
        ]
        assert not set(asked_rows.tolist()) & set(hopeless)


# -- how much


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_is_right_in_the_mean(source: Subset, tokenizer: Tokenizer, way: str, share: float):
    """Of each row's tokens that can be hidden; within three times what chance makes of the mean of all rows."""
    objective = hiding(WAYS[way], tokenizer.vocab_size, share=share)
    off = []
    for step in range(30):
        batch, shown, division = told(objective, source, BatchKey(1, step))
        rows, able = row_numbers(batch), hideable(shown, division)
        asked = np.bincount(rows, batch.targets["token"] != IGNORE_INDEX)
        wanted = share * np.bincount(rows, able)
        off += (asked - wanted).tolist()
        if way == "tokens":
            assert (np.abs(asked - wanted) < 1).all()
    assert abs(np.mean(off)) < 3 * np.std(off) / len(off) ** 0.5
    assert len(off) > 800


def test_every_place_of_a_row_is_hidden_as_often_as_any_other(tokenizer: Tokenizer):
    corpus = corpus_of([[21]] * 200, ids=np.tile(np.arange(FIRST, FIRST + 21), 200), tokenizer=tokenizer)
    objective = hiding(SingleTokens(), tokenizer.vocab_size, kind=DocSentences)
    often, count = np.zeros(23), 0
    for step in range(40):
        batch = objective.batch(corpus.all_documents(), 10**6, BatchKey(2, step))
        often += (batch.targets["token"] != IGNORE_INDEX).reshape(200, 23).sum(axis=0)
        count += 200
    assert often[0] == often[-1] == 0
    assert (np.abs(often[1:-1] / count - 0.15) < 4 * (0.15 * 0.85 / count) ** 0.5).all()


# -- what becomes of it


@pytest.mark.parametrize("way", ["words", "groups", "names"])
def test_a_unit_is_whole_in_or_out_and_has_one_fate(source: Subset, tokenizer: Tokenizer, way: str):
    """80 % masked, 10 % other tokens, 10 % as they were: of units. One by chance drawn as it was counts as kept."""
    objective, fates, mixed = hiding(WAYS[way], tokenizer.vocab_size), [], 0
    for step in range(40):
        batch, shown, division = told(objective, source, BatchKey(9, step))
        before, seen, asked = shown.inputs["tokens"], batch.inputs["tokens"], batch.targets["token"] != IGNORE_INDEX
        begins = [*np.flatnonzero(division.starts).tolist(), batch.num_target_tokens]
        for begin, end in pairwise(begins):
            assert asked[begin:end].all() == asked[begin:end].any()
            if asked[begin]:
                masked, kept = (seen == MASK)[begin:end], (seen == before)[begin:end]
                assert masked.all() == masked.any()
                fates.append("masked" if masked[0] else "kept" if kept.all() else "random")
                mixed += not masked[0] and bool(kept.any()) and not bool(kept.all())
    count = len(fates)
    for fate, share in (("masked", 0.8), ("random", 0.1), ("kept", 0.1)):
        assert abs(fates.count(fate) / count - share) < 3 * (share * (1 - share) / count) ** 0.5
    assert mixed <= 0.01 * count  # one of 400 words is drawn by chance
    assert count > 2000


def test_single_tokens_have_the_same_fates(source: Subset, tokenizer: Tokenizer):
    objective, fates = hiding(SingleTokens(), tokenizer.vocab_size), np.zeros(3)
    for step in range(40):
        batch = objective.batch(source, 3000, BatchKey(9, step))
        asked = batch.targets["token"] != IGNORE_INDEX
        seen, target = batch.inputs["tokens"][asked], batch.targets["token"][asked]
        fates += [(seen == MASK).sum(), ((seen != MASK) & (seen != target)).sum(), (seen == target).sum()]
    by_chance = 0.1 / ORDINARY
    for fate, share in zip(fates / fates.sum(), (0.8, 0.1 - by_chance, 0.1 + by_chance), strict=True):
        assert abs(fate - share) < 3 * (share * (1 - share) / fates.sum()) ** 0.5


def test_other_tokens_are_drawn_evenly_and_never_special(source: Subset, tokenizer: Tokenizer):
    objective = hiding(SingleTokens(), tokenizer.vocab_size, share=0.9, masked=0.0, random=1.0)
    drawn = np.zeros(tokenizer.vocab_size)
    for step in range(8):
        batch = objective.batch(source, 3000, BatchKey(3, step))
        asked = batch.targets["token"] != IGNORE_INDEX
        drawn += np.bincount(batch.inputs["tokens"][asked], minlength=tokenizer.vocab_size)
        same = (batch.inputs["tokens"] == batch.targets["token"])[asked].mean()
        assert same < 0.02  # the token itself may be drawn, as any other
    assert drawn[:FIRST].sum() == 0
    expected = drawn.sum() / ORDINARY
    chi = ((drawn[FIRST:] - expected) ** 2 / expected).sum()
    assert abs(chi - (ORDINARY - 1)) < 4 * (2 * (ORDINARY - 1)) ** 0.5


def test_everything_behind_the_mask_if_asked_for(source: Subset, tokenizer: Tokenizer):
    objective = hiding(SingleTokens(), tokenizer.vocab_size, masked=1.0, random=0.0)
    for step in range(5):
        batch = objective.batch(source, 3000, BatchKey(0, step))
        asked = batch.targets["token"] != IGNORE_INDEX
        assert (batch.inputs["tokens"][asked] == MASK).all()
        assert not (batch.inputs["tokens"][~asked] == MASK).any()


def test_names_are_hidden_before_anything_else(source: Subset, tokenizer: Tokenizer):
    """Row by row: where all names fit into the share all are hidden; where they do not, nothing else is."""
    objective = hiding(EntityUnits(), tokenizer.vocab_size)
    entities = source.corpus.entities
    assert entities is not None
    seen = {"all": 0, "some": 0}
    for step in range(10):
        batch, shown, division = told(objective, source, BatchKey(4, step))
        assert batch.positions is not None
        able, rows = hideable(shown, division), row_numbers(batch)
        name = able & (batch.positions >= 0) & (entities[np.maximum(batch.positions, 0)] > 0)
        asked = batch.targets["token"] != IGNORE_INDEX
        for row in range(len(batch.inputs["lengths"])):
            mine = rows == row
            quota = 0.15 * (able & mine).sum()
            if (name & mine).sum() <= quota - 1e-9:
                assert asked[name & mine].all()
                seen["all"] += bool((name & mine).any())
            else:
                assert not (asked & mine & ~name).any()
                seen["some"] += 1
    assert min(seen.values()) > 30


# -- moments


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_is_a_function_of_seed_and_step(source: Subset, tokenizer: Tokenizer, way: str):
    objective = hiding(WAYS[way], tokenizer.vocab_size)
    one, same = (objective.batch(source, 500, BatchKey(3, 8)) for _ in range(2))
    assert np.array_equal(one.inputs["tokens"], same.inputs["tokens"])
    assert np.array_equal(one.targets["token"], same.targets["token"])
    for moment in (BatchKey(3, 9), BatchKey(4, 8)):
        other = objective.batch(source, 500, moment)
        assert not np.array_equal(one.targets["token"], other.targets["token"])


def test_what_is_hidden_is_drawn_anew_each_time_a_text_is_shown(tokenizer: Tokenizer):
    corpus = corpus_of([[30]], ids=np.arange(FIRST, FIRST + 30), tokenizer=tokenizer)
    objective = hiding(SingleTokens(), tokenizer.vocab_size, kind=DocSentences)
    hidden = {
        tuple(objective.batch(corpus.all_documents(), 100, BatchKey(0, step)).targets["token"]) for step in range(50)
    }
    assert len(hidden) > 45


def test_steps_and_checks_are_those_of_the_rows(source: Subset, tokenizer: Tokenizer):
    objective = hiding(SingleTokens(), tokenizer.vocab_size)
    for size in (100, 1000):
        assert objective.steps(source, size) == objective.inner.steps(source, size)
    with pytest.raises(Exception, match="one document"):
        objective.check(corpus_of([[3, 3]]).all_documents())
    replace(objective, inner=DocSentences(64, CLS, SEP)).check(corpus_of([[3, 3]]).all_documents())
