"""word2vec beside gensim, and beside the C program where there is one: the same words and settings; prints ratios.

    ./dev bench word2vec                 words a second, skip-gram and CBOW, one thread and two, freely and in step
    ./dev bench word2vec --whole         the whole command from raw text, two epochs, each in a process of its own
    ./dev bench word2vec --quality       WordSim-353, MTurk-771 and Google's analogies after five epochs, three seeds
    ./dev bench word2vec --growth        words a second by vocabulary, width and length of the text, both sides
    ./dev bench word2vec --kinds         hierarchical softmax, and subwords beside gensim's FastText
    ./dev bench word2vec --chinese …     any of these on Chinese text: wordsim-240, wordsim-297 and CA8

Text is WikiText-2 or zhwiki of ../shared/data (or $FOREBEAR_DATA), else the demo's manual, cut into words once; both
sides begin with these words. gensim reads a file of them (corpus_file), or lines from Python (an iterator). The C
program is run where `word2vec` is on PATH or $WORD2VEC_BIN names it. Sides alternate; figures are medians over the
rounds. Time is the processor's with one thread, so that others who use the machine disturb less, else the clock's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judged_words import CHINESE_FILES, FILES, judged
from side_by_side import DATA, machine, natural_text, sgemm, write_figures

from forebear.data.corpus.corpus import Corpus
from forebear.data.corpus.prepare import prepare_corpus
from forebear.data.corpus.subset import Subset
from forebear.data.tokenizers.train import train_tokenizer
from forebear.embeddings.word2vec import Subwords
from forebear.kernels.word2vec_sampling import KEEP_SCALE
from forebear.models.word2vec import Word2VecSpec
from forebear.objectives.batch import BatchKey
from forebear.objectives.word2vec_token_blocks import TokenBlocks

BATCH = Word2VecSpec().default_recipe()["batch"]
MORE = 5  # times the text, for one that is larger
CHINESE = {"one thread": "单线程", "two threads": "两个线程", "in step": "确定性", "the whole command": "整条命令",
           "two epochs": "两遍", "beside its iterator": "对其迭代器", ", ": "，"}  # fmt: skip


def text_of(size: int, chinese: bool) -> str:
    """So many bytes."""
    file = DATA / "corpora" / "zhwiki.txt"
    return file.read_bytes()[:size].decode("utf-8", "ignore") if chinese and file.exists() else natural_text(size)


def prepared(folder: Path, size: int, min_count: int = 5, chinese: bool = False) -> Corpus:
    """So many bytes of text, cut into words."""
    file = folder / f"{size}.txt"
    file.write_text(text_of(size, chinese), encoding="utf-8")
    tokenizer = train_tokenizer("words", file.read_text(encoding="utf-8").split("\n"), size=10**7, min_count=min_count)
    return prepare_corpus([file], tokenizer, to=folder / f"corpus-{size}-{min_count}")


def written(corpus: Corpus, file: Path) -> Path:
    """The same words, a document a line."""
    tokens, never = corpus.tokenizer.vocabulary(), corpus.tokenizer.special_ids
    with open(file, "w", encoding="utf-8") as out:
        for first, last in corpus.all_documents().spans.tolist():
            out.write(" ".join(tokens[i] for i in corpus.ids[first:last].tolist() if i not in never) + "\n")
    return file


class Ours:
    """A run of `sweep` over the whole text, as training makes it, without the folder around it."""

    def __init__(self, corpus: Corpus, milestone: Word2VecSpec, seed: int = 0) -> None:
        self.source: Subset = corpus.all_documents()
        self.network = milestone.build(corpus.tokenizer)
        self.network.run_first_pass(self.source)
        self.network.initialize(seed)
        self.seed, self.rate, self.objective = seed, milestone.default_recipe()["rate"], TokenBlocks(milestone.unit)

    def learn(self, epochs: int = 1, threads: int = 1, in_step: bool = False, steps: int | None = None) -> None:
        total = steps or epochs * self.objective.steps(self.source, BATCH)
        for step in range(total):
            batch = self.objective.batch(self.source, BATCH, BatchKey(self.seed, step))
            rate = self.rate * (total - step) / total
            rng_key = (self.seed, step)
            self.network.train_batch(batch, rate=rate, rng_key=rng_key, threads=threads, deterministic=in_step)


def gensim(file: Path, milestone: Word2VecSpec, *, epochs: int, threads: int = 1, seed: int = 1, lines: bool = False):
    """gensim's model, its vocabulary built, and a call that trains it."""
    from gensim.models import FastText, Word2Vec
    from gensim.models.word2vec import LineSentence

    tree = milestone.output == "tree"
    how = {"bucket": Subwords().buckets} if milestone.subwords else {}
    model = (FastText if milestone.subwords else Word2Vec)(
        vector_size=milestone.width, window=milestone.window, min_count=1, sg=int(milestone.architecture == "skipgram"),
        negative=0 if tree else milestone.negatives, hs=int(tree), sample=milestone.sample, workers=threads,
        epochs=epochs, seed=seed, alpha=milestone.default_recipe()["rate"], **how,
    )  # fmt: skip
    text = {"corpus_iterable": LineSentence(str(file))} if lines else {"corpus_file": str(file)}
    model.build_vocab(**text)
    given = {"total_words": model.corpus_total_words, "total_examples": model.corpus_count, "epochs": epochs}
    return model, lambda: model.train(**text, **given)


