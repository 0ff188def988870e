"""N-gram models against KenLM: perplexity on WikiText-2, and scores by its Python module on written ARPA files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from forebear.data.io.text_formats import TextFormat
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
    """Ids by word, and the training and test sentences: lines without the blank ones."""

    def sentences(name: str) -> list[list[str]]:
        text = (data / "corpora" / "wikitext2" / name).read_text(encoding="utf-8").replace("<unk>", "UNKWORD")
        return [line.split() for line in text.split("\n") if line.strip()]

    train, test = sentences("train.txt"), sentences("test.txt")
    ids = {"<unk>": UNKNOWN, "</s>": END}
    for sentence in train:
        for word in sentence:
            ids.setdefault(word, len(ids))
    return ids, train, test


def id_rows(sentences: Sequence[Sequence[str]], ids: dict[str, int]) -> list[np.ndarray]:
    return [np.array([END, *(ids.get(word, UNKNOWN) for word in sentence), END]) for sentence in sentences]


def counted_model(rows: list[np.ndarray], vocabulary: int, order: int) -> NgramModel:
    model = NgramModel(order=order, vocab_size=vocabulary, eos_id=END)
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        lengths = np.array([len(row) - 1 for row in part])
        model.add_batch(np.concatenate([row[:-1] for row in part]), lengths, np.concatenate([row[1:] for row in part]))
    return model


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", [3, 5])
def test_perplexity_of_wikitext_equals_kenlms(wikitext, order: int):
    ids, train, test = wikitext
    model = counted_model(id_rows(train, ids), len(ids), order)
    scores = np.concatenate(model.score(id_rows(test, ids)))
    perplexity, sizes = KENLM[order]
    assert len(scores) == 244_102
    assert np.exp(-scores.mean()) == pytest.approx(perplexity, abs=1e-4)
    num_unigrams, *higher_orders = model.describe()["ngrams"]
    assert [num_unigrams + 1, *higher_orders] == sizes  # one id is <s> and </s>
    assert model.notes == []


@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_scores_of_written_arpa_equal_ours(wikitext, tmp_path: Path, order: int):
    ids, train, test = wikitext
    ids = dict(list(ids.items())[:3000])
    model = counted_model(id_rows(train[:1500], ids), len(ids), order)
    arpa.write_arpa(tmp_path / "model.arpa", list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN)
    kenlm_model = kenlm.Model(str(tmp_path / "model.arpa"))
    rng, words = np.random.default_rng(0), [*list(ids)[2:], "neverseen", "何"]
    random = [[words[i] for i in rng.integers(0, len(words), rng.integers(0, 12))] for _ in range(100)]
    natural = test[:100] + train[:50]
    num_unknown = 0
    scores, lengths = model.score_with_lengths(id_rows(random + natural, ids))
    for sentence, sentence_scores, ngram_lengths in zip(random + natural, scores, lengths, strict=True):
        kenlm_scores = list(kenlm_model.full_scores(" ".join(sentence)))
        assert np.abs(sentence_scores / np.log(10) - [score for score, _, _ in kenlm_scores]).max() < 1e-5
        assert ngram_lengths.tolist() == [length for _, length, _ in kenlm_scores]
        num_unknown += sum(is_oov for _, _, is_oov in kenlm_scores)
    assert num_unknown > 100


def random_sentences(kind: str) -> tuple[list[list[str]], list[list[str]]]:
    """Training sentences and others, some far longer than any order: of repeated words, or of Chinese
    characters; the next word depends on the last two.
    """
    rng = np.random.default_rng(7)
    words = [chr(0x4E00 + 7 * i) for i in range(120)] if kind == "characters" else [f"word{i}" for i in range(120)]
    next_words = rng.integers(0, 120, (120, 120, 3))

    def sentence(length: int) -> list[str]:
        ids = [0, 1]
        for _ in range(length):
            ids.append(int(next_words[ids[-2] % 11, ids[-1], rng.integers(0, 3)]))
        return [words[i] for i in ids[2:]]

    return [sentence(int(rng.integers(0, 25))) for _ in range(600)], [sentence(n) for n in (0, 1, 2, 3, 5, 8, 40, 300)]


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 4, 5, 6])
def test_kenlm_scores_equal_ours_at_every_order(tmp_path: Path, kind: str, order: int):
    train, other = random_sentences(kind)
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    model = counted_model(id_rows(train, ids), len(ids), order)
    path = tmp_path / "model.arpa"
    arpa.write_arpa(path, list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN, use_compiled=order % 2 == 0)
    rng, words = np.random.default_rng(0), [*list(ids)[2:], "neverseen", "龘"]
    random = [[words[i] for i in rng.integers(0, len(words), rng.integers(0, 30))] for _ in range(60)]
    sentences = [*random, *other, *train[:40], [], ["龘"] * 9]
    kenlm_scores = arpa.read_arpa(path, use_compiled=order % 2 == 1)
    loaded = NgramModel(order=order, vocab_size=len(kenlm_scores.words), eos_id=kenlm_scores.eos_id, smoothing="given")
    loaded.load_probabilities(kenlm_scores.ngrams, kenlm_scores.log_probs, kenlm_scores.backoffs)
    arpa_ids = {word: i for i, word in enumerate(kenlm_scores.words)}
    kenlm_model = kenlm.Model(str(path))
    assert kenlm_model.order == order
    (scores, lengths), loaded_scores = (
        model.score_with_lengths(id_rows(sentences, ids)),
        loaded.score(id_rows(sentences, arpa_ids)),
    )
    table = NgramStore.build(model.ngrams, model._levels).score  # as used by a large model
    for sentence, sentence_scores, ngram_lengths, loaded_sentence_scores in zip(
        sentences, scores, lengths, loaded_scores, strict=True
    ):
        kenlm_scores = list(kenlm_model.full_scores(" ".join(sentence)))
        assert np.abs(sentence_scores / np.log(10) - [score for score, _, _ in kenlm_scores]).max() < 1e-5
        assert np.abs(loaded_sentence_scores - sentence_scores).max() < 1e-6
        (row,), matched = id_rows([sentence], ids), np.zeros(len(sentence) + 2, np.uint8)
        table(row, np.array([len(row)]), END, matched)
        assert ngram_lengths.tolist() == matched[1:].tolist() == [length for _, length, _ in kenlm_scores]


def test_perplexity_with_and_without_oov_words_equals_kenlms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """KenLM's "including OOVs" and "excluding OOVs", of a corpus and of sentences."""
    monkeypatch.setenv("FOREBEAR_CACHE", str(tmp_path / "cache"))
    train, _ = random_sentences("words")
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    arpa.write_arpa(
        tmp_path / "m.arpa", list(ids), *counted_model(id_rows(train, ids), len(ids), 3).to_arpa(), eos_id=END, unk_id=0
    )
    kenlm_model, run = (
        kenlm.Model(str(tmp_path / "m.arpa")),
        Run(import_model(str(tmp_path / "m.arpa"), str(tmp_path / "run"))),
    )
    rng = np.random.default_rng(1)
    sentences = [" ".join(word if rng.random() < 0.9 else "neverseen" for word in row) for row in train[:50] if row]
    kenlm_scores = [list(kenlm_model.full_scores(sentence)) for sentence in sentences]

    def perplexity(scores: list[tuple[float, int, bool]]) -> float:
        return 10 ** -np.mean([score for score, _, _ in scores])

    all_scores = [token_score for sentence in kenlm_scores for token_score in sentence]
    measured = run.measure(text_file(tmp_path, sentences), reading=TextFormat(documents="lines"))
    assert measured.tokens == len(all_scores)
    assert measured.unknown_tokens == sum(is_oov for _, _, is_oov in all_scores) > 20
    assert measured.perplexity == pytest.approx(perplexity(all_scores), rel=1e-5)
    assert measured.perplexity_known == pytest.approx(
        perplexity([token_score for token_score in all_scores if not token_score[2]]), rel=1e-5
    )
    assert measured.ngram_length == pytest.approx(np.mean([length for _, length, _ in all_scores]))
    for scored, expected in zip(run.score(sentences, ends=True), kenlm_scores, strict=True):
        assert scored.perplexity == pytest.approx(perplexity(expected), rel=1e-5)
        assert scored.perplexity_known == pytest.approx(
            perplexity([token_score for token_score in expected if not token_score[2]]), rel=1e-5
        )
        assert [token.ngram_length for token in scored.tokens] == [length for _, length, _ in expected]


