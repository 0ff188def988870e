"""A run answers from any number of threads as from one, and gives the same answers afterwards."""

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
from verb_calls import (
    KINDS,
    FlatAnswer,
    Job,
    answer_jobs,
    flatten,
    folder_with_text,
    jobs_of,
    new_texts,
    train_run,
    verbs_of,
)

from forebear.data.tokenizers.char_ids import CharIds
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.lexicon import WordMatcher
from forebear.embeddings.word_table import WordVectors
from forebear.inference.embed import PooledTexts
from forebear.inference.run import Run
from small_runs import sample_params, small_text

pytestmark = pytest.mark.usefixtures("one_thread", "frequent_switches")
THREADS = 8
TOLERANCE = 1e-5  # of numbers that networks make
# One run for each kind of state shared between threads: the token cache by words and by pieces, n-gram tables,
# out-of-vocabulary words, features of words, composed vectors.
SAMPLE = ("ngram", "onehot", "bert", "ngram-classification", "crf-tagging", "elmo-tagging")


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Threads change places after nearly every step of Python."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def run_in_threads(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of these functions, all started at once; the first error is raised."""
    results: list[Any] = [None] * len(functions)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def work(number: int) -> None:
        barrier.wait()
        try:
            results[number] = functions[number]()
        except BaseException as error:  # noqa: BLE001 - raised below, where a test can see it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def assert_agree(
    kind: str, jobs: Sequence[Job], actual: Sequence[FlatAnswer], expected: Sequence[FlatAnswer], when: str
) -> None:
    answers = zip(jobs, actual, expected, strict=True)
    wrong = [job.verb for job, answer, expected_answer in answers if not answer.agrees(expected_answer, TOLERANCE)]
    assert not wrong, f"{kind} {when}: {len(wrong)} of {len(jobs)} answers differ, of {sorted(set(wrong))}"


def compare_threads(kind: str, path: Path, texts: int, repeats: int, expensive_divisor: int) -> None:
    """Calls new runs from several threads, then from one; expected answers come from other runs before."""
    for repeat in range(repeats):
        run = Run.open(path)
        verbs = verbs_of(kind, run)
        jobs = [
            jobs_of(verbs, texts, THREADS * repeat + number, expensive_divisor=expensive_divisor)
            for number in range(THREADS)
        ]
        expected = [answer_jobs(run, verbs, thread_jobs) for thread_jobs in jobs]
        run = Run.open(path)  # nothing is loaded yet
        actual = run_in_threads([partial(answer_jobs, run, verbs, thread_jobs) for thread_jobs in jobs])
        for thread_jobs, answers, expected_answers in zip(jobs, actual, expected, strict=True):
            assert_agree(kind, thread_jobs, answers, expected_answers, "in threads")
        for thread_jobs, expected_answers in zip(jobs, expected, strict=True):
            assert_agree(kind, thread_jobs, answer_jobs(run, verbs, thread_jobs), expected_answers, "afterwards")


