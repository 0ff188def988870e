"""The evidence of an n-gram probability: its steps add up, and its counts equal those of a loop over the text."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_ngram_models import (
    END,
    PADDING,
    UNKNOWN,
    VOCABULARY,
    contexts,
    count,
    counted_model,
    lineage_model,
    next_probs,
    skewed_texts,
    text_lists,
)
from test_ngram_hash_table import SMOOTHINGS, build_large_model

from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.explain_probability import BackoffStep, NgramEvidence, ngram_evidence
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel

ALL_IDS = np.arange(VOCABULARY)


def checked_evidence(model: NgramModel, row: Sequence[int]) -> list[NgramEvidence]:
    """The evidence for every token after a row; checks that it adds up to the model's probabilities."""
    probs, evidence = next_probs(model, row), ngram_evidence(model, np.array(row, np.int64), ALL_IDS.tolist())
    assert [token_evidence.probability for token_evidence in evidence] == pytest.approx(probs, abs=1e-6, rel=1e-5)
    for token_evidence in evidence:
        weight = 1.0
        for step in token_evidence.steps:
            assert step.weight == pytest.approx(weight)
            weight *= step.left
            assert len(step.context) >= len(token_evidence.steps[-1].context)
    return evidence


@given(text_lists, st.integers(1, 5), st.sampled_from(SMOOTHINGS), contexts)
@settings(deadline=None)
def test_evidence_adds_up_and_its_counts_are_those_of_the_text(
    given_texts: list[list[int]], order: int, options: dict[str, str], row: list[int]
):
    model = counted_model(given_texts, order, **options)
    rows = [[END, *text, END] for text in given_texts]
    for token, evidence in enumerate(checked_evidence(model, [END, *row])):
        for step in evidence.steps:
            context = list(step.context)
            followers = [
                row_of_text[position]
                for row_of_text in rows
                for position in range(max(1, len(context)), len(row_of_text))
                if row_of_text[position - len(context) : position] == context
            ]
            assert (step.seen, step.followers) == (len(followers), len(set(followers)))
            assert step.times == followers.count(token)
            assert step.is_listed <= step.is_known
            assert step.is_listed <= (step.times > 0)
        json.dumps(evidence.to_dict(), allow_nan=False)
        assert evidence.to_dict()["probability"] == pytest.approx(
            sum(step["part"] for step in evidence.to_dict()["steps"]) + evidence.to_dict()["even"]
        )


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", SMOOTHINGS, ids=str)
@pytest.mark.parametrize("order", [2, 4])
def test_evidence_of_a_large_model_equals_that_of_a_small_one(options: dict[str, str], order: int):
    model, large_model = (
        counted_model(skewed_texts(3, 80), order, **options),
        build_large_model(skewed_texts(3, 80), order, **options),
    )
    opened_model = NgramModel(order=order, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], **options)
    store = large_model.probabilities()
    assert isinstance(store, NgramStore)
    opened_model.use_store(store, large_model.arrays)
    for row in ([END], [END, 3], [END, 4, 3, 3], [3, 8, 4], [4, UNKNOWN]):
        assert checked_evidence(model, row) == checked_evidence(large_model, row) == checked_evidence(opened_model, row)


def step_masses(evidence: NgramEvidence) -> list[float]:
    return [step.mass for step in evidence.steps]


def evidence_of(smoothing: str, text: str, token: str, order: int = 2, **options: float) -> NgramEvidence:
    model, ids = lineage_model(smoothing, order, **options)
    words = {number: word for word, number in ids.items()}
    (evidence,) = ngram_evidence(
        model, np.array([END, *(ids[word] for word in text.split())]), [ids[token]], words.__getitem__
    )
    return evidence


def test_maximum_likelihood_evidence_by_hand():
    evidence = evidence_of("none", "单词 的", "词性")
    (step,) = evidence.steps
    assert (step.words, step.times, step.seen, step.followers) == (("的",), 2, 3, 2)
    assert evidence.probability == pytest.approx(2 / 3)
    assert evidence.ngram_length == 2
    unseen = evidence_of("none", "单词 的", "动词")
    assert (unseen.probability, unseen.steps[0].times, unseen.ngram_length) == (0, 0, 1)


