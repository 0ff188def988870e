"""Recurrent networks on real data: predicting WikiText-2, translating, names of MSRA, words in two sentences (WiC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from real_runs import Bench, Row, Telling, row
from results_translation import Pairs, parts_of_tatoeba, read
from side_by_side import DATA

import forebear as fb
from forebear.data.tokenizers.train import train_tokenizer as learned
from forebear.inference.run import Run
from forebear.inference.translate import evaluate_translations

TASKS, TEXTS = DATA / "tasks", DATA / "corpora"
Found = tuple[str, list[str], list[Row]]
OF_THIRDS = "BLEU of the test, and of its shortest, middle and longest third"
SHORT, LONG, LONGER = "5m", "15m", "20m"


# -- predicting text


def wikitext(bench: Bench) -> Found:
    """The same words for all: what stands between spaces in WikiText-2's training file."""
    train, valid, test = (TEXTS / "wikitext2" / f"{side}.txt" for side in ("train", "valid", "test"))
    words = bench.folder / "wikitext-words.json"
    if not words.exists():
        learned("words", train.read_text(encoding="utf-8").splitlines(), split="spaces").save(words)

    def made(name: str, milestone: str, **how: Any) -> tuple[Run, Row]:
        print(f"  {name}", flush=True)
        run = fb.pretrain(
            milestone, train, tokenizer=words, held_out=0.02, to=bench.folder / name, callback=Telling(), **how
        )
        measured: Any = run.measure(test)
        figures = {"perplexity": measured.perplexity, "bits_per_byte": measured.bits_per_byte}
        return run, {"figures": figures, "seconds": run.metadata["seconds"], "parameters": run.num_parameters}

    counted, of_counts = made("wikitext-kn5", "ngram", order=5)
    rows = [row("5-gram, modified Kneser-Ney", of_counts)]
    for milestone, what in (("rnn", "RNN, 256 units"), ("cnn_rnn", "CNN-RNN, 256 units"), ("lstm", "LSTM, 256 units")):
        _, found = made(f"wikitext-{milestone}", milestone, time=SHORT, threads=1)
        rows.append(row(f"{what}, adaptive softmax", found, f"{SHORT} of one thread"))
    longer, found = made("wikitext-lstm-longer", "lstm", dropout=0.2, time=LONGER, threads=1)
    rows.append(row("LSTM, 256 units, adaptive softmax, dropout 0.2", found, f"{LONGER} of one thread"))
    _, found = made("wikitext-lstm-650", "lstm", size="650", softmax="sampled", dropout=0.2, time=LONG, threads=1)
    rows.append(row("LSTM, 2 layers of 650, tied, sampled softmax, dropout 0.2", found, f"{LONG} of one thread"))
    both = fb.evaluate_interpolation([longer, counted], test, tune=valid)
    figures = {"perplexity": both.mixture.perplexity, "bits_per_byte": both.mixture.bits_per_byte}
    weights = ", ".join(f"{one:.2f}" for one in both.weights)
    rows.append(row(f"the LSTM of {LONGER} and the 5-gram together", None, f"weights {weights}", **figures))
    rows.append(row("LSTM, 2 layers of 650, tied, published", None, "torch's example, 40 epochs", perplexity=86.5))
    title = "WikiText-2, 2.1 million words to learn from: perplexity of the test's words, each paragraph by itself"
    return title, ["perplexity", "bits_per_byte"], rows


# -- translating


def multi30k(bench: Bench) -> Found:
    folder = TASKS / "multi30k"
    train, test = ([folder / f"{part}.{side}" for side in ("de", "en")] for part in ("train", "test_2016_flickr"))
    shown, rows = _ladder(bench, "multi30k", train, read(*test), "8m")
    tutorial = "Trevett, pytorch-seq2seq; in lower case and by its own tokens, so not the same BLEU"
    rows.append(row("a tutorial's LSTMs, one vector, published", None, tutorial, bleu=13.8))
    rows.append(row("a tutorial's GRUs with attention, published", None, tutorial, bleu=28.0))
    return f"Multi30k, German to English: {OF_THIRDS}", shown, rows


def tatoeba(bench: Bench) -> Found:
    train, _, test = parts_of_tatoeba(bench.folder)
    shown, rows = _ladder(bench, "tatoeba", train, read(test), "6m")
    return f"Tatoeba, English to Chinese: {OF_THIRDS}", shown, rows


