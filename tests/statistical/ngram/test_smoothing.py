"""Smoothing: worked examples by hand, a reference Kneser–Ney, and probabilities that sum to one."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_ngram_models import (
    END,
    PADDING,
    VOCABULARY,
    contexts,
    counted_model,
    lineage_model,
    next_probs,
    skewed_texts,
    text_lists,
)

from forebear.errors import InputError
from forebear.statistical.ngram.language_model import NgramModel
from forebear.statistical.ngram.smoothing import Discounts

# -- by hand


def test_maximum_likelihood_by_hand():
    model, ids = lineage_model("none")
    probs = next_probs(model, [ids["的"]])
    assert probs[ids["词性"]] == pytest.approx(2 / 3)
    assert probs[ids["磁铁"]] == pytest.approx(1 / 3)
    assert next_probs(model, [END])[ids["判断"]] == pytest.approx(1 / 4)
    assert next_probs(model, [ids["词性"]])[END] == pytest.approx(1 / 3)


def test_add_k_smoothing_by_hand():
    model, ids = lineage_model("add")
    assert len(ids) == 14  # twelve words, the end and the unknown word
    probs = next_probs(model, [ids["的"]])
    assert probs[ids["词性"]] == pytest.approx((2 + 1) / (3 + 14))
    assert probs[ids["磁性"]] == probs[ids["<unk>"]] == pytest.approx(1 / (3 + 14))
    model_with_half, _ = lineage_model("add", k=0.5)
    assert next_probs(model_with_half, [ids["的"]])[ids["词性"]] == pytest.approx(2.5 / (3 + 7))
    assert next_probs(model, [ids["<unk>"]]) == pytest.approx(np.full(14, 1 / 14))  # uniform after an unseen context


def test_unseen_context_backs_off_to_the_shorter_one():
    model, ids = lineage_model("none", order=3)
    assert next_probs(model, [ids["动词"], ids["的"]]) == pytest.approx(next_probs(model, [ids["的"]]))
    counts = model.counts.counts[0]
    assert next_probs(model, [ids["<unk>"]]) == pytest.approx(counts / counts.sum())


@pytest.mark.parametrize(
    ("smoothing", "k", "order"), [("add", 1.0, 2), ("add", 0.01, 2), ("kneser-ney", 1.0, 2), ("kneser-ney", 1.0, 5)]
)
def test_smoothed_model_prefers_the_seen_continuation(smoothing: str, k: float, order: int):
    model, ids = lineage_model(smoothing, order, k)

    def score(sentence: str) -> float:
        return model.score([np.array([END, *(ids.get(word, 0) for word in sentence.split()), END])])[0].sum()

    assert score("判断 这个 词 的 词性") > score("判断 这个 词 的 磁性") > -np.inf
    blank = [END, *(ids.get(word, 0) for word in "判断 这个 词 的".split())]
    assert next_probs(model, blank).argmax() == ids["词性"]


@pytest.mark.parametrize("smoothing", ["none", "add", "witten-bell", "stupid", "kneser-ney"])
def test_model_without_counts_is_uniform(smoothing: str):
    probs = next_probs(counted_model([], 3, smoothing), [END, 3])
    assert probs == pytest.approx(np.where(np.arange(VOCABULARY) == PADDING, 0, 1 / (VOCABULARY - 1)))


# -- Kneser–Ney from its formulas, with <s> and </s> as two words


class ReferenceKneserNey:
    """Interpolated modified Kneser–Ney in dictionaries."""

    def __init__(self, texts: list[list[int]], order: int, predictable: list[int]) -> None:
        rows = [("<s>", *text, END) for text in texts]
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


def assert_equals_reference(text_lists: list[list[int]], order: int) -> NgramModel:
    predictable = [i for i in range(VOCABULARY) if i != PADDING]
    reference, model = ReferenceKneserNey(text_lists, order, predictable), counted_model(text_lists, order)
    seen = {("<s>", *text)[-n:] for text in text_lists for n in range(1, order)} | {(), (8,), (3, 8), (8, 3)}
    seen |= {
        (("<s>", *text)[start : start + n])
        for text in text_lists[:9]
        for n in range(1, order)
        for start in range(len(text))
    }
    for context in sorted((context for context in seen if len(context) < order), key=str)[:40]:
        computed = next_probs(model, [END if word == "<s>" else word for word in context])
        expected = [reference.probability(word, context) if word in predictable else 0 for word in range(VOCABULARY)]
        assert np.abs(computed - expected).max() < 1e-7  # logarithms are float32
    return model


@given(text_lists, st.integers(1, 4))
@example([[], [], [3]], 3)
def test_kneser_ney_equals_the_reference(given_texts: list[list[int]], order: int):
    assert_equals_reference(given_texts, order)


@pytest.mark.parametrize(
    ("seed", "size", "estimates"),
    [(6, 60, "half modified modified modified absolute"), (4, 100, "half modified modified modified modified")],
)
def test_kneser_ney_equals_the_reference_on_longer_text(seed: int, size: int, estimates: str):
    model = assert_equals_reference(skewed_texts(seed, size), 5)
    assert [discounts["way"] for discounts in model.describe()["discounts"]] == estimates.split()


def test_discounts_by_hand():
    values = np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 7])
    assert Discounts.estimate(values) == Discounts("modified", (0.5, 2 - 1.5 * 3 / 5, 3 - 2 * 2 / 3), (10, 5, 3, 2))
    assert Discounts.estimate(np.repeat([1, 2, 3], [2, 1, 9])).taken == (0.5, 0.5, 0.5)  # D2 would be far below 0
    assert Discounts.estimate(np.repeat([1, 2], [8, 1])) == Discounts("absolute", (0.8, 0.8, 0.8), (8, 1, 0, 0))
    assert Discounts.estimate(np.array([1, 1, 7])).way == Discounts.estimate(np.array([2, 3])).way == "half"


def test_discounts_estimated_from_few_counts_are_noted():
    model, _ = lineage_model("kneser-ney", order=3)
    (note,) = model.notes
    assert re.search(r"length 1 \(0\.\d+\), 2 \(0\.\d+\), 3 \(0\.\d+\);", note)
    assert model.describe()["notes"] == model.notes
    assert "impossible" in lineage_model("none")[0].notes[0]
    assert lineage_model("add")[0].notes == []


# -- probabilities sum to one


@given(
    text_lists, st.integers(1, 10), st.sampled_from(["none", "add", "witten-bell", "stupid", "kneser-ney"]), contexts
)
def test_ngram_probabilities_sum_to_one(given_texts: list[list[int]], order: int, smoothing: str, context: list[int]):
    probs = next_probs(counted_model(given_texts, order, smoothing, k=0.3), context)
    assert probs.sum() == pytest.approx(1, abs=1e-6)
    assert probs[PADDING] == 0
    if smoothing != "none":
        assert np.delete(probs, PADDING).min() > 0  # unseen words are never impossible


@pytest.mark.parametrize("smoothing", ["none", "add", "witten-bell", "stupid", "kneser-ney"])
def test_ngram_probabilities_sum_to_one_with_three_discounts(smoothing: str):
    model = counted_model(skewed_texts(3, 200), 4, smoothing)
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert next_probs(model, rng.integers(0, VOCABULARY, 4).tolist()).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"order": 0}, "order 0"),
        ({"smoothing": "laplace"}, "'laplace'"),
        ({"smoothing": "add", "k": 0.0}, "k is 0"),
        ({"smoothing": "add", "k": float("nan")}, "k is nan"),
        ({"excluded_ids": [END]}, "end of a text"),
    ],
)
def test_invalid_ngram_model_settings_are_refused(fields: dict, message: str):
    with pytest.raises(InputError, match=message):
        NgramModel(**{"order": 2, "vocab_size": VOCABULARY, "eos_id": END, **fields})