def test_add_one_evidence_by_hand():
    evidence = evidence_of("add", "的", "词性", k=1.0)
    vocab_size = 14  # twelve words, the end and the unknown token
    assert step_masses(evidence) == pytest.approx([2 / (3 + vocab_size)])
    assert (evidence.remainder, evidence.uniform_share) == pytest.approx(
        (vocab_size / (3 + vocab_size), 1 / (3 + vocab_size))
    )
    assert evidence.probability == pytest.approx(3 / 17)


def test_witten_bell_evidence_by_hand():
    evidence = evidence_of("witten-bell", "的", "词性")
    # 词性 occurs 3 times among 21 tokens of 13 types, the four ends included
    assert step_masses(evidence) == pytest.approx([2 / 5, 2 / 5 * 3 / 34])
    assert evidence.uniform_share == pytest.approx(2 / 5 * 13 / 34 / 14)
    assert [step.left for step in evidence.steps] == pytest.approx([2 / 5, 13 / 34])


def test_stupid_backoff_evidence_by_hand():
    seen, unseen = evidence_of("stupid", "的", "词性"), evidence_of("stupid", "的", "动词")
    assert len(seen.steps) == 1
    first, second = unseen.steps
    # 1 for 的, 0.4 of all unigrams (1, and 0.4 / 14 for the unknown) except the two seen after 的
    unigram_sum = 1 + 0.4 / 14
    total = 1 + 0.4 * (unigram_sum - 3 / 21 - 1 / 21)
    assert seen.probability == pytest.approx(2 / 3 / total)
    assert (first.times, first.share, first.left) == (0, 0, pytest.approx(0.4 * unigram_sum / total))
    assert second.mass == pytest.approx(0.4 / 21 / total)


def test_kneser_ney_evidence_uses_continuation_counts_below_the_highest_order():
    evidence = evidence_of("kneser-ney", "单词 的", "词性", order=3)
    longest, shorter, unigram = evidence.steps
    assert (longest.times, longest.seen, longest.counted, longest.of) == (1, 1, 1, 1)
    # two tokens before 的 词性, and one before 的 磁铁
    assert (shorter.times, shorter.seen, shorter.counted, shorter.of) == (2, 3, 2, 3)
    # 词性 follows 的 and begins a text; there are nineteen different bigrams
    assert (unigram.times, unigram.counted, unigram.of) == (3, 2, 19)
    assert longest.share == pytest.approx(1 - longest.discount)
    assert shorter.share == pytest.approx((2 - shorter.discount) / 3)
    assert longest.left == pytest.approx(longest.discount)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell"])
def test_evidence_reports_pruned_ngrams_and_backs_off(smoothing: str):
    model = counted_model([[3, 4], [3, 4], [3, 5], [6, 3, 5]], 3, smoothing, prune="0 1")
    evidence = checked_evidence(model, [3])
    common, rare = evidence[4].steps[0], evidence[5].steps[0]
    assert (common.times, common.seen, common.is_listed) == (2, 4, True)
    assert (rare.times, rare.seen, rare.is_listed) == (2, 4, True)
    (pruned_step,) = (step for step in checked_evidence(model, [6])[3].steps if step.context == (6,))
    assert (pruned_step.times, pruned_step.seen, pruned_step.is_known, pruned_step.is_listed) == (1, 1, True, False)
    assert (pruned_step.pruned, pruned_step.share, pruned_step.left) == (1, 0, 1)
    pruned_context = checked_evidence(model, [6, 3])[5].steps[0]  # 6 3 is in the text and was pruned from the model
    assert (pruned_context.context, pruned_context.seen, pruned_context.times, pruned_context.is_known) == (
        (6, 3),
        1,
        1,
        False,
    )
    assert (pruned_context.share, pruned_context.left) == (0, 1)


def reloaded(model: NgramModel) -> NgramModel:
    loaded = NgramModel(order=model.order, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing="given")
    loaded.load_probabilities(*model.to_arpa())
    return loaded


