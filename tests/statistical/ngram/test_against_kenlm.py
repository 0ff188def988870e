"""KenLM's own figures on WikiText-2, and its Python module on a model that was written for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from forebear.data.io.reader import TextFormat
from forebear.inference.run import Run
from forebear.interop import arpa
from forebear.interop.convert import import_model
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel

kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed")

UNKNOWN, END = 0, 1
# lmplz and query on this text, `<unk>` written as a plain word so that nothing is unknown: perplexity, and n-grams
# with <unk>, <s> and </s> among the single words
KENLM = {3: (230.8863, [33280, 619591, 1398959]), 5: (224.8116, [33280, 619591, 1398959, 1794725, 1914265])}


@pytest.fixture(scope="module")
def wikitext(data: Path) -> tuple[dict[str, int], list[list[str]], list[list[str]]]:
    """Ids by word, and the sentences that teach and examine: lines, the blank ones left out."""

    def sentences(name: str) -> list[list[str]]:
        text = (data / "corpora" / "wikitext2" / name).read_text(encoding="utf-8").replace("<unk>", "UNKWORD")
        return [line.split() for line in text.split("\n") if line.strip()]

    train, test = sentences("train.txt"), sentences("test.txt")
    ids = {"<unk>": UNKNOWN, "</s>": END}
    for sentence in train:
        for word in sentence:
            ids.setdefault(word, len(ids))
    return ids, train, test


def rows_of(sentences: Sequence[Sequence[str]], ids: dict[str, int]) -> list[np.ndarray]:
    return [np.array([END, *(ids.get(word, UNKNOWN) for word in sentence), END]) for sentence in sentences]


def learned(rows: list[np.ndarray], vocabulary: int, order: int) -> NgramModel:
    model = NgramModel(order=order, vocabulary=vocabulary, end=END)
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        lengths = np.array([len(row) - 1 for row in part])
        model.add_batch(np.concatenate([row[:-1] for row in part]), lengths, np.concatenate([row[1:] for row in part]))
    return model


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", [3, 5])
def test_perplexity_of_wikitext(wikitext, order: int):
    ids, train, test = wikitext
    model = learned(rows_of(train, ids), len(ids), order)
    scores = np.concatenate(model.score(rows_of(test, ids)))
    perplexity, sizes = KENLM[order]
    assert len(scores) == 244_102
    assert np.exp(-scores.mean()) == pytest.approx(perplexity, abs=1e-4)
    single, *longer = model.describe()["ngrams"]
    assert [single + 1, *longer] == sizes  # one id is <s> and </s>
    assert model.notes == []


@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_says_the_same_of_what_is_written(wikitext, tmp_path: Path, order: int):
    ids, train, test = wikitext
    ids = dict(list(ids.items())[:3000])
    model = learned(rows_of(train[:1500], ids), len(ids), order)
    arpa.write_arpa(tmp_path / "model.arpa", list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN)
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    rng, words = np.random.default_rng(0), [*list(ids)[2:], "neverseen", "何"]
    random = [[words[i] for i in rng.integers(0, len(words), rng.integers(0, 12))] for _ in range(100)]
    natural = test[:100] + train[:50]
    unknown = 0
    scores, lengths = model.score_with_lengths(rows_of(random + natural, ids))
    for sentence, mine, used in zip(random + natural, scores, lengths, strict=True):
        told = list(theirs.full_scores(" ".join(sentence)))
        assert np.abs(mine / np.log(10) - [score for score, _, _ in told]).max() < 1e-5
        assert used.tolist() == [length for _, length, _ in told]
        unknown += sum(lacks for _, _, lacks in told)
    assert unknown > 100


def texts(kind: str) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences to learn from and others, some far longer than any order: of words that repeat, or of Chinese
    characters; made so that the next word depends on the last two.
    """
    rng = np.random.default_rng(7)
    words = [chr(0x4E00 + 7 * i) for i in range(120)] if kind == "characters" else [f"word{i}" for i in range(120)]
    follow = rng.integers(0, 120, (120, 120, 3))

    def sentence(length: int) -> list[str]:
        made = [0, 1]
        for _ in range(length):
            made.append(int(follow[made[-2] % 11, made[-1], rng.integers(0, 3)]))
        return [words[i] for i in made[2:]]

    return [sentence(int(rng.integers(0, 25))) for _ in range(600)], [sentence(n) for n in (0, 1, 2, 3, 5, 8, 40, 300)]


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_kenlm_says_the_same_of_every_order(tmp_path: Path, kind: str, order: int):
    train, other = texts(kind)
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    model = learned(rows_of(train, ids), len(ids), order)
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN, quickly=order % 2 == 0)
    rng, known = np.random.default_rng(0), [*list(ids)[2:], "neverseen", "龘"]
    random = [[known[i] for i in rng.integers(0, len(known), rng.integers(0, 30))] for _ in range(60)]
    sentences = [*random, *other, *train[:40], [], ["龘"] * 9]
    told = arpa.read_arpa(path, quickly=order % 2 == 1)
    again = NgramModel(order=order, vocabulary=len(told.words), end=told.eos_id, smoothing="given")
    again.load_probabilities(told.ngrams, told.log_probs, told.backoffs)
    numbers = {word: i for i, word in enumerate(told.words)}
    theirs = kenlm.Model(str(path))
    assert theirs.order == order
    (mine, lengths), back = model.score_with_lengths(rows_of(sentences, ids)), again.score(rows_of(sentences, numbers))
    table = NgramStore.build(model.ngrams, model._levels).score  # what a large model answers from
    for sentence, first, used, second in zip(sentences, mine, lengths, back, strict=True):
        told = list(theirs.full_scores(" ".join(sentence)))
        assert np.abs(first / np.log(10) - [score for score, _, _ in told]).max() < 1e-5
        assert np.abs(second - first).max() < 1e-6
        (row,), matched = rows_of([sentence], ids), np.zeros(len(sentence) + 2, np.uint8)
        table(row, np.array([len(row)]), END, matched)
        assert used.tolist() == matched[1:].tolist() == [length for _, length, _ in told]


