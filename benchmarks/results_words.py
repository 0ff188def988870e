"""Word vectors as the first layer of a small network: frozen, fine-tuned or from nothing, by three readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from real_runs import Bench, Row, blind, row
from side_by_side import DATA

READERS = ("mean", "convolution", "recurrent")
TASKS, TEXTS = DATA / "tasks", DATA / "corpora"
FEW = 200  # pairs
Found = tuple[str, list[str], list[Row]]


def _ladder(
    bench: Bench, name: str, begin: Path, train: Path, linear: Row, readers: tuple[str, ...], **how: Any
) -> list[Row]:
    """From nothing but the commonest label to vectors that learn with the task; one seed each, defaults throughout."""
    own: dict[str, Any] = {"threads": 1, **how}
    told = [blind(linear), row("n-grams and a linear model", linear)]
    bare = bench.adapt(f"{name}-features", begin, train, how="features", **own)
    told.append(row("the mean of the vectors as they are, one layer above it", bare))
    for reader in readers:
        frozen = bench.adapt(f"{name}-{reader}-frozen", begin, train, reader=reader, how="freeze", **own)
        tuned = bench.adapt(f"{name}-{reader}-tuned", begin, train, reader=reader, **own)
        fresh = bench.adapt(f"{name}-{reader}-fresh", "word2vec", train, reader=reader, **own)
        told += [row(f"{reader}, vectors frozen", frozen), row(f"{reader}, vectors fine-tuned", tuned)]
        told.append(row(f"{reader}, vectors from nothing", fresh))
    return told


def sst2(bench: Bench) -> Found:
    begin = bench.words("words-wikitext", TEXTS / "wikitext2" / "train.txt", threads=1)
    files = {side: TASKS / "sst2" / f"{side}.tsv" for side in ("train", "dev", "test")}
    how: dict[str, Any] = {"task": "classification", "dev": files["dev"], "test": files["test"]}
    linear = bench.adapt("sst2-linear", "ngram", files["train"], **how)
    title = "SST-2 by word vectors of WikiText-2 (word2vec, width 100, 5 epochs): accuracy"
    return title, ["accuracy"], _ladder(bench, "words-sst2", begin, files["train"], linear, READERS, **how)


def chnsenticorp(bench: Bench) -> Found:
    begin = bench.words("words-zhwiki", TEXTS / "zhwiki.txt", threads=1)
    files = {side: TASKS / "chnsenticorp" / f"{side}.tsv" for side in ("train", "dev", "test")}
    how: dict[str, Any] = {"task": "classification", "dev": files["dev"], "test": files["test"]}
    linear = bench.adapt("reviews-linear", "ngram", files["train"], **how)
    title = "ChnSentiCorp by word vectors of zhwiki (word2vec, width 100, 5 epochs): accuracy"
    return title, ["accuracy"], _ladder(bench, "words-reviews", begin, files["train"], linear, READERS[:2], **how)


def afqmc(bench: Bench) -> Found:
    begin = bench.words("characters-zhwiki", TEXTS / "zhwiki.txt", tokenizer="characters", epochs=3, threads=1)
    train, dev = (TASKS / "afqmc" / f"{side}.txt" for side in ("train", "dev"))
    how: dict[str, Any] = {"task": "pairs", "test": dev, "on_bad_rows": "skip"}
    linear = bench.adapt("afqmc-linear", "ngram", train, **how)
    title = "AFQMC by vectors of the characters of zhwiki (word2vec, width 100, 3 epochs), measured on its dev file"
    rows = _ladder(bench, "words-afqmc", begin, train, linear, READERS[:1], **how)
    tuned = bench.adapt("words-afqmc-convolution-tuned", begin, train, reader="convolution", threads=1, **how)
    rows.append(row("convolution, vectors fine-tuned", tuned))
    return title, ["accuracy", "macro_f1", "mcc"], rows


def matching(bench: Bench) -> Found:
    text, tasks = bench.world()
    begin = bench.words("words-world", text, threads=1)
    train, test = tasks["matching"]
    how: dict[str, Any] = {"task": "pairs", "test": test}
    linear = bench.adapt("matching-linear", "ngram", train, **how)
    rows = _ladder(bench, "words-matching", begin, train, linear, READERS, **how)
    title = "Does a sentence answer a question? 2,000 pairs of the demo's world, 300 in the test, by its own vectors"
    return title, ["accuracy", "macro_f1"], rows


def few(bench: Bench) -> Found:
    """The first of the same pairs alone: what vectors knew before counts for more."""
    text, tasks = bench.world()
    begin = bench.words("words-world", text, threads=1)
    train, test = bench.folder / "few-pairs.tsv", tasks["matching"][1]
    lines = tasks["matching"][0].read_text(encoding="utf-8").splitlines(keepends=True)
    train.write_text("".join(lines[: FEW + 1]), encoding="utf-8")
    how: dict[str, Any] = {"task": "pairs", "test": test}
    linear = bench.adapt("few-pairs-linear", "ngram", train, **how)
    rows = _ladder(bench, "words-few-pairs", begin, train, linear, READERS, **how)
    return f"The same with {FEW} pairs to learn from", ["accuracy", "macro_f1"], rows


EXPERIMENTS = {
    "words-matching": matching,
    "words-few": few,
    "words-sst2": sst2,
    "words-chnsenticorp": chnsenticorp,
    "words-afqmc": afqmc,
}