def text_file(folder: Path, sentences: Sequence[str]) -> Path:
    (folder / "test.txt").write_text("".join(sentence + "\n" for sentence in sentences), encoding="utf-8")
    return folder / "test.txt"


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_unigram_arpa_which_kenlm_refuses_is_read_back(tmp_path: Path, kind: str):
    train, _ = random_sentences(kind)
    ids = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", "</s>", *(word for row in train for word in row)]))}
    model = counted_model(id_rows(train, ids), len(ids), 1)
    arpa.write_arpa(tmp_path / "model.arpa", list(ids), *model.to_arpa(), eos_id=END, unk_id=UNKNOWN)
    with pytest.raises(OSError, match="at least a bigram"):
        kenlm.Model(str(tmp_path / "model.arpa"))
    arpa_models = [arpa.read_arpa(tmp_path / "model.arpa", use_compiled=use_compiled) for use_compiled in (True, False)]
    (expected,) = model.next_log_probs([np.array([END])])
    for arpa_model in arpa_models:
        assert arpa_model.notes == []
        assert arpa_model.words == list(ids)
        np.testing.assert_allclose(arpa_model.log_probs[0][np.argsort(arpa_model.ngrams[0][:, 0])], expected, atol=1e-7)


def find_program(name: str) -> str:
    path = shutil.which(name, path=os.environ.get("KENLM_BIN") or os.environ.get("PATH"))
    return path or pytest.skip(f"{name} is neither in $KENLM_BIN nor on PATH")