def timed(work: Callable[[], object], threads: int | None = None) -> float:
    """Seconds; the processor's where all is done by one thread of this process."""
    clock = time.process_time if threads == 1 else time.perf_counter
    began = clock()
    work()
    return clock() - began


def told(label: str, words: int, mine: list[float], others: list[float], operations: float = 0.0) -> list[str]:
    ratio = statistics.median(other / own for own, other in zip(mine, others, strict=True))
    rates = [words / statistics.median(seconds) for seconds in (mine, others)]
    share = f"{operations / statistics.median(mine) / sgemm():.2f}" if operations else ""
    limit = f"   {share} of sgemm" if share else ""
    figures = f"{rates[0]:10,.0f} words/s   theirs {rates[1]:9,.0f}   ours/theirs = {ratio:.2f}{limit}"
    print(f"{label:58}{figures}", flush=True)
    return [label, f"{rates[0]:,.0f}", f"{ratio:.2f}", share or "–"]


def operations(ours: Ours, milestone: Word2VecSpec) -> float:
    """Floating-point operations of skip-gram in an epoch: for each pair and each target a product and two changes."""
    model, lengths = ours.network.model, np.diff(ours.source.spans).ravel()
    looked_at = model.counts @ (model._keep_probs / KEEP_SCALE) / lengths.sum()
    reach = np.arange(1, milestone.window + 1)
    rows = lengths[:, None] * looked_at  # words of a document that are looked at, about
    pairs = np.maximum(2 * reach * rows - reach * (reach + 1), 0).mean(1).sum()
    return float(6 * pairs * (milestone.negatives + 1) * milestone.width)


def compared(ours: Ours, file: Path, milestone: Word2VecSpec, label: str, rounds: int, **how: Any) -> list[str]:
    """An epoch each, again and again."""
    threads, in_step, lines = (how.get(name, usual) for name, usual in (("threads", 1), ("in_step", 0), ("lines", 0)))
    ours.learn(threads=threads, in_step=bool(in_step), steps=2)  # compiled now, if it was not
    mine, others, words = [], [], len(file.read_text(encoding="utf-8").split())
    for _ in range(rounds):
        _, theirs = gensim(file, milestone, epochs=1, threads=threads, lines=bool(lines))
        others.append(timed(theirs, threads))
        mine.append(timed(lambda: ours.learn(threads=threads, in_step=bool(in_step)), threads))
    plain = milestone.architecture == "skipgram" and milestone.output == "negatives" and threads == 1
    work = operations(ours, milestone) if plain and not milestone.subwords else 0.0
    return told(label, words, mine, others, work)