def _ladder(bench: Bench, name: str, train: Any, test: Pairs, time: str) -> tuple[list[str], list[Row]]:
    """Through one vector, and looking back: in all, and by how long the source is, in three groups of equal size."""
    sources, references = test
    order = np.argsort([len(one.split()) for one in sources], kind="stable")
    groups = dict(zip(("bleu_short", "bleu_middle", "bleu_long"), np.array_split(order, 3), strict=True))
    rows = []
    for milestone, what in (("seq2seq", "LSTMs, one vector"), ("seq2seq_attention", "LSTMs with attention")):
        print(f"  {name}, {milestone}", flush=True)
        shape = {"size": "small", "inner": 256, "depth": 1, "smoothing": 0.1, "dropout": 0.1, "rate": 4e-3}
        to = bench.folder / f"{name}-{milestone}"
        run = fb.pretrain(milestone, pairs=train, to=to, time=time, threads=1, callback=Telling(), **shape)
        figures = {"bleu": evaluate_translations(run, sources, references, beams=4).bleu}
        for group, mine in groups.items():
            chosen = [[texts[one] for one in mine.tolist()] for texts in (sources, references)]
            figures[group] = evaluate_translations(run, *chosen, beams=4).bleu
        found = {"figures": figures, "seconds": run.metadata["seconds"], "parameters": run.num_parameters}
        rows.append(row(what, found, f"{time} of one thread, 4 beams"))
    return ["bleu", *groups], rows


# -- names


def msra(bench: Bench) -> Found:
    """Characters are brought to one form (nfkc): the test writes its digits wide, and the training file does not."""
    train, few, dev = _stretches(TASKS / "msra_ner" / "train.txt", bench.folder)
    how: dict[str, Any] = {"task": "tagging", "dev": dev, "test": TASKS / "msra_ner" / "test.txt", "crf": True}
    how |= {"on_bad_tags": "repair", "dropout": 0.3, "head_dropout": 0.3, "time": LONG, "threads": 1}
    how |= {"reader": "recurrent", "reader_width": 512}
    text, characters = bench.chinese_text(), bench.folder / "characters-nfkc.json"
    if not characters.exists():
        learned("characters", text.read_text(encoding="utf-8").splitlines(), normalise=["nfkc"]).save(characters)
    vectors = bench.words("characters-chinese", text, tokenizer=characters, epochs=20, threads=1)
    deep: dict[str, Any] = {"tokenizer": characters, "reads": "words", "size": "mini", "time": LONG, "threads": 1}
    elmo = fb.pretrain("elmo", text, **deep, to=bench.folder / "elmo-chinese", callback=Telling()).folder.path
    begun: dict[str, tuple[str, Any, dict[str, Any]]] = {
        "fresh": ("vectors of characters from nothing", "word2vec", {}),
        "vectors": ("vectors of zhwiki and the People's Daily, a minute of word2vec", vectors, {}),
        "elmo": (f"[x; ELMo] of the same text, {LONG} of pre-training, frozen", elmo, {"how": "freeze"}),
    }
    rows = []
    for examples, name, share, spent in ((train, "", "", LONG), (few, "-few", "a tenth of the examples: ", SHORT)):
        for key, (what, begin, more) in begun.items():
            found = bench.adapt(f"msra-bilstm-{key}{name}", begin, examples, **how | more | {"time": spent})
            rows.append(row(f"{share}{what}", found, f"{spent} of one thread"))
    title = "MSRA by a BiLSTM-CRF on characters, 512 wide: entity F1 of the test"
    return title, ["f1", "precision", "recall"], rows


