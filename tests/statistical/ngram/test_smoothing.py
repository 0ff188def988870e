"""Probabilities: the lineage's worked examples, a readable twin of Kneser–Ney, and sums of one."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_models import END, PADDING, VOCABULARY, contexts, four, made, many, probability, texts

from forebear.errors import InputError
from forebear.statistical.ngram.language_model import NgramModel
from forebear.statistical.ngram.smoothing import Discounts

# -- by hand


def test_maximum_likelihood_by_hand():
    model, ids = four("none")
    told = probability(model, [ids["的"]])
    assert told[ids["词性"]] == pytest.approx(2 / 3)
    assert told[ids["磁铁"]] == pytest.approx(1 / 3)
    assert probability(model, [END])[ids["判断"]] == pytest.approx(1 / 4)
    assert probability(model, [ids["词性"]])[END] == pytest.approx(1 / 3)


def test_adding_by_hand():
    model, ids = four("add")
    assert len(ids) == 14  # twelve words, the end and the unknown word
    told = probability(model, [ids["的"]])
    assert told[ids["词性"]] == pytest.approx((2 + 1) / (3 + 14))
    assert told[ids["磁性"]] == told[ids["<unk>"]] == pytest.approx(1 / (3 + 14))
    half, _ = four("add", k=0.5)
    assert probability(half, [ids["的"]])[ids["词性"]] == pytest.approx(2.5 / (3 + 7))
    assert probability(model, [ids["<unk>"]]) == pytest.approx(np.full(14, 1 / 14))  # of what it never saw: nothing


def test_a_context_never_seen_leaves_it_to_the_shorter_one():
    model, ids = four("none", order=3)
    assert probability(model, [ids["动词"], ids["的"]]) == pytest.approx(probability(model, [ids["的"]]))
    counts = model.counts.counts[0]
    assert probability(model, [ids["<unk>"]]) == pytest.approx(counts / counts.sum())


@pytest.mark.parametrize(
    ("smoothing", "k", "order"), [("add", 1.0, 2), ("add", 0.01, 2), ("kneser-ney", 1.0, 2), ("kneser-ney", 1.0, 5)]
)
def test_part_of_speech_beats_magnetism(smoothing: str, k: float, order: int):
    model, ids = four(smoothing, order, k)

    def score(sentence: str) -> float:
        return model.score([np.array([END, *(ids.get(word, 0) for word in sentence.split()), END])])[0].sum()

    assert score("判断 这个 词 的 词性") > score("判断 这个 词 的 磁性") > -np.inf
    blank = [END, *(ids.get(word, 0) for word in "判断 这个 词 的".split())]
    assert probability(model, blank).argmax() == ids["词性"]


@pytest.mark.parametrize("smoothing", ["none", "add", "witten-bell", "stupid", "kneser-ney"])
def test_of_nothing_all_is_equally_likely(smoothing: str):
    told = probability(made([], 3, smoothing), [END, 3])
    assert told == pytest.approx(np.where(np.arange(VOCABULARY) == PADDING, 0, 1 / (VOCABULARY - 1)))


# -- Kneser–Ney from its formulas, with <s> and </s> as two words


class Twin:
    """Interpolated modified Kneser–Ney in dictionaries."""

    def __init__(self, given: list[list[int]], order: int, predictable: list[int]) -> None:
        rows = [("<s>", *text, END) for text in given]
        self.predictable = predictable
        count = {
            n: Counter(row[end - n : end] for row in rows for end in range(max(n, 2), len(row) + 1))
            for n in range(1, order + 1)
        }
        self.adjusted = {order: count[order]}
        for n in range(1, order):
            before = {gram: {longer[0] for longer in count[n + 1] if longer[1:] == gram} for gram in count[n]}
            self.adjusted[n] = {gram: count[n][gram] if gram[0] == "<s>" else len(before[gram]) for gram in count[n]}
        self.discounts = {n: self.discount(list(self.adjusted[n].values())) for n in self.adjusted}

    def discount(self, values: list[int]) -> list[float]:
        n1, n2, n3, n4 = (values.count(i) for i in (1, 2, 3, 4))
        if n1 == 0 or n2 == 0:
            return [0, 0.5, 0.5, 0.5]
        y = n1 / (n1 + 2 * n2)
        if n3:
            three = [0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
            if three[2] > 0 and three[3] > 0:
                return three
        return [0, y, y, y]

    def probability(self, word: int, context: tuple) -> float:
        adjusted, discounts = self.adjusted[len(context) + 1], self.discounts[len(context) + 1]
        follow = {v: adjusted.get((*context, v), 0) for v in self.predictable}
        lower = self.probability(word, context[1:]) if context else 1 / len(self.predictable)
        total = sum(follow.values())
        if not total:
            return lower
        left = sum(discounts[min(a, 3)] for a in follow.values()) / total
        return (follow[word] - discounts[min(follow[word], 3)]) / total + left * lower


def agree(given: list[list[int]], order: int) -> NgramModel:
    predictable = [i for i in range(VOCABULARY) if i != PADDING]
    twin, model = Twin(given, order, predictable), made(given, order)
    seen = {("<s>", *text)[-n:] for text in given for n in range(1, order)} | {(), (8,), (3, 8), (8, 3)}
    seen |= {(("<s>", *text)[at : at + n]) for text in given[:9] for n in range(1, order) for at in range(len(text))}
    for context in sorted((context for context in seen if len(context) < order), key=str)[:40]:
        told = probability(model, [END if word == "<s>" else word for word in context])
        expected = [twin.probability(word, context) if word in predictable else 0 for word in range(VOCABULARY)]
        assert np.abs(told - expected).max() < 1e-7  # logarithms are float32
    return model


@given(texts, st.integers(1, 4))
@example([[], [], [3]], 3)
def test_kneser_ney_equals_its_twin(given_texts: list[list[int]], order: int):
    agree(given_texts, order)


@pytest.mark.parametrize(
    ("seed", "size", "ways"),
    [(6, 60, "half modified modified modified absolute"), (4, 100, "half modified modified modified modified")],
)
def test_kneser_ney_equals_its_twin_on_longer_text(seed: int, size: int, ways: str):
    model = agree(many(seed, size), 5)
    assert [mine["way"] for mine in model.describe()["discounts"]] == ways.split()


def test_discounts_by_hand():
    values = np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 7])
    assert Discounts.estimate(values) == Discounts("modified", (0.5, 2 - 1.5 * 3 / 5, 3 - 2 * 2 / 3), (10, 5, 3, 2))
    assert Discounts.estimate(np.repeat([1, 2, 3], [2, 1, 9])).taken == (0.5, 0.5, 0.5)  # D2 would be far below 0
    assert Discounts.estimate(np.repeat([1, 2], [8, 1])) == Discounts("absolute", (0.8, 0.8, 0.8), (8, 1, 0, 0))
    assert Discounts.estimate(np.array([1, 1, 7])).way == Discounts.estimate(np.array([2, 3])).way == "half"


def test_thin_counts_are_reported():
    model, _ = four("kneser-ney", order=3)
    (note,) = model.notes
    assert re.search(r"length 1 \(0\.\d+\), 2 \(0\.\d+\), 3 \(0\.\d+\);", note)
    assert model.describe()["notes"] == model.notes
    assert "impossible" in four("none")[0].notes[0]
    assert four("add")[0].notes == []


# -- probability is probability


@given(texts, st.integers(1, 10), st.sampled_from(["none", "add", "witten-bell", "stupid", "kneser-ney"]), contexts)
def test_probabilities_sum_to_one(given_texts: list[list[int]], order: int, smoothing: str, context: list[int]):
    told = probability(made(given_texts, order, smoothing, k=0.3), context)
    assert told.sum() == pytest.approx(1, abs=1e-6)
    assert told[PADDING] == 0
    if smoothing != "none":
        assert np.delete(told, PADDING).min() > 0  # words that were never seen are never impossible


@pytest.mark.parametrize("smoothing", ["none", "add", "witten-bell", "stupid", "kneser-ney"])
def test_probabilities_sum_to_one_where_discounts_are_three(smoothing: str):
    model = made(many(3, 200), 4, smoothing)
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert probability(model, rng.integers(0, VOCABULARY, 4).tolist()).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"order": 0}, "order 0"),
        ({"smoothing": "laplace"}, "'laplace'"),
        ({"smoothing": "add", "k": 0.0}, "k is 0"),
        ({"smoothing": "add", "k": float("nan")}, "k is nan"),
        ({"never": [END]}, "end of a text"),
    ],
)
def test_what_is_no_ngram_model_is_refused(fields: dict, told: str):
    with pytest.raises(InputError, match=told):
        NgramModel(**{"order": 2, "vocabulary": VOCABULARY, "end": END, **fields})
