"""Sentence pairs (NSP, SOP): correct and balanced labels that lengths do not reveal, and no lost token."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, FIRST, SEP, corpus_of, document_numbers, random_documents, rows_of

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset, split_by_position
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.sentence_pairs import SENTENCE_TASKS, DocSentences, NextSentence, SentenceOrder

LENGTHS = st.one_of(st.just(1), st.integers(1, 9), st.integers(10, 40))
DOCUMENTS = st.lists(st.lists(LENGTHS, min_size=1, max_size=8), min_size=1, max_size=8)
PAIR_OBJECTIVES = [NextSentence, SentenceOrder]

Row = tuple[list[int], list[int], int]  # both segments as tokens of the corpus, and the label


def batches_of(
    objective: DocSentences, source: Subset, size: int = 10**9, seed: int = 0, epoch: int = 0
) -> list[Batch]:
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


def parse_batch(batch: Batch) -> list[Row]:
    """The rows of a batch, parsed by their separators."""
    parsed = []
    labels, lengths = batch.targets["pair"], batch.inputs["lengths"]
    segments = rows_of(batch.inputs["segments"], lengths)
    for row, row_segments, label in zip(
        rows_of(batch.inputs["tokens"], lengths), segments, labels.tolist(), strict=True
    ):
        assert row[0] == CLS
        assert row[-1] == SEP
        parts = [[]]
        for token in row[1:-1]:
            if token == SEP:
                parts.append([])
            else:
                parts[-1].append(token - FIRST)
        assert 1 <= len(parts) <= 2
        assert all(parts)
        assert min(map(min, parts)) >= 0
        first = parts[0]
        second = parts[1] if len(parts) == 2 else []
        assert row_segments == [0] * (len(first) + 2) + [1] * (len(second) + 1 if second else 0)
        parsed.append((first, second, label))
    return parsed


def epoch_rows(objective: DocSentences, source: Subset, size: int = 10**9, seed: int = 0, epoch: int = 0) -> list[Row]:
    return [row for batch in batches_of(objective, source, size, seed, epoch) for row in parse_batch(batch)]


def label_counts(parsed: list[Row]) -> Counter[int]:
    return Counter(label for _, _, label in parsed if label != IGNORE_INDEX)


def is_contiguous(tokens: list[int]) -> bool:
    return tokens == list(range(tokens[0], tokens[0] + len(tokens)))


# -- input format


@pytest.mark.parametrize("kind", PAIR_OBJECTIVES)
def test_segment_ids_match_the_worked_example(
    kind: type[DocSentences], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """[CLS] I like dogs [SEP] I like cats [SEP] is 0 0 0 0 0 1 1 1 1."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("I like dogs\nI like cats\n")
    tokenizer = train_tokenizer("words", ["I like dogs", "I like cats"], min_count=1)
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, sentences="lines", to=tmp_path / "corpus")
    assert len(corpus.documents) == 2
    start, end = tokenizer.special_roles["start"], tokenizer.special_roles["end"]
    texts = set()
    for seed in range(40):
        batch = kind(9, start, end).batch(corpus.all_documents(), 100, BatchKey(seed, 0))
        if batch.inputs["lengths"].tolist() == [9]:
            assert batch.inputs["segments"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
            texts.add(tokenizer.decode(batch.inputs["tokens"], specials=True))
    first_sentence, second_sentence = "I like dogs", "I like cats"
    expected = {
        f"[CLS] {first_sentence} [SEP] {second_sentence} [SEP]",
        f"[CLS] {second_sentence} [SEP] {first_sentence} [SEP]",
    }
    assert texts <= expected
    assert f"[CLS] {first_sentence} [SEP] {second_sentence} [SEP]" in texts


def test_sentence_task_names_map_to_their_objectives():
    assert list(SENTENCE_TASKS.items()) == [("next", NextSentence), ("order", SentenceOrder), ("none", DocSentences)]


@pytest.mark.parametrize("kind", PAIR_OBJECTIVES)
@given(
    documents=DOCUMENTS,
    context=st.integers(8, 40),
    size=st.integers(1, 120),
    seed=st.integers(0, 50),
    epoch=st.integers(0, 2),
    long=st.sampled_from(["windows", "truncate"]),
    usual=st.none() | st.integers(4, 20),
)
def test_sentence_pairs_contain_every_token_once_an_epoch(
    kind: type[DocSentences],
    documents: list[list[int]],
    context: int,
    size: int,
    seed: int,
    epoch: int,
    long: str,
    usual: int | None,
):
    corpus = corpus_of(documents)
    objective = kind(context, CLS, SEP, long, usual)
    source = corpus.all_documents()
    batches = batches_of(objective, source, size, seed, epoch)
    assert all(batch.num_target_tokens for batch in batches)
    assert all(batch.inputs["lengths"].max() <= context for batch in batches)
    rows = [row for batch in batches for row in parse_batch(batch)]
    assert all(is_contiguous(segment) for first, second, _ in rows for segment in (first, second) if segment)
    tokens = sorted(token for first, second, _ in rows for token in first + second)
    if long == "windows":
        assert tokens == list(range(len(corpus)))
    else:  # the start of each sentence
        expected = [
            token
            for begin, length in zip(corpus.sentences.tolist(), np.diff(corpus.sentences).tolist(), strict=False)
            for token in range(begin, begin + min(length, context - 3))
        ]
        assert tokens == expected


# -- labels


def follows(corpus: Corpus, numbers: np.ndarray, first: list[int], second: list[int]) -> bool:
    return second[0] == first[-1] + 1 and numbers[first[0]] == numbers[second[0]]


@given(documents=DOCUMENTS, context=st.integers(8, 40), seed=st.integers(0, 50), cut=st.booleans())
def test_nsp_second_segment_follows_or_is_of_another_document(
    documents: list[list[int]], context: int, seed: int, cut: bool
):
    corpus = corpus_of(documents)
    source = split_by_position(corpus, 0.4).train if cut and sum(map(len, documents)) > 1 else corpus.all_documents()
    numbers = document_numbers(corpus)
    for first, second, label in epoch_rows(NextSentence(context, CLS, SEP), source, seed=seed):
        if not second:
            assert label == IGNORE_INDEX
        elif label == 1:
            assert numbers[first[0]] != numbers[second[0]]
        else:
            assert follows(corpus, numbers, first, second)


@given(documents=DOCUMENTS, context=st.integers(8, 40), seed=st.integers(0, 50))
def test_sop_segments_are_adjacent_in_order_or_swapped(documents: list[list[int]], context: int, seed: int):
    corpus = corpus_of(documents)
    numbers, borders = document_numbers(corpus), set(corpus.sentences.tolist())
    rows = epoch_rows(SentenceOrder(context, CLS, SEP), corpus.all_documents(), seed=seed)
    max_tokens = context - 3
    for first, second, label in rows:
        if not second:
            assert label == IGNORE_INDEX
            continue
        assert label in (0, 1)
        earlier, later = (first, second) if label == 0 else (second, first)
        assert follows(corpus, numbers, earlier, later)
        sentence_length = next(length for length in np.diff(corpus.sentences)[_sentence(corpus, later[0])])
        # between two sentences, or two windows of one sentence
        assert later[0] in borders or sentence_length > max_tokens
    counts = label_counts(rows)
    assert abs(counts[0] - counts[1]) <= 1


def _sentence(corpus: Corpus, token: int) -> list[int]:
    return [int(np.searchsorted(corpus.sentences, token, side="right")) - 1]


def test_nsp_labels_are_balanced():
    rng = np.random.default_rng(2)
    corpus = corpus_of(random_documents(rng, 200))
    for seed in range(5):
        rows = epoch_rows(NextSentence(32, CLS, SEP), corpus.all_documents(), seed=seed)
        counts = label_counts(rows)
        assert abs(counts[0] - counts[1]) <= 2
        num_pairs = sum(bool(second) for _, second, _ in rows)
        # few pairs are unlabeled where there are many documents
        assert num_pairs - sum(counts.values()) < 0.1 * num_pairs


def test_nsp_labels_are_balanced_for_documents_of_unequal_size():
    corpus = corpus_of([[5] * 400, [5] * 12])
    numbers = document_numbers(corpus)
    counts_by_document = Counter()
    for seed in range(20):
        rows = epoch_rows(NextSentence(40, CLS, SEP), corpus.all_documents(), seed=seed)
        counts = label_counts(rows)
        assert counts[0] + counts[1] >= 2
        assert abs(counts[0] - counts[1]) <= 2
        assert sorted(token for first, second, _ in rows for token in first + second) == list(range(len(corpus)))
        counts_by_document += Counter(
            (int(numbers[first[0]]), label) for first, _, label in rows if label != IGNORE_INDEX
        )
    num_small = counts_by_document[1, 0] + counts_by_document[1, 1]
    assert num_small >= 20
    # being from the smaller document must not reveal the label
    assert 0.3 < counts_by_document[1, 1] / num_small < 0.7


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ([[5, 5, 5, 5]], "one document"),
        ([[3]] * 20, "two sentences"),
        ([[9, 9]] * 20, "two sentences"),
        ([[3, 3, 3], [3], [2]], "two sentences"),
    ],
)
def test_nsp_check_names_text_without_pairs_and_hint(documents: list[list[int]], says: str):
    """One document; documents of one sentence; no two sentences that fit a sequence; only one document with two."""
    corpus = corpus_of(documents)
    objective = NextSentence(12, CLS, SEP)
    with pytest.raises(InputError, match=says) as caught:
        objective.check(corpus.all_documents())
    assert "--pairs none" in str(caught.value.hint)
    rows = epoch_rows(objective, corpus.all_documents())  # but every token is in a batch
    assert label_counts(rows) == {}
    assert sorted(token for first, second, _ in rows for token in first + second) == list(range(len(corpus)))


