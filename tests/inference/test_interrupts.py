"""Ctrl-C at any moment of a question leaves a run as good as before; at any moment of an import, a working process."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from every_verb import BATCH, KINDS, Job, answered, folder_with_text, jobs_of, made, new_texts, plain, verbs_of

from forebear.data.tokenizers.char_ids import CharIds
from forebear.data.tokenizers.tokenizer import Tokenizer
from forebear.data.tokenizers.train import train_tokenizer
from forebear.inference.run import Run
from small_runs import sampled, text

pytestmark = pytest.mark.usefixtures("one_thread")
TOLERANCE = 1e-5  # of numbers that networks make
MANY = 500  # interrupts
SAMPLE = ("ngram", "ngram-classification", "crf-tagging")


class Interrupting:
    """Does what Ctrl-C does while something is done, after a random time."""

    def __init__(self, seed: int) -> None:
        self.chance, self._armed, self.count = random.Random(seed), False, 0

    def raise_it(self, *_: Any) -> None:
        if self._armed:  # not where the test itself is at work
            self._armed = False
            handler: Any = signal.getsignal(signal.SIGINT)
            handler(signal.SIGINT, None)  # raises KeyboardInterrupt, at once or where it may

    def interrupts(self, action: Callable[[], Any], seconds: float) -> bool:
        """Whether it was interrupted, at some moment of its first `seconds`."""
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, self.chance.uniform(0, seconds)))
        try:
            self._armed = True
            action()
            self._armed = False
        except KeyboardInterrupt:
            self.count += 1
            return True
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


@pytest.fixture
def interrupting() -> Iterator[Interrupting]:
    made = Interrupting(seed=1)
    usual = {signal.SIGALRM: signal.signal(signal.SIGALRM, made.raise_it)}
    usual[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # an exception in a callback of the collector is reported, not raised
    yield made
    gc.enable()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in usual.items():
        signal.signal(number, handler)


def took(action: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


@pytest.mark.parametrize("count", [60, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["words", "wordpiece", "bytepair"])
def test_encoding(kind: str, count: int, interrupting: Interrupting):
    how: dict[str, Any] = {"min_count": 1, "segmenter": None} if kind == "words" else {"size": 300}
    tokenizer = train_tokenizer(kind, text().split("\n"), **how)
    fresh = Tokenizer(tokenizer.spec)
    fresh.encode_many(new_texts(30, 0))
    usual = took(lambda: fresh.encode_many(new_texts(30, 1)))
    seed = 1
    while interrupting.count < count:
        texts = new_texts(30, seed := seed + 1)
        assert seed < 20 * count
        interrupting.interrupts(lambda texts=texts: tokenizer.encode_many(texts), usual)
        for found, expected in zip(tokenizer.encode_many(texts), fresh.encode_many(texts), strict=True):
            assert found.tolist() == expected.tolist(), f"after {interrupting.count} interrupts"


def test_words_beyond_the_vocabulary(interrupting: Interrupting):
    spelling, seed = CharIds(["cat", "dog"], 12, {}), 0
    while interrupting.count < 60:
        words = [f"word{number}" for number in range(200 * seed, 200 * seed + 200)]
        seed += 1
        assert seed < 1000
        interrupting.interrupts(lambda words=words: [spelling.oov_id(word) for word in words], 5e-4)
        numbers = [spelling.oov_id(word) for word in words]
        assert spelling.char_rows(np.array(numbers)).tolist() == [spelling.encode_word(word).tolist() for word in words]
        assert [spelling.id_to_word(number) for number in numbers] == words


@pytest.mark.parametrize("kind", sampled(KINDS, SAMPLE))
def test_every_verb(kind: str, tmp_path: Path, interrupting: Interrupting):
    try_interrupts(kind, made(kind, folder_with_text(tmp_path / "run")), 60, interrupting)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_five_hundred_times(kind: str, tmp_path: Path, interrupting: Interrupting):
    try_interrupts(kind, made(kind, folder_with_text(tmp_path / "run")), MANY, interrupting)


def try_interrupts(kind: str, path: Path, count: int, interrupting: Interrupting) -> None:
    """Interrupts questions, the first of which load the run, and asks them again; and at last all of them.

    What is right was said before by another run that nobody interrupted.
    """
    run = Run.open(path)
    verbs = verbs_of(kind, run)
    jobs = jobs_of(verbs, max(20, count * BATCH // (5 * len(verbs))), 1, dear=4)
    expected = answered(run, verbs, jobs)
    usual = took(lambda: answered(run, verbs, jobs)) / len(jobs)  # now that all is loaded
    run = Run.open(path)
    asked = 0
    while interrupting.count < count:
        job, right = jobs[asked % len(jobs)], expected[asked % len(jobs)]
        asked += 1
        assert asked < 50 * count
        interrupting.interrupts(lambda job=job, run=run: verbs[job.verb](run, job.texts), usual)
        assert torch.is_grad_enabled(), f"{kind}: {job.verb} leaves this thread without gradients"
        assert not torch.is_inference_mode_enabled(), f"{kind}: {job.verb} leaves this thread in inference mode"
        found = plain(verbs[job.verb](run, job.texts))
        assert found.agrees(right, TOLERANCE), f"{kind}: {job.verb} after {interrupting.count} interrupts"
        if asked % len(jobs) == 0:
            agree_all(run, verbs, jobs, expected)
            run = Run.open(path)  # to whom all texts are new
    agree_all(run, verbs, jobs, expected)


def agree_all(run: Run, verbs: dict[str, Any], jobs: list[Job], expected: list[Any]) -> None:
    told = zip(jobs, answered(run, verbs, jobs), expected, strict=True)
    wrong = [job.verb for job, found, right in told if not found.agrees(right, TOLERANCE)]
    assert not wrong, f"{len(wrong)} of {len(jobs)} answers differ afterwards, of {sorted(set(wrong))}"


# -- imports

FIRST_IMPORT = """
import os, signal, sys, threading, time