@pytest.mark.parametrize("kind", sample_params(KINDS, SAMPLE))
def test_verbs_from_eight_threads_equal_one_thread(kind: str, tmp_path: Path):
    compare_threads(kind, train_run(kind, folder_with_text(tmp_path / "run")), texts=8, repeats=1, expensive_divisor=4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_thousand_texts_per_thread_ten_times_equal_one_thread(kind: str, tmp_path: Path):
    compare_threads(
        kind, train_run(kind, folder_with_text(tmp_path / "run")), texts=2000, repeats=10, expensive_divisor=100
    )


@pytest.mark.parametrize("kind", ["words", "spaces", "wordpiece", "bytepair", "characters", "segmented"])
def test_encoding_in_threads_equals_one_thread(kind: str):
    tokenizer = tokenizer_of(kind)
    fresh = Tokenizer(tokenizer.spec)
    parts = [[new_texts(10, 50 * number + batch_number) for batch_number in range(8)] for number in range(THREADS)]
    expected = [[encode_all(fresh, texts) for texts in batches] for batches in parts]
    assert (
        run_in_threads(
            [lambda batches=batches: [encode_all(tokenizer, texts) for texts in batches] for batches in parts]
        )
        == expected
    )
    assert [[encode_all(tokenizer, texts) for texts in batches] for batches in parts] == expected


def tokenizer_of(kind: str) -> Tokenizer:
    lines = [*small_text().split("\n"), "春天的花和秋天的山", "人在水上"] * 2
    options: dict[str, Any] = {"size": 300} if kind in ("wordpiece", "bytepair") else {"min_count": 1}
    if kind == "spaces":
        return train_tokenizer("words", lines, split="spaces", **options)
    if kind == "segmented":  # Chinese, by rjieba
        return train_tokenizer("words", lines, **options)
    options |= {"segmenter": None} if kind == "words" else {}
    return train_tokenizer(kind, lines, **options)


def encode_all(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Any]:
    ids, counts = tokenizer.encode_many(texts)
    tokens = tokenizer.encode_batch(texts, with_offsets=True)
    return [part.tolist() for part in (ids, counts, tokens.ids, tokens.unknown_bytes)]


def test_composed_vectors_in_threads_equal_one_thread():
    """Each vector is of a word outside the table, and is composed once."""
    words = ["cat", "dog", "sat", "the"]
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)

    def compose(word: str) -> np.ndarray:
        return np.array([len(word), ord(word[0]), ord(word[-1])], np.float32)

    def pooled() -> PooledTexts:
        return PooledTexts(
            WordMatcher(WordVectors(words, matrix, None, compose), train_tokenizer("words", words, min_count=1))
        )

    parts = [[new_texts(10, 50 * number + batch_number) for batch_number in range(4)] for number in range(THREADS)]
    fresh, shared = pooled(), pooled()
    expected = [[fresh.embed_texts(texts).vectors.tolist() for texts in batches] for batches in parts]
    actual = run_in_threads(
        [lambda batches=batches: [shared.embed_texts(texts).vectors.tolist() for texts in batches] for batches in parts]
    )
    assert actual == expected


def test_oov_words_numbered_in_threads_have_one_id_each():
    spelling = CharIds(["cat", "dog"], 12, {})
    words = [f"word{number}" for number in range(1000)]
    numberings = run_in_threads(
        [lambda shift=shift: number_words(spelling, words, 37 * shift) for shift in range(THREADS)]
    )
    assert all(numbering == numberings[0] for numbering in numberings)
    assert sorted(numberings[0].values()) == list(range(2, 1002))
    for word, number in numberings[0].items():
        assert spelling.id_to_word(number) == word
        assert spelling.char_rows(np.array([number])).tolist() == [spelling.encode_word(word).tolist()]


def number_words(spelling: CharIds, words: Sequence[str], first: int) -> dict[str, int]:
    return {word: spelling.oov_id(word) for word in (*words[first:], *words[:first])}


def test_embedding_hook_affects_only_its_own_thread(tmp_path: Path):
    """Attribution replaces token embeddings in the network that all threads share."""
    from forebear.inspection.gradients import embedding_hook

    run = Run.open(train_run("gpt2", folder_with_text(tmp_path / "run")))
    texts = new_texts(3, 1)
    expected = flatten(run.score(texts))
    with embedding_hook(run.network.encoder.embedding, lambda output: output * 0):
        answers = run_in_threads([lambda: flatten(run.score(texts))])
        assert not flatten(run.score(texts)).agrees(expected, TOLERANCE)
    assert answers[0].agrees(expected, TOLERANCE)


def test_earlier_calls_change_no_answer(tmp_path: Path):
    """A tagger numbers out-of-vocabulary words in order of occurrence: no answer depends on these numbers."""
    path, texts = train_run("hmm-tagging", folder_with_text(tmp_path / "run")), new_texts(5, 1)
    verbs = verbs_of("hmm-tagging", Run.open(path))
    jobs = [Job(verb, tuple(texts)) for verb in verbs]
    expected = answer_jobs(Run.open(path), verbs, jobs)
    gc.collect()  # numbers hold as long as a run does
    run = Run.open(path)
    run.tag(new_texts(20, 2))
    assert_agree("hmm-tagging", jobs, answer_jobs(run, verbs, jobs), expected, "after other texts")