def test_perplexity_with_and_without_unknown_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """KenLM's "including OOVs" and "excluding OOVs", of a corpus and of sentences."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    train, _ = texts("words")
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    arpa.write_arpa(
        tmp_path / "m.arpa", list(ids), *learned(rows_of(train, ids), len(ids), 3).to_arpa(), eos_id=END, unk_id=0
    )
    theirs, run = (
        kenlm.Model(str(tmp_path / "m.arpa")),
        Run(import_model(str(tmp_path / "m.arpa"), str(tmp_path / "run"))),
    )
    rng = np.random.default_rng(1)
    sentences = [" ".join(word if rng.random() < 0.9 else "neverseen" for word in row) for row in train[:50] if row]
    told = [list(theirs.full_scores(sentence)) for sentence in sentences]

    def perplexity(scores: list[tuple[float, int, bool]]) -> float:
        return 10 ** -np.mean([score for score, _, _ in scores])

    every = [one for sentence in told for one in sentence]
    measured = run.measure(prepared_lines(tmp_path, sentences), reading=TextFormat(documents="lines"))
    assert measured.tokens == len(every)
    assert measured.unknown_tokens == sum(lacks for _, _, lacks in every) > 20
    assert measured.perplexity == pytest.approx(perplexity(every), rel=1e-5)
    assert measured.perplexity_known == pytest.approx(perplexity([one for one in every if not one[2]]), rel=1e-5)
    assert measured.ngram_length == pytest.approx(np.mean([length for _, length, _ in every]))
    for mine, expected in zip(run.score(sentences, ends=True), told, strict=True):
        assert mine.perplexity == pytest.approx(perplexity(expected), rel=1e-5)
        assert mine.perplexity_known == pytest.approx(perplexity([one for one in expected if not one[2]]), rel=1e-5)
        assert [token.ngram_length for token in mine.tokens] == [length for _, length, _ in expected]


def prepared_lines(folder: Path, sentences: Sequence[str]) -> Path:
    (folder / "test.txt").write_text("".join(sentence + "\n" for sentence in sentences), encoding="utf-8")
    return folder / "test.txt"


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_single_words_which_kenlm_does_not_read(tmp_path: Path, kind: str):
    train, _ = texts(kind)
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    model = learned(rows_of(train, ids), len(ids), 1)
    arpa.write_arpa(tmp_path / "model.arpa", list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN)
    with pytest.raises(OSError, match="at least a bigram"):
        kenlm.Model(str(tmp_path / "model.arpa"))
    told = [arpa.read_arpa(tmp_path / "model.arpa", quickly=quickly) for quickly in (True, False)]
    (expected,) = model.next_log_probs([np.array([END])])
    for mine in told:
        assert mine.notes == []
        assert mine.words == list(ids)
        np.testing.assert_allclose(mine.log_probs[0][np.argsort(mine.ngrams[0][:, 0])], expected, atol=1e-7)


def program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("KENLM_BIN") or os.environ.get("PATH"))
    return found or pytest.skip(f"{name} is neither in $KENLM_BIN nor on PATH")


def lmplz(folder: Path, sentences: Sequence[Sequence[str]], order: int, *more: str) -> Path:
    """The file that KenLM's own program estimates from these sentences."""
    path, text = folder / "theirs.arpa", "".join(" ".join(sentence) + "\n" for sentence in sentences)
    command = [program("lmplz"), "-o", str(order), "-S", "50M", "-T", str(folder), "--arpa", str(path), *more]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True, timeout=60)
    return path


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 5, 6])
def test_a_file_of_lmplz_scores_as_kenlm_says(tmp_path: Path, kind: str, order: int):
    train, other = texts(kind)
    path = lmplz(tmp_path, train, order, "--discount_fallback")
    told = arpa.read_arpa(path, quickly=True)
    model = NgramModel(order=order, vocabulary=len(told.words), end=told.eos_id, smoothing="given")
    model.load_probabilities(told.ngrams, told.log_probs, told.backoffs)
    ids, theirs = {word: i for i, word in enumerate(told.words)}, kenlm.Model(str(path))
    sentences = [*other, *train[:100], ["龘", other[-1][0], "龘"]]
    for sentence, mine in zip(sentences, model.score(rows_of(sentences, ids)), strict=True):
        expected = [score for score, _, _ in theirs.full_scores(" ".join(sentence))]
        assert np.abs(mine / np.log(10) - expected).max() < 1e-5


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 5, 6])
def test_lmplz_estimates_the_same(data: Path, wikitext, tmp_path: Path, kind: str, order: int):
    """Of real text: the same n-grams, probabilities and back-off weights, one by one."""
    train = wikitext[1][:2000]
    if kind == "characters":
        train = [list("".join(line.split())) for line in (data / "corpora/zhwiki.txt").open(encoding="utf-8")][:300]
    train = [sentence for sentence in train if sentence]
    told = arpa.read_arpa(lmplz(tmp_path, train, order), quickly=True)
    ids = {word: i for i, word in enumerate(told.words)}
    ours = learned(rows_of(train, ids), len(ids), order)
    assert ours.notes == []
    ngrams, logs, backoffs = ours.to_arpa()
    for n, rows in enumerate(ngrams):
        mine, theirs = (np.lexsort(these.T) for these in (rows, told.ngrams[n]))
        assert np.array_equal(rows[mine], told.ngrams[n][theirs])
        assert np.abs(logs[n][mine] - told.log_probs[n][theirs]).max() < 1e-5
        if n < order - 1:
            assert np.abs(backoffs[n][mine] - told.backoffs[n][theirs]).max() < 1e-5