signal.signal(signal.SIGINT, signal.default_int_handler)
import forebear

name, moment = sys.argv[1], int(sys.argv[2])

def interrupt():
    while sum(1 for one in list(sys.modules) if one.partition(".")[0] == name) < moment:
        time.sleep(1e-3)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    __import__(name)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", name in sys.modules)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
import numpy, torch
from forebear.kernels.jit import compile_kernel
product = torch.ones(3, 3) @ torch.ones(3, 3)
layer = torch.nn.functional.gelu(torch.nn.Linear(3, 3)(product)).sum().backward()
print(product.numpy().sum(), numpy.linalg.norm(numpy.ones(4)), torch.__spec__.name)
"""


def interrupted_import(name: str, moment: int) -> None:
    """Ctrl-C once so many of its modules are being imported: it is raised, and the library works."""
    command = [sys.executable, "-c", FIRST_IMPORT, name, str(moment)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["interrupted True", "27.0 2.0 torch"], done.stderr[-2000:]


@pytest.mark.parametrize("moment", [1, 300])
def test_interrupted_first_import_of_torch(moment: int):
    interrupted_import("torch", moment)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [5, 20, 60, 120, 200, 400, 500, 600])
def test_interrupted_first_import_of_torch_at_more_moments(moment: int):
    interrupted_import("torch", moment)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "moment"), [("numpy", 1), ("numpy", 30), ("numba", 1), ("numba", 100)])
def test_interrupted_first_import_of_others(name: str, moment: int):
    interrupted_import(name, moment)


def test_an_import_that_is_dropped_at_its_end_is_not_run_again():
    """Between the import and its end Python is interrupted: it drops the module, and the next import finds it whole."""
    program = """
import forebear, sys
from forebear.interrupts import _Loader

once = _Loader.exec_module
def interrupted(self, module):
    _Loader.exec_module = once
    raise KeyboardInterrupt

_Loader.exec_module = interrupted
try:
    import numpy
except KeyboardInterrupt:
    print("numpy" in sys.modules)
import numpy, numpy.linalg
print(numpy.linalg.norm(numpy.ones(4)), type(numpy.__spec__.loader).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["False", "2.0 SourceFileLoader"], done.stderr
