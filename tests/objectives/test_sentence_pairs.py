"""Two halves in a row: what is asked of them is true, in balance, and cannot be told from lengths; no token is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_corpora import CLS, FIRST, SEP, corpus_of, owners, random_documents, rows_of

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset, split_by_position
from forebear.data.tokenizers.train import train_tokenizer
from forebear.errors import InputError
from forebear.objectives.batch import IGNORE_INDEX, Batch, BatchKey
from forebear.objectives.sentence_pairs import SENTENCE_TASKS, DocSentences, NextSentence, SentenceOrder

LENGTHS = st.one_of(st.just(1), st.integers(1, 9), st.integers(10, 40))
DOCUMENTS = st.lists(st.lists(LENGTHS, min_size=1, max_size=8), min_size=1, max_size=8)
ASKING = [NextSentence, SentenceOrder]

Row = tuple[list[int], list[int], int]  # the two halves as tokens of the corpus, and what is asked


def batches_of(
    objective: DocSentences, source: Subset, size: int = 10**9, seed: int = 0, epoch: int = 0
) -> list[Batch]:
    steps = objective.steps(source, size)
    return [objective.batch(source, size, BatchKey(seed, epoch * steps + step)) for step in range(steps)]


def read(batch: Batch) -> list[Row]:
    """The rows of a batch, taken apart by their separators alone."""
    found = []
    answers, lengths = batch.targets["pair"], batch.inputs["lengths"]
    segments = rows_of(batch.inputs["segments"], lengths)
    for row, kinds, answer in zip(rows_of(batch.inputs["tokens"], lengths), segments, answers.tolist(), strict=True):
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
        assert kinds == [0] * (len(first) + 2) + [1] * (len(second) + 1 if second else 0)
        found.append((first, second, answer))
    return found


def rows(objective: DocSentences, source: Subset, size: int = 10**9, seed: int = 0, epoch: int = 0) -> list[Row]:
    return [row for batch in batches_of(objective, source, size, seed, epoch) for row in read(batch)]


def asked(found: list[Row]) -> Counter[int]:
    return Counter(answer for _, _, answer in found if answer != IGNORE_INDEX)


def stretch(tokens: list[int]) -> bool:
    return tokens == list(range(tokens[0], tokens[0] + len(tokens)))


# -- layout


@pytest.mark.parametrize("kind", ASKING)
def test_segments_are_those_of_the_lineage(kind: type[DocSentences], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[CLS] I like dogs [SEP] I like cats [SEP] is 0 0 0 0 0 1 1 1 1."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("I like dogs\nI like cats\n")
    tokenizer = train_tokenizer("words", ["I like dogs", "I like cats"], min_count=1)
    corpus = prepare_corpus([tmp_path / "text.txt"], tokenizer, sentences="lines", to=tmp_path / "corpus")
    assert len(corpus.documents) == 2
    start, end = tokenizer.special_roles["start"], tokenizer.special_roles["end"]
    seen = set()
    for seed in range(40):
        batch = kind(9, start, end).batch(corpus.all_documents(), 100, BatchKey(seed, 0))
        if batch.inputs["lengths"].tolist() == [9]:
            assert batch.inputs["segments"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
            seen.add(tokenizer.decode(batch.inputs["tokens"], specials=True))
    one, other = "I like dogs", "I like cats"
    told = {f"[CLS] {one} [SEP] {other} [SEP]", f"[CLS] {other} [SEP] {one} [SEP]"}
    assert seen <= told
    assert f"[CLS] {one} [SEP] {other} [SEP]" in seen


def test_names_on_the_command_line_are_those_objectives():
    assert list(SENTENCE_TASKS.items()) == [("next", NextSentence), ("order", SentenceOrder), ("none", DocSentences)]


@pytest.mark.parametrize("kind", ASKING)
@given(
    documents=DOCUMENTS,
    context=st.integers(8, 40),
    size=st.integers(1, 120),
    seed=st.integers(0, 50),
    epoch=st.integers(0, 2),
    long=st.sampled_from(["windows", "truncate"]),
    usual=st.none() | st.integers(4, 20),
)
def test_an_epoch_shows_every_token_once(
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
    found = [row for batch in batches for row in read(batch)]
    assert all(stretch(half) for first, second, _ in found for half in (first, second) if half)
    shown = sorted(token for first, second, _ in found for token in first + second)
    if long == "windows":
        assert shown == list(range(len(corpus)))
    else:  # the beginning of each sentence
        kept = [
            token
            for begin, length in zip(corpus.sentences.tolist(), np.diff(corpus.sentences).tolist(), strict=False)
            for token in range(begin, begin + min(length, context - 3))
        ]
        assert shown == kept


# -- the questions


def follows(corpus: Corpus, owner: np.ndarray, first: list[int], second: list[int]) -> bool:
    return second[0] == first[-1] + 1 and owner[first[0]] == owner[second[0]]


@given(documents=DOCUMENTS, context=st.integers(8, 40), seed=st.integers(0, 50), cut=st.booleans())
def test_a_second_half_follows_or_is_of_another_document(
    documents: list[list[int]], context: int, seed: int, cut: bool
):
    corpus = corpus_of(documents)
    source = split_by_position(corpus, 0.4).train if cut and sum(map(len, documents)) > 1 else corpus.all_documents()
    owner = owners(corpus)
    for first, second, answer in rows(NextSentence(context, CLS, SEP), source, seed=seed):
        if not second:
            assert answer == IGNORE_INDEX
        elif answer == 1:
            assert owner[first[0]] != owner[second[0]]
        else:
            assert follows(corpus, owner, first, second)


@given(documents=DOCUMENTS, context=st.integers(8, 40), seed=st.integers(0, 50))
def test_halves_stand_as_they_stood_or_are_swapped(documents: list[list[int]], context: int, seed: int):
    corpus = corpus_of(documents)
    owner, borders = owners(corpus), set(corpus.sentences.tolist())
    found = rows(SentenceOrder(context, CLS, SEP), corpus.all_documents(), seed=seed)
    longest = context - 3
    for first, second, answer in found:
        if not second:
            assert answer == IGNORE_INDEX
            continue
        assert answer in (0, 1)
        one, other = (first, second) if answer == 0 else (second, first)
        assert follows(corpus, owner, one, other)
        inside = next(length for length in np.diff(corpus.sentences)[_sentence(corpus, other[0])])
        assert other[0] in borders or inside > longest  # between two sentences, or two windows of one
    told = asked(found)
    assert abs(told[0] - told[1]) <= 1


def _sentence(corpus: Corpus, token: int) -> list[int]:
    return [int(np.searchsorted(corpus.sentences, token, side="right")) - 1]


def test_half_of_what_is_asked_is_from_elsewhere():
    rng = np.random.default_rng(2)
    corpus = corpus_of(random_documents(rng, 200))
    for seed in range(5):
        found = rows(NextSentence(32, CLS, SEP), corpus.all_documents(), seed=seed)
        told = asked(found)
        assert abs(told[0] - told[1]) <= 2
        both = sum(bool(second) for _, second, _ in found)
        assert both - sum(told.values()) < 0.1 * both  # few are left unasked where documents are many


def test_two_documents_of_very_unequal_size_are_asked_about_in_balance():
    corpus = corpus_of([[5] * 400, [5] * 12])
    owner = owners(corpus)
    asked_of = Counter()
    for seed in range(20):
        found = rows(NextSentence(40, CLS, SEP), corpus.all_documents(), seed=seed)
        told = asked(found)
        assert told[0] + told[1] >= 2
        assert abs(told[0] - told[1]) <= 2
        assert sorted(token for first, second, _ in found for token in first + second) == list(range(len(corpus)))
        asked_of += Counter((int(owner[first[0]]), answer) for first, _, answer in found if answer != IGNORE_INDEX)
    small = asked_of[1, 0] + asked_of[1, 1]
    assert small >= 20
    # that a text is of the smaller document must not give the answer away
    assert 0.3 < asked_of[1, 1] / small < 0.7


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ([[5, 5, 5, 5]], "one document"),
        ([[3]] * 20, "two sentences"),
        ([[9, 9]] * 20, "two sentences"),
        ([[3, 3, 3], [3], [2]], "two sentences"),
    ],
)
def test_where_nothing_can_be_asked_it_is_said_with_a_remedy(documents: list[list[int]], says: str):
    """One document; documents of one sentence; no two sentences that fit a row; just one document with two."""
    corpus = corpus_of(documents)
    objective = NextSentence(12, CLS, SEP)
    with pytest.raises(InputError, match=says) as caught:
        objective.check(corpus.all_documents())
    assert "--pairs none" in str(caught.value.hint)
    found = rows(objective, corpus.all_documents())  # and yet every token is shown
    assert asked(found) == {}
    assert sorted(token for first, second, _ in found for token in first + second) == list(range(len(corpus)))


def test_an_order_is_asked_of_one_document_too():
    SentenceOrder(12, CLS, SEP).check(corpus_of([[3, 3]]).all_documents())
    NextSentence(12, CLS, SEP).check(corpus_of([[3, 3], [2, 2]]).all_documents())
    for documents in ([[3]] * 9, [[9, 9]]):
        with pytest.raises(InputError, match="two sentences") as caught:
            SentenceOrder(12, CLS, SEP).check(corpus_of(documents).all_documents())
        assert "--pairs none" in str(caught.value.hint)


# -- what lengths tell


def lengths_and_answers(
    kind: type[DocSentences],
    context: int,
    count: int,
    sentences: tuple[int, int],
    tokens: tuple[int, int],
    corpora: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3) the lengths of both halves and of the row, and (n,) the answers, of many corpora, one epoch each."""
    rng, told = np.random.default_rng(7), []
    for seed in range(corpora):
        documents = [rng.integers(*tokens, rng.integers(*sentences)).tolist() for _ in range(count)]
        for first, second, answer in rows(kind(context, CLS, SEP), corpus_of(documents).all_documents(), seed=seed):
            if answer != IGNORE_INDEX:
                told.append((len(first), len(second), len(first) + len(second), answer))
    made = np.array(told)
    return made[:, :3], made[:, 3]


