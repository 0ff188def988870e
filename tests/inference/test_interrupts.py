"""Ctrl-C at any moment of a call leaves a run intact, and at any moment of an import a working process."""

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
from verb_calls import (
    BATCH,
    KINDS,
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
from forebear.inference.run import Run
from small_runs import sample_params, small_text

pytestmark = pytest.mark.usefixtures("one_thread")
TOLERANCE = 1e-5  # of numbers that networks make
MANY_INTERRUPTS = 500  # interrupts
SAMPLE = ("ngram", "ngram-classification", "crf-tagging")


class RandomInterrupts:
    """Raises KeyboardInterrupt like Ctrl-C during an action, after a random time."""

    def __init__(self, seed: int) -> None:
        self.chance, self._armed, self.count = random.Random(seed), False, 0

    def raise_it(self, *_: Any) -> None:
        if self._armed:  # not in the code of the test itself
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
def ctrl_c() -> Iterator[RandomInterrupts]:
    source = RandomInterrupts(seed=1)
    handlers = {signal.SIGALRM: signal.signal(signal.SIGALRM, source.raise_it)}
    handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # an exception in a callback of the collector is reported, not raised
    yield source
    gc.enable()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def seconds_of(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@pytest.mark.parametrize("count", [60, pytest.param(MANY_INTERRUPTS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["words", "wordpiece", "bytepair"])
def test_interrupted_encoding_leaves_the_tokenizer_intact(kind: str, count: int, ctrl_c: RandomInterrupts):
    options: dict[str, Any] = {"min_count": 1, "segmenter": None} if kind == "words" else {"size": 300}
    tokenizer = train_tokenizer(kind, small_text().split("\n"), **options)
    fresh = Tokenizer(tokenizer.spec)
    fresh.encode_many(new_texts(30, 0))
    seconds = seconds_of(lambda: fresh.encode_many(new_texts(30, 1)))
    seed = 1
    while ctrl_c.count < count:
        texts = new_texts(30, seed := seed + 1)
        assert seed < 20 * count
        ctrl_c.interrupts(lambda texts=texts: tokenizer.encode_many(texts), seconds)
        for actual, expected in zip(tokenizer.encode_many(texts), fresh.encode_many(texts), strict=True):
            assert actual.tolist() == expected.tolist(), f"after {ctrl_c.count} interrupts"


def test_interrupted_numbering_of_oov_words_leaves_ids_intact(ctrl_c: RandomInterrupts):
    spelling, seed = CharIds(["cat", "dog"], 12, {}), 0
    while ctrl_c.count < 60:
        words = [f"word{number}" for number in range(200 * seed, 200 * seed + 200)]
        seed += 1
        assert seed < 1000
        ctrl_c.interrupts(lambda words=words: [spelling.oov_id(word) for word in words], 5e-4)
        numbers = [spelling.oov_id(word) for word in words]
        assert spelling.char_rows(np.array(numbers)).tolist() == [spelling.encode_word(word).tolist() for word in words]
        assert [spelling.id_to_word(number) for number in numbers] == words


@pytest.mark.parametrize("kind", sample_params(KINDS, SAMPLE))
def test_interrupted_verbs_leave_the_run_intact(kind: str, tmp_path: Path, ctrl_c: RandomInterrupts):
    try_interrupts(kind, train_run(kind, folder_with_text(tmp_path / "run")), 60, ctrl_c)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_verbs_interrupted_five_hundred_times_leave_the_run_intact(kind: str, tmp_path: Path, ctrl_c: RandomInterrupts):
    try_interrupts(kind, train_run(kind, folder_with_text(tmp_path / "run")), MANY_INTERRUPTS, ctrl_c)


def try_interrupts(kind: str, path: Path, count: int, ctrl_c: RandomInterrupts) -> None:
    """Interrupts calls, the first of which load the run, and repeats each; at last repeats all of them.

    The expected answers come from another run that was not interrupted.
    """
    run = Run.open(path)
    verbs = verbs_of(kind, run)
    jobs = jobs_of(verbs, max(20, count * BATCH // (5 * len(verbs))), 1, expensive_divisor=4)
    expected = answer_jobs(run, verbs, jobs)
    seconds = seconds_of(lambda: answer_jobs(run, verbs, jobs)) / len(jobs)  # now that all is loaded
    run = Run.open(path)
    num_calls = 0
    while ctrl_c.count < count:
        job, expected_answer = jobs[num_calls % len(jobs)], expected[num_calls % len(jobs)]
        num_calls += 1
        assert num_calls < 50 * count
        ctrl_c.interrupts(lambda job=job, run=run: verbs[job.verb](run, job.texts), seconds)
        assert torch.is_grad_enabled(), f"{kind}: {job.verb} leaves this thread without gradients"
        assert not torch.is_inference_mode_enabled(), f"{kind}: {job.verb} leaves this thread in inference mode"
        answer = flatten(verbs[job.verb](run, job.texts))
        assert answer.agrees(expected_answer, TOLERANCE), f"{kind}: {job.verb} after {ctrl_c.count} interrupts"
        if num_calls % len(jobs) == 0:
            assert_all_agree(run, verbs, jobs, expected)
            run = Run.open(path)  # to which all texts are new
    assert_all_agree(run, verbs, jobs, expected)


def assert_all_agree(run: Run, verbs: dict[str, Any], jobs: list[Job], expected: list[Any]) -> None:
    answers = zip(jobs, answer_jobs(run, verbs, jobs), expected, strict=True)
    wrong = [job.verb for job, answer, expected_answer in answers if not answer.agrees(expected_answer, TOLERANCE)]
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


def check_interrupted_import(name: str, moment: int) -> None:
    """Asserts that Ctrl-C after so many imported modules is raised and leaves a working library."""
    command = [sys.executable, "-c", FIRST_IMPORT, name, str(moment)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout.splitlines() == ["interrupted True", "27.0 2.0 torch"], process.stderr[-2000:]


@pytest.mark.parametrize("moment", [1, 300])
def test_interrupted_first_import_of_torch_leaves_it_working(moment: int):
    check_interrupted_import("torch", moment)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [5, 20, 60, 120, 200, 400, 500, 600])
def test_interrupted_first_import_of_torch_at_more_moments_leaves_it_working(moment: int):
    check_interrupted_import("torch", moment)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "moment"), [("numpy", 1), ("numpy", 30), ("numba", 1), ("numba", 100)])
def test_interrupted_first_import_of_numpy_and_numba_leaves_them_working(name: str, moment: int):
    check_interrupted_import(name, moment)


def test_module_dropped_at_the_end_of_its_import_is_not_executed_again():
    """Interrupted at the end of an import, Python drops the module, and the next import finds it complete."""
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
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert process.stdout.splitlines() == ["False", "2.0 SourceFileLoader"], process.stderr
