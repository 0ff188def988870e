"""Packed sentence chunks: each token once, within its document and the maximum length; truncated tokens are counted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, FIRST, SEP, corpus_of, document_numbers, random_documents, rows_of

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.subset import Subset
from forebear.objectives.batch import Batch, BatchKey
from forebear.objectives.sentence_pairs import DocSentences, pack_chunks, sentence_chunks

LENGTHS = st.one_of(st.just(1), st.integers(1, 9), st.integers(10, 60))
DOCUMENTS = st.lists(st.lists(LENGTHS, min_size=1, max_size=8), min_size=1, max_size=7)
ROOMS = st.integers(1, 20)
SEEDS = st.integers(0, 99)


def spans_of(source: Subset, room: int, long: str, seed: int) -> list[tuple[int, int]]:
    """The packed chunks as half-open token spans of the corpus."""
    chunks = sentence_chunks(source, room, long)
    packed = pack_chunks(chunks, room, np.random.default_rng(seed)).tolist()
    return [(int(chunks.spans[first, 0]), int(chunks.spans[last - 1, 1])) for first, last in packed]


def token_numbers(source: Subset) -> list[int]:
    """Every token of a subset, sentence by sentence."""
    corpus, tokens = source.corpus, []
    for first, last in source.units.tolist():
        for sentence in range(first, last):
            tokens += range(int(corpus.sentences[sentence]), int(corpus.sentences[sentence + 1]))
    return tokens


def tokens_of_spans(spans: list[tuple[int, int]]) -> list[int]:
    return sorted(token for begin, end in spans for token in range(begin, end))


def epoch_batches(objective: DocSentences, source: Subset, size: int, seed: int = 0, epoch: int = 0) -> list[Batch]:
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS)
def test_every_token_is_in_exactly_one_chunk_of_its_document(documents: list[list[int]], room: int, seed: int):
    corpus = corpus_of(documents)
    spans, numbers = spans_of(corpus.all_documents(), room, "windows", seed), document_numbers(corpus)
    assert tokens_of_spans(spans) == list(range(len(corpus)))
    assert all(1 <= end - begin <= room for begin, end in spans)
    assert all(len(set(numbers[begin:end])) == 1 for begin, end in spans)


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS, share=st.floats(0.05, 0.9), how=st.sampled_from("cp"))
def test_chunks_of_train_and_held_out_split_are_disjoint(
    documents: list[list[int]], room: int, seed: int, share: float, how: str
):
    """Split by content and by position: a document that is split has a part on each side."""
    corpus = corpus_of(documents)
    if sum(map(len, documents)) < 2:
        return
    split = corpus.split(share) if how == "c" else _by_position(corpus, share)
    for source in (split.train, split.held_out):
        spans = spans_of(source, room, "windows", seed)
        assert tokens_of_spans(spans) == sorted(token_numbers(source))
        units = [(int(corpus.sentences[first]), int(corpus.sentences[last])) for first, last in source.units.tolist()]
        assert all(any(first <= begin and end <= last for first, last in units) for begin, end in spans)
    assert sorted(token_numbers(split.train) + token_numbers(split.held_out)) == list(range(len(corpus)))


def _by_position(corpus: Corpus, share: float):
    from forebear.data.corpus.subset import split_by_position

    return split_by_position(corpus, share)


def test_chunks_do_not_join_separate_parts_of_a_document():
    """Sentences 0–1 and 4–5 of one document: no chunk joins the second and the fifth."""
    corpus = corpus_of([[2, 2, 2, 2, 2, 2]])
    source = Subset(corpus, np.array([[0, 2], [4, 6]]))
    for seed in range(20):
        spans = spans_of(source, 100, "windows", seed)
        assert tokens_of_spans(spans) == [0, 1, 2, 3, 8, 9, 10, 11]
        assert not any(begin < 4 and end > 4 for begin, end in spans)


def test_chunks_do_not_join_documents_in_any_order():
    corpus = corpus_of([[3, 2], [1], [4, 4, 4], [2]])
    source = Subset(corpus, corpus.all_documents().units[[2, 0, 3, 1]])
    for seed in range(20):
        spans = spans_of(source, 6, "windows", seed)
        numbers = document_numbers(corpus)
        assert tokens_of_spans(spans) == list(range(len(corpus)))
        assert all(len(set(numbers[begin:end])) == 1 for begin, end in spans)


@given(length=st.integers(1, 80), room=st.integers(1, 12), seed=SEEDS)
def test_long_sentence_is_split_before_a_word(length: int, room: int, seed: int):
    """Against a search of every position: the last word start that fits, or a full window if there is none."""
    rng = np.random.default_rng(seed)
    words = rng.random(length + 7) < rng.choice([0.1, 0.5, 0.9])
    words[[0, 4]] = True
    corpus = corpus_of([[4, length], [3]], words=words)
    chunks = sentence_chunks(corpus.all_documents(), room, "windows")
    sentence_spans = [(begin, end) for begin, end in chunks.spans.tolist() if 4 <= begin < 4 + length]
    start, expected = 4, []
    while 4 + length - start > room:
        word_starts = [position for position in range(start + 1, start + room + 1) if words[position]]
        expected.append((start, word_starts[-1] if word_starts else start + room))
        start = expected[-1][1]
    assert sentence_spans == [*expected, (start, 4 + length)]
    assert chunks.num_split == sum(length > room for length in (4, length, 3))
    assert chunks.num_dropped == 0


def test_long_sentence_without_word_boundaries_is_split_into_full_windows():
    chunks = sentence_chunks(corpus_of([[10]]).all_documents(), 4, "windows")
    assert chunks.spans.tolist() == [[0, 4], [4, 8], [8, 10]]


@given(documents=DOCUMENTS, room=ROOMS, seed=SEEDS, words=st.booleans())
def test_truncate_counts_dropped_tokens(documents: list[list[int]], room: int, seed: int, words: bool):
    total = sum(map(sum, documents))
    word_starts = np.random.default_rng(seed).random(total) < 0.5 if words else None
    corpus = corpus_of(documents, words=word_starts)
    source = corpus.all_documents()
    chunks = sentence_chunks(source, room, "truncate")
    spans = spans_of(source, room, "truncate", seed)
    assert len(tokens_of_spans(spans)) + chunks.num_dropped == total
    assert len(set(tokens_of_spans(spans))) == len(tokens_of_spans(spans))
    retained = set(tokens_of_spans(spans))
    for begin, end in pairwise(corpus.sentences.tolist()):
        sentence_tokens = [token for token in range(begin, end) if token in retained]
        assert sentence_tokens[0] == begin
        assert sentence_tokens == list(range(begin, begin + len(sentence_tokens)))  # the beginning of each sentence
        assert len(sentence_tokens) == end - begin if end - begin <= room else len(sentence_tokens) <= room
        assert words or len(sentence_tokens) == min(room, end - begin)
    assert chunks.num_split == sum(length > room for document in documents for length in document)


def test_documents_of_one_token_are_included():
    corpus = corpus_of([[1]] * 30 + [[1, 1]])
    for objective in (DocSentences(16, CLS, SEP), DocSentences(3, CLS, SEP)):
        batches = epoch_batches(objective, corpus.all_documents(), 20)
        rows = [row for batch in batches for row in rows_of(batch.inputs["tokens"], batch.inputs["lengths"])]
        assert sorted(token for row in rows for token in row[1:-1]) == list(range(FIRST, FIRST + 32))
        assert [len(row) for row in rows].count(3) >= 30


def test_at_most_a_tenth_of_chunks_could_hold_another_sentence():
    """Chunks are shortened randomly: at most a tenth of them, but some."""
    rng = np.random.default_rng(5)
    corpus = corpus_of([rng.integers(1, 9, 40).tolist() for _ in range(200)])
    starts, borders = corpus.sentences.tolist(), set(corpus.document_starts.tolist())
    length_from = {begin: end - begin for begin, end in pairwise(starts)}
    length_to = {end: end - begin for begin, end in pairwise(starts)}
    spans = spans_of(corpus.all_documents(), 30, "windows", 1)
    assert {position for span in spans for position in span} <= set(starts)  # never inside a sentence
    inner = [(begin, end) for begin, end in spans if begin not in borders and end not in borders]
    loose = sum(end - begin + max(length_to[begin], length_from[end]) <= 30 for begin, end in inner)
    standard_error = (0.1 * 0.9 / len(inner)) ** 0.5
    assert 0.01 < loose / len(inner) < 0.1 + 3 * standard_error


def test_train_length_limits_most_sequences_and_a_few_fill_the_maximum():
    rng = np.random.default_rng(5)
    corpus = corpus_of([rng.integers(1, 9, 400).tolist() for _ in range(20)])
    batches = epoch_batches(DocSentences(200, CLS, SEP, "windows", 32), corpus.all_documents(), 2000)
    lengths = np.concatenate([batch.inputs["lengths"] for batch in batches])
    assert 0.9 < (lengths <= 32).mean() < 0.98
    assert (lengths > 190).any()
    assert not ((lengths > 32) & (lengths < 180)).sum() > 0.03 * len(lengths)  # except at the ends of documents


def test_chunks_differ_between_seeds():
    corpus = corpus_of([[5, 4] * 100])
    divisions = {tuple(sorted(spans_of(corpus.all_documents(), 30, "windows", seed))) for seed in range(10)}
    assert len(divisions) > 5


@given(documents=DOCUMENTS, context=st.integers(3, 30), size=st.integers(1, 90), seed=SEEDS, epoch=st.integers(0, 3))
def test_doc_sentences_batches_contain_every_token_once_sorted_by_length(
    documents: list[list[int]], context: int, size: int, seed: int, epoch: int
):
    corpus = corpus_of(documents)
    batches = epoch_batches(DocSentences(context, CLS, SEP), corpus.all_documents(), size, seed, epoch)
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
        positions = np.where(batch.inputs["tokens"] >= FIRST, batch.inputs["tokens"] - FIRST, -1)
        assert batch.positions.tolist() == positions.tolist()


def test_doc_sentences_batches_have_about_the_requested_size():
    rng = np.random.default_rng(0)
    corpus = corpus_of(random_documents(rng, 300))
    objective = DocSentences(32, CLS, SEP)
    for size in (100, 300, 1000):
        for epoch in (0, 5):
            tokens = [
                batch.num_target_tokens for batch in epoch_batches(objective, corpus.all_documents(), size, 3, epoch)
            ]
            assert np.mean(tokens) == pytest.approx(size, rel=0.1)
            assert max(tokens) <= 1.2 * size + 32
            assert min(tokens) >= 0.7 * size - 32
