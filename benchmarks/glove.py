"""GloVe beside Stanford's program: the same text, the same words, the same settings; prints the ratios.

    ./dev bench glove                  counting and one iteration, one thread
    ./dev bench glove --threads 2      and again with two threads, by the clock
    ./dev bench glove --growth         how time grows with text, vocabulary and width
    ./dev bench glove --quality        word similarities and analogies after 25 iterations, three seeds each

Text is WikiText-2 of ../shared/data (or $FOREBEAR_DATA), else the demo's manual; words are what stands between spaces,
in small letters, and a line is a document. Ours begins with ids, and ends with a table on the disk or with vectors.
  program   Stanford's `cooccur` and `glove` (double precision, random order), where they are on PATH or in $GLOVE_BIN;
            its seconds are the processor's, of an iteration those of a third of three more
  plain     the published loops, compiled by numba as they are: double precision, random order; and counts by numpy
Sides alternate; figures are medians over the rounds, ratios the medians of rounds' ratios.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from glove_peers import Plain, Program, plainly_counted
from side_by_side import DATA, machine, natural_text

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.io.text_formats import TextFormat
from forebear.data.tokenizers.train import train_tokenizer
from forebear.models.glove import GloveSpec
from forebear.objectives.batch import BatchKey
from forebear.objectives.cooccurrence import CooccurrenceTable, count_cooccurrences

MILESTONE = GloveSpec(**GloveSpec.sizes["small"])
RECIPE = MILESTONE.default_recipe()


# --- the text ---


def prepared(folder: Path, size: int, min_count: int = MILESTONE.min_count) -> Corpus:
    """So many bytes of text as a corpus of words."""
    file = folder / f"{size}.txt"
    file.write_text(natural_text(size), encoding="utf-8")
    lines = file.read_text(encoding="utf-8").split("\n")
    tokenizer = train_tokenizer("words", lines, size=10**6, min_count=min_count, split="spaces", lower=True)
    reading = TextFormat(documents="lines")
    return prepare_corpus(
        [file], tokenizer, text_format=reading, sentences="lines", to=folder / f"corpus-{size}-{min_count}"
    )


def ours_counted(source: Subset) -> CooccurrenceTable:
    """Counted anew: what was kept is thrown away."""
    shutil.rmtree(Path(os.environ["FOREBEAR_CACHE"]) / "cooccurrences", ignore_errors=True)
    tokenizer = source.corpus.tokenizer
    return count_cooccurrences(
        source,
        vocab_size=tokenizer.vocab_size,
        window=MILESTONE.window,
        unit=MILESTONE.unit,
        ignored_ids=tokenizer.special_ids,
    )


# --- learning ---


class Ours:
    """Our model on its way."""

    def __init__(self, milestone: GloveSpec, source: Subset, seed: int = 0, threads: int = 1) -> None:
        tokenizer = source.corpus.tokenizer
        self.objective, self.network = milestone.objective(tokenizer), milestone.build(tokenizer)
        self.network.initialize(seed)
        self.source, self.seed, self.threads, self.step = source, seed, threads, 0

    def learn(self, epochs: int = 1) -> Ours:
        """So many iterations, batches and all."""
        for _ in range(epochs * self.objective.steps(self.source, RECIPE["batch"])):
            batch = self.objective.batch(self.source, RECIPE["batch"], BatchKey(self.seed, self.step))
            rng_key = self.seed, self.step
            self.network.train_batch(batch, rate=RECIPE["rate"], rng_key=rng_key, threads=self.threads)
            self.step += 1
        return self


# --- how good vectors are ---


def quality(matrix: np.ndarray, words: list[str]) -> list[float]:
    """Spearman's correlation with WordSim-353 and MTurk-771, and the share of analogies; pairs of known words only."""
    from scipy.stats import spearmanr

    rows = {word: row for row, word in enumerate(words)}
    unit = (matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)).astype(np.float32)
    told = []
    for name in ("EN-WS-353-ALL.txt", "EN-MTurk-771.txt"):
        lines = [line.lower().split() for line in (DATA / "words" / name).read_text().splitlines()]
        known = [line for line in lines if len(line) == 3 and line[0] in rows and line[1] in rows]
        ours = [float(unit[rows[one]] @ unit[rows[other]]) for one, other, _ in known]
        told.append(float(spearmanr(ours, [float(line[2]) for line in known])[0]))
    lines = [line.lower().split() for line in (DATA / "words" / "questions-words.txt").read_text().splitlines()]
    asked = np.array(
        [[rows[word] for word in line] for line in lines if line[0] != ":" and all(w in rows for w in line)]
    )
    right = 0
    for part in np.array_split(asked, -(-len(asked) // 1000)):
        scores = (unit[part[:, 1]] - unit[part[:, 0]] + unit[part[:, 2]]) @ unit.T
        scores[np.arange(len(part))[:, None], part[:, :3]] = -9
        right += int((scores.argmax(axis=1) == part[:, 3]).sum())
    return [*told, right / len(asked)]


def qualities(source: Subset, program: Program | None, epochs: int, seeds: int) -> None:
    tokenizer = source.corpus.tokenizer
    words, table = tokenizer.vocabulary(), ours_counted(source)

    def plainly(seed: int) -> np.ndarray:
        side = Plain(MILESTONE, table, len(words), seed)
        for _ in range(epochs):
            side.learn(side.drawn())
        return side.matrix

    sides: dict[str, Callable[[int], np.ndarray]] = {
        "ours": lambda seed: Ours(MILESTONE, source, seed).learn(epochs).network.matrix,
        "plain": plainly,
    }
    if program is not None:
        sides["program"] = lambda seed: (program.learn(epochs, seed + 1), program.matrix())[1]
    print(f"{epochs} iterations, {seeds} seeds: mean (standard deviation) of WordSim-353, MTurk-771, analogies")
    for name, learned in sides.items():
        told = np.array([quality(learned(seed), words) for seed in range(seeds)])
        cells = [f"{mean:.4f} ({spread:.4f})" for mean, spread in zip(told.mean(axis=0), told.std(axis=0), strict=True)]
        print(f"  {name:10}{'   '.join(cells)}", flush=True)


# --- how fast ---


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    began = clock()
    work()
    return clock() - began


def compare(label: str, sides: dict[str, Callable[[], float]], rounds: int, unit: float, name: str) -> None:
    """Seconds of each side in turn, after one round to warm up; ours against each other."""
    seen: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side, work in sides.items():
            seconds = work()
            if turn:
                seen[side].append(seconds)
    for side in list(sides)[1:]:
        ratio = statistics.median(other / own for own, other in zip(seen["ours"], seen[side], strict=True))
        mine, others = (statistics.median(seen[who]) / unit for who in ("ours", side))
        print(f"{label:24}{mine:9.3f} {name}   {side:8}{others:9.3f}   {side}/ours = {ratio:.2f}", flush=True)


def speeds(source: Subset, program: Program | None, rounds: int) -> None:
    table, words = ours_counted(source), source.corpus.tokenizer.vocab_size
    print(f"{source.num_tokens:,} tokens, {words:,} words, {len(table):,} entries")
    sides = {"ours": lambda: timed(lambda: ours_counted(source))}
    if program is not None:
        sides["program"] = program.count
    sides["plain"] = lambda: timed(lambda: plainly_counted(MILESTONE, source))
    compare("counting", sides, rounds, 1, "s ")
    if plainly_counted(MILESTONE, source) != len(table):
        raise SystemExit("both ways of counting should find the same entries")
    ours, plain, few = Ours(MILESTONE, source), Plain(MILESTONE, table, words), min(len(table), 1_000_000)
    entries = plain.drawn(few)  # of random order some are as good as all
    sides = {"ours": lambda: timed(ours.learn) / len(table)}
    if program is not None:
        if (program.folder / "table").stat().st_size != 16 * len(table):
            raise SystemExit("the program should find the same entries")
        program.shuffle()
        sides["program"] = lambda: (program.learn(4) - program.learn(1)) / 3 / len(table)
    sides["plain"] = lambda: timed(lambda: plain.learn(entries)) / few
    compare(f"one iteration, width {MILESTONE.width}", sides, rounds, 1e-9, "ns")


def threads(source: Subset, count: int, rounds: int) -> None:
    for number in (1, count):
        ours = Ours(MILESTONE, source, threads=number)
        seconds = [timed(ours.learn, time.perf_counter) for _ in range(rounds + 1)]
        print(f"{number} threads by the clock: {min(seconds):.2f} s an iteration", flush=True)


def growth(folder: Path, size: int) -> None:
    def told(label: str, source: Subset, milestone: GloveSpec) -> None:
        seconds, table = timed(lambda: ours_counted(source)), ours_counted(source)
        ours = Ours(milestone, source).learn()
        each = timed(ours.learn) / len(table)
        print(f"{label:24}{seconds:7.2f} s to count, {len(table):11,} entries, {1e9 * each:6.1f} ns each", flush=True)

    for part in (4, 2, 1):
        told(f"1/{part} of the text", prepared(folder, size // part).all_documents(), MILESTONE)
    for least in (20, 5, 1):
        corpus = prepared(folder, size, least)
        told(f"{corpus.tokenizer.vocab_size:,} words", corpus.all_documents(), MILESTONE)
    for width in (50, 100, 300):
        told(
            f"width {width}",
            prepared(folder, size).all_documents(),
            GloveSpec(**GloveSpec.sizes["small"] | {"width": width}),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=3)
    for name in ("growth", "quality", "quick"):
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    size = len(natural_text(200_000 if chosen.quick else 20_000_000).encode())
    print(machine(1))
    with tempfile.TemporaryDirectory(prefix="forebear-bench-") as folder:
        os.environ["FOREBEAR_CACHE"] = f"{folder}/cache"
        corpus = prepared(Path(folder), size)
        program = Program(MILESTONE, corpus, Path(folder)) if Program.found() else None
        if program is None:
            print("Stanford's program is not on PATH, and $GLOVE_BIN does not say where it is: plain loops alone")
        speeds(corpus.all_documents(), program, 1 if chosen.quick else chosen.rounds)
        if chosen.threads > 1:
            threads(corpus.all_documents(), chosen.threads, chosen.rounds)
        if chosen.growth:
            growth(Path(folder), size)
        if chosen.quality:
            qualities(corpus.all_documents(), program, chosen.epochs, chosen.seeds)


if __name__ == "__main__":
    main()