@pytest.mark.parametrize("order", [1, 2, 4])
def test_evidence_of_loaded_probabilities_has_their_logarithms(order: int):
    model = reloaded(counted_model(skewed_texts(3, 80), order))
    backoff_table = model.probabilities()
    assert isinstance(backoff_table, BackoffTable)
    large_model = NgramModel(order=order, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing="given")
    large_model.use_store(NgramStore.build(backoff_table.ngrams, backoff_table.levels), backoff_table.arrays)
    for row in ([END], [END, 3], [4, 3, 3], [3, 8, 4]):
        evidence = checked_evidence(model, row)
        assert evidence == checked_evidence(large_model, row)
        for token_evidence in evidence:
            *longer, last = token_evidence.steps
            assert all(step.log is None and step.seen is None for step in longer)
            logs = [last.log, *(step.backoff for step in longer if step.backoff is not None)]
            expected = -math.inf if not token_evidence.probability else math.log(token_evidence.probability)
            assert math.fsum(filter(None, logs)) == pytest.approx(expected)
            json.dumps(token_evidence.to_dict(), allow_nan=False)


def test_large_loaded_model_is_exported_after_scoring():
    model = reloaded(counted_model(skewed_texts(3, 80), 3))
    backoff_table = model.probabilities()
    assert isinstance(backoff_table, BackoffTable)
    large_model = NgramModel(order=3, vocab_size=VOCABULARY, eos_id=END, excluded_ids=[PADDING], smoothing="given")
    large_model.use_store(NgramStore.build(backoff_table.ngrams, backoff_table.levels), backoff_table.arrays)
    assert np.array_equal(large_model.next_log_probs([np.array([END, 3])]), model.next_log_probs([np.array([END, 3])]))
    for large_arrays, small_arrays in zip(large_model.to_arpa(), model.to_arpa(), strict=True):
        assert all(np.array_equal(array, expected) for array, expected in zip(large_arrays, small_arrays, strict=True))


@given(
    text_lists, st.integers(1, 6), st.sampled_from(SMOOTHINGS), st.lists(contexts.filter(bool), min_size=1, max_size=4)
)
@settings(deadline=None)
def test_matched_ngram_lengths_equal_those_of_the_evidence(
    given_texts: list[list[int]], order: int, options: dict[str, str], rows: list[list[int]]
):
    """By numpy, by compiled kernels, and by the evidence of every single token."""
    model, large_model = counted_model(given_texts, order, **options), build_large_model(given_texts, order, **options)
    arrays = [np.array(row) for row in rows]
    scores, lengths = model.score_with_lengths(arrays)
    for computed, expected_arrays in (
        (model.score(arrays), scores),
        *zip(large_model.score_with_lengths(arrays), (scores, lengths), strict=True),
    ):
        assert all(
            np.array_equal(array, expected_array)
            for array, expected_array in zip(computed, expected_arrays, strict=True)
        )
    for row, row_lengths in zip(rows, lengths, strict=True):
        expected = [
            ngram_evidence(model, np.array(row[:position]), [row[position]])[0].ngram_length
            for position in range(1, len(row))
        ]
        assert row_lengths.tolist() == expected


def test_matched_ngram_lengths_equal_a_loop_over_the_text():
    given_texts, order = skewed_texts(5, 40), 4
    seen: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for text in given_texts:
        row = (END, *text, END)
        for n in range(2, order + 1):
            seen[n].update(row[position : position + n] for position in range(len(row) - n + 1))
    model, rows = counted_model(given_texts, order), [[END, *text, 8, 3, END] for text in skewed_texts(6, 20)]
    for row, row_lengths in zip(rows, model.score_with_lengths([np.array(row) for row in rows])[1], strict=True):
        for position, length in enumerate(row_lengths.tolist(), start=1):
            orders = range(2, min(order, position + 1) + 1)
            longest = max((n for n in orders if seen[n][tuple(row[position + 1 - n : position + 1])]), default=1)
            assert length == longest


def test_evidence_step_converts_to_a_dict():
    (evidence,) = ngram_evidence(counted_model([[3, 4]], 2), np.array([END, 3]), [4], lambda token: f"w{token}")
    assert isinstance(evidence.steps[0], BackoffStep)
    step_dict = evidence.steps[0].to_dict()
    assert (step_dict["context"], step_dict["context_ids"], step_dict["log10"]) == (["w3"], [3], None)


def test_evidence_includes_further_counts_at_once():
    model = counted_model([[3, 4]], 2)
    assert ngram_evidence(model, np.array([3]), [4])[0].steps[0].seen == 1
    count(model, [[3, 5]])
    assert ngram_evidence(model, np.array([3]), [4])[0].steps[0].seen == 2