def speeds(corpus: Corpus, file: Path, widths: list[int], rounds: int) -> list[list[str]]:
    rows = []
    for architecture, name in (("skipgram", "skip-gram"), ("cbow", "CBOW")):
        for width in widths:
            milestone = Word2VecSpec(width=width, architecture=architecture)
            ours = Ours(corpus, milestone)
            for threads, in_step, lines in ((1, False, False), (1, False, True), (2, False, False), (2, True, False)):
                how = f"{'one thread' if threads == 1 else 'two threads'}{', in step' * in_step}"
                label = f"{name} {width}, {how}{', beside its iterator' * lines}"
                given = {"threads": threads, "in_step": in_step, "lines": lines}
                rows.append(compared(ours, file, milestone, label, rounds, **given))
            if program := os.environ.get("WORD2VEC_BIN") or shutil.which("word2vec"):
                rows.append(beside_c(program, ours, file, milestone, name, rounds))
    print(f"two threads of this machine multiply matrices {doubled():.2f} times as fast as one")
    if not (os.environ.get("WORD2VEC_BIN") or shutil.which("word2vec")):
        print("the C program is neither on PATH nor named by $WORD2VEC_BIN: not compared")
    return rows


def doubled() -> float:
    """How much more of this machine two threads are: cores may share what they multiply with."""
    matrix, before = torch.ones(512, 512), torch.get_num_threads()

    def multiply() -> None:
        for _ in range(200):
            torch.mm(matrix, matrix)

    def both() -> None:
        with ThreadPoolExecutor(2) as pool:
            for one in [pool.submit(multiply) for _ in range(2)]:
                one.result()

    torch.set_num_threads(1)
    ratio = statistics.median(2 * timed(multiply) / timed(both) for _ in range(3))
    torch.set_num_threads(before)
    return ratio


def beside_c(program: str, ours: Ours, file: Path, milestone: Word2VecSpec, name: str, rounds: int) -> list[str]:
    command = [program, "-train", str(file), "-output", os.devnull, "-size", str(milestone.width), "-window", "5"]
    command += ["-sample", "1e-3", "-negative", "5", "-hs", "0", "-binary", "1", "-threads", "1", "-iter", "1"]
    command += ["-min-count", "1", "-cbow", str(int(milestone.architecture == "cbow"))]
    mine, others = [], []
    for _ in range(rounds):
        others.append(timed(lambda: subprocess.run(command, check=True, capture_output=True)))
        mine.append(timed(ours.learn))
    words = len(file.read_text(encoding="utf-8").split())
    return told(f"{name} {milestone.width}, one thread, beside word2vec.c", words, mine, others)


def kinds(corpus: Corpus, file: Path, width: int, rounds: int) -> None:
    """What is learned less often."""
    for label, fields in (("a tree", {"output": "tree"}), ("subwords", {"subwords": True})):
        for architecture, name in (("skipgram", "skip-gram"), ("cbow", "CBOW")):
            milestone = Word2VecSpec(width=width, architecture=architecture, **fields)
            for in_step in (False, True):
                how = f"{name} {width}, {label}{', in step' * in_step}, beside gensim"
                compared(Ours(corpus, milestone), file, milestone, how, rounds, in_step=in_step)


PEER = """
import sys
from gensim.models import Word2Vec
model = Word2Vec(corpus_file=sys.argv[1], vector_size=100, sg=1, workers=int(sys.argv[3]), epochs=2)
model.wv.save_word2vec_format(sys.argv[2], binary=True)
"""


def whole(size: int, rounds: int, folder: Path) -> list[list[str]]:
    """From raw text to vectors on the disk, in processes of their own that have so many cores.

    Ours was compiled before, as on a second day. The same text five times over, as one, is what there is for a larger
    one: a vocabulary grows no more, all else does.
    """
    once, rows = natural_text(size), []
    for times in (1, MORE):
        text = folder / f"raw-{times}.txt"
        text.write_text("\n\n".join([once] * times), encoding="utf-8")
        for cores, name in ((1, "one thread"), (2, "two threads")):
            often = f"{text.stat().st_size / 1e6:.0f} MB, " if times > 1 else ""
            label = f"skip-gram 100, the whole command, two epochs, {often}{name}"
            mine, others = wholly(text, cores, rounds, folder)
            rows.append(told(label, 2 * times * len(once.split()), mine, others))
    return rows


