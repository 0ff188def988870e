"""The evidence behind a probability: its parts add up, and its counts are those that a loop over the text finds."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_table import WAYS, largely
from tiny_models import END, PADDING, UNKNOWN, VOCABULARY, contexts, count, four, made, many, probability, texts

from forebear.statistical.ngram.backoff import BackoffTable
from forebear.statistical.ngram.explain_probability import BackoffStep, NgramEvidence, ngram_evidence
from forebear.statistical.ngram.hash_table import NgramStore
from forebear.statistical.ngram.language_model import NgramModel

EVERY = np.arange(VOCABULARY)


def adds_up(model: NgramModel, row: Sequence[int]) -> list[NgramEvidence]:
    """The evidence for every token after a row, once it is known to add up to the probabilities that are told."""
    told, found = probability(model, row), ngram_evidence(model, np.array(row, np.int64), EVERY.tolist())
    assert [one.probability for one in found] == pytest.approx(told, abs=1e-6, rel=1e-5)
    for one in found:
        weight = 1.0
        for step in one.steps:
            assert step.weight == pytest.approx(weight)
            weight *= step.left
            assert len(step.context) >= len(one.steps[-1].context)
    return found


@given(texts, st.integers(1, 5), st.sampled_from(WAYS), contexts)
@settings(deadline=None)
def test_parts_add_up_to_the_probability_and_counts_are_those_of_the_text(
    given_texts: list[list[int]], order: int, way: dict[str, str], row: list[int]
):
    model = made(given_texts, order, **way)
    rows = [[END, *text, END] for text in given_texts]
    for token, found in enumerate(adds_up(model, [END, *row])):
        for step in found.steps:
            mine = list(step.context)
            follows = [
                line[place]
                for line in rows
                for place in range(max(1, len(mine)), len(line))
                if line[place - len(mine) : place] == mine
            ]
            assert (step.seen, step.followers) == (len(follows), len(set(follows)))
            assert step.times == follows.count(token)
            assert step.is_listed <= step.is_known
            assert step.is_listed <= (step.times > 0)
        json.dumps(found.to_dict(), allow_nan=False)
        assert found.to_dict()["probability"] == pytest.approx(
            sum(step["part"] for step in found.to_dict()["steps"]) + found.to_dict()["even"]
        )


@pytest.mark.sample(5)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("order", [2, 4])
def test_a_large_model_tells_the_same_evidence(way: dict[str, str], order: int):
    plain, table = made(many(3, 80), order, **way), largely(many(3, 80), order, **way)
    again = NgramModel(order=order, vocabulary=VOCABULARY, end=END, never=[PADDING], **way)
    opened = table.probabilities()
    assert isinstance(opened, NgramStore)
    again.use_store(opened, table.arrays)
    for row in ([END], [END, 3], [END, 4, 3, 3], [3, 8, 4], [4, UNKNOWN]):
        assert adds_up(plain, row) == adds_up(table, row) == adds_up(again, row)


def parts(found: NgramEvidence) -> list[float]:
    return [step.mass for step in found.steps]


def steps_of(smoothing: str, text: str, token: str, order: int = 2, **more: float) -> NgramEvidence:
    model, ids = four(smoothing, order, **more)
    names = {number: word for word, number in ids.items()}
    (found,) = ngram_evidence(
        model, np.array([END, *(ids[word] for word in text.split())]), [ids[token]], names.__getitem__
    )
    return found


def test_two_of_the_three_times_after_de():
    found = steps_of("none", "单词 的", "词性")
    (step,) = found.steps
    assert (step.words, step.times, step.seen, step.followers) == (("的",), 2, 3, 2)
    assert found.probability == pytest.approx(2 / 3)
    assert found.ngram_length == 2
    never = steps_of("none", "单词 的", "动词")
    assert (never.probability, never.steps[0].times, never.ngram_length) == (0, 0, 1)


def test_one_added_to_each():
    found = steps_of("add", "的", "词性", k=1.0)
    size = 14  # twelve words, the end, the unknown
    assert parts(found) == pytest.approx([2 / (3 + size)])
    assert (found.remainder, found.uniform_share) == pytest.approx((size / (3 + size), 1 / (3 + size)))
    assert found.probability == pytest.approx(3 / 17)


def test_as_many_new_ones_as_there_were_different_ones():
    found = steps_of("witten-bell", "的", "词性")
    # 词性 came 3 times among 21 tokens of 13 kinds, the four ends included
    assert parts(found) == pytest.approx([2 / 5, 2 / 5 * 3 / 34])
    assert found.uniform_share == pytest.approx(2 / 5 * 13 / 34 / 14)
    assert [step.left for step in found.steps] == pytest.approx([2 / 5, 13 / 34])


def test_stupid_backoff_hands_on_only_what_was_never_seen():
    seen, unseen = steps_of("stupid", "的", "词性"), steps_of("stupid", "的", "动词")
    assert len(seen.steps) == 1
    first, second = unseen.steps
    # 1 for 的, 0.4 of all single tokens (1, and 0.4 / 14 for the unknown) but of the two that were seen
    alone = 1 + 0.4 / 14
    total = 1 + 0.4 * (alone - 3 / 21 - 1 / 21)
    assert seen.probability == pytest.approx(2 / 3 / total)
    assert (first.times, first.share, first.left) == (0, 0, pytest.approx(0.4 * alone / total))
    assert second.mass == pytest.approx(0.4 / 21 / total)


def test_kneser_ney_counts_what_differs_below_the_longest():
    found = steps_of("kneser-ney", "单词 的", "词性", order=3)
    longest, shorter, alone = found.steps
    assert (longest.times, longest.seen, longest.counted, longest.of) == (1, 1, 1, 1)
    # two tokens before 的 词性, and one before 的 磁铁
    assert (shorter.times, shorter.seen, shorter.counted, shorter.of) == (2, 3, 2, 3)
    # 词性 stands behind 的 and at the beginning; in all there are nineteen different pairs
    assert (alone.times, alone.counted, alone.of) == (3, 2, 19)
    assert longest.share == pytest.approx(1 - longest.discount)
    assert shorter.share == pytest.approx((2 - shorter.discount) / 3)
    assert longest.left == pytest.approx(longest.discount)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell"])
def test_what_was_pruned_is_told_and_left_to_shorter_contexts(smoothing: str):
    model = made([[3, 4], [3, 4], [3, 5], [6, 3, 5]], 3, smoothing, prune="0 1")
    found = adds_up(model, [3])
    common, rare = found[4].steps[0], found[5].steps[0]
    assert (common.times, common.seen, common.is_listed) == (2, 4, True)
    assert (rare.times, rare.seen, rare.is_listed) == (2, 4, True)
    (gone,) = (one for one in adds_up(model, [6])[3].steps if one.context == (6,))
    assert (gone.times, gone.seen, gone.is_known, gone.is_listed) == (1, 1, True, False)
    assert (gone.pruned, gone.share, gone.left) == (1, 0, 1)
    lost = adds_up(model, [6, 3])[5].steps[0]  # 6 3 stands in the text, and no more in the model
    assert (lost.context, lost.seen, lost.times, lost.is_known) == ((6, 3), 1, 1, False)
    assert (lost.share, lost.left) == (0, 1)


def given_to(model: NgramModel) -> NgramModel:
    told = NgramModel(order=model.order, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing="given")
    told.load_probabilities(*model.to_arpa())
    return told


@pytest.mark.parametrize("order", [1, 2, 4])
def test_what_was_given_tells_the_logarithms_that_were_used(order: int):
    model = given_to(made(many(3, 80), order))
    settled = model.probabilities()
    assert isinstance(settled, BackoffTable)
    table = NgramModel(order=order, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing="given")
    table.use_store(NgramStore.build(settled.ngrams, settled.levels), settled.arrays)
    for row in ([END], [END, 3], [4, 3, 3], [3, 8, 4]):
        found = adds_up(model, row)
        assert found == adds_up(table, row)
        for one in found:
            *longer, last = one.steps
            assert all(step.log is None and step.seen is None for step in longer)
            used = [last.log, *(step.backoff for step in longer if step.backoff is not None)]
            expected = -math.inf if not one.probability else math.log(one.probability)
            assert math.fsum(filter(None, used)) == pytest.approx(expected)
            json.dumps(one.to_dict(), allow_nan=False)


def test_a_large_given_model_is_written_after_it_was_asked():
    model = given_to(made(many(3, 80), 3))
    settled = model.probabilities()
    assert isinstance(settled, BackoffTable)
    table = NgramModel(order=3, vocabulary=VOCABULARY, end=END, never=[PADDING], smoothing="given")
    table.use_store(NgramStore.build(settled.ngrams, settled.levels), settled.arrays)
    assert np.array_equal(table.next_log_probs([np.array([END, 3])]), model.next_log_probs([np.array([END, 3])]))
    for mine, other in zip(table.to_arpa(), model.to_arpa(), strict=True):
        assert all(np.array_equal(one, twin) for one, twin in zip(mine, other, strict=True))


@given(texts, st.integers(1, 6), st.sampled_from(WAYS), st.lists(contexts.filter(bool), min_size=1, max_size=4))
@settings(deadline=None)
def test_lengths_of_the_ngrams_that_were_used(
    given_texts: list[list[int]], order: int, way: dict[str, str], rows: list[list[int]]
):
    """By numpy, by compiled loops, and by the evidence of every single token."""
    model, table = made(given_texts, order, **way), largely(given_texts, order, **way)
    asked = [np.array(row) for row in rows]
    scores, lengths = model.score_with_lengths(asked)
    for one, twin in (
        (model.score(asked), scores),
        *zip(table.score_with_lengths(asked), (scores, lengths), strict=True),
    ):
        assert all(np.array_equal(mine, other) for mine, other in zip(one, twin, strict=True))
    for row, told in zip(rows, lengths, strict=True):
        expected = [
            ngram_evidence(model, np.array(row[:place]), [row[place]])[0].ngram_length for place in range(1, len(row))
        ]
        assert told.tolist() == expected


def test_the_longest_ngram_is_found_by_a_loop_over_the_text():
    given_texts, order = many(5, 40), 4
    seen: dict[int, Counter[tuple[int, ...]]] = defaultdict(Counter)
    for text in given_texts:
        row = (END, *text, END)
        for n in range(2, order + 1):
            seen[n].update(row[place : place + n] for place in range(len(row) - n + 1))
    model, rows = made(given_texts, order), [[END, *text, 8, 3, END] for text in many(6, 20)]
    for row, told in zip(rows, model.score_with_lengths([np.array(row) for row in rows])[1], strict=True):
        for place, length in enumerate(told.tolist(), start=1):
            reached = range(2, min(order, place + 1) + 1)
            longest = max((n for n in reached if seen[n][tuple(row[place + 1 - n : place + 1])]), default=1)
            assert length == longest


def test_a_step_is_told_as_json():
    (found,) = ngram_evidence(made([[3, 4]], 2), np.array([END, 3]), [4], lambda token: f"w{token}")
    assert isinstance(found.steps[0], BackoffStep)
    facts = found.steps[0].to_dict()
    assert (facts["context"], facts["context_ids"], facts["log10"]) == (["w3"], [3], None)


def test_more_counts_are_heard_at_once():
    model = made([[3, 4]], 2)
    assert ngram_evidence(model, np.array([3]), [4])[0].steps[0].seen == 1
    count(model, [[3, 5]])
    assert ngram_evidence(model, np.array([3]), [4])[0].steps[0].seen == 2