def test_sop_needs_only_one_document_with_two_sentences():
    SentenceOrder(12, CLS, SEP).check(corpus_of([[3, 3]]).all_documents())
    NextSentence(12, CLS, SEP).check(corpus_of([[3, 3], [2, 2]]).all_documents())
    for documents in ([[3]] * 9, [[9, 9]]):
        with pytest.raises(InputError, match="two sentences") as caught:
            SentenceOrder(12, CLS, SEP).check(corpus_of(documents).all_documents())
        assert "--pairs none" in str(caught.value.hint)


# -- lengths


def lengths_and_answers(
    kind: type[DocSentences],
    context: int,
    count: int,
    sentences: tuple[int, int],
    tokens: tuple[int, int],
    corpora: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3) the lengths of both segments and of the row, and (n,) the labels, over many corpora, one epoch each."""
    rng, records = np.random.default_rng(7), []
    for seed in range(corpora):
        documents = [rng.integers(*tokens, rng.integers(*sentences)).tolist() for _ in range(count)]
        for first, second, label in epoch_rows(
            kind(context, CLS, SEP), corpus_of(documents).all_documents(), seed=seed
        ):
            if label != IGNORE_INDEX:
                records.append((len(first), len(second), len(first) + len(second), label))
    array = np.array(records)
    return array[:, :3], array[:, 3]


def best_guess(features: np.ndarray, answers: np.ndarray) -> float:
    """The accuracy on one half of the rows of a table over binned lengths, learned on the other half."""
    is_train = np.arange(len(answers)) < len(answers) // 2
    cells = [np.searchsorted(np.quantile(features[is_train, n], np.arange(1, 6) / 6), features[:, n]) for n in range(3)]
    cell = (cells[0] * 6 + cells[1]) * 6 + cells[2]
    positives = np.bincount(cell[is_train], answers[is_train], 216)
    guess = positives > np.bincount(cell[is_train], minlength=216) / 2
    return float((guess[cell[~is_train]] == answers[~is_train]).mean())


def ks_statistic(first: np.ndarray, second: np.ndarray) -> float:
    """The Kolmogorov–Smirnov statistic of two samples, scaled by their sizes."""
    values = np.unique(np.concatenate((first, second)))
    distributions = [np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (first, second)]
    return float(np.abs(distributions[0] - distributions[1]).max() / (1 / len(first) + 1 / len(second)) ** 0.5)


MANY = {"context": 64, "count": 300, "sentences": (2, 16), "tokens": (3, 25), "corpora": 12}
FEW = {"context": 128, "count": 10, "sentences": (30, 31), "tokens": (3, 25), "corpora": 250}
SHORT_ROWS = {"context": 24, "count": 60, "sentences": (1, 8), "tokens": (1, 20), "corpora": 100}


@pytest.mark.parametrize("kind", PAIR_OBJECTIVES)
@pytest.mark.parametrize("how", [MANY, FEW, SHORT_ROWS], ids=["many", "few", "short"])
def test_segment_lengths_do_not_reveal_the_label(kind: type[DocSentences], how: dict):
    """By a table of lengths, and by length distributions: 1.95 occurs once in a thousand by chance."""
    features, answers = lengths_and_answers(kind, **how)
    standard_error = 0.5 / (len(answers) / 2) ** 0.5
    assert best_guess(features, answers) < max(answers.mean(), 1 - answers.mean()) + 3 * standard_error
    for number in range(3):
        assert ks_statistic(features[answers == 0, number], features[answers == 1, number]) < 1.95


# -- batch keys


@pytest.fixture(scope="module")
def source() -> Subset:
    return corpus_of(random_documents(np.random.default_rng(4), 120)).all_documents()


def equal_batches(first: Batch, second: Batch) -> bool:
    pairs = [(first.inputs, second.inputs), (first.targets, second.targets)]
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in pairs
    ) and np.array_equal(np.asarray(first.positions), np.asarray(second.positions))


@pytest.mark.parametrize("kind", [*PAIR_OBJECTIVES, DocSentences])
def test_pair_batch_is_determined_by_seed_and_step(kind: type[DocSentences], source: Subset):
    first = kind(32, CLS, SEP).batch(source, 200, BatchKey(3, 8))
    fresh_source = Subset(source.corpus, source.units.copy())  # with nothing cached for it
    assert equal_batches(first, kind(32, CLS, SEP).batch(fresh_source, 200, BatchKey(3, 8)))
    steps = kind(32, CLS, SEP).steps(source, 200)
    for key in (BatchKey(3, 9), BatchKey(4, 8), BatchKey(3, 8 + steps), BatchKey(3, 8 + 7 * steps)):
        assert not equal_batches(first, kind(32, CLS, SEP).batch(source, 200, key))


@pytest.mark.parametrize("kind", [*PAIR_OBJECTIVES, DocSentences])
def test_pair_batches_of_distant_epochs_are_valid(kind: type[DocSentences], source: Subset):
    objective = kind(32, CLS, SEP)
    steps = objective.steps(source, 200)
    for epoch in (10**6, 10**12):
        tokens = np.concatenate([batch.inputs["tokens"] for batch in batches_of(objective, source, 200, 1, epoch)])
        assert sorted(tokens[tokens >= FIRST].tolist()) == list(range(FIRST, FIRST + source.num_tokens))
    assert objective.batch(source, 200, BatchKey(2**40, 10**15 * steps + 3)).num_target_tokens


@pytest.mark.parametrize("kind", PAIR_OBJECTIVES)
def test_sentence_pairs_differ_between_epochs(kind: type[DocSentences], source: Subset):
    divisions = [
        frozenset(
            (first[0], len(first), second[0] if second else -1)
            for first, second, _ in epoch_rows(kind(32, CLS, SEP), source, epoch=epoch)
        )
        for epoch in range(4)
    ]
    for epoch_1 in range(4):
        for epoch_2 in range(epoch_1):
            assert len(divisions[epoch_1] & divisions[epoch_2]) < 0.8 * len(divisions[epoch_1])


def test_pair_batches_have_about_the_requested_size(source: Subset):
    for kind in PAIR_OBJECTIVES:
        for size in (150, 400, 1000):
            tokens = [batch.num_target_tokens for batch in batches_of(kind(32, CLS, SEP), source, size, 1, 2)]
            assert np.mean(tokens) == pytest.approx(size, rel=0.15)
            assert max(tokens) <= 1.3 * size + 32