def best_guess(features: np.ndarray, answers: np.ndarray) -> float:
    """The accuracy on one half of the rows of a guesser that has learned from the other: a table of both lengths."""
    learned = np.arange(len(answers)) < len(answers) // 2
    cells = [np.searchsorted(np.quantile(features[learned, n], np.arange(1, 6) / 6), features[:, n]) for n in range(3)]
    cell = (cells[0] * 6 + cells[1]) * 6 + cells[2]
    ones = np.bincount(cell[learned], answers[learned], 216)
    guess = ones > np.bincount(cell[learned], minlength=216) / 2
    return float((guess[cell[~learned]] == answers[~learned]).mean())


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest distance of two distributions (Kolmogorov and Smirnov), by what chance alone would make."""
    values = np.unique(np.concatenate((one, other)))
    shares = [np.searchsorted(np.sort(some), values, side="right") / len(some) for some in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max() / (1 / len(one) + 1 / len(other)) ** 0.5)


MANY = {"context": 64, "count": 300, "sentences": (2, 16), "tokens": (3, 25), "corpora": 12}
FEW = {"context": 128, "count": 10, "sentences": (30, 31), "tokens": (3, 25), "corpora": 250}
SHORT_ROWS = {"context": 24, "count": 60, "sentences": (1, 8), "tokens": (1, 20), "corpora": 100}


@pytest.mark.parametrize("kind", ASKING)
@pytest.mark.parametrize("how", [MANY, FEW, SHORT_ROWS], ids=["many", "few", "short"])
def test_lengths_do_not_tell_the_answer(kind: type[DocSentences], how: dict):
    """By a table of lengths, and by the distributions of rows and of halves: 1.95 would happen once in a thousand."""
    features, answers = lengths_and_answers(kind, **how)
    spread = 0.5 / (len(answers) / 2) ** 0.5
    assert best_guess(features, answers) < max(answers.mean(), 1 - answers.mean()) + 3 * spread
    for number in range(3):
        assert apart(features[answers == 0, number], features[answers == 1, number]) < 1.95


# -- moments


@pytest.fixture(scope="module")
def source() -> Subset:
    return corpus_of(random_documents(np.random.default_rng(4), 120)).all_documents()


def same(one: Batch, other: Batch) -> bool:
    pairs = [(one.inputs, other.inputs), (one.targets, other.targets)]
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in pairs
    ) and np.array_equal(np.asarray(one.positions), np.asarray(other.positions))


@pytest.mark.parametrize("kind", [*ASKING, DocSentences])
def test_a_batch_is_a_function_of_seed_and_step(kind: type[DocSentences], source: Subset):
    one = kind(32, CLS, SEP).batch(source, 200, BatchKey(3, 8))
    again = Subset(source.corpus, source.units.copy())  # with nothing remembered of it
    assert same(one, kind(32, CLS, SEP).batch(again, 200, BatchKey(3, 8)))
    steps = kind(32, CLS, SEP).steps(source, 200)
    for moment in (BatchKey(3, 9), BatchKey(4, 8), BatchKey(3, 8 + steps), BatchKey(3, 8 + 7 * steps)):
        assert not same(one, kind(32, CLS, SEP).batch(source, 200, moment))


@pytest.mark.parametrize("kind", [*ASKING, DocSentences])
def test_steps_far_away_work(kind: type[DocSentences], source: Subset):
    objective = kind(32, CLS, SEP)
    steps = objective.steps(source, 200)
    for epoch in (10**6, 10**12):
        tokens = np.concatenate([batch.inputs["tokens"] for batch in batches_of(objective, source, 200, 1, epoch)])
        assert sorted(tokens[tokens >= FIRST].tolist()) == list(range(FIRST, FIRST + source.num_tokens))
    assert objective.batch(source, 200, BatchKey(2**40, 10**15 * steps + 3)).num_target_tokens


@pytest.mark.parametrize("kind", ASKING)
def test_epochs_divide_a_text_otherwise(kind: type[DocSentences], source: Subset):
    made = [
        frozenset(
            (first[0], len(first), second[0] if second else -1)
            for first, second, _ in rows(kind(32, CLS, SEP), source, epoch=epoch)
        )
        for epoch in range(4)
    ]
    for one in range(4):
        for other in range(one):
            assert len(made[one] & made[other]) < 0.8 * len(made[one])


def test_batches_are_about_as_large_as_asked_for(source: Subset):
    for kind in ASKING:
        for size in (150, 400, 1000):
            tokens = [batch.num_target_tokens for batch in batches_of(kind(32, CLS, SEP), source, size, 1, 2)]
            assert np.mean(tokens) == pytest.approx(size, rel=0.15)
            assert max(tokens) <= 1.3 * size + 32
