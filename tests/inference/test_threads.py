"""A run answers from any number of threads as it does from one, and is as good afterwards as before."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_verb import KINDS, Job, Plain, answered, folder_with_text, jobs_of, made, new_texts, plain, verbs_of

from forebear.data.tokenizers.char_ids import CharIds
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.lexicon import WordMatcher
from forebear.embeddings.word_table import WordVectors
from forebear.inference.embed import PooledTexts
from forebear.inference.run import Run
from small_runs import sampled, text

pytestmark = pytest.mark.usefixtures("one_thread", "frequent_switches")
THREADS = 8
TOLERANCE = 1e-5  # of numbers that networks make
# Of what is shared between threads each sort is here: the tokenizer's cache by words and by pieces, tables of n-grams,
# words beyond the vocabulary, features of words, composed vectors.
SAMPLE = ("ngram", "onehot", "bert", "ngram-classification", "crf-tagging", "elmo-tagging")


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads change places after nearly every step of Python."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def in_threads(parts: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of these gives, all of them begun at once; the first error is raised."""
    found: list[Any] = [None] * len(parts)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(parts))

    def work(number: int) -> None:
        barrier.wait()
        try:
            found[number] = parts[number]()
        except BaseException as error:  # noqa: BLE001 - raised below, where a test can see it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def agree(kind: str, jobs: Sequence[Job], found: Sequence[Plain], expected: Sequence[Plain], when: str) -> None:
    told = zip(jobs, found, expected, strict=True)
    wrong = [job.verb for job, one, other in told if not one.agrees(other, TOLERANCE)]
    assert not wrong, f"{kind} {when}: {len(wrong)} of {len(jobs)} answers differ, of {sorted(set(wrong))}"


def try_threads(kind: str, path: Path, texts: int, repeats: int, dear: int) -> None:
    """Asks new runs from several threads, and then from one; other runs, asked before, say what is right."""
    for repeat in range(repeats):
        run = Run.open(path)
        verbs = verbs_of(kind, run)
        jobs = [jobs_of(verbs, texts, THREADS * repeat + number, dear=dear) for number in range(THREADS)]
        expected = [answered(run, verbs, mine) for mine in jobs]
        run = Run.open(path)  # which has loaded nothing yet
        found = in_threads([partial(answered, run, verbs, mine) for mine in jobs])
        for mine, some, right in zip(jobs, found, expected, strict=True):
            agree(kind, mine, some, right, "in threads")
        for mine, right in zip(jobs, expected, strict=True):
            agree(kind, mine, answered(run, verbs, mine), right, "afterwards")


@pytest.mark.parametrize("kind", sampled(KINDS, SAMPLE))
def test_every_verb_from_eight_threads(kind: str, tmp_path: Path):
    try_threads(kind, made(kind, folder_with_text(tmp_path / "run")), texts=8, repeats=1, dear=4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_thousand_new_texts_in_each_thread_ten_times(kind: str, tmp_path: Path):
    try_threads(kind, made(kind, folder_with_text(tmp_path / "run")), texts=2000, repeats=10, dear=100)


@pytest.mark.parametrize("kind", ["words", "spaces", "wordpiece", "bytepair", "characters", "segmented"])
def test_encoding(kind: str):
    tokenizer = tokenizer_of(kind)
    fresh = Tokenizer(tokenizer.spec)
    parts = [[new_texts(10, 50 * number + at) for at in range(8)] for number in range(THREADS)]
    expected = [[encoded(fresh, some) for some in mine] for mine in parts]
    assert in_threads([lambda mine=mine: [encoded(tokenizer, some) for some in mine] for mine in parts]) == expected
    assert [[encoded(tokenizer, some) for some in mine] for mine in parts] == expected


def tokenizer_of(kind: str) -> Tokenizer:
    lines = [*text().split("\n"), "春天的花和秋天的山", "人在水上"] * 2
    how: dict[str, Any] = {"size": 300} if kind in ("wordpiece", "bytepair") else {"min_count": 1}
    if kind == "spaces":
        return train_tokenizer("words", lines, split="spaces", **how)
    if kind == "segmented":  # Chinese, by rjieba
        return train_tokenizer("words", lines, **how)
    how |= {"segmenter": None} if kind == "words" else {}
    return train_tokenizer(kind, lines, **how)


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Any]:
    ids, counts = tokenizer.encode_many(texts)
    told = tokenizer.encode_batch(texts, with_offsets=True)
    return [part.tolist() for part in (ids, counts, told.ids, told.unknown_bytes)]


def test_composed_vectors():
    """Each of a word beyond the table, which is composed once and kept."""
    words = ["cat", "dog", "sat", "the"]
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)

    def compose(word: str) -> np.ndarray:
        return np.array([len(word), ord(word[0]), ord(word[-1])], np.float32)

    def pooled() -> PooledTexts:
        return PooledTexts(
            WordMatcher(WordVectors(words, matrix, None, compose), train_tokenizer("words", words, min_count=1))
        )

    parts = [[new_texts(10, 50 * number + at) for at in range(4)] for number in range(THREADS)]
    fresh, shared = pooled(), pooled()
    expected = [[fresh.embed_texts(some).vectors.tolist() for some in mine] for mine in parts]
    found = in_threads(
        [lambda mine=mine: [shared.embed_texts(some).vectors.tolist() for some in mine] for mine in parts]
    )
    assert found == expected


def test_words_beyond_the_vocabulary_have_one_number_each():
    spelling = CharIds(["cat", "dog"], 12, {})
    words = [f"word{number}" for number in range(1000)]
    found = in_threads([lambda shift=shift: _numbered(spelling, words, 37 * shift) for shift in range(THREADS)])
    assert all(one == found[0] for one in found)
    assert sorted(found[0].values()) == list(range(2, 1002))
    for word, number in found[0].items():
        assert spelling.id_to_word(number) == word
        assert spelling.char_rows(np.array([number])).tolist() == [spelling.encode_word(word).tolist()]


def _numbered(spelling: CharIds, words: Sequence[str], first: int) -> dict[str, int]:
    return {word: spelling.oov_id(word) for word in (*words[first:], *words[:first])}


def test_a_hook_in_a_network_is_for_its_own_thread(tmp_path: Path):
    """Attributions put other vectors in the place of tokens', in the network that all threads share."""
    from forebear.inspection.gradients import embedding_hook

    run = Run.open(made("gpt2", folder_with_text(tmp_path / "run")))
    texts = new_texts(3, 1)
    expected = plain(run.score(texts))
    with embedding_hook(run.network.encoder.embedding, lambda output: output * 0):
        found = in_threads([lambda: plain(run.score(texts))])
        assert not plain(run.score(texts)).agrees(expected, TOLERANCE)
    assert found[0].agrees(expected, TOLERANCE)


def test_what_was_asked_before_changes_no_answer(tmp_path: Path):
    """A tagger numbers words beyond its vocabulary as they come: no answer shows these numbers, nor follows them."""
    path, texts = made("hmm-tagging", folder_with_text(tmp_path / "run")), new_texts(5, 1)
    verbs = verbs_of("hmm-tagging", Run.open(path))
    jobs = [Job(verb, tuple(texts)) for verb in verbs]
    expected = answered(Run.open(path), verbs, jobs)
    gc.collect()  # numbers hold as long as a run does
    run = Run.open(path)
    run.tag(new_texts(20, 2))
    agree("hmm-tagging", jobs, answered(run, verbs, jobs), expected, "after other texts")