def _stretches(file: Path, folder: Path) -> tuple[Path, Path, Path]:
    """Examples to learn from, a tenth of these, and some to choose by: whole stretches of the file, so that few
    articles are both in what teaches and in what chooses."""
    sides = folder / "msra.train.txt", folder / "msra.few.txt", folder / "msra.dev.txt"
    if not all(side.exists() for side in sides):
        found = [one for one in file.read_text(encoding="utf-8").split("\n\n") if one.strip()]
        train, dev = (
            [one for at, one in enumerate(found) if (at // 150 % 25 == 24) == later] for later in (False, True)
        )
        few = [one for at, one in enumerate(train) if at // 50 % 10 == 0]
        for side, examples in zip(sides, (train, few, dev), strict=True):
            side.write_text("\n\n".join(examples) + "\n", encoding="utf-8")
    return sides


# -- one word in two sentences


def wic(bench: Bench) -> Found:
    """Is a word meant alike in two sentences? By the cosine of two vectors, with a border found on the examples to
    learn from; and by a linear model of how two vectors differ, its penalty found by cross-validation there."""
    text = TEXTS / "wikitext2" / "train.txt"
    elmo = fb.pretrain(
        "elmo", text, size="mini", time="10m", threads=1, to=bench.folder / "elmo-wikitext", callback=Telling()
    )
    words = fb.load(bench.words("words-wikitext", text, threads=1))
    sides = {side: _examples(TASKS / "wic" / side) for side in ("train", "test")}
    static = {side: _of_sentences(words, examples) for side, examples in sides.items()}
    found = {
        layer: {side: _in_context(elmo, examples, layer) for side, examples in sides.items()} for layer in (0, 1, 2)
    }
    rows = [
        row("always the same answer", None, "half of the pairs are alike", accuracy=0.5),
        row("word2vec: the word itself has one vector", None, accuracy=0.5),
        row("word2vec: the means of both sentences' words, cosine", accuracy=_by_cosine(static, sides)),
        *(row(f"ELMo, layer {layer}, cosine", accuracy=_by_cosine(found[layer], sides)) for layer in found),
        row("word2vec: the means of both sentences' words, linear model", accuracy=_by_model([static], sides)),
        row("ELMo, layers 1 and 2, linear model", accuracy=_by_model([found[1], found[2]], sides)),
        row("both, linear model", None, SEEN, accuracy=_by_model([static, found[1], found[2]], sides)),
        row("ELMo, published, layer 1", note="Pilehvar and Camacho-Collados 2019", accuracy=0.577),
    ]
    return "WiC, 5,428 pairs to learn from, 1,400 in the test: is a word meant alike?", ["accuracy"], rows


SEEN = "picked from nine sets of features, whose test scores, 0.560 to 0.592, were seen; the standard error is 0.013"
Both = tuple[np.ndarray, np.ndarray]  # (n, D) of either sentence


@dataclass(frozen=True)
class Example:
    """Both sentences, with where the word begins, and whether it is meant alike."""

    sides: tuple[tuple[str, int], tuple[str, int]]
    alike: bool


def _examples(folder: Path) -> list[Example]:
    lines = next(folder.glob("*.data.txt")).read_text(encoding="utf-8").splitlines()
    gold = next(folder.glob("*.gold.txt")).read_text(encoding="utf-8").split()
    found = []
    for line, answer in zip(lines, gold, strict=True):
        _, _, places, *sentences = line.split("\t")
        told = [_place(text, int(at)) for text, at in zip(sentences, places.split("-"), strict=True)]
        found.append(Example((told[0], told[1]), answer == "T"))
    return found


def _place(text: str, number: int) -> tuple[str, int]:
    return text, len(" ".join(text.split(" ")[:number])) + (number > 0)


def _in_context(run: Run, examples: Sequence[Example], layer: int) -> Both:
    """The word's vectors in both sentences."""
    sides = []
    for side in (0, 1):
        told = run.embed([one.sides[side][0] for one in examples], words=True, layers=layer)
        found = []
        for one, example in zip(told, examples, strict=True):
            assert one.words is not None
            at = example.sides[side][1]
            found.append(next(word.vector for word in one.words if word.end > at))
        sides.append(np.stack(found))
    return sides[0], sides[1]


def _of_sentences(run: Run, examples: Sequence[Example]) -> Both:
    first, second = (
        np.stack([one.vector for one in run.embed([one.sides[side][0] for one in examples])]) for side in (0, 1)
    )
    return first, second


def _alike(sides: dict[str, list[Example]], side: str) -> np.ndarray:
    return np.array([one.alike for one in sides[side]])


def _by_cosine(vectors: dict[str, Both], sides: dict[str, list[Example]]) -> float:
    """On the test, with the border that is best on the rest."""
    cosines = {side: (first * second).sum(1) for side, (first, second) in vectors.items()}
    borders, alike = np.unique(cosines["train"].round(3)), _alike(sides, "train")
    best = max(borders, key=lambda border: float(((cosines["train"] >= border) == alike).mean()))
    return float(((cosines["test"] >= best) == _alike(sides, "test")).mean())


def _by_model(vectors: list[dict[str, Both]], sides: dict[str, list[Example]]) -> float:
    """On the test: of each kind of vectors the differences, the products and the cosine of the pairs."""
    from sklearn.linear_model import LogisticRegressionCV

    def features(side: str) -> np.ndarray:
        made = []
        for one in vectors:
            taught = np.concatenate(one["train"])
            scaled = [(given - taught.mean(0)) / taught.std(0) for given in one[side]]
            first, second = (given / np.linalg.norm(given, axis=1, keepdims=True) for given in scaled)
            made += [np.abs(first - second), first * second, (first * second).sum(1, keepdims=True)]
        return np.concatenate(made, 1)

    model = LogisticRegressionCV(Cs=[0.03, 0.1, 0.3, 1.0, 3.0], cv=5, max_iter=300, random_state=0)
    model.fit(features("train"), _alike(sides, "train"))
    return float(model.score(features("test"), _alike(sides, "test")))


EXPERIMENTS = {
    "wikitext": wikitext,
    "multi30k-recurrent": multi30k,
    "tatoeba-recurrent": tatoeba,
    "msra-recurrent": msra,
    "wic": wic,
}
