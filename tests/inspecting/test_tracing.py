"""From tokens back to words: whatever a task makes of texts, every word stands once and gets what its tokens say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebear.inspecting.tracing import trace
from forebear.objectives.batch import NOTHING
from forebear.objectives.layout import Layout
from forebear.tasks.answering import Answering
from forebear.tasks.choice import Choice
from forebear.tasks.classification import Classification
from forebear.tasks.examples import Asked, Choices, Labelled, Tagged
from forebear.tasks.pairs import Pairs
from forebear.tasks.tagging import Tagging
from forebear.text.tokenizer import Tokenizer
from forebear.text.training import train
from planted_runs import Runs, sentences


@pytest.fixture(scope="module")
def cutters() -> dict[str, Tokenizer]:
    lines = [text for text, _ in sentences(60)]
    sizes = {"words": None, "characters": None, "wordpiece": 150, "bytepair": 300}
    return {kind: train(kind, lines, size=size, min_count=1) for kind, size in sizes.items()}


LAYOUT = Layout((0,), (1,), (1,), "first", segments=True, both_orders=True, context=16)
TEXT = st.text(st.sampled_from("ab 喜欢电影。,'’-3\n\U0001f600é\x00"), min_size=1, max_size=40).filter(str.strip)


@pytest.mark.parametrize("kind", ["words", "characters", "wordpiece", "bytepair"])
@settings(max_examples=30)
@given(one=TEXT, other=TEXT)
def test_every_word_stands_once_and_rows_are_the_task_s_own(
    kind: str, one: str, other: str, cutters: dict[str, Tokenizer]
):
    tokenizer = cutters[kind]
    tagging = Tagging(tags=("O", "S-X", "B-X", "I-X", "E-X"))
    for task, example in [
        (Classification(labels=("a", "b")), Labelled((one,))),
        (Pairs(labels=("a", "b")), Labelled((one, other))),
        (Choice(), Choices(one, (other, one))),
        (Answering(), Asked(one, other)),
        (tagging, Tagged(tagging.words(one))),
    ]:
        rows = task.rows([example], tokenizer, LAYOUT)
        traced = trace(task, example, tokenizer, LAYOUT)
        np.testing.assert_array_equal(traced.rows.tokens, rows.tokens)
        np.testing.assert_array_equal(traced.rows.lengths, rows.lengths)
        covered = [np.zeros(len(text), int) for text in traced.texts]
        for place in traced.words:
            covered[place.of][place.start : place.end] += 1
        for text, counts in zip(traced.texts, covered, strict=True):
            assert counts.max() <= 1
            assert all(count == 1 for character, count in zip(text, counts, strict=True) if character.strip())
        assert set(rows.tokens[~traced.inside].tolist()) <= {0, 1, tokenizer.unknown}
        words, elsewhere = traced.added_up(np.ones(len(rows.tokens)))
        assert words.sum() + elsewhere == len(rows.tokens)
        assert (traced.owners[~traced.inside] == NOTHING).all()


def test_words_are_those_of_the_language_and_never_less_than_a_token(cutters: dict[str, Tokenizer]):
    def words(kind: str, text: str) -> list[str]:
        traced = trace(Classification(labels=("a", "b")), Labelled((text,)), cutters[kind], LAYOUT)
        return [text[place.start : place.end] for place in traced.words]

    assert words("wordpiece", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("bytepair", "I didn't, 我喜欢电影") == ["I", "didn't", ",", "我", "喜欢", "电影"]
    assert words("characters", "a film") == ["a", "film"]


def test_tokens_of_a_word_count_for_it(runs: Runs):
    """The row of each token is known from `encode`, so that the sums can be made by hand."""
    run = runs("bert")
    text = "dreadful 讨厌 dog"
    pieces = run.tokenizer.encode(text)
    task, layout = run.task, run.folder.milestone.layout(run.tokenizer)
    assert task is not None
    traced = trace(task, Labelled((text,)), run.tokenizer, layout)
    values = np.arange(len(traced.owners), dtype=float) ** 2
    words, elsewhere = traced.added_up(values)
    by_hand = [
        sum(values[1 + n] for n, (a, _) in enumerate(pieces.spans) if begin <= a < end)
        for begin, end in ((0, 8), (9, 11), (12, 15))
    ]
    np.testing.assert_allclose(words, by_hand)
    assert elsewhere == values[0] + values[-1]