def wholly(text: Path, cores: int, rounds: int, folder: Path) -> tuple[list[float], list[float]]:
    """Seconds of both sides, by turns."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    theirs = [sys.executable, "-c", PEER, str(text), str(folder / "vectors.bin"), str(cores)]
    mine, others = [], []

    def seconds(command: list[str], **more: str) -> float:
        given = {"check": True, "env": environment | more, "capture_output": True}
        few = sorted(os.sched_getaffinity(0))[:cores]
        return timed(lambda: subprocess.run(command, preexec_fn=lambda: os.sched_setaffinity(0, few), **given))

    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            ours = [sys.executable, "-m", "forebear", "pretrain", "word2vec", str(text), "--epochs", "2", "--quiet"]
            ours += ["--threads", str(cores), "--to", f"{place}/run"]
            took = seconds(ours, FOREBEAR_CACHE=f"{place}/cache")
        if number:  # the first compiles
            mine.append(took)
            others.append(seconds(theirs))
    return mine, others


def quality(corpus: Corpus, file: Path, seeds: int, epochs: int, chinese: bool) -> None:
    """Both sides from the same words, with the same settings."""
    counts, files = np.bincount(corpus.ids, minlength=corpus.tokenizer.vocab_size), CHINESE_FILES if chinese else FILES
    print(f"after {epochs} epochs: {', '.join(files)}; the mean over {seeds} seeds, ± the standard deviation")
    for architecture in ("skipgram", "cbow"):
        milestone = Word2VecSpec(architecture=architecture)
        found: dict[str, list[list[float]]] = {"ours": [], "ours, in step": [], "gensim": []}
        for seed in range(seeds):
            for name in ("ours", "ours, in step"):
                ours = Ours(corpus, milestone, seed)
                ours.learn(epochs, in_step=name != "ours")
                table = ours.network.word_table(corpus.tokenizer.vocabulary())
                found[name].append(judged(table.words, table.matrix, files))
            model, train_it = gensim(file, milestone, epochs=epochs, seed=seed + 1)
            train_it()
            found["gensim"].append(judged(model.wv.index_to_key, model.wv.vectors, files))
        for name, figures in found.items():
            columns = list(zip(*figures, strict=True))
            shown = "   ".join(f"{np.mean(one):.4f} ± {np.std(one, ddof=1) if seeds > 1 else 0:.4f}" for one in columns)
            print(f"{architecture:10}{name:16}{shown}", flush=True)
    print(f"{int((counts > 0).sum()):,} words, {len(corpus):,} tokens")


def growth(folder: Path, size: int, chinese: bool) -> None:
    """Words a second, one thread, by what may be large."""

    def part(bytes_of_it: int, min_count: int = 5) -> Corpus:
        return prepared(folder, bytes_of_it, min_count, chinese)

    for label, corpus, milestone in (
        *((f"min_count {least}", part(size, least), Word2VecSpec()) for least in (50, 5, 1)),
        *((f"width {width}", part(size), Word2VecSpec(width=width)) for width in (50, 100, 300, 600)),
        *((f"{size // share:,} bytes", part(size // share), Word2VecSpec()) for share in (16, 4, 1)),
    ):
        file = written(corpus, folder / "words.txt")
        compared(Ours(corpus, milestone), file, milestone, f"{label}, {corpus.tokenizer.vocab_size:,} words known", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=20_000_000, help="bytes of text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--widths", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--epochs", type=int, default=5, help="of --quality")
    parser.add_argument("--seeds", type=int, default=3, help="of --quality")
    for flag in ("whole", "quality", "growth", "kinds", "chinese", "write", "quick"):
        parser.add_argument(f"--{flag}", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.size, given.rounds, given.widths = 200_000, 1, [16]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.growth:
            growth(folder, given.size, given.chinese)
            return
        if given.whole:
            whole(given.size, given.rounds, folder)
            return
        corpus = prepared(folder, given.size, chinese=given.chinese)
        file = written(corpus, folder / "words.txt")
        if given.quality:
            quality(corpus, file, given.seeds, given.epochs, given.chinese)
            return
        if given.kinds:
            kinds(corpus, file, given.widths[0], given.rounds)
            return
        rows = speeds(corpus, file, given.widths, given.rounds)
        if given.write:
            rows += whole(given.size, given.rounds, folder)
            where = machine(2, ("numba", "gensim"))
            write_figures("word2vec", rows, where, given.rounds, CHINESE, units=("words/s", "词/秒"), peer="gensim")


if __name__ == "__main__":
    main()
