"""Passages: every token in exactly one, none across documents, none too long; what is left away is counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, FIRST, SEP, corpus_of, owners, random_documents, rows_of

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.subset import Subset
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.sentence_pairs import DocSentences, pack_chunks, sentence_chunks

LENGTHS = st.one_of(st.just(1), st.integers(1, 9), st.integers(10, 60))
DOCUMENTS = st.lists(st.lists(LENGTHS, min_size=1, max_size=8), min_size=1, max_size=7)
ROOMS = st.integers(1, 20)
SEEDS = st.integers(0, 99)


def spans_of(source: Subset, room: int, long: str, seed: int) -> list[tuple[int, int]]:
    """The passages as tokens of the corpus: first and one after the last."""
    pieces = sentence_chunks(source, room, long)
    passages = pack_chunks(pieces, room, np.random.default_rng(seed)).tolist()
    return [(int(pieces.spans[first, 0]), int(pieces.spans[last - 1, 1])) for first, last in passages]


def numbers(source: Subset) -> list[int]:
    """Every token of a portion, sentence by sentence."""
    corpus, found = source.corpus, []
    for first, last in source.units.tolist():
        for sentence in range(first, last):
            found += range(int(corpus.sentences[sentence]), int(corpus.sentences[sentence + 1]))
    return found


def shown(spans: list[tuple[int, int]]) -> list[int]:
    return sorted(token for begin, end in spans for token in range(begin, end))


def epoch_of(objective: DocSentences, source: Subset, size: int, seed: int = 0, epoch: int = 0) -> list[Batch]:
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS)
def test_every_token_is_in_exactly_one_passage_of_its_document(documents: list[list[int]], room: int, seed: int):
    corpus = corpus_of(documents)
    spans, owner = spans_of(corpus.all_documents(), room, "windows", seed), owners(corpus)
    assert shown(spans) == list(range(len(corpus)))
    assert all(1 <= end - begin <= room for begin, end in spans)
    assert all(len(set(owner[begin:end])) == 1 for begin, end in spans)


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS, share=st.floats(0.05, 0.9), how=st.sampled_from("cp"))
def test_a_portion_shows_its_own_tokens_and_no_others(
    documents: list[list[int]], room: int, seed: int, share: float, how: str
):
    """By content and by position: a document that is cut in two has a part on each side."""
    corpus = corpus_of(documents)
    if sum(map(len, documents)) < 2:
        return
    split = corpus.split(share) if how == "c" else _by_position(corpus, share)
    for source in (split.train, split.held_out):
        spans = spans_of(source, room, "windows", seed)
        assert shown(spans) == sorted(numbers(source))
        units = [(int(corpus.sentences[first]), int(corpus.sentences[last])) for first, last in source.units.tolist()]
        assert all(any(first <= begin and end <= last for first, last in units) for begin, end in spans)
    assert sorted(numbers(split.train) + numbers(split.held_out)) == list(range(len(corpus)))


def _by_position(corpus: Corpus, share: float):
    from forebear.data.corpus.subset import split_by_position

    return split_by_position(corpus, share)


def test_the_parts_of_a_document_cut_in_two_are_not_joined_across_what_lies_between():
    """Sentences 0-1 and 4-5 of one document: nothing goes on from the second to the fifth."""
    corpus = corpus_of([[2, 2, 2, 2, 2, 2]])
    source = Subset(corpus, np.array([[0, 2], [4, 6]]))
    for seed in range(20):
        spans = spans_of(source, 100, "windows", seed)
        assert shown(spans) == [0, 1, 2, 3, 8, 9, 10, 11]
        assert not any(begin < 4 and end > 4 for begin, end in spans)


def test_documents_in_any_order_stay_apart():
    corpus = corpus_of([[3, 2], [1], [4, 4, 4], [2]])
    source = Subset(corpus, corpus.all_documents().units[[2, 0, 3, 1]])
    for seed in range(20):
        spans = spans_of(source, 6, "windows", seed)
        owner = owners(corpus)
        assert shown(spans) == list(range(len(corpus)))
        assert all(len(set(owner[begin:end])) == 1 for begin, end in spans)


@given(length=st.integers(1, 80), room=st.integers(1, 12), seed=SEEDS)
def test_a_sentence_too_long_is_cut_before_a_word(length: int, room: int, seed: int):
    """Beside a search through every place: the last word start that fits, or a full window where there is none."""
    rng = np.random.default_rng(seed)
    words = rng.random(length + 7) < rng.choice([0.1, 0.5, 0.9])
    words[[0, 4]] = True
    corpus = corpus_of([[4, length], [3]], words=words)
    pieces = sentence_chunks(corpus.all_documents(), room, "windows")
    mine = [(begin, end) for begin, end in pieces.spans.tolist() if 4 <= begin < 4 + length]
    at, expected = 4, []
    while 4 + length - at > room:
        fits = [place for place in range(at + 1, at + room + 1) if words[place]]
        expected.append((at, fits[-1] if fits else at + room))
        at = expected[-1][1]
    assert mine == [*expected, (at, 4 + length)]
    assert pieces.num_split == sum(length > room for length in (4, length, 3))
    assert pieces.num_dropped == 0


def test_where_no_words_are_known_windows_are_full():
    pieces = sentence_chunks(corpus_of([[10]]).all_documents(), 4, "windows")
    assert pieces.spans.tolist() == [[0, 4], [4, 8], [8, 10]]


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS, words=st.booleans())
def test_truncate_counts_what_it_leaves_away(documents: list[list[int]], room: int, seed: int, words: bool):
    total = sum(map(sum, documents))
    told = np.random.default_rng(seed).random(total) < 0.5 if words else None
    corpus = corpus_of(documents, words=told)
    source = corpus.all_documents()
    pieces = sentence_chunks(source, room, "truncate")
    spans = spans_of(source, room, "truncate", seed)
    assert len(shown(spans)) + pieces.num_dropped == total
    assert len(set(shown(spans))) == len(shown(spans))
    kept = set(shown(spans))
    for begin, end in pairwise(corpus.sentences.tolist()):
        mine = [token for token in range(begin, end) if token in kept]
        assert mine[0] == begin
        assert mine == list(range(begin, begin + len(mine)))  # the beginning of each sentence
        assert len(mine) == end - begin if end - begin <= room else len(mine) <= room
        assert words or len(mine) == min(room, end - begin)
    assert pieces.num_split == sum(length > room for document in documents for length in document)


def test_documents_of_one_token_survive():
    corpus = corpus_of([[1]] * 30 + [[1, 1]])
    for objective in (DocSentences(16, CLS, SEP), DocSentences(3, CLS, SEP)):
        batches = epoch_of(objective, corpus.all_documents(), 20)
        rows = [row for batch in batches for row in rows_of(batch.inputs["tokens"], batch.inputs["lengths"])]
        assert sorted(token for row in rows for token in row[1:-1]) == list(range(FIRST, FIRST + 32))
        assert [len(row) for row in rows].count(3) >= 30


def test_a_passage_is_as_full_as_it_can_be_but_for_a_tenth():
    """Where neighbours on both sides would have fitted, it was drawn short: at most a tenth of them, and not none."""
    rng = np.random.default_rng(5)
    corpus = corpus_of([rng.integers(1, 9, 40).tolist() for _ in range(200)])
    starts, borders = corpus.sentences.tolist(), set(corpus.document_starts.tolist())
    after = {begin: end - begin for begin, end in pairwise(starts)}
    before = {end: end - begin for begin, end in pairwise(starts)}
    spans = spans_of(corpus.all_documents(), 30, "windows", 1)
    assert {place for span in spans for place in span} <= set(starts)  # never inside a sentence
    inner = [(begin, end) for begin, end in spans if begin not in borders and end not in borders]
    loose = sum(end - begin + max(before[begin], after[end]) <= 30 for begin, end in inner)
    spread = (0.1 * 0.9 / len(inner)) ** 0.5
    assert 0.01 < loose / len(inner) < 0.1 + 3 * spread


def test_most_rows_are_as_short_as_is_asked_for_and_a_few_fill_the_context():
    rng = np.random.default_rng(5)
    corpus = corpus_of([rng.integers(1, 9, 400).tolist() for _ in range(20)])
    batches = epoch_of(DocSentences(200, CLS, SEP, "windows", 32), corpus.all_documents(), 2000)
    lengths = np.concatenate([batch.inputs["lengths"] for batch in batches])
    assert 0.9 < (lengths <= 32).mean() < 0.98
    assert (lengths > 190).any()
    assert not ((lengths > 32) & (lengths < 180)).sum() > 0.03 * len(lengths)  # but for the ends of documents


def test_an_epoch_divides_a_text_otherwise_than_the_one_before():
    corpus = corpus_of([[5, 4] * 100])
    made = {tuple(sorted(spans_of(corpus.all_documents(), 30, "windows", seed))) for seed in range(10)}
    assert len(made) > 5


@given(documents=DOCUMENTS, context=st.integers(3, 30), size=st.integers(1, 90), seed=SEEDS, epoch=st.integers(0, 3))
def test_the_batches_of_an_epoch_are_the_text(
    documents: list[list[int]], context: int, size: int, seed: int, epoch: int
):
    corpus = corpus_of(documents)
    batches = epoch_of(DocSentences(context, CLS, SEP), corpus.all_documents(), size, seed, epoch)
    rows = [row for batch in batches for row in rows_of(batch.inputs["tokens"], batch.inputs["lengths"])]
    assert all(batch.num_target_tokens for batch in batches), "no batch is empty, however small it is to be"
    assert all(batch.targets == {} and set(batch.inputs) == {"tokens", "lengths"} for batch in batches)
    assert all(row[0] == CLS and row[-1] == SEP and 3 <= len(row) <= context for row in rows)
    texts = [np.array(row[1:-1]) for row in rows]
    assert all((np.diff(text) == 1).all() for text in texts)
    assert sorted(np.concatenate(texts).tolist()) == list(range(FIRST, FIRST + len(corpus)))
    for batch in batches:
        lengths = batch.inputs["lengths"].tolist()
        assert lengths == sorted(lengths, reverse=True)
        assert batch.positions is not None
        told = np.where(batch.inputs["tokens"] >= FIRST, batch.inputs["tokens"] - FIRST, -1)
        assert batch.positions.tolist() == told.tolist()


def test_batches_have_about_the_size_that_is_asked_for():
    rng = np.random.default_rng(0)
    corpus = corpus_of(random_documents(rng, 300))
    objective = DocSentences(32, CLS, SEP)
    for size in (100, 300, 1000):
        for epoch in (0, 5):
            tokens = [batch.num_target_tokens for batch in epoch_of(objective, corpus.all_documents(), size, 3, epoch)]
            assert np.mean(tokens) == pytest.approx(size, rel=0.1)
            assert max(tokens) <= 1.2 * size + 32
            assert min(tokens) >= 0.7 * size - 32
