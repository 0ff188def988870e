"""Training with two processes beside one: the same text, batches and weights, equal losses; prints the ratios.

    ./dev bench parallel               a small gpt2 and a small bert
    ./dev bench parallel --rounds 5    fewer rounds
    ./dev bench parallel --tiny        a moment, to see that it runs

Four take turns in every round, each with the same few steps: one process with one thread (all ratios are to it), one
with two threads, two processes that share memory (what --processes does on a processor), and two that torch connects
over gloo (what it does between machines). Time is the clock's: run it where nothing else runs. Where others disturb,
the last figure tells more: the processor's time that one process takes, by that of the busier of two; waiting is no
part of it. Batches are drawn by the objectives, and drawing them counts. Losses must agree.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from side_by_side import machine, natural_text, sgemm

from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.models.bert import BertSpec
from forebear.models.gpt2 import GPT2Spec
from forebear.models.spec import ModelSpec
from forebear.objectives.batch import BatchKey
from forebear.training.distributed import AllReduceSync, MultiProcessLearner
from forebear.training.gradient_learner import DeviceConfig, GradientLearner
from forebear.training.settings import Recipe
from forebear.training.shared_memory import SharedMemorySync
from forebear.training.worker_processes import WorkerPool

ALONE, THREADS, MEMORY, GLOO = "one process", "one process, two threads", "two processes", "two processes over gloo"


@dataclass(frozen=True)
class Case:
    label: str
    milestone: ModelSpec
    vocabulary: int
    batch: int = 4096  # tokens in a step
    text: int = 2_000_000  # bytes
    steps: int = 2  # in a turn


SMALL = {"width": 256, "depth": 4, "heads": 4, "context": 128}
CASES = [
    Case("gpt2, 4 blocks of 256, 8,000 entries", GPT2Spec(**SMALL), 8000),
    Case("bert, 4 blocks of 256, 8,000 entries", BertSpec(**SMALL), 8000),
]
LEAST = {"width": 32, "depth": 1, "heads": 2, "context": 64}
TINY = [Case("gpt2, 1 block of 32", GPT2Spec(**LEAST), 600, 512, 200_000, 1)]


@cache
def prepared(kind: str, vocabulary: int, size: int):
    """A corpus of natural text, a line a document."""
    text = natural_text(size)
    folder = Path(tempfile.mkdtemp(prefix="forebear-bench-"))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    tokenizer = train_tokenizer(kind, text.split("\n"), size=vocabulary)  # pyright: ignore[reportArgumentType]
    return prepare_corpus(
        [folder / "text.txt"], tokenizer, text_format=TextFormat("lines"), to=folder / "corpus", workers=1
    )


@contextmanager
def contestants(case: Case, tokenizer: Any) -> Iterator[dict[str, tuple[Any, int]]]:
    """The learners by name, all of the same weights, with the number of threads that each has."""
    lines = [WorkerPool(2), WorkerPool(2)]

    def learner(threads: int) -> GradientLearner:
        network = case.milestone.build(tokenizer)
        return GradientLearner(network, Recipe(steps=100, threads=threads), DeviceConfig("cpu", threads, "float32"))

    try:
        made: dict[str, tuple[Any, int]] = {
            ALONE: (learner(1), 1),
            THREADS: (learner(2), 2),
            MEMORY: (MultiProcessLearner(learner(1), lines[0], SharedMemorySync), 1),
            GLOO: (MultiProcessLearner(learner(1), lines[1], AllReduceSync), 1),
        }
        for one, _ in made.values():
            one.initialize()
        yield made
    finally:
        for line in lines:
            line.close(timeout=0)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def busy(learner: Any) -> list[float]:
    """Seconds of the processor that each process has taken so far."""
    others = learner.connection.processes if isinstance(learner, MultiProcessLearner) else []
    stats = [Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split() for one in others]
    tick = os.sysconf("SC_CLK_TCK")
    return [time.process_time(), *((int(stat[11]) + int(stat[12])) / tick for stat in stats)]


def compare(case: Case, rounds: int) -> None:
    corpus = prepared(case.milestone.tokenizer, case.vocabulary, case.text)
    objective, source = case.milestone.objective(corpus.tokenizer), corpus.all_documents()
    seconds: dict[str, list[float]] = {}
    worked: dict[str, list[list[float]]] = {}
    print(case.label, flush=True)
    with contestants(case, corpus.tokenizer) as made:
        tokens = 0
        for turn in range(rounds + 1):
            losses: dict[str, float] = {}
            tokens = 0
            for name, (learner, threads) in made.items():
                torch.set_num_threads(threads)
                before, began, drawn = busy(learner), time.perf_counter(), 0
                for step in range(turn * case.steps, (turn + 1) * case.steps):
                    batch = objective.batch(source, case.batch, BatchKey(0, step))
                    losses[name] = sum(learner.step(batch, step, 0.1).values())
                    drawn += batch.num_target_tokens
                tokens = drawn
                if turn:
                    seconds.setdefault(name, []).append(time.perf_counter() - began)
                    took = [now - then for now, then in zip(busy(learner), before, strict=True)]
                    worked.setdefault(name, []).append(took)
            spread = max(losses.values()) - min(losses.values())
            assert spread < 1e-3, f"{case.label}: losses differ: {losses}"
    for name, times in seconds.items():
        ratio = statistics.median(one / own for own, one in zip(times, seconds[ALONE], strict=True))
        best = min(seconds[ALONE]) / min(times)
        rate = tokens / statistics.median(times)
        work = [max(map(sum, zip(*worked[one], strict=True))) for one in (ALONE, name)]
        print(
            f"  {name:28}{rate:10,.0f} tokens/s   {ratio:.2f} median, {best:.2f} best; "
            f"by the processor's time {work[0] / work[1]:.2f}",
            flush=True,
        )


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rounds", type=int, default=15)
    given.add_argument("--tiny", action="store_true")
    asked = given.parse_args()
    torch.set_num_threads(1)
    print(f"{machine(1)}; a thread's sgemm {sgemm() / 1e9:.0f} GFLOP/s", flush=True)
    for case in TINY if asked.tiny else CASES:
        compare(case, asked.rounds)


if __name__ == "__main__":
    main()
