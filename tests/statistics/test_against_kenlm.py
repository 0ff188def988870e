"""KenLM's own figures on WikiText-2, and its Python module on a model that was written for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from forebear.interop import arpa
from forebear.statistics.ngram import NgramModel

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
        model.count(np.concatenate([row[:-1] for row in part]), lengths, np.concatenate([row[1:] for row in part]))
    return model


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
    arpa.write(tmp_path / "model.arpa", list(ids), *model.written(), end=END, unknown=UNKNOWN)
    theirs = kenlm.Model(str(tmp_path / "model.arpa"))
    rng, words = np.random.default_rng(0), [*list(ids)[2:], "neverseen", "何"]
    random = [[words[i] for i in rng.integers(0, len(words), rng.integers(0, 12))] for _ in range(100)]
    natural = test[:100] + train[:50]
    unknown = 0
    for sentence, mine in zip(random + natural, model.score(rows_of(random + natural, ids)), strict=True):
        told = list(theirs.full_scores(" ".join(sentence)))
        assert np.abs(mine / np.log(10) - [score for score, _, _ in told]).max() < 1e-5
        unknown += sum(lacks for _, _, lacks in told)
    assert unknown > 100