def estimate_by_lmplz(folder: Path, sentences: Sequence[Sequence[str]], order: int, *options: str) -> Path:
    """The ARPA file that KenLM's lmplz estimates from these sentences."""
    path, text = folder / "theirs.arpa", "".join(" ".join(sentence) + "\n" for sentence in sentences)
    command = [find_program("lmplz"), "-o", str(order), "-S", "50M", "-T", str(folder), "--arpa", str(path), *options]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True, timeout=60)
    return path


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 5, 6])
def test_arpa_file_of_lmplz_scores_as_in_kenlm(tmp_path: Path, kind: str, order: int):
    train, other = random_sentences(kind)
    path = estimate_by_lmplz(tmp_path, train, order, "--discount_fallback")
    arpa_model = arpa.read_arpa(path, use_compiled=True)
    model = NgramModel(order=order, vocab_size=len(arpa_model.words), eos_id=arpa_model.eos_id, smoothing="given")
    model.load_probabilities(arpa_model.ngrams, arpa_model.log_probs, arpa_model.backoffs)
    ids, kenlm_model = {word: i for i, word in enumerate(arpa_model.words)}, kenlm.Model(str(path))
    sentences = [*other, *train[:100], ["龘", other[-1][0], "龘"]]
    for sentence, scores in zip(sentences, model.score(id_rows(sentences, ids)), strict=True):
        expected = [score for score, _, _ in kenlm_model.full_scores(" ".join(sentence))]
        assert np.abs(scores / np.log(10) - expected).max() < 1e-5


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("order", [2, 3, 5, 6])
def test_kneser_ney_estimates_equal_lmplzs(data: Path, wikitext, tmp_path: Path, kind: str, order: int):
    """On real text: the same n-grams, probabilities and back-off weights, one by one."""
    train = wikitext[1][:2000]
    if kind == "characters":
        train = [list("".join(line.split())) for line in (data / "corpora/zhwiki.txt").open(encoding="utf-8")][:300]
    train = [sentence for sentence in train if sentence]
    arpa_model = arpa.read_arpa(estimate_by_lmplz(tmp_path, train, order), use_compiled=True)
    ids = {word: i for i, word in enumerate(arpa_model.words)}
    model = counted_model(id_rows(train, ids), len(ids), order)
    assert model.notes == []
    ngrams, logs, backoffs = model.to_arpa()
    for n, rows in enumerate(ngrams):
        our_order, their_order = (np.lexsort(ngram_rows.T) for ngram_rows in (rows, arpa_model.ngrams[n]))
        assert np.array_equal(rows[our_order], arpa_model.ngrams[n][their_order])
        assert np.abs(logs[n][our_order] - arpa_model.log_probs[n][their_order]).max() < 1e-5
        if n < order - 1:
            assert np.abs(backoffs[n][our_order] - arpa_model.backoffs[n][their_order]).max() < 1e-5
